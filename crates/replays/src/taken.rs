//! Which dead letters were taken by a replay already.
//!
//! Owns the set and its bytes. Positions are kept as runs, so that long runs of bad records cost a few bytes and
//! scattered ones about three each. Does not own where it is kept ([`super::memory`]).
//!
//! Bytes: `FBT` `1`, the position up to which it knows the log (8 bytes, little-endian), 4 bytes of zeros, the message, and
//! CRC-32C of everything before it.

use std::collections::BTreeMap;

use prost::Message;

use super::object::{HEAD_BYTES, Letter, POSITION_MAX, ReplayError, damaged, open, seal};

/// First bytes: three letters and the format version.
pub const MAGIC: [u8; 4] = *b"FBT1";

/// Bytes of the whole set at the most: some ten million scattered letters.
pub const BYTES_MAX: u64 = 32 << 20;

/// All of a letter but its position: a stream's partition, or the print of letters without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// As [`Letter::source`].
    pub source: String,
    /// As [`Letter::partition`].
    pub partition: u32,
    /// As [`Letter::print`].
    pub print: u64,
    /// As [`Letter::era`].
    pub era: u64,
    /// As [`Letter::nth`].
    pub nth: u32,
    /// As [`Letter::since_ms`].
    pub since_ms: i64,
}

/// Letters that a replay has taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// For each place the runs of positions: where each begins, and the position after it. They neither touch nor overlap.
    runs: BTreeMap<Place, BTreeMap<u64, u64>>,
}

#[derive(Clone, PartialEq, Message)]
struct Image {
    #[prost(message, repeated, tag = "1")]
    places: Vec<PlaceImage>,
    #[prost(message, repeated, tag = "2")]
    marks: Vec<Mark>,
}

#[derive(Clone, PartialEq, Message)]
struct PlaceImage {
    #[prost(string, tag = "1")]
    source: String,
    #[prost(uint32, tag = "2")]
    partition: u32,
    #[prost(fixed64, tag = "3")]
    print: u64,
    /// Positions left out before each run, and positions of the run, in turn.
    #[prost(uint64, repeated, tag = "4")]
    gaps_and_lengths: Vec<u64>,
    #[prost(uint64, tag = "5")]
    era: u64,
    #[prost(uint32, tag = "6")]
    nth: u32,
    #[prost(int64, tag = "7")]
    since_ms: i64,
}

/// How far a table had been sealed at some moment.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Mark {
    /// `database.table`.
    #[prost(string, tag = "1")]
    pub table: String,
    /// Ordinal of its next frame then.
    #[prost(uint64, tag = "2")]
    pub next_ordinal: u64,
}

/// What the log below `end` has taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The letters.
    pub taken: Taken,
    /// The position up to which the log is known here.
    pub end: u64,
    /// Where the tables stood when the lane had sealed all records below `end`: once all that is settled, nothing asks for
    /// those records any more.
    pub marks: Vec<Mark>,
}

impl Taken {
    /// True if a replay has taken the letter. Earlier programs kept no eras: what they took at a place counts as taken in every era.
    pub fn holds(&self, letter: &Letter) -> bool {
        let holds = |place: &Place| {
            let runs = self.runs.get(place);
            let run = runs.and_then(|runs| runs.range(..=letter.position).next_back());
            run.is_some_and(|(_, end)| letter.position < *end)
        };
        let place = place(letter);
        holds(&place) || (place.era > 0 && holds(&Place { era: 0, ..place }))
    }

    /// Adds a letter; `false` if it was there.
    pub fn add(&mut self, letter: &Letter) -> bool {
        // No source counts up to the last number, and a run has to end behind it.
        if self.holds(letter) || letter.position == u64::MAX {
            return false;
        }
        let runs = self.runs.entry(place(letter)).or_default();
        add_run(runs, letter.position, letter.position + 1);
        true
    }

    /// Places with the runs of positions of their letters; those without a stream are left out.
    pub fn places(&self) -> impl Iterator<Item = (&Place, &BTreeMap<u64, u64>)> {
        self.runs.iter().filter(|(place, _)| !place.source.is_empty())
    }

