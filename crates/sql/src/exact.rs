//! Types that lose nothing behind the user's back.
//!
//! Owns what a constant becomes beside a column, which inserted casts are lossless, and arithmetic that fails instead of wrapping.
//! Does not own the casts that the user writes: those do what they say, and a value that does not fit rejects its row.
//!
//! | beside                    | a constant becomes                                                     |
//! |---------------------------|------------------------------------------------------------------------|
//! | an integer column         | of its type in a comparison, CASE or COALESCE, if it fits              |
//! | a UInt64 in arithmetic    | UInt64, so that the result stays one                                   |
//! | another integer in arithmetic | Int64, and so does that integer                                    |
//! | a Float                   | the nearest Float                                                      |
//! | a Decimal                 | if it is a text, a Decimal of its own digits                           |
//! | a Date                    | if it is a text, a day; a text with a time of day is refused           |
//! | a time                    | a time of the column's unit, if it has no finer digits                 |

mod arithmetic;
mod branches;
mod casts;
mod checked;
mod dates;
mod guards;
mod patterns;
mod texts;
mod times;
mod written;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Operator};

use crate::fault::reworded;
pub(crate) use arithmetic::{
    fold_arithmetic, negate_checked, physical, refuse_failing_constants, refuse_failing_times,
};
pub(crate) use branches::nest_branches;
use casts::WRITTEN;
pub(crate) use casts::{mark_written_casts, refuse_lossy_casts, unmark_written_casts};
pub(crate) use checked::has_digits;
pub(crate) use dates::{refuse_times_of_dates, seconds_as_times};
pub(crate) use guards::keep_guards;
pub(crate) use patterns::{keep_backslashes, refuse_bad_patterns};
pub(crate) use times::compare_times;
pub(crate) use written::{CAST, as_written};

/// Functions whose arguments become one type.
const UNIFYING: [&str; 8] =
    ["coalesce", "nvl", "ifnull", "nullif", "nvl2", "greatest", "least", "make_array"];

/// Gives constants the types of what they stand beside.
pub(crate) fn adopt_types(expr: Expr, schema: &DFSchema) -> Result<Expr, String> {
    let mut fault = None;
    let adopted = expr.transform_up(|node| {
        adopt_in(node, schema).map(Transformed::yes).or_else(|message| {
            fault = Some(message);
            datafusion_common::exec_err!("refused")
        })
    });
    match fault {
        Some(message) => Err(message),
        None => adopted.map(|adopted| adopted.data).map_err(|error| reworded(&error)),
    }
}

fn adopt_in(node: Expr, schema: &DFSchema) -> Result<Expr, String> {
    let type_of = |expr: &Expr| expr.get_type(schema).ok();
    match node {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = adopt_pair(*left, op, *right, &type_of)?;
            Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let (low, high) = match type_of(&expr) {
                Some(t) => (adopt(*low, &t)?, adopt(*high, &t)?),
                None => (*low, *high),
            };
            Ok(Expr::Between(Between::new(expr, negated, Box::new(low), Box::new(high))))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let list = match type_of(&expr) {
                Some(t) => list.into_iter().map(|item| adopt(item, &t)).collect::<Result<_, _>>()?,
                None => list,
            };
            Ok(Expr::InList(InList::new(expr, list, negated)))
        }
        Expr::Case(case) => adopt_case(case, &type_of),
        // The least Int8 has no Int8 without its sign.
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "abs" => {
            let wide = |arg: Expr| match type_of(&arg) {
                Some(DataType::Int8 | DataType::Int16 | DataType::Int32) => {
                    written_cast(arg, DataType::Int64)
                }
                _ => arg,
            };
            let args = args.into_iter().map(wide).collect();
            Ok(Expr::ScalarFunction(ScalarFunction::new_udf(func, args)))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if UNIFYING.contains(&func.name()) => {
            let wanted = common(args.iter(), &type_of);
            let args = match wanted {
                Some(t) => args.into_iter().map(|arg| adopt(arg, &t)).collect::<Result<_, _>>()?,
                None => args,
            };
            Ok(Expr::ScalarFunction(ScalarFunction::new_udf(func, args)))
        }
        other => Ok(other),
    }
}

