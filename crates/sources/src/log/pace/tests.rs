//! How often the end of a log is looked at.

use std::time::Duration;

use super::{PAUSE_MAX, PAUSE_MIN, Pace};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Looks from `at` on that find nothing, each of which takes `look` and ends before `until`; how many, and when the next one ends.
fn looks(pace: &mut Pace, mut at: Duration, until: Duration, look: Duration) -> (u32, Duration) {
    let mut looks = 0;
    while at < until {
        looks += 1;
        at += pace.pause(at) + look;
    }
    (looks, at)
}

#[test]
fn an_owner_that_commits_evenly_is_asked_once_to_three_times_a_commit_and_heard_soon() {
    let (mut pace, mut at) = (Pace::new(), ms(0));
    for commit in 1..20_u64 {
        pace.came(at);
        let (asked, seen) = looks(&mut pace, at + ms(30), ms(500 * commit), ms(30));
        // Until then the pace of the first commits is found.
        if commit > 5 {
            assert!((1..=3).contains(&asked), "{asked} looks for commit {commit}");
            assert!(seen < ms(500 * commit) + ms(200), "commit {commit} is seen at {seen:?}");
        }
        at = seen;
    }
}

#[test]
fn a_quiet_log_is_asked_ever_more_rarely_and_blocks_of_one_commit_are_no_pace() {
    let mut pace = Pace::new();
    // Of a log that has nothing.
    let pauses: Vec<Duration> = (0..9).map(|n| pace.pause(ms(n))).collect();
    let doubled = [20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000].map(ms);
    assert_eq!((pauses[..].to_vec(), pauses[0]), (doubled.to_vec(), PAUSE_MIN));
    // Blocks of one commit come at once.
    (0..3).for_each(|n| pace.came(ms(10_000 + n)));
    assert_eq!(pace.pause(ms(10_010)), PAUSE_MIN);
    // The next one comes 400 ms later, and then none for long.
    pace.came(ms(10_400));
    assert_eq!([pace.pause(ms(10_430)), pace.pause(ms(11_200))], [ms(270), ms(100)]);
    assert_eq!(
        [11_201, 11_500, 12_000, 12_500, 13_500].map(|at| pace.pause(ms(at))),
        [100, 200, 400, 800, 1_000].map(ms)
    );
    // One that comes after seconds says nothing of the next.
    pace.came(ms(20_000));
    assert_eq!([20_030, 20_050].map(|at| pace.pause(ms(at))), [20, 40].map(ms));
    assert!(pace.pause <= PAUSE_MAX);
}
