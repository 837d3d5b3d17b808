//! Joins in a plan: the chains of both sides, what each side must bring, and what the joined rows have.
//!
//! Owns the tree of inputs and joins, and the names and types of joined columns. A side is planned as if the columns that the join reads of it were
//! those of a table; what stands behind the last join as if its rows were the records. Does not own the join ([`operators::join`]), nor the
//! order within a chain ([`super::chain`]), nor windows behind it ([`super::windows`]).
//!
//! ```text
//! orders   ─▶ a chain ─┐
//!                      ├▶ join ─▶ a chain ─┐
//! payments ─▶ a chain ─┘                   ├▶ join ─▶ as behind a window ─▶ tables
//! refunds  ─▶ a chain ─────────────────────┘
//! ```
//! What a join reads of its sides follows from what is read of its own rows, so joins are planned in three passes: forward, all columns that there
//! could be; backward, those that are needed; forward again, the parts.
//!
//! Rows of a side without a match may go to a table of their own ([`super::aside`]), whose columns the join reads of that side too.
//!
//! The condition by which a version of a temporal join deletes its key is one more step of the right side, whose value is a column that no other step can name.
//!
//! | a name behind the join                      | is                                                     |
//! |---------------------------------------------|--------------------------------------------------------|
//! | given under `columns`                       | that column of that side                               |
//! | a column of one side alone                  | that column                                            |
//! | a column of both sides, equal by `on`       | that column                                            |
//! | a column of both sides otherwise            | a fault, if anything reads it: `columns` says which    |

use std::collections::BTreeSet;
use std::sync::Arc;

use dataflow::{Column, ColumnType, Metadata, Operator, Schema, Transform};
use engine::{Flow, Port};
use operators::{
    ConfigError, Join, JoinColumn, JoinConfig, JoinKind, JoinSide, TemporalConfig, TemporalJoin,
};

use super::aside::Aside;
use super::chain::{LaneStep, Made};
use super::inputs::{InputPlan, Plans, View};
use super::windows::{self, Giver};
use super::{Faults, MARK, Place, Plan, Planned, Planner, Stage, Texts, fault};
use crate::config::model::join::{self as model, JoinStep};
use crate::config::model::sink::{SideOutput, Takes};
use crate::config::model::{Input, Pipeline};
use crate::config::nearest::nearest;

/// Why a step behind a join takes no time from a column.
pub(crate) const TIME_OF_JOINED: &str =
    "a joined row has a time of its own, the later of its two rows'; leave `time` out";

/// Both sides, in the order of the operator's inputs.
const SIDES: [JoinSide; 2] = [JoinSide::Left, JoinSide::Right];

/// Where the rows of a side come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// An input, by its place.
    Input(usize),
    /// An earlier join, by its place among them.
    Join(usize),
}

/// One side of a join.
struct Side {
    name: String,
    rows: Rows,
    /// The numbers of the steps that its rows go through.
    steps: Vec<usize>,
    /// The number of the join.
    join: usize,
    /// What makes a row of this side delete its key.
    deleted: Option<String>,
    /// The column that a query takes for the time of the rows: its place among the sides, and its name.
    time: Option<(usize, String)>,
}

/// A join of the pipeline.
struct At<'a> {
    at: usize,
    path: String,
    step: &'a JoinStep,
    sides: [Side; 2],
}

/// The settings of a join, of the one kind or the other.
#[derive(Clone)]
pub enum JoinSettings {
    /// Rows near in time.
    Interval(JoinConfig),
    /// Each left row with the version of the right side at its time.
    Temporal(TemporalConfig),
}

impl JoinSettings {
    /// The step, with this much memory.
    ///
    /// # Errors
    /// When the settings do not fit the columns of the two sides.
    pub fn step(
        &self,
        (left, right): (&Schema, &Schema),
        memory: u64,
        closes_at_end: bool,
    ) -> Result<Box<dyn Operator>, ConfigError> {
        Ok(match self {
            Self::Interval(config) => {
                Box::new(Join::new(left, right, config)?.with_memory(memory).with_close_at_end(closes_at_end))
            }
            Self::Temporal(config) => Box::new(
                TemporalJoin::new(left, right, config)?.with_memory(memory).with_close_at_end(closes_at_end),
            ),
        })
    }

