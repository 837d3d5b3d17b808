//! What is known of one partition while it is read, and what becomes of each entry that comes. Pure.
//!
//! Owns the judgement of each entry and of the topic's newest, and the refusals with their way out. Does not own the socket
//! (`pulsar::broker`), nor what is in an entry (`pulsar::reading`).
//!
//! | an entry comes                                  | what is done                                                         |
//! |-------------------------------------------------|----------------------------------------------------------------------|
//! | first, and it does not prove the place          | refused: what was read is not held any more                          |
//! | before the next position                        | nothing: it was read                                                 |
//! | at or after it, in the same ledger              | it is read                                                           |
//! | in another ledger                               | the newest entry that was read is asked for once more; it is read then |

use std::time::Duration;

use dataflow::position::{self, Position};
use dataflow::{BlockBuilder, Partition, ReadFrom, SourceError, SourceFault};

use super::chunks::Chunks;
use super::client::Topic;
use super::errors::Trouble;
use super::place::{self, Entry, INDEX_MAX, Proof};
use super::schema::Naming;
use super::topic;

/// A partition that is read, wherever it is served.
pub(super) struct Slot {
    pub(super) from: ReadFrom,
    /// The name that brokers know it by.
    pub(super) name: String,
    /// Messages below this were returned, or do not exist.
    pub(super) next: Position,
    pub(super) block: BlockBuilder,
    /// The ledger of the block.
    pub(super) ledger: u64,
    /// What waits behind a message whose chunks have not all come. `next` is behind all of it.
    pub(super) chunks: Chunks,
    pub(super) is_paused: bool,
    /// Names the schema of each block, if blocks have one.
    pub(super) naming: Option<Naming>,
    /// Ledgers that have begun to come after another one, each with the position that was next then. It is read once it comes there again, behind all that was read
    /// before. They are kept while an incomplete message waits: whoever begins with that once more passes all of them again.
    crossings: Vec<(Position, u64)>,
    /// The entry that came garbled last, and how often it has.
    garbled: Option<(Entry, u32)>,
    /// How often in a row its topic was said not to exist.
    missed: u32,
    /// Before which position messages were said not to be held, and how often in a row.
    lacked: Option<(Position, u32)>,
    /// Before which position we were not let in, and how often in a row.
    denied: Option<(Position, u32)>,
    record_bytes_max: usize,
}

/// An entry that comes garbled so often is garbled where it is stored.
const GARBLED_MAX: u32 = 4;
/// A topic is deleted, and messages are not held, once so many answers in a row say so: a broker that was replaced, or is behind, may answer for the topic.
pub(super) const LACKS_MAX: u32 = 10;

impl Slot {
    /// A partition that is read from `from` on.
    pub(super) fn new(from: ReadFrom, name: String, record_bytes_max: usize) -> Self {
        let block = BlockBuilder::new(from.partition.clone(), from.next).bounded(record_bytes_max);
        Self {
            next: from.next,
            block,
            ledger: position::era(from.next),
            chunks: Chunks::default(),
            is_paused: false,
            naming: None,
            crossings: Vec::new(),
            garbled: None,
            missed: 0,
            lacked: None,
            denied: None,
            record_bytes_max,
            name,
            from,
        }
    }

    /// The same, whose blocks name their schema if `is_on`.
    pub(super) fn naming_schemas(mut self, is_on: bool) -> Self {
        self.naming = is_on.then(|| Naming::new(self.from.partition.stream.clone()));
        self
    }

    /// Takes note of an entry whose frame or checksum is wrong. True if it came so often that it is stored so. A broker under load sends frames whose
    /// entry is missing, and all bytes behind them are out of step; over a new connection the same entry is whole.
    pub(super) fn is_garbled_for_good(&mut self, at: Entry) -> bool {
        let before = self.garbled.filter(|(entry, _)| *entry == at).map_or(0, |(_, times)| times);
        self.garbled = Some((at, before + 1));
        before + 1 >= GARBLED_MAX
    }

    /// Takes note that its topic is said not to exist. True if that was said so often that it is so.
    pub(super) fn is_deleted_for_good(&mut self) -> bool {
        self.missed += 1;
        self.missed >= LACKS_MAX
    }

    /// Takes note that what was read before `next` is said not to be held. True if that was said so often that it is so.
    pub(super) fn is_lost_for_good(&mut self) -> bool {
        let before = self.lacked.filter(|(next, _)| *next == self.next).map_or(0, |(_, times)| times);
        self.lacked = Some((self.next, before + 1));
        before + 1 >= LACKS_MAX
    }

