//! Lookups in a plan: where one may stand, and what it is bound to.
//!
//! Owns the columns of the other side that are read, and the rule that no key of a `dedup` comes from there. Does not own the step ([`operators::lookup`]), nor where
//! the other side's rows come from ([`crate::lookups`]).

use std::sync::Arc;

use dataflow::{Column, Metadata, Schema};
use operators::{Lookup, LookupConfig};

use super::chain::{Work, segments};
use super::planner::{Origin, Planner};
use super::steps::Kind;
use super::{Bound, Faults, TextFault, fault};
use crate::config::model::lookup::{LookupCache, LookupKind, LookupStep};
use crate::lookups::reports;

/// The columns of the other side that are read: those of the key, and those that rows get.
///
/// # Panics
/// When the rules of the file do not hold: each has a type.
pub fn side(lookup: &LookupStep) -> Schema {
    let mut columns: Vec<Column> = Vec::new();
    let keys = lookup.pairs().into_iter().map(|(_, theirs)| theirs);
    for name in keys.chain(lookup.gives().into_iter().map(|(_, from)| from)) {
        if columns.iter().any(|column| column.name == name) {
            continue;
        }
        let of_type = lookup.fields.0.iter().find(|(field, _)| field.as_str() == name);
        let (_, of_type) = of_type.expect("the rules have seen that it has a type");
        let of_type = clickhouse::types::parse(&name, of_type).expect("the rules have seen that it is one");
        columns.push(Column::new(&name, of_type));
    }
    Schema::new(columns)
}

/// The step number `at`, which the file has under `in_file`, for rows with the columns of `input`.
pub(super) fn bound(
    input: &Schema,
    (at, in_file): (usize, usize),
    lookup: &LookupStep,
) -> Result<Bound, TextFault> {
    let config = LookupConfig {
        number: at as u32,
        on: lookup.pairs(),
        columns: lookup.gives(),
        is_outer: lookup.kind == LookupKind::Left,
    };
    // A key that the rows do not have is a field without a type, if it is one.
    let unknown = config.on.iter().map(|(own, _)| own).find(|own| input.index_of(own).is_none()).cloned();
    let step = Lookup::new(input, &side(lookup), &config).map_err(|error| TextFault {
        message: error.to_string(),
        at: None,
        item: String::new(),
        unknown,
        twice: None,
    })?;
    let reads = config.on.into_iter().map(|(own, _)| own).collect();
    let names = |column: &Column| (column.name.clone(), column.name.clone());
    let passes = input.columns().iter().map(names).collect();
    let reports = reports(format!("steps[{in_file}].lookup"));
    Ok(Bound { step: Arc::new(step.with_unmatched(reports)), reads, passes })
}

impl Planner<'_> {
    /// Whether every lookup stands where it can.
    pub(super) fn lookups(&self) -> Result<(), Faults> {
        let (of_step, mut faults) = (segments(&self.steps), Faults::new());
        let lookups = self.steps.iter().enumerate().filter(|(_, step)| matches!(step.kind, Kind::Lookup(_)));
        for (place, step) in lookups {
            if of_step[place] > 0 || self.results_of.is_some() {
                let message = "a lookup stands before the first step with state, where records wait for the other side; move it before it";
                faults.push(fault(&step.path, message));
            }
            for (at, path, dedup) in self.dedups().filter(|(at, ..)| *at > place) {
                for (nth, key) in dedup.key.iter().enumerate() {
                    let Origin::Computed(giver) = self.origin(key.as_str(), at) else { continue };
                    if self.steps[place..at].iter().any(|step| step.path == giver) {
                        let message = format!(
                            "`{key}` is computed in `{giver}`, at or behind a lookup: what is found there changes, so a record that is read again could have another key; take a column \
                             from before `{}`",
                            step.path
                        );
                        faults.push(fault(format!("{path}.key[{nth}]"), message));
                    }
                }
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// Whether the keys that a side is asked for are known before a record goes through the steps: `work` is that of the decode job, in order.
    pub(super) fn keys_before_reading(&self, work: &[Work]) -> Result<(), Faults> {
        let ingested = Metadata::Ingested.name();
        let is_asked = |work: &Work| {
            let step = work.at.map(|at| &self.steps[at].kind);
            matches!(step, Some(Kind::Lookup(lookup)) if lookup.cache == LookupCache::Partial)
        };
        let of_now = work.iter().position(|work| work.reads.iter().any(|read| read == ingested));
        let asked = work.iter().rposition(is_asked);
        match (of_now, asked) {
            (Some(reader), Some(lookup)) if reader <= lookup => {
                let message = format!(
                    "`{}` reads `{ingested}`, and with `cache: partial` the other side is asked for keys before a record is ingested; move the lookup before it, or leave `cache` out of `{}`",
                    work[reader].path, work[lookup].path
                );
                Err(vec![fault(&work[lookup].path, message)])
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
