//! One file that is read: opened where it is now, cut into blocks, and checked at its end.
//!
//! Owns what a file's end means. Does not own which file is read when (`reader`).
//!
//! | at the end                        | read once                          | followed                                             |
//! |-----------------------------------|------------------------------------|------------------------------------------------------|
//! | of a file that is what it was     | ended                              | caught up; waits until it has grown                  |
//! | of one that was emptied, cut or written over | refused                 | read on in its copy, done if it was read to its end, else refused |
//! | of one that is gone or compressed | ended                              | caught up; nothing more comes                        |
//!
//! A file that is followed is checked *after* each piece was read, by its first 1,024 bytes: so a piece of what has replaced it is never taken for
//! its own.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dataflow::{BlockBuilder, Event, Partition, ReadFrom, SourceError, SourceFault};
use files::{Identity, Likeness};

use super::inflate::{self, Bytes, CHUNK_BYTES, Stands};
use super::lines::Lines;
use super::place::{self, NOT_AT_ITS_END, Place, READ_TO_ITS_END};
use super::quoted::Csv;
use super::{FileOptions, STDIN, fault_of, find, follow};

/// Standard input is one stream a process: what one reader took, no other one can have.
static STDIN_TAKEN: AtomicBool = AtomicBool::new(false);

/// A file to read, opened or not.
pub(super) struct Job {
    /// Where it goes on. While files are followed its identity grows with the file.
    pub from: ReadFrom,
    open: Option<Open>,
    /// It was said that there is nothing more at the moment.
    is_told: bool,
    /// How often it was not found, or not as it was.
    pub misses: u32,
}

/// What comes of a job.
#[allow(
    clippy::large_enum_variant,
    reason = "it is handed on at once, and a box would be one more allocation for each block"
)]
pub(super) enum Step {
    Event(Event),
    /// Nothing so far.
    Again,
    /// There is nothing until the file changes.
    Wait,
    /// Nothing more comes.
    Over,
}

/// A file as it was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub bytes: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub changed_ns: i128,
    /// No name leads to it.
    pub is_deleted: bool,
}

struct Open {
    bytes: Bytes,
    lines: Lines,
    block: BlockBuilder,
    /// Its writer may pause for long: return what there is before waiting for more.
    is_live: bool,
    file: Option<Opened>,
}

/// The file behind the bytes, to see at its end whether it is still what it was.
struct Opened {
    file: File,
    path: String,
    identity: Option<(Identity, Likeness)>,
    bytes_at_open: u64,
    /// Whether the file's bytes are those that are read.
    is_plain: bool,
    /// The first record of a CSV file that names the fields, where reading begins behind it.
    head: Option<Arc<[u8]>>,
}

impl Job {
    pub(super) fn new(from: ReadFrom) -> Self {
        Self { from, open: None, is_told: false, misses: 0 }
    }

    /// Lets the file go, to be looked for again.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The name under which it is open.
    pub(super) fn path(&self) -> Option<&str> {
        Some(&self.open.as_ref()?.file.as_ref()?.path)
    }

    /// The open file as it is now; `None` if there is none, or nobody can say.
    pub(super) fn state(&self) -> Option<State> {
        let metadata = self.open.as_ref()?.file.as_ref()?.file.metadata().ok()?;
        let changed_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Some(State { bytes: metadata.len(), changed_ns, is_deleted: metadata.nlink() == 0 })
    }

    /// Bytes of the open file that were read.
    pub(super) fn offset(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.lines.offset())
    }

    /// Reads on until there is something to report, or for one chunk.
    pub(super) fn advance(
        &mut self,
        options: &FileOptions,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Step, SourceError> {
        let step = advance(self, options, go_on)?;
        self.misses = 0;
        match &step {
            Step::Event(Event::Block(block)) => {
                (self.from.next, self.from.leader_epoch, self.is_told) =
                    (block.next, block.leader_epoch, false);
            }
            Step::Event(Event::CaughtUp { next, leader_epoch, .. }) => {
                (self.from.next, self.from.leader_epoch, self.is_told) = (*next, *leader_epoch, true);
            }
            Step::Event(_) | Step::Again | Step::Wait | Step::Over => {}
        }
        Ok(step)
    }
}

impl Opened {
    /// Whether a followed file still has all that was read of it, up to `offset`; it is known by more bytes then.
    fn is_intact(&mut self, offset: u64, from: &mut ReadFrom) -> Result<bool, SourceError> {
        let failed = |error| find::failed(&self.path, "inspected", &error);
        let bytes = self.file.metadata().map_err(failed)?.len();
        let Some((identity, likeness)) = &mut self.identity else { return Ok(bytes >= offset) };
        match identity.begins_like(&self.file).map_err(failed)? {
            Some(grown) if bytes >= offset => {
                if grown != *identity {
                    from.identity = grown.to_string();
                    (*identity, *likeness) = (grown, Likeness::Same);
                }
                Ok(true)
            }
            Some(_) | None => Ok(false),
        }
    }
}

