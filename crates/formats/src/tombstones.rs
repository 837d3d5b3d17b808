//! Records without a body (tombstones) as rows, where a topic's deletions matter: each has the fields of its key.
//!
//! Owns what the columns of such a row hold, and the rejects of tombstones whose key cannot be read. Does not own records with a body (the decoder
//! within), how a key of a format is read (that format's decoder), nor what a deletion does (`_tombstone` of `dataflow::metadata` tells it from others).
//!
//! | the column's field is           | the row has                                                         |
//! |---------------------------------|---------------------------------------------------------------------|
//! | one of the key's                | what the key says                                                   |
//! | among those of the record's time | the time that the source gave the record                           |
//! | any other                       | NULL; the DEFAULT; or the type's least value, such as 0 or an empty text |
//!
//! A reject is of the reason [`Reason::NoBody`] whatever is wrong with the key, so that its dead letter is read again as a record without a body.

use std::fmt;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_select::interleave::interleave;
use dataflow::block::{KEY_BYTES_MAX, TIME_UNKNOWN_MS};
use dataflow::{Batch, Column, ColumnType, Decoded, Decoder, Reason, RecordBlock, Reject, Schema};

use crate::columns::{self, Absence, ColumnsError, EpochUnit, Fit, Settings, TypedColumn, finished, fresh};
use crate::rows;

/// How the key of a tombstone is read.
pub enum Keys {
    /// All of it is the text of this field.
    Text(String),
    /// It is a record of a format. The decoder's columns are those of [`key_columns`].
    Records(Arc<dyn Decoder>),
}

/// The columns of `schema` that the fields of a key fill.
pub fn key_columns(schema: &Schema, fields: &[String]) -> Schema {
    let is_of_key = |column: &&Column| fields.contains(&column.field);
    Schema::new(schema.columns().iter().filter(is_of_key).cloned().collect())
}

/// A [`Decoder`] that reads what another one does, and takes tombstones for rows.
pub struct WithTombstones {
    inner: Arc<dyn Decoder>,
    keys: Keys,
    patterns: Vec<Box<dyn TypedColumn>>,
    /// For each column.
    fills: Vec<Fill>,
}

/// Where the value of a column comes from.
enum Fill {
    /// The key's text.
    Text,
    /// This column of what the key was decoded to.
    Key(usize),
    /// The source's time of the record.
    Time,
    /// Nothing says it.
    Nothing(Absence, ColumnType),
}

impl WithTombstones {
    /// `inner`, whose tombstones have the fields of their keys, and in the columns of `times` the time of the record. A time in a key that is text is in
    /// `timezone` and of the unit `epoch`: those of `inner`, or a deletion would have another key than the row that it deletes.
    ///
    /// # Errors
    /// When a column cannot be filled, or no column is filled from the key.
    pub fn new(
        inner: Arc<dyn Decoder>,
        keys: Keys,
        times: &[String],
        (timezone, epoch): (&str, EpochUnit),
    ) -> Result<Self, ColumnsError> {
        let settings = Settings { timezone, epoch };
        let patterns = columns::patterns(inner.schema(), settings)?;
        let fill = |column: &Column| match &keys {
            Keys::Text(field) if *field == column.field => Fill::Text,
            Keys::Records(decoder) if decoder.schema().index_of(&column.name).is_some() => {
                Fill::Key(decoder.schema().index_of(&column.name).expect("it was found"))
            }
            _ if times.contains(&column.field) => Fill::Time,
            _ => Fill::Nothing(Absence::of(column), column.column_type.clone()),
        };
        let fills: Vec<Fill> = inner.schema().columns().iter().map(fill).collect();
        if !fills.iter().any(|fill| matches!(fill, Fill::Text | Fill::Key(_))) {
            return Err(ColumnsError::NoColumns);
        }
        Ok(Self { inner, keys, patterns, fills })
    }

