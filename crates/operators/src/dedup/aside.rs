//! History that is kept beyond the window while the input is out of order.
//!
//! Owns the sets of what was set aside, and the rule when that happens and ends. Does not own the policy for late records (`decide`),
//! nor the set of the window itself (`kept`).
//!
//! In an ordered stream nothing is set aside: what the watermark has passed by more than the window is freed, as nothing near it will
//! come. A seal *shows disorder* if a late record was kept since the seal before, or if records below the floor were kept after
//! newer ones. From then on what the watermark frees in memory is set aside instead, so that late records still find the kept
//! records of their key. It ends when the watermark has moved by [`HOLD`] buckets without disorder.
//!
//! | what                   | rule                                                                                        |
//! |------------------------|---------------------------------------------------------------------------------------------|
//! | who asks               | late records only: nothing else can be near a bucket below the floor                        |
//! | bound                  | two generations, each of an eighth of the keys that the step has memory for                  |
//! | when the younger is full | it becomes the older one, which is freed; of one seal's buckets the newest go first        |
//! | files                  | spilled keys are not set aside: they are freed with their bucket                             |
//!
//! All of it follows from deltas (what a seal added, and its watermark), so a replay sets aside the same; a snapshot holds both sets.

use super::kept::{Kept, Removed};
use super::window::{SLACK, SPAN};

/// Buckets of the watermark's way without disorder after which nothing is set aside any more: twice the history that is kept anyway.
pub const HOLD: i64 = 2 * (SPAN + SLACK) as i64;

/// One in so many of the keys in memory fits into a generation.
pub const SHARE: u64 = 8;

/// That the input is out of order, as seals have shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disorder {
    /// The watermark of the newest seal that showed it.
    pub seen: i64,
}

/// The sets of one shard. They take memory only while there is disorder.
#[derive(Debug, Default)]
pub struct Aside {
    young: Option<Box<Kept>>,
    old: Option<Box<Kept>>,
}

impl Aside {
    /// Whether nothing was set aside.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.young.is_none() && self.old.is_none()
    }

    /// Whether a record of the key is near `bucket`.
    pub fn has_near(&self, hash: u128, bucket: i64) -> bool {
        self.sets().any(|kept| kept.has_near(hash, bucket))
    }

    /// The latest bucket of a key.
    pub fn latest(&self, hash: u128) -> Option<i64> {
        self.sets().filter_map(|kept| kept.latest(hash)).max()
    }

    /// Adds records of one bucket to the younger generation.
    pub fn add(&mut self, hashes: impl Iterator<Item = u128>, bucket: i64) {
        self.young.get_or_insert_with(|| Box::new(Kept::new())).add_all(hashes, bucket);
    }

    /// Takes a pair out; false if it was not there.
    pub fn remove(&mut self, hash: u128, bucket: i64) -> bool {
        let sets = [&mut self.young, &mut self.old].into_iter().flatten();
        sets.fold(false, |was_there, kept| (kept.remove(hash, bucket) != Removed::No) | was_there)
    }

    /// The younger generation becomes the older one, which is freed.
    pub fn turn(&mut self) {
        self.old = self.young.take();
    }

    /// Frees both.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Pairs in the younger generation.
    pub fn young_len(&self) -> u64 {
        self.young.as_ref().map_or(0, |kept| kept.len())
    }

    /// Both sets: the older one, then the younger.
    pub fn sets(&self) -> impl Iterator<Item = &Kept> {
        self.old().into_iter().chain(self.young())
    }

    /// The older generation.
    pub fn old(&self) -> Option<&Kept> {
        self.old.as_deref()
    }

    /// The younger generation.
    pub fn young(&self) -> Option<&Kept> {
        self.young.as_deref()
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.sets().map(Kept::memory_bytes).sum()
    }
}
