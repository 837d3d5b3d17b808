//! What is deleted: records that retention drops, objects by their names, and objects that no owner can commit any more.
//!
//! Owns the order of the steps. Does not own the rules (`decide`).
//!
//! | step                                  | what a crash behind it leaves                                       |
//! |---------------------------------------|----------------------------------------------------------------------|
//! | `low` is raised in the root           | objects below it, which the root still names: deleted by name again  |
//! | data objects below `low` are deleted  | the same: a delete can be repeated                                   |
//! | segments that hold only such          | the same: a segment that is absent below `low` counts as done        |
//! | `cleaned` is raised in the root       | nothing                                                              |
//!
//! Objects that no root names (an owner died behind its upload) are found by a list, by the next owner: [`sweep`].

use std::collections::BTreeSet;

use futures::StreamExt;
use store::{Key, Prefix};

use crate::acks;
use crate::decide::{self, Live, Retention};
use crate::error::LogError;
use crate::names::{QueueId, Written};
use crate::partition::LogPartition;
use crate::root::{Claim, Root};
use crate::segment::{Of, Span};

/// Objects that one pass deletes; the next follows at once.
const OBJECTS_MAX: usize = 1_024;

/// Tries of a delete before a pass ends, some three seconds: what the pass may delete is put into no segment meanwhile, and without segments no append is
/// answered in the end. The next pass begins there again.
const DELETE_TRIES_MAX: u32 = 8;

/// Deletes side by side.
const DELETES_AT_ONCE: usize = 16;

/// Orphans that one sweep deletes at the most, so that a list of any length takes some 50 MB; what the log holds does not count, and the next
/// sweep goes on.
const SWEPT_MAX: usize = 200_000;

/// Names of a page of a list.
const PAGE: usize = 1_000;

/// What a pass has found and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The new low.
    pub low: Option<u64>,
    /// The consumers whose acknowledgements it rests on.
    pub consumers: Vec<String>,
    /// Everything that ends at or below is deleted, with so many bytes.
    pub cleaned: Option<(u64, u64)>,
    /// There is more to delete.
    pub is_more: bool,
    /// Objects that were deleted.
    pub deleted: usize,
}

/// One pass of retention over what `root` says: deletes what is below its low, or finds a new low. What is at `pinned` or behind it stays, whoever
/// has dropped it.
///
/// # Errors
/// When the store fails for good, or what the root names is damaged.
pub async fn collect(
    partition: &LogPartition,
    root: &Root,
    retention: &Retention,
    pinned: u64,
) -> Result<Collected, LogError> {
    let below = root.low.min(pinned);
    if root.cleaned < below {
        let cleaned = clean(partition, root, below).await?;
        // The low may lie within an object, which stays: then there is nothing to delete until the low is raised further.
        if cleaned.cleaned.is_some() || cleaned.is_more {
            return Ok(cleaned);
        }
    }
    let mut positions = Vec::with_capacity(root.consumers.len());
    if retention.acknowledged {
        for consumer in &root.consumers {
            positions.push(acks::acknowledged(partition, consumer, root.queue_id()).await?);
        }
    }
    let expired = expired(partition, root, retention).await?;
    let mut acknowledged = decide::acknowledged(retention, &positions);
    if let (Some(at), Some(keep_min)) = (acknowledged, retention.keep_min)
        && at > root.low
    {
        // Only records older than that may be dropped.
        let older = Retention { age_max: Some(keep_min), ..Retention::default() };
        acknowledged = Some(at.min(self::expired(partition, root, &older).await?.unwrap_or(root.low)));
    }
    let low = decide::low(root, acknowledged, expired).min(pinned.max(root.low));
    let consumers = root.consumers.clone();
    Ok(Collected { low: (low > root.low).then_some(low), consumers, ..Collected::default() })
}

