//! What a window computes of its rows.
//!
//! Owns the functions, the types that they take and the types of their results. Does not own the computing (`accumulator`).
//!
//! NULL is no value: every function but `count()` passes over it, and without a value the result is NULL. `count` of none is 0, and
//! `group_array` of none is empty. A row whose condition is not true counts for nothing in its aggregate.
//!
//! | function                     | takes                               | gives                                                   |
//! |------------------------------|-------------------------------------|---------------------------------------------------------|
//! | `count()`                    | –                                   | UInt64: records                                         |
//! | `count(x)`                   | any                                 | UInt64: values that are not NULL                        |
//! | `sum(x)`                     | integers, Float32, Float64, Decimal | Int64, UInt64, Float64, Decimal(38, s); a sum that does not fit makes its row a dead letter |
//! | `avg(x)`                     | as `sum`                            | Float64                                                 |
//! | `var_pop`, `stddev_pop`      | as `sum`                            | Float64                                                 |
//! | `var_samp`, `stddev_samp`    | as `sum`                            | Float64, NULL for a single value                        |
//! | `min(x)`, `max(x)`           | any with one value a row            | its type; texts by their bytes, NaN above all numbers   |
//! | `bool_and(x)`, `bool_or(x)`  | Bool                                | Bool                                                    |
//! | `first(x)`, `last(x)`        | any with one value a row            | its type: the value of the least or greatest event time; of one time the first or last read |
//! | `any(x)`                     | any with one value a row            | its type: the first value that was read                 |
//! | `arg_min(x, by)`, `arg_max`  | both any with one value a row       | the type of `x`: its value where `by` is least or greatest; of one `by` the first read. Rows where either is NULL are passed over |
//! | `count_distinct(x)`          | any with one value a row            | UInt64, exact                                           |
//! | `approx_count_distinct(x)`   | any with one value a row            | UInt64, with a standard error of 1.6 %                  |
//! | `group_array(x, n)`          | any with one value a row            | Array of its type: the first `n` values that were read  |
//! | `quantile(x, q)`             | as `sum`                            | Float64: the value that ClickHouse's `quantileExact` picks, at most 0.8 % too near to zero |
//! | `quantiles(x, q, …)`         | as `sum`                            | Array(Float64), or empty without a value                |

use std::sync::Arc;

use dataflow::types::{StateFunction, StateType};
use dataflow::{ColumnType, KeptEnum, Schema};

use super::values::Form;
use crate::ConfigError;
use crate::config::column_index;
use crate::dedup::key::kind;

const SETTING: &str = "window.aggregates";

/// Values of a `group_array` at the most: beyond it somebody wants the rows themselves.
pub const ARRAY_MAX: u64 = 10_000;

/// What `1.0` is in [`Aggregate::numbers`] of a quantile.
pub const QUANTILE_ONE: u64 = 1_000_000;

/// Quantiles of one aggregate at the most.
pub const QUANTILES_MAX: usize = 32;

/// The functions that a window can compute.
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
    Any,
    ArgMin,
    ArgMax,
    BoolAnd,
    BoolOr,
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
    CountDistinct,
    ApproxCountDistinct,
    GroupArray,
    Quantile,
    Quantiles,
}

