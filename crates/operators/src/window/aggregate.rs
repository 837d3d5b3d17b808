//! What a window computes of its rows.
//!
//! Owns the functions, the types that they take and the types of their results. Does not own the computing (`accumulator`).
//!
//! NULL is no value: every function but `count()` passes over it, and without a value the result is NULL. `count` of none is 0.
//!
//! | function          | takes                                | gives                                                   |
//! |-------------------|--------------------------------------|---------------------------------------------------------|
//! | `count()`         | –                                    | UInt64: records                                         |
//! | `count(x)`        | any                                  | UInt64: values that are not NULL                        |
//! | `sum(x)`          | integers, Float32, Float64, Decimal  | Int64, UInt64, Float64, Decimal(38, s); a sum that does not fit makes its row a dead letter |
//! | `avg(x)`          | as `sum`                             | Float64                                                 |
//! | `min(x)`, `max(x)`| any with one value a row             | its type; texts by their bytes, NaN above all numbers   |
//! | `first(x)`, `last(x)` | any with one value a row         | its type: the value of the least or greatest event time; of one time the first or last read |

use dataflow::{ColumnType, Schema};

use super::values::Form;
use crate::ConfigError;
use crate::config::column_index;
use crate::dedup::key::kind;

const SETTING: &str = "window.aggregates";

/// The functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above says what they are")]
pub enum Function {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    First,
    Last,
}

impl Function {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Count, Self::Sum, Self::Avg, Self::Min, Self::Max, Self::First, Self::Last];

    /// The word in the pipeline file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Min => "min",
            Self::Max => "max",
            Self::First => "first",
            Self::Last => "last",
        }
    }
}

/// One result of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The column of the result.
    pub name: String,
    /// What is computed.
    pub function: Function,
    /// Of which column; `None` for records.
    pub column: Option<String>,
}

/// An aggregate over the columns of a schema.
#[derive(Clone, Debug)]
pub struct Bound {
    /// As the user wrote it.
    pub aggregate: Aggregate,
    /// The column's type and whether it may hold nulls; `None` for records.
    pub input: Option<(ColumnType, bool)>,
    /// The result's type.
    pub output: ColumnType,
}

impl Bound {
    /// Binds it.
    ///
    /// # Errors
    /// When there is no such column, or the function does not take its type.
    pub fn new(schema: &Schema, aggregate: &Aggregate) -> Result<Self, ConfigError> {
        let Some(name) = &aggregate.column else {
            if aggregate.function == Function::Count {
                return Ok(Self { aggregate: aggregate.clone(), input: None, output: ColumnType::UInt64 });
            }
            let message = format!("`{}` needs a column", aggregate.function.word());
            return Err(ConfigError::Setting { setting: SETTING, message });
        };
        let column = &schema.columns()[column_index(schema, SETTING, name)?];
        let bare = column.column_type.bare();
        let refuse = |wanted| ConfigError::ColumnKind {
            setting: SETTING,
            name: name.clone(),
            found: format!("{:?}", column.column_type),
            wanted,
        };
        let one_value = Form::of(bare).is_some();
        let output = match aggregate.function {
            Function::Count => ColumnType::UInt64,
            Function::Sum => sum_of(bare).ok_or_else(|| refuse("an integer, a Float or a Decimal"))?,
            Function::Avg => {
                sum_of(bare).ok_or_else(|| refuse("an integer, a Float or a Decimal"))?;
                ColumnType::Float64
            }
            Function::Min | Function::Max | Function::First | Function::Last if one_value => bare.clone(),
            Function::Min | Function::Max | Function::First | Function::Last => {
                return Err(refuse("a column with one value a row"));
            }
        };
        let is_nullable = column.is_optional();
        let output = match aggregate.function {
            Function::Count => output,
            _ if is_nullable => ColumnType::Nullable(Box::new(output)),
            _ => output,
        };
        let input = Some((column.column_type.clone(), is_nullable));
        Ok(Self { aggregate: aggregate.clone(), input, output })
    }

    /// The words that a state is known by.
    pub fn words(&self) -> String {
        let column = self.aggregate.column.as_deref().unwrap_or_default();
        let of = self.input.as_ref().map_or(String::new(), |(column_type, _)| {
            format!(" of {}", kind(column_type).unwrap_or_else(str::to_lowercase))
        });
        format!("{} = {}({column}){of}", self.aggregate.name, self.aggregate.function.word())
    }
}

/// The type of the sum of a type; `None` if it has none.
fn sum_of(bare: &ColumnType) -> Option<ColumnType> {
    Some(match bare {
        ColumnType::Int8 | ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 => ColumnType::Int64,
        ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::UInt64 => {
            ColumnType::UInt64
        }
        ColumnType::Float32 | ColumnType::Float64 => ColumnType::Float64,
        ColumnType::Decimal { scale, .. } => ColumnType::Decimal { precision: 38, scale: *scale },
        _ => return None,
    })
}
