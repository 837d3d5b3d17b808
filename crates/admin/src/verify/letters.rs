//! The dead letters, beside the rows: which records of the range are among them, and which rows they explain.
//!
//! Owns the comparison by place (records that Forebay turned down) and by content (rows that the server turned down, which may
//! not know their place). Does not own how letters are selected (`clickhouse::reconcile`), nor which differences there are before letters
//! explain some (`verify::expect`).

use std::collections::BTreeMap;

use anyhow::Context;
use clickhouse::reconcile::{self, KeyPlan, Letter};
use dataflow::block::{BlockBuilder, TIME_UNKNOWN_MS};
use dataflow::{Intake, Partition, Reason, RecordBlock, Schema};
use pipeline::replays::purged::{Purged, is_of_a_row};
use pipeline::replays::taken::Taken;
use pipeline::wiring::{self, sink};
use protocol::Lane;

use crate::dead_letters::anew::Anew;

use super::expect::{Differences, Rule};
use super::place::{Place, Places};
use super::reading::{Ranges, Seen};
use super::report;
use super::work::Work;

/// Letters in one answer.
const PAGE: usize = 10_000;

/// Letters that are read; a pipeline with more has another problem than this comparison.
const LETTERS_MAX: usize = 2_000_000;

/// Refused rows whose content is read.
const REFUSED_MAX: usize = 200_000;

/// Refused rows in one answer: each is a whole row.
const REFUSED_PAGE: usize = 500;

/// What the dead letters tell.
pub struct Letters {
    /// For the report.
    pub report: report::Letters,
    /// Places of rows that became letters after they were decoded: refused by the server, or too late. Duplicates of a refused row may
    /// have been dropped as its duplicates, so such a letter explains that its key has no row at all.
    pub places: Places,
    /// Places of records that became letters and have no row of their own, whatever the pipeline would make of them now: it may have
    /// been fixed since. Those that were replayed have a row under their place in the replay log.
    pub not_rows: Places,
    /// Hashes of refused rows that do not know their place, as often as they are there.
    hashes: Vec<u64>,
    /// How far a replica was behind that was waited for in vain: letters that it has not yet are missing here.
    pub lag: Option<String>,
}

/// What the store knows of letters that may not be in the table any more.
#[derive(Debug, Default)]
pub struct Kept {
    /// Letters that a replay took.
    pub replayed: Taken,
    /// Letters that were purged.
    pub purged: Purged,
}

impl Letters {
    /// Letters that `purge` has deleted count as if they were there, unless their records are read anew since. A letter that was replayed has its row from
    /// the replay log, whatever became of its record later.
    fn purged(&mut self, expected: &mut Places, compared: &Compared<'_>, (anew, kept): (&Anew, &Kept)) {
        // A reset takes along what was remembered before it; earlier programs did not say of which reading a letter was.
        let until_ms = compared.lane.before.until_ms;
        let each = |taken: &Taken, of_any_reading: bool, each: &mut dyn FnMut(Place)| {
            for (at, runs) in taken.places() {
                let Some(n) = compared.number(&at.source, at.partition, at.nth) else { continue };
                let since_ms = anew.since(&at.source, at.partition, at.nth);
                let known_ms = at.since_ms.max(until_ms);
                let counts = |position: &u64| of_any_reading || since_ms(*position) <= known_ms;
                let positions = runs.iter().flat_map(|(from, end)| *from..*end);
                let positions =
                    positions.filter(|position| is_in(compared.ranges, n, *position) && counts(position));
                let places = positions.filter_map(|position| Place::of_print(n, position, at.print));
                places.for_each(&mut *each);
            }
        };
        each(&kept.purged.turned_down, false, &mut |place| {
            expected.remove(&place);
            self.not_rows.insert(place);
        });
        each(&kept.purged.refused, false, &mut |place| {
            self.places.insert(place);
        });
        each(&kept.replayed, true, &mut |place| {
            self.places.remove(&place);
            self.not_rows.insert(place);
        });
    }

