//! `forebay dead-letters list`: letters one a line, or their counts by reason.
//!
//! Owns the columns of both, and how many letters are shown. Does not own which are meant (`filter`), the pages that they are read in
//! (`admin::dead_letters`) or the width of columns (`output`).

use clap::Args;
use pipeline::config::model::Pipeline;
use serde_json::json;

use super::filter::Filter;
use super::output::{self, Standing};
use crate::console::{Exit, PipelineFile, print, say};
use admin::dead_letters::letters::batches;
use admin::dead_letters::{Table, clock, memory};

/// Lists dead letters, oldest first, or counts them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay dead-letters list user-events.yaml
  forebay dead-letters list user-events.yaml --summary
  forebay dead-letters list user-events.yaml --reason out_of_range,wrong_kind --since 2h
  forebay dead-letters list user-events.yaml --topic user_events --partition 2 --position 1000..2000
  forebay dead-letters list user-events.yaml --where \"message LIKE '%255%'\" --json | jq -r .raw

Only reads; the pipeline may be running.

Exit codes: 0; 1 if the table cannot be read; 2 for an error in the command line or the file.")]
pub struct List {
    #[command(flatten)]
    file: PipelineFile,

    #[command(flatten)]
    filter: Filter,

    /// How many letters to list at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,

    /// Counts the letters by reason, column and stream instead.
    #[arg(long, conflicts_with = "limit")]
    summary: bool,

    /// Prints one JSON object per line, with the whole record.
    #[arg(long)]
    json: bool,
}

impl List {
    /// Runs the command.
    ///
    /// # Errors
    /// When the table or the replay log cannot be read.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some(pipeline) = crate::commands::load(&self.file.file)? else { return Ok(Exit::Fault) };
        crate::commands::runtime()?.block_on(async {
            match self.summary {
                true => self.summary(&pipeline).await,
                false => self.letters(&pipeline).await,
            }
        })
    }

    async fn summary(&self, pipeline: &Pipeline) -> anyhow::Result<Exit> {
        /// Lines at the most; reasons, columns and streams are few.
        const LINES_MAX: usize = 10_000;
        let runtime = clock();
        let table = Table::new(pipeline, &runtime).await?;
        let condition = self.filter.on(&table, runtime.wall_ms())?;
        let sql = format!(
            "SELECT reason, column, source, count() AS letters, toUnixTimestamp64Milli(min(time)), \
             toUnixTimestamp64Milli(max(time)) FROM {} WHERE {condition} GROUP BY reason, column, source \
             ORDER BY letters DESC, reason, column, source LIMIT {LINES_MAX}",
            table.quoted
        );
        let rows: Vec<(String, String, String, u64, i64, i64)> = table.ask(&sql).await?;
        if self.json {
            for (reason, column, source, letters, first_ms, last_ms) in &rows {
                let line = json!({
                    "reason": reason, "column": column, "source": source, "letters": letters,
                    "first": output::time(*first_ms), "last": output::time(*last_ms)
                });
                print(&format!("{line}\n"))?;
            }
            return Ok(Exit::Done);
        }
        let total: u64 = rows.iter().map(|row| row.3).sum();
        let lines: Vec<Vec<String>> = rows
            .into_iter()
            .map(|(reason, column, source, letters, first_ms, last_ms)| {
                vec![
                    letters.to_string(),
                    reason,
                    column,
                    source,
                    output::time(first_ms),
                    output::time(last_ms),
                ]
            })
            .collect();
        let head = ["LETTERS", "REASON", "COLUMN", "STREAM", "FIRST", "LAST"];
        print(&format!("{}{total} in all\n", output::columns(&head, &lines)))
    }

    async fn letters(&self, pipeline: &Pipeline) -> anyhow::Result<Exit> {
        let runtime = clock();
        let table = Table::new(pipeline, &runtime).await?;
        let replayed = memory(pipeline).await?.taken;
        let condition = self.filter.on(&table, runtime.wall_ms())?;
        let mut pages = table.pages(&condition).await?;
        let mut left = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let mut has_more = false;
        let mut rows = Vec::new();
        while left > 0 {
            let mut heads = pages.next().await?;
            if heads.is_empty() {
                break;
            }
            has_more = heads.len() > left;
            heads.truncate(left);
            left -= heads.len();
            for batch in batches(&heads) {
                for mut whole in table.whole(&condition, batch).await? {
                    let standing = Standing::of(&mut whole.head, &table.anew, &replayed);
                    if self.json {
                        print(&format!("{}\n", output::json(&whole, &table, standing)))?;
                    } else {
                        let head = &whole.head;
                        rows.push(vec![
                            output::time(head.time_ms),
                            head.letter.to_string(),
                            head.reason.clone(),
                            head.column.clone(),
                            standing.word().to_owned(),
                            whole.message,
                        ]);
                    }
                }
            }
        }
        if !self.json {
            let head = ["TIME", "LETTER", "REASON", "COLUMN", "REPLAYED", "MESSAGE"];
            print(&output::columns(&head, &rows))?;
        }
        if has_more || (left == 0 && !pages.next().await?.is_empty()) {
            say("there are more; `--limit` shows more of them, `--summary` counts them");
        }
        Ok(Exit::Done)
    }
}
