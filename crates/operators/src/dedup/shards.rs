//! The kept records in memory, dealt out to shards by key.
//!
//! Owns the shards, the jobs in which they decide, and what is asked of all of them at once. Does not own how rows are dealt out
//! (`deal`), the decision about a row (`decide`), nor the set of a shard (`kept`).
//!
//! All records of a key are in one shard, so shards may decide at the same time, each its rows of a batch in order, and decide
//! together what one alone would. How many there are is no part of the state: deltas and snapshots hold pairs, which are dealt out again when they are read.
//!
//! With one shard nothing is dealt out.

use std::collections::BTreeMap;
use std::sync::Arc;

use dataflow::{Job, JobDone};

use super::aside::Aside;
use super::deal::{Dealt, SHARDS_MAX, shard_of};
use super::decide::{Dropped, Rules, Shard};
use super::kept::{Kept, Removed};
use super::places::Place;
use super::spilled::part::Pair;
use super::spilled::runs::Found;

/// Pairs that are dealt out together while a state is read.
const READ_TOGETHER: usize = 16_384;

/// All keys that are kept in memory, as 1 to [`SHARDS_MAX`] shards.
pub(super) struct Shards {
    /// By number; none while they are with jobs.
    all: Vec<Shard>,
    count: usize,
    /// Memory to use again.
    spare: Option<Dealt>,
}

/// What a job hands back: numbers, shards, and what each has dropped.
type Decided = Vec<(usize, Shard, Dropped)>;

