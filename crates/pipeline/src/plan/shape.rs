//! Which columns of a step's rows are columns of its input.
//!
//! Owns what can be said without types: the planner follows a column of the table back to a field of the record by it. Does not
//! own what an expression means.

use std::collections::{BTreeMap, BTreeSet};

use super::Bound;
use crate::config::model::lookup::LookupStep;
use crate::config::values::{Pairs, column_of};

/// The key of `select:` that stands for all columns that it does not name.
pub(super) const ALL: &str = "*";

/// What becomes of columns that a step does not name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// They go on, but for these.
    Pass(BTreeSet<String>),
    /// They do not.
    Drop,
}

/// Where the columns of a step's rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Columns that are columns of the input, under this name or another: new name to old.
    pub passes: BTreeMap<String, String>,
    /// Columns that the step computes.
    pub computed: BTreeSet<String>,
    /// The others.
    pub rest: Rest,
}

/// Where a column was before a step.
pub(super) enum Before {
    Passes(String),
    Computed,
    Absent,
}

impl Shape {
    /// Every column goes on.
    pub fn all() -> Self {
        Self { passes: BTreeMap::new(), computed: BTreeSet::new(), rest: Rest::Pass(BTreeSet::new()) }
    }

    /// Where column `name` of the step's rows was before.
    pub(super) fn before(&self, name: &str) -> Before {
        match (self.passes.get(name), &self.rest) {
            (Some(before), _) => Before::Passes(before.clone()),
            _ if self.computed.contains(name) => Before::Computed,
            (None, Rest::Pass(but)) if !but.contains(name) => Before::Passes(name.to_owned()),
            _ => Before::Absent,
        }
    }

    /// True if the step gives this name to a column that did not have it.
    pub(super) fn names(&self, name: &str) -> bool {
        self.computed.contains(name) || self.passes.get(name).is_some_and(|before| before != name)
    }
}

/// The shape of a `select:`.
pub(super) fn of_select(items: &Pairs) -> Shape {
    let mut shape = Shape { passes: BTreeMap::new(), computed: BTreeSet::new(), rest: Rest::Drop };
    for (name, text) in &items.0 {
        match column_of(text) {
            _ if name.as_str() == ALL => shape.rest = Rest::Pass(BTreeSet::new()),
            Some(before) => {
                shape.passes.insert(name.as_str().to_owned(), before);
            }
            None => {
                shape.computed.insert(name.as_str().to_owned());
            }
        }
    }
    shape
}

/// The shape of a `lookup:`.
pub(super) fn of_lookup(lookup: &LookupStep) -> Shape {
    let computed = lookup.gives().into_iter().map(|(name, _)| name).collect();
    Shape { computed, ..Shape::all() }
}

/// The items of a `select:`, each with its text.
pub(super) fn items(items: &Pairs) -> Vec<(String, String)> {
    let named = items.0.iter().filter(|(name, _)| name.as_str() != ALL);
    named.map(|(name, text)| (name.as_str().to_owned(), text.clone())).collect()
}

/// True if columns pass that a `select:` does not name.
pub(super) fn keeps_others(items: &Pairs) -> bool {
    items.has(ALL)
}

/// The shape of a query that was bound: what passes has a name of its own, even if the query says `*`.
pub(super) fn of_query(bound: &Bound) -> Shape {
    let passes: BTreeMap<String, String> = bound.passes.iter().cloned().collect();
    let names = bound.step.schema().columns().iter().map(|column| column.name.clone());
    Shape { computed: names.filter(|name| !passes.contains_key(name)).collect(), passes, rest: Rest::Drop }
}
