//! A frame that the server turned down for its content.
//!
//! Owns the split (protocol, step 7): a frame of several rows is replaced by a sealed split by pieces with tokens of
//! their own, down to the single rows that are at fault. Where the server has named rows, each is a piece and so are the rows between them; otherwise the
//! pieces are a quarter each. A row that was refused alone goes to the lane, which puts it into the dead letters and
//! forgets its dedup keys in one and the same seal. The dead letter is the record as the source holds it, found by the row's
//! origin ([`crate::origins`]) and read again ([`crate::reread`]). Does not own the choice of what is refused: only answers that say so,
//! with effect *none*, lead here.

use std::ops::Range;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use bytes::Bytes;
use dataflow::position;
use dataflow::{
    Encoded, FrameId, InsertError, Layout, Partition, RecordBlock, Table, TableError, TableFault,
};
use futures::stream::{self, StreamExt};
use protocol::lane::{PIECES_MAX, Piece};
use protocol::names;
use protocol::record::{Body, RecordPlace, Refusal, Split};

use crate::context::Context;
use crate::objects::NextReader;
use crate::origins::FrameOrigins;
use crate::refused::{Refused, RefusedFrom};
use crate::retry::Backoff;
use crate::segment::Segment;
use crate::{EngineError, layouts, reread};

/// Pieces that take the place of one of whose rows none was named. With four, half as many splits as with two find a single row, by as many inserts.
const PARTS: usize = 4;

/// Records of refused rows that are read at the same time.
const RECORDS_AHEAD: usize = 8;

/// Bytes of rows and records that are handed to the lane at a time, but for the last.
const HANDED_BYTES_MAX: usize = 4 << 20;

/// What became of a refused piece.
pub enum Outcome {
    /// Its rows go on in smaller pieces, which the journal knows now.
    Split,
    /// It would take more pieces than a frame may have: an operator has to inspect the table.
    TooMany,
    /// It holds values that the table's columns of now cannot take, with the words for the operator.
    Differs(String),
}

/// What the operator reads when a frame has too many bad rows.
pub fn too_many(words: &str) -> String {
    format!(
        "too many rows of one insert are refused: splitting it into {PIECES_MAX} pieces did not isolate them. Nothing is lost, and \
         later inserts wait. Fix the table (a constraint?), and Forebay continues by itself; or make batches smaller and \
         start again. The server's message: {words}"
    )
}

/// A piece of one row that was refused.
pub struct Blamed {
    /// The piece.
    pub piece: Piece,
    /// Its bytes.
    pub body: Bytes,
    /// The columns that it was made for, if they are known.
    pub layout: Option<Layout>,
    /// What the server said.
    pub error: InsertError,
}

/// Splits a refused piece of several rows, of which the server has named those in `named`. `layout` are the columns that it was made for.
///
/// # Errors
/// When the sealed bytes are damaged, another owner took over, or the store refuses.
pub async fn split(
    context: &Context,
    place: usize,
    ordinal: u64,
    piece: &Piece,
    body: &Bytes,
    layout: Option<&Layout>,
    named: &[usize],
) -> Result<Outcome, EngineError> {
    let refusal = Refusal { table: context.targets[place].index, ordinal, piece: piece.piece, record: None };
    let rows = decode(context, place, piece, body).await?;
    let origins = origins(context, place, piece, rows.num_rows()).await?;
    let (named, layout) = (named.to_vec(), layout.cloned());
    replace(context, place, refusal, Parts { rows, layout, origins, cut: Cut::Apart(named) }).await
}

/// Hands rows to the lane that were refused one by one, as many together as it may hold at a time.
///
/// # Errors
/// When the sealed bytes are damaged, or the store refuses.
pub async fn hand_over(
    context: &Context,
    place: usize,
    ordinal: u64,
    rows: Vec<Blamed>,
) -> Result<(), EngineError> {
    let mut read =
        stream::iter(rows).map(|row| refused(context, place, ordinal, row)).buffered(RECORDS_AHEAD);
    let (mut together, mut bytes) = (Vec::new(), 0);
    while let Some(row) = read.next().await {
        let row = row?;
        context.spool.add_refusal();
        bytes += row.record().map_or(0, RecordBlock::memory_bytes) + row.json.len();
        together.push(row);
        if bytes > HANDED_BYTES_MAX {
            hand(context, std::mem::take(&mut together)).await;
            bytes = 0;
        }
    }
    if !together.is_empty() {
        hand(context, together).await;
    }
    Ok(())
}

