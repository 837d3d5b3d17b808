//! The columns of a target before the first record: checked once, and empty.
//!
//! Owns what every format refuses of a target's columns and of the zone in its options, and the way from empty columns to full ones. Does not own which
//! types there are ([`super::compile`]), nor what a format refuses beside that.

use std::collections::BTreeSet;

use arrow_array::ArrayRef;
use dataflow::Schema;

use super::compile::Settings;
use super::times::Zone;
use super::typed::{TypedColumn, typed};

/// Columns or a zone that no record of any format could be decoded with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnsError {
    /// There is nothing to fill.
    #[error("the target has no columns")]
    NoColumns,
    /// Two columns of one name.
    #[error("the column `{column}` appears twice in the schema")]
    ColumnTwice {
        /// The name.
        column: String,
    },
    /// A column that cannot be filled, whatever the record.
    #[error("column `{column}`: {why}")]
    Type {
        /// The column.
        column: String,
        /// What is wrong with it.
        why: String,
    },
    /// The zone of the options.
    #[error("`timezone`: `{zone}` is no time zone of the IANA database")]
    Zone {
        /// The zone.
        zone: String,
    },
}

impl ColumnsError {
    /// The refusal of a column's type.
    pub(crate) fn of_type(column: &dataflow::Column, why: String) -> Self {
        Self::Type { column: column.name.clone(), why }
    }
}

/// Refuses columns that no format fills, and a zone that does not exist.
pub(crate) fn check(schema: &Schema, zone: &str) -> Result<(), ColumnsError> {
    if schema.columns().is_empty() {
        return Err(ColumnsError::NoColumns);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = schema.columns().iter().find(|column| !names.insert(&column.name)) {
        return Err(ColumnsError::ColumnTwice { column: twice.name.clone() });
    }
    match Zone::named(zone) {
        Some(_) => Ok(()),
        None => Err(ColumnsError::Zone { zone: zone.to_owned() }),
    }
}

/// The empty columns of a checked schema, in its order.
pub(crate) fn patterns(
    schema: &Schema,
    settings: Settings<'_>,
) -> Result<Vec<Box<dyn TypedColumn>>, ColumnsError> {
    check(schema, settings.timezone)?;
    let pattern = |column: &dataflow::Column| {
        typed(&column.column_type, settings).map_err(|why| ColumnsError::of_type(column, why))
    };
    schema.columns().iter().map(pattern).collect()
}

/// Columns like `patterns` with room for so many rows.
pub(crate) fn fresh(patterns: &[Box<dyn TypedColumn>], rows_expected: usize) -> Vec<Box<dyn TypedColumn>> {
    patterns.iter().map(|pattern| pattern.fresh(rows_expected)).collect()
}

/// Full columns as Arrow arrays.
pub(crate) fn finished(columns: Vec<Box<dyn TypedColumn>>) -> Vec<ArrayRef> {
    let arrays = columns.into_iter().map(|column| column.finish());
    arrays.collect::<Result<_, _>>().expect("columns keep offsets ascending, text valid and lengths equal")
}
