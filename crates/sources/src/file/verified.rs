//! Packed bytes that are returned only after the checksum over them was found right.
//!
//! Owns the division of a packed file into members (gzip) or frames (Zstandard), and the two passes over one that is too
//! large to be held. Does not own how raw bytes are read a second time (`raw`), lines, or what a damaged file leads to.
//!
//! | a member or frame           | what happens                                                                   |
//! |-----------------------------|--------------------------------------------------------------------------------|
//! | small, right                | inflated once into memory, checked, returned                                 |
//! | large, right                | inflated once to check it, then a second time to hand it out piece by piece    |
//! | damaged, truncated          | an error with its number and its first byte; none of its bytes are returned  |
//! | followed by something else  | the same; only zeros behind the last gzip member are padding, as for `gzip -d` |
//! | changed between both passes | an error                                                                       |
//!
//! A Zstandard frame without a checksum is only known to be well-formed; that is logged once for each file.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::GzDecoder;
use zstd::stream::read::Decoder;

use super::inflate::{CHUNK_BYTES, Packing};
use super::mark;
use super::raw::BoxRaw;

/// Bytes in front of a position that are always returned, so that the caller sees what a line's start follows, and what the mark is made of.
pub(super) const TAIL_BYTES: u64 = mark::BYTES;

/// What the decoder says of a frame whose window is larger than the 128 MiB that it takes by itself.
const WINDOW_TOO_LARGE: &str = "Frame requires too much memory";

/// One member or frame while it is inflated.
enum Unit {
    Gzip(Box<GzDecoder<BoxRaw>>),
    Zstd(Decoder<'static, BoxRaw>),
}

impl Unit {
    fn new(packing: Packing, raw: BoxRaw) -> io::Result<Self> {
        Ok(match packing {
            Packing::Zstd => Self::Zstd(Decoder::with_buffer(raw)?.single_frame()),
            Packing::Gzip | Packing::Plain => Self::Gzip(Box::new(GzDecoder::new(raw))),
        })
    }

    fn into_raw(self) -> BoxRaw {
        match self {
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zstd(decoder) => decoder.finish(),
        }
    }

    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Self::Gzip(decoder) => decoder.read(out),
                Self::Zstd(decoder) => decoder.read(out),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

/// Where the work stands.
enum Step {
    /// At the first byte of a unit, or at the end.
    Between(BoxRaw),
    /// In the first pass over a unit.
    Checking { unit: Unit, start: u64, bytes: u64, is_held: bool },
    /// In the second pass, with so many bytes left.
    Again { unit: Unit, left: u64 },
    /// Behind the last unit.
    Ended,
    /// Failed for good, and says so at every call.
    Failed(Failure),
}

/// An error that can be given more than once.
struct Failure {
    kind: ErrorKind,
    os: Option<i32>,
    message: String,
}

impl Failure {
    fn error(&self) -> io::Error {
        match self.os {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.kind, self.message.clone()),
        }
    }
}

/// The inflated bytes of a packed file.
pub(super) struct Verified {
    packing: Packing,
    step: Step,
    /// What is returned next, from `out_at` on, if `is_ready`.
    out: Vec<u8>,
    out_at: usize,
    is_ready: bool,
    hold_bytes_max: usize,
    /// Units begun, and inflated bytes of those that have passed the check.
    units: u64,
    checked: u64,
    has_warned: bool,
}

impl Verified {
    /// The bytes of `raw`, which stands at its first byte. Holds units of at most `hold_bytes_max` inflated bytes.
    pub(super) fn new(raw: BoxRaw, packing: Packing, hold_bytes_max: usize) -> Self {
        Self {
            packing,
            step: Step::Between(raw),
            out: Vec::new(),
            out_at: 0,
            is_ready: false,
            hold_bytes_max,
            units: 0,
            checked: 0,
            has_warned: false,
        }
    }

