//! The inputs of a pipeline in its plan: each has one of its own, and from the lane on they are the same.
//!
//! Owns what the planner of one input knows of the others ([`Joint`]), and that the rows of all have the same columns in the lane. Does not
//! own which types these have where the inputs meet ([`super::union`]), nor the plan of one input.
//!
//! ```text
//! orders   ─▶ decoded as orders needs   ─▶ steps with `from: orders`   ─┐ brought to      ┌▶ the other ─▶ mapping ─┐
//! payments ─▶ decoded as payments needs ─▶ steps with `from: payments` ─┘ the same types  └▶ steps     ─▶ mapping ─┴▶ the lane
//! ```
//! All of that is done in the decode job of each input, so a step for all rows is bound once for each of them.

use dataflow::{Column, Schema};
use engine::Flow;
use engine::problem::SOURCE;

use super::steps::{Kind, Planned};
use super::{Faults, Plan, Shape, Texts, fault, joins, plan_input, shape, union};
use crate::config::model::{Input, Pipeline};

/// The plan of every input.
pub struct Plans {
    /// In the order of [`Pipeline::inputs`]; at least one.
    pub inputs: Vec<InputPlan>,
    /// Which step of the lane the rows of each input, and of each step, go to next.
    pub flow: Flow,
}

/// The plan of one input.
pub struct InputPlan {
    /// The input's name.
    pub name: String,
    /// Where its settings stand in the file: `source`, or `inputs.NAME`.
    pub path: String,
    /// What is done with its records.
    pub plan: Plan,
}

impl Plans {
    /// What is the same for all inputs: the steps with state, the tables' names and columns, the router; and the lane's columns, unless there is a
    /// join.
    pub fn common(&self) -> &Plan {
        &self.inputs[0].plan
    }

    /// Whether there is more than one input.
    pub fn are_several(&self) -> bool {
        self.inputs.len() > 1
    }

    /// The columns of table `place` whose values depend on when a record was read, whatever its input.
    pub fn fleeting(&self, place: usize) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for column in self.inputs.iter().flat_map(|input| input.plan.fleeting(place)) {
            if !all.contains(&column) {
                all.push(column);
            }
        }
        all
    }
}

/// What one input has to do so that its rows are like those of the others.
#[derive(Clone, Debug, Default)]
pub(super) struct Joint {
    /// The first step for the rows of all inputs.
    pub(super) at: usize,
    /// Fields that it does not declare and another input does, as columns that may be missing: a record may have them.
    pub(super) also_declared: Vec<Column>,
    /// Columns that have another type here than in other inputs, or are not there, as they are for all.
    pub(super) columns: Vec<Column>,
    /// Whether its rows are always mapped: those of another input are.
    pub(super) maps: bool,
}

/// One input, as its planner sees it.
pub(super) struct View<'a> {
    /// Its name, its place and its settings.
    pub(super) input: &'a Input<'a>,
    /// What it has to do for the others' sake.
    pub(super) joint: Joint,
}

impl<'a> View<'a> {
    /// An input that has no others beside it.
    pub(super) fn alone(input: &'a Input<'a>) -> Self {
        Self { input, joint: Joint::default() }
    }

    /// The same for what stands behind a window, where the rows of all inputs are one.
    pub(super) fn of_results(&self) -> View<'_> {
        View::alone(self.input)
    }

    /// Which rows a message is about; empty if there are no others.
    pub(super) fn of_rows(&self) -> String {
        match self.input.path.as_str() {
            SOURCE => String::new(),
            _ => format!(" for the rows of input `{}`", self.input.name),
        }
    }

    /// The place of its declared fields.
    pub(super) fn fields(&self) -> String {
        format!("{}.fields", self.input.path)
    }

    /// The field that holds its event time, if it says so itself.
    pub(super) fn time(&self) -> Option<&str> {
        self.input.source.time.as_ref().map(|time| time.as_str())
    }

    /// Whether its rows are brought to the columns of all.
    pub(super) fn meets(&self) -> bool {
        !self.joint.columns.is_empty()
    }

    /// The step that does so, if it stands before step `index` of the file.
    pub(super) fn meeting(&self, index: usize) -> Option<Planned<'_>> {
        if index != self.joint.at || !self.meets() {
            return None;
        }
        // Which of them are new is known once it is bound; a new one is read by a step behind it in any case.
        let shape = Shape { rest: shape::Rest::Pass(Default::default()), ..Shape::all() };
        let kind = Kind::Meet(&self.joint.columns);
        Some(Planned { path: "inputs".to_owned(), at: index, in_file: index, kind, shape })
    }
}

