//! `forebay log check`: whether everything that a log names is there and whole.
//!
//! Owns the report and its exit code. Does not own what is checked (`object_log::check`).

use std::fmt::Write as _;

use anyhow::bail;
use clap::Args;
use object_log::LogError;
use serde_json::json;

use super::Place;
use crate::console::{Exit, print};

/// Reads and verifies every object of a log. Never writes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay log check s3://my-bucket/logs/orders
  forebay log check /var/lib/forebay/logs/orders --json | jq '.partitions[].findings'

Checks every manifest segment and every data object: checksum, length, number of records, positions without a gap. Lists what is missing or damaged, and counts \
objects that nothing names, which the owner's next sweep deletes. The log may be in use: what its owner deletes meanwhile is not reported as missing.

Exit codes: 0 if everything is sound; 4 if something is damaged or missing; 1 if the store cannot be read.")]
pub struct Check {
    #[command(flatten)]
    place: Place,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub async fn execute(&self) -> anyhow::Result<Exit> {
        let store = self.place.to_read().await?;
        let (mut rows, mut text, mut is_sound) = (Vec::new(), String::new(), true);
        for index in 0.. {
            let partition = super::partition(&store, index)?;
            let checked = match partition.look().await {
                Ok(None) if index == 0 => bail!(LogError::Absent { place: store.describe() }),
                Ok(None) => break,
                Ok(Some(_)) => object_log::check::check(&partition).await,
                Err(error) => Err(error),
            };
            let (root, report) = match checked {
                Ok(checked) => checked,
                // Nothing is known of what a root names that cannot be read.
                Err(error) if error.is_damage() => {
                    is_sound = false;
                    let _ = writeln!(text, "partition {index}: its root is damaged\n  {error}");
                    rows.push(
                        json!({ "partition": index, "finding_count": 1, "findings": [error.to_string()] }),
                    );
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            is_sound &= report.finding_count == 0;
            // Writing into a text does not fail.
            let _ = writeln!(
                text,
                "partition {index}: {} records in {} objects and {} segments, {} to {}; {} orphans",
                report.records, report.objects, report.segments, root.low, root.next, report.orphans
            );
            for finding in &report.findings {
                let _ = writeln!(text, "  {finding}");
            }
            let unnamed = report.finding_count - report.findings.len() as u64;
            if unnamed > 0 {
                let _ = writeln!(text, "  and {unnamed} more");
            }
            rows.push(json!({
                "partition": index,
                "low": root.low,
                "next": root.next,
                "records": report.records,
                "objects": report.objects,
                "bytes": report.bytes,
                "segments": report.segments,
                "orphans": report.orphans,
                "finding_count": report.finding_count,
                "findings": report.findings,
            }));
        }
        let _ = writeln!(
            text,
            "{}",
            if is_sound { "everything is sound" } else { "something is damaged or missing" }
        );
        match self.json {
            true => print(&format!("{:#}\n", json!({ "log": store.describe(), "partitions": rows })))?,
            false => print(&text)?,
        };
        Ok(if is_sound { Exit::Done } else { Exit::Person })
    }
}
