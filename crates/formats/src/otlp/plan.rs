//! Which field fills which column, decided once from the columns.
//!
//! Owns the choice and the refusal of columns that no field can fill. Does not own the filling ([`super::fill`]).

use dataflow::{Column, ColumnType, Schema};

use super::fields::{self, Level, What};
use super::messages::METRIC_TYPES;
use super::{ConfigError, Signal};
use crate::columns::{Absence, Kind, takes};

/// A column and what fills it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// The column's place in the schema.
    pub column: usize,
    /// The field's name.
    pub field: &'static str,
    /// What fills it.
    pub what: &'static What,
}

/// What fills the columns of a schema.
#[derive(Debug)]
pub(super) struct Plan {
    pub signal: Signal,
    /// Columns that all rows of a resource share.
    pub resource: Vec<Fill>,
    /// Columns that all rows of a scope share.
    pub scope: Vec<Fill>,
    /// Columns that all rows of a metric share.
    pub metric: Vec<Fill>,
    /// The columns of rows of each kind: one, or as many as there are kinds of metrics.
    pub rows: Vec<Vec<Fill>>,
    /// What each column gets where a row has nothing for it.
    pub absences: Vec<Absence>,
    /// Columns that no field fills.
    pub absent: Vec<usize>,
}

impl Plan {
    /// A plan for no columns: rows are only counted.
    pub fn of_nothing(signal: Signal) -> Self {
        let kinds = if signal == Signal::Metrics { METRIC_TYPES.len() } else { 1 };
        Self {
            signal,
            resource: Vec::new(),
            scope: Vec::new(),
            metric: Vec::new(),
            rows: vec![Vec::new(); kinds],
            absences: Vec::new(),
            absent: Vec::new(),
        }
    }

    /// A plan for the columns of `schema`.
    ///
    /// # Errors
    /// A column that no field can fill.
    pub fn new(signal: Signal, schema: &Schema) -> Result<Self, ConfigError> {
        let mut plan = Self::of_nothing(signal);
        plan.absences = schema.columns().iter().map(Absence::of).collect();
        for (at, column) in schema.columns().iter().enumerate() {
            let Some(field) = fields::all(signal).find(|field| field.name == column.field) else {
                if !column.is_optional() {
                    return Err(ConfigError::unknown(signal, column));
                }
                plan.absent.push(at);
                continue;
            };
            if let Some(what) = field.whats.iter().find(|what| !accepts(&column.column_type, what)) {
                return Err(ConfigError::Kind {
                    column: column.name.clone(),
                    field: field.name.into(),
                    kind: kind_word(what),
                });
            }
            let fill = |kind| Fill { column: at, field: field.name, what: field.of_kind(kind) };
            match field.level {
                Level::Resource => plan.resource.push(fill(0)),
                Level::Scope => plan.scope.push(fill(0)),
                Level::Metric => plan.metric.push(fill(0)),
                Level::Row => {
                    plan.rows.iter_mut().enumerate().for_each(|(kind, fills)| fills.push(fill(kind)));
                }
            }
        }
        Ok(plan)
    }
}

/// Whether a column takes what a field gives.
fn accepts(column_type: &ColumnType, what: &What) -> bool {
    let item = |kind: Kind| matches!(column_type.bare(), ColumnType::Array(item) if takes(item, kind));
    match what {
        // The other kinds of rows decide.
        What::Nothing(_) => true,
        What::Attributes(_) => match column_type.bare() {
            ColumnType::Map(key, value) => takes(key, Kind::Text) && takes(value, Kind::Text),
            other => matches!(other, ColumnType::String | ColumnType::Json { .. }),
        },
        What::Paths(_) => item(Kind::Text),
        What::Doubles(_) => item(Kind::Float),
        What::Counts(_) | What::Varints(_) => item(Kind::Integer),
        What::Each(_, _, what) => {
            matches!(column_type.bare(), ColumnType::Array(item) if accepts(item, what))
        }
        What::Inside(_, _, what) => accepts(column_type, what),
        other => takes(column_type, other.kind()),
    }
}

fn kind_word(what: &What) -> String {
    match what {
        What::Attributes(_) => "a map of texts; JSON takes it with its types, and a String its JSON".into(),
        What::Each(_, _, what) => format!("an array, each item {}", kind_word(what)),
        What::Inside(_, _, what) => kind_word(what),
        What::Paths(_) => "an array of texts".into(),
        What::Doubles(_) => "an array of floats".into(),
        What::Counts(_) | What::Varints(_) => "an array of integers".into(),
        other => other.kind().as_str().into(),
    }
}

impl ConfigError {
    fn unknown(signal: Signal, column: &Column) -> Self {
        let names: Vec<&str> = fields::all(signal).map(|field| field.name).collect();
        let (column, field) = (column.name.clone(), column.field.clone());
        Self::NoField { column, field, format: signal.format(), known: names.join("`, `") }
    }
}
