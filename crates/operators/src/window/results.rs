//! From closed windows to rows of the table.
//!
//! Owns the columns of results, and the dead letter of a result that its type does not hold. Does not own when a window is closed.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, UInt32Type};
use arrow_array::{Array, ArrayRef, Int8Array, RecordBatch, TimestampMillisecondArray, UInt64Array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::Field;
use dataflow::types::EnumName;
use dataflow::{Batch, Column, ColumnType, OperatorError, Output, Partition, Position, Reason, Reject};

use super::accumulator::{Accumulators, states};
use super::groups::Groups;
use super::plan::Plan;
use super::{NAME, failed, values};

/// Bytes of keys and aggregates that one batch of results is made of, at the most: a column of texts, arrays or states ends at 2 GiB. Tests do with less.
const BATCH_BYTES_MAX: usize = if cfg!(test) { 16 << 20 } else { 1 << 30 };

/// Windows that are closed: a result for each key.
pub(super) struct Closed<'a> {
    /// The key of each.
    pub keys: Vec<&'a [u8]>,
    /// The first instant of each.
    pub starts: Vec<i64>,
    /// The instant after its last.
    pub ends: Vec<i64>,
    /// Rows of each.
    pub counts: &'a [u64],
    /// The aggregates of all of them.
    pub accumulators: &'a Accumulators,
    /// Rows that are not held any more.
    pub released: u64,
    /// Their versions, where results come before a window is closed.
    pub versions: Versions<'a>,
    /// Whether these were written before and are taken back.
    pub are_taken_back: bool,
}

/// The versions of results.
#[derive(Clone, Copy)]
pub(super) enum Versions<'a> {
    /// All have the same.
    Same(u64),
    /// One for each.
    Each(&'a [u64]),
}

impl<'a> Closed<'a> {
    /// One window of all keys.
    pub fn of_window((start, end): (i64, i64), groups: &'a Groups, released: u64) -> Self {
        let len = groups.len();
        Self {
            keys: (0..len).map(|group| groups.key(group)).collect(),
            starts: vec![start; len],
            ends: vec![end; len],
            counts: &groups.counts,
            accumulators: &groups.accumulators,
            released,
            versions: Versions::Same(0),
            are_taken_back: false,
        }
    }

    /// The same with a version.
    pub fn with_version(self, version: u64) -> Self {
        Self { versions: Versions::Same(version), ..self }
    }

    /// What was written of a window and does not hold any more; the seals of `groups` are the versions.
    pub fn taken_back(bounds: (i64, i64), groups: &'a Groups) -> Self {
        let versions = Versions::Each(groups.seals());
        Self { versions, are_taken_back: true, ..Self::of_window(bounds, groups, 0) }
    }

    /// Bytes of their keys and aggregates.
    fn bytes(&self) -> usize {
        self.keys.iter().map(|key| key.len()).sum::<usize>() + self.accumulators.memory_bytes()
    }

    /// Some of them, with their aggregates. The rows are released with the last ones.
    fn part<'b>(&'b self, range: Range<usize>, accumulators: &'b Accumulators) -> Closed<'b> {
        Closed {
            keys: self.keys[range.clone()].to_vec(),
            starts: self.starts[range.clone()].to_vec(),
            ends: self.ends[range.clone()].to_vec(),
            counts: &self.counts[range.clone()],
            accumulators,
            released: if range.end == self.keys.len() { self.released } else { 0 },
            versions: match self.versions {
                Versions::Same(version) => Versions::Same(version),
                Versions::Each(versions) => Versions::Each(&versions[range]),
            },
            are_taken_back: self.are_taken_back,
        }
    }
}

