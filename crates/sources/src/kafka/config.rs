//! From the pipeline file's words to librdkafka's properties.
//!
//! Owns which properties are ours and why, and the defaults for throughput and large messages. Does not own the keys of a pipeline file
//! (`model::source::kafka`), nor what the direct fetch makes of the same words (`direct::security`). Pure.

use std::collections::BTreeMap;

use dataflow::{SourceError, SourceFault};

use super::KafkaOptions;

/// What a handle is for: only the ones that read or commit know a group, since a group's name alone makes the broker
/// look for a coordinator and create its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Asks for topics, partitions and offsets.
    Look,
    /// Reads by explicit assignment.
    Read,
    /// Commits and reads committed offsets; answers what is looked for too, once it is there.
    Commit,
}

/// Defaults that a pipeline file may change.
const DEFAULTS: &[(&str, &str)] = &[
    ("client.id", "forebay"),
    // A fetch brings up to 4 MiB a partition; one larger batch comes alone all the same.
    ("fetch.message.max.bytes", "4194304"),
    // Messages of more than 100 MB: the largest answer that is accepted.
    ("receive.message.max.bytes", "536870912"),
    // The bytes fetched ahead are the bound; that by number would stop far below it.
    ("queued.min.messages", "10000000"),
    // A full queue is inspected again soon: a second, as librdkafka has it, leaves the reader dry.
    ("fetch.queue.backoff.ms", "20"),
    ("fetch.wait.max.ms", "500"),
    ("check.crcs", "true"),
    ("socket.keepalive.enable", "true"),
    // Doubled from try to try. A new handle also waits half of it between its first two connections: 50 ms of every start.
    ("reconnect.backoff.ms", "20"),
    ("reconnect.backoff.max.ms", "5000"),
    // Shorter than a call waits, so that a call that is given up can say that nothing answers at an address.
    ("socket.connection.setup.timeout.ms", "8000"),
    // A leader that goes on to answer after another was elected is left at the next refresh; five minutes, as librdkafka has it, are long.
    ("topic.metadata.refresh.interval.ms", "30000"),
    // One that is closed while it is set up says why there is no answer. Idle ones are closed all the time, and not told (`reason`).
    ("log.connection.close", "true"),
];

/// Kilobytes that librdkafka holds fetched: as much as may be read ahead, within these.
const QUEUE_KBYTES: std::ops::RangeInclusive<usize> = 1 << 10..=64 << 10;

/// Bytes of one answer of a broker: a quarter of what may be read ahead, within these. One larger batch comes alone all the same.
const ANSWER_BYTES: std::ops::RangeInclusive<usize> = 1 << 20..=50 << 20;

/// Defaults that follow the memory that the source was given; a pipeline file may change them too.
fn defaults_by_memory(ahead_bytes_max: usize) -> [(String, String); 2] {
    let within =
        |value: usize, range: &std::ops::RangeInclusive<usize>| value.clamp(*range.start(), *range.end());
    [
        ("queued.max.messages.kbytes".into(), within(ahead_bytes_max >> 10, &QUEUE_KBYTES).to_string()),
        ("fetch.max.bytes".into(), within(ahead_bytes_max / 4, &ANSWER_BYTES).to_string()),
    ]
}

/// Properties that the guarantee rests on, the only value that they may have, and why.
const FIXED: &[(&str, &str, &str)] = &[
    ("enable.auto.commit", "false", "the journal holds the positions"),
    ("enable.auto.offset.store", "false", "the journal holds the positions"),
    ("enable.partition.eof", "true", "it reports when a partition is read to its end"),
    ("auto.offset.reset", "error", "a position out of range must stop the pipeline, not move it"),
    ("isolation.level", "read_committed", "records of aborted transactions must not be delivered"),
    ("allow.auto.create.topics", "false", "reading must not create what it reads"),
];

/// Properties that cannot be given here, and why.
const RESERVED: &[(&str, &str)] = &[
    ("bootstrap.servers", "give `brokers`"),
    ("metadata.broker.list", "give `brokers`"),
    ("group.id", "give `group`"),
    ("group.instance.id", "partitions are assigned by the pipeline, without a group's membership"),
    ("group.protocol", "partitions are assigned by the pipeline, without a group's membership"),
    ("group.remote.assignor", "partitions are assigned by the pipeline, without a group's membership"),
    (
        "partition.assignment.strategy",
        "partitions are assigned by the pipeline, without a group's membership",
    ),
    ("plugin.library.paths", "a pipeline file must not load code"),
    ("opaque", "it is no text"),
];

