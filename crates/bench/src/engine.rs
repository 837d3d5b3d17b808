//! One run of the pipeline: `forebay run` as a child, watched from outside.
//!
//! Owns the pipeline file, the child and what is seen of it while it runs. Does not own a child's start, end and usage (`crate::child`),
//! nor what a run is judged by (each workload). The child is the program itself, so its CPU and memory are those of the engine and of
//! nothing else: neither the benchmark's nor the server's.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::child::{Child, End};
use super::latency::{self, Latency, latency};
use super::report::Check;
use super::trace::{Sample, Trace};

/// How often the child is polled: the error of the first and last settled row, at a thousandth of a core.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A look that takes longer than this tells nothing.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// How many looks pass between two readings of the metrics, which are a page of text.
const METRICS_EVERY: u32 = 5;

/// What the engine says when its metrics can be read.
pub(crate) const LISTENS: &str = "metrics, health and status over HTTP";

/// A pipeline and where it lives.
pub struct Pipeline {
    /// The program that runs it; `None` for this one.
    pub program: Option<PathBuf>,
    /// The folder of its file, its store and its logs.
    pub dir: PathBuf,
    /// The file's text but for its name, its store and where it listens.
    pub rest: String,
    /// The lines that say where the store is; `None` for a folder below `dir`.
    pub store: Option<String>,
    /// The table, which the pipeline makes.
    pub table: String,
}

/// What was seen of a run.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Rows settled when the first of them were seen, and when, counted from the start.
    pub first: Option<(u64, Duration)>,
    /// Rows settled when their number was last seen to rise, and when.
    pub last: (u64, Duration),
    /// Keys that the state held in memory at the most.
    pub state_keys: u64,
    /// Bytes of memory of the state at the most, by its own account.
    pub state_bytes: u64,
    /// Keys and bytes when there were most keys, while none was in files: the index of those is memory too.
    whole: (u64, u64),
    /// Latencies at the last look.
    pub latency: Option<Latency>,
    /// How long seals took, at the last look.
    pub seals: Option<Latency>,
    /// For how long nothing was read because what is behind had no room, at the last look.
    pub backpressure_s: Option<f64>,
    /// How far the watermark was behind the clock, at each reading of the metrics from the first batch on: four a second.
    pub watermark_lags_s: Vec<f64>,
    /// What it did over time.
    pub trace: Trace,
}

/// What the journal says became of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Accounts {
    pub read: u64,
    pub written: u64,
    pub duplicates: u64,
    pub dead_letters: u64,
}

impl Seen {
    /// Rows between the first and the last that were seen to be settled, over the time between; `None` if all came at once.
    pub fn settled_rows_per_s(&self) -> Option<f64> {
        let (first_rows, first_at) = self.first?;
        let (last_rows, last_at) = self.last;
        let time_s = last_at.saturating_sub(first_at).as_secs_f64();
        (time_s > 0.0).then(|| (last_rows - first_rows) as f64 / time_s)
    }

    /// The lag of the watermark that a share of its readings does not exceed; `None` without one.
    pub fn watermark_lag_s(&self, share: f64) -> Option<f64> {
        let mut lags = self.watermark_lags_s.clone();
        lags.sort_by(f64::total_cmp);
        let place = (lags.len() as f64 * share).ceil() as usize;
        lags.get(place.saturating_sub(1)).copied()
    }

    /// Bytes of the state a key, of a state that is in memory alone; `None` if it never was.
    pub fn state_bytes_per_key(&self) -> Option<f64> {
        let (keys, bytes) = self.whole;
        (keys > 0).then(|| bytes as f64 / keys as f64)
    }

    /// Notes the state that `/status` tells of.
    fn note_state(&mut self, state: &Value) {
        let of = |key: &str| state[key].as_u64().unwrap_or(0);
        let (all, in_files, bytes) = (of("keys"), of("keys_spilled"), of("bytes"));
        self.state_keys = self.state_keys.max(all.saturating_sub(in_files));
        self.state_bytes = self.state_bytes.max(bytes);
        if in_files == 0 && all > self.whole.0 {
            self.whole = (all, bytes);
        }
    }
}

/// A running engine.
pub struct Engine {
    child: Child,
    started: Instant,
    table: String,
    dir: PathBuf,
    /// Where it listens, once that is known.
    address: Option<String>,
    looks: u32,
    seen: Seen,
}

impl Pipeline {
    /// The whole file: a name, a store of its own, metrics on a free port, and the rest.
    fn text(&self) -> String {
        let Self { dir, rest, .. } = self;
        let store = match &self.store {
            Some(lines) => lines.clone(),
            None => format!("store: file://{}\n", dir.join("store").display()),
        };
        format!("pipeline: bench\n{store}http: {{ listen: '127.0.0.1:0' }}\n{rest}")
    }

