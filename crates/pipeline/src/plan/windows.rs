//! A window in a plan: the columns before it, and how its results fill the tables.
//!
//! Owns the two halves and the meaning of `aggregates:`. What stands before the window is planned as if the columns that it reads were those of
//! a table; its results are planned as if they were what is decoded. Does not own the window ([`operators::window`]).
//!
//! ```text
//! input ─▶ steps without state ─▶ dedup ─▶ window ─▶ conditions ─▶ mapping ─▶ router ─▶ tables
//!          └── the decode job ───┘ └─────────────────── the lane ────────────────────┘
//! ```

mod aggregates;

use std::sync::Arc;

use dataflow::{Column, Schema, Transform};
use operators::window::{Aggregate, END, START};
use operators::{Window, WindowConfig};

use super::{Fault, Faults, Origin, Place, Plan, Planner, Stage, Texts, View, fault, mapping, shape};
use crate::config::model::Pipeline;
use crate::config::model::step::{Step, WindowStep};
use crate::config::nearest::nearest;
use crate::config::values::{Identifier, Pairs};
use aggregates::Read;

/// A window, and what is done with its results.
pub struct WindowPlan {
    /// The key in the pipeline file, as in `steps[1].window`.
    pub path: String,
    /// The window.
    pub config: WindowConfig,
    /// The columns of its results.
    pub output: Schema,
    /// What brings them to the columns of the tables; in the lane, for they exist only there.
    pub behind: Vec<Arc<dyn Transform>>,
}

/// The settings of a window.
///
/// # Errors
/// The aggregates that are none, each with its place.
pub(crate) fn config(window: &WindowStep, path: &str) -> Result<WindowConfig, Faults> {
    read(window, path).map(|(config, _)| config)
}

