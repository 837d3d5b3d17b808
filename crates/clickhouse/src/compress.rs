//! ClickHouse's framing of compressed blocks, as `decompress=1` reads them.
//!
//! Owns the frame (checksum, method, sizes) and the choice of chunk. Does not own what is inside.
//!
//! ```text
//! 16 bytes  CityHash128 (version 1.0.2) of all that follows in this chunk, high half last
//!  1 byte   method: 0x82 LZ4, 0x02 none
//!  4 bytes  size of this header from the method on plus the compressed bytes, little-endian
//!  4 bytes  size of the bytes before compression, little-endian
//!  …        the compressed bytes
//! ```

use cityhash_rs::cityhash_102_128;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// Bytes before compression in one chunk: the server's own bound for what it writes, and what it keeps in memory a reader.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Bytes of a chunk that is made in place, without compression: short enough that its checksum reads it out of the processor's own
/// cache. Of a megabyte a part is in memory again by then, which costs the client a seventh of its own code.
const IN_PLACE_CHUNK_BYTES: usize = 64 << 10;
/// A chunk that is longer, as it came, is cut into chunks of the usual length, which costs a copy.
const IN_PLACE_BYTES_MAX: usize = 8 * CHUNK_BYTES_MAX;
/// Bytes of a chunk's header, checksum included.
const HEADER_BYTES: usize = 25;
const CHECKSUM_BYTES: usize = 16;
/// The largest chunk that [`decompress`] takes: the same bound that the server sets for strangers' data.
const DECOMPRESS_BYTES_MAX: usize = 1 << 30;
/// No byte of LZ4 stands for more bytes than this, so that a chunk's claim is bounded by what is there.
const LZ4_RATIO_MAX: usize = 255;

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// LZ4: a third of the bytes for a few per cent of the time.
    #[default]
    Lz4,
    /// As they are, with the checksum: where the server stands on the same machine.
    None,
}

/// Why bytes are not a sequence of chunks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("chunk at byte {at}: {reason}")]
pub struct ChunkError {
    /// Where the chunk starts.
    pub at: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Takes bytes piece by piece and gives chunks.
pub struct Compressor {
    method: Method,
    table: CompressTable,
    /// One chunk in its short form: as long as the worst case, used again for every chunk.
    short: Vec<u8>,
    out: Vec<u8>,
    /// Where the header of the open chunk stands in the caller's bytes, once chunks are made in place.
    open_at: Option<usize>,
    bytes_in: usize,
}

impl Compressor {
    /// An empty one.
    pub fn new(method: Method) -> Self {
        Self::into_memory(method, Vec::new())
    }

    /// An empty one that writes into `memory`, behind the bytes that stand there.
    pub fn into_memory(method: Method, memory: Vec<u8>) -> Self {
        let (table, short) = (CompressTable::default(), Vec::new());
        Self { method, table, short, out: memory, open_at: None, bytes_in: 0 }
    }

    /// Takes whole chunks off the front of `raw` and leaves what is less than one. Without compression nothing is moved: `raw`
    /// becomes the result, with a header in front of each chunk, and must come back whole to [`Compressor::finish_with`].
    pub fn take_full(&mut self, raw: &mut Vec<u8>) {
        if self.method == Method::None {
            self.close_full(raw);
            return;
        }
        let full = raw.len() / CHUNK_BYTES_MAX * CHUNK_BYTES_MAX;
        if full > 0 {
            self.push(&raw[..full]);
            raw.drain(..full);
        }
    }

    /// Compresses `raw` into chunks.
    pub fn push(&mut self, raw: &[u8]) {
        self.bytes_in += raw.len();
        raw.chunks(CHUNK_BYTES_MAX).for_each(|chunk| self.push_chunk(chunk));
    }

    /// Bytes taken so far.
    pub fn bytes_in(&self) -> usize {
        self.bytes_in
    }

    /// The chunks, behind what stood in the memory.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    /// As [`Compressor::finish`], the last chunks of what [`Compressor::take_full`] left.
    pub fn finish_with(mut self, mut rest: Vec<u8>) -> Vec<u8> {
        match self.open_at {
            Some(at) => {
                self.close(&mut rest, at);
                rest
            }
            None => {
                self.push(&rest);
                self.out
            }
        }
    }

    /// Ends the open chunk if it is full, and begins the next one behind it.
    fn close_full(&mut self, raw: &mut Vec<u8>) {
        let at = *self.open_at.get_or_insert_with(|| {
            // What was written before there was a header is less than a portion of one column.
            let at = self.out.len();
            self.out.resize(at + HEADER_BYTES, 0);
            self.out.append(raw);
            std::mem::swap(raw, &mut self.out);
            at
        });
        if raw.len() - at - HEADER_BYTES >= IN_PLACE_CHUNK_BYTES {
            self.close(raw, at);
            self.open_at = Some(raw.len());
            raw.resize(raw.len() + HEADER_BYTES, 0);
        }
    }

