//! What a report says beside what differs: the range, and what is not compared.
//!
//! Owns the sentences. Does not own the report's figures and their form ([`super::super::report`]).

use std::collections::BTreeSet;

use anyhow::bail;
use dataflow::position;
use engine::totals::Totals;
use pipeline::config::model::sink::{Takes, Target};
use pipeline::replays;
use protocol::Lane;

use super::super::expect::{Differences, Expected, Rule};
use super::super::reading::{DryRun, Ranges, Seen};
use super::super::report::{Range, Report};
use super::{Work, partition};
use crate::fields;

impl Work<'_> {
    /// Notes what steps make uncertain.
    pub(super) fn note_steps(&self, rule: Rule, targets: &[Target], report: &mut Report) {
        if rule != Rule::EveryCopy && targets.iter().any(|target| target.takes != Takes::Every) {
            report.notes.push(
                "`dedup` keeps one record of a key for all tables: a key whose records go to different tables is missing in all but one"
                    .into(),
            );
        }

        if let Some(lookup) = self.pipeline.steps.iter().position(|step| step.lookup.is_some()) {
            report.notes.push(format!(
                "records look up what is there now: the columns that are computed in steps are not compared, and a row that `steps[{lookup}].lookup`, or a condition on \
                 what it found, drops or keeps may be named as too many or missing if the other side has changed since it was written"
            ));
        }
    }

    pub(super) fn describe(
        &self,
        lane: &Lane,
        ranges: &Ranges,
        seen: &Seen,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        report.accounts = Totals::of(lane);
        report.replayed = fields::replayed(lane).min(lane.counts.read);
        report.records = seen.records;
        let is_log = |n: u32| lane.partitions.get(n as usize).is_some_and(|p| p.stream == replays::STREAM);
        let gone = lane.forgotten.keys().filter(|n| !is_log(**n)).map(|n| partition(lane, *n));
        let gone: BTreeSet<String> =
            gone.filter(|name| !ranges.keys().any(|n| partition(lane, *n) == *name)).collect();
        if !gone.is_empty() {
            let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
            report.notes.push(format!(
                "`{}` was removed from the pipeline by `forebay forget`; its rows are not compared",
                gone.join("`, `")
            ));
        }
        report.ranges = ranges
            .iter()
            .map(|(n, (from, to))| Range { partition: partition(lane, *n), from: *from, to: *to })
            .collect();
        if !self.from.is_empty() || !self.to.is_empty() {
            return Ok(());
        }
        let is_of_files = self.pipeline.inputs().iter().all(|input| input.source.file.is_some());
        match seen.records.cmp(&lane.counts.read) {
            std::cmp::Ordering::Equal => report.is_all = true,
            std::cmp::Ordering::Less if gone.is_empty() && has_all(lane, ranges, seen, is_of_files) => {
                report.is_all = true;
                report.notes.push(format!(
                    "the pipeline was moved back: it has read {} records, and the source holds {}. Rows of those that were read again count as too many \
                     unless `dedup` knew them",
                    lane.counts.read, seen.records
                ));
            }
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
}

/// Whether the source holds all records of a lane that was moved back, and so has read more than there are: those from the first on, with none between them
/// that may be gone. Positions in files are bytes, so there only the files tell.
fn has_all(lane: &Lane, ranges: &Ranges, seen: &Seen, is_of_files: bool) -> bool {
    let has_every_partition = ranges.len() == lane.reading().count();
    let is_whole = ranges.values().all(|(from, _)| *from == 0);
    let held: Option<u64> = ranges.values().map(|(from, to)| position::between(*from, *to)).sum();
    let is_dense = is_of_files || held == Some(seen.records);
    !lane.rewound.is_empty() && has_every_partition && is_whole && is_dense
}

/// Notes the rows whose keys the server has made, of which `first` were read first and there are `most` now; strikes out those that are as many as they can be.
pub(super) fn note_nameless(
    dry: &DryRun,
    rule: Rule,
    (first_nameless, most): (u64, u64),
    differences: &mut Differences,
    report: &mut Report,
) {
    if let Some(first) = dry.nameless.first.filter(|_| most > 0) {
        let columns: Vec<String> =
            dry.key.made_by_the_server().map(|(name, default)| format!("`{name}` (`{default}`)")).collect();
        let expected = Expected { least: least_nameless(rule, first_nameless), most, first };
        report.notes.push(match report.is_all.then(|| differences.explain_nameless(expected)) {
            Some(Some(rows)) => format!(
                "{most} records have no value for column {} of the key, so the server filled it in. The table has {rows} rows with such keys, which is \
                 {}; the rows are not compared with the records one by one",
                columns.join(", "),
                if rows < expected.least { "too few" } else { "a possible number" }
            ),
            Some(None) => format!(
                "{most} records leave out column {} of the key, and the server has filled it in: they can have become {} to {most} \
                 rows under keys of no record, and there are others than that",
                columns.join(", "),
                expected.least
            ),
            None => format!(
                "{most} records leave out column {} of the key, which the server has filled in: their rows are not compared",
                columns.join(", ")
            ),
        });
    }
}

/// What is not compared of rows that replace each other.
pub(super) fn notes_of_newest(rule: Rule, report: &Report) -> Vec<String> {
    if rule != Rule::Newest {
        return Vec::new();
    }
    let mut notes = vec![
        "the newest record of each key is compared with `SELECT … FINAL`; the rows that it has replaced, and the rows of single inserts, are not compared".to_owned(),
    ];
    if report.without_order > 0 {
        notes.push(format!(
            "{} keys have records in several partitions, between which nobody knows the order: the last one of any of them counts as the newest",
            report.without_order
        ));
    }
    notes
}

/// Rows at least of records whose keys are not known. The step that drops copies takes all keys left out for the same.
pub(super) fn least_nameless(rule: Rule, records: u64) -> u64 {
    match rule {
        Rule::EveryCopy => records,
        Rule::OneEver | Rule::OnePerWindow(_) | Rule::Newest => records.min(1),
    }
}
