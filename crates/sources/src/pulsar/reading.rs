//! Entries of one partition, read as they come or behind a message that they waited for.
//!
//! Owns the way of an entry into a block: at once, or through [`Chunks`](super::chunks::Chunks). Does not own which entries are wanted (`lead`), nor what an
//! unreadable one leads to (`broker`).

use dataflow::{Event, RecordBlock};

use super::PulsarOptions;
use super::chunks::{self, Item};
use super::entry::{Entries, EntryError, Read};
use super::frame::FrameError;
use super::lead::Slot;
use super::place::Entry;

/// Bytes that may come behind an incomplete message, beside itself, however little memory there is: as much as a broker sends at once.
const BEHIND_BYTES_MIN: usize = 4 << 20;

/// What of a broker reads the entries of one partition.
pub(super) struct Reading<'a> {
    pub(super) slot: &'a mut Slot,
    pub(super) ready: &'a mut Vec<Event>,
    pub(super) scratch: &'a mut Vec<u8>,
    pub(super) options: &'a PulsarOptions,
}

impl Reading<'_> {
    /// Reads an entry that has come, or lets it wait: how many messages it was. An error names the entry that cannot be read.
    pub(super) fn came(&mut self, at: Entry, body: &[u8], from: u64) -> Result<u64, (Entry, EntryError)> {
        let mut read = Read::Chunk;
        if self.slot.chunks.is_empty() {
            read = self.entry(at, body, from)?;
        }
        let messages = match read {
            Read::Messages(messages) => messages,
            Read::Chunk => {
                let says = chunks::chunk(body).map_err(|_| (at, FrameError::Malformed.into()))?;
                let message_max = self.options.unpacked_bytes_max();
                let bounds = (message_max, message_max + self.options.ahead_bytes_max.max(BEHIND_BYTES_MIN));
                self.slot
                    .chunks
                    .take((at, body, from), says, bounds)
                    .map_err(|why| (why.first(), why.into()))?;
                self.drain()?;
                // As many as the broker counts, or it would wait for permits that we think it has.
                says.messages.max(1)
            }
        };
        self.slot.next = at.end();
        Ok(messages)
    }

    /// Reads what no incomplete message stands before any more.
    pub(super) fn drain(&mut self) -> Result<(), (Entry, EntryError)> {
        while let Some(item) = self.slot.chunks.ready() {
            match item {
                Item::Entry(at, body, from) => {
                    self.entry(at, &body, from)?;
                }
                Item::Message(message) => {
                    let at = message.first;
                    self.begin(at);
                    let mut full = |block: RecordBlock| self.ready.push(Event::Block(block));
                    let mut entries = Entries {
                        block: &mut self.slot.block,
                        scratch: self.scratch,
                        bytes_max: self.options.unpacked_bytes_max(),
                        naming: self.slot.naming.as_mut(),
                    };
                    entries.whole(at, &message.head, &message.payload, &mut full).map_err(|why| (at, why))?;
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, at: Entry, body: &[u8], from: u64) -> Result<Read, (Entry, EntryError)> {
        self.begin(at);
        let mut full = |block: RecordBlock| self.ready.push(Event::Block(block));
        let mut entries = Entries {
            block: &mut self.slot.block,
            scratch: self.scratch,
            bytes_max: self.options.unpacked_bytes_max(),
            naming: self.slot.naming.as_mut(),
        };
        entries.read(at, body, from, &mut full).map_err(|why| (at, why))
    }

    /// A block holds records of one ledger.
    fn begin(&mut self, at: Entry) {
        if self.slot.ledger != at.ledger {
            if !self.slot.block.is_empty() {
                self.ready.push(Event::Block(self.slot.block.take()));
            }
            self.slot.begin(at);
        }
    }
}

/// Says which messages were given up, if any were.
pub(super) fn tell_given_up(slot: &mut Slot) -> bool {
    let given_up = slot.chunks.given_up();
    for (at, why) in &given_up {
        metrics::counter!("forebay_pulsar_incomplete_messages_total").increment(1);
        tracing::warn!(
            partition = %slot.from.partition,
            entry = format!("{}:{}", at.ledger, at.entry),
            why,
            "a chunked message is incomplete and was left out; its producer was told that it failed"
        );
    }
    !given_up.is_empty()
}

#[cfg(test)]
mod tests;