impl Shards {
    /// So many, empty; 1 to [`SHARDS_MAX`] of them.
    pub(super) fn new(count: usize) -> Self {
        let count = count.clamp(1, SHARDS_MAX);
        Self { all: (0..count).map(|_| Shard::new()).collect(), count, spare: None }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// True while they are with jobs: nothing can be asked of them.
    pub(super) fn are_out(&self) -> bool {
        self.all.is_empty()
    }

    /// The only shard, if there is but one.
    pub(super) fn only(&mut self) -> Option<&mut Shard> {
        match &mut *self.all {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The sets of all shards.
    pub(super) fn sets(&self) -> impl Iterator<Item = &Kept> {
        self.all.iter().map(|shard| &shard.kept)
    }

    /// What all shards have set aside.
    pub(super) fn asides(&self) -> impl Iterator<Item = &Aside> {
        self.all.iter().map(|shard| &shard.aside)
    }

    /// The same to change it.
    pub(super) fn asides_mut(&mut self) -> impl Iterator<Item = &mut Aside> {
        self.all.iter_mut().map(|shard| &mut shard.aside)
    }

    /// Sets aside what lies in memory below `floor`, the newest buckets first, until the younger generations hold `keys_max` pairs: then they
    /// become the older ones, once.
    pub(super) fn set_aside(&mut self, floor: i64, keys_max: u64) {
        let mut buckets: BTreeMap<i64, Vec<(usize, Place)>> = BTreeMap::new();
        for (number, shard) in self.all.iter().enumerate() {
            let over = shard.kept.buckets().filter(|bucket| bucket.bucket < floor && bucket.kept > 0);
            over.for_each(|bucket| buckets.entry(bucket.bucket).or_default().push((number, bucket.place)));
        }
        let mut has_turned = false;
        // Whole buckets, and by the pairs of all shards: how many shards there are must not decide what is set aside.
        for (bucket, places) in buckets.into_iter().rev() {
            let pairs: u64 = places.iter().map(|(number, place)| self.all[*number].kept.count(*place)).sum();
            let is_full =
                |all: &[Shard]| all.iter().map(|s| s.aside.young_len()).sum::<u64>() + pairs > keys_max;
            if is_full(&self.all) && !std::mem::replace(&mut has_turned, true) {
                self.asides_mut().for_each(Aside::turn);
            }
            if is_full(&self.all) {
                return;
            }
            for (number, place) in places {
                let Shard { kept, aside, .. } = &mut self.all[number];
                aside.add(kept.hashes(place), bucket);
            }
        }
    }

    /// Adds pairs of one bucket to what is set aside, as a snapshot says.
    pub(super) fn add_aside(&mut self, hashes: impl Iterator<Item = u128>, bucket: i64) {
        let mut dealt: Vec<Vec<u128>> = vec![Vec::new(); self.count];
        hashes.for_each(|hash| dealt[shard_of(hash, self.count)].push(hash));
        for (aside, own) in self.asides_mut().zip(dealt).filter(|(_, own)| !own.is_empty()) {
            aside.add(own.into_iter(), bucket);
        }
    }

    /// Whether records came after ones more than the history newer, since this was asked last.
    pub(super) fn take_disorder(&mut self) -> bool {
        self.all.iter_mut().fold(false, |any, shard| shard.order.take() | any)
    }

    /// The same to change them.
    pub(super) fn sets_mut(&mut self) -> impl Iterator<Item = &mut Kept> {
        self.all.iter_mut().map(|shard| &mut shard.kept)
    }

    /// Takes a pair out of the set.
    pub(super) fn remove(&mut self, hash: u128, bucket: i64) -> Removed {
        let shard = &mut self.all[shard_of(hash, self.count)];
        let was_aside = shard.aside.remove(hash, bucket);
        match shard.kept.remove(hash, bucket) {
            Removed::No if was_aside => Removed::Yes,
            removed => removed,
        }
    }

    /// The latest bucket in which a key was kept.
    pub(super) fn latest(&self, hash: u128) -> Option<i64> {
        let shard = &self.all[shard_of(hash, self.count)];
        shard.kept.latest(hash).or_else(|| shard.aside.latest(hash))
    }

    /// Pairs in memory.
    pub(super) fn len(&self) -> u64 {
        self.sets().map(Kept::len).sum()
    }

    /// Pairs that are set aside.
    pub(super) fn aside_len(&self) -> u64 {
        self.asides().flat_map(Aside::sets).map(Kept::len).sum()
    }

    /// See [`Kept::weight`].
    pub(super) fn weight(&self) -> u64 {
        self.sets().map(Kept::weight).sum()
    }

    /// Begins to spill the earliest buckets, until the others weigh at most `keep`. The number of pairs to spill.
    pub(super) fn spill(&mut self, keep: u64) -> u64 {
        let each = keep / self.count as u64;
        self.sets_mut().map(|kept| kept.spill(each)).sum()
    }

    /// Copies pairs being spilled, those of one shard after those of the other, until about `hashes` were copied. True once all are.
    pub(super) fn gather(&mut self, hashes: usize, to: &mut Vec<Pair>) -> bool {
        let end = to.len().saturating_add(hashes);
        self.sets_mut().all(|kept| kept.gather(end.saturating_sub(to.len()), to))
    }

    /// Goes on clearing away what is over in every shard.
    pub(super) fn clean(&mut self, hashes: usize) {
        let each = hashes.div_ceil(self.count);
        self.sets_mut().for_each(|kept| kept.clean(each));
    }

    /// Moves every pair in bucket `from` to bucket `to`; gives their hashes.
    pub(super) fn move_bucket(&mut self, from: i64, to: i64) -> Vec<u128> {
        self.sets_mut().flat_map(|kept| kept.move_bucket(from, to)).collect()
    }

    /// Starts again with room for so many pairs.
    pub(super) fn restart(&mut self, pairs: usize) {
        *self = Self::new(self.count);
        let each = pairs / self.count;
        self.sets_mut().for_each(|kept| kept.reserve(each));
    }

    /// Adds the pairs of one bucket that are not there.
    ///
    /// # Panics
    /// While the shards are with jobs: the pairs would be lost.
    pub(super) fn add_all(&mut self, mut hashes: impl Iterator<Item = u128>, bucket: i64) {
        assert!(!self.are_out(), "a batch that was divided is joined before a state is read");
        if let Some(only) = self.only() {
            return only.kept.add_all(hashes, bucket);
        }
        let mut dealt: Vec<Vec<u128>> = vec![Vec::new(); self.count];
        let mut is_more = true;
        while is_more {
            dealt.iter_mut().for_each(Vec::clear);
            let together = hashes.by_ref().take(READ_TOGETHER);
            is_more = together.map(|hash| dealt[shard_of(hash, self.count)].push(hash)).count() > 0;
            for (kept, own) in self.sets_mut().zip(&dealt) {
                kept.add_all(own.iter().copied(), bucket);
            }
        }
    }

    /// Deals out the rows of a batch.
    pub(super) fn deal(&mut self, hashes: &[u128], times_ms: &[i64], found: &[Found]) -> Dealt {
        let mut dealt = self.spare.take().unwrap_or_default();
        dealt.fill(self.count, hashes, times_ms, found);
        dealt
    }

    /// Decides here, one shard after the other; what each has dropped.
    pub(super) fn decide(&mut self, rules: &Rules, dealt: &Dealt) -> Vec<Dropped> {
        let shards = self.all.iter_mut().enumerate();
        shards.map(|(number, shard)| shard.decide(rules, dealt.rows(number))).collect()
    }

    /// Hands the shards out with so many jobs that decide.
    pub(super) fn hand_out(&mut self, rules: Rules, dealt: &Arc<Dealt>, jobs: usize) -> Vec<Job> {
        let mut all = std::mem::take(&mut self.all).into_iter().enumerate();
        let ends = (1..=jobs).map(|job| self.count * job / jobs);
        let job = |end: usize| -> Job {
            let left = all.len() + end - self.count;
            let (own, dealt): (Vec<_>, _) = (all.by_ref().take(left).collect(), dealt.clone());
            Box::new(move || {
                let decide = |(number, mut shard): (usize, Shard)| {
                    let dropped = shard.decide(&rules, dealt.rows(number));
                    (number, shard, dropped)
                };
                let decided: Decided = own.into_iter().map(decide).collect();
                Box::new(decided)
            })
        };
        ends.map(job).collect()
    }

    /// Takes the shards back from the jobs, which come in the order in which they were given out. What each has dropped; `None` if shards
    /// are missing, and then
    /// they stay out.
    pub(super) fn take_back(&mut self, done: Vec<JobDone>) -> Option<Vec<Dropped>> {
        let (mut all, mut all_dropped) = (Vec::with_capacity(self.count), Vec::with_capacity(self.count));
        for decided in done {
            for (number, shard, dropped) in *decided.downcast::<Decided>().ok()? {
                // In another place it would be asked for keys that it has not.
                (number == all.len()).then(|| all.push(shard))?;
                all_dropped.push(dropped);
            }
        }
        (all.len() == self.count && self.are_out()).then(|| {
            self.all = all;
            all_dropped
        })
    }

    /// Rows among the `dropped` that are duplicates of records in memory.
    pub(super) fn known(&self, dealt: &Dealt, dropped: &Dropped) -> Vec<usize> {
        let count = self.all.iter().map(|shard| shard.known.len()).sum::<usize>();
        if count == dropped.rows.len() {
            return dropped.rows.clone();
        }
        dealt.in_order(self.all.iter().flat_map(|shard| &shard.known).map(|(.., row)| *row as usize))
    }

    /// Takes back the memory of a batch that is done with.
    pub(super) fn give_back(&mut self, dealt: Dealt) {
        self.spare = Some(dealt);
    }

    /// Memory held in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.all.iter().map(|shard| shard.memory_bytes()).sum::<usize>()
            + self.spare.as_ref().map_or(0, Dealt::memory_bytes)
    }
}
