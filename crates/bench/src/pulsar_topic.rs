//! A topic of Pulsar, filled with a workload's records as fast as the broker takes them, or at a pace.
//!
//! Owns the producers, one a partition. Does not own the pace (`crate::topic`) nor the topic: it is there, empty, and with a subscription that
//! keeps what nobody acknowledges, as `testkit`'s example `with-pulsar` makes it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SendError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use engine::TokioRuntime;
use sources::pulsar::PulsarOptions;
use sources::pulsar::produce::{Compression, Outgoing, Producer};

use crate::topic::{Pace, Records, Sent};

/// Messages of a batch, as producers pack them at a high rate.
const BATCH: usize = 1_000;

/// At a pace a message waits so long for company, as with the paced producer of Kafka, and longer while its thread has enough to send: a thread sends some
/// hundred batches a second, so they must grow with the pace. What it waits counts as latency.
const LINGER: Duration = Duration::from_millis(5);

/// Threads that send at a pace. A producer waits for the receipt of each batch, so each of these has a share of the partitions.
const SENDERS_MAX: usize = 8;

/// Batches that wait for a thread. Those of partitions that find no place grow to [`BATCH`] messages; then the broker holds the pace up, and the run is not
/// valid for its sender's lateness.
const WAITING_MAX: usize = 8;

/// An empty topic of a Pulsar, to be filled by this benchmark.
#[derive(Clone)]
pub struct PulsarTopic {
    service: String,
    name: String,
    partitions: u32,
    compression: Compression,
    /// How long it took to fill it before the runs.
    pub filled_in: Option<Duration>,
}

/// A partition's producer, and what waits for its next batch.
struct Batch {
    producer: Producer,
    waiting: Messages,
}

/// Messages of one batch.
#[derive(Default)]
struct Messages {
    /// Keys and bodies, one behind the other.
    bytes: Vec<u8>,
    /// Where each message's key ends, and its body.
    ends: Vec<(usize, usize)>,
}

impl PulsarTopic {
    /// The topic of this name, which has so many partitions.
    ///
    /// # Errors
    /// When Pulsar has no such compression.
    pub fn new(service: &str, name: &str, partitions: u32, compression: &str) -> anyhow::Result<Self> {
        let compression = match compression {
            "none" => Compression::None,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            "snappy" => Compression::Snappy,
            other => bail!("Pulsar packs batches by `none`, `lz4`, `zstd` or `snappy`, not by `{other}`"),
        };
        let (service, name) = (service.to_owned(), name.to_owned());
        Ok(Self { service, name, partitions, compression, filled_in: None })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its brokers are.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Sends every record, and says how long that took. Blocks; called on a thread of the tokio runtime.
    ///
    /// # Errors
    /// When a batch is not stored.
    pub fn fill(&self, records: &dyn Records) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let mut batches = self.batches()?;
        records.each(self.partitions, &mut |_, sending| {
            let batch = &mut batches[sending.partition as usize];
            batch.waiting.add(sending.key, sending.payload);
            if batch.waiting.len() == BATCH { batch.send(self.compression) } else { Ok(()) }
        })?;
        batches.iter_mut().try_for_each(|batch| batch.send(self.compression))?;
        Ok(began.elapsed())
    }