async fn hand(context: &Context, rows: Vec<Refused>) {
    if context.refused.send(rows).await.is_err() {
        // The lane lives as long as the deliveries do. Its own error is the one that counts, and ends this task.
        std::future::pending::<()>().await;
    }
}

/// A refused row with its record.
async fn refused(
    context: &Context,
    place: usize,
    ordinal: u64,
    Blamed { piece, body, error, .. }: Blamed,
) -> Result<Refused, EngineError> {
    let target = &context.targets[place];
    let mut refusal = Refusal { table: target.index, ordinal, piece: piece.piece, record: None };
    let rows = decode(context, place, &piece, &body).await?;
    let json = target.table.to_json(None, &rows, 0);
    let source = match origins(context, place, &piece, rows.num_rows()).await? {
        Some(origins) => from_source(context, &origins).await,
        None => None,
    };
    refusal.record = source
        .as_ref()
        .filter(|from| from.step.is_none())
        .map(|from| RecordPlace::new(from.origin.partition, from.origin.position()));
    // The steps know the columns of the table as it was opened, and no others.
    let row = target.table.as_schema(&rows).unwrap_or(rows);
    let table = target.table.name().to_owned();
    Ok(Refused { refusal, table, row, json, message: error.message, source })
}

/// The rows of a piece in another order, encoded for the columns that the table has now, and these columns. The piece keeps its token, which stands for its
/// rows in whatever order. `None` if the columns cannot take them any more.
///
/// # Errors
/// When the rows cannot be encoded.
pub async fn in_order(
    context: &Context,
    place: usize,
    piece: &Piece,
    rows: RecordBatch,
    order: Vec<u32>,
    layout: Option<&Layout>,
) -> Result<Option<(Bytes, Layout)>, EngineError> {
    let (table, layout, id) = (context.targets[place].table.clone(), layout.cloned(), FrameId(piece.id()));
    let encode = move || {
        let rows = take_record_batch(&rows, &UInt32Array::from(order)).expect("places of these rows");
        table.encode_again(&rows, layout.as_ref(), id)
    };
    let encoded = context.runtime.run(encode).await.ok_or(EngineError::Internal("encode of a piece"))?;
    match encoded {
        Ok((encoded, layout)) => Ok(Some((encoded.body, layout))),
        Err(error) if error.kind == TableFault::Differs => Ok(None),
        Err(error) => Err(EngineError::Mismatch(error.message)),
    }
}

/// Replaces a piece by one with the same rows for the columns that the table has now. It must never have been sent, or be certain to
/// be nowhere: its token is dead from here on.
///
/// # Errors
/// As [`refuse`].
pub async fn again(
    context: &Context,
    place: usize,
    ordinal: u64,
    piece: &Piece,
    body: &Bytes,
    layout: Option<&Layout>,
) -> Result<Outcome, EngineError> {
    let refusal = Refusal { table: context.targets[place].index, ordinal, piece: piece.piece, record: None };
    let rows = decode(context, place, piece, body).await?;
    let origins = origins(context, place, piece, rows.num_rows()).await?;
    replace(context, place, refusal, Parts { rows, layout: layout.cloned(), origins, cut: Cut::Whole }).await
}

/// The rows of a piece, encoded for the columns that the table has now, and these columns; as words what stands in the way. Nothing is sealed: the piece
/// stays what it is, with its token and its id.
///
/// # Errors
/// When the sealed bytes are damaged.
pub async fn fitted(
    context: &Context,
    place: usize,
    piece: &Piece,
    body: &Bytes,
    layout: Option<&Layout>,
) -> Result<Result<(Bytes, Layout), String>, EngineError> {
    let rows = decode(context, place, piece, body).await?;
    let (table, layout, id) = (context.targets[place].table.clone(), layout.cloned(), FrameId(piece.id()));
    let encode = move || table.encode_again(&rows, layout.as_ref(), id);
    let encoded = context.runtime.run(encode).await.ok_or(EngineError::Internal("encode of a piece"))?;
    match encoded {
        Ok((encoded, layout)) => Ok(Ok((encoded.body, layout))),
        Err(error) if error.kind == TableFault::Differs => Ok(Err(error.message)),
        Err(error) => Err(EngineError::Mismatch(error.message)),
    }
}