impl Plan {
    /// The results of what was closed, in as many batches as their size takes.
    ///
    /// # Errors
    /// As [`results`](Self::results).
    pub fn all_results(&self, closed: &Closed<'_>, outputs: &mut Vec<Output>) -> Result<(), OperatorError> {
        let (len, bytes) = (closed.keys.len(), closed.bytes());
        if len < 2 || bytes <= BATCH_BYTES_MAX {
            outputs.push(self.results(closed)?);
            return Ok(());
        }
        // Of half the size each, for keys differ in theirs. One is copied at a time.
        let parts = (bytes / (BATCH_BYTES_MAX / 2) + 1).min(len);
        let each = len.div_ceil(parts);
        for first in (0..len).step_by(each) {
            let range = first..len.min(first + each);
            let moves: Vec<(u32, u32)> = range.clone().map(|from| from as u32).zip(0..).collect();
            let mut accumulators = Accumulators::new(&self.aggregates);
            accumulators.grow(range.len());
            accumulators.merge(closed.accumulators, &moves);
            self.all_results(&closed.part(range, &accumulators), outputs)?;
        }
        Ok(())
    }

    /// The same as one batch.
    ///
    /// # Errors
    /// When the columns are none of a batch, or have narrower types than when the records came.
    pub fn results(&self, closed: &Closed<'_>) -> Result<Output, OperatorError> {
        let len = closed.keys.len();
        let mut columns = self.keys.decode(closed.keys.iter().copied()).map_err(narrower)?;
        if let Some(name) = closed.accumulators.beyond(&self.aggregates) {
            return Err(narrower(name));
        }
        for bounds in [&closed.starts, &closed.ends] {
            let bounds = TimestampMillisecondArray::from_iter_values(bounds.iter().copied());
            columns.push(Arc::new(bounds.with_timezone("UTC")));
        }
        let mut too_large: Vec<(usize, Vec<u32>)> = Vec::new();
        let mut results = closed.accumulators.columns(&self.aggregates, closed.counts);
        for bound in &self.aggregates {
            let (column, out) = match bound.keeps_state() {
                true => results.next().expect("one for each aggregate that keeps anything"),
                false if bound.aggregate.is_state => (states::counts(closed.counts), Vec::new()),
                false => {
                    (values::Store::UInt(closed.counts.to_vec()).column(&bound.output, |_| false), Vec::new())
                }
            };
            if !out.is_empty() {
                too_large.push((columns.len(), out));
            }
            columns.push(column);
        }
        if self.has_version() {
            columns.push(Arc::new(match closed.versions {
                Versions::Same(version) => UInt64Array::from_value(version, len),
                Versions::Each(versions) => UInt64Array::from_iter_values(versions.iter().copied()),
            }));
        }
        if self.has_sign() {
            columns.push(Arc::new(Int8Array::from_value(if closed.are_taken_back { -1 } else { 1 }, len)));
        }
        let times_ms: Vec<i64> = closed.ends.iter().map(|end| end - 1).collect();
        let rejects = self.rejects(&too_large, &columns, &times_ms);
        let fields: Vec<Field> = self.output.arrow().fields().iter().map(|field| (**field).clone()).collect();
        // Texts that are not UTF-8 come as Binary, and a result that is a reject has a null.
        let fields: Vec<Field> = fields
            .into_iter()
            .zip(&columns)
            .map(|(field, column)| {
                let is_nullable = field.is_nullable() || column.null_count() > 0;
                field.with_data_type(column.data_type().clone()).with_nullable(is_nullable)
            })
            .collect();
        let rows = RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns)
            .map_err(|error| failed(error.to_string()))?;
        let batch = Batch {
            items: Vec::new(),
            era: 0,
            partition: Partition::new(format!("@{NAME}"), 0),
            rows,
            positions: (0..len as u64).collect(),
            times_ms,
        };
        let dropped: Vec<usize> = rejects.iter().map(|reject| reject.position as usize).collect();
        let batch = batch.without(&dropped).map_err(|error| failed(error.to_string()))?;
        if closed.are_taken_back {
            // One that its type did not hold was not written, so nothing takes it back.
            return Ok(Output { added: batch.len() as u64, ..Output::all(batch) });
        }
        Ok(Output { added: len as u64, released: closed.released, rejects, ..Output::all(batch) })
    }

    /// The results with a sum that its type does not hold.
    fn rejects(
        &self,
        too_large: &[(usize, Vec<u32>)],
        columns: &[ArrayRef],
        times_ms: &[i64],
    ) -> Vec<Reject> {
        let mut rejects: BTreeMap<u32, Reject> = BTreeMap::new();
        for (column, rows) in too_large {
            let name = &self.output.columns()[*column].name;
            for row in rows {
                rejects.entry(*row).or_insert_with(|| Reject { item: None,
                    partition: Partition::new(format!("@{NAME}"), 0),
                    position: Position::from(*row),
                    time_ms: times_ms[*row as usize],
                    reason: Reason::OutOfRange,
                    column: name.clone(),
                    message: format!(
                        "the sum `{name}` of a window does not fit its type; sum a Decimal or a Float64; `raw` is the result without it"
                    ),
                    key: None,
                    headers: Vec::new(),
                    raw: self.json(columns, *row as usize).into_bytes(),
                });
            }
        }
        rejects.into_values().collect()
    }

    /// A result as a JSON object.
    fn json(&self, columns: &[ArrayRef], row: usize) -> String {
        let member = |(column, array): (&Column, &ArrayRef)| {
            format!("{}:{}", quoted(&column.name), value(&column.column_type, array, row))
        };
        let members: Vec<String> = self.output.columns().iter().zip(columns).map(member).collect();
        format!("{{{}}}", members.join(","))
    }
}