    /// Sends records at a pace. Blocks; called on a thread of the tokio runtime.
    ///
    /// # Errors
    /// When a batch is not stored.
    pub fn send(&self, records: &dyn Records, pace: Pace) -> anyhow::Result<Sent> {
        let senders = SENDERS_MAX.min(self.partitions as usize);
        let mut shares: Vec<Vec<Batch>> = (0..senders).map(|_| Vec::new()).collect();
        for (partition, batch) in self.batches()?.into_iter().enumerate() {
            shares[partition % senders].push(batch);
        }
        let unstored = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let (mut queues, mut sending) = (Vec::new(), Vec::new());
            for share in shares {
                let (queue, batches) = sync_channel(WAITING_MAX);
                let (unstored, compression) = (&unstored, self.compression);
                queues.push(queue);
                sending.push(scope.spawn(move || store(share, &batches, compression, unstored)));
            }
            let sent = self.pour(records, pace, &queues, &unstored);
            // The threads end once nothing can come any more.
            drop(queues);
            for thread in sending {
                // Why a thread has ended is the cause of an error of `pour`, too.
                thread.join().map_err(|_| anyhow::anyhow!("a sender panicked"))??;
            }
            let (sent, began) = sent?;
            Ok(Sent { took: began.elapsed(), ..sent })
        })
    }

    /// Hands records to the threads when they are due; and the moment of the first.
    fn pour(
        &self,
        records: &dyn Records,
        pace: Pace,
        queues: &[SyncSender<(usize, Messages)>],
        unstored: &AtomicU64,
    ) -> anyhow::Result<(Sent, Instant)> {
        let began = Instant::now();
        let mut waiting: Vec<Messages> = (0..self.partitions).map(|_| Messages::default()).collect();
        let hand_over = |partition: usize, messages: &mut Messages, must_wait: bool| {
            let count = messages.len() as u64;
            unstored.fetch_add(count, Ordering::Relaxed);
            let order = (partition / queues.len(), std::mem::take(messages));
            let queue = &queues[partition % queues.len()];
            let sent = match must_wait {
                true => queue.send(order).map_err(|SendError(order)| TrySendError::Disconnected(order)),
                false => queue.try_send(order),
            };
            match sent {
                Ok(()) => Ok(()),
                Err(TrySendError::Full((_, kept))) => {
                    unstored.fetch_sub(count, Ordering::Relaxed);
                    *messages = kept;
                    Ok(())
                }
                Err(TrySendError::Disconnected(_)) => bail!("a sender has ended"),
            }
        };
        // Each time others come first, so that each finds a place in its turn.
        let mut turn = 0;
        let (mut late_max, mut waiting_max, mut handed_over) = (Duration::ZERO, 0, Instant::now());
        records.each(self.partitions, &mut |number, sending| {
            if pace.is_first(number) {
                late_max = late_max.max(pace.keep(number));
                waiting_max = waiting_max.max(unstored.load(Ordering::Relaxed));
                if handed_over.elapsed() >= LINGER {
                    handed_over = Instant::now();
                    turn = (turn + queues.len()) % waiting.len();
                    for at in 0..waiting.len() {
                        let partition = (turn + at) % waiting.len();
                        let messages = &mut waiting[partition];
                        if messages.len() > 0 {
                            hand_over(partition, messages, false)?;
                        }
                    }
                }
            }
            let messages = &mut waiting[sending.partition as usize];
            messages.add(sending.key, sending.payload);
            let is_full = messages.len() == BATCH;
            if is_full { hand_over(sending.partition as usize, messages, true) } else { Ok(()) }
        })?;
        for (partition, messages) in waiting.iter_mut().enumerate() {
            hand_over(partition, messages, true)?;
        }
        Ok((Sent { pace, late_max, waiting_max, took: Duration::ZERO }, began))
    }

    /// A producer of each partition.
    fn batches(&self) -> anyhow::Result<Vec<Batch>> {
        let runtime = TokioRuntime::new(1);
        let batch = |partition| {
            let options = PulsarOptions::new(&self.service, std::slice::from_ref(&self.name), "bench-fill")?;
            let topic = format!("{}-partition-{partition}", self.name);
            let producer = Producer::new(options, &topic, runtime.clone())?;
            Ok(Batch { producer, waiting: Messages::default() })
        };
        (0..self.partitions).map(batch).collect()
    }
}

/// Sends what comes, each batch by the producer of its place in `share`, until nothing can come any more.
fn store(
    mut share: Vec<Batch>,
    batches: &Receiver<(usize, Messages)>,
    compression: Compression,
    unstored: &AtomicU64,
) -> anyhow::Result<()> {
    while let Ok((place, messages)) = batches.recv() {
        let count = messages.len() as u64;
        share[place].waiting = messages;
        share[place].send(compression)?;
        unstored.fetch_sub(count, Ordering::Relaxed);
    }
    Ok(())
}

impl Messages {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn add(&mut self, key: Option<&[u8]>, payload: &[u8]) {
        self.bytes.extend_from_slice(key.unwrap_or_default());
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.ends.push((key_end, self.bytes.len()));
    }
}

impl Batch {
    fn send(&mut self, compression: Compression) -> anyhow::Result<()> {
        let mut begin = 0;
        let mut messages = Vec::with_capacity(self.waiting.ends.len());
        for (key_end, end) in &self.waiting.ends {
            let key = std::str::from_utf8(&self.waiting.bytes[begin..*key_end])?;
            ensure!(!key.is_empty(), "a message without a key");
            messages.push(Outgoing {
                payload: Some(&self.waiting.bytes[*key_end..*end]),
                key: Some(key),
                ..Outgoing::default()
            });
            begin = *end;
        }
        if !messages.is_empty() {
            self.producer.batch(&messages, compression)?;
        }
        self.waiting.bytes.clear();
        self.waiting.ends.clear();
        Ok(())
    }
}
