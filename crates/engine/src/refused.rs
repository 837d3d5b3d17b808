//! A single row that the server does not take, on its way from the delivery to the lane.
//!
//! Owns what is known of the row and the dead letter that it becomes. Does not own how it was found ([`crate::refuse`]) or what the lane does
//! with its keys ([`crate::lane`]).

use arrow_array::RecordBatch;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Duplicates, Partition, Reason, RecordBlock, Reject};
use protocol::record::Refusal;

use crate::origins::Origin;

/// Hands full of refused rows on their way to the lane: a few megabytes each.
pub const REFUSED_AHEAD: usize = 4;

/// A single row that the server does not take.
#[derive(Debug)]
pub struct Refused {
    /// Which piece it was.
    pub refusal: Refusal,
    /// The table that does not take it.
    pub table: String,
    /// The row.
    pub row: RecordBatch,
    /// The row as a JSON object.
    pub json: String,
    /// The server's words.
    pub message: String,
    /// Which record it was; `None` for frames that an earlier program sealed without saying.
    pub source: Option<RefusedFrom>,
}

/// The record of a refused row.
#[derive(Debug)]
pub struct RefusedFrom {
    /// The partition by name.
    pub partition: Partition,
    /// The place in it.
    pub origin: Origin,
    /// The watermark that the steps went by when they let the row pass.
    pub watermark_ms: i64,
    /// The record as the source holds it, or why it cannot be had.
    pub record: Result<RecordBlock, String>,
    /// Which of the partitions that had its name it is, from 1.
    pub nth: u32,
    /// The step that made the row of several records, in place of one record. `partition` is named after it then.
    pub step: Option<String>,
}

impl Refused {
    /// The step that made the row from its state, the so manyth of those with state: no one record is at fault then.
    pub fn step(&self) -> Option<u32> {
        self.source.as_ref()?.origin.step()
    }

    /// The item of its record's array that the row was made of.
    pub fn item(&self) -> Option<u32> {
        self.source.as_ref()?.origin.item
    }

    /// The record that it was made from, if it can be read again.
    pub fn record(&self) -> Option<&RecordBlock> {
        self.source.as_ref()?.record.as_ref().ok()
    }

    /// The row itself, with its record's place and time.
    pub fn batch(&self) -> Batch {
        let place = self.source.as_ref();
        Batch {
            items: place.and_then(|from| from.origin.item).into_iter().collect(),
            era: place.map_or(0, |from| from.origin.era),
            partition: place.map_or_else(|| Partition::new("", 0), |from| from.partition.clone()),
            rows: self.row.clone(),
            positions: vec![place.map_or(0, |from| from.origin.low)],
            times_ms: vec![place.map_or(TIME_UNKNOWN_MS, |from| from.origin.time_ms)],
        }
    }

    /// Gives a row without a time the one that steps with state took it to have: the watermark's.
    pub fn place(&self, batch: &mut Batch) {
        if let (Some(from), [time_ms @ TIME_UNKNOWN_MS]) = (&self.source, batch.times_ms.as_mut_slice()) {
            *time_ms = from.watermark_ms;
        }
    }

    /// The dead letter: the record itself, or if that cannot be had, or has other rows too (`is_of_several`), the row as it was sent, and says so.
    pub fn into_reject(self, duplicates: &Duplicates, is_of_several: bool) -> (Refusal, Reject) {
        let Self { refusal, table, json, mut message, source, .. } = self;
        message += &told_duplicates(duplicates);
        let mut as_sent = |step: &Option<String>, why: &str| {
            message += &match step {
                Some(step) => format!("; `raw` is the row, which the step `{step}` made of several records"),
                None => {
                    format!("; `raw` is the row as it was sent, for its record cannot be read again: {why}")
                }
            };
            std::mem::take(&mut message)
        };
        let nth = source.as_ref().map_or(1, |from| from.nth);
        let reject = match source {
            Some(RefusedFrom { record: Ok(record), .. }) if is_of_several => {
                message += "; `raw` is the row as it was sent, for its record has other rows too";
                Reject { raw: json.into_bytes(), ..Reject::of(&record, 0, Reason::Refused, "", message) }
            }
            Some(RefusedFrom { record: Ok(record), .. }) => {
                Reject::of(&record, 0, Reason::Refused, "", message)
            }
            Some(RefusedFrom { partition, origin, record: Err(why), step, .. }) => {
                let reject = Reject {
                    item: None,
                    partition,
                    position: origin.position(),
                    time_ms: origin.time_ms,
                    reason: Reason::Refused,
                    column: String::new(),
                    message: as_sent(&step, &why),
                    key: None,
                    headers: Vec::new(),
                    raw: json.into_bytes(),
                };
                match origin.item {
                    Some(item) => reject.of_item(item),
                    None => reject,
                }
            }
            None => Reject {
                item: None,
                partition: Partition::new("", 0),
                position: 0,
                time_ms: TIME_UNKNOWN_MS,
                reason: Reason::Refused,
                column: String::new(),
                message: as_sent(&None, "an earlier program sealed it without its place"),
                key: None,
                headers: Vec::new(),
                raw: json.into_bytes(),
            },
        };
        (refusal, reject.of_stream(nth).of_table(&table))
    }
}

/// What a dead letter says of the records that were dropped as its duplicates; nothing if there are none.
pub fn told_duplicates(duplicates: &Duplicates) -> String {
    let Duplicates { count, places } = duplicates;
    if *count == 0 {
        return String::new();
    }
    let others = if *count > places.len() as u64 { ", …" } else { "" };
    let places: Vec<String> = places.iter().map(|(p, n)| format!("`{p}` at `{n}`")).collect();
    format!(
        "; records that came after it and were dropped as its duplicates: `{count}` ({}{others})",
        places.join(", ")
    )
}
