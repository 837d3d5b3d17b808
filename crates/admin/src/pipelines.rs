//! The pipelines of a store, and their end.
//!
//! Owns what is reported of each, and which objects go. Does not own a pipeline's table or its source: neither is ever touched here.
//!
//! A process that runs the pipeline without being seen from here is refused if it writes; if it is idle or sleeps, it is fenced, and ends
//! without another write (`engine::remove`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use engine::EngineError;
use engine::journal;
use engine::remove::{self, RemoveError, Request};
use engine::{TokioRuntime, inspect};
use pipeline::config::model::Pipeline;
use pipeline::replays::{Log, LogError};
use pipeline::wiring;
use protocol::Lane;
use protocol::lane::Renamed;
use serde_json::{Value, json};
use store::{Entry, Prefix, Store};

use crate::fields;

/// Objects asked for in one listing.
const LISTED_MAX: usize = 1_000;

/// How long the journal must stand still before it counts as nobody's: an owner that works settles within a second.
const QUIET: Duration = Duration::from_secs(3);

/// Why all of a pipeline goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its next start reads anew.
    Reset,
    /// It is not expected to start again.
    Delete,
}

impl End {
    /// The word of the command that ends a pipeline so: `reset` or `delete`.
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
            // What is left of it only keeps its owners from going on.
            Ok(lane) if lane.is_removed() => continue,
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
    if lane.removed.is_some() {
        return "being deleted, which is not finished".to_owned();
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

/// Objects of the pipeline that a removal would delete, and their bytes. `lane` is what its journal says, if it can be read.
///
/// # Errors
/// When the store cannot be listed.
pub async fn size(store: &dyn Store, pipeline: &Pipeline, lane: Option<&Lane>) -> anyhow::Result<(u64, u64)> {
    let prefix = Prefix::new(pipeline.pipeline.as_str()).context("the pipeline's folder")?;
    let folder = wiring::lane_folder(pipeline);
    let is_left =
        |entry: &Entry| lane.is_some_and(|lane| remove::is_left_behind(lane, &folder, entry.key.as_str()));
    let (mut objects, mut bytes, mut after) = (0, 0, None);
    loop {
        let entries = store.list(&prefix, after.as_ref(), LISTED_MAX).await?;
        let Some(last) = entries.last() else { return Ok((objects, bytes)) };
        after = Some(last.key.clone());
        for entry in entries.iter().filter(|entry| !is_left(entry)) {
            objects += 1;
            bytes += entry.size_bytes;
        }
    }
}

/// Removes the pipeline from its store, so that no other process goes on with it.
///
/// # Errors
/// When a process runs the pipeline, or the store cannot be used.
pub async fn remove(store: Arc<dyn Store>, pipeline: &Pipeline, end: End) -> Result<(), RemoveError> {
    let request = Request {
        pipeline: pipeline.pipeline.to_string(),
        lane: wiring::LANE,
        by: format!("{} by {}", end.word(), wiring::owner()),
        quiet_min: QUIET,
        replays_end: replays_end(&Log::new(store.clone(), &wiring::lane_folder(pipeline))).await?,
    };
    engine::remove::remove(store, TokioRuntime::new(1), &request).await
}

/// The position behind a replay log. One that is damaged is removed all the same; a store that does not answer is asked again, by the same command.
async fn replays_end(log: &Log) -> Result<u64, EngineError> {
    log.behind_all().await.map_err(|error| match error {
        LogError::Store(error) => error.into(),
        LogError::Object { .. } | LogError::Full { .. } => {
            EngineError::Internal("the end of a replay log that is read")
        }
    })
}
