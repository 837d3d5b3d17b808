//! Lines of CSV or TSV, one a record, straight into Arrow columns of the target's types.
//!
//! Owns the decoder, its options and the form of its rejects. A plan is compiled from the names of the fields and the columns; a record's bytes
//! are then read once, from left to right, into the columns. There is no allocation a record. Does not own where a record ends in a file
//! (`sources::file`).
//!
//! | module   | what it owns                                                        |
//! |----------|---------------------------------------------------------------------|
//! | `scan`   | delimiters and quotes: the fields of a record                       |
//! | `plan`   | which field fills which column                                      |
//! | `record` | the walk over a record, nulls and DEFAULTs, taking a record back    |
//! | `fault`  | the fault of a record and its sentence                              |
//!
//! Every field is text, so a column takes what the table of [`crate::columns`] says of texts. Rules that are not a matter of type:
//! - Names come from the options, or from the first line of the file, which travels with each block (`RecordBlock::head`).
//! - A record has as many fields as there are names: another number means another layout, and values would land in wrong columns.
//! - An unquoted field that is empty, or the text for NULL, is NULL or the DEFAULT. A String without either takes the empty text. A quoted
//!   field is always its text.
//! - A quote counts at the beginning of a field only, as in RFC 4180; within quotes it is doubled. Anything between the closing quote and the
//!   delimiter is a fault.
//! - A field that no column asks for is skipped; only its quotes are read.
//!
//! The scanner is ours: `csv-core` gives no hint whether a field was quoted, which NULL depends on, reads `"a"b` as `ab` where a record must
//! not change silently, and copies every field, wanted or not.

mod fault;
mod plan;
mod record;
mod scan;

use std::fmt;

use dataflow::{Decoded, Decoder, Reason, RecordBlock, Reject, Schema};

pub use crate::columns::EpochUnit;
use crate::columns::{self, ColumnsError, Kind, Settings, TypedColumn};
use crate::rows;
use fault::Fault;
use plan::Plan;
use record::Rows;
use scan::Dialect;

/// How CSV is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// The names of the fields, in order; none if each block has them in its head.
    pub columns: Vec<String>,
    /// The byte between two fields: ASCII, and neither a line end nor the quote.
    pub delimiter: u8,
    /// The byte around fields; none if quotes have no meaning.
    pub quote: Option<u8>,
    /// What an unquoted field holds that is NULL; the empty field is, too.
    pub null: String,
    /// The IANA zone of times that are written without one, for columns that have no zone either.
    pub assume_timezone: String,
    /// What unix numbers count.
    pub epoch_unit: EpochUnit,
    /// Bytes of a record; a longer one is rejected unread.
    pub record_bytes_max: usize,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            delimiter: b',',
            quote: Some(b'"'),
            null: "\\N".into(),
            assume_timezone: "UTC".into(),
            epoch_unit: EpochUnit::ByMagnitude,
            // Sixteen times what Kafka takes by default: more is a mistake in what is sent.
            record_bytes_max: 16 << 20,
        }
    }
}

/// Columns or an option that no record could be decoded with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The target's columns or the zone of the options.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// A character of the options that cannot separate or quote fields.
    #[error(
        "`delimiter` and `quote` are two different ASCII characters, and neither of them is a line break"
    )]
    Dialect,
    /// A name that stands for two fields, and that a column asks for.
    #[error("`columns` names `{field}` twice, and column `{column}` takes it")]
    FieldTwice {
        /// The field.
        field: String,
        /// The column.
        column: String,
    },
    /// A column whose field has no place.
    #[error(
        "`columns` does not name `{field}`, and column `{column}`, which takes it, has neither NULL nor a DEFAULT"
    )]
    NoField {
        /// The field.
        field: String,
        /// The column.
        column: String,
    },
}

/// A [`Decoder`] for records that are lines of CSV.
pub struct CsvDecoder {
    schema: Schema,
    options: CsvOptions,
    dialect: Dialect,
    /// None if each block has the names in its head.
    plan: Option<Plan>,
    targets: Vec<Target>,
}

