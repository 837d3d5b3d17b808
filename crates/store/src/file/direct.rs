//! Writing past the page cache: large pieces go from the caller's memory straight to the disk.
//!
//! Owns which stretches of an object go that way, and the switch of a file between the two ways. Does not own the file's name or
//! its fsync.
//!
//! The kernel copies what is written into memory of its own, which it has to find first and which is cold: that costs two to ten times
//! what the copy costs. With `O_DIRECT` the disk reads the caller's memory, if that lies at a multiple of [`PAGE_BYTES`], in memory
//! and in the file. What does not, ends of pieces and small ones between large ones, goes through the page cache as usual, into
//! other pages of the same file.
//!
//! Not every file system supports that. One without support reports it when the flag is set or at the first such write, and the rest
//! of the file goes through the page cache. The bytes are durable after the fsync in either case, not before.

use std::fs::File;
use std::io::{self, IoSlice, Write};

use bytes::Bytes;

use crate::{PAGE_BYTES, PAST_CACHE_BYTES_MIN};

/// Slices of one gathering write; the kernel takes 1,024 at the most.
const SLICES_MAX: usize = 1_024;

/// Bytes of an object that lie one behind the other and go the same way.
#[derive(Debug, PartialEq, Eq)]
enum Stretch<'a> {
    /// Whole pages, at a page of the file.
    Past(&'a [u8]),
    /// Anything; at least one byte in each piece.
    Cached(Vec<&'a [u8]>),
}

/// Writes the pieces in order, past the page cache as far as they allow and the file system has it; returns how many bytes went
/// that way. The file must be empty.
pub(super) fn write(file: &mut File, body: &[Bytes]) -> io::Result<u64> {
    let mut past_bytes = 0;
    let mut is_refused = false;
    for stretch in plan(body) {
        match stretch {
            Stretch::Past(bytes) => {
                let left = if is_refused { bytes } else { write_past(file, bytes)? };
                past_bytes += (bytes.len() - left.len()) as u64;
                is_refused = !left.is_empty();
                write_cached(file, &[left])?;
            }
            Stretch::Cached(pieces) => write_cached(file, &pieces)?,
        }
    }
    Ok(past_bytes)
}

/// Writes the pieces in order through the page cache, many with one system call. A write of nothing is never mistaken for a full disk.
pub(super) fn write_cached<T: AsRef<[u8]>>(file: &mut File, body: &[T]) -> io::Result<()> {
    for pieces in body.chunks(SLICES_MAX) {
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece.as_ref())).collect();
        let mut left = &mut slices[..];
        // Drops leading empty pieces.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Writes pages past the page cache. Pages that are left were refused: the file system does not support this, or wants larger pages.
fn write_past<'a>(file: &mut File, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
    if !switch::on(file)? {
        return Ok(bytes);
    }
    let left = write_pages(file, bytes);
    switch::off(file)?;
    left
}

fn write_pages<'a>(file: &mut File, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
    let mut left = bytes;
    while !left.is_empty() {
        match file.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => left = &left[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_refusal(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(left)
}

/// Whether the error says that pages cannot be written in this way, and not that a write failed.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

/// Which bytes go which way.
fn plan(body: &[Bytes]) -> Vec<Stretch<'_>> {
    let mut stretches = Vec::new();
    let mut at = 0_u64;
    for piece in body {
        let is_at_page =
            at.is_multiple_of(PAGE_BYTES as u64) && piece.as_ptr().addr().is_multiple_of(PAGE_BYTES);
        let whole = if is_at_page && piece.len() >= PAST_CACHE_BYTES_MIN {
            piece.len() / PAGE_BYTES * PAGE_BYTES
        } else {
            0
        };
        let (pages, rest) = piece.split_at(whole);
        if !pages.is_empty() {
            stretches.push(Stretch::Past(pages));
        }
        match stretches.last_mut() {
            _ if rest.is_empty() => {}
            Some(Stretch::Cached(pieces)) => pieces.push(rest),
            Some(Stretch::Past(_)) | None => stretches.push(Stretch::Cached(vec![rest])),
        }
        at += piece.len() as u64;
    }
    stretches
}

/// `O_DIRECT` of an open file. Asked for after the file was made, so that a refusal leaves nothing behind.
#[cfg(target_os = "linux")]
mod switch {
    use std::fs::File;
    use std::io;

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    /// False if the file system does not have it.
    pub(super) fn on(file: &File) -> io::Result<bool> {
        match fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::INVAL) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn off(file: &File) -> io::Result<()> {
        Ok(fcntl_setfl(file, fcntl_getfl(file)? - OFlags::DIRECT)?)
    }
}

/// Other systems have no such flag.
#[cfg(not(target_os = "linux"))]
mod switch {
    use std::fs::File;
    use std::io;

    pub(super) fn on(_file: &File) -> io::Result<bool> {
        Ok(false)
    }

    pub(super) fn off(_file: &File) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
