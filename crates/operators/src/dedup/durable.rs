//! What makes the step's history durable: deltas, snapshots, and their way back.
//!
//! Owns the step as a [`State`]: what a seal writes, what a snapshot holds, in which order both are read, and when spilled keys change
//! hands with the work on files. Does not own the decision about a record (`decide`) nor bytes ([`state`](super::state)).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Batch, Duplicates, KeptEnum, OperatorError, Probed, SeenKeys, Spares, State, StateError, StateFile,
    StateRead, StateWork,
};

use super::aside::Aside;
use super::kept::{Kept, Removed};
use super::places::Bucket;
use super::spilled::part::{Pair, Part};
use super::spilled::runs::{Dead, Found, Run, Runs};
use super::spilled::work::Work;
use super::state::{self, Disordered, Kind, Writer};
use super::window::{UNPLACED, floor};
use super::{CROWDED, Dedup, Opening, Spill, TENDED_PER_SEAL};

impl Dedup {
    /// Writes the delta of the seal under way.
    fn delta(&mut self, watermark: Option<i64>, holds_stale: bool) -> Bytes {
        let floor = watermark.filter(|_| !holds_stale).map_or(i64::MIN, floor);
        // What this very seal expires need not be written, unless it is set aside. A pair that was forgotten and added once more is in both lists, in this order.
        let buckets = self.shards.sets().flat_map(|kept| kept.buckets().map(move |bucket| (kept, bucket)));
        let groups: Vec<(&Kept, Bucket, usize)> = buckets
            .filter(|(_, bucket)| bucket.bucket >= floor || bucket.bucket == UNPLACED)
            .map(|(kept, bucket)| (kept, bucket, kept.fresh(bucket.place)))
            .filter(|(.., count)| *count > 0)
            .collect();
        if groups.is_empty() && self.forgotten.is_empty() && watermark == self.watermark {
            return Bytes::new();
        }
        let forgotten = self.forgotten.values().map(Vec::len).sum::<usize>();
        let added = groups.iter().map(|(.., count)| count).sum::<usize>();
        let entries = added + forgotten + groups.len() + self.forgotten.len();
        let mut to = Writer::new(Kind::Delta, &self.shape, watermark, entries, &self.spares);
        to.groups(self.forgotten.len());
        for (bucket, hashes) in &self.forgotten {
            to.group(*bucket, hashes.len());
            hashes.iter().for_each(|hash| to.hash(*hash));
        }
        to.groups(groups.len());
        for (kept, Bucket { bucket, place, .. }, count) in groups {
            to.group(bucket, count);
            kept.fresh_bytes(place).for_each(|bytes| to.hashes(bytes));
        }
        to.finish()
    }

    /// Allots the files of the runs that a snapshot names.
    fn begin_opening(&mut self, runs: Vec<state::RunGroup<'_>>) -> Vec<StateRead> {
        let mut reads = Vec::new();
        for run in runs {
            let files = VecDeque::from(run.files);
            reads.extend(files.iter().map(|file| StateRead {
                object: file.object.as_str().into(),
                offset: file.footer_at,
                len: u32::try_from(file.len - file.footer_at).expect("bounded when it was read"),
            }));
            let dead = run.dead.iter().map(|group| (group.bucket, group.hashes().collect())).collect();
            let parts = vec![None; 1 << run.part_bits];
            self.opening.push_back(Opening { part_bits: run.part_bits, dead, files, parts });
        }
        self.finish_opening();
        reads
    }

    /// Puts the runs whose files are all open into use.
    fn finish_opening(&mut self) {
        while self.opening.front().is_some_and(|run| run.files.is_empty()) {
            let run = self.opening.pop_front().expect("just checked");
            self.runs.add(run.part_bits, run.parts, run.dead);
        }
    }

