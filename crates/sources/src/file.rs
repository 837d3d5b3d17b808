//! Lines of files as records: JSON lines and anything else that ends with a newline.
//!
//! Owns which files a pattern means, what a position in them is, and the threads that read them. Does not own the meaning
//! of a line. A source of files is bounded: each file ends where it ends when the reader gets there; files that appear
//! later belong to the next run.
//!
//! | question                 | answer                                                                            |
//! |--------------------------|-----------------------------------------------------------------------------------|
//! | partition                | one file; its stream is the path as given or matched, its index 0                 |
//! | position                 | byte offset of the line's start in the inflated file; `next` is after its newline |
//! | gzip, zstd               | known by their first bytes, never by name; any number of members or frames        |
//! | damaged, truncated       | refused; nothing of a member is handed out before its checksum is known (`verified`) |
//! | `\r\n`, empty lines      | the `\r` is no part of the record; empty lines are none                           |
//! | no newline at the end    | a record if it is whole (`lines`), else left for the run after it was completed    |
//! | byte order mark          | no part of the first line                                                         |
//! | a line above the bound   | one record of the bound plus one byte that knows its whole length; a reject        |
//! | the record's time        | unknown                                                                           |
//! | file shorter, replaced   | refused, by its length and its identity (inode, birth, first bytes)               |
//! | file appended to         | goes on: the identity covers only bytes that were there                           |
//! | rotated away             | refused: names are not followed                                                   |
//! | `-`                      | standard input: from position 0 only, since what was read is gone                 |

mod find;
mod inflate;
mod lines;
mod raw;
mod reader;
mod verified;

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Partition, PartitionStart, ReadFrom, Reader, Source, SourceError, SourceFault};

use crate::thread;

/// The name of standard input.
pub const STDIN: &str = "-";

/// What to read, and within which bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Paths, patterns (`*`, `?`, `[a-z]`, `**`) or [`STDIN`]. A path that exists is never taken for a pattern.
    pub paths: Vec<String>,
    /// Bytes of the longest line handed out whole. Keep the decoder's own bound at or below it.
    pub line_bytes_max: usize,
    /// Files read at the same time, each by a thread; at least 1.
    pub threads: usize,
    /// Bytes of records read ahead of the caller. Beside them each thread holds one block and one line.
    pub ahead_bytes_max: usize,
}

impl FileOptions {
    /// The defaults for these paths: lines of 128 MiB, two threads, 32 MiB ahead.
    pub fn new(paths: Vec<String>) -> Self {
        Self { paths, line_bytes_max: 128 << 20, threads: 2, ahead_bytes_max: 32 << 20 }
    }
}

impl FileOptions {
    /// Inflated bytes that each thread holds back until their checksum was found right; a larger member is inflated twice.
    fn hold_bytes_max(&self) -> usize {
        (self.ahead_bytes_max / (4 * self.threads.max(1))).clamp(64 << 10, 4 << 20)
    }
}

/// Files as partitions.
#[derive(Debug)]
pub struct FileSource {
    options: FileOptions,
}

impl FileSource {
    /// A source of these files. Nothing is opened yet.
    ///
    /// # Errors
    /// [`SourceFault::Config`] when there is no path, or `-` stands beside other paths (it would end with them, and a
    /// restart would refuse it).
    pub fn new(options: FileOptions) -> Result<Self, SourceError> {
        let config = |message: &str| Err(SourceError::new(SourceFault::Config, message));
        if options.paths.is_empty() {
            return config("the file source has no path: name a file, a pattern or `-`");
        }
        if options.paths.len() > 1 && options.paths.iter().any(|path| path == STDIN) {
            return config("`-` (standard input) must be the only path of a file source");
        }
        let options = FileOptions { threads: options.threads.max(1), ..options };
        Ok(Self { options })
    }

    fn is_stdin(&self) -> bool {
        self.options.paths == [STDIN]
    }
}

#[async_trait]
impl Source for FileSource {
    fn kind(&self) -> &'static str {
        "file"
    }

    fn covers(&self, stream: &str) -> bool {
        find::covers(&self.options.paths, stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        let start = |path: &str, identity: String| PartitionStart {
            partition: Partition::new(path, 0),
            identity,
            next: 0,
            first: 0,
            leader_epoch: NO_LEADER_EPOCH,
        };
        if self.is_stdin() {
            return Ok(vec![start(STDIN, String::new())]);
        }
        let paths = self.options.paths.clone();
        thread::run("file-look", move || {
            let mut starts = Vec::new();
            for path in find::files(&paths)? {
                let identity = find::identity(&path)?;
                starts.push(start(&path, identity));
            }
            Ok(starts)
        })
        .await
    }

    /// The ends of plain files. Those of compressed ones and of standard input are only known by reading all of them.
    async fn ends(&self) -> Result<Vec<(Partition, u64)>, SourceError> {
        if self.is_stdin() {
            return Ok(Vec::new());
        }
        let paths = self.options.paths.clone();
        thread::run("file-look", move || {
            let mut ends = Vec::new();
            for path in find::files(&paths)? {
                if let Some(end) = inflate::plain_end(&path)? {
                    ends.push((Partition::new(path, 0), end));
                }
            }
            Ok(ends)
        })
        .await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        Ok(Box::new(reader::FileReader::start(self.options.clone(), from)?))
    }

    /// Files keep no positions for others.
    async fn publish(&self, _positions: &[(Partition, u64)]) -> Result<(), SourceError> {
        Ok(())
    }

    async fn published(&self) -> Result<Vec<(Partition, u64)>, SourceError> {
        Ok(Vec::new())
    }
}

/// What a failed call on a file means for the read.
fn fault_of(error: &std::io::Error) -> SourceFault {
    use std::io::ErrorKind;
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::PermissionDenied | ErrorKind::IsADirectory, _) => SourceFault::Config,
        (ErrorKind::NotFound, _) => SourceFault::Refused,
        // The system failed, not the file: a network disk comes back.
        (_, Some(_)) => SourceFault::Away,
        // No system call failed: the bytes are not what they claim to be.
        (_, None) => SourceFault::Refused,
    }
}

#[cfg(test)]
mod tests;
