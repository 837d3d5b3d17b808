//! `forebay log ls`: what a log holds.
//!
//! Owns which of a log's figures are shown, in both forms. Does not own how far a consumer is (`object_log::acks`), nor what the root says
//! (`object_log::root`).

use std::fmt::Write as _;

use clap::Args;
use object_log::{Root, acks};
use serde_json::{Value, json};

use super::Place;
use crate::console::{Exit, print};

/// Shows the partitions of a log: positions, size, owner, and how far each consumer has read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay log ls s3://my-bucket/logs/orders
  forebay log ls /var/lib/forebay/logs/orders --json | jq '.partitions[].consumers'

Only reads: running owners and consumers are not affected.")]
pub struct Ls {
    #[command(flatten)]
    place: Place,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub async fn execute(&self) -> anyhow::Result<Exit> {
        let store = self.place.to_read().await?;
        let (mut rows, mut text) = (Vec::new(), String::new());
        for (partition, root) in super::partitions(&store).await? {
            let mut consumers = Vec::new();
            for name in &root.consumers {
                let position = acks::acknowledged(&partition, name, root.queue_id()).await?.unwrap_or(0);
                consumers.push((name.clone(), position));
            }
            describe(&mut text, partition.index(), &root, &consumers);
            rows.push(json_of(partition.index(), &root, &consumers));
        }
        match self.json {
            true => print(&format!("{:#}\n", json!({ "log": store.describe(), "partitions": rows }))),
            false => print(&text),
        }
    }
}

fn describe(text: &mut String, index: u32, root: &Root, consumers: &[(String, u64)]) {
    // Writing into a text does not fail.
    let _ = writeln!(text, "partition {index}");
    let _ = writeln!(text, "  records    {} to {} ({})", root.low, root.next, root.next - root.low);
    let _ = writeln!(text, "  bytes      {}", root.bytes);
    let _ = writeln!(text, "  owner      {} (epoch {})", root.owner, root.epoch);
    let _ = writeln!(text, "  queue      {}", root.queue_id());
    let _ = writeln!(text, "  producers  {}", root.producers.len());
    for (name, position) in consumers {
        let lag = root.next.saturating_sub(*position);
        let _ = writeln!(text, "  consumer   {name}: {position} acknowledged, {lag} behind");
    }
}

fn json_of(index: u32, root: &Root, consumers: &[(String, u64)]) -> Value {
    let consumers =
        consumers.iter().map(|(name, position)| json!({ "name": name, "acknowledged": position }));
    json!({
        "partition": index,
        "queue": root.queue_id().to_string(),
        "low": root.low,
        "next": root.next,
        "bytes": root.bytes,
        "epoch": root.epoch,
        "owner": root.owner,
        "producers": root.producers.len(),
        "consumers": consumers.collect::<Vec<_>>(),
        "root_bytes": root.to_bytes().len(),
    })
}
