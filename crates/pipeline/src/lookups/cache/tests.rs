use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use testkit::{Lcg, seed};

use super::{Cache, KEY_BYTES, Line};
use crate::lookups::age::Moment;

fn line(length: usize) -> Line {
    Some(Arc::from(vec![b'x'; length]))
}

fn at(seconds: u64) -> Moment {
    Moment { elapsed: Duration::from_secs(seconds), wall_ms: seconds as i64 * 1_000 }
}

/// What is known of a key of the last so many seconds, at second 12.
fn of_last(cache: &mut Cache, seconds: u64, key: u128) -> Option<Line> {
    cache.get(key, at(12), Duration::from_secs(seconds))
}

#[test]
fn an_answer_that_is_too_old_is_none_and_an_older_one_replaces_nothing() {
    let mut cache = Cache::new(1 << 20);
    cache.put(1, line(1), at(10));
    cache.put(2, None, at(10));
    assert_eq!((of_last(&mut cache, 2, 1), of_last(&mut cache, 2, 2)), (Some(line(1)), Some(None)));
    assert_eq!((of_last(&mut cache, 1, 1), of_last(&mut cache, 12, 3)), (None, None));
    cache.put(1, line(2), at(9));
    assert_eq!(of_last(&mut cache, 12, 1), Some(line(1)));
    let suspended = Moment { wall_ms: 3_600_000, ..at(12) };
    assert_eq!(cache.get(1, suspended, Duration::from_secs(60)), None);
    assert_eq!(cache.get(1, suspended, Duration::MAX), Some(line(1)));
    cache.put(1, None, at(12));
    let known = of_last(&mut cache, 1, 1);
    assert_eq!((known, cache.len(), cache.bytes()), (Some(None), 2, 2 * KEY_BYTES));
}

#[test]
fn a_line_that_is_larger_than_all_is_not_kept() {
    let mut cache = Cache::new(1_000);
    cache.put(1, line(10), at(0));
    cache.put(2, line(2_000), at(0));
    assert_eq!((cache.len(), cache.bytes(), of_last(&mut cache, 12, 2)), (0, 0, None));
}

/// Against a list of what was used when.
#[test]
fn what_was_used_longest_ago_goes_first_and_the_bytes_are_those_of_what_is_left() {
    let mut random = Lcg::new(seed());
    let bytes_max = 20 * KEY_BYTES + 500;
    let mut cache = Cache::new(bytes_max);
    let mut list: VecDeque<(u128, Line)> = VecDeque::new();
    let bytes = |list: &VecDeque<(u128, Line)>| -> u64 {
        list.iter().map(|(_, line)| KEY_BYTES + line.as_ref().map_or(0, |line| line.len() as u64)).sum()
    };
    for step in 0..20_000 {
        // Keys whose low halves are equal too.
        let key = u128::from(random.below(20)) | u128::from(random.below(3)) << 64;
        let known = list.iter().position(|(known, _)| *known == key);
        if random.below(2) == 0 {
            let moved = known.and_then(|known| list.remove(known));
            assert_eq!(
                cache.get(key, at(step), Duration::MAX),
                moved.as_ref().map(|(_, line)| line.clone()),
                "step {step}"
            );
            list.extend(moved);
        } else {
            let new = if random.below(3) == 0 { None } else { line(random.below(60) as usize) };
            known.map(|known| list.remove(known));
            list.push_back((key, new.clone()));
            while bytes(&list) > bytes_max {
                list.pop_front();
            }
            cache.put(key, new, at(step));
        }
        assert_eq!((cache.len(), cache.bytes()), (list.len(), bytes(&list)), "step {step}");
    }
    assert!(cache.slots.len() as u64 <= bytes_max / KEY_BYTES + 1, "slots are used again");
}
