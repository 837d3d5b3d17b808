//! Which followed files a thread is to read, which wait for more, and which are looked for.
//!
//! Owns the lists. Does not own when a file moves from one to another because it has changed (`watch`), nor the threads (`reader`).
//!
//! | list     | a file that                                            | leaves it                                        |
//! |----------|--------------------------------------------------------|--------------------------------------------------|
//! | `jobs`   | is to be read                                          | to a thread; at its end to `parked`              |
//! | `parked` | was read to its end                                    | once it has changed, to `jobs`                   |
//! | `lost`   | is not what it was, or was not looked for yet           | once it is found, to `jobs`; else to `over`      |
//! | `over`   | is gone, and was read to its end                       | if a copy with more of it appears                |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use dataflow::Partition;

use super::Shared as OfSource;
use super::decide::Spot;
use super::known::{Is, Known};
use super::reading::{Reading, State};
use crate::file::FileOptions;

/// Files that wait open: a quarter of the files that a process may have open on most systems.
pub(super) const OPEN_MAX: usize = 256;
/// Beyond so many that are open a file is closed as soon as it has to wait, whatever for: between two looks, which close those that have waited for the
/// longest time, the threads may read thousands of small files.
const OPEN_BETWEEN_LOOKS_MAX: usize = 2 * OPEN_MAX;

/// A file that is read.
pub(super) struct Job {
    pub known: Known,
    /// Where it is to be opened.
    pub spot: Option<Spot>,
    pub open: Option<Reading>,
    /// What was said of its end: whether nothing is left there.
    pub told: Option<bool>,
}

/// A file that waits until it has changed.
pub(super) struct Parked {
    pub job: Job,
    /// As it was when it was read to its end.
    pub state: State,
    /// Looks since then.
    pub looks: u32,
}

#[derive(Default)]
pub(super) struct Work {
    pub jobs: VecDeque<Job>,
    /// Those that wait the longest come first.
    pub parked: Vec<Parked>,
    pub lost: BTreeMap<Partition, Job>,
    pub over: BTreeMap<Partition, Job>,
    /// All that were ever read, as they are known.
    pub known: BTreeMap<Partition, Known>,
    /// Found, and not added yet.
    pub told: BTreeMap<Partition, Known>,
    pub paused: BTreeSet<Partition>,
    /// Files that are taken away, until the thread that has one says so behind its blocks.
    pub leaving: BTreeSet<Partition>,
    /// Files that were taken away: they are not found again.
    pub left: BTreeMap<Partition, Known>,
    pub is_closed: bool,
}

pub(super) struct Shared {
    work: Mutex<Work>,
    changed: Condvar,
    /// Files that are open.
    pub open: Arc<AtomicUsize>,
    pub options: FileOptions,
    /// What the source shares with its readers.
    pub source: OfSource,
}

impl Job {
    pub(super) fn new(known: Known) -> Self {
        Self { known, spot: None, open: None, told: None }
    }

    pub(super) fn partition(&self) -> &Partition {
        &self.known.from.partition
    }

    /// Closes the file; it is opened again where it is now.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.spot = Some(open.spot);
        }
    }
}

