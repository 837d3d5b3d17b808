//! Opens a file at a position of its inflated bytes.
//!
//! Owns how a packing is known, what is refused as no text, and the way to a position. Does not own the checksums of what is inflated
//! (`file::verified`), nor what a line is (`file::lines`).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use dataflow::SourceError;

use super::find::failed;
use super::mark;
use super::raw::{BoxRaw, RawFile, RawStream};
use super::verified::{TAIL_BYTES, Verified};

/// Bytes read by one call: large enough that calls cost nothing, small enough for the second-level cache.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// First bytes that tell what a file is.
const HEAD_BYTES: usize = 512;

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

    /// What a packed file is made of.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Plain => "byte",
            Self::Gzip => "gzip member",
            Self::Zstd => "zstd frame",
        }
    }
}

/// Why a file that begins with `head`, and is neither gzip nor zstd, cannot be text; `None` if it can.
///
/// Were it read as lines, all of it would become dead letters: a flipped bit in the first bytes of a packed file must be
/// as plain an error as one in the middle.
pub(super) fn no_text(name: &str, head: &[u8]) -> Option<String> {
    let foreign: [(&[u8], &str); 6] = [
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
        (b"BZh", "bzip2"),
        (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
        (&[b'P', b'K', 3, 4], "zip"),
        (&[0x1f, 0x9d], "compress"),
        (&[0xff, 0x06, 0, 0, b's', b'N', b'a', b'P', b'p', b'Y'], "snappy"),
    ];
    if let Some((magic, packing)) = foreign.iter().find(|(magic, _)| head.starts_with(magic))
        && (*magic != b"BZh" || head.get(4..10) == Some(&[0x31, 0x41, 0x59, 0x26, 0x53, 0x59]))
    {
        return Some(format!(
            "it is compressed with {packing}, and only gzip and zstd are read: compress it with one of these"
        ));
    }
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Some(
            "it is UTF-16, and only UTF-8 is read: convert it with `iconv -f UTF-16 -t UTF-8`".into(),
        );
    }
    for (packing, magic) in [("gzip", &[0x1f, 0x8b, 8][..]), ("zstd", &[0x28, 0xb5, 0x2f, 0xfd])] {
        let flipped: u32 = magic.iter().zip(head).map(|(a, b)| (a ^ b).count_ones()).sum();
        // No text begins with control characters or bytes that no UTF-8 has, so what is this close to a packing is one.
        let is_near = head.len() >= magic.len() && flipped <= 2;
        let is_beginning = head.len() < magic.len() && flipped == 0 && !head.is_empty() && head != b"(";
        if is_near || is_beginning {
            return Some(format!("its first bytes are damaged: they are nearly those of {packing}"));
        }
    }
    let is_named = [".gz", ".gzip", ".zst", ".zstd"].iter().any(|end| name.ends_with(end));
    let is_control = |byte: &u8| *byte < b' ' && !b"\t\n\r".contains(byte);
    let is_cut_character = |error: std::str::Utf8Error| error.error_len().is_none();
    let is_text =
        !head.iter().any(is_control) && std::str::from_utf8(head).map_or_else(is_cut_character, |_| true);
    if is_named && !is_text {
        return Some(
            "its name says that it is compressed, but its first bytes are neither gzip, zstd nor text: it is damaged"
                .into(),
        );
    }
    None
}

/// The bytes of a file from some position on.
pub(super) type Bytes = Box<dyn BufRead + Send>;

/// What stands at a position.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// A line's start, or the end of the file.
    Line,
    /// Behind a record whose newline had not been written yet when it was read. What follows belongs to the next one.
    AfterWhole,
    /// The middle of a line.
    Middle,
    /// Nothing: the file ends at this position already.
    Beyond(u64),
}

