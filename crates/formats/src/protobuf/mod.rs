//! Protocol Buffers messages, one a record, straight into Arrow columns of the target's types: of one type without a header, of any with the number of
//! the schema in front, or of any that the block names.
//!
//! Owns the decoder, its options and the form of its rejects. Does not own the columns and what they make of a value ([`crate::columns`]),
//! nor where descriptors and `.proto` texts are read from (`wiring::source`). A plan is compiled once from the message's type and the
//! columns; the record's bytes are then read once. There is no tree of messages in between.
//!
//! | module  | what it owns                                                               |
//! |---------|----------------------------------------------------------------------------|
//! | `types` | the types of messages, from a descriptor set or from `.proto` texts        |
//! | `leaf`  | what a column makes of a field's type                                      |
//! | `plan`  | what is done with the fields of a message; columns that cannot be filled   |
//! | `walk`  | the pass over a record: the last value of each field, all of a repeated one |
//! | `fill`  | what was found into columns; what a field becomes that was not sent        |
//! | `flat`  | whole blocks of records that are nothing but numbers, column by column     |
//! | `framed` | the header or block that names the type                                   |
//! | `wire`  | the encoding of keys and single values                                     |
//! | `records` | where messages end, without their type                                    |
//!
//! What becomes of each type is the table of [`crate::columns`], read by this one:
//!
//! | Protocol Buffers                                   | kind                                                        |
//! |----------------------------------------------------|-------------------------------------------------------------|
//! | `bool`, integers, `float`, `double`, `string`, `bytes` | bool, integer, float, text, bytes                       |
//! | an enum                                            | text (its name) for String and Enum, integer for integers   |
//! | `repeated`, `map`                                  | list, map                                                   |
//! | a message                                          | none: its fields fill columns by dotted names               |
//! | `google.protobuf.Timestamp`                        | timestamp                                                   |
//! | `google.protobuf.Duration`                         | decimal: its seconds                                        |
//! | `google.protobuf.Int64Value` and its like          | that of the value in it                                     |
//! | a group                                            | none: it is skipped                                         |
//!
//! What a field becomes that was not sent:
//!
//! | the field                                          | the column gets                                             |
//! |----------------------------------------------------|-------------------------------------------------------------|
//! | has no presence (proto3 without `optional`)        | 0, the empty text, false: that is what was sent             |
//! | is repeated or a map                               | nothing in an Array or Map                                  |
//! | has presence, or is within a message that was not sent | NULL; else the column's DEFAULT; else the field's default |
//! | is a Timestamp, a Duration or a wrapper            | NULL; else the DEFAULT; else the record is a reject         |
//! | is `required`                                      | the record is a reject                                      |
//! | is not in the schema                               | NULL or the DEFAULT; else the decoder is refused            |

mod fill;
mod flat;
mod framed;
mod leaf;
mod plan;
mod records;
mod types;
mod walk;
mod wire;

use std::fmt;
use std::sync::Arc;

use dataflow::{Decoded, Decoder, RecordBlock, Schema};

use crate::columns::{self, ColumnsError, EpochUnit, Settings, TypedColumn};
use crate::fault::Step;
use crate::rows;
use crate::schemas::{SchemaText, Schemas, plans};
use fill::Rows;
use framed::{Last, Plans};
use plan::Plan;
pub use records::{check, delimited};
pub use types::{DESCRIPTORS_BYTES_MAX, Open, Types, TypesError};
use wire::Wire;

/// How messages are read where their values leave a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtobufOptions {
    /// The IANA zone of texts with a date or time and no zone, for columns that have no zone either.
    pub assume_timezone: String,
    /// What an integer counts that fills a DateTime.
    pub epoch_unit: EpochUnit,
    /// Bytes of a record; a longer one is rejected unread.
    pub record_bytes_max: usize,
}

