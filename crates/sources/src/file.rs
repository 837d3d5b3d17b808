//! Lines of files as records: JSON lines, CSV and anything else that ends with a newline.
//!
//! Owns which files a pattern means, what a position in them is, and the threads that read them. Does not own the meaning
//! of a line. A source of files is bounded, unless it follows them: each file ends where it ends when the reader gets there; files that
//! appear later belong to the next run.
//!
//! | question                 | answer                                                                            |
//! |--------------------------|-----------------------------------------------------------------------------------|
//! | partition                | one file; its stream is the path as given or matched; its index is 0, and one more  |
//! |                          | for each file that was given the name of an earlier one (`recognize`)             |
//! | position                 | byte offset of the line's start in the inflated file; `next` is after its newline |
//! | gzip, zstd               | known by their first bytes, never by name; any number of members or frames        |
//! | damaged, truncated       | refused; nothing of a member is returned before its checksum is known (`verified`) |
//! | line breaks in quotes    | parts of the record, if the files are CSV (`quoted`)                               |
//! | the header of CSV        | no record; the head of every block, read again where reading begins later         |
//! | `\r\n`, empty lines      | the `\r` is no part of the record; empty lines are none                           |
//! | no newline at the end    | a record if it is whole (`lines`), else left for the run after it was completed    |
//! | byte order mark          | no part of the first line                                                         |
//! | a line above the bound   | one record of the bound plus one byte that knows its whole length; a reject        |
//! | the record's time        | unknown                                                                           |
//! | file appended to         | goes on: its identity (`files`) covers only bytes that were there                         |
//! | rotated away             | followed in its folder; may go once it was read to its end (`place`)              |
//! | cut; gone before its end | refused                                                                           |
//! | with `follow`            | no file ends: it is read on when it grows, and new ones are found (`follow`, `recognize`) |
//! | matched by two inputs, or by a symbolic link too | refused, by device and inode (`claims`)                   |
//! | an empty file            | no partition yet: nothing is known to know it by                                  |
//! | `-`                      | standard input: from position 0 only, since what was read is gone                 |

mod claims;
mod find;
mod follow;
mod inflate;
mod job;
mod lines;
mod place;
mod quoted;
mod raw;
mod reader;
mod recognize;
mod verified;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::source::first_record;
use dataflow::{
    BlockBuilder, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Source, SourceError,
    SourceFault, Streams,
};

use crate::thread;
pub use claims::{Claims, shared};
pub use quoted::Csv;
use recognize::{Follow, Known};

/// The name of standard input.
pub const STDIN: &str = "-";

/// What to read, and within which bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Paths, patterns (`*`, `?`, `[a-z]`, `**`) or [`STDIN`]. A path that exists is never taken for a pattern.
    pub paths: Vec<String>,
    /// How the lines of CSV are joined to records; none if each line is a record.
    pub csv: Option<Csv>,
    /// Bytes of the longest line returned whole. Keep the decoder's own bound at or below it.
    pub line_bytes_max: usize,
    /// Whether files are read on as they grow and are rotated, and new ones as they appear.
    pub follow: bool,
    /// Whether each file ends where it ends when the reader gets there, although files are followed: for a drain.
    pub ends: bool,
    /// Files read at the same time, each by a thread; at least 1.
    pub threads: usize,
    /// Bytes of records read ahead of the caller. Beside them each thread holds one block and one line.
    pub ahead_bytes_max: usize,
}

impl FileOptions {
    /// The defaults for these paths: lines of 128 MiB, two threads, 32 MiB ahead.
    pub fn new(paths: Vec<String>) -> Self {
        Self {
            paths,
            csv: None,
            line_bytes_max: 128 << 20,
            follow: false,
            ends: false,
            threads: 2,
            ahead_bytes_max: 32 << 20,
        }
    }

    /// Whether a file's end is only where it ends at the moment.
    fn is_endless(&self) -> bool {
        self.follow && !self.ends
    }

    /// How often a followed file that was not found is looked for again.
    fn tries(&self) -> u32 {
        if self.follow { follow::TRIES } else { 0 }
    }

    /// Inflated bytes that each thread holds back until their checksum was found right; a larger member is inflated twice.
    fn hold_bytes_max(&self) -> usize {
        (self.ahead_bytes_max / (4 * self.threads.max(1))).clamp(64 << 10, 4 << 20)
    }
}

/// Files as partitions.
#[derive(Debug)]
pub struct FileSource {
    options: FileOptions,
    /// The index of the file that stands under a name, where it is not 0.
    namesakes: Arc<Namesakes>,
    /// The files that the inputs of the pipeline read, and the name of the one that this is the source of.
    claims: (Arc<Claims>, String),
}

/// The index of the file that stands under each name.
#[derive(Debug, Default)]
struct Namesakes(Mutex<BTreeMap<String, u32>>);

impl Namesakes {
    fn set(&self, shown: &[PartitionStart]) {
        let index = |start: &PartitionStart| (start.partition.stream.to_string(), start.partition.index);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = shown.iter().map(index).collect();
    }

