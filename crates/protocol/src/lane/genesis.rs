//! Inputs, partitions and tables that a lane learns of.
//!
//! Owns that each has one name and one beginning. Does not own partitions that another lane had before ([`super::hand_over`]).

use std::collections::BTreeSet;

use super::image::partition_state;
use super::{InputState, Lane, TIME_UNKNOWN_MS, TableState, Violation, violation};
use crate::record::{Genesis, PartitionGenesis, Record};

impl Lane {
    pub(super) fn check_genesis(&self, record: &Record, genesis: &Genesis) -> Result<(), Violation> {
        self.check_inputs(record, genesis)?;
        // A source of files begins with thousands of partitions, and every start folds this record again.
        let mut named = BTreeSet::new();
        for p in &genesis.partitions {
            let is_twice = !named.insert((p.input, &p.stream, p.index));
            if is_twice || self.partition(p.input, &p.stream, p.index).is_some() {
                let what = format!("partition {}/{} has a first position already", p.stream, p.index);
                return Err(violation(record, "C1", what));
            }
            self.check_known_again(record, p)?;
            self.check_taken_over(record, p)?;
        }
        let mut tables = genesis.tables.iter().enumerate();
        let is_known = |n: usize, name: &str| {
            self.table(name).is_some() || genesis.tables[..n].iter().any(|other| other.name == name)
        };
        if let Some((_, table)) = tables.find(|(n, table)| is_known(*n, &table.name)) {
            return Err(violation(record, "order", format!("table `{}` is known already", table.name)));
        }
        let names_again =
            !genesis.pipeline.is_empty() || !genesis.steps.is_empty() || !genesis.parts.is_empty();
        if !self.pipeline.is_empty() && names_again {
            return Err(violation(record, "order", "pipeline and steps are set by the first genesis only"));
        }
        Ok(())
    }

    /// Every input has one name, and every partition belongs to an input that is known from here on.
    fn check_inputs(&self, record: &Record, genesis: &Genesis) -> Result<(), Violation> {
        for (n, name) in genesis.inputs.iter().enumerate() {
            if self.input(name).is_some() || genesis.inputs[..n].contains(name) {
                return Err(violation(record, "order", format!("input `{name}` is known already")));
            }
        }
        let inputs = self.inputs.len() + genesis.inputs.len();
        let mut named = genesis.partitions.iter().map(|p| p.input).chain(genesis.opened.iter().copied());
        match named.find(|input| *input as usize >= inputs) {
            Some(input) => Err(violation(record, "order", format!("input {input} has no genesis"))),
            None => Ok(()),
        }
    }

    pub(super) fn genesis(&mut self, record: &Record, genesis: &Genesis) {
        if self.pipeline.is_empty() {
            self.pipeline.clone_from(&genesis.pipeline);
            self.steps.clone_from(&genesis.steps);
            self.parts.clone_from(&genesis.parts);
        }
        let inputs = genesis.inputs.iter();
        self.inputs.extend(inputs.map(|name| InputState { name: name.clone(), ..InputState::default() }));
        genesis.opened.iter().for_each(|input| self.inputs[*input as usize].was_opened = true);
        let first_time =
            |p: &PartitionGenesis| p.taken_over.map_or(TIME_UNKNOWN_MS, |taken| taken.time_ms_max);
        let known = self.partitions.len() as u32;
        for (partition, p) in (known..).zip(&genesis.partitions) {
            self.pass_from_start(partition, p.next());
        }
        self.pass_again(known, &genesis.partitions, self.newest_ms.max(record.written_at_ms));
        self.partitions.extend(genesis.partitions.iter().map(|p| partition_state(p, first_time(p))));
        self.tables.extend(genesis.tables.iter().map(TableState::new));
    }
}
