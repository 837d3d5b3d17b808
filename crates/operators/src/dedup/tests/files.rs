//! A step with files in memory, and the engine's part in it: reading, writing, checkpoints, collecting.

use std::collections::{BTreeMap, BTreeSet};

use dataflow::operator::{Given, Need};
use dataflow::{Divided, JobDone, Probed, StateRead, StateWork};

use super::*;
use crate::dedup::spilled::part::{Pair, verify};

/// Decides as an engine with many threads does. The jobs run in the reverse of their order.
pub fn divided(step: &mut Dedup, probed: Probed, answers: &[Vec<u8>]) -> Output {
    match step.divide(probed, answers).unwrap() {
        Divided::Done(output) => output,
        Divided::Jobs(jobs) => {
            let mut done: Vec<JobDone> = jobs.into_iter().rev().map(|job| job()).collect();
            done.reverse();
            step.join(done).unwrap()
        }
    }
}

/// A step, its journal and its store.
pub struct Bench {
    pub step: Dedup,
    pub files: BTreeMap<String, Vec<u8>>,
    late: Late,
    sizes: Sizes,
    /// How many shards the step has after each restart, in turn.
    shards: Vec<usize>,
    restarts: usize,
    works: Vec<(Box<dyn StateWork>, Given, Vec<String>)>,
    checkpoint: Option<(Bytes, Vec<String>)>,
    deltas: Vec<Bytes>,
    written: u64,
    /// Pairs in all files ever written.
    pub pairs_written: u64,
}

impl Bench {
    pub fn new(late: Late, sizes: Sizes) -> Self {
        Self::with_shards(late, sizes, vec![1])
    }

    /// A step that is divided again with each restart, and gives out jobs for two rows or more.
    pub fn with_shards(late: Late, sizes: Sizes, shards: Vec<usize>) -> Self {
        Self {
            step: windowed(late).with_sizes(sizes).with_shards(shards[0]).with_job_rows_min(1),
            files: BTreeMap::new(),
            late,
            sizes,
            shards,
            restarts: 0,
            works: vec![],
            checkpoint: None,
            deltas: vec![],
            written: 0,
            pairs_written: 0,
        }
    }

    pub fn read(&self, reads: &[StateRead]) -> Vec<Vec<u8>> {
        let read = |read: &StateRead| {
            let file =
                self.files.get(&*read.object).unwrap_or_else(|| panic!("`{}` was collected", read.object));
            file[read.offset as usize..][..read.len as usize].to_vec()
        };
        reads.iter().map(read).collect()
    }

    pub fn finish(&mut self, probed: Probed) -> Output {
        let (rows, answers) = (probed.batch.len(), self.read(&probed.reads));
        let out = divided(&mut self.step, probed, &answers).dense().unwrap();
        let sum = out.batch.len() as u64 + out.duplicates + out.late + out.rejects.len() as u64;
        assert_eq!(sum, rows as u64, "every row is counted once");
        out
    }

    pub fn run(&mut self, batch: Batch) -> Output {
        let probed = self.step.probe(batch).unwrap();
        self.finish(probed)
    }

    pub fn forget(&mut self, batch: Batch) {
        let probed = self.step.probe(batch).unwrap();
        let answers = self.read(&probed.reads);
        self.step.forget(probed, &answers).unwrap();
    }

    /// Seals; with a checkpoint, what nobody needs any more is deleted.
    pub fn seal(&mut self, watermark_ms: i64, checkpoint: bool) {
        self.deltas.push(self.step.seal(watermark_ms));
        if checkpoint {
            let files: Vec<String> = self.step.files().iter().map(|file| file.object.to_string()).collect();
            let needed: BTreeSet<&String> =
                files.iter().chain(self.works.iter().flat_map(|(.., written)| written)).collect();
            self.files.retain(|object, _| needed.contains(object));
            self.checkpoint = Some((self.step.snapshot(), files));
            self.deltas.clear();
        }
        if let Some(work) = self.step.work() {
            self.works.push((work, Given::Start, vec![]));
        }
    }

    /// Work goes on by so many steps, each time on what was begun last.
    pub fn work(&mut self, steps: usize) {
        for _ in 0..steps {
            let Some((mut work, given, mut written)) = self.works.pop() else { return };
            let given = match work.step(given).unwrap() {
                Need::Read(reads) => Given::Read(self.read(&reads)),
                Need::Write(bytes) => {
                    self.written += 1;
                    let object = format!("runs/{}", self.written);
                    self.pairs_written += verify(&object, &bytes).unwrap().keys;
                    self.files.insert(object.clone(), bytes);
                    written.push(object.clone());
                    Given::Written(object.into())
                }
                Need::Done => {
                    self.step.adopt(work).unwrap();
                    continue;
                }
            };
            self.works.push((work, given, written));
        }
    }

