use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn pairs(kept: &Kept) -> BTreeSet<(u128, i64)> {
    kept.iter().filter_map(|slot| kept.pair(&slot)).collect()
}

#[test]
fn a_key_at_many_times_does_not_pile_up() {
    let mut kept = Kept::new();
    let times = 200_000;
    for n in 0..times {
        assert!(matches!(kept.offer(42, n * (SPAN as i64 + 1), false), Offer::Added(_)));
    }
    assert_eq!(kept.len(), times as u64);
    let most = (0..times * (SPAN as i64 + 1) / BLOCK)
        .map(|block| {
            let (mixed, mut slots) = (mix(42, block), 0);
            kept.segments[kept.segment(mixed)].for_hash(mixed, |_| slots += 1);
            slots
        })
        .max();
    assert_eq!(most, Some(BLOCK / (SPAN as i64 + 1) + 1));
}

#[test]
fn mixing_is_its_own_reverse_and_block_0_leaves_a_hash_alone() {
    for block in [0, 1, -1, 77, i64::MIN, i64::MAX] {
        assert_eq!(mix(mix(12345, block), block), 12345);
    }
    assert_eq!(mix(12345, 0), 12345);
}

#[test]
fn without_a_window_a_key_has_one_spot() {
    let (first, last) = blocks_near(0);
    assert_eq!((first, last, block(0)), (0, 0, 0));
    let blocks: Vec<i64> =
        (-2 * BLOCK..2 * BLOCK).filter(|b| blocks_near(*b).0 != blocks_near(*b).1).collect();
    assert_eq!(blocks.len(), 4 * 2 * SPAN as usize, "one bucket in 32 has two");
}

#[test]
fn what_is_expired_is_swept_bit_by_bit_and_memory_shrinks() {
    let mut kept = Kept::new();
    // An odd multiplier spreads the numbers over all segments.
    let hash = |n: u64| u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64;
    for n in 0..200_000 {
        kept.add(hash(n), (n % 40) as i64);
    }
    let full = kept.memory_bytes();
    assert!(full < 200_000 * 21, "{full}");
    kept.expire(Some(30));
    assert_eq!(kept.len(), 50_000);
    let dead = kept.iter().count() - 50_000;
    assert!((120_000..140_000).contains(&dead), "an eighth of 150000 is swept, {dead} are left");
    for _ in 0..8 {
        kept.expire(Some(30));
    }
    assert!(kept.iter().count() <= 50_000 * 8 / 7 + 1, "at most an eighth is dead");
    assert!(kept.memory_bytes() < full / 2);
    for n in 0..200_000 {
        assert_eq!(kept.contains(hash(n), (n % 40) as i64), n % 40 >= 30);
    }
}

#[test]
fn more_buckets_than_places_make_more_segments_and_lose_nothing() {
    let mut kept = Kept::new();
    let hash = |n: u64| u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64;
    let pair = |n: u64| (hash(n), (n % 3000) as i64 * 40);
    for n in 0..20_000 {
        assert!(matches!(kept.offer(pair(n).0, pair(n).1, false), Offer::Added(_)));
    }
    assert_eq!((kept.len(), kept.segments.len()), (20_000, 8192));
    assert_eq!(pairs(&kept), (0..20_000).map(pair).collect());
    for n in 0..20_000 {
        assert_eq!(kept.offer(pair(n).0, pair(n).1 + 3, false), Offer::Near);
    }
    // Places of buckets that are over are used again before slots give more bits to them.
    for round in 1..20 {
        let floor = round * 3000 * 40;
        kept.expire(Some(floor));
        for n in 0..3000 {
            kept.offer(hash(n), floor + n as i64 * 40, false);
        }
    }
    assert_eq!(kept.segments.len(), 8192);
}

