//! The I/O of state that lies in files: reads that steps ask for, and the work that writes files beside the lane.
//!
//! Owns the reading (many blocks at once, again while the store is away), the names of new files, and the tasks that close and merge.
//! Does not own what is read or written (the step), nor which files go (`protocol::retire`).
//!
//! A file counts only when a step has adopted the work that wrote it, and for a later owner only when a checkpoint names it. So a
//! crash at any instant leaves the old files or the new ones, and the others are collected.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dataflow::operator::{Given, Need};
use dataflow::{Operator, Runtime, StateError, StateFile, StateRead, StateWork, Task};
use metrics::counter;
use store::{Key, Store};
use tokio::sync::{mpsc, watch};

use crate::objects::{NextReader, Objects};
use crate::retry::Backoff;
use crate::stage::{self, Stage};
use crate::{EngineError, Status};

/// Files that one batch reads from side by side: enough to hide an object store's answer time, few enough for its limits.
const FILES_AT_ONCE: usize = 16;

/// Pieces of work under way for one step at the most: a closing beside a merger.
const WORKS_MAX: usize = 2;

/// What a checkpoint is made of, as of one seal.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// What each step has in memory, by the step's index.
    pub states: Vec<(u32, Bytes)>,
    /// The files that hold the rest: written before, and not written again.
    pub files: Vec<(u32, StateFile)>,
    /// This owner's files with smaller numbers are among `files`, or of no use to anyone.
    pub horizon: u64,
}

/// Where the files of a lane's state lie, and who reads and writes them.
#[derive(Clone)]
pub struct Files {
    objects: Arc<Objects>,
    runtime: Arc<dyn Runtime>,
    status: Arc<Status>,
    retry_pause_max: Duration,
}

impl Files {
    /// Those of one owner.
    pub fn new(
        objects: Arc<Objects>,
        runtime: Arc<dyn Runtime>,
        status: Arc<Status>,
        retry_pause_max: Duration,
    ) -> Self {
        Self { objects, runtime, status, retry_pause_max }
    }

    /// Reads what a step asked for; the answers are in the order of `reads`.
    ///
    /// # Errors
    /// When an object is missing or too short, or the store refuses for good.
    pub async fn read(&self, reads: &[StateRead]) -> Result<Vec<Vec<u8>>, EngineError> {
        if reads.is_empty() {
            return Ok(Vec::new());
        }
        let mut answers = vec![Vec::new(); reads.len()];
        let mut indices: Vec<usize> = (0..reads.len()).collect();
        // Steps ask file by file, so there is nothing to do as a rule.
        indices.sort_by(|a, b| reads[*a].object.cmp(&reads[*b].object));
        let by_object: Vec<&[usize]> =
            indices.chunk_by(|a, b| reads[*a].object == reads[*b].object).collect();
        for objects in by_object.chunks(FILES_AT_ONCE) {
            let mut jobs = Vec::with_capacity(objects.len());
            for indices in objects {
                let range = |index: &usize| {
                    reads[*index].offset..reads[*index].offset.saturating_add(u64::from(reads[*index].len))
                };
                jobs.push(self.read_ranges(&reads[indices[0]].object, indices.iter().map(range).collect()));
            }
            let done = futures::future::try_join_all(jobs).await?;
            for (indices, found) in objects.iter().zip(done) {
                for (index, bytes) in indices.iter().zip(found) {
                    answers[*index] = bytes.into();
                }
            }
        }
        Ok(answers)
    }

