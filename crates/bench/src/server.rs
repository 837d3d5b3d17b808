//! The ClickHouse that rows go to: a child of its own, or one that runs somewhere.
//!
//! Owns its start and stop and the questions about the table. Does not own what the right answers are (`workloads`), nor counts over time
//! (`crate::counts`). A child's CPU is accounted apart; what a server elsewhere uses cannot be seen from here.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clickhouse::ServerConfig;
use clickhouse::client::Client;
use engine::TokioRuntime;
use workloads::content::Content;

use super::child::{Child, Usage};

/// The engine's library is half a gigabyte; from a cold disk it takes seconds to load.
const START_MAX: Duration = Duration::from_secs(60);
/// A clean stop waits for merges.
const STOP_MAX: Duration = Duration::from_secs(60);
/// The check reads the table once: seconds for ten million rows.
const QUERY_MAX: Duration = Duration::from_secs(300);
/// What the child says once it serves, before its address.
const READY: &str = "listens at ";
/// What the child says before its token, on a line of its own before that one.
const TOKEN: &str = "token ";

/// The ClickHouse of a measurement.
pub struct Server {
    url: String,
    token: Option<String>,
    version: String,
    child: Option<RefCell<Own>>,
    client: Client,
}

/// A server that is a child of this process.
struct Own {
    /// Its logs, and the folder of its data.
    dir: PathBuf,
    /// `None` between the end of one that was killed and the start of the next.
    child: Option<Child>,
    /// What those before it used, which were killed.
    before: Usage,
}

impl Server {
    /// Starts one with its data below `dir`, which asks for no token: peers of a benchmark have none, and it lives for
    /// minutes on a port that nobody knows before.
    ///
    /// # Errors
    /// When it does not start; its own words are part of the error.
    pub async fn start(dir: &Path) -> anyhow::Result<Self> {
        Self::start_at(dir, 0).await
    }

