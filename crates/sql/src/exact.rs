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
//! | a time                    | a time of the column's unit, if it has no finer digits                 |

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, DataFusionError, ScalarValue};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::{
    Between, BinaryExpr, Case, Cast, ColumnarValue, Expr, ExprSchemable, Operator, TryCast,
};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::execution_props::ExecutionProps;
use datafusion_physical_expr::expressions::BinaryExpr as CheckedBinary;

use crate::compile::constant;
use crate::fault::reworded;
use crate::names::NAMES;
use crate::types::name;

/// On the target of a cast: the user wrote it.
const WRITTEN: &str = "forebay.written";

/// Functions whose arguments become one type.
const UNIFYING: [&str; 8] =
    ["coalesce", "nvl", "ifnull", "nullif", "nvl2", "greatest", "least", "make_array"];

/// Marks the casts of the text, so that those inserted later can be told from them.
pub(crate) fn mark_written_casts(expr: Expr) -> Result<Expr, DataFusionError> {
    let mark = |field: &Field| {
        Arc::new(field.clone().with_metadata(HashMap::from([(WRITTEN.to_owned(), String::new())])))
    };
    let marked = expr.transform_up(|node| {
        Ok(match node {
            Expr::Cast(cast) => {
                let field = mark(&cast.field);
                Transformed::yes(Expr::Cast(Cast::new_from_field(cast.expr, field)))
            }
            Expr::TryCast(cast) => {
                let field = mark(&cast.field);
                Transformed::yes(Expr::TryCast(TryCast::new_from_field(cast.expr, field)))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(marked.data)
}

/// Takes the marks away again.
pub(crate) fn unmark_written_casts(expr: Expr) -> Result<Expr, DataFusionError> {
    let unmarked = expr.transform_up(|node| {
        Ok(match node {
            Expr::Cast(cast) if is_written(&cast.field) => {
                Transformed::yes(Expr::Cast(Cast::new(cast.expr, cast.field.data_type().clone())))
            }
            Expr::TryCast(cast) if is_written(&cast.field) => {
                Transformed::yes(Expr::TryCast(TryCast::new(cast.expr, cast.field.data_type().clone())))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(unmarked.data)
}

fn is_written(field: &Field) -> bool {
    field.metadata().contains_key(WRITTEN)
}

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
        (ScalarValue::Utf8(Some(text)), DataType::Timestamp(unit, zone)) => Some(instant(text, *unit, zone)?),
        _ => None,
    };
    Ok(adopted.map_or(expr, |value| Expr::Literal(value, None)))
}

/// A time in the column's unit, or in a finer one if the text has finer digits.
fn instant(text: &str, unit: TimeUnit, zone: &Option<Arc<str>>) -> Result<ScalarValue, String> {
    let value = ScalarValue::Utf8(Some(text.to_owned()));
    let fine = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let from = fine.iter().position(|u| *u == unit).unwrap_or_default();
    let as_unit = |unit: TimeUnit| value.cast_to(&DataType::Timestamp(unit, zone.clone())).ok();
    // The finest unit that has a value says how many digits there are: nanoseconds end in 2262.
    let finest = fine.iter().rev().find_map(|unit| as_unit(*unit).map(|value| (*unit, value)));
    let Some((finest_unit, finest)) = finest else {
        return Err(format!(
            "`'{text}'` is no time; write `'2026-11-23 10:00:00'` (UTC) or with a zone, `'2026-11-23T10:00:00+01:00'`"
        ));
    };
    let same = |coarse: &ScalarValue| {
        coarse.cast_to(&DataType::Timestamp(finest_unit, zone.clone())).is_ok_and(|again| again == finest)
    };
    let exact = fine[from..].iter().filter_map(|unit| as_unit(*unit)).find(same);
    Ok(exact.unwrap_or(finest))
}

/// Refuses casts that DataFusion inserted and that can lose something.
pub(crate) fn refuse_lossy_casts(expr: &Expr, schema: &DFSchema) -> Result<(), String> {
    let mut fault = None;
    let walked = expr.apply(|node| {
        let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        if is_written(field) {
            return Ok(TreeNodeRecursion::Continue);
        }
        match inserted(expr, field.data_type(), schema) {
            Ok(()) => Ok(TreeNodeRecursion::Continue),
            Err(message) => {
                fault = Some(message);
                Ok(TreeNodeRecursion::Stop)
            }
        }
    });
    walked.map_err(|error| reworded(&error))?;
    fault.map_or(Ok(()), Err)
}

fn inserted(expr: &Expr, to: &DataType, schema: &DFSchema) -> Result<(), String> {
    if let Some(value) = constant(expr) {
        return constant_keeps(value, to);
    }
    // Within a function without a name the schema lacks the parameters.
    let Ok(from) = expr.get_type(schema) else { return Ok(()) };
    if lossless(&from, to) {
        return Ok(());
    }
    let shown = expr.human_display().to_string();
    let (from, to) = (name(&from), name(to));
    Err(match (from.as_str(), to.as_str()) {
        ("bytes", "String") | ("String", "bytes") => {
            format!(
                "`{shown}` is {from} and becomes {to} here; write `encode(…, 'hex')` to compare bytes with text"
            )
        }
        _ => format!(
            "`{shown}` is `{from}` and would become `{to}` here, which cannot hold every value; write `CAST({shown} AS {to})` if that is meant"
        ),
    })
}

fn constant_keeps(value: &ScalarValue, to: &DataType) -> Result<(), String> {
    let refused = || format!("`{value}` is no `{}`; write a value of that type", name(to));
    let cast = value.cast_to(to).map_err(|_| refused())?;
    let from = value.data_type();
    // The nearest Float is what a number with a point means; a text is what it is read as.
    if from.is_null() || lossless(&from, to) || (from.is_numeric() && to.is_floating()) || from.is_string() {
        return Ok(());
    }
    match cast.cast_to(&from) {
        Ok(again) if again == *value => Ok(()),
        _ => Err(refused()),
    }
}

/// Whether every value of `from` is one of `to`, or fails loudly (a time beyond a unit's range).
fn lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    if from == to || from.is_null() {
        return true;
    }
    match (from, to) {
        (from, to) if from.is_integer() && to.is_integer() => integer_fits(from, to),
        (from, Float64) if from.is_integer() => digits_of_integer(from) <= 10,
        (from, Float32) if from.is_integer() => digits_of_integer(from) <= 5,
        (Float32 | Float16, Float64) | (Float16, Float32) => true,
        (from, Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s)) => {
            let (digits, scale) = match from {
                Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => {
                    (*p as i16 - *s as i16, *s)
                }
                integer if integer.is_integer() => (digits_of_integer(integer), 0),
                _ => return false,
            };
            scale <= *s && digits <= *p as i16 - *s as i16
        }
        (Timestamp(a, _), Timestamp(b, _)) => fineness(*a) <= fineness(*b),
        (Date32, Timestamp(..) | Date64 | Interval(_)) => true,
        (Interval(_) | Duration(_), Interval(_) | Duration(_)) => true,
        (integer, Interval(_) | Duration(_)) if integer.is_integer() => true,
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Utf8 | LargeUtf8 | Utf8View, Binary | LargeBinary | BinaryView) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (Dictionary(_, from), to) => lossless(from, to),
        // A text says the value in full.
        (from, Utf8 | LargeUtf8 | Utf8View) => {
            from.is_numeric() || from.is_temporal() || matches!(from, Boolean)
        }
        (
            List(a) | LargeList(a) | FixedSizeList(a, _) | ListView(a) | LargeListView(a),
            List(b) | LargeList(b) | FixedSizeList(b, _) | ListView(b) | LargeListView(b),
        ) => lossless(a.data_type(), b.data_type()),
        (Map(a, _), Map(b, _)) => lossless(a.data_type(), b.data_type()),
        (Struct(a), Struct(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| lossless(a.data_type(), b.data_type()))
        }
        _ => false,
    }
}

fn integer_fits(from: &DataType, to: &DataType) -> bool {
    let bits = |t: &DataType| t.primitive_width().unwrap_or(8) * 8;
    match (from.is_signed_integer(), to.is_signed_integer()) {
        (true, true) | (false, false) => bits(from) <= bits(to),
        (false, true) => bits(from) < bits(to),
        (true, false) => false,
    }
}

fn digits_of_integer(t: &DataType) -> i16 {
    match t {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        _ => 20,
    }
}

fn fineness(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

/// `-x` of an integer as `0 - x`, which fails where the least integer would wrap.
pub(crate) fn negate_checked(expr: Expr, schema: &DFSchema) -> Result<Expr, String> {
    let negated = expr.transform_up(|node| {
        let Expr::Negative(inner) = node else { return Ok(Transformed::no(node)) };
        let Ok(data_type) = inner.get_type(schema) else { return Ok(Transformed::no(Expr::Negative(inner))) };
        if data_type.is_unsigned_integer() {
            return datafusion_common::plan_err!(
                "`-{0}` has no value in `{1}`; write `-CAST({0} AS Int64)`",
                inner.human_display(),
                name(&data_type)
            );
        }
        if !data_type.is_signed_integer() {
            return Ok(Transformed::no(Expr::Negative(inner)));
        }
        let zero = Box::new(Expr::Literal(ScalarValue::new_zero(&data_type)?, None));
        Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(zero, Operator::Minus, inner))))
    });
    negated.map(|negated| negated.data).map_err(|error| reworded(&error))
}

/// Does the arithmetic between constants: DataFusion's own folding would wrap.
pub(crate) fn fold_arithmetic(expr: Expr) -> Result<Expr, String> {
    let mut fault = None;
    let folded = expr.transform_up(|node| {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &node else {
            return Ok(Transformed::no(node));
        };
        if !is_arithmetic(*op) || !is_constant(left) || !is_constant(right) {
            return Ok(Transformed::no(node));
        }
        let value = physical(&node, &DFSchema::empty()).and_then(|expr| expr.evaluate(&ONE_ROW));
        let value = value.and_then(|value| match value {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
        });
        match value {
            Ok(value) => Ok(Transformed::yes(Expr::Literal(value, None))),
            Err(error) => {
                fault = Some(format!("`{}` has no value: {}", node.human_display(), reworded(&error)));
                datafusion_common::exec_err!("refused")
            }
        }
    });
    match fault {
        Some(message) => Err(message),
        None => folded.map(|folded| folded.data).map_err(|error| reworded(&error)),
    }
}

/// What is left of calls with constants has failed while it was simplified: it would fail for every record.
pub(crate) fn refuse_failing_constants(expr: &Expr) -> Result<(), String> {
    let mut fault = None;
    let walked = expr.apply(|node| {
        let Expr::ScalarFunction(call) = node else { return Ok(TreeNodeRecursion::Continue) };
        if !call.args.iter().all(|arg| constant(arg).is_some()) {
            return Ok(TreeNodeRecursion::Continue);
        }
        match physical(node, &DFSchema::empty()).and_then(|expr| expr.evaluate(&ONE_ROW)) {
            Ok(_) => Ok(TreeNodeRecursion::Continue),
            Err(error) => {
                fault = Some(format!("`{}` has no value: {}", node.human_display(), reworded(&error)));
                Ok(TreeNodeRecursion::Stop)
            }
        }
    });
    walked.map_err(|error| reworded(&error))?;
    fault.map_or(Ok(()), Err)
}

/// Neither a column nor a parameter in it.
fn is_constant(expr: &Expr) -> bool {
    let varies = expr.exists(|node| {
        Ok(!matches!(
            node,
            Expr::Literal(..)
                | Expr::BinaryExpr(_)
                | Expr::Cast(_)
                | Expr::TryCast(_)
                | Expr::Negative(_)
                | Expr::Alias(_)
        ))
    });
    matches!(varies, Ok(false))
}

static ONE_ROW: LazyLock<RecordBatch> = LazyLock::new(|| {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)
        .expect("a batch without columns has as many rows as it is told")
});

/// The expression to evaluate, with arithmetic that fails on overflow.
pub(crate) fn physical(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    let mut props = ExecutionProps::new();
    props.config_options = Some(NAMES.options());
    let planned = datafusion_physical_expr::create_physical_expr(
        expr,
        schema,
        &props,
        &PhysicalPlanningContext::default(),
    )?;
    let checked = planned.transform_up(|node| {
        Ok(match node.downcast_ref::<CheckedBinary>() {
            Some(binary) => {
                let checked = binary.clone().with_fail_on_overflow(true);
                Transformed::yes(Arc::new(checked) as Arc<dyn PhysicalExpr>)
            }
            None => Transformed::no(node),
        })
    })?;
    Ok(checked.data)
}
