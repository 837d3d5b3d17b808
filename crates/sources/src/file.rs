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
//! | written over in place    | known by its first bytes, and by the last ones in front of the position (`mark`)  |
//! | rotated away             | followed in its folder, and in that behind a link; may go once it was read to its end (`place`) |
//! | cut; gone before its end | refused                                                                           |
//! | with `follow`            | no file ends: it is read on when it grows, and new ones are found (`follow`)      |
//! | matched by two inputs, or by a symbolic link too | refused, by device and inode (`claims`)                   |
//! | an empty file            | no partition yet: nothing is known to know it by                                  |
//! | `-`                      | standard input: from position 0 only, since what was read is gone                 |

mod around;
mod claims;
mod find;
mod follow;
mod inflate;
mod lines;
mod mark;
mod place;
mod quoted;
mod raw;
mod reader;
mod rotated;
mod verified;

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{
    BlockBuilder, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Source, SourceError,
    SourceFault, Streams,
};
use files::Identity;

use crate::thread;
use around::Around;
pub use claims::{Claims, shared};
pub use files::Node;
use mark::Mark;
use place::Place;
pub use quoted::Csv;

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
    /// Whether each file ends where it ends when the reader gets there, although files are followed: for a drain, and for those who only look.
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
}

impl FileOptions {
    /// Inflated bytes that each thread holds back until their checksum was found right; a larger member is inflated twice.
    fn hold_bytes_max(&self) -> usize {
        (self.ahead_bytes_max / (4 * self.threads.max(1))).clamp(64 << 10, 4 << 20)
    }
}

/// A source of files, each of which is a partition.
#[derive(Debug)]
pub struct FileSource {
    options: FileOptions,
    /// The partitions of the files that were recognized, by the names that these had then.
    places: Mutex<BTreeMap<String, Partition>>,
    /// The files that the inputs of the pipeline read, and the name of the one that this is the source of.
    claims: (Arc<Claims>, String),
    /// For files that are followed.
    followed: follow::Shared,
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
        Ok(Self {
            options,
            places: Mutex::default(),
            claims: Default::default(),
            followed: follow::Shared::default(),
        })
    }

    /// The source of the input `name`, beside others that share `claims`: none reads what another one does.
    #[must_use]
    pub fn beside(self, claims: Arc<Claims>, name: &str) -> Self {
        Self {
            followed: follow::Shared::new(claims.clone(), name),
            claims: (claims, name.to_owned()),
            ..self
        }
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
        if self.options.follow {
            return thread::run("file-look", move || follow::partitions(&paths)).await;
        }
        thread::run("file-look", move || {
            let found = find::at_one_moment(&paths)?;
            Ok(found.iter().map(|(path, identity)| start(path, identity.to_string())).collect())
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
        let paths = self.options.paths.clone();
        if self.options.follow {
            let followed = self.followed.clone();
            return thread::run("file-look", move || follow::recognize(&paths, &shown, known, &followed))
                .await;
        }
        let (claims, name) = self.claims.clone();
        let look = move || recognize(&paths, shown, &known, (&claims, &name));
        let (recognized, places) = thread::run("file-look", look).await?;
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = places;
        Ok(recognized)
    }

    /// The ends of plain files. Those of compressed ones and of standard input are only known by reading all of them.
    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        if self.is_stdin() {
            return Ok(Vec::new());
        }
        let paths = self.options.paths.clone();
        if self.options.follow {
            let followed = self.followed.clone();
            return thread::run("file-look", move || follow::ends(&paths, &followed)).await;
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner).clone();
        thread::run("file-look", move || {
            if places.is_empty() {
                let first = |path: String| (path.clone(), Partition::new(path, 0));
                places = find::files(&paths)?.into_iter().map(first).collect();
            }
            let mut ends = Vec::new();
            for (path, partition) in places {
                if let Some(end) = inflate::plain_end(&path)? {
                    ends.push((partition, Position::from(end)));
                }
            }
            Ok(ends)
        })
        .await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        if self.options.follow {
            return follow::read(&self.options, from, &self.followed);
        }
        Ok(Box::new(reader::FileReader::start(self.options.clone(), from)?))
    }

    /// A position has no leader, and what goes with one (`mark`) belongs to no other.
    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        if self.options.follow {
            return follow::record(&self.options, at, &self.followed).await;
        }
        let position = at.next;
        let leader_epoch = Mark::none(Mark::from(at.leader_epoch).is_end).epoch();
        let mut reader = self.read(vec![ReadFrom { leader_epoch, ..at }]).await?;
        let record = dataflow::source::first_record(&mut *reader, position).await?;
        Ok(record.map(|record| RecordBlock { leader_epoch: NO_LEADER_EPOCH, ..record }))
    }

    /// Files keep no positions for others.
    async fn publish(&self, _positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        Ok(())
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(Vec::new())
    }
}