    /// The same at a port that it keeps when it is killed and started again; any free one if it is 0.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_at(dir: &Path, port: u16) -> anyhow::Result<Self> {
        let (child, url, token) = launch(dir, port, &["--no-token"]).await?;
        Self::with(url, token, Some((dir, child))).await
    }

    /// Starts one with its data below `dir`, which asks for a token.
    ///
    /// # Errors
    /// When it does not start; its own words are part of the error.
    pub async fn start_with_token(dir: &Path) -> anyhow::Result<Self> {
        let (child, url, token) = launch(dir, 0, &[]).await?;
        Self::with(url, token, Some((dir, child))).await
    }

    /// One that runs at `url`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn at(url: &str) -> anyhow::Result<Self> {
        Self::with(url.trim_end_matches('/').to_owned(), None, None).await
    }

    async fn with(url: String, token: Option<String>, child: Option<(&Path, Child)>) -> anyhow::Result<Self> {
        let own = |(dir, child): (&Path, Child)| {
            RefCell::new(Own { dir: dir.to_owned(), child: Some(child), before: Usage::default() })
        };
        let child = child.map(own);
        let mut config = ServerConfig::new(url.as_str());
        if let Some(token) = &token {
            config.password = clickhouse::Secret::new(token.clone());
        }
        config.query_timeout = QUERY_MAX;
        let client = Client::new(config, TokioRuntime::new(1))?;
        let mut server = Self { url, token, version: String::new(), child, client };
        server.version = server.ask("SELECT version()").await?.trim().to_owned();
        Ok(server)
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The token that it asks for.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What it has used so far, with those before it that were killed; `None` for a server that is no child of this process.
    ///
    /// # Errors
    /// When the child has ended.
    pub fn usage(&self) -> anyhow::Result<Option<Usage>> {
        let of = |own: &RefCell<Own>| {
            let own = own.borrow();
            let now = own.child.as_ref().map(Child::usage).transpose()?;
            Ok(own.before.plus(now.unwrap_or_default()))
        };
        self.child.as_ref().map(of).transpose()
    }

    /// Lets it answer nobody for this long.
    ///
    /// # Errors
    /// When it is no child of this process.
    pub async fn suspend(&self, time: Duration) -> anyhow::Result<()> {
        let own = self.own()?;
        if let Some(child) = &own.borrow().child {
            child.suspend();
        }
        tokio::time::sleep(time).await;
        if let Some(child) = &own.borrow().child {
            child.resume();
        }
        Ok(())
    }

    /// Kills it (SIGKILL).
    ///
    /// # Errors
    /// When it is no child of this process, or was killed already.
    pub async fn kill(&self) -> anyhow::Result<()> {
        let own = self.own()?;
        let taken = own.borrow_mut().child.take();
        let mut child = taken.context("ClickHouse is away already")?;
        let end = child.kill().await?;
        let mut own = own.borrow_mut();
        own.before = own.before.plus(end.usage);
        Ok(())
    }

    /// Starts one that was killed again, with its data and at its port.
    ///
    /// # Errors
    /// When it is no child of this process, or does not come back.
    pub async fn restart(&self) -> anyhow::Result<()> {
        let port = self.url.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let port = port.with_context(|| format!("`{}` names no port", self.url))?;
        let own = self.own()?;
        let dir = own.borrow().dir.clone();
        let (child, ..) = launch(&dir, port, &["--no-token"]).await?;
        own.borrow_mut().child = Some(child);
        Ok(())
    }

    fn own(&self) -> anyhow::Result<&RefCell<Own>> {
        self.child.as_ref().context("a server that runs elsewhere is neither suspended nor killed from here")
    }

    /// Runs a statement and gives the answer's text.
    ///
    /// # Errors
    /// The server's words, or that there were none.
    pub async fn ask(&self, sql: &str) -> anyhow::Result<String> {
        let answer = self.client.query(sql, &[], &[]).await;
        answer.with_context(|| format!("ClickHouse at `{}` does not take `{sql}`", self.url))
    }

    /// Runs an INSERT with its rows, which no error repeats.
    ///
    /// # Errors
    /// The server's words.
    pub async fn insert(&self, statement: &str, table: &str) -> anyhow::Result<()> {
        let answer = self.client.query(statement, &[], &[]).await;
        answer.with_context(|| format!("ClickHouse at `{}` refuses rows for `{table}`", self.url))?;
        Ok(())
    }

    /// What a workload's table holds, by its oracle's question.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn content(&self, sql: &str) -> anyhow::Result<Content> {
        let text = self.ask(sql).await?;
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [rows, ids, checksum] = numbers[..] else {
            bail!("ClickHouse answers `{text}` instead of three numbers")
        };
        Ok(Content { rows, ids, checksum })
    }

    /// Asks for one number.
    ///
    /// # Errors
    /// When the server answers something else.
    pub async fn number(&self, sql: &str) -> anyhow::Result<u64> {
        let text = self.ask(sql).await?;
        text.trim().parse().with_context(|| format!("ClickHouse answers `{text}` instead of a number"))
    }

    /// Ends it if it is a child of this process.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(own) = &mut self.child
            && let Some(child) = &mut own.get_mut().child
        {
            child.terminate();
            child.wait(STOP_MAX).await?;
        }
        Ok(())
    }
}

/// Starts one with its data below `dir`: the child, its address and the token that it asks for.
async fn launch(dir: &Path, port: u16, more: &[&str]) -> anyhow::Result<(Child, String, Option<String>)> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
    command
        .args(["clickhouse", "--http", &format!("127.0.0.1:{port}"), "--path"])
        .arg(dir.join("clickhouse"));
    // A token in the environment would be taken and not told.
    command.args(more).env_remove("FOREBAY_CLICKHOUSE_TOKEN");
    let mut child = Child::start("clickhouse", command, dir)?;
    let begun = Instant::now();
    loop {
        let said = std::fs::read_to_string(dir.join("clickhouse.out")).unwrap_or_default();
        // The whole line must be there, or a part of the port would pass for all of it.
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        if let Some((_, url)) = whole.lines().find_map(|line| line.split_once(READY)) {
            let token = whole.lines().find_map(|line| line.strip_prefix(TOKEN)).map(str::to_owned);
            return Ok((child, url.trim().to_owned(), token));
        }
        if child.poll()?.is_some() || begun.elapsed() > START_MAX {
            let words = std::fs::read_to_string(dir.join("clickhouse.err")).unwrap_or_default();
            bail!("ClickHouse did not start: {}", words.trim());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