/// The rows of a piece, at least one. Its bytes have passed their checksum, but whoever can write into the store can make that too: what no frame of
/// ours holds is damage.
pub async fn decode(
    context: &Context,
    place: usize,
    piece: &Piece,
    body: &Bytes,
) -> Result<RecordBatch, EngineError> {
    let (table, bytes) = (context.targets[place].table.clone(), body.clone());
    let decoded = context.runtime.run(move || table.decode(&bytes)).await;
    let frame = &piece.frame;
    let damaged = |what: String| EngineError::Damaged {
        object: piece.segment.clone(),
        what: format!("damaged in frame {} ({what})", frame.ordinal),
    };
    let rows = decoded.ok_or(EngineError::Internal("decode of a frame"))?.map_err(|e| damaged(e.message))?;
    if rows.num_rows() as u64 != frame.rows || rows.num_rows() == 0 {
        return Err(damaged(format!("it holds {} rows, and {} were sealed", rows.num_rows(), frame.rows)));
    }
    Ok(rows)
}

/// The origins of a piece's rows, of which there are as many as its body holds; waits while the store is away. `None` if the frame has
/// none.
async fn origins(
    context: &Context,
    place: usize,
    piece: &Piece,
    rows: usize,
) -> Result<Option<FrameOrigins>, EngineError> {
    let frame = &piece.frame;
    if frame.origins_len == 0 {
        return Ok(None);
    }
    let offset = frame.offset + frame.len + frame.probe_len;
    let mut backoff = Backoff::new(context.settings.retry_pause_max);
    let bytes = loop {
        match context.part(place, piece, (offset, frame.origins_len), None).await {
            Err(EngineError::Store(error)) if error.kind.is_transient() => {
                tracing::warn!(%error, "a frame's origins cannot be read; trying again");
                backoff.pause(&*context.runtime).await;
            }
            result => break result?,
        }
    };
    let origins = FrameOrigins::decode(&bytes, rows).map_err(|what| EngineError::Damaged {
        object: piece.segment.clone(),
        what: format!("damaged in what says where the rows of frame {} come from ({what})", frame.ordinal),
    })?;
    Ok(Some(origins))
}

/// Finds the record of a piece's only row.
async fn from_source(context: &Context, origins: &FrameOrigins) -> Option<RefusedFrom> {
    let origin = *origins.rows.first()?;
    if let Some(step) = origin.step() {
        let journal = context.journal.lock().await;
        let name = journal.lane().steps.get(step as usize).map(|step| step.name.clone()).unwrap_or_default();
        return Some(RefusedFrom {
            partition: Partition::new(format!("@{name}"), step),
            origin,
            watermark_ms: origins.watermark_ms,
            record: Err(String::new()),
            nth: 1,
            step: Some(name),
        });
    }
    let (at, nth) = {
        let journal = context.journal.lock().await;
        let nth = journal.lane().nth_of_name().get(origin.partition as usize).copied().unwrap_or(1);
        (reread::place(journal.lane(), &origin)?, nth)
    };
    let partition = at.partition.clone();
    // Of a record of which steps make several rows the refused one alone is made again.
    let record = context.reread.record(at).await;
    let record = record.map(|record| RecordBlock { item: origin.item.or(record.item), ..record });
    if let Err(why) = &record {
        tracing::warn!(%partition, position = %position::shown(origin.position()), why, "a refused row's record cannot be read again");
    }
    Some(RefusedFrom { partition, origin, watermark_ms: origins.watermark_ms, record, nth, step: None })
}

/// The rows of a piece, and how they go on.
struct Parts {
    rows: RecordBatch,
    layout: Option<Layout>,
    origins: Option<FrameOrigins>,
    cut: Cut,
}

/// Where rows are cut.
enum Cut {
    /// Nowhere.
    Whole,
    /// Around each of these rows, or, if there is none, into even parts.
    Apart(Vec<usize>),
}

