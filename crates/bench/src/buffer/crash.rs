//! Everything that takes part is killed under a steady load, one after the other in each stage of its work, and started again.
//!
//! Owns the kills and the starts, and how long the table then takes to catch up. Does not own which part is killed in which stage ([`stage`]), the load,
//! nor the verdict (`crate::buffer`): each record that was answered must be in the table once. A gateway or a pipeline is killed by SIGKILL and started on
//! its own file; ClickHouse on its own data and at its own port; of the store the proxy is away, with every connection cut, and S3 itself stays.
//!
//! A stage is seen, not guessed: a proxy before S3, and another one before ClickHouse, hold the request by which it shows until the part is dead.

mod stage;

use std::cell::RefCell;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::Plan;
use super::gateway::Gateway;
use super::outage;
use super::proxy::{Proxy, Trap};
use super::send::Load;
use super::store::Store;
use crate::child::Usage;
use crate::counts::{self, Counts};
use crate::engine::{Engine, Pipeline, Seen};
use crate::figure::Figures;
use crate::server::Server;
use crate::{RUN_MAX, START_MAX};
pub use stage::{Kill, grid, planned};
use stage::{PARTS, Part, Stage};

/// From a part's end to its start.
const AWAY: Duration = Duration::from_secs(1);
/// How often is looked whether all rows are there.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often is looked whether a request of a sender is under way: each takes longer.
const REQUEST_EVERY: Duration = Duration::from_millis(1);
/// Under a load each stage comes several times within this, also while what was away before is caught up.
const STAGE_MAX: Duration = Duration::from_secs(60);
/// By then the last answers are in the journal.
const SETTLED_MAX: Duration = Duration::from_secs(60);

/// A kill that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    kill: Kill,
    /// When it was started again, counted from the first request.
    back: Duration,
}

/// When each of so many kills is: evenly over the time of sending.
fn moments(kills: usize, sending: Duration) -> Vec<Duration> {
    let of = |n: usize| sending * (n as u32 + 1) / (kills as u32 + 1);
    (0..kills).map(of).collect()
}