fn advance(job: &mut Job, options: &FileOptions, go_on: &dyn Fn() -> bool) -> Result<Step, SourceError> {
    if job.open.is_none() {
        job.open = Some(open(job, options, go_on)?);
    }
    let Job { from, open, is_told, .. } = job;
    let path = &*from.partition.stream.clone();
    let Open { bytes, lines, block, is_live, file } = open.as_mut().expect("opened above");
    let chunk = match bytes.fill_buf() {
        Ok(chunk) => chunk,
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(Step::Again),
        // The good lines before the damage are returned first; the next call meets it again.
        Err(_) if !block.is_empty() => return Ok(Step::Event(Event::Block(block.take()))),
        Err(error) => return Err(unreadable(path, lines.next(), &error)),
    };
    if options.follow
        && let Some(opened) = file.as_mut().filter(|opened| opened.is_plain)
        && !opened.is_intact(lines.offset() + chunk.len() as u64, from)?
    {
        tracing::info!(
            file = opened.path,
            position = lines.next(),
            "a file was emptied or written over; its rest is looked for in a copy"
        );
        let records = (!block.is_empty()).then(|| {
            block.leader_epoch(NOT_AT_ITS_END);
            block.take()
        });
        job.open = None;
        return Ok(records.map_or(Step::Again, |block| Step::Event(Event::Block(block))));
    }
    if chunk.is_empty() {
        return at_end(job, options);
    }
    block.leader_epoch(NOT_AT_ITS_END);
    *is_told = false;
    // Not before it is known that more follows: the last block says that the file was read to its end.
    if block.is_full() {
        return Ok(Step::Event(Event::Block(block.take())));
    }
    let used = lines.feed(chunk, block);
    bytes.consume(used);
    let is_due = *is_live && !block.is_empty();
    Ok(if is_due { Step::Event(Event::Block(block.take())) } else { Step::Again })
}

/// The file has no more bytes at the moment.
fn at_end(job: &mut Job, options: &FileOptions) -> Result<Step, SourceError> {
    let Job { from, open, is_told, .. } = job;
    let path = &*from.partition.stream;
    let Open { lines, block, file, .. } = open.as_mut().expect("its end was reached");
    let is_followed = options.follow && file.as_ref().is_some_and(|file| file.is_plain);
    if let Some(file) = file.as_ref().filter(|_| !is_followed) {
        check_end(file, lines.offset())?;
    }
    let left = lines.finish(block, path == STDIN);
    let epoch = if left == 0 || lines.is_blank() { READ_TO_ITS_END } else { NOT_AT_ITS_END };
    if !block.is_empty() {
        block.leader_epoch(epoch);
        return Ok(Step::Event(Event::Block(block.take())));
    }
    let (partition, next) = (from.partition.clone(), lines.next());
    // Empty lines, which no block stands for.
    let has_passed = u128::from(next) > from.next;
    if has_passed || options.is_endless() && !*is_told {
        // Where nothing was read, what is known of the file's end is what was known before.
        let leader_epoch = if has_passed || is_followed { epoch } else { from.leader_epoch };
        return Ok(Step::Event(Event::CaughtUp {
            partition,
            next: from.next.max(next.into()),
            leader_epoch,
        }));
    }
    if options.is_endless() && is_followed {
        return Ok(Step::Wait);
    }
    if left > 0 && !lines.is_blank() {
        let what = match options.csv {
            None => {
                "the last line has no newline and is no whole record; it is left for the run after it was completed"
            }
            Some(_) => {
                "the last line has no newline, or ends within quotes, so the record may be incomplete; it is left for the run after it was \
                 completed. If only the newline is missing, `echo >> FILE` completes it"
            }
        };
        tracing::warn!(file = path, position = lines.next(), bytes = left, "{what}");
    }
    Ok(match options.is_endless() {
        true => Step::Over,
        false => Step::Event(Event::Ended { partition, next: next.into() }),
    })
}

/// Refuses a file that lost bytes while it was read: records that nobody has seen may have been among them.
fn check_end(opened: &Opened, offset: u64) -> Result<(), SourceError> {
    let path = &opened.path;
    let failed = |error| find::failed(path, "inspected", &error);
    let end = opened.file.metadata().map_err(failed)?.len();
    let least = opened.bytes_at_open.max(if opened.is_plain { offset } else { 0 });
    let is_same = match &opened.identity {
        Some((identity, likeness)) => identity.compare(&opened.file).map_err(failed)? == *likeness,
        None => true,
    };
    if end >= least && is_same {
        return Ok(());
    }
    let message = format!(
        "file `{path}` was cut or written over while it was read: it has `{end}` bytes and had `{least}`. What was read before is \
         kept; whether other records are lost nobody can tell. Bring the whole file back in place (`cat whole > file`), or take it out \
         of the pipeline with `forebay forget FILE --file {path}`"
    );
    Err(SourceError::new(SourceFault::Refused, message))
}

/// The file is damaged, or the disk is away. All records in front of `position` have been returned.
fn unreadable(path: &str, position: u64, error: &std::io::Error) -> SourceError {
    let fault = fault_of(error);
    let mut message = format!("file `{path}` cannot be read after position `{position}`: {error}");
    if fault == SourceFault::Refused {
        message.push_str(". The records before that position are kept, none after it was read; write a good copy over the file \
            (`cat good > file`, so that it stays the same file) and start again");
    }
    SourceError::new(fault, message)
}

