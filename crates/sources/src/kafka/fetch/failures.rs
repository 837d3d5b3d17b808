//! What a consumer reports in place of messages.
//!
//! Owns which of it ends a read, which is waited out, and what is reported meanwhile. Does not own what a broker's answer means to the
//! source (`kafka::fault`).

use std::time::Duration;

use dataflow::{Event, SourceError, SourceFault};
use rdkafka_sys as ffi;

use super::{Fetch, Stop};
use crate::kafka::client::{name_of, string};
use crate::kafka::fault::Meaning;
use crate::kafka::{CALL_WAIT_MAX, fault, slot};

/// A broker that has just started, or is behind, may not know a topic or all of its partitions: so many confirmations in a row must miss one.
pub(super) const MISSES_MAX: u32 = 10;

/// A broker that is away is reported so often, and asked again so soon.
const AWAY_EVERY: Duration = Duration::from_secs(5);

impl Fetch {
    /// # Safety
    /// `message` is live and stands for an error.
    pub(super) unsafe fn take_error(
        &mut self,
        message: &ffi::rd_kafka_message_t,
        slot: Option<usize>,
    ) -> Result<(), Stop> {
        // SAFETY: as promised.
        let why = unsafe { string(ffi::rd_kafka_message_errstr(message)) };
        let Some(index) = slot else {
            // Of no partition, so reading goes on: whoever begins to read was let in, and the group is for what is committed alone.
            return self.away(format!("kafka: {}: {why}", name_of(message.err)));
        };
        let meaning = fault::of_message(message.err);
        let partition = self.slots[index].from.partition.clone();
        match meaning {
            Meaning::End => {
                self.caught_up(index, u64::try_from(message.offset).unwrap_or(0));
                Ok(())
            }
            Meaning::OutOfRange => {
                // What came before is still good; and with another topic id, that is the reason to be reported.
                self.confirm_and_send()?;
                let range = self.look.watermarks(&partition, CALL_WAIT_MAX).ok();
                let mut error = slot::out_of_range(&partition, self.slots[index].next.into(), range);
                error.message = format!("{} ({why})", error.message);
                Err(Stop::Failed(error))
            }
            // What was garbled on its way comes whole the next time.
            Meaning::Unreadable if !self.slots[index].is_garbled_for_good() => {
                Err(Stop::Again(format!("kafka: `{partition}`: {why}; it is asked for again")))
            }
            Meaning::Unreadable => {
                self.confirm_and_send()?;
                let why = format!("{why} (with `fetch: direct` this message names the batch's end)");
                Err(Stop::Failed(slot::unreadable(&partition, self.slots[index].next, &why, None)))
            }
            Meaning::Missing => {
                self.must_confirm = true;
                self.away(format!("kafka: `{partition}`: {why}"))
            }
            Meaning::Denied if !slot::is_topic_denied_for_good(&mut self.slots, index) => {
                // librdkafka may say it of a topic only once, and then nothing.
                self.must_confirm = true;
                Err(Stop::Again(format!("kafka: `{partition}`: {why}; it is asked for again")))
            }
            Meaning::Denied => self.denied(&why),
            Meaning::Away => self.away(format!("kafka: `{partition}`: {why}")),
        }
    }

    /// Notes that everything below `next` was fetched, control records at the tail included.
    fn caught_up(&mut self, index: usize, next: u64) {
        let slot = &mut self.slots[index];
        slot.next = slot.next.max(next);
        slot.let_in();
        if !slot.block.is_empty() {
            let block = slot.block.take();
            self.staged_bytes += block.memory_bytes();
            self.staged.push(Event::Block(block));
        }
        let (partition, next, leader_epoch) = (slot.from.partition.clone(), slot.next, slot.leader_epoch);
        self.staged.push(Event::CaughtUp { partition, next: next.into(), leader_epoch });
    }

    fn denied(&mut self, why: &str) -> Result<(), Stop> {
        Err(Stop::Failed(SourceError::new(SourceFault::Config, format!("kafka refuses: {why}"))))
    }

    /// A password that was right when the read began may be on its way to all brokers: not the end. But who may not read a topic any more may mostly not look at
    /// it either; then it is the looks that say so again.
    pub(super) fn not_described(&mut self, error: SourceError) -> Result<(), Stop> {
        if error.fault == SourceFault::Config && slot::are_denied_for_good(&mut self.slots) {
            return Err(Stop::Failed(error));
        }
        self.away(error.message)
    }

    /// Reports what the connections have to say.
    pub(super) fn tell_failure(&mut self) -> Result<(), Stop> {
        match self.handle.client.take_failure() {
            Some((_, why)) => self.away(format!("kafka is unavailable: {why}")),
            None => Ok(()),
        }
    }

    pub(super) fn away(&mut self, message: String) -> Result<(), Stop> {
        let now = self.runtime.elapsed();
        let is_due = self.away_reported.is_none_or(|reported| now.saturating_sub(reported) >= AWAY_EVERY);
        if is_due && self.events.is_empty() {
            self.away_reported = Some(now);
            self.events.send(Err(SourceError::new(SourceFault::Away, message)), 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
