//! Compressed record batches.
//!
//! Owns the five codecs of Kafka and the bound on what they may grow to. Does not own the records inside.

use std::io::Read;

use super::cursor::{Cursor, Malformed};

/// Why a batch cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub(super) enum InflateError {
    #[error("a {codec} batch is damaged: {why}")]
    Damaged { codec: &'static str, why: String },
    #[error("a {codec} batch has more than {bytes_max} bytes when unpacked")]
    TooLarge { codec: &'static str, bytes_max: usize },
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
