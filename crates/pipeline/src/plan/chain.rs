//! The order of a chain: which steps are done in the decode job, and what is left for the lane.
//!
//! Owns the segments of a chain and what the lane does. Does not own what a step makes of its rows ([`super::bind`]), the mapping
//! ([`super::mapping`]), nor windows, which divide a pipeline into chains ([`super::windows`]).
//!
//! ```text
//! file   filter ─▶ dedup ─▶ select ─▶ filter ─▶ dedup ─▶ filter ─▶ tables
//!        0         0        1         1         1        2
//!
//! decode filter ─▶ ahead(select, filter; filter) ─▶ mapping
//! lane   dedup ─▶ gate(1) ─▶ dedup ─▶ router, which leaves behind what flag 2 drops
//! ```
//! Steps without state between two with state, or behind the last, are a *segment*, with a number from 1. A `dedup` belongs to the segment before
//! it: it reads its key from the columns as they are there, and sees only rows that the segment has kept.

use std::sync::Arc;

use dataflow::{Column, Schema, Transform};
use operators::mapping::route::ByTable;
use operators::{Ahead, Gate, UpsertConfig, WindowConfig, ahead};

use super::joins::JoinSettings;
use super::mapping::{self, Extra};
use super::planner::{Origin, Planner};
use super::steps::{Kind, Planned};
use super::{Bound, Fault, Faults, Place, Stage, TablePlan, fault, tables};
use crate::config::nearest::nearest;

/// What the lane does with rows.
#[derive(Clone)]
pub enum LaneStep {
    /// Takes the time of the next step from a column: the first step's is the event time, taken before the lane.
    Time {
        /// The step's number in the pipeline file.
        at: usize,
        /// The column.
        column: String,
        /// The columns of the rows.
        columns: Schema,
    },
    /// A `dedup`.
    Dedup {
        /// Its number in the pipeline file.
        at: usize,
        /// The columns of the rows.
        columns: Schema,
    },
    /// Drops what a segment has dropped ahead of time.
    Gate(Gate),
    /// A window.
    Window {
        /// Its number in the pipeline file.
        at: usize,
        /// Its settings.
        config: WindowConfig,
        /// The columns of the rows that it takes.
        columns: Schema,
        /// What brings its late rows to the columns of their table; `None` if they are dropped.
        late: Option<Arc<dyn Transform>>,
    },
    /// A join, of the rows of two chains.
    Join {
        /// Its number in the pipeline file.
        at: usize,
        /// Its settings.
        config: JoinSettings,
        /// The columns of the rows of its left side, and of its right side.
        sides: [Schema; 2],
        /// For each side what brings its rows without a match to the columns of their table; `None` if they have none.
        unmatched: [Option<Arc<dyn Transform>>; 2],
    },
    /// What takes rows back, behind all others.
    Upsert {
        /// Its settings.
        config: UpsertConfig,
        /// The columns of the rows that it takes.
        rows: Schema,
        /// Those of the table.
        table: Schema,
    },
    /// A step without state behind a window or a join, whose rows exist only in the lane.
    Stateless {
        /// The step.
        step: Arc<dyn Transform>,
        /// The columns of the rows that it takes.
        columns: Schema,
    },
}

impl LaneStep {
    /// The number in the pipeline file of the step that it is made of; `None` for what stands between them.
    pub fn at(&self) -> Option<usize> {
        match self {
            Self::Time { at, .. }
            | Self::Dedup { at, .. }
            | Self::Window { at, .. }
            | Self::Join { at, .. } => Some(*at),
            Self::Gate(_) | Self::Stateless { .. } | Self::Upsert { .. } => None,
        }
    }
}

/// Steps without state one behind the other, the first for rows with the columns of `input`.
pub(super) fn in_lane(input: Schema, steps: Vec<Arc<dyn Transform>>) -> impl Iterator<Item = LaneStep> {
    steps.into_iter().scan(input, |columns, step| {
        let takes = std::mem::replace(columns, step.schema().clone());
        Some(LaneStep::Stateless { step, columns: takes })
    })
}

