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
//! | `framed` | the header or block that names the schema                                |
//! | `plan`   | what is done with the bytes of a record; columns that cannot be filled    |
//! | `flat`   | whole blocks of records that are nothing but numbers, column by column    |
//! | `datum`  | the walk over a record, nulls and DEFAULTs, taking a record back          |
//! | `cursor` | Avro's encoding of single values                                          |
//! | [`container`] | files of records behind their schema, which are not decoded but divided |
//! | `records` | where a record ends, by its schema alone                                |
//! | `text`   | a record as JSON                                                          |
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

pub mod container;
mod cursor;
mod datum;
mod flat;
mod framed;
mod plan;
mod records;
mod schema;
mod text;

use std::fmt;
use std::sync::Arc;

use dataflow::{Decoded, Decoder, RecordBlock, Schema};

use crate::columns::{self, ColumnsError, EpochUnit, Settings, TypedColumn};
use crate::fault::Step;
use crate::rows;
use crate::schemas::Schemas;
use crate::schemas::plans;
use cursor::Cursor;
pub use datum::DEPTH_MAX;
use datum::Rows;
use framed::{HEADER_BYTES, Last, Plans};
use plan::Plan;
pub use records::{NoJson, RecordSchema};
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
    /// The target's columns or the zone of the options.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
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
    OfBlock(plans::Plans<Plan, Arc<str>>),
}

impl AvroDecoder {
    /// A decoder of records without a header. Compiles `writer`, the schema that they were written with, for the columns of `schema`.
    ///
    /// # Errors
    /// When the writer's schema cannot be read, a column cannot be filled from it, or a zone is not known.
    pub fn new(schema: Schema, writer: &str, options: AvroOptions) -> Result<Self, ConfigError> {
        let patterns = columns::patterns(&schema, options.settings())?;
        let plan = Plan::new(schema::Types::read(writer)?, &schema)?;
        Ok(Self { schema, options, writers: Writers::One(plan), patterns })
    }

    /// A decoder of records in Confluent's wire format. Each schema is compiled when its first record comes; it must be among `schemas` by
    /// then. A schema that cannot fill the columns makes its records rejects.
    ///
    /// # Errors
    /// When a column cannot be filled whatever the schema, or a zone is not known.
    pub fn framed(schema: Schema, schemas: Arc<Schemas>, options: AvroOptions) -> Result<Self, ConfigError> {
        let patterns = columns::patterns(&schema, options.settings())?;
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
        let patterns = columns::patterns(&schema, options.settings())?;
        Ok(Self { schema, options, writers: Writers::OfBlock(plans::Plans::new(schemas)), patterns })
    }

    /// Decodes a block of records that are nothing but numbers; `None` if it has others, or a record that becomes a reject.
    fn flat(&self, block: &RecordBlock) -> Option<Decoded> {
        if !flat::is_plain(block, &self.schema) {
            return None;
        }
        let mut filled: Vec<_> = Vec::new();
        let mut fill = |plan: &Plan, header: usize| {
            let flat = plan.flat.as_ref()?;
            filled = columns::fresh(&self.patterns, block.len());
            flat.fill(block, header, self.options.record_bytes_max, &mut filled)
        };
        match &self.writers {
            Writers::One(plan) => fill(plan, 0)?,
            Writers::Named(plans) => {
                let id = framed::only(block)?;
                let compiled = plans.plan(&id, |texts| framed::plan(texts, &self.schema)).ok()?;
                fill(compiled.plan()?, HEADER_BYTES)?;
            }
            Writers::OfBlock(plans) => {
                let of_block = plans.of_block(block, |texts| framed::plan(texts, &self.schema));
                fill(of_block.plan().ok()?, 0)?;
            }
        }
        Some(rows::decoded(block, &self.schema, columns::finished(filled), Vec::new()))
    }

    /// Decodes a block, of which `push` appends the records at `start..end` one by one.
    #[inline(always)]
    fn rows(
        &self,
        block: &RecordBlock,
        mut push: impl FnMut(&mut Rows<'_>, usize, usize) -> Step<()>,
    ) -> Decoded {
        let mut columns = Rows::new(&self.schema, &self.patterns, block.len());
        let rejects = rows::each(
            block,
            self.options.record_bytes_max,
            |start, end| push(&mut columns, start, end),
            |row, fault| fault.reject(block, row, &self.schema),
        );
        rows::decoded(block, &self.schema, columns.finish(), rejects)
    }
}

impl AvroOptions {
    /// What columns are compiled with.
    fn settings(&self) -> Settings<'_> {
        Settings { timezone: &self.assume_timezone, epoch: self.epoch_unit }
    }
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
                    framed::push(plans, &mut last, rows, &self.schema, bytes, (start, end))
                })
            }
            Writers::OfBlock(plans) => {
                let of_block = plans.of_block(block, |texts| framed::plan(texts, &self.schema));
                self.rows(block, |rows, start, end| {
                    rows.push(of_block.plan()?, Cursor::new(bytes, start, end))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
