//! `forebay log`: looks into logs on a store, appends to them and shortens them.
//!
//! Owns the options and how things are shown. Does not own the log (`object_log`).

mod append;
mod cat;
mod check;
mod ls;
mod truncate;

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use dataflow::Runtime;
use engine::runtime::TokioRuntime;
use object_log::{LogError, LogPartition, Root};
use store::{Prefix, Remote, Store};

use crate::console::Exit;

/// Tries of a request before a command gives up, a second or two apart: a user is waiting.
const TRIES_MAX: u32 = 8;

/// Examines and changes logs on local disk or object storage.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay log ls s3://my-bucket/logs/orders
  forebay log cat s3://my-bucket/logs/orders --from 1200 --limit 10
  forebay log append /var/lib/forebay/logs/orders < orders.ndjson

A log is named by the URL of its folder. Access to object storage comes from the environment, as described in docs/stores.md.")]
pub struct Log {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ls(ls::Ls),
    Cat(cat::Cat),
    Append(append::Append),
    Truncate(truncate::Truncate),
    Check(check::Check),
}

impl Log {
    /// Runs the command.
    ///
    /// # Errors
    /// When the log cannot be read or written.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        super::runtime()?.block_on(async {
            match &self.command {
                Command::Ls(ls) => ls.execute().await,
                Command::Cat(cat) => cat.execute().await,
                Command::Append(append) => append.execute().await,
                Command::Truncate(truncate) => truncate.execute().await,
                Command::Check(check) => check.execute().await,
            }
        })
    }
}

/// Which log.
#[derive(Debug, Args)]
struct Place {
    /// The URL of the log's folder: a path, `s3://bucket/prefix`, `gs://…` or `az://…`.
    #[arg(value_name = "LOG")]
    log: String,
}

impl Place {
    /// The store of a log that is there. Leaves no trace on local disk.
    async fn to_read(&self) -> anyhow::Result<Arc<dyn Store>> {
        let url = self.log.clone();
        let opened = blocking(move || store::url::open_to_read(&url, &Remote::default())).await?;
        opened.with_context(|| {
            format!("there is no log at `{}`; `forebay log append` creates one", shown(&self.log))
        })
    }

    /// The store of a log, which is made if it is not there.
    async fn to_write(&self) -> anyhow::Result<Arc<dyn Store>> {
        if self.log.starts_with("memory:") {
            bail!("a log in memory ends with the command; name a folder or a bucket");
        }
        let url = self.log.clone();
        let store = blocking(move || store::open(&url, &Remote::default())).await?;
        store.probe(runtime().random()).await?;
        store.probe_registers(runtime().random()).await?;
        Ok(store)
    }
}

async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, store::StoreError> + Send + 'static,
) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(job).await.context("opening the store failed")??)
}

/// A URL's scheme alone, for what follows may hold a password; a path as it is.
fn shown(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, _)) if scheme != "file" => format!("{scheme}://…"),
        _ => url.to_owned(),
    }
}

fn runtime() -> Arc<dyn Runtime> {
    TokioRuntime::new(2)
}

fn partition(store: &Arc<dyn Store>, index: u32) -> Result<LogPartition, LogError> {
    Ok(LogPartition::new(store.clone(), &Prefix::root(), index, runtime())?.with_tries(TRIES_MAX))
}

/// The root of a partition that is there.
async fn root(store: &Arc<dyn Store>, partition: &LogPartition) -> anyhow::Result<Root> {
    if let Some(seen) = partition.look().await? {
        return Ok(seen.root);
    }
    let (count, index) = (partitions(store).await?.len(), partition.index());
    let (they, last) = (if count == 1 { "partition" } else { "partitions" }, count - 1);
    bail!("the log has no partition {index}: it has {count} {they}, numbered from 0 to {last}");
}

/// All partitions with their roots. They are numbered without a gap.
async fn partitions(store: &Arc<dyn Store>) -> anyhow::Result<Vec<(LogPartition, Root)>> {
    let mut found = Vec::new();
    loop {
        let partition = partition(store, u32::try_from(found.len())?)?;
        match partition.look().await? {
            Some(seen) => found.push((partition, seen.root)),
            None if found.is_empty() => bail!(LogError::Absent { place: store.describe() }),
            None => return Ok(found),
        }
    }
}