    /// Takes note that we are not let in. True if that was said so often that it is so: a broker that cannot look up who may read says the same.
    pub(super) fn is_denied_for_good(&mut self) -> bool {
        let before = self.denied.filter(|(next, _)| *next == self.next).map_or(0, |(_, times)| times);
        self.denied = Some((self.next, before + 1));
        before + 1 >= LACKS_MAX
    }

    /// Begins a block of another ledger. The one before must have been taken.
    pub(super) fn begin(&mut self, entry: Entry) {
        debug_assert!(self.block.is_empty());
        let block = BlockBuilder::new(self.from.partition.clone(), entry.position());
        self.block = block.bounded(self.record_bytes_max);
        self.ledger = entry.ledger;
    }

    /// What waits comes again by another consumer.
    fn rewind(&mut self) {
        if let Some(front) = self.chunks.front() {
            self.next = front.position();
            self.chunks.clear();
        }
    }
}

/// What to do with an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Read it from this message on.
    Read { from: u64 },
    /// Nothing.
    Skip,
    /// Subscribe once more, at the newest entry that was read.
    Prove,
    /// Stop.
    Refuse(Trouble),
}

/// What the broker's newest entry says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// All was read.
    CaughtUp,
    /// More comes by itself.
    Behind,
    /// Stop.
    Refuse(Trouble),
}

/// A partition that is read at a broker.
pub(super) struct Lead {
    pub(super) slot: Slot,
    /// The consumer's number, once it was asked for.
    pub(super) consumer: Option<u64>,
    /// The request that subscribes, until it is answered.
    pub(super) subscribing: Option<u64>,
    /// What must come first, until it has.
    pub(super) proof: Option<Proof>,
    /// Messages that the broker may send still; below 0 if an entry was of more than that, for it comes whole.
    pub(super) permits: i64,
    /// The request for the newest entry that is under way.
    pub(super) asked: Option<u64>,
    /// The position after what had come when it was asked for, and when that was.
    asked_at: Position,
    asked_time: Option<Duration>,
    /// The position after the newest entry, as last heard; `None` before that.
    pub(super) end: Option<Position>,
    /// The end that was reported last.
    pub(super) reported: Option<Position>,
    /// The newest entry that came.
    pub(super) newest: Option<Entry>,
    /// The newest entry that was acknowledged by the consumer.
    pub(super) acknowledged: Option<Entry>,
    /// No message will be added.
    pub(super) is_terminated: bool,
    pub(super) has_ended: bool,
    /// Looks in vain for what must come first.
    pub(super) looks: u32,
    /// Looks in vain for the answer to the question under way.
    unanswered: u32,
    /// The same for what must come first.
    unproved: u32,
}

/// Looks for an answer, one a second: three times as long as a broker takes to load a topic before it says that it cannot.
pub(super) const UNANSWERED_MAX: u32 = 180;

impl Lead {
    /// A partition that is not subscribed to yet.
    pub(super) fn new(slot: Slot) -> Self {
        Self {
            slot,
            consumer: None,
            subscribing: None,
            proof: None,
            permits: 0,
            asked: None,
            asked_at: 0,
            asked_time: None,
            end: None,
            reported: None,
            newest: None,
            acknowledged: None,
            is_terminated: false,
            has_ended: false,
            looks: 0,
            unanswered: 0,
            unproved: 0,
        }
    }

    /// A consumer was asked for, which begins where it proves that nothing is missing.
    pub(super) fn subscribed(&mut self, consumer: u64, request: u64) -> Proof {
        self.slot.rewind();
        let proof = Proof::of(self.slot.next);
        self.consumer = Some(consumer);
        self.subscribing = Some(request);
        self.proof = Some(proof);
        self.permits = 0;
        self.asked = None;
        self.asked_time = None;
        self.end = None;
        self.newest = None;
        self.acknowledged = None;
        (self.looks, self.unanswered, self.unproved) = (0, 0, 0);
        proof
    }

    /// An entry of so many messages has come. The broker counts all of them, whatever is done with it.
    pub(super) fn spend(&mut self, messages: u64) {
        self.permits = self.permits.saturating_sub(i64::try_from(messages).unwrap_or(i64::MAX));
    }

    /// The broker has the consumer, so the topic exists.
    pub(super) fn has_consumer(&mut self) {
        self.subscribing = None;
        self.slot.missed = 0;
    }

    /// The consumer is gone, or was given up.
    pub(super) fn unsubscribed(&mut self) {
        self.consumer = None;
        self.subscribing = None;
        self.asked = None;
    }