    /// Takes over what was made, if no batch is between its phases or with jobs: such a batch has asked the runs as they were.
    pub(super) fn take_over(&mut self) {
        if Arc::strong_count(&self.between) > 1 || self.shards.are_out() {
            return;
        }
        for made in std::mem::take(&mut self.made) {
            let mut dead = Dead::new();
            if made.replaces.is_empty() {
                self.shards.sets_mut().for_each(Kept::spilled);
                dead = self.spilling.take().map(|spilling| spilling.dead).unwrap_or_default();
            } else {
                self.merging = None;
            }
            for (id, before) in made.replaces {
                // A run that has expired meanwhile has nothing that counts any more.
                for (bucket, hashes) in self.runs.take(id).map(|run| run.dead).unwrap_or_default() {
                    let since = |hash: &u128| before.get(&bucket).is_none_or(|old| !old.contains(hash));
                    let since: Vec<u128> = hashes.into_iter().filter(since).collect();
                    if !since.is_empty() {
                        dead.entry(bucket).or_default().extend(since);
                    }
                }
            }
            self.runs.add(made.part_bits, made.parts, dead);
        }
    }

    /// Takes one pair out, wherever it is, and remembers to say so.
    fn remove(&mut self, hash: u128, bucket: i64, found: &[Found]) {
        let open = self.shards.remove(hash, bucket);
        if let (Removed::Copied, Some(spilling)) = (open, &mut self.spilling) {
            spilling.dead.entry(bucket).or_default().insert(hash);
        }
        let mut was_kept = open != Removed::No;
        for found in found.iter().filter(|f| f.bucket == bucket) {
            was_kept |= self.runs.kill(found.run, hash, bucket);
        }
        if was_kept {
            self.forgotten.entry(bucket).or_default().push(hash);
        }
    }
}

impl State for Dedup {
    fn shape(&self) -> String {
        self.shape.words()
    }

    fn enums(&self) -> Vec<KeptEnum> {
        self.keyer.columns().iter().flat_map(|column| column.kept_enums.clone()).collect()
    }

    fn loss(&self) -> &str {
        "the keys that it has seen: a duplicate of an earlier row is no longer recognised, and is written a second time"
    }

    fn seal(&mut self, watermark_ms: i64) -> Bytes {
        assert!(!self.shards.are_out(), "a batch that was divided is joined before a seal");
        self.take_over();
        // A watermark that goes back is ignored: the keys that it freed are gone.
        let watermark = self.watermark.max(self.window.watermark(watermark_ms));
        let is_out_of_order = self.shards.take_disorder() || self.disorder.is_some();
        let holds_stale = is_out_of_order || watermark.is_some_and(|to| self.shows_disorder(to, false));
        let delta = self.delta(watermark, holds_stale);
        self.forgotten.clear();
        self.advance(watermark, holds_stale);
        // What is spilled is fixed right after a seal: nothing that the next delta will name is among it.
        if self.spilling.is_none() && self.is_over(1) {
            let pairs = self.shards.spill(self.sizes.open_keys_max / 2) as usize;
            let spilling = || Spill { pairs: Vec::with_capacity(pairs), count: pairs, ..Spill::default() };
            self.spilling = (pairs > 0).then(spilling);
        }
        let tended = if self.is_over(CROWDED) { usize::MAX } else { TENDED_PER_SEAL };
        self.shards.clean(tended);
        self.gather(tended);
        self.shards.sets_mut().for_each(Kept::shrink);
        delta
    }

    /// As of the last seal: so it must be called right after one, before the next batch is finished.
    ///
    /// # Panics
    /// When something changed since the last seal.
    fn snapshot(&self) -> Bytes {
        assert!(!self.shards.are_out(), "a batch that was divided is joined before a snapshot");
        assert!(
            !self.shards.sets().any(Kept::has_fresh) && self.forgotten.is_empty(),
            "a snapshot is taken right after a seal: it must hold no key that the journal does not"
        );
        let keys = usize::try_from(self.shards.len()).expect("keys in memory");
        let buckets = self.shards.sets().flat_map(|kept| kept.buckets().map(move |bucket| (kept, bucket)));
        let groups: Vec<(&Kept, Bucket)> = buckets.filter(|(_, bucket)| bucket.kept > 0).collect();
        let aside = usize::try_from(self.shards.aside_len()).expect("keys in memory");
        let (entries, memory) = (keys + groups.len() + aside, Spares::default());
        let mut to = match self.disorder {
            None if self.runs.is_empty() => {
                Writer::new(Kind::Snapshot, &self.shape, self.watermark, entries, &memory)
            }
            None => Writer::with_runs(&self.shape, self.watermark, entries, &memory),
            Some(_) => Writer::with_disorder(&self.shape, self.watermark, entries, &memory),
        };
        to.groups(0);
        to.groups(groups.len());
        for (set, Bucket { bucket, place, kept, .. }) in groups {
            to.group(bucket, kept as usize);
            set.bytes(place).for_each(|bytes| to.hashes(bytes));
        }
        if !self.runs.is_empty() || self.disorder.is_some() {
            to.runs(&self.runs);
        }
        if let Some(disorder) = self.disorder {
            to.disorder(disorder);
            write_aside(&mut to, self.shards.asides().filter_map(Aside::old));
            write_aside(&mut to, self.shards.asides().filter_map(Aside::young));
        }
        to.finish()
    }