    async fn read_ranges(&self, object: &str, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>, EngineError> {
        let name = format!("{}/{object}", self.objects.folder);
        let mut backoff = Backoff::new(self.retry_pause_max);
        loop {
            match get_ranges(&*self.objects.store, &name, &ranges).await {
                Err(EngineError::Store(error)) if error.kind.is_transient() => {
                    if backoff.should_log() {
                        tracing::warn!(%error, object, "state in a file cannot be read; trying again");
                    }
                    backoff.pause(&*self.runtime).await;
                }
                result => return result,
            }
        }
    }

    /// Takes work from its first step to its last: computing on compute threads, reading and writing in between.
    async fn drive(&self, mut work: Box<dyn StateWork>) -> Result<Box<dyn StateWork>, EngineError> {
        let mut given = Given::Start;
        loop {
            let step = stage::compute(Stage::State, &self.runtime, &self.status, move || {
                let need = work.step(given);
                (work, need)
            });
            let (back, need) = step.await.ok_or(EngineError::Internal("work on state"))?;
            work = back;
            let need =
                need.map_err(|source: StateError| EngineError::State { step: "state".to_owned(), source })?;
            given = match need {
                Need::Done => return Ok(work),
                Need::Read(reads) => Given::Read(self.read(&reads).await?),
                Need::Write(bytes) => Given::Written(self.write(bytes).await?),
            };
        }
    }

    async fn write(&self, bytes: Vec<u8>) -> Result<Arc<str>, EngineError> {
        let object = self.objects.state_file(self.objects.new_state_file());
        counter!("forebay_state_bytes_written_total").increment(bytes.len() as u64);
        self.objects.write(&object, vec![Bytes::from(bytes)], NextReader::Soon).await?;
        let own = object.strip_prefix(&format!("{}/", self.objects.folder));
        Ok(own.expect("the name begins with the lane's folder").into())
    }
}

/// Reads ranges of a state's file.
///
/// # Errors
/// When the object is missing or too short, or the store fails.
pub async fn get_ranges(
    store: &dyn Store,
    name: &str,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>, EngineError> {
    let damaged = |what: &str| EngineError::Damaged { object: name.to_owned(), what: what.to_owned() };
    let key = Key::new(name).map_err(|_| damaged("badly named"))?;
    match store.get_ranges(&key, ranges).await {
        Ok(found) => found.ok_or_else(|| damaged("missing")),
        Err(error) => Err(EngineError::of_reading(name, error)),
    }
}

/// Work under way.
struct UnderWay {
    id: u64,
    step: u32,
    /// The first number that its files may have.
    first_file: u64,
    _task: Task,
}

/// What a task hands back.
type Finished = (u64, Result<Box<dyn StateWork>, EngineError>);

/// The work on files of a lane's steps.
pub struct Works {
    files: Files,
    under_way: Vec<UnderWay>,
    next_id: u64,
    begins_none: bool,
    /// True once the process is to stop.
    stop: watch::Receiver<bool>,
    done: mpsc::UnboundedSender<Finished>,
    finished: mpsc::UnboundedReceiver<Finished>,
}

impl Works {
    /// Nothing is under way yet.
    pub fn new(files: Files) -> Self {
        // As many messages as there is work under way at the most.
        let (done, finished) = mpsc::unbounded_channel();
        // Until it is told, nobody asks it to stop.
        let (_, stop) = watch::channel(false);
        Self { files, under_way: Vec::new(), next_id: 0, begins_none: false, stop, done, finished }
    }

    /// Where the files lie.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Hands finished work back to its steps.
    ///
    /// # Errors
    /// When a file is damaged or missing, or the store refused for good.
    pub fn adopt(&mut self, steps: &mut [Box<dyn Operator>]) -> Result<(), EngineError> {
        while let Ok(finished) = self.finished.try_recv() {
            self.hand_back(steps, finished)?;
        }
        Ok(())
    }

    /// Whether any work is not handed back yet.
    pub fn are_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Waits for the next work that is finished and hands it back; false if none is under way. May be dropped while it waits.
    ///
    /// # Errors
    /// As [`adopt`](Self::adopt).
    pub async fn next(&mut self, steps: &mut [Box<dyn Operator>]) -> Result<bool, EngineError> {
        if self.under_way.is_empty() {
            return Ok(false);
        }
        // The sender lives here too, so the queue never closes.
        let Some(finished) = self.finished.recv().await else { return Ok(false) };
        self.hand_back(steps, finished)?;
        Ok(true)
    }

    fn hand_back(
        &mut self,
        steps: &mut [Box<dyn Operator>],
        (id, result): Finished,
    ) -> Result<(), EngineError> {
        let Some(at) = self.under_way.iter().position(|work| work.id == id) else { return Ok(()) };
        let index = self.under_way.remove(at).step;
        counter!("forebay_state_works_total").increment(1);
        let work = result?;
        let (name, state) = stateful(steps, index)?;
        state.adopt(work).map_err(|source| EngineError::State { step: name, source })
    }

    /// What says that the process is to stop: then nothing is waited for, however much a step has in memory.
    pub fn stop_with(&mut self, stop: watch::Receiver<bool>) {
        self.stop = stop;
    }

    /// Begins no work from here on: a process that is to stop has little time, and the next start does the work as well. What steps have in memory grows by
    /// the blocks that are read already, and by no more.
    pub fn begin_no_more(&mut self) {
        self.begins_none = true;
    }

    /// Starts what is due after a seal, and waits if a step has far more in memory than it should.
    ///
    /// # Errors
    /// As [`adopt`](Self::adopt).
    pub async fn start(&mut self, steps: &mut [Box<dyn Operator>]) -> Result<(), EngineError> {
        self.adopt(steps)?;
        if self.begins_none {
            return Ok(());
        }
        for index in 0.. {
            let Ok((_, state)) = stateful(steps, index) else { return Ok(()) };
            self.spawn_due(index, state);
            while stateful(steps, index)?.1.is_crowded() {
                let finished = tokio::select! {
                    biased;
                    Ok(_) = self.stop.wait_for(|is_asked| *is_asked) => return Ok(()),
                    finished = self.finished.recv() => finished,
                };
                // The sender lives here too, so the queue never closes.
                let Some(finished) = finished else { break };
                self.hand_back(steps, finished)?;
                // What was waited for may be what other work has waited for.
                self.spawn_due(index, stateful(steps, index)?.1);
            }
        }
        Ok(())
    }

    /// Starts what is due of one step, up to its bound.
    fn spawn_due(&mut self, index: u32, state: &mut dyn dataflow::State) {
        while self.under_way.iter().filter(|work| work.step == index).count() < WORKS_MAX {
            let Some(work) = state.work() else { break };
            self.spawn(index, work);
        }
    }

    fn spawn(&mut self, step: u32, work: Box<dyn StateWork>) {
        let (id, done, files) = (self.next_id, self.done.clone(), self.files.clone());
        self.next_id += 1;
        let first_file = self.files.objects.next_state_file();
        let task = async move {
            let result = files.drive(work).await;
            // Nobody listens any more when the lane has ended.
            let _ = done.send((id, result));
        };
        let task = self.files.runtime.spawn("state", Box::pin(task));
        self.under_way.push(UnderWay { id, step, first_file, _task: task });
    }

    /// The whole states and their files as of the seal just made.
    pub fn snapshots(&self, steps: &mut [Box<dyn Operator>]) -> Snapshots {
        let mut snapshots = Snapshots { horizon: self.horizon(), ..Snapshots::default() };
        for index in 0.. {
            let Ok((_, state)) = stateful(steps, index) else { break };
            snapshots.states.push((index, state.snapshot()));
            snapshots.files.extend(state.files().into_iter().map(|file| (index, file)));
        }
        snapshots
    }

    /// Files of this owner with smaller numbers are either in use now or will never be.
    fn horizon(&self) -> u64 {
        let next = self.files.objects.next_state_file();
        self.under_way.iter().map(|work| work.first_file).min().unwrap_or(next)
    }
}

/// The step with that index among those that keep state.
fn stateful(
    steps: &mut [Box<dyn Operator>],
    index: u32,
) -> Result<(String, &mut dyn dataflow::State), EngineError> {
    let with_state = steps.iter_mut().filter_map(|step| {
        let name = step.name().to_owned();
        step.state().map(|state| (name, state))
    });
    with_state
        .into_iter()
        .nth(index as usize)
        .ok_or(EngineError::Internal("state of a step that is not there"))
}

/// A step's file with its whole name.
pub fn whole_name(folder: &str, file: &StateFile) -> String {
    format!("{folder}/{}", file.object)
}
