//! The records of the simulated broker, and how they look on their way: as text, as columns, as the bytes of a frame.
//!
//! Owns all three forms, so that the oracle can read what the engine wrote. Does not own which records there are (`plan`).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
use dataflow::{Batch, Column, ColumnType, Decoded, Decoder, Reason, RecordBlock, Reject, Schema};

use crate::items;
use crate::route::SECOND;

/// Bytes before the rows of a frame's body: the frame's name, as the provenance column would hold it.
const HEAD_BYTES: usize = 16;

/// One record as the broker holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the partition.
    pub position: u64,
    /// Unique in the whole run: what the oracle counts.
    pub id: u64,
    /// What `dedup` compares.
    pub key: u64,
    /// Its time, Unix milliseconds.
    pub time_ms: i64,
    /// False if its bytes are no record at all.
    pub is_good: bool,
}

/// One row of a frame: `(id, key, time)` in the table, `(id, reason, position)` among the dead letters.
pub type Row = [u64; 3];

impl Record {
    /// The bytes that the broker hands out.
    pub fn payload(&self) -> String {
        if self.is_good {
            format!("{} {} {}", self.id, self.key, self.time_ms)
        } else {
            format!("!{}", self.id)
        }
    }

    /// The record whose [`Record::payload`] this is; a bad one tells neither its key nor its time.
    pub fn of_payload(payload: &[u8], position: u64, time_ms: i64) -> Option<Self> {
        match parse(payload) {
            Some([id, key, time]) => Some(Self { position, id, key, time_ms: time as i64, is_good: true }),
            None => {
                let id = std::str::from_utf8(payload).ok()?.strip_prefix('!')?.parse().ok()?;
                Some(Self { position, id, key: 0, time_ms, is_good: false })
            }
        }
    }
}

/// The columns of the table.
pub fn schema() -> Schema {
    Schema::new(vec![
        Column::new("id", ColumnType::UInt64),
        Column::new("key", ColumnType::UInt64),
        Column::new("time", ColumnType::Int64),
    ])
}

/// Rows as columns of [`schema`].
pub fn to_columns(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r[0]))),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r[1]))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r[2] as i64))),
    ];
    RecordBatch::try_new(schema().arrow().clone(), columns).expect("the columns are those of the schema")
}

/// Columns of [`schema`] as rows.
pub fn from_columns(batch: &RecordBatch) -> Vec<Row> {
    let ids = batch.column(0).as_primitive::<UInt64Type>();
    let keys = batch.column(1).as_primitive::<UInt64Type>();
    let times = batch.column(2).as_primitive::<Int64Type>();
    (0..batch.num_rows()).map(|n| [ids.value(n), keys.value(n), times.value(n) as u64]).collect()
}

/// Dead letters as rows: the record is known by the first number in its raw text, and the item by the letter's header. The text of a row has both in its number.
pub fn from_dead_letters(batch: &RecordBatch) -> Vec<Row> {
    let column = |name: &str| batch.column_by_name(name).expect("a column of the dead letters");
    let reasons = column("reason").as_string::<i32>();
    let positions = column("position").as_primitive::<UInt64Type>();
    let raw = column("raw");
    let text = |n: usize| -> &[u8] {
        match raw.as_binary_opt::<i32>() {
            Some(bytes) => bytes.value(n),
            None => raw.as_string::<i32>().value(n).as_bytes(),
        }
    };
    let added = items::added_by_headers(batch);
    let id = |n: usize| match first_number(text(n)) {
        record if record < SECOND => record + added[n],
        row => row,
    };
    (0..batch.num_rows()).map(|n| [id(n), reason_code(reasons.value(n)), positions.value(n)]).collect()
}

/// A number for each reason that the oracle tells apart.
pub fn reason_code(word: &str) -> u64 {
    match word {
        "malformed" => 1,
        "late" => 2,
        "refused" => 3,
        _ => 0,
    }
}

fn first_number(text: &[u8]) -> u64 {
    let digits = text.iter().skip_while(|b| !b.is_ascii_digit()).take_while(|b| b.is_ascii_digit());
    digits.fold(0, |n, b| n * 10 + u64::from(b - b'0'))
}

/// The body of a frame.
pub fn to_body(id: u128, rows: &[Row]) -> Vec<u8> {
    let mut body = Vec::with_capacity(HEAD_BYTES + rows.len() * 24);
    body.extend_from_slice(&id.to_le_bytes());
    rows.iter().flatten().for_each(|n| body.extend_from_slice(&n.to_le_bytes()));
    body
}

/// The name and the rows in a frame's body.
pub fn from_body(body: &[u8]) -> Option<(u128, Vec<Row>)> {
    let (head, rows) = body.split_first_chunk::<HEAD_BYTES>()?;
    let (rows, rest) = rows.as_chunks::<24>();
    let number = |row: &[u8; 24], n: usize| {
        u64::from_le_bytes(row[n * 8..n * 8 + 8].try_into().expect("eight bytes of 24"))
    };
    let rows = rows.iter().map(|row| [number(row, 0), number(row, 1), number(row, 2)]).collect();
    rest.is_empty().then_some((u128::from_le_bytes(*head), rows))
}

/// Reads `id key time`; anything else is a reject.
pub struct TextDecoder(pub Schema);

impl Decoder for TextDecoder {
    fn schema(&self) -> &Schema {
        &self.0
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        let (mut rows, mut positions, mut times_ms, mut rejects) = (vec![], vec![], vec![], vec![]);
        for n in 0..block.len() {
            match parse(block.payloads.get(n)) {
                Some(row) => {
                    rows.push(row);
                    positions.push(block.positions[n]);
                    times_ms.push(block.times_ms[n]);
                }
                None => rejects.push(Reject::of(block, n, Reason::Malformed, "id", "not a record".into())),
            }
        }
        let batch = Batch {
            items: Vec::new(),
            era: block.era,
            partition: block.partition.clone(),
            rows: to_columns(&rows),
            positions,
            times_ms,
        };
        Decoded { batch, rejects, several: None }
    }
}

fn parse(payload: &[u8]) -> Option<Row> {
    let mut words = std::str::from_utf8(payload).ok()?.split(' ');
    let row = [words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?];
    words.next().is_none().then_some(row)
}
