//! Latency under a steady load: from the moment at which a record was to be sent to the moment at which a SELECT sees its row.
//!
//! Owns the load, the sampling of records and the percentiles. Does not own the counts of the table (`crate::counts`), which insert a count
//! includes (`crate::visible`), nor which rates are asked for (`glassflow::capacity`). The load is an open loop: a record is due when its
//! number says so, however slow the engine, the broker or the sender is, and what any of them loses counts. So nothing is left out where it
//! is slowest.
//!
//! | moment     | how it is known                                                                                  |
//! |------------|--------------------------------------------------------------------------------------------------|
//! | produced   | the time at which the record's burst (a five-hundredth of a second) was due                      |
//! | visible    | the first `SELECT count()` whose answer includes the record's insert; a count is asked every few milliseconds. It is late by the time between two counts at most, which is reported |
//!
//! Which record came with which insert is asked after the run, of the provenance column. Of many records a sixteenth (or less) is
//! sampled, chosen by the id's first digits: at least some ten thousand. A duplicate is never sampled: its row is the first one's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clickhouse::checks::PROVENANCE;
use workloads::glassflow::{Workload, oracle};

use super::feed::{Prepared, each};
use super::{Bench, LOAD_AHEAD, Steps, kafka, pipeline_text};
use crate::child::{End, Usage};
use crate::counts::{self, Counts, at_share};
use crate::engine::{Pipeline, Seen};
use crate::figure::{self, Figure, Figures, Shown};
use crate::report::{Check, Run, Verdict, of_content};
use crate::server::Server;
use crate::topic::{Pace, Sent, Topic, not_valid};
use crate::trace::Percentile;
use crate::visible::{self, Insert};
use crate::{RUN_MAX, START_MAX};

/// Records that are sampled, at the most.
const SAMPLES_MAX: u64 = 200_000;
/// What is asked of a latency.
pub(super) const LATENCY_P99: Figure =
    Figure::new("visible_p99_s", "produced to visible, p99, s", Shown::Decimals(3));
const OFFERED: Figure = Figure::new("offered_records_per_s", "records per second, offered", Shown::Whole);
const SAMPLES: Figure = Figure::new("visible_samples", "records sampled", Shown::Whole);
const P50: Figure = Figure::new("visible_p50_s", "produced to visible, p50, s", Shown::Decimals(3));
const P999: Figure = Figure::new("visible_p999_s", "produced to visible, p99.9, s", Shown::Decimals(3));
const MOST: Figure = Figure::new("visible_max_s", "produced to visible, the most, s", Shown::Decimals(3));
const ERROR: Figure = Figure::new(
    "visible_error_s_max",
    "  of it the time between two counts, at the most, s",
    Shown::Decimals(3),
);
const SENDER_LATE: Figure =
    Figure::new("sender_late_s_max", "  of it the sender's lateness, at the most, s", Shown::Decimals(3));
const BROKER_LATE: Figure =
    Figure::new("broker_late_s_max", "  of it not acknowledged, at the most, s", Shown::Decimals(3));

/// A load that is through, all its rows visible.
pub(super) struct Loaded {
    pub pipeline: Pipeline,
    pub end: End,
    pub seen: Seen,
    pub sent: Sent,
    pub counts: Counts,
    /// What ClickHouse used meanwhile, if that can be seen.
    pub clickhouse: Option<Usage>,
}