    fn files(&self) -> Vec<StateFile> {
        let file = |part: &Arc<Part>| StateFile { object: part.object.clone(), len: part.len };
        // Those that wait to be taken over are in no snapshot yet, and those that are being merged may have expired; neither must
        // be collected.
        let waiting = self.made.iter().flat_map(|made| made.parts.iter().flatten());
        let mut files: Vec<StateFile> =
            self.runs.files().chain(waiting).chain(self.merging.iter().flatten()).map(file).collect();
        files.sort_by(|a, b| a.object.cmp(&b.object));
        files.dedup();
        files
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        let parsed = state::parse(snapshot, Kind::Snapshot, &self.shape)?;
        self.shards.restart(parsed.added.iter().map(|group| group.hashes().count()).sum());
        self.divided = None;
        self.runs = Runs::default();
        (self.spilling, self.merging) = (None, None);
        self.made.clear();
        self.opening.clear();
        self.forgotten.clear();
        self.watermark = parsed.watermark;
        parsed.added.iter().for_each(|group| self.shards.add_all(group.hashes(), group.bucket));
        self.shards.sets_mut().for_each(Kept::note);
        self.disorder = parsed.disorder.as_ref().map(|disordered| disordered.disorder);
        if let Some(Disordered { old, young, .. }) = &parsed.disorder {
            old.iter().for_each(|group| self.shards.add_aside(group.hashes(), group.bucket));
            self.shards.asides_mut().for_each(Aside::turn);
            young.iter().for_each(|group| self.shards.add_aside(group.hashes(), group.bucket));
        }
        if let Some(floor) = self.watermark.map(floor) {
            self.runs.expire(floor);
        }
        Ok(self.begin_opening(parsed.runs))
    }

    fn open(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let run = self.opening.front_mut();
        let Some((run, file)) = run.and_then(|run| run.files.pop_front().map(|file| (run, file))) else {
            return Err(StateError::Damaged("more files were read than the snapshot names".to_owned()));
        };
        let part = Part::open(&file.object, file.footer_at, file.sum, bytes)?;
        let (part_bits, number) = part.place();
        if part_bits != run.part_bits || run.parts[number as usize].is_some() {
            let what =
                format!("`{}` is part `{number}` of 2^{part_bits}, which its run does not lack", file.object);
            return Err(StateError::Damaged(what));
        }
        run.parts[number as usize] = Some(Arc::new(part));
        self.finish_opening();
        Ok(())
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        if delta.is_empty() {
            return Ok(());
        }
        let parsed = state::parse(delta, Kind::Delta, &self.shape)?;
        for group in &parsed.forgotten {
            group.hashes().for_each(|hash| {
                self.shards.remove(hash, group.bucket);
                self.runs.kill_anywhere(hash, group.bucket);
            });
        }
        parsed.added.iter().for_each(|group| self.shards.add_all(group.hashes(), group.bucket));
        // What the delta names below the floor was set aside when it was written.
        self.advance(self.watermark.max(parsed.watermark), true);
        Ok(())
    }

