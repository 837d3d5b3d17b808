//! What the owner notes beside its log: a register with bytes of its own, which stand for all labels below a position.
//!
//! A label is committed with its append, so labels alone would tell everything that their owner needs to know after a crash. But they go with their records, and
//! reading all of them takes long. So the owner notes from time to time what they have come to, and after a crash it reads the note and the labels behind
//! its position ([`labels::since`](crate::labels::since)), which it keeps from being deleted meanwhile ([`Pin`](crate::Pin)).
//!
//! Owns the register's bytes, and that an earlier owner's late write is harmless. Does not own what the bytes mean.
//!
//! | the register has, at a write       | decision                                                        |
//! |------------------------------------|------------------------------------------------------------------|
//! | what was read or written last      | replaced                                                        |
//! | what this write says               | done: its answer was lost                                       |
//! | the note of an earlier epoch       | replaced: that owner's appends were all read by this one's start |
//! | the note of a later epoch          | fenced                                                          |
//! | the note of another log            | replaced if that one was here before; otherwise ours was deleted, and the present one's note stays |
//!
//! | a start finds a note of            | which                                                           |
//! |------------------------------------|------------------------------------------------------------------|
//! | the owner before                   | stands for all labels below its position, and those behind it are held |
//! | an earlier one                     | came late, when its writer was fenced: there is no label behind it, and what is there may be going |
//! | another log                        | counts for nothing                                              |

use bytes::Bytes;
use prost::Message;
use store::{REGISTER_BYTES_MAX, Swap, Tag};

use crate::error::LogError;
use crate::framing::{self, FormatError, damaged};
use crate::names::QueueId;
use crate::partition::{LogPartition, Refusals, SWAPS_MAX};
use crate::root::{Claim, Root, id_of};

/// First bytes of a note: three letters and the format version.
pub const MAGIC: [u8; 4] = *b"FBN1";

/// Bytes of a note's body at the most.
pub const NOTE_BYTES_MAX: usize = (1 << 20) - 256;

#[derive(Clone, PartialEq, Message)]
struct Register {
    /// The queue whose labels it stands for, 16 bytes; that of a log that was deleted counts for nothing.
    #[prost(bytes = "vec", tag = "1")]
    queue: Vec<u8>,
    /// The owner that has written it.
    #[prost(uint64, tag = "2")]
    epoch: u64,
    #[prost(fixed64, tag = "3")]
    run: u64,
    /// One more with each write of an owner.
    #[prost(uint64, tag = "4")]
    revision: u64,
    #[prost(uint64, tag = "5")]
    position: u64,
    #[prost(bytes = "vec", tag = "6")]
    body: Vec<u8>,
}

impl Register {
    fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        let register: Self = framing::decode(MAGIC, bytes)?;
        match register.queue.len() {
            16 => Ok(register),
            _ => Err(damaged("an id does not have 16 bytes")),
        }
    }

    fn is_of(&self, claim: Claim) -> bool {
        (self.epoch, self.run) == (claim.epoch, claim.run)
    }
}

/// What an owner has noted: all labels below a position, as it understands them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// It stands for all labels of appends below.
    pub position: u64,
    /// What the owner makes of them; at most [`NOTE_BYTES_MAX`].
    pub body: Vec<u8>,
}

/// A note that stands at a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The note.
    pub note: Note,
    /// What is below may be deleted, also while it is read: no label in it is missing from the note. 0 if everything behind the note must be there.
    pub gone_below: u64,
}

/// The register that the present owner notes in.
#[derive(Debug)]
pub struct Notes {
    partition: LogPartition,
    queue: QueueId,
    claim: Claim,
    revision: u64,
    tag: Option<Tag>,
}

