//! Memory of bodies that nobody needs any more, for those to come.
//!
//! Owns how much is kept: a body is tens of megabytes, and memory that the system gives anew is cleared first, page by page, which
//! costs more than writing the body. Does not own the bodies.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Pieces that are kept: one for the frame that is encoded, one for the next, while others are under way.
const PIECES_MAX: usize = 2;
/// A piece this many times larger than what is wanted goes back to the system: a frame holds its memory until it is settled.
const TOO_LARGE: usize = 4;
/// Below this nothing is kept: the allocator does as well.
const PIECE_BYTES_MIN: usize = 1 << 20;

/// What is kept. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Spares(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spares {
    /// Memory for about so many bytes, with nothing in it.
    pub fn take(&self, bytes: usize) -> Vec<u8> {
        // What is wanted is a guess with some room; a piece that is a little short of it will do.
        let fitting = bytes - bytes / 16..=bytes.saturating_mul(TOO_LARGE);
        let fits = |piece: &Vec<u8>| fitting.contains(&piece.capacity());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.iter().position(fits) {
            Some(place) => kept.swap_remove(place),
            None => {
                // What does not fit now is of another time.
                kept.pop();
                drop(kept);
                Vec::with_capacity(bytes)
            }
        }
    }

    /// A body whose memory comes back here when its last part is dropped.
    pub fn body(&self, body: Vec<u8>) -> Bytes {
        match body.capacity() < PIECE_BYTES_MIN {
            true => body.into(),
            false => Bytes::from_owner(Borrowed { body, home: self.clone() }),
        }
    }
}

struct Borrowed {
    body: Vec<u8>,
    home: Spares,
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let mut kept = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < PIECES_MAX {
            let mut body = std::mem::take(&mut self.body);
            body.clear();
            kept.push(body);
        }
    }
}

#[cfg(test)]
mod tests;