impl Function {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::Count,
        Self::Sum,
        Self::Avg,
        Self::Min,
        Self::Max,
        Self::First,
        Self::Last,
        Self::Any,
        Self::ArgMin,
        Self::ArgMax,
        Self::BoolAnd,
        Self::BoolOr,
        Self::VarPop,
        Self::VarSamp,
        Self::StddevPop,
        Self::StddevSamp,
        Self::CountDistinct,
        Self::ApproxCountDistinct,
        Self::GroupArray,
        Self::Quantile,
        Self::Quantiles,
    ];

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
            Self::Any => "any",
            Self::ArgMin => "arg_min",
            Self::ArgMax => "arg_max",
            Self::BoolAnd => "bool_and",
            Self::BoolOr => "bool_or",
            Self::VarPop => "var_pop",
            Self::VarSamp => "var_samp",
            Self::StddevPop => "stddev_pop",
            Self::StddevSamp => "stddev_samp",
            Self::CountDistinct => "count_distinct",
            Self::ApproxCountDistinct => "approx_count_distinct",
            Self::GroupArray => "group_array",
            Self::Quantile => "quantile",
            Self::Quantiles => "quantiles",
        }
    }

    /// The same under the names that ClickHouse and other SQL systems have for it, without `_`.
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Avg => &["mean"],
            Self::First => &["firstvalue"],
            Self::Last => &["lastvalue"],
            Self::Any => &["anyvalue"],
            Self::ArgMin => &["minby"],
            Self::ArgMax => &["maxby"],
            Self::BoolAnd => &["every", "logicaland"],
            Self::BoolOr => &["some", "logicalor"],
            Self::VarSamp => &["variance"],
            Self::StddevSamp => &["stddev"],
            Self::CountDistinct => &["uniqexact"],
            Self::ApproxCountDistinct => &["uniq", "uniqcombined", "uniqhll12", "approxdistinct"],
            Self::GroupArray => &["arrayagg"],
            Self::Count | Self::Sum | Self::Min | Self::Max | Self::VarPop | Self::StddevPop => &[],
            Self::Quantile => &["quantiletdigest"],
            Self::Quantiles => &["quantilestdigest"],
        }
    }

    /// The function of a name, in any case and with or without `_`.
    pub fn named(name: &str) -> Option<Self> {
        let plain = |name: &str| name.to_lowercase().replace('_', "");
        let wanted = plain(name);
        let is_it = |function: &Self| {
            plain(function.word()) == wanted || function.aliases().contains(&wanted.as_str())
        };
        Self::ALL.into_iter().find(is_it)
    }

    /// Whether each value may be taken once only, and the result be another.
    pub fn takes_distinct(self) -> bool {
        use Function::{Avg, Count, StddevPop, StddevSamp, Sum, VarPop, VarSamp};
        matches!(self, Count | Sum | Avg | VarPop | VarSamp | StddevPop | StddevSamp)
    }

    /// Whether ClickHouse has the state of this function under the name, in any case and with or without `_`: `sum` has `sumState`. Other names of a function are
    /// no names of its state: `uniqCombined` has a result like that of `uniq`, and another state.
    pub fn names_state(self, name: &str) -> bool {
        let wanted = name.to_lowercase().replace('_', "");
        self.state().is_some_and(|state| state.name().to_lowercase() == wanted)
    }

    /// The function of ClickHouse whose state it can give in place of its result.
    pub fn state(self) -> Option<StateFunction> {
        Some(match self {
            Self::Count => StateFunction::Count,
            Self::Sum => StateFunction::Sum,
            Self::Avg => StateFunction::Avg,
            Self::Min => StateFunction::Min,
            Self::Max => StateFunction::Max,
            Self::Any => StateFunction::Any,
            Self::ArgMin => StateFunction::ArgMin,
            Self::ArgMax => StateFunction::ArgMax,
            Self::ApproxCountDistinct => StateFunction::Uniq,
            Self::Quantile => StateFunction::QuantileTDigest,
            Self::Quantiles => StateFunction::QuantilesTDigest,
            Self::First | Self::Last | Self::BoolAnd | Self::BoolOr => return None,
            Self::VarPop | Self::VarSamp | Self::StddevPop | Self::StddevSamp => return None,
            Self::CountDistinct | Self::GroupArray => return None,
        })
    }

    /// Whether it has a second column.
    pub fn has_by(self) -> bool {
        matches!(self, Self::ArgMin | Self::ArgMax)
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
    /// The column that `arg_min` and `arg_max` order by.
    pub by: Option<String>,
    /// The values of a `group_array` at the most, or the quantiles in millionths.
    pub numbers: Vec<u64>,
    /// Each value once only.
    pub distinct: bool,
    /// The Bool column that must be true.
    pub condition: Option<String>,
    /// ClickHouse's state of the function in place of its result.
    pub is_state: bool,
}

