//! `round` and `trunc` of Floats.
//!
//! Owns that a number stays one. DataFusion multiplies it with a power of ten and divides the whole number by that again: of the largest Floats infinity would be left, and of any number
//! to 400 places NaN. Such a number has no digits at those places, so it is its own result; to -400 places each is 0. Does not own Decimals and integers, which fail by themselves.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type, Int64Type};
use arrow_array::{ArrayRef, Int64Array, PrimitiveArray};
use arrow_schema::DataType;
use datafusion_common::{DataFusionError, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use super::clamped;

/// More places than a Float has digits, before the point and behind it. DataFusion cuts those of `trunc` down to 32 bits.
const PLACES_MAX: i64 = 400;

/// What `function` makes of a number, and of a number and places.
pub(super) fn rounded(
    function: &ScalarUDF,
    args: ScalarFunctionArgs,
) -> Result<ColumnarValue, DataFusionError> {
    let args = clamped(args, 1, -PLACES_MAX, PLACES_MAX);
    let given = args.args.clone();
    let made = function.invoke_with_args(args)?;
    match made.data_type() {
        DataType::Float32 => finite::<Float32Type>(function.name(), &given, made),
        DataType::Float64 => finite::<Float64Type>(function.name(), &given, made),
        _ => Ok(made),
    }
}

/// The result, with the number itself where that is finite and its result is not, or with 0 if it has no digits before those places.
fn finite<T: ArrowPrimitiveType>(
    name: &str,
    given: &[ColumnarValue],
    made: ColumnarValue,
) -> Result<ColumnarValue, DataFusionError>
where
    T::Native: Into<f64>,
{
    let float = |value: T::Native| -> f64 { value.into() };
    let (is_one, array) = (matches!(made, ColumnarValue::Scalar(_)), made.to_array(1)?);
    let results = array.as_primitive::<T>();
    let Some(number) =
        given.first().filter(|_| results.iter().flatten().any(|value| !float(value).is_finite()))
    else {
        return Ok(made);
    };
    let rows = results.len();
    let number = number.to_array(rows)?;
    let (numbers, places) = (number.as_primitive::<T>(), places(given.get(1), rows)?);
    let places = places.as_primitive::<Int64Type>();
    let kept = results.iter().enumerate().map(|(row, result)| {
        let Some(result) = result else { return Ok(None) };
        let number = numbers.value(row);
        if float(result).is_finite() || !float(number).is_finite() {
            return Ok(Some(result));
        }
        match places.value(row) {
            0.. => Ok(Some(number)),
            // The power of ten is 0, so that the number is divided by nothing.
            _ if float(result).is_nan() => Ok(Some(T::default_value())),
            places => exec_err!("`{name}` to `{places}` places is beyond what a Float holds"),
        }
    });
    let kept: ArrayRef = Arc::new(kept.collect::<Result<PrimitiveArray<T>, DataFusionError>>()?);
    Ok(match is_one {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&kept, 0)?),
        false => ColumnarValue::Array(kept),
    })
}

/// The places of each row; 0 where none are given.
fn places(given: Option<&ColumnarValue>, rows: usize) -> Result<ArrayRef, DataFusionError> {
    Ok(match given {
        Some(places) => arrow_cast::cast(&places.to_array(rows)?, &DataType::Int64)?,
        None => Arc::new(Int64Array::from(vec![0; rows])),
    })
}