/// A value that came when its column had a wider type.
fn narrower(name: &str) -> OperatorError {
    failed(format!(
        "an open window holds a value of `{name}` that came when its column had a wider type, and the type that it has now does not hold it; nothing of this \
         batch is sealed, and nothing is lost. Give the column the wider type again (under `fields`, or in the step that computes it), then start again; or \
         start once with `--new-state`, which drops the records of the open windows"
    ))
}

/// A value as JSON: Arrays and Maps as such, for the server takes them from no text, and all others as texts.
fn value(column_type: &ColumnType, array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "null".to_owned();
    }
    match column_type.bare() {
        ColumnType::Array(item) => {
            let items = array.as_list::<i32>().value(row);
            let items: Vec<String> = (0..items.len()).map(|at| value(item, &items, at)).collect();
            format!("[{}]", items.join(","))
        }
        ColumnType::Map(key, item) => {
            let entries = array.as_map().value(row);
            let (keys, items) = (entries.column(0), entries.column(1));
            let entry =
                |at: usize| format!("{}:{}", quoted(&shown(key.bare(), keys, at)), value(item, items, at));
            let entries: Vec<String> = (0..keys.len()).map(entry).collect();
            format!("{{{}}}", entries.join(","))
        }
        bare => quoted(&shown(bare, array, row)),
    }
}

/// A value as the server writes it, where Arrow holds it in another form.
fn shown(bare: &ColumnType, array: &ArrayRef, row: usize) -> String {
    fn name<T: PartialEq + std::fmt::Display>(names: &[EnumName<T>], number: T) -> String {
        let found = names.iter().find(|(_, own)| *own == number);
        found.map_or_else(|| number.to_string(), |(name, _)| name.to_string())
    }
    match bare {
        _ if array.is_null(row) => String::new(),
        ColumnType::Enum8(names) => name(names, array.as_primitive::<Int8Type>().value(row)),
        ColumnType::Enum16(names) => name(names, array.as_primitive::<Int16Type>().value(row)),
        ColumnType::Ipv4 => Ipv4Addr::from(array.as_primitive::<UInt32Type>().value(row)).to_string(),
        ColumnType::FixedString(_) => {
            let text = String::from_utf8_lossy(array.as_fixed_size_binary().value(row));
            text.trim_end_matches('\0').to_owned()
        }
        ColumnType::Ipv6 => match <[u8; 16]>::try_from(array.as_fixed_size_binary().value(row)) {
            Ok(bytes) => Ipv6Addr::from(bytes).to_string(),
            Err(error) => error.to_string(),
        },
        ColumnType::Uuid => {
            let hex: Vec<String> =
                array.as_fixed_size_binary().value(row).iter().map(|byte| format!("{byte:02x}")).collect();
            [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]].map(|part| part.concat()).join("-")
        }
        _ => ArrayFormatter::try_new(array, &FormatOptions::default())
            .map_or_else(|error| error.to_string(), |formatter| formatter.value(row).to_string()),
    }
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            '\0'..='\x1f' => json += &format!("\\u{:04x}", u32::from(c)),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}
