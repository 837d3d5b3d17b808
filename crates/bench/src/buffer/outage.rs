//! A ClickHouse that answers nobody for a while, under a steady load.
//!
//! Owns when that is, and how long the pipeline then takes to catch up. Does not own the load.

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
    /// Suspends the server at its time.
    ///
    /// # Errors
    /// When it is no child of this process.
    pub async fn happen(self, server: &Server) -> anyhow::Result<Infallible> {
        tokio::time::sleep(self.after).await;
        server.suspend(self.time).await?;
        std::future::pending().await
    }

    /// From the end of the outage to the first count that lacks no row which was due [`CAUGHT_UP`] before; `None` if there is none.
    pub(crate) fn caught_up(self, rising: &[Count], rate: u64, rows: u64) -> Option<Duration> {
        let end = self.after + self.time;
        let has_caught_up = |count: &&Count| {
            let due = rate as f64 * count.answered.saturating_sub(CAUGHT_UP).as_secs_f64();
            count.answered >= end && count.rows as f64 >= due.min(rows as f64)
        };
        rising.iter().find(has_caught_up).map(|count| count.answered - end)
    }
}

#[cfg(test)]
mod tests;
