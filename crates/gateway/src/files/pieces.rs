//! Pieces of a file, read at a place, so that whoever reads the file further on is not disturbed.
//!
//! Owns how much is read at once, and the search for line breaks further on. Does not own what a line becomes (`files::lines`) or where
//! reading goes on (`files::follower`).

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a file that are read at once: more than the longest line, so that a piece has a whole line or is part of a longer one.
pub(super) const PIECE_BYTES: usize = (1 << 20) + (64 << 10);

/// Reads a piece that begins at `offset`.
pub(super) fn piece_at(file: &File, offset: u64, piece: &mut Vec<u8>) -> std::io::Result<()> {
    let left = file.metadata()?.len().saturating_sub(offset);
    let bytes = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
    piece.resize(bytes, 0);
    let mut filled = 0;
    while filled < bytes {
        match file.read_at(&mut piece[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    piece.truncate(filled);
    Ok(())
}

/// Where a line ends that is longer than a piece, if it does; what was looked through is kept in mind.
pub(super) fn end_of_line(file: &File, read: u64, scanned: &mut u64) -> Option<u64> {
    let mut at = (*scanned).max(read + PIECE_BYTES as u64);
    let mut piece = Vec::new();
    loop {
        // What fails here fails again when the file is read.
        piece_at(file, at, &mut piece).ok()?;
        if let Some(end) = memchr::memchr(b'\n', &piece) {
            return Some(at + end as u64 + 1);
        }
        at += piece.len() as u64;
        *scanned = at;
        if piece.is_empty() {
            return None;
        }
    }
}

/// Where the last line of a file begins, which may not be whole; its end, if that is further away than a line is long.
pub(super) fn last_line(file: &File, line_bytes_max: usize) -> u64 {
    let end = file.metadata().map_or(0, |metadata| metadata.len());
    let from = end.saturating_sub(line_bytes_max as u64 + 1);
    let mut piece = Vec::new();
    match piece_at(file, from, &mut piece) {
        Ok(()) => {
            memchr::memrchr(b'\n', &piece).map_or(if from == 0 { 0 } else { end }, |at| from + at as u64 + 1)
        }
        Err(_) => end,
    }
}
