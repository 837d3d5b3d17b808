//! Deltas and snapshots as they are read again.
//!
//! Owns every check on the way in: lengths before anything is allocated, the checksum before anything is believed. Does not own their form, which stands at
//! [`super`].

use dataflow::StateError;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    CHECKSUM, FILE_HEAD, FOOTER_BYTES_MAX, FileEntry, GROUP_HEAD, HASH, Kind, MAGIC, PARTS_MAX, RUN_HEAD,
    Shape, VERSION, VERSION_WITH_RUNS, VERSION_WITHOUT_RUNS, WATERMARK_KNOWN,
};
use crate::dedup::aside::Disorder;
use crate::dedup::window::Window;

/// The hashes of one bucket, still in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// The bucket.
    pub bucket: i64,
    hashes: &'a [u8],
}

impl Group<'_> {
    /// The hashes.
    pub fn hashes(&self) -> impl Iterator<Item = u128> {
        self.hashes.as_chunks::<HASH>().0.iter().map(|bytes| u128::from_le_bytes(*bytes))
    }
}

/// A delta or snapshot whose every length has been checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// The watermark's bucket.
    pub watermark: Option<i64>,
    /// Forgotten pairs.
    pub forgotten: Vec<Group<'a>>,
    /// Added pairs.
    pub added: Vec<Group<'a>>,
    /// The runs of a snapshot.
    pub runs: Vec<RunGroup<'a>>,
    /// What a snapshot says of input that is out of order.
    pub disorder: Option<Disordered<'a>>,
}

/// What is set aside.
#[derive(Debug, PartialEq, Eq)]
pub struct Disordered<'a> {
    /// Since when.
    pub disorder: Disorder,
    /// The older generation.
    pub old: Vec<Group<'a>>,
    /// The younger one.
    pub young: Vec<Group<'a>>,
}

/// A run as a snapshot names it.
#[derive(Debug, PartialEq, Eq)]
pub struct RunGroup<'a> {
    /// log2 of the number of parts.
    pub part_bits: u8,
    /// Pairs that do not count.
    pub dead: Vec<Group<'a>>,
    /// Its files.
    pub files: Vec<FileEntry>,
}

/// Reads a delta or snapshot of a step with this shape.
///
/// # Errors
/// When the bytes are damaged, of a newer version, or of a step with another key or window.
pub fn parse<'a>(bytes: &'a [u8], kind: Kind, shape: &Shape) -> Result<Parsed<'a>, StateError> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.array::<4>("the magic")? != MAGIC {
        return Err(damaged(0, "this is not dedup state"));
    }
    let version = u16::from_le_bytes(reader.array("the version")?);
    if version > VERSION {
        return Err(StateError::TooNew { found: version, known: VERSION });
    }
    if version == 0 {
        return Err(damaged(4, "version `0` was never written"));
    }
    reader.check_sum()?;
    let [found, flags] = reader.array("the kind")?;
    if found != kind as u8 {
        return Err(damaged(6, &format!("kind `{found}` where `{}` ({kind:?}) belongs", kind as u8)));
    }
    if flags & !WATERMARK_KNOWN != 0 {
        return Err(damaged(7, &format!("unknown flags `{flags:#04x}`")));
    }
    let written = reader.shape()?;
    if written != *shape {
        return Err(StateError::Configured {
            was: written.words(),
            now: shape.words(),
            way_out:
                "put the old setting back. Or give the pipeline a new name: it then has an empty history and reads its source from the \
                 start again, so empty the table first or name another, or every row is there twice"
                    .to_owned(),
        });
    }
    let watermark = i64::from_le_bytes(reader.array("the watermark")?);
    let parsed = Parsed {
        watermark: (flags & WATERMARK_KNOWN != 0).then_some(watermark),
        forgotten: reader.groups("forgotten")?,
        added: reader.groups("added")?,
        runs: if version > VERSION_WITHOUT_RUNS { reader.runs()? } else { Vec::new() },
        disorder: if version > VERSION_WITH_RUNS { Some(reader.disorder()?) } else { None },
    };
    match reader.bytes.len() - reader.at {
        0 => Ok(parsed),
        left => Err(damaged(reader.at, &format!("`{left}` bytes are left over"))),
    }
}

