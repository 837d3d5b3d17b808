//! A topic of Pulsar, filled with a workload's records.
//!
//! Owns the producers, one a partition. Does not own the topic: it is there, empty, and with a subscription that keeps what nobody
//! acknowledges, as `testkit`'s example `with-pulsar` makes it.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use engine::TokioRuntime;
use sources::pulsar::PulsarOptions;
use sources::pulsar::produce::{Compression, Outgoing, Producer};

use crate::topic::Records;

/// Messages of a batch, as producers pack them at a high rate.
const BATCH: usize = 1_000;

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

/// What waits for a partition's next batch.
struct Batch {
    producer: Producer,
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
        let runtime = TokioRuntime::new(1);
        let began = Instant::now();
        let mut batches = Vec::new();
        for partition in 0..self.partitions {
            let options = PulsarOptions::new(&self.service, std::slice::from_ref(&self.name), "bench-fill")?;
            let topic = format!("{}-partition-{partition}", self.name);
            let producer = Producer::new(options, &topic, runtime.clone())?;
            batches.push(Batch { producer, bytes: Vec::new(), ends: Vec::new() });
        }
        records.each(self.partitions, &mut |_, sending| {
            let batch = &mut batches[sending.partition as usize];
            batch.bytes.extend_from_slice(sending.key.unwrap_or_default());
            let key_end = batch.bytes.len();
            batch.bytes.extend_from_slice(sending.payload);
            batch.ends.push((key_end, batch.bytes.len()));
            if batch.ends.len() == BATCH { batch.send(self.compression) } else { Ok(()) }
        })?;
        batches.iter_mut().try_for_each(|batch| batch.send(self.compression))?;
        Ok(began.elapsed())
    }
}

impl Batch {
    fn send(&mut self, compression: Compression) -> anyhow::Result<()> {
        let mut begin = 0;
        let mut messages = Vec::with_capacity(self.ends.len());
        for (key_end, end) in &self.ends {
            let key = std::str::from_utf8(&self.bytes[begin..*key_end])?;
            ensure!(!key.is_empty(), "a message without a key");
            messages.push(Outgoing {
                payload: Some(&self.bytes[*key_end..*end]),
                key: Some(key),
                ..Outgoing::default()
            });
            begin = *end;
        }
        if !messages.is_empty() {
            self.producer.batch(&messages, compression)?;
        }
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }
}