    /// The letters under other prints, of which no two may be the same; those that get none are left out.
    #[must_use]
    pub fn under(&self, print: impl Fn(u64) -> Option<u64>) -> Self {
        let under = |place: &Place| Some(Place { print: print(place.print)?, ..place.clone() });
        let runs = self.runs.iter().filter_map(|(place, runs)| Some((under(place)?, runs.clone())));
        Self { runs: runs.collect() }
    }

    /// Adds all letters of another set.
    pub fn extend(&mut self, other: &Self) {
        for (place, more) in &other.runs {
            let runs = self.runs.entry(place.clone()).or_default();
            more.iter().for_each(|(from, end)| add_run(runs, *from, *end));
        }
    }

    /// The number of letters in the set.
    pub fn count(&self) -> u64 {
        self.runs.values().flatten().map(|(from, end)| end - from).fold(0, u64::saturating_add)
    }
}

/// Adds positions to runs, which join where they then touch or overlap.
fn add_run(runs: &mut BTreeMap<u64, u64>, mut from: u64, mut end: u64) {
    if let Some((before, before_end)) = runs.range(..=from).next_back()
        && *before_end >= from
    {
        (from, end) = (*before, end.max(*before_end));
    }
    while let Some((next, next_end)) = runs.range(from..=end).next() {
        let (next, next_end) = (*next, *next_end);
        runs.remove(&next);
        end = end.max(next_end);
    }
    runs.insert(from, end);
}

fn place(letter: &Letter) -> Place {
    let Letter { source, partition, position: _, print, era, nth, since_ms } = letter.clone();
    Place { source, partition, print, era, nth, since_ms }
}

impl Snapshot {
    /// The bytes of the object.
    pub fn to_bytes(&self) -> Vec<u8> {
        let places = self.taken.runs.iter().map(|(place, runs)| {
            let mut before = 0;
            let mut gaps_and_lengths = Vec::with_capacity(2 * runs.len());
            for (from, end) in runs {
                gaps_and_lengths.extend([from - before, end - from]);
                before = *end;
            }
            let Place { source, partition, print, era, nth, since_ms } = place.clone();
            PlaceImage { source, partition, print, gaps_and_lengths, era, nth, since_ms }
        });
        let image = Image { places: places.collect(), marks: self.marks.clone() };
        let mut bytes = Vec::with_capacity(HEAD_BYTES + 4 + image.encoded_len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.end.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        image.encode(&mut bytes).expect("a vector grows as needed");
        seal(bytes)
    }

    /// Reads the object that is named by `end`.
    ///
    /// # Errors
    /// When the bytes are damaged, of another format, or of another name.
    pub fn from_bytes(end: u64, bytes: &[u8]) -> Result<Self, ReplayError> {
        let content = open(MAGIC, bytes)?;
        if content[..8] != end.to_le_bytes() {
            return Err(damaged("it carries another position"));
        }
        if end > POSITION_MAX {
            return Err(damaged("it ends beyond all positions"));
        }
        let image = Image::decode(&content[HEAD_BYTES - 4..]).map_err(|error| damaged(&error.to_string()))?;
        let mut taken = Taken::default();
        for place in image.places {
            let mut runs = BTreeMap::new();
            let mut at = 0u64;
            for pair in place.gaps_and_lengths.chunks(2) {
                let from = at.checked_add(pair[0]);
                let run = pair.get(1).filter(|length| **length > 0).zip(from);
                let end = run.and_then(|(length, from)| from.checked_add(*length));
                let (Some(from), Some(end)) = (from, end) else {
                    return Err(damaged("runs of positions that cannot be"));
                };
                runs.insert(from, end);
                at = end;
            }
            let PlaceImage { source, partition, print, era, nth, since_ms, .. } = place;
            taken.runs.insert(Place { source, partition, print, era, nth, since_ms }, runs);
        }
        Ok(Self { taken, end, marks: image.marks })
    }
}

#[cfg(test)]
mod tests;
