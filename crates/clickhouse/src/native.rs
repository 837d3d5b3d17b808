//! Arrow rows as one block in ClickHouse's `Native` format.
//!
//! Owns the bytes of a block: the plan made once from the table's columns, and the writing of rows by it. Does not own
//! compression ([`crate::compress`]), the choice of rows ([`crate::partition`], [`crate::sort`]) or the request.
//!
//! A block is `columns, rows` as varints, then for each column its name, its type and its values one after another.
//!
//! | column is                          | and rows hold nulls | sent as                                          |
//! |------------------------------------|---------------------|--------------------------------------------------|
//! | nullable                           | either              | `Nullable(T)`                                    |
//! | not nullable, with a DEFAULT       | no                  | `T`                                              |
//! | not nullable, with a DEFAULT       | yes                 | `Nullable(T)`; the server puts the DEFAULT (`input_format_null_as_default`) |
//! | Array or Map whose DEFAULT is empty | yes                | `T`, the null as the empty value                 |
//! | neither                            | yes                 | an error: never a silent zero                    |
//!
//! `LowCardinality(T)` is sent as `T`: the server builds its dictionary either way.
//!
//! A column that holds `JSON`, at whatever depth, begins with a number that says in which form: ours is that of texts ([`JSON_AS_TEXT`]), which the server
//! parses into paths itself. Under a null stands `{}`, because the server parses that too.

mod read;
mod rows;
pub mod shape;
mod values;

use arrow_array::{Array, RecordBatch};
use dataflow::{ColumnType, FrameId, Schema};

pub use read::{rows as read_rows, type_of};
pub use rows::{RowRef, Rows};

/// The form of `JSON` in which each value is the text of an object: the number at the start of such a column.
const JSON_AS_TEXT: u64 = 1;

/// Why rows cannot be written. It is a fault of the step before: decoders hand over values that fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column `{column}`: {reason}")]
pub struct EncodeError {
    /// The column concerned.
    pub column: String,
    /// The value, its place in the frame and the rule.
    pub reason: String,
}

/// What stands for a null in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NullRule {
    /// The column is nullable.
    Null,
    /// The server puts the column's DEFAULT.
    ServerDefault,
    /// The column's DEFAULT is the empty array or map.
    Empty,
    /// No value can stand for it.
    Refuse,
}

#[derive(Clone, Debug)]
struct PlannedColumn {
    name: String,
    /// Without LowCardinality at any depth.
    column_type: ColumnType,
    type_name: String,
    nulls: NullRule,
}

/// How a table's blocks look: made once, used for every frame.
#[derive(Clone, Debug)]
pub struct BlockPlan {
    columns: Vec<PlannedColumn>,
    /// The name of the UUID column that holds the frame's id.
    provenance: Option<String>,
}

impl BlockPlan {
    /// The plan of a table with these columns; `provenance` names the UUID column that takes the frame's id.
    pub fn new(schema: &Schema, provenance: Option<&str>) -> Self {
        let columns = schema
            .columns()
            .iter()
            .map(|column| {
                let column_type = without_low_cardinality(&column.column_type);
                let nested = matches!(column_type, ColumnType::Array(_) | ColumnType::Map(..));
                let nulls = match (column_type.is_nullable(), column.default.is_some(), nested) {
                    (true, _, _) => NullRule::Null,
                    (false, true, true) => NullRule::Empty,
                    (false, true, false) => NullRule::ServerDefault,
                    (false, false, _) => NullRule::Refuse,
                };
                let type_name = crate::types::name(&column_type);
                PlannedColumn { name: column.name.clone(), column_type, type_name, nulls }
            })
            .collect();
        Self { columns, provenance: provenance.map(str::to_owned) }
    }

