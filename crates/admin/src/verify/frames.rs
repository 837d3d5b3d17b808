//! The rows of every frame that the journal still knows, by the provenance column.
//!
//! Owns the list of frames that are settled, from the journal's records, and the comparison of their rows with the table's. Does not own
//! the counting in the table (`clickhouse::reconcile`). Frames that were settled before the newest checkpoint are in no record any more;
//! their rows are compared by key only (`verify::expect`).

use std::collections::BTreeMap;

use anyhow::Context;
use clickhouse::reconcile::{HASHES_MAX, TableKeys};
use engine::survey::Pages;
use protocol::record::RECORD_BYTES_MAX;
use protocol::{Lane, Record, names};
use store::Store;

use super::report::{FrameRows, Frames};

/// Frames that are asked for; a journal that holds more has not been retired for long.
const FRAMES_MAX: usize = 200_000;

/// Compares the rows of every settled frame with those that the table has of it; `limit` frames of each kind of difference are named.
///
/// # Errors
/// When the journal or the table cannot be read.
pub async fn compare(
    store: &dyn Store,
    folder: &str,
    table: &str,
    keys: &TableKeys,
    limit: usize,
) -> anyhow::Result<Frames> {
    let expected = settled(store, folder, table).await.context("the journal cannot be read")?;
    let mut found: BTreeMap<u128, u64> = BTreeMap::new();
    let ids: Vec<u128> = expected.keys().copied().collect();
    for ids in ids.chunks(HASHES_MAX) {
        found.extend(keys.frames(ids).await.context("the table cannot be asked for frames")?);
    }
    Ok(judge(&expected, &found, limit))
}

/// Which frames have other than their rows; `limit` of each kind are named.
fn judge(expected: &BTreeMap<u128, u64>, found: &BTreeMap<u128, u64>, limit: usize) -> Frames {
    let mut frames = Frames { known: expected.len() as u64, ..Frames::default() };
    for (id, rows) in expected {
        let there = found.get(id).copied().unwrap_or(0);
        let (count, named) = match there.cmp(rows) {
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Less if there == 0 => (&mut frames.missing.0, &mut frames.missing.1),
            std::cmp::Ordering::Less => (&mut frames.fewer.0, &mut frames.fewer.1),
            std::cmp::Ordering::Greater => (&mut frames.more.0, &mut frames.more.1),
        };
        *count += 1;
        if named.len() < limit {
            named.push(FrameRows { frame: format!("{id:032x}"), rows: there, expected: *rows });
        }
    }
    frames
}

/// The rows of every live piece of a frame that was settled since the newest checkpoint.
async fn settled(store: &dyn Store, folder: &str, table: &str) -> anyhow::Result<BTreeMap<u128, u64>> {
    let floor = engine::ownership::floor(store, folder).await?;
    let mut lane: Option<Lane> = None;
    let mut pending: BTreeMap<u128, u64> = BTreeMap::new();
    let mut settled = BTreeMap::new();
    let mut pages = Pages::new(store, folder, "journal");
    while let Some(page) = pages.next().await? {
        for entry in page {
            let Some(seq) = names::number(entry.key.as_str()).filter(|seq| *seq >= floor) else { continue };
            // Retired meanwhile: what it held is settled, and known to a checkpoint behind it.
            let Some(bytes) = store.get(&entry.key, RECORD_BYTES_MAX).await? else { continue };
            let record = Record::from_bytes(seq, &bytes)?;
            match &mut lane {
                Some(lane) if lane.next_seq == seq => lane.apply(&record)?,
                _ if seq == 0 => {
                    let mut first = Lane::new();
                    first.apply(&record)?;
                    lane = Some(first);
                }
                // The newest checkpoint, or the first record after some were retired.
                _ => {
                    let Ok(first) = Lane::from_checkpoint(&record) else { continue };
                    (lane, pending) = (Some(first), BTreeMap::new());
                }
            }
            let now = lane.as_ref().map(|lane| live(lane, table)).unwrap_or_default();
            let gone = pending.iter().filter(|(id, _)| !now.contains_key(id));
            settled.extend(gone.map(|(id, rows)| (*id, *rows)));
            // A piece that was split or refused was not settled.
            if let Some(lane) = &lane {
                for id in dead(lane, table) {
                    settled.remove(&id);
                }
            }
            pending = now;
            if settled.len() >= FRAMES_MAX {
                return Ok(settled);
            }
        }
    }
    Ok(settled)
}

fn live(lane: &Lane, table: &str) -> BTreeMap<u128, u64> {
    let of_table = lane.tables.iter().filter(|t| t.name == table);
    let pieces = of_table.flat_map(|t| t.pending.iter().flatten()).filter(|piece| piece.is_live());
    pieces.map(|piece| (piece.id(), piece.frame.rows)).collect()
}

/// Pieces that others stand for. One that is settled before an earlier frame is not live any more either, and has its rows.
fn dead<'a>(lane: &'a Lane, table: &'a str) -> impl Iterator<Item = u128> + 'a {
    let of_table = lane.tables.iter().filter(move |t| t.name == table);
    of_table.flat_map(|t| t.pending.iter().flatten()).filter(|piece| piece.dead).map(|piece| piece.id())
}

#[cfg(test)]
mod tests;
