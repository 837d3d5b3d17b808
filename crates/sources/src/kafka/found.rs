//! Partitions that appear while a topic is read, and topics that are others than were read.
//!
//! Owns the report of partitions, for both ways of fetching. Does not own when topics are inspected, nor the reading.

use std::collections::{BTreeMap, BTreeSet};

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Event, Partition, PartitionStart, ReadFrom, SourceError};

use super::CALL_WAIT_MAX;
use super::client::{Client, Topic};
use crate::queue::{Closed, Sender};

/// The partitions of topics that are read already that were not there before and have lost records to retention: what of `shown` is
/// not `known` and does not begin at 0.
pub(super) fn late<'a>(shown: &'a [PartitionStart], known: &[ReadFrom]) -> Vec<&'a PartitionStart> {
    let is_read = |start: &PartitionStart| known.iter().any(|from| from.partition == start.partition);
    let is_later =
        |start: &PartitionStart| known.iter().any(|from| from.partition.stream == start.partition.stream);
    shown.iter().filter(|start| start.first > 0 && is_later(start) && !is_read(start)).collect()
}

/// The topics that are shown with another id than was recorded, with that id.
pub(super) fn anew(shown: &[PartitionStart], known: &[ReadFrom]) -> BTreeSet<(String, String)> {
    let is_another = |start: &PartitionStart, from: &ReadFrom| {
        let have_ids = !start.identity.is_empty() && !from.identity.is_empty();
        from.partition == start.partition && have_ids && from.identity != start.identity
    };
    let anew = shown.iter().filter(|start| known.iter().any(|from| is_another(start, from)));
    anew.map(|start| (start.partition.stream.to_string(), start.identity.clone())).collect()
}

/// Says what may be missing of a partition that was found after retention had been there.
pub(super) fn warn_late(start: &PartitionStart) {
    tracing::warn!(
        partition = %start.partition,
        first = start.first,
        missed_max = start.first,
        "a partition was found late: retention has already taken the records below its first offset, and they are not read; \
         if they are missed, bring them into the topic again"
    );
}

/// Reports every partition of `topics` that is not `known`, which it then is.
pub(super) fn report(
    look: &Client,
    topics: &BTreeMap<String, Topic>,
    known: &mut BTreeSet<Partition>,
    events: &Sender<Result<Event, SourceError>>,
) -> Result<(), Closed> {
    for (name, topic) in topics {
        for index in &topic.partitions {
            let partition = Partition::new(name.as_str(), *index);
            // One without a leader yet is found again by the next look: asking for its range waits for the leader, and the caller with it.
            if known.contains(&partition) || !topic.leaders.contains_key(index) {
                continue;
            }
            // The beginning is asked for, not taken to be 0: retention may have been there already.
            let Ok((low, _)) = look.watermarks(&partition, CALL_WAIT_MAX) else { continue };
            known.insert(partition.clone());
            let start = PartitionStart {
                partition,
                identity: topic.id.clone(),
                next: low.into(),
                first: low.into(),
                leader_epoch: NO_LEADER_EPOCH,
            };
            if start.first > 0 {
                warn_late(&start);
            }
            events.send(Ok(Event::Found(start)), 0)?;
        }
    }
    Ok(())
}
