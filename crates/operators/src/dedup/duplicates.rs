//! The newest records that were dropped as duplicates.
//!
//! Owns a bounded memory of them, for one question: when the server refuses a row that was kept, which duplicates of it were dropped
//! meanwhile? They are lost with it, so its dead letter names them. Seconds lie between the two as a rule, and a dropped record
//! costs 24 bytes here; what is older than the bound, or dropped before a restart, is not named. Does not own the counts:
//! duplicates are counted whether they are remembered or not.

use std::collections::VecDeque;

use dataflow::{Duplicates, Partition, position};

use super::window::near;

/// Records remembered at the most, 1 MiB: a tenth of duplicates among 400,000 records, which is most of an insert.
const HELD_MAX: usize = (1 << 20) / size_of::<Record>();

/// Records up to which a group takes those of the next batch too. A larger batch is a group of its own, so that no memory is left over.
const SMALL: usize = 64;

/// A dropped record, relative to the first of its group.
#[derive(Clone, Copy)]
struct Record {
    hash: [u32; 4],
    bucket: i32,
    position: u32,
}

const _: () = assert!(size_of::<Record>() == 24);

/// Dropped records of one partition and one era that came one after the other.
struct Group {
    partition: Partition,
    era: u64,
    /// Bucket of the first, and its place in the era.
    first: (i64, u64),
    records: VecDeque<Record>,
}

impl Record {
    /// The record as a group holds it whose first has this bucket and position; `None` if it lies too far from that.
    #[inline]
    fn new((hash, bucket, position): (u128, i64, u64), first: (i64, u64)) -> Option<Self> {
        let bucket = i32::try_from(bucket.checked_sub(first.0)?).ok()?;
        let position = u32::try_from(position.checked_sub(first.1)?).ok()?;
        Some(Self { hash: quarters(hash), bucket, position })
    }
}

impl Group {
    fn new(partition: Partition, era: u64, first: (i64, u64)) -> Self {
        Self { partition, era, first, records: VecDeque::new() }
    }
}

fn quarters(hash: u128) -> [u32; 4] {
    std::array::from_fn(|n| (hash >> (32 * n)) as u32)
}

/// See the module.
#[derive(Default)]
pub(super) struct Newest {
    groups: VecDeque<Group>,
    held: usize,
}

impl Newest {
    /// Records of this partition were dropped, one after the other: hash, bucket and place in the era of each.
    pub(super) fn extend(&mut self, partition: &Partition, era: u64, records: &[(u128, i64, u64)]) {
        let records = &records[records.len().saturating_sub(HELD_MAX)..];
        // Before they are added, so that the bound is never passed.
        self.make_room(records.len());
        let mut goes_on = self.groups.back().is_some_and(|last| {
            let room = last.records.capacity().max(SMALL);
            (&last.partition, last.era) == (partition, era) && last.records.len() + records.len() <= room
        });
        let (mut left, mut room) = (records, records.len());
        while let Some((_, bucket, position)) = left.first() {
            if !std::mem::take(&mut goes_on) {
                let mut group = Group::new(partition.clone(), era, (*bucket, *position));
                // Of a batch whose records lie far apart, the groups behind the first grow as they are filled.
                group.records.reserve_exact(std::mem::take(&mut room));
                self.groups.push_back(group);
            }
            let Some(group) = self.groups.back_mut() else { return };
            let (before, first) = (group.records.len(), group.first);
            group.records.extend(left.iter().map_while(|record| Record::new(*record, first)));
            let added = group.records.len() - before;
            self.held += added;
            left = &left[added..];
        }
    }

    /// Forgets the oldest, until there is room for so many.
    fn make_room(&mut self, count: usize) {
        while self.held + count > HELD_MAX {
            let Some(oldest) = self.groups.front_mut() else { break };
            let excess = oldest.records.len().min(self.held + count - HELD_MAX);
            oldest.records.drain(..excess);
            self.held -= excess;
            if oldest.records.is_empty() {
                self.groups.pop_front();
            }
        }
    }

    /// Takes out the duplicates of a kept record.
    pub(super) fn take(&mut self, hash: u128, bucket: i64, duplicates: &mut Duplicates) {
        for group in &mut self.groups {
            let before = group.records.len();
            let (partition, era, (first_bucket, first_position)) =
                (&group.partition, &group.era, group.first);
            group.records.retain(|record| {
                let at = first_bucket.saturating_add(i64::from(record.bucket));
                let is_copy = record.hash == quarters(hash) && near(at, bucket);
                if is_copy {
                    let low = first_position + u64::from(record.position);
                    duplicates.add(partition, position::position(*era, low));
                }
                !is_copy
            });
            self.held -= before - group.records.len();
        }
        self.groups.retain(|group| !group.records.is_empty());
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let records = |group: &Group| group.records.capacity() * size_of::<Record>();
        self.groups.iter().map(records).sum::<usize>() + self.groups.capacity() * size_of::<Group>()
    }
}

#[cfg(test)]
mod tests;