/// The length of a file that is kept plain; `None` for the others, and for one that has gone since it was listed.
pub(super) fn plain_end(path: &str) -> Result<Option<u64>, SourceError> {
    let failed = |error| failed(path, "read", &error);
    match files::open(path) {
        Ok(file) => plain_length(&file).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// The length of an open file that is kept plain; `None` for the others. The file stands at no certain place afterwards.
pub(super) fn plain_length(file: &File) -> io::Result<Option<u64>> {
    let packing = packing(file)?;
    let end = file.metadata()?.len();
    Ok((packing == Packing::Plain).then_some(end))
}

/// How a file is packed, by its first bytes.
pub(super) fn packing(mut file: &File) -> io::Result<Packing> {
    file.seek(SeekFrom::Start(0))?;
    Ok(Packing::of(&head(&mut file)?))
}

/// The first bytes of a file: enough to tell packings and text apart.
fn head(raw: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    raw.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

fn refuse_no_text(name: &str, head: &[u8]) -> io::Result<()> {
    match no_text(name, head) {
        Some(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why)),
        None => Ok(()),
    }
}

/// Bytes from a position on.
pub(super) struct At {
    pub bytes: Bytes,
    pub stands: Stands,
    /// Those in front of the position, at most as many as a mark is made of.
    pub before: Vec<u8>,
}

/// Goes to `position` of the inflated bytes, and says what is there. Getting there may mean to inflate a whole file: asks
/// every chunk whether to `go_on`, and ends with [`io::ErrorKind::Interrupted`] if not.
pub(super) fn open(
    mut file: File,
    name: &str,
    position: u64,
    hold_bytes_max: usize,
    go_on: &dyn Fn() -> bool,
) -> io::Result<At> {
    file.seek(SeekFrom::Start(0))?;
    let head = head(&mut file)?;
    let packing = Packing::of(&head);
    if packing == Packing::Plain {
        refuse_no_text(name, &head)?;
        let end = file.metadata()?.len();
        if position > end {
            return Ok(At { bytes: Box::new(io::empty()), stands: Stands::Beyond(end), before: Vec::new() });
        }
        let before = position.min(TAIL_BYTES);
        file.seek(SeekFrom::Start(position - before))?;
        let bytes: Bytes = Box::new(BufReader::with_capacity(CHUNK_BYTES, file));
        return skip(bytes, before, go_on).map(|(at, _)| at);
    }
    let mut verified = Verified::new(Box::new(RawFile::new(file)?), packing, hold_bytes_max);
    let passed = if position > 0 { verified.pass(position, go_on)? } else { 0 };
    let (at, skipped) = skip(Box::new(verified), position - passed, go_on)?;
    let skipped = passed + skipped;
    Ok(if skipped < position { At { stands: Stands::Beyond(skipped), ..at } } else { at })
}

/// The inflated bytes of a stream whose first bytes are only known by reading them.
pub(super) fn stream(mut raw: impl BufRead + Send + 'static, hold_bytes_max: usize) -> io::Result<Bytes> {
    // No more than are needed: a writer may pause behind its first line.
    let mut head = Vec::with_capacity(4);
    raw.by_ref().take(4).read_to_end(&mut head)?;
    let packing = Packing::of(&head);
    if packing == Packing::Plain {
        refuse_no_text("", &head)?;
        return Ok(Box::new(io::Cursor::new(head).chain(raw)));
    }
    let raw: BoxRaw = Box::new(RawStream::new(io::Cursor::new(head).chain(raw)));
    Ok(Box::new(Verified::new(raw, packing, hold_bytes_max)))
}

/// Reads over `count` bytes; says how many there were and what stands after them.
fn skip(mut bytes: Bytes, count: u64, go_on: &dyn Fn() -> bool) -> io::Result<(At, u64)> {
    let (mut left, mut before) = (count, Vec::new());
    // The last byte, and the last that is no blank at the end of a line.
    let (mut last, mut solid) = (b'\n', b'\n');
    while left > 0 {
        let chunk = filled(&mut bytes, go_on)?;
        let take = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if take == 0 {
            break;
        }
        last = chunk[take - 1];
        mark::keep_last(&mut before, &chunk[..take]);
        solid = chunk[..take].iter().rfind(|byte| !b" \t\r".contains(byte)).copied().unwrap_or(solid);
        bytes.consume(take);
        left -= take as u64;
    }
    let stands = if last == b'\n' || filled(&mut bytes, go_on)?.is_empty() {
        Stands::Line
    } else if solid == b'}' {
        Stands::AfterWhole
    } else {
        Stands::Middle
    };
    Ok((At { bytes, stands, before }, count - left))
}

/// The next bytes, however many steps it takes to check them.
pub(super) fn filled<'a>(bytes: &'a mut Bytes, go_on: &dyn Fn() -> bool) -> io::Result<&'a [u8]> {
    loop {
        if !go_on() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "nobody waits for it any more"));
        }
        match bytes.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    // What is filled already is given once more.
    bytes.fill_buf()
}
