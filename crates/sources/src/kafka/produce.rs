//! Puts records into Kafka: for `forebay generate` and for tests.
//!
//! Owns idempotence, back-pressure and the wait for every acknowledgement. Does not own the records (`workloads`). Not on the data's path:
//! nothing that a pipeline delivers goes through here. All calls block.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dataflow::{SourceError, SourceFault};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};

use super::config::config;

/// How long a full queue is waited for at once. It empties as fast as the broker acknowledges.
const FULL_WAIT: Duration = Duration::from_millis(100);

/// A record to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outgoing<'a> {
    /// The topic; must exist, or the broker must create topics by itself.
    pub topic: &'a str,
    /// The partition; `None` leaves it to the hash of the key, or to chance without a key.
    pub partition: Option<u32>,
    /// The body; `None` is a tombstone.
    pub payload: Option<&'a [u8]>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// Unix milliseconds; `None` is now.
    pub time_ms: Option<i64>,
    /// In order.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}

#[derive(Default)]
struct Acks {
    failure: Mutex<Option<String>>,
}

impl ClientContext for Acks {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        if (level as i32) <= RDKafkaLogLevel::Warning as i32 {
            tracing::warn!(target: "librdkafka", facility, "{line}");
        } else {
            tracing::debug!(target: "librdkafka", facility, "{line}");
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(target: "librdkafka", %error, reason);
    }
}

impl ProducerContext for Acks {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            let place = format!("{}/{}", message.topic(), message.partition());
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| format!("a record for `{place}` was not accepted: {error}"));
        }
    }
}

/// An idempotent producer that waits for all replicas.
pub struct Producer {
    inner: BaseProducer<Acks>,
}

impl Producer {
    /// A producer; connects in the background. `properties` are librdkafka's. With a `transactional_id` records must be
    /// sent between [`begin`](Self::begin) and [`commit`](Self::commit) or [`abort`](Self::abort).
    ///
    /// # Errors
    /// [`SourceFault::Config`] for properties that librdkafka does not take, [`SourceFault::Away`] when transactions
    /// cannot be set up.
    pub fn new(
        brokers: &[String],
        properties: &BTreeMap<String, String>,
        transactional_id: Option<&str>,
    ) -> Result<Self, SourceError> {
        let mut settings = ClientConfig::new();
        settings
            .set("client.id", "forebay")
            .set("linger.ms", "20")
            .set("compression.type", "lz4")
            // Bytes that wait for their acknowledgement.
            .set("queue.buffering.max.kbytes", "131072")
            .set("queue.buffering.max.messages", "1000000");
        for (name, value) in properties {
            settings.set(name, value);
        }
        settings
            .set("bootstrap.servers", brokers.join(","))
            .set("enable.idempotence", "true")
            .set("acks", "all");
        if let Some(id) = transactional_id {
            settings.set("transactional.id", id);
        }
        let inner: BaseProducer<Acks> = settings
            .create_with_context(Acks::default())
            .map_err(|error| config(format!("kafka's producer cannot be set up: {error}")))?;
        if transactional_id.is_some() {
            inner.init_transactions(super::CALL_WAIT_MAX).map_err(|error| away("transactions", &error))?;
        }
        Ok(Self { inner })
    }

    /// Hands a record over; waits while too many are unacknowledged.
    ///
    /// # Errors
    /// The record cannot be sent, or one before it was refused for good.
    pub fn send(&self, record: &Outgoing<'_>) -> Result<(), SourceError> {
        let mut base = BaseRecord::<[u8], [u8]>::to(record.topic);
        base.payload = record.payload;
        base.key = record.key;
        base.partition = record.partition.map(|partition| partition as i32);
        base.timestamp = record.time_ms;
        if !record.headers.is_empty() {
            let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
            for (key, value) in record.headers {
                headers = headers.insert(Header { key, value: *value });
            }
            base.headers = Some(headers);
        }
        loop {
            match self.inner.send(base) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    base = again;
                    self.inner.poll(FULL_WAIT);
                    self.failure()?;
                }
                Err((error, _)) => return Err(away("a record", &error)),
            }
        }
        Ok(())
    }

    /// Records that are not acknowledged yet.
    pub fn waiting(&self) -> u64 {
        u64::try_from(self.inner.in_flight_count()).unwrap_or(0)
    }

    /// Waits until every record was acknowledged.
    ///
    /// # Errors
    /// One was refused, or `wait_max` was not enough.
    pub fn flush(&self, wait_max: Duration) -> Result<(), SourceError> {
        self.inner.flush(wait_max).map_err(|error| away("the last records", &error))?;
        self.failure()
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Result<(), SourceError> {
        self.inner.begin_transaction().map_err(|error| away("a transaction", &error))
    }

    /// Commits it, with all records sent since.
    pub fn commit(&self, wait_max: Duration) -> Result<(), SourceError> {
        self.inner.commit_transaction(wait_max).map_err(|error| away("a transaction", &error))?;
        self.failure()
    }

    /// Aborts it: its records stay in the log, but are not for readers of committed records.
    pub fn abort(&self, wait_max: Duration) -> Result<(), SourceError> {
        // Records must be in the log first, or there is nothing to abort and purged ones would count as refused.
        self.inner.flush(wait_max).map_err(|error| away("the last records", &error))?;
        self.inner.abort_transaction(wait_max).map_err(|error| away("a transaction", &error))
    }

    fn failure(&self) -> Result<(), SourceError> {
        let failure = self.inner.context().failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.map_or(Ok(()), |failure| Err(SourceError::new(SourceFault::Away, failure)))
    }
}

fn away(what: &str, error: &KafkaError) -> SourceError {
    SourceError::new(SourceFault::Away, format!("kafka does not take {what}: {error}"))
}
