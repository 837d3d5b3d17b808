//! A topic made for one benchmark, filled as fast as the broker takes records or at a pace.
//!
//! Owns the topic and the pace. Does not own the records nor which partition they go to: those come from a workload ([`Records`]).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use sources::kafka::produce::{Outgoing, Producer};
use sources::kafka::topics::Topics;

/// How long the last records may take to be acknowledged.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(120);

/// Bursts of a paced producer: seldom enough to cost little, often enough to be far below a latency.
const BURSTS_PER_S: u64 = 500;

/// A producer at a pace: records that nobody else touches need no report each, and nothing is spent on making them smaller.
const PACED: [(&str, &str); 2] = [("delivery.report.only.error", "true"), ("batch.size", "1000000")];

/// Requests a second that a producer sends at the most: it sends each partition's records by a request of its own, and some thousands of them take most of
/// a broker's core.
const REQUESTS_PER_S_MAX: u64 = 4_000;

/// How long records wait for company at the least, milliseconds: it counts as latency.
const LINGER_MS_MIN: u64 = 5;

/// How long records of this rate wait for company, milliseconds.
fn linger_ms(rate: u64, partitions: u32) -> u64 {
    match rate <= REQUESTS_PER_S_MAX {
        true => LINGER_MS_MIN,
        false => (u64::from(partitions) * 1_000 / REQUESTS_PER_S_MAX).max(LINGER_MS_MIN),
    }
}

/// How late a sender may be at the most. What a later one loses is no latency of what is measured, so its run is not valid: the
/// bound is a quarter of the latency that is aimed at.
pub const SENDER_LATE_MAX: Duration = Duration::from_millis(100);

/// Why the figures of a run are not to be quoted whose sender was so late.
pub fn not_valid(sender_late: Duration) -> Option<String> {
    let (late_s, max_s) = (sender_late.as_secs_f64(), SENDER_LATE_MAX.as_secs_f64());
    (sender_late > SENDER_LATE_MAX).then(|| {
        format!("the sender was {late_s:.2} s late, and {max_s} s are allowed: the load was not the one that is named")
    })
}

/// Takes a record, with its number.
pub type Take<'a> = dyn FnMut(u64, Sending<'_>) -> anyhow::Result<()> + 'a;

/// What is sent: a workload's records in their order.
pub trait Records {
    /// Gives each record with its number, from 0, for a topic of so many partitions.
    ///
    /// # Errors
    /// The first error of `take`.
    fn each(&self, partitions: u32, take: &mut Take<'_>) -> anyhow::Result<()>;
}

/// A record to send.
#[derive(Clone, Copy, Debug)]
pub struct Sending<'a> {
    /// Where it goes.
    pub partition: u32,
    /// Its key, if it has one.
    pub key: Option<&'a [u8]>,
    /// Its body.
    pub payload: &'a [u8],
}

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

    /// Its partitions.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// Sends every record as fast as the broker takes them, and says how long that took. Blocks.
    ///
    /// # Errors
    /// When a record is not acknowledged.
    pub fn fill(&self, records: &dyn Records) -> anyhow::Result<Duration> {
        let producer = Producer::new(&self.brokers, &self.properties, None)?;
        let began = Instant::now();
        records.each(self.partitions, &mut |number, sending| self.publish(&producer, number, sending))?;
        producer.flush(ACKNOWLEDGED_WITHIN)?;
        Ok(began.elapsed())
    }

    /// Sends records at a pace. Blocks.
    ///
    /// # Errors
    /// When a record is not acknowledged.
    pub fn send(&self, records: &dyn Records, pace: Pace) -> anyhow::Result<Sent> {
        let mut properties = self.properties.clone();
        for (name, value) in PACED {
            properties.insert(name.to_owned(), value.to_owned());
        }
        properties.insert("linger.ms".to_owned(), linger_ms(pace.rate, self.partitions).to_string());
        let producer = Producer::new(&self.brokers, &properties, None)?;
        let (mut late_max, mut waiting_max, began) = (Duration::ZERO, 0, Instant::now());
        records.each(self.partitions, &mut |number, sending| {
            if pace.is_first(number) {
                late_max = late_max.max(pace.keep(number));
                waiting_max = waiting_max.max(producer.waiting());
            }
            self.publish(&producer, number, sending)
        })?;
        producer.flush(ACKNOWLEDGED_WITHIN)?;
        Ok(Sent { pace, late_max, waiting_max, took: began.elapsed() })
    }

    fn publish(&self, producer: &Producer, number: u64, sending: Sending<'_>) -> anyhow::Result<()> {
        let Sending { partition, key, payload } = sending;
        let outgoing = Outgoing {
            topic: &self.name,
            partition: Some(partition),
            key,
            payload: Some(payload),
            ..Outgoing::default()
        };
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

/// What was sent at a pace.
pub struct Sent {
    pub(crate) pace: Pace,
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
    pub(crate) fn is_first(&self, number: u64) -> bool {
        number.is_multiple_of(self.burst)
    }

    /// Waits until a record is due; says how late it is.
    pub(crate) fn keep(&self, number: u64) -> Duration {
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
    fn records_wait_for_company_where_each_would_be_a_request() {
        assert_eq!((linger_ms(4_000, 64), linger_ms(250_000, 8), linger_ms(250_000, 64)), (5, 5, 16));
    }

    #[test]
    fn a_run_whose_sender_was_late_is_not_valid() {
        assert_eq!(not_valid(SENDER_LATE_MAX), None);
        assert!(not_valid(Duration::from_millis(250)).is_some_and(|why| why.contains("0.25 s late")));
    }
}
