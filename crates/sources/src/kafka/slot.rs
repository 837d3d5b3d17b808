//! What is known of one partition while it is read, and when reading it must stop. Pure.
//!
//! Owns the partition's place, and the refusal of a topic that was made anew, of an offset that is not held and of a batch that cannot be
//! read, with the command that gives them up, or the setting that reads it. Does not own the fetching, which `kafka::fetch` and `direct::broker` do with it.

use std::collections::BTreeMap;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::position::{self, Position};
use dataflow::{BlockBuilder, Partition, ReadFrom, SourceError, SourceFault};

use super::client::Topic;

/// A partition that is read.
pub(super) struct Slot {
    pub(super) from: ReadFrom,
    /// Records below this were returned, or do not exist.
    pub(super) next: u64,
    pub(super) leader_epoch: i32,
    pub(super) block: BlockBuilder,
    pub(super) is_paused: bool,
    /// Where a batch came last that cannot be read, and how often it has come so.
    garbled: (u64, u32),
    /// Where we were not let in last, and how often in a row; `None` until an answer has let us in.
    denied: Option<(u64, u32)>,
}

/// A batch that comes garbled so often is garbled where it is stored.
const GARBLED_MAX: u32 = 4;
/// We may not read once so many answers in a row say so: a broker that cannot look up who may, or whose rules are being replaced, says the same for a moment.
pub(super) const DENIED_MAX: u32 = 10;

impl Slot {
    pub(super) fn new(from: ReadFrom, record_bytes_max: usize) -> Self {
        let block = BlockBuilder::new(from.partition.clone(), from.next).bounded(record_bytes_max);
        Self {
            next: position::low(from.next),
            leader_epoch: from.leader_epoch,
            block,
            is_paused: false,
            garbled: (0, 0),
            denied: None,
            from,
        }
    }

    /// Takes note that what stands at `next` cannot be read. True if it came so often that it is stored so: what was garbled on its way comes whole the next time.
    pub(super) fn is_garbled_for_good(&mut self) -> bool {
        let before = if self.garbled.0 == self.next { self.garbled.1 } else { 0 };
        self.garbled = (self.next, before + 1);
        before + 1 >= GARBLED_MAX
    }

    /// Takes note that we are not let in. True if that was said so often that it is so; of what was never read, the first word counts: a start is to tell
    /// a mistake.
    pub(super) fn is_denied_for_good(&mut self) -> bool {
        let before = match self.denied {
            Some((next, times)) if next == self.next => times,
            Some(_) => 0,
            None if self.next > position::low(self.from.next) => 0,
            None => return true,
        };
        self.denied = Some((self.next, before + 1));
        before + 1 >= DENIED_MAX
    }

    /// We are let in.
    pub(super) fn let_in(&mut self) {
        self.denied = Some((self.next, 0));
    }

    /// Whether the last answer did not let us in.
    fn is_denied(&self) -> bool {
        self.denied.is_some_and(|(next, times)| next == self.next && times > 0)
    }

    /// The epoch to give back to librdkafka, which then notices a log that was cut.
    pub(super) fn epoch(&self) -> Option<i32> {
        (self.leader_epoch != NO_LEADER_EPOCH).then_some(self.leader_epoch)
    }
}

/// Notes that the topic of `slots[index]` refused us, for each of its partitions: librdkafka fetches all of them again, and their own errors are dropped. Not
/// for those that are paused, which are not fetched, and so would not be let in again. True if that one was refused so often by now that it is so.
pub(super) fn is_topic_denied_for_good(slots: &mut [Slot], index: usize) -> bool {
    let topic = slots[index].from.partition.stream.clone();
    for (at, slot) in slots.iter_mut().enumerate() {
        if at != index && !slot.is_paused && slot.from.partition.stream == topic {
            slot.is_denied_for_good();
        }
    }
    slots[index].is_denied_for_good()
}

/// Takes note that we may not look at the topics either. True if one of these that we may not read was refused so often by now that it is so.
pub(super) fn are_denied_for_good(slots: &mut [Slot]) -> bool {
    slots.iter_mut().any(|slot| slot.is_denied() && slot.is_denied_for_good())
}

