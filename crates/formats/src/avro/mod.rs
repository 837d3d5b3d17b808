//! Avro data, one a record, straight into Arrow columns of the target's types: of one schema without a header, of any with the number of
//! the schema in front, or of any that the block names.
//!
//! Owns the decoder, its options and the form of its rejects. Does not own the columns and what they make of a value ([`crate::columns`]),
//! nor how a schema with a number or a name is fetched (the crate `registry`). A plan is compiled once from the writer's schema and the
//! columns; the record's bytes are then read once, from left to right, into the columns. There is no tree of values in between and no
//! allocation a record.
//!
//! | module   | what it owns                                                              |
//! |----------|---------------------------------------------------------------------------|
//! | `schema` | the writer's schema, read from its JSON                                   |
//! | `framed` | the header or block that names the schema, and the schemas by number or name |
//! | `plan`   | what is done with the bytes of a record; columns that cannot be filled    |
//! | `flat`   | whole blocks of records that are nothing but numbers, column by column    |
//! | `datum`  | the walk over a record, nulls and DEFAULTs, taking a record back          |
//! | `cursor` | Avro's encoding of single values                                          |
//!
//! What becomes of each Avro type is the table of [`crate::columns`], read by this one:
//!
//! | Avro                                         | kind                                                       |
//! |----------------------------------------------|------------------------------------------------------------|
//! | `boolean`, `int`, `long`, `float`, `double`, `bytes`, `string`, `fixed` | bool, integer, float, bytes, text, bytes |
//! | `enum`                                       | text: the symbol                                           |
//! | `array`, `map`                               | list, map                                                  |
//! | `record`                                     | none: its fields fill columns by dotted names              |
//! | `union`                                      | each branch must fit the column; `null` is a null wherever it stands |
//! | `decimal` (bytes, fixed), `uuid` (fixed), `date` | decimal, uuid, date                                    |
//! | `uuid` (string)                              | text                                                       |
//! | `time-millis`, `time-micros`                 | integer: no column holds a time of day                     |
//! | `timestamp-…`, `local-timestamp-…`           | timestamp, local timestamp                                 |
//!
//! Rules that are not a matter of type:
//! - The writer's schema decides the bytes, columns take fields by name; aliases and the schema's own defaults have no part in it.
//! - A field that the schema does not have is missing in every record: NULL, or the DEFAULT, or a refusal when the decoder is made.
//! - A field that no column asks for is skipped, at the cost of its bytes.
//! - A record ends where its last field does; a byte more is a fault, because then it was written with another schema.

mod cursor;
mod datum;
mod flat;
mod framed;
mod plan;
mod schema;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use dataflow::{Decoded, Decoder, RecordBlock, Reject, Schema};

use crate::columns::{self, EpochUnit, Settings, TypedColumn};
use crate::fault::{Fault, Step};
use crate::rows;
use cursor::Cursor;
pub use datum::DEPTH_MAX;
use datum::Rows;
use framed::{Compiled, HEADER_BYTES, Last, OfBlock, Plans};
pub use framed::{SCHEMAS_MAX, Schemas, SchemasFull, UNUSABLE_MAX, Writer, schema_id, schema_ids};
use plan::Plan;
pub use schema::{SCHEMA_BYTES_MAX, SchemaError};

/// How Avro is read where its values leave a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvroOptions {
    /// The IANA zone of local timestamps, dates and texts without one, for columns that have no zone either.
    pub assume_timezone: String,
    /// What an `int` or `long` without a logical type counts that fills a DateTime.
    pub epoch_unit: EpochUnit,
    /// Bytes of a record; a longer one is rejected unread.
    pub record_bytes_max: usize,
}

impl Default for AvroOptions {
    fn default() -> Self {
        // Sixteen times what Kafka takes by default: more is a mistake in what is sent.
        Self { assume_timezone: "UTC".into(), epoch_unit: EpochUnit::ByMagnitude, record_bytes_max: 16 << 20 }
    }
}

