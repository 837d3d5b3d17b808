//! Labels: names of appends that their senders recognise.
//!
//! A producer's ordinals need one place in the root for each producer, of which there are few. A label needs none: an append carries it into its data
//! object, beside its records and in the same commit, and whoever takes over a partition reads back those of some time past. So a sender of
//! requests that each have a name of their own (`Idempotency-Key`) is recognised over a restart, at the cost of one small read of an
//! object.
//!
//! Owns where labels stand and how they are read. Does not own what counts as a repeat: the appender does, of which there is one at a time, the owner.
//!
//! Labels are dropped with their records; [`Retention::keep_min`](crate::decide::Retention::keep_min) keeps both for some time.

use futures::{StreamExt, TryStreamExt};

use crate::entry::Entry;
use crate::error::LogError;
use crate::note::Found;
use crate::object;
use crate::partition::LogPartition;
use crate::root::Root;

/// The least number that is a label's tag and no ordinal.
pub const LABELS: u64 = 1 << 63;

/// Heads that are read side by side.
const HEADS_AT_ONCE: usize = 16;

/// A label in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The name; what the sender makes of it.
    pub id: u128,
    /// What was said with it: below [`LABELS`].
    pub tag: u64,
    /// The position of the append's first record.
    pub first: u64,
    /// Records.
    pub rows: u32,
    /// The log's time at its commit.
    pub stamp_ms: i64,
}

/// What names an append by a label, for [`Append::producer`](crate::Append::producer). An `id` of 0 stands for none.
pub fn label(id: u128, tag: u64) -> (u128, u64) {
    (id, LABELS | tag)
}

/// The labels of what was committed at `since_ms` or later and is held, oldest first. Those of at most a segment are in memory at a time: `take` bounds what
/// is kept of them. For the owner, which has claimed the partition and so knows that no other adds to them.
///
/// # Errors
/// When the store fails for good, or an object is missing or damaged.
pub async fn read(
    partition: &LogPartition,
    root: &Root,
    since_ms: i64,
    mut take: impl FnMut(Label),
) -> Result<(), LogError> {
    let young = root.spans().find(|span| span.end > root.low && span.stamp_max_ms >= since_ms);
    let at = young.map_or(root.next, |span| span.first.max(root.low));
    let take = |found: Vec<Label>| found.into_iter().for_each(&mut take);
    visit(partition, root, (at, since_ms, 0), take).await
}

/// The labels of what was committed behind a note, in the order of the log, also of records that retention has dropped but whose objects are not
/// deleted. For the owner, as [`read`].
///
/// # Errors
/// [`LogError::Truncated`] when objects behind `position` are deleted; otherwise as [`read`].
pub async fn since(
    partition: &LogPartition,
    root: &Root,
    found: &Found,
    mut take: impl FnMut(Label),
) -> Result<(), LogError> {
    let (position, gone_below) = (found.note.position, found.gone_below);
    if position < root.cleaned {
        return Err(LogError::Truncated { place: partition.place(), position, low: root.cleaned });
    }
    let take =
        |found: Vec<Label>| found.into_iter().filter(|label| label.first >= position).for_each(&mut take);
    visit(partition, root, (position, i64::MIN, gone_below), take).await
}

/// Shows the labels of each piece of the log from a position on, without those of objects that were committed before `since_ms`. Where something below
/// `gone_below` is deleted, it goes on there.
async fn visit(
    partition: &LogPartition,
    root: &Root,
    (mut at, since_ms, gone_below): (u64, i64, u64),
    mut take: impl FnMut(Vec<Label>),
) -> Result<(), LogError> {
    while at < root.next {
        match piece(partition, root, (at, since_ms)).await {
            Ok(Some((labels, end))) => {
                take(labels);
                at = end;
            }
            Ok(None) => break,
            Err(LogError::Missing { .. }) if at < gone_below => at = gone_below,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The labels from a position on as far as one segment has them, and where that ends; `None` at the end of the log.
async fn piece(
    partition: &LogPartition,
    root: &Root,
    (at, since_ms): (u64, i64),
) -> Result<Option<(Vec<Label>, u64)>, LogError> {
    let entries = partition.entries_from(root, at).await?;
    let Some(end) = entries.last().map(Entry::end) else { return Ok(None) };
    let young = entries.into_iter().filter(|entry| entry.stamp_ms >= since_ms);
    let heads = futures::stream::iter(young).map(|entry| of_entry(partition, root, entry));
    let heads: Vec<Vec<Label>> = heads.buffered(HEADS_AT_ONCE).try_collect().await?;
    Ok(Some((heads.into_iter().flatten().collect(), end)))
}

async fn of_entry(partition: &LogPartition, root: &Root, entry: Entry) -> Result<Vec<Label>, LogError> {
    let queue = root.queue_id();
    let key = partition.names().object(queue, entry.written());
    let range = 0..object::head_bytes(&entry);
    let found = partition.patiently(|| partition.store().get_range(&key, range.clone())).await?;
    let bytes = found.ok_or_else(|| LogError::Missing { key: key.to_string() })?;
    let marks = object::decode_head(queue, &entry, &bytes)
        .map_err(|error| LogError::Format { key: key.to_string(), error })?;
    let mut first = entry.first;
    let mut labels = Vec::new();
    for mark in marks {
        if let Some((id, tag)) = mark.producer.filter(|(_, tag)| *tag >= LABELS) {
            let (tag, rows, stamp_ms) = (tag & !LABELS, mark.rows, entry.stamp_ms);
            labels.push(Label { id, tag, first, rows, stamp_ms });
        }
        first += u64::from(mark.rows);
    }
    Ok(labels)
}

#[cfg(test)]
mod tests;
