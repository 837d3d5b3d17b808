//! A frame that the server turned down for its content.
//!
//! Owns the bisection (protocol, step 7): a frame of several rows is split by a sealed split into two pieces with tokens of
//! their own, down to the single rows that are at fault; such a row goes to the lane, which puts it into the dead letters and
//! forgets its dedup keys in one and the same seal. Does not own the choice of what is refused: only answers that say so,
//! with effect *none*, lead here.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use bytes::Bytes;
use dataflow::FrameId;
use protocol::lane::{PIECES_MAX, Piece};
use protocol::names;
use protocol::record::{Body, Refusal, Split};

use crate::EngineError;
use crate::context::Context;
use crate::seal::write_object;
use crate::segment::Segment;

/// Refused rows on their way to the lane. Deliveries wait for each, so there are never more than frames in flight.
pub const REFUSED_AHEAD: usize = 16;

/// A single row that the server does not take.
#[derive(Debug)]
pub struct Refused {
    /// Which piece it was.
    pub refusal: Refusal,
    /// The row.
    pub row: RecordBatch,
    /// The row as a JSON object.
    pub raw: String,
    /// The server's words.
    pub message: String,
}

/// Names of objects with pieces; one owner writes them one at a time.
#[derive(Debug, Default)]
pub struct Splits {
    next: AtomicU64,
    recorded: AtomicU64,
    turn: tokio::sync::Mutex<()>,
}

impl Splits {
    /// The first number that is not in the journal yet: what lies below is recorded or given up.
    pub fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Acquire)
    }
}

/// What became of a refused piece.
pub enum Outcome {
    /// Its rows go on in smaller pieces, which the journal knows now.
    Split,
    /// It is a single row, handed to the lane.
    Refused,
    /// It would take more pieces than a frame may have: a person has to look at the table.
    TooMany,
}

/// Splits a refused piece, or hands its only row to the lane.
///
/// # Errors
/// When the sealed bytes are damaged, another owner took over, or the store refuses.
pub async fn refuse(
    context: &Context,
    place: usize,
    ordinal: u64,
    piece: &Piece,
    body: &Bytes,
    message: &str,
) -> Result<Outcome, EngineError> {
    let target = &context.targets[place];
    let refusal = Refusal { table: target.index, ordinal, piece: piece.piece };
    let rows = target.table.decode(body).map_err(|error| EngineError::Damaged {
        object: piece.segment.clone(),
        what: format!("not a frame that can be read back ({})", error.message),
    })?;
    if rows.num_rows() == 1 {
        let raw = target.table.to_json(&rows, 0);
        let refused = Refused { refusal, row: rows, raw, message: message.to_owned() };
        context.refusals.fetch_add(1, Ordering::AcqRel);
        context.room.notify_one();
        if context.refused.send(refused).await.is_err() {
            // The lane lives as long as the deliveries do. Its own error is the one that counts, and ends this task.
            std::future::pending::<()>().await;
        }
        return Ok(Outcome::Refused);
    }
    let pieces = {
        let journal = context.journal.lock().await;
        let table = &journal.lane().tables[target.index as usize];
        table.pieces(ordinal).map_or(0, <[Piece]>::len)
    };
    if pieces + 2 > PIECES_MAX {
        return Ok(Outcome::TooMany);
    }
    split(context, place, refusal, pieces as u32, &rows).await?;
    Ok(Outcome::Split)
}

async fn split(
    context: &Context,
    place: usize,
    refusal: Refusal,
    pieces: u32,
    rows: &RecordBatch,
) -> Result<(), EngineError> {
    let target = &context.targets[place];
    let half = rows.num_rows() / 2;
    let (mut segment, mut frames) = (Segment::default(), Vec::new());
    // Number, object and record together, one at a time: retirement takes what is older than the newest split and not
    // needed, so a smaller number must never be recorded after a greater one.
    let _turn = context.splits.turn.lock().await;
    let number = context.splits.next.fetch_add(1, Ordering::Relaxed);
    for (n, part) in [rows.slice(0, half), rows.slice(half, rows.num_rows() - half)].into_iter().enumerate() {
        let mut ids = || FrameId(names::frame_id(context.nonce, target.index, number, pieces + n as u32 + 1));
        let encoded = target.table.encode(&[part], &mut ids).map_err(|e| EngineError::Mismatch(e.message))?;
        let [encoded] = encoded.as_slice() else {
            // The rows were one frame of one table partition, so half of them is no more.
            return Err(EngineError::Internal("half a frame that became several"));
        };
        frames.push(segment.frame(target.index, refusal.ordinal, encoded));
    }
    let object = names::split(&context.folder, context.epoch, context.nonce, number);
    write_object(context, &object, segment.into_pieces()).await?;
    let body = Body::Split(Split {
        table: refusal.table,
        ordinal: refusal.ordinal,
        piece: refusal.piece,
        segment: object,
        pieces: frames,
    });
    context.journal.lock().await.append(body).await?;
    context.splits.recorded.store(number + 1, Ordering::Release);
    Ok(())
}