/// The file whose partition was recorded with this identity, whatever its name is now; `None` if it is none of a file.
pub fn node(identity: &str) -> Option<Node> {
    Identity::parse(identity).map(|identity| identity.node())
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

/// What `shown` is to a pipeline that has read `known`; and the partition of each file, by its name.
fn recognize(
    paths: &[String],
    shown: Vec<PartitionStart>,
    known: &[ReadFrom],
    (claims, name): (&Claims, &str),
) -> Result<(Vec<PartitionStart>, BTreeMap<String, Partition>), SourceError> {
    let streams: Vec<&str> = known.iter().map(|from| &*from.partition.stream).collect();
    find::check(paths, &streams)?;
    let around = Around::new(|| Ok(shown.iter().map(|start| start.partition.stream.to_string()).collect()));
    let mut by_path: BTreeMap<String, &ReadFrom> = BTreeMap::new();
    let mut nodes = Vec::new();
    for from in known {
        // A file that is missed ends the start here, before anything new is recorded.
        match place::find(from, &around)? {
            // One of two hard links that were read as two files has gone, or another file was read there later.
            Place::At(file, path) if is_anothers(from, (&path, &file), known) => {}
            Place::At(file, path) => {
                nodes.extend(file.metadata().map(|metadata| Node::of(&metadata)).ok());
                by_path.insert(path, from);
            }
            Place::Finished => {}
        }
    }
    // A known file that was renamed since names were listed was shown under the name that it had then. A hard link still leads to it.
    let is_renamed = |start: &PartitionStart| {
        Identity::parse(&start.identity).is_some_and(|shown| {
            nodes.iter().any(|node| node.is(&shown.node()))
                && !find::leads_to(&start.partition.stream, &shown)
        })
    };
    // A file that was rotated is its input's still, under the name that it has now.
    let paths = by_path.keys().map(String::as_str).chain(shown.iter().map(|start| &*start.partition.stream));
    claims.take(name, paths).map_err(|why| SourceError::new(SourceFault::Config, why))?;
    let mut next_index: BTreeMap<&str, u32> = BTreeMap::new();
    for Partition { stream, index, .. } in known.iter().map(|from| &from.partition) {
        let next = next_index.entry(stream).or_default();
        *next = (*next).max(index + 1);
    }
    let mut by_stream: BTreeMap<&str, Vec<(&str, &ReadFrom)>> = BTreeMap::new();
    for (path, from) in &by_path {
        by_stream.entry(&from.partition.stream).or_default().push((path.as_str(), *from));
    }
    let before = rotated::Before::new(known);
    let mut recognized = Vec::new();
    for start in &shown {
        let path = &start.partition.stream;
        match by_path.get(&**path) {
            // Its identity as it was recorded: the text may cover less than today's.
            Some(from) if from.partition.stream == *path => recognized.push(PartitionStart {
                partition: from.partition.clone(),
                identity: from.identity.clone(),
                ..start.clone()
            }),
            // It is read under the name that it had.
            Some(_) => {}
            None if is_renamed(start) => {}
            None if is_being_copied(path, &by_stream)? => {
                tracing::warn!(
                    file = &**path,
                    "the file is a copy of one that the pipeline reads, as `copytruncate` makes it, so it is left out; once the original is truncated, \
                     the next run reads what is missing from the copy"
                );
            }
            None => {
                if let Some(of) = before.packed(path) {
                    tracing::warn!(
                        file = &**path,
                        of,
                        "a compressed file has the name and the beginning of one that was read before it was rotated; it is read as a new file, so rows of it \
                         that were read then are written twice. Let `paths` match no compressed rotated files"
                    );
                }
                let index = next_index.get(&**path).copied().unwrap_or(0);
                recognized
                    .push(PartitionStart { partition: Partition::new(path.clone(), index), ..start.clone() });
            }
        }
    }
    let new = recognized.iter().map(|start| &start.partition);
    let mut places: BTreeMap<String, Partition> =
        new.map(|partition| (partition.stream.to_string(), partition.clone())).collect();
    // A file that was renamed stands under a name that is not its stream's.
    places.extend(by_path.iter().map(|(path, from)| (path.clone(), from.partition.clone())));
    Ok((recognized, places))
}

/// Whether the file that was found at `path` is read as another one: found under another name, as a file of that name, be it a hard link or a copy;
/// found in place of the one that was read, as one that was read there later.
fn is_anothers(from: &ReadFrom, (path, file): (&str, &File), known: &[ReadFrom]) -> bool {
    let Some(identity) = Identity::parse(&from.identity) else { return false };
    let stands_there = |other: &ReadFrom| match place::find(other, &Around::nothing()) {
        Ok(Place::At(_, at)) => at == path,
        Ok(Place::Finished) => false,
        // Nobody can look at the moment. What is left out now is read by the next run.
        Err(error) => error.fault.may_pass(),
    };
    let others =
        || known.iter().filter(|other| *other.partition.stream == *path && other.partition != from.partition);
    if *from.partition.stream != *path {
        let found = file.metadata().map(|metadata| Node::of(&metadata)).ok();
        let is_it = |node: Node| node.is(&identity.node()) || found.is_some_and(|found| node.is(&found));
        // Where no births are kept, a copy may have the inode of a file that had its name before.
        return others().any(|other| node(&other.identity).is_some_and(is_it) && stands_there(other));
    }
    let is_later = |other: &&ReadFrom| other.partition.index > from.partition.index;
    others().any(|other| is_later(&other) && !find::leads_to(path, &identity) && stands_there(other))
}

/// Whether the file is a copy of one that stands, whose name is the beginning of its name: `app.log.1` of `app.log`. That one may have another name by now:
/// those that stand are given with the names that they have, by the names that they had.
fn is_being_copied(
    path: &str,
    by_stream: &BTreeMap<&str, Vec<(&str, &ReadFrom)>>,
) -> Result<bool, SourceError> {
    for (end, _) in path.match_indices(['.', '-', '_']) {
        for (original, from) in by_stream.get(&path[..end]).into_iter().flatten() {
            if place::is_being_copied(from, original, path)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
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
mod damage_tests;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod rotation_tests;
#[cfg(test)]
mod tests;
