//! Fetching record batches from brokers directly.
//!
//! Owns the way of records from a broker's socket into blocks. librdkafka stays in charge of all that is asked seldom:
//! topics and their ids, leaders, ranges, times, commits. Does not own what a partition's position is (`slot`).
//!
//! librdkafka allocates, queues and frees every message by itself, which was the largest part of what a record cost. Here a
//! broker's answer is received into one buffer and each body is copied once, from its batch into its block.
//!
//! | module       | what it holds                                                              |
//! |--------------|----------------------------------------------------------------------------|
//! | `supervisor` | who leads what; ids, new partitions, failures                               |
//! | `leaders`    | one thread that asks brokers in turn who leads what                         |
//! | `metadata`   | that question and its answer as bytes                                       |
//! | `broker`     | one thread a broker: fetch, read, return                                 |
//! | `connection` | a socket with bounds                                                       |
//! | `security`   | which encryption and login the properties ask for                          |
//! | `login`      | logging in, and staying logged in                                          |
//! | `scram`      | the proofs of SCRAM                                                        |
//! | `wire`       | requests and answers as bytes                                              |
//! | `cursor`     | primitive types out of the bytes of a broker                               |
//! | `batch`      | record batches into blocks                                                 |
//! | `inflate`    | gzip, Snappy, LZ4, Zstandard                                               |
//! | `errors`     | what error codes mean                                                      |
//! | `reader`     | the reader in front of the threads                                         |
//!
//! Taken if the brokers know topic ids (Kafka 3.1), let us in by what `security` understands, and no property is set that only
//! librdkafka understands; else librdkafka reads, as it does with `fetch: librdkafka`.

mod batch;
mod broker;
mod connection;
mod cursor;
mod errors;
mod inflate;
mod leaders;
mod login;
mod metadata;
mod reader;
mod scram;
mod security;
mod supervisor;

mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose;
use dataflow::{Runtime, SourceError};

use super::client::Topic;
use super::{KafkaOptions, config};
use connection::Connection;
pub(super) use reader::DirectReader;
use wire::Bounds;

/// Bytes that one answer brings at the most, beside a single larger batch: a quarter of what may be read ahead. Enough to
/// spread the cost of a request over thousands of records, few enough to be bounded memory.
const BYTES_MAX: i32 = 16 << 20;
const BYTES_MIN: i32 = 1 << 20;

/// How records are fetched from every broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    client: String,
    security: security::Security,
    bounds: Bounds,
    /// The largest answer that is accepted.
    answer_bytes_max: usize,
    /// The largest batch that is unpacked as a whole; a larger one is unpacked record by record.
    unpacked_bytes_max: usize,
    /// Bytes of the longest body that is returned whole.
    record_bytes_max: usize,
}

/// Properties that concern librdkafka's own connections and queues and that a direct fetch need not know.
const ITS_OWN: &[&str] = &[
    "log.connection.close",
    "socket.keepalive.enable",
    "socket.connection.setup.timeout.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "fetch.queue.backoff.ms",
    "topic.metadata.refresh.interval.ms",
    "metadata.max.age.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "auto.offset.reset",
    "isolation.level",
    "allow.auto.create.topics",
];

/// Properties that a direct fetch knows.
const KNOWN: &[&str] = &[
    "client.id",
    "fetch.message.max.bytes",
    "max.partition.fetch.bytes",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "fetch.wait.max.ms",
    "receive.message.max.bytes",
    "check.crcs",
];

/// How to fetch directly by these options; `Err` says why it cannot be done.
pub(super) fn plan(options: &KafkaOptions) -> Result<Plan, String> {
    let set: BTreeMap<&str, &str> =
        options.properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let security = security::security(&set)?;
    let is_foreign = |name: &&&str| ![KNOWN, security::KNOWN, ITS_OWN].iter().any(|all| all.contains(*name));
    if let Some(name) = set.keys().find(is_foreign) {
        return Err(format!("property `{name}` is librdkafka's"));
    }
    if set.get("check.crcs").is_some_and(|check| *check != "true") {
        return Err("`check.crcs` is off".into());
    }
    // Values were checked by librdkafka when the source was made.
    let number = |name: &str, default: i32| set.get(name).and_then(|v| v.parse().ok()).unwrap_or(default);
    let partition_bytes_max =
        number("max.partition.fetch.bytes", number("fetch.message.max.bytes", PARTITION_BYTES_MAX));
    let bytes_max =
        i32::try_from(options.ahead_bytes_max / 4).unwrap_or(BYTES_MAX).clamp(BYTES_MIN, BYTES_MAX);
    Ok(Plan {
        client: (*set.get("client.id").unwrap_or(&"forebay")).to_owned(),
        security,
        bounds: Bounds {
            wait_ms: number("fetch.wait.max.ms", 500),
            bytes_min: number("fetch.min.bytes", 1),
            bytes_max: number("fetch.max.bytes", bytes_max),
            partition_bytes_max,
        },
        answer_bytes_max: number("receive.message.max.bytes", ANSWER_BYTES_MAX).max(1 << 20) as usize,
        unpacked_bytes_max: options.ahead_bytes_max.clamp(UNPACKED_BYTES_MIN, ANSWER_BYTES_MAX as usize),
        record_bytes_max: options.record_bytes_max,
    })
}

/// For one partition, beside a single larger batch.
const PARTITION_BYTES_MAX: i32 = 4 << 20;
/// Producers make batches of a megabyte; a few of them unpack to more than this.
const UNPACKED_BYTES_MIN: usize = 4 << 20;
/// Records of more than 100 MB: the largest answer that is accepted, as it is librdkafka's here.
const ANSWER_BYTES_MAX: i32 = 512 << 20;

/// A plan, and the connection that has shown that it can be had.
pub(super) struct Opened {
    plan: Plan,
    connection: Connection,
}

/// Asks a leader whether it can be fetched from by topic id; `Err` says why not.
pub(super) fn probe(
    plan: Plan,
    topics: &BTreeMap<String, Topic>,
    runtime: &Arc<dyn Runtime>,
) -> Result<Opened, String> {
    for (name, topic) in topics {
        if topic_id(&topic.id).is_none() {
            return Err(format!("the cluster gives topic `{name}` no id"));
        }
    }
    let Some(leader) = topics.values().flat_map(|topic| topic.leaders.values()).next() else {
        return Err("no partition has a leader".into());
    };
    let bytes_max = plan.answer_bytes_max;
    let opened = Connection::open(leader, &plan.client, &plan.security, bytes_max, runtime.clone(), &|| true);
    let connection = opened.map_err(|lost| lost.to_string())?;
    Ok(Opened { plan, connection })
}

/// The bytes of a topic's id.
fn topic_id(base64: &str) -> Option<[u8; 16]> {
    let text = base64.trim_end_matches('=');
    let bytes = general_purpose::URL_SAFE_NO_PAD
        .decode(text)
        .or_else(|_| general_purpose::STANDARD_NO_PAD.decode(text))
        .ok()?;
    bytes.try_into().ok()
}

/// Checks that a pipeline that insists on direct fetching can have it.
pub(super) fn insist(options: &KafkaOptions) -> Result<(), SourceError> {
    plan(options).map(drop).map_err(|why| {
        config::config(format!("kafka cannot be fetched from directly: {why}; leave `fetch` out"))
    })
}

#[cfg(test)]
mod tests;