    /// The names of the columns in a block, in order: the column list of the insert.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|c| c.name.as_str()).chain(self.provenance.as_deref())
    }

    /// Writes the rows of `batches` as one block. `flush` is called after each portion of a column with the bytes that
    /// wait, and may take bytes off the front, so that the long form of a frame stays in the cache and is never held whole. What
    /// it leaves is the result.
    ///
    /// Every batch has the plan's columns in the plan's order.
    pub fn encode(
        &self,
        batches: &[RecordBatch],
        rows: Rows<'_>,
        frame: FrameId,
        flush: &mut dyn FnMut(&mut Vec<u8>),
    ) -> Result<Vec<u8>, EncodeError> {
        let row_count = rows.count(batches.iter().map(RecordBatch::num_rows));
        let mut out = Vec::new();
        write_varint(self.column_names().count() as u64, &mut out);
        write_varint(row_count as u64, &mut out);
        for (index, column) in self.columns.iter().enumerate() {
            let fail = |reason: String| EncodeError { column: column.name.clone(), reason };
            let arrays = column_arrays(batches, index, self.columns.len()).map_err(fail)?;
            column.encode(&arrays, rows, &mut out, flush).map_err(fail)?;
        }
        if let Some(name) = &self.provenance {
            write_text(name, &mut out);
            write_text("UUID", &mut out);
            let id = uuid_on_the_wire(frame.0.to_be_bytes());
            let start = out.len();
            out.resize(start + 16 * row_count, 0);
            out[start..].as_chunks_mut::<16>().0.fill(id);
            flush(&mut out);
        }
        Ok(out)
    }
}

impl PlannedColumn {
    fn encode(
        &self,
        arrays: &[&dyn Array],
        rows: Rows<'_>,
        out: &mut Vec<u8>,
        flush: &mut dyn FnMut(&mut Vec<u8>),
    ) -> Result<(), String> {
        write_text(&self.name, out);
        let nulls = if self.nulls == NullRule::Null { 0 } else { rows.null_count(arrays) };
        match self.nulls {
            NullRule::Refuse if nulls > 0 => {
                return Err(format!("{nulls} null(s) in a column that has neither NULL nor a DEFAULT"));
            }
            NullRule::ServerDefault if nulls > 0 => {
                write_text(&format!("Nullable({})", self.type_name), out);
                self.write_form(out);
                values::write_nullable(&self.column_type, arrays, rows, out)?;
                flush(out);
                return Ok(());
            }
            NullRule::Null | NullRule::ServerDefault | NullRule::Empty | NullRule::Refuse => {}
        }
        write_text(&self.type_name, out);
        self.write_form(out);
        if !values::is_flat(&self.column_type) {
            values::write(&self.column_type, arrays, rows, out)?;
            flush(out);
            return Ok(());
        }
        let in_portions = rows.portions(arrays, |arrays, rows| {
            values::write(&self.column_type, arrays, rows, out)?;
            flush(out);
            Ok(())
        });
        // A portion counts from its own first row; written whole, the column names the row of the frame.
        in_portions.or_else(|_: String| values::write(&self.column_type, arrays, rows, &mut Vec::new()))
    }
}

impl PlannedColumn {
    fn write_form(&self, out: &mut Vec<u8>) {
        if self.column_type.holds_json() {
            out.extend_from_slice(&JSON_AS_TEXT.to_le_bytes());
        }
    }
}

fn column_arrays(batches: &[RecordBatch], index: usize, count: usize) -> Result<Vec<&dyn Array>, String> {
    batches
        .iter()
        .map(|batch| {
            if batch.num_columns() == count {
                Ok(&**batch.column(index) as &dyn Array)
            } else {
                Err(format!("a batch has {} columns instead of {count}", batch.num_columns()))
            }
        })
        .collect()
}

/// The type without LowCardinality at any depth.
fn without_low_cardinality(column_type: &ColumnType) -> ColumnType {
    let strip = |t: &ColumnType| Box::new(without_low_cardinality(t));
    match column_type {
        ColumnType::LowCardinality(inner) => without_low_cardinality(inner),
        ColumnType::Nullable(inner) => ColumnType::Nullable(strip(inner)),
        ColumnType::Array(item) => ColumnType::Array(strip(item)),
        ColumnType::Map(key, value) => ColumnType::Map(strip(key), strip(value)),
        other => other.clone(),
    }
}

/// A UUID as ClickHouse holds it: two little-endian halves, the high one first.
pub(crate) fn uuid_on_the_wire(mut uuid: [u8; 16]) -> [u8; 16] {
    uuid[..8].reverse();
    uuid[8..].reverse();
    uuid
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_varint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests;