    /// Passes over whole units in front of `position` without inflating any of them twice; returns the bytes that it passed.
    /// Stays [`TAIL_BYTES`] away from the position.
    pub(super) fn pass(&mut self, position: u64, go_on: &dyn Fn() -> bool) -> io::Result<u64> {
        let mut passed = 0;
        while go_on() {
            if self.is_ready || matches!(self.step, Step::Again { .. } | Step::Ended) {
                // Only a unit that was just checked is counted in `checked` and not returned.
                if self.checked.saturating_add(TAIL_BYTES) > position || matches!(self.step, Step::Ended) {
                    return Ok(passed);
                }
                self.drop_unit()?;
                passed = self.checked;
            }
            match self.advance() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(ErrorKind::Interrupted, "nobody waits for it any more"))
    }

    /// Drops the unit that was checked last. A large one stands at its beginning again, so the raw bytes go to its end.
    fn drop_unit(&mut self) -> io::Result<()> {
        self.is_ready = false;
        self.step = match std::mem::replace(&mut self.step, Step::Ended) {
            Step::Again { unit, left } => {
                let mut raw = unit.into_raw();
                let end = raw.mark();
                raw.rewind(end).inspect_err(|error| self.step = Step::Failed(failure(error)))?;
                debug_assert!(left > 0);
                Step::Between(raw)
            }
            step => step,
        };
        Ok(())
    }

    /// Does one piece of work; [`ErrorKind::Interrupted`] after one that gave nothing to return, so that a caller may stop.
    fn advance(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.step, Step::Ended) {
            Step::Between(raw) => self.begin(raw),
            Step::Checking { unit, start, bytes, is_held } => self.check(unit, start, bytes, is_held),
            Step::Again { unit, left } => self.again(unit, left),
            Step::Ended => Ok(()),
            Step::Failed(failure) => {
                let error = failure.error();
                self.step = Step::Failed(failure);
                Err(error)
            }
        }
    }

    fn fail(&mut self, error: &io::Error) -> io::Result<()> {
        let failure = failure(error);
        let error = failure.error();
        self.step = Step::Failed(failure);
        Err(error)
    }

    fn begin(&mut self, mut raw: BoxRaw) -> io::Result<()> {
        if let Err(error) = raw.forget() {
            return self.fail(&error);
        }
        let is_end = match raw.fill_buf() {
            Ok(head) => {
                let has_no_checksum = matches!(head, [0x28, 0xb5, 0x2f, 0xfd, flags, ..] if flags & 4 == 0);
                if self.packing == Packing::Zstd && has_no_checksum && !self.has_warned {
                    self.has_warned = true;
                    tracing::warn!(
                        "a zstd frame has no checksum, so damage that leaves it well-formed cannot be noticed; \
                         compress with `zstd --check`"
                    );
                }
                head.is_empty()
            }
            Err(error) => return self.fail(&error),
        };
        if is_end {
            return Ok(());
        }
        self.units += 1;
        self.out.clear();
        self.out_at = 0;
        let start = raw.at();
        match Unit::new(self.packing, raw) {
            Ok(unit) => self.step = Step::Checking { unit, start, bytes: 0, is_held: true },
            Err(error) => return self.fail(&error),
        }
        Ok(())
    }

    fn check(&mut self, mut unit: Unit, start: u64, bytes: u64, is_held: bool) -> io::Result<()> {
        let from = if is_held { self.out.len() } else { 0 };
        self.out.resize(from + CHUNK_BYTES, 0);
        let read = unit.read(&mut self.out[from..]);
        let read = match read {
            Ok(read) => read,
            Err(error) => return self.refuse(unit, start, bytes, &error),
        };
        self.out.truncate(from + read);
        if read > 0 {
            let is_held = is_held && self.out.len() <= self.hold_bytes_max;
            self.step = Step::Checking { unit, start, bytes: bytes + read as u64, is_held };
            return Err(ErrorKind::Interrupted.into());
        }
        self.checked += bytes;
        let mut raw = unit.into_raw();
        if is_held {
            self.step = Step::Between(raw);
            self.is_ready = true;
            return Ok(());
        }
        raw.set_mark();
        let again = raw.rewind(start).and_then(|()| Unit::new(self.packing, raw));
        match again {
            Ok(unit) => self.step = Step::Again { unit, left: bytes },
            Err(error) => return self.fail(&error),
        }
        Ok(())
    }