/// A column that a `dedup` reads and that the table does not store.
pub struct Key {
    /// Its name where the `dedup` stands.
    pub column: String,
    /// Its name in the lane.
    pub lane: String,
    /// How many steps without state stand before the `dedup`.
    pub behind: usize,
    /// The segment of the `dedup`.
    pub segment: usize,
}

/// What a chain is made into.
pub(super) struct Made {
    /// The columns of the first step's rows.
    pub(super) input: Schema,
    pub(super) stages: Vec<Stage>,
    /// Steps without state: done first, in the decode job if the rows are records.
    pub(super) transforms: Vec<Arc<dyn Transform>>,
    /// The columns that the lane's steps see.
    pub(super) lane: Schema,
    /// What is done in order.
    pub(super) lane_steps: Vec<LaneStep>,
    pub(super) tables: Vec<TablePlan>,
    pub(super) router: Option<ByTable>,
}

/// A step without state, bound.
pub(super) struct Work {
    pub(super) path: String,
    /// `None` for the conditions of the tables, which stand behind every step.
    pub(super) at: Option<usize>,
    segment: usize,
    pub(super) reads: Vec<String>,
    step: Arc<dyn Transform>,
}

impl Work {
    fn stage(&self, place: Place) -> Stage {
        let output = self.step.schema().clone();
        let multiplies = self.step.multiplies();
        Stage { path: self.path.clone(), place, reads: self.reads.clone(), output, multiplies }
    }
}

/// For each step its segment.
pub(super) fn segments(steps: &[Planned<'_>]) -> Vec<usize> {
    let (mut segment, mut is_behind) = (0, false);
    let of = |step: &Planned<'_>| {
        match step.kind {
            Kind::Dedup(_) | Kind::Window | Kind::Join => is_behind = true,
            Kind::Filter(_)
            | Kind::Select(_)
            | Kind::Query(_)
            | Kind::Joined(_)
            | Kind::Lookup(_)
            | Kind::Mark(_)
            | Kind::Meet(_) => {
                segment += usize::from(is_behind);
                is_behind = false;
            }
            Kind::Nothing => {}
        }
        segment
    };
    steps.iter().map(of).collect()
}

