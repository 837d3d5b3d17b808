//! The comparison, step by step.
//!
//! Owns the order of the questions and what is asked twice. Does not own the arithmetic ([`super::expect`]), the reading
//! ([`super::reading`]) or the statements (`clickhouse::reconcile`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clickhouse::reconcile::{BITS_MAX, HASHES_MAX, KeyPlan, TableKeys};
use dataflow::{Partition, PartitionStart, Runtime, Table};
use indicatif::ProgressBar;
use protocol::{Lane, names};
use store::Store;

use super::Bound;
use super::expect::{self, Differences, Expected, Rule};
use super::reading::{DryRun, Ranges, Seen, Times};
use super::report::{Kind, Named, Range, Report};
use super::spill::{Entry, FILES, Spill};
use super::{frames, letters};
use crate::config::model::Pipeline;
use crate::config::values::Window;
use crate::wiring::{self, sink};

/// How often the range is taken further to where the pipeline has come meanwhile.
const ROUNDS_MAX: u32 = 4;

/// Records by which the pipeline may be ahead when the table is asked: so many keys are then looked at twice at the most.
const AHEAD_MAX: u64 = 100_000;

/// Rows in one answer of hashes: 25 bytes each.
const ANSWER_ROWS: u64 = 100_000;

/// Rows of a bucket, more or less.
const BUCKET_ROWS: u64 = 4_096;

/// A question that reads the key columns of a large table takes its time.
pub const QUERY_MAX: Duration = Duration::from_secs(1_800);

/// Keys of missing rows that are read from the source again, one by one, for their names.
const KEYS_READ_MAX: usize = 20;

/// How often the journal is looked at while frames are to settle.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A comparison about to be made.
pub struct Work<'a> {
    /// The pipeline.
    pub pipeline: &'a Pipeline,
    /// Clock and threads.
    pub runtime: Arc<dyn Runtime>,
    /// Where to begin.
    pub from: &'a [Bound],
    /// Where to end.
    pub to: &'a [Bound],
    /// Columns to compare by; empty for the pipeline's own key.
    pub key: &'a [String],
    /// True if the values of the other columns are compared too.
    pub values: bool,
    /// How long to wait until all is settled.
    pub wait: Duration,
    /// Where temporary files go.
    pub scratch: PathBuf,
    /// Rows of each kind to name.
    pub limit: usize,
    /// Where progress is shown.
    pub bar: ProgressBar,
}

