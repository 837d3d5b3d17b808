//! Which columns of a table tell the results of a window apart.
//!
//! Owns the columns that identify a result, and their names behind the steps that follow and in a table. Does not own the rule for `upsert`
//! (`rules::upsert`), nor what is asked of a table that exists (`clickhouse::checks`).
//!
//! | windows            | besides its key, a result is identified by                        |
//! |--------------------|-------------------------------------------------------------------|
//! | tumbling, hopping  | `window_start` or `window_end`: all of them have the same length  |
//! | sessions           | either of them: sessions of a key do not overlap                  |
//! | cumulative         | `window_end`: those of one `size` have the same `window_start`    |

use operators::WindowConfig;
use operators::window::{END, START, Windows};

use crate::config::model::Pipeline;
use crate::config::model::sink::Target;
use crate::config::model::step::Step;
use crate::config::values::{Pairs, column_of};

/// The key of `select:` that stands for all columns that it does not name.
const ALL: &str = "*";

/// What tells the results of a window apart in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Lists of columns of the table: a sorting key with at least one column of each list tells the results apart. No list is empty. A column that
    /// a step drops has no list.
    pub columns: Vec<Vec<String>>,
    /// Columns of the table that are computed behind the window: a sorting key with one of them may tell the results apart.
    pub computed: Vec<String>,
    /// Whether a window has several results for each key, which replace each other or take each other back (`emit`).
    pub replaces: bool,
    /// Whether a record is in several windows, so that the sum of their results counts it more than once.
    pub overlaps: bool,
}

impl Identity {
    /// The lists that have no column in `key`; none if a column of it is computed, for nobody knows then.
    pub fn missing(&self, key: &[&str]) -> Vec<&[String]> {
        let has_any = |columns: &[String]| columns.iter().any(|column| key.contains(&column.as_str()));
        if has_any(&self.computed) {
            return Vec::new();
        }
        self.columns.iter().map(Vec::as_slice).filter(|columns| !has_any(columns)).collect()
    }
}

/// What tells the results of the last window apart in the table of `target`; `None` if other rows go there, or if a step behind the window may give its
/// columns other values under the same names.
pub fn in_table(pipeline: &Pipeline, target: &Target) -> Option<Identity> {
    if target.is_of_side() {
        return None;
    }
    let at = pipeline.steps.iter().rposition(|step| step.window.is_some())?;
    let config = super::config(pipeline.steps[at].window.as_ref()?, "").ok()?;
    let mut names = Names::of_results(&config);
    for step in &pipeline.steps[at + 1..] {
        names = names.behind(step)?;
    }
    Some(Identity {
        columns: names
            .exact
            .iter()
            .map(|names| filled(names, target))
            .filter(|all| !all.is_empty())
            .collect(),
        computed: filled(&names.computed, target),
        replaces: config.emit.is_some(),
        overlaps: overlaps(config.windows),
    })
}

/// The names that columns have behind a step.
struct Names {
    /// For each part of what identifies a result, the columns that hold it.
    exact: Vec<Vec<String>>,
    /// The columns that a step behind the window has computed.
    computed: Vec<String>,
}

impl Names {
    /// Those of the results themselves.
    fn of_results(config: &WindowConfig) -> Self {
        let bounds = match config.windows {
            Windows::Cumulative { size, step } if step < size => vec![END],
            Windows::Tumbling { .. }
            | Windows::Hopping { .. }
            | Windows::Cumulative { .. }
            | Windows::Session { .. } => vec![START, END],
        };
        let bounds: Vec<String> = bounds.into_iter().map(str::to_owned).collect();
        let key = config.key.iter().map(|column| vec![column.clone()]);
        Self { exact: key.chain([bounds]).collect(), computed: Vec::new() }
    }

    /// Those behind the next step; `None` if it is not known here what it does with columns.
    fn behind(self, step: &Step) -> Option<Self> {
        match &step.select {
            Some(items) => Some(self.behind_select(items)),
            None => (step.filter.is_some() || step.dedup.is_some()).then_some(self),
        }
    }

    fn behind_select(&self, items: &Pairs) -> Self {
        let of = |names: &[String]| -> Vec<String> {
            let kept = names.iter().filter(|name| items.has(ALL) && !items.has(name.as_str())).cloned();
            let is_one = |text: &str| column_of(text).is_some_and(|column| names.contains(&column));
            let named = items.0.iter().filter(|(_, text)| is_one(text));
            kept.chain(named.map(|(name, _)| name.as_str().to_owned())).collect()
        };
        let computed =
            items.0.iter().filter(|(name, text)| name.as_str() != ALL && column_of(text).is_none());
        let computed = computed.map(|(name, _)| name.as_str().to_owned());
        Self {
            exact: self.exact.iter().map(|names| of(names)).collect(),
            computed: of(&self.computed).into_iter().chain(computed).collect(),
        }
    }
}

/// The columns of a table that one of these columns of the last step fills.
fn filled(names: &[String], target: &Target) -> Vec<String> {
    let is_own = |name: &&String| !target.columns.keys().any(|column| column.as_str() == name.as_str());
    let own = names.iter().filter(is_own).cloned();
    let renamed = target.columns.iter().filter(|(_, from)| names.iter().any(|name| name == from.as_str()));
    own.chain(renamed.map(|(column, _)| column.as_str().to_owned())).collect()
}

/// Whether a record is in more than one of these windows.
fn overlaps(windows: Windows) -> bool {
    match windows {
        Windows::Tumbling { .. } | Windows::Session { .. } => false,
        Windows::Hopping { size, slide } => slide < size,
        Windows::Cumulative { size, step } => step < size,
    }
}

#[cfg(test)]
mod tests;