/// Whether steps without state stand behind one with state.
pub(super) fn has_steps_behind(steps: &[Planned<'_>]) -> bool {
    segments(steps).last().is_some_and(|last| *last > 0)
}

/// The column that says whether a row is still there behind a segment. No step can name it.
pub(super) fn flag(segment: usize) -> String {
    format!("`{segment}` keeps the row")
}

impl Planner<'_> {
    /// The number of segments.
    pub(super) fn segments(&self) -> usize {
        segments(&self.steps).last().copied().unwrap_or_default()
    }

    /// What the chain is made into, for rows with the columns of `input`.
    pub(super) fn chain(&self, input: &Schema) -> Result<Made, Faults> {
        let bound = self.bind(input)?;
        let last = bound.last().map_or(input, |bound| bound.step.schema()).clone();
        let conditions = self.conditions(&last)?;
        let keys = self.keys(input, &bound)?;
        self.lookups()?;
        let (of_step, count) = (segments(&self.steps), self.segments());
        let stateless = self.steps.iter().enumerate().filter(|(_, step)| step.is_stateless());
        let mut work: Vec<Work> = stateless
            .zip(bound)
            .map(|((at, step), bound)| Work {
                path: step.path.clone(),
                at: Some(at),
                segment: of_step[at],
                reads: bound.reads,
                step: bound.step,
            })
            .collect();
        let reads = conditions.reads();
        let conditions = conditions.step();
        work.extend(conditions.map(|step| Work {
            path: "sinks".into(),
            at: None,
            segment: count,
            reads,
            step,
        }));
        let (first, behind): (Vec<Work>, Vec<Work>) = work.into_iter().partition(|work| work.segment == 0);
        self.keys_before_reading(&first)?;
        let mut transforms: Vec<Arc<dyn Transform>> = first.iter().map(|work| work.step.clone()).collect();
        if count > 0 {
            let from = transforms.last().map_or(input, |step| step.schema()).clone();
            transforms.push(Arc::new(ahead_of(&from, &behind, count, &keys)));
        }
        let shown = transforms.last().map_or(input, |step| step.schema()).clone();
        let mapping::Made { mappings, lane, mapper, set } =
            self.mapping(&last, &shown, &self.extras(&keys))?;
        transforms.extend(mapper.map(|mapper| Arc::new(mapper) as Arc<dyn Transform>));
        let lane_steps = self.lane_steps(&lane, &keys);
        let stages = self.stages(&first, &behind, &lane_steps);
        let (tables, router) = (self.union.plans(mappings), self.union.router(set));
        let input = input.clone();
        Ok(Made { input, stages, transforms, lane, lane_steps, tables, router })
    }

    /// The steps as users read them: those before the first with state, and then all others in the order of the file.
    fn stages(&self, first: &[Work], behind: &[Work], lane_steps: &[LaneStep]) -> Vec<Stage> {
        let place = |place| if self.results_of.is_some() { Place::Results } else { place };
        let mut stages: Vec<Stage> = first.iter().map(|work| work.stage(place(Place::DecodeJob))).collect();
        for (at, step) in self.steps.iter().enumerate() {
            let ahead = behind.iter().find(|work| work.at == Some(at));
            stages.extend(ahead.map(|work| work.stage(place(Place::Ahead))));
            let of_lane = |lane: &&LaneStep| matches!(lane, LaneStep::Dedup { at, .. } if *at == step.at);
            let in_lane = lane_steps.iter().find(of_lane);
            stages.extend(in_lane.and_then(|lane| self.lane_stage(lane)));
        }
        let conditions = behind.iter().filter(|work| work.at.is_none());
        stages.extend(conditions.map(|work| work.stage(place(Place::Ahead))));
        stages
    }

    /// A `dedup` as users read it.
    pub(super) fn lane_stage(&self, step: &LaneStep) -> Option<Stage> {
        let LaneStep::Dedup { at, columns } = step else { return None };
        let (_, path, dedup) = self.dedups().find(|(step, ..)| self.steps[*step].at == *at)?;
        Some(Stage {
            multiplies: false,
            path: path.to_owned(),
            place: if self.results_of.is_some() { Place::Results } else { Place::Lane },
            reads: dedup.key.iter().map(ToString::to_string).collect(),
            output: columns.clone(),
        })
    }

    /// What the lane does with rows of these columns, which have those of `keys` among them.
    pub(super) fn lane_steps(&self, lane: &Schema, keys: &[Key]) -> Vec<LaneStep> {
        let (of_step, mut passed, mut columns) = (segments(&self.steps), 0, lane.clone());
        let mut steps = Vec::new();
        for (nth, (place, _, dedup)) in self.dedups().enumerate() {
            let (at, segment) = (self.steps[place].at, of_step[place]);
            if segment > passed {
                passed = segment;
                columns = seen_from(segment, lane, keys);
                let all = (0..columns.columns().len()).collect();
                let flag = lane.index_of(&flag(segment)).expect("the mapping keeps the flags of gates");
                steps.push(LaneStep::Gate(Gate::new(flag, all, columns.clone())));
            }
            if let Some(time) = dedup.time.as_ref().filter(|_| nth > 0) {
                let column = time.as_str().to_owned();
                steps.push(LaneStep::Time { at, column, columns: columns.clone() });
            }
            steps.push(LaneStep::Dedup { at, columns: columns.clone() });
        }
        steps
    }

    /// The columns that only steps with state read, where they stand: keys that the table does not store. `bound` are the steps without state for
    /// rows with the columns of `input`.
    pub(super) fn keys(&self, input: &Schema, bound: &[Bound]) -> Result<Vec<Key>, Faults> {
        let (of_step, mut keys, mut faults) = (segments(&self.steps), Vec::<Key>::new(), Faults::new());
        for (nth, (place, path, dedup)) in self.dedups().enumerate() {
            let named = dedup.key.iter().enumerate().map(|(at, key)| (format!("{path}.key[{at}]"), key));
            // The first one's time is the event time; a later one takes its own in the lane.
            let time = dedup.time.iter().filter(|_| nth > 0).map(|time| (format!("{path}.time"), time));
            let behind = self.steps[..place].iter().filter(|step| step.is_stateless()).count();
            let there = bound[..behind.min(bound.len())].last().map_or(input, |bound| bound.step.schema());
            for (path, key) in named.chain(time) {
                let (key, segment) = (key.as_str(), of_step[place]);
                let is_known = |known: &Key| known.column == key && known.segment == segment;
                if self.union.index_of(key).is_some() || keys.iter().any(is_known) {
                    continue;
                }
                if there.index_of(key).is_none() {
                    faults.push(self.no_key(path, key, place, there));
                    continue;
                }
                let lane = match segment {
                    0 => key.to_owned(),
                    _ => format!("`{key}` behind `{segment}`"),
                };
                keys.push(Key { column: key.to_owned(), lane, behind, segment });
            }
        }
        if faults.is_empty() { Ok(keys) } else { Err(faults) }
    }

    fn no_key(&self, path: String, key: &str, place: usize, there: &Schema) -> Fault {
        if let Some(message) = self.named_in_table(key, |name| there.index_of(name).is_some()) {
            return fault(path, message);
        }
        let mut known = self.union.names();
        known.extend(there.columns().iter().map(|column| column.name.as_str()));
        // A column of a table may be called so.
        known.retain(|name| *name != key);
        let near = nearest(key, &known);
        let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
        let message = match self.origin(key, place) {
            Origin::Field(field) if self.results_of.is_none() => self.undeclared(&field, "String") + &near,
            Origin::Field(_) | Origin::Computed(_) | Origin::Absent => {
                format!("no step before gives a column `{key}`{near}")
            }
        };
        fault(path, message)
    }

    /// The columns behind the tables' that steps with state read: their keys, and the flags of the segments before them.
    fn extras(&self, keys: &[Key]) -> Vec<Extra> {
        let count = self.segments();
        let of_key = keys.iter().map(|key| Extra {
            name: key.lane.clone(),
            from: if key.segment < count { mapping::kept_as(&key.lane) } else { key.column.clone() },
        });
        let of_step = segments(&self.steps);
        let has_gate = |segment: &usize| {
            self.is_for_window && *segment == count || self.dedups().any(|(at, ..)| of_step[at] == *segment)
        };
        let flags = (1..=count).filter(has_gate).map(flag);
        let flags = flags.map(|flag| Extra { name: flag.clone(), from: flag });
        of_key.chain(flags).collect()
    }
}

