//! JSON objects, one a record, straight into Arrow columns of the target's types.
//!
//! Owns the decoder, its options and the form of its rejects. Does not own the columns and what they make of a value, which all formats
//! share ([`crate::columns`]). The record's bytes are read once, from left to right, into the columns; there is no tree of values in
//! between and no allocation a record.
//!
//! | module       | what it owns                                                    |
//! |--------------|-----------------------------------------------------------------|
//! | `scan`       | JSON's grammar: tokens, strings, skipping                       |
//! | `plan`       | which key fills which column                                    |
//! | `joints`     | what is expected between two values                             |
//! | `record`     | the walk over a record, NULLs and DEFAULTs, taking a record back |
//! | `builders`   | columns that are filled from JSON                               |
//! | `values`     | single values by type                                           |
//! | `fail`       | the fault of a record and its sentence                          |
//!
//! Rules that are not a matter of type:
//! - A column is filled by its `field`: the key of that very name first, and if it has dots, the nested object's key.
//!   Both present: the flat one counts (null too). Only wholly flat and wholly nested are looked for.
//! - A missing field and null are the same: NULL, or an Arrow null that stands for the DEFAULT, or a reject.
//! - A field that no column asks for is skipped, but must be well formed.
//! - The same known key twice in an object is a reject, as an INSERT of JSONEachRow is refused for it (error 117; seen
//!   on 26.7). Keys of a Map may repeat, as they may there, and the last value counts. Two unknown keys of one name are no one's concern.
//! - Integers and decimals never pass through a float; `true` is no number and `"text"` no Bool.

mod builders;
pub(crate) mod fail;
mod joints;
mod plan;
mod record;
pub(crate) mod scan;
mod values;

use std::fmt;

use dataflow::{Decoded, Decoder, RecordBlock, Reject, Schema};

use builders::Builder;
use fail::Fail;
use plan::Plan;
use record::Rows;
pub use scan::DEPTH_MAX;

pub use crate::columns::{ColumnsError as ConfigError, EpochUnit};
use crate::{columns, rows};

/// Bytes that are checked together for being ASCII: the first-level cache holds them until they are decoded.
const LOOK_BYTES: usize = 16 << 10;

/// How JSON is read where its text leaves a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonOptions {
    /// The IANA zone of times that are written without one, for columns that have no zone either.
    pub assume_timezone: String,
    /// What unix numbers count.
    pub epoch_unit: EpochUnit,
    /// A String column takes numbers, booleans, objects and arrays as their own text in the record; else rejects.
    pub coerce_to_string: bool,
    /// Bytes of a record; a longer one is rejected unread.
    pub record_bytes_max: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            assume_timezone: "UTC".into(),
            epoch_unit: EpochUnit::ByMagnitude,
            coerce_to_string: false,
            // Sixteen times what Kafka takes by default: more is a mistake in what is sent.
            record_bytes_max: 16 << 20,
        }
    }
}

/// A [`Decoder`] for records that are JSON objects.
pub struct JsonDecoder {
    schema: Schema,
    options: JsonOptions,
    plan: Plan,
    patterns: Vec<Box<dyn Builder>>,
}

impl JsonDecoder {
    /// Compiles `schema`.
    ///
    /// # Errors
    /// When there is no column, two have one name, a column's type cannot exist in ClickHouse, or a zone is not known.
    pub fn new(schema: Schema, options: JsonOptions) -> Result<Self, ConfigError> {
        columns::check(&schema, &options.assume_timezone)?;
        let patterns =
            schema.columns().iter().map(|c| builders::builder(c, &options)).collect::<Result<_, _>>()?;
        Ok(Self { plan: Plan::new(&schema)?, schema, options, patterns })
    }

    /// The reject of a record that the decoder has turned down.
    #[cold]
    fn reject(&self, block: &RecordBlock, row: usize, fail: &Fail) -> Reject {
        let column = fail.column.map(|n| &self.schema.columns()[n]);
        let field = column.map_or("", |c| &c.field);
        let message = fail.sentence(block.payloads.get(row), field);
        Reject::of(block, row, fail.reason, column.map_or("", |c| &c.name), message)
    }
}

impl fmt::Debug for JsonDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonDecoder").field("schema", &self.schema).field("options", &self.options).finish()
    }
}

impl Decoder for JsonDecoder {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        let mut rows = Rows::new(&self.plan, &self.schema, &self.patterns, block.len());
        let payloads = &block.payloads.bytes[..];
        // Records up to the byte `looked_to` were checked together; if one has a byte beyond ASCII, each is checked by itself.
        let (mut looked_to, mut is_ascii) = (0, false);
        let push = |start: usize, end: usize| {
            if end > looked_to {
                looked_to = end.max(payloads.len().min(start + LOOK_BYTES));
                is_ascii = payloads[start..looked_to].is_ascii();
            }
            rows.push(&payloads[start..end], is_ascii)
        };
        let rejects = rows::each(block, self.options.record_bytes_max, push, |row, fail| {
            self.reject(block, row, &fail)
        });
        let arrays = rows.finish().expect("builders keep offsets ascending, text valid and lengths equal");
        rows::decoded(block, &self.schema, arrays, rejects)
    }
}

#[cfg(test)]
mod tests;
