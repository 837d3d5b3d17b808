use protocol::record::{Before, Forgotten};

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
