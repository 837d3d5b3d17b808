//! Which columns a chain's first step may see, and which of them anything reads.
//!
//! Owns the candidates, the columns that are needed, and the fault of a column that a step computes for nobody. Does not own what a text reads
//! ([`super::bind`]).

use std::collections::BTreeSet;

use dataflow::{Column, Metadata, Schema};

use super::chain::Key;
use super::planner::{Origin, Planner};
use super::steps::{Kind, Planned};
use super::texts::Bound;
use super::{Faults, fault, shape};
use crate::config::nearest::nearest;

impl<'a> Planner<'a> {
    /// Every column that the first step may see: fields that pass untouched to a column, in the order of the table, those that are
    /// declared, and what the source says of a record.
    pub(super) fn candidates(&self) -> Vec<Column> {
        let mut candidates: Vec<Column> = Vec::new();
        let declared = |name: &str| self.declared.iter().find(|column| column.name == name);
        for column in self.union.columns() {
            let Origin::Field(name) = self.origin(self.source_of(column), self.steps.len()) else { continue };
            if candidates.iter().any(|known| known.name == name) || self.is_metadata(&name) {
                continue;
            }
            let as_column = || Column { name: name.clone(), field: name.clone(), ..self.decoded_as(column) };
            candidates.push(declared(&name).cloned().unwrap_or_else(as_column));
        }
        for column in &self.declared {
            if !candidates.iter().any(|known| known.name == column.name) {
                candidates.push(column.clone());
            }
        }
        let metadata = Metadata::ALL.into_iter().filter(|one| self.is_metadata(one.name()));
        candidates.extend(metadata.map(Metadata::column));
        candidates
    }

    /// Whether a step behind the one that gives a column its name reads it.
    fn is_read_later(&self, name: &str, bound: &[Bound]) -> bool {
        let steps: Vec<&Planned> = self.stateless().collect();
        let giver = steps.iter().rposition(|step| step.shape.names(name));
        bound
            .iter()
            .skip(giver.map_or(0, |giver| giver + 1))
            .any(|bound| bound.reads.iter().any(|read| read == name))
    }

    /// The place in the file that gives a column its name, if a step does.
    pub(super) fn giver(&self, name: &str) -> Option<String> {
        let names = |step: &&Planned| match step.kind {
            Kind::Select(items) => items.has(name),
            Kind::Meet(_) => false,
            _ => step.shape.names(name),
        };
        let step = self.stateless().filter(names).last()?;
        Some(match step.kind {
            Kind::Select(_) => format!("{}.{name}", step.path),
            _ => step.path.clone(),
        })
    }

    /// A column that a step computes under a name that nothing takes is a slip of the pen.
    pub(super) fn unused(&self, last: &Schema, bound: &[Bound], read: &[String]) -> Result<(), Faults> {
        let is_taken = |name: &str| {
            self.union.columns().any(|column| self.source_of(column) == name)
                || read.iter().any(|read| read == name)
                || self.is_read_later(name, bound)
                || self.event_time.as_ref().is_some_and(|(_, time)| time == name)
                || self.compared.as_deref() == Some(name)
                || self
                    .dedups()
                    .any(|(_, _, dedup)| dedup.key.iter().chain(&dedup.time).any(|key| key.as_str() == name))
        };
        let known = self.union.names();
        let the_table = if self.union.is_of_several() { "no table has a" } else { "the table has no" };
        let mut faults = Faults::new();
        for column in last.columns().iter().filter(|column| !is_taken(&column.name)) {
            let name = &column.name;
            let Some(path) = self.giver(name) else { continue };
            // A window over a query names the time of its rows by a column, which need not be read.
            let has_time =
                |step: &Planned| matches!(step.kind, Kind::Joined(query) if query.row_times.contains(name));
            if self.is_for_window && self.steps.iter().any(has_time) {
                continue;
            }
            let near = nearest(name, &known);
            let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
            faults.push(fault(path, format!("{the_table} column `{name}`, and no step reads it{near}")));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// The columns of the first step's rows that anything reads: the tables, the conditions behind the last step, and the keys of the steps
    /// with state.
    pub(super) fn needed(
        &self,
        last: &Schema,
        bound: &[Bound],
        (keys, reads): (&[Key], &[String]),
        time: Option<&str>,
    ) -> BTreeSet<String> {
        let taken = self.union.columns().map(|column| self.source_of(column).to_owned());
        let taken = taken.filter(|name| last.index_of(name).is_some());
        let mut needed: BTreeSet<String> = taken.chain(reads.iter().cloned()).collect();
        let keys_behind = |stateless: usize| {
            keys.iter().filter(move |key| key.behind == stateless).map(|key| key.column.clone())
        };
        for (at, (step, bound)) in
            self.stateless().zip(bound).enumerate().collect::<Vec<_>>().into_iter().rev()
        {
            needed.extend(keys_behind(at + 1));
            let passed = needed.iter().filter_map(|name| match step.shape.before(name) {
                shape::Before::Passes(before) => Some(before),
                shape::Before::Computed | shape::Before::Absent => None,
            });
            // `SELECT *` passes what the source says of a record too: only what is written or taken is made.
            let is_written = |name: &&String| match step.kind {
                Kind::Query(text) => !self.is_metadata(name) || text.contains(name.as_str()),
                _ => true,
            };
            let named = step.shape.passes.values().filter(is_written).cloned();
            // What the step passes by an expression, which without types looks computed.
            let is_computed = |name: &str| step.shape.computed.contains(name);
            let of_expressions = bound.passes.iter().filter(|(name, _)| is_computed(name));
            let of_expressions = of_expressions.map(|(_, from)| from.clone());
            let read = bound.reads.iter().cloned().chain(of_expressions);
            needed = passed.chain(named).chain(read).collect();
        }
        needed.extend(keys_behind(0));
        needed.extend(time.map(str::to_owned));
        needed
    }
}
