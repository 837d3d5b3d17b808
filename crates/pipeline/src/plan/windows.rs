//! Windows in a plan: the columns before each, and how the results of the last fill the tables.
//!
//! Owns how windows divide a pipeline into chains. What stands before a window is planned as if the columns that it
//! reads were those of a table; what stands behind it as if its results were the records. Does not own what the settings of a
//! window mean (`config::windows`), the window itself ([`operators::window`]), nor the order within a chain ([`super::chain`]).
//!
//! ```text
//! input ─▶ a chain ─▶ window ─▶ a chain ─▶ window ─▶ a chain ─▶ conditions ─▶ mapping ─▶ router ─▶ tables
//!          └ decode job, lane ┘ └────────────── the lane, when a window closes ──────────────┘
//! ```

use std::collections::BTreeSet;

use dataflow::{Column, Schema};
use operators::window::{END, START};
use operators::{Gate, Window, WindowConfig};

use super::aside::Aside;
use super::chain::{self, LaneStep, Made};
use super::planner::{Origin, Planner};
use super::steps::{Planned, planned};
use super::{Fault, Faults, Place, Plan, Stage, Texts, View, fault, shape};
use crate::config::model::Pipeline;
use crate::config::model::sink::Target;
use crate::config::model::step::{Step, WindowStep};
use crate::config::nearest::nearest;
use crate::config::values::{Identifier, Pairs};
use crate::config::windows::{self, Computed};

/// A window of the pipeline.
struct At<'a> {
    at: usize,
    path: String,
    step: &'a WindowStep,
    config: WindowConfig,
    /// The expressions within its aggregates.
    computed: Vec<Computed>,
    /// The step that computes them.
    computing: Option<Step>,
}

impl<'a> At<'a> {
    fn new(at: usize, step: &'a WindowStep) -> Result<Self, Faults> {
        let path = format!("steps[{at}].window");
        let read = windows::read(step, &path);
        let (config, computed) =
            read.map_err(|all| all.into_iter().map(|one| fault(one.path, one.message)).collect::<Faults>())?;
        let all: Identifier = shape::ALL.parse().expect("it is a name");
        let items = computed.iter().map(|one| (one.name.clone(), one.name.to_string()));
        let items = std::iter::once((all, shape::ALL.to_owned())).chain(items).collect();
        let select = || Step { select: Some(Pairs(items)), ..Step::default() };
        let computing = (!computed.is_empty()).then(select);
        Ok(Self { at, path, step, config, computed, computing })
    }

    fn giver(&self) -> Giver {
        let aggregates = self.config.aggregates.iter();
        let computed =
            aggregates.map(|one| (one.name.clone(), format!("{}.aggregates.{}", self.path, one.name)));
        // Without version or sign nobody knows which of several results holds.
        let emit = self.config.emit.iter();
        let named = emit.flat_map(|emit| [("version", &emit.version), ("sign", &emit.sign)]);
        let named =
            named.filter_map(|(word, name)| Some((name.clone()?, format!("{}.emit.{word}", self.path))));
        Giver { at: self.at, path: self.path.clone(), computed: computed.chain(named).collect() }
    }

    /// The `steps` before this window, with its own behind the last one without state: a row that it fails on is rejected before its
    /// first key counts as seen, and it does not make another segment.
    fn computing<'s>(&'s self, mut steps: Vec<Planned<'s>>) -> Vec<Planned<'s>> {
        let own = self.computing.iter().map(|step| Planned::new((self.at, step)));
        let place = steps.iter().rposition(Planned::is_stateless).map_or(0, |last| last + 1);
        for own in own {
            steps.insert(place, Planned { path: self.path.clone(), ..own });
        }
        steps
    }

    /// The faults of this window's own step, at the places of its aggregates.
    fn in_file(&self, mut faults: Faults) -> Faults {
        for fault in &mut faults {
            let item = fault.path.strip_prefix(&self.path).and_then(|rest| rest.strip_prefix('.'));
            let of = self.computed.iter().find(|one| item == Some(one.name.as_str()));
            if let Some(one) = of {
                (fault.path, fault.at) = (one.path.clone(), None);
            }
        }
        faults
    }
}

/// Plans a pipeline with windows.
pub(super) fn plan(
    (pipeline, view): (&Pipeline, &View<'_>),
    tables: &[Schema],
    texts: &dyn Texts,
) -> Result<Plan, Faults> {
    let windows = all(pipeline)?;
    let first = windows.first().expect("the pipeline has a window");
    let (mut plan, output, late) =
        records((pipeline, view), tables, texts, first).map_err(|faults| first.in_file(faults))?;
    onward((pipeline, &view.of_results()), tables, texts, (first.giver(), output), &mut plan)?;
    plan.tables.extend(late.map(Aside::plan));
    Ok(plan)
}

/// The windows of the pipeline, in order.
fn all(pipeline: &Pipeline) -> Result<Vec<At<'_>>, Faults> {
    let steps = pipeline.steps.iter().enumerate();
    let windows = steps.filter_map(|(at, step)| Some((at, step.window.as_ref()?)));
    windows.map(|(at, step)| At::new(at, step)).collect()
}

