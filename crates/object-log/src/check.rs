//! Whether everything that a partition names is present and intact.
//!
//! Owns the walk and the report. Does not own the checks of each kind of bytes (`root`, `segment`, `object`), nor the deletion of what
//! nobody can commit any more (`collect`). Changes nothing (L10).

use std::collections::BTreeSet;

use dataflow::Partition;
use futures::StreamExt;

use crate::collect;
use crate::decide;
use crate::entry::Entry;
use crate::error::LogError;
use crate::names::QueueId;
use crate::partition::LogPartition;
use crate::reader;
use crate::root::Root;

/// Objects read side by side.
const READS_AT_ONCE: usize = 8;

/// Findings that are named; more are counted.
const NAMED_MAX: usize = 20;

/// What a check of a partition has read, and what it found missing or damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Data objects that were read and are intact.
    pub objects: u64,
    /// Records in them.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Manifest segments.
    pub segments: u64,
    /// What is missing or damaged, the first ones in words.
    pub findings: Vec<String>,
    /// How many that are.
    pub finding_count: u64,
    /// Objects that no owner can commit any more; the owner's next sweep deletes them.
    pub orphans: u64,
}

impl Report {
    fn found(&mut self, what: String) {
        self.finding_count += 1;
        if self.findings.len() < NAMED_MAX {
            self.findings.push(what);
        }
    }
}

/// Reads every object of the partition, and compares what is stored with what is named.
///
/// # Errors
/// When there is no such partition, its root is damaged, or the store fails for good. What is wrong below the root is in the report.
pub async fn check(partition: &LogPartition) -> Result<(Root, Report), LogError> {
    check_as(partition, partition.root().await?.root).await
}

/// The same by a root that was read some time ago: its owner has gone on since, and what retention has deleted is not missing.
async fn check_as(partition: &LogPartition, root: Root) -> Result<(Root, Report), LogError> {
    let mut report = Report::default();
    let (queue, mut at) = (root.queue_id(), root.low);
    while at < root.next {
        let entries = match partition.entries_from(&root, at).await {
            Ok(entries) => entries,
            Err(error @ (LogError::Missing { .. } | LogError::Format { .. })) => {
                if matches!(error, LogError::Missing { .. }) {
                    let low = present_low(partition, queue).await?;
                    if low > at {
                        at = low;
                        continue;
                    }
                }
                report.found(error.to_string());
                // If a segment cannot be read, nothing is known of what it names.
                let end = root.spans().find(|span| span.end > at).map_or(root.next, |span| span.end);
                at = end;
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(last) = entries.last() else { break };
        at = last.end();
        let shown = Partition::new("check", partition.index());
        let reads = entries.into_iter().map(|entry| {
            let shown = shown.clone();
            async move { (entry, whole(partition, queue, entry, shown).await) }
        });
        let mut reads = futures::stream::iter(reads).buffer_unordered(READS_AT_ONCE);
        while let Some((entry, object)) = reads.next().await {
            match object {
                Ok(false) => {}
                Ok(true) => {
                    report.objects += 1;
                    report.records += u64::from(entry.rows);
                    report.bytes += entry.bytes;
                }
                Err(error @ (LogError::Missing { .. } | LogError::Format { .. })) => {
                    report.found(error.to_string())
                }
                Err(error) => return Err(error),
            }
        }
    }
    orphans(partition, &root, &mut report).await?;
    Ok((root, report))
}

/// Where the log begins by now.
async fn present_low(partition: &LogPartition, queue: QueueId) -> Result<u64, LogError> {
    let root = partition.root().await?.root;
    match root.queue_id() == queue {
        true => Ok(root.low),
        false => Err(partition.recreated(queue, Some(root.queue_id()))),
    }
}

/// Reads all records of an object, one frame after the other. False if retention has let go of it since.
async fn whole(
    partition: &LogPartition,
    queue: QueueId,
    entry: Entry,
    shown: Partition,
) -> Result<bool, LogError> {
    let key = partition.names().object(queue, entry.written()).to_string();
    let object = match reader::fetch(partition, queue, entry).await {
        Err(error @ LogError::Missing { .. }) => {
            return match present_low(partition, queue).await? >= entry.end() {
                true => Ok(false),
                false => Err(error),
            };
        }
        fetched => fetched?,
    };
    for frame in object.frames {
        reader::unpack(frame, shown.clone(), partition.runtime(), key.clone()).await?;
    }
    Ok(true)
}

async fn orphans(partition: &LogPartition, root: &Root, report: &mut Report) -> Result<(), LogError> {
    let (live, segments) = match collect::live(partition, root).await {
        Ok(live) => live,
        // Reported above; then orphans cannot be recognised.
        Err(LogError::Missing { .. } | LogError::Format { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    report.segments = segments.len() as u64;
    let names = partition.names();
    let mut orphans = 0;
    let none = decide::Live::new();
    for (folder, live, segments) in
        [(names.data(), &live, &BTreeSet::new()), (names.segments(), &none, &segments)]
    {
        collect::list(partition, &folder, |key| {
            if let Some((queue, written)) = names.parse(&key) {
                let is_orphan = decide::is_orphan(root, live, queue, written) && !segments.contains(&written);
                orphans += u64::from(is_orphan);
            }
        })
        .await?;
    }
    report.orphans = orphans;
    Ok(())
}

#[cfg(test)]
mod tests;
