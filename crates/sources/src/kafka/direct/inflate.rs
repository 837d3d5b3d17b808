//! Compressed record batches.
//!
//! Owns the five codecs of Kafka and the bound on what they may grow to. Does not own the records inside.

use std::io::{BufRead, BufReader, Read};

use super::cursor::{Cursor, Malformed};

/// Why a batch cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub(super) enum InflateError {
    #[error("a {codec} batch is damaged: {why}")]
    Damaged { codec: &'static str, why: String },
    #[error("a {codec} batch has more than {bytes_max} bytes when unpacked")]
    TooLarge { codec: &'static str, bytes_max: usize },
    #[error(
        "a zstd batch is too large to be unpacked at once, and unpacking it piece by piece needs a window of `{window}` bytes, of which \
         `{window_max}` are allowed; set `memory` to `{}` MiB or more, or have its producer or broker compress at level 19 or below",
        (window * MEMORY_OF_A_WINDOW).div_ceil(1 << 20)
    )]
    Window { window: u64, window_max: u64 },
    #[error("a batch has the unknown compression `{0}`")]
    Unknown(i16),
}

/// Names of the codecs, by the lowest three bits of a batch's attributes.
const CODECS: [&str; 5] = ["plain", "gzip", "snappy", "lz4", "zstd"];

/// The bits of the attributes that name the codec.
const CODEC_BITS: i16 = 0x07;

/// First bytes of Snappy as Java programs write it: blocks behind their lengths.
const XERIAL: &[u8] = &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];

/// The records of a batch: `body` itself if it is plain, else `out`, which is overwritten.
///
/// # Errors
/// When the codec is unknown, the bytes are none of it, or they unpack to more than `bytes_max`.
pub(super) fn inflate<'a>(
    attributes: i16,
    body: &'a [u8],
    out: &'a mut Vec<u8>,
    bytes_max: usize,
) -> Result<&'a [u8], InflateError> {
    let codec = attributes & CODEC_BITS;
    let name = *CODECS.get(codec as usize).ok_or(InflateError::Unknown(codec))?;
    out.clear();
    match codec {
        0 => return Ok(body),
        1 => read_all(name, flate2::read::MultiGzDecoder::new(body), out, bytes_max)?,
        2 => snappy(body, out, bytes_max)?,
        3 => read_all(name, lz4_flex::frame::FrameDecoder::new(body), out, bytes_max)?,
        _ => {
            let decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(|e| damaged(name, &e))?;
            read_all(name, decoder, out, bytes_max)?;
        }
    }
    Ok(out)
}

/// True for bare Snappy, which has no pieces.
pub(super) fn is_one_block(attributes: i16, body: &[u8]) -> bool {
    attributes & CODEC_BITS == 2 && !body.starts_with(XERIAL)
}

/// The records of a batch piece by piece, for one that unpacks to more than the `bytes_max` that are held; `None` if its codec packs it as
/// one block.
///
/// # Errors
/// When the codec is unknown, or unpacking it takes more memory than goes with `bytes_max`.
pub(super) fn pieces(
    attributes: i16,
    body: &[u8],
    bytes_max: usize,
) -> Result<Option<Pieces<'_>>, InflateError> {
    let codec = attributes & CODEC_BITS;
    let name = *CODECS.get(codec as usize).ok_or(InflateError::Unknown(codec))?;
    let reader: Box<dyn Read + '_> = match codec {
        1 => Box::new(flate2::read::MultiGzDecoder::new(body)),
        2 => match body.strip_prefix(XERIAL) {
            // Two version numbers.
            Some(blocks) => Box::new(SnappyBlocks {
                at: Cursor(blocks.get(8..).unwrap_or_default()),
                out: Vec::new(),
                used: 0,
            }),
            None => return Ok(None),
        },
        3 => Box::new(lz4_flex::frame::FrameDecoder::new(body)),
        4 => {
            let window_max = 1 << window_log_max(bytes_max);
            if let Some(window) = window(body).filter(|window| *window > window_max) {
                return Err(InflateError::Window { window, window_max });
            }
            let mut decoder =
                zstd::stream::read::Decoder::with_buffer(body).map_err(|e| damaged(name, &e))?;
            decoder.window_log_max(window_log_max(bytes_max)).map_err(|e| damaged(name, &e))?;
            Box::new(decoder)
        }
        _ => Box::new(body),
    };
    Ok(Some(Pieces { codec: name, reader: BufReader::with_capacity(PIECE_BYTES, reader), read: 0 }))
}

/// How many times the held bytes of a batch a window may have: an eighth of `memory`, of which `ahead` is a sixty-fourth. It fits into what
/// `memory` leaves for Kafka's answers, and at the default into it fits every window that a level of zstd makes (128 MiB at level 22).
const WINDOW_OF_AHEAD: usize = 8;
/// `memory` for each byte of a window, by the same reckoning.
const MEMORY_OF_A_WINDOW: u64 = 8;
/// The window of level 19, which every reader of the format takes: 8 MiB.
const WINDOW_LOG_MIN: u32 = 23;
/// The largest window that zstd takes unasked: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;

/// The largest window of a batch of which `bytes_max` are held, as a power of two. A batch that is unpacked as a whole needs no bound: of its
/// window no more is touched than it unpacks to.
fn window_log_max(bytes_max: usize) -> u32 {
    bytes_max.saturating_mul(WINDOW_OF_AHEAD).max(1).ilog2().clamp(WINDOW_LOG_MIN, WINDOW_LOG_MAX)
}