/// What gives the rows that a chain of the lane begins with: a window or a join.
pub(super) struct Giver {
    /// Its number in the pipeline file.
    pub(super) at: usize,
    /// Its key there.
    pub(super) path: String,
    /// The columns that it computes, each with its place in the file.
    pub(super) computed: Vec<(String, String)>,
}

/// Plans the chains behind `giver`, whose rows have the columns `output`: up to each of the windows that follow, and to the tables.
///
/// # Errors
/// The faults of the first chain that has some.
pub(super) fn onward(
    (pipeline, view): (&Pipeline, &View<'_>),
    tables: &[Schema],
    texts: &dyn Texts,
    (mut giver, mut output): (Giver, Schema),
    plan: &mut Plan,
) -> Result<(), Faults> {
    for next in all(pipeline)?.iter().filter(|window| window.at > giver.at).collect::<Vec<_>>() {
        let behind = behind((pipeline, view), texts, (&giver, &output), next, plan);
        output = behind.map_err(|faults| next.in_file(faults))?;
        giver = next.giver();
    }
    let planner = to_tables((pipeline, view), tables, texts, (&giver, &output))?;
    add(plan, results(&planner, &giver)?);
    Ok(())
}

/// Of the rows of `giver`, which have the columns `output`, those columns that the first chain behind it reads.
///
/// # Errors
/// As [`onward`].
pub(super) fn needed_behind(
    (pipeline, view): (&Pipeline, &View<'_>),
    tables: &[Schema],
    texts: &dyn Texts,
    (giver, output): (&Giver, &Schema),
) -> Result<BTreeSet<String>, Faults> {
    let windows = all(pipeline)?;
    match windows.iter().find(|window| window.at > giver.at) {
        None => to_tables((pipeline, view), tables, texts, (giver, output))?.needed_of_results(),
        Some(next) => to_window((pipeline, view), texts, (giver, output), next)
            .and_then(|(planner, _)| planner.needed_of_results())
            .map_err(|faults| next.in_file(faults)),
    }
}

/// The planner of the chain from `giver` to the tables for rows of the last step.
fn to_tables<'a>(
    (pipeline, view): (&'a Pipeline, &'a View<'_>),
    tables: &[Schema],
    texts: &'a dyn Texts,
    (giver, output): (&Giver, &Schema),
) -> Result<Planner<'a>, Faults> {
    let steps = steps_behind(pipeline, giver, pipeline.steps.len());
    let mut targets = pipeline.targets();
    targets.retain(|target| !target.is_of_side());
    let (tables, _) = tables.split_at(targets.len());
    Planner::of_results(view, (&giver.path, output), targets, tables, texts, steps)
}

/// The planner of the chain from `giver` to the window `next`, and the columns that this window reads.
fn to_window<'a>(
    (pipeline, view): (&'a Pipeline, &'a View<'_>),
    texts: &'a dyn Texts,
    (giver, output): (&Giver, &Schema),
    next: &'a At<'_>,
) -> Result<(Planner<'a>, Schema), Faults> {
    let of = |table: Schema| {
        let steps = next.computing(steps_behind(pipeline, giver, next.at));
        Planner::of_results(view, (&giver.path, output), unnamed(pipeline), &[table], texts, steps)
    };
    let read = Schema::new(read_columns(&of(Schema::new(Vec::new()))?, next)?);
    let mut planner = of(read.clone())?;
    planner.is_for_window = true;
    Ok((planner, read))
}

/// The steps behind `giver`, up to number `to` of the file. A query that joins is the first of them, too.
fn steps_behind<'a>(pipeline: &'a Pipeline, giver: &Giver, to: usize) -> Vec<Planned<'a>> {
    let own = pipeline.steps[giver.at].join.as_ref().and_then(|join| join.query.as_ref());
    let own = own.map(|query| Planned::behind_join(giver.at, query));
    let steps = pipeline.steps.iter().enumerate().take(to).skip(giver.at + 1).map(Planned::new);
    own.into_iter().chain(steps).collect()
}

/// What stands for the table where a chain ends in a window.
pub(super) fn unnamed(pipeline: &Pipeline) -> Vec<Target> {
    let mut one = pipeline.clone();
    one.columns.clear();
    one.sinks.clear();
    one.targets()
}

