//! The threads that read files, and the reader in front of them.
//!
//! Owns the list of files to read and which of them are paused. A thread works on one file at a time and puts it back when
//! it is paused, so that paused files never keep the threads from the others.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::{BlockBuilder, Event, Partition, ReadFrom, Reader, SourceError, SourceFault};

use super::inflate::{self, Bytes, CHUNK_BYTES, Place};
use super::lines::Lines;
use super::{FileOptions, STDIN, fault_of, find};
use crate::queue::{Closed, Receiver, Sender, channel};

/// Between two attempts on a disk that is away: short enough for a person who waits, long enough to spare the disk.
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
    /// Its writer may pause for long: hand out what there is before waiting for more.
    is_live: bool,
}

#[derive(Default)]
struct Work {
    jobs: VecDeque<Job>,
    paused: BTreeSet<Partition>,
    is_closed: bool,
}

struct Shared {
    work: Mutex<Work>,
    changed: Condvar,
    options: FileOptions,
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

    fn is_paused(&self, partition: &Partition) -> bool {
        self.lock().paused.contains(partition)
    }

    /// The next file that is not paused; waits while there is none. `None` once the reader is gone.
    fn take(&self) -> Option<Job> {
        let mut work = self.lock();
        loop {
            if work.is_closed {
                return None;
            }
            let free = work.jobs.iter().position(|job| !work.paused.contains(&job.from.partition));
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
        let jobs = from.into_iter().map(|from| Job { from, open: None }).collect();
        let work = Mutex::new(Work { jobs, ..Work::default() });
        let shared = Arc::new(Shared { work, changed: Condvar::new(), options });
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
        if shared.is_paused(&partition) {
            shared.change(|work| work.jobs.push_front(job));
            return Ok(());
        }
        match advance(&mut job, &shared.options, &|| !sender.is_closed()) {
            Ok(Some(event)) => {
                let is_end = matches!(event, Event::Ended { .. });
                if let Event::Block(block) = &event {
                    job.from.next = block.next;
                }
                let bytes = if let Event::Block(block) = &event { block.memory_bytes() } else { 0 };
                sender.send(Ok(event), bytes)?;
                if is_end {
                    return Ok(());
                }
            }
            Ok(None) => {}
            Err(error) => {
                let is_away = error.fault == SourceFault::Away;
                sender.send(Err(error.at(&partition)), 0)?;
                if !is_away {
                    return Ok(());
                }
                job.open = None;
                if sender.wait_closed(RETRY) {
                    return Err(Closed);
                }
            }
        }
        if sender.is_closed() {
            return Err(Closed);
        }
    }
}

/// Reads on until there is something to report, or for one chunk.
fn advance(
    job: &mut Job,
    options: &FileOptions,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<Event>, SourceError> {
    let path = &*job.from.partition.stream;
    if job.open.is_none() {
        job.open = Some(open(&job.from, options, go_on)?);
    }
    let is_final = path == STDIN;
    let Open { bytes, lines, block, is_live } = job.open.as_mut().expect("opened above");
    let chunk = match bytes.fill_buf() {
        Ok(chunk) => chunk,
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(None),
        // The good lines before the damage are handed out first; the next call meets it again.
        Err(_) if !block.is_empty() => return Ok(Some(Event::Block(block.take()))),
        Err(error) => return Err(unreadable(path, lines.next(), &error)),
    };
    if chunk.is_empty() {
        let left = lines.finish(block, is_final);
        if !block.is_empty() {
            return Ok(Some(Event::Block(block.take())));
        }
        if left > 0 && !lines.is_blank() {
            tracing::warn!(
                file = path,
                position = lines.next(),
                bytes = left,
                "the last line has no newline and is no whole record; it is left for the run after it was completed"
            );
        }
        return Ok(Some(Event::Ended { partition: job.from.partition.clone(), next: lines.next() }));
    }
    let used = lines.feed(chunk, block);
    bytes.consume(used);
    let is_due = block.is_full() || (*is_live && !block.is_empty());
    Ok(is_due.then(|| Event::Block(block.take())))
}

/// The file is damaged, or the disk is away. All records in front of `position` have been handed out.
fn unreadable(path: &str, position: u64, error: &std::io::Error) -> SourceError {
    let fault = fault_of(error);
    let mut message = format!("file `{path}` cannot be read after position `{position}`: {error}");
    if fault == SourceFault::Refused {
        message.push_str(". The records before that position are kept, none after it was read; write a good copy over the file \
            (`cat good > file`, so that it stays the same file) and start again");
    }
    SourceError::new(fault, message)
}

fn open(from: &ReadFrom, options: &FileOptions, go_on: &dyn Fn() -> bool) -> Result<Open, SourceError> {
    let path = &*from.partition.stream;
    let refuse = |message: String| SourceError::new(SourceFault::Refused, message);
    if from.partition.index != 0 {
        return Err(refuse(format!("file `{path}` has no partition `{}`, only `0`", from.partition.index)));
    }
    let (bytes, is_live) = if path == STDIN {
        (open_stdin(from, options)?, true)
    } else {
        (open_file(from, options, go_on)?, false)
    };
    Ok(Open {
        bytes,
        lines: Lines::new(from.next, options.line_bytes_max),
        block: BlockBuilder::new(from.partition.clone(), from.next),
        is_live,
    })
}

fn open_file(from: &ReadFrom, options: &FileOptions, go_on: &dyn Fn() -> bool) -> Result<Bytes, SourceError> {
    let path = &*from.partition.stream;
    let failed = |error| find::failed(path, "opened", &error);
    let refuse = |message: String| Err(SourceError::new(SourceFault::Refused, message));
    let mut file = File::open(path).map_err(failed)?;
    let (is_same, now) = find::is_same(&mut file, &from.identity).map_err(failed)?;
    if !is_same {
        let recorded = &from.identity;
        return refuse(format!(
            "file `{path}` is another one than was read: recorded `{recorded}`, now `{now}`"
        ));
    }
    let next = from.next;
    let opened = inflate::open(file, path, next, options.hold_bytes_max(), go_on);
    let (bytes, place) = opened.map_err(|error| unreadable(path, next, &error))?;
    match place {
        Place::Line | Place::AfterWhole => Ok(bytes),
        Place::Middle => refuse(format!(
            "no line of file `{path}` starts at position `{next}`: the file was changed in place after it was read to there"
        )),
        Place::Beyond(end) => {
            refuse(format!("file `{path}` ends at position `{end}`, before position `{next}`: it was cut"))
        }
    }
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

#[async_trait]
impl Reader for FileReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        let ended = || SourceError::new(SourceFault::Refused, "the threads that read files have ended");
        self.events.recv().await.unwrap_or_else(|| Err(ended()))
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        if !self.read.insert(from.partition.clone()) {
            return Err(SourceError::read_already(&from.partition));
        }
        self.shared.change(|work| work.jobs.push_back(Job { from, open: None }));
        Ok(())
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
