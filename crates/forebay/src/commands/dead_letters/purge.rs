//! `forebay dead-letters purge`.
//!
//! Owns the deletion of letters, and that nothing else is deleted: the statement names the dead-letter table and letters of this pipeline.
//! Does not own the condition (`dead_letters::filter`), nor the memory of what was deleted (`replays::purged`). The pipeline's own table,
//! its journal and what was replayed stay as they are; what was deleted is remembered in the store first.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use dataflow::Runtime;
use engine::Status;
use pipeline::config::model::Pipeline;
use pipeline::config::values::Period;
use pipeline::replays::object::Letter;
use pipeline::replays::purged::Purged;
use pipeline::replays::{Log, STREAM};
use pipeline::wiring;

use super::filter::Filter;
use super::output;
use crate::console::{Exit, PipelineFile, say};
use admin::dead_letters::letters::time;
use admin::dead_letters::{Table, clock, open_to_read};

/// How often the server is asked whether it is done.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Letters written so shortly before an unsettled insert may be part of it: a seal takes so long at the most while the
/// server answers.
const MARGIN_MS: i64 = 60_000;

/// Deletes dead letters. Never touches the pipeline's own table.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay dead-letters purge user-events.yaml --until 30d --dry-run
  forebay dead-letters purge user-events.yaml --until 30d --yes
  forebay dead-letters purge user-events.yaml --reason malformed
  forebay dead-letters purge user-events.yaml --all --yes

Prints how many letters the filters select, and asks for confirmation on a terminal; elsewhere --yes is required. Forebay \
still remembers which of the deleted letters were replayed.

Exit codes: 0 if the letters are deleted, or the wait ended while the server deletes them; 1 if the server refused or you \
did not confirm; 2 for an error in the command line or the file.")]
pub struct Purge {
    #[command(flatten)]
    file: PipelineFile,

    #[command(flatten)]
    filter: Filter,

    /// Deletes every letter of the pipeline; required if no filter is given.
    #[arg(long)]
    all: bool,

    /// Does not ask for confirmation.
    #[arg(long)]
    yes: bool,

    /// Only prints how many letters would be deleted.
    #[arg(long)]
    dry_run: bool,

    /// Does not wait until the server has deleted the rows.
    #[arg(long)]
    no_wait: bool,

    /// How long to wait for the deletion.
    #[arg(long, value_name = "PERIOD", default_value = "60s")]
    timeout: Period,
}

