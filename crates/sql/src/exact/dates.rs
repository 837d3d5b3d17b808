//! Dates without a time of day, and numbers that are made times.
//!
//! Owns the sums of dates and intervals that have a time of day, which a Date would leave out, and the unit of a number that is cast to a time.
//! Does not own texts beside dates (`texts`).

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, TryCast};

use super::constant;
use crate::fault::{reworded, shown};

/// Refuses `day + interval '1 hour'`.
pub(crate) fn refuse_times_of_dates(expr: &Expr, schema: &DFSchema) -> Result<(), String> {
    let mut fault = None;
    let walked = expr.apply(|node| {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let (date, interval) = match (left.get_type(schema), right.get_type(schema)) {
            (Ok(DataType::Date32), Ok(DataType::Interval(_))) => (left, right),
            (Ok(DataType::Interval(_)), Ok(DataType::Date32)) => (right, left),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        if has_whole_days(interval, schema) {
            return Ok(TreeNodeRecursion::Continue);
        }
        let date = shown(date);
        fault = Some(format!(
            "`{date}` is a Date, which has no time of day, and the interval is not of whole days; write `CAST({date} AS DateTime)` instead of `{date}`"
        ));
        Ok(TreeNodeRecursion::Stop)
    });
    walked.map_err(|error| reworded(&error))?;
    fault.map_or(Ok(()), Err)
}

/// A number of days, or an interval that is the same for every record and has neither hours nor less.
fn has_whole_days(interval: &Expr, schema: &DFSchema) -> bool {
    if let Expr::Cast(Cast { expr, .. }) = interval {
        // A number of days, which DataFusion makes seconds first.
        return matches!(expr.get_type(schema), Ok(DataType::Duration(TimeUnit::Second)));
    }
    match constant(interval) {
        Some(ScalarValue::IntervalYearMonth(_)) => true,
        Some(ScalarValue::IntervalDayTime(Some(interval))) => interval.milliseconds == 0,
        Some(ScalarValue::IntervalMonthDayNano(Some(interval))) => interval.nanoseconds == 0,
        Some(value) => value.is_null(),
        None => false,
    }
}

/// Makes a number that is cast to a time one of seconds, whatever the digits of the time, as ClickHouse reads it; DataFusion takes it for one of the
/// smallest unit. Of a Float and a Decimal the digits behind the point are kept as far as the time has them.
pub(crate) fn seconds_as_times(expr: Expr, schema: &DFSchema) -> Result<Expr, String> {
    let read = expr.transform_up(|node| {
        let (field, tried, number) = match &node {
            Expr::Cast(Cast { expr, field }) => (field, false, expr),
            Expr::TryCast(TryCast { expr, field }) => (field, true, expr),
            _ => return Ok(Transformed::no(node)),
        };
        let DataType::Timestamp(unit, zone) = field.data_type() else { return Ok(Transformed::no(node)) };
        let cast = |expr: Expr, to: DataType| {
            let (expr, field) = (Box::new(expr), Arc::new(field.as_ref().clone().with_data_type(to)));
            match tried {
                true => Expr::TryCast(TryCast::new_from_field(expr, field)),
                false => Expr::Cast(Cast::new_from_field(expr, field)),
            }
        };
        let times = match unit {
            TimeUnit::Second => 1_i32,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        };
        let ticks = match number.get_type(schema) {
            Ok(from) if from.is_integer() => {
                let seconds = cast(*number.clone(), DataType::Timestamp(TimeUnit::Second, zone.clone()));
                return Ok(Transformed::yes(cast(seconds, field.data_type().clone())));
            }
            Ok(DataType::Float32 | DataType::Float64) => {
                let factor = Expr::Literal(ScalarValue::Float64(Some(f64::from(times))), None);
                cast(*number.clone(), DataType::Float64) * factor
            }
            Ok(DataType::Decimal128(..)) => {
                let digits = times.ilog10() as u8 + 1;
                *number.clone() * Expr::Literal(ScalarValue::Decimal128(Some(times.into()), digits, 0), None)
            }
            _ => return Ok(Transformed::no(node)),
        };
        Ok(Transformed::yes(cast(cast(ticks, DataType::Int64), field.data_type().clone())))
    });
    read.map(|read| read.data).map_err(|error| reworded(&error))
}
