//! The newest records that were dropped as duplicates.
//!
//! Owns a bounded memory of them, for one question: when the server refuses a row that was kept, which copies of it were dropped
//! meanwhile? They are lost with it, so its dead letter names them. Seconds lie between the two as a rule, and a dropped record
//! costs 32 bytes here; what is older than the bound, or dropped before a restart, is not named. Does not own the counts:
//! duplicates are counted whether they are remembered or not.

use std::collections::VecDeque;

use dataflow::{Copies, Partition};

use super::window::near;

/// Records remembered at the most, 2 MiB: a tenth of duplicates among a million records more than covers the inserts in flight.
const HELD_MAX: usize = 1 << 16;

/// Dropped records of one partition that came one after the other.
struct Group {
    partition: Partition,
    /// Hash, bucket, position.
    records: VecDeque<(u128, i64, u64)>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Newest {
    groups: VecDeque<Group>,
    held: usize,
}

impl Newest {
    /// The records that follow are of this partition.
    pub(super) fn begin(&mut self, partition: &Partition) {
        match self.groups.back_mut() {
            Some(group) if group.partition == *partition => {}
            Some(group) if group.records.is_empty() => group.partition = partition.clone(),
            _ => self.groups.push_back(Group { partition: partition.clone(), records: VecDeque::new() }),
        }
    }

    /// A record was dropped, of the partition that was [begun](Self::begin) with.
    pub(super) fn push(&mut self, hash: u128, bucket: i64, position: u64) {
        // Before the push, so that the bound is never passed: the room for it is doubled where it is.
        while self.held >= HELD_MAX {
            let Some(oldest) = self.groups.front_mut() else { break };
            match oldest.records.pop_front() {
                Some(_) => self.held -= 1,
                None => drop(self.groups.pop_front()),
            }
        }
        if let Some(group) = self.groups.back_mut() {
            group.records.push_back((hash, bucket, position));
            self.held += 1;
        }
    }

    /// Takes out the copies of a kept record.
    pub(super) fn take(&mut self, hash: u128, bucket: i64, copies: &mut Copies) {
        for group in &mut self.groups {
            let before = group.records.len();
            let partition = &group.partition;
            group.records.retain(|(other, at, position)| {
                let is_copy = *other == hash && near(*at, bucket);
                if is_copy {
                    copies.add(partition, *position);
                }
                !is_copy
            });
            self.held -= before - group.records.len();
        }
        self.groups.retain(|group| !group.records.is_empty());
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let records = |group: &Group| group.records.capacity() * size_of::<(u128, i64, u64)>();
        self.groups.iter().map(records).sum::<usize>() + self.groups.capacity() * size_of::<Group>()
    }
}

#[cfg(test)]
mod tests;
