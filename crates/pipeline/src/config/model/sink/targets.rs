//! The tables that a pipeline's rows go to, whichever way the file says so.
//!
//! Owns what follows from `sink` and `sinks` together: which table takes which rows, and the side outputs by name. Does not own the keys, nor how rows fill a
//! table (`plan`).

use std::collections::BTreeMap;

use operators::JoinSide;

use super::{ClickHouse, Create, TableSink, Upsert};
use crate::config::model::Pipeline;
use crate::config::values::{Field, Identifier};

/// A table of a pipeline, with all of its settings.
#[derive(Clone, Debug)]
pub struct Target {
    /// The key in the pipeline file that names it, as in `sinks[1]`; `sink` for the only one.
    pub path: String,
    /// The table and how to reach it.
    pub clickhouse: ClickHouse,
    /// Where the columns that are filled by another name stand in the file.
    pub columns_path: String,
    /// Column to the name that fills it.
    pub columns: BTreeMap<Identifier, Field>,
    /// Which rows it takes.
    pub takes: Takes,
    /// Where its condition stands in the file, if it has one; no other table has the same.
    pub condition_path: String,
    /// Whether its rows replace each other.
    pub upsert: Option<Upsert>,
}

/// Which rows a table takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Every row.
    Every,
    /// Those for which this SQL expression is true.
    Where(String),
    /// Those for which none of the others' is.
    Otherwise,
    /// Those of a side output, and no row behind the last step.
    Side(SideOutput),
}

/// A side output of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideOutput {
    /// The records that the window of this step finds late.
    Late(usize),
    /// The rows of one side that the join of this step finds no match for.
    Unmatched(usize, JoinSide),
}

impl SideOutput {
    /// Its step.
    pub fn step(self) -> usize {
        match self {
            Self::Late(step) | Self::Unmatched(step, _) => step,
        }
    }
}

impl Target {
    /// Whether it takes the rows of a side output.
    pub fn is_of_side(&self) -> bool {
        matches!(self.takes, Takes::Side(_))
    }
}

impl Pipeline {
    /// The tables that rows go to, in the order of the file, and behind them those of side outputs; at least one.
    pub fn targets(&self) -> Vec<Target> {
        if self.sinks.is_empty() {
            return vec![Target {
                path: "sink".to_owned(),
                clickhouse: self.sink.clickhouse.clone(),
                columns_path: "columns".to_owned(),
                columns: self.columns.clone(),
                takes: Takes::Every,
                condition_path: String::new(),
                upsert: self.sink.upsert.clone(),
            }];
        }
        let targets = self.sinks.iter().enumerate().flat_map(|(index, sink)| self.targets_of(index, sink));
        let (of_sides, mut targets): (Vec<_>, Vec<_>) = targets.partition(Target::is_of_side);
        targets.extend(of_sides);
        targets
    }

    /// Whether a table takes rows back by their sign, for which the pipeline keeps the last row of each key.
    pub fn takes_rows_back(&self) -> bool {
        let signed = |target: Target| target.upsert.is_some_and(|upsert| upsert.sign.is_some());
        self.targets().into_iter().any(signed)
    }

    /// The tables of one entry of `sinks`.
    fn targets_of(&self, index: usize, sink: &TableSink) -> Vec<Target> {
        let path = format!("sinks[{index}]");
        let shared = &self.sink.clickhouse;
        let own = &sink.clickhouse;
        let target = |table: Identifier, takes: Takes, condition_path: String| Target {
            path: path.clone(),
            clickhouse: ClickHouse {
                database: own.database.clone().unwrap_or_else(|| shared.database.clone()),
                table: Some(table),
                unique_key: own.unique_key.clone(),
                create: own.create.clone().map(Create::Table),
                ..shared.clone()
            },
            columns_path: format!("{path}.columns"),
            columns: sink.columns.clone(),
            takes,
            condition_path,
            upsert: sink.upsert.clone(),
        };
        let Some(by) = &sink.by else {
            let takes = match &sink.condition {
                // A name that no step has is a fault of the rules.
                _ if sink.from.is_some() => Takes::Side(self.side_of(sink).unwrap_or(SideOutput::Late(0))),
                Some(text) => Takes::Where(text.clone()),
                None if sink.otherwise => Takes::Otherwise,
                None => Takes::Every,
            };
            return vec![target(own.table.clone(), takes, format!("{path}.where"))];
        };
        let values = by.values.iter().enumerate().map(|(nth, value)| {
            let name = own.table.as_str().replace(&by.placeholder(), value.as_str());
            let mut condition = by.condition(value);
            if let Some(text) = &sink.condition {
                condition = format!("{condition} AND ({text})");
            }
            // A name that is too long is a fault of the rules.
            let table = name.parse().unwrap_or_else(|_| own.table.clone());
            target(table, Takes::Where(condition), format!("{path}.by.values[{nth}]"))
        });
        values.collect()
    }

    /// The side output whose rows an entry takes, if it names one.
    pub fn side_of(&self, sink: &TableSink) -> Option<SideOutput> {
        let from = sink.from.as_ref()?;
        self.side_outputs().into_iter().find(|(name, _)| name == from).map(|(_, output)| output)
    }

    /// The side outputs of all steps that have a name, each with what `from` calls it.
    pub fn side_outputs(&self) -> Vec<(String, SideOutput)> {
        let mut all = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            if let Some(name) = step.window.as_ref().and_then(|window| window.name.as_ref()) {
                all.push((format!("{name}.late"), SideOutput::Late(at)));
            }
            // The joins of a query have names that nobody wrote.
            let join = step.join.as_ref().filter(|join| join.query.is_none());
            if let Some(name) = join.and_then(|join| join.name.as_ref()) {
                for side in [JoinSide::Left, JoinSide::Right] {
                    let output = SideOutput::Unmatched(at, side);
                    all.push((format!("{name}.{}_unmatched", side.word()), output));
                }
            }
        }
        all
    }

    /// What `from` calls the side output whose rows a table takes, if it takes those of one.
    pub fn from_of(&self, target: &Target) -> Option<String> {
        let Takes::Side(output) = target.takes else { return None };
        self.side_outputs().into_iter().find(|(_, known)| *known == output).map(|(name, _)| name)
    }

    /// Database and table of the dead letters.
    pub fn letters_place(&self) -> (String, String) {
        let sink = &self.sink.clickhouse;
        let database = sink.database.as_str();
        match &self.dead_letters.table {
            Some(name) => {
                let (database, table) = name.split(database);
                (database.to_owned(), table.to_owned())
            }
            None if self.sinks.is_empty() => (database.to_owned(), format!("{}_rejected", sink.table_name())),
            None => (database.to_owned(), format!("{}_rejected", self.pipeline.as_str().replace('-', "_"))),
        }
    }
}