/// The lane's columns by the names that they have for steps with state behind a segment.
fn seen_from(segment: usize, lane: &Schema, keys: &[Key]) -> Schema {
    let own = || keys.iter().filter(|key| key.segment == segment);
    let named = |column: &Column| {
        let name = match own().find(|key| key.lane == column.name) {
            Some(key) => key.column.clone(),
            // The key of an earlier step.
            None if own().any(|key| key.column == column.name) => mapping::kept_as(&column.name),
            None => column.name.clone(),
        };
        Column { name, ..column.clone() }
    };
    Schema::new(lane.columns().iter().map(named).collect())
}

/// The `work` of all segments, `count` in number, ahead of the first step with state.
fn ahead_of(input: &Schema, work: &[Work], count: usize, keys: &[Key]) -> Ahead {
    let (mut segments, mut before) = (Vec::new(), input);
    for segment in 1..=count {
        let own = keys.iter().filter(|key| key.segment + 1 == segment);
        let kept = own.map(|key| {
            let at = before.index_of(&key.column).expect("it was found there");
            (at, mapping::kept_as(&key.lane))
        });
        let kept = kept.collect();
        let steps: Vec<_> =
            work.iter().filter(|work| work.segment == segment).map(|work| work.step.clone()).collect();
        before = work.iter().rfind(|work| work.segment == segment).map_or(before, |work| work.step.schema());
        segments.push(ahead::Segment { kept, steps, flag: flag(segment) });
    }
    Ahead::new(input, segments, tables::loosened)
}

#[cfg(test)]
mod tests;
