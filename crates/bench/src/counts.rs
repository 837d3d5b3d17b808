//! Counts of a table while it fills, and from them the moment at which each row was visible.
//!
//! Owns the counting and its error. Does not own which insert came with which count ([`visible`](crate::visible)), nor the load.
//!
//! A row is visible from the first `SELECT count()` on whose answer includes its insert. A count is asked every few milliseconds, so that what is
//! measured is late by the time between two counts at most, which is reported.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clickhouse::checks::PROVENANCE;

use crate::server::Server;
use crate::visible::{self, Count, Insert};

/// The time between the end of a count and the next. A count costs the server 1.1 ms of CPU, so that this is a fifteenth of a core, and
/// a latency is late by a twentieth of what is aimed at.
const COUNT_EVERY: Duration = Duration::from_millis(15);

/// Rows that are asked for when latencies are worked out, at the most: with a name and three times a row takes up to 110 bytes, and an answer may have 16 MiB.
const SAMPLES_MAX: u64 = 120_000;

/// Every count that added rows, and the longest time between two counts.
pub(crate) struct Counts {
    /// What the times of the counts are counted from.
    began: Instant,
    /// The same moment, as the senders' clock says it.
    began_at: SystemTime,
    /// In the order of time.
    pub rising: Vec<Count>,
    last_asked: Option<Duration>,
    /// How late what appeared may be seen, at the most.
    pub gap_max: Duration,
}

impl Counts {
    /// None so far.
    pub(crate) fn begun_at(began: Instant) -> Self {
        let began_at = SystemTime::now() - began.elapsed();
        Self { began, began_at, rising: Vec::new(), last_asked: None, gap_max: Duration::ZERO }
    }

    pub(crate) fn add(&mut self, (asked, count): (Duration, Count)) {
        if count.rows > self.rising.last().map_or(0, |last| last.rows) {
            // What appeared is late by the time since the count before was asked.
            let since = count.answered.saturating_sub(self.last_asked.unwrap_or(asked));
            self.gap_max = self.gap_max.max(since);
            self.rising.push(count);
        }
        self.last_asked = Some(asked);
    }

    /// One count more: the last rows may have been settled after the last one.
    ///
    /// # Errors
    /// When the server does not say.
    pub(crate) async fn last(&mut self, server: &Server, table: &str) -> anyhow::Result<()> {
        let count = ask(server, table, self.began).await?;
        self.add(count);
        Ok(())
    }
}

/// Counts until the run ends, which may be in the middle of a count: what was counted before stays.
pub(crate) async fn count_for_ever(server: &Server, table: &str, counts: &RefCell<Counts>) -> Infallible {
    let began = counts.borrow().began;
    loop {
        // A count that fails is seen as a long time without one. Before the table is there each one does.
        if let Ok(answer) = ask(server, table, began).await {
            counts.borrow_mut().add(answer);
        }
        tokio::time::sleep(COUNT_EVERY).await;
    }
}

/// When it was asked, and the count.
async fn ask(server: &Server, table: &str, began: Instant) -> anyhow::Result<(Duration, Count)> {
    let asked = began.elapsed();
    let rows = server.number(&format!("SELECT count() FROM `{table}`")).await?;
    Ok((asked, Count { answered: began.elapsed(), rows }))
}

/// One row of those that are sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sampled {
    /// The time that it bears, nanoseconds since 1970.
    pub sent_ns: i128,
    /// What else was asked for, in that order.
    pub more: Vec<i128>,
    /// When it was visible, nanoseconds since 1970.
    pub visible_ns: i128,
}

/// What a table says of its rows, in SQL: nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a> {
    /// The time that a row bears.
    pub sent: &'a str,
    /// When the server began with a row's insert.
    pub begun: &'a str,
    /// What else is wanted of a row.
    pub more: &'a [&'a str],
}