impl Bench<'_> {
    /// One run at `rate` records a second.
    pub(super) async fn loaded(
        &self,
        arm: &str,
        table: &str,
        rate: u64,
        prepared: Arc<Prepared>,
        server: &Server,
    ) -> anyhow::Result<Run> {
        let workload = &self.plan.workload;
        let expected = workload.expected();
        let touched = self.place.touch_memory()?;
        let Loaded { pipeline, end, seen, sent, counts, clickhouse } =
            self.load(table, rate, prepared, expected.rows, server).await?;
        let found = server.content(&oracle::sql(table)).await?;
        let mut latencies_s = latencies(server, table, workload, &sent, &counts).await?;
        latencies_s.sort_by(f64::total_cmp);
        let wanted = samples_wanted(workload, prefix(workload));
        let sampled = Check { what: "records sampled", expected: wanted, found: latencies_s.len() as u64 };
        let counted = pipeline.accounts()?;
        let accounts = counted.checks(self.accounts(Steps::Dedup, expected, counted));
        let checks = of_content(expected, found).into_iter().chain(accounts).chain([sampled]);
        let verdict = Verdict::of(checks);
        self.place.drop_tables(server, table).await?;

        let mut figures = Figures::default();
        figures.put(OFFERED, rate as f64);
        for (figure, share) in [(P50, 0.5), (LATENCY_P99, 0.99), (P999, 0.999), (MOST, 1.0)] {
            figures.put_if(figure, at_share(&latencies_s, share));
        }
        figures.put(ERROR, counts.gap_max.as_secs_f64());
        figures.put(SENDER_LATE, sent.late_max.as_secs_f64());
        figures.put(BROKER_LATE, sent.waiting_max().as_secs_f64());
        figures.put(SAMPLES, latencies_s.len() as f64);
        figures.put(figure::RECORDS_PER_CPU_S, workload.records_total() as f64 / end.usage.cpu_s());
        end.put_into(&mut figures);
        figures.put_if(figure::CLICKHOUSE_CPU_S, clickhouse.map(|usage| usage.cpu_s()));
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        let mut trace = seen.trace;
        trace.percentiles = percentiles(&latencies_s);
        Ok(Run { arm: arm.to_owned(), figures, verdict, not_valid: not_valid(sent.late_max), trace })
    }

    /// Sends prepared records at a pace to a pipeline of its own, until `rows` are visible.
    pub(super) async fn load(
        &self,
        table: &str,
        rate: u64,
        prepared: Arc<Prepared>,
        rows: u64,
        server: &Server,
    ) -> anyhow::Result<Loaded> {
        let brokers = self.brokers()?;
        let dir = self.place.folder(table)?;
        let topic = self.topic(table, true).await?;
        let rest = pipeline_text(
            &kafka(brokers, topic.name(), table),
            server.url(),
            table,
            self.plan.batch_age,
            Steps::Dedup,
        );
        let rest = rest + &self.plan.common.memory_line();
        let pipeline = Pipeline {
            program: self.plan.common.program.clone(),
            dir,
            rest,
            store: None,
            table: table.to_owned(),
        };
        let before = server.usage()?;
        let outcome = self.watched(&pipeline, &topic, rate, prepared, rows, server).await;
        self.drop_topic(&topic).await;
        let (end, seen, sent, counts) = outcome?;
        let clickhouse = server.usage()?.zip(before).map(|(after, before)| after.since(before));
        Ok(Loaded { pipeline, end, seen, sent, counts, clickhouse })
    }

    async fn watched(
        &self,
        pipeline: &Pipeline,
        topic: &Topic,
        rate: u64,
        prepared: Arc<Prepared>,
        rows: u64,
        server: &Server,
    ) -> anyhow::Result<(End, Seen, Sent, Counts)> {
        let mut engine = pipeline.start(false)?;
        engine.ready(START_MAX).await?;
        let pace = Pace::new(rate, Instant::now() + LOAD_AHEAD);
        let began = pace.began();
        let sender = topic.clone();
        let sending = tokio::task::spawn_blocking(move || sender.send(&*prepared, pace));
        let counts = RefCell::new(Counts::begun_at(began));
        let (watched, sent) = tokio::select! {
            both = async { tokio::join!(engine.watch(Some(rows), RUN_MAX), sending) } => both,
            never = counts::count_for_ever(server, &pipeline.table, &counts) => match never {},
        };
        let sent = sent.context("the sender panicked")??;
        let (end, seen) = watched?;
        let mut counts = counts.into_inner();
        // The last rows may have been settled after the last count.
        counts.last(server, &pipeline.table).await?;
        Ok((end, seen, sent, counts))
    }
}