/// The end of the records that are dropped by age or bytes, if any are. Descends only into a segment that is deleted in part, since it still counts what is
/// deleted of it, and into the one that is dropped in part.
async fn expired(
    partition: &LogPartition,
    root: &Root,
    retention: &Retention,
) -> Result<Option<u64>, LogError> {
    if retention.age_max.is_none() && retention.bytes_max.is_none() {
        return Ok(None);
    }
    let now_ms = partition.clock().behind(root.stamp_ms);
    let (mut held, mut end) = (root.bytes, None);
    let mut stack: Vec<Span> = root.spans().collect();
    stack.reverse();
    while let Some(span) = stack.pop() {
        if span.end <= root.cleaned {
            continue;
        }
        let is_whole = span.first >= root.cleaned;
        if is_whole && decide::is_expired(retention, &span, held, now_ms) {
            held = held.saturating_sub(span.bytes);
            end = Some(span.end);
            continue;
        }
        let Of::Segment(reference) = span.of else { break };
        if is_whole && span.end <= root.low {
            break;
        }
        // A segment that a pass has deleted without recording it is counted once that is made up for.
        let Some(segment) = partition.segment(root, &reference).await? else { break };
        stack.extend(segment.spans().rev());
    }
    Ok(end)
}

/// Deletes objects and segments below a position, which is at most the root's low, oldest first.
async fn clean(partition: &LogPartition, root: &Root, below: u64) -> Result<Collected, LogError> {
    let (queue, names) = (root.queue_id(), partition.names());
    let mut stack: Vec<Span> = root.spans().collect();
    stack.reverse();
    let (mut objects, mut segments): (Vec<Key>, Vec<(u64, Key)>) = (Vec::new(), Vec::new());
    let (mut cleaned, mut bytes, mut is_more) = (root.cleaned, 0, false);
    while let Some(span) = stack.pop() {
        if span.end <= root.cleaned {
            continue;
        }
        if span.first >= below {
            break;
        }
        match span.of {
            Of::Entry(_) if span.end > below => break,
            Of::Entry(_) if objects.len() == OBJECTS_MAX => {
                is_more = true;
                break;
            }
            Of::Entry(entry) => {
                objects.push(names.object(queue, entry.written()));
                bytes += entry.bytes;
                cleaned = span.end;
            }
            Of::Segment(reference) => match partition.segment(root, &reference).await? {
                Some(segment) => {
                    segments.push((span.end, names.segment(queue, reference.written())));
                    stack.extend(segment.spans().rev());
                }
                // A pass that was not recorded has deleted it, behind all that it names.
                None if span.end <= root.low => {
                    bytes = match span.first < root.cleaned {
                        // How much of it was recorded as deleted before, only it knew. It is the oldest, so what is held is in what comes behind it.
                        true => root.bytes.saturating_sub(stack.iter().map(|behind| behind.bytes).sum()),
                        false => bytes + span.bytes,
                    };
                    cleaned = span.end;
                }
                None => {
                    let key = names.segment(queue, reference.written());
                    return Err(LogError::Missing { key: key.to_string() });
                }
            },
        }
    }
    let impatient = partition.with_tries_at_most(DELETE_TRIES_MAX);
    let mut deleted = delete(&impatient, objects).await?;
    // Only after the objects: an absent segment means that they are deleted.
    let done = segments.into_iter().filter(|(end, _)| *end <= cleaned).map(|(_, key)| key).collect();
    deleted += delete(&impatient, done).await?;
    // An entry that is held in part stays: only what is below it can be deleted.
    Ok(Collected {
        cleaned: (cleaned > root.cleaned).then_some((cleaned, bytes)),
        is_more,
        deleted,
        ..Collected::default()
    })
}

/// Deletes objects that no owner can commit any more: of earlier owners, and of a partition of this name that was deleted. For the owner
/// alone. What an owner that slept uploads after the list is found by a later sweep.
///
/// # Errors
/// [`LogError::Fenced`] when the partition is no longer ours; others when the store fails for good.
pub async fn sweep(partition: &LogPartition, claim: Claim) -> Result<Collected, LogError> {
    sweep_some(partition, claim, SWEPT_MAX).await
}