#[test]
fn what_is_copied_for_a_file_is_told_from_what_is_not_though_segments_split() {
    let mut kept = Kept::new();
    let hash = |n: u64| u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64;
    for n in 0..10_000 {
        kept.add(hash(n), 0);
    }
    assert_eq!(kept.close(5000), 10_000);
    let mut copied = Vec::new();
    assert!(!kept.gather(3000, &mut copied));
    for n in 0..1000 {
        kept.add(hash(n), 2000 + n as i64);
    }
    assert!(kept.segments.len() > 512);
    let is_copied: BTreeSet<u128> = copied.iter().map(Pair::hash).collect();
    for n in (0..10_000).step_by(7) {
        let wanted = if is_copied.contains(&hash(n)) { Removed::Copied } else { Removed::Yes };
        assert_eq!(kept.remove(hash(n), 0), wanted);
    }
    let before = copied.len();
    assert!(kept.gather(usize::MAX, &mut copied));
    let rest = copied[before..].iter().filter(|pair| is_copied.contains(&pair.hash())).count();
    assert_eq!(rest, 0, "none is copied twice");
    let left = (0..10_000).step_by(7).filter(|n| is_copied.contains(&hash(*n))).count();
    assert_eq!(
        copied.len(),
        10_000 - (10_000_usize.div_ceil(7) - left),
        "what was removed before is not copied"
    );
}

#[derive(Clone, Debug)]
enum Act {
    /// With a mark or not.
    Offer(u128, i64, bool),
    Unmark,
    Add(u128, i64),
    Remove(u128, i64),
    Expire(i64),
    Move(i64, i64),
}

/// Few hashes, crowded at both ends of a segment and of the table, so that runs touch and overflow.
fn hash() -> impl Strategy<Value = u128> {
    let ends = prop_oneof![Just(0), Just(u128::MAX), Just(1 << 120), Just((1 << 120) - 1)];
    (ends, 0..60_u128).prop_map(|(end, n)| end.wrapping_add(n))
}

fn act() -> impl Strategy<Value = Act> {
    let bucket = || 1000..1060_i64;
    prop_oneof![
        8 => (hash(), bucket(), any::<bool>()).prop_map(|(h, b, mark)| Act::Offer(h, b, mark)),
        1 => Just(Act::Unmark),
        8 => (hash(), bucket()).prop_map(|(h, b)| Act::Add(h, b)),
        4 => (hash(), bucket()).prop_map(|(h, b)| Act::Remove(h, b)),
        1 => bucket().prop_map(Act::Expire),
        1 => (bucket(), bucket()).prop_map(|(a, b)| Act::Move(a, b)),
    ]
}

proptest! {
    #[test]
    fn it_is_a_set_of_pairs(acts in prop::collection::vec(act(), 1..600)) {
        let (mut kept, mut model, mut marked) = (Kept::new(), BTreeSet::new(), BTreeSet::new());
        for act in acts {
            match act {
                Act::Offer(hash, bucket, mark) => {
                    let is_near = model.iter().any(|(h, b)| *h == hash && near(*b, bucket));
                    prop_assert_eq!(kept.has_near(hash, bucket), is_near);
                    prop_assert_eq!(kept.offer(hash, bucket, mark) == Offer::Near, is_near);
                    if !is_near {
                        model.insert((hash, bucket));
                        if mark {
                            marked.insert((hash, bucket));
                        }
                    }
                }
                Act::Add(hash, bucket) => {
                    prop_assert_eq!(kept.add(hash, bucket) != Offer::Near, model.insert((hash, bucket)));
                }
                Act::Remove(hash, bucket) => {
                    let was_marked = marked.remove(&(hash, bucket));
                    let removed = kept.remove(hash, bucket);
                    prop_assert_eq!(matches!(removed, Removed::Marked(_)), was_marked);
                    prop_assert_eq!(removed != Removed::No, model.remove(&(hash, bucket)));
                }
                Act::Unmark => {
                    let mut found = Vec::new();
                    kept.unmark(|place, hash| found.push((hash, place)));
                    found.sort_unstable();
                    let found: Vec<_> =
                        found.into_iter().filter_map(|(hash, place)| Some((hash, kept.bucket(place)?))).collect();
                    prop_assert_eq!(found.len(), marked.len());
                    prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), std::mem::take(&mut marked));
                }
                Act::Expire(floor) => {
                    kept.expire(Some(floor));
                    model.retain(|(_, bucket)| *bucket >= floor);
                    marked.retain(|(_, bucket)| *bucket >= floor);
                }
                Act::Move(from, to) => {
                    // As the step does: after a delta.
                    kept.unmark(|_, _| {});
                    marked.clear();
                    kept.move_bucket(from, to);
                    model = model.into_iter().map(|(h, b)| (h, if b == from { to } else { b })).collect();
                }
            }
            prop_assert_eq!(kept.len(), model.len() as u64);
        }
        prop_assert_eq!(pairs(&kept), model);
    }
}