/// The settings, and the columns that must be computed before it: the place of the aggregate and the text, which is the name.
fn read(window: &WindowStep, path: &str) -> Result<(WindowConfig, Vec<Computed>), Faults> {
    let (mut aggregates, mut all, mut faults) = (Vec::new(), Vec::<Computed>::new(), Faults::new());
    for (name, text) in &window.aggregates.0 {
        let path = format!("{path}.aggregates.{name}");
        let Read { aggregate, computed } = match aggregates::read(name.as_str(), text) {
            Ok(read) => read,
            Err(message) => {
                faults.push(fault(path, message));
                continue;
            }
        };
        aggregates.push(aggregate);
        for text in computed {
            match text.parse() {
                Ok(name) if !all.iter().any(|one| one.name == name) => {
                    all.push(Computed { path: path.clone(), name });
                }
                Ok(_) => {}
                Err(error) => faults.push(fault(
                    &path,
                    format!("the expression cannot name a column, for it {error}; compute it in a `select` before the window"),
                )),
            }
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let config = WindowConfig {
        key: window.key.iter().map(ToString::to_string).collect(),
        size: window.size.duration(),
        lateness: window.lateness.duration(),
        aggregates,
    };
    Ok((config, all))
}

/// An expression within an aggregate: a column before the window, whose name is its text.
struct Computed {
    /// The aggregate's key in the pipeline file.
    path: String,
    name: Identifier,
}

/// The steps before a window with one that computes its expressions, before any step with state; and the place of that one, if there is any.
fn computing(before: &mut Pipeline, computed: &[Computed]) -> Option<usize> {
    if computed.is_empty() {
        return None;
    }
    let at = before.steps.iter().position(|step| step.dedup.is_some()).unwrap_or(before.steps.len());
    let all: Identifier = shape::ALL.parse().expect("it is a name");
    let items = computed.iter().map(|one| (one.name.clone(), one.name.to_string()));
    let items = std::iter::once((all, shape::ALL.to_owned())).chain(items).collect();
    before.steps.insert(at, Step { select: Some(Pairs(items)), ..Step::default() });
    Some(at)
}

/// A place in the steps as they are in the file, where one of a window's own may stand among them.
fn in_file(path: &str, own: Option<usize>, computed: &[Computed], window: &str) -> String {
    let place = path.strip_prefix("steps[").and_then(|rest| rest.split_once(']'));
    let (Some(own), Some((index, rest))) = (own, place) else { return path.to_owned() };
    match index.parse::<usize>() {
        Ok(index) if index == own => {
            let item = rest.strip_prefix(".select.");
            let of = computed.iter().find(|one| item == Some(one.name.as_str()));
            of.map_or_else(|| window.to_owned(), |one| one.path.clone())
        }
        Ok(index) if index > own => format!("steps[{}]{rest}", index - 1),
        _ => path.to_owned(),
    }
}

/// Why a step cannot stand behind a window.
pub(crate) fn after_window(window: &str) -> String {
    format!(
        "a step after `{window}` is not supported yet; put it before the window, or a condition under `sinks` for the results"
    )
}

/// Why a step cannot stand between `dedup` and a window.
pub(crate) fn before_window(dedup: &str) -> String {
    format!(
        "a step between `{dedup}` and a window is not supported yet: the window would count the rows that the step drops; put it before `{dedup}`"
    )
}

/// The steps between a `dedup` and the window.
fn between(steps: &[Step]) -> Faults {
    let dedup = steps.iter().position(|step| step.dedup.is_some());
    let behind = |index: usize| dedup.filter(|dedup| *dedup < index);
    let apart = steps.iter().enumerate().filter(|(_, step)| step.dedup.is_none());
    let apart = apart.filter_map(|(index, step)| Some((index, step, behind(index)?)));
    apart
        .map(|(index, step, dedup)| {
            fault(format!("steps[{index}].{}", step.word()), before_window(&format!("steps[{dedup}].dedup")))
        })
        .collect()
}

/// Plans a pipeline whose step `at` is a window.
pub(super) fn plan(
    (pipeline, view): (&Pipeline, &View<'_>),
    tables: &[Schema],
    texts: &dyn Texts,
    at: usize,
    window: &WindowStep,
) -> Result<Plan, Faults> {
    let path = format!("steps[{at}].window");
    if let Some(step) = pipeline.steps.get(at + 1) {
        return Err(vec![fault(format!("steps[{}].{}", at + 1, step.word()), after_window(&path))]);
    }
    let between = between(&pipeline.steps[..at]);
    if !between.is_empty() {
        return Err(between);
    }
    let (config, computed) = read(window, &path)?;
    let (before, own) = before(pipeline, at, &computed);
    let in_file = |place: &str| in_file(place, own, &computed, &path);
    let planned = plan_before((&before, view), texts, window, &config, &path);
    let (read, mut plan) = planned.map_err(|mut faults| {
        for fault in &mut faults {
            let place = in_file(&fault.path);
            if place != fault.path {
                (fault.path, fault.at) = (place, None);
            }
        }
        faults
    })?;
    plan.stages.iter_mut().for_each(|stage| stage.path = in_file(&stage.path));
    let step = Window::new(&plan.lane, &config).map_err(|error| vec![fault(&path, error.to_string())])?;
    let output = step.output().clone();
    plan.stages.push(Stage {
        path: path.clone(),
        place: Place::Lane,
        reads: read.columns().iter().map(|column| column.name.clone()).collect(),
        output: output.clone(),
    });
    behind((pipeline, view), tables, texts, WindowPlan { path, config, output, behind: Vec::new() }, plan)
}

/// What stands before the window of step `at`, for no table, with a step that computes its expressions; and the place of that one.
fn before(pipeline: &Pipeline, at: usize, computed: &[Computed]) -> (Pipeline, Option<usize>) {
    let mut before = pipeline.clone();
    before.steps.truncate(at);
    before.columns.clear();
    before.sinks.clear();
    let own = computing(&mut before, computed);
    (before, own)
}

/// What stands before the window of step `at`, and the columns that the window reads.
///
/// # Errors
/// The aggregates that are none.
pub(super) fn read_of(
    pipeline: &Pipeline,
    at: usize,
    window: &WindowStep,
) -> Result<(Pipeline, Vec<String>), Faults> {
    let (config, computed) = read(window, &format!("steps[{at}].window"))?;
    let aggregates = config.aggregates.iter().flat_map(|aggregate| aggregate.columns());
    let columns = config.key.iter().map(String::as_str).chain(aggregates).map(str::to_owned).collect();
    Ok((before(pipeline, at, &computed).0, columns))
}

/// The plan of the steps before a window, and the columns that it reads.
fn plan_before(
    (before, view): (&Pipeline, &View<'_>),
    texts: &dyn Texts,
    window: &WindowStep,
    config: &WindowConfig,
    path: &str,
) -> Result<(Schema, Plan), Faults> {
    let read = Schema::new(read_columns((before, view), texts, window, config, path)?);
    let mut planner = Planner::new(before, view, std::slice::from_ref(&read), texts)?;
    planner.event_time = window.time.as_ref().map(|time| (format!("{path}.time"), time.as_str().to_owned()));
    let plan = planner.plan()?;
    Ok((read, plan))
}

/// How the results fill the tables.
fn behind(
    (pipeline, view): (&Pipeline, &View<'_>),
    tables: &[Schema],
    texts: &dyn Texts,
    mut window: WindowPlan,
    mut plan: Plan,
) -> Result<Plan, Faults> {
    let mut behind = pipeline.clone();
    behind.steps.clear();
    let view = &view.of_results();
    let at_window = |mut faults: Faults| {
        faults
            .iter_mut()
            .filter(|fault| fault.path == view.fields())
            .for_each(|fault| fault.path.clone_from(&window.path));
        faults
    };
    let mut planner = Planner::new(&behind, view, tables, texts)?;
    planner.declared = window.output.columns().to_vec();
    unused(&planner, &window)?;
    let conditions = planner.conditions(&window.output).map_err(at_window)?;
    let conditions = conditions.step();
    let shown = conditions.as_ref().map_or(&window.output, |step| step.schema()).clone();
    let mapping::Made { mut mappings, mapper, set, .. } =
        planner.mapping(&window.output, &shown, &[]).map_err(at_window)?;
    // No field of a record is in a result.
    mappings.iter_mut().flatten().for_each(|mapped| mapped.field = None);
    let mut made: Vec<Arc<dyn Transform>> = conditions.into_iter().collect();
    made.extend(mapper.map(|mapper| Arc::new(mapper) as Arc<dyn Transform>));
    (plan.tables, plan.router) = (planner.union.plans(mappings), planner.union.router(set));
    window.behind = made;
    plan.window = Some(window);
    Ok(plan)
}

/// An aggregate that no table takes is a slip of the pen.
fn unused(planner: &Planner<'_>, window: &WindowPlan) -> Result<(), Faults> {
    let known = planner.union.names();
    let is_taken = |name: &str| planner.union.columns().any(|column| planner.source_of(column) == name);
    let conditions =
        planner.union.targets().iter().any(|target| target.takes != crate::config::model::sink::Takes::Every);
    let unused =
        window.config.aggregates.iter().filter(|aggregate| !conditions && !is_taken(&aggregate.name));
    let message = |aggregate: &Aggregate| {
        let name = &aggregate.name;
        let near = nearest(name, &known);
        let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
        fault(format!("{}.aggregates.{name}", window.path), format!("the table has no column `{name}`{near}"))
    };
    let faults: Faults = unused.map(message).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// The columns that a window reads, with the types that they have before it.
fn read_columns(
    (before, view): (&Pipeline, &View<'_>),
    texts: &dyn Texts,
    window: &WindowStep,
    config: &WindowConfig,
    path: &str,
) -> Result<Vec<Column>, Faults> {
    let planner = Planner::new(before, view, &[Schema::new(Vec::new())], texts)?;
    let candidates = Schema::new(planner.candidates());
    let bound = planner.bind(&candidates)?;
    let last = bound.last().map_or(&candidates, |bound| bound.step.schema());
    let keys = window.key.iter().enumerate().map(|(at, key)| (format!("{path}.key[{at}]"), key.as_str()));
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
                    Origin::Field(field) => format!(
                        "the type of `{field}` is not known; write `fields: {{ {field}: String }}` under `{}:`, with its type{near}",
                        view.input.path
                    ),
                    Origin::Computed(_) | Origin::Absent => {
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
