//! Joins the lines of a CSV file to records, where line breaks stand within quotes. Pure: knows no file.
//!
//! Owns where a record ends. Does not own its fields (`formats::csv`), nor where a line ends ([`super::lines`]).
//!
//! | the lines from a record's start on                    | the record                                              |
//! |-------------------------------------------------------|---------------------------------------------------------|
//! | the first one closes all quotes that it opens         | this line                                               |
//! | a later one closes them, within [`JOINED_BYTES_MAX`]  | all lines up to there, with the line breaks             |
//! | text follows a closing quote; the bound; the last end | the first line alone, which the decoder then turns down |
//!
//! So a quote that nobody closes costs one record and not the rest of the file. A record's end hangs on nothing before its start, so that
//! reading can begin at every record.

use std::sync::Arc;

use dataflow::BlockBuilder;
use dataflow::block::TIME_UNKNOWN_MS;

use super::lines::MARK;

/// Bytes of a record that has line breaks. Each quote that nobody closes costs a search through so many.
pub(super) const JOINED_BYTES_MAX: usize = 1 << 20;

/// Bytes of a header. It is kept with every dead letter.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What tells records of a CSV file apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Csv {
    /// The byte between fields.
    pub delimiter: u8,
    /// The byte around fields that may hold line breaks.
    pub quote: Option<u8>,
    /// The first record of each file is no record but names the fields: it becomes the head of all blocks.
    pub has_head: bool,
}

/// Where a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Outside of quotes.
    Outside,
    /// Within quotes.
    Inside,
    /// Text follows a closing quote; no record has that.
    Broken,
}

impl Csv {
    /// Where `line` ends, which begins within quotes or at the beginning of a record.
    pub(super) fn ends(&self, line: &[u8], mut is_inside: bool) -> Ends {
        let Some(quote) = self.quote else { return Ends::Outside };
        if !is_inside && memchr::memchr(quote, line).is_none() {
            return Ends::Outside;
        }
        let mut at = 0;
        loop {
            let rest = line.get(at..).unwrap_or_default();
            if is_inside {
                let Some(found) = memchr::memchr(quote, rest) else { return Ends::Inside };
                at += found + 2;
                match rest.get(found + 1) {
                    None => return Ends::Outside,
                    Some(b'\r') if rest.len() == found + 2 => return Ends::Outside,
                    Some(next) if *next == quote => {}
                    Some(next) if *next == self.delimiter => is_inside = false,
                    Some(_) => return Ends::Broken,
                }
            } else if rest.first() == Some(&quote) {
                is_inside = true;
                at += 1;
            } else {
                let Some(found) = memchr::memchr(self.delimiter, rest) else { return Ends::Outside };
                at += found + 1;
            }
        }
    }
}

/// The lines of records that are not complete, or not yet told apart.
#[derive(Debug)]
pub(super) struct Joined {
    csv: Csv,
    bytes_max: usize,
    /// Lines with their ends, as they follow each other in the file.
    held: Vec<u8>,
    /// Where in `held` the first record begins that was not handed on, and where in the file.
    at: usize,
    start: u64,
    /// Where in `held` the lines of that record end that were inspected: they end within quotes.
    inspected: usize,
    wants_head: bool,
    head: Option<Arc<[u8]>>,
}

impl Joined {
    /// Records from `position` on.
    pub(super) fn new(csv: Csv, position: u64, line_bytes_max: usize) -> Self {
        Self {
            csv,
            bytes_max: JOINED_BYTES_MAX.min(line_bytes_max),
            held: Vec::new(),
            at: 0,
            start: position,
            inspected: 0,
            wants_head: csv.has_head && position == 0,
            head: None,
        }
    }

    /// The file's first record, once it was met.
    pub(super) fn head(&self) -> Option<&Arc<[u8]>> {
        self.head.as_ref()
    }

    /// Where the first record begins that was not handed on.
    pub(super) fn open_at(&self) -> Option<u64> {
        (!self.held.is_empty()).then_some(self.start)
    }

