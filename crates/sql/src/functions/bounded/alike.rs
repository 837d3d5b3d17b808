//! Arrays whose items may be NULL beside arrays whose items may not.
//!
//! Owns the calls that DataFusion fails where the arrays of an `Array(String)` column and of `['red']` meet: their items differ in that alone. Does not own bounds.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_schema::{DataType, Field};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

/// The type of an array whose items may be NULL, for the type of an array; any other as it is.
pub(super) fn with_nulls(array: &DataType) -> DataType {
    items(array, true)
}

fn items(array: &DataType, nullable: bool) -> DataType {
    match array {
        DataType::List(item) => DataType::List(Arc::new(item.as_ref().clone().with_nullable(nullable))),
        other => other.clone(),
    }
}

/// `array_resize`, which puts NULL behind the items, unless the type of its result says that it puts no NULL there.
pub(super) fn resized(
    function: &ScalarUDF,
    mut args: ScalarFunctionArgs,
) -> Result<ColumnarValue, DataFusionError> {
    if let (Some(array), DataType::List(item)) = (args.args.first_mut(), args.return_field.data_type()) {
        *array = declared(array.clone(), item.is_nullable())?;
    }
    function.invoke_with_args(args)
}

/// `array_except`: what is left are items of the first array, so it has their type again.
pub(super) fn except(
    function: &ScalarUDF,
    mut args: ScalarFunctionArgs,
) -> Result<ColumnarValue, DataFusionError> {
    let of_result = args.return_field.data_type().clone();
    for array in &mut args.args {
        *array = declared(array.clone(), true)?;
    }
    let left = function.invoke_with_args(args)?;
    match of_result {
        DataType::List(item) => declared(left, item.is_nullable()),
        _ => Ok(left),
    }
}

/// `array_concat`: arrow's kernel stops the program at arrays whose types differ, however deep within.
pub(super) fn concatenated(
    function: &ScalarUDF,
    mut args: ScalarFunctionArgs,
) -> Result<ColumnarValue, DataFusionError> {
    let given: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
    for (array, to) in args.args.iter_mut().zip(of_one_type(&given)) {
        *array = converted(array.clone(), &to)?;
    }
    let of_result = args.return_field.data_type().clone();
    converted(function.invoke_with_args(args)?, &of_result)
}

/// The types of arrays that are put together: items may be NULL at every depth, and Maps among them differ in nothing.
pub(super) fn of_one_type(given: &[DataType]) -> Vec<DataType> {
    fn base(of: &DataType) -> &DataType {
        match of {
            DataType::List(item) => base(item.data_type()),
            other => other,
        }
    }
    let mut bases = given.iter().map(base).filter(|base| !base.is_null());
    let differ = bases.next().is_some_and(|first| bases.any(|other| other != first));
    given.iter().map(|one| nullable_within(one, differ)).collect()
}

/// Lists of items that may be NULL; with `maps` the values of Maps may be too.
fn nullable_within(of: &DataType, maps: bool) -> DataType {
    match of {
        DataType::List(item) => DataType::new_list(nullable_within(item.data_type(), maps), true),
        DataType::Map(entries, sorted) if maps => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let value = nullable_within(fields[1].data_type(), maps);
                let value = fields[1].as_ref().clone().with_data_type(value).with_nullable(true);
                let pair = DataType::Struct(vec![Arc::clone(&fields[0]), Arc::new(value)].into());
                DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(pair)), *sorted)
            }
            _ => of.clone(),
        },
        other => other.clone(),
    }
}

fn converted(value: ColumnarValue, to: &DataType) -> Result<ColumnarValue, DataFusionError> {
    if value.data_type() == *to {
        return Ok(value);
    }
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(arrow_cast::cast(&array, to)?),
        ColumnarValue::Scalar(one) => {
            let one = arrow_cast::cast(&one.to_array_of_size(1)?, to)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?)
        }
    })
}

/// The same arrays, with or without NULL among the items in their type.
fn declared(value: ColumnarValue, nullable: bool) -> Result<ColumnarValue, DataFusionError> {
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(list(array, nullable)?),
        ColumnarValue::Scalar(ScalarValue::List(array)) => {
            let array = list(array, nullable)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        }
        other => other,
    })
}

fn list(array: ArrayRef, nullable: bool) -> Result<ArrayRef, DataFusionError> {
    let Some(of) = array.as_list_opt::<i32>() else { return Ok(array) };
    let DataType::List(item) = items(array.data_type(), nullable) else { return Ok(array) };
    let item: Arc<Field> = item;
    let made = ListArray::try_new(item, of.offsets().clone(), of.values().clone(), of.nulls().cloned())?;
    Ok(Arc::new(made))
}
