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

/// Bursts of a paced producer: seldom enough to cost little, often enough to be far below a latency.
const BURSTS_PER_S: u64 = 500;

/// A topic made for one benchmark.
#[derive(Clone)]
pub struct Topic {
    brokers: Vec<String>,
    name: String,
    partitions: u32,
    properties: BTreeMap<String, String>,
    /// How long it took to fill it before the runs.
    pub filled_in: Option<Duration>,
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
        Ok(Self { brokers, name, partitions, properties, filled_in: None })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends every record of the workload, at a pace or as fast as the broker takes them. Blocks.
    ///
    /// # Errors
    /// When a record is not acknowledged.
    pub fn fill(&self, workload: &Workload, pace: Option<Pace>) -> anyhow::Result<Sent> {
        let mut properties = self.properties.clone();
        if pace.is_some() {
            // What waits for company counts as latency.
            properties.insert("linger.ms".to_owned(), "5".to_owned());
        }
        let producer = Producer::new(&self.brokers, &properties, None)?;
        let (mut late_max, began) = (Duration::ZERO, Instant::now());
        each(workload, |number, record| {
            if let Some(pace) = &pace {
                late_max = late_max.max(pace.keep(number));
            }
            let partition = Some((number % u64::from(self.partitions)) as u32);
            let outgoing =
                Outgoing { topic: &self.name, partition, payload: Some(record), ..Outgoing::default() };
            producer.send(&outgoing).with_context(|| format!("record `{number}`"))
        })?;
        producer.flush(ACKNOWLEDGED_WITHIN)?;
        Ok(Sent { pace, late_max, took: began.elapsed() })
    }

    /// Deletes the topic.
    ///
    /// # Errors
    /// When the brokers do not answer or refuse.
    pub async fn delete(&self) -> anyhow::Result<()> {
        Ok(Topics::new(&self.brokers, &BTreeMap::new())?.delete(&self.name).await?)
    }
}

/// Gives every record of the workload with its number, the publishers in turn: the order in which they are sent.
///
/// # Errors
/// The first error of `take`.
pub fn each<E>(workload: &Workload, mut take: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut record = Vec::with_capacity(RECORD_BYTES_MAX);
    let publishers = workload.spec().publishers;
    let longest = (0..publishers).map(|publisher| workload.records(publisher)).max().unwrap_or(0);
    let mut number = 0;
    for position in 0..longest {
        for publisher in 0..publishers {
            record.clear();
            if workload.write(publisher, position, &mut record).is_some() {
                take(number, &record)?;
                number += 1;
            }
        }
    }
    Ok(())
}

/// What was sent.
pub struct Sent {
    pace: Option<Pace>,
    /// How late a burst began at the most.
    pub late_max: Duration,
    /// From the first record to the last acknowledgement.
    pub took: Duration,
}

impl Sent {
    /// When a record was due, since the pace's beginning; at once without a pace.
    pub fn due(&self, number: u64) -> Duration {
        self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.due(number))
    }
}

/// An open loop: what is due is sent, however slow the reader is. Records go in bursts of a five-hundredth of a second.
pub struct Pace {
    rate: u64,
    burst: u64,
    began: Instant,
}

impl Pace {
    /// So many records a second, from `began` on.
    pub fn new(rate: u64, began: Instant) -> Self {
        Self { rate, burst: (rate / BURSTS_PER_S).max(1), began }
    }

    /// Its beginning.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// When a record is due: with the first one of its burst.
    fn due(&self, number: u64) -> Duration {
        let first = number - number % self.burst;
        Duration::from_secs_f64(first as f64 / self.rate as f64)
    }

    /// Waits until a record is due; tells how late it is.
    fn keep(&self, number: u64) -> Duration {
        if !number.is_multiple_of(self.burst) {
            return Duration::ZERO;
        }
        let due = self.began + self.due(number);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        Instant::now().saturating_duration_since(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_due_with_its_burst_and_never_later_than_its_number_says() {
        let pace = Pace::new(50_000, Instant::now());
        assert_eq!(
            (pace.due(0), pace.due(99), pace.due(100)),
            (Duration::ZERO, Duration::ZERO, Duration::from_millis(2))
        );
        assert_eq!(pace.due(50_000), Duration::from_secs(1));
        assert_eq!(Pace::new(3, Instant::now()).due(6), Duration::from_secs(2));
    }

    #[test]
    fn every_record_has_one_number_in_order() {
        let spec = workloads::glassflow::Spec { uniques: 50, ..Default::default() };
        let workload = Workload::new(spec).expect("valid");
        let mut numbers = Vec::new();
        let all: Result<(), ()> = each(&workload, |number, _| {
            numbers.push(number);
            Ok(())
        });
        assert_eq!((all, numbers.len() as u64), (Ok(()), workload.records_total()));
        assert!(numbers.iter().copied().eq(0..workload.records_total()));
    }
}
