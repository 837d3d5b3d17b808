//! Partitions that are handed from one lane to another.
//!
//! Owns the two halves: a record in the lane that gives a partition away ([`HandOver`]), and its genesis in the lane that takes it
//! ([`TakenOver`]), and which halves are still to come ([`pending`]). Does not own who decides that a partition is handed over: nothing does yet, because there
//! is one lane.
//!
//! The first half is durable before the second is written, and cannot be undone, so at no time do two lanes read the partition. A
//! crash between them leaves a partition that no lane reads until [`pending`] is asked; after the second half nothing is pending.
//!
//! | record                                                  | is refused with                                               |
//! |---------------------------------------------------------|---------------------------------------------------------------|
//! | hands over what is not read here                        | C1                                                            |
//! | hands over while a step keeps state                     | C6: state is kept by key, and the partition's part of it stays |
//! | takes what was taken before                             | C1: its records would be read twice                           |
//! | begins a partition that another lane reads              | C1                                                            |

use super::{Lane, PartitionState, Violation, violation};
use crate::record::{Forgotten, HandOver, HandedOver, PartitionGenesis, Record, TakenOver};

/// The partitions that the lane `from`, of the number `from_number`, has handed to the lane `to`, of the number `to_number`, and that `to` has
/// not taken yet: each as the genesis that takes it. Left out are those of inputs that `to` does not know: it learns an input by the
/// first genesis.
pub fn pending(from_number: u32, from: &Lane, to_number: u32, to: &Lane) -> Vec<PartitionGenesis> {
    let given = from.handed_over.iter().filter(|handed| handed.to == to_number);
    let take = |handed: &HandedOver| {
        let p = from.partitions.get(handed.partition as usize)?;
        let input = to.input(&from.inputs.get(p.input as usize)?.name)?;
        let taken = TakenOver { from: from_number, seq: handed.seq, time_ms_max: p.time_ms_max };
        let genesis = PartitionGenesis {
            stream: p.stream.clone(),
            index: p.index,
            identity: p.identity.clone(),
            leader_epoch: p.leader_epoch,
            input,
            taken_over: Some(taken),
            ..PartitionGenesis::default()
        };
        (!to.has_taken(&genesis, taken)).then(|| genesis.at(p.next))
    };
    given.filter_map(take).collect()
}

impl Lane {
    /// Where the partition with this index went, if another lane reads it.
    pub fn handed_over(&self, partition: u32) -> Option<&HandedOver> {
        self.handed_over.iter().find(|handed| handed.partition == partition)
    }

    /// Whether the partition was taken by this record of the other lane, or a later one: the numbers of a lane only grow.
    fn has_taken(&self, p: &PartitionGenesis, taken: TakenOver) -> bool {
        let same = self.partitions.iter().filter(|known| known.is(p.input, &p.stream, p.index));
        let mut before = same.filter_map(|known| known.taken_over);
        before.any(|before| before.from == taken.from && before.seq >= taken.seq)
    }

    /// The partition that another lane reads, by its name and its identity.
    fn elsewhere(&self, p: &PartitionGenesis) -> Option<(&PartitionState, &HandedOver)> {
        let newest = |(_, known): &(usize, &PartitionState)| known.is(p.input, &p.stream, p.index);
        let (at, known) = self.partitions.iter().enumerate().rfind(newest)?;
        let handed = self.handed_over(at as u32)?;
        (known.identity == p.identity).then_some((known, handed))
    }

    pub(super) fn check_hand_over(&self, record: &Record, hand_over: &HandOver) -> Result<(), Violation> {
        if let Some(step) = self.steps.first() {
            let what =
                format!("a partition is handed over, and its part of the state of `{}` stays", step.name);
            return Err(violation(record, "C6", what));
        }
        for (n, gone) in hand_over.partitions.iter().enumerate() {
            let is_read = (*gone as usize) < self.partitions.len() && !self.is_forgotten(*gone);
            if !is_read || hand_over.partitions[..n].contains(gone) {
                let what = format!("partition {gone} is handed over, which is not read");
                return Err(violation(record, "C1", what));
            }
        }
        Ok(())
    }

    pub(super) fn hand_over(&mut self, seq: u64, hand_over: &HandOver) {
        for partition in &hand_over.partitions {
            let gone = Forgotten { partition: *partition, ..Forgotten::default() };
            self.forgotten.insert(*partition, gone);
            self.handed_over.push(HandedOver { partition: *partition, to: hand_over.to, seq });
        }
    }

    /// A partition begins here only if no other lane reads it, or if that one has handed it over, once.
    pub(super) fn check_taken_over(&self, record: &Record, p: &PartitionGenesis) -> Result<(), Violation> {
        match (p.taken_over, self.elsewhere(p)) {
            (Some(taken), _) if self.has_taken(p, taken) => {
                let what =
                    format!("partition {}/{} was taken from lane {} before", p.stream, p.index, taken.from);
                Err(violation(record, "C1", what))
            }
            (None, Some((_, handed))) => {
                let what =
                    format!("partition {}/{} was handed over to lane {}", p.stream, p.index, handed.to);
                Err(violation(record, "C1", what))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
