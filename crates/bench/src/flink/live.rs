//! Results under a steady load: from the moment at which a window could close to the moment at which a SELECT sees its results.
//!
//! Owns the load, the counting and the percentiles. Does not own the sending at a pace (`crate::topic`, `crate::pulsar_topic`), nor the verdict
//! over the table (`crate::flink`). The load is an open loop: a record is due when its number says so, and its event time is about that of the clock. A
//! window can close when its lateness has passed behind its end; what the sender, the broker, the batch's age, the seal and the insert take
//! from there on is the latency of its results.
//!
//! | moment     | how it is known                                                                               |
//! |------------|-----------------------------------------------------------------------------------------------|
//! | could close | the window's end and the lateness, by this machine's clock                                    |
//! | visible    | the first count by window whose answer includes the row; while any row is due, a count is asked every few milliseconds |

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use workloads::content::Content;
use workloads::flink::{Spec, Workload};

use super::{AnyTopic, Bench, Feed, pipeline_text};
use crate::child::End;
use crate::engine::{Pipeline, Seen};
use crate::figure::{self, Figure, Figures, Shown};
use crate::report::Run;
use crate::server::Server;
use crate::topic::{Pace, Sent, not_valid};
use crate::trace::Percentile;
use crate::{RUN_MAX, START_MAX};

/// The time between the end of a count and the next.
const COUNT_EVERY: Duration = Duration::from_millis(20);
/// From the engine's reading to the first window at the least: the sender connects meanwhile, to Pulsar once for each partition.
const LOAD_AHEAD: Duration = Duration::from_millis(1_500);
const LOAD_AHEAD_PULSAR: Duration = Duration::from_secs(5);

pub(super) const LATENCY_P99: Figure =
    Figure::new("visible_p99_s", "window end and lateness to visible, p99, s", Shown::Decimals(3));
const OFFERED: Figure = Figure::new("offered_records_per_s", "messages per second, offered", Shown::Whole);
const P50: Figure =
    Figure::new("visible_p50_s", "window end and lateness to visible, p50, s", Shown::Decimals(3));
const MOST: Figure =
    Figure::new("visible_max_s", "window end and lateness to visible, the most, s", Shown::Decimals(3));
const SENDER_LATE: Figure =
    Figure::new("sender_late_s_max", "  of it the sender's lateness, at the most, s", Shown::Decimals(3));
const BROKER_LATE: Figure =
    Figure::new("broker_late_s_max", "  of it not acknowledged, at the most, s", Shown::Decimals(3));

const WATERMARK_LAG_P50: Figure =
    Figure::new("watermark_lag_p50_s", "watermark behind the clock, p50, s", Shown::Decimals(3));
const WATERMARK_LAG_MAX: Figure =
    Figure::new("watermark_lag_max_s", "watermark behind the clock, at the most, s", Shown::Decimals(3));

/// Rows of each window, by its start, and when a count first had so many.
type Counts = BTreeMap<i64, Vec<(SystemTime, u64)>>;