    /// One more second has passed. True if the broker owes an answer, or what must come first, for so long that there will be none: it has lost the question, and
    /// the topic may be served elsewhere by now.
    pub(super) fn is_forgotten(&mut self) -> bool {
        let more = |looks: u32, is_owed: bool| if is_owed { looks + 1 } else { 0 };
        self.unanswered = more(self.unanswered, self.subscribing.is_some() || self.asked.is_some());
        self.unproved = more(self.unproved, self.unproved_end().is_some());
        self.unanswered.max(self.unproved) > UNANSWERED_MAX
    }

    /// What is wrong where [`is_forgotten`](Self::is_forgotten) says so. What must come first, and does not though the broker answers, may be lost.
    pub(super) fn overdue(&self) -> Trouble {
        match self.unproved_end() {
            Some(end) if self.unanswered <= UNANSWERED_MAX => not_delivered(self.slot.next, end),
            Some(_) | None => Trouble::Moved("the broker does not answer for the topic".into()),
        }
    }

    /// The position after the newest entry, if an entry must come first still. An empty topic owes nothing, and neither does one that was not answered for.
    pub(super) fn unproved_end(&self) -> Option<Position> {
        let is_owed = self.consumer.is_some() && self.proof.is_some_and(|proof| proof != Proof::Any);
        self.end.filter(|end| is_owed && *end > 0)
    }

    /// Judges an entry that has come for the present consumer.
    pub(super) fn came(&mut self, at: Entry) -> Came {
        self.newest = Some(at);
        let next = self.slot.next;
        let expected = Entry::at(next);
        // The next to be read proves as much as the one before it, for nothing stands between them. It comes first where that one is never delivered: a
        // marker of a transaction or of a replicated subscription, or a message of an aborted transaction.
        if let Some(proof) = self.proof.take()
            && !proof.is_given_by(at)
            && at != expected
        {
            return Came::Refuse(not_held(next, Some(at)));
        }
        if next == 0 {
            return Came::Read { from: 0 };
        }
        if at < expected {
            return Came::Skip;
        }
        if at == expected {
            return Came::Read { from: position::low(next) & INDEX_MAX };
        }
        if at.ledger == expected.ledger {
            return Came::Read { from: 0 };
        }
        if self.slot.crossings.contains(&(next, at.ledger)) {
            if self.slot.chunks.is_empty() {
                self.slot.crossings.clear();
            }
            return Came::Read { from: 0 };
        }
        self.slot.crossings.push((next, at.ledger));
        Came::Prove
    }

    /// The newest entry is asked for by this request. As [`should_ask`](Self::should_ask) has it, all that was stored when it was asked for before has come.
    pub(super) fn ask(&mut self, request: u64, now: Duration) {
        if let Some(asked) = self.asked_time.replace(now) {
            self.slot.chunks.silent(asked, now);
        }
        self.asked = Some(request);
        self.asked_at = self.slot.next;
        self.unanswered = 0;
    }

    /// Judges the newest entry that the broker has, as of some time since it was asked for. A broker looks it up and then reads it before it answers, so
    /// entries that came later may be here first: what it must not be behind is what had come when it was asked.
    pub(super) fn heard(&mut self, last: Option<Entry>) -> Standing {
        let (next, asked_at) = (self.slot.next, self.asked_at);
        let end = place::end(last);
        self.end = Some(end);
        match last {
            _ if asked_at <= end && end < next => {
                // Older than what has come: it is asked for once more.
                self.end = None;
                Standing::Behind
            }
            None if next == 0 => {
                self.slot.denied = None;
                Standing::CaughtUp
            }
            // A topic that holds nothing any more has lost what was read, and nobody knows whether more.
            None => Standing::Refuse(not_held(next, None)),
            Some(_) if next > end => Standing::Refuse(Trouble::NotHeld(format!(
                "position `{}` ({}) is behind the newest message; it ends at `{}` ({})",
                position::shown(next),
                place::shown(next),
                position::shown(end),
                place::shown(end)
            ))),
            Some(_) if next == end && self.proof.is_none() => {
                (self.slot.lacked, self.slot.denied) = (None, None);
                Standing::CaughtUp
            }
            Some(_) => Standing::Behind,
        }
    }

    /// The entry to acknowledge, if it is time to. The consumer has no cursor that would last: it is for who looks at it meanwhile, and
    /// brokers tell only those that have acknowledged all that a topic is terminated.
    pub(super) fn acknowledge(&mut self, is_due: bool) -> Option<Entry> {
        let is_caught_up = self.end == Some(self.slot.next);
        let newest =
            self.newest.filter(|newest| (is_due || is_caught_up) && self.acknowledged != Some(*newest))?;
        self.acknowledged = Some(newest);
        Some(newest)
    }