impl Notes {
    /// For the owner that has claimed the partition with this `root`; and the note that stands there. Changes nothing.
    ///
    /// A note of an owner that was not the one before came when that one had looked, or it would have been replaced; or that one notes nothing and has kept what is
    /// behind it ([`Owner::keep_behind_note`](crate::Owner::keep_behind_note)). Its writer was fenced by then and
    /// has appended nothing behind it, nor has anybody else who notes, so no label is missed that was deleted since: its position is moved
    /// up to what is held. An owner that was the one before, and is not fenced yet by its own word, may still delete what it has dropped.
    ///
    /// # Errors
    /// When the store fails for good, or the register is damaged.
    pub async fn open(partition: LogPartition, root: &Root) -> Result<(Self, Option<Found>), LogError> {
        let (queue, claim) = (root.queue_id(), root.claim());
        let found = read(&partition).await?;
        // That of another log may be of one that came after ours, and that of a later owner is not to be replaced: the first `write` finds it, and which of the two it is.
        let found = found.filter(|(register, _)| id_of(&register.queue) == queue.0);
        let (register, tag) = found.map_or((None, None), |(register, tag)| (Some(register), Some(tag)));
        let is_later = register.as_ref().is_some_and(|register| register.epoch > claim.epoch);
        let tag = tag.filter(|_| !is_later);
        let note = register.map(|Register { position, body, epoch, .. }| {
            let was_late = epoch.saturating_add(1) < claim.epoch;
            let (position, gone_below) =
                if was_late { (position.max(root.cleaned), root.low) } else { (position, 0) };
            Found { note: Note { position, body }, gone_below }
        });
        Ok((Self { partition, queue, claim, revision: 0, tag }, note))
    }

    /// Notes `body`, durably. A write without an answer is found by the next one.
    ///
    /// # Errors
    /// [`LogError::Fenced`] when a later owner has written; others when the body is too long or the store fails for good.
    pub async fn write(&mut self, note: &Note) -> Result<(), LogError> {
        if note.body.len() > NOTE_BYTES_MAX {
            return Err(LogError::Refused(format!(
                "a note has at most {NOTE_BYTES_MAX} bytes, not {}",
                note.body.len()
            )));
        }
        self.revision += 1;
        let register = Register {
            queue: self.queue.0.to_be_bytes().to_vec(),
            epoch: self.claim.epoch,
            run: self.claim.run,
            revision: self.revision,
            position: note.position,
            body: note.body.clone(),
        };
        let bytes = Bytes::from(framing::encode(MAGIC, &register));
        let key = self.partition.names().note();
        let (mut refused, mut doubts) = (0, 0);
        let mut refusals = Refusals::default();
        while refused < SWAPS_MAX {
            let expected = self.tag.clone();
            let swap = || async {
                match self.partition.store().compare_and_set(&key, expected.as_ref(), bytes.clone()).await {
                    // A repeat would find its own first try: to be read, not repeated.
                    Err(error) if error.effect == dataflow::Effect::Unknown => Ok(Err(error)),
                    result => result.map(Ok),
                }
            };
            match self.partition.patiently(swap).await? {
                Ok(Swap::Done(tag)) => {
                    self.tag = Some(tag);
                    return Ok(());
                }
                Ok(Swap::Refused) => {
                    refused += 1;
                    self.partition.wait_refused(&mut refusals, self.tag.as_ref(), &key).await?;
                }
                Err(error) => self.partition.wait_in_doubt(&mut doubts, error).await?,
            }
            let found = read(&self.partition).await?;
            let Some((found, tag)) = found else {
                self.tag = None;
                continue;
            };
            self.tag = Some(tag);
            let is_ours = found.is_of(self.claim);
            if is_ours && found.revision == register.revision {
                return Ok(());
            }
            let is_of_this_log = id_of(&found.queue) == self.queue.0;
            if !is_ours && is_of_this_log && found.epoch >= self.claim.epoch {
                return Err(LogError::Fenced { place: self.partition.place(), epoch: found.epoch });
            }
            // Read behind the register: if it is of a log that came after ours, so is the root.
            if !is_of_this_log {
                let root = self.partition.look().await?.map(|seen| seen.root.queue_id());
                if root != Some(self.queue) {
                    return Err(self.partition.recreated(self.queue, root));
                }
            }
        }
        Err(LogError::Refused(format!(
            "`{key}` is written by other processes again and again; stop all but one"
        )))
    }
}

async fn read(partition: &LogPartition) -> Result<Option<(Register, Tag)>, LogError> {
    let key = partition.names().note();
    let found = partition.patiently(|| partition.store().read_register(&key, REGISTER_BYTES_MAX)).await?;
    let Some((bytes, tag)) = found else { return Ok(None) };
    let register =
        Register::from_bytes(&bytes).map_err(|error| LogError::Format { key: key.to_string(), error })?;
    Ok(Some((register, tag)))
}

#[cfg(test)]
mod tests;