fn adopt_case(case: Case, type_of: &dyn Fn(&Expr) -> Option<DataType>) -> Result<Expr, String> {
    let compared = case.expr.as_deref().and_then(type_of);
    let results = case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref());
    let result = common(results, type_of);
    let to = |expr: Box<Expr>, wanted: &Option<DataType>| match wanted {
        Some(t) => adopt(*expr, t).map(Box::new),
        None => Ok(expr),
    };
    let branches =
        case.when_then_expr.into_iter().map(|(when, then)| Ok((to(when, &compared)?, to(then, &result)?)));
    let branches = branches.collect::<Result<Vec<_>, String>>()?;
    let otherwise = case.else_expr.map(|otherwise| to(otherwise, &result)).transpose()?;
    Ok(Expr::Case(Case::new(case.expr, branches, otherwise)))
}

/// The type of those that are no constants, if they agree.
fn common<'a>(
    exprs: impl Iterator<Item = &'a Expr>,
    type_of: &dyn Fn(&Expr) -> Option<DataType>,
) -> Option<DataType> {
    let mut types = exprs.filter(|expr| constant(expr).is_none()).map(type_of);
    let first = types.next()??;
    types.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

fn adopt_pair(
    left: Expr,
    op: Operator,
    right: Expr,
    type_of: &dyn Fn(&Expr) -> Option<DataType>,
) -> Result<(Expr, Expr), String> {
    let (Some(left_type), Some(right_type)) = (type_of(&left), type_of(&right)) else {
        return Ok((left, right));
    };
    let arithmetic = is_arithmetic(op);
    if !arithmetic && !is_comparison(op) {
        return Ok((left, right));
    }
    let beside = |expr: Expr, other: &DataType| {
        let stays = arithmetic && *other != DataType::UInt64 && !other.is_floating();
        if stays { Ok(expr) } else { adopt(expr, other) }
    };
    match (constant(&left).is_some(), constant(&right).is_some()) {
        (false, true) => Ok((left, beside(right, &left_type)?)),
        (true, false) => Ok((beside(left, &right_type)?, right)),
        (true, true) => Ok((left, right)),
        // By way of nanoseconds, as DataFusion would go, a date after 2262 has no value.
        (false, false) => match (&left_type, &right_type) {
            // A sum of two UInt8 is rarely one.
            (a, b) if arithmetic && is_narrow(a) && is_narrow(b) => {
                Ok((written_cast(left, DataType::Int64), written_cast(right, DataType::Int64)))
            }
            (DataType::Date32, DataType::Timestamp(..)) if !arithmetic => {
                Ok((written_cast(left, right_type), right))
            }
            (DataType::Timestamp(..), DataType::Date32) if !arithmetic => {
                Ok((left, written_cast(right, left_type)))
            }
            _ => Ok((left, right)),
        },
    }
}

/// An integer of which Int64 holds every value with room to spare.
fn is_narrow(t: &DataType) -> bool {
    use DataType::{Int8, Int16, Int32, UInt8, UInt16, UInt32};
    matches!(t, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32)
}

fn written_cast(expr: Expr, to: DataType) -> Expr {
    let field = Field::new("", to, true).with_metadata(HashMap::from([(WRITTEN.to_owned(), String::new())]));
    Expr::Cast(Cast::new_from_field(Box::new(expr), Arc::new(field)))
}

fn is_arithmetic(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo)
}

fn is_shift(op: Operator) -> bool {
    matches!(op, Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight)
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The constant as a value of `wanted`, if it means the same there; the expression as it is if not.
fn adopt(expr: Expr, wanted: &DataType) -> Result<Expr, String> {
    let Some(value) = constant(&expr) else { return Ok(expr) };
    let adopted = match (value, wanted) {
        (ScalarValue::Int64(Some(_)), t) if t.is_integer() => value.cast_to(t).ok(),
        (
            ScalarValue::Decimal128(Some(_), ..) | ScalarValue::Int64(Some(_)),
            DataType::Float32 | DataType::Float64,
        ) => value.cast_to(wanted).ok(),
        (ScalarValue::Utf8(Some(text)), DataType::Timestamp(unit, zone)) => {
            Some(texts::instant(text, *unit, zone)?)
        }
        (ScalarValue::Utf8(Some(text)), DataType::Date32) => Some(texts::date(text)?),
        (ScalarValue::Utf8(Some(text)), DataType::Decimal128(p, s)) => Some(texts::decimal(text, *p, *s)?),
        _ => None,
    };
    Ok(adopted.map_or(expr, |value| Expr::Literal(value, None)))
}

/// The expression is the literal NULL or a value, the same for every row.
fn constant(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Alias(alias) => constant(&alias.expr),
        _ => None,
    }
}