impl Aggregate {
    /// A function of a column, or of records, without more.
    pub fn new(name: &str, function: Function, column: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            function,
            column: column.map(str::to_owned),
            by: None,
            numbers: Vec::new(),
            distinct: false,
            condition: None,
            is_state: false,
        }
    }

    /// The columns that it reads.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        [&self.column, &self.by, &self.condition].into_iter().flatten().map(String::as_str)
    }

    /// Whether the function takes what it is given, as far as that can be said without types.
    ///
    /// # Errors
    /// When an argument is missing, too much or out of its bounds.
    pub fn check(&self) -> Result<(), String> {
        let Self { function, column, by, numbers, distinct, .. } = self;
        let word = function.word();
        let message = match function {
            Function::First | Function::Last if self.is_state => {
                format!(
                    "there is no state of `{word}`; write `argMinState(x, at)` or `argMaxState(x, at)` with the column of the time"
                )
            }
            _ if self.is_state && *distinct && function.state().is_some() => format!(
                "a state of `{word}` takes no `distinct`; leave it out, or write the records to a table, and let a materialized view aggregate them"
            ),
            _ if self.is_state && function.state().is_none() => format!(
                "the state of `{word}` is not made; there are those of count, sum, avg, min, max, any, argMin, argMax, uniq, quantileTDigest and quantilesTDigest. For others write the \
                 records to a table, and let a materialized view aggregate them"
            ),
            _ if column.is_none() && *function != Function::Count => format!("`{word}` needs a column"),
            _ if by.is_some() != function.has_by() => {
                if function.has_by() {
                    format!(
                        "`{word}` needs two columns: the value, and the one that it is least or greatest of"
                    )
                } else {
                    format!("`{word}` takes one column")
                }
            }
            _ if *distinct && (!function.takes_distinct() || column.is_none()) => {
                format!("`{word}` does not take `distinct`")
            }
            Function::GroupArray if !matches!(numbers[..], [1..=ARRAY_MAX]) => {
                format!(
                    "`group_array` needs the greatest number of values, 1 to {ARRAY_MAX}, as in `group_array(x, 10)`"
                )
            }
            Function::Quantile if !matches!(numbers[..], [0..=QUANTILE_ONE]) => {
                "`quantile` needs a level from 0 to 1, as in `quantile(x, 0.99)`".to_owned()
            }
            Function::Quantiles
                if !(1..=QUANTILES_MAX).contains(&numbers.len())
                    || numbers.iter().any(|q| *q > QUANTILE_ONE) =>
            {
                format!(
                    "`quantiles` needs 1 to {QUANTILES_MAX} levels from 0 to 1, as in `quantiles(x, 0.5, 0.99)`"
                )
            }
            Function::GroupArray | Function::Quantile | Function::Quantiles => return Ok(()),
            _ if !numbers.is_empty() => format!("`{word}` takes no number"),
            _ => return Ok(()),
        };
        Err(message)
    }
}

/// A column that an aggregate reads.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
}

/// An aggregate over the columns of a schema.
#[derive(Clone, Debug)]
pub struct Bound {
    /// As the user wrote it.
    pub aggregate: Aggregate,
    /// What it reads; `None` for records.
    pub input: Option<Input>,
    /// The second column.
    pub by: Option<Input>,
    /// The result's type.
    pub output: ColumnType,
}

impl Bound {
    /// Binds an aggregate to the columns of a schema.
    ///
    /// # Errors
    /// When there is no such column, or the function does not take its type.
    pub fn new(schema: &Schema, aggregate: &Aggregate) -> Result<Self, ConfigError> {
        let wrong = |message| ConfigError::Setting { setting: SETTING, message };
        aggregate.check().map_err(wrong)?;
        let read = |name: &Option<String>, one_value: bool| -> Result<Option<(Input, bool)>, ConfigError> {
            let Some(name) = name else { return Ok(None) };
            let column = &schema.columns()[column_index(schema, SETTING, name)?];
            if one_value && Form::of(&column.column_type).is_none() {
                return Err(refused(name, &column.column_type, "a column with one value a row"));
            }
            let input = Input { name: name.clone(), column_type: column.column_type.clone() };
            Ok(Some((input, column.is_optional())))
        };
        let function = aggregate.function;
        let input = read(&aggregate.column, function != Function::Count || aggregate.distinct)?;
        let by = read(&aggregate.by, true)?;
        let condition = read(&aggregate.condition, true)?;
        if let Some((condition, _)) = &condition
            && *condition.column_type.bare() != ColumnType::Bool
        {
            return Err(refused(&condition.name, &condition.column_type, "a Bool"));
        }
        let of = input.as_ref().map(|(input, _)| input);
        let output = of.map_or(Ok(ColumnType::UInt64), |input| {
            output(function, input.column_type.bare())
                .map_err(|wanted| refused(&input.name, &input.column_type, wanted))
        })?;
        if let Some(function) = function.state().filter(|_| aggregate.is_state) {
            let arguments = [&input, &by].into_iter().flatten();
            let arguments = arguments.map(|(input, _)| without_low_cardinality(&input.column_type)).collect();
            let is_plain =
                |input: &&(Input, bool)| !matches!(input.0.column_type.bare(), ColumnType::Decimal { .. });
            if function.has_levels() && input.iter().find(is_plain).is_none() {
                let name = aggregate.column.as_deref().unwrap_or_default();
                let found = input.as_ref().map_or(&ColumnType::UInt64, |(input, _)| &input.column_type);
                return Err(refused(name, found, "an integer or a Float"));
            }
            let levels = if function.has_levels() { aggregate.numbers.as_slice() } else { &[] };
            let levels = levels.iter().map(|level| *level as u32).collect();
            let output = ColumnType::State(Arc::new(StateType { function, arguments, levels }));
            let (input, by) = (input.map(|(input, _)| input), by.map(|(by, _)| by));
            return Ok(Self { aggregate: aggregate.clone(), input, by, output });
        }
        let is_optional = |read: &Option<(Input, bool)>| read.as_ref().is_some_and(|(_, optional)| *optional);
        let may_have_no_value = is_optional(&input) || is_optional(&by) || condition.is_some();
        let output = match function {
            Function::Count | Function::CountDistinct | Function::ApproxCountDistinct => output,
            Function::GroupArray | Function::Quantiles => output,
            Function::VarSamp | Function::StddevSamp => ColumnType::Nullable(Box::new(output)),
            _ if may_have_no_value => ColumnType::Nullable(Box::new(output)),
            _ => output,
        };
        let (input, by) = (input.map(|(input, _)| input), by.map(|(by, _)| by));
        Ok(Self { aggregate: aggregate.clone(), input, by, output })
    }

