//! Counts of a table while it fills, and from them the latency of its rows.
//!
//! Owns the counting and its error. Does not own which insert came with which count ([`visible`](crate::visible)), nor the load.
//!
//! A row is visible from the first `SELECT count()` on whose answer includes its insert. A count is asked every few milliseconds, so that what is
//! measured is late by the time between two counts at most, which is reported.

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use clickhouse::checks::PROVENANCE;

use crate::server::Server;
use crate::visible::{self, Count};

/// The time between the end of a count and the next. A count costs the server 1.1 ms of CPU, so that this is a fifteenth of a core, and
/// a latency is late by a twentieth of what is aimed at.
const COUNT_EVERY: Duration = Duration::from_millis(15);

/// Rows that are asked for when latencies are worked out, at the most.
const SAMPLES_MAX: u64 = 200_000;

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

/// From the time that a row bears, `sent_ns` in SQL, to the moment at which it was visible: in seconds, of all rows or an even choice of them.
///
/// # Errors
/// When the server does not say, or a count is no sum of whole inserts.
pub(crate) async fn latencies(
    server: &Server,
    table: &str,
    sent_ns: &str,
    counts: &Counts,
) -> anyhow::Result<Vec<f64>> {
    let inserts = server
        .ask(&format!(
            "SELECT toString({PROVENANCE}), count() FROM `{table}` GROUP BY {PROVENANCE} ORDER BY min({sent_ns})"
        ))
        .await?;
    let inserts: Vec<(&str, u64)> = inserts
        .lines()
        .map(|line| {
            let (insert, rows) = line.split_once('\t').context("two columns were asked for")?;
            Ok((insert, rows.parse().context("a count")?))
        })
        .collect::<anyhow::Result<_>>()?;
    let sizes: Vec<u64> = inserts.iter().map(|(_, rows)| *rows).collect();
    let moments = visible::moments(&sizes, &counts.rising)?;
    let every = sizes.iter().sum::<u64>().div_ceil(SAMPLES_MAX).max(1);
    let rows = server
        .ask(&format!(
            "SELECT toString({PROVENANCE}), {sent_ns} FROM `{table}` WHERE cityHash64({sent_ns}) % {every} = 0"
        ))
        .await?;
    let began_ns =
        counts.began_at.duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_nanos() as i128;
    let mut latencies_s = Vec::new();
    for line in rows.lines() {
        let (insert, sent) = line.split_once('\t').context("two columns were asked for")?;
        let place = inserts
            .iter()
            .position(|(name, _)| *name == insert)
            .context("a row of an insert that is unknown")?;
        let visible_ns = began_ns + moments[place].as_nanos() as i128;
        let latency_ns = visible_ns - sent.parse::<i128>().context("a time")?;
        ensure!(latency_ns >= 0, "a row was visible before it was sent");
        latencies_s.push(latency_ns as f64 / 1e9);
    }
    Ok(latencies_s)
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