impl Bench<'_> {
    /// One run, the workload in real time.
    pub(super) async fn live(&self, number: u32, server: &Server, schema: &Path) -> anyhow::Result<Run> {
        let table = format!("{}_{number}", self.place.name);
        let dir = self.place.folder(&format!("run-{number}"))?;
        let topic = self.topic(&table).await?;
        let shape = self.plan.workload.spec().clone();
        let text = |workload: &Workload| {
            let source = topic.source(&table, schema, "latest");
            pipeline_text(&source, server.url(), &table, workload, self.plan.batch_age)
                + &self.plan.common.memory_line()
        };
        let touched = self.place.touch_memory()?;
        let before = server.usage()?;
        let pipeline = Pipeline {
            program: self.plan.common.program.clone(),
            dir,
            rest: text(&Workload::new(shape.clone())?),
            store: None,
            table: table.clone(),
        };
        let outcome = self.watched(&pipeline, &topic, shape, server).await;
        self.drop_topic(&topic).await;
        let Watched { workload, expected, end, seen, sent, counts } = outcome?;
        let clickhouse = server.usage()?.zip(before).map(|(after, before)| after.since(before));
        let verdict = self.verdict(&pipeline, server, &workload, expected).await?;
        let read = pipeline.accounts()?.read;
        self.place.drop_tables(server, &table).await?;

        let latencies = latencies(&workload, &counts);
        let mut figures = Figures::default();
        figures.put(OFFERED, rate_of(workload.spec()));
        for (figure, share) in [(P50, 0.5), (LATENCY_P99, 0.99), (MOST, 1.0)] {
            figures.put_if(figure, at_share(&latencies, share));
        }
        figures.put(SENDER_LATE, sent.late_max.as_secs_f64());
        figures.put(BROKER_LATE, sent.waiting_max().as_secs_f64());
        for (figure, share) in [(WATERMARK_LAG_P50, 0.5), (WATERMARK_LAG_MAX, 1.0)] {
            figures.put_if(figure, seen.watermark_lag_s(share));
        }
        figures.put(figure::RECORDS_PER_CPU_S, read as f64 / end.usage.cpu_s());
        end.put_into(&mut figures);
        figures.put_if(figure::CLICKHOUSE_CPU_S, clickhouse.map(|usage| usage.cpu_s()));
        self.put_state(&seen, end.wall, &mut figures);
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        let mut trace = seen.trace;
        trace.percentiles = percentiles(&latencies);
        let not_valid = not_valid(sent.late_max);
        Ok(Run { arm: super::FOREBAY.to_owned(), figures, verdict, not_valid, trace })
    }

    async fn watched(
        &self,
        pipeline: &Pipeline,
        topic: &AnyTopic,
        shape: Spec,
        server: &Server,
    ) -> anyhow::Result<Watched> {
        let mut engine = pipeline.start(false)?;
        engine.ready(START_MAX).await?;
        let (workload, began) = self.begin(shape)?;
        let rate = rate_of(workload.spec()).round() as u64;
        let (sender, records) = (topic.clone(), workload.clone());
        let sending =
            tokio::task::spawn_blocking(move || sender.send(&records, Pace::new(rate.max(1), began)));
        // A sensor without a reading in a window is as good as impossible from some dozens on; the verdict would say so.
        let rows = u64::from(workload.spec().sensors) * u64::from(workload.spec().windows);
        let counts = RefCell::new(Counts::new());
        let (watched, sent) = tokio::select! {
            both = async { tokio::join!(engine.watch(Some(rows), RUN_MAX), sending) } => both,
            never = count_for_ever(server, &pipeline.table, workload.spec(), &counts) => match never {},
        };
        let sent = sent.context("the sender panicked")??;
        let (end, seen) = watched?;
        let mut counts = counts.into_inner();
        // The last rows may have been settled after the last count.
        add(&mut counts, &ask(server, &pipeline.table).await?);
        // Not meanwhile: it takes a core for seconds.
        let of = workload.clone();
        let expected =
            tokio::task::spawn_blocking(move || of.expected()).await.context("the oracle panicked")?;
        Ok(Watched { workload, expected, end, seen, sent, counts })
    }

    /// The workload with its first window at the next whole one, and the moment of its first record.
    fn begin(&self, shape: Spec) -> anyhow::Result<(Workload, Instant)> {
        let (now, since_epoch) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH)?);
        let window_ms = u128::from(shape.window_ms);
        let ahead = match self.plan.feed {
            Feed::Kafka(_) => LOAD_AHEAD,
            Feed::Pulsar { .. } => LOAD_AHEAD_PULSAR,
        };
        let start_ms = (since_epoch + ahead).as_millis().div_ceil(window_ms) * window_ms;
        let wait = Duration::from_millis(u64::try_from(start_ms)?) - since_epoch;
        let start_time_ms = i64::try_from(start_ms)?;
        Ok((Workload::new(Spec { start_time_ms, ..shape })?, now + wait))
    }
}

/// A load that is through.
struct Watched {
    workload: Workload,
    expected: Content,
    end: End,
    seen: Seen,
    sent: Sent,
    counts: Counts,
}

/// The same with as many readings as give about so many messages a second.
pub fn at_rate(spec: &Spec, rate: u64) -> Spec {
    let per_window = rate as f64 * f64::from(spec.window_ms) / 1e3;
    let readings = (per_window / f64::from(spec.sensors)).round().max(1.0) as u32;
    Spec { readings, ..spec.clone() }
}

/// Messages a second of a workload in real time.
fn rate_of(spec: &Spec) -> f64 {
    f64::from(spec.sensors) * f64::from(spec.readings) * 1e3 / f64::from(spec.window_ms)
}

/// Counts until the run ends, which may be in the middle of a count: what was counted before stays. Nothing is counted while no row is due: it would take a
/// quarter of a core from what is measured.
async fn count_for_ever(server: &Server, table: &str, spec: &Spec, counts: &RefCell<Counts>) -> Infallible {
    loop {
        let next = next_due(spec, &counts.borrow());
        match next.map(|due| due.duration_since(SystemTime::now()).unwrap_or_default()) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
        // A count that fails is seen as a long time without one: the table is not there before the engine has made it.
        if let Ok(answer) = ask(server, table).await {
            add(&mut counts.borrow_mut(), &answer);
        }
        tokio::time::sleep(COUNT_EVERY).await;
    }
}

/// When the results of the first window are due that has not been counted whole; `None` once all have.
fn next_due(spec: &Spec, counts: &Counts) -> Option<SystemTime> {
    let mut starts = (0..i64::from(spec.windows)).map(|n| spec.start_time_ms + n * i64::from(spec.window_ms));
    let is_whole = |start: &i64| {
        let last = counts.get(start).and_then(|rising| rising.last());
        last.is_some_and(|(_, rows)| *rows >= u64::from(spec.sensors))
    };
    starts.find(|start| !is_whole(start)).map(|start| due(spec, start))
}