/// Adds, for each part, how long the table took to catch up after one of its kills, at the longest. A kill before that is a part of it.
pub fn put(crashes: &[Crash], counts: &Counts, rate: u64, rows: u64, figures: &mut Figures) {
    for part in PARTS {
        let of_part = crashes.iter().filter(|crash| crash.kill.part == part);
        let times = of_part.filter_map(|crash| outage::caught_up(&counts.rising, crash.back, rate, rows));
        let longest = times.map(|caught_up| caught_up.time.as_secs_f64()).reduce(f64::max);
        figures.put_if(part.caught_up(), longest);
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
    /// What stands before ClickHouse, if something is killed.
    pub before_server: Option<&'a Proxy>,
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
    /// Kills what is planned while records are sent.
    ///
    /// # Errors
    /// When a stage does not come, or a part does not come back.
    pub async fn crash(
        &mut self,
        kills: &[Kill],
        load: &Load,
        began: Instant,
        sending: Duration,
    ) -> anyhow::Result<Vec<Crash>> {
        let mut crashes = Vec::new();
        for (kill, at) in kills.iter().zip(moments(kills.len(), sending)) {
            tokio::time::sleep_until((began + at).into()).await;
            let (part, stage) = (kill.part.name(), kill.stage.name());
            (self.say)(&format!("killing {part} while {stage}"));
            let killed = self.kill(*kill, load, began).await;
            let back = killed.with_context(|| format!("{part} was killed while {stage}"))?;
            crashes.push(Crash { kill: *kill, back });
        }
        Ok(crashes)
    }

    /// Kills a part and starts it again; says when it was started.
    async fn kill(&mut self, kill: Kill, load: &Load, began: Instant) -> anyhow::Result<Duration> {
        let Kill { part, stage } = kill;
        if stage == Stage::Start {
            self.end(part).await?;
            tokio::time::sleep(AWAY).await;
            // What it does first may come before its start is over.
            let trap = self.trap(kill)?.context("a request shows each start")?;
            self.begin(part).await?;
            self.end_in(part, trap).await?;
        } else if let Some(trap) = self.trap(kill)? {
            self.end_in(part, trap).await?;
        } else {
            requested(load).await?;
            self.end(part).await?;
        }
        tokio::time::sleep(AWAY).await;
        let back = began.elapsed();
        self.begin(part).await?;
        self.ready(part).await?;
        Ok(back)
    }

    /// Sets a trap for the request by which a stage shows, if one does.
    fn trap(&self, kill: Kill) -> anyhow::Result<Option<Trap>> {
        let Some((asked, at)) = kill.stage.shown_by(kill.part) else { return Ok(None) };
        let proxy = if kill.is_at_clickhouse() { self.before_server()? } else { self.store.proxy()? };
        Ok(Some(proxy.trap(asked, at)))
    }

    /// Ends a part once its stage has come; what is held then goes nowhere.
    async fn end_in(&mut self, part: Part, mut trap: Trap) -> anyhow::Result<()> {
        let caught = tokio::select! {
            caught = trap.has_caught(STAGE_MAX) => caught,
            ended = self.ended() => return ended,
        };
        ensure!(
            caught,
            "that did not come within {} s: the load may have ended before; offer it for longer (`--seconds`)",
            STAGE_MAX.as_secs()
        );
        self.end(part).await
    }

    /// Ends, with an error, when a part has ended that nobody has killed.
    async fn ended(&mut self) -> anyhow::Result<()> {
        loop {
            if let Some(engine) = &mut self.engine {
                engine.is_running()?;
            }
            if let Some(gateway) = &mut self.gateway {
                gateway.is_running()?;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn before_server(&self) -> anyhow::Result<&Proxy> {
        self.before_server.context("a proxy stands before ClickHouse where it is killed")
    }

    /// Ends a part: nothing of it answers any more.
    async fn end(&mut self, part: Part) -> anyhow::Result<()> {
        match part {
            Part::Gateway => {
                let gateway = self.gateway.take().context("it runs")?;
                self.gateway_used = self.gateway_used.plus(gateway.kill().await?.usage);
            }
            Part::Pipeline => {
                let engine = self.engine.take().context("it runs")?;
                self.engine_used = self.engine_used.plus(engine.kill().await?.usage);
            }
            Part::ClickHouse => {
                // The signal goes first, and at once; then the proxy refuses as the server would.
                let proxy = self.before_server()?;
                let (killed, ()) = tokio::join!(self.server.kill(), proxy.stop());
                killed?;
            }
            Part::Store => self.store.proxy()?.stop().await,
        }
        Ok(())
    }

    /// Starts a part again.
    async fn begin(&mut self, part: Part) -> anyhow::Result<()> {
        match part {
            Part::Gateway => {
                let gateway = Gateway::launch(self.plan, self.store, &self.pipeline.dir, self.port)?;
                self.gateway = Some(gateway);
            }
            Part::Pipeline => self.engine = Some(self.pipeline.start(false)?),
            Part::ClickHouse => {
                self.server.restart().await?;
                self.before_server()?.serve().await?;
            }
            Part::Store => self.store.proxy()?.serve().await?,
        }
        Ok(())
    }

    /// Waits until a part that was started does its work.
    async fn ready(&mut self, part: Part) -> anyhow::Result<()> {
        match part {
            Part::Gateway => self.gateway.as_mut().context("it runs")?.ready().await,
            Part::Pipeline => self.engine.as_mut().context("it runs")?.ready(START_MAX).await,
            Part::ClickHouse | Part::Store => Ok(()),
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

/// Waits until a request of a sender is under way.
async fn requested(load: &Load) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !load.is_under_way() {
        ensure!(begun.elapsed() < STAGE_MAX, "no sender has sent a request for {} s", STAGE_MAX.as_secs());
        tokio::time::sleep(REQUEST_EVERY).await;
    }
    Ok(())
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