/// Columns, a schema or an option that no record could be decoded with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is nothing to fill.
    #[error("the target has no columns")]
    NoColumns,
    /// Two columns of one name.
    #[error("the column `{column}` appears twice in the schema")]
    ColumnTwice {
        /// The name.
        column: String,
    },
    /// A column that cannot be filled, whatever the schema.
    #[error("column `{column}`: {why}")]
    Type {
        /// The column.
        column: String,
        /// What is wrong with it.
        why: String,
    },
    /// The zone of the options.
    #[error("`assume_timezone`: `{zone}` is no time zone of the IANA database")]
    Zone {
        /// The zone.
        zone: String,
    },
    /// The writer's schema cannot be read.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The writer's schema is of something else.
    #[error("the schema is of the type `{found}`; a pipeline reads records")]
    NoRecord {
        /// The type.
        found: String,
    },
    /// A column that the schema's field cannot fill.
    #[error("field `{field}`, column `{column}`: {why}")]
    Field {
        /// The field, dotted.
        field: String,
        /// The column.
        column: String,
        /// What is wrong.
        why: String,
    },
}

/// A [`Decoder`] for records that are Avro data.
pub struct AvroDecoder {
    schema: Schema,
    options: AvroOptions,
    writers: Writers,
    patterns: Vec<Box<dyn TypedColumn>>,
}

/// What records were written with.
enum Writers {
    /// All with one schema; they have no header.
    One(Plan),
    /// Each with the one that its header names.
    Named(Plans),
    /// All of a block with the one that the block names; they have no header.
    OfBlock(Plans<Arc<str>>),
}

impl AvroDecoder {
    /// A decoder of records without a header. Compiles `writer`, the schema that they were written with, for the columns of `schema`.
    ///
    /// # Errors
    /// When the writer's schema cannot be read, a column cannot be filled from it, or a zone is not known.
    pub fn new(schema: Schema, writer: &str, options: AvroOptions) -> Result<Self, ConfigError> {
        let patterns = patterns(&schema, &options)?;
        let plan = Plan::new(schema::Types::read(writer)?, &schema)?;
        Ok(Self { schema, options, writers: Writers::One(plan), patterns })
    }

    /// A decoder of records in Confluent's wire format. Each schema is compiled when its first record comes; it must be among `schemas` by
    /// then. A schema that cannot fill the columns makes its records rejects.
    ///
    /// # Errors
    /// When a column cannot be filled whatever the schema, or a zone is not known.
    pub fn framed(schema: Schema, schemas: Arc<Schemas>, options: AvroOptions) -> Result<Self, ConfigError> {
        let patterns = patterns(&schema, &options)?;
        Ok(Self { schema, options, writers: Writers::Named(Plans::new(schemas)), patterns })
    }

    /// A decoder of records without a header, whose blocks name their schema ([`RecordBlock::schema`]). As [`framed`](Self::framed) otherwise;
    /// the records of a block that names none are rejects.
    ///
    /// # Errors
    /// As [`framed`](Self::framed).
    pub fn of_blocks(
        schema: Schema,
        schemas: Arc<Schemas<Arc<str>>>,
        options: AvroOptions,
    ) -> Result<Self, ConfigError> {
        let patterns = patterns(&schema, &options)?;
        Ok(Self { schema, options, writers: Writers::OfBlock(Plans::new(schemas)), patterns })
    }

    /// Decodes a block of records that are nothing but numbers; `None` if it has others, or a record that becomes a reject.
    fn flat(&self, block: &RecordBlock) -> Option<Decoded> {
        if !flat::is_plain(block, &self.schema) {
            return None;
        }
        let mut columns: Vec<_> = Vec::new();
        let mut fill = |plan: &Plan, header: usize| {
            let flat = plan.flat.as_ref()?;
            columns = self.patterns.iter().map(|pattern| pattern.fresh(block.len())).collect();
            flat.fill(block, header, self.options.record_bytes_max, &mut columns)
        };
        match &self.writers {
            Writers::One(plan) => fill(plan, 0)?,
            Writers::Named(plans) => match &*plans.only(block, &self.schema)? {
                Compiled::Plan(plan) => fill(plan, HEADER_BYTES)?,
                Compiled::Refused(_) => return None,
            },
            Writers::OfBlock(plans) => match plans.of_block(block, &self.schema) {
                OfBlock::Named(_, compiled) => match &*compiled {
                    Compiled::Plan(plan) => fill(plan, 0)?,
                    Compiled::Refused(_) => return None,
                },
                OfBlock::Nameless => return None,
            },
        }
        let arrays = columns.into_iter().map(|column| column.finish());
        let arrays = arrays
            .collect::<Result<Vec<_>, _>>()
            .expect("columns keep offsets ascending, text valid and lengths equal");
        Some(rows::decoded(block, &self.schema, arrays, Vec::new()))
    }

