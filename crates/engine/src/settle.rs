//! One frame, until all its rows are in the table or in the dead letters.
//!
//! Owns the order of a frame's pieces, the rows that the server refused one by one until they are dead letters, and the account of its rows (C9). Does
//! not own how many frames are under way ([`crate::deliver`]), nor how a piece arrives ([`crate::attempt`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dataflow::{Effect, Fit};
use protocol::lane::Piece;

use crate::attempt::{OfFrame, Sending, Sent};
use crate::context::Context;
use crate::problem::{Noticed, State};
use crate::refuse::Blamed;
use crate::retry::Backoff;
use crate::{EngineError, accounts, refuse};

/// Pause between two checks whether a refused row was sealed as a dead letter.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// A frame to settle.
pub struct Task {
    /// The table's place among the targets.
    pub place: usize,
    /// The frame's ordinal.
    pub ordinal: u64,
    /// Its pieces; one unless it was split.
    pub pieces: Vec<Piece>,
    /// True if an earlier owner may have sent it.
    pub doubtful: bool,
    /// The identity of a later table of this name that the operator has accepted; empty if there is none.
    pub accepted_uuid: String,
}

/// What became of the rows of a settled frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// In the table.
    pub settled: u64,
    /// Dead letters.
    pub refused: u64,
}

/// Sends a frame until all its pieces are in the table, or in the dead letters; tells how many rows are where.
/// Tables in which the order of inserts shows have one insert in flight: their pieces go in the order of their rows.
///
/// # Errors
/// When an operator must decide, another owner took over, the store refuses, or rows do not add up (C9).
pub async fn settle(context: &Arc<Context>, task: Task) -> Result<Rows, EngineError> {
    let live = task.pieces.iter().filter(|p| p.is_live());
    // The operator's answer is read where doubts are decided.
    let mut waiting: VecDeque<(Piece, bool)> =
        live.map(|p| (p.clone(), task.doubtful || p.verdict.is_some())).collect();
    waiting.make_contiguous().sort_by_key(|(piece, _)| piece.first_row);
    let sealed: u64 = waiting.iter().map(|(piece, _)| piece.frame.rows).sum();
    let mut rows = Rows { settled: 0, refused: 0 };
    // Whether the operator was waited for: what was refused before may be mended.
    let waited = AtomicBool::new(false);
    let (mut blamed, mut backoff) = (Vec::new(), Backoff::new(context.settings.retry_pause_max));
    // Every split adds pieces, and a frame has a bounded number of them.
    loop {
        let Some((piece, doubtful)) = waiting.pop_front() else {
            if may_be_blamed(context, task.place, &blamed, &waited).await {
                break;
            }
            backoff.pause(&*context.runtime).await;
            // Some may have another token by now.
            let pieces = pieces_now(context, &task).await;
            let again = blamed.drain(..).filter_map(|row| pieces.get(row.piece.piece as usize).cloned());
            waiting.extend(again.map(|piece| (piece, false)));
            continue;
        };
        let of = OfFrame { place: task.place, ordinal: task.ordinal, accepted_uuid: &task.accepted_uuid };
        match Sending::new(context, of, &piece, doubtful, &waited).run().await? {
            Sent::Settled => rows.settled += piece.frame.rows,
            Sent::Split => {
                let parts = pieces_after(context, &task, &piece).await;
                let parts = parts.into_iter().map(|p| (p, false));
                if context.settings.in_flight_max == 1 {
                    parts.rev().for_each(|part| waiting.push_front(part));
                } else {
                    // Breadth first: a fault of all rows is seen as such before any of them is a dead letter.
                    waiting.extend(parts);
                }
            }
            Sent::Refused(row) => blamed.push(*row),
        }
    }
    rows.refused = blamed.len() as u64;
    bury(context, &task, blamed).await?;
    let (seq, table) = (context.ownership.next_seq(), context.targets[task.place].table.name());
    accounts::frame(seq, table, task.ordinal, sealed, rows.settled, rows.refused)?;
    Ok(rows)
}