    fn work(&mut self) -> Option<Box<dyn StateWork>> {
        self.take_over();
        if let Some(spilling) = self.spilling.as_mut().filter(|c| c.is_gathered && !c.is_out) {
            spilling.is_out = true;
            return Some(Box::new(Work::spill(std::mem::take(&mut spilling.pairs), self.sizes)));
        }
        if self.merging.is_some() {
            return None;
        }
        let chosen = self.runs.choose(&self.sizes)?;
        let runs: Vec<Run> = self.runs.iter().filter(|run| chosen.contains(&run.id)).cloned().collect();
        self.merging = Some(runs.iter().flat_map(|run| run.parts.iter().flatten().cloned()).collect());
        Some(Box::new(Work::merge(runs, self.watermark.map_or(i64::MIN, floor), self.sizes)))
    }

    fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        let made = work.into_any().downcast::<Work>().ok().and_then(|work| work.made());
        self.made.push(made.ok_or_else(|| {
            StateError::Damaged("work came back that is not this step's, or not done".to_owned())
        })?);
        self.take_over();
        Ok(())
    }

    fn is_crowded(&self) -> bool {
        self.spilling.as_ref().is_some_and(|spilling| spilling.is_out) && self.is_over(CROWDED)
    }

    fn entries(&self) -> u64 {
        self.shards.len() + self.shards.aside_len() + self.runs.keys()
    }

    fn spilled_entries(&self) -> u64 {
        self.runs.keys()
    }

    fn memory_bytes(&self) -> u64 {
        let waiting =
            self.forgotten.values().map(|hashes| hashes.capacity() * size_of::<u128>()).sum::<usize>()
                + self.spare.iter().map(|hashes| hashes.capacity() * size_of::<u128>()).sum::<usize>()
                + self.buckets.capacity() * size_of::<i64>()
                + self.dropped.memory_bytes()
                + self.spilling.as_ref().map_or(0, |spilling| spilling.count * size_of::<Pair>());
        (self.shards.memory_bytes() + self.runs.memory_bytes() + waiting) as u64
    }
}

impl SeenKeys for Dedup {
    /// Takes the time of a row as [`finish`](Operator::finish) did. Of a row without a time, the latest record of its key is
    /// forgotten.
    fn forget(&mut self, rows: Probed, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        let (batch, hashes, found) = self.between(rows, answers)?;
        for (row, (hash, time_ms)) in hashes.iter().zip(&batch.times_ms).enumerate() {
            let own: Vec<Found> = found.iter().filter(|f| f.row as usize == row).copied().collect();
            let mut bucket = self.window.place(*time_ms, self.watermark);
            if *time_ms == TIME_UNKNOWN_MS {
                // A row that the server refused comes back without the time of its record, which is rather ahead of the
                // last seal's watermark than behind it.
                let spilled =
                    own.iter().filter(|f| !self.runs.is_dead(f.run, *hash, f.bucket)).map(|f| f.bucket).max();
                bucket = self.shards.latest(*hash).max(spilled).unwrap_or(bucket);
            }
            self.remove(*hash, bucket, &own);
        }
        self.give_back(hashes);
        Ok(())
    }

    fn duplicates_of(&mut self, rows: &Batch) -> Result<Duplicates, OperatorError> {
        let hashes = self.hashes(rows)?;
        let mut duplicates = Duplicates::default();
        for (hash, time_ms) in hashes.iter().zip(&rows.times_ms) {
            let bucket = self.window.place(*time_ms, self.watermark);
            self.dropped.take(*hash, bucket, &mut duplicates);
        }
        self.give_back(hashes);
        Ok(duplicates)
    }
}

/// Writes one generation of what is set aside.
fn write_aside<'a>(to: &mut Writer, sets: impl Iterator<Item = &'a Kept>) {
    let buckets = sets.flat_map(|kept| kept.buckets().map(move |bucket| (kept, bucket)));
    let groups: Vec<(&Kept, Bucket)> = buckets.filter(|(_, bucket)| bucket.kept > 0).collect();
    to.groups(groups.len());
    for (set, Bucket { bucket, place, kept, .. }) in groups {
        to.group(bucket, kept as usize);
        set.bytes(place).for_each(|bytes| to.hashes(bytes));
    }
}
