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

mod columns;
mod parts;
mod sides;

use std::sync::Arc;

use dataflow::{Column, Metadata, Operator, Schema, Transform};
use operators::{ConfigError, Join, JoinColumn, JoinConfig, JoinSide, TemporalConfig, TemporalJoin};

use super::aside::Aside;
use super::inputs::{Plans, View};
use super::planner::{Origin, Planner};
use super::steps::{MARK, Planned};
use super::{Faults, Texts, fault, windows};
use crate::config::model::Pipeline;
use crate::config::model::sink::{SideOutput, Takes};
use columns::Joined;
use sides::{At, Rows, Side, joins};

/// Both sides, in the order of the operator's inputs.
const SIDES: [JoinSide; 2] = [JoinSide::Left, JoinSide::Right];

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
        // A `dedup` before the join may have named one for an input that does not.
        let of_dedup = match planner.view.time() {
            None => planner.time(&planner.candidates())?,
            Some(_) => None,
        };
        let of_input = planner.view.time().unwrap_or(Metadata::Timestamp.name());
        let own = of_dedup.as_deref().unwrap_or(of_input);
        if matches!(planner.origin(time, planner.steps.len()), Origin::Field(field) if field == own) {
            return Ok(());
        }
        let name = &side.name;
        let way_out = match &of_dedup {
            Some(_) => format!(
                "the `dedup` before takes it; write `{own}` here and `time: {own}` under `inputs.{name}:`, or leave `time` out of the `dedup`"
            ),
            None => format!("write `{own}` here, or `time: {time}` under `inputs.{name}:`"),
        };
        let message = format!(
            "`{time}` is not the event time of `{name}`, by which rows are joined, for that is `{own}`; {way_out}"
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
}

#[cfg(test)]
mod tests;
