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
        let meaning = fault::of_message(message.err);
        let Some(index) = slot else {
            return match meaning {
                Meaning::Denied => self.denied(&why),
                _ => self.away(format!("kafka: {}: {why}", name_of(message.err))),
            };
        };
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
            Meaning::Denied => self.denied(&why),
            Meaning::Away => self.away(format!("kafka: `{partition}`: {why}")),
        }
    }

    /// Notes that everything below `next` was fetched, control records at the tail included.
    fn caught_up(&mut self, index: usize, next: u64) {
        let slot = &mut self.slots[index];
        slot.next = slot.next.max(next);
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

    /// Reports what the connections have to say.
    pub(super) fn tell_failure(&mut self) -> Result<(), Stop> {
        match self.handle.client.take_failure() {
            Some((_, why)) => self.away(format!("kafka is unavailable: {why}")),
            None => Ok(()),
        }
    }

    pub(super) fn away(&mut self, message: String) -> Result<(), Stop> {
        let now = self.runtime.elapsed();
        if self.away_reported.is_none_or(|reported| now.saturating_sub(reported) >= AWAY_EVERY) {
            self.away_reported = Some(now);
            self.events.send(Err(SourceError::new(SourceFault::Away, message)), 0)?;
        }
        Ok(())
    }
}
