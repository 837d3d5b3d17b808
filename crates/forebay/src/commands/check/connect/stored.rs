//! What the store says to a start: the journal, the frames that wait, the questions that are open, the state of the steps.
//!
//! Owns what of it a start would read, and what each answer means for one. Does not own the reading of the journal (`engine::journal`), of
//! state (`engine::start`) or the exit code of an error (`commands::run`).

use std::sync::Arc;

use dataflow::{Schema, Table};
use engine::change::{self, Composition};
use engine::{EngineError, segment, start};
use pipeline::config::model::Pipeline;
use pipeline::wiring::{self, WiringError};
use protocol::Lane;
use protocol::doubt::StopReason;
use serde_json::json;
use store::Store;

use super::Found;
use crate::commands::run;
use crate::console::Exit;

/// The lane as the store holds it.
pub struct Stored {
    /// The store; `None` if there is none yet.
    pub store: Option<Arc<dyn Store>>,
    /// All that its journal says.
    pub lane: Lane,
}

/// Reads the journal and all that it points to and a start would read. `None` if the journal cannot be read.
pub async fn look(pipeline: &Pipeline, tables: &[Arc<dyn Table>], found: &mut Found) -> Option<Stored> {
    let store = match wiring::storage::open_to_read(pipeline).await {
        Ok(store) => store,
        Err(error) => {
            found.wiring("store", &error);
            return None;
        }
    };
    if let Err(error) = store::url::could_write(&pipeline.store.to_string()) {
        found.wiring("store", &WiringError::Store(error));
    }
    let folder = wiring::lane_folder(pipeline);
    let lane = match &store {
        None => Lane::new(),
        Some(store) => match engine::journal::load(&**store, &folder).await {
            Ok(lane) => lane,
            Err(error) => {
                found.engine("store", &error);
                return None;
            }
        },
    };
    let (frames, rows) = waiting(store.as_deref(), &folder, &lane, found).await;
    questions(&lane, tables, found).await;
    rows_there(pipeline, tables, &lane, found).await;
    let records = if lane.has_run() { lane.next_seq } else { 0 };
    found.notes.push(match records {
        0 => "the store has nothing of this pipeline: the next start is its first".to_owned(),
        records => {
            format!("the journal holds {records} records; a start takes it over as epoch {}", lane.epoch + 1)
        }
    });
    if frames > 0 {
        found
            .notes
            .push(format!("{rows} rows in {frames} sealed inserts wait in the store: a start delivers them"));
    }
    found.json["journal"] = json!({ "records": records, "epoch": lane.epoch, "has_run": lane.has_run() });
    found.json["pending"] = json!({ "frames": frames, "rows": rows, "bytes": lane.spool_bytes() });
    Some(Stored { store, lane })
}

/// The frames that are sealed and not settled, and their rows. Those that a start reads from the store must be there.
async fn waiting(store: Option<&dyn Store>, folder: &str, lane: &Lane, found: &mut Found) -> (u64, u64) {
    let (mut frames, mut rows) = (0, 0);
    for piece in lane.tables.iter().flat_map(|table| table.pending.iter().flatten()).filter(|p| p.is_live()) {
        (frames, rows) = (frames + 1, rows + piece.frame.rows);
        let (frame, object) = (&piece.frame, &piece.segment);
        let Some(store) = store else { continue };
        match segment::find(store, object, frame.offset, frame.len, Some(frame.crc32c)).await {
            // One that names its records need not have been written: a start makes it again of them.
            Ok(None) if frame.made.is_none() => {
                let now = engine::journal::load(store, folder).await;
                if !now.is_ok_and(|now| is_settled_since(lane, &now, object)) {
                    found.engine("store", &segment::missing(object));
                }
            }
            Ok(_) => {}
            Err(error) => found.engine("store", &error),
        }
    }
    (frames, rows)
}

/// Whether a process that runs the pipeline has settled all that an object holds since the journal was read: then it may have deleted it, too.
fn is_settled_since(then: &Lane, now: &Lane, object: &str) -> bool {
    let mut pieces = now.tables.iter().flat_map(|table| table.pending.iter().flatten());
    now.next_seq > then.next_seq && !pieces.any(|piece| piece.is_live() && piece.segment == object)
}

