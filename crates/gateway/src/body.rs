//! The body of a request: read and inflated within bounds.
//!
//! Owns the bounds on bytes and on time. Does not own the counting of what is held (`gateway::budget`), nor where records begin in a body
//! (`gateway::records`). Every byte is held by the budgets before it is kept, also those that come out of a compressed body, so that a body
//! that inflates without end meets its bound after one piece too many.
//!
//! | a body that                              | meets                                       |
//! |------------------------------------------|---------------------------------------------|
//! | says that it is longer than it may be    | 413 before it is read                       |
//! | is longer, as it comes or inflated       | 413 at the bound                            |
//! | comes slowly, or stops                   | 408                                         |
//! | finds no room beside the others          | 429                                         |
//! | is compressed in an unknown way, or twice | 415                                        |
//! | is not what its encoding says, or goes on behind a stream of zlib | 400                |

use std::cell::RefCell;
use std::io::Read;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout, timeout_at};
use zstd::bulk::Decompressor;

use crate::budget::Held;
use crate::refusal::{Kind, Refusal};

/// The buffer of a body whose length is announced grows fourfold, and never beyond that length: a body of megabytes is not copied at each doubling, and a sender that
/// only announces holds little room.
const ANNOUNCED_RATIO_MAX: usize = 4;

/// Bytes inflated at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The largest window of zstd, as a power of two: what its encoders use up to level 19. The decoder takes as much memory.
pub(crate) const WINDOW_LOG_MAX: u32 = 23;

/// Bounds of one body.
#[derive(Clone, Copy, Debug)]
pub struct BodyBounds {
    /// Bytes, as they come and inflated.
    pub bytes_max: usize,
    /// The longest wait for the next piece.
    pub wait_max: Duration,
    /// The longest time for all of it.
    pub time_max: Duration,
}

/// Bytes that one byte of a block of Snappy stands for at the most: an element of three bytes copies 64.
pub(crate) const SNAPPY_RATIO_MAX: usize = 22;

/// Bytes that one byte of a frame of zstd is trusted to stand for before it is read. What people and programs write stays below.
const AT_ONCE_RATIO_MAX: usize = 64;

/// Bodies below are compressed with their neighbours: together they take less.
pub(crate) const PACKED_MIN: usize = 16 << 10;

/// A body that its sender has compressed by less is compressed again.
pub(crate) const PACKED_RATIO_MIN: usize = 2;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all.
    Identity,
    /// `gzip`, also of several members.
    Gzip,
    /// `zstd`, also of several frames.
    Zstd,
    /// `deflate`: with the head and checksum of zlib.
    Deflate,
    /// `snappy`: one block, without frames, as Prometheus and Loki have it.
    Snappy,
}

/// A body as it came.
#[derive(Debug)]
pub struct Raw {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How they are compressed.
    pub encoding: Encoding,
    /// Bytes of it that may be held, inflated.
    bytes_max: usize,
    held: Held,
}

/// A body as it was before it was compressed.
#[derive(Debug)]
pub struct Inflated {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// As it came: whole zstd frames whose content is `bytes`, for [`object_log::Append::packed`]. `None` where it is better compressed here: it was not, or
    /// another way, or badly, or is small.
    pub packed: Option<Bytes>,
    /// What holds both.
    pub held: Held,
}

impl Encoding {
    /// What the headers say.
    ///
    /// # Errors
    /// [`Kind::Media`] for an unknown one.
    pub fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let unknown = || {
            Refusal::new(
                Kind::Media,
                "the body's `Content-Encoding` is not known; use `gzip`, `zstd`, `deflate`, `snappy` or none",
            )
        };
        let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
        let Some(value) = values.next() else { return Ok(Self::Identity) };
        if values.next().is_some() {
            return Err(unknown());
        }
        match value.to_str().map_err(|_| unknown())?.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Self::Identity),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            "zstd" => Ok(Self::Zstd),
            // The collector of OpenTelemetry calls it by either name.
            "deflate" | "zlib" => Ok(Self::Deflate),
            "snappy" => Ok(Self::Snappy),
            _ => Err(unknown()),
        }
    }
}

/// Reads a body; `held` counts it.
///
/// # Errors
/// As the module's table says, but for what inflating finds.
pub async fn read(headers: &HeaderMap, body: Body, bounds: BodyBounds, held: Held) -> Result<Raw, Refusal> {
    let encoding = Encoding::of(headers)?;
    let said =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > bounds.bytes_max as u64) {
        return Err(too_large(bounds.bytes_max));
    }
    let said = said.map(|said| said as usize);
    read_announced(body, encoding, bounds, held, |_| said).await
}

