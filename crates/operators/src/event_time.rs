//! Takes the record's time from a column.
//!
//! Owns the reading of a time column as Unix milliseconds. Does not own the watermark that follows from these times (`engine::watermark`),
//! nor the times that a source gives. As a [`Transform`] it gives an input its event time, before the first step; as an [`Operator`] it
//! stands in the lane before a later step that asks for another time. Without it the time is the source's. Drops nothing: a null, and a
//! number that is no time, leave the time unknown. The least of all times is the one after it, for that number stands for an unknown time.
//!
//! | column                     | taken as                                            |
//! |----------------------------|-----------------------------------------------------|
//! | Date, Date32               | midnight UTC                                        |
//! | DateTime, DateTime64       | that instant, rounded down to the millisecond       |
//! | Int64, UInt64              | Unix milliseconds                                   |

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Batch, ColumnType, Operator, OperatorError, Output, Probed, Schema, State, Transform, Transformed,
};

use crate::ConfigError;
use crate::config::column_index;

const NAME: &str = "event_time";
const SETTING: &str = "time";
const DAY_MS: i64 = 24 * 3600 * 1000;

/// The step that takes a record's time from a column.
pub struct EventTime {
    column: String,
    arrow: DataType,
    schema: Schema,
}

impl EventTime {
    /// Takes the time from the column `column` of `schema`.
    ///
    /// # Errors
    /// When there is no such column, or it holds no time.
    pub fn new(schema: &Schema, column: &str) -> Result<Self, ConfigError> {
        let column_type = &schema.columns()[column_index(schema, SETTING, column)?].column_type;
        let arrow = column_type.arrow();
        match column_type.bare() {
            ColumnType::Date
            | ColumnType::Date32
            | ColumnType::DateTime { .. }
            | ColumnType::DateTime64 { .. }
            | ColumnType::Int64
            | ColumnType::UInt64 => Ok(Self { column: column.to_owned(), arrow, schema: schema.clone() }),
            other => Err(ConfigError::ColumnKind {
                setting: SETTING,
                name: column.to_owned(),
                found: format!("{other:?}"),
                wanted: "a Date, DateTime, DateTime64, or an Int64 or UInt64 of unix milliseconds",
            }),
        }
    }

    fn failed(&self, message: String) -> OperatorError {
        OperatorError { step: NAME.to_owned(), message }
    }
}

impl EventTime {
    fn timed(&self, mut batch: Batch) -> Result<Batch, OperatorError> {
        let values = batch
            .rows
            .column_by_name(&self.column)
            .ok_or_else(|| self.failed(format!("the batch has no column `{}`", self.column)))?;
        if *values.data_type() != self.arrow {
            let found = values.data_type();
            let message =
                format!("the column `{}` came as `{found}`, expected `{}`", self.column, self.arrow);
            return Err(self.failed(message));
        }
        batch.times_ms.clear();
        read_times(values.as_ref(), &mut batch.times_ms);
        Ok(batch)
    }
}

impl Transform for EventTime {
    fn name(&self) -> &str {
        NAME
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        self.timed(batch).map(Transformed::all)
    }
}

impl Operator for EventTime {
    fn name(&self) -> &str {
        NAME
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        self.timed(probed.batch).map(Output::all)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}

fn read_times(values: &dyn Array, to: &mut Vec<i64>) {
    match values.data_type() {
        DataType::Date32 => read::<Date32Type>(values, to, |days| i64::from(days) * DAY_MS),
        DataType::Int64 => read::<Int64Type>(values, to, known),
        DataType::UInt64 => read::<UInt64Type>(values, to, |ms| i64::try_from(ms).unwrap_or(TIME_UNKNOWN_MS)),
        DataType::Timestamp(TimeUnit::Second, _) => {
            read::<TimestampSecondType>(values, to, |s| s.checked_mul(1000).unwrap_or(TIME_UNKNOWN_MS));
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => read::<TimestampMillisecondType>(values, to, known),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            read::<TimestampMicrosecondType>(values, to, |us| us.div_euclid(1000));
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            read::<TimestampNanosecondType>(values, to, |ns| ns.div_euclid(1_000_000));
        }
        other => unreachable!("`new` takes no column of form `{other}`"),
    }
}

/// A time that is there, however long ago.
fn known(ms: i64) -> i64 {
    ms.max(TIME_UNKNOWN_MS + 1)
}

fn read<T: ArrowPrimitiveType>(values: &dyn Array, to: &mut Vec<i64>, time_ms: impl Fn(T::Native) -> i64) {
    let numbers = values.as_primitive::<T>().values();
    match values.nulls().filter(|n| n.null_count() > 0) {
        None => to.extend(numbers.iter().map(|n| time_ms(*n))),
        Some(nulls) => to.extend(
            numbers.iter().zip(nulls).map(|(n, valid)| if valid { time_ms(*n) } else { TIME_UNKNOWN_MS }),
        ),
    }
}

#[cfg(test)]
mod tests;
