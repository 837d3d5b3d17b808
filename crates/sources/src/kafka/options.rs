//! What a read of Kafka topics may be told.
//!
//! Owns the options and their defaults. Does not own what librdkafka is set to because of them (`kafka::config`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::token::TokenSource;

/// Where a pipeline that has never read a partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record that is held.
    Earliest,
    /// After the newest record.
    Latest,
    /// At the first record whose time is at least this, in Unix milliseconds; after the newest if there is none.
    Time(i64),
}

/// Who fetches the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchBy {
    /// Directly where that can be done, else by librdkafka.
    #[default]
    Auto,
    /// Directly; a pipeline whose properties rule that out does not start.
    Direct,
    /// By librdkafka.
    Librdkafka,
}

/// Which topics of which cluster are read, from where, and within which bounds.
#[derive(Clone)]
pub struct KafkaOptions {
    /// `host:port` of some brokers; at least one.
    pub brokers: Vec<String>,
    /// Topics; at least one, each once.
    pub topics: Vec<String>,
    /// For partitions that are there at the first start. Later ones begin at their beginning.
    pub start: Start,
    /// The group under which positions are published; `forebay-<pipeline>` by habit.
    pub group: String,
    /// librdkafka's properties (`security.protocol`, `sasl.mechanism`, `ssl.ca.location`, …). May hold secrets.
    pub properties: BTreeMap<String, String>,
    /// For `sasl.mechanism: OAUTHBEARER`.
    pub token: Option<TokenSource>,
    /// Who fetches the records.
    pub fetch: FetchBy,
    /// Bytes of blocks ahead of the caller. Where librdkafka fetches, it holds as many beside them, at most 64 MiB.
    pub ahead_bytes_max: usize,
    /// Bytes of the longest record returned whole; of a longer one the beginning. Keep the decoder's own bound below it.
    pub record_bytes_max: usize,
    /// How often new partitions are looked for.
    pub look_every: Duration,
    /// Whether a start waits until every partition has a leader, also of topics that were read: for a drain, which has to know where each of them ends.
    pub waits_for_leaders: bool,
}

impl KafkaOptions {
    /// Topics from the earliest record on, with the defaults: 64 MiB ahead, a search for partitions every 10 s.
    pub fn new(brokers: Vec<String>, topics: Vec<String>, group: impl Into<String>) -> Self {
        Self {
            brokers,
            topics,
            start: Start::Earliest,
            group: group.into(),
            properties: BTreeMap::new(),
            token: None,
            fetch: FetchBy::Auto,
            ahead_bytes_max: 64 << 20,
            record_bytes_max: 128 << 20,
            look_every: Duration::from_secs(10),
            waits_for_leaders: false,
        }
    }
}

impl std::fmt::Debug for KafkaOptions {
    /// Shows the names of properties, never their values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaOptions")
            .field("brokers", &self.brokers)
            .field("topics", &self.topics)
            .field("start", &self.start)
            .field("group", &self.group)
            .field("properties", &self.properties.keys())
            .field("fetch", &self.fetch)
            .finish_non_exhaustive()
    }
}