    /// The rows of the block's tombstones, as numbers of its records and columns, and the rejects.
    fn rows(&self, block: &RecordBlock) -> (Vec<usize>, Vec<ArrayRef>, Vec<Reject>) {
        let (mut rows, mut rejects) = (Vec::new(), Vec::new());
        for row in block.absent.iter().map(|row| *row as usize) {
            match self.objection(block, row) {
                Some(why) => rejects.push(reject(block, row, "", why)),
                None => rows.push(row),
            }
        }
        if rows.is_empty() {
            return (rows, Vec::new(), rejects);
        }
        let mut of_key = Vec::new();
        if let Keys::Records(decoder) = &self.keys {
            let Decoded { batch, rejects: unread, .. } = decoder.decode(&block.of_keys(&rows));
            of_key = batch.rows.columns().to_vec();
            rows = batch.positions.iter().filter_map(|at| block.positions.binary_search(at).ok()).collect();
            for Reject { position, column, message, .. } in unread {
                let Some(row) = block.row_of(position) else { continue };
                rejects.push(reject(
                    block,
                    row,
                    &column,
                    &format!("its key is not one of this pipeline: {message}"),
                ));
            }
        }
        let mut filled = fresh(&self.patterns, rows.len());
        let mut kept = Vec::with_capacity(rows.len());
        for (nth, row) in rows.iter().enumerate() {
            match self.push(&mut filled, block, *row) {
                Ok(()) => kept.push(nth),
                Err((column, why)) => {
                    let partial = filled.iter_mut().filter(|column| column.len() > kept.len());
                    partial.for_each(|column| column.truncate(kept.len()));
                    rejects.push(reject(block, *row, &column, &why));
                }
            }
        }
        let own = finished(filled);
        let arrays = self.fills.iter().zip(own).map(|(fill, own)| match fill {
            Fill::Key(at) => picked(&[&of_key[*at]], kept.iter().map(|row| (0, *row)).collect()),
            Fill::Text | Fill::Time | Fill::Nothing(..) => own,
        });
        let arrays = arrays.collect();
        rejects.sort_by_key(|reject| reject.position);
        (kept.into_iter().map(|nth| rows[nth]).collect(), arrays, rejects)
    }

    /// Why the tombstone cannot become a row, whatever its key says.
    fn objection(&self, block: &RecordBlock, row: usize) -> Option<&'static str> {
        let needs_time = || self.fills.iter().any(|fill| matches!(fill, Fill::Time));
        match block.key(row) {
            None => Some("it has no key that says what it deletes"),
            Some(key) if key.len() > KEY_BYTES_MAX => Some("its key is longer than a megabyte"),
            Some(_) if block.times_ms[row] == TIME_UNKNOWN_MS && needs_time() => Some("it has no timestamp"),
            Some(_) => None,
        }
    }

    /// Appends a row to the columns that are not decoded from a key. After an error some of them may have a value of it.
    fn push(
        &self,
        columns: &mut [Box<dyn TypedColumn>],
        block: &RecordBlock,
        row: usize,
    ) -> Result<(), (String, String)> {
        for (at, (column, fill)) in columns.iter_mut().zip(&self.fills).enumerate() {
            let pushed = match fill {
                Fill::Key(_) => Ok(()),
                Fill::Text => match std::str::from_utf8(block.key(row).unwrap_or_default()) {
                    Ok(text) => column.text(text),
                    Err(_) => Err(columns::Misfit::form("is no UTF-8 text")),
                },
                Fill::Time => column.timestamp(block.times_ms[row], 3),
                Fill::Nothing(Absence::Required, of_type) => least(&mut **column, of_type),
                Fill::Nothing(absence, _) => absence.append(&mut **column),
            };
            pushed.map_err(|misfit| {
                let Column { name, field, .. } = &self.inner.schema().columns()[at];
                let what = match fill {
                    Fill::Text | Fill::Key(_) => "its key",
                    Fill::Time => "its timestamp",
                    Fill::Nothing(..) => "nothing",
                };
                (name.clone(), format!("{what}, which fills `{field}`, {}", misfit.rule))
            })?;
        }
        Ok(())
    }
}