    /// Whether anything is kept for it: the number of all records of a group is known without.
    pub fn keeps_state(&self) -> bool {
        self.input.is_some() || self.aggregate.condition.is_some()
    }

    /// Whether it is a sum, an average, the least or the greatest value of a Float column, without a condition: what is kept of it depends on whether the column
    /// may be NULL.
    pub fn is_plain_float(&self) -> bool {
        let Aggregate { function, condition, distinct, is_state, .. } = &self.aggregate;
        let is_plain = condition.is_none() && !distinct && !is_state;
        let bare = self.input.as_ref().map(|input| input.column_type.bare());
        let is_float = matches!(bare, Some(ColumnType::Float32 | ColumnType::Float64));
        is_plain
            && is_float
            && matches!(function, Function::Sum | Function::Avg | Function::Min | Function::Max)
    }

    /// The Enums of the values that are kept: a number of records holds none.
    pub fn enums(&self) -> Vec<KeptEnum> {
        if self.aggregate.function == Function::Count && !self.aggregate.distinct {
            return Vec::new();
        }
        let within = |input: &Input| KeptEnum::within(&self.aggregate.name, &input.column_type);
        [&self.input, &self.by].into_iter().flatten().flat_map(within).collect()
    }

    /// The words that a state is known by.
    pub fn words(&self) -> String {
        let Aggregate { name, function, column, by, numbers, distinct, condition, is_state } =
            &self.aggregate;
        // What is kept for the other states is what is kept for their results.
        let word = match function {
            Function::ApproxCountDistinct if *is_state => "uniq",
            Function::Quantile | Function::Quantiles if *is_state => "quantilesTDigest",
            function => function.word(),
        };
        let mut arguments = column.clone().unwrap_or_default();
        if *distinct {
            arguments.insert_str(0, "distinct ");
        }
        by.iter().for_each(|by| arguments += &format!(", {by}"));
        numbers.iter().for_each(|number| arguments += &format!(", {number}"));
        let of_kind = |input: &Input| kind(&input.column_type).unwrap_or_else(str::to_lowercase);
        let of = self.input.as_ref().map_or(String::new(), |input| format!(" of {}", of_kind(input)));
        let by = self.by.as_ref().map_or(String::new(), |by| format!(" by {}", of_kind(by)));
        let condition = condition.as_ref().map_or(String::new(), |condition| format!(" where {condition}"));
        format!("{name} = {word}({arguments}){of}{by}{condition}")
    }
}

/// A state's arguments have no LowCardinality.
fn without_low_cardinality(column_type: &ColumnType) -> ColumnType {
    match column_type {
        ColumnType::LowCardinality(inner) => without_low_cardinality(inner),
        other => other.clone(),
    }
}

fn refused(name: &str, column_type: &ColumnType, wanted: &'static str) -> ConfigError {
    let found = format!("{column_type:?}");
    ConfigError::ColumnKind { setting: SETTING, name: name.to_owned(), found, wanted }
}

/// The type of the result, before anything is said of NULL, or what the function takes instead.
fn output(function: Function, bare: &ColumnType) -> Result<ColumnType, &'static str> {
    const NUMBER: &str = "an integer, a Float or a Decimal";
    Ok(match function {
        Function::Count | Function::CountDistinct | Function::ApproxCountDistinct => ColumnType::UInt64,
        Function::Sum => sum_of(bare).ok_or(NUMBER)?,
        Function::Avg
        | Function::VarPop
        | Function::VarSamp
        | Function::StddevPop
        | Function::StddevSamp
        | Function::Quantile => sum_of(bare).map(|_| ColumnType::Float64).ok_or(NUMBER)?,
        Function::Quantiles => {
            sum_of(bare).map(|_| ColumnType::Array(Box::new(ColumnType::Float64))).ok_or(NUMBER)?
        }
        Function::BoolAnd | Function::BoolOr => match bare {
            ColumnType::Bool => ColumnType::Bool,
            _ => return Err("a Bool"),
        },
        Function::GroupArray => ColumnType::Array(Box::new(bare.clone())),
        Function::Min | Function::Max | Function::First | Function::Last => bare.clone(),
        Function::Any | Function::ArgMin | Function::ArgMax => bare.clone(),
    })
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
