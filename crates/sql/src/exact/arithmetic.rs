//! Arithmetic that fails instead of wrapping.
//!
//! Owns what is computed before the first record, and what fails there already. Does not own the types of both sides ([`super`]).

use std::sync::{Arc, LazyLock};

use arrow_array::timezone::Tz;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema};
use dataflow::printing::escaped;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, DataFusionError, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::{BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::execution_props::ExecutionProps;
use datafusion_physical_expr::expressions::BinaryExpr as CheckedBinary;

use super::checked::checked;
use super::written::is_cast;
use super::{constant, is_arithmetic, is_shift};
use crate::fault::{reworded, shown};
use crate::functions::lambdas;
use crate::names::NAMES;
use crate::types::name;

/// Characters of an expression in a message: enough to find it by.
const SHOWN_CHARS_MAX: usize = 100;

/// `-x` of an integer as `0 - x`, which fails where the least integer would wrap.
pub(crate) fn negate_checked(expr: Expr, schema: &DFSchema) -> Result<Expr, String> {
    let negated = expr.transform_up(|node| {
        let Expr::Negative(inner) = node else { return Ok(Transformed::no(node)) };
        let Ok(data_type) = inner.get_type(schema) else { return Ok(Transformed::no(Expr::Negative(inner))) };
        if data_type.is_unsigned_integer() {
            return datafusion_common::plan_err!(
                "`-` cannot be applied to `{0}`, which is `{1}`; write `-CAST({0} AS Int64)`",
                shown(&inner),
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
        if !(is_arithmetic(*op) || is_shift(*op)) || !is_constant(right) {
            return Ok(Transformed::no(node));
        }
        if !is_constant(left) {
            let minus_one = if *op == Operator::Modulo { minus_one(right) } else { None };
            return Ok(match minus_one {
                Some(right) => {
                    let left = left.clone();
                    Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, *op, Box::new(right))))
                }
                None => Transformed::no(node),
            });
        }
        match evaluated(&node) {
            Ok(value) => Ok(Transformed::yes(Expr::Literal(value, None))),
            Err(error) => {
                fault = Some(no_value(&node, &error));
                datafusion_common::exec_err!("refused")
            }
        }
    });
    match fault {
        Some(message) => Err(message),
        None => folded.map(|folded| folded.data).map_err(|error| reworded(&error)),
    }
}

/// -1 in place of a Decimal that is 1. A remainder by it is the same, and DataFusion makes 0 of one by 1, which is wrong of a number with digits behind the point.
fn minus_one(right: &Expr) -> Option<Expr> {
    let value = evaluated(right).ok()?;
    let ScalarValue::Decimal128(Some(one), digits, scale) = value else { return None };
    let is_one = ScalarValue::new_one(&value.data_type()).is_ok_and(|unit| unit == value);
    is_one.then(|| Expr::Literal(ScalarValue::Decimal128(Some(-one), digits, scale), None))
}

fn evaluated(constant: &Expr) -> Result<ScalarValue, DataFusionError> {
    match physical(constant, &DFSchema::empty())?.evaluate(&ONE_ROW)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
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
                fault = Some(no_value(node, &error));
                Ok(TreeNodeRecursion::Stop)
            }
        }
    });
    walked.map_err(|error| reworded(&error))?;
    fault.map_or(Ok(()), Err)
}

/// Functions of a time that fail for every one, or for none, by their constants: a unit, a length, a format.
const OF_TIMES: [&str; 4] = ["date_trunc", "date_part", "date_bin", "to_char"];

/// A unit, a format or a time zone that is none would fail for every record. Units and formats are tried with a time, the beginning of 1970.
pub(crate) fn refuse_failing_times(expr: &Expr, schema: &DFSchema) -> Result<(), String> {
    let mut fault = None;
    let walked = expr.apply(|node| {
        fault = match node {
            Expr::ScalarFunction(call) if OF_TIMES.contains(&call.name()) => tried(call, schema),
            Expr::Cast(cast) => no_zone(cast.field.data_type()),
            Expr::TryCast(cast) => no_zone(cast.field.data_type()),
            _ => None,
        };
        Ok(if fault.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.map_err(|error| reworded(&error))?;
    fault.map_or(Ok(()), Err)
}

/// Why the call has no value for a time; `None` if it has one, or if something else than a time varies.
fn tried(call: &ScalarFunction, schema: &DFSchema) -> Option<String> {
    let sample = |arg: &Expr| {
        if constant(arg).is_some() {
            return Some(arg.clone());
        }
        let value = match arg.get_type(schema).ok()? {
            DataType::Date32 => ScalarValue::Date32(Some(0)),
            time @ DataType::Timestamp(..) => ScalarValue::Int64(Some(0)).cast_to(&time).ok()?,
            _ => return None,
        };
        Some(Expr::Literal(value, None))
    };
    let args = call.args.iter().map(sample).collect::<Option<Vec<Expr>>>()?;
    let with_sample = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), args));
    let value = physical(&with_sample, &DFSchema::empty()).and_then(|expr| expr.evaluate(&ONE_ROW));
    let reason = reworded(&value.err()?);
    Some(match call.name() {
        "to_char" => "`to_char` does not know this format; write one as `'%Y-%m-%d %H:%M:%S'`".to_owned(),
        name => format!("`{name}` has a value for no time: {reason}"),
    })
}

fn no_zone(to: &DataType) -> Option<String> {
    let DataType::Timestamp(_, Some(zone)) = to else { return None };
    zone.parse::<Tz>().err().map(|_| {
        format!(
            "there is no time zone `{zone}`; write a name as `'Europe/Berlin'`, or an offset as `'+02:00'`"
        )
    })
}

/// A constant can be as long as a text of SQL, and what is made of it longer.
fn no_value(expr: &Expr, error: &DataFusionError) -> String {
    let shown = shown(expr);
    let shown = escaped(&shown, SHOWN_CHARS_MAX);
    format!("`{shown}` has no value: {}", reworded(error))
}

/// Neither a column nor a parameter in it.
fn is_constant(expr: &Expr) -> bool {
    let varies = expr.exists(|node| {
        Ok(match node {
            Expr::ScalarFunction(call) => !is_cast(call),
            Expr::Literal(..)
            | Expr::BinaryExpr(_)
            | Expr::Cast(_)
            | Expr::TryCast(_)
            | Expr::Negative(_)
            | Expr::Alias(_) => false,
            _ => true,
        })
    });
    matches!(varies, Ok(false))
}

static ONE_ROW: LazyLock<RecordBatch> = LazyLock::new(|| {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)
        .expect("a batch without columns has as many rows as it is told")
});

/// The expression to evaluate, with arithmetic that fails on overflow and functions without a name that repeat so much and no more.
pub(crate) fn physical(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    let mut props = ExecutionProps::new();
    props.config_options = Some(NAMES.options());
    let planned = datafusion_physical_expr::create_physical_expr(
        expr,
        schema,
        &props,
        &PhysicalPlanningContext::default(),
    )?;
    let planned = planned.transform_up(|node| {
        Ok(match node.downcast_ref::<CheckedBinary>() {
            Some(binary) => Transformed::yes(
                checked(binary, schema.as_arrow())
                    .unwrap_or_else(|| Arc::new(binary.clone().with_fail_on_overflow(true))),
            ),
            None => match lambdas::bounded(&node) {
                Some(bounded) => Transformed::yes(bounded),
                None => Transformed::no(node),
            },
        })
    })?;
    Ok(planned.data)
}
