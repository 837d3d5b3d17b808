//! The threads that read files, and the reader in front of them.
//!
//! Owns the list of files to read, and which of them are paused or taken away. A thread works on one file at a time and puts it back when
//! it is paused, so that paused files never keep the threads from the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::{Event, Partition, ReadFrom, Reader, SourceError, SourceFault};

use super::FileOptions;
use super::follow::{self, Looks};
use super::job::{Job, State, Step};
use super::place::NOT_AT_ITS_END;
use super::recognize::Known;
use crate::queue::{Closed, Receiver, Sender, channel};

/// Between two attempts on a disk that is away: short enough for an operator who waits, long enough to spare the disk.
const RETRY: Duration = Duration::from_secs(1);

pub(super) type Item = Result<Event, SourceError>;

#[derive(Default)]
struct Work {
    jobs: VecDeque<Job>,
    paused: BTreeSet<Partition>,
    /// Files that are taken away, until the thread that has one says so behind its blocks.
    leaving: BTreeSet<Partition>,
    /// Files that no thread has any more: read to their end, or given up after an error.
    over: BTreeSet<Partition>,
    /// Followed files that wait until they change.
    parked: Vec<Parked>,
    /// All that were ever read, while files are followed.
    known: BTreeMap<Partition, Known>,
    is_closed: bool,
}

/// A file that was read to its end.
pub(super) struct Parked {
    pub job: Job,
    /// Its name then, and its bytes.
    pub at: String,
    pub bytes: u64,
    /// As it was then; `None` if it is not open.
    pub state: Option<State>,
    /// Looks since then.
    pub looks: u32,
}

pub(super) struct Shared {
    work: Mutex<Work>,
    changed: Condvar,
    pub options: FileOptions,
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

    /// What is known of a file, after it was read on.
    fn note(&self, job: &Job) {
        if self.options.is_endless() {
            let known = Known { at: job.path().map(str::to_owned), ..Known::new(job.from.clone()) };
            self.lock().known.insert(job.from.partition.clone(), known);
        }
    }

    /// All files that were ever read.
    pub(super) fn known(&self) -> Vec<Known> {
        self.lock().known.values().cloned().collect()
    }

    /// Lets a file wait until it changes.
    fn park(&self, mut job: Job) {
        let (state, bytes) = (job.state(), job.offset());
        let at = job.path().unwrap_or_default().to_owned();
        if state.is_none() {
            job.close();
        }
        self.change(|work| work.parked.push(Parked { job, at, bytes, state, looks: 0 }));
    }

    /// Wakes those files that wait of which `wakes` says so.
    pub(super) fn wake(&self, wakes: &mut dyn FnMut(&mut Parked) -> bool) {
        let mut work = self.lock();
        let mut has_woken = false;
        for mut parked in std::mem::take(&mut work.parked) {
            if wakes(&mut parked) {
                has_woken = true;
                work.jobs.push_back(parked.job);
            } else {
                work.parked.push(parked);
            }
        }
        drop(work);
        if has_woken {
            self.changed.notify_all();
        }
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
            if let Some(known) = work.known.get_mut(partition) {
                known.is_over = true;
            }
        }
        leaves
    }

    /// Whether another file waits for a thread.
    fn has_more(&self) -> bool {
        !self.lock().jobs.is_empty()
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
    pub(super) fn start(
        options: FileOptions,
        from: Vec<ReadFrom>,
        looks: Looks,
    ) -> Result<Self, SourceError> {
        let (sender, events) = channel(options.ahead_bytes_max);
        let (threads, is_endless) = (options.threads, options.is_endless());
        let read = from.iter().map(|from| from.partition.clone()).collect();
        let known = from.iter().filter(|_| is_endless).map(known).collect();
        let jobs = from.into_iter().map(Job::new).collect();
        let work = Mutex::new(Work { jobs, known, ..Work::default() });
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
        if is_endless {
            let (shared, sender) = (shared.clone(), sender.clone());
            crate::thread::start("file-follow", move || follow::follow(&shared, &sender, &looks))?;
        }
        Ok(reader)
    }
}

fn known(from: &ReadFrom) -> (Partition, Known) {
    (from.partition.clone(), Known::new(from.clone()))
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
        match job.advance(&shared.options, &|| !sender.is_closed()) {
            Ok(Step::Event(event)) => {
                let (is_end, is_block) =
                    (matches!(event, Event::Ended { .. }), matches!(event, Event::Block(_)));
                let bytes = if let Event::Block(block) = &event { block.memory_bytes() } else { 0 };
                shared.note(&job);
                sender.send(Ok(event), bytes)?;
                if is_end {
                    return over(shared, sender, partition);
                }
                // A file that grows as fast as it is read must not keep the threads from the others.
                if is_block && shared.options.follow && shared.has_more() {
                    shared.change(|work| work.jobs.push_back(job));
                    return Ok(());
                }
            }
            Ok(Step::Again) => {}
            Ok(Step::Wait) => {
                shared.park(job);
                return Ok(());
            }
            Ok(Step::Over) => return over(shared, sender, partition),
            // It may be renamed at this moment, and be in no list.
            Err(error)
                if error.fault == SourceFault::Refused
                    && !job.is_open()
                    && job.misses < shared.options.tries() =>
            {
                job.misses += 1;
                if sender.wait_closed(follow::PAUSE) {
                    return Err(Closed);
                }
            }
            Err(error) => {
                let is_away = error.fault == SourceFault::Away;
                sender.send(Err(error.at(&partition)), 0)?;
                if !is_away {
                    return over(shared, sender, partition);
                }
                job.close();
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

/// Nothing more is read of a file; it may be taken away at any time, or was in this moment.
fn over(shared: &Shared, sender: &Sender<Item>, partition: Partition) -> Result<(), Closed> {
    if shared.leaves(&partition, true) {
        return sender.send(Ok(Event::Removed { partition }), 0);
    }
    Ok(())
}

#[async_trait]
impl Reader for FileReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        let ended = || SourceError::new(SourceFault::Refused, "the threads that read files have ended");
        let event = self.events.recv().await.unwrap_or_else(|| Err(ended()));
        if let Ok(Event::Removed { partition }) = &event {
            self.read.remove(partition);
        }
        event
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        if !self.read.insert(from.partition.clone()) {
            return Err(SourceError::read_already(&from.partition));
        }
        let is_endless = self.shared.options.is_endless();
        self.shared.change(|work| {
            work.known.extend(is_endless.then(|| known(&from)));
            work.jobs.push_back(Job::new(from));
        });
        Ok(())
    }

    fn remove(&mut self, partition: &Partition) {
        if !self.read.contains(partition) {
            return;
        }
        self.shared.change(|work| {
            work.leaving.insert(partition.clone());
            if let Some(at) = work.parked.iter().position(|parked| parked.job.from.partition == *partition) {
                let parked = work.parked.swap_remove(at);
                work.jobs.push_back(parked.job);
            }
            if work.over.remove(partition) {
                // Some thread has to say so, behind what it has sent of the file.
                let from = ReadFrom {
                    partition: partition.clone(),
                    identity: String::new(),
                    next: 0,
                    leader_epoch: NOT_AT_ITS_END,
                };
                work.jobs.push_back(Job::new(from));
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
