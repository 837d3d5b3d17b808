//! Where a measurement keeps what it writes, and what all workloads are given.
//!
//! Owns the folder and the name of one measurement. Does not own the server and its tables (`crate::server`), nor topics (`crate::topic`).
//! Names never repeat, so that two measurements do not meet in a topic or a table.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pipeline::config::model::default_memory;
use pipeline::config::values::Size;
use serde_json::{Map, Value};

use super::at_hand;
use super::figure;
use super::report::{self, Arm, Goal, Setting};
use super::server::Server;

/// What every workload is given.
#[derive(Clone, Debug)]
pub struct Common {
    /// A server that runs; `None` starts one.
    pub clickhouse: Option<String>,
    /// How many times each arm runs; at least 1.
    pub repeat: u32,
    /// The folder for everything that is written.
    pub dir: PathBuf,
    /// Leaves the folder, the tables and the topic where they are.
    pub keep: bool,
    /// What the pipeline file says of `memory`; `None` leaves its default.
    pub memory: Option<Size>,
    /// The program that is measured; `None` for this one.
    pub program: Option<PathBuf>,
    /// Memory that is touched before each run, so that the machine has it at hand.
    pub touch: Size,
}

impl Common {
    /// The line of the pipeline file.
    pub fn memory_line(&self) -> String {
        self.memory.map_or(String::new(), |memory| format!("memory: {memory}\n"))
    }

    /// That no run of these arms, which are ours, held more than its budget and a fifth.
    pub fn memory_goal<'a>(&self, arms: impl IntoIterator<Item = &'a Arm>) -> Goal {
        let budget = self.memory.unwrap_or_else(default_memory);
        let bytes_max = budget.bytes as f64 * 1.2;
        let peaks = arms.into_iter().filter_map(|arm| arm.summary.get(figure::ENGINE_RSS_BYTES_MAX));
        let peak = peaks.map(|bytes| bytes.max).reduce(f64::max);
        Goal {
            text: format!(
                "engine memory up to {} MB, a fifth above `memory: {budget}`",
                figure::whole(bytes_max / 1e6)
            ),
            met: peak.map(|peak| peak <= bytes_max),
        }
    }
}

/// The corner of one measurement.
pub struct Place<'a> {
    /// What it was given.
    pub common: &'a Common,
    /// Of this measurement alone: the beginning of the names of its folder, topic and tables.
    pub name: String,
    /// Its folder, absolute.
    pub dir: PathBuf,
    say: &'a dyn Fn(&str),
}

impl<'a> Place<'a> {
    /// Makes the folder of a new measurement.
    ///
    /// # Errors
    /// When it is there or cannot be made.
    pub fn make(common: &'a Common, say: &'a dyn Fn(&str)) -> anyhow::Result<Self> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let name = format!("bench_{}_{}", since_epoch.as_secs(), std::process::id());
        let dir = std::path::absolute(common.dir.join(&name)).context("the folder has no absolute path")?;
        new_folder(&dir)?;
        Ok(Self { common, name, dir, say })
    }

    /// One whose folder nothing is written to.
    #[cfg(test)]
    pub fn of(common: &'a Common, name: &str, say: &'a dyn Fn(&str)) -> Self {
        Self { common, name: name.to_owned(), dir: "/var/tmp/bench".into(), say }
    }

    /// Reports progress.
    pub fn say(&self, line: &str) {
        (self.say)(line);
    }

    /// The server that was named, or one of its own.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn server(&self) -> anyhow::Result<Server> {
        match &self.common.clickhouse {
            Some(url) => Server::at(url).await,
            None => Server::start(&self.dir).await,
        }
    }

    /// A folder below, which must be new.
    ///
    /// # Errors
    /// When it is there or cannot be made.
    pub fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.dir.join(name);
        new_folder(&path)?;
        Ok(path)
    }

    /// Makes sure that the machine has memory at hand for the run that is to begin; what that took is [`figure::FIRST_TOUCH_MS`].
    ///
    /// # Errors
    /// When there is no memory.
    pub fn touch_memory(&self) -> anyhow::Result<Option<f64>> {
        at_hand::touch(self.common.touch.bytes).context("cannot touch memory before the run")
    }

    /// Drops what a run made, unless it is to be kept.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn drop_tables(&self, server: &Server, table: &str) -> anyhow::Result<()> {
        if !self.common.keep {
            server.ask(&format!("DROP TABLE IF EXISTS `{table}`")).await?;
            server.ask(&format!("DROP TABLE IF EXISTS `{table}_rejected`")).await?;
        }
        Ok(())
    }

    /// The workload and the machine.
    pub fn setting(
        &self,
        workload: &'static str,
        server: &Server,
        sentences: Vec<String>,
        facts: Map<String, Value>,
    ) -> Setting {
        Setting {
            workload,
            sentences,
            facts,
            clickhouse: server.version().to_owned(),
            build: report::build(),
            processor: processor(),
            cores: cores(),
        }
    }

    /// Removes the folder, unless it is to be kept, or its logs may tell why there is no outcome; gives the outcome on.
    pub fn clear<T>(self, outcome: anyhow::Result<T>) -> anyhow::Result<T> {
        if self.common.keep {
            self.say(&format!("kept `{}`", self.dir.display()));
        } else if outcome.is_err() {
            self.say(&format!("kept `{}`, where logs of the programs may tell more", self.dir.display()));
        } else if let Err(error) = std::fs::remove_dir_all(&self.dir) {
            self.say(&format!("`{}` could not be removed: {error}", self.dir.display()));
        }
        outcome
    }
}

fn new_folder(path: &Path) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
    }
    std::fs::create_dir(path).with_context(|| format!("cannot make `{}`", path.display()))
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processor's name, for people who compare reports.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|line| line.split_once(':'))
        .map_or("an unknown processor", |(_, name)| name.trim())
        .to_owned()
}
