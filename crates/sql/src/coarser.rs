//! Times that become coarser ones: in casts, and in functions that make a time of a unit.
//!
//! Owns where digits are cut off. Does not own which casts a text has (`exact`), nor which functions (`functions`).

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, TimeUnit};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs};

/// Whether both are times, and those of `to` have more digits.
pub(crate) fn is_finer(from: &DataType, to: &DataType) -> bool {
    matches!((from, to), (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) if fineness(*to) > fineness(*from))
}

/// The place of a unit among all, the coarsest first.
pub(crate) fn fineness(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

/// Whether a cast leaves out digits of a time. DataFusion cuts them off towards 1970, and so makes a time before it a later one. A zone that there is none of is a fault elsewhere.
pub(crate) fn cuts_off(from: &DataType, to: &DataType) -> bool {
    let DataType::Timestamp(_, Some(zone)) = to else { return false };
    matches!(from, DataType::Timestamp(_, Some(_))) && is_finer(to, from) && zone.parse::<Tz>().is_ok()
}

/// Times as coarser ones. Digits are cut off towards the past, as where a column of the table has fewer of them.
pub(crate) fn coarser(times: &ArrayRef, to: &DataType) -> Result<ArrayRef, DataFusionError> {
    let (DataType::Timestamp(from, _), DataType::Timestamp(unit, _)) = (times.data_type(), to) else {
        return Ok(arrow_cast::cast(times, to)?);
    };
    let factor = per_second(from) / per_second(unit);
    let ticks = arrow_cast::cast(times, &DataType::Int64)?;
    let ticks = ticks.as_primitive::<Int64Type>().unary::<_, Int64Type>(|tick: i64| tick.div_euclid(factor));
    let ticks: ArrayRef = Arc::new(ticks);
    Ok(arrow_cast::cast(&ticks, to)?)
}

/// The arguments of a function that makes of its first, if that is a time, one of `unit`: DataFusion would cut its digits off as it does in a cast.
pub(crate) fn of_coarser(
    mut args: ScalarFunctionArgs,
    unit: TimeUnit,
) -> Result<ScalarFunctionArgs, DataFusionError> {
    let Some(time) = args.args.first_mut() else { return Ok(args) };
    let from = time.data_type();
    let DataType::Timestamp(_, zone) = &from else { return Ok(args) };
    let to = DataType::Timestamp(unit, zone.clone());
    if is_finer(&to, &from) {
        *time = match &*time {
            ColumnarValue::Array(times) => ColumnarValue::Array(coarser(times, &to)?),
            ColumnarValue::Scalar(time) => {
                let times = coarser(&time.to_array_of_size(1)?, &to)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&times, 0)?)
            }
        };
    }
    Ok(args)
}

/// Ticks of a second.
pub(crate) fn per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