async fn sweep_some(partition: &LogPartition, claim: Claim, swept_max: usize) -> Result<Collected, LogError> {
    let (names, seen) = (partition.names(), partition.root().await?.root);
    if seen.claim() != claim {
        return Err(LogError::Fenced { place: partition.place(), epoch: seen.epoch });
    }
    // What earlier owners have in the log only gets less from here on: they commit nothing behind our claim.
    let (live, segments) = live(partition, &seen).await?;
    let queue_id = seen.queue_id();
    let is_held = |is_segment: bool, queue: QueueId, written: &Written| {
        let claimed = (written.epoch, written.run);
        queue == queue_id
            && match is_segment {
                _ if claimed == (claim.epoch, claim.run) => true,
                true => segments.contains(written),
                false => live.get(&claimed).is_some_and(|(from, to)| (*from..=*to).contains(&written.number)),
            }
    };
    let mut found = Vec::new();
    for (folder, is_segment) in [(names.data(), false), (names.segments(), true)] {
        list(partition, &folder, |key| {
            if let Some((queue, written)) = names.parse(&key)
                && !is_held(is_segment, queue, &written)
                && found.len() < swept_max
            {
                found.push((key, queue, written));
            }
        })
        .await?;
    }
    if found.is_empty() {
        return Ok(Collected::default());
    }
    // Read behind the list: a partition that was created again meanwhile, or claimed by another, has objects in it that are no orphans.
    let root = partition.root().await?.root;
    if root.queue_id() != queue_id {
        return Err(partition.recreated(queue_id, Some(root.queue_id())));
    }
    if root.claim() != claim {
        return Err(LogError::Fenced { place: partition.place(), epoch: root.epoch });
    }
    let segment_folder = names.segments();
    let orphans = found.into_iter().filter(|(key, queue, written)| {
        let live = if segment_folder.contains(key) { &Live::new() } else { &live };
        decide::is_orphan(&root, live, *queue, *written)
    });
    let orphans: Vec<Key> = orphans.map(|(key, ..)| key).collect();
    let deleted = delete(partition, orphans).await?;
    Ok(Collected { deleted, ..Collected::default() })
}

/// What the log has: numbers of objects by owner, and segments.
pub(crate) async fn live(
    partition: &LogPartition,
    root: &Root,
) -> Result<(Live, BTreeSet<Written>), LogError> {
    let (mut live, mut segments) = (Live::new(), BTreeSet::new());
    let mut stack: Vec<Span> = root.spans().filter(|span| span.end > root.cleaned).collect();
    while let Some(span) = stack.pop() {
        match span.of {
            Of::Entry(entry) if span.end > root.cleaned => {
                let range = live.entry((entry.epoch, entry.run)).or_insert((entry.number, entry.number));
                *range = (range.0.min(entry.number), range.1.max(entry.number));
            }
            Of::Entry(_) => {}
            Of::Segment(reference) => {
                segments.insert(reference.written());
                match partition.segment(root, &reference).await? {
                    Some(segment) => stack.extend(segment.spans().filter(|span| span.end > root.cleaned)),
                    None if span.end <= root.low => {}
                    None => {
                        let key = partition.names().segment(root.queue_id(), reference.written());
                        return Err(LogError::Missing { key: key.to_string() });
                    }
                }
            }
        }
    }
    Ok((live, segments))
}

/// Every key below a folder.
pub(crate) async fn list(
    partition: &LogPartition,
    folder: &Prefix,
    mut visit: impl FnMut(Key),
) -> Result<(), LogError> {
    let mut after: Option<Key> = None;
    loop {
        let page = partition.patiently(|| partition.store().list(folder, after.as_ref(), PAGE)).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.key.clone());
        page.into_iter().for_each(|entry| visit(entry.key));
    }
}

async fn delete(partition: &LogPartition, keys: Vec<Key>) -> Result<usize, LogError> {
    let count = keys.len();
    let deletes = futures::stream::iter(keys).map(|key| async move {
        // A delete may be repeated, whatever became of the first.
        partition.patiently_even_in_doubt(|| partition.store().delete(&key)).await
    });
    let mut deletes = deletes.buffer_unordered(DELETES_AT_ONCE);
    while let Some(deleted) = deletes.next().await {
        deleted?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests;
