//! The threads that read followed files, and the reader in front of them.
//!
//! Owns what a thread does with a file, and the events. Does not own the lists of files (`lists`), nor what is read of one (`reading`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dataflow::{Event, Partition, ReadFrom, Reader, SourceError, SourceFault};
use files::Identity;

use super::known::Known;
use super::lists::{Job, Shared};
use super::reading::{CHUNK_BYTES, Read, Reading, State};
use super::{Shared as OfSource, in_passing, watch};
use crate::file::place::NAMESAKES_MAX;
use crate::file::{FileOptions, reader};
use crate::queue::{Closed, Receiver, Sender, channel};

/// Between two attempts on a disk that is away: short enough for an operator who waits, long enough to spare the disk.
const RETRY: Duration = Duration::from_secs(1);

pub(super) type Item = Result<Event, SourceError>;

/// Reads followed files by threads of its own.
pub(super) struct FollowReader {
    shared: Arc<Shared>,
    events: Receiver<Item>,
    read: BTreeSet<Partition>,
}

impl FollowReader {
    /// Starts the threads. What is wrong with a file comes from `next`.
    pub(super) fn start(
        options: FileOptions,
        from: Vec<ReadFrom>,
        source: OfSource,
    ) -> Result<Self, SourceError> {
        let (sender, events) = channel(options.ahead_bytes_max);
        let threads = options.threads;
        let shared = Arc::new(Shared::new(options, source));
        let mut reader = Self { shared, events, read: BTreeSet::new() };
        for from in from {
            reader.add_known(from)?;
        }
        for _ in 0..threads {
            let (shared, sender) = (reader.shared.clone(), sender.clone());
            let run = move || {
                let mut chunk = vec![0; CHUNK_BYTES];
                while let Some(job) = shared.take() {
                    if run(&shared, &sender, job, &mut chunk).is_err() {
                        return;
                    }
                }
            };
            crate::thread::start("file-read", run)?;
        }
        let shared = reader.shared.clone();
        crate::thread::start("file-follow", move || watch::watch(&shared, &sender))?;
        Ok(reader)
    }

    fn add_known(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        if !self.read.insert(from.partition.clone()) {
            return Err(SourceError::read_already(&from.partition));
        }
        let known = Known::new(from.clone()).filter(|known| known.from.partition.index < NAMESAKES_MAX);
        let known = known.ok_or_else(|| {
            let Partition { stream, index, .. } = &from.partition;
            let now = files::open(&**stream).and_then(|file| Identity::of(&file));
            let message = format!(
                "file `{stream}` has no partition `{index}`, or what is recorded to know it by (`{}`, now `{}`) is of another program; take it out \
                 of the pipeline with `forebay forget FILE --partition {}`",
                from.identity,
                now.map(|identity| identity.to_string()).unwrap_or_default(),
                files::names::quoted(&format!("{stream}/{index}"))
            );
            SourceError::new(SourceFault::Refused, message).at(&from.partition)
        })?;
        self.shared.change(|work| work.add(known));
        Ok(())
    }
}

/// Reads one file until it has no more, or is paused.
fn run(shared: &Shared, sender: &Sender<Item>, mut job: Job, chunk: &mut [u8]) -> Result<(), Closed> {
    let partition = job.partition().clone();
    loop {
        if !shared.is_wanted(&partition) {
            if shared.leaves(&partition) {
                return sender.send(Ok(Event::Removed { partition }), 0);
            }
            shared.change(|work| work.jobs.push_front(job));
            return Ok(());
        }
        match advance(shared, sender, &mut job, chunk) {
            Ok(Next::Sent { is_block }) => {
                // A file that grows as fast as it is read must not keep the threads from the others.
                if is_block && shared.has_more() {
                    shared.requeue(job);
                    return Ok(());
                }
            }
            Ok(Next::Wait(state)) => {
                shared.park(job, state);
                return Ok(());
            }
            Ok(Next::Lost) => {
                shared.lose(job);
                return Ok(());
            }
            Ok(Next::Ended(next)) => {
                shared.end(job);
                return sender.send(Ok(Event::Ended { partition, next: next.into() }), 0);
            }
            Err(Failed::Closed) => return Err(Closed),
            Err(Failed::Source(error)) => {
                let error = in_passing(error, &shared.options).at(&partition);
                let is_away = error.fault == SourceFault::Away;
                if !is_away || sender.is_empty() {
                    sender.send(Err(error), 0)?;
                } else {
                    tracing::warn!(%error, "a file cannot be read for now; trying again");
                }
                if !is_away {
                    shared.end(job);
                    return Ok(());
                }
                if sender.wait_closed(RETRY) {
                    return Err(Closed);
                }
                shared.lose(job);
                return Ok(());
            }
        }
        if sender.is_closed() {
            return Err(Closed);
        }
    }
}

