//! What each held row is beside its columns: key, time, and its neighbours among the rows of its key.
//!
//! Owns the numbers of rows, which count up in the order of arrival, and the memory of them, in chunks that are freed when all of their rows are
//! released. Does not own the columns (`pages`), nor from a key to its newest row (`index`).

/// No row.
pub(super) const NONE: u32 = u32::MAX;

/// Stands in [`Row::newer`] of a row with a null in its key: it is in no chain.
pub(super) const UNLINKED: u32 = u32::MAX - 1;

/// Numbers are given anew before they come to this: those above stand for no row.
pub(super) const NUMBERS_MAX: u32 = 3 << 30;

/// Rows of a chunk: a power of two, large enough that chunks are few, small enough that one straggler holds little.
const CHUNK: usize = 4_096;

/// A held row.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// The hash of its key.
    pub hash: u128,
    /// Unix milliseconds.
    pub time_ms: i64,
    /// The row of the same key and side that came before it, or [`NONE`].
    pub older: u32,
    /// The one that came after it, or [`NONE`], or [`UNLINKED`].
    pub newer: u32,
}

#[derive(Default)]
struct Chunk {
    rows: Vec<Row>,
    /// A bit for each row that was in a pair.
    matched: Vec<u64>,
    live: u32,
}

impl Chunk {
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.rows.capacity() * size_of::<Row>() + self.matched.capacity() * 8
    }
}

/// The rows of one side.
#[derive(Default)]
pub(super) struct Arena {
    chunks: Vec<Chunk>,
    /// The number of the first of `chunks`.
    base: usize,
    /// The number of the next row.
    next: u32,
    /// Rows in chunks that are still there, released ones too.
    kept: u64,
    /// Memory of the chunks.
    bytes: usize,
}

impl Arena {
    /// The number of the next row.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Rows whose memory is held, released ones too.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes + (self.chunks.capacity() - self.chunks.len()) * size_of::<Chunk>()
    }

    /// A row that is held.
    #[inline]
    pub fn get(&self, id: u32) -> &Row {
        &self.chunks[id as usize / CHUNK - self.base].rows[id as usize % CHUNK]
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut Row {
        &mut self.chunks[id as usize / CHUNK - self.base].rows[id as usize % CHUNK]
    }

    /// Whether a row was in a pair.
    #[inline]
    pub fn is_matched(&self, id: u32) -> bool {
        let (place, chunk) = (id as usize % CHUNK, &self.chunks[id as usize / CHUNK - self.base]);
        chunk.matched[place / 64] >> (place % 64) & 1 == 1
    }

    /// Remembers that a row was in a pair.
    #[inline]
    pub fn set_matched(&mut self, id: u32) {
        let (place, chunk) = (id as usize % CHUNK, &mut self.chunks[id as usize / CHUNK - self.base]);
        chunk.matched[place / 64] |= 1 << (place % 64);
    }

    /// Takes the next row in.
    #[inline]
    pub fn push(&mut self, row: Row, is_matched: bool) {
        let place = self.next as usize % CHUNK;
        if place == 0 || self.chunks.is_empty() {
            self.add_chunk();
        }
        let chunk = self.chunks.last_mut().expect("one was added");
        if place.is_multiple_of(64) {
            chunk.matched.push(0);
        }
        chunk.rows.push(row);
        chunk.matched[place / 64] |= u64::from(is_matched) << (place % 64);
        chunk.live += 1;
        self.kept += 1;
        self.next += 1;
    }

    #[inline(never)]
    fn add_chunk(&mut self) {
        let chunk =
            Chunk { rows: Vec::with_capacity(CHUNK), matched: Vec::with_capacity(CHUNK / 64), live: 0 };
        self.bytes += chunk.memory_bytes();
        self.chunks.push(chunk);
    }

    /// Lets a row go, and its chunk with the last one of it.
    pub fn release(&mut self, id: u32) {
        let at = id as usize / CHUNK - self.base;
        let chunk = &mut self.chunks[at];
        chunk.live -= 1;
        // The last chunk is still being filled, until there is one behind it.
        if chunk.live == 0 && chunk.rows.len() == CHUNK {
            self.bytes -= chunk.memory_bytes() - size_of::<Chunk>();
            self.kept -= CHUNK as u64;
            *chunk = Chunk::default();
            self.drop_front();
        }
    }

    /// Drops the freed chunks at the front, when they are half of all.
    fn drop_front(&mut self) {
        let freed = self.chunks.iter().take_while(|chunk| chunk.rows.capacity() == 0).count();
        if freed * 2 >= self.chunks.len() && freed > 0 {
            self.chunks.drain(..freed);
            self.base += freed;
            self.bytes -= freed * size_of::<Chunk>();
        }
    }
}
