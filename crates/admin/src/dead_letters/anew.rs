//! Letters of records that are read anew: `reset` has moved their partition back since, or the pipeline has begun again.
//!
//! Owns which letters those are, and whether that has changed since they were chosen. Does not own the ranges (`protocol::lane::passes`), nor what a replay does with such letters
//! (`dead_letters::choose`).
//!
//! | a letter of                          | is of an earlier reading if it is not newer than                                   |
//! |--------------------------------------|------------------------------------------------------------------------------------|
//! | a record that is read anew           | the move, or the reset, by which it is                                             |
//! | any other record of the source       | never: nobody reads it again, so a replay is all that it has                       |
//! | a replay, `@replays`                 | the same of its record's first place; or a reset or deletion, behind which the letter of that place stands for both |
//! | no place (of early programs)         | a reset or deletion                                                                |

use std::collections::{BTreeMap, BTreeSet};

use dataflow::position::{self, Position};
use pipeline::replays::STREAM;
use pipeline::replays::object::Letter;
use protocol::Lane;
use protocol::lane::Pass;

use super::letters::{Head, NTH, time};

/// Ranges that a statement names: a few dozen kilobytes.
const RANGES_MAX: usize = 500;

/// What is read anew, by the names that letters have of it.
#[derive(Clone, Debug, Default)]
pub struct Anew {
    /// By stream, partition, and which of the streams of that name it is, from 1.
    passes: BTreeMap<(String, u32, u32), Vec<Pass>>,
    /// When the pipeline that had the name before was reset or deleted; 0 if none was.
    until_ms: i64,
}

impl Anew {
    /// What the lane reads anew.
    pub fn of(lane: &Lane) -> Self {
        let mut passes = BTreeMap::<_, Vec<Pass>>::new();
        for (at, nth) in lane.nth_of_name().into_iter().enumerate() {
            let partition = &lane.partitions[at];
            if !lane.passes_of(at).is_empty() {
                let name = (partition.stream.clone(), partition.index, nth);
                passes.entry(name).or_default().extend(lane.passes_of(at));
            }
        }
        Self { passes, until_ms: lane.before.until_ms }
    }

    /// The condition `of` without the letters of an earlier reading, for those who compare; those of a position with an era, and of more ranges than a
    /// statement takes, are left in.
    pub fn without(&self, of: String) -> String {
        let ranges =
            self.passes.iter().flat_map(|(name, passes)| passes.iter().map(move |pass| (name, pass)));
        let ranges: Vec<String> = ranges
            .filter_map(|((source, partition, nth), pass)| {
                let from = position::plain(pass.from)?;
                let end = position::plain(pass.end).map_or_else(String::new, |end| format!(" AND position < {end}"));
                let nth = if *nth == 1 { "IN (0, 1)".to_owned() } else { format!("= {nth}") };
                Some(format!(
                    "(source = {} AND partition = {partition} AND {NTH} {nth} AND position >= {from}{end} AND time <= {})",
                    clickhouse::types::quote(source),
                    time(pass.since_ms)
                ))
            })
            .collect();
        match ranges.len() {
            1..=RANGES_MAX => format!("{of} AND NOT ({})", ranges.join(" OR ")),
            _ => of,
        }
    }

    /// Since when the record at the letter's place is read anew; 0 if it is not. Behind a reset streams are counted anew, so a letter from before it may be of any
    /// stream of its name.
    fn since_ms(&self, letter: &Letter, is_before: bool) -> i64 {
        let nths = if is_before { 0..=u32::MAX } else { letter.nth.max(1)..=letter.nth.max(1) };
        let name = |nth: u32| (letter.source.clone(), letter.partition, nth);
        let at = position::position(letter.era, letter.position);
        let passes = self.passes.range(name(*nths.start())..=name(*nths.end()));
        newest(passes.flat_map(|(_, passes)| passes), at)
    }

    /// Since when the records of a stream's partition are read anew, each by its position without an era; 0 for those that are not.
    pub fn since(&self, source: &str, partition: u32, nth: u32) -> impl Fn(u64) -> i64 {
        let passes = self.passes.get(&(source.to_owned(), partition, nth.max(1)));
        let passes = passes.map_or(&[][..], Vec::as_slice);
        move |position: u64| newest(passes.iter(), position.into())
    }

    /// Whether the letter is of an earlier reading of its record. A letter of the newest reading is given the time since when that is, for it is
    /// another one than the letters of that place before.
    pub fn judge(&self, head: &mut Head) -> bool {
        let source = &head.letter.source;
        let is_before = self.until_ms > 0 && head.time_ms <= self.until_ms;
        if source.is_empty() {
            return is_before;
        }
        if source == STREAM {
            let first = first_place(&head.origin);
            return is_before || first.is_some_and(|first| head.time_ms <= self.since_ms(&first, false));
        }
        head.letter.since_ms = self.since_ms(&head.letter, is_before);
        head.time_ms <= head.letter.since_ms
    }
}

/// Since when the record at a position is read anew by these ranges; 0 if it is in none.
fn newest<'p>(passes: impl Iterator<Item = &'p Pass>, at: Position) -> i64 {
    passes.filter(|pass| pass.from <= at && at < pass.end).map(|pass| pass.since_ms).max().unwrap_or(0)
}

/// Whether a `reset`, a `reset --to` or a `forget` stands between two looks at the lane: letters that were chosen at the first may be of records that are read
/// again behind it. Streams that were read first in between say nothing of those letters.
pub fn has_moved(chosen: &Lane, now: &Lane) -> bool {
    let names = |lane: &Lane| {
        let all = lane.nth_of_name().into_iter().zip(&lane.partitions);
        all.map(|(nth, p)| (p.stream.clone(), p.index, nth)).collect::<BTreeSet<_>>()
    };
    let known = names(chosen);
    let passes = |lane: &Lane| {
        let mut passes = Anew::of(lane).passes;
        passes.retain(|name, _| known.contains(name));
        passes
    };
    now.removed.is_some()
        || now.before != chosen.before
        || now.rewound != chosen.rewound
        || now.forgotten != chosen.forgotten
        || passes(now) != passes(chosen)
}

/// The place that a letter's name says, as [`Letter`] is shown.
fn first_place(text: &str) -> Option<Letter> {
    let mut parts = text.rsplitn(3, '/');
    let (place, partition, source) = (parts.next()?, parts.next()?, parts.next()?);
    let place = place.split_once('#').map_or(place, |(place, _)| place);
    let (place, nth) = place.split_once('~').unwrap_or((place, "0"));
    let (era, position) = place.split_once(':').unwrap_or(("0", place));
    let letter = Letter::at(source, partition.parse().ok()?, position.parse().ok()?);
    Some(Letter { era: era.parse().ok()?, nth: nth.parse().ok()?, ..letter })
}

#[cfg(test)]
mod tests;