impl fmt::Debug for WithTombstones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithTombstones").field("schema", self.inner.schema()).finish_non_exhaustive()
    }
}

impl Decoder for WithTombstones {
    fn schema(&self) -> &Schema {
        self.inner.schema()
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        let decoded = self.inner.decode(block);
        if block.absent.is_empty() {
            return decoded;
        }
        let Decoded { batch: of_bodies, mut rejects, .. } = decoded;
        rejects.retain(|reject| block.row_of(reject.position).is_none_or(|row| !block.is_absent(row)));
        let (rows, arrays, unread) = self.rows(block);
        rejects.extend(unread);
        rejects.sort_by_key(|reject| reject.position);
        if rows.is_empty() {
            return Decoded { batch: of_bodies, rejects, several: None };
        }
        let batch = together(block, self.schema(), &of_bodies, (&rows, &arrays));
        Decoded { batch, rejects, several: None }
    }
}

#[cold]
fn reject(block: &RecordBlock, row: usize, column: &str, why: &str) -> Reject {
    Reject::of(block, row, Reason::NoBody, column, format!("the record has no body (a tombstone), and {why}"))
}

/// The rows of both in the order of their records.
fn together(
    block: &RecordBlock,
    schema: &Schema,
    of_bodies: &Batch,
    (rows, arrays): (&[usize], &[ArrayRef]),
) -> Batch {
    let (mut from, mut positions, mut times_ms) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bodies, mut tombstones) = (0, 0);
    while bodies < of_bodies.len() || tombstones < rows.len() {
        let next = rows.get(tombstones).map(|row| block.positions[*row]);
        let is_body = of_bodies.positions.get(bodies).is_some_and(|at| next.is_none_or(|next| *at < next));
        if is_body {
            from.push((0, bodies));
            positions.push(of_bodies.positions[bodies]);
            times_ms.push(of_bodies.times_ms[bodies]);
            bodies += 1;
        } else {
            from.push((1, tombstones));
            positions.push(block.positions[rows[tombstones]]);
            times_ms.push(block.times_ms[rows[tombstones]]);
            tombstones += 1;
        }
    }
    let columns = of_bodies.rows.columns().iter().zip(arrays);
    let arrays = columns.map(|(bodies, tombstones)| picked(&[bodies, tombstones], from.clone())).collect();
    let whole = rows::decoded(block, schema, arrays, Vec::new());
    Batch { positions, times_ms, ..whole.batch }
}

fn picked(arrays: &[&ArrayRef], from: Vec<(usize, usize)>) -> ArrayRef {
    let arrays: Vec<&dyn arrow_array::Array> = arrays.iter().map(|array| &***array).collect();
    interleave(&arrays, &from)
        .expect("both are of the type of one column, and a batch holds less than 2 GiB of it")
}

/// Appends what ClickHouse has in a column of the type where nothing was said.
fn least(column: &mut dyn TypedColumn, of_type: &ColumnType) -> Fit<()> {
    use ColumnType as T;
    match of_type.bare() {
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => {
            column.signed(0)
        }
        T::Decimal { .. } => column.signed(0),
        T::Float32 | T::Float64 => column.float(0.0),
        T::Bool => column.boolean(false),
        T::String | T::FixedString(_) => column.text(""),
        T::Json { .. } => column.text("{}"),
        T::Uuid => column.uuid(&[0; 16]),
        T::Ipv4 => column.text("0.0.0.0"),
        T::Ipv6 => column.text("::"),
        T::Date | T::Date32 => column.date(0),
        T::DateTime { .. } | T::DateTime64 { .. } => column.timestamp(0, 3),
        T::Enum8(names) => column.text(names.iter().min_by_key(|one| one.1).map_or("", |one| &one.0)),
        T::Enum16(names) => column.text(names.iter().min_by_key(|one| one.1).map_or("", |one| &one.0)),
        T::Array(_) | T::Map(..) => column.end(),
        T::Nullable(_) | T::LowCardinality(_) | T::State(_) => column.null(),
    }
}

#[cfg(test)]
mod tests;
