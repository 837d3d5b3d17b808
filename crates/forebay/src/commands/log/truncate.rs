//! `forebay log truncate`: lets records go, or a consumer.
//!
//! Owns the refusal to let go of what a consumer has not acknowledged. Does not own the edit of the root (`object_log::partition`), nor the
//! deletion of objects, which is their owner's (`object_log::collect`).

use anyhow::bail;
use clap::Args;
use object_log::partition::Edit;
use object_log::{LogPartition, Root, acks, names};
use serde_json::json;

use super::Place;
use crate::console::{Exit, print};

/// Deletes old records, or removes a consumer for which they are kept.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay log truncate s3://my-bucket/logs/orders --before 120000
  forebay log truncate s3://my-bucket/logs/orders --forget-consumer old-pipeline

Records below the position can no longer be read from then on, and cannot be brought back. The owner of the log deletes their objects. A position above \
what a consumer has acknowledged is refused unless --force is given: that consumer would stop, because records that it has not read would be gone. A running \
owner is not interrupted.")]
pub struct Truncate {
    #[command(flatten)]
    place: Place,

    /// The partition.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    partition: u32,

    /// Deletes all records below this position.
    #[arg(long, value_name = "POSITION", required_unless_present = "forget_consumer")]
    before: Option<u64>,

    /// Also deletes records that a consumer has not acknowledged.
    #[arg(long, requires = "before")]
    force: bool,

    /// Removes this consumer: no record is kept for it any longer.
    #[arg(long, value_name = "NAME")]
    forget_consumer: Option<String>,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Truncate {
    pub async fn execute(&self) -> anyhow::Result<Exit> {
        // Only a log that is there: nothing is made by shortening it.
        self.place.to_read().await?;
        let store = self.place.to_write().await?;
        let partition = super::partition(&store, self.partition)?;
        let mut root = super::root(&store, &partition).await?;
        // Both are judged before either is done.
        if let Some(name) = &self.forget_consumer
            && (!names::is_consumer(name) || !root.consumers.contains(name))
        {
            let has = match root.consumers.is_empty() {
                true => "none".to_owned(),
                false => root.consumers.join(", "),
            };
            bail!("partition {} of the log has no consumer `{name}`; it has: {has}", self.partition);
        }
        if let Some(before) = self.before {
            self.check(before, &partition, &root).await?;
        }
        if let Some(name) = &self.forget_consumer {
            root = partition.edit(Edit::Consumer(name.clone(), false)).await?.root;
        }
        if let Some(before) = self.before {
            root = partition.edit(Edit::Truncate(before)).await?.root;
        }
        match self.json {
            true => print(&format!(
                "{:#}\n",
                json!({ "low": root.low, "next": root.next, "consumers": root.consumers })
            )),
            false => print(&format!("the log holds records {} to {}\n", root.low, root.next)),
        }
    }

    /// That no consumer which stays would miss records below a position.
    async fn check(&self, before: u64, partition: &LogPartition, root: &Root) -> anyhow::Result<()> {
        if before > root.next {
            bail!("`--before {before}` lies beyond the end of the log ({})", root.next);
        }
        let stays = |name: &&String| !self.force && self.forget_consumer.as_ref() != Some(*name);
        for name in root.consumers.iter().filter(stays) {
            let position = acks::acknowledged(partition, name, root.queue_id()).await?.unwrap_or(0);
            if position < before {
                bail!(
                    "consumer `{name}` has acknowledged {position} only, and would stop at records that are gone; wait for it, truncate \
                     before {position}, or use --force"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
