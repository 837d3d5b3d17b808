//! What may be deleted, and when.
//!
//! Owns the choice (C7): only what is settled and checkpointed goes, and only below a floor that was made durable first.
//! Does not own the deleting.
//!
//! The floor is the newest checkpoint: every record below it is folded into it. Objects of segments and snapshots go when
//! the lane does not point to them and nobody can make it do so any more: those of earlier epochs, because a later claim
//! holds the only slot that their owner could still have won; those of this epoch up to the newest seal, because this
//! owner seals in order.

use std::collections::BTreeSet;

use crate::lane::Lane;

/// The lowest record that still counts, once the checkpoint is durable.
pub fn floor(lane: &Lane) -> Option<u64> {
    lane.newest_checkpoint
}

/// Every segment and snapshot that the lane still needs.
pub fn needed(lane: &Lane) -> BTreeSet<&str> {
    let pieces = lane.tables.iter().flat_map(|t| t.pending.iter().flatten());
    // A dead piece's bytes are kept until its frame is settled, for a person who wants to look.
    let segments = pieces.map(|p| p.segment.as_str()).chain(lane.deltas.iter().map(|d| d.segment.as_str()));
    segments.chain(lane.snapshots.iter().map(|s| s.object.as_str())).collect()
}

/// Which of the listed objects may go. `epoch` is this owner's; `newest` is the name of its newest sealed object of that
/// kind (names of one epoch sort in the order they are sealed), `None` if it has sealed none.
pub fn deletable<'a>(lane: &Lane, listed: &'a [String], epoch: u64, newest: Option<&str>) -> Vec<&'a str> {
    let needed = needed(lane);
    let is_settled_for = |object: &str| match epoch_of(object) {
        None => false,
        Some(e) if e < epoch => true,
        Some(e) => e == epoch && newest.is_some_and(|newest| object <= newest),
    };
    listed.iter().map(String::as_str).filter(|o| !needed.contains(o) && is_settled_for(o)).collect()
}

/// The epoch in a segment's or snapshot's name.
fn epoch_of(object: &str) -> Option<u64> {
    object.rsplit('/').next()?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;
    use crate::record::StateObject;

    #[test]
    fn only_what_nobody_needs_or_can_still_seal_goes() {
        let mut lane = Lane::new();
        let name = |epoch, n| names::segment("p/lane-0", epoch, 7, n);
        lane.snapshots.push(StateObject { object: name(1, 4), ..Default::default() });
        let listed =
            [name(1, 3), name(1, 4), name(2, 1), name(2, 2), name(3, 0), "p/lane-0/segments/x".into()];
        let gone = deletable(&lane, &listed, 2, Some(&name(2, 1)));
        assert_eq!(gone, [name(1, 3).as_str(), name(2, 1).as_str()]);
        assert_eq!(deletable(&lane, &listed, 2, None), [name(1, 3).as_str()]);
    }
}
