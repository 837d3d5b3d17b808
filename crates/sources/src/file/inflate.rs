//! Opens a file at a position of its inflated bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use dataflow::SourceError;
use flate2::bufread::MultiGzDecoder;

use super::find::failed;

/// Bytes read by one call: large enough that calls cost nothing, small enough for the second-level cache.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// How a file's bytes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    /// What the first bytes of a file say. A zstd file may begin with a skippable frame.
    pub(super) fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [low, 0x2a, 0x4d, 0x18, ..] if low & 0xf0 == 0x50 => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// The bytes of a file from some position on.
pub(super) type Bytes = Box<dyn BufRead + Send>;

/// What stands at a position.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A line's start, or the end of the file.
    Line,
    /// The middle of a line.
    Middle,
    /// Nothing: the file ends at this position already.
    Beyond(u64),
}

/// The length of a file that is kept plain; `None` for the others.
pub(super) fn plain_end(path: &str) -> Result<Option<u64>, SourceError> {
    let failed = |error| failed(path, "read", &error);
    let mut file = File::open(path).map_err(failed)?;
    let packing = packing(&mut file).map_err(failed)?;
    let end = file.metadata().map_err(failed)?.len();
    Ok((packing == Packing::Plain).then_some(end))
}

fn packing(file: &mut File) -> io::Result<Packing> {
    let mut head = Vec::with_capacity(4);
    file.by_ref().take(4).read_to_end(&mut head)?;
    Ok(Packing::of(&head))
}

/// Goes to `position` of the inflated bytes, and says what is there. Getting there may mean to inflate a whole file: asks
/// every chunk whether to `go_on`, and ends with [`io::ErrorKind::Interrupted`] if not.
pub(super) fn open(mut file: File, position: u64, go_on: &dyn Fn() -> bool) -> io::Result<(Bytes, Place)> {
    file.seek(SeekFrom::Start(0))?;
    let packing = packing(&mut file)?;
    if packing == Packing::Plain {
        let end = file.metadata()?.len();
        if position > end {
            return Ok((Box::new(io::empty()), Place::Beyond(end)));
        }
        file.seek(SeekFrom::Start(position.saturating_sub(1)))?;
        let bytes: Bytes = Box::new(BufReader::with_capacity(CHUNK_BYTES, file));
        return skip(bytes, position.min(1), go_on).map(|(bytes, place, _)| (bytes, place));
    }
    file.seek(SeekFrom::Start(0))?;
    let (bytes, place, skipped) =
        skip(inflated(BufReader::with_capacity(CHUNK_BYTES, file), packing)?, position, go_on)?;
    let place = if skipped < position { Place::Beyond(skipped) } else { place };
    Ok((bytes, place))
}

/// The inflated bytes of a stream whose first bytes are only known by reading them.
pub(super) fn stream(mut raw: impl BufRead + Send + 'static) -> io::Result<Bytes> {
    let mut head = Vec::with_capacity(4);
    raw.by_ref().take(4).read_to_end(&mut head)?;
    let packing = Packing::of(&head);
    inflated(io::Cursor::new(head).chain(raw), packing)
}

fn inflated(raw: impl BufRead + Send + 'static, packing: Packing) -> io::Result<Bytes> {
    Ok(match packing {
        Packing::Plain => Box::new(raw),
        Packing::Gzip => Box::new(BufReader::with_capacity(CHUNK_BYTES, MultiGzDecoder::new(raw))),
        Packing::Zstd => {
            Box::new(BufReader::with_capacity(CHUNK_BYTES, zstd::stream::read::Decoder::with_buffer(raw)?))
        }
    })
}

/// Reads over `count` bytes; says how many there were and whether a line starts after them.
fn skip(mut bytes: Bytes, count: u64, go_on: &dyn Fn() -> bool) -> io::Result<(Bytes, Place, u64)> {
    let mut left = count;
    let mut last = b'\n';
    while left > 0 {
        if !go_on() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "nobody waits for it any more"));
        }
        let chunk = bytes.fill_buf()?;
        let take = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if take == 0 {
            break;
        }
        last = chunk[take - 1];
        bytes.consume(take);
        left -= take as u64;
    }
    let is_line = last == b'\n' || bytes.fill_buf()?.is_empty();
    Ok((bytes, if is_line { Place::Line } else { Place::Middle }, count - left))
}