pub(super) fn damaged(at: usize, what: &str) -> StateError {
    StateError::Damaged(format!("dedup state, byte `{at}`: {what}"))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: u64, what: &str) -> Result<&'a [u8], StateError> {
        let left = &self.bytes[self.at..];
        let taken = usize::try_from(len).ok().and_then(|len| left.get(..len)).ok_or_else(|| {
            damaged(self.at, &format!("{what} needs `{len}` bytes, `{}` are left", left.len()))
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], StateError> {
        Ok(self.take(N as u64, what)?.try_into().expect("`take` gives as many as asked for"))
    }

    /// Checks the sum at the end, and takes it off.
    fn check_sum(&mut self) -> Result<(), StateError> {
        let Some((body, sum)) = self.bytes.split_last_chunk::<CHECKSUM>().filter(|(b, _)| b.len() >= self.at)
        else {
            return Err(damaged(self.bytes.len(), "cut off before the checksum"));
        };
        let (written, found) = (u64::from_le_bytes(*sum), xxh3_64(body));
        if written != found {
            let what = format!("the checksum says `{written:016x}`, the bytes give `{found:016x}`");
            return Err(damaged(body.len(), &what));
        }
        self.bytes = body;
        Ok(())
    }

    pub(super) fn text(&mut self, what: &str) -> Result<String, StateError> {
        let len = u16::from_le_bytes(self.array(what)?);
        let at = self.at;
        let text = self.take(u64::from(len), what)?;
        String::from_utf8(text.to_vec()).map_err(|_| damaged(at, &format!("{what} is not UTF-8")))
    }

    pub(super) fn shape(&mut self) -> Result<Shape, StateError> {
        let columns = u16::from_le_bytes(self.array("the number of key columns")?);
        let key = (0..columns)
            .map(|_| Ok((self.text("a key column's name")?, self.text("a key column's kind")?)))
            .collect::<Result<_, StateError>>()?;
        let at = self.at;
        let window_ms = u64::from_le_bytes(self.array("the window")?);
        let width_ms = u64::from_le_bytes(self.array("the bucket's width")?);
        let window = match (window_ms, width_ms) {
            (0, 0) => Window::Unbounded,
            (0, _) | (_, 0) => return Err(damaged(at, "only one of window and width is zero")),
            _ => Window::Sliding { window_ms, width_ms },
        };
        Ok(Shape { key, window })
    }

    /// The length of a list whose entries have at least `least` bytes.
    pub(super) fn count(&mut self, least: usize, what: &str) -> Result<usize, StateError> {
        let at = self.at;
        let count = u32::from_le_bytes(self.array(what)?) as usize;
        if count > (self.bytes.len() - self.at) / least {
            return Err(damaged(at, &format!("`{count}` {what} do not fit")));
        }
        Ok(count)
    }

    pub(super) fn runs(&mut self) -> Result<Vec<RunGroup<'a>>, StateError> {
        let count = self.count(RUN_HEAD, "runs")?;
        let mut parts_left = PARTS_MAX;
        (0..count)
            .map(|_| {
                let [part_bits] = self.array("a run's part bits")?;
                let parts =
                    1_u64.checked_shl(u32::from(part_bits)).and_then(|parts| parts_left.checked_sub(parts));
                parts_left = parts.ok_or_else(|| {
                    damaged(
                        self.at,
                        &format!("a run of 2^{part_bits} parts, beyond `{PARTS_MAX}` in all runs"),
                    )
                })?;
                let dead = self.groups("dead")?;
                let files = self.count(FILE_HEAD, "files of a run")?;
                if files as u64 > 1 << part_bits {
                    return Err(damaged(
                        self.at,
                        &format!("`{files}` files of a run with 2^{part_bits} parts"),
                    ));
                }
                let files = (0..files).map(|_| self.file()).collect::<Result<_, _>>()?;
                Ok(RunGroup { part_bits, dead, files })
            })
            .collect()
    }

    pub(super) fn disorder(&mut self) -> Result<Disordered<'a>, StateError> {
        Ok(Disordered {
            disorder: Disorder { seen: i64::from_le_bytes(self.array("the disorder")?) },
            old: self.groups("older set-aside")?,
            young: self.groups("younger set-aside")?,
        })
    }

    pub(super) fn file(&mut self) -> Result<FileEntry, StateError> {
        let object = self.text("a file's name")?;
        let at = self.at;
        let mut number = || Ok(u64::from_le_bytes(self.array("a file's numbers")?));
        let (len, footer_at, sum) = (number()?, number()?, number()?);
        // The footer is read at once: its length is checked against what a part can have before anything is allocated.
        if footer_at >= len || len - footer_at > FOOTER_BYTES_MAX {
            return Err(damaged(
                at,
                &format!("`{object}` with `{len}` bytes and its footer at `{footer_at}`"),
            ));
        }
        Ok(FileEntry { object, len, footer_at, sum })
    }

    pub(super) fn groups(&mut self, what: &str) -> Result<Vec<Group<'a>>, StateError> {
        let count = self.count(GROUP_HEAD, &format!("groups of {what} pairs"))?;
        (0..count)
            .map(|_| {
                let bucket = i64::from_le_bytes(self.array("a group's bucket")?);
                if bucket == i64::MAX {
                    return Err(damaged(self.at, "no record has this bucket"));
                }
                let hashes = u64::from_le_bytes(self.array("a group's length")?);
                Ok(Group { bucket, hashes: self.take(hashes.saturating_mul(HASH as u64), what)? })
            })
            .collect()
    }
}
