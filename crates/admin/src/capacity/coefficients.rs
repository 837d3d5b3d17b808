//! What was measured: costs of a record, a row and a key.
//!
//! Owns the figures of this version, which are taken where no report is given, and the reading of a report of `forebay bench … --json`.
//! Does not own what is computed from them (`admin::capacity`), nor prices (`capacity::prices`).

use pipeline::config::model::Pipeline;
use serde_json::Value;

/// What a stateful step keeps in its state, and what the size of the state is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A key that was seen.
    Dedup,
    /// A key of an open window.
    Window,
    /// A row that waits for a match.
    Join,
}

/// Names of sources, for messages.
pub(super) const KAFKA: &str = "Kafka";
pub(super) const PULSAR: &str = "Pulsar";
pub(super) const GENERATOR: &str = "a generator";

/// Names of the measured workloads, for messages.
const OF_JOIN: &str = "joined events";
const OF_WINDOW: &str = "Avro readings in windows";
const OF_DEDUP: &str = "JSON events with `dedup`";
const OF_NONE: &str = "JSON events";

/// Costs, and where they are from.
#[derive(Clone, Debug, PartialEq)]
pub struct Coefficients {
    /// Where they are from and of which workload, for messages.
    pub from: String,
    /// The step whose cost is in them; `None` if none is.
    pub step: Option<Kind>,
    /// What the measured records were read from, for messages.
    pub read_from: &'static str,
    /// Bytes of the measured records.
    pub record_bytes: f64,
    /// Records of them for each CPU-second of Forebay.
    pub records_per_cpu_s: f64,
    /// CPU-seconds of ClickHouse for each row that is inserted.
    pub clickhouse_cpu_s_a_row: f64,
    /// Bytes of state a key, of what the measured workload keeps; `None` leaves those of this version.
    pub bytes_a_key: Option<(Kind, f64)>,
}

/// Of this version, by kind of state: bytes a key. Those of a window depend on its aggregates (`capacity::windows`); a join's are 53 and what the columns of
/// a short row take.
const BYTES_A_KEY: [(Kind, f64); 2] = [(Kind::Dedup, 24.0), (Kind::Join, 153.0)];

impl Coefficients {
    /// Those of this version's own measurements (`docs/performance.md`), of the workload that is most like the pipeline.
    pub fn measured(pipeline: &Pipeline) -> Self {
        let has = |is: fn(&pipeline::config::model::step::Step) -> bool| pipeline.steps.iter().any(is);
        let of = |step, from: &str, cost: Measured| Self {
            from: format!("docs/performance.md, {from}"),
            step,
            read_from: KAFKA,
            record_bytes: cost.0,
            records_per_cpu_s: cost.1,
            clickhouse_cpu_s_a_row: cost.2,
            bytes_a_key: None,
        };
        if has(|step| step.join.is_some()) {
            return of(Some(Kind::Join), OF_JOIN, JOINED);
        }
        if has(|step| step.window.is_some()) {
            return of(Some(Kind::Window), OF_WINDOW, WINDOWS);
        }
        match has(|step| step.dedup.is_some()) {
            true => of(Some(Kind::Dedup), OF_DEDUP, DEDUP),
            false => of(None, OF_NONE, PLAIN),
        }
    }