/// Words in a property's name that make its value a secret.
const SECRET: &[&str] =
    &["password", "secret", "key.pem", "sasl.oauthbearer.config", "jaas", "private.key", "token"];

/// True if the value of the property must not be shown.
pub(super) fn is_secret(name: &str) -> bool {
    SECRET.iter().any(|word| name.contains(word))
}

/// All properties of a handle, in the order in which they are set.
///
/// # Errors
/// [`SourceFault::Config`] for reserved and contradicting properties; the message says why and what to write.
pub(super) fn properties(
    options: &KafkaOptions,
    role: Role,
) -> Result<BTreeMap<String, String>, SourceError> {
    let mut all: BTreeMap<String, String> =
        DEFAULTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.extend(defaults_by_memory(options.ahead_bytes_max));
    for (name, value) in &options.properties {
        if let Some((_, why)) = RESERVED.iter().find(|(reserved, _)| reserved == name) {
            return Err(config(format!("kafka property `{name}` cannot be given: {why}")));
        }
        if let Some((_, fixed, why)) = FIXED.iter().find(|(fixed, ..)| fixed == name)
            && value != fixed
        {
            return Err(config(format!("kafka property `{name}` must be `{fixed}`: {why}")));
        }
        // An alias would otherwise be overruled by our default of the other name.
        let name = if name == "max.partition.fetch.bytes" { "fetch.message.max.bytes" } else { name };
        all.insert(name.to_owned(), value.clone());
    }
    all.extend(FIXED.iter().map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned())));
    all.insert("bootstrap.servers".into(), options.brokers.join(","));
    if role != Role::Look {
        all.insert("group.id".into(), options.group.clone());
    }
    Ok(all)
}

/// Turns a reader's options into those of one that is made for a single record: what it fetches beyond that is thrown away.
pub(super) fn for_one_record(options: &mut KafkaOptions) {
    options.ahead_bytes_max = 1;
    for (name, value) in [
        // One record above it comes alone all the same.
        ("fetch.message.max.bytes", "65536"),
        ("queued.max.messages.kbytes", "1024"),
        ("queued.min.messages", "1"),
    ] {
        options.properties.insert(name.to_owned(), value.to_owned());
    }
    options.properties.remove("max.partition.fetch.bytes");
}

/// Checks what is not librdkafka's to check.
pub(super) fn check(options: &KafkaOptions) -> Result<(), SourceError> {
    if options.brokers.iter().all(|broker| broker.trim().is_empty()) {
        return Err(config("kafka has no `brokers`".into()));
    }
    if options.topics.is_empty() {
        return Err(config("kafka has no `topic`".into()));
    }
    for topic in &options.topics {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if topic.is_empty() || topic.len() > 249 || !topic.chars().all(is_legal) {
            return Err(config(format!(
                "`{topic}` cannot be a topic's name: 1 to 249 letters, digits, `.`, `_` or `-`"
            )));
        }
    }
    let mut sorted = options.topics.clone();
    sorted.sort();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(config(format!("topic `{}` is named twice", twice[0])));
    }
    if options.group.is_empty() {
        return Err(config("kafka's `group` is empty".into()));
    }
    let properties = properties(options, Role::Read)?;
    let is_set = |name: &str, value: &str| properties.get(name).is_some_and(|set| set == value);
    let asks_for_token = is_set("sasl.mechanism", "OAUTHBEARER") || is_set("sasl.mechanisms", "OAUTHBEARER");
    if asks_for_token && options.token.is_none() && !is_set("enable.sasl.oauthbearer.unsecure.jwt", "true") {
        // librdkafka would wait for ever for somebody to set one.
        return Err(config("kafka's mechanism `OAUTHBEARER` needs a token's file or command".into()));
    }
    Ok(())
}

/// An error of the pipeline file.
pub(super) fn config(message: String) -> SourceError {
    SourceError::new(SourceFault::Config, message)
}
