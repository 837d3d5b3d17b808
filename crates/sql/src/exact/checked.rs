//! Operations that fail instead of giving another value.
//!
//! Owns the checks that DataFusion's operations lack. Does not own the types of both sides ([`super`]).
//!
//! | operation                          | fails the record                                                             |
//! |------------------------------------|------------------------------------------------------------------------------|
//! | `<<`, `>>` of integers             | by a distance that the type does not have; if bits are shifted out at the left |
//! | arithmetic with a Decimal of 38 digits | if the value has 39: 128 bits hold some of those, which are written with a digit less |

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, DecimalType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, FieldRef, Schema};
use datafusion_common::{DataFusionError, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::BinaryExpr;

use super::is_arithmetic;

/// Digits of the widest Decimal.
const DIGITS_MAX: u8 = 38;

/// The operation with its check, if it needs one.
pub(super) fn checked(binary: &BinaryExpr, schema: &Schema) -> Option<Arc<dyn PhysicalExpr>> {
    let check = match binary.op() {
        Operator::BitwiseShiftLeft => Check::ShiftLeft,
        Operator::BitwiseShiftRight => Check::ShiftRight,
        op if is_arithmetic(*op) => match binary.data_type(schema) {
            // Within a function without a name the schema lacks the parameters.
            Ok(DataType::Decimal128(DIGITS_MAX, _)) | Err(_) => Check::Digits,
            Ok(_) => return None,
        },
        _ => return None,
    };
    Some(Arc::new(Checked { check, written: Arc::new(binary.clone().with_fail_on_overflow(true)) }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    ShiftLeft,
    ShiftRight,
    Digits,
}

#[derive(Debug)]
struct Checked {
    check: Check,
    written: Arc<BinaryExpr>,
}

impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Checked {}

impl Hash for Checked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.written.hash(state);
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)
    }
}

impl PhysicalExpr for Checked {
    fn data_type(&self, schema: &Schema) -> Result<DataType, DataFusionError> {
        self.written.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool, DataFusionError> {
        self.written.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef, DataFusionError> {
        self.written.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue, DataFusionError> {
        if self.check == Check::Digits {
            let value = self.written.evaluate(batch)?;
            match &value {
                ColumnarValue::Array(values) => has_digits(values)?,
                ColumnarValue::Scalar(ScalarValue::Decimal128(Some(value), digits, scale)) => {
                    Decimal128Type::validate_decimal_precision(*value, *digits, *scale)?;
                }
                ColumnarValue::Scalar(_) => {}
            }
            return Ok(value);
        }
        let rows = batch.num_rows();
        let values = self.written.left().evaluate(batch)?.into_array(rows)?;
        let distances = self.written.right().evaluate(batch)?.into_array(rows)?;
        let shifted = match values.data_type() {
            DataType::Int8 => self.shifted::<Int8Type>(&values, &distances),
            DataType::Int16 => self.shifted::<Int16Type>(&values, &distances),
            DataType::Int32 => self.shifted::<Int32Type>(&values, &distances),
            DataType::Int64 => self.shifted::<Int64Type>(&values, &distances),
            DataType::UInt8 => self.shifted::<UInt8Type>(&values, &distances),
            DataType::UInt16 => self.shifted::<UInt16Type>(&values, &distances),
            DataType::UInt32 => self.shifted::<UInt32Type>(&values, &distances),
            DataType::UInt64 => self.shifted::<UInt64Type>(&values, &distances),
            other => return exec_err!("a `{}` has no bits to shift", crate::types::name(other)),
        };
        Ok(ColumnarValue::Array(shifted?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.written.children()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
        let written: Arc<dyn PhysicalExpr> = Arc::clone(&self.written) as _;
        let written = written.with_new_children(children)?;
        Ok(match written.downcast_ref::<BinaryExpr>() {
            Some(binary) => Arc::new(Self { check: self.check, written: Arc::new(binary.clone()) }),
            None => written,
        })
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt_sql(f)
    }
}

impl Checked {
    fn shifted<T>(&self, values: &ArrayRef, distances: &ArrayRef) -> Result<ArrayRef, DataFusionError>
    where
        T: ArrowPrimitiveType,
        T::Native: Into<i128> + TryFrom<i128>,
    {
        let (values, distances) = (values.as_primitive_opt::<T>(), distances.as_primitive_opt::<T>());
        let (Some(values), Some(distances)) = (values, distances) else {
            return exec_err!("a shift of values that are not of one type");
        };
        let bits = 8 * size_of::<T::Native>() as i128;
        let one = |value: T::Native, distance: T::Native| {
            let (value, distance): (i128, i128) = (value.into(), distance.into());
            if !(0..bits).contains(&distance) {
                return exec_err!("`{value}` cannot be shifted by `{distance}`; the type has `{bits}` bits");
            }
            // 64 bits shifted by 63 at the most: an i128 holds them.
            let shifted = if self.check == Check::ShiftLeft { value << distance } else { value >> distance };
            T::Native::try_from(shifted)
                .or_else(|_| exec_err!("`{value} << {distance}` does not fit `{bits}` bits"))
        };
        let pairs = values.iter().zip(distances);
        let shifted = pairs.map(|(value, distance)| value.zip(distance).map(|(v, d)| one(v, d)).transpose());
        let shifted = shifted.collect::<Result<PrimitiveArray<T>, _>>()?;
        Ok(Arc::new(shifted))
    }
}

/// Fails if a Decimal has more digits than its type, or one in an Array or a Map has.
pub(crate) fn has_digits(values: &ArrayRef) -> Result<(), DataFusionError> {
    match values.data_type() {
        DataType::Decimal128(digits, _) => {
            Ok(values.as_primitive::<Decimal128Type>().validate_decimal_precision(*digits)?)
        }
        DataType::List(_) => has_digits(values.as_list::<i32>().values()),
        DataType::Map(..) => {
            let maps = values.as_map();
            has_digits(maps.keys())?;
            has_digits(maps.values())
        }
        _ => Ok(()),
    }
}