    /// Those of a report.
    ///
    /// # Errors
    /// In words, when it is no report of `forebay bench glassflow` or `flink`, or its tables were wrong.
    pub fn of_report(report: &Value, from: &str) -> Result<Self, String> {
        if report["right"] != Value::Bool(true) {
            return Err("no report of `forebay bench … --json` whose tables were all right".to_owned());
        }
        let setting = &report["setting"];
        let workload = setting["workload"].as_str().unwrap_or_default();
        let of = |key: &str| {
            report["summary"][key]["median"]
                .as_f64()
                .filter(|value| *value > 0.0)
                .ok_or_else(|| format!("the report has no `{key}`"))
        };
        let checks = report["runs"][0]["verdict"]["checks"].as_array();
        let rows = checks
            .and_then(|checks| checks.iter().find(|check| check["what"] == "rows in the table"))
            .and_then(|check| check["expected"].as_f64())
            .filter(|rows| *rows > 0.0)
            .ok_or("the report does not say how many rows the table must hold")?;
        let record_bytes = setting["record_bytes"].as_f64().filter(|bytes| *bytes > 0.0);
        let (kind, what) = match (workload, setting["within_s"].is_null()) {
            ("flink", _) => (Kind::Window, OF_WINDOW),
            ("glassflow", false) => (Kind::Join, OF_JOIN),
            ("glassflow", true) => (Kind::Dedup, OF_DEDUP),
            (other, _) => {
                return Err(format!(
                    "a report of workload `{other}`; give one of `forebay bench glassflow` or `flink`"
                ));
            }
        };
        Ok(Self {
            from: format!("{from}, {what}{}", circumstances(setting)),
            step: Some(kind),
            read_from: read_from(setting),
            record_bytes: record_bytes
                .ok_or("the report has no `record_bytes`; make one with this version")?,
            records_per_cpu_s: of("records_per_cpu_s")?,
            clickhouse_cpu_s_a_row: of("clickhouse_cpu_s").map_err(|why| {
                format!("{why}; make it without `--clickhouse`: the CPU of a server that the benchmark starts is measured")
            })? / rows,
            bytes_a_key: of("state_bytes_per_key").ok().map(|bytes| (kind, bytes)),
        })
    }

    /// Bytes of state a key; none of a window that was not measured.
    pub fn bytes_a_key(&self, kind: Kind) -> f64 {
        let of_this_version = || BYTES_A_KEY.iter().find(|(known, _)| *known == kind);
        self.measured_bytes_a_key(kind).unwrap_or_else(|| of_this_version().map_or(0.0, |(_, bytes)| *bytes))
    }

    /// Where the bytes of a key are from, for messages.
    pub fn bytes_from(&self, kind: Kind) -> &'static str {
        match (self.measured_bytes_a_key(kind), kind) {
            (Some(_), Kind::Dedup) => "measured by the report",
            (Some(_), Kind::Window) => "docs/windows.md, corrected by what the report measured",
            (Some(_), Kind::Join) => "measured by the report, of its columns",
            (None, Kind::Dedup) => "docs/design/state.md",
            (None, Kind::Window) => "docs/windows.md",
            (None, Kind::Join) => "assumed: 53 and columns of 100, docs/design/joins.md",
        }
    }

    /// Bytes of state a key, if a report has them.
    pub fn measured_bytes_a_key(&self, kind: Kind) -> Option<f64> {
        self.bytes_a_key.filter(|(measured, _)| *measured == kind).map(|(_, bytes)| bytes)
    }
}

/// What a report's records were read from.
fn read_from(setting: &Value) -> &'static str {
    if setting["pulsar"] == Value::Bool(true) {
        return PULSAR;
    }
    // A sentence for users: `a generator inside the engine`.
    match setting["source"].as_str().is_some_and(|source| source.starts_with(GENERATOR)) {
        true => GENERATOR,
        false => KAFKA,
    }
}

/// What makes the figures of a report others than those of a release build that drains a backlog; empty if nothing does.
fn circumstances(setting: &Value) -> String {
    let mut words = String::new();
    if setting["build"] == "development" {
        words += ", of a development build";
    }
    let has_loads = setting["loads"].as_array().is_some_and(|loads| !loads.is_empty());
    if has_loads || !setting["rate"].is_null() {
        words += ", under a load";
    }
    words
}

/// Bytes of a record, records per CPU-second of Forebay, and CPU-seconds of ClickHouse a row: medians of release builds.
type Measured = (f64, f64, f64);
const DEDUP: Measured = (200.0, 1_395_000.0, 1.17e-6);
const PLAIN: Measured = (200.0, 1_353_000.0, 1.19e-6);
const WINDOWS: Measured = (43.0, 3_111_000.0, 9.1e-6);
const JOINED: Measured = (190.0, 1_037_000.0, 1.87e-6);
