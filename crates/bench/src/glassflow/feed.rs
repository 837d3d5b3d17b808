//! Fills a Kafka topic with the workload.
//!
//! Owns the topic, the spread over its partitions and the pace. The records are those of `workloads`.
//!
//! Record n goes to partition n mod partitions, so that most duplicates stand in another partition than their original: a
//! reader that deduplicates by partition, or trusts in the order of two partitions, gives a wrong table.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sources::kafka::produce::{Outgoing, Producer};
use sources::kafka::topics::Topics;
use workloads::glassflow::{RECORD_BYTES_MAX, Workload};

/// How long the last records may take to be acknowledged.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(120);

/// Bursts of a paced producer: seldom enough to cost little, often enough to be far below a latency.
const BURSTS_PER_S: u64 = 500;

/// A producer at a pace: what waits for company counts as latency, records that nobody else touches need no report each, and
/// nothing is spent on making them smaller.
const PACED: [(&str, &str); 3] =
    [("linger.ms", "5"), ("delivery.report.only.error", "true"), ("batch.size", "1000000")];

/// Bytes that records may take while they wait for their time: a quarter of the memory of a small machine.
const PREPARED_BYTES_MAX: u64 = 4 << 30;

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

    /// Sends every record of the workload as fast as the broker takes them, and says how long that took. Blocks.
    ///
    /// # Errors
    /// When a record is not acknowledged.
    pub fn fill(&self, workload: &Workload) -> anyhow::Result<Duration> {
        let producer = Producer::new(&self.brokers, &self.properties, None)?;
        let began = Instant::now();
        each(workload, |number, record| self.publish(&producer, number, record))?;
        producer.flush(ACKNOWLEDGED_WITHIN)?;
        Ok(began.elapsed())
    }

    /// Sends prepared records at a pace. Blocks.
    ///
    /// # Errors
    /// When a record is not acknowledged.
    pub fn send(&self, prepared: &Prepared, pace: Pace) -> anyhow::Result<Sent> {
        let mut properties = self.properties.clone();
        for (name, value) in PACED {
            properties.insert(name.to_owned(), value.to_owned());
        }
        let producer = Producer::new(&self.brokers, &properties, None)?;
        let (mut late_max, mut waiting_max, began) = (Duration::ZERO, 0, Instant::now());
        for (number, record) in (0..).zip(prepared.records()) {
            if pace.is_first(number) {
                late_max = late_max.max(pace.keep(number));
                waiting_max = waiting_max.max(producer.waiting());
            }
            self.publish(&producer, number, record)?;
        }
        producer.flush(ACKNOWLEDGED_WITHIN)?;
        Ok(Sent { pace, late_max, waiting_max, took: began.elapsed() })
    }

    fn publish(&self, producer: &Producer, number: u64, record: &[u8]) -> anyhow::Result<()> {
        let partition = Some((number % u64::from(self.partitions)) as u32);
        let outgoing =
            Outgoing { topic: &self.name, partition, payload: Some(record), ..Outgoing::default() };
        producer.send(&outgoing).with_context(|| format!("record `{number}`"))
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

/// Records that were made before they are due, so that their making takes nothing from what is measured.
pub struct Prepared {
    /// Each record behind its length, one byte.
    bytes: Vec<u8>,
}

impl Prepared {
    /// All records of a workload, in the order in which they are sent.
    ///
    /// # Errors
    /// When they are too many to be held in memory.
    pub fn new(workload: &Workload) -> anyhow::Result<Self> {
        let records = workload.records_total();
        let bytes_max = records.saturating_mul(RECORD_BYTES_MAX as u64 + 1);
        ensure!(
            bytes_max <= PREPARED_BYTES_MAX,
            "`{records}` records are too many to be held in memory until they are due; give fewer `--uniques`"
        );
        let mut bytes = Vec::with_capacity(bytes_max as usize);
        each(workload, |_, record| -> anyhow::Result<()> {
            bytes.push(u8::try_from(record.len()).context("a record longer than it can be")?);
            bytes.extend_from_slice(record);
            Ok(())
        })?;
        Ok(Self { bytes })
    }

    fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (len, others) = rest.split_first()?;
            let record;
            (record, rest) = others.split_at(usize::from(*len));
            Some(record)
        })
    }
}

/// What was sent at a pace.
pub struct Sent {
    pace: Pace,
    /// How late a burst began at the most.
    pub late_max: Duration,
    /// Records that waited to be acknowledged when a burst began, at the most.
    pub waiting_max: u64,
    /// From the first record to the last acknowledgement.
    pub took: Duration,
}

impl Sent {
    /// When a record was due, since the pace's beginning.
    pub fn due(&self, number: u64) -> Duration {
        self.pace.due(number)
    }

    /// For how long the broker had not acknowledged what was sent, at the most: the records that waited, at the pace's rate.
    pub fn waiting_max(&self) -> Duration {
        Duration::from_secs_f64(self.waiting_max as f64 / self.pace.rate as f64)
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

    /// True if a burst begins with this record.
    fn is_first(&self, number: u64) -> bool {
        number.is_multiple_of(self.burst)
    }

    /// Waits until a record is due; says how late it is.
    fn keep(&self, number: u64) -> Duration {
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
    fn prepared_records_are_those_of_the_workload() {
        let spec = workloads::glassflow::Spec { uniques: 50, ..Default::default() };
        let workload = Workload::new(spec).expect("valid");
        let prepared = Prepared::new(&workload).expect("few");
        let mut records = prepared.records();
        let same: Result<(), ()> =
            each(&workload, |_, record| if records.next() == Some(record) { Ok(()) } else { Err(()) });
        assert_eq!((same, records.next()), (Ok(()), None));
    }

    #[test]
    fn records_that_memory_cannot_hold_are_refused() {
        let spec = workloads::glassflow::Spec { uniques: 1 << 30, ..Default::default() };
        assert!(Prepared::new(&Workload::new(spec).expect("valid")).is_err());
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
