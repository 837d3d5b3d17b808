//! A ClickHouse that answers nobody for a while, under a steady load.
//!
//! Owns when that is, how long the pipeline then takes to catch up, and at which rate; also after a crash. Does not own the load, nor what is
//! killed (`buffer::crash`).

use std::convert::Infallible;
use std::time::Duration;

use crate::server::Server;
use crate::visible::Count;

/// The pipeline has caught up once no row that was sent so long ago is missing.
const CAUGHT_UP: Duration = Duration::from_secs(3);

/// When the server is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Counted from the first request.
    pub after: Duration,
    /// How long.
    pub time: Duration,
}

impl Outage {
    /// When it is over, counted from the first request.
    pub(crate) fn end(self) -> Duration {
        self.after + self.time
    }

    /// Suspends the server at its time.
    ///
    /// # Errors
    /// When it is no child of this process.
    pub async fn happen(self, server: &Server) -> anyhow::Result<Infallible> {
        tokio::time::sleep(self.after).await;
        server.suspend(self.time).await?;
        std::future::pending().await
    }
}

/// How a pipeline caught up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CaughtUp {
    /// From the end of what held it up.
    pub time: Duration,
    /// Rows that became visible meanwhile, a second: those that waited, and those that came.
    pub rows_per_s: f64,
}

/// How the table caught up after `end`, when what held the rows up was over: until the first count that lacks no row which was due
/// [`CAUGHT_UP`] before it. `None` if there is no such count.
pub(crate) fn caught_up(rising: &[Count], end: Duration, rate: u64, rows: u64) -> Option<CaughtUp> {
    let has_caught_up = |count: &&Count| {
        let due = rate as f64 * count.answered.saturating_sub(CAUGHT_UP).as_secs_f64();
        count.answered >= end && count.rows as f64 >= due.min(rows as f64)
    };
    let caught_up = rising.iter().find(has_caught_up)?;
    let rows_at_end =
        rising.iter().take_while(|count| count.answered < end).last().map_or(0, |count| count.rows);
    let time = caught_up.answered - end;
    // A count that is asked at the very end is answered a moment later.
    Some(CaughtUp { time, rows_per_s: (caught_up.rows - rows_at_end) as f64 / time.as_secs_f64().max(1e-3) })
}

#[cfg(test)]
mod tests;
