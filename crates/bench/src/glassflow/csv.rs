//! The report in the columns in which GlassFlow publishes its own load tests, beside honest ones.
//!
//! Owns their names, order and meaning; one line a run. Does not own the figures (`crate::figure`, `crate::glassflow`) or when this form is
//! asked for (`options::glassflow`). An empty value is one that this run does not have.
//!
//! | theirs                         | here                                                                            |
//! |--------------------------------|---------------------------------------------------------------------------------|
//! | `result_total_generated`       | distinct records                                                                |
//! | `result_num_records`           | records sent, copies among them                                                 |
//! | `result_time_taken_publish_ms` | the time in which they were sent                                                |
//! | `result_time_taken_ms`         | the engine's time, from its start to its end                                    |
//! | `result_avg_latency_ms`        | that time by the records: no latency, though it is called one                   |
//! | `result_lag_ms`                | that time without the time of sending; empty for a backlog, which was sent before |

use std::fmt::Write;
use std::time::Duration;

use super::{PUBLISH_S, Plan, joined};
use crate::figure::{self, Figure};
use crate::report::{Report, Run};

const THEIRS: &str = "test_id,variant_id,timestamp,success,duration_sec,param_num_processes,param_records_per_second,\
    param_total_records,param_duplication_rate,param_deduplication_window,param_max_batch_size,param_max_delay_time,\
    result_total_generated,result_total_duplicates,result_num_records,result_num_processes,\
    result_time_taken_publish_ms,result_rps_achieved,result_success,result_time_taken_ms,result_avg_latency_ms,result_lag_ms";
const OURS: &str =
    "records_per_engine_cpu_s,engine_cpu_s,engine_rss_bytes_max,clickhouse_cpu_s,table_is_right";

/// Rows of a batch at the most, which the measured pipeline leaves at its default.
const BATCH_ROWS: u64 = 500_000;

/// What was sent, and how: the parameters of a line.
pub struct Sent {
    /// Records, duplicates among them; of both topics where two are joined.
    records: u64,
    /// Different records.
    uniques: u64,
    publishers: u32,
    rate: Option<u64>,
    /// The window of the step that keeps state, as the pipeline file says it.
    window: String,
    batch_age: Option<Duration>,
}

impl Sent {
    /// Of one topic that is deduplicated.
    pub fn of(plan: &Plan) -> Self {
        let workload = &plan.workload;
        Self {
            records: workload.records_total(),
            uniques: workload.uniques_total(),
            publishers: workload.spec().publishers,
            rate: plan.rate(),
            window: "8h".to_owned(),
            batch_age: plan.batch_age,
        }
    }

    /// Of two topics that are joined.
    pub fn joined(plan: &joined::Plan) -> Self {
        Self {
            records: plan.pairs.records_total(),
            uniques: plan.pairs.records_total(),
            publishers: plan.pairs.events().spec().publishers,
            rate: None,
            window: format!("{}s", plan.within.as_secs()),
            batch_age: plan.batch_age,
        }
    }
}

/// The names of the columns.
pub fn head() -> String {
    format!("{THEIRS},{OURS}\n")
}

/// A line for each run of a report; `timestamp` is the report's.
pub fn lines(report: &Report, sent: &Sent, timestamp: &str) -> String {
    let mut out = String::new();
    for (number, run) in report.runs.iter().enumerate() {
        let values = line(run, sent, number + 1, timestamp);
        writeln!(out, "{}", values.join(",")).expect("a String takes all that is written");
    }
    out
}

fn line(run: &Run, sent: &Sent, number: usize, timestamp: &str) -> Vec<String> {
    let Sent { records, uniques, publishers, rate, window, batch_age } = sent;
    let duplicates = records - uniques;
    let of = |figure: Figure| run.figures.get(figure);
    let shown = |value: Option<f64>, decimals: usize| {
        value.map_or(String::new(), |value| format!("{value:.decimals$}"))
    };
    let (wall_s, publish_s) = (of(figure::WALL_S), of(PUBLISH_S));
    let lag_s = wall_s.zip(publish_s).filter(|_| rate.is_some()).map(|(wall, publish)| wall - publish);
    let success = if run.verdict.right { "True" } else { "False" };
    let age_ms = batch_age.map_or(1_000, |age| age.as_millis());
    vec![
        "forebay".to_owned(),
        format!("{}_{number}", run.arm.replace([' ', ',', ':', '%'], "_")),
        timestamp.to_owned(),
        success.to_owned(),
        shown(wall_s, 2),
        publishers.to_string(),
        rate.map_or(String::new(), |rate| rate.to_string()),
        records.to_string(),
        format!("{:.3}", duplicates as f64 / *uniques as f64),
        window.clone(),
        BATCH_ROWS.to_string(),
        format!("{age_ms}ms"),
        uniques.to_string(),
        duplicates.to_string(),
        records.to_string(),
        publishers.to_string(),
        shown(publish_s.map(|publish| publish * 1e3), 0),
        shown(publish_s.map(|publish| *records as f64 / publish), 0),
        success.to_owned(),
        shown(wall_s.map(|wall| wall * 1e3), 0),
        shown(wall_s.map(|wall| wall * 1e3 / *records as f64), 6),
        shown(lag_s.map(|lag| lag * 1e3), 0),
        shown(of(figure::RECORDS_PER_CPU_S), 0),
        shown(of(figure::ENGINE_CPU_S), 3),
        shown(of(figure::ENGINE_RSS_BYTES_MAX), 0),
        shown(of(figure::CLICKHOUSE_CPU_S), 2),
        run.verdict.right.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figures;
    use crate::report::Verdict;
    use crate::trace::Trace;
    use workloads::glassflow::{Spec, Workload};

    #[test]
    fn every_value_has_its_column() {
        let spec = Spec { uniques: 500, ..Spec::default() };
        let workload = Workload::new(spec).expect("valid");
        let sent = Sent {
            records: workload.records_total(),
            uniques: workload.uniques_total(),
            publishers: workload.spec().publishers,
            rate: None,
            window: "8h".to_owned(),
            batch_age: None,
        };
        let mut figures = Figures::default();
        figures.put(figure::WALL_S, 0.22);
        let run = Run {
            arm: "load 50 %, a".to_owned(),
            figures,
            verdict: Verdict::default(),
            not_valid: None,
            trace: Trace::default(),
        };
        let values = line(&run, &sent, 1, "2026-01-01T00:00:00Z");
        let names: Vec<&str> = THEIRS.split(',').chain(OURS.split(',')).collect();
        assert_eq!(values.len(), names.len());
        let of =
            |name: &str| values[names.iter().position(|known| *known == name).expect("a column")].as_str();
        assert_eq!((of("result_num_records"), of("result_total_generated")), ("1100", "1000"));
        assert_eq!((of("result_avg_latency_ms"), of("result_lag_ms")), ("0.200000", ""));
        assert_eq!((of("param_duplication_rate"), of("success")), ("0.100", "False"));
        assert!(values.iter().all(|value| !value.contains(',')), "{values:?}");
    }
}