impl Cut {
    /// Ranges of rows that touch, from the first row to the last; `None` if so few pieces as `room` do not serve.
    fn ranges(&self, rows: usize, room: usize) -> Option<Vec<Range<usize>>> {
        let named = match self {
            Self::Whole => return (room > 0).then(|| std::iter::once(0..rows).collect()),
            Self::Apart(named) => named,
        };
        let (mut ranges, mut from) = (Vec::new(), 0);
        for row in named.iter().copied() {
            // The rows before it, itself, and those behind it.
            if ranges.len() + 3 > room {
                break;
            }
            ranges.extend([from..row, row..row + 1].into_iter().filter(|range| !range.is_empty()));
            from = row + 1;
        }
        if ranges.is_empty() {
            let parts = PARTS.min(rows).min(room);
            let bound = |part: usize| rows * part / parts;
            return (parts > 1).then(|| (0..parts).map(|part| bound(part)..bound(part + 1)).collect());
        }
        ranges.extend(Some(from..rows).filter(|range| !range.is_empty()));
        Some(ranges)
    }
}

async fn replace(
    context: &Context,
    place: usize,
    refusal: Refusal,
    parts: Parts,
) -> Result<Outcome, EngineError> {
    let target = &context.targets[place];
    let turn = context.objects.split_turn().await;
    let pieces = {
        let journal = context.journal.lock().await;
        let table = &journal.lane().tables[target.index as usize];
        table.pieces(refusal.ordinal).map_or(0, <[Piece]>::len)
    };
    let room = PIECES_MAX.saturating_sub(pieces);
    let Some(ranges) = parts.cut.ranges(parts.rows.num_rows(), room) else { return Ok(Outcome::TooMany) };
    let number = turn.number();
    let (table, nonce, index) = (target.table.clone(), context.objects.nonce, target.index);
    let id = move |n: u32| FrameId(names::frame_id(nonce, index, number, pieces as u32 + n + 1));
    let encoded = context.runtime.run(move || encode(&*table, &parts, &ranges, id)).await;
    let encoded = match encoded.ok_or(EngineError::Internal("encode of a split"))? {
        Ok(encoded) => encoded,
        Err(error) if error.kind == TableFault::Differs => return Ok(Outcome::Differs(error.message)),
        Err(error) => return Err(EngineError::Mismatch(error.message)),
    };
    let (mut segment, mut frames) = (Segment::default(), Vec::new());
    for (encoded, layout, origins) in encoded {
        frames.push((segment.frame(target.index, refusal.ordinal, &encoded, origins), layout));
    }
    let object = context.objects.split(number);
    context.objects.write(&object, segment.into_pieces(), NextReader::Soon).await?;
    let mut journal = context.journal.lock().await;
    journal.catch_up().await?;
    let (mut pieces, mut said) = (Vec::new(), Vec::new());
    for (mut frame, layout) in frames {
        let table = &journal.lane().tables[target.index as usize];
        let (layout, new) = table.number_layout(target.index, &layouts::to_record(&layout));
        // Pieces of one frame have the same columns.
        if said.is_empty() {
            said.extend(new);
        }
        frame.layout = layout;
        pieces.push(frame);
    }
    let Refusal { table, ordinal, piece, .. } = refusal;
    journal
        .append(Body::Split(Split { table, ordinal, piece, segment: object, pieces, layouts: said }))
        .await?;
    turn.recorded(number);
    Ok(Outcome::Split)
}

/// Parts of a frame's rows as frames of their own, each with its origins. Pure.
fn encode(
    table: &dyn Table,
    parts: &Parts,
    ranges: &[Range<usize>],
    id: impl Fn(u32) -> FrameId,
) -> Result<Vec<(Encoded, Layout, Bytes)>, TableError> {
    let Parts { rows, layout, origins, .. } = parts;
    let mut frames = Vec::with_capacity(ranges.len());
    for (n, range) in (0..).zip(ranges) {
        // Whole, whatever its rows weigh: a part whose rows are larger than the frame's mean must not be cut by its own.
        let part = rows.slice(range.start, range.len());
        let (frame, made_for) = table.encode_again(&part, layout.as_ref(), id(n))?;
        let origins =
            origins.as_ref().map_or(Bytes::new(), |o| o.slice(range.clone()).encode(&frame.rows_from).into());
        frames.push((frame, made_for, origins));
    }
    Ok(frames)
}

#[cfg(test)]
mod tests;