    /// Takes the line at `position`, of whose `whole` bytes `line` may be the first ones only; hands on what is complete.
    pub(super) fn line(&mut self, position: u64, line: &[u8], whole: u64, block: &mut BlockBuilder) {
        let is_cut = whole > line.len() as u64;
        if is_cut {
            // No record that holds it keeps to the bound, so all lines before it are told apart without it.
            self.advance(block, true);
        }
        if self.held.is_empty() {
            if is_cut || self.csv.ends(unmarked(position, line), false) != Ends::Inside {
                return self.hand_on(position, line, whole, block);
            }
            self.start = position;
        }
        self.held.extend_from_slice(line);
        self.held.push(b'\n');
        self.advance(block, false);
    }

    /// Hands on the records whose end is found, until the block is full. If nothing follows (`is_final`) that is all of them.
    pub(super) fn advance(&mut self, block: &mut BlockBuilder, is_final: bool) {
        let held = std::mem::take(&mut self.held);
        while self.at < held.len() && (is_final || !block.is_full()) {
            let Some(end) = self.end(&held, is_final) else { break };
            self.hand_on(self.start, &held[self.at..end - 1], (end - 1 - self.at) as u64, block);
            self.start += (end - self.at) as u64;
            (self.at, self.inspected) = (end, end);
        }
        self.held = held;
        // What was handed on goes when nothing is left behind it, or when that costs little more than what came in.
        if self.at == self.held.len() || self.at > self.bytes_max {
            self.held.drain(..self.at);
            self.inspected -= self.at;
            self.at = 0;
        }
    }

    /// Where the record at `self.at` ends, with its line end; none if that hangs on lines to come.
    fn end(&mut self, held: &[u8], is_final: bool) -> Option<usize> {
        let begin = self.at;
        let line_end = |from: usize| {
            let length = memchr::memchr(b'\n', &held[from..]).expect("every line that is held has its end");
            from + length + 1
        };
        while self.inspected < held.len() {
            let (from, is_first) = (self.inspected, self.inspected == begin);
            let end = line_end(from);
            let line = &held[from..end - 1];
            let ends = match is_first {
                true => self.csv.ends(unmarked(self.start, line), false),
                false => self.csv.ends(line, true),
            };
            let keeps_bound = is_first || end - begin <= self.bytes_max;
            match ends {
                Ends::Outside if keeps_bound => return Some(end),
                Ends::Inside if end - begin <= self.bytes_max => self.inspected = end,
                Ends::Outside | Ends::Inside | Ends::Broken => return Some(line_end(begin)),
            }
        }
        is_final.then(|| line_end(begin))
    }

    fn hand_on(&mut self, position: u64, record: &[u8], whole: u64, block: &mut BlockBuilder) {
        let is_cut = whole > record.len() as u64;
        let (record, whole) = match unmarked(position, record) {
            unmarked if unmarked.len() < record.len() => (unmarked, whole - MARK.len() as u64),
            record => (record, whole),
        };
        let (record, whole) = match record.strip_suffix(b"\r") {
            Some(record) if !is_cut => (record, whole - 1),
            Some(_) | None => (record, whole),
        };
        if record.is_empty() {
            return;
        }
        if self.wants_head {
            self.wants_head = false;
            if !is_cut && record.len() <= HEAD_BYTES_MAX {
                let head: Arc<[u8]> = record.into();
                block.head(Arc::clone(&head));
                self.head = Some(head);
            }
            return;
        }
        block.push(position, TIME_UNKNOWN_MS, Some(record));
        if is_cut {
            block.cut(whole);
        }
    }

    /// Whether the head was met, or passed since it is longer than any.
    pub(super) fn is_past_head(&self) -> bool {
        !self.wants_head
    }
}

/// A line without the mark that may stand at the beginning of a file.
fn unmarked(position: u64, line: &[u8]) -> &[u8] {
    match line.strip_prefix(MARK) {
        Some(line) if position == 0 => line,
        Some(_) | None => line,
    }
}

#[cfg(test)]
mod tests;
