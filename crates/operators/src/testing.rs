//! The engine's part in a step whose state is in files, for this crate's unit tests: a journal, a store, and work that goes on beside.
//!
//! Owns reading, writing, checkpoints, collecting and restarts. Does not own what goes into a step and what comes out of it, which the tests of each step
//! compare.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dataflow::operator::{Given, Need};
use dataflow::{State, StateError, StateRead, StateWork};

/// Pieces of work that are under way at the same time at the most.
const WORKS_MAX: usize = 2;

/// A step, its journal and its store.
pub struct Stored<S> {
    pub step: S,
    pub new: Box<dyn Fn() -> S>,
    verify: fn(&str, &[u8]) -> Result<u64, StateError>,
    pub files: BTreeMap<String, Vec<u8>>,
    pub works: Vec<(Box<dyn StateWork>, Given, Vec<String>)>,
    checkpoint: Bytes,
    pub deltas: Vec<Bytes>,
    written: u64,
}

impl<S: State> Stored<S> {
    /// A new step, and what a file of it is verified by.
    pub fn new(new: impl Fn() -> S + 'static, verify: fn(&str, &[u8]) -> Result<u64, StateError>) -> Self {
        let step = new();
        let checkpoint = step.snapshot();
        let (files, works, deltas) = Default::default();
        Self { step, new: Box::new(new), verify, files, works, checkpoint, deltas, written: 0 }
    }

    pub fn read(&self, reads: &[StateRead]) -> Vec<Vec<u8>> {
        let read = |read: &StateRead| {
            let file =
                self.files.get(&*read.object).unwrap_or_else(|| panic!("`{}` was collected", read.object));
            file[read.offset as usize..][..read.len as usize].to_vec()
        };
        reads.iter().map(read).collect()
    }

    /// The step was sealed.
    pub fn sealed(&mut self, delta: Bytes) {
        self.deltas.push(delta);
        self.start();
    }

    /// Begins the work that the step has, as far as there is room.
    pub fn start(&mut self) {
        while self.works.len() < WORKS_MAX
            && let Some(work) = self.step.work()
        {
            self.works.push((work, Given::Start, vec![]));
        }
    }

    /// Work goes on by so many steps, each time on what was begun last.
    pub fn work(&mut self, steps: usize) {
        for _ in 0..steps {
            let Some((mut work, given, mut written)) = self.works.pop() else { return self.start() };
            let given = match work.step(given).unwrap() {
                Need::Read(reads) => Given::Read(self.read(&reads)),
                Need::Write(bytes) => {
                    self.written += 1;
                    let object = format!("runs/{}", self.written);
                    assert!((self.verify)(&object, &bytes).unwrap() > 0);
                    self.files.insert(object.clone(), bytes);
                    written.push(object.clone());
                    Given::Written(object.into())
                }
                Need::Done => {
                    self.step.adopt(work).unwrap();
                    self.start();
                    continue;
                }
            };
            self.works.push((work, given, written));
        }
    }

    /// A checkpoint, behind which what nobody needs any more is deleted.
    pub fn checkpoint(&mut self) {
        let files: Vec<String> = self.step.files().iter().map(|file| file.object.to_string()).collect();
        let needed: BTreeSet<&String> =
            files.iter().chain(self.works.iter().flat_map(|(.., written)| written)).collect();
        self.files.retain(|object, _| needed.contains(object));
        self.checkpoint = self.step.snapshot();
        self.deltas.clear();
    }

    /// A step from the last checkpoint and the deltas after it.
    pub fn twin(&self) -> S {
        let mut step = (self.new)();
        for read in step.restore(&self.checkpoint).unwrap() {
            step.open(&self.read(&[read])[0]).unwrap();
        }
        self.deltas.iter().for_each(|delta| step.apply(delta).unwrap());
        step
    }

    /// Work under way is lost.
    pub fn restart(&mut self) {
        self.works.clear();
        self.step = self.twin();
    }
}
