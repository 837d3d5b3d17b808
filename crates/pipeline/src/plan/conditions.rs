//! The conditions of several tables: for each a column of truth values behind the last step.
//!
//! The name of such a column is the place of its text in the file, which no step can give to a column.
//!
//! Owns their place in the plan and the faults of their texts. Does not own which tables a row goes to
//! ([`operators::mapping::route`]).

use std::sync::Arc;

use dataflow::{ColumnType, Schema, Transform};

use super::further::Known;
use super::planner::Planner;
use super::{Bound, Fault, Faults, TextFault, fault};
use crate::config::model::sink::Takes;

/// The step that computes them; none if no table has one.
pub(super) struct Conditions(Option<Bound>);

impl Conditions {
    /// The columns of the last step that they read.
    pub(super) fn reads(&self) -> Vec<String> {
        let Some(bound) = &self.0 else { return Vec::new() };
        let passes = bound.passes.iter().filter(|(made, from)| made != from).map(|(_, from)| from);
        bound.reads.iter().chain(passes).cloned().collect()
    }

    /// The step.
    pub(super) fn step(self) -> Option<Arc<dyn Transform>> {
        self.0.map(|bound| bound.step)
    }
}

impl Planner<'_> {
    /// Binds the conditions to the columns of the last step.
    pub(super) fn conditions(&self, last: &Schema) -> Result<Conditions, Faults> {
        let texts = self.texts_of_conditions();
        if texts.is_empty() {
            return Ok(Conditions(None));
        }
        let bound = self.texts.select(last, &texts, true).map_err(|found| {
            let mut faults = self.each_condition(last, &texts);
            // What is wrong with them together comes first.
            if !faults.contains(&found) {
                faults.insert(0, found);
            }
            faults.into_iter().map(|found| self.fault_of_condition(found)).collect::<Faults>()
        })?;
        let schema = bound.step.schema();
        let mut faults = Faults::new();
        for (path, _) in texts {
            let of_type = schema.index_of(&path).map(|at| &schema.columns()[at].column_type);
            if let Some(other) = of_type.filter(|of_type| *of_type.bare() != ColumnType::Bool) {
                let message = format!(
                    "this is of type {}, and a condition is true or false; compare it, as in `{} = 1`",
                    clickhouse::types::name(other),
                    "column"
                );
                faults.push(fault(path, message));
            }
        }
        if faults.is_empty() { Ok(Conditions(Some(bound))) } else { Err(faults) }
    }

    /// What is wrong with the conditions themselves, where a step before them is at fault.
    pub(super) fn faults_of_conditions(&self, last: &Known) -> Faults {
        let faults = self.each_condition(&last.columns, &self.texts_of_conditions()).into_iter();
        faults.filter(|fault| !last.excuses(fault)).map(|found| self.fault_of_condition(found)).collect()
    }

    /// The places and the texts of all conditions.
    fn texts_of_conditions(&self) -> Vec<(String, String)> {
        let texts = self.union.targets().iter().filter_map(|target| match &target.takes {
            Takes::Where(text) => Some((target.condition_path.clone(), text.clone())),
            Takes::Every | Takes::Otherwise | Takes::Side(_) => None,
        });
        texts.collect()
    }

    fn each_condition(&self, last: &Schema, texts: &[(String, String)]) -> Vec<TextFault> {
        let alone =
            |text: &(String, String)| self.texts.select(last, std::slice::from_ref(text), false).err();
        texts.iter().filter_map(alone).collect()
    }

    fn fault_of_condition(&self, found: TextFault) -> Fault {
        let TextFault { message, at, item, unknown, .. } = found;
        let path = if item.is_empty() { "sinks".to_owned() } else { item };
        // The text of a value's condition is not in the file.
        let at = at.filter(|_| path.ends_with(".where"));
        Fault { path, at, message: message + &self.undeclared_words(unknown, self.steps.len()) }
    }
}
