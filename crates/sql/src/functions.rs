//! Our own functions, beside DataFusion's.
//!
//! Owns how such a function is called: over texts, row by row, NULL for a NULL argument. Does not own what they do: [`json`] reads JSON,
//! [`url`] the parts of URLs, [`agent`] user agents, [`ip`] addresses and networks; [`bounded`] and [`lambdas`] hold
//! DataFusion's functions that could fill the memory.

pub(crate) mod agent;
pub(crate) mod bounded;
pub(crate) mod ip;
pub(crate) mod json;
pub(crate) mod lambdas;
pub(crate) mod url;

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion_common::{DataFusionError, ScalarValue, exec_datafusion_err, plan_datafusion_err, plan_err};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Arguments of one call, none of them NULL.
pub(crate) type Arguments<'a, 'b> = &'b [&'a str];
/// A value, NULL, or the reason why the record has none.
pub(crate) type Answer<T> = Result<Option<T>, String>;

/// What a function computes for one row.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    Text(for<'a> fn(Arguments<'a, '_>) -> Answer<Cow<'a, str>>),
    Int(fn(Arguments) -> Answer<i64>),
    Float(fn(Arguments) -> Answer<f64>),
    Bool(fn(Arguments) -> Answer<bool>),
}

/// One function of ours.
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    /// How it is called, for the documentation and for messages.
    pub(crate) call: &'static str,
    /// One sentence.
    pub(crate) about: &'static str,
    /// Least and greatest number of arguments.
    pub(crate) arguments: (usize, usize),
    /// Gives a value for all arguments that are not NULL.
    pub(crate) total: bool,
    pub(crate) body: Body,
}

/// Every function of this module's parts.
pub(crate) fn definitions() -> impl Iterator<Item = &'static Definition> {
    json::DEFINITIONS.iter().chain(url::DEFINITIONS).chain(agent::DEFINITIONS).chain(ip::DEFINITIONS)
}

/// The same for DataFusion.
pub(crate) fn all() -> Vec<Arc<ScalarUDF>> {
    let signature = Signature::user_defined(Volatility::Immutable);
    definitions()
        .map(|definition| Arc::new(ScalarUDF::from(Ours { definition, signature: signature.clone() })))
        .collect()
}

struct Ours {
    definition: &'static Definition,
    signature: Signature,
}

impl fmt::Debug for Ours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.definition.name)
    }
}

impl PartialEq for Ours {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name
    }
}

impl Eq for Ours {}

impl Hash for Ours {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl ScalarUDFImpl for Ours {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>, DataFusionError> {
        let (least, greatest) = self.definition.arguments;
        if !(least..=greatest).contains(&given.len()) {
            return plan_err!(
                "`{}` does not take `{}` arguments; write `{}`",
                self.name(),
                given.len(),
                self.definition.call
            );
        }
        // A number says in its text what it is: `json_get_string(body, 'items', 0)`.
        let is_text = |t: &DataType| t.is_string() || t.is_integer() || t.is_null();
        match given.iter().position(|t| !is_text(t)) {
            Some(at) => plan_err!(
                "argument `{}` of `{}` is `{}`, not a String; write `{}`",
                at + 1,
                self.name(),
                crate::types::name(&given[at]),
                self.definition.call
            ),
            None => Ok(vec![DataType::Utf8; given.len()]),
        }
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(match self.definition.body {
            Body::Text(_) => DataType::Utf8,
            Body::Int(_) => DataType::Int64,
            Body::Float(_) => DataType::Float64,
            Body::Bool(_) => DataType::Boolean,
        })
    }

    /// A constant that is not a network would fail every record, so it is a fault now.
    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult, DataFusionError> {
        if self.name() == "ip_in_network"
            && let [_, Expr::Literal(ScalarValue::Utf8(Some(network)), _)] = args.as_slice()
        {
            ip::network_bits(network).map_err(|reason| plan_datafusion_err!("{reason}"))?;
        }
        Ok(ExprSimplifyResult::Original(args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(Argument::new).collect::<Result<Vec<_>, _>>()?;
        let values = self.rows(&columns, rows).map_err(|reason| exec_datafusion_err!("{reason}"))?;
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}

/// A column of texts, or one text for all rows.
enum Argument<'a> {
    Column(&'a StringArray),
    One(Option<&'a str>),
}

impl<'a> Argument<'a> {
    fn new(value: &'a ColumnarValue) -> Result<Self, DataFusionError> {
        match value {
            ColumnarValue::Array(array) => {
                let column = array.as_string_opt::<i32>();
                Ok(Self::Column(column.ok_or_else(|| exec_datafusion_err!("an argument is not a string"))?))
            }
            ColumnarValue::Scalar(ScalarValue::Utf8(text)) => Ok(Self::One(text.as_deref())),
            ColumnarValue::Scalar(other) if other.is_null() => Ok(Self::One(None)),
            ColumnarValue::Scalar(_) => Err(exec_datafusion_err!("an argument is not a string")),
        }
    }

    fn get(&self, row: usize) -> Option<&'a str> {
        match self {
            Self::Column(column) => column.is_valid(row).then(|| column.value(row)),
            Self::One(text) => *text,
        }
    }
}

impl Ours {
    fn rows(&self, columns: &[Argument], rows: usize) -> Result<ArrayRef, String> {
        match self.definition.body {
            Body::Text(function) => {
                let mut out = StringBuilder::with_capacity(rows, rows * 16);
                each(columns, rows, |row| {
                    out.append_option(row.map(function).transpose()?.flatten());
                    Ok(())
                })?;
                Ok(Arc::new(out.finish()))
            }
            Body::Int(function) => {
                let mut out = Int64Builder::with_capacity(rows);
                each(columns, rows, |row| {
                    out.append_option(row.map(function).transpose()?.flatten());
                    Ok(())
                })?;
                Ok(Arc::new(out.finish()))
            }
            Body::Float(function) => {
                let mut out = Float64Builder::with_capacity(rows);
                each(columns, rows, |row| {
                    out.append_option(row.map(function).transpose()?.flatten());
                    Ok(())
                })?;
                Ok(Arc::new(out.finish()))
            }
            Body::Bool(function) => {
                let mut out = BooleanBuilder::with_capacity(rows);
                each(columns, rows, |row| {
                    out.append_option(row.map(function).transpose()?.flatten());
                    Ok(())
                })?;
                Ok(Arc::new(out.finish()))
            }
        }
    }
}

/// Calls `take` with the arguments of each row, or with `None` if one of them is NULL.
fn each<'a>(
    columns: &[Argument<'a>],
    rows: usize,
    mut take: impl FnMut(Option<Arguments<'a, '_>>) -> Result<(), String>,
) -> Result<(), String> {
    let mut arguments = Vec::with_capacity(columns.len());
    for row in 0..rows {
        arguments.clear();
        arguments.extend(columns.iter().map_while(|column| column.get(row)));
        take((arguments.len() == columns.len()).then_some(arguments.as_slice()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