/// The window that a frame of zstd says to need; `None` if its head is cut off or it has no window but its whole content, which
/// the decoder then judges.
fn window(frame: &[u8]) -> Option<u64> {
    let flags = *frame.get(4)?;
    let has_window = flags & 0x20 == 0;
    let byte = u64::from(*frame.get(5).filter(|_| has_window)?);
    let base = 1_u64 << (10 + (byte >> 3));
    Some(base + base / 8 * (byte & 7))
}

/// Bytes of a batch that are unpacked by one call.
const PIECE_BYTES: usize = 64 << 10;
/// A batch that unpacks to more than this is a bomb: brokers hold batches of at most 2 GiB, and packing saves no more than half where
/// records are not made to.
const PIECES_BYTES_MAX: u64 = 8 << 30;

/// Kafka's primitive types from a batch that is being unpacked; as [`Cursor`] reads them from bytes that are there.
pub(super) struct Pieces<'a> {
    codec: &'static str,
    reader: BufReader<Box<dyn Read + 'a>>,
    /// Bytes read so far.
    pub(super) read: u64,
}

impl Pieces<'_> {
    fn filled(&mut self) -> Result<&[u8], InflateError> {
        if self.read > PIECES_BYTES_MAX {
            return Err(InflateError::TooLarge { codec: self.codec, bytes_max: PIECES_BYTES_MAX as usize });
        }
        let codec = self.codec;
        let bytes = self.reader.fill_buf().map_err(|e| damaged(codec, &e))?;
        if bytes.is_empty() {
            return Err(damaged(codec, &"it ends before its records do"));
        }
        Ok(bytes)
    }

    fn used(&mut self, bytes: usize) {
        self.reader.consume(bytes);
        self.read += bytes as u64;
    }

    /// A signed number in groups of seven bits.
    pub(super) fn signed(&mut self) -> Result<i64, InflateError> {
        let (mut bytes, mut length) = ([0; 10], 0);
        loop {
            let byte = self.filled()?[0];
            self.used(1);
            *bytes.get_mut(length).ok_or_else(|| damaged(self.codec, &Malformed))? = byte;
            length += 1;
            if byte < 0x80 {
                return Cursor(&bytes[..length]).signed().map_err(|e| damaged(self.codec, &e));
            }
        }
    }

    /// Steps over bytes.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), InflateError> {
        self.keep(bytes, 0, &mut Vec::new())
    }

    /// Reads `bytes`, of which the first `keep_max` are appended to `out`.
    pub(super) fn keep(
        &mut self,
        bytes: u64,
        keep_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), InflateError> {
        let (mut left, mut room) = (bytes, keep_max);
        while left > 0 {
            let chunk = self.filled()?;
            let take = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let kept = take.min(room);
            out.extend_from_slice(&chunk[..kept]);
            self.used(take);
            room -= kept;
            left -= take as u64;
        }
        Ok(())
    }
}

/// Snappy as Java programs write it, one block after the other.
struct SnappyBlocks<'a> {
    at: Cursor<'a>,
    out: Vec<u8>,
    used: usize,
}

impl Read for SnappyBlocks<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.used == self.out.len() {
            if self.at.0.is_empty() {
                return Ok(0);
            }
            self.out.clear();
            self.used = 0;
            let length = self.at.u32().map_err(std::io::Error::other)?;
            let packed = self.at.take(length as usize).map_err(std::io::Error::other)?;
            block(packed, &mut self.out, BLOCK_BYTES_MAX).map_err(std::io::Error::other)?;
        }
        let read = (&self.out[self.used..]).read(into)?;
        self.used += read;
        Ok(read)
    }
}

/// One of those blocks unpacked; Java programs make them of 32 KiB.
const BLOCK_BYTES_MAX: usize = 4 << 20;

fn damaged(codec: &'static str, why: &dyn std::fmt::Display) -> InflateError {
    InflateError::Damaged { codec, why: why.to_string() }
}

fn read_all(
    codec: &'static str,
    reader: impl Read,
    out: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<(), InflateError> {
    let mut bounded = reader.take(bytes_max as u64 + 1);
    bounded.read_to_end(out).map_err(|e| damaged(codec, &e))?;
    if out.len() > bytes_max {
        return Err(InflateError::TooLarge { codec, bytes_max });
    }
    Ok(())
}

fn snappy(body: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), InflateError> {
    let Some(blocks) = body.strip_prefix(XERIAL) else { return block(body, out, bytes_max) };
    let mut at = Cursor(blocks);
    let short = |error: Malformed| damaged("snappy", &error);
    // Two version numbers.
    at.take(8).map_err(short)?;
    while !at.0.is_empty() {
        let len = at.u32().map_err(short)?;
        let packed = at.take(len as usize).map_err(short)?;
        block(packed, out, bytes_max)?;
    }
    Ok(())
}

/// Appends one block of Snappy.
fn block(packed: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), InflateError> {
    let len = snap::raw::decompress_len(packed).map_err(|e| damaged("snappy", &e))?;
    // A length that the format can express is not believed: no byte of Snappy unpacks to more than 64.
    if len > bytes_max.saturating_sub(out.len()) {
        return Err(InflateError::TooLarge { codec: "snappy", bytes_max });
    }
    if len / 64 > packed.len() {
        return Err(damaged("snappy", &"it says to be longer than its bytes can be"));
    }
    let begin = out.len();
    out.resize(begin + len, 0);
    snap::raw::Decoder::new().decompress(packed, &mut out[begin..]).map_err(|e| damaged("snappy", &e))?;
    Ok(())
}

#[cfg(test)]
mod tests;
