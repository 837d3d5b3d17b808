//! Fills a Kafka topic with the workload.
//!
//! Owns the topic, the spread over its partitions and the pace. The records are those of `workloads`.
//!
//! Record n goes to partition n mod partitions, so that most duplicates stand in another partition than their original: a
//! reader that deduplicates by partition, or trusts in the order of two partitions, gives a wrong table.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use sources::kafka::produce::{Outgoing, Producer};
use sources::kafka::topics::Topics;
use workloads::glassflow::{RECORD_BYTES_MAX, Workload};

/// How long the last records may take to be acknowledged.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(120);

/// A paced producer looks at the clock after so many records at the most: a hundredth of a second at 100,000 a second.
const PACED_RECORDS_MAX: u64 = 1_000;

/// A topic made for one benchmark.
pub struct Topic {
    brokers: Vec<String>,
    name: String,
    partitions: u32,
    properties: BTreeMap<String, String>,
}

impl Topic {
    /// Makes an empty topic. `compression` is librdkafka's word for how producers pack batches.
    ///
    /// # Errors
    /// When the brokers do not answer or refuse.
    pub async fn create(
        brokers: &str,
        name: String,
        partitions: u32,
        compression: &str,
    ) -> anyhow::Result<Self> {
        let brokers: Vec<String> = brokers.split(',').map(|broker| broker.trim().to_owned()).collect();
        Topics::new(&brokers, &BTreeMap::new())?.create(&name, partitions).await?;
        let properties = BTreeMap::from([("compression.type".to_owned(), compression.to_owned())]);
        Ok(Self { brokers, name, partitions, properties })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends every record of the workload, at `rate` records a second or as fast as the broker takes them. Blocks.
    ///
    /// # Errors
    /// When a record is not acknowledged.
    pub fn fill(&self, workload: &Workload, rate: Option<u64>) -> anyhow::Result<()> {
        let mut properties = self.properties.clone();
        if rate.is_some() {
            // What waits for company counts as latency.
            properties.insert("linger.ms".to_owned(), "5".to_owned());
        }
        let producer = Producer::new(&self.brokers, &properties, None)?;
        let mut pace = rate.map(Pace::new);
        let mut record = Vec::with_capacity(RECORD_BYTES_MAX);
        let publishers = workload.spec().publishers;
        let longest = (0..publishers).map(|publisher| workload.records(publisher)).max().unwrap_or(0);
        let mut sent = 0;
        for position in 0..longest {
            for publisher in 0..publishers {
                record.clear();
                if workload.write(publisher, position, &mut record).is_none() {
                    continue;
                }
                let partition = Some((sent % u64::from(self.partitions)) as u32);
                let outgoing =
                    Outgoing { topic: &self.name, partition, payload: Some(&record), ..Outgoing::default() };
                producer.send(&outgoing).with_context(|| format!("record `{sent}`"))?;
                sent += 1;
                if let Some(pace) = &mut pace {
                    pace.keep(sent);
                }
            }
        }
        Ok(producer.flush(ACKNOWLEDGED_WITHIN)?)
    }

    /// Deletes the topic.
    ///
    /// # Errors
    /// When the brokers do not answer or refuse.
    pub async fn delete(&self) -> anyhow::Result<()> {
        Ok(Topics::new(&self.brokers, &BTreeMap::new())?.delete(&self.name).await?)
    }
}

/// An open loop: what is due is sent, however slow the reader is.
struct Pace {
    rate: u64,
    every: u64,
    began: Instant,
}

impl Pace {
    fn new(rate: u64) -> Self {
        Self { rate, every: (rate / 100).clamp(1, PACED_RECORDS_MAX), began: Instant::now() }
    }

    /// Waits until record `sent` is due.
    fn keep(&mut self, sent: u64) {
        if sent.is_multiple_of(self.every) {
            let due = Duration::from_secs_f64(sent as f64 / self.rate as f64);
            std::thread::sleep(due.saturating_sub(self.began.elapsed()));
        }
    }
}
