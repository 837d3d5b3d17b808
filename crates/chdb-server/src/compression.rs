//! Compressed bodies: ClickHouse's own blocks (`compress=1`, `decompress=1`) and HTTP's content encodings.
//!
//! Owns both framings, to be read and to be written. Does not own how much may be unpacked (whoever gives a [`Room`]), nor which body is
//! packed how (`work`).
//!
//! A block is a 16-byte CityHash128 (v1.0.2) of all that follows in it, then the method, the compressed size with the
//! 9 bytes of this header, the uncompressed size (both 32 bit, little-endian), then the data. Sizes are checked
//! against what is there and against the caller's bound before anything is allocated.

use std::io::{self, Read, Write};

use crate::response::{CANNOT_DECOMPRESS, Failure, MEMORY_LIMIT, NOT_IMPLEMENTED, TOO_MANY_BYTES};

const HASH_BYTES: usize = 16;
const HEADER_BYTES: usize = 9;
/// Uncompressed bytes in each block that is written, ClickHouse's own default.
const BLOCK_BYTES: usize = 1 << 20;
/// Largest block that is read, the same as ClickHouse's own bound.
const BLOCK_BYTES_MAX: usize = 1 << 30;
/// Copied at once while an encoding is undone.
const CHUNK_BYTES: usize = 256 << 10;

/// How the data of a block are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// Not at all.
    None = 0x02,
    /// A raw LZ4 block.
    Lz4 = 0x82,
    /// A ZSTD frame.
    Zstd = 0x90,
}

/// A bound on what is unpacked, and the room it takes.
pub trait Room {
    /// Takes `bytes` more, or says why not.
    fn take(&mut self, bytes: usize) -> Result<(), Failure>;
}

/// A content encoding of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `gzip`
    Gzip,
    /// `deflate`, with zlib's header.
    Deflate,
    /// `lz4`: the frame format.
    Lz4,
    /// `zstd`
    Zstd,
}

impl Encoding {
    /// Reads `Content-Encoding`; absent and `identity` are `None`.
    pub fn of_body(header: Option<&str>) -> Result<Option<Encoding>, Failure> {
        match header.map(str::trim) {
            None | Some("" | "identity") => Ok(None),
            Some("gzip" | "x-gzip") => Ok(Some(Encoding::Gzip)),
            Some("deflate") => Ok(Some(Encoding::Deflate)),
            Some("lz4") => Ok(Some(Encoding::Lz4)),
            Some("zstd") => Ok(Some(Encoding::Zstd)),
            Some(other) => Err(Failure::new(
                NOT_IMPLEMENTED,
                &format!(
                    "content encoding `{other}` is not known here; send gzip, deflate, lz4, zstd or none"
                ),
            )),
        }
    }

    /// The best of what `Accept-Encoding` offers. Weights are not read: a client that lists a coding takes it.
    pub fn for_answer(header: Option<&str>) -> Option<Encoding> {
        let offered = |name: &str| {
            header.is_some_and(|header| {
                header.split(',').any(|item| {
                    let mut parts = item.split(';').map(str::trim);
                    parts.next() == Some(name) && parts.next() != Some("q=0")
                })
            })
        };
        [Encoding::Zstd, Encoding::Lz4, Encoding::Gzip, Encoding::Deflate]
            .into_iter()
            .find(|encoding| offered(encoding.name()))
    }

