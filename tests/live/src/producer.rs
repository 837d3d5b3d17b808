//! Records into the topic of a case.
//!
//! Owns the topic's name and the wait for acknowledgements. Does not own what the records say (each test). Everything that is sent is in
//! the log when a call returns.

use std::collections::BTreeMap;
use std::time::Duration;

use sources::kafka::produce::{Outgoing, Producer};
use testkit::Kafka;

/// An idle broker acknowledges within milliseconds; one that just started to make a topic, within seconds.
const FLUSH_MAX: Duration = crate::PATIENCE;

/// Sends to one topic.
pub struct Feed {
    producer: Producer,
    topic: String,
}

impl Feed {
    /// A feed of `topic`.
    ///
    /// # Panics
    /// When the client cannot be made.
    pub fn new(kafka: &Kafka, topic: &str) -> Feed {
        Feed::with(kafka, topic, None)
    }

    /// A feed whose records are sent within transactions.
    ///
    /// # Panics
    /// When the client cannot be made.
    pub fn transactional(kafka: &Kafka, topic: &str) -> Feed {
        Feed::with(kafka, topic, Some(topic))
    }

    fn with(kafka: &Kafka, topic: &str, transactional_id: Option<&str>) -> Feed {
        let properties = BTreeMap::from([("message.max.bytes".to_owned(), "67108864".to_owned())]);
        let producer = Producer::new(&[kafka.bootstrap()], &properties, transactional_id);
        Feed { producer: producer.expect("a producer"), topic: topic.to_owned() }
    }

    /// Sends bodies to partition 0, in order.
    pub fn send<B: AsRef<[u8]>>(&self, bodies: impl IntoIterator<Item = B>) {
        self.send_to(0, bodies);
    }

    /// Sends bodies to one partition, in order.
    pub fn send_to<B: AsRef<[u8]>>(&self, partition: u32, bodies: impl IntoIterator<Item = B>) {
        for body in bodies {
            self.push(partition, body.as_ref());
        }
        self.flush();
    }

    /// Sends bodies to the partitions in turn.
    pub fn spread<B: AsRef<[u8]>>(&self, bodies: impl IntoIterator<Item = B>) {
        for (n, body) in bodies.into_iter().enumerate() {
            self.push(n as u32 % crate::case::PARTITIONS, body.as_ref());
        }
        self.flush();
    }

    /// Hands one body over, without a wait for its acknowledgement.
    pub fn push(&self, partition: u32, body: &[u8]) {
        self.put(&Outgoing { partition: Some(partition), payload: Some(body), ..Outgoing::default() });
    }

    /// Hands any record over; the topic is the feed's own.
    ///
    /// # Panics
    /// When the broker refuses it.
    pub fn put(&self, record: &Outgoing<'_>) {
        self.producer
            .send(&Outgoing { topic: &self.topic, ..*record })
            .expect("the broker must take a record");
    }

    /// Waits until all that was handed over is in the log.
    ///
    /// # Panics
    /// When the broker does not acknowledge.
    pub fn flush(&self) {
        self.producer.flush(FLUSH_MAX).expect("the broker must acknowledge");
    }

    /// Sends `bodies` to partition 0 in a transaction of their own, which is committed or aborted.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn transaction<B: AsRef<[u8]>>(&self, bodies: impl IntoIterator<Item = B>, commit: bool) {
        self.producer.begin().expect("a transaction");
        for body in bodies {
            self.push(0, body.as_ref());
        }
        let end = if commit { self.producer.commit(FLUSH_MAX) } else { self.producer.abort(FLUSH_MAX) };
        end.expect("the transaction must end");
    }
}