    fn output(&self, [left, right]: &[Schema; 2]) -> Result<Schema, ConfigError> {
        match self {
            Self::Interval(config) => Ok(Join::new(left, right, config)?.output().clone()),
            Self::Temporal(config) => Ok(TemporalJoin::new(left, right, config)?.output().clone()),
        }
    }
}

/// What there is to know of a join's rows.
struct Joined {
    columns: Vec<JoinColumn>,
    /// Names that both sides have, of which the left one's stands in `config`.
    ambiguous: BTreeSet<String>,
    output: Schema,
}

/// Rows of a side without a match for a table of their own: how they fill it, and the columns that this reads.
struct Beside {
    /// The place of the table.
    place: usize,
    aside: Aside,
    read: Vec<Column>,
}

/// Those of each side, if there are any, by join.
type Asides = Vec<[Option<Beside>; 2]>;

struct Joins<'a> {
    pipeline: &'a Pipeline,
    views: &'a [View<'a>],
    /// For chains whose rows are those of a join.
    of_joined: &'a View<'a>,
    tables: &'a [Schema],
    texts: &'a dyn Texts,
    all: Vec<At<'a>>,
}

/// Plans a pipeline with joins.
pub(super) fn plan(pipeline: &Pipeline, tables: &[Schema], texts: &dyn Texts) -> Result<Plans, Faults> {
    let inputs = pipeline.inputs();
    let views: Vec<View<'_>> = inputs.iter().map(View::alone).collect();
    let all = joins(pipeline, &inputs)?;
    let joins = Joins { pipeline, of_joined: &views[0].of_results(), views: &views, tables, texts, all };
    let widest = joins.widest()?;
    let asides = joins.asides(&widest)?;
    let needed = joins.needed(&widest, &asides)?;
    joins.parts(&inputs, &needed, asides)
}

