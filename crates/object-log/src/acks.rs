//! How far each consumer has come: a register a consumer, which retention reads.
//!
//! Owns its bytes and the fencing of an older run of the same consumer. Does not own what a consumer has read: its own journal does,
//! and this only follows. Readers without a consumer change none of it (L10).

use bytes::Bytes;
use prost::Message;
use store::{StoreError, Swap, Tag};

use crate::error::LogError;
use crate::framing::{self, FormatError, damaged};
use crate::names::{QueueId, is_consumer};
use crate::partition::{Edit, LogPartition, Refusals, SWAPS_MAX};
use crate::root::id_of;

/// First bytes of an acknowledgement: three letters and the format version.
pub const MAGIC: [u8; 4] = *b"FBK1";

/// Bytes of an acknowledgement at the most.
pub const ACK_BYTES_MAX: u64 = 1 << 10;

/// How far a consumer has come: what its register says.
#[derive(Clone, PartialEq, Message)]
pub struct Ack {
    /// The queue that it reads, 16 bytes; that of a log that was deleted counts for nothing.
    #[prost(bytes = "vec", tag = "1")]
    pub queue: Vec<u8>,
    /// One more with each run of the consumer.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// Drawn by the run.
    #[prost(fixed64, tag = "3")]
    pub run: u64,
    /// Every record below it is finished. Never falls within a queue.
    #[prost(uint64, tag = "4")]
    pub position: u64,
    /// One more with each swap.
    #[prost(uint64, tag = "5")]
    pub revision: u64,
}

impl Ack {
    /// The bytes of the register.
    pub fn to_bytes(&self) -> Vec<u8> {
        framing::encode(MAGIC, self)
    }

    /// Reads an acknowledgement from the bytes of its register.
    ///
    /// # Errors
    /// When the bytes are damaged or of another format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        let ack: Self = framing::decode(MAGIC, bytes)?;
        match ack.queue.len() {
            16 => Ok(ack),
            _ => Err(damaged("an id does not have 16 bytes")),
        }
    }
}

/// A run of a consumer that acknowledges.
#[derive(Debug)]
pub struct Acknowledger {
    partition: LogPartition,
    consumer: String,
    queue: QueueId,
    ack: Ack,
    tag: Tag,
}

impl std::fmt::Debug for LogPartition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogPartition({})", self.place())
    }
}

/// What a consumer of this queue has acknowledged; `None` if nothing yet. Changes nothing.
///
/// # Errors
/// When the store fails for good, or the register is damaged.
pub async fn acknowledged(
    partition: &LogPartition,
    consumer: &str,
    queue: QueueId,
) -> Result<Option<u64>, LogError> {
    let found = read(partition, consumer).await?;
    Ok(found.filter(|(ack, _)| id_of(&ack.queue) == queue.0).map(|(ack, _)| ack.position))
}

async fn read(partition: &LogPartition, consumer: &str) -> Result<Option<(Ack, Tag)>, LogError> {
    let key = partition.names().ack(consumer);
    let found = partition.patiently(|| partition.store().read_register(&key, ACK_BYTES_MAX)).await?;
    let Some((bytes, tag)) = found else { return Ok(None) };
    let ack = Ack::from_bytes(&bytes).map_err(|error| LogError::Format { key: key.to_string(), error })?;
    Ok(Some((ack, tag)))
}

impl Acknowledger {
    /// Begins a run of `consumer`: earlier ones acknowledge no more, and from now on retention waits for it.
    ///
    /// # Errors
    /// When the name is none, the log has as many consumers as it may, or the store fails for good.
    pub async fn claim(partition: LogPartition, consumer: &str, queue: QueueId) -> Result<Self, LogError> {
        if !is_consumer(consumer) {
            return Err(LogError::Refused(format!("`{consumer}` cannot name a consumer")));
        }
        let seen = partition.root().await?;
        if seen.root.queue_id() != queue {
            return Err(partition.recreated(queue, Some(seen.root.queue_id())));
        }
        let run = partition.runtime().random() as u64;
        let (ack, tag) = Self::begin(&partition, consumer, queue, run).await?;
        // Only now: retention that waits for a consumer without an acknowledgement keeps everything, which is right as well.
        let seen = partition.edit(Edit::Consumer(consumer.to_owned(), true)).await?;
        if !seen.root.consumers.iter().any(|name| name == consumer) {
            let count = seen.root.consumers.len();
            return Err(LogError::Refused(format!(
                "`{}` has {count} consumers, and as many may have at most; remove one: forebay log truncate --forget-consumer NAME",
                partition.place()
            )));
        }
        Ok(Self { partition, consumer: consumer.to_owned(), queue, ack, tag })
    }