fn open(job: &Job, options: &FileOptions, go_on: &dyn Fn() -> bool) -> Result<Open, SourceError> {
    let from = &job.from;
    let is_live = &*from.partition.stream == STDIN;
    let (bytes, file) =
        if is_live { (open_stdin(from, options)?, None) } else { open_file(job, options, go_on)? };
    let lines = match options.csv {
        Some(csv) => Lines::of_csv(csv, from.plain()?, options.line_bytes_max),
        None => Lines::new(from.plain()?, options.line_bytes_max),
    };
    let mut block = BlockBuilder::new(from.partition.clone(), from.next);
    if let Some(head) = file.as_ref().and_then(|file| file.head.clone()) {
        block.head(head);
    }
    Ok(Open { bytes, lines, block, is_live, file })
}

fn open_file(
    Job { from, misses, .. }: &Job,
    options: &FileOptions,
    go_on: &dyn Fn() -> bool,
) -> Result<(Bytes, Option<Opened>), SourceError> {
    let refuse = |message: String| Err(SourceError::new(SourceFault::Refused, message));
    let next = from.plain()?;
    let others = || find::files(&options.paths);
    let (mut file, path) = match place::find(from, &others)? {
        Place::At(file, path) => (file, path),
        Place::Finished if options.is_endless() && *misses < follow::TRIES_OF_FINISHED => {
            return refuse(format!("file `{}` is not found at the moment", from.partition.stream));
        }
        Place::Finished => {
            tracing::info!(
                file = &*from.partition.stream,
                position = next,
                "a file that was read to its end is gone"
            );
            return Ok((Box::new(std::io::empty()), None));
        }
    };
    let failed = |error| find::failed(&path, "opened", &error);
    let identity = match Identity::parse(&from.identity) {
        Some(identity) => {
            let likeness = identity.compare(&file).map_err(failed)?;
            Some((identity, likeness))
        }
        None => None,
    };
    let bytes_at_open = file.metadata().map_err(failed)?.len();
    let is_plain = inflate::packing(&mut file).map_err(failed)? == inflate::Packing::Plain;
    let seen = file.try_clone().map_err(failed)?;
    let head = match options.csv {
        Some(csv) if csv.has_head && next > 0 => {
            let file = file.try_clone().map_err(failed)?;
            head(csv, file, &path, options, go_on).map_err(|error| unreadable(&path, 0, &error))?
        }
        Some(_) | None => None,
    };
    let opened = inflate::open(file, &path, next, options.hold_bytes_max(), go_on);
    let (bytes, stands) = opened.map_err(|error| unreadable(&path, next, &error))?;
    match stands {
        Stands::Line | Stands::AfterWhole => {
            Ok((bytes, Some(Opened { file: seen, path, identity, bytes_at_open, is_plain, head })))
        }
        Stands::Middle => refuse(format!(
            "no line of file `{path}` starts at position `{next}`: the file was changed in place after it was read to there"
        )),
        Stands::Beyond(end) => refuse(format!(
            "file `{path}` ends at position `{end}`, before position `{next}`: it was cut after it was read to there. Bring the whole file \
             back in place (`cat whole > file`), or take it out of the pipeline with `forebay forget FILE --file {path}`"
        )),
    }
}

/// The first record of a CSV file; none if it is longer than any header.
fn head(
    csv: Csv,
    file: File,
    path: &str,
    options: &FileOptions,
    go_on: &dyn Fn() -> bool,
) -> std::io::Result<Option<Arc<[u8]>>> {
    let (mut bytes, _) = inflate::open(file, path, 0, options.hold_bytes_max(), go_on)?;
    let mut lines = Lines::of_csv(csv, 0, options.line_bytes_max);
    // Records behind the head, up to the end of the first chunk, are read once more in their turn.
    let mut block = BlockBuilder::new(Partition::new(path, 0), 0);
    while !lines.is_past_head() {
        let chunk = inflate::filled(&mut bytes, go_on)?;
        if chunk.is_empty() {
            break;
        }
        let used = lines.feed(chunk, &mut block);
        bytes.consume(used);
    }
    Ok(lines.head().cloned())
}

fn open_stdin(from: &ReadFrom, options: &FileOptions) -> Result<Bytes, SourceError> {
    let refuse = |message: String| Err(SourceError::new(SourceFault::Refused, message));
    if from.next != 0 {
        return refuse(format!(
            "standard input cannot be read again from position `{}`: put the input into a file and name the file, or begin \
             with an empty store and feed all of it again",
            from.next
        ));
    }
    if STDIN_TAKEN.swap(true, Ordering::SeqCst) {
        return refuse("standard input has been read already by this process".into());
    }
    let raw = BufReader::with_capacity(CHUNK_BYTES, std::io::stdin());
    inflate::stream(raw, options.hold_bytes_max()).map_err(|error| find::failed(STDIN, "read", &error))
}