impl Purge {
    /// Runs the command.
    ///
    /// # Errors
    /// When the table cannot be read or the server refuses.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        if self.filter.is_empty() && !self.all {
            say("forebay: no filter is given; `--all` deletes every dead letter of the pipeline");
            return Ok(Exit::Fault);
        }
        let Some(pipeline) = crate::commands::load(&self.file.file)? else { return Ok(Exit::Fault) };
        crate::commands::runtime()?.block_on(self.purge(&pipeline))
    }

    async fn purge(&self, pipeline: &Pipeline) -> anyhow::Result<Exit> {
        let runtime = clock();
        let table = Table::new(pipeline, &runtime).await?;
        let now_ms = runtime.wall_ms();
        let before_ms = self.before(pipeline, &table, now_ms).await?;
        // A letter that is written from here on was not counted, and is not deleted.
        let condition = format!("{} AND time <= {}", self.filter.on(&table, now_ms)?, time(before_ms));
        let count = table.count(&condition).await?;
        say(&format!(
            "the filters name {count} letters of pipeline `{}` in `{}`",
            table.pipeline, table.name
        ));
        if count == 0 || self.dry_run {
            return Ok(Exit::Done);
        }
        if !self.yes {
            if !std::io::stdin().is_terminal() {
                say("forebay: this is not a terminal, so nobody can confirm; `--yes` deletes them");
                return Ok(Exit::Fault);
            }
            if !ask("delete them? [y/N] ")? {
                say("nothing was deleted");
                return Ok(Exit::Failed);
            }
        }
        let newest_ms = self.remember(pipeline, &table, &condition, &*runtime).await?;
        let condition = up_to(&condition, newest_ms);
        let tag = format!("forebay-purge-{:032x}", runtime.random());
        let sql = format!("ALTER TABLE {} DELETE WHERE {condition} AND '{tag}' != ''", table.quoted);
        let asked = table.reader.client().query(&sql, &[("mutations_sync", "0")], &[]).await;
        asked.map_err(|error| table.explain(error)).context("the letters were not deleted")?;
        if self.no_wait {
            say("the server deletes them now; `system.mutations` shows the progress");
            return Ok(Exit::Done);
        }
        self.wait(&table, (&tag, &condition), count).await
    }

    /// The store remembers which letters go, so that `verify` does not miss them or their rows. The time of the newest of them; `None` if nothing needs to
    /// be remembered.
    async fn remember(
        &self,
        pipeline: &Pipeline,
        table: &Table,
        condition: &str,
        runtime: &dyn Runtime,
    ) -> anyhow::Result<Option<i64>> {
        // A pipeline that has not run here yet has nothing to verify either.
        if open_to_read(pipeline).await?.is_none() {
            return Ok(None);
        }
        let store = wiring::storage::open(pipeline, runtime, &Status::default()).await?;
        let (mut purged, mut newest_ms) = (Purged::default(), 0);
        let mut pages = table.pages(condition).await?;
        loop {
            let heads = pages.next().await?;
            if heads.is_empty() {
                break;
            }
            for mut head in heads {
                newest_ms = newest_ms.max(head.time_ms);
                // One of an earlier reading explains nothing any more. One of the newest is kept with the time since when that is.
                if table.anew.judge(&mut head) && head.letter.source != STREAM {
                    continue;
                }
                purged.add(&Letter { print: head.item(), ..head.letter }, &head.reason);
            }
        }
        let log = Log::new(store, &wiring::lane_folder(pipeline));
        log.remember_purged(&purged)
            .await
            .context("could not record the purge in the store; nothing was deleted")?;
        Ok(Some(newest_ms))
    }

    /// Letters up to then may be deleted: those of inserts that are not settled are left, for their rows may have to be
    /// counted before such an insert is repeated.
    async fn before(&self, pipeline: &Pipeline, table: &Table, now_ms: i64) -> anyhow::Result<i64> {
        let Some((_, lane)) = open_to_read(pipeline).await? else { return Ok(now_ms) };
        let pending = lane.table(&table.name).map(|at| &lane.tables[at].pending);
        let oldest_ms = pending.into_iter().flatten().flatten().map(|piece| piece.sealed_at_ms).min();
        let Some(oldest_ms) = oldest_ms else { return Ok(now_ms) };
        let before_ms = now_ms.min(oldest_ms.saturating_sub(MARGIN_MS));
        say(&format!(
            "inserts of dead letters are not settled; letters written after {} are left where they are",
            output::time(before_ms)
        ));
        Ok(before_ms)
    }

    async fn wait(&self, table: &Table, (tag, condition): (&str, &str), count: u64) -> anyhow::Result<Exit> {
        let begun = Instant::now();
        let sql = format!(
            "SELECT is_done, parts_to_do, latest_fail_reason FROM system.mutations \
             WHERE position(command, '{tag}') > 0"
        );
        loop {
            let rows: Vec<Mutation> = table.ask(&sql).await?;
            // A replica takes a moment to hear of it from Keeper.
            let left = if rows.is_empty() { table.count(condition).await? } else { 0 };
            if is_done(&rows, left) {
                say(&format!("{count} letters are deleted"));
                return Ok(Exit::Done);
            }
            if let Some((_, parts, why)) = rows.iter().find(|(.., why)| !why.is_empty()) {
                bail!(
                    "the server cannot delete the letters in {parts} parts of `{}`, and goes on trying: {why}",
                    table.name
                );
            }
            if begun.elapsed() >= self.timeout.duration() {
                let parts: i64 = rows.iter().map(|(_, parts, _)| parts).sum();
                let what = match rows.is_empty() {
                    true => "has not begun to delete them".to_owned(),
                    false => format!("still rewrites {parts} parts"),
                };
                say(&format!(
                    "the server {what}; it continues by itself, `system.mutations` shows the progress"
                ));
                return Ok(Exit::Done);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The condition without letters that are newer than those that were remembered: `time < now() - INTERVAL 7 DAY` is true of more of them by now.
fn up_to(condition: &str, newest_ms: Option<i64>) -> String {
    newest_ms.map_or_else(
        || condition.to_owned(),
        |newest_ms| format!("{condition} AND time <= {}", time(newest_ms)),
    )
}

/// Whether it is done, the parts that are left, and why it last failed.
type Mutation = (u8, i64, String);

/// Whether the server has deleted all; `left` letters are there where it shows nothing of the deletion.
fn is_done(rows: &[Mutation], left: u64) -> bool {
    rows.iter().all(|(is_done, ..)| *is_done == 1) && left == 0
}

/// Asks on the terminal.
fn ask(question: &str) -> anyhow::Result<bool> {
    let mut err = std::io::stderr().lock();
    err.write_all(question.as_bytes())
        .and_then(|()| err.flush())
        .context("cannot write to standard error")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests;