    async fn begin(
        partition: &LogPartition,
        consumer: &str,
        queue: QueueId,
        run: u64,
    ) -> Result<(Ack, Tag), LogError> {
        let (mut refused, mut doubts) = (0, 0);
        let mut refusals = Refusals::default();
        while refused < SWAPS_MAX {
            let found = read(partition, consumer).await?;
            let (before, tag) = found.map_or((None, None), |(ack, tag)| (Some(ack), Some(tag)));
            if let (Some(ack), Some(tag)) = (&before, &tag)
                && ack.run == run
            {
                return Ok((ack.clone(), tag.clone()));
            }
            let before = before.unwrap_or_default();
            let position = if id_of(&before.queue) == queue.0 { before.position } else { 0 };
            let ack = Ack {
                queue: queue.0.to_be_bytes().to_vec(),
                epoch: before.epoch + 1,
                run,
                position,
                revision: before.revision + 1,
            };
            match swap(partition, consumer, tag.as_ref(), &ack).await? {
                Ok(Swap::Done(tag)) => return Ok((ack, tag)),
                Ok(Swap::Refused) => {
                    refused += 1;
                    let key = partition.names().ack(consumer);
                    partition.wait_refused(&mut refusals, tag.as_ref(), &key).await?;
                }
                Err(error) => partition.wait_in_doubt(&mut doubts, error).await?,
            }
        }
        Err(LogError::Refused(format!(
            "consumer `{consumer}` starts in several places all the time; stop all but one"
        )))
    }

    /// Records that every record below `position` is finished; an earlier position changes nothing.
    ///
    /// # Errors
    /// [`LogError::ConsumerFenced`] when another run of the consumer has begun.
    pub async fn acknowledge(&mut self, position: u64) -> Result<(), LogError> {
        let (mut refused, mut doubts) = (0, 0);
        let mut refusals = Refusals::default();
        while refused < SWAPS_MAX {
            if position <= self.ack.position {
                return Ok(());
            }
            let ack = Ack { position, revision: self.ack.revision + 1, ..self.ack.clone() };
            match swap(&self.partition, &self.consumer, Some(&self.tag), &ack).await? {
                Ok(Swap::Done(tag)) => {
                    (self.ack, self.tag) = (ack, tag);
                    return Ok(());
                }
                Ok(Swap::Refused) => {
                    refused += 1;
                    let key = self.partition.names().ack(&self.consumer);
                    self.partition.wait_refused(&mut refusals, Some(&self.tag), &key).await?;
                }
                Err(error) => self.partition.wait_in_doubt(&mut doubts, error).await?,
            }
            match read(&self.partition, &self.consumer).await? {
                Some((ack, tag)) if ack.run == self.ack.run => (self.ack, self.tag) = (ack, tag),
                Some((ack, _)) if id_of(&ack.queue) == self.queue.0 => {
                    return Err(LogError::ConsumerFenced {
                        place: self.partition.place(),
                        consumer: self.consumer.clone(),
                        epoch: ack.epoch,
                    });
                }
                found => {
                    let is = found.map(|(ack, _)| QueueId(id_of(&ack.queue)));
                    return Err(self.partition.recreated(self.queue, is));
                }
            }
        }
        Err(LogError::Refused(format!("the acknowledgement of `{}` changes all the time", self.consumer)))
    }

    /// What it has acknowledged.
    pub fn position(&self) -> u64 {
        self.ack.position
    }
}

/// One swap; the store's error if its answer was lost. Unless it is done the register must be read.
async fn swap(
    partition: &LogPartition,
    consumer: &str,
    tag: Option<&Tag>,
    ack: &Ack,
) -> Result<Result<Swap, StoreError>, LogError> {
    let (key, bytes) = (partition.names().ack(consumer), Bytes::from(ack.to_bytes()));
    let swapped = partition.patiently(|| async {
        match partition.store().compare_and_set(&key, tag, bytes.clone()).await {
            Err(error) if error.effect == dataflow::Effect::Unknown => Ok(Err(error)),
            result => result.map(Ok),
        }
    });
    swapped.await
}

#[cfg(test)]
mod tests;