/// As [`read`], where a body says by its own first bytes how many it has.
///
/// # Errors
/// As [`read`].
pub async fn read_announced(
    mut body: Body,
    encoding: Encoding,
    bounds: BodyBounds,
    mut held: Held,
    announced: impl Fn(&[u8]) -> Option<usize>,
) -> Result<Raw, Refusal> {
    let mut bytes: Vec<u8> = Vec::new();
    let until = Instant::now() + bounds.time_max;
    let slow = || Refusal::new(Kind::TooSlow, "the body came too slowly; nothing of it was taken");
    loop {
        let next = timeout_at(until, timeout(bounds.wait_max, body.frame()));
        let Some(frame) = next.await.map_err(|_| slow())?.map_err(|_| slow())? else { break };
        let frame =
            frame.map_err(|error| Refusal::new(Kind::Malformed, format!("the body broke off: {error}")))?;
        let Some(piece) = frame.data_ref() else { continue };
        if bytes.len() + piece.len() > bounds.bytes_max {
            return Err(too_large(bounds.bytes_max));
        }
        let needed = bytes.len() + piece.len();
        if needed > bytes.capacity() {
            // What a client only announces holds no room: one that then sends nothing would keep others out. One that announces less than it sends announces nothing.
            let said =
                announced(if bytes.is_empty() { piece } else { &bytes }).filter(|said| *said >= needed);
            let (ratio, most) = match said {
                Some(said) => (ANNOUNCED_RATIO_MAX, said.min(bounds.bytes_max)),
                None => (2, bounds.bytes_max),
            };
            let capacity = (ratio * bytes.capacity()).max(PIECE_BYTES).min(most).max(needed);
            held.take(capacity - bytes.capacity())?;
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(piece);
    }
    Ok(Raw { bytes, encoding, bytes_max: bounds.bytes_max, held })
}

impl Raw {
    /// Holds nothing yet, for what else the request takes of the same budgets.
    pub fn room(&self) -> Held {
        self.held.another()
    }

    /// Takes a body without `Content-Encoding` for a block of Snappy: some protocols always have one, and some of their senders do not say so.
    pub fn or_snappy(self) -> Self {
        let encoding = match self.encoding {
            Encoding::Identity => Encoding::Snappy,
            named => named,
        };
        Self { encoding, ..self }
    }

    /// The bytes as they were before they were compressed, and what holds them. For a compute thread.
    ///
    /// # Errors
    /// [`Kind::TooLarge`], [`Kind::Busy`], and [`Kind::Malformed`] when they are damaged.
    pub fn inflate(self) -> Result<(Vec<u8>, Held), Refusal> {
        self.inflate_and_keep().map(|Inflated { bytes, held, .. }| (bytes, held))
    }

    /// The same, and the body as it came where the log can keep it so: see [`Inflated::packed`].
    ///
    /// # Errors
    /// As [`inflate`](Self::inflate).
    pub fn inflate_and_keep(self) -> Result<Inflated, Refusal> {
        let is_zstd = self.encoding == Encoding::Zstd;
        let (packed, held) = (self.bytes, self.held);
        let (bytes, mut inflated) = match self.encoding {
            Encoding::Identity => return Ok(Inflated { bytes: packed, packed: None, held }),
            encoding => inflate(&packed, encoding, self.bytes_max, held.another())?,
        };
        let is_kept = is_zstd && bytes.len() >= PACKED_MIN && packed.len() <= bytes.len() / PACKED_RATIO_MIN;
        let packed = match is_kept {
            true => {
                inflated.merge(held);
                Some(Bytes::from(packed))
            }
            false => None,
        };
        Ok(Inflated { bytes, packed, held: inflated })
    }
}

thread_local! {
    /// What zstd needs to unpack, about 160 KB: one for each compute thread instead of one for each body.
    static UNPACKER: RefCell<Decompressor<'static>> = RefCell::new(Decompressor::default());
}

/// The content of a compressed body.
fn inflate(
    bytes: &[u8],
    encoding: Encoding,
    bytes_max: usize,
    mut inflated: Held,
) -> Result<(Vec<u8>, Held), Refusal> {
    let out = match encoding {
        Encoding::Identity => Ok(bytes.to_vec()),
        Encoding::Gzip => pieces(flate2::read::MultiGzDecoder::new(bytes), bytes_max, &mut inflated),
        Encoding::Deflate => {
            let mut decoder = flate2::bufread::ZlibDecoder::new(bytes);
            let out = pieces(&mut decoder, bytes_max, &mut inflated)?;
            match decoder.get_ref().len() {
                0 => Ok(out),
                behind => Err(behind_the_end(behind)),
            }
        }
        Encoding::Zstd => match zstd_at_once(bytes, bytes_max, &mut inflated)? {
            Some(out) => Ok(out),
            None => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(|e| damaged(&e))?;
                decoder.window_log_max(WINDOW_LOG_MAX).map_err(|error| damaged(&error))?;
                pieces(decoder, bytes_max, &mut inflated)
            }
        },
        Encoding::Snappy => block(bytes, bytes_max, &mut inflated),
    };
    Ok((out?, inflated))
}

