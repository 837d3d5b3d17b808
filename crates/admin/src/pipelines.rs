//! The pipelines of a store, and their end.
//!
//! Owns what is told of each, and which objects go. Does not own a pipeline's table or its source: neither is ever touched here.
//!
//! Before anything goes the lane is claimed, so a process that runs the pipeline without being seen from here is fenced: it ends.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use dataflow::Runtime;
use engine::journal::{self, Journal};
use engine::{Status, TokioRuntime, inspect};
use pipeline::config::model::Pipeline;
use pipeline::wiring;
use protocol::Lane;
use protocol::lane::Renamed;
use serde_json::{Value, json};
use store::{Prefix, Store};

use crate::fields;

/// Objects asked for in one listing.
const LISTED_MAX: usize = 1_000;

/// Rounds of listing and deleting; the second finds only what a fenced owner had on its way.
const ROUNDS_MAX: usize = 8;

/// Why all of a pipeline goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its next start reads anew.
    Reset,
    /// It is not expected to start again.
    Delete,
}

impl End {
    /// The command's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Delete => "delete",
        }
    }
}

/// The pipelines of a store, each as a JSON object.
///
/// # Errors
/// When the store cannot be read.
pub async fn listed(store: &dyn Store) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    for folder in inspect::lanes(store, None).await.context("the store cannot be read")? {
        let name = folder.split('/').next().unwrap_or_default().to_owned();
        // A damaged journal must not hide the others.
        let one = match journal::load_any(store, &folder).await {
            Err(error) => {
                json!({ "pipeline": name, "lane": folder, "state": "unreadable", "error": error.to_string() })
            }
            Ok(lane) => {
                let (frames, rows) = in_flight(&lane);
                json!({
                    "pipeline": name, "lane": folder, "state": state(&lane), "epoch": lane.epoch,
                    "records": fields::counts(&engine::totals::Totals::of(&lane), fields::replayed(&lane)),
                    "in_flight_frames": frames, "in_flight_rows": rows
                })
            }
        };
        found.push(one);
    }
    Ok(found)
}

fn state(lane: &Lane) -> String {
    let pieces = || {
        lane.tables.iter().flat_map(|table| table.pending.iter().flatten()).filter(|piece| piece.is_live())
    };
    if let Some(from) = &lane.arriving_from {
        return format!("the new name of {from}, which is not renamed yet");
    }
    if let Some(Renamed { to, is_done }) = &lane.renamed {
        let not_yet = if *is_done { "" } else { ", which is not finished" };
        return format!("renamed to {to}{not_yet}");
    }
    let state = if lane.pipeline.is_empty() {
        "never read"
    } else if pieces().any(|piece| piece.question.is_some()) {
        "waits for an answer"
    } else if pieces().next().is_some() {
        "rows in flight"
    } else {
        "delivered"
    };
    state.to_owned()
}

/// Frames and rows that are sealed and not known to be in the table.
pub fn in_flight(lane: &Lane) -> (u64, u64) {
    let live =
        lane.tables.iter().flat_map(|table| table.pending.iter().flatten()).filter(|piece| piece.is_live());
    live.fold((0, 0), |(frames, rows), piece| (frames + 1, rows + piece.frame.rows))
}

/// Why the pipeline is not to be deleted or reset now.
pub fn kept(end: End, name: &str, lane: &Lane) -> Option<String> {
    let Renamed { to, is_done } = lane.renamed.as_ref()?;
    match (is_done, end) {
        (false, _) => Some(format!(
            "pipeline `{name}` is being renamed to `{to}`, and what is read and in flight may still lie under the old name: finish it \
             first, with `forebay rename FILE {to} --yes`"
        )),
        (true, End::Reset) => Some(format!(
            "pipeline `{name}` was renamed to `{to}`: write `pipeline: {to}` into the pipeline file, and reset that one"
        )),
        (true, End::Delete) => None,
    }
}

/// Objects of the pipeline and their bytes.
///
/// # Errors
/// When the store cannot be listed.
pub async fn size(store: &dyn Store, prefix: &Prefix) -> anyhow::Result<(u64, u64)> {
    let (mut objects, mut bytes, mut after) = (0, 0, None);
    loop {
        let entries = store.list(prefix, after.as_ref(), LISTED_MAX).await?;
        let Some(last) = entries.last() else { return Ok((objects, bytes)) };
        after = Some(last.key.clone());
        objects += entries.len() as u64;
        bytes += entries.iter().map(|entry| entry.size_bytes).sum::<u64>();
    }
}

/// Claims the lane, so that no other process goes on with it, and deletes all of the pipeline.
///
/// # Errors
/// When the store cannot be used, or another process writes on.
pub async fn remove(pipeline: &Pipeline) -> anyhow::Result<()> {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let store = wiring::storage::open(pipeline, &*runtime, &Status::default()).await?;
    let folder = wiring::lane_folder(pipeline);
    // One that is damaged cannot be claimed, nor can anybody else go on with it.
    if let Err(error) =
        Journal::claim(store.clone(), runtime, folder, wiring::owner(), Duration::from_secs(1)).await
    {
        tracing::warn!(%error, "the journal cannot be claimed; its objects are deleted all the same");
    }
    let prefix = Prefix::new(pipeline.pipeline.as_str()).context("the pipeline's folder")?;
    for _ in 0..ROUNDS_MAX {
        let mut after = None;
        let mut deleted = 0;
        loop {
            let entries = store.list(&prefix, after.as_ref(), LISTED_MAX).await?;
            let Some(last) = entries.last() else { break };
            after = Some(last.key.clone());
            for entry in &entries {
                store.delete(&entry.key).await?;
                deleted += 1;
            }
        }
        if deleted == 0 {
            return Ok(());
        }
    }
    bail!(
        "objects of the pipeline appear again and again: another process still writes them; stop it and try again"
    )
}