    /// Strikes out what is missing because it is among the letters.
    pub fn take_from(&self, differences: &mut Differences) {
        differences.missing.retain(|_, (key, _)| !key.first.place.is_in(&self.places));
        for hash in &self.hashes {
            if let Some((key, rows)) = differences.missing.get_mut(hash) {
                key.least -= 1;
                if *rows >= key.least {
                    differences.missing.remove(hash);
                }
            }
        }
    }
}

/// What the dead letters are compared with.
pub struct Against<'a> {
    /// Where the pipeline stands.
    pub lane: &'a Lane,
    /// The positions that are compared.
    pub ranges: &'a Ranges,
    /// What the source showed there.
    pub seen: &'a Seen,
    /// The key of a row.
    pub key: &'a KeyPlan,
    /// What is known of letters that are gone.
    pub kept: &'a Kept,
    /// How often a row is expected.
    pub rule: Rule,
}

/// Reads the dead letters of the pipeline.
///
/// # Errors
/// When the table does not answer.
pub async fn read(work: &Work<'_>, schemas: &[Schema], against: Against<'_>) -> anyhow::Result<Letters> {
    let Against { lane, ranges, seen, key, kept, rule } = against;
    work.progress.begin("reading dead letters");
    let server = sink::server_for(&work.pipeline.sink.clickhouse, super::work::QUERY_MAX)?;
    let config = sink::dead_letters(work.pipeline);
    let table = reconcile::Letters::new(server, (&config, work.wait), work.runtime.clone())?;
    let anew = Anew::of(lane);
    let of = anew.without(sink::letters_of(work.pipeline.pipeline.as_str(), lane));
    let mut letters = Letters {
        report: report::Letters {
            expected: seen.rejects,
            is_compared: seen.rejects == seen.places.len() as u64,
            ..report::Letters::default()
        },
        places: Places::new(),
        not_rows: Places::new(),
        hashes: Vec::new(),
        lag: None,
    };
    let mut expected = seen.places.clone();
    let compared = Compared::new(lane, ranges);
    let mut after: Option<Letter> = None;
    let mut count = 0;
    let mut is_content_needed = false;
    loop {
        let page = table.page(&of, after.as_ref(), PAGE).await.context("the dead letters cannot be read")?;
        count += page.len();
        for letter in &page {
            is_content_needed |= letter.source.is_empty();
            judge(&mut letters, &mut expected, &compared, letter);
        }
        after = page.last().cloned().or(after);
        if page.len() < PAGE {
            break;
        }
        if count >= LETTERS_MAX {
            letters.report.is_compared = false;
            break;
        }
    }
    letters.purged(&mut expected, &compared, (&anew, kept));
    if rule == Rule::EveryCopy && schemas.len() == 1 {
        // Every record stands for itself: no copy of a refused row was dropped. Of several tables another one may have taken its row.
        letters.not_rows.append(&mut letters.places);
    }
    if letters.report.is_compared {
        for place in &expected {
            let place = named(lane, *place);
            push(&mut letters.report.missing, &mut letters.report.missing_more, place, work.limit);
        }
        let more = letters.report.duplicate.split_off(work.limit.min(letters.report.duplicate.len()));
        letters.report.duplicate_more = more.len() as u64;
    }
    if is_content_needed {
        // The row as it was sent, by its columns; or the record as it was read, by its fields and through the steps of an input.
        let mut intakes = Vec::new();
        for input in work.pipeline.inputs() {
            let own = wiring::source::decoder(&input, schemas[work.place].clone())?;
            intakes.push((Intake::new(own.decoder.clone()), own));
        }
        if schemas.len() == 1 {
            let chain = wiring::steps::chain(work.pipeline, schemas, 1)?;
            for own in chain.inputs {
                intakes.push((own.intake, own.decoding));
            }
        }
        let of = without_place(&of);
        let mut skip = 0;
        while skip < REFUSED_MAX {
            let page =
                table.refused(&of, skip, REFUSED_PAGE).await.context("the dead letters cannot be read")?;
            skip += page.len();
            for raw in &page {
                for (intake, decoding) in &intakes {
                    let block = decoding.look_up(block_of(raw), &work.runtime).await?;
                    if let Some(hash) = hash(intake, &block, key) {
                        letters.hashes.push(hash);
                        break;
                    }
                }
            }
            if page.len() < REFUSED_PAGE {
                break;
            }
        }
    }
    letters.lag = table.lag();
    Ok(letters)
}