/// True if the refused rows become dead letters, false if they are to be sent once more.
///
/// Rows are blamed only while the table is the one that they were made for: after a look that found another they must be refused once more than one that
/// finds it again, for what is mended may be mended between a refusal and the look.
async fn may_be_blamed(context: &Context, place: usize, blamed: &[Blamed], waited: &AtomicBool) -> bool {
    if blamed.is_empty() {
        return true;
    }
    let has_waited = waited.swap(false, Ordering::AcqRel);
    let is_as_it_was = is_as_it_was(context, place, blamed).await;
    waited.store(!is_as_it_was, Ordering::Release);
    is_as_it_was && !has_waited
}

/// Hands the refused rows of a frame to the lane, all together so that they share a seal, and waits until they are dead letters.
async fn bury(context: &Context, task: &Task, blamed: Vec<Blamed>) -> Result<(), EngineError> {
    if blamed.is_empty() {
        return Ok(());
    }
    tell_blame(context, task.place, &blamed);
    let refused: Vec<u32> = blamed.iter().map(|row| row.piece.piece).collect();
    refuse::hand_over(context, task.place, task.ordinal, blamed).await?;
    for piece in refused {
        wait_until_dead(context, task, piece).await;
    }
    Ok(())
}

/// The pieces that the split of `piece` has added last: together they have its rows.
async fn pieces_after(context: &Context, task: &Task, piece: &Piece) -> Vec<Piece> {
    let journal = context.journal.lock().await;
    let table = &journal.lane().tables[context.targets[task.place].index as usize];
    let pieces = table.pieces(task.ordinal).unwrap_or_default();
    debug_assert!(pieces.get(piece.piece as usize).is_none_or(|p| p.dead), "a split piece is dead");
    let mut rows = 0;
    let parts = pieces.iter().rev().take_while(|part| {
        let is_open = rows < piece.frame.rows;
        rows += part.frame.rows;
        is_open
    });
    let mut parts: Vec<Piece> = parts.cloned().collect();
    parts.reverse();
    parts
}

/// The pieces of a frame as the journal has them.
async fn pieces_now(context: &Context, task: &Task) -> Vec<Piece> {
    let journal = context.journal.lock().await;
    let table = &journal.lane().tables[context.targets[task.place].index as usize];
    table.pieces(task.ordinal).unwrap_or_default().to_vec()
}

/// Rows are refused one by one: the problem of their table, for `status` and `/readyz`, in the words about the last of them.
fn tell_blame(context: &Context, place: usize, rows: &[Blamed]) {
    let Some((state, error)) =
        rows.last().and_then(|row| Some((State::of_table(row.error.kind)?, &row.error)))
    else {
        return;
    };
    let (name, now_ms) = (context.targets[place].table.name(), context.runtime.wall_ms());
    context.status.met(name, state, &error.redacted(), Effect::None, Noticed::Inserting, now_ms);
}

/// True if the table answers at once and takes the columns of these rows as they are.
async fn is_as_it_was(context: &Context, place: usize, rows: &[Blamed]) -> bool {
    let target = &context.targets[place];
    match target.table.see().await {
        Ok(seen) => {
            context.see(place, seen);
            let fits =
                |row: &Blamed| row.layout.as_ref().is_none_or(|layout| target.table.fit(layout) == Fit::AsIs);
            rows.iter().all(fits)
        }
        Err(error) => {
            context.not_seen(place, &error, Effect::None);
            false
        }
    }
}

/// Waits until the lane has sealed a refused row as a dead letter.
async fn wait_until_dead(context: &Context, task: &Task, piece: u32) {
    let target = &context.targets[task.place];
    loop {
        {
            let journal = context.journal.lock().await;
            let pieces = journal.lane().tables[target.index as usize].pieces(task.ordinal);
            if pieces.and_then(|p| p.get(piece as usize)).is_none_or(|p| p.dead) {
                return;
            }
        }
        // Seals are at most a batch's age apart while a row waits.
        context.runtime.sleep(REFUSED_PAUSE).await;
    }
}
