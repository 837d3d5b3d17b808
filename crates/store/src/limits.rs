//! The bounds of objects and ranges, checked alike by every store before it allocates or writes.
//!
//! Owns those checks and their words. Does not own the bounds' sizes (the crate's root), nor bounds of keys and lists.

use std::fmt::Display;
use std::ops::Range;

use bytes::Bytes;

use crate::{ErrorKind, OBJECT_BYTES_MAX, Operation, REGISTER_BYTES_MAX, StoreError};

/// The bytes of all pieces, or an error if they are more than an object may have.
pub(crate) fn check_size(key: impl Display, body: &[Bytes]) -> Result<u64, StoreError> {
    let size_bytes = body.iter().map(|piece| piece.len() as u64).fold(0, u64::saturating_add);
    if size_bytes > OBJECT_BYTES_MAX {
        let reason = format!("it has `{size_bytes}` bytes and an object at most `{OBJECT_BYTES_MAX}`");
        return Err(StoreError::new(ErrorKind::TooLarge, Operation::Put, key, reason));
    }
    Ok(size_bytes)
}

/// An error if a register's value has more bytes than it may.
pub(crate) fn check_register(key: impl Display, body: &Bytes) -> Result<(), StoreError> {
    if body.len() as u64 > REGISTER_BYTES_MAX {
        let reason = format!("it has `{}` bytes and a register at most `{REGISTER_BYTES_MAX}`", body.len());
        return Err(StoreError::new(ErrorKind::TooLarge, Operation::Put, key, reason));
    }
    Ok(())
}

/// An error if an object of `size_bytes` is larger than the caller takes.
pub(crate) fn check_bytes_max(key: impl Display, size_bytes: u64, bytes_max: u64) -> Result<(), StoreError> {
    if size_bytes > bytes_max {
        let reason = format!("it has `{size_bytes}` bytes and at most `{bytes_max}` were asked for");
        return Err(StoreError::new(ErrorKind::TooLarge, Operation::Get, key, reason));
    }
    Ok(())
}

/// An error if `range` does not lie within an object of `size_bytes`.
pub(crate) fn check_range(key: impl Display, size_bytes: u64, range: &Range<u64>) -> Result<(), StoreError> {
    if range.start > range.end || range.end > size_bytes {
        let reason = format!("bytes `{}..{}` of an object of `{size_bytes}` bytes", range.start, range.end);
        return Err(StoreError::new(ErrorKind::OutOfRange, Operation::Get, key, reason));
    }
    Ok(())
}
