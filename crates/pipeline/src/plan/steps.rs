//! The steps of the file as the planner sees them.
//!
//! Owns which kind of work each step is for the rows of one input, and its place in the file. Does not own what a step does to its columns ([`super::shape`]),
//! nor how its text is bound ([`super::bind`]).

use dataflow::Column;

use super::inputs::View;
use super::shape;
use super::shape::Shape;
use crate::config::model::Pipeline;
use crate::config::model::join::JoinQuery;
use crate::config::model::lookup::LookupStep;
use crate::config::model::step::{Dedup, Step};
use crate::config::values::Pairs;

/// What a step does, as the file says it.
pub(super) enum Kind<'a> {
    Filter(&'a str),
    Select(&'a Pairs),
    Query(&'a str),
    /// The select list and the filter of a query that joins two inputs: over the joined rows.
    Joined(&'a JoinQuery),
    Dedup(&'a Dedup),
    /// It is planned by itself ([`super::windows`]).
    Window,
    /// So is this ([`super::joins`]).
    Join,
    /// Columns of a row elsewhere ([`super::lookups`]).
    Lookup(&'a LookupStep),
    /// A condition whose value is one more column, [`MARK`].
    Mark(&'a str),
    /// What brings the rows of an input to the columns of all: these.
    Meet(&'a [Column]),
    /// A step for the rows of other inputs; or one without a word, which the schema refuses.
    Nothing,
}

/// The column of [`Kind::Mark`]. No step can name it.
pub(super) const MARK: &str = "`is deleted`";

pub(super) struct Planned<'a> {
    pub(super) path: String,
    /// Its number among all steps.
    pub(super) at: usize,
    /// The number that the file has it under: a query may be several steps.
    pub(super) in_file: usize,
    pub(super) kind: Kind<'a>,
    pub(super) shape: Shape,
}

impl<'a> Planned<'a> {
    pub(super) fn is_stateless(&self) -> bool {
        matches!(
            self.kind,
            Kind::Filter(_)
                | Kind::Select(_)
                | Kind::Query(_)
                | Kind::Joined(_)
                | Kind::Lookup(_)
                | Kind::Mark(_)
                | Kind::Meet(_)
        )
    }

    /// A condition of the step `at`, whose value is one more column.
    pub(super) fn mark(at: usize, path: String, text: &'a str) -> Self {
        let shape = Shape { computed: [MARK.to_owned()].into(), ..Shape::all() };
        Self { path, at, in_file: at, kind: Kind::Mark(text), shape }
    }

    /// What the query of the join `at` makes of its rows. Its shape is known once it is bound.
    pub(super) fn behind_join(at: usize, query: &'a JoinQuery) -> Self {
        Self {
            path: format!("steps[{at}].sql"),
            at,
            in_file: at,
            kind: Kind::Joined(query),
            shape: Shape::all(),
        }
    }

    /// A step for the rows of other inputs.
    pub(super) fn elsewhere(at: usize) -> Self {
        Self { path: String::new(), at, in_file: at, kind: Kind::Nothing, shape: Shape::all() }
    }

    pub(super) fn new((at, step): (usize, &'a Step)) -> Self {
        let path = format!("steps[{at}].{}", step.word());
        let (kind, shape) = match step {
            Step { filter: Some(text), .. } => (Kind::Filter(text), Shape::all()),
            Step { select: Some(items), .. } => (Kind::Select(items), shape::of_select(items)),
            // Its shape is known once it is bound.
            Step { sql: Some(text), .. } => (Kind::Query(text), Shape::all()),
            Step { dedup: Some(dedup), .. } => (Kind::Dedup(dedup), Shape::all()),
            Step { window: Some(_), .. } => (Kind::Window, Shape::all()),
            Step { join: Some(_), .. } => (Kind::Join, Shape::all()),
            Step { lookup: Some(lookup), .. } => (Kind::Lookup(lookup), shape::of_lookup(lookup)),
            _ => (Kind::Nothing, Shape::all()),
        };
        let in_file = step.written.as_ref().map_or(at, |written| written.at);
        Self { path, at, in_file, kind, shape }
    }
}

/// The first steps of the file, `count` in number, as they are for the rows of an input.
pub(super) fn planned<'a>(pipeline: &'a Pipeline, view: &'a View<'a>, count: usize) -> Vec<Planned<'a>> {
    let mut steps = Vec::with_capacity(count + 1);
    for (at, step) in pipeline.steps.iter().enumerate().take(count) {
        steps.extend(view.meeting(at));
        let is_own = step.reads(view.input.name);
        steps.push(if is_own { Planned::new((at, step)) } else { Planned::elsewhere(at) });
    }
    steps.extend(view.meeting(count));
    steps
}