/// The latency of every sampled record, in seconds.
async fn latencies(
    server: &Server,
    table: &str,
    workload: &Workload,
    sent: &Sent,
    counts: &Counts,
) -> anyhow::Result<Vec<f64>> {
    let prefix = prefix(workload);
    let numbers = numbers(workload, prefix);
    // Of each insert: its name, its rows, and a time that orders those of which no record is sampled.
    let inserts = server
        .ask(&format!(
            "SELECT toString({PROVENANCE}), count(), min(toUnixTimestamp(created_at)) FROM `{table}` GROUP BY {PROVENANCE}"
        ))
        .await?;
    let rows = server
        .ask(&format!(
            "SELECT toString(event_id), toString({PROVENANCE}) FROM `{table}` WHERE startsWith(toString(event_id), '{prefix}')"
        ))
        .await?;
    let mut of_insert: HashMap<&str, Vec<u64>> = HashMap::new();
    for line in rows.lines() {
        let (id, insert) = line.split_once('\t').context("two columns were asked for")?;
        let number = numbers.get(id.as_bytes()).with_context(|| format!("`{id}` was never sent"))?;
        of_insert.entry(insert).or_default().push(*number);
    }
    let mut sealed = Vec::new();
    for line in inserts.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let [insert, rows, created_s] = parts[..] else {
            anyhow::bail!("three columns were asked for: `{line}`")
        };
        let numbers = of_insert.remove(insert).unwrap_or_default();
        let first = numbers.iter().min().copied().unwrap_or_else(|| reckoned(workload, created_s));
        sealed.push((first, rows.parse::<u64>().context("a count")?, numbers));
    }
    sealed.sort_by_key(|(first, ..)| *first);
    let insert = |rows: u64| Insert { rows, not_before: Duration::ZERO };
    let inserts: Vec<Insert> = sealed.iter().map(|(_, rows, _)| insert(*rows)).collect();
    let moments = visible::moments(&inserts, &counts.rising)?;
    let mut latencies_s = Vec::new();
    for ((.., numbers), visible) in sealed.iter().zip(moments) {
        for number in numbers {
            let due = sent.due(*number);
            ensure!(visible >= due, "record `{number}` was visible before it was sent");
            latencies_s.push((visible - due).as_secs_f64());
        }
    }
    Ok(latencies_s)
}

/// About where the record stands whose `created_at` is this: all publishers write at the same pace.
fn reckoned(workload: &Workload, created_s: &str) -> u64 {
    let spec = workload.spec();
    let since_s = created_s.parse::<u64>().unwrap_or(0).saturating_sub(u64::from(spec.start_time_s));
    let unique = u128::from(since_s) * u128::from(spec.uniques_per_second);
    let number = unique * u128::from(workload.records_total()) / u128::from(workload.uniques_total());
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The first digits of the ids that are sampled.
fn prefix(workload: &Workload) -> &'static str {
    let mut of_all = workload.uniques_total();
    let mut digits = 0;
    while of_all > SAMPLES_MAX && digits < 8 {
        of_all /= 16;
        digits += 1;
    }
    &"00000000"[..digits]
}

fn samples_wanted(workload: &Workload, prefix: &str) -> u64 {
    numbers(workload, prefix).len() as u64
}

/// The number in the order of sending of each sampled id, where it is sent first.
fn numbers(workload: &Workload, prefix: &str) -> HashMap<[u8; 36], u64> {
    const ID_AT: std::ops::Range<usize> = 14..50;
    let mut numbers = HashMap::new();
    let sent: Result<(), Infallible> = each(workload, |number, record| {
        let id = &record[ID_AT];
        if id.starts_with(prefix.as_bytes()) {
            let id: [u8; 36] = id.try_into().expect("the range has 36 bytes");
            numbers.entry(id).or_insert(number);
        }
        Ok(())
    });
    match sent {
        Ok(()) => numbers,
    }
}

fn percentiles(sorted_s: &[f64]) -> Vec<Percentile> {
    let shares = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0];
    let at = |share| Some(Percentile { share, latency_s: at_share(sorted_s, share)? });
    shares.into_iter().filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use workloads::glassflow::Spec;

    use super::*;

    #[test]
    fn every_unique_is_known_by_the_place_where_it_is_sent_first() {
        let spec = Spec { uniques: 500, cross_duplicates: 20, ..Spec::default() };
        let workload = Workload::new(spec).expect("valid");
        let numbers = numbers(&workload, "");
        assert_eq!(numbers.len() as u64, workload.uniques_total());
        assert!(numbers.values().all(|number| *number < workload.records_total()));
        let some = super::numbers(&workload, "0");
        assert!(some.keys().all(|id| id[0] == b'0') && some.len() > 20 && some.len() < 130, "{}", some.len());
    }

    #[test]
    fn many_records_are_sampled_and_few_are_not() {
        let of = |uniques| prefix(&Workload::new(Spec { uniques, ..Spec::default() }).expect("valid"));
        assert_eq!((of(1_000), of(1_000_000), of(100_000_000)), ("", "0", "000"));
    }
}
