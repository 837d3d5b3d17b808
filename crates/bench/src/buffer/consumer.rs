//! The pipeline's file: from the log, or from senders themselves, into the collector's table.
//!
//! Owns its text and the columns of the table. Does not own the pipeline's name, its store and its metrics (`crate::engine`), nor the gateway's file
//! (`buffer::gateway`).

use super::store::Store;
use super::{Inserts, Over, Plan};

/// When the gateway, or the pipeline that listens, had the request of a row: milliseconds, rounded down.
pub const RECEIVED: &str = "ReceivedAt";
/// When ClickHouse began with the insert of a row, before its part was committed.
pub const INSERTED: &str = "InsertedAt";

/// The table of the collector's ClickHouse exporter, as far as this workload fills it.
const CREATE: &str = "    create:
      columns:
        Timestamp: DateTime64(9)
        TraceId: String
        SpanId: String
        TraceFlags: UInt8
        SeverityText: LowCardinality(String)
        SeverityNumber: UInt8
        ServiceName: LowCardinality(String)
        Body: String
        ResourceSchemaUrl: LowCardinality(String)
        ResourceAttributes: \"Map(LowCardinality(String), String)\"
        ScopeSchemaUrl: LowCardinality(String)
        ScopeName: String
        ScopeVersion: LowCardinality(String)
        ScopeAttributes: \"Map(LowCardinality(String), String)\"
        LogAttributes: \"Map(LowCardinality(String), String)\"
        EventName: String
";
const ORDER: &str = "      order_by: [toStartOfFiveMinutes(Timestamp), ServiceName, Timestamp]\n";

/// The statement that makes a table with the same columns and key, for who does not make it as a pipeline does.
pub fn create(table: &str) -> String {
    let column = |line: &str| {
        let (name, kind) = line.trim().split_once(": ")?;
        Some(format!("`{name}` {}", kind.trim_matches('"')))
    };
    let columns: Vec<String> = CREATE.lines().filter_map(column).collect();
    let key = ORDER.trim().trim_start_matches("order_by: [").trim_end_matches(']');
    format!("CREATE TABLE `{table}` ({}) ENGINE = MergeTree ORDER BY ({key})", columns.join(", "))
}

/// The file but for its name, its store and its metrics. `is_timed` adds the two moments to each row, which a backlog has no use for.
pub fn text(plan: &Plan, store: &Store, url: &str, table: &str, is_timed: bool) -> String {
    let age =
        plan.batch_age.map_or(String::new(), |age| format!("  batch: {{ age: {}ms }}\n", age.as_millis()));
    let (listen, source) = match (plan.direct, plan.over) {
        (false, _) => (String::new(), format!("log: {{ url: '{}' }}", store.url("log/logs"))),
        (true, over) => {
            let otlp = if over == Over::Stream { "" } else { ", otlp: { logs: logs }" };
            let listen = format!("listen: {{ address: '127.0.0.1:0'{otlp} }}\n");
            (listen, "listen: { stream: logs }".to_owned())
        }
    };
    let inserts = match plan.inserts {
        Inserts::Lz4 => "lz4",
        Inserts::None => "none",
    };
    let (columns, more) = match is_timed {
        false => (String::new(), String::new()),
        true => (
            format!("columns: {{ {RECEIVED}: _timestamp }}\n"),
            format!(
                "        {RECEIVED}: \"Nullable(DateTime64(3, 'UTC'))\"\n        {INSERTED}: DateTime64(9) DEFAULT now64(9)\n"
            ),
        ),
    };
    let memory = plan.common.memory_line();
    format!(
        "{listen}source:\n  {source}\n  format: otlp_logs\n{columns}sink:\n  clickhouse:\n    url: {url}\n    table: {table}\n    \
         compression: {inserts}\n    provenance: true\n{CREATE}{more}{ORDER}{age}{memory}"
    )
}