/// The plan up to the first window, the columns of that window's results, and how its late records fill a table if they do.
fn records(
    (pipeline, view): (&Pipeline, &View<'_>),
    tables: &[Schema],
    texts: &dyn Texts,
    window: &At<'_>,
) -> Result<(Plan, Schema, Option<Aside>), Faults> {
    let of = |table: Schema| {
        let steps = window.computing(planned(pipeline, view, window.at));
        Planner::of_records(view, unnamed(pipeline), &[table], texts, steps)
    };
    let planner = of(Schema::new(Vec::new()))?;
    let mut read = read_columns(&planner, window)?;
    let reads = names(&read);
    let targets = pipeline.targets();
    let late = targets.iter().zip(tables).find(|(target, _)| target.is_of_side());
    let late = late.map(|late| Aside::new(&planner, &planner.last()?, late, &mut read)).transpose()?;
    let read = Schema::new(read);
    let mut planner = of(read.clone())?;
    planner.is_for_window = true;
    let time = window.step.time.as_ref();
    planner.event_time = time.map(|time| (format!("{}.time", window.path), time.as_str().to_owned()));
    let mut plan = planner.plan()?;
    let (lane, router) = (plan.lane.clone(), plan.router.take());
    let output = close(&mut plan, &planner, (&lane, router), (&read, reads), window)?;
    if let (Some(of_late), Some(LaneStep::Window { columns, late, .. })) = (&late, plan.lane_steps.last_mut())
    {
        *late = Some(of_late.step(columns)?);
    }
    Ok((plan, output, late))
}

/// The plan from the rows of `giver`, with the columns `output`, to the window `next`; the columns of that window's results.
fn behind(
    (pipeline, view): (&Pipeline, &View<'_>),
    texts: &dyn Texts,
    (giver, output): (&Giver, &Schema),
    next: &At<'_>,
    plan: &mut Plan,
) -> Result<Schema, Faults> {
    let (planner, read) = to_window((pipeline, view), texts, (giver, output), next)?;
    let made = results(&planner, giver)?;
    let (lane, router) = (made.lane.clone(), made.router.clone());
    add(plan, made);
    let reads = names(read.columns());
    close(plan, &planner, (&lane, router), (&read, reads), next)
}

/// The columns that come to a window or join behind a chain whose columns are `lane` and whose table are the columns `read`: a gate behind the
/// chain, if steps of it may have dropped rows ahead, leaves the others behind.
pub(super) fn gated(
    planner: &Planner<'_>,
    (lane, router): (&Schema, Option<operators::mapping::route::ByTable>),
    read: &Schema,
    lane_steps: &mut Vec<LaneStep>,
) -> Schema {
    let segments = planner.segments();
    match router.filter(|_| segments > 0) {
        None => lane.clone(),
        Some(router) => {
            let flag = lane.index_of(&chain::flag(segments)).expect("the mapping keeps the flags");
            lane_steps.push(LaneStep::Gate(Gate::new(flag, router.columns[0].clone(), read.clone())));
            read.clone()
        }
    }
}

/// Puts a window behind the rows of a chain, whose columns are `lane` and whose table are the columns `read`; the columns of its results.
fn close(
    plan: &mut Plan,
    planner: &Planner<'_>,
    (lane, router): (&Schema, Option<operators::mapping::route::ByTable>),
    (read, reads): (&Schema, Vec<String>),
    window: &At<'_>,
) -> Result<Schema, Faults> {
    let columns = gated(planner, (lane, router), read, &mut plan.lane_steps);
    let step = Window::new(&columns, &window.config);
    let step = step.map_err(|error| vec![fault(&window.path, error.to_string())])?;
    let output = step.output().clone();
    plan.stages.push(Stage {
        multiplies: false,
        path: window.path.clone(),
        place: if planner.results_of.is_some() { Place::Results } else { Place::Lane },
        reads,
        output: output.clone(),
    });
    let config = window.config.clone();
    plan.lane_steps.push(LaneStep::Window { at: window.at, config, columns, late: None });
    Ok(output)
}

/// What stands before the window of step `at`, for no table and with a step that computes its expressions, and the columns that the window reads.
///
/// # Errors
/// The aggregates that are none.
pub(super) fn read_of(
    pipeline: &Pipeline,
    at: usize,
    window: &WindowStep,
) -> Result<(Pipeline, Vec<String>), Faults> {
    let At { config, computing, .. } = At::new(at, window)?;
    let mut before = pipeline.clone();
    before.steps.truncate(at);
    before.columns.clear();
    before.sinks.clear();
    let last = before.steps.iter().rposition(|step| step.dedup.is_none());
    let place = last.map_or(0, |last| last + 1);
    computing.into_iter().for_each(|step| before.steps.insert(place, step));
    let aggregates = config.aggregates.iter().flat_map(|aggregate| aggregate.columns());
    let columns = config.key.iter().map(String::as_str).chain(aggregates).map(str::to_owned).collect();
    Ok((before, columns))
}

/// Puts a chain behind a window.
pub(super) fn add(plan: &mut Plan, made: Made) {
    let Made { input, stages, transforms, lane_steps, tables, router, .. } = made;
    plan.stages.extend(stages);
    plan.lane_steps.extend(chain::in_lane(input, transforms));
    plan.lane_steps.extend(lane_steps);
    (plan.tables, plan.router) = (tables, router);
}

/// The chain behind a window or a join.
pub(super) fn results(planner: &Planner<'_>, giver: &Giver) -> Result<Made, Faults> {
    let input = Schema::new(planner.declared.clone());
    let needed = planner.needed_of_results()?;
    let known = planner.union.names();
    let unused = giver.computed.iter().filter(|(name, _)| !needed.contains(name));
    // An aggregate that nothing takes is a slip of the pen.
    let message = |(name, path): &(String, String)| {
        let near = nearest(name, &known);
        let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
        let no_table = match planner.steps.is_empty() {
            _ if planner.is_for_window => format!("no step behind reads `{name}`"),
            true => format!("the table has no column `{name}`"),
            false => format!("the table has no column `{name}`, and no step reads it"),
        };
        fault(path, no_table + &near)
    };
    let faults: Faults = unused.map(message).collect();
    if faults.is_empty() { planner.chain(&input) } else { Err(faults) }
}

fn names(columns: &[Column]) -> Vec<String> {
    columns.iter().map(|column| column.name.clone()).collect()
}

impl Planner<'_> {
    /// Of the columns that the first step sees, where it sees results, those that anything reads.
    pub(super) fn needed_of_results(&self) -> Result<BTreeSet<String>, Faults> {
        let input = Schema::new(self.declared.clone());
        let bound = self.bind(&input)?;
        let last = bound.last().map_or(&input, |bound| bound.step.schema());
        let reads = self.conditions(last)?.reads();
        self.unused(last, &bound, &reads)?;
        let keys = self.keys(&input, &bound)?;
        Ok(self.needed(last, &bound, (&keys, &reads), None))
    }

    /// The columns behind the last step, as far as they are known without a table.
    pub(super) fn last(&self) -> Result<Schema, Faults> {
        let candidates = match &self.results_of {
            Some(_) => Schema::new(self.declared.clone()),
            None => Schema::new(self.candidates()),
        };
        let bound = self.bind(&candidates)?;
        Ok(bound.last().map_or(candidates, |bound| bound.step.schema().clone()))
    }
}

/// The columns that a window reads, with the types that they have behind the steps of `planner`.
fn read_columns(planner: &Planner<'_>, window: &At<'_>) -> Result<Vec<Column>, Faults> {
    let At { path, step, config, .. } = window;
    let last = planner.last()?;
    let keys = step.key.iter().enumerate().map(|(at, key)| (format!("{path}.key[{at}]"), key.as_str()));
    let aggregates = config.aggregates.iter().flat_map(|aggregate| {
        aggregate.columns().map(|column| (format!("{path}.aggregates.{}", aggregate.name), column))
    });
    let (mut columns, mut faults) = (Vec::<Column>::new(), Vec::<Fault>::new());
    for (path, name) in keys.chain(aggregates) {
        if columns.iter().any(|column| column.name == name) {
            continue;
        }
        if [START, END].contains(&name) {
            faults.push(fault(
                path,
                format!(
                    "`{name}` is a column of the window's results; give the field another name in a `select`"
                ),
            ));
            continue;
        }
        match last.index_of(name) {
            Some(at) => {
                let column = &last.columns()[at];
                columns.push(Column { field: column.name.clone(), ..column.clone() });
            }
            None => {
                let known: Vec<&str> = last.columns().iter().map(|column| column.name.as_str()).collect();
                let near = nearest(name, &known);
                let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                let message = match planner.origin(name, planner.steps.len()) {
                    Origin::Field(field) if planner.results_of.is_none() => format!(
                        "the type of `{field}` is not known; write `fields: {{ {field}: String }}` under `{}:`, with its type{near}",
                        planner.view.input.path
                    ),
                    Origin::Field(_) | Origin::Computed(_) | Origin::Absent => {
                        format!("no step before gives a column `{name}`{near}")
                    }
                };
                faults.push(fault(path, message));
            }
        }
    }
    if faults.is_empty() { Ok(columns) } else { Err(faults) }
}

#[cfg(test)]
mod tests;