    fn again(&mut self, mut unit: Unit, left: u64) -> io::Result<()> {
        self.out.resize(CHUNK_BYTES, 0);
        self.out_at = 0;
        let changed = || {
            let what =
                "it was changed while it was read: what its checksum was right for is not there any more";
            io::Error::new(ErrorKind::InvalidData, what)
        };
        match unit.read(&mut self.out) {
            Err(error) if error.raw_os_error().is_some() => return self.fail(&error),
            Ok(0) if left == 0 => {
                self.out.clear();
                self.step = Step::Between(unit.into_raw());
            }
            Ok(read) if read > 0 && read as u64 <= left => {
                self.out.truncate(read);
                self.is_ready = true;
                self.step = Step::Again { unit, left: left - read as u64 };
            }
            Ok(_) | Err(_) => return self.fail(&changed()),
        }
        Ok(())
    }

    /// Says what is wrong with a unit, in words of the file.
    fn refuse(&mut self, unit: Unit, start: u64, bytes: u64, error: &io::Error) -> io::Result<()> {
        if error.raw_os_error().is_some() {
            return self.fail(error);
        }
        let (name, number) = (self.packing.unit(), self.units);
        let mut raw = unit.into_raw();
        if bytes == 0 && number > 1 {
            match what_follows(&mut raw, start, self.packing) {
                Ok(Follows::Unit) => {}
                Ok(Follows::Zeros) if self.packing == Packing::Gzip => {
                    // Tapes and copies of whole blocks pad a file with zeros.
                    return Ok(());
                }
                Ok(Follows::Zeros | Follows::Other) => {
                    let what = format!(
                        "what begins at byte `{start}` of the packed file, behind {name} `{}`, is no {name}",
                        number - 1
                    );
                    return self.fail(&io::Error::new(ErrorKind::InvalidData, what));
                }
                Err(error) => return self.fail(&error),
            }
        }
        let what = match error.kind() {
            ErrorKind::UnexpectedEof => {
                format!(
                    "{name} `{number}`, which begins at byte `{start}` of the packed file, is not all there: the file was truncated, or is still written"
                )
            }
            _ if error.to_string().contains(WINDOW_TOO_LARGE) => {
                format!(
                    "{name} `{number}`, which begins at byte `{start}` of the packed file, needs a window of more than 128 MiB, or is damaged there: \
                     compress it without `--long`, or with `zstd --long=27` at most"
                )
            }
            _ => {
                format!(
                    "{name} `{number}`, which begins at byte `{start}` of the packed file, is damaged: {error}"
                )
            }
        };
        self.fail(&io::Error::new(error.kind(), what))
    }
}

fn failure(error: &io::Error) -> Failure {
    let kind = if error.kind() == ErrorKind::Interrupted { ErrorKind::Other } else { error.kind() };
    Failure { kind, os: error.raw_os_error(), message: error.to_string() }
}

/// What stands where a further unit should begin.
enum Follows {
    Unit,
    Zeros,
    Other,
}

fn what_follows(raw: &mut BoxRaw, start: u64, packing: Packing) -> io::Result<Follows> {
    raw.rewind(start)?;
    let mut head = Vec::with_capacity(4);
    raw.by_ref().take(4).read_to_end(&mut head)?;
    if Packing::of(&head) == packing {
        return Ok(Follows::Unit);
    }
    let mut is_zero = head.iter().all(|byte| *byte == 0);
    while is_zero {
        let chunk = raw.fill_buf()?;
        if chunk.is_empty() {
            return Ok(Follows::Zeros);
        }
        is_zero = chunk.iter().all(|byte| *byte == 0);
        let length = chunk.len();
        raw.consume(length);
    }
    Ok(Follows::Other)
}

impl Read for Verified {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut chunk = self.fill_buf()?;
        let read = chunk.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Verified {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while !(self.is_ready && self.out_at < self.out.len()) {
            self.is_ready = false;
            if matches!(self.step, Step::Ended) {
                return Ok(&[]);
            }
            self.advance()?;
        }
        Ok(&self.out[self.out_at..])
    }

    fn consume(&mut self, bytes: usize) {
        self.out_at += bytes;
    }
}

#[cfg(test)]
mod tests;
