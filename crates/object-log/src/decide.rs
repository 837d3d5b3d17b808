//! The decisions of the log: pure functions from facts already read to what is done next.
//!
//! Owns the answers to these questions. Does not own the facts or what is done: the owner (`owner`), the collector (`collect`) and a
//! partition's reader and swaps (`partition`) do.
//!
//! | question                                             | function        | invariants |
//! |------------------------------------------------------|-----------------|------------|
//! | may this append come now, or is it in the log?       | [`admit`]       | L3 L5      |
//! | is the open batch an object now?                     | [`cut`]         |            |
//! | is it time to commit?                                | [`commit_in`]   |            |
//! | a swap was refused or not answered: what stands?     | [`standing`]    | L4 L5      |
//! | which part of the manifest leaves the root?          | [`seal`]        | L8         |
//! | up to where may records be dropped?                  | [`low`]         | L7         |
//! | can no owner commit this object any more?            | [`is_orphan`]   | L6         |

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::names::{QueueId, Written};
use crate::root::{Claim, LEVEL_MAX, LEVELS_MAX, Root};
use crate::segment::{FANOUT, Segment, Span};

/// What to do with an append that names its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// It is the next one.
    Accept,
    /// It is in the log: its first answer was lost.
    Known,
    /// It is on its way into the log: answer this one with the first.
    OnItsWay,
    /// It is not the next one.
    Gap {
        /// The next one.
        expected: u64,
    },
    /// Nothing is known of the producer, and this is not its first append: it cannot be known whether it is in the log.
    Unknown,
}

/// Whether an append of these ordinals may come: one, or where they number records, one for each. `committed`: the producer's newest
/// ordinal in the log; `last`: its newest that was accepted since, if any. An append of which only a part is known does not come.
pub fn admit(committed: Option<u64>, last: Option<u64>, ordinals: RangeInclusive<u64>) -> Admit {
    let newest = last.or(committed);
    let (from, to) = ordinals.into_inner();
    match (committed, newest) {
        (Some(committed), _) if to <= committed => Admit::Known,
        (_, Some(newest)) if to <= newest => Admit::OnItsWay,
        (_, Some(newest)) if from == newest + 1 => Admit::Accept,
        (_, Some(newest)) => Admit::Gap { expected: newest + 1 },
        (_, None) if from == 0 => Admit::Accept,
        (_, None) => Admit::Unknown,
    }
}

/// What is known when the open batch may be cut.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Bytes of it as they will be stored, at the most.
    pub bytes: usize,
    /// Raw bytes in it.
    pub raw_bytes: usize,
    /// Age of its oldest append.
    pub age: Duration,
    /// Objects that are being encoded or uploaded.
    pub uploads: usize,
    /// Objects that are uploaded and not committed.
    pub uncommitted: usize,
    /// In how long the next commit may begin ([`commit_in`]).
    pub commit_in: Duration,
    /// How long objects took of late from their cut until they were uploaded.
    pub upload_time: Duration,
}

/// How long appends wait for others, and how large an object gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linger {
    /// An object is cut at so many bytes as they are stored.
    pub object_bytes: usize,
    /// And at so many raw bytes.
    pub raw_bytes: usize,
    /// Nothing waits for less than this, so that appends of one moment share an object.
    pub min: Duration,
    /// The longest wait before an upload, but for what would then only wait for its commit; and the time between two commits under load.
    pub max: Duration,
    /// Objects that are encoded or uploaded at a time.
    pub uploads_max: usize,
}

impl Open {
    /// Whether it is as large as an object gets.
    pub fn is_full(&self, linger: &Linger) -> bool {
        self.bytes >= linger.object_bytes || self.raw_bytes >= linger.raw_bytes
    }
}

/// In how long the open batch is to be cut; zero is now, `None` when an upload ends. While nothing is on its way the batch goes after [`Linger::min`], while others are it grows, up
/// to [`Linger::max`]. In both cases it is cut no earlier than necessary for its upload to end when the next commit may begin. An object that is there before only waits, and what
/// comes meanwhile waits for the commit after that.
pub fn cut(open: &Open, linger: &Linger) -> Option<Duration> {
    if open.uploads >= linger.uploads_max {
        return None;
    }
    if open.is_full(linger) {
        return Some(Duration::ZERO);
    }
    let is_alone = open.uploads + open.uncommitted == 0;
    let wait = if is_alone { linger.min } else { linger.max };
    let in_time = open.commit_in.saturating_sub(open.upload_time);
    Some(wait.saturating_sub(open.age).max(in_time))
}

/// In how long what is uploaded is to be committed, when the last commit began `since` ago and no swap is on its way; zero is now. So one that
/// comes alone is committed at once, and under load there are one or two commits a second, with many objects each.
pub fn commit_in(since: Option<Duration>, linger: &Linger) -> Duration {
    since.map_or(Duration::ZERO, |since| linger.max.saturating_sub(since))
}

/// What stands in the root, seen from one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is still ours: apply the edit to what was read, which may have it already.
    Ours,
    /// Another owner has claimed the partition.
    Fenced {
        /// Objects of ours that are in the log, if that is still known.
        committed: Option<u64>,
    },
    /// The partition was deleted, or is another one of that name.
    Recreated,
}

