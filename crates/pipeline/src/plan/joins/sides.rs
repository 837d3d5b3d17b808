//! The joins of a pipeline, and whose rows each of their sides takes.
//!
//! Owns the tree of inputs and joins as the file has it. Does not own the columns of joined rows ([`super::columns`]).

use operators::{JoinColumn, JoinConfig, JoinKind, TemporalConfig};

use super::JoinSettings;
use crate::config::model::join::{self as model, JoinStep};
use crate::config::model::{Input, Pipeline};
use crate::plan::steps::MARK;
use crate::plan::windows::Giver;
use crate::plan::{Faults, fault};

/// Where the rows of a side come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// An input, by its place.
    Input(usize),
    /// An earlier join, by its place among them.
    Join(usize),
}

/// One side of a join.
pub(super) struct Side {
    pub(super) name: String,
    pub(super) rows: Rows,
    /// The numbers of the steps that its rows go through.
    pub(super) steps: Vec<usize>,
    /// The number of the join.
    pub(super) join: usize,
    /// What makes a row of this side delete its key.
    pub(super) deleted: Option<String>,
    /// The column that a query takes for the time of the rows: its place among the sides, and its name.
    pub(super) time: Option<(usize, String)>,
}

/// A join of the pipeline.
pub(super) struct At<'a> {
    pub(super) at: usize,
    pub(super) path: String,
    pub(super) step: &'a JoinStep,
    pub(super) sides: [Side; 2],
}

/// The joins of a pipeline whose rules hold.
pub(super) fn joins<'a>(pipeline: &'a Pipeline, inputs: &[Input<'_>]) -> Result<Vec<At<'a>>, Faults> {
    let mut all: Vec<At<'a>> = Vec::new();
    for (at, step) in pipeline.steps.iter().enumerate() {
        let Some(step) = &step.join else { continue };
        let path = format!("steps[{at}].join");
        let side = |place: usize, name: &str, deleted: Option<&String>| {
            let of_join =
                all.iter().position(|join| join.step.name.as_ref().is_some_and(|own| own.as_str() == name));
            let of_input = || inputs.iter().position(|input| input.name == name).map(Rows::Input);
            let rows = of_join.map(Rows::Join).or_else(of_input);
            let rows =
                rows.ok_or_else(|| vec![fault(&path, format!("there are no rows called `{name}`"))])?;
            let is_own = |at: &usize| {
                let step = &pipeline.steps[*at];
                step.join.is_none() && step.from.is_some() && step.reads(name)
            };
            let (name, steps) = (name.to_owned(), (0..at).filter(is_own).collect());
            let time = step.query.as_ref().and_then(|query| query.time_of[place].clone());
            let (deleted, time) = (deleted.cloned(), time.map(|time| (place, time)));
            Ok::<_, Faults>(Side { name, rows, steps, join: at, deleted, time })
        };
        let sides =
            [side(0, step.left.as_str(), None)?, side(1, step.right.as_str(), step.deleted.as_ref())?];
        all.push(At { at, path, step, sides });
    }
    Ok(all)
}

impl At<'_> {
    pub(super) fn giver(&self) -> Giver {
        Giver { at: self.at, path: self.path.clone(), computed: Vec::new() }
    }

    pub(super) fn config(&self, columns: Vec<JoinColumn>, unmatched: [Vec<String>; 2]) -> JoinSettings {
        let (on, lateness) = (self.step.pairs(), self.step.lateness.duration());
        if self.step.is_temporal() {
            let is_outer = self.step.kind == model::JoinKind::Left;
            let deleted = self.step.deleted.as_ref().map(|_| MARK.to_owned());
            // Of the right side the rules let none through.
            let [unmatched, _] = unmatched;
            let config = TemporalConfig { on, lateness, is_outer, columns, deleted, unmatched };
            return JoinSettings::Temporal(config);
        }
        let (before, after) = self.step.interval();
        let kind = match self.step.kind {
            model::JoinKind::Inner => JoinKind::Inner,
            model::JoinKind::Left => JoinKind::Left,
            model::JoinKind::Right => JoinKind::Right,
            model::JoinKind::Full => JoinKind::Full,
        };
        JoinSettings::Interval(JoinConfig { on, before, after, lateness, kind, columns, unmatched })
    }

    /// The columns of the key on one side.
    pub(super) fn key(&self, side: usize) -> impl Iterator<Item = String> {
        self.step.pairs().into_iter().map(move |(left, right)| if side == 0 { left } else { right })
    }
}