/// Tables with rows that a start would ask about: it may be that it writes them a second time, or that its own have lesser versions.
async fn rows_there(pipeline: &Pipeline, tables: &[Arc<dyn Table>], lane: &Lane, found: &mut Found) {
    for target in pipeline.targets() {
        let name = target.clickhouse.full_name();
        let table = tables.iter().find(|table| table.name() == name);
        let Some(table) = table.filter(|table| start::must_ask(lane, &***table)) else { continue };
        let path = format!("{}.clickhouse.table", target.path);
        match table.objects_to_first_start().await {
            Ok(None) => {}
            Ok(Some(why)) => found.problem(&path, Exit::Person, why),
            Err(error) => found.problem(&path, Exit::Failed, error.message),
        }
    }
}

/// Frames that a start would stop for: a question that nobody has answered, or a table that is not the one they were sealed for.
async fn questions(lane: &Lane, tables: &[Arc<dyn Table>], found: &mut Found) {
    for table in &lane.tables {
        let Some(now) = tables.iter().find(|now| now.name() == table.name) else { continue };
        let Ok(seen) = now.see().await else { continue };
        let live = table.pending.iter().flatten().filter(|piece| piece.is_live());
        let of_another =
            |uuid: &str| !uuid.is_empty() && uuid != seen.table_uuid && uuid != table.accepted_uuid;
        let moved = live.filter(|p| {
            p.open_question().is_none()
                && table.accepted_uuid != seen.table_uuid
                && p.server.as_ref().is_some_and(|server| of_another(&server.table_uuid))
        });
        if let Some(first) = moved.into_iter().next() {
            let reason = StopReason::TableChanged;
            found.engine("sink.clickhouse.table", &doubt(&table.name, first, reason, 0));
        }
    }
    for (table, piece) in lane.open_questions() {
        let reason = piece.open_question().and_then(|question| StopReason::from_number(question.reason));
        if let Some(reason) = reason {
            found.engine("sink.clickhouse.table", &doubt(&table.name, piece, reason, 0));
        }
    }
}

fn doubt(table: &str, piece: &protocol::lane::Piece, reason: StopReason, more: usize) -> EngineError {
    EngineError::Doubt {
        table: table.to_owned(),
        ordinal: piece.frame.ordinal,
        frame: engine::answer::frame_name(piece),
        reason,
        more,
    }
}

/// Whether the steps can go on with the state that was kept for them.
pub async fn state(pipeline: &Pipeline, schemas: Option<&[Schema]>, stored: &Stored, found: &mut Found) {
    let Some(store) = &stored.store else { return };
    let steps = schemas.and_then(|schemas| wiring::steps::chain(pipeline, schemas, 1).ok());
    let Some(wiring::steps::Chain { mut steps, .. }) = steps else {
        if stored.lane.has_run() {
            found
                .notes
                .push("not checked: the state of the steps, which needs the table's columns".to_owned());
        }
        return;
    };
    // Other steps than those of the journal were reported before, and their state fits nobody.
    let made = Composition::of(&mut steps, Vec::new()).steps;
    let do_continue = made.iter().zip(&stored.lane.steps).all(|(now, before)| now.continues(before));
    if made.len() != stored.lane.steps.len() || !do_continue {
        return;
    }
    if let Err(error) = start::restore(&**store, &stored.lane, &mut steps).await {
        let now = engine::journal::load(&**store, &wiring::lane_folder(pipeline)).await;
        if is_of_store(&error) && now.is_ok_and(|now| has_other_state(&stored.lane, &now)) {
            found.notes.push(
                "not checked: the state of the steps, which a running process has replaced meanwhile"
                    .to_owned(),
            );
            return;
        }
        let (exit, path) = (run::exit_of(&error), if is_of_store(&error) { "store" } else { "steps" });
        found.problem(path, exit, error.to_string());
    }
    found.json["state"] = json!({ "steps": change::labels(&stored.lane.steps) });
}

/// Whether a process that runs the pipeline keeps its state in other objects since the journal was read: then it may have deleted those from before.
fn has_other_state(then: &Lane, now: &Lane) -> bool {
    let is_same =
        now.snapshots == then.snapshots && now.deltas.starts_with(&then.deltas) && now.files == then.files;
    now.next_seq > then.next_seq && !is_same
}

fn is_of_store(error: &EngineError) -> bool {
    matches!(error, EngineError::Store(_) | EngineError::Damaged { .. })
}

#[cfg(test)]
mod tests;