    /// As in the header.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Gzip => "gzip",
            Encoding::Deflate => "deflate",
            Encoding::Lz4 => "lz4",
            Encoding::Zstd => "zstd",
        }
    }

    /// Compresses `body`.
    pub fn encode(self, body: &[u8]) -> io::Result<Vec<u8>> {
        let level = flate2::Compression::fast();
        match self {
            Encoding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(body)?;
                encoder.finish()
            }
            Encoding::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(body)?;
                encoder.finish()
            }
            Encoding::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(body)?;
                encoder.finish().map_err(io::Error::other)
            }
            Encoding::Zstd => zstd::stream::encode_all(body, 1),
        }
    }

    /// Unpacks `body` as far as `room` lets it grow. As with ClickHouse it may be several streams, one behind the other.
    pub fn decode(self, body: &[u8], room: &mut dyn Room) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        match self {
            Encoding::Gzip => self.unpack(flate2::read::MultiGzDecoder::new(body), &mut out, room)?,
            Encoding::Zstd => {
                let reader = zstd::stream::read::Decoder::with_buffer(body)
                    .map_err(|error| self.broken(&error.to_string()))?;
                self.unpack(reader, &mut out, room)?;
            }
            // These two decoders end with the first stream.
            Encoding::Deflate => {
                let mut rest = body;
                loop {
                    let mut reader = flate2::bufread::ZlibDecoder::new(rest);
                    self.unpack(&mut reader, &mut out, room)?;
                    rest = reader.into_inner();
                    if rest.is_empty() {
                        break;
                    }
                }
            }
            Encoding::Lz4 => {
                let mut reader = lz4_flex::frame::FrameDecoder::new(Whole(body));
                loop {
                    self.unpack(&mut reader, &mut out, room)?;
                    if reader.get_ref().0.is_empty() {
                        break;
                    }
                }
            }
        }
        Ok(out)
    }

    fn unpack(self, mut reader: impl Read, out: &mut Vec<u8>, room: &mut dyn Room) -> Result<(), Failure> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match reader.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    room.take(count)?;
                    out.extend_from_slice(&chunk[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(&error.to_string())),
            }
        }
    }

    fn broken(self, reason: &str) -> Failure {
        broken(&format!("the body is not whole `{}`: {reason}", self.name()))
    }
}

/// Reads bytes and fails at their end. The LZ4 frame decoder takes the end of its input for the end of the frame, so a
/// body cut between two blocks would pass for a shorter one; a whole frame is never read beyond its end mark.
struct Whole<'a>(&'a [u8]);

impl Read for Whole<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.0.read(out)? {
            // Not `UnexpectedEof`, which the decoder forgives.
            0 if !out.is_empty() => Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is cut off")),
            count => Ok(count),
        }
    }
}

/// Unpacks ClickHouse's blocks, as far as `room` lets the result grow.
pub fn decode_blocks(mut rest: &[u8], room: &mut dyn Room) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    let whole = rest.len();
    while !rest.is_empty() {
        let at = whole - rest.len();
        let (block, tail) = split_block(rest, at)?;
        room.take(block.unpacked_bytes)?;
        block.unpack(&mut out, at)?;
        rest = tail;
    }
    Ok(out)
}

/// One block with its sizes checked.
struct Block<'a> {
    method: Method,
    unpacked_bytes: usize,
    data: &'a [u8],
}

fn split_block(rest: &[u8], at: usize) -> Result<(Block<'_>, &[u8]), Failure> {
    let fixed = HASH_BYTES + HEADER_BYTES;
    if rest.len() < fixed {
        return Err(broken(&format!("the compressed block at byte `{at}` is cut off in its header")));
    }
    let size_at = |offset: usize| {
        u32::from_le_bytes([rest[offset], rest[offset + 1], rest[offset + 2], rest[offset + 3]]) as usize
    };
    let method = match rest[HASH_BYTES] {
        0x02 => Method::None,
        0x82 => Method::Lz4,
        0x90 => Method::Zstd,
        other => {
            return Err(broken(&format!("the block at byte `{at}` has the unknown method `0x{other:02x}`")));
        }
    };
    let (packed_bytes, unpacked_bytes) = (size_at(HASH_BYTES + 1), size_at(HASH_BYTES + 5));
    if packed_bytes < HEADER_BYTES || packed_bytes > rest.len() - HASH_BYTES {
        let left = rest.len() - HASH_BYTES;
        return Err(broken(&format!(
            "the block at byte `{at}` says `{packed_bytes}` bytes where `{left}` are left"
        )));
    }
    if unpacked_bytes > BLOCK_BYTES_MAX {
        return Err(broken(&format!(
            "the block at byte `{at}` unpacks to `{unpacked_bytes}` bytes, above 1 GiB"
        )));
    }
    let (block, tail) = rest.split_at(HASH_BYTES + packed_bytes);
    if checksum(&block[HASH_BYTES..]) != block[..HASH_BYTES] {
        return Err(broken(&format!("the block at byte `{at}` does not match its checksum")).with_code(40));
    }
    Ok((Block { method, unpacked_bytes, data: &block[fixed..] }, tail))
}

