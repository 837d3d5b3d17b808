//! The aggregates of one batch, by pane: what the decode job makes of it, before anything is known of what came before.
//!
//! Owns the dealing out of rows to panes and groups. Does not own the decision whether a window is still open: that is the lane's.

use std::collections::BTreeMap;

use arrow_array::UInt32Array;
use arrow_select::take::take_record_batch;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Reason, Reject};

use super::accumulator::Rows;
use super::groups::Groups;
use super::key::Encoded;
use super::kinds::Spans;
use super::plan::Plan;
use super::sessions::Sessions;
use super::sessions::runs::Look;

/// Parts of a batch whose rows stay where they are: to move them costs about as much as to convert the columns of a few more.
const PARTS_TOGETHER: usize = 4;

/// What a batch is to the step.
pub(super) struct Partial {
    /// What it brings.
    pub parts: Parts,
    /// Rows without a usable time.
    pub rejects: Vec<Reject>,
    /// What it asks of sessions in files: said in the lane.
    pub look: Look,
}

/// What a batch brings, by pane, the earliest first.
pub(super) enum Parts {
    /// Groups of each.
    Panes(Vec<(i64, Groups)>),
    /// Sessions between two times at which all of them end.
    Sessions(Vec<(i64, Sessions)>),
}

/// The rows of one pane.
pub(super) struct Part {
    pub pane: i64,
    pub rows: Vec<u32>,
}

impl Partial {
    /// The groups of a batch's rows.
    ///
    /// # Errors
    /// When a column is missing or of another form.
    pub fn of(plan: &Plan, batch: &Batch) -> Result<Self, String> {
        let keys = plan.keys.encode(&batch.rows)?;
        let (parts, rejects) = deal(plan, batch);
        let parts = match plan.spans {
            Spans::Session { .. } => {
                let of = |part: &Part| Ok((part.pane, Sessions::of(plan, batch, &keys, &part.rows)?));
                Parts::Sessions(parts.iter().map(of).collect::<Result<_, String>>()?)
            }
            Spans::Hopping { .. } | Spans::Cumulative { .. } => {
                let is_apart = parts.len() > PARTS_TOGETHER;
                let of = |part: &Part| Ok((part.pane, groups(plan, batch, &keys, &part.rows, is_apart)?));
                Parts::Panes(parts.iter().map(of).collect::<Result<_, String>>()?)
            }
        };
        Ok(Self { parts, rejects, look: Look::default() })
    }
}

/// The groups of some rows. Columns that are not of the form of a state are converted as a whole, so with many parts each converts its own rows alone, if
/// they are to be taken `apart`.
fn groups(
    plan: &Plan,
    batch: &Batch,
    keys: &Encoded,
    rows: &[u32],
    is_apart: bool,
) -> Result<Groups, String> {
    let mut groups = Groups::new(&plan.keys, &plan.aggregates);
    let of = groups.groups_of(keys, rows);
    if is_apart {
        let own = take_record_batch(&batch.rows, &UInt32Array::from(rows.to_vec()));
        let own = own.map_err(|error| error.to_string())?;
        let times_ms: Vec<i64> = rows.iter().map(|row| batch.times_ms[*row as usize]).collect();
        let rows: Vec<u32> = (0..rows.len() as u32).collect();
        groups.update(&own, &plan.aggregates, Rows { rows: &rows, groups: &of, times_ms: &times_ms })?;
    } else {
        groups.update(
            &batch.rows,
            &plan.aggregates,
            Rows { rows, groups: &of, times_ms: &batch.times_ms },
        )?;
    }
    Ok(groups)
}

/// The rows of each pane, the earliest first, and those that belong to none.
pub(super) fn deal(plan: &Plan, batch: &Batch) -> (Vec<Part>, Vec<Reject>) {
    let (mut parts, mut by_pane) = (Vec::<Part>::new(), BTreeMap::<i64, usize>::new());
    let mut rejects = Vec::new();
    // Most rows lie in the pane of the row before.
    let mut newest: Option<(i64, i64, usize)> = None;
    for (row, time_ms) in batch.times_ms.iter().enumerate() {
        let at = match newest {
            Some((pane, end, at)) if *time_ms >= pane && *time_ms < end => at,
            _ => {
                let Some(pane) = plan.pane_of(*time_ms) else {
                    rejects.push(reject(batch, row, *time_ms));
                    continue;
                };
                let at = *by_pane.entry(pane).or_insert_with(|| {
                    parts.push(Part { pane, rows: Vec::new() });
                    parts.len() - 1
                });
                newest = Some((pane, pane + plan.spans.pane(), at));
                at
            }
        };
        parts[at].rows.push(row as u32);
    }
    parts.sort_by_key(|part| part.pane);
    (parts, rejects)
}

fn reject(batch: &Batch, row: usize, time_ms: i64) -> Reject {
    let message = if time_ms == TIME_UNKNOWN_MS {
        "the record has no event time: it is NULL, or a number that is no time; so it belongs to no window"
            .to_owned()
    } else {
        format!("the event time `{time_ms}` ms is beyond all windows")
    };
    Reject {
        item: batch.item(row),
        partition: batch.partition.clone(),
        position: batch.position(row),
        time_ms,
        reason: if time_ms == TIME_UNKNOWN_MS { Reason::Missing } else { Reason::OutOfRange },
        column: String::new(),
        message,
        key: None,
        headers: Vec::new(),
        raw: Vec::new(),
    }
}