/// When the results of a window are due that begins then.
fn due(spec: &Spec, start_ms: i64) -> SystemTime {
    let due_ms = start_ms + i64::from(spec.window_ms) + i64::from(spec.disorder_ms);
    UNIX_EPOCH + Duration::from_millis(u64::try_from(due_ms).unwrap_or(0))
}

/// When it was answered, and the rows of each window.
async fn ask(server: &Server, table: &str) -> anyhow::Result<(SystemTime, Vec<(i64, u64)>)> {
    let sql = format!(
        "SELECT toUnixTimestamp64Milli(window_start) AS start, count() FROM `{table}` GROUP BY start"
    );
    let text = server.ask(&sql).await?;
    let answered = SystemTime::now();
    let row = |line: &str| {
        let (start, rows) = line.split_once('\t')?;
        Some((start.parse().ok()?, rows.parse().ok()?))
    };
    Ok((answered, text.lines().filter_map(row).collect()))
}

fn add(counts: &mut Counts, (answered, rows): &(SystemTime, Vec<(i64, u64)>)) {
    for (start, rows) in rows {
        let of_window = counts.entry(*start).or_default();
        if of_window.last().is_none_or(|(_, before)| before < rows) {
            of_window.push((*answered, *rows));
        }
    }
}

/// The latency of rows, and how many have it, by rising latency.
fn latencies(workload: &Workload, counts: &Counts) -> Vec<(f64, u64)> {
    let spec = workload.spec();
    let mut latencies = Vec::new();
    for (start_ms, rising) in counts {
        let due = due(spec, *start_ms);
        let mut before = 0;
        for (answered, rows) in rising {
            let latency = answered.duration_since(due).unwrap_or_default();
            latencies.push((latency.as_secs_f64(), rows - before));
            before = *rows;
        }
    }
    latencies.sort_by(|a, b| a.0.total_cmp(&b.0));
    latencies
}

/// The latency that a share of all rows does not exceed.
fn at_share(latencies: &[(f64, u64)], share: f64) -> Option<f64> {
    let all: u64 = latencies.iter().map(|(_, rows)| rows).sum();
    let wanted = (all as f64 * share).ceil() as u64;
    let mut seen = 0;
    let mut reached = latencies.iter().skip_while(|(_, rows)| {
        seen += rows;
        seen < wanted
    });
    reached.next().map(|(latency, _)| *latency)
}

fn percentiles(latencies: &[(f64, u64)]) -> Vec<Percentile> {
    let shares = (1..=100).map(|percent| f64::from(percent) / 100.0);
    shares.filter_map(|share| Some(Percentile { share, latency_s: at_share(latencies, share)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    #[test]
    fn a_row_is_as_late_as_the_first_count_that_includes_it() {
        let spec = Spec { start_time_ms: 60_000, disorder_ms: 100, ..Spec::default() };
        let workload = Workload::new(spec).expect("valid");
        let mut counts = Counts::new();
        for (answered, rows) in [(66_200, 10), (66_220, 10), (66_300, 30), (66_400, 40)] {
            add(&mut counts, &(at(answered), vec![(60_000, rows)]));
        }
        let found = latencies(&workload, &counts);
        let rounded: Vec<(i64, u64)> =
            found.iter().map(|(latency, rows)| ((latency * 1e3).round() as i64, *rows)).collect();
        assert_eq!(rounded, [(100, 10), (200, 20), (300, 10)]);
        assert_eq!(at_share(&found, 0.5).map(|latency| (latency * 1e3).round()), Some(200.0));
        assert_eq!(at_share(&found, 1.0).map(|latency| (latency * 1e3).round()), Some(300.0));
        assert_eq!(at_share(&[], 0.5), None);
    }

    #[test]
    fn nothing_is_counted_before_the_next_results_are_due() {
        let shape =
            Spec { start_time_ms: 60_000, disorder_ms: 100, sensors: 40, windows: 2, ..Spec::default() };
        let mut counts = Counts::new();
        assert_eq!(next_due(&shape, &counts), Some(at(66_100)));
        add(&mut counts, &(at(66_200), vec![(60_000, 39)]));
        assert_eq!(next_due(&shape, &counts), Some(at(66_100)), "a row is missing");
        add(&mut counts, &(at(66_220), vec![(60_000, 40)]));
        assert_eq!(next_due(&shape, &counts), Some(at(72_100)));
        add(&mut counts, &(at(72_200), vec![(60_000, 40), (66_000, 40)]));
        assert_eq!(next_due(&shape, &counts), None);
    }

    #[test]
    fn a_rate_becomes_readings_of_each_sensor() {
        let spec = at_rate(&Spec::default(), 100_000);
        assert_eq!(spec.readings, 300);
        assert_eq!(rate_of(&spec).round(), 100_000.0);
        assert_eq!(at_rate(&Spec::default(), 1).readings, 1);
    }
}