/// What clocks of one machine may differ by: one is read to a millisecond, and others are reckoned from a clock that nobody sets meanwhile.
pub(crate) const CLOCKS_NS: i128 = 5_000_000;

/// All rows of a table or an even choice of them, with the moment at which each was visible.
///
/// # Errors
/// When the server does not say, or a count is no sum of whole inserts.
pub(crate) async fn sampled(
    server: &Server,
    table: &str,
    columns: Columns<'_>,
    counts: &Counts,
) -> anyhow::Result<Vec<Sampled>> {
    let Columns { sent, begun, more } = columns;
    let began_ns =
        counts.began_at.duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_nanos() as i128;
    let listed = server
        .ask(&format!(
            "SELECT toString({PROVENANCE}), count(), min({begun}) FROM `{table}` GROUP BY {PROVENANCE} ORDER BY min({sent})"
        ))
        .await?;
    let insert = |line: &str| {
        let [name, rows, begun] = line.split('\t').collect::<Vec<_>>()[..] else {
            bail!("three columns were asked for: `{line}`")
        };
        let begun_ns = begun.parse::<i128>().context("a time")? - began_ns - CLOCKS_NS;
        let not_before = Duration::from_nanos(begun_ns.max(0).try_into().context("a time of this run")?);
        Ok((name.to_owned(), Insert { rows: rows.parse().context("a count")?, not_before }))
    };
    let (names, inserts): (Vec<String>, Vec<Insert>) =
        listed.lines().map(insert).collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip();
    let moments = visible::moments(&inserts, &counts.rising)?;
    let visible_ns: HashMap<&str, i128> = names
        .iter()
        .zip(moments)
        .map(|(name, moment)| (name.as_str(), began_ns + moment.as_nanos() as i128))
        .collect();
    let every = inserts.iter().map(|insert| insert.rows).sum::<u64>().div_ceil(SAMPLES_MAX).max(1);
    let wanted = std::iter::once(sent).chain(more.iter().copied()).collect::<Vec<_>>().join(", ");
    let rows = server
        .ask(&format!(
            "SELECT toString({PROVENANCE}), {wanted} FROM `{table}` WHERE cityHash64({sent}) % {every} = 0"
        ))
        .await?;
    let row = |line: &str| {
        let (name, numbers) = line.split_once('\t').context("several columns were asked for")?;
        let visible_ns = *visible_ns.get(name).context("a row of an insert that is unknown")?;
        let mut numbers = numbers.split('\t').map(|number| number.parse::<i128>().context("a number"));
        let sent_ns = numbers.next().context("a time was asked for")??;
        Ok(Sampled { sent_ns, more: numbers.collect::<anyhow::Result<_>>()?, visible_ns })
    };
    rows.lines().map(row).collect()
}

/// The latency that a share of all is at or below.
pub(crate) fn at_share(sorted_s: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted_s.len() as f64).ceil() as usize;
    sorted_s.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_latency_that_was_measured() {
        let sorted: Vec<f64> = (1..=1_000).map(f64::from).collect();
        assert_eq!(at_share(&sorted, 0.5), Some(500.0));
        assert_eq!(at_share(&sorted, 0.999), Some(999.0));
        assert_eq!(at_share(&sorted, 1.0), Some(1_000.0));
        assert_eq!(at_share(&[], 0.5), None);
    }

    #[test]
    fn what_appears_between_two_counts_may_have_appeared_when_the_first_was_asked() {
        let mut counts = Counts::begun_at(Instant::now());
        let ms = Duration::from_millis;
        for (asked, answered, rows) in [(0, 2, 0), (10, 13, 5), (20, 24, 5), (30, 36, 9), (40, 99, 9)] {
            counts.add((ms(asked), Count { answered: ms(answered), rows }));
        }
        assert_eq!(counts.rising.iter().map(|count| count.rows).collect::<Vec<_>>(), [5, 9]);
        assert_eq!(counts.gap_max, ms(16));
    }
}
