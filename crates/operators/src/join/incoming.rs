//! The rows of one batch on their way into the state.
//!
//! Owns the part that any thread may do ahead of the lane (key hashes, the columns to keep), and the fate of rows that are not taken. Does not own the
//! matching (`store`).

use std::any::Any;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use arrow_select::take::take;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Ahead, Batch, OperatorError, Reason, Reject};

use super::plan::{JoinSide, Plan};
use super::{columns, failed};

/// Event times are less than this before and after 1970: more than a hundred million years, and far from where numbers end.
pub(super) const TIME_MAX_MS: i64 = 1 << 61;

/// What a batch brings, before anything is known of what is held.
pub(super) struct Incoming {
    pub side: JoinSide,
    /// The hash of each row's key.
    pub hashes: Vec<u128>,
    /// Which rows have no null in their key; `None` if none has.
    pub keyed: Option<NullBuffer>,
    /// The stored columns.
    pub columns: Vec<ArrayRef>,
}

/// Rows that are neither late nor rejected.
pub(super) struct Taken {
    pub rows: Incoming,
    pub times_ms: Vec<i64>,
}

/// Whether a time can be compared with others.
pub(super) fn is_usable(time_ms: i64) -> bool {
    time_ms > -TIME_MAX_MS && time_ms < TIME_MAX_MS
}

/// Makes [`Incoming`] of the batches of one side.
pub(super) struct OfSide {
    pub plan: Arc<Plan>,
    pub side: JoinSide,
}

impl Ahead for OfSide {
    fn apply(&self, batch: &Batch) -> Result<Box<dyn Any + Send>, OperatorError> {
        Incoming::of(&self.plan, self.side, batch)
            .map(|rows| Box::new(rows) as Box<dyn Any + Send>)
            .map_err(failed)
    }
}

impl Incoming {
    /// What a batch of `side` brings.
    ///
    /// # Errors
    /// When a column is missing or of another form.
    pub fn of(plan: &Plan, side: JoinSide, batch: &Batch) -> Result<Self, String> {
        let of_side = plan.side(side);
        let mut hashes = Vec::new();
        of_side.keyer.hash(&batch.rows, &mut hashes).map_err(|error| error.to_string())?;
        let key = of_side.keyer.columns().iter().map(|column| batch.rows.column_by_name(&column.name));
        let keyed = NullBuffer::union_many(key.map(|column| column.and_then(|column| column.nulls())));
        let stored = of_side.columns.iter().map(|wanted| {
            let found = batch.rows.column_by_name(&wanted.name);
            let found =
                found.ok_or_else(|| format!("the {} side has no column `{}`", side.word(), wanted.name))?;
            let is_text = wanted.form == DataType::Utf8 && *found.data_type() == DataType::Binary;
            if *found.data_type() != wanted.form && !is_text {
                return Err(format!(
                    "the column `{}` of the {} side came as `{}`, expected `{}`",
                    wanted.name,
                    side.word(),
                    found.data_type(),
                    wanted.form
                ));
            }
            columns::compact(found.clone()).map_err(|error| error.to_string())
        });
        Ok(Self { side, hashes, keyed, columns: stored.collect::<Result<_, _>>()? })
    }

    /// These rows of it, ascending.
    ///
    /// # Errors
    /// When a column cannot be taken apart.
    pub fn take(&self, kept: &[u32]) -> Result<Self, String> {
        let numbers = UInt32Array::from(kept.to_vec());
        let taken = |column: &ArrayRef| take(column.as_ref(), &numbers, None).map_err(|e| e.to_string());
        Ok(Self {
            side: self.side,
            hashes: kept.iter().map(|row| self.hashes[*row as usize]).collect(),
            keyed: self.keyed.as_ref().map(|keyed| {
                let bits: Vec<bool> = kept.iter().map(|row| keyed.is_valid(*row as usize)).collect();
                NullBuffer::from(bits)
            }),
            columns: self.columns.iter().map(taken).collect::<Result<_, _>>()?,
        })
    }
}

/// What becomes of a batch.
pub(super) struct Sorted {
    pub taken: Taken,
    pub late: u64,
    pub rejects: Vec<Reject>,
}

/// Sets aside what is late or has no usable time.
///
/// # Errors
/// When a column cannot be taken apart.
pub(super) fn sort(floor_ms: i64, batch: Batch, rows: Incoming) -> Result<Sorted, String> {
    let is_taken = |time_ms: i64| is_usable(time_ms) && time_ms >= floor_ms;
    // Mostly every row is, and nothing is moved.
    if batch.times_ms.iter().all(|time_ms| is_taken(*time_ms)) {
        let taken = Taken { rows, times_ms: batch.times_ms };
        return Ok(Sorted { taken, late: 0, rejects: Vec::new() });
    }
    let (mut kept, mut times_ms) = (Vec::new(), Vec::new());
    let (mut late, mut rejects) = (0, Vec::new());
    for (row, time_ms) in batch.times_ms.iter().copied().enumerate() {
        if !is_usable(time_ms) {
            rejects.push(reject(&batch, row, time_ms));
        } else if time_ms < floor_ms {
            late += 1;
        } else {
            kept.push(row as u32);
            times_ms.push(time_ms);
        }
    }
    Ok(Sorted { taken: Taken { rows: rows.take(&kept)?, times_ms }, late, rejects })
}

fn reject(batch: &Batch, row: usize, time_ms: i64) -> Reject {
    let (reason, message) = if time_ms == TIME_UNKNOWN_MS {
        let message = "the record has no event time: it is NULL, or a number that is no time; so it is in no interval of a join";
        (Reason::Missing, message.to_owned())
    } else {
        (Reason::OutOfRange, format!("the event time `{time_ms}` ms is beyond all intervals of a join"))
    };
    Reject {
        item: batch.item(row),
        partition: batch.partition.clone(),
        position: batch.position(row),
        time_ms,
        reason,
        column: String::new(),
        message,
        key: None,
        headers: Vec::new(),
        raw: Vec::new(),
    }
}
