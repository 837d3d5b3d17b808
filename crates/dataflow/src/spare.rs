//! Memory of bodies that nobody needs any more, for those to come.
//!
//! Owns how much is kept, and where a body begins. A body is tens of megabytes, and memory that the system gives again is cleared
//! first, page by page, which costs more than writing the body. A body that begins at a page can go from its memory to the
//! disk without a copy. Does not own the bodies.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Where the memory of a large body begins: at a multiple of this, the page of the system.
pub const PAGE_BYTES: usize = 4_096;

/// Pieces that are kept: one for the frame that is encoded, one for the next, while others are under way.
const PIECES_MAX: usize = 2;
/// A piece this many times larger than what is wanted goes back to the system: a frame holds its memory until it is settled.
const TOO_LARGE: usize = 4;
/// Below this nothing is kept, and nothing begins at a page: the allocator does as well, and so does a copy.
const PIECE_BYTES_MIN: usize = 512 << 10;

/// What is kept. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Spares(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spares {
    /// Memory for a body of about so many bytes, which begins behind what the memory holds: if the body is large, that is as many
    /// bytes as lie before the next page. One that outgrows the memory is moved, and then begins anywhere.
    pub fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes < PIECE_BYTES_MIN {
            return self.memory(bytes);
        }
        let mut memory = self.memory(bytes + PAGE_BYTES);
        // More than a page where the offset cannot be told.
        let front = Some(memory.as_ptr().align_offset(PAGE_BYTES)).filter(|front| *front < PAGE_BYTES);
        memory.resize(front.unwrap_or(0), 0);
        memory
    }

    fn memory(&self, bytes: usize) -> Vec<u8> {
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

    /// The body that stands behind the first `front` bytes of `memory`. The memory comes back here when the body's last part is
    /// dropped.
    pub fn body(&self, memory: Vec<u8>, front: usize) -> Bytes {
        let whole = match memory.capacity() < PIECE_BYTES_MIN {
            true => memory.into(),
            false => Bytes::from_owner(Borrowed { memory, home: self.clone() }),
        };
        whole.slice(front..)
    }
}

struct Borrowed {
    memory: Vec<u8>,
    home: Spares,
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let mut kept = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < PIECES_MAX {
            let mut memory = std::mem::take(&mut self.memory);
            memory.clear();
            kept.push(memory);
        }
    }
}

#[cfg(test)]
mod tests;
