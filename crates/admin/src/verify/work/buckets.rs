//! Keys and values of the table against those of the source, bucket by bucket of their hashes.
//!
//! Owns the size of the buckets and which of them are looked into. Does not own what differs within one
//! ([`super::super::expect`]).

use anyhow::Context;
use clickhouse::reconcile::{BITS_MAX, TableKeys};

use super::super::expect::{self, Differences, Expected, Rule};
use super::super::place::Places;
use super::super::report::Report;
use super::super::spill::{FILES, Spill};
use super::Work;

/// Rows in one answer of hashes: 25 bytes each.
const ANSWER_ROWS: u64 = 100_000;

/// Rows of a bucket, more or less.
const BUCKET_ROWS: u64 = 4_096;

impl Work<'_> {
    /// Compares digests, and then the keys of the buckets that differ.
    pub(super) async fn differences(
        &self,
        keys: &TableKeys,
        rule: Rule,
        (spill, refused): (&mut Spill, &Places),
        report: &mut Report,
    ) -> anyhow::Result<Differences> {
        report.table_rows = keys.rows().await?;
        let bits = bits_for(spill.len().max(report.table_rows));
        self.progress.begin("comparing (buckets)");
        self.progress.length(1 << bits);
        let digests = keys.digests(bits).await.context("the table cannot be asked for its keys")?;
        let mut differences = Differences::default();
        let buckets = 1_usize << (bits - 8);
        for file in 0..FILES {
            let entries = spill.sorted(file).context("temporary files cannot be read")?;
            let expected = expect::keys(rule, &entries, refused);
            report.without_order += expect::without_order(rule, &entries);
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
            self.progress.done(((file + 1) * buckets) as u64);
        }
        report.buckets.0 = 1 << bits;
        Ok(differences)
    }

    /// Compares the values of rows, by sums over buckets of keys first, and row by row where those differ.
    pub(super) async fn values(
        &self,
        keys: &TableKeys,
        rule: Rule,
        (spill, refused): (&mut Spill, &Places),
        report: &Report,
        differences: &mut Differences,
    ) -> anyhow::Result<()> {
        let bits = bits_for(spill.len().max(report.table_rows));
        self.progress.begin("comparing values (buckets)");
        self.progress.length(1 << bits);
        let sums = keys.value_sums(bits).await.context("the table cannot be asked for its values")?;
        let buckets = 1_usize << (bits - 8);
        for file in 0..FILES {
            let entries = spill.sorted(file).context("temporary files cannot be read")?;
            for (bucket, held) in sums.iter().enumerate().skip(file * buckets).take(buckets) {
                let (low, high) = bounds(bucket, bucket, bits);
                let begin = entries.partition_point(|entry| entry.hash < low);
                let end = entries.partition_point(|entry| entry.hash <= high);
                let of_bucket = &entries[begin..end];
                let is_right = report.is_all && expect::value_sum(rule, of_bucket, refused) == Some(*held);
                if is_right || of_bucket.is_empty() {
                    continue;
                }
                let found =
                    keys.values(low, high).await.context("the table cannot be asked for its values")?;
                for (entry, rows) in expect::different(rule, of_bucket, &found, refused) {
                    differences.differ(entry, rows);
                }
            }
            self.progress.done(((file + 1) * buckets) as u64);
        }
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