impl Shared {
    pub(super) fn new(options: FileOptions, source: OfSource) -> Self {
        Self { work: Mutex::default(), changed: Condvar::new(), open: Arc::default(), options, source }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Work> {
        // Every change is a few calls on collections, none of which panics between two that belong together.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Work) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.notify_all();
        changed
    }

    /// Notes how a file is known by now.
    pub(super) fn note(&self, job: &Job) {
        let mut work = self.lock();
        work.known.insert(job.partition().clone(), job.known.clone());
    }

    pub(super) fn is_wanted(&self, partition: &Partition) -> bool {
        let work = self.lock();
        !work.paused.contains(partition) && !work.leaving.contains(partition)
    }

    /// True, once, for a file that is taken away.
    pub(super) fn leaves(&self, partition: &Partition) -> bool {
        let mut work = self.lock();
        let leaves = work.leaving.remove(partition);
        if leaves {
            work.paused.remove(partition);
            if let Some(mut known) = work.known.remove(partition) {
                if matches!(known.is, Is::Lost) {
                    known.is = Is::Finished;
                }
                work.left.insert(partition.clone(), known);
            }
        }
        leaves
    }

    pub(super) fn has_more(&self) -> bool {
        !self.lock().jobs.is_empty()
    }

    /// Lets a file wait for more.
    pub(super) fn park(&self, mut job: Job, state: State) {
        job.spot = job.open.as_ref().map(|open| open.spot.clone());
        let mut parked = Parked { job, state, looks: 0 };
        if self.has_many_open() && !state.is_deleted {
            parked.close();
        }
        let Parked { job, .. } = parked;
        self.put_back(job, |work, job| work.parked.push(Parked { job, state, looks: 0 }));
    }

    /// Lets a file of which there is more wait for the others.
    pub(super) fn requeue(&self, mut job: Job) {
        if self.has_many_open()
            && job.open.as_ref().and_then(|open| open.state().ok()).is_some_and(|state| !state.is_deleted)
        {
            job.close();
        }
        self.change(|work| work.jobs.push_back(job));
    }

    fn has_many_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > OPEN_BETWEEN_LOOKS_MAX
    }

    /// Has a file looked for.
    pub(super) fn lose(&self, mut job: Job) {
        (job.open, job.spot, job.known.is) = (None, None, Is::Lost);
        self.put_back(job, |work, job| {
            work.lost.insert(job.partition().clone(), job);
        });
    }

    /// Nothing more is read of a file.
    pub(super) fn end(&self, mut job: Job) {
        (job.open, job.known.is) = (None, Is::Finished);
        self.put_back(job, |work, job| {
            work.over.insert(job.partition().clone(), job);
        });
    }

    /// Puts a file into a list; one that is taken away meanwhile goes back to the threads, one of which says so.
    fn put_back(&self, job: Job, put: impl FnOnce(&mut Work, Job)) {
        self.change(|work| {
            work.known.insert(job.partition().clone(), job.known.clone());
            match work.leaving.contains(job.partition()) {
                true => work.jobs.push_back(job),
                false => put(work, job),
            }
        });
    }

    /// The next file to read that is not paused; waits while there is none. `None` once the reader is gone.
    pub(super) fn take(&self) -> Option<Job> {
        let mut work = self.lock();
        loop {
            if work.is_closed {
                return None;
            }
            let free = work.jobs.iter().position(|job| {
                !work.paused.contains(job.partition()) || work.leaving.contains(job.partition())
            });
            if let Some(job) = free.and_then(|index| work.jobs.remove(index)) {
                return Some(job);
            }
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Parked {
    /// Closes the file; that it has changed is seen where it is listed.
    pub(super) fn close(&mut self) {
        if let Some(open) = self.job.open.take() {
            let Spot { path, node } = open.spot;
            let (bytes, modified) = (self.state.bytes, self.state.modified);
            self.job.known.is = Is::Closed { node, path, bytes, modified };
        }
    }
}

impl Work {
    /// Has a file read: at once if it was found just now, or where it is when it has been looked for.
    pub(super) fn add(&mut self, known: Known) {
        let partition = known.from.partition.clone();
        self.left.remove(&partition);
        self.known.insert(partition.clone(), known.clone());
        match self.told.remove(&partition) {
            Some(Known { is: Is::Open { node, path }, .. }) => {
                self.found(Job::new(known), Spot { path, node });
            }
            Some(_) | None => {
                self.lost.insert(partition, Job::new(known));
            }
        }
    }

    /// Has a file read where it was found.
    pub(super) fn found(&mut self, mut job: Job, spot: Spot) {
        job.known.is = Is::Open { node: spot.node, path: spot.path.clone() };
        job.spot = Some(spot);
        self.known.insert(job.partition().clone(), job.known.clone());
        self.jobs.push_back(job);
    }

    /// A file that waits in one of the lists.
    pub(super) fn waiting(&mut self, partition: &Partition) -> Option<Job> {
        if let Some(at) = self.parked.iter().position(|parked| parked.job.partition() == partition) {
            return Some(self.parked.remove(at).job);
        }
        self.lost.remove(partition).or_else(|| self.over.remove(partition))
    }
}
