//! The last pass: the lane with the chains of all sides, the joins, and what stands behind the last.
//!
//! Owns the numbers of the steps in the lane, and where the rows of each go on. Does not own what the chains are made of (`Joins::planner`).

use dataflow::Schema;
use engine::{Flow, Port};
use operators::JoinColumn;

use super::sides::{At, Rows, Side};
use super::{Asides, Beside, Joins, SIDES};
use crate::config::model::Input;
use crate::plan::chain::{self, LaneStep, Made};
use crate::plan::inputs::{InputPlan, Plans};
use crate::plan::{Faults, Place, Plan, Stage, fault, windows};

impl<'a> Joins<'a> {
    /// The plan of every input, whose lane has the chains of all sides, the joins, and what stands behind the last.
    pub(super) fn parts(
        &'a self,
        inputs: &[Input<'_>],
        needed: &[Vec<JoinColumn>],
        asides: Asides,
    ) -> Result<Plans, Faults> {
        let mut lane = Lane { steps: Vec::new(), next: Vec::new(), entries: vec![OUT; inputs.len()] };
        let mut plans: Vec<Option<Plan>> = inputs.iter().map(|_| None).collect();
        let (mut outputs, mut exits) = (Vec::<Schema>::new(), Vec::<usize>::new());
        for (nth, join) in self.all.iter().enumerate() {
            let mut came = Vec::with_capacity(SIDES.len());
            for (place, side) in join.sides.iter().enumerate() {
                let read = self.read_of((nth, place), &needed[nth], &outputs, &asides)?;
                came.push(self.chain(side, read, &outputs, (&mut lane, &mut plans))?);
            }
            let [left, right] = &came[..] else { unreachable!("a join has two sides") };
            let sides = [left.columns.clone(), right.columns.clone()];
            let beside = asides[nth].each_ref().map(Option::as_ref);
            let (config, output) = join.joined(&sides, &needed[nth], beside)?;
            let step = |place: usize| beside[place].map(|beside| beside.step(&sides[place])).transpose();
            let unmatched = [step(0)?, step(1)?];
            let own = lane.steps.len();
            lane.lead_to(own, &came, &exits);
            lane.steps.push(LaneStep::Join { at: join.at, config, sides, unmatched });
            lane.line_up(own);
            for (place, Came { rows, stages, .. }) in came.into_iter().enumerate() {
                let mut stages = joined_stages(stages);
                stages.push(self.stage((join, place), &needed[nth], beside[place], &output));
                for input in self.inputs_of(rows) {
                    let plan = plans[input].as_mut().expect("an input goes into a join before its rows do");
                    plan.stages.extend(stages.iter().cloned());
                }
            }
            exits.push(own);
            outputs.push(output);
        }
        self.to_the_tables(inputs, plans, lane, &outputs, asides)
    }

    /// Puts the chain of a side into the lane, up to the columns `read` that its join reads.
    fn chain(
        &'a self,
        side: &'a Side,
        read: Schema,
        outputs: &[Schema],
        (lane, plans): (&mut Lane, &mut [Option<Plan>]),
    ) -> Result<Came, Faults> {
        let planner = self.planner(side, outputs, read.clone())?;
        let (rows, first) = (side.rows, lane.steps.len());
        let (columns, stages) = match rows {
            Rows::Input(input) => {
                let mut plan = planner.plan()?;
                lane.steps.append(&mut plan.lane_steps);
                let columns =
                    windows::gated(&planner, (&plan.lane, plan.router.take()), &read, &mut lane.steps);
                plans[input] = Some(plan);
                (columns, Vec::new())
            }
            Rows::Join(of) => {
                let Made { input, stages, transforms, lane: columns, lane_steps, router, .. } =
                    windows::results(&planner, &self.all[of].giver())?;
                lane.steps.extend(chain::in_lane(input, transforms));
                lane.steps.extend(lane_steps);
                (windows::gated(&planner, (&columns, router), &read, &mut lane.steps), stages)
            }
        };
        lane.line_up(first);
        Ok(Came { columns, first, rows, stages })
    }

    /// The same with what stands behind the last join.
    fn to_the_tables(
        &'a self,
        inputs: &[Input<'_>],
        plans: Vec<Option<Plan>>,
        lane: Lane,
        outputs: &[Schema],
        asides: Asides,
    ) -> Result<Plans, Faults> {
        let mut plans: Vec<Plan> = plans.into_iter().flatten().collect();
        if plans.len() < inputs.len() {
            return Err(vec![fault("steps", "there is an input whose rows no join takes")]);
        }
        let (last, output) =
            (self.all.last().expect("there is a join"), outputs.last().expect("it has rows"));
        let base = &mut plans[0];
        let own = base.stages.len();
        base.lane_steps = lane.steps;
        let giver = (last.giver(), output.clone());
        windows::onward((self.pipeline, self.of_joined), self.tables, self.texts, giver, base)?;
        let mut beside: Vec<Beside> = asides.into_iter().flatten().flatten().collect();
        beside.sort_by_key(|beside| beside.place);
        base.tables.extend(beside.into_iter().map(|beside| {
            let mut table = beside.aside.plan();
            // The other inputs have fields of the same names.
            table.mapping.iter_mut().for_each(|mapped| mapped.field = None);
            table
        }));
        let behind = joined_stages(base.stages.split_off(own));
        let (steps, tables, router) =
            (base.lane_steps.clone(), std::mem::take(&mut base.tables), base.router.clone());
        for plan in &mut plans {
            plan.stages.extend(behind.iter().cloned());
            plan.lane_steps = steps.clone();
            plan.tables = tables.clone();
            plan.router = router.clone();
        }
        let plans = inputs.iter().zip(plans).map(|(input, plan)| InputPlan {
            name: input.name.to_owned(),
            path: input.path.clone(),
            plan,
        });
        Ok(Plans { inputs: plans.collect(), flow: Flow { entries: lane.entries, next: lane.next } })
    }

    /// A join as the readers of the plan of one of its sides see it.
    pub(super) fn stage(
        &self,
        (join, side): (&At<'_>, usize),
        columns: &[JoinColumn],
        beside: Option<&Beside>,
        output: &Schema,
    ) -> Stage {
        let of_rows =
            columns.iter().filter(|column| column.side == SIDES[side]).map(|column| column.from.clone());
        let beside = beside.map(Beside::names).unwrap_or_default();
        let mut reads: Vec<String> = Vec::new();
        for name in join.key(side).chain(of_rows).chain(beside) {
            if !reads.contains(&name) {
                reads.push(name);
            }
        }
        let place = match join.sides[side].rows {
            Rows::Input(_) => Place::Lane,
            Rows::Join(_) => Place::Joined,
        };
        Stage { path: join.path.clone(), place, reads, output: output.clone(), multiplies: false }
    }

    /// The inputs whose rows these are made of.
    fn inputs_of(&self, rows: Rows) -> Vec<usize> {
        match rows {
            Rows::Input(place) => vec![place],
            Rows::Join(nth) => {
                self.all[nth].sides.iter().flat_map(|side| self.inputs_of(side.rows)).collect()
            }
        }
    }
}

/// A side of a join whose chain stands in the lane.
struct Came {
    /// Of its rows, as the join gets them.
    columns: Schema,
    /// The number of the chain's first step, or of the next one if it has none.
    first: usize,
    rows: Rows,
    /// The steps of the chain, if its rows are those of a join.
    stages: Vec<Stage>,
}

/// The lane while it is put together.
pub(super) struct Lane {
    steps: Vec<LaneStep>,
    next: Vec<Port>,
    entries: Vec<Port>,
}

/// What stands for a place that is not known yet.
const OUT: Port = Port { step: usize::MAX, input: 0 };

impl Lane {
    /// The rows of both sides go to the join at `own`, through the chains that stand before it. `exits` are the earlier joins.
    fn lead_to(&mut self, own: usize, came: &[Came], exits: &[usize]) {
        for (place, Came { first, rows, .. }) in came.iter().enumerate() {
            let end = came.get(place + 1).map_or(own, |next| next.first);
            let port = Port { step: own, input: place };
            let entry = if *first < end { Port { step: *first, input: 0 } } else { port };
            if *first < end {
                self.next[end - 1] = port;
            }
            match rows {
                Rows::Input(input) => self.entries[*input] = entry,
                Rows::Join(of) => self.next[exits[*of]] = entry,
            }
        }
    }

    /// The steps from `first` on go on to the one behind each.
    fn line_up(&mut self, first: usize) {
        self.next.truncate(first);
        self.next.extend((first..self.steps.len()).map(|step| Port { step: step + 1, input: 0 }));
    }
}

/// The steps of a chain of joined rows, as far as no window stands before them.
fn joined_stages(mut stages: Vec<Stage>) -> Vec<Stage> {
    let window = stages.iter().position(|stage| stage.path.ends_with(".window")).unwrap_or(stages.len());
    let until = stages.len().min(window + 1);
    stages[..until].iter_mut().for_each(|stage| stage.place = Place::Joined);
    stages
}