    fn command(&self) -> anyhow::Result<Command> {
        match &self.program {
            Some(program) => Ok(Command::new(program)),
            None => program(),
        }
    }

    fn file(&self) -> PathBuf {
        self.dir.join("pipeline.yaml")
    }

    /// Starts `forebay run`, with `--drain` if it is to end by itself.
    ///
    /// # Errors
    /// When the file cannot be written or the program does not start.
    pub fn start(&self, drain: bool) -> anyhow::Result<Engine> {
        std::fs::write(self.file(), self.text()).context("cannot write the pipeline file")?;
        let mut command = self.command()?;
        command.args(["--log-format", "json", "--log-level", "info", "run"]).arg(self.file());
        if drain {
            command.arg("--drain");
        }
        // The directory of the run holds the logs, and nothing of the caller's settings reaches the child.
        command.env_remove("FOREBAY_LOG");
        let started = Instant::now();
        let child = Child::start("engine", command, &self.dir)?;
        Ok(Engine {
            child,
            started,
            table: self.table.clone(),
            dir: self.dir.clone(),
            address: None,
            looks: 0,
            seen: Seen::default(),
        })
    }

    /// What became of all records, by the journal.
    ///
    /// # Errors
    /// When `forebay status` fails.
    pub fn accounts(&self) -> anyhow::Result<Accounts> {
        let output = self
            .command()?
            .args(["status", "--json"])
            .arg(self.file())
            .output()
            .context("cannot run `status`")?;
        if !output.status.success() {
            bail!("`status` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let report: Value = serde_json::from_slice(&output.stdout).context("`status --json` is no JSON")?;
        let records = &report["records"];
        let number =
            |key: &str| records[key].as_u64().with_context(|| format!("`status` reports no `{key}`"));
        Ok(Accounts {
            read: number("read")?,
            written: number("written")?,
            duplicates: number("duplicates")?,
            dead_letters: number("dead_letters")?,
        })
    }
}

impl Accounts {
    /// The checks of what the journal says against what was sent.
    pub fn checks(self, expected: Self) -> [Check; 4] {
        let check = |what, of: fn(&Self) -> u64| Check { what, expected: of(&expected), found: of(&self) };
        [
            check("records read by the journal's account", |accounts| accounts.read),
            check("rows written by the journal's account", |accounts| accounts.written),
            check("duplicates by the journal's account", |accounts| accounts.duplicates),
            check("dead letters by the journal's account", |accounts| accounts.dead_letters),
        ]
    }
}

impl Engine {
    /// Waits until it reads, so that nothing is sent to a pipeline that still starts.
    ///
    /// # Errors
    /// When it ends before, or needs longer than `bound`.
    pub async fn ready(&mut self, bound: Duration) -> anyhow::Result<()> {
        while self.started.elapsed() < bound {
            if self.child.poll()?.is_some() {
                bail!("the engine ended before it read anything: {}", self.words());
            }
            if let Some(status) = self.get("status").await
                && status.contains("\"running\"")
            {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        bail!("the engine did not start within {:.0} s: {}", bound.as_secs_f64(), self.words())
    }

    /// The address that its log names with these words.
    ///
    /// # Errors
    /// When it has not said them.
    pub fn listens(&self, words: &str) -> anyhow::Result<String> {
        let said = std::fs::read_to_string(self.log()).unwrap_or_default();
        address(&said, words).with_context(|| format!("the engine does not listen: {}", self.words()))
    }

    /// Watches it until it ends, or until `rows` are settled if it does not end by itself.
    ///
    /// # Errors
    /// When it fails, or needs longer than `bound`.
    pub async fn watch(mut self, rows: Option<u64>, bound: Duration) -> anyhow::Result<(End, Seen)> {
        let end = loop {
            self.look().await;
            if let Some(end) = self.child.poll()? {
                break end;
            }
            if rows.is_some_and(|rows| self.seen.last.0 >= rows) {
                return self.stop(bound).await;
            }
            if self.started.elapsed() > bound {
                bail!("the engine did not end within {:.0} s: {}", bound.as_secs_f64(), self.words());
            }
            // Short waits here, so that the end is noticed when it comes.
            if let Ok(end) = self.child.wait(LOOK_EVERY).await {
                break end;
            }
        };
        self.ended(end)
    }

    /// Ends it by its own shutdown.
    ///
    /// # Errors
    /// When it fails, or needs longer than `bound`.
    pub async fn stop(mut self, bound: Duration) -> anyhow::Result<(End, Seen)> {
        self.poll_metrics().await;
        self.child.poll()?;
        self.child.terminate();
        let end = self.child.wait(bound).await?;
        self.ended(end)
    }

    /// Kills it; says what it had used.
    ///
    /// # Errors
    /// When the system does not let it go.
    pub async fn kill(mut self) -> anyhow::Result<End> {
        self.child.kill().await
    }

    /// Checks that it has not ended.
    ///
    /// # Errors
    /// When it has; its last words are part of the error.
    pub fn is_running(&mut self) -> anyhow::Result<()> {
        match self.child.poll()? {
            Some(end) => bail!("the engine ended ({}): {}", end.status, self.words()),
            None => Ok(()),
        }
    }

    fn ended(mut self, end: End) -> anyhow::Result<(End, Seen)> {
        if !end.status.success() {
            bail!("the engine failed ({}): {}", end.status, self.words());
        }
        self.seen.trace.complete_stages(end.usage.cpu_s());
        Ok((end, self.seen))
    }

    /// Notes what it is at this moment, if it answers.
    pub async fn look(&mut self) {
        self.looks += 1;
        if self.looks.is_multiple_of(METRICS_EVERY) {
            self.poll_metrics().await;
        }
        let Some(status) = self.get("status").await else { return };
        let at = self.started.elapsed();
        let Ok(status) = serde_json::from_str::<Value>(&status) else { return };
        let seen = &mut self.seen;
        let tables = status["tables"].as_object().into_iter().flatten();
        let ours = tables.filter(|(name, _)| name.ends_with(&self.table));
        let rows: u64 = ours.filter_map(|(_, table)| table["rows_settled"].as_u64()).sum();
        if rows > seen.last.0 {
            seen.first.get_or_insert((rows, at));
            seen.last = (rows, at);
        }
        seen.note_state(&status["state"]);
        let spent = status["cpu_s"].as_object().into_iter().flatten();
        seen.trace.stages.extend(spent.filter_map(|(stage, spent)| Some((stage.clone(), spent.as_f64()?))));
        if seen.trace.is_due(at)
            && let Some(now) = self.child.now()
        {
            let (at_s, lag_records) = (at.as_secs_f64(), status["lag"].as_u64());
            seen.trace.push(Sample { at_s, rows, cpu_s: now.cpu_s, rss_bytes: now.rss_bytes, lag_records });
        }
        if self.looks.is_multiple_of(METRICS_EVERY) {
            // A thread that is gone keeps what was last seen of it.
            seen.trace.threads.extend(self.child.threads());
        }
    }

    async fn poll_metrics(&mut self) {
        if let Some(page) = self.get("metrics").await {
            let seen = &mut self.seen;
            seen.latency = latency(&page, latency::END_TO_END).or(seen.latency);
            seen.seals = latency(&page, latency::SEAL).or(seen.seals);
            seen.backpressure_s = latency::number(&page, latency::BACKPRESSURE).or(seen.backpressure_s);
            seen.watermark_lags_s
                .extend(latency::number(&page, latency::WATERMARK_LAG).filter(|lag| *lag > 0.0));
        }
    }

    /// A page of the engine; `None` before it listens and after it has ended.
    async fn get(&mut self, page: &str) -> Option<String> {
        if self.address.is_none() {
            self.address = address(&std::fs::read_to_string(self.log()).ok()?, LISTENS);
        }
        let address = self.address.as_ref()?;
        tokio::time::timeout(LOOK_MAX, ask(address, page)).await.ok()?.ok()
    }

    fn log(&self) -> PathBuf {
        self.dir.join("engine.err")
    }

    /// The last lines that it wrote.
    fn words(&self) -> String {
        const LINES: usize = 5;
        let said = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

/// The body of a page of the engine. Its server is ours and on this machine, so this much HTTP does.
async fn ask(address: &str, page: &str) -> std::io::Result<String> {
    /// The metrics of a pipeline of a thousand partitions are a tenth of this.
    const PAGE_BYTES_MAX: u64 = 1 << 20;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET /{page} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.take(PAGE_BYTES_MAX).read_to_string(&mut answer).await?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => Err(std::io::Error::other("the engine refuses the page")),
    }
}

/// The address in a line of a log that says these words.
pub(crate) fn address(log: &str, says: &str) -> Option<String> {
    let line = log.lines().find(|line| line.contains(says))?;
    let line: Value = serde_json::from_str(line).ok()?;
    Some(line["address"].as_str()?.to_owned())
}

/// This program, to be run as a child.
///
/// # Errors
/// When its own file cannot be found.
pub fn program() -> anyhow::Result<Command> {
    Ok(Command::new(std::env::current_exe().context("cannot find this program's own file")?))
}

/// Checks a workload's pipeline as `forebay check` does.
///
/// # Panics
/// When it has a fault.
#[cfg(test)]
pub fn no_fault(rest: String) {
    use pipeline::config::{self, values::reference::Surroundings};
    let pipeline =
        Pipeline { program: None, dir: "/var/tmp/bench".into(), rest, store: None, table: "bench_1".into() };
    let checked = config::check(&pipeline.text(), &Surroundings::of_process());
    assert!(checked.pipeline.is_some(), "{}", checked.faults.render("pipeline.yaml"));
}

#[cfg(test)]
mod tests;
