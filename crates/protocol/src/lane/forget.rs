//! Streams that leave a pipeline.
//!
//! Owns which partitions are read, which have left, and where one that comes back begins (C1 holds across its absence). Does not
//! own who may say so (`engine::forget`) or what a source still holds.
//!
//! | the stream that is added again          | begins                                                     |
//! |-----------------------------------------|------------------------------------------------------------|
//! | has the identity that was forgotten     | where it was left: no record is read twice, none is skipped |
//! | has another identity, or none is known  | where the pipeline file says                                |
//! | was forgotten with its position         | where the pipeline file says                                |
//!
//! Where it begins before the position that it was left at, the records between the two are read anew ([`super::passes`]).

use std::collections::BTreeMap;

use super::{Lane, PartitionState, Violation, violation};
use crate::record::{Forget, Forgotten, PartitionGenesis, Record, shown};

impl PartitionState {
    /// Whether it is the partition of this name.
    pub fn is(&self, input: u32, stream: &str, index: u32) -> bool {
        self.input == input && self.index == index && self.stream == stream
    }
}

impl Lane {
    /// Where the partition stands, by name; `None` for one that was never read or has left the pipeline.
    pub fn partition(&self, input: u32, stream: &str, index: u32) -> Option<usize> {
        self.reading().find(|(_, p)| p.is(input, stream, index)).map(|(at, _)| at)
    }

    /// The partitions that belong to the pipeline, each with its place in [`Lane::partitions`].
    pub fn reading(&self) -> impl Iterator<Item = (usize, &PartitionState)> {
        self.partitions.iter().enumerate().filter(|(at, _)| !self.is_forgotten(*at as u32))
    }

    /// Whether the partition has left the pipeline.
    pub fn is_forgotten(&self, partition: u32) -> bool {
        self.forgotten.contains_key(&partition)
    }

    /// Where a partition was left that had this name and identity, if it continues there when it is added again.
    pub fn left_at(&self, input: u32, stream: &str, index: u32, identity: &str) -> Option<&PartitionState> {
        self.left(input, stream, index).filter(|left| !identity.is_empty() && left.identity == identity)
    }

    /// Where the partition of this name was left, whatever its identity, unless its position was forgotten too. The newest partition
    /// of the name decides.
    pub fn left(&self, input: u32, stream: &str, index: u32) -> Option<&PartitionState> {
        let named = |(_, p): &(usize, &PartitionState)| p.is(input, stream, index);
        let (at, last) = self.partitions.iter().enumerate().rfind(named)?;
        let gone = self.forgotten.get(&(at as u32))?;
        (!gone.from_start).then_some(last)
    }

    /// For every partition which of those that had its name it is, counted by identity from 1. One that came back under its identity is the same;
    /// without an identity nobody knows, so each is another.
    pub fn nth_of_name(&self) -> Vec<u32> {
        let mut identities = BTreeMap::<(&str, u32), Vec<&str>>::new();
        let mut nth = Vec::with_capacity(self.partitions.len());
        for PartitionState { stream, index, identity, .. } in &self.partitions {
            let all = identities.entry((stream.as_str(), *index)).or_default();
            let known = all.iter().position(|other| !identity.is_empty() && *other == identity);
            if known.is_none() {
                all.push(identity);
            }
            let place = known.map_or(all.len(), |at| at + 1);
            nth.push(u32::try_from(place).unwrap_or(u32::MAX));
        }
        nth
    }

    /// A stream that comes back under its identity continues where it was left.
    pub(super) fn check_known_again(&self, record: &Record, p: &PartitionGenesis) -> Result<(), Violation> {
        match self.left_at(p.input, &p.stream, p.index, &p.identity) {
            Some(left) if left.next != p.next() && p.taken_over.is_none() => {
                let what = format!(
                    "partition {}/{} was left at {} and comes back at {}",
                    p.stream,
                    p.index,
                    shown(left.next),
                    shown(p.next())
                );
                Err(violation(record, "C1", what))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_forget(&self, record: &Record, forget: &Forget) -> Result<(), Violation> {
        for (n, gone) in forget.partitions.iter().enumerate() {
            let is_read =
                (gone.partition as usize) < self.partitions.len() && !self.is_forgotten(gone.partition);
            if !is_read || forget.partitions[..n].iter().any(|other| other.partition == gone.partition) {
                let what = format!("partition {} is forgotten, which is not read", gone.partition);
                return Err(violation(record, "C1", what));
            }
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, forget: &Forget) {
        for gone in &forget.partitions {
            self.newest_ms = self.newest_ms.max(gone.at_ms);
            self.forgotten.insert(gone.partition, *gone);
        }
    }

    pub(super) fn forgotten_image(&self) -> Vec<Forgotten> {
        self.forgotten.values().copied().collect()
    }
}
