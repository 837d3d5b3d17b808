//! `forebay otel-tables`: the statements that make the tables of OpenTelemetry.
//!
//! Owns the statements (`otel_tables/*.sql`), which are those of the collector's ClickHouse exporter in columns, types and sorting keys, and the columns
//! that hold what those tables leave out (`*_complete.sql`).
//! Does not own how records become rows of them (`formats::otlp`). Connects to nothing: a table that is there already, the exporter's own
//! too, is found by its columns when a pipeline starts.

use clap::{Args, ValueEnum};

use crate::console::{Exit, print};

/// The beginning of the names of columns that the server fills from attributes of the resource.
const PREFIX: &str = "__otel_materialized_";
/// The same in ClickStack's tables.
const CLICKSTACK_PREFIX: &str = "__hdx_materialized_";
/// What earlier dashboards of ClickStack search logs by. New tables have it as a column beside the others, not as a key.
const CLICKSTACK_TIME: &str = "
ALTER TABLE {database}.otel_logs
    ADD COLUMN IF NOT EXISTS `TimestampTime` DateTime DEFAULT toDateTime(Timestamp) AFTER `Timestamp`;
";

/// Prints the statements that make the tables for OpenTelemetry's logs, traces and metrics.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay otel-tables | clickhouse-client --multiquery
  forebay otel-tables logs traces --database telemetry
  forebay otel-tables logs --clickstack
  forebay otel-tables --json
  forebay otel-tables traces --complete

The tables have the columns, types and sorting keys of the OpenTelemetry Collector's ClickHouse exporter, remember inserts as Forebay needs it, and \
expire nothing: add a TTL as you like. Connects to nothing.")]
pub struct OtelTables {
    /// Which tables; all if none is named.
    #[arg(value_enum, value_name = "SIGNAL")]
    signals: Vec<Signal>,

    /// The database, which must exist.
    #[arg(long, value_name = "NAME", default_value = "default")]
    database: String,

    /// Names the columns that the server fills as ClickStack does (`__hdx_materialized_…`).
    #[arg(long)]
    clickstack: bool,

    /// Attributes as `JSON`, with their types and what is within them, instead of maps of texts; needs ClickHouse 25.3.
    #[arg(long, conflicts_with = "clickstack")]
    json: bool,

    /// Adds columns for what the exporter's tables have none for (all flags, observed times, schema URLs, what was dropped, `ZeroThreshold`), also to tables that
    /// the exporter made and fills: it leaves them empty.
    #[arg(long)]
    complete: bool,
}

/// A signal of OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Signal {
    /// `otel_logs`.
    Logs,
    /// `otel_traces`, and `otel_traces_trace_id_ts` with the view that fills it.
    Traces,
    /// `otel_metrics_gauge`, `_sum`, `_histogram`, `_exponential_histogram` and `_summary`.
    Metrics,
}

impl Signal {
    /// The columns that hold what the exporter's tables have none for.
    fn complete(self) -> &'static str {
        match self {
            Self::Logs => include_str!("otel_tables/logs_complete.sql"),
            Self::Traces => include_str!("otel_tables/traces_complete.sql"),
            Self::Metrics => include_str!("otel_tables/metrics_complete.sql"),
        }
    }
}

