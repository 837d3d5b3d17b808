//! DataFusion's functions that make much of little, with a bound on what they make.
//!
//! Owns the bounds. A value beyond one fails its record, for one record must not fill the memory of the program: with batches of at most
//! 8,192 records, [`TEXT_BYTES_MAX`] for each is half a gigabyte.
//!
//! | function                            | what is bounded                                 |
//! |-------------------------------------|-------------------------------------------------|
//! | `repeat`, `lpad`, `rpad`            | bytes of the text, [`TEXT_BYTES_MAX`]           |
//! | `replace`                           | bytes that it adds, [`TEXT_BYTES_MAX`]          |
//! | `array_repeat`, `array_resize`      | items of the array, [`ITEMS_MAX`]               |
//! | `range`, `generate_series`          | items of the array, [`ITEMS_MAX`]; whole numbers and dates only |
//! | `map`                               | as many values as keys                          |

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef};
use datafusion_common::{DataFusionError, exec_err, plan_err};
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// Bytes of a text that is made longer.
pub(crate) const TEXT_BYTES_MAX: i64 = 64 << 10;
/// Items of an array that is made.
pub(crate) const ITEMS_MAX: i64 = 10_000;

const NAMES: [&str; 9] =
    ["repeat", "lpad", "rpad", "replace", "array_repeat", "array_resize", "range", "generate_series", "map"];

/// The function with its bound, if it needs one.
pub(crate) fn bounded(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    if NAMES.contains(&function.name()) {
        return Arc::new(ScalarUDF::from(Bounded { function }));
    }
    function
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    function: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>, DataFusionError> {
        self.function.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType, DataFusionError> {
        if matches!(self.name(), "range" | "generate_series")
            && given.iter().any(|t| matches!(t, DataType::Timestamp(..)))
        {
            return plan_err!("`{}` of times has no bound; write it of whole numbers or dates", self.name());
        }
        self.function.return_type(given)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef, DataFusionError> {
        let given: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        self.return_type(&given)?;
        self.function.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>, _>>()?;
        if self.name() == "map" {
            (0..rows).try_for_each(|row| pairs(&columns, row))?;
            return self.function.invoke_with_args(args);
        }
        for row in 0..rows {
            // DataFusion adds up the lengths of `lpad` and `rpad` before it looks for NULL.
            let pads = matches!(self.name(), "lpad" | "rpad");
            let looked_at = if pads { columns.get(1..2).unwrap_or_default() } else { columns.as_slice() };
            if looked_at.iter().any(|column| column.is_null(row)) {
                continue;
            }
            let (made, bound, what) = self.made(&columns, row);
            if made > bound {
                return exec_err!(
                    "`{}` would make `{made}` {what} of one record, at most `{bound}` are made",
                    self.name()
                );
            }
        }
        self.function.invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

impl Bounded {
    /// What the function would make for the row, the bound, and the unit.
    fn made(&self, columns: &[ArrayRef], row: usize) -> (i64, i64, &'static str) {
        let int = |at: usize| integer(columns.get(at), row);
        let len = |at: usize| text(columns.get(at), row).len() as i64;
        match self.name() {
            "repeat" => (len(0).saturating_mul(int(1).unwrap_or(0)), TEXT_BYTES_MAX, "bytes"),
            "lpad" | "rpad" => {
                let fill = if columns.len() > 2 { 4 } else { 1 };
                // Less than nothing is more than the memory holds to DataFusion.
                let wanted = int(1).unwrap_or(0);
                (wanted.saturating_abs().saturating_mul(fill), TEXT_BYTES_MAX, "bytes")
            }
            "replace" => {
                let (whole, from, to) = (text(columns.first(), row), text(columns.get(1), row), len(2));
                let found = if to > from.len() as i64 { whole.matches(from).count() as i64 } else { 0 };
                (found.saturating_mul(to - from.len() as i64), TEXT_BYTES_MAX, "bytes more")
            }
            "array_repeat" | "array_resize" => (int(1).unwrap_or(0), ITEMS_MAX, "items"),
            _ => (span(columns, row), ITEMS_MAX, "items"),
        }
    }
}

/// `map(keys, values)` takes the values of the next record where one has fewer values than keys.
fn pairs(columns: &[ArrayRef], row: usize) -> Result<(), DataFusionError> {
    let [keys, values] = columns else { return Ok(()) };
    let items = |column: &ArrayRef| match column.as_list_opt::<i32>() {
        Some(list) if list.is_valid(row) => Some(list.value_length(row)),
        _ => None,
    };
    match (items(keys), items(values)) {
        (keys, values) if keys == values => Ok(()),
        (keys, values) => {
            let said = |items: Option<i32>| items.map_or("no array".to_owned(), |items| format!("`{items}`"));
            exec_err!("a map of {} keys and {} values; there is one for each", said(keys), said(values))
        }
    }
}

/// Items of a range. Of dates every day counts, whatever the step.
fn span(columns: &[ArrayRef], row: usize) -> i64 {
    let int = |at: usize| integer(columns.get(at), row);
    let (start, stop, step) = match columns.len() {
        1 => (Some(0), int(0), Some(1)),
        2 => (int(0), int(1), Some(1)),
        _ => (int(0), int(1), int(2).or(Some(1))),
    };
    let (Some(start), Some(stop), Some(step)) = (start, stop, step) else { return 0 };
    match step {
        0 => 0,
        step => (i128::from(stop) - i128::from(start))
            .checked_div(i128::from(step))
            .map_or(0, |items| i64::try_from(items.abs()).unwrap_or(i64::MAX)),
    }
}

/// A whole number, or the days of a date.
fn integer(column: Option<&ArrayRef>, row: usize) -> Option<i64> {
    let column = column?;
    if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        return Some(numbers.value(row));
    }
    let one = column.slice(row, 1);
    let one = match one.data_type() {
        DataType::Date32 => arrow_cast::cast(&one, &DataType::Int32).ok()?,
        t if t.is_integer() => one,
        _ => return None,
    };
    let one = arrow_cast::cast(&one, &DataType::Int64).ok()?;
    Some(one.as_primitive_opt::<Int64Type>()?.value(0))
}

fn text(column: Option<&ArrayRef>, row: usize) -> &str {
    let Some(column) = column else { return "" };
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row),
        DataType::Utf8View => column.as_string_view().value(row),
        _ => "",
    }
}
