//! One part of an object, read and compared with what was sealed.
//!
//! Owns lengths, checksums and the number of rows, and which errors of a store are about the object itself. Does not own what a frame's bytes mean (a
//! [`Reader`]), nor what damage means for the pipeline (`inspect::words`).

use bytes::Bytes;
use protocol::record::Frame;
use store::{ErrorKind, Key, Store, StoreError};

use super::Reader;
use super::parts::Part;
use crate::origins::FrameOrigins;

/// Bytes of a snapshot that are read at once.
const PIECE_BYTES: u64 = 8 << 20;

/// A part that is as it was sealed.
pub(super) struct Seen {
    pub(super) bytes: u64,
    pub(super) rows: u64,
}

/// Reads a part and compares it with what its record says; what is wrong with it, otherwise.
pub(super) async fn look(
    store: &dyn Store,
    key: &Key,
    part: &Part,
    reader: &dyn Reader,
) -> Result<Result<Seen, String>, StoreError> {
    match part {
        Part::Frame(frame) => {
            // A sum that leaves all bounds is longer than any object, and so is not read.
            let len = frame.len.saturating_add(frame.probe_len).saturating_add(frame.origins_len);
            let whole = match read(store, key, frame.offset, len).await? {
                Ok(whole) => whole,
                Err(what) => return Ok(Err(what)),
            };
            let (body, rest) = whole.split_at(frame.len as usize);
            let (probe, origins) = rest.split_at(frame.probe_len as usize);
            if frame.origins_len > 0
                && let Err(what) = FrameOrigins::verify(origins, frame.rows)
            {
                return Ok(Err(format!("damaged (where the rows of a frame come from: {what})")));
            }
            Ok(look_at_frame(frame, body, probe, reader).map(|rows| Seen { bytes: whole.len() as u64, rows }))
        }
        Part::Delta(delta) => sum(store, key, delta.offset, delta.len, delta.crc32c).await,
        Part::Whole { len, crc32c, .. } => sum(store, key, 0, *len, *crc32c).await,
        // Some 17 MB: it is read in one piece, as it was written.
        Part::File { len, .. } => Ok(read(store, key, 0, *len)
            .await?
            .and_then(|bytes| reader.file(key.as_str(), &bytes).map(|()| Seen { bytes: *len, rows: 0 }))),
    }
}

fn look_at_frame(frame: &Frame, body: &[u8], probe: &[u8], reader: &dyn Reader) -> Result<u64, String> {
    if crc32c::crc32c(body) != frame.crc32c {
        return Err("damaged (checksum of a frame)".into());
    }
    let rows = reader.frame(body).map_err(|what| format!("no frame that can be read ({what})"))?;
    if rows != frame.rows {
        return Err(format!("a frame of {rows} rows, {} were sealed", frame.rows));
    }
    reader.probe(probe).map_err(|what| format!("damaged (the keys behind a frame: {what})"))?;
    Ok(rows)
}

/// Compares a checksum, in pieces: a snapshot may be larger than the memory.
async fn sum(
    store: &dyn Store,
    key: &Key,
    offset: u64,
    len: u64,
    crc32c: u32,
) -> Result<Result<Seen, String>, StoreError> {
    let (mut crc, mut at, end) = (0, offset, offset.saturating_add(len));
    while at < end {
        let piece = match read(store, key, at, PIECE_BYTES.min(end - at)).await? {
            Ok(piece) => piece,
            Err(what) => return Ok(Err(what)),
        };
        crc = crc32c::crc32c_append(crc, &piece);
        at += piece.len() as u64;
    }
    if crc != crc32c {
        return Ok(Err("damaged (checksum of a state)".into()));
    }
    Ok(Ok(Seen { bytes: len, rows: 0 }))
}

async fn read(
    store: &dyn Store,
    key: &Key,
    from: u64,
    len: u64,
) -> Result<Result<Bytes, String>, StoreError> {
    match store.get_range(key, from..from.saturating_add(len)).await {
        Ok(Some(bytes)) if bytes.len() as u64 == len => Ok(Ok(bytes)),
        Ok(Some(_)) => Ok(Err("shorter than sealed".into())),
        Ok(None) => Ok(Err("missing".into())),
        Err(error) if error.kind == ErrorKind::OutOfRange => Ok(Err("shorter than sealed".into())),
        Err(error) if is_damage(&error) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// An answer about the object itself, and not about the way to it.
pub(super) fn is_damage(error: &StoreError) -> bool {
    matches!(
        error.kind,
        ErrorKind::TooLarge | ErrorKind::OutOfRange | ErrorKind::Corrupt | ErrorKind::Conflict
    )
}
