//! Partitions that appear while a topic is read.
//!
//! Owns the report of them, for both ways of fetching. Does not own when topics are looked at, nor the reading.

use std::collections::{BTreeMap, BTreeSet};

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Event, Partition, PartitionStart, SourceError};

use super::CALL_WAIT_MAX;
use super::client::{Client, Topic};
use crate::queue::{Closed, Sender};

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
            if known.contains(&partition) {
                continue;
            }
            // The beginning is asked for, not taken to be 0: retention may have been there already.
            let Ok((low, _)) = look.watermarks(&partition, CALL_WAIT_MAX) else {
                // A partition without a leader yet; the next look finds it again.
                continue;
            };
            known.insert(partition.clone());
            let start = PartitionStart {
                partition,
                identity: topic.id.clone(),
                next: low,
                first: low,
                leader_epoch: NO_LEADER_EPOCH,
            };
            events.send(Ok(Event::Found(start)), 0)?;
        }
    }
    Ok(())
}
