//! The threads that read files, and the reader in front of them.
//!
//! Owns the list of files to read, and which of them are paused or taken away. Does not own what a line or a record is (`file::lines`,
//! `file::quoted`), the way to a position (`file::inflate`), nor the search for a file that was renamed (`file::place`). A thread works on
//! one file at a time and puts it back when it is paused, so that paused files never keep the threads from the others.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{BlockBuilder, Event, Partition, ReadFrom, Reader, RecordBlock, SourceError, SourceFault};
use files::names::quoted;
use files::{Identity, Likeness};

use super::around::Around;
use super::inflate::{self, At, Bytes, CHUNK_BYTES, Stands};
use super::lines::Lines;
use super::mark::{Mark, Trail};
use super::place::{self, Place};
use super::quoted::Csv;
use super::{FileOptions, STDIN, fault_of, find, is_anothers};
use crate::queue::{Closed, Receiver, Sender, channel};

/// Between two attempts on a disk that is away: short enough for an operator who waits, long enough to spare the disk.
const RETRY: Duration = Duration::from_secs(1);

/// Standard input is one stream a process: what one reader took, no other one can have.
static STDIN_TAKEN: AtomicBool = AtomicBool::new(false);

type Item = Result<Event, SourceError>;

/// A file to read, opened or not.
struct Job {
    from: ReadFrom,
    open: Option<Open>,
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
    /// Of a compressed file, whose bytes are not those that are read.
    trail: Option<Trail>,
    /// The first record of a CSV file that names the fields, where reading begins behind it.
    head: Option<Arc<[u8]>>,
}

#[derive(Default)]
struct Work {
    jobs: VecDeque<Job>,
    paused: BTreeSet<Partition>,
    /// Files that are taken away, until the thread that has one says so behind its blocks.
    leaving: BTreeSet<Partition>,
    /// Files that no thread has any more: read to their end, or given up after an error.
    over: BTreeSet<Partition>,
    /// All that are read, or were.
    known: Vec<ReadFrom>,
    /// That a file is away was reported, and the report was not taken yet.
    is_away_unheard: bool,
    is_closed: bool,
}

struct Shared {
    work: Mutex<Work>,
    changed: Condvar,
    options: FileOptions,
    /// Of all files that are opened: thousands that have gone are looked for in one listing.
    around: Around<'static>,
}

impl Job {
    /// Goes on behind a block. The mark goes with the position: by the bytes in front of an earlier one the file would be taken for another one when it
    /// is opened again.
    fn pass(&mut self, block: &RecordBlock) {
        (self.from.next, self.from.leader_epoch) = (block.next, block.leader_epoch);
    }
}

impl Opened {
    /// What goes with a position that was reached.
    fn mark(&self, next: u64, is_end: bool) -> Result<Mark, SourceError> {
        if let Some(trail) = &self.trail {
            return Ok(trail.mark(next, is_end));
        }
        Mark::of(&self.file, next, is_end).map_err(|error| find::failed(&self.path, "read", &error))
    }
}

impl Open {
    /// What goes with the position behind all records so far.
    fn mark(&self, is_end: bool) -> Result<Mark, SourceError> {
        self.file.as_ref().map_or(Ok(Mark::none(is_end)), |file| file.mark(self.lines.next(), is_end))
    }

    /// Refuses what was read of a file that is not what it was, before any of it is handed out.
    fn check(&self, from: &ReadFrom) -> Result<(), SourceError> {
        self.file.as_ref().map_or(Ok(()), |file| check_intact(file, self.lines.offset(), from))
    }

    /// The records so far.
    fn give(&mut self, mark: Mark) -> Event {
        self.block.leader_epoch_at_end(mark.epoch());
        Event::Block(self.block.take())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        // Every change is one call on a collection: the list is whole even if a thread has panicked.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Work)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Whether to report that a file is away: not while the last such report waits, of whatever file.
    fn reports_away(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_away_unheard, true)
    }

    /// Whether the file is to be put back, or taken away.
    fn is_wanted(&self, partition: &Partition) -> bool {
        let work = self.lock();
        !work.paused.contains(partition) && !work.leaving.contains(partition)
    }

