use protocol::lane::Removed;
use protocol::record::Forgotten;

use super::*;

#[test]
fn letters_that_were_chosen_before_a_reset_or_a_forget_are_not_put_behind_it() {
    let chosen_at = Lane::new();
    assert_eq!(moved(&chosen_at, &Lane { next_seq: 7, ..Lane::new() }), None);
    let reset = Lane { before: Before { until_ms: 70, ..Before::default() }, ..Lane::new() };
    let why = moved(&chosen_at, &reset).expect("it reads all again");
    assert!(why.contains("was reset or deleted") && why.contains("no more of them are replayed"), "{why}");
    let gone = Forgotten { partition: 0, from_start: true, at_ms: 70 };
    let forgotten = Lane { forgotten: [(0, gone)].into(), ..Lane::new() };
    let why = moved(&chosen_at, &forgotten).expect("it may read them again");
    assert!(why.contains("in the replay log by now are replayed, the others are not"), "{why}");
}

#[test]
fn a_pipeline_that_was_reset_while_its_records_waited_is_another_one() {
    let before = Before { until_ms: 70, replays_from: 5, letters_from_ms: 0 };
    let now = |before, removed| Lane { before, removed, ..Lane::new() };
    assert!(!is_another(before, &now(before, None)), "it was reset before");
    // The reset is under way or done; and then a process has claimed the lane.
    assert!(is_another(before, &now(before, Some(Removed { is_done: false }))));
    assert!(is_another(before, &now(Before { until_ms: 90, ..before }, None)));
}

#[tokio::test]
async fn a_wait_behind_a_drain_ends_with_the_next_signal() {
    let mut signals = Signals::listen().expect("the system lets us");
    assert_eq!(unless_asked(Some(&mut signals), async { 7 }).await, Some(7));
    assert_eq!(unless_asked(None, async { 8 }).await, Some(8), "nothing was taken over");
    let own = std::process::id().to_string();
    let sent = std::process::Command::new("kill").args(["-TERM", own.as_str()]).status();
    assert!(sent.expect("`kill` is everywhere").success());
    assert_eq!(unless_asked(Some(&mut signals), std::future::pending::<()>()).await, None);
}