/// What comes of a job.
enum Next {
    Sent {
        is_block: bool,
    },
    /// There is nothing until the file changes.
    Wait(State),
    /// It is not what it was.
    Lost,
    /// Nothing more is to be read of it.
    Ended(u64),
}

enum Failed {
    Closed,
    Source(SourceError),
}

impl From<Closed> for Failed {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<SourceError> for Failed {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

fn advance(shared: &Shared, sender: &Sender<Item>, job: &mut Job, chunk: &mut [u8]) -> Result<Next, Failed> {
    let options = &shared.options;
    if job.open.is_none() {
        let Some(spot) = &job.spot else { return Ok(Next::Lost) };
        job.open = Reading::open(&job.known, spot, options, &shared.open)?;
    }
    let Some(open) = &mut job.open else { return Ok(Next::Lost) };
    // Before it is read: what is written later makes it another one.
    let Ok(state) = open.state() else { return Ok(Next::Lost) };
    let read = open.advance(chunk, &|| !sender.is_closed())?;
    job.known.identity.clone_from(&open.identity);
    let next_before = job.known.from.next;
    match read {
        Read::Replaced => {
            tracing::info!(
                file = open.spot.path,
                position = %dataflow::position::shown(job.known.from.next),
                "a file was emptied or written over; its rest is looked for in a copy"
            );
            Ok(Next::Lost)
        }
        Read::Block(block) => {
            (job.known.from.next, job.known.from.leader_epoch, job.told) =
                (block.next, block.leader_epoch, None);
            shared.note(job);
            let bytes = block.memory_bytes();
            sender.send(Ok(Event::Block(block)), bytes)?;
            Ok(Next::Sent { is_block: true })
        }
        Read::End { next, mark, left } => {
            let has_passed = u128::from(next) > next_before;
            if has_passed || job.told != Some(mark.is_end) {
                let (next, leader_epoch) = (job.known.from.next.max(next.into()), mark.epoch());
                (job.known.from.next, job.known.from.leader_epoch) = (next, leader_epoch);
                job.told = Some(mark.is_end);
                shared.note(job);
                let partition = job.partition().clone();
                sender.send(Ok(Event::CaughtUp { partition, next, leader_epoch }), 0)?;
                return Ok(Next::Sent { is_block: false });
            }
            if options.ends {
                if left > 0 && !open.is_blank() {
                    reader::tell_incomplete(&open.spot.path, next, left, options);
                }
                return Ok(Next::Ended(next));
            }
            Ok(Next::Wait(state))
        }
    }
}

#[async_trait]
impl Reader for FollowReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        let ended = || SourceError::new(SourceFault::Refused, "the threads that read files have ended");
        let event = self.events.recv().await.unwrap_or_else(|| Err(ended()));
        if let Ok(Event::Removed { partition }) = &event {
            self.read.remove(partition);
        }
        event
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.add_known(from)
    }

    fn remove(&mut self, partition: &Partition) {
        if !self.read.contains(partition) {
            return;
        }
        self.shared.change(|work| {
            work.leaving.insert(partition.clone());
            // Some thread has to say so, behind what it has sent of the file.
            if let Some(job) = work.waiting(partition) {
                work.jobs.push_back(job);
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

impl Drop for FollowReader {
    /// Ends the threads at their next look.
    fn drop(&mut self) {
        self.shared.change(|work| work.is_closed = true);
    }
}
