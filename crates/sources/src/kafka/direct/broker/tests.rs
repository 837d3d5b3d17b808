use dataflow::ReadFrom;

use super::*;

#[test]
fn a_fetch_goes_on_behind_an_answer_only_if_that_will_be_read() {
    let from =
        ReadFrom { partition: Partition::new("t", 0), identity: String::new(), next: 5, leader_epoch: 3 };
    let mut lead = Lead::new(Slot::new(from, 1 << 20), [7; 16]);
    // It was handed back and taken again while its answer was on its way.
    assert_eq!(lead.goes_on(Some((9, 4))), (5, 3), "nothing was asked for");
    lead.answered = Some(9);
    assert_eq!(lead.goes_on(Some((12, 4))), (5, 3), "it was asked for from elsewhere");
    lead.answered = Some(5);
    assert_eq!(lead.goes_on(Some((9, 4))), (9, 4));
    assert_eq!(lead.goes_on(Some((4, 4))), (5, 3));
    assert_eq!(lead.goes_on(Some((-1, 4))), (5, 3));
    assert_eq!(lead.goes_on(None), (5, 3));
}

#[test]
fn what_a_broker_cannot_read_is_asked_for_again_before_it_ends_the_reading() {
    let from =
        ReadFrom { partition: Partition::new("t", 0), identity: String::new(), next: 5, leader_epoch: 3 };
    let mut slot = Slot::new(from, 1 << 20);
    // A corrupt message, by the broker's own word.
    let mut answer = || tried_again(&mut slot, errors::of(2, false).expect("an error"));
    for _ in 0..3 {
        assert!(matches!(answer(), Trouble::Moved(why) if why.contains("asked for again")));
    }
    assert!(matches!(answer(), Trouble::Unreadable(..)));
    let denied = errors::of(29, false).expect("an error");
    assert_eq!(tried_again(&mut slot, denied.clone()), denied);
}
