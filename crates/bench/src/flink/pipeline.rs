//! The pipeline of the workload, for each feed.
//!
//! Owns its text. Does not own the records ([`super::feed`]).

use std::path::Path;
use std::time::Duration;

use workloads::flink::{METRICS, Workload, oracle};

use crate::pulsar_topic::PulsarTopic;

/// The pipeline file's text but for what every run has of its own. Windows wait as long as records are late.
pub(super) fn pipeline_text(
    source: &str,
    url: &str,
    table: &str,
    workload: &Workload,
    batch_age: Option<Duration>,
) -> String {
    let spec = workload.spec();
    let names = || METRICS.iter().flat_map(|metric| oracle::AGGREGATES.map(|name| (*metric, name)));
    let fields: Vec<String> = METRICS.iter().map(|metric| format!("{metric}: Float64")).collect();
    let aggregates: Vec<String> =
        names().map(|(metric, name)| format!("        {metric}_{name}: {name}({metric})\n")).collect();
    let columns: Vec<String> =
        names().map(|(metric, name)| format!("        {metric}_{name}: Float64\n")).collect();
    let batch = batch_age.map_or(String::new(), |age| format!("  batch: {{ age: {}ms }}\n", age.as_millis()));
    format!(
        "source:\n{source}  fields: {{ sensorId: Int32, timestamp: DateTime64(3), {} }}\n\
         steps:\n  - window:\n      key: [sensorId]\n      time: timestamp\n      size: {}ms\n      lateness: {}ms\n      \
         aggregates:\n        readings: count()\n{}\
         columns: {{ sensor: sensorId }}\n\
         sink:\n  clickhouse:\n    url: {url}\n    table: {table}\n    provenance: true\n    create:\n      columns:\n\
         \u{20}       sensor: Int32\n        window_start: DateTime64(3, 'UTC')\n        readings: UInt64\n{}\
         \u{20}     order_by: [window_start, sensor]\n{batch}",
        fields.join(", "),
        spec.window_ms,
        spec.disorder_ms,
        aggregates.concat(),
        columns.concat(),
    )
}

/// What `source:` says for a topic. The run's name makes a group of its own: every run begins with an empty store, and under one group
/// the second would be taken for one whose store was lost.
pub(super) fn kafka(brokers: &str, topic: &str, run: &str, schema: &Path) -> String {
    format!(
        "  kafka: {{ brokers: '{brokers}', topic: {topic}, group: forebay-{run}, start: earliest }}\n  \
         format: {{ avro: {{ schema_file: '{}' }} }}\n",
        schema.display()
    )
}

/// The same for a topic of Pulsar; the subscription is what a group is. Runs of a load share the topic, so each of them starts at `latest`.
pub(super) fn pulsar(topic: &PulsarTopic, run: &str, schema: &Path, start: &str) -> String {
    format!(
        "  pulsar: {{ service: '{}', topic: '{}', subscription: forebay-{run}, start: {start} }}\n  \
         format: {{ avro: {{ schema_file: '{}' }} }}\n",
        topic.service(),
        topic.name(),
        schema.display()
    )
}
