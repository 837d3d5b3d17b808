//! Names for some of what differs: keys in words, and where records and rows stand.
//!
//! Owns how many are named, and the questions for them. Does not own what differs.

use std::collections::BTreeMap;

use anyhow::Context;
use clickhouse::reconcile::{HASHES_MAX, TableKeys};
use protocol::Lane;

use super::super::expect::Differences;
use super::super::place::Place;
use super::super::reading::{DryRun, Ranges, Seen};
use super::super::report::{Kind, Named, Report};
use super::super::spill::Entry;
use super::{Work, partition};

/// Keys of missing rows that are read from the source again, one by one, for their names.
const KEYS_READ_MAX: usize = 20;

impl Work<'_> {
    /// Gives some of the differences their names.
    pub(super) async fn name(
        &self,
        keys: &TableKeys,
        dry: &mut DryRun,
        lane: &Lane,
        differences: &Differences,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let limit = self.limit.min(HASHES_MAX);
        let place = |entry: &Entry| {
            let Place { partition: n, position, .. } = entry.place;
            (format!("{}@{position}", partition(lane, n)), entry.place.item())
        };
        report.missing.keys = differences.missing.len() as u64;
        for (n, (hash, (expected, rows))) in differences.missing.iter().take(limit).enumerate() {
            let first = expected.first;
            let mut key = None;
            if n < KEYS_READ_MAX {
                let at = Ranges::from([(first.place.partition, first.place.range())]);
                let mut seen = Seen::default();
                // A record may have rows of other keys, too.
                let mut remember = |entry: Entry, text: &[u8]| {
                    if entry.hash == *hash {
                        key = Some(String::from_utf8_lossy(text).into_owned());
                    }
                    Ok(())
                };
                dry.read(lane, &at, &mut seen, &mut remember).await?;
            }
            let (source, item) = place(&first);
            report.missing.named.push(Named {
                key,
                hash: *hash,
                rows: *rows,
                rows_max: expected.most,
                source: Some(source),
                item,
                frames: Vec::new(),
            });
        }
        let duplicate = differences.duplicate.iter().map(|(h, (e, _))| (*h, e.most, Some(place(&e.first))));
        report.duplicate = named(keys, duplicate.take(limit).collect(), differences.duplicate.len()).await?;
        let different = differences.different.iter().map(|(h, (e, _))| (*h, 0, Some(place(e))));
        report.different = named(keys, different.take(limit).collect(), differences.different.len()).await?;
        let foreign = differences.foreign.keys().map(|hash| (*hash, 0, None));
        report.foreign = named(keys, foreign.take(limit).collect(), differences.foreign.len()).await?;
        Ok(())
    }
}

/// A hash, the rows that its key may have, and the place of a record of it: words and the item.
type Found = (u64, u64, Option<(String, Option<u32>)>);

async fn named(keys: &TableKeys, some: Vec<Found>, all: usize) -> anyhow::Result<Kind> {
    let hashes: Vec<u64> = some.iter().map(|(hash, _, _)| *hash).collect();
    let found = keys.named(&hashes).await.context("the table cannot be asked for keys")?;
    let texts: BTreeMap<u64, (u64, String)> =
        found.into_iter().map(|(h, rows, text)| (h, (rows, text))).collect();
    let found = keys.frames_of(&hashes).await.context("the table cannot be asked for frames")?;
    let mut frames: BTreeMap<u64, Vec<String>> = found.into_iter().collect();
    let named = some.into_iter().map(|(hash, rows_max, place)| {
        let (source, item) = place.map_or((None, None), |(source, item)| (Some(source), item));
        let text = texts.get(&hash);
        let (key, rows) = (text.map(|t| t.1.clone()), text.map_or(0, |t| t.0));
        Named { key, hash, rows, rows_max, source, item, frames: frames.remove(&hash).unwrap_or_default() }
    });
    Ok(Kind { keys: all as u64, named: named.collect() })
}
