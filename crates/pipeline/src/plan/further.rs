//! What else is wrong, once the text of a step is.
//!
//! Owns how far the plan goes on without that text, and which faults only follow from it. Does not own what is wrong with one text ([`super::Texts`]).
//!
//! | at fault            | the steps behind see                                     |
//! |---------------------|----------------------------------------------------------|
//! | a `filter`          | the same columns                                         |
//! | items of a `select` | what the other items give; the columns at fault are lost |
//! | anything else       | nothing: what is wrong there is not known                |
//!
//! A text that reads a lost column is not at fault for that.

use std::collections::BTreeSet;

use dataflow::Schema;

use super::planner::Planner;
use super::steps::{Kind, MARK, Planned};
use super::{Bound, TextFault, shape};

/// Everything that is known to be wrong with the texts of a chain.
pub(super) struct Found {
    /// Each with the number of its step, in their order; at least one.
    pub(super) faults: Vec<(usize, TextFault)>,
    /// The steps without a fault, each with its number.
    pub(super) bound: Vec<(usize, Bound)>,
    /// The columns behind the last step; `None` if they are not known.
    pub(super) last: Option<Known>,
}

/// Columns, as far as they are known.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) columns: Schema,
    /// Columns that faulty texts would have made.
    lost: BTreeSet<String>,
}

impl Known {
    /// True if the fault is that a lost column is not there.
    pub(super) fn excuses(&self, fault: &TextFault) -> bool {
        fault.unknown.as_ref().is_some_and(|name| self.lost.contains(name))
    }
}

impl Planner<'_> {
    /// What is wrong from step `first` on, whose input has the columns `input`, and whose fault is `fault`.
    pub(super) fn further(&self, first: usize, input: &Schema, fault: TextFault) -> Found {
        let (mut faults, mut bound) = (Vec::new(), Vec::new());
        let mut known = Some(Known { columns: input.clone(), lost: BTreeSet::new() });
        let mut of_first = Some(fault);
        for (at, step) in self.steps.iter().enumerate().skip(first) {
            let Some(before) = &known else { break };
            let made = match of_first.take() {
                Some(fault) => Some(Err(fault)),
                None => self.text_bound(&before.columns, step),
            };
            match made {
                None => {}
                Some(Ok(made)) => {
                    let columns = made.step.schema().clone();
                    bound.push((at, made));
                    known = Some(Known { columns, lost: before.lost.clone() });
                }
                Some(Err(fault)) => {
                    let of_step = self.faults_of(step, &before.columns, fault);
                    let behind = self.behind(step, before, &of_step);
                    faults.extend(
                        of_step.into_iter().filter(|fault| !before.excuses(fault)).map(|fault| (at, fault)),
                    );
                    known = behind;
                }
            }
        }
        Found { faults, bound, last: known }
    }

    /// The faults of all items of a step, of which `first` is the one that was found first.
    fn faults_of(&self, step: &Planned<'_>, input: &Schema, first: TextFault) -> Vec<TextFault> {
        let Kind::Select(items) = step.kind else { return vec![first] };
        let alone = shape::items(items).into_iter();
        let of_item = |item: (String, String)| self.texts.select(input, &[item], false).err();
        let mut faults: Vec<TextFault> = alone.filter_map(of_item).collect();
        // What is wrong with them together comes first.
        if !faults.contains(&first) {
            faults.insert(0, first);
        }
        faults
    }

    /// What is known behind a step with these faults.
    fn behind(&self, step: &Planned<'_>, before: &Known, faults: &[TextFault]) -> Option<Known> {
        let mut known = before.clone();
        match step.kind {
            Kind::Filter(_) => {}
            Kind::Mark(_) => {
                known.lost.insert(MARK.to_owned());
            }
            Kind::Select(items) => {
                let lost: BTreeSet<String> = faults.iter().map(|fault| fault.item.clone()).collect();
                let left = shape::items(items).into_iter().filter(|(name, _)| !lost.contains(name));
                let left: Vec<(String, String)> = left.collect();
                let made = self.texts.select(&before.columns, &left, shape::keeps_others(items)).ok()?;
                let columns = made.step.schema().columns().iter();
                let columns = columns.filter(|column| !lost.contains(&column.name)).cloned().collect();
                known.columns = Schema::new(columns);
                known.lost.extend(lost);
            }
            _ => return None,
        }
        Some(known)
    }
}