    /// Decodes a block, of which `push` appends the records at `start..end` one by one.
    #[inline(always)]
    fn rows(
        &self,
        block: &RecordBlock,
        mut push: impl FnMut(&mut Rows<'_>, usize, usize) -> Step<()>,
    ) -> Decoded {
        let mut columns = Rows::new(&self.schema, &self.patterns, block.len());
        let mut rejects = Vec::new();
        let mut absent = block.absent.iter().copied().peekable();
        let mut from = 0;
        for (row, end) in block.payloads.ends.iter().enumerate() {
            let (start, end) = (from, *end as usize);
            from = end;
            if absent.next_if_eq(&(row as u32)).is_some() {
                rejects.push(rows::no_body(block, row));
            } else if end - start > self.options.record_bytes_max {
                rejects.push(rows::too_large(block, row, self.options.record_bytes_max));
            } else if let Err(fault) = push(&mut columns, start, end) {
                rejects.push(self.reject(block, row, &fault));
            }
        }
        let arrays = columns.finish().expect("columns keep offsets ascending, text valid and lengths equal");
        rows::decoded(block, &self.schema, arrays, rejects)
    }

    /// The reject of a record that the decoder has turned down.
    #[cold]
    fn reject(&self, block: &RecordBlock, row: usize, fault: &Fault) -> Reject {
        let column = fault.column.map_or("", |n| &self.schema.columns()[n].name);
        Reject::of(block, row, fault.reason, column, fault.sentence())
    }
}

/// The empty columns of a schema.
fn patterns(schema: &Schema, options: &AvroOptions) -> Result<Vec<Box<dyn TypedColumn>>, ConfigError> {
    if schema.columns().is_empty() {
        return Err(ConfigError::NoColumns);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = schema.columns().iter().find(|column| !names.insert(&column.name)) {
        return Err(ConfigError::ColumnTwice { column: twice.name.clone() });
    }
    if columns::Zone::named(&options.assume_timezone).is_none() {
        return Err(ConfigError::Zone { zone: options.assume_timezone.clone() });
    }
    let settings = Settings { timezone: &options.assume_timezone, epoch: options.epoch_unit };
    let pattern = |column: &dataflow::Column| {
        columns::typed(&column.column_type, settings)
            .map_err(|why| ConfigError::Type { column: column.name.clone(), why })
    };
    schema.columns().iter().map(pattern).collect()
}

impl fmt::Debug for AvroDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AvroDecoder").field("schema", &self.schema).field("options", &self.options).finish()
    }
}

impl Decoder for AvroDecoder {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        self.flat(block).unwrap_or_else(|| self.each(block))
    }
}

impl AvroDecoder {
    /// Decodes a block record by record.
    fn each(&self, block: &RecordBlock) -> Decoded {
        let bytes = &block.payloads.bytes[..];
        match &self.writers {
            Writers::One(plan) => {
                self.rows(block, |rows, start, end| rows.push(plan, Cursor::new(bytes, start, end)))
            }
            Writers::Named(plans) => {
                let mut last = Last::default();
                self.rows(block, |rows, start, end| {
                    plans.push(&mut last, rows, &self.schema, bytes, (start, end))
                })
            }
            Writers::OfBlock(plans) => {
                let of_block = plans.of_block(block, &self.schema);
                self.rows(block, |rows, start, end| {
                    rows.push(of_block.plan()?, Cursor::new(bytes, start, end))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
