//! Which records of the source are read: up to where the pipeline is, and again once the table was asked.
//!
//! Owns the ranges, and what a second reading explains of the differences. Does not own the reading itself ([`DryRun`]).

use dataflow::position;
use std::collections::BTreeMap;

use anyhow::{Context, bail};
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Partition, PartitionStart, Position, ReadFrom};
use protocol::Lane;
use store::Store;

use super::super::Bound;
use super::super::expect::{Differences, Rule};
use super::super::reading::{DryInput, DryRun, Ranges, Seen};
use super::super::report::Report;
use super::super::spill::{Entry, Spill};
use super::Work;

/// How often the range is taken further to where the pipeline has come meanwhile.
const ROUNDS_MAX: u32 = 4;

/// Records by which the pipeline may be ahead when the table is asked: at most so many keys are then checked twice.
const AHEAD_MAX: u64 = 100_000;

/// What the source shows now, under the names and identities that the lane has read: files may have been renamed, rotated or have
/// gone since.
async fn starts(inputs: &[DryInput], lane: &Lane) -> anyhow::Result<Vec<PartitionStart>> {
    let mut all = Vec::new();
    for DryInput { number, source, .. } in inputs {
        let known = lane.reading().filter(|(_, p)| p.input == *number).map(|(_, p)| ReadFrom {
            partition: Partition::new(p.stream.as_str(), p.index).of_input(p.input),
            identity: p.identity.clone(),
            next: p.next,
            leader_epoch: if p.leader_epoch < 0 { NO_LEADER_EPOCH } else { p.leader_epoch },
        });
        let shown = source.partitions().await.context("the source does not answer")?;
        let known = source.recognize(shown, known.collect()).await;
        all.extend(known.context("the source is not the one that was read")?);
    }
    Ok(all)
}

/// That the messages of a partition of Pulsar are not compared, and what of the pipeline can be.
fn not_compared(lane: &Lane, partition: &Partition) -> String {
    let what = format!(
        "`verify` does not compare messages of Pulsar with the table, as those of `{partition}`: their positions have ledgers"
    );
    // All partitions of an input are of one source.
    let other = lane.reading().find(|(_, p)| p.input != partition.input && position::plain(p.next).is_some());
    match other {
        Some((_, p)) => format!(
            "{what}; name the partitions of the other inputs, and only they are compared: `--from {}/{}:0`",
            p.stream, p.index
        ),
        None => format!(
            "{what}; `forebay status FILE` has the counts of all records that were read, and what became of them"
        ),
    }
}