    /// True if it is time to ask for the newest entry: all that was there when it was asked for last has come.
    pub(super) fn should_ask(&self) -> bool {
        let is_read = self.consumer.is_some() && self.subscribing.is_none() && !self.has_ended;
        let is_behind = self.end.is_some_and(|end| self.slot.next < end);
        let is_reported = self.reported == Some(self.slot.next) && self.end == self.reported;
        // More of an incomplete message shows by itself. That there is no more is asked for once in a while (`recheck`).
        let is_waiting = !self.slot.chunks.is_empty() && self.end == Some(self.slot.next);
        is_read && self.asked.is_none() && !is_behind && !is_reported && !is_waiting
    }

    /// Has the newest entry asked for again while a message is incomplete: only that shows that nothing more of it is stored. True if it is to be asked for.
    pub(super) fn recheck(&mut self) -> bool {
        let is_waiting = !self.slot.chunks.is_empty() && self.end == Some(self.slot.next);
        if is_waiting {
            self.end = None;
        }
        is_waiting
    }
}

/// What was read up to `next` is not there; `first` is the first that is.
pub(super) fn not_held(next: Position, first: Option<Entry>) -> Trouble {
    let held = match first {
        Some(first) => {
            format!(
                "the first message after it is at position `{}` ({})",
                position::shown(first.position()),
                place::shown(first.position())
            )
        }
        None => "the topic holds nothing".into(),
    };
    Trouble::NotHeld(format!(
        "what stood before position `{}` ({}) is not held any more: {held}; its ledger was deleted by retention or expiry before it was read \
         to its end, or the topic was truncated, or deleted and created again",
        position::shown(next),
        place::shown(next)
    ))
}

/// Refuses a partition that its topic does not have.
pub(super) fn check(partition: &Partition, topic: Option<&Topic>) -> Result<(), SourceError> {
    let name = &partition.stream;
    let refuse = |message: String| Err(SourceError::new(SourceFault::Refused, message).at(partition));
    let Some(topic) = topic else {
        return refuse(format!(
            "topic `{name}` was deleted; to take it out of the pipeline, run `forebay forget FILE --topic {name}`: what was read of it stays \
             in the table"
        ));
    };
    if topic.partition(partition).is_none() {
        return refuse(format!(
            "topic `{name}` has `{}` partitions and no partition `{}`; to take it out of the pipeline, run `forebay forget FILE --partition \
             {partition}`",
            topic.partitions, partition.index
        ));
    }
    Ok(())
}

/// What must come first of a partition does not come, though its broker holds something.
pub(super) fn not_delivered(next: Position, end: Position) -> Trouble {
    Trouble::NotHeld(format!(
        "what stands before position `{}` ({}) is not delivered, though the newest message ends at `{}` ({}): it is not held any more, or the \
         brokers cannot read it from their storage",
        position::shown(next),
        place::shown(next),
        position::shown(end),
        place::shown(end)
    ))
}

/// The words for a partition whose topic lists it, but which no broker knows any more; or for a topic without partitions.
fn deleted(slot: &Slot, why: &str) -> String {
    let partition = &slot.from.partition;
    let way = match slot.name == topic::whole(&partition.stream) {
        true => format!("--topic {}", partition.stream),
        false => format!("--partition {partition}"),
    };
    format!(
        "`{partition}` was deleted ({why}); to take it out of the pipeline, run `forebay forget FILE {way}`: what was read of it stays in the \
         table"
    )
}

/// The error by which the reading of a partition ends.
pub(super) fn refusal(slot: &Slot, trouble: Trouble) -> SourceError {
    let (partition, next) = (&slot.from.partition, slot.next);
    let (fault, message) = match trouble {
        Trouble::NotHeld(why) => (
            SourceFault::Refused,
            format!(
                "`{partition}`: {why}. To give up what may be missing, run `forebay reset FILE --to earliest --partition {partition}` and start \
                 again: reading continues at the oldest message that is left"
            ),
        ),
        Trouble::Unreadable(why) => (
            SourceFault::Refused,
            format!(
                "`{partition}` cannot be read at position `{}` ({}): {why}",
                position::shown(next),
                place::shown(next)
            ),
        ),
        Trouble::Denied(why) => (SourceFault::Config, format!("pulsar refuses: `{partition}`: {why}")),
        Trouble::Missing(why) => (SourceFault::Refused, deleted(slot, &why)),
        Trouble::Moved(why) => (SourceFault::Away, format!("pulsar: `{partition}`: {why}")),
    };
    SourceError::new(fault, message).at(partition)
}

#[cfg(test)]
mod tests;