/// Judges a root that was read after a swap was refused, or had no answer.
///
/// | the root has            | decision                                          |
/// |-------------------------|---------------------------------------------------|
/// | our epoch and run       | ours; what is in it already is not committed twice |
/// | another epoch or run    | fenced; its list of owners says what of ours landed |
/// | another queue, or absent | recreated: nothing of ours is in it                |
pub fn standing(queue: QueueId, claim: Claim, found: Option<&Root>) -> Standing {
    match found {
        None => Standing::Recreated,
        Some(root) if root.queue_id() != queue => Standing::Recreated,
        Some(root) if root.claim() == claim => Standing::Ours,
        Some(root) => Standing::Fenced { committed: root.committed_by(claim) },
    }
}

/// Entries of the tail at which the oldest leave it. The newest stay, so that readers at the end need no segment.
const TAIL_SEALED_AT: usize = FANOUT + FANOUT / 3;

/// The segment that is to be written now, if any: of the highest level that is full, so that there is always room above.
pub fn seal(root: &Root) -> Option<Segment> {
    let full = |level: usize| {
        let references = &root.levels.get(level)?.references;
        (references.len() >= FANOUT).then(|| Segment::of_references(&root.queue, &references[..FANOUT]))
    };
    let has_room =
        |level: usize| root.levels.get(level).is_none_or(|above| above.references.len() < LEVEL_MAX);
    // The highest level has nothing above it.
    let above = (0..LEVELS_MAX - 1).rev().filter(|level| has_room(level + 1)).find_map(full);
    above.or_else(|| {
        (root.tail.len() >= TAIL_SEALED_AT && has_room(0))
            .then(|| Segment::of_entries(&root.queue, &root.tail[..FANOUT]))
    })
}

/// What may be dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Records that every consumer has acknowledged are dropped. Without a consumer this drops none.
    pub acknowledged: bool,
    /// Records that were committed longer ago than this are dropped, acknowledged or not.
    pub age_max: Option<Duration>,
    /// The oldest are dropped as long as at least this many bytes stay without them, acknowledged or not.
    pub bytes_max: Option<u64>,
    /// Records stay for so long after their commit although all have acknowledged them, so that their labels can be read.
    pub keep_min: Option<Duration>,
}

/// The position below which retention drops records, as far as acknowledgements say: the least of those of the consumers that the
/// root names. A consumer that has not acknowledged anything yet is at `None`.
pub fn acknowledged(retention: &Retention, acks: &[Option<u64>]) -> Option<u64> {
    match retention.acknowledged {
        true => acks.iter().map(|ack| ack.unwrap_or(0)).min(),
        false => None,
    }
}

/// Whether a span is dropped by age or bytes; asked from the oldest on, until one does not. `held` is what the log has in bytes from this span on.
pub fn is_expired(retention: &Retention, span: &Span, held: u64, now_ms: i64) -> bool {
    let is_old = retention.age_max.is_some_and(|age_max| {
        let age_max = i64::try_from(age_max.as_millis()).unwrap_or(i64::MAX);
        now_ms.saturating_sub(span.stamp_max_ms) > age_max
    });
    // The span goes only if what is left without it still has more than the bound, or just as much.
    let is_beyond = retention.bytes_max.is_some_and(|bytes_max| held.saturating_sub(span.bytes) >= bytes_max);
    is_old || is_beyond
}

/// The new low: the highest that any rule says, never beyond the end, never back.
pub fn low(root: &Root, acknowledged: Option<u64>, expired: Option<u64>) -> u64 {
    acknowledged.unwrap_or(0).max(expired.unwrap_or(0)).clamp(root.low, root.next)
}

/// Numbers of an owner's objects that are in the log and not cleaned: from, and to. An owner commits its objects in the order of
/// their numbers, and the oldest go first, so they are without a gap.
pub type Live = BTreeMap<Claimed, (u64, u64)>;

/// An epoch and a run, ordered.
pub type Claimed = (u64, u64);

/// Whether an object that no root names can be deleted: its owner is not the present one, so it will never be
/// committed, and it is not in the log. `root` must have been read *after* the object was found, by the owner.
///
/// | the object's          | orphan                                                       |
/// |-----------------------|--------------------------------------------------------------|
/// | queue is another one  | yes: the root was this queue's after the object was listed    |
/// | epoch is the present  | only with another run, which has lost the claim               |
/// | epoch is a later one  | no: the root is older than its store says; the operator must check |
/// | epoch is an earlier one | unless the log has it                                       |
pub fn is_orphan(root: &Root, live: &Live, queue: QueueId, written: Written) -> bool {
    if queue != root.queue_id() {
        return true;
    }
    match written.epoch.cmp(&root.epoch) {
        std::cmp::Ordering::Greater => false,
        std::cmp::Ordering::Equal => written.run != root.run,
        std::cmp::Ordering::Less => !live
            .get(&(written.epoch, written.run))
            .is_some_and(|(from, to)| (*from..=*to).contains(&written.number)),
    }
}

#[cfg(test)]
mod tests;