impl Block<'_> {
    fn unpack(&self, out: &mut Vec<u8>, at: usize) -> Result<(), Failure> {
        let start = out.len();
        out.resize(start + self.unpacked_bytes, 0);
        let target = &mut out[start..];
        let done = match self.method {
            Method::None => {
                let fits = self.data.len() == target.len();
                if fits {
                    target.copy_from_slice(self.data);
                }
                if fits { Ok(self.data.len()) } else { Err("its sizes differ".to_owned()) }
            }
            Method::Lz4 => {
                lz4_flex::block::decompress_into(self.data, target).map_err(|error| error.to_string())
            }
            Method::Zstd => {
                zstd::bulk::decompress_to_buffer(self.data, target).map_err(|error| error.to_string())
            }
        };
        match done {
            Ok(count) if count == self.unpacked_bytes => Ok(()),
            Ok(count) => Err(broken(&format!(
                "the block at byte `{at}` unpacks to `{count}` bytes and not to `{}`",
                self.unpacked_bytes
            ))),
            Err(reason) => Err(broken(&format!("the block at byte `{at}` cannot be unpacked: {reason}"))),
        }
    }
}

/// Packs `body` into ClickHouse's blocks.
pub fn encode_blocks(body: &[u8], method: Method) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    for part in body.chunks(BLOCK_BYTES) {
        let data = match method {
            Method::None => part.to_vec(),
            Method::Lz4 => lz4_flex::block::compress(part),
            Method::Zstd => zstd::bulk::compress(part, 1)?,
        };
        let start = out.len();
        out.extend_from_slice(&[0; HASH_BYTES]);
        out.push(method as u8);
        out.extend_from_slice(&size(HEADER_BYTES + data.len())?);
        out.extend_from_slice(&size(part.len())?);
        out.extend_from_slice(&data);
        let hash = checksum(&out[start + HASH_BYTES..]);
        out[start..start + HASH_BYTES].copy_from_slice(&hash);
    }
    Ok(out)
}

fn size(bytes: usize) -> io::Result<[u8; 4]> {
    u32::try_from(bytes).map(u32::to_le_bytes).map_err(io::Error::other)
}

/// The hash as it stands in a block: ClickHouse writes the first of the two 64-bit halves first.
fn checksum(bytes: &[u8]) -> [u8; HASH_BYTES] {
    cityhash_rs::cityhash_102_128(bytes).rotate_left(64).to_le_bytes()
}

fn broken(message: &str) -> Failure {
    Failure::new(CANNOT_DECOMPRESS, message).with_status(axum::http::StatusCode::BAD_REQUEST)
}

/// What a body beyond `bytes_max` is answered.
pub fn too_large(bytes_max: u64) -> Failure {
    Failure::new(TOO_MANY_BYTES, &format!("the body is larger than `{bytes_max}` bytes; see --max-body"))
        .with_status(axum::http::StatusCode::PAYLOAD_TOO_LARGE)
}

/// What a body is answered for which the server has no memory now.
pub fn no_room() -> Failure {
    Failure::new(MEMORY_LIMIT, "too many bytes of request bodies are in memory; try again later")
        .with_status(axum::http::StatusCode::SERVICE_UNAVAILABLE)
}

#[cfg(test)]
mod tests;