/// The condition for those of `of` that do not know their place. The others explain the record of their place, and no other one of its key.
fn without_place(of: &str) -> String {
    format!("{of} AND source = ''")
}

fn judge(letters: &mut Letters, expected: &mut Places, compared: &Compared<'_>, letter: &Letter) {
    if letter.reason == Reason::Refused.as_str() {
        letters.report.refused += letter.copies;
    }
    let Some(n) = compared.number(&letter.source, letter.partition, letter.nth) else { return };
    let Some(place) = Place::of_print(n, letter.position, letter.item) else { return };
    if !is_in(compared.ranges, n, letter.position) {
        return;
    }
    if is_of_a_row(&letter.reason) {
        letters.places.insert(place);
    } else {
        expected.remove(&place);
        letters.not_rows.insert(place);
    }
    if letter.copies > 1 {
        letters.report.duplicate.push(named(compared.lane, place));
    }
}

fn is_in(ranges: &Ranges, n: u32, position: u64) -> bool {
    ranges.get(&n).is_some_and(|(from, to)| (*from..*to).contains(&position.into()))
}

/// The partitions that are compared, by what letters call them.
struct Compared<'a> {
    lane: &'a Lane,
    ranges: &'a Ranges,
    /// The lane's number of each, by stream, number inside of it, and which of the partitions of that name it is. A topic or file belongs to one input, so
    /// its name is enough.
    numbers: BTreeMap<(&'a str, u32, u32), u32>,
}

impl<'a> Compared<'a> {
    fn new(lane: &'a Lane, ranges: &'a Ranges) -> Self {
        let nth = lane.nth_of_name();
        let name = |n: &u32| {
            let p = lane.partitions.get(*n as usize)?;
            Some(((p.stream.as_str(), p.index, nth[*n as usize]), *n))
        };
        Self { lane, ranges, numbers: ranges.keys().filter_map(name).collect() }
    }

    fn number(&self, source: &str, index: u32, nth: u32) -> Option<u32> {
        // A letter of the first of its name does not say so.
        self.numbers.get(&(source, index, nth.max(1))).copied()
    }
}

fn named(lane: &Lane, place: Place) -> String {
    let p = &lane.partitions[place.partition as usize];
    let record = format!("{}/{}@{}", p.stream, p.index, place.position);
    place.item().map_or_else(|| record.clone(), |item| format!("{record}, item {item}"))
}

fn push(list: &mut Vec<String>, more: &mut u64, place: String, limit: usize) {
    if list.len() < limit {
        list.push(place);
    } else {
        *more += 1;
    }
}

/// A refused row as the only record of a block.
fn block_of(raw: &str) -> RecordBlock {
    let mut block = BlockBuilder::new(Partition::new("", 0), 0);
    block.push(0, TIME_UNKNOWN_MS, Some(raw.as_bytes()));
    block.take()
}

/// The hash of a refused row's key; `None` if it does not become a row.
fn hash(intake: &Intake, block: &RecordBlock, key: &KeyPlan) -> Option<u64> {
    let rows = intake.prepare(block, 0).ok()?.batch.rows;
    let mut found = None;
    key.texts(&rows, |_, text| found = Some(reconcile::hash(text))).ok()?;
    found
}

#[cfg(test)]
mod tests;