    /// True, once, for a file that is taken away. Otherwise it is noted if nothing more is read of it.
    fn leaves(&self, partition: &Partition, is_over: bool) -> bool {
        let mut work = self.lock();
        let leaves = work.leaving.remove(partition);
        if leaves {
            work.paused.remove(partition);
        } else if is_over {
            work.over.insert(partition.clone());
        }
        leaves
    }

    /// The next file that is not paused; waits while there is none. `None` once the reader is gone.
    fn take(&self) -> Option<Job> {
        let mut work = self.lock();
        loop {
            if work.is_closed {
                return None;
            }
            let free = work.jobs.iter().position(|job| {
                !work.paused.contains(&job.from.partition) || work.leaving.contains(&job.from.partition)
            });
            if let Some(job) = free.and_then(|index| work.jobs.remove(index)) {
                return Some(job);
            }
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads files by threads of its own.
pub(super) struct FileReader {
    shared: Arc<Shared>,
    events: Receiver<Item>,
    /// Files that are read, or were to their end.
    read: BTreeSet<Partition>,
}

impl FileReader {
    /// Starts the threads. What is wrong with a file comes from `next`.
    pub(super) fn start(options: FileOptions, from: Vec<ReadFrom>) -> Result<Self, SourceError> {
        let (sender, events) = channel(options.ahead_bytes_max);
        let threads = options.threads;
        let read = from.iter().map(|from| from.partition.clone()).collect();
        let known = from.clone();
        let jobs = from.into_iter().map(|from| Job { from, open: None }).collect();
        let work = Mutex::new(Work { jobs, known, ..Work::default() });
        let paths = options.paths.clone();
        let around = Around::new(move || find::files(&paths));
        let shared = Arc::new(Shared { work, changed: Condvar::new(), options, around });
        let reader = Self { shared: shared.clone(), events, read };
        for _ in 0..threads {
            let (shared, sender) = (shared.clone(), sender.clone());
            let run = move || {
                while let Some(job) = shared.take() {
                    if run(&shared, &sender, job).is_err() {
                        return;
                    }
                }
            };
            crate::thread::start("file-read", run)?;
        }
        Ok(reader)
    }
}

/// Reads one file until it ends, fails or is paused.
fn run(shared: &Shared, sender: &Sender<Item>, mut job: Job) -> Result<(), Closed> {
    let partition = job.from.partition.clone();
    loop {
        if !shared.is_wanted(&partition) {
            if shared.leaves(&partition, false) {
                return sender.send(Ok(Event::Removed { partition }), 0);
            }
            shared.change(|work| work.jobs.push_front(job));
            return Ok(());
        }
        match advance(&mut job, shared, &|| !sender.is_closed()) {
            Ok(Some(event)) => {
                let is_end = matches!(event, Event::Ended { .. });
                if let Event::Block(block) = &event {
                    job.pass(block);
                }
                let bytes = if let Event::Block(block) = &event { block.memory_bytes() } else { 0 };
                sender.send(Ok(event), bytes)?;
                if is_end {
                    return over(shared, sender, partition);
                }
            }
            Ok(None) => {}
            Err(error) => {
                let is_away = error.fault == SourceFault::Away;
                let error = error.at(&partition);
                // Report an unavailable file again only once the last report was taken: the receiver pauses after each, and blocks would queue behind them.
                if !is_away || shared.reports_away() {
                    sender.send(Err(error), 0)?;
                } else {
                    tracing::debug!(%error, "a file cannot be read for now; trying again");
                }
                if !is_away {
                    return over(shared, sender, partition);
                }
                job.open = None;
                if sender.wait_closed(RETRY) {
                    return Err(Closed);
                }
                // Behind the others: files that nobody can read must not keep the threads from those that can be.
                shared.change(|work| work.jobs.push_back(job));
                return Ok(());
            }
        }
        if sender.is_closed() {
            return Err(Closed);
        }
    }
}

/// Nothing more is read of a file; it may be taken away at any time, or was in this moment.
fn over(shared: &Shared, sender: &Sender<Item>, partition: Partition) -> Result<(), Closed> {
    if shared.leaves(&partition, true) {
        return sender.send(Ok(Event::Removed { partition }), 0);
    }
    Ok(())
}

/// Reads on until there is something to report, or for one chunk.
fn advance(job: &mut Job, shared: &Shared, go_on: &dyn Fn() -> bool) -> Result<Option<Event>, SourceError> {
    let path = &*job.from.partition.stream;
    if job.open.is_none() {
        job.open = Some(open(&job.from, shared, go_on)?);
    }
    let is_final = path == STDIN;
    let open = job.open.as_mut().expect("opened above");
    let Open { bytes, lines, block, is_live, file } = open;
    let chunk = match bytes.fill_buf() {
        Ok(chunk) => chunk,
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(None),
        // The good lines before the damage are returned first; the next call meets it again. More than they cannot be read, not even of a plain file.
        Err(_) if !block.is_empty() => {
            let trail = file.as_ref().and_then(|file| file.trail.as_ref());
            let mark = trail.map_or(Mark::none(false), |trail| trail.mark(lines.next(), false));
            // A member that was written over between its two passes has given what no checksum is known of.
            open.check(&job.from)?;
            return Ok(Some(open.give(mark)));
        }
        Err(error) => return Err(unreadable(path, lines.next(), &error, &shared.options)),
    };
    if chunk.is_empty() {
        let left = lines.finish(block, is_final);
        let mark = open.mark(left == 0 || open.lines.is_blank())?;
        open.check(&job.from)?;
        if !open.block.is_empty() {
            return Ok(Some(open.give(mark)));
        }
        let lines = &open.lines;
        let (partition, next) = (job.from.partition.clone(), lines.next());
        // Whether the file ends at the position may be another matter than when it was recorded: half a line has come behind it, or there never was a line.
        let is_told = open.file.is_none() || Mark::from(job.from.leader_epoch).is_end == mark.is_end;
        if u128::from(next) > job.from.next || !is_told {
            // Empty lines, which no block stands for, or what `Ended` does not say.
            (job.from.next, job.from.leader_epoch) = (next.into(), mark.epoch());
            return Ok(Some(Event::CaughtUp { partition, next: next.into(), leader_epoch: mark.epoch() }));
        }
        if left > 0 && !lines.is_blank() {
            tell_incomplete(path, lines.next(), left, &shared.options);
        }
        return Ok(Some(Event::Ended { partition, next: next.into() }));
    }
    // Not before it is known that more follows: the last block says that the file was read to its end.
    if block.is_full() {
        let mark = open.mark(false)?;
        open.check(&job.from)?;
        return Ok(Some(open.give(mark)));
    }
    let used = lines.feed(chunk, block);
    if let Some(trail) = file.as_mut().and_then(|file| file.trail.as_mut()) {
        trail.pass(&chunk[..used], lines.next());
    }
    bytes.consume(used);
    let is_due = *is_live && !block.is_empty();
    Ok(is_due.then(|| open.give(Mark::none(false))))
}

/// Says in the log that the last line of a file is left for later.
pub(super) fn tell_incomplete(path: &str, position: u64, left: u64, options: &FileOptions) {
    let what = match options.csv {
        None => {
            "the last line has no newline and is no whole record; it is left for the run after it was completed"
        }
        Some(_) => {
            "the last line has no newline, or ends within quotes, so the record may be incomplete; it is left for the run after it was \
             completed. If only the newline is missing, `echo >> FILE` completes it"
        }
    };
    tracing::warn!(file = path, position, bytes = left, "{what}");
}

/// Refuses a file that lost bytes while it was read up to `offset`, of which all in front of `from` was handed out: records that nobody has seen may have been
/// among them, and what was read last may belong to other content.
fn check_intact(opened: &Opened, offset: u64, from: &ReadFrom) -> Result<(), SourceError> {
    let path = &opened.path;
    let failed = |error| find::failed(path, "inspected", &error);
    let end = opened.file.metadata().map_err(failed)?.len();
    let least = opened.bytes_at_open.max(if opened.trail.is_none() { offset } else { 0 });
    let is_same = match &opened.identity {
        Some((identity, likeness)) => identity.compare(&opened.file).map_err(failed)? == *likeness,
        None => true,
    };
    // What was written over it may begin alike.
    let is_behind = opened.trail.is_some()
        || Mark::from(from.leader_epoch).fits(&opened.file, from.plain()?).map_err(failed)?;
    if end >= least && is_same && is_behind {
        return Ok(());
    }
    let message = format!(
        "file `{path}` was cut or written over while it was read: it has `{end}` bytes and had `{least}`. What was read before is \
         kept; whether other records are lost nobody can tell. Bring the whole file back in place (`cat whole > file`) and start again; without it \
         the next start looks for the rest in a copy, and says how to go on if there is none"
    );
    Err(SourceError::new(SourceFault::Refused, message))
}

/// The file is damaged, or the disk is away. All records in front of `position` have been returned.
fn unreadable(path: &str, position: u64, error: &std::io::Error, options: &FileOptions) -> SourceError {
    let fault = fault_of(error);
    let mut message = format!("file `{path}` cannot be read after position `{position}`: {error}");
    if fault == SourceFault::Refused {
        message.push_str(". The records before that position are kept, none after it was read; ");
        message.push_str(&match path {
            STDIN => format!(
                "standard input cannot be read again, so take a good copy and {}",
                way_to_rest(position, options)
            ),
            _ => "write a good copy over the file (`cat good > file`, so that it stays the same file) and start again".to_owned(),
        });
    }
    SourceError::new(fault, message)
}

/// How the rest of a stream is read that was read to a position. All of it in a file would be read from its beginning, once more.
fn way_to_rest(position: u64, options: &FileOptions) -> String {
    let first = position + 1;
    let rest = format!("tail -c +{first} INPUT");
    let command = match options.csv {
        Some(csv) if csv.has_head => format!("(head -n 1 INPUT; {rest}) > rest"),
        Some(_) | None => format!("{rest} > rest"),
    };
    format!(
        "put what follows into a file (`{command}`, of the uncompressed input), and name that file in `paths`"
    )
}

fn open(from: &ReadFrom, shared: &Shared, go_on: &dyn Fn() -> bool) -> Result<Open, SourceError> {
    let options = &shared.options;
    let is_live = &*from.partition.stream == STDIN;
    let (bytes, file) =
        if is_live { (open_stdin(from, options)?, None) } else { open_file(from, shared, go_on)? };
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
    from: &ReadFrom,
    shared: &Shared,
    go_on: &dyn Fn() -> bool,
) -> Result<(Bytes, Option<Opened>), SourceError> {
    let options = &shared.options;
    let refuse = |message: String| Err(SourceError::new(SourceFault::Refused, message));
    let nothing = || Ok((Box::new(std::io::empty()) as Bytes, None));
    let next = from.plain()?;
    let (file, path) = match place::find(from, &shared.around)? {
        Place::At(file, path) if is_anothers(from, (&path, &file), &shared.lock().known) => return nothing(),
        Place::At(file, path) => (file, path),
        Place::Finished => return nothing(),
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
    let is_plain = inflate::packing(&file).map_err(failed)? == inflate::Packing::Plain;
    let seen = file.try_clone().map_err(failed)?;
    let head = match options.csv {
        Some(csv) if csv.has_head && next > 0 => {
            let file = file.try_clone().map_err(failed)?;
            head(csv, file, &path, options, go_on).map_err(|error| unreadable(&path, 0, &error, options))?
        }
        Some(_) | None => None,
    };
    let opened = inflate::open(file, &path, next, options.hold_bytes_max(), go_on);
    let At { bytes, stands, before } = opened.map_err(|error| unreadable(&path, next, &error, options))?;
    let trail = (!is_plain).then(|| Trail::new(next, before));
    match stands {
        Stands::Line | Stands::AfterWhole => {
            Ok((bytes, Some(Opened { file: seen, path, identity, bytes_at_open, trail, head })))
        }
        Stands::Middle => refuse(format!(
            "no line of file `{path}` starts at position `{next}`: the file was changed in place after it was read to there, or the pipeline was moved \
             there (`forebay reset`) while the line was written. {}",
            way_on(&from.partition, is_plain)
        )),
        Stands::Beyond(end) => refuse(format!(
            "file `{path}` ends at position `{end}`, before position `{next}`: it was cut after it was read to there. {}",
            way_on(&from.partition, is_plain)
        )),
    }
}

/// How to go on with a file that has not got what was read of it any more, or without it. It is the file that was read still, so that `forget` alone would have
/// it come back where it was left.
fn way_on(partition: &Partition, is_plain: bool) -> String {
    let named = quoted(&format!("{}/{}", partition.stream, partition.index));
    let whole = "Bring the whole file back in place (`cat whole > file`)";
    match is_plain {
        true => format!(
            "{whole}, or give up what is missing and go on behind what the file has now: `forebay reset FILE --to latest --partition {named}`"
        ),
        // The end of a compressed file is not known before it was read.
        false => format!(
            "{whole}, or move it to where `paths` do not find it and take it out of the pipeline with `forebay forget FILE --partition {named}`"
        ),
    }
}

/// The first record of a CSV file; none if it is longer than any header.
pub(super) fn head(
    csv: Csv,
    file: File,
    path: &str,
    options: &FileOptions,
    go_on: &dyn Fn() -> bool,
) -> std::io::Result<Option<Arc<[u8]>>> {
    let At { mut bytes, .. } = inflate::open(file, path, 0, options.hold_bytes_max(), go_on)?;
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
        let next = from.plain()?;
        return refuse(format!(
            "standard input cannot be read again from position `{next}`, and the records in front of it were read already: {}",
            way_to_rest(next, options)
        ));
    }
    if STDIN_TAKEN.swap(true, Ordering::SeqCst) {
        return refuse("standard input has been read already by this process".into());
    }
    let raw = BufReader::with_capacity(CHUNK_BYTES, std::io::stdin());
    inflate::stream(raw, options.hold_bytes_max()).map_err(|error| find::failed(STDIN, "read", &error))
}

#[async_trait]
impl Reader for FileReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        let ended = || SourceError::new(SourceFault::Refused, "the threads that read files have ended");
        let event = self.events.recv().await.unwrap_or_else(|| Err(ended()));
        match &event {
            Ok(Event::Removed { partition }) => {
                self.read.remove(partition);
            }
            Err(error) if error.fault == SourceFault::Away => self.shared.lock().is_away_unheard = false,
            Ok(_) | Err(_) => {}
        }
        event
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        if !self.read.insert(from.partition.clone()) {
            return Err(SourceError::read_already(&from.partition));
        }
        self.shared.change(|work| {
            work.known.push(from.clone());
            work.jobs.push_back(Job { from, open: None });
        });
        Ok(())
    }

    fn remove(&mut self, partition: &Partition) {
        if !self.read.contains(partition) {
            return;
        }
        self.shared.change(|work| {
            work.leaving.insert(partition.clone());
            work.known.retain(|from| from.partition != *partition);
            if work.over.remove(partition) {
                // Some thread has to say so, behind what it has sent of the file.
                let from = ReadFrom {
                    partition: partition.clone(),
                    identity: String::new(),
                    next: 0,
                    leader_epoch: NO_LEADER_EPOCH,
                };
                work.jobs.push_back(Job { from, open: None });
            }
        });
    }

    fn pause(&mut self, partition: &Partition) {
        self.shared.change(|work| {
            work.paused.insert(partition.clone());
        });
    }

    fn resume(&mut self, partition: &Partition) {
        self.shared.change(|work| {
            work.paused.remove(partition);
        });
    }
}

impl Drop for FileReader {
    /// Ends the threads at their next look; one that waits for standard input ends with the next bytes there.
    fn drop(&mut self) {
        self.shared.change(|work| work.is_closed = true);
    }
}

#[cfg(test)]
mod tests;
