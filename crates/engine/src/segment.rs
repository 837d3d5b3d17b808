//! The layout of a segment: the object that a seal points into.
//!
//! Owns the order of its parts: every frame's body with its probe and its origins right behind, then the state deltas. What is large
//! begins at a page, behind zeros that nothing points to, so that it can go to the disk from its own memory. No header and no
//! index, since the seal holds offsets and checksums. Does not own what the parts mean.

use bytes::Bytes;
use dataflow::Encoded;
use protocol::record::{Frame, StateDelta};
use store::{Key, PAGE_BYTES, PAST_CACHE_BYTES_MIN, Store};

use crate::EngineError;

/// What stands in front of a part that begins at a page.
static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

// Memory that begins at a page of ours begins at a page of the store's.
const _: () = assert!(dataflow::PAGE_BYTES.is_multiple_of(PAGE_BYTES));

/// A segment under construction: pieces that are written one after the other without being joined.
#[derive(Default)]
pub struct Segment {
    pieces: Vec<Bytes>,
    len: u64,
}

impl Segment {
    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a frame; `table` and `ordinal` say where it goes, `origins` where its rows come from (empty for dead letters, which
    /// say so themselves).
    pub fn frame(&mut self, table: u32, ordinal: u64, encoded: &Encoded, origins: Bytes) -> Frame {
        self.begin(encoded.body.len());
        let frame = Frame {
            table,
            ordinal,
            id: encoded.id.0.to_le_bytes().to_vec(),
            table_partition: encoded.table_partition.clone(),
            offset: self.len,
            len: encoded.body.len() as u64,
            rows: encoded.rows,
            crc32c: crc32c::crc32c(&encoded.body),
            probe_len: encoded.probe.len() as u64,
            origins_len: origins.len() as u64,
            layout: 0,
            made: None,
        };
        self.push(encoded.body.clone());
        self.push(encoded.probe.clone());
        self.push(origins);
        frame
    }

    /// Adds the change of a step's state.
    pub fn state(&mut self, step: u32, delta: Bytes) -> StateDelta {
        self.begin(delta.len());
        let state =
            StateDelta { step, offset: self.len, len: delta.len() as u64, crc32c: crc32c::crc32c(&delta) };
        self.push(delta);
        state
    }

    /// Begins a part of so many bytes.
    fn begin(&mut self, bytes: usize) {
        let beyond = (self.len % PAGE_BYTES as u64) as usize;
        if bytes >= PAST_CACHE_BYTES_MIN && beyond > 0 {
            self.push(Bytes::from_static(&ZEROS[beyond..]));
        }
    }

    fn push(&mut self, piece: Bytes) {
        self.len += piece.len() as u64;
        self.pieces.push(piece);
    }

    /// The pieces, to be written in order.
    pub fn into_pieces(self) -> Vec<Bytes> {
        self.pieces
    }
}

/// Reads a part of a segment and checks it; `None` if the segment is not there.
///
/// # Errors
/// When the object is shorter than sealed, or its checksum does not agree; store errors as they are.
pub async fn find(
    store: &dyn Store,
    object: &str,
    offset: u64,
    len: u64,
    crc: Option<u32>,
) -> Result<Option<Bytes>, EngineError> {
    let damaged = |what: &str| EngineError::Damaged { object: object.to_owned(), what: what.to_owned() };
    let key = Key::new(object).map_err(|_| damaged("badly named"))?;
    let end = offset.checked_add(len).ok_or_else(|| damaged("asked for beyond all bytes"))?;
    let found = store.get_range(&key, offset..end).await;
    let found = found.map_err(|error| EngineError::of_reading(object, error))?;
    match (&found, crc) {
        (Some(bytes), Some(crc)) if crc32c::crc32c(bytes) != crc => Err(damaged("damaged (checksum)")),
        _ => Ok(found),
    }
}

/// The same of a segment that must be there.
///
/// # Errors
/// As [`find`], and when the segment is missing.
pub async fn read(
    store: &dyn Store,
    object: &str,
    offset: u64,
    len: u64,
    crc: Option<u32>,
) -> Result<Bytes, EngineError> {
    find(store, object, offset, len, crc).await?.ok_or_else(|| missing(object))
}

/// A segment that records point to is not there.
pub fn missing(object: &str) -> EngineError {
    EngineError::Damaged { object: object.to_owned(), what: "missing".to_owned() }
}

#[cfg(test)]
mod tests;
