//! The names and types of joined columns.
//!
//! Owns which column of which side a name behind a join is, and the faults of names that are unknown or of both sides. Does not own which of the columns
//! anything reads (`Joins::needed`).

use std::collections::BTreeSet;

use dataflow::{Column, ColumnType, Schema};
use operators::JoinColumn;

use super::sides::{At, Rows};
use super::{Beside, JoinSettings, SIDES};
use crate::config::model::join as model;
use crate::config::nearest::nearest;
use crate::plan::steps::MARK;
use crate::plan::{Faults, fault};

/// What there is to know of a join's rows.
pub(super) struct Joined {
    pub(super) columns: Vec<JoinColumn>,
    /// Names that both sides have, of which the left one's stands in `config`.
    pub(super) ambiguous: BTreeSet<String>,
    pub(super) output: Schema,
}

impl At<'_> {
    /// Every column that the joined rows may have, from all columns of both sides.
    pub(super) fn columns(&self, sides: &[Schema; 2]) -> Result<(Vec<JoinColumn>, BTreeSet<String>), Faults> {
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
            let is_hidden =
                |name: &String| query.is_some_and(|query| place == 0 && query.hidden.contains(name));
            let shown =
                schema.columns().iter().filter(|column| column.name != MARK && !is_hidden(&column.name));
            for column in shown {
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
                    // Of rows of a join before, a column that the query has named there.
                    Some(known) if columns[known].side == SIDES[place] && columns[known].from == *name => {}
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
    fn no_condition(&self, right: &Schema) -> Option<crate::plan::Fault> {
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
    fn unknown(&self, path: String, name: &str, side: usize, schema: &Schema) -> crate::plan::Fault {
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
    pub(super) fn all_columns(&self, sides: &[Schema; 2], columns: &[JoinColumn]) -> Schema {
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

    pub(super) fn joined(
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

    pub(super) fn unclear(&self, name: &str) -> crate::plan::Fault {
        let [left, right] = &self.sides;
        if let Some(query) = &self.step.query {
            let named: Vec<String> = query.sides.iter().map(|side| format!("`{side}.{name}`")).collect();
            let message = match &named[..] {
                [left, right] => format!("`{name}` is a column of both sides; write {left} or {right}"),
                more => format!("`{name}` is a column of several inputs; write one of {}", more.join(", ")),
            };
            return fault(format!("{}.names.{name}", self.path), message);
        }
        let message = format!(
            "`{name}` is a column of both sides; say which one under `columns`, as in `columns: {{ {name}: {}.{name} }}`, or `{}.{name}`",
            left.name, right.name
        );
        fault(&self.path, message)
    }
}
