//! `<<` and `>>` that fail instead of losing bits.
//!
//! Owns the shifts of integers: a distance that the type does not have, and bits that would be shifted out at the left, fail the record.
//! Does not own the types of both sides ([`super`]).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, FieldRef, Schema};
use datafusion_common::{DataFusionError, exec_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::BinaryExpr;

/// The operation with its check, if it is a shift.
pub(super) fn checked(binary: &BinaryExpr) -> Option<Arc<dyn PhysicalExpr>> {
    let is_left = match binary.op() {
        Operator::BitwiseShiftLeft => true,
        Operator::BitwiseShiftRight => false,
        _ => return None,
    };
    Some(Arc::new(Shift { is_left, written: Arc::new(binary.clone()) }))
}

#[derive(Debug)]
struct Shift {
    is_left: bool,
    written: Arc<BinaryExpr>,
}

impl PartialEq for Shift {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Shift {}

impl Hash for Shift {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.written.hash(state);
    }
}

impl fmt::Display for Shift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)
    }
}

impl PhysicalExpr for Shift {
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
        match written.downcast_ref::<BinaryExpr>().and_then(checked) {
            Some(shift) => Ok(shift),
            None => Ok(written),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt_sql(f)
    }
}

impl Shift {
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
            let shifted = if self.is_left { value << distance } else { value >> distance };
            T::Native::try_from(shifted)
                .or_else(|_| exec_err!("`{value} << {distance}` does not fit `{bits}` bits"))
        };
        let pairs = values.iter().zip(distances);
        let shifted = pairs.map(|(value, distance)| value.zip(distance).map(|(v, d)| one(v, d)).transpose());
        let shifted = shifted.collect::<Result<PrimitiveArray<T>, _>>()?;
        Ok(Arc::new(shifted))
    }
}
