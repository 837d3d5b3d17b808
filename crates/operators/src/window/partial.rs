//! The aggregates of one batch, by window: what the decode job makes of it, before anything is known of what came before.
//!
//! Owns the dealing out of rows to windows and groups. Does not own the decision whether a window is still open: that is the lane's.

use std::collections::BTreeMap;

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Reason, Reject};

use super::Plan;
use super::accumulator::Rows;
use super::groups::Groups;

/// What a batch is to the step.
pub(super) struct Partial {
    /// The groups of each window, the earliest first.
    pub windows: Vec<(i64, Groups)>,
    /// Rows without a usable time.
    pub rejects: Vec<Reject>,
}

/// The rows of one window.
struct Part {
    start: i64,
    groups: Groups,
    rows: Vec<u32>,
    of: Vec<u32>,
}

impl Partial {
    /// The groups of a batch's rows.
    ///
    /// # Errors
    /// When a column is missing or of another form.
    pub fn of(plan: &Plan, batch: &Batch) -> Result<Self, String> {
        let keys = plan.keys.encode(&batch.rows)?;
        let (mut parts, mut by_start) = (Vec::<Part>::new(), BTreeMap::<i64, usize>::new());
        let mut rejects = Vec::new();
        // Most rows lie in the window of the row before.
        let mut newest: Option<(i64, i64, usize)> = None;
        for (row, time_ms) in batch.times_ms.iter().enumerate() {
            let at = match newest {
                Some((start, end, at)) if *time_ms >= start && *time_ms < end => at,
                _ => {
                    let Some(start) = plan.start(*time_ms) else {
                        rejects.push(reject(batch, row, *time_ms));
                        continue;
                    };
                    let at = *by_start.entry(start).or_insert_with(|| {
                        let groups = Groups::new(&plan.keys, &plan.aggregates);
                        parts.push(Part { start, groups, rows: Vec::new(), of: Vec::new() });
                        parts.len() - 1
                    });
                    newest = Some((start, start + plan.size_ms, at));
                    at
                }
            };
            let part = &mut parts[at];
            part.rows.push(row as u32);
            part.of.push(part.groups.group_of(&keys, row));
        }
        parts.sort_by_key(|part| part.start);
        let mut windows = Vec::with_capacity(parts.len());
        for Part { start, mut groups, rows, of } in parts {
            let rows = Rows { rows: &rows, groups: &of, times_ms: &batch.times_ms };
            groups.update(&batch.rows, &plan.aggregates, rows)?;
            windows.push((start, groups));
        }
        Ok(Self { windows, rejects })
    }
}

fn reject(batch: &Batch, row: usize, time_ms: i64) -> Reject {
    let message = if time_ms == TIME_UNKNOWN_MS {
        "the record has no event time, so it belongs to no window".to_owned()
    } else {
        format!("the event time `{time_ms}` ms is beyond all windows")
    };
    Reject {
        partition: batch.partition.clone(),
        position: batch.positions[row],
        time_ms,
        reason: if time_ms == TIME_UNKNOWN_MS { Reason::Missing } else { Reason::OutOfRange },
        column: String::new(),
        message,
        key: None,
        headers: Vec::new(),
        raw: Vec::new(),
    }
}