/// Refuses a partition that is not the one that was recorded.
pub(super) fn check(from: &ReadFrom, topic: Option<&Topic>) -> Result<(), SourceError> {
    let partition = &from.partition;
    let name = &partition.stream;
    let refuse = |message: String| Err(SourceError::new(SourceFault::Refused, message).at(partition));
    let Some(topic) = topic else {
        return refuse(format!(
            "topic `{name}` (id `{}`) was deleted; to take it out of the pipeline, run `forebay forget FILE --topic {name}`: what was read \
             of it stays in the table",
            from.identity
        ));
    };
    if lacks_id(from, topic) {
        return refuse(format!(
            "topic `{name}` was read under the id `{}`, and the brokers that answer name no id: they may be older than Kafka 2.8, as in a cluster \
             that is being upgraded. Whether the topic is the same cannot be told; start the pipeline again once all brokers name ids",
            from.identity
        ));
    }
    if is_another(from, topic) {
        return refuse(format!(
            "topic `{name}` was deleted and made anew, or `brokers` lead to another cluster than before: its id was `{}` and is `{}`, so its \
             offsets stand for other records. If it is the wrong cluster, correct `brokers`. To read the new topic, run `forebay forget FILE \
             --topic {name}` and start again: it is then read from where `start` says, and rows of the old one that are in the table stay there",
            from.identity, topic.id
        ));
    }
    if topic.partitions.binary_search(&partition.index).is_err() {
        let count = topic.partitions.len();
        return refuse(format!(
            "topic `{name}` has `{count}` partitions and no partition `{0}`; to take it out of the pipeline, run `forebay forget FILE \
             --partition {name}/{0}`",
            partition.index
        ));
    }
    Ok(())
}

/// Whether whoever answers knows no ids, though one was recorded.
fn lacks_id(from: &ReadFrom, topic: &Topic) -> bool {
    !from.identity.is_empty() && topic.id.is_empty()
}

/// Whether the topic is another one than was recorded. An empty identity was recorded from a cluster without topic ids; it cannot be compared.
fn is_another(from: &ReadFrom, topic: &Topic) -> bool {
    !from.identity.is_empty() && !topic.id.is_empty() && topic.id != from.identity
}

/// Checks all that is read against an answer: the first refusal, and whether it is of another id, which comes before what is not there. One answer proves
/// neither: a broker that has just started, or is behind, knows less, one too old knows no ids, and one that is cut off from the others names the id from
/// before a topic was made anew.
pub(super) fn refusal<'a>(
    read: impl Iterator<Item = &'a ReadFrom>,
    topics: &BTreeMap<String, Topic>,
) -> Option<(SourceError, bool)> {
    let refused = read.filter_map(|from| {
        let topic = topics.get(&*from.partition.stream);
        let error = check(from, topic).err()?;
        Some((error, topic.is_some_and(|topic| is_another(from, topic))))
    });
    refused.min_by_key(|(_, is_another)| !is_another)
}

/// The refusal of a batch in a format that only librdkafka reads, at or after offset `next`.
pub(super) fn old_format(partition: &Partition, next: u64, why: &str) -> SourceError {
    let message = format!(
        "`{partition}` cannot be fetched directly at or after offset `{next}`: {why}; give the source `fetch: librdkafka`, which reads it"
    );
    SourceError::new(SourceFault::Config, message).at(partition)
}

/// The refusal of a batch that cannot be read, at or after offset `next`; `end` is the offset after it, if that is known.
pub(super) fn unreadable(partition: &Partition, next: u64, why: &str, end: Option<u64>) -> SourceError {
    let way = match end {
        Some(end) => format!(
            "the batch ends before offset `{end}`. To give up what is left of it and read on behind it, run `forebay reset FILE --to \
             '{partition}={end}'` and start again"
        ),
        None => format!(
            "where the batch ends is not known. To give up all that the partition holds by now, run `forebay reset FILE --to latest \
             --partition {partition}` and start again"
        ),
    };
    let message = format!("`{partition}` cannot be read at or after offset `{next}`: {why}; {way}");
    SourceError::new(SourceFault::Refused, message).at(partition)
}

/// The refusal of a position that is not held.
pub(super) fn out_of_range(partition: &Partition, next: Position, range: Option<(u64, u64)>) -> SourceError {
    let held = match range {
        Some((low, high)) => format!("it holds `{low}` to `{high}`"),
        None => "its range cannot be asked for at the moment".into(),
    };
    let to = |to: &str| format!("`forebay reset FILE --to {to} --partition {partition}`");
    let why = match range {
        Some((_, high)) if next > high.into() => format!(
            "the log was cut, or the topic's records were lost. To read all that it holds again, run {}; to read only what comes from now on, \
             run {}; then start again",
            to("earliest"),
            to("latest")
        ),
        _ => format!(
            "records were deleted by retention before they were read, or the log was cut. To give them up, run {} and start again: reading \
             continues at the oldest record that is left",
            to("earliest")
        ),
    };
    let message =
        format!("offset `{}` of `{partition}` is not held any more: {held}; {why}", position::shown(next));
    SourceError::new(SourceFault::Refused, message).at(partition)
}