/// Plans every input of a pipeline.
pub(super) fn plan(pipeline: &Pipeline, tables: &[Schema], texts: &dyn Texts) -> Result<Plans, Faults> {
    if pipeline.steps.iter().any(|step| step.join.is_some()) {
        return joins::plan(pipeline, tables, texts);
    }
    let inputs = pipeline.inputs();
    let joints = match inputs.as_slice() {
        [_] => vec![Joint::default()],
        several => union::joints(pipeline, several, tables, texts)?,
    };
    let plans = plan_all(pipeline, &inputs, &joints, tables, texts)?;
    if plans.have_one_lane() {
        return Ok(plans);
    }
    let joints: Vec<Joint> = joints.into_iter().map(|joint| Joint { maps: true, ..joint }).collect();
    let plans = plan_all(pipeline, &inputs, &joints, tables, texts)?;
    plans.differing().map_or(Ok(()), Err)?;
    Ok(plans)
}

fn plan_all(
    pipeline: &Pipeline,
    inputs: &[Input<'_>],
    joints: &[Joint],
    tables: &[Schema],
    texts: &dyn Texts,
) -> Result<Plans, Faults> {
    let (mut plans, mut faults) = (Vec::with_capacity(inputs.len()), Faults::new());
    for (input, joint) in inputs.iter().zip(joints) {
        let view = View { input, joint: joint.clone() };
        match plan_input(pipeline, &view, tables, texts) {
            Ok(plan) => plans.push(InputPlan { name: input.name.to_owned(), path: input.path.clone(), plan }),
            // A fault of a step for all rows is the same for each input.
            Err(found) => {
                faults.extend(found.into_iter().filter(|one| !faults.contains(one)).collect::<Faults>())
            }
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    if plans.is_empty() {
        return Err(vec![fault("", "the pipeline has no input; write `source:`, or `inputs:` for several")]);
    }
    Ok(Plans { inputs: plans, flow: Flow::default() })
}

impl Plans {
    fn have_one_lane(&self) -> bool {
        let first = self.common().lane.columns();
        self.inputs[1..].iter().all(|input| input.plan.lane.columns() == first)
    }

    /// The first column of the lane that two inputs have in different types.
    fn differing(&self) -> Option<Faults> {
        let first = &self.inputs[0];
        let columns = |plan: &Plan| plan.lane.columns().to_vec();
        for other in &self.inputs[1..] {
            for (one, column) in columns(&first.plan).iter().zip(&columns(&other.plan)) {
                if one != column {
                    let type_of = |column: &Column| clickhouse::types::name(&column.column_type);
                    let message = format!(
                        "column `{}` is {} for the rows of input `{}`, and column `{}` is {} for those of input `{}`: a step with a state needs \
                         one type; declare it under the `fields` of both",
                        one.name,
                        type_of(one),
                        first.name,
                        column.name,
                        type_of(column),
                        other.name
                    );
                    return Some(vec![fault(other.path.as_str(), message)]);
                }
            }
            if first.plan.lane.columns().len() != other.plan.lane.columns().len() {
                let message = format!("its rows have other columns than those of input `{}`", first.name);
                return Some(vec![fault(other.path.as_str(), message)]);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
