//! Everything that takes part is killed under a steady load, one after the other, and started again.
//!
//! Owns when that is, the kills and the starts, and how long the table then takes to catch up. Does not own the load, nor the verdict
//! (`crate::buffer`): each record that was answered must be in the table once. A gateway or a pipeline is killed by SIGKILL and started on its
//! own file; ClickHouse on its own data and at its own port; of the store the proxy is away, with every connection cut, and S3 itself stays.

use std::cell::RefCell;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::Plan;
use super::gateway::Gateway;
use super::outage;
use super::store::Store;
use crate::child::Usage;
use crate::counts::{self, Counts};
use crate::engine::{Engine, Pipeline, Seen};
use crate::figure::{Figure, Figures, Shown};
use crate::server::Server;
use crate::{RUN_MAX, START_MAX};

/// From a part's end to its start.
const AWAY: Duration = Duration::from_secs(1);
/// How often is looked whether all rows are there.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// By then the last answers are in the journal.
const SETTLED_MAX: Duration = Duration::from_secs(60);

/// What is killed, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Gateway,
    Pipeline,
    ClickHouse,
    Store,
}

const ALL: [Part; 4] = [Part::Gateway, Part::Pipeline, Part::ClickHouse, Part::Store];

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Gateway => "the gateway",
            Self::Pipeline => "the pipeline",
            Self::ClickHouse => "ClickHouse",
            Self::Store => "the store",
        }
    }

    fn caught_up(self) -> Figure {
        let (key, label) = match self {
            Self::Gateway => ("gateway_killed_caught_up_s", "gateway killed: from its start to caught up, s"),
            Self::Pipeline => ("pipeline_killed_caught_up_s", "pipeline killed: the same, s"),
            Self::ClickHouse => ("clickhouse_killed_caught_up_s", "ClickHouse killed: the same, s"),
            Self::Store => ("store_killed_caught_up_s", "store away: the same, s"),
        };
        Figure::new(key, label, Shown::Decimals(1))
    }
}

/// A kill that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    part: Part,
    /// When it was started again, counted from the first request.
    back: Duration,
}

/// When each of so many parts is killed: evenly over the time of sending.
fn moments(parts: usize, sending: Duration) -> Vec<Duration> {
    let of = |n: usize| sending * (n as u32 + 1) / (parts as u32 + 1);
    (0..parts).map(of).collect()
}

/// Adds, for each kill, how long the table took to catch up. A kill before that is a part of it.
pub fn put(crashes: &[Crash], counts: &Counts, rate: u64, rows: u64, figures: &mut Figures) {
    for Crash { part, back } in crashes {
        let caught_up = outage::caught_up(&counts.rising, *back, rate, rows);
        figures.put_if(part.caught_up(), caught_up.map(|caught_up| caught_up.time.as_secs_f64()));
    }
}

/// What can be killed, and what those used that were.
pub struct Parts<'a> {
    /// What is measured.
    pub plan: &'a Plan,
    /// ClickHouse, a child of this process.
    pub server: &'a Server,
    /// Where the log is.
    pub store: &'a Store,
    /// What the engine runs.
    pub pipeline: &'a Pipeline,
    /// Where the gateway listens.
    pub port: u16,
    /// `None` while it is away, and for a pipeline that listens.
    pub gateway: Option<Gateway>,
    /// `None` while it is away.
    pub engine: Option<Engine>,
    /// What gateways used that were killed.
    pub gateway_used: Usage,
    /// What pipelines used that were killed.
    pub engine_used: Usage,
    /// Reports progress.
    pub say: &'a dyn Fn(&str),
}

impl Parts<'_> {
    fn all(&self) -> Vec<Part> {
        ALL.into_iter().filter(|part| *part != Part::Store || self.store.can_be_away()).collect()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.all().len() as u64
    }

    /// Kills every part in its turn while records are sent.
    ///
    /// # Errors
    /// When a part does not come back.
    pub async fn crash(&mut self, began: Instant, sending: Duration) -> anyhow::Result<Vec<Crash>> {
        let mut crashes = Vec::new();
        let parts = self.all();
        for (part, at) in parts.iter().zip(moments(parts.len(), sending)) {
            tokio::time::sleep_until((began + at).into()).await;
            (self.say)(&format!("killing {}", part.name()));
            crashes.push(Crash { part: *part, back: began.elapsed() + AWAY });
            self.kill(*part).await.with_context(|| format!("{} was killed", part.name()))?;
        }
        Ok(crashes)
    }

    async fn kill(&mut self, part: Part) -> anyhow::Result<()> {
        match part {
            Part::Gateway => {
                let gateway = self.gateway.take().context("it runs")?;
                self.gateway_used = self.gateway_used.plus(gateway.kill().await?.usage);
                tokio::time::sleep(AWAY).await;
                self.gateway =
                    Some(Gateway::start(self.plan, self.store, &self.pipeline.dir, self.port).await?);
                Ok(())
            }
            Part::Pipeline => {
                let engine = self.engine.take().context("it runs")?;
                self.engine_used = self.engine_used.plus(engine.kill().await?.usage);
                tokio::time::sleep(AWAY).await;
                self.engine.insert(self.pipeline.start(false)?).ready(START_MAX).await
            }
            Part::ClickHouse => self.server.kill(AWAY).await,
            Part::Store => self.store.kill(AWAY).await,
        }
    }

    /// Waits until the table has all rows, and then until the journal knows that it has them.
    ///
    /// # Errors
    /// When the pipeline ends, or that takes longer than a run may.
    pub async fn settled(&mut self, counts: &RefCell<Counts>, rows: u64) -> anyhow::Result<()> {
        let begun = Instant::now();
        let engine = self.engine.as_mut().context("it runs")?;
        let counting = counts::count_for_ever(self.server, &self.pipeline.table, counts);
        let filled = async {
            loop {
                engine.look().await;
                engine.is_running()?;
                let found = counts.borrow().rising.last().map_or(0, |last| last.rows);
                if found >= rows {
                    return anyhow::Ok(());
                }
                if begun.elapsed() > RUN_MAX {
                    bail!("the table has `{found}` rows of `{rows}` after {:.0} s", RUN_MAX.as_secs_f64());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            filled = filled => filled?,
            never = counting => match never {},
        }
        let begun = Instant::now();
        // What is wrong after that is a matter of the verdict.
        while self.pipeline.accounts()?.written < rows && begun.elapsed() < SETTLED_MAX {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Ends what runs; says what the gateways and the pipelines used in all.
    ///
    /// # Errors
    /// When one does not end well.
    pub async fn stop(mut self) -> anyhow::Result<(Usage, Usage, Seen)> {
        let (end, seen) = self.engine.take().context("it runs")?.stop(RUN_MAX).await?;
        let gateway = self.gateway.take().context("it runs")?.stop().await?;
        Ok((self.gateway_used.plus(gateway.usage), self.engine_used.plus(end.usage), seen))
    }
}

/// A port to come back to: below those that the system gives to connections, one of which could take it while nobody listens.
///
/// # Errors
/// When all are taken.
pub fn free_port() -> anyhow::Result<u16> {
    const PORTS: std::ops::Range<u16> = 20_000..30_000;
    let width = u32::from(PORTS.end - PORTS.start);
    // Benchmarks that run side by side begin their search at different places.
    let first = std::process::id().wrapping_mul(2_654_435_761) >> 16;
    (0..width)
        .map(|step| PORTS.start + ((first + step) % width) as u16)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .context("no port is free")
}

#[cfg(test)]
mod tests;