    /// Writes the header of the chunk that stands open at `at` and reaches to the end, or takes it away if nothing is in it.
    fn close(&mut self, raw: &mut Vec<u8>, at: usize) {
        let bytes = raw.len() - at - HEADER_BYTES;
        if bytes > IN_PLACE_BYTES_MAX {
            // A column that is not written in portions: the server would hold all of the chunk at once.
            let long = raw.split_off(at);
            std::mem::swap(raw, &mut self.out);
            self.push(&long[HEADER_BYTES..]);
            std::mem::swap(raw, &mut self.out);
            return;
        }
        self.bytes_in += bytes;
        match bytes {
            0 => raw.truncate(at),
            _ => seal(&mut raw[at..], 0x02, bytes),
        }
    }

    fn push_chunk(&mut self, raw: &[u8]) {
        let start = self.out.len();
        let (method, short) = match self.method {
            Method::None => (0x02, raw),
            Method::Lz4 => {
                let worst = get_maximum_output_size(raw.len());
                if self.short.len() < worst {
                    self.short.resize(worst, 0);
                }
                let n = compress_into_with_table(raw, &mut self.short, &mut self.table)
                    .expect("the target has the size that lz4 names as the worst case");
                (0x82, &self.short[..n])
            }
        };
        let compressed = short.len();
        self.out.reserve(HEADER_BYTES + compressed);
        self.out.resize(start + HEADER_BYTES, 0);
        self.out.extend_from_slice(short);
        seal(&mut self.out[start..], method, raw.len());
    }
}

/// Fills the header at the front of a chunk, which is of `raw` bytes before compression.
fn seal(chunk: &mut [u8], method: u8, raw: usize) {
    let (checksum, rest) = chunk.split_at_mut(CHECKSUM_BYTES);
    let packed = rest.len() as u32;
    rest[0] = method;
    rest[1..5].copy_from_slice(&packed.to_le_bytes());
    rest[5..9].copy_from_slice(&(raw as u32).to_le_bytes());
    checksum.copy_from_slice(&checksum_of(rest));
}

/// The bytes in a sequence of chunks: for tests and tools that look into a frame.
pub fn decompress(mut chunks: &[u8]) -> Result<Vec<u8>, ChunkError> {
    let mut out = Vec::new();
    let whole = chunks.len();
    while !chunks.is_empty() {
        let at = whole - chunks.len();
        chunks = decompress_chunk(chunks, &mut out).map_err(|reason| ChunkError { at, reason })?;
    }
    Ok(out)
}

fn decompress_chunk<'a>(chunks: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], String> {
    let Some((header, _)) = chunks.split_first_chunk::<HEADER_BYTES>() else {
        return Err(format!("the header needs {HEADER_BYTES} bytes and has {}", chunks.len()));
    };
    let size =
        |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize;
    let (packed, raw) = (size(17), size(21));
    let end = CHECKSUM_BYTES + packed;
    if packed < HEADER_BYTES - CHECKSUM_BYTES || end > chunks.len() || raw > DECOMPRESS_BYTES_MAX {
        return Err(format!("sizes of {packed} and {raw} bytes do not fit the {} bytes there", chunks.len()));
    }
    if checksum_of(&chunks[CHECKSUM_BYTES..end]) != chunks[..CHECKSUM_BYTES] {
        return Err("the checksum is wrong".into());
    }
    let body = &chunks[HEADER_BYTES..end];
    match header[16] {
        0x02 if body.len() == raw => out.extend_from_slice(body),
        0x82 if raw > body.len() * LZ4_RATIO_MAX => {
            return Err(format!("{} bytes of LZ4 cannot unpack to {raw}", body.len()));
        }
        0x82 => {
            let start = out.len();
            out.resize(start + raw, 0);
            let n =
                lz4_flex::block::decompress_into(body, &mut out[start..]).map_err(|e| format!("lz4: {e}"))?;
            if n != raw {
                return Err(format!("{n} bytes came out instead of {raw}"));
            }
        }
        method => return Err(format!("method {method:#04x} with {} bytes is not known", body.len())),
    }
    Ok(&chunks[end..])
}

/// ClickHouse stores the low half of the hash first, and the crate gives it as the high half of the number.
fn checksum_of(bytes: &[u8]) -> [u8; 16] {
    cityhash_102_128(bytes).rotate_left(64).to_le_bytes()
}

#[cfg(test)]
mod tests;