impl Work<'_> {
    /// Reads up to where the pipeline has sealed, and again what it has sealed meanwhile, until it is hardly ahead.
    pub(super) async fn read(
        &self,
        store: &dyn Store,
        dry: &mut DryRun,
        spill: &mut Spill,
        seen: &mut Seen,
        report: &mut Report,
    ) -> anyhow::Result<(Lane, Ranges)> {
        let starts = starts(&dry.inputs, &self.lane(store).await?).await?;
        let mut done: BTreeMap<u32, Position> = BTreeMap::new();
        let mut lane = self.lane(store).await?;
        for round in 1.. {
            let (ranges, gone) = self.ranges(&lane, &starts)?;
            let fresh: Ranges = ranges
                .iter()
                .map(|(n, (from, to))| (*n, (done.get(n).copied().unwrap_or(*from), *to)))
                .collect();
            let all: u64 = ranges.values().filter_map(|(from, to)| position::between(*from, *to)).sum();
            self.progress.begin("reading the source (positions)");
            self.progress.length(all);
            let progress = self.progress.clone();
            dry.read(&lane, &fresh, seen, &mut |entry, _| {
                spill.push(&entry).context("temporary files cannot be written; name a `--scratch` folder")?;
                if spill.len().is_multiple_of(8_192) {
                    progress.done(spill.len());
                }
                Ok(())
            })
            .await?;
            done = ranges.iter().map(|(n, (_, to))| (*n, *to)).collect();
            let newer = self.lane(store).await?;
            let ahead: u64 = self
                .ranges(&newer, &starts)?
                .0
                .iter()
                .filter_map(|(n, (from, to))| position::between(done.get(n).copied().unwrap_or(*from), *to))
                .sum();
            if round == ROUNDS_MAX || ahead <= AHEAD_MAX {
                report.notes.extend(gone.iter().map(|partition| {
                    format!(
                        "the source does not have `{partition}` any more; what was read of it is not compared"
                    )
                }));
                return Ok((lane, ranges));
            }
            lane = newer;
        }
        unreachable!("the last round returns")
    }

    /// What to read of each partition of the lane, and the partitions that the source does not have any more.
    fn ranges(&self, lane: &Lane, starts: &[PartitionStart]) -> anyhow::Result<(Ranges, Vec<Partition>)> {
        let bounds = |bounds: &[Bound], partition: &Partition| {
            let position = bounds.iter().find_map(|bound| match bound {
                Bound::Position { stream, index, position }
                    if **stream == *partition.stream && *index == partition.index =>
                {
                    Some(*position)
                }
                Bound::Position { .. } | Bound::Time(_) => None,
            });
            let by_position = bounds.iter().any(|bound| matches!(bound, Bound::Position { .. }));
            (position, by_position)
        };
        let (mut ranges, mut gone) = (Ranges::new(), Vec::new());
        // What has left the pipeline cannot be read by its file.
        for (n, p) in lane.reading() {
            let partition = Partition::new(p.stream.as_str(), p.index).of_input(p.input);
            let ((from, some_from), (to, some_to)) =
                (bounds(self.from, &partition), bounds(self.to, &partition));
            if from.is_none() && to.is_none() && (some_from || some_to) {
                continue;
            }
            let first = starts.iter().find(|s| s.partition == partition).map(|s| s.first);
            // A file that was read to its end may go, and so may a topic that a later start gives up.
            let Some(first) = first else {
                if from.is_none() && to.is_none() {
                    gone.push(partition);
                    continue;
                }
                bail!("the source does not have `{partition}` any more, so it cannot be read again");
            };
            if let Some(from) = from.map(Position::from).filter(|from| *from < first) {
                bail!("the source holds `{partition}` from {first} on, not from {from}");
            }
            let to = to.map_or(p.next, |to| p.next.min(to.into()));
            let from = from.map_or(first, Position::from);
            if position::plain(from).and(position::plain(to)).is_none() {
                bail!("{}", not_compared(lane, &partition));
            }
            ranges.insert(n as u32, (from, to));
        }
        if ranges.is_empty() && !gone.is_empty() {
            bail!("the source does not have `{}` any more, so it cannot be read again", gone[0]);
        }
        if ranges.is_empty() {
            bail!("no partition of the pipeline is named by `--from` and `--to`");
        }
        Ok((ranges, gone))
    }

    /// Strikes out keys of a range whose further rows are of records that stand elsewhere in the source.
    pub(super) async fn look_elsewhere(
        &self,
        store: &dyn Store,
        dry: &mut DryRun,
        rule: Rule,
        differences: &mut Differences,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        if differences.duplicate.is_empty() || matches!(rule, Rule::OneEver | Rule::Newest) {
            return Ok(());
        }
        self.progress.begin("reading all of the source (positions)");
        // After the table was asked, so that no row is newer than what is read.
        let newest = self.lane(store).await?;
        let starts = starts(&dry.inputs, &newest).await?;
        let all = newest.partitions.iter().enumerate().map(|(n, p)| {
            let first =
                starts.iter().find(|s| p.is(s.partition.input, &s.partition.stream, s.partition.index));
            (n as u32, (first.map_or(p.next, |s| s.first), p.next))
        });
        let all: Ranges = all.collect();
        let times = std::mem::take(&mut dry.times);
        let nameless = std::mem::take(&mut dry.nameless);
        let mut seen = Seen::default();
        let mut records: BTreeMap<u64, u64> = differences.duplicate.keys().map(|hash| (*hash, 0)).collect();
        let mut count = |entry: Entry, _: &[u8]| {
            if let Some(records) = records.get_mut(&entry.hash) {
                *records += 1;
            }
            Ok(())
        };
        let result = dry.read(&newest, &all, &mut seen, &mut count).await;
        dry.times = times;
        dry.nameless = nameless;
        result?;
        if seen.records < newest.counts.read {
            report.duplicates_untold = true;
            differences.duplicate.clear();
            report.notes.push(
                "some keys have more rows than records in the range, and the source does not hold all that could explain them any \
                 more: duplicates are not told"
                    .into(),
            );
        }
        differences.retain_beyond(rule, &records);
        Ok(())
    }

    /// Strikes out what the pipeline has written since: rows of records beyond the range, up to what is sealed by now. Gives
    /// back the lane as it is then.
    pub(super) async fn look_again(
        &self,
        store: &dyn Store,
        dry: &mut DryRun,
        (lane, ranges): (&Lane, &Ranges),
        (differences, rule): (&mut Differences, Rule),
        is_all: bool,
    ) -> anyhow::Result<Lane> {
        let newest = self.lane(store).await?;
        if differences.foreign.is_empty()
            && differences.duplicate.is_empty()
            && differences.different.is_empty()
            && (differences.missing.is_empty() || rule != Rule::Newest)
        {
            return Ok(newest);
        }
        self.progress.begin("reading on (positions)");
        let starts = starts(&dry.inputs, &newest).await?;
        let mut newer = Ranges::new();
        for (n, p) in newest.partitions.iter().enumerate() {
            let n = n as u32;
            let first =
                starts.iter().find(|s| p.is(s.partition.input, &s.partition.stream, s.partition.index));
            let from = match ranges.get(&n) {
                Some((_, to)) => *to,
                None if lane.partitions.len() as u32 <= n => first.map_or(p.next, |s| s.first),
                None => continue,
            };
            newer.insert(n, (from, p.next));
        }
        let times = std::mem::take(&mut dry.times);
        let mut seen = Seen::default();
        let mut strike = |entry: Entry, _: &[u8]| {
            differences.foreign.remove(&entry.hash);
            // A newer record of the key may be the row's, which is not looked into once more.
            differences.different.remove(&entry.hash);
            if rule == Rule::Newest {
                // It may have deleted the key, or brought it back.
                differences.missing.remove(&entry.hash);
                differences.duplicate.remove(&entry.hash);
            }
            // Of a range, all records of the key are counted already.
            if let Some((expected, rows)) = differences.duplicate.get_mut(&entry.hash).filter(|_| is_all) {
                expected.most += 1;
                if *rows <= expected.most {
                    differences.duplicate.remove(&entry.hash);
                }
            }
            Ok(())
        };
        let result = dry.read(&newest, &newer, &mut seen, &mut strike).await;
        dry.times = times;
        result?;
        Ok(newest)
    }
}
