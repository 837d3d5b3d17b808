//! The ClickHouse that rows go to: a child of its own, or one that runs somewhere.
//!
//! Owns its start and stop and the questions about the table. Does not own what the right answers are (`workloads`), nor counts over time
//! (`crate::counts`). A child's CPU is accounted apart; what a server elsewhere uses cannot be seen from here.

use std::path::Path;
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
    child: Option<Child>,
    client: Client,
}

impl Server {
    /// Starts one with its data below `dir`, which asks for no token: peers of a benchmark have none, and it lives for
    /// minutes on a port that nobody knows before.
    ///
    /// # Errors
    /// When it does not start; its own words are part of the error.
    pub async fn start(dir: &Path) -> anyhow::Result<Self> {
        Self::child(dir, &["--no-token"]).await
    }

    /// Starts one with its data below `dir`, which asks for a token.
    ///
    /// # Errors
    /// When it does not start; its own words are part of the error.
    pub async fn start_with_token(dir: &Path) -> anyhow::Result<Self> {
        Self::child(dir, &[]).await
    }

    async fn child(dir: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let mut command =
            Command::new(std::env::current_exe().context("cannot find this program's own file")?);
        command.args(["clickhouse", "--http", "127.0.0.1:0", "--path"]).arg(dir.join("clickhouse"));
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
                return Self::with(url.trim().to_owned(), token, Some(child)).await;
            }
            if child.poll()?.is_some() || begun.elapsed() > START_MAX {
                let words = std::fs::read_to_string(dir.join("clickhouse.err")).unwrap_or_default();
                bail!("ClickHouse did not start: {}", words.trim());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// One that runs at `url`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn at(url: &str) -> anyhow::Result<Self> {
        Self::with(url.trim_end_matches('/').to_owned(), None, None).await
    }

    async fn with(url: String, token: Option<String>, child: Option<Child>) -> anyhow::Result<Self> {
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

    /// What it has used so far; `None` for a server that is no child of this process.
    ///
    /// # Errors
    /// When the child has ended.
    pub fn usage(&self) -> anyhow::Result<Option<Usage>> {
        self.child.as_ref().map(Child::usage).transpose()
    }

    /// Lets it answer nobody for this long.
    ///
    /// # Errors
    /// When it is no child of this process.
    pub async fn suspend(&self, time: Duration) -> anyhow::Result<()> {
        let child = self.child.as_ref().context("a server that runs elsewhere cannot be suspended")?;
        child.suspend();
        tokio::time::sleep(time).await;
        child.resume();
        Ok(())
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
        if let Some(child) = &mut self.child {
            child.terminate();
            child.wait(STOP_MAX).await?;
        }
        Ok(())
    }
}