    fn get(&self) -> BTreeMap<String, u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
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
        if options.follow && options.paths == [STDIN] {
            return config("standard input ends where its writer ends it, so it cannot be followed");
        }
        let options = FileOptions { threads: options.threads.max(1), ..options };
        Ok(Self { options, namesakes: Arc::default(), claims: Default::default() })
    }

    /// The source of the input `name`, beside others that share `claims`: none reads what another one does.
    #[must_use]
    pub fn beside(self, claims: Arc<Claims>, name: &str) -> Self {
        Self { claims: (claims, name.to_owned()), ..self }
    }

    fn is_stdin(&self) -> bool {
        self.options.paths == [STDIN]
    }
}

#[async_trait]
impl Source for FileSource {
    fn streams(&self) -> Streams {
        Streams::Files
    }

    fn covers(&self, stream: &str) -> bool {
        find::covers(&self.options.paths, stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        if self.is_stdin() {
            return Ok(vec![start(STDIN, String::new())]);
        }
        let (paths, follow) = (self.options.paths.clone(), self.options.follow);
        thread::run("file-look", move || {
            let starts = shown(&paths)?;
            if follow && starts.is_empty() {
                let message = format!("no file with anything in it is at `{}` so far", paths.join("`, `"));
                return Err(SourceError::new(SourceFault::Away, message));
            }
            Ok(starts)
        })
        .await
    }

    /// Files that were renamed or copied since are those that were read; another file under the name of one of them is a partition
    /// of its own.
    async fn recognize(
        &self,
        shown: Vec<PartitionStart>,
        known: Vec<ReadFrom>,
    ) -> Result<Vec<PartitionStart>, SourceError> {
        if self.is_stdin() {
            return Ok(shown);
        }
        let (paths, follows) = (self.options.paths.clone(), self.options.follow);
        let (claims, name) = self.claims.clone();
        let look = move || {
            let known: Vec<Known> = known.into_iter().map(Known::new).collect();
            let mut follow = follows.then(Follow::default);
            let mut tries = 0;
            loop {
                let look = recognize::recognize(&paths, &shown, &known, (&claims, &name), follow.as_mut());
                // Folders are not listed in one moment: a file that is being renamed may be in none of them.
                let tries_max = match &look {
                    Ok(look) if look.has_finished => follow::TRIES_OF_FINISHED,
                    Err(error) if error.fault == SourceFault::Refused => follow::TRIES,
                    Ok(_) | Err(_) => 0,
                };
                if !follows || tries >= tries_max {
                    return look.map(|look| look.recognized);
                }
                tries += 1;
                thread::pause(follow::PAUSE);
            }
        };
        let recognized = thread::run("file-look", look).await?;
        self.namesakes.set(&recognized);
        Ok(recognized)
    }

    /// The ends of plain files. Those of compressed ones and of standard input are only known by reading all of them.
    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        if self.is_stdin() {
            return Ok(Vec::new());
        }
        let paths = self.options.paths.clone();
        let namesakes = self.namesakes.get();
        thread::run("file-look", move || {
            let mut ends = Vec::new();
            for path in find::files(&paths)? {
                let index = namesakes.get(&path).copied().unwrap_or(0);
                if let Some(end) = inflate::plain_end(&path)? {
                    ends.push((Partition::new(path, index), Position::from(end)));
                }
            }
            Ok(ends)
        })
        .await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let looks = follow::Looks { namesakes: self.namesakes.clone(), claims: self.claims.clone() };
        Ok(Box::new(reader::FileReader::start(self.options.clone(), from, looks)?))
    }

    /// Reads from there to the record, whether files are followed or not.
    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        let position = at.next;
        let options = FileOptions { ends: true, ..self.options.clone() };
        let looks = follow::Looks { namesakes: self.namesakes.clone(), claims: self.claims.clone() };
        let mut reader = reader::FileReader::start(options, vec![at], looks)?;
        first_record(&mut reader, position).await
    }

    /// Files keep no positions for others.
    async fn publish(&self, _positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        Ok(())
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(Vec::new())
    }
}

/// The records of CSV that `lines` are, as if they were all of a file.
pub fn joined(lines: &RecordBlock, csv: Csv) -> RecordBlock {
    let partition = lines.partition.clone();
    let mut block = BlockBuilder::new(partition, 0);
    let mut joined = quoted::Joined::new(csv, 0, usize::MAX);
    let mut offset = 0;
    for row in 0..lines.len() {
        let line = lines.payloads.get(row);
        joined.line(offset, line, line.len() as u64, &mut block);
        offset += line.len() as u64 + 1;
    }
    joined.advance(&mut block, true);
    block.take()
}

fn start(path: &str, identity: String) -> PartitionStart {
    PartitionStart {
        partition: Partition::new(path, 0),
        identity,
        next: 0,
        first: 0,
        leader_epoch: NO_LEADER_EPOCH,
    }
}

/// The files that are there and have anything in them.
fn shown(paths: &[String]) -> Result<Vec<PartitionStart>, SourceError> {
    let mut starts = Vec::new();
    for path in find::files(paths)? {
        if let Some(identity) = find::identity(&path)? {
            starts.push(start(&path, identity.to_string()));
        }
    }
    Ok(starts)
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
mod follow_tests;
#[cfg(test)]
mod rotation_tests;
#[cfg(test)]
mod tests;