/// The joins of a pipeline whose rules hold.
fn joins<'a>(pipeline: &'a Pipeline, inputs: &[Input<'_>]) -> Result<Vec<At<'a>>, Faults> {
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
    fn giver(&self) -> Giver {
        Giver { at: self.at, path: self.path.clone(), computed: Vec::new() }
    }

    fn config(&self, columns: Vec<JoinColumn>, unmatched: [Vec<String>; 2]) -> JoinSettings {
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
    fn key(&self, side: usize) -> impl Iterator<Item = String> {
        self.step.pairs().into_iter().map(move |(left, right)| if side == 0 { left } else { right })
    }

    /// Every column that the joined rows may have, from all columns of both sides.
    fn columns(&self, sides: &[Schema; 2]) -> Result<(Vec<JoinColumn>, BTreeSet<String>), Faults> {
        let (mut columns, mut ambiguous, mut faults) =
            (Vec::<JoinColumn>::new(), BTreeSet::new(), Faults::new());
        for (name, text) in &self.step.columns.0 {
            // The rules have seen that it names one of the two.
            let (side, from) = text.split_once('.').unwrap_or(("", text));
            let place = usize::from(self.sides[1].name == side);
            if sides[place].index_of(from).is_none() {
                let path = format!("{}.columns.{name}", self.path);
                faults.push(self.unknown(path, from, place, &sides[place]));
                continue;
            }
            columns.push(JoinColumn {
                name: name.to_string(),
                side: SIDES[place],
                from: from.to_owned(),
                is_of_side_alone: false,
            });
        }
        faults.extend(self.unknown_of_query(sides));
        let (renamed, pairs, query) = (columns.len(), self.step.pairs(), self.step.query.as_ref());
        for (place, schema) in sides.iter().enumerate() {
            for column in schema.columns().iter().filter(|column| column.name != MARK) {
                let name = &column.name;
                // Those that a query reads with their side in front stand beside it, so that the state does not depend on the query's order.
                let read = query.iter().flat_map(|query| &query.columns);
                let read = read.filter(|one| one.side == place && one.column == *name);
                columns.extend(read.map(|one| JoinColumn {
                    name: one.name.clone(),
                    side: SIDES[place],
                    from: name.clone(),
                    is_of_side_alone: true,
                }));
                let is_merged = match query {
                    Some(query) => query.merged.contains(name),
                    None => pairs.iter().any(|(left, right)| left == name && right == name),
                };
                match columns.iter().position(|known| known.name == *name) {
                    None => columns.push(JoinColumn {
                        name: name.clone(),
                        side: SIDES[place],
                        from: name.clone(),
                        is_of_side_alone: query.is_some() && !is_merged,
                    }),
                    Some(known) if known < renamed => {}
                    Some(_) if is_merged => {}
                    Some(_) => _ = ambiguous.insert(name.clone()),
                }
            }
        }
        faults.extend(self.no_condition(&sides[1]));
        for (place, schema) in sides.iter().enumerate() {
            for (nth, key) in self.key(place).enumerate().filter(|(_, key)| schema.index_of(key).is_none()) {
                faults.push(self.unknown(format!("{}.on[{nth}]", self.path), &key, place, schema));
            }
        }
        if faults.is_empty() { Ok((columns, ambiguous)) } else { Err(faults) }
    }

    /// The columns that a query reads with their side in front and that are not there.
    fn unknown_of_query(&self, sides: &[Schema; 2]) -> Faults {
        let read = self.step.query.iter().flat_map(|query| &query.columns);
        let missing = read.filter(|one| sides[one.side].index_of(&one.column).is_none());
        let fault = |one: &model::QueryColumn| {
            self.unknown(
                format!("{}.columns.{}", self.path, one.name),
                &one.column,
                one.side,
                &sides[one.side],
            )
        };
        missing.map(fault).collect()
    }

    /// The fault of a `deleted` that is no condition.
    fn no_condition(&self, right: &Schema) -> Option<super::Fault> {
        let of_type = &right.columns()[right.index_of(MARK)?].column_type;
        if *of_type.bare() == ColumnType::Bool {
            return None;
        }
        let message = format!(
            "this is of type {}, and a condition is true or false; compare it, as in `op = 'd'`",
            clickhouse::types::name(of_type)
        );
        Some(fault(format!("{}.deleted", self.path), message))
    }

    /// A column that a side does not have, or whose type nobody knows.
    fn unknown(&self, path: String, name: &str, side: usize, schema: &Schema) -> super::Fault {
        let known: Vec<&str> = schema.columns().iter().map(|column| column.name.as_str()).collect();
        let near = nearest(name, &known);
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        let of = &self.sides[side].name;
        fault(
            path,
            match self.sides[side].rows {
                Rows::Input(_) => format!(
                    "the type of `{name}` of `{of}` is not known; write `fields: {{ {name}: String }}` under `inputs.{of}:`, with its type{near}"
                ),
                Rows::Join(_) => format!("the rows of `{of}` have no column `{name}`{near}"),
            },
        )
    }

    /// The rows with all columns that they may have. One that cannot be among them (an array of a side that may have no row) has the type that its side gives
    /// it: whether that is a fault shows once it is known what is read.
    fn all_columns(&self, sides: &[Schema; 2], columns: &[JoinColumn]) -> Schema {
        let of_side = |column: &JoinColumn| {
            let side = &sides[usize::from(column.side == SIDES[1])];
            let found = side.index_of(&column.from).map(|at| side.columns()[at].column_type.clone());
            found.map(|column_type| Column::new(&column.name, column_type))
        };
        let one = |column: &JoinColumn| match self.joined(sides, std::slice::from_ref(column), [None, None]) {
            Ok((_, output)) => output.columns().first().cloned(),
            Err(_) => of_side(column),
        };
        Schema::new(columns.iter().filter_map(one).collect())
    }

    fn joined(
        &self,
        sides: &[Schema; 2],
        columns: &[JoinColumn],
        beside: [Option<&Beside>; 2],
    ) -> Result<(JoinSettings, Schema), Faults> {
        let names = |beside: Option<&Beside>| beside.map(Beside::names).unwrap_or_default();
        let config = self.config(columns.to_vec(), beside.map(names));
        let output = config.output(sides).map_err(|error| vec![fault(&self.path, error.to_string())])?;
        Ok((config, output))
    }
}

impl Beside {
    fn names(&self) -> Vec<String> {
        self.read.iter().map(|column| column.name.clone()).collect()
    }

    /// What brings the rows to their table's columns; `side` are those of all rows of the side.
    fn step(&self, side: &Schema) -> Result<Arc<dyn Transform>, Faults> {
        let column = |read: &Column| side.index_of(&read.name).map(|at| side.columns()[at].clone());
        self.aside.step(&Schema::new(self.read.iter().filter_map(column).collect()))
    }
}

impl<'a> Joins<'a> {
    /// The planner of a side's chain, for a table of these columns; `outputs` are the columns of the joins before.
    fn planner(&'a self, side: &'a Side, outputs: &[Schema], table: Schema) -> Result<Planner<'a>, Faults> {
        let pipeline = self.pipeline;
        let step = |at: usize| match side.steps.contains(&at) {
            true => Planned::new((at, &pipeline.steps[at])),
            false => Planned::elsewhere(at),
        };
        let mark = side.deleted.as_ref().map(|text| {
            Planned::mark(side.join, format!("steps[{}].join.deleted", side.join), text.as_str())
        });
        let (steps, targets) = ((0..side.join).map(step).chain(mark).collect(), windows::unnamed(pipeline));
        let mut planner = match side.rows {
            Rows::Input(place) => {
                Planner::of_records(&self.views[place], targets, &[table], self.texts, steps)?
            }
            Rows::Join(nth) => {
                let of = (self.all[nth].path.as_str(), &outputs[nth]);
                Planner::of_results(self.of_joined, of, targets, &[table], self.texts, steps)?
            }
        };
        planner.is_for_window = true;
        if let Some((place, time)) = &side.time {
            Self::is_time((side, *place), &planner, time)?;
            planner.compared = Some(time.clone());
        }
        Ok(planner)
    }

    /// A query compares times, and the join the event times of the rows: they must be the same.
    fn is_time((side, place): (&Side, usize), planner: &Planner<'_>, time: &str) -> Result<(), Faults> {
        let own = planner.view.time().unwrap_or(Metadata::Timestamp.name());
        if matches!(planner.origin(time, planner.steps.len()), super::Origin::Field(field) if field == own) {
            return Ok(());
        }
        let name = &side.name;
        let message = format!(
            "`{time}` is not the event time of `{name}`, by which rows are joined, for that is `{own}`; write `{own}` here, or `time: {time}` under `inputs.{name}:`"
        );
        Err(vec![fault(format!("steps[{}].join.time[{place}]", side.join), message)])
    }

    /// For each join all columns that its rows may have, if nothing is left out.
    fn widest(&'a self) -> Result<Vec<Joined>, Faults> {
        let (mut all, mut outputs) = (Vec::<Joined>::new(), Vec::<Schema>::new());
        for join in &self.all {
            let none = Schema::new(Vec::new());
            let side = |side| self.planner(side, &outputs, none.clone())?.last();
            let sides = [side(&join.sides[0])?, side(&join.sides[1])?];
            let (columns, ambiguous) = join.columns(&sides)?;
            let output = join.all_columns(&sides, &columns);
            outputs.push(output.clone());
            all.push(Joined { columns, ambiguous, output });
        }
        Ok(all)
    }

    /// For each side what its rows without a match are for a table of their own.
    fn asides(&'a self, widest: &[Joined]) -> Result<Asides, Faults> {
        let outputs: Vec<Schema> = widest.iter().map(|joined| joined.output.clone()).collect();
        let targets = self.pipeline.targets();
        let of = |join: &'a At<'a>, place: usize| -> Result<Option<Beside>, Faults> {
            let takes = Takes::Side(SideOutput::Unmatched(join.at, SIDES[place]));
            let mut tables = targets.iter().zip(self.tables).enumerate();
            let Some((table_place, table)) = tables.find(|(_, (target, _))| target.takes == takes) else {
                return Ok(None);
            };
            let planner = self.planner(&join.sides[place], &outputs, Schema::new(Vec::new()))?;
            let (last, mut read) = (planner.last()?, Vec::new());
            let aside = Aside::new(&planner, &last, table, &mut read)?;
            if read.is_empty() {
                // Rows that are only counted still have to be rows.
                let key = join.key(place).next().and_then(|key| last.index_of(&key));
                read.extend(key.map(|at| last.columns()[at].clone()));
            }
            Ok(Some(Beside { place: table_place, aside, read }))
        };
        self.all.iter().map(|join| Ok([of(join, 0)?, of(join, 1)?])).collect()
    }

    /// For each join the columns of its rows that anything reads.
    fn needed(&'a self, widest: &[Joined], asides: &Asides) -> Result<Vec<Vec<JoinColumn>>, Faults> {
        let outputs: Vec<Schema> = widest.iter().map(|joined| joined.output.clone()).collect();
        let mut all: Vec<Vec<JoinColumn>> = vec![Vec::new(); self.all.len()];
        for (nth, join) in self.all.iter().enumerate().rev() {
            let consumer = self.all.iter().enumerate().find_map(|(other, later)| {
                let side = later.sides.iter().position(|side| side.rows == Rows::Join(nth))?;
                Some((other, side))
            });
            let needed = match consumer {
                None => {
                    let behind = (&join.giver(), &widest[nth].output);
                    windows::needed_behind((self.pipeline, self.of_joined), self.tables, self.texts, behind)?
                }
                Some((later, side)) => {
                    let table = self.read_of((later, side), &all[later], &outputs, asides)?;
                    self.planner(&self.all[later].sides[side], &outputs, table)?.needed_of_results()?
                }
            };
            let unclear = widest[nth].ambiguous.intersection(&needed);
            let faults: Faults = unclear.map(|name| join.unclear(name)).collect();
            if !faults.is_empty() {
                return Err(faults);
            }
            let columns = &widest[nth].columns;
            let mut kept: Vec<JoinColumn> =
                columns.iter().filter(|column| needed.contains(&column.name)).cloned().collect();
            if kept.is_empty() {
                // Rows that are only counted still have to be rows.
                kept.extend(columns.first().cloned());
            }
            all[nth] = kept;
        }
        Ok(all)
    }

    /// The columns that join `nth` reads of one of its sides, if its rows have `columns`.
    fn read_of(
        &'a self,
        (nth, side): (usize, usize),
        columns: &[JoinColumn],
        outputs: &[Schema],
        asides: &Asides,
    ) -> Result<Schema, Faults> {
        let join = &self.all[nth];
        let none = Schema::new(Vec::new());
        let there = self.planner(&join.sides[side], outputs, none)?.last()?;
        let of_rows =
            columns.iter().filter(|column| column.side == SIDES[side]).map(|column| column.from.clone());
        let mut read: Vec<Column> = Vec::new();
        let mark = join.sides[side].deleted.as_ref().map(|_| MARK.to_owned());
        for name in join.key(side).chain(of_rows).chain(mark) {
            let at = there.index_of(&name).expect("it was found there before");
            let column = &there.columns()[at];
            if !read.iter().any(|known| known.name == name) {
                read.push(Column { field: name, ..column.clone() });
            }
        }
        for column in asides[nth][side].iter().flat_map(|beside| &beside.read) {
            if !read.iter().any(|known| known.name == column.name) {
                read.push(Column { field: column.name.clone(), ..column.clone() });
            }
        }
        Ok(Schema::new(read))
    }

    /// The plan of every input, whose lane has the chains of all sides, the joins, and what stands behind the last.
    fn parts(
        &'a self,
        inputs: &[Input<'_>],
        needed: &[Vec<JoinColumn>],
        asides: Asides,
    ) -> Result<Plans, Faults> {
        let mut lane = Lane { steps: Vec::new(), next: Vec::new(), entries: vec![OUT; inputs.len()] };
        let mut plans: Vec<Option<Plan>> = inputs.iter().map(|_| None).collect();
        let (mut outputs, mut exits) = (Vec::<Schema>::new(), Vec::<usize>::new());
        for (nth, join) in self.all.iter().enumerate() {
            let mut came: Vec<(Schema, usize, Rows, Vec<Stage>)> = Vec::new();
            for (place, side) in join.sides.iter().enumerate() {
                let read = self.read_of((nth, place), &needed[nth], &outputs, &asides)?;
                let planner = self.planner(side, &outputs, read.clone())?;
                let first = lane.steps.len();
                match side.rows {
                    Rows::Input(input) => {
                        let mut plan = planner.plan()?;
                        lane.steps.append(&mut plan.lane_steps);
                        let columns = windows::gated(
                            &planner,
                            (&plan.lane, plan.router.take()),
                            &read,
                            &mut lane.steps,
                        );
                        plans[input] = Some(plan);
                        came.push((columns, first, side.rows, Vec::new()));
                    }
                    Rows::Join(of) => {
                        let Made { stages, transforms, lane: columns, lane_steps, router, .. } =
                            windows::results(&planner, &self.all[of].giver())?;
                        lane.steps.extend(transforms.into_iter().map(LaneStep::Stateless));
                        lane.steps.extend(lane_steps);
                        let columns = windows::gated(&planner, (&columns, router), &read, &mut lane.steps);
                        came.push((columns, first, side.rows, stages));
                    }
                }
                lane.line_up(first);
            }
            let [left, right] = &came[..] else { unreachable!("a join has two sides") };
            let sides = [left.0.clone(), right.0.clone()];
            let beside = asides[nth].each_ref().map(Option::as_ref);
            let (config, output) = join.joined(&sides, &needed[nth], beside)?;
            let step = |place: usize| beside[place].map(|beside| beside.step(&sides[place])).transpose();
            let unmatched = [step(0)?, step(1)?];
            let own = lane.steps.len();
            for (place, (_, first, rows, _)) in came.iter().enumerate() {
                let end = came.get(place + 1).map_or(own, |next| next.1);
                let port = Port { step: own, input: place };
                let entry = if *first < end { Port { step: *first, input: 0 } } else { port };
                if *first < end {
                    lane.next[end - 1] = port;
                }
                match rows {
                    Rows::Input(input) => lane.entries[*input] = entry,
                    Rows::Join(of) => lane.next[exits[*of]] = entry,
                }
            }
            lane.steps.push(LaneStep::Join { at: join.at, config, sides, unmatched });
            lane.line_up(own);
            for (place, (.., rows, stages)) in came.into_iter().enumerate() {
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
    fn stage(
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

impl At<'_> {
    fn unclear(&self, name: &str) -> super::Fault {
        let [left, right] = &self.sides;
        if let Some(query) = &self.step.query {
            let [left, right] = &query.sides;
            let message =
                format!("`{name}` is a column of both sides; write `{left}.{name}` or `{right}.{name}`");
            return fault(format!("{}.names.{name}", self.path), message);
        }
        let message = format!(
            "`{name}` is a column of both sides; say which one under `columns`, as in `columns: {{ {name}: {}.{name} }}`, or `{}.{name}`",
            left.name, right.name
        );
        fault(&self.path, message)
    }
}

/// The lane while it is put together.
struct Lane {
    steps: Vec<LaneStep>,
    next: Vec<Port>,
    entries: Vec<Port>,
}

/// What stands for a place that is not known yet.
const OUT: Port = Port { step: usize::MAX, input: 0 };

impl Lane {
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

#[cfg(test)]
mod tests;