/// The content of one frame of zstd that says how long it is: into its place, instead of by pieces. `None` where the pieces must find out.
fn zstd_at_once(bytes: &[u8], bytes_max: usize, held: &mut Held) -> Result<Option<Vec<u8>>, Refusal> {
    let said = zstd::zstd_safe::get_frame_content_size(bytes).ok().flatten();
    let Some(said) = said.and_then(|said| usize::try_from(said).ok()) else { return Ok(None) };
    // A frame that announces much more than it can be trusted to hold gets its memory piece by piece.
    if said == 0 || said > bytes_max || said / AT_ONCE_RATIO_MAX > bytes.len() {
        return Ok(None);
    }
    let mut own = held.another();
    own.take(said)?;
    // Another frame behind it needs more room than was said; what is damaged is named by the pieces.
    let out = UNPACKER.with_borrow_mut(|unpacker| unpacker.decompress(bytes, said));
    let out = out.ok().filter(|out| out.len() == said);
    if out.is_some() {
        held.merge(own);
    }
    Ok(out)
}

fn pieces(mut from: impl Read, bytes_max: usize, held: &mut Held) -> Result<Vec<u8>, Refusal> {
    let mut out = Vec::new();
    loop {
        grow(&mut out, bytes_max, held)?;
        let begin = out.len();
        out.resize(begin + PIECE_BYTES, 0);
        let mut end = begin;
        while end < out.len() {
            match from.read(&mut out[end..]).map_err(|error| damaged(&error))? {
                0 => {
                    out.truncate(end);
                    if end > bytes_max {
                        return Err(too_large(bytes_max));
                    }
                    // What it grew by beyond its end is given back.
                    out.shrink_to_fit();
                    held.shrink_to(out.capacity());
                    return Ok(out);
                }
                read => end += read,
            }
        }
        if end > bytes_max {
            return Err(too_large(bytes_max));
        }
    }
}

/// Makes room for one piece more. All of the memory is held before it is there: a list that grows by itself takes up to twice its length.
fn grow(out: &mut Vec<u8>, bytes_max: usize, held: &mut Held) -> Result<(), Refusal> {
    let needed = out.len() + PIECE_BYTES;
    if needed > out.capacity() {
        let most = bytes_max.saturating_add(PIECE_BYTES);
        let capacity = (2 * out.capacity()).min(most).max(needed);
        held.take(capacity - out.capacity())?;
        out.reserve_exact(capacity - out.len());
    }
    Ok(())
}

/// The content of a block of Snappy, whose length stands before it.
fn block(bytes: &[u8], bytes_max: usize, held: &mut Held) -> Result<Vec<u8>, Refusal> {
    let failed = |error: snap::Error| damaged(&error.into());
    let said = snap::raw::decompress_len(bytes).map_err(failed)?;
    if said > bytes_max {
        return Err(too_large(bytes_max));
    }
    // Nothing is allocated for a length that the block cannot have.
    if said / SNAPPY_RATIO_MAX > bytes.len() {
        let message = format!(
            "the body is not what its `Content-Encoding` says: its {} bytes cannot hold {said}",
            bytes.len()
        );
        return Err(Refusal::new(Kind::Malformed, message));
    }
    held.take(said)?;
    let mut out = vec![0; said];
    let read = snap::raw::Decoder::new().decompress(bytes, &mut out).map_err(failed)?;
    out.truncate(read);
    Ok(out)
}

fn damaged(error: &std::io::Error) -> Refusal {
    Refusal::new(Kind::Malformed, format!("the body is not what its `Content-Encoding` says: {error}"))
}

fn behind_the_end(bytes: usize) -> Refusal {
    let message = format!(
        "the body is not what its `Content-Encoding` says: {bytes} bytes stand behind the end of its zlib stream; send one stream, or use `gzip`"
    );
    Refusal::new(Kind::Malformed, message)
}

fn too_large(bytes_max: usize) -> Refusal {
    Refusal::new(Kind::TooLarge, format!("the body has more than {bytes_max} bytes; send less at a time"))
}

#[cfg(test)]
mod tests;