impl OtelTables {
    /// Runs the command.
    ///
    /// # Errors
    /// When nothing can be written.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        print(&self.statements())?;
        Ok(Exit::Done)
    }

    fn statements(&self) -> String {
        let signals: &[Signal] = match self.signals.as_slice() {
            [] => &[Signal::Logs, Signal::Traces, Signal::Metrics],
            named => named,
        };
        let prefix = if self.clickstack { CLICKSTACK_PREFIX } else { PREFIX };
        let statements = signals.iter().map(|signal| match (signal, self.json) {
            (Signal::Logs, false) => include_str!("otel_tables/logs.sql"),
            (Signal::Logs, true) => include_str!("otel_tables/logs_json.sql"),
            (Signal::Traces, false) => include_str!("otel_tables/traces.sql"),
            (Signal::Traces, true) => include_str!("otel_tables/traces_json.sql"),
            (Signal::Metrics, false) => include_str!("otel_tables/metrics.sql"),
            (Signal::Metrics, true) => include_str!("otel_tables/metrics_json.sql"),
        });
        let database = clickhouse::types::identifier(&self.database);
        let mut statements: Vec<&str> = statements.collect();
        if self.complete {
            statements.extend(signals.iter().map(|signal| signal.complete()));
            if self.clickstack && signals.contains(&Signal::Logs) {
                statements.push(CLICKSTACK_TIME);
            }
        }
        let map = if self.json { "JSON" } else { "Map(LowCardinality(String), String)" };
        let statements = statements.join("\n").replace("{database}", &database);
        statements.replace("{prefix}", prefix).replace("{map}", map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(signals: &[Signal], clickstack: bool) -> String {
        OtelTables {
            signals: signals.to_vec(),
            database: "a`b".into(),
            clickstack,
            json: false,
            complete: false,
        }
        .statements()
    }

    /// The exporter names its columns when it inserts, so what is added must be fine without a value, and change none that is there.
    #[test]
    fn what_is_added_changes_no_column_that_is_there() {
        for (json, clickstack) in [(false, false), (false, true), (true, false)] {
            let tables =
                OtelTables { signals: Vec::new(), database: "d".into(), clickstack, json, complete: true };
            let all = tables.statements();
            assert_eq!(all.matches("\nALTER TABLE `d`.otel_").count(), 7 + usize::from(clickstack), "{all}");
            assert_eq!(all.matches("`TimestampTime`").count(), usize::from(clickstack));
            assert!(!all.contains('{') && !all.contains("MODIFY") && !all.contains("DROP"));
            let plain = OtelTables { complete: false, ..tables }.statements();
            assert!(all.starts_with(&plain), "the tables themselves are the same");
            for (at, line) in all.lines().enumerate().filter(|(_, line)| line.contains("ADD COLUMN")) {
                assert!(line.contains("IF NOT EXISTS"), "line {at}: {line}");
            }
        }
        let traces = OtelTables {
            signals: vec![Signal::Traces],
            database: "d".into(),
            clickstack: true,
            json: false,
            complete: true,
        };
        assert!(!traces.statements().contains("otel_logs"));
    }

    #[test]
    fn attributes_as_json_take_the_place_of_every_map() {
        let tables = OtelTables {
            signals: Vec::new(),
            database: "d".into(),
            clickstack: false,
            json: true,
            complete: false,
        };
        let all = tables.statements();
        assert_eq!(all.matches("CREATE TABLE IF NOT EXISTS `d`.otel_").count(), 8, "{all}");
        assert!(!all.contains('{') && !all.contains("Map(") && !all.contains("_materialized_"));
        let maps = of(&[], false).matches("Map(LowCardinality(String), String)").count();
        assert_eq!(all.matches(" JSON CODEC").count() + all.matches("Array(JSON) CODEC").count(), maps);
        // The keys of those that rows are searched by.
        assert_eq!(all.matches("AttributesKeys` Array(LowCardinality(String))").count(), 3 + 2 + 5 * 3);
    }

    #[test]
    fn every_table_is_made_once_and_remembers_inserts() {
        let all = of(&[], false);
        assert_eq!(all.matches("CREATE TABLE IF NOT EXISTS `a\\`b`.otel_").count(), 8, "{all}");
        assert_eq!(all.matches("non_replicated_deduplication_window = 10000").count(), 8);
        assert_eq!(all.matches("CREATE MATERIALIZED VIEW").count(), 1);
        assert!(!all.contains('{') && all.contains("`__otel_materialized_k8s.pod.name`"));
        assert!(of(&[Signal::Logs], true).contains("`__hdx_materialized_k8s.pod.name`"));
        assert_eq!(of(&[Signal::Traces, Signal::Metrics], false).matches("otel_logs").count(), 0);
    }

    /// As in version 0.165.1 of the exporter (`internal/sqltemplates`).
    #[test]
    fn rows_are_sorted_as_in_the_exporters_tables() {
        let maps = of(&[], false);
        let objects = OtelTables {
            signals: Vec::new(),
            database: "d".into(),
            clickstack: false,
            json: true,
            complete: false,
        }
        .statements();
        let logs = "ORDER BY (toStartOfFiveMinutes(Timestamp), ServiceName, Timestamp)\n";
        assert!(maps.contains(logs) && objects.contains(logs));
        assert!(objects.contains("PRIMARY KEY (toStartOfFiveMinutes(Timestamp), ServiceName)\n"));
        assert!(maps.contains("ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))\n"));
        assert!(objects.contains("ORDER BY (ServiceName, SpanName, toDateTime(Timestamp), Timestamp)\n"));
        assert!(
            !maps.contains("`MetricDescription` LowCardinality")
                && !maps.contains("`MetricUnit` LowCardinality")
        );
    }
}