impl Default for ProtobufOptions {
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
    /// The schema cannot be used.
    #[error(transparent)]
    Types(#[from] TypesError),
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

/// A [`Decoder`] for records that are Protocol Buffers messages.
pub struct ProtobufDecoder {
    schema: Schema,
    options: ProtobufOptions,
    writers: Writers,
    patterns: Vec<Box<dyn TypedColumn>>,
}

/// What records were written with.
enum Writers {
    /// All with one type; they have no header.
    One(Plan),
    /// Each with the one that its header names.
    Named(Plans),
    /// All of a block with the one that the block names, or with this one alone of them; they have no header.
    OfBlock(plans::Plans<Plan, Arc<str>>, Option<Box<str>>),
}

impl ProtobufDecoder {
    /// A decoder of records that are the message `message` of `types`, without a header, for the columns of `schema`.
    ///
    /// # Errors
    /// When there is no such message, a column cannot be filled from it, or a zone is not known.
    pub fn new(
        schema: Schema,
        types: &Types,
        message: &str,
        options: ProtobufOptions,
    ) -> Result<Self, ConfigError> {
        let patterns = columns::patterns(&schema, options.settings())?;
        let plan = Plan::new(&types.message(message)?, &schema)?;
        Ok(Self { schema, options, writers: Writers::One(plan), patterns })
    }

    /// A decoder of records in Confluent's wire format. Each schema is compiled when its first record comes; it must be among `schemas` by then. Records of a
    /// schema that cannot fill the columns are rejects, as are those of another message than `message`, if one is given.
    ///
    /// # Errors
    /// When a column cannot be filled whatever the schema, or a zone is not known.
    pub fn framed(
        schema: Schema,
        schemas: Arc<Schemas>,
        message: Option<&str>,
        options: ProtobufOptions,
    ) -> Result<Self, ConfigError> {
        let patterns = columns::patterns(&schema, options.settings())?;
        Ok(Self { schema, options, writers: Writers::Named(Plans::new(schemas, message)), patterns })
    }

    /// A decoder of records without a header, whose blocks name their schema ([`RecordBlock::schema`]), which is one of Pulsar's brokers
    /// ([`Types::of_broker`]). As [`framed`](Self::framed) otherwise; the records of a block that names none are rejects.
    ///
    /// # Errors
    /// As [`framed`](Self::framed).
    pub fn of_blocks(
        schema: Schema,
        schemas: Arc<Schemas<Arc<str>>>,
        message: Option<&str>,
        options: ProtobufOptions,
    ) -> Result<Self, ConfigError> {
        let patterns = columns::patterns(&schema, options.settings())?;
        let writers = Writers::OfBlock(plans::Plans::new(schemas), message.map(Box::from));
        Ok(Self { schema, options, writers, patterns })
    }

    /// Decodes a block of records that are nothing but numbers; `None` if it has others, or a record that becomes a reject.
    fn flat(&self, block: &RecordBlock) -> Option<Decoded> {
        if !block.absent.is_empty() || !block.cut.is_empty() {
            return None;
        }
        let mut filled = Vec::new();
        let mut fill = |plan: &Plan, header: usize| {
            let flat = plan.flat.as_ref()?;
            filled = columns::fresh(&self.patterns, block.len());
            flat.fill(plan, block, header, self.options.record_bytes_max, &mut filled)
        };
        match &self.writers {
            Writers::One(plan) => fill(plan, 0)?,
            Writers::Named(plans) => {
                let (compiled, header) = plans.flat(block, &self.schema)?;
                fill(compiled.plan()?, header)?;
            }
            Writers::OfBlock(plans, message) => {
                let make = |texts: &[SchemaText]| framed::of_block(texts, message.as_deref(), &self.schema);
                fill(plans.of_block(block, make).plan().ok()?, 0)?;
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

impl ProtobufOptions {
    /// What columns are compiled with.
    fn settings(&self) -> Settings<'_> {
        Settings { timezone: &self.assume_timezone, epoch: self.epoch_unit }
    }
}

impl fmt::Debug for ProtobufDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtobufDecoder")
            .field("schema", &self.schema)
            .field("options", &self.options)
            .finish()
    }
}

impl Decoder for ProtobufDecoder {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        self.flat(block).unwrap_or_else(|| self.each(block))
    }
}

impl ProtobufDecoder {
    /// Decodes a block record by record.
    fn each(&self, block: &RecordBlock) -> Decoded {
        let bytes = &block.payloads.bytes[..];
        match &self.writers {
            Writers::One(plan) => {
                self.rows(block, |rows, start, end| rows.push(plan, Wire::new(bytes, start, end)))
            }
            Writers::Named(plans) => {
                let mut last = Last::default();
                self.rows(block, |rows, start, end| {
                    plans.push(&mut last, rows, &self.schema, bytes, (start, end))
                })
            }
            Writers::OfBlock(plans, message) => {
                let make = |texts: &[SchemaText]| framed::of_block(texts, message.as_deref(), &self.schema);
                let of_block = plans.of_block(block, make);
                self.rows(block, |rows, start, end| rows.push(of_block.plan()?, Wire::new(bytes, start, end)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