impl Work<'_> {
    /// Compares.
    ///
    /// # Errors
    /// When the journal, the source or the table cannot be read, or what is sealed does not settle in time.
    pub async fn compare(self) -> anyhow::Result<Report> {
        let store = self.store().await?;
        let (key, rule) = self.key_and_rule()?;
        let config = sink::target(self.pipeline)?;
        let table = sink::open_once(config.clone(), self.pipeline, &self.runtime).await?;
        let table = table.context("the table cannot be used now; `forebay check --connect` says why")?;
        let schema = wiring::with_fields(table.schema(), self.pipeline)?;
        let plan = KeyPlan::new(&schema, &key).map_err(anyhow::Error::msg)?;
        let server = sink::server_for(&self.pipeline.sink.clickhouse, QUERY_MAX)?;
        let (values, left_out) = match self.values {
            true => KeyPlan::of_the_rest(table.schema(), &key),
            false => (None, Vec::new()),
        };
        let keys = TableKeys::new(server, &config, &plan, self.runtime.clone())?
            .with_values(values.as_ref())
            .with_provenance(table.has_provenance());
        let mut dry = DryRun {
            source: wiring::source_to_look_at(self.pipeline, &self.runtime).await?,
            decoder: wiring::source::decoder(&self.pipeline.source.format, schema.clone())?,
            steps: wiring::steps::steps(self.pipeline, &schema)?,
            key: plan,
            values,
            runtime: self.runtime.clone(),
            times: Times { from: time(self.from), to: time(self.to) },
        };
        let mut report = Report {
            pipeline: self.pipeline.pipeline.to_string(),
            table: table.name().to_owned(),
            key,
            ..Report::default()
        };
        report.values = dry.values.as_ref().map(|plan| plan.names().into_iter().map(String::from).collect());
        report.values_left_out = left_out;

        let mut spill =
            Spill::new(&self.scratch).context("temporary files cannot be made; name a `--scratch` folder")?;
        let mut seen = Seen::default();
        let (lane, ranges) = self.read(&*store, &mut dry, &mut spill, &mut seen).await?;
        self.settled(&*store, &lane).await?;
        self.describe(&lane, &ranges, &seen, &mut report)?;

        let mut differences = self.differences(&keys, rule, &mut spill, &mut report).await?;
        if dry.values.is_some() {
            self.values(&keys, rule, &mut spill, &report, &mut differences).await?;
        }
        if table.has_provenance() {
            self.bar.set_message("counting the rows of frames");
            let folder = names::lane_folder(self.pipeline.pipeline.as_str(), 0);
            report.frames = Some(frames::compare(&*store, &folder, table.name(), &keys, self.limit).await?);
        }
        let letters = letters::read(&self, table.schema(), &lane, &ranges, &seen, &dry.key).await?;
        letters.take_from(&mut differences);
        report.letters = letters.report;
        if !report.is_all {
            self.look_elsewhere(&*store, &mut dry, rule, &mut differences, &mut report).await?;
        }
        let newest =
            self.look_again(&*store, &mut dry, &lane, &ranges, &mut differences, report.is_all).await?;
        report.in_flight = in_flight(&newest);
        report.more = differences.more;
        if !differences.duplicate.is_empty() && matches!(rule, Rule::OnePerWindow(_)) {
            report
                .notes
                .push("with `late: keep`, copies that came very late may rightly be there twice".into());
        }
        self.name(&keys, &mut dry, &lane, &differences, &mut report).await?;
        Ok(report)
    }

    async fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        let store = crate::wiring::storage::open_to_read(self.pipeline).await?;
        store.context("the pipeline has not run yet: there is nothing to compare")
    }

    async fn lane(&self, store: &dyn Store) -> anyhow::Result<Lane> {
        let folder = names::lane_folder(self.pipeline.pipeline.as_str(), 0);
        engine::journal::load(store, &folder)
            .await
            .context("the journal cannot be read; see `forebay store check`")
    }

    /// The columns to compare by, and how copies of a key become rows.
    fn key_and_rule(&self) -> anyhow::Result<(Vec<String>, Rule)> {
        let dedups: Vec<_> = self.pipeline.steps.iter().filter_map(|step| step.dedup.as_ref()).collect();
        let names = |columns: &[_]| columns.iter().map(ToString::to_string).collect::<Vec<String>>();
        let [dedup] = dedups.as_slice() else {
            if dedups.len() > 1 {
                bail!("a pipeline with several `dedup` steps cannot be compared by one key");
            }
            let unique = names(&self.pipeline.sink.clickhouse.unique_key);
            let key = if self.key.is_empty() { unique } else { self.key.to_vec() };
            if key.is_empty() {
                bail!(
                    "there is neither a `dedup` step nor a `unique_key`: name the columns to compare by with `--key`"
                );
            }
            return Ok((key, Rule::EveryCopy));
        };
        let own = names(&dedup.key);
        let same: BTreeSet<&String> = own.iter().collect();
        if !self.key.is_empty() && self.key.iter().collect::<BTreeSet<_>>() != same {
            bail!("rows are deduplicated by {own:?}, so they can only be compared by that");
        }
        let rule = match dedup.window {
            Window::Unbounded => Rule::OneEver,
            Window::Within(period) => {
                Rule::OnePerWindow(i64::try_from(period.duration().as_millis()).unwrap_or(i64::MAX))
            }
        };
        Ok((own, rule))
    }

    /// Reads up to where the pipeline has sealed, and again what it has sealed meanwhile, until it is hardly ahead.
    async fn read(
        &self,
        store: &dyn Store,
        dry: &mut DryRun,
        spill: &mut Spill,
        seen: &mut Seen,
    ) -> anyhow::Result<(Lane, Ranges)> {
        let starts = dry.source.partitions().await.context("the source does not answer")?;
        let mut done: BTreeMap<u32, u64> = BTreeMap::new();
        let mut lane = self.lane(store).await?;
        for round in 1.. {
            let ranges = self.ranges(&lane, &starts)?;
            let fresh: Ranges = ranges
                .iter()
                .map(|(n, (from, to))| (*n, (done.get(n).copied().unwrap_or(*from), *to)))
                .collect();
            let all: u64 = ranges.values().map(|(from, to)| to.saturating_sub(*from)).sum();
            self.bar.set_message("reading the source (positions)");
            self.bar.set_length(all);
            let bar = self.bar.clone();
            dry.read(&lane, &fresh, seen, &mut |entry, _| {
                spill.push(&entry).context("temporary files cannot be written; name a `--scratch` folder")?;
                if spill.len().is_multiple_of(8_192) {
                    bar.set_position(spill.len());
                }
                Ok(())
            })
            .await?;
            done = ranges.iter().map(|(n, (_, to))| (*n, *to)).collect();
            let newer = self.lane(store).await?;
            let ahead: u64 = self
                .ranges(&newer, &starts)?
                .iter()
                .map(|(n, (from, to))| to.saturating_sub(done.get(n).copied().unwrap_or(*from)))
                .sum();
            if round == ROUNDS_MAX || ahead <= AHEAD_MAX {
                return Ok((lane, ranges));
            }
            lane = newer;
        }
        unreachable!("the last round returns")
    }

    /// What to read of each partition of the lane.
    fn ranges(&self, lane: &Lane, starts: &[PartitionStart]) -> anyhow::Result<Ranges> {
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
        let mut ranges = Ranges::new();
        for (n, p) in lane.partitions.iter().enumerate() {
            let partition = Partition::new(p.stream.as_str(), p.index);
            let ((from, some_from), (to, some_to)) =
                (bounds(self.from, &partition), bounds(self.to, &partition));
            if from.is_none() && to.is_none() && (some_from || some_to) {
                continue;
            }
            let first = starts.iter().find(|s| s.partition == partition).map(|s| s.first);
            let Some(first) = first else {
                bail!("the source does not have `{partition}` any more, so it cannot be read again");
            };
            if let Some(from) = from.filter(|from| *from < first) {
                bail!("the source holds `{partition}` from {first} on, not from {from}");
            }
            let to = to.map_or(p.next, |to| to.min(p.next));
            ranges.insert(n as u32, (from.unwrap_or(first), to));
        }
        if ranges.is_empty() {
            bail!("no partition of the pipeline is named by `--from` and `--to`");
        }
        Ok(ranges)
    }

    /// Waits until everything that `lane` has sealed is settled.
    async fn settled(&self, store: &dyn Store, lane: &Lane) -> anyhow::Result<()> {
        self.bar.set_message("waiting for what is sealed");
        let begun = tokio::time::Instant::now();
        loop {
            let now = self.lane(store).await?;
            let open: u64 = lane
                .tables
                .iter()
                .zip(&now.tables)
                .map(|(then, now)| then.next_ordinal.saturating_sub(now.frontier))
                .sum();
            if open == 0 {
                return Ok(());
            }
            if begun.elapsed() >= self.wait {
                bail!(
                    "{open} sealed inserts are not settled after {} s, so their rows may be there or not: start the pipeline \
                     or see `forebay status` for what holds it up, or give a longer `--wait`",
                    self.wait.as_secs()
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn describe(&self, lane: &Lane, ranges: &Ranges, seen: &Seen, report: &mut Report) -> anyhow::Result<()> {
        report.accounts = lane.counts;
        report.records = seen.records;
        report.ranges = ranges
            .iter()
            .map(|(n, (from, to))| Range { partition: partition(lane, *n), from: *from, to: *to })
            .collect();
        if !self.from.is_empty() || !self.to.is_empty() {
            return Ok(());
        }
        match seen.records.cmp(&lane.counts.read) {
            std::cmp::Ordering::Equal => report.is_all = true,
            std::cmp::Ordering::Less => report.notes.push(format!(
                "the source holds {} of the {} records that the pipeline has read; what it holds no more is not compared",
                seen.records, lane.counts.read
            )),
            std::cmp::Ordering::Greater => bail!(
                "the source holds {} records up to where the pipeline has read {}: it did not begin at the oldest; say with \
                 `--from` where to begin",
                seen.records,
                lane.counts.read
            ),
        }
        Ok(())
    }

    /// Compares digests, and then the keys of the buckets that differ.
    async fn differences(
        &self,
        keys: &TableKeys,
        rule: Rule,
        spill: &mut Spill,
        report: &mut Report,
    ) -> anyhow::Result<Differences> {
        report.table_rows = keys.rows().await?;
        let bits = bits_for(spill.len().max(report.table_rows));
        self.bar.set_message("comparing (buckets)");
        self.bar.set_length(1 << bits);
        let digests = keys.digests(bits).await.context("the table cannot be asked for its keys")?;
        let mut differences = Differences::default();
        let buckets = 1_usize << (bits - 8);
        for file in 0..FILES {
            let entries = spill.sorted(file).context("temporary files cannot be read")?;
            let expected = expect::keys(rule, &entries);
            drop(entries);
            let mut pending = Batch::default();
            for (bucket, held) in digests.iter().enumerate().skip(file * buckets).take(buckets) {
                let slice = of_bucket(&expected, bucket as u64, bits);
                let is_right = match report.is_all {
                    true => expect::digest(slice) == Some(*held),
                    // The table holds more than the range: only what is expected is looked for.
                    false => slice.is_empty(),
                };
                if is_right {
                    continue;
                }
                report.buckets.1 += 1;
                if pending.is_cut_by(bucket, slice.len() as u64 + held.rows) {
                    pending.compare(keys, &expected, bits, report.is_all, &mut differences).await?;
                }
                pending.add(bucket, slice.len() as u64 + held.rows);
            }
            pending.compare(keys, &expected, bits, report.is_all, &mut differences).await?;
            self.bar.set_position(((file + 1) * buckets) as u64);
        }
        report.buckets.0 = 1 << bits;
        Ok(differences)
    }

    /// Compares the values of rows, by sums over buckets of keys first, and row by row where those differ.
    async fn values(
        &self,
        keys: &TableKeys,
        rule: Rule,
        spill: &mut Spill,
        report: &Report,
        differences: &mut Differences,
    ) -> anyhow::Result<()> {
        let bits = bits_for(spill.len().max(report.table_rows));
        self.bar.set_message("comparing values (buckets)");
        self.bar.set_length(1 << bits);
        let sums = keys.value_sums(bits).await.context("the table cannot be asked for its values")?;
        let buckets = 1_usize << (bits - 8);
        for file in 0..FILES {
            let entries = spill.sorted(file).context("temporary files cannot be read")?;
            for (bucket, held) in sums.iter().enumerate().skip(file * buckets).take(buckets) {
                let (low, high) = bounds(bucket, bucket, bits);
                let begin = entries.partition_point(|entry| entry.hash < low);
                let end = entries.partition_point(|entry| entry.hash <= high);
                let of_bucket = &entries[begin..end];
                let is_right = report.is_all && expect::value_sum(rule, of_bucket) == Some(*held);
                if is_right || of_bucket.is_empty() {
                    continue;
                }
                let found =
                    keys.values(low, high).await.context("the table cannot be asked for its values")?;
                for (entry, rows) in expect::different(of_bucket, &found) {
                    differences.differ(entry, rows);
                }
            }
            self.bar.set_position(((file + 1) * buckets) as u64);
        }
        Ok(())
    }

    /// Strikes out keys of a range whose further rows are of records that stand elsewhere in the source.
    async fn look_elsewhere(
        &self,
        store: &dyn Store,
        dry: &mut DryRun,
        rule: Rule,
        differences: &mut Differences,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        if differences.duplicate.is_empty() || rule == Rule::OneEver {
            return Ok(());
        }
        self.bar.set_message("reading all of the source (positions)");
        // After the table was asked, so that no row is newer than what is read.
        let newest = self.lane(store).await?;
        let starts = dry.source.partitions().await.context("the source does not answer")?;
        let all = newest.partitions.iter().enumerate().map(|(n, p)| {
            let first =
                starts.iter().find(|s| *s.partition.stream == *p.stream && s.partition.index == p.index);
            (n as u32, (first.map_or(p.next, |s| s.first), p.next))
        });
        let all: Ranges = all.collect();
        let times = std::mem::take(&mut dry.times);
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
    async fn look_again(
        &self,
        store: &dyn Store,
        dry: &mut DryRun,
        lane: &Lane,
        ranges: &Ranges,
        differences: &mut Differences,
        is_all: bool,
    ) -> anyhow::Result<Lane> {
        let newest = self.lane(store).await?;
        if differences.foreign.is_empty()
            && differences.duplicate.is_empty()
            && differences.different.is_empty()
        {
            return Ok(newest);
        }
        self.bar.set_message("reading on (positions)");
        let starts = dry.source.partitions().await.context("the source does not answer")?;
        let mut newer = Ranges::new();
        for (n, p) in newest.partitions.iter().enumerate() {
            let n = n as u32;
            let first =
                starts.iter().find(|s| *s.partition.stream == *p.stream && s.partition.index == p.index);
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

    /// Gives some of the differences their names.
    async fn name(
        &self,
        keys: &TableKeys,
        dry: &mut DryRun,
        lane: &Lane,
        differences: &Differences,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let limit = self.limit.min(HASHES_MAX);
        let place = |entry: &Entry| format!("{}@{}", partition(lane, entry.partition), entry.position);
        report.missing.keys = differences.missing.len() as u64;
        for (n, (hash, (expected, rows))) in differences.missing.iter().take(limit).enumerate() {
            let first = expected.first;
            let mut key = None;
            if n < KEYS_READ_MAX {
                let at = Ranges::from([(first.partition, (first.position, first.position + 1))]);
                let mut seen = Seen::default();
                let mut remember = |_: Entry, text: &[u8]| {
                    key = Some(String::from_utf8_lossy(text).into_owned());
                    Ok(())
                };
                dry.read(lane, &at, &mut seen, &mut remember).await?;
            }
            report.missing.named.push(Named {
                key,
                hash: *hash,
                rows: *rows,
                rows_max: expected.most,
                source: Some(place(&first)),
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

/// Bits of the buckets for so many rows.
fn bits_for(rows: u64) -> u32 {
    (rows / BUCKET_ROWS).max(1).ilog2().clamp(8, BITS_MAX)
}

/// The lowest hash of a bucket and the highest of another.
fn bounds(first: usize, last: usize, bits: u32) -> (u64, u64) {
    ((first as u64) << (64 - bits), (last as u64) << (64 - bits) | (u64::MAX >> bits))
}

/// Neighbouring buckets that are asked for at once.
#[derive(Default)]
struct Batch {
    buckets: Option<(usize, usize)>,
    rows: u64,
}

impl Batch {
    fn is_cut_by(&self, bucket: usize, rows: u64) -> bool {
        self.buckets.is_some_and(|(_, last)| last + 1 != bucket || self.rows + rows > ANSWER_ROWS)
    }

    fn add(&mut self, bucket: usize, rows: u64) {
        self.buckets = Some((self.buckets.map_or(bucket, |(first, _)| first), bucket));
        self.rows += rows;
    }

    async fn compare(
        &mut self,
        keys: &TableKeys,
        expected: &[Expected],
        bits: u32,
        is_all: bool,
        differences: &mut Differences,
    ) -> anyhow::Result<()> {
        let Batch { buckets: Some((first, last)), .. } = std::mem::take(self) else { return Ok(()) };
        let (low, high) = bounds(first, last, bits);
        let start = expected.partition_point(|key| key.first.hash < low);
        let end = expected.partition_point(|key| key.first.hash <= high);
        let expected = &expected[start..end];
        let mut found = keys.hashes(low, high).await.context("the table cannot be asked for its keys")?;
        if !is_all {
            found.retain(|(hash, _)| expected.binary_search_by_key(hash, |key| key.first.hash).is_ok());
        }
        match is_all {
            true => differences.compare(expected, &found),
            false => differences.compare_range(expected, &found),
        }
        Ok(())
    }
}

fn of_bucket(expected: &[Expected], bucket: u64, bits: u32) -> &[Expected] {
    let start = expected.partition_point(|key| key.first.hash >> (64 - bits) < bucket);
    let end = expected.partition_point(|key| key.first.hash >> (64 - bits) <= bucket);
    &expected[start..end]
}

async fn named(keys: &TableKeys, some: Vec<(u64, u64, Option<String>)>, all: usize) -> anyhow::Result<Kind> {
    let hashes: Vec<u64> = some.iter().map(|(hash, _, _)| *hash).collect();
    let found = keys.named(&hashes).await.context("the table cannot be asked for keys")?;
    let texts: BTreeMap<u64, (u64, String)> =
        found.into_iter().map(|(h, rows, text)| (h, (rows, text))).collect();
    let found = keys.frames_of(&hashes).await.context("the table cannot be asked for frames")?;
    let mut frames: BTreeMap<u64, Vec<String>> = found.into_iter().collect();
    let named = some.into_iter().map(|(hash, rows_max, source)| {
        let text = texts.get(&hash);
        let (key, rows) = (text.map(|t| t.1.clone()), text.map_or(0, |t| t.0));
        Named { key, hash, rows, rows_max, source, frames: frames.remove(&hash).unwrap_or_default() }
    });
    Ok(Kind { keys: all as u64, named: named.collect() })
}

fn partition(lane: &Lane, n: u32) -> String {
    lane.partitions.get(n as usize).map_or_else(|| n.to_string(), |p| format!("{}/{}", p.stream, p.index))
}

fn in_flight(lane: &Lane) -> (u64, u64) {
    let live = lane.tables.iter().flat_map(|t| t.pending.iter().flatten()).filter(|p| !p.dead);
    live.fold((0, 0), |(frames, rows), piece| (frames + 1, rows + piece.frame.rows))
}

fn time(bounds: &[Bound]) -> Option<i64> {
    bounds.iter().find_map(|bound| match bound {
        Bound::Time(ms) => Some(*ms),
        Bound::Position { .. } => None,
    })
}
