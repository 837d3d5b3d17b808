//! Packed bytes that can be read a second time.
//!
//! Owns going back: by seeking in a file, or by keeping what a stream gave. Does not own what the bytes mean.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::inflate::CHUNK_BYTES;

/// Packed bytes of a stream that are kept in memory; what is longer goes to an unnamed temporary file.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Bytes with a way back.
pub(super) trait Raw: BufRead + Send {
    /// The offset of the next byte.
    fn at(&self) -> u64;

    /// Goes back, or on, to an offset that was read since [`forget`](Self::forget).
    fn rewind(&mut self, to: u64) -> io::Result<()>;

    /// Nobody will go back before the present offset.
    fn forget(&mut self) -> io::Result<()>;

    /// Notes the present offset for [`mark`](Self::mark).
    fn set_mark(&mut self);

    /// The offset that was noted.
    fn mark(&self) -> u64;
}

/// Any of them.
pub(super) type BoxRaw = Box<dyn Raw>;

/// A file.
pub(super) struct RawFile {
    file: BufReader<File>,
    at: u64,
    mark: u64,
}

impl RawFile {
    /// The file from its first byte.
    pub(super) fn new(mut file: File) -> io::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        Ok(Self { file: BufReader::with_capacity(CHUNK_BYTES, file), at: 0, mark: 0 })
    }
}

impl Read for RawFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl BufRead for RawFile {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.file.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.file.consume(bytes);
    }
}

impl Raw for RawFile {
    fn at(&self) -> u64 {
        self.at
    }

    fn rewind(&mut self, to: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(to))?;
        self.at = to;
        Ok(())
    }

    fn forget(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn set_mark(&mut self) {
        self.mark = self.at;
    }

    fn mark(&self) -> u64 {
        self.mark
    }
}

/// A stream that cannot go back by itself.
pub(super) struct RawStream<R> {
    raw: R,
    /// What was read from offset `from` on: all of it in memory, or all of it in a file.
    kept: Vec<u8>,
    spilled: Option<File>,
    from: u64,
    kept_bytes: u64,
    at: u64,
    mark: u64,
    chunk: Vec<u8>,
    chunk_at: usize,
}

impl<R: BufRead + Send> RawStream<R> {
    /// The stream from here on.
    pub(super) fn new(raw: R) -> Self {
        Self {
            raw,
            kept: Vec::new(),
            spilled: None,
            from: 0,
            kept_bytes: 0,
            at: 0,
            mark: 0,
            chunk: Vec::new(),
            chunk_at: 0,
        }
    }

    fn keep(&mut self) -> io::Result<()> {
        // A stream cannot be asked again, so this is no failure that passes.
        self.try_keep().map_err(|error| {
            io::Error::other(format!(
                "its bytes cannot be kept in `{}` until their checksum is known: {error}",
                std::env::temp_dir().display()
            ))
        })
    }

    fn try_keep(&mut self) -> io::Result<()> {
        self.kept_bytes += self.chunk.len() as u64;
        if self.spilled.is_none() && self.kept.len() + self.chunk.len() > KEPT_BYTES_MAX {
            let mut file = unnamed()?;
            file.write_all(&self.kept)?;
            self.kept = Vec::new();
            self.spilled = Some(file);
        }
        match &mut self.spilled {
            Some(file) => {
                file.seek(SeekFrom::End(0))?;
                file.write_all(&self.chunk)
            }
            None => {
                self.kept.extend_from_slice(&self.chunk);
                Ok(())
            }
        }
    }

    /// Reads kept bytes from an offset on, at most one chunk of them.
    fn recall(&mut self, at: u64) -> io::Result<()> {
        let skip = at - self.from;
        let bytes = usize::try_from(self.kept_bytes - skip).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        self.chunk.resize(bytes, 0);
        match &mut self.spilled {
            Some(file) => {
                file.seek(SeekFrom::Start(skip))?;
                file.read_exact(&mut self.chunk)
            }
            None => {
                let skip = usize::try_from(skip).expect("what is in memory has a place there");
                self.chunk.copy_from_slice(&self.kept[skip..skip + bytes]);
                Ok(())
            }
        }
    }
}

/// The number of the next temporary file.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Names that are tried: a process that was killed may have left some, and in a container the next one has its number.
const NAMES_MAX: usize = 10_000;

/// A temporary file that nobody else can open and that goes with the process.
fn unnamed() -> io::Result<File> {
    for _ in 0..NAMES_MAX {
        let path = temporary(NUMBER.fetch_add(1, Ordering::Relaxed));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("`{NAMES_MAX}` names for a temporary file are taken")))
}

fn temporary(number: u64) -> PathBuf {
    std::env::temp_dir().join(format!("forebay-input-{}-{number}", std::process::id()))
}

impl<R: BufRead + Send> Read for RawStream<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut chunk = self.fill_buf()?;
        let read = chunk.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead + Send> BufRead for RawStream<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.chunk_at == self.chunk.len() {
            self.chunk_at = 0;
            self.chunk.clear();
            if self.at < self.from + self.kept_bytes {
                self.recall(self.at)?;
            } else {
                let fresh = self.raw.fill_buf()?;
                let bytes = fresh.len().min(CHUNK_BYTES);
                self.chunk.extend_from_slice(&fresh[..bytes]);
                self.raw.consume(bytes);
                self.keep()?;
            }
        }
        Ok(&self.chunk[self.chunk_at..])
    }

    fn consume(&mut self, bytes: usize) {
        self.chunk_at += bytes;
        self.at += bytes as u64;
    }
}

impl<R: BufRead + Send> Raw for RawStream<R> {
    fn at(&self) -> u64 {
        self.at
    }

    fn rewind(&mut self, to: u64) -> io::Result<()> {
        if to < self.from || to > self.from + self.kept_bytes {
            return Err(io::Error::other("a place in a stream that was not kept"));
        }
        self.at = to;
        self.chunk.clear();
        self.chunk_at = 0;
        Ok(())
    }

    fn forget(&mut self) -> io::Result<()> {
        // What is kept beyond the present offset is the rest of the chunk that was read from the stream last: a first pass
        // stops where its unit ends.
        let rest = self.from + self.kept_bytes - self.at;
        debug_assert!(rest <= CHUNK_BYTES as u64);
        if ((self.chunk.len() - self.chunk_at) as u64) < rest {
            self.recall(self.at)?;
            self.chunk_at = 0;
        }
        self.kept.clear();
        self.kept.extend_from_slice(&self.chunk[self.chunk_at..]);
        self.spilled = None;
        (self.from, self.kept_bytes) = (self.at, self.kept.len() as u64);
        Ok(())
    }

    fn set_mark(&mut self) {
        self.mark = self.at;
    }

    fn mark(&self) -> u64 {
        self.mark
    }
}

#[cfg(test)]
mod tests;
