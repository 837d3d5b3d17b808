//! Compressed entries.
//!
//! Owns the four codecs of Pulsar and the bound on what they may grow to. Does not own the messages inside.

use std::io::Read;

/// Why an entry cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub(super) enum InflateError {
    #[error("it is packed by {codec} and damaged: {why}")]
    Damaged { codec: &'static str, why: String },
    #[error(
        "it unpacks to `{bytes}` bytes, and at most `{bytes_max}` are held; raise `record_bytes_max` of the input's format to as many"
    )]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("it has the unknown compression `{0}`")]
    Unknown(u64),
}

/// Names of the codecs, by their numbers.
const CODECS: [&str; 5] = ["none", "lz4", "zlib", "zstd", "snappy"];

/// The payload of an entry: `body` itself if it is not packed, else `out`, which is overwritten. `bytes` is the length that the entry says
/// to have when it is unpacked.
///
/// # Errors
/// When the codec is unknown, the bytes are none of it, or there are more than `bytes_max`, or other than `bytes`.
pub(super) fn inflate<'a>(
    codec: u64,
    bytes: usize,
    body: &'a [u8],
    out: &'a mut Vec<u8>,
    bytes_max: usize,
) -> Result<&'a [u8], InflateError> {
    if codec == 0 {
        return Ok(body);
    }
    let name =
        *usize::try_from(codec).ok().and_then(|at| CODECS.get(at)).ok_or(InflateError::Unknown(codec))?;
    if bytes > bytes_max {
        return Err(InflateError::TooLarge { bytes, bytes_max });
    }
    out.clear();
    let damaged = |why: &dyn std::fmt::Display| InflateError::Damaged { codec: name, why: why.to_string() };
    match codec {
        1 | 4 => {
            // Both are one block. A length that the format can express is not believed: no byte of either unpacks to more than 255.
            if bytes / 255 > body.len() {
                return Err(damaged(&"it says to be longer than its bytes can be"));
            }
            out.resize(bytes, 0);
            let unpacked = if codec == 1 {
                lz4_flex::block::decompress_into(body, out).map_err(|why| damaged(&why))?
            } else {
                snap::raw::Decoder::new().decompress(body, out).map_err(|why| damaged(&why))?
            };
            out.truncate(unpacked);
        }
        2 => read_all(flate2::read::ZlibDecoder::new(body), bytes, out).map_err(|why| damaged(&why))?,
        _ => {
            let decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(|why| damaged(&why))?;
            read_all(decoder, bytes, out).map_err(|why| damaged(&why))?;
        }
    }
    if out.len() != bytes {
        return Err(damaged(&format!("it unpacks to other than the `{bytes}` bytes that it says")));
    }
    Ok(out)
}

/// Reads `bytes`, and one more if there is one.
fn read_all(reader: impl Read, bytes: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    reader.take(bytes as u64 + 1).read_to_end(out).map(drop)
}

#[cfg(test)]
mod tests;