    /// All work that is due, to the end.
    pub fn settle(&mut self, watermark_ms: i64) {
        for _ in 0..1000 {
            self.seal(watermark_ms, false);
            if self.works.is_empty() {
                return;
            }
            self.work(1_000_000);
        }
        panic!("work without an end");
    }

    /// From the last checkpoint and the deltas after it. Work under way is lost.
    pub fn restart(&mut self) {
        self.works.clear();
        self.restarts += 1;
        let shards = self.shards[self.restarts % self.shards.len()];
        self.step = windowed(self.late).with_sizes(self.sizes).with_shards(shards).with_job_rows_min(1);
        if let Some((snapshot, _)) = &self.checkpoint {
            let reads = self.step.restore(snapshot).unwrap();
            let answers = self.read(&reads);
            answers.iter().for_each(|bytes| self.step.open(bytes).unwrap());
        }
        self.deltas.iter().for_each(|delta| self.step.apply(delta).unwrap());
    }

    fn pairs_of_runs(&self) -> Vec<(u64, Vec<Pair>)> {
        let pairs = |run: &crate::dedup::spilled::runs::Run| {
            let mut pairs = vec![];
            for part in run.parts.iter().flatten() {
                let bytes = part.read(0..part.blocks()).map(|read| self.read(&[read]).remove(0));
                part.each(0..part.blocks(), &bytes.unwrap(), |pair| pairs.push(pair)).unwrap();
            }
            (run.id, pairs)
        };
        self.step.runs.iter().map(pairs).collect()
    }

    /// Every kept record, wherever it lies.
    pub fn contents(&self) -> BTreeSet<(u128, i64)> {
        let all: Vec<_> = self.pairs().collect();
        let contents: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(all.len(), contents.len(), "each is held and counted once");
        contents
    }

    /// Every kept record that is known beyond the history.
    pub fn aside(&self) -> BTreeSet<(u128, i64)> {
        let all: Vec<_> =
            self.step.shards.asides().flat_map(|aside| aside.sets()).flat_map(|kept| kept.pairs()).collect();
        let aside: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(all.len(), aside.len(), "each is set aside once");
        aside
    }

    fn pairs(&self) -> impl Iterator<Item = (u128, i64)> {
        let floor = self.step.watermark.map_or(i64::MIN, crate::dedup::window::floor);
        let spilled = self.pairs_of_runs().into_iter().flat_map(move |(id, pairs)| {
            let live = move |p: &Pair| p.bucket >= floor && !self.step.runs.is_dead(id, p.hash(), p.bucket);
            pairs.into_iter().filter(live).map(|p| (p.hash(), p.bucket))
        });
        self.step.shards.sets().flat_map(|kept| kept.pairs()).chain(spilled)
    }

    /// Pairs that count as dead in a run that does not hold them, by run: a filter's errors while deltas were applied, or while
    /// records without a time got one.
    pub fn phantoms(&self) -> Vec<u64> {
        self.of_runs(|_, is_dead, is_there| is_dead && !is_there)
    }

    /// Pairs that the step's count of entries leaves out: those that phantoms are taken off. A run counts no fewer than none, so
    /// where all else is dead a phantom takes nothing off.
    pub fn left_out(&self) -> u64 {
        let floor = self.step.watermark.map_or(i64::MIN, crate::dedup::window::floor);
        let live = self.of_runs(|bucket, is_dead, is_there| is_there && !is_dead && bucket >= floor);
        self.phantoms().into_iter().zip(live).map(|(phantoms, live)| phantoms.min(live)).sum()
    }

    /// For each run, of how many pairs this is true: it is given the bucket, whether the pair is dead and whether the run holds it.
    fn of_runs(&self, counts: impl Fn(i64, bool, bool) -> bool) -> Vec<u64> {
        let of_run = |(run, (_, pairs)): (&crate::dedup::spilled::runs::Run, (u64, Vec<Pair>))| {
            let held: BTreeSet<_> = pairs.iter().map(|pair| (pair.hash(), pair.bucket)).collect();
            let dead: BTreeSet<_> =
                run.dead.iter().flat_map(|(bucket, of)| of.iter().map(|hash| (*hash, *bucket))).collect();
            let is_counted = |pair: &&(u128, i64)| counts(pair.1, dead.contains(pair), held.contains(pair));
            held.union(&dead).filter(is_counted).count() as u64
        };
        self.step.runs.iter().zip(self.pairs_of_runs()).map(of_run).collect()
    }
}