/// A column to fill.
struct Target {
    pattern: Box<dyn TypedColumn>,
    absence: columns::Absence,
    /// An empty field is a value: the empty text.
    takes_empty: bool,
}

impl CsvDecoder {
    /// Compiles `schema`.
    ///
    /// # Errors
    /// When a column cannot be filled from text, the names of the fields lack one that must be there, or an option is wrong.
    pub fn new(schema: Schema, options: CsvOptions) -> Result<Self, ConfigError> {
        columns::check(&schema, &options.assume_timezone)?;
        let dialect = Dialect::new(options.delimiter, options.quote).ok_or(ConfigError::Dialect)?;
        let settings = Settings { timezone: &options.assume_timezone, epoch: options.epoch_unit };
        let target = |column: &dataflow::Column| {
            Target::new(column, settings).map_err(|why| ColumnsError::of_type(column, why))
        };
        let targets = schema.columns().iter().map(target).collect::<Result<_, _>>()?;
        let plan = match &options.columns[..] {
            [] => None,
            names => Some(Plan::new(names, &schema).map_err(ConfigError::from)?),
        };
        Ok(Self { schema, options, dialect, plan, targets })
    }

    fn rows(&self, block: &RecordBlock, plan: &Plan) -> Decoded {
        let mut columns = Rows::new(self.dialect, plan, &self.targets, &self.options.null, block.len());
        let push = |start: usize, end: usize| columns.push(&block.payloads.bytes[start..end]);
        let rejects = rows::each(block, self.options.record_bytes_max, push, |row, fault| {
            self.reject(block, row, &fault)
        });
        let arrays = columns.finish().expect("columns keep offsets ascending, text valid and lengths equal");
        rows::decoded(block, &self.schema, arrays, rejects)
    }

    /// The reject of a record that the decoder has turned down.
    #[cold]
    fn reject(&self, block: &RecordBlock, row: usize, fault: &Fault) -> Reject {
        let column = fault.column.map(|n| &self.schema.columns()[n]);
        let message = fault.sentence(column.map(|column| &*column.field));
        Reject::of(block, row, fault.reason, column.map_or("", |column| &column.name), message)
    }

    /// Turns down every record of a block whose fields have no names.
    #[cold]
    fn unnamed(&self, block: &RecordBlock, column: &str, why: &str) -> Decoded {
        let reject = |row| Reject::of(block, row, Reason::Schema, column, why.to_owned());
        let fresh = |target: &Target| target.pattern.fresh(0).finish();
        let arrays = self.targets.iter().map(fresh).collect::<Result<_, _>>();
        let arrays = arrays.expect("empty columns are whole");
        rows::decoded(block, &self.schema, arrays, (0..block.len()).map(reject).collect())
    }
}

impl Target {
    fn new(column: &dataflow::Column, settings: Settings<'_>) -> Result<Self, String> {
        use dataflow::ColumnType as T;
        let pattern = columns::typed(&column.column_type, settings)?;
        if !columns::takes(&column.column_type, Kind::Text) {
            return Err(format!(
                "every field of CSV is text, and {} does not take text",
                pattern.type_name()
            ));
        }
        let absence = columns::Absence::of(column);
        let takes_empty = matches!(column.column_type.bare(), T::String | T::FixedString(_))
            && matches!(absence, columns::Absence::Required);
        Ok(Self { pattern, absence, takes_empty })
    }
}

impl fmt::Debug for CsvDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvDecoder").field("schema", &self.schema).field("options", &self.options).finish()
    }
}

impl Decoder for CsvDecoder {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        if let Some(plan) = &self.plan {
            return self.rows(block, plan);
        }
        let Some(head) = &block.head else {
            return self.unnamed(block, "", "the record comes without the header that names its fields");
        };
        // Once for thousands of records.
        match Plan::of_header(head, self.dialect, &self.schema) {
            Ok(plan) => self.rows(block, &plan),
            Err((column, why)) => self.unnamed(block, &column, &why),
        }
    }
}

#[cfg(test)]
mod tests;
