//! What a comparison has found, as text for users and as JSON for programs.
//!
//! Owns the shape of both outputs, and the verdict: which findings make a table wrong. Does not own finding or counting them
//! (`verify::work`, `verify::frames`, `verify::letters`), nor the exit code (the command).

use dataflow::position::{self, Position};

use crate::fields;
use std::fmt::Write as _;

use engine::totals::Totals;
use serde_json::{Value, json};

/// A row or key that is not as it should be.
#[derive(Debug)]
pub struct Named {
    /// The key's text, if it could be had.
    pub key: Option<String>,
    /// Hash of it.
    pub hash: u64,
    /// Rows in the table.
    pub rows: u64,
    /// Rows that may be there at the most.
    pub rows_max: u64,
    /// A record of it in the source: `stream/partition@position`.
    pub source: Option<String>,
    /// The item of that record's array that makes the row (`UNNEST`).
    pub item: Option<u32>,
    /// Frames that its rows name in the provenance column, some of them.
    pub frames: Vec<String>,
}

/// A frame whose rows are not as many as were sealed.
#[derive(Debug)]
pub struct FrameRows {
    /// Its name.
    pub frame: String,
    /// Rows in the table.
    pub rows: u64,
    /// Rows that were sealed.
    pub expected: u64,
}

/// Frames by the provenance column: how many there are of each kind, and some by name.
#[derive(Debug, Default)]
pub struct Frames {
    /// Settled frames that the journal still knows.
    pub known: u64,
    /// Without a row.
    pub missing: (u64, Vec<FrameRows>),
    /// With some of their rows.
    pub fewer: (u64, Vec<FrameRows>),
    /// With more than their rows.
    pub more: (u64, Vec<FrameRows>),
}

impl Frames {
    /// True if all have their rows.
    pub fn are_right(&self) -> bool {
        self.missing.0 + self.fewer.0 + self.more.0 == 0
    }

    fn kinds(&self) -> [(&'static str, &(u64, Vec<FrameRows>)); 3] {
        [("missing", &self.missing), ("fewer", &self.fewer), ("more", &self.more)]
    }

    fn json(&self) -> Value {
        let mut all = json!({ "known": self.known });
        for (name, (frames, named)) in self.kinds() {
            let named: Vec<Value> = named
                .iter()
                .map(|f| json!({ "frame": f.frame, "rows": f.rows, "expected": f.expected }))
                .collect();
            all[name] = json!({ "frames": frames, "named": named });
        }
        all
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let ([missing, fewer, more], known) = (self.kinds().map(|(_, (frames, _))| frames), self.known);
        writeln!(
            out,
            "frames       {known} known to the journal: {missing} missing, {fewer} with fewer rows, {more} with more"
        )?;
        for (name, (_, named)) in self.kinds() {
            for f in named {
                writeln!(out, "             {name:<8} {}: {} of {} rows", f.frame, f.rows, f.expected)?;
            }
        }
        Ok(())
    }
}

/// Rows of one kind: how many keys, and some of them by name.
#[derive(Debug, Default)]
pub struct Kind {
    /// Keys.
    pub keys: u64,
    /// Some of them.
    pub named: Vec<Named>,
}

/// A range of a partition.
#[derive(Debug)]
pub struct Range {
    /// `stream/index`.
    pub partition: String,
    /// First position.
    pub from: Position,
    /// Position after the last.
    pub to: Position,
}

/// Dead letters that Forebay itself has turned down, by their places.
#[derive(Debug, Default)]
pub struct Letters {
    /// Records of the range that must be among them.
    pub expected: u64,
    /// Places of the range that are not there.
    pub missing: Vec<String>,
    /// Places that are there more than once.
    pub duplicate: Vec<String>,
    /// How many of each beyond those that are named.
    pub missing_more: u64,
    /// As above.
    pub duplicate_more: u64,
    /// Rows that the server has refused.
    pub refused: u64,
    /// False if there were too many to compare one by one.
    pub is_compared: bool,
}

impl Letters {
    /// True if none is missing and none is there twice, also of those that are not named.
    fn are_right(&self) -> bool {
        self.missing.is_empty() && self.duplicate.is_empty() && self.missing_more + self.duplicate_more == 0
    }
}

/// What a comparison of a table with its source has found.
#[derive(Debug, Default)]
pub struct Report {
    /// The pipeline's name.
    pub pipeline: String,
    /// The table's.
    pub table: String,
    /// The columns that were compared by.
    pub key: Vec<String>,
    /// The accounts as of the record up to which was compared.
    pub accounts: Totals,
    /// How many of the records in the accounts were replayed.
    pub replayed: u64,
    /// What was compared.
    pub ranges: Vec<Range>,
    /// Records read once more.
    pub records: u64,
    /// True if those are all that the pipeline has read since its genesis.
    pub is_all: bool,
    /// Rows in the table when it was asked.
    pub table_rows: u64,
    /// Buckets of keys, and those that were compared key by key.
    pub buckets: (u64, u64),
    /// Frames and rows that were sealed and not settled when the comparison ended.
    pub in_flight: (u64, u64),
    /// Keys with too few rows.
    pub missing: Kind,
    /// Keys with too many.
    pub duplicate: Kind,
    /// True if the source does not hold all that could explain rows beyond those of a range.
    pub duplicates_untold: bool,
    /// Keys of no record; looked for only if all was compared.
    pub foreign: Kind,
    /// Columns whose values were compared beside the key; `None` if values were not compared.
    pub values: Option<Vec<String>>,
    /// Columns that could not be compared.
    pub values_left_out: Vec<String>,
    /// Keys of rows whose values are those of no record of the key.
    pub different: Kind,
    /// By the provenance column; `None` if the table has none.
    pub frames: Option<Frames>,
    /// Differences beyond those that can be checked again.
    pub more: u64,
    /// Dead letters.
    pub letters: Letters,
    /// Keys of rows that replace each other whose newest record is not known, because several partitions have records of them.
    pub without_order: u64,
    /// What users should know beside the figures.
    pub notes: Vec<String>,
}

impl Report {
    /// True if nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.accounts.records.add_up()
            && self.missing.keys + self.duplicate.keys + self.foreign.keys + self.more == 0
            && self.different.keys == 0
            && self.frames.as_ref().is_none_or(Frames::are_right)
            && self.letters.are_right()
    }

    /// The report as JSON, for programs.
    pub fn json(&self) -> String {
        let kind = |kind: &Kind| {
            let named: Vec<Value> = kind
                .named
                .iter()
                .map(|n| {
                    json!({
                        "key": n.key, "hash": format!("{:016x}", n.hash), "rows": n.rows, "rows_max": n.rows_max,
                        "source": n.source, "item": n.item, "frames": n.frames
                    })
                })
                .collect();
            json!({ "keys": kind.keys, "named": named })
        };
        let ranges: Vec<Value> = self
            .ranges
            .iter()
            .map(|r| json!({ "partition": r.partition, "from": fields::position(r.from), "to": fields::position(r.to) }))
            .collect();
        let mut accounts = fields::counts(&self.accounts, self.replayed);
        accounts["add_up"] = json!(self.accounts.records.add_up());
        let report = json!({
            "pipeline": self.pipeline,
            "table": self.table,
            "right": self.is_right(),
            "key": self.key,
            "accounts": accounts,
            "ranges": ranges,
            "records": self.records,
            "all": self.is_all,
            "table_rows": self.table_rows,
            "buckets": { "all": self.buckets.0, "compared_by_key": self.buckets.1 },
            "in_flight": { "frames": self.in_flight.0, "rows": self.in_flight.1 },
            "missing": kind(&self.missing),
            "duplicate": (!self.duplicates_untold).then(|| kind(&self.duplicate)),
            "foreign": self.is_all.then(|| kind(&self.foreign)),
            "values": { "compared": self.values, "left_out": self.values_left_out },
            "different": self.values.is_some().then(|| kind(&self.different)),
            "frames": self.frames.as_ref().map(Frames::json),
            "more": self.more,
            "dead_letters": {
                "expected": self.letters.expected,
                "missing": self.letters.missing,
                "missing_more": self.letters.missing_more,
                "duplicate": self.letters.duplicate,
                "duplicate_more": self.letters.duplicate_more,
                "refused": self.letters.refused,
                "compared": self.letters.is_compared,
            },
            "notes": self.notes,
        });
        format!("{report:#}\n")
    }

    /// The report as text, for users.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("a String takes all that is written");
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let (c, rows) = (&self.accounts.records, &self.accounts);
        writeln!(out, "pipeline     {}", self.pipeline)?;
        writeln!(
            out,
            "table        {}: {} rows, compared by {}",
            self.table,
            self.table_rows,
            self.key.join(", ")
        )?;
        writeln!(
            out,
            "accounts     {} read{} = {} passed + {} filtered + {} duplicates + {} late + {} rejected + {} absorbed; {} rows written, \
             {} dead letters{}",
            c.read.saturating_sub(self.replayed),
            if self.replayed > 0 { format!(" + {} replayed", self.replayed) } else { String::new() },
            c.passed,
            c.filtered,
            c.duplicates,
            c.late,
            c.dead_letters,
            c.absorbed,
            rows.written,
            rows.dead_letters,
            if c.add_up() { "" } else { ": THEY DO NOT ADD UP" }
        )?;
        writeln!(out, "in flight    {} rows in {} frames", self.in_flight.1, self.in_flight.0)?;
        for range in &self.ranges {
            writeln!(
                out,
                "range        {}: {} to {}",
                range.partition,
                position::shown(range.from),
                position::shown(range.to)
            )?;
        }
        let all = if self.is_all { "all that was ever read" } else { "not all that was ever read" };
        writeln!(
            out,
            "compared     {} records ({all}), {} of {} buckets key by key",
            self.records, self.buckets.1, self.buckets.0
        )?;
        self.write_kind(out, "missing", &self.missing, false)?;
        match self.duplicates_untold {
            true => writeln!(out, "duplicate    not known")?,
            false => self.write_kind(out, "duplicate", &self.duplicate, true)?,
        }
        match self.is_all {
            true => self.write_kind(out, "foreign", &self.foreign, false)?,
            false => writeln!(out, "foreign      not looked for: a row of no record is in no range")?,
        }
        match &self.values {
            Some(columns) => {
                self.write_kind(out, "different", &self.different, false)?;
                writeln!(out, "             compared by {}", columns.join(", "))?;
                if !self.values_left_out.is_empty() {
                    writeln!(out, "             not compared: {}", self.values_left_out.join(", "))?;
                }
            }
            None => writeln!(out, "different    not looked for (`--values`)")?,
        }
        if let Some(frames) = &self.frames {
            frames.write(out)?;
        }
        let letters = &self.letters;
        writeln!(
            out,
            "dead letters {} expected, {} missing, {} duplicate, {} refused by the server{}",
            letters.expected,
            letters.missing.len() as u64 + letters.missing_more,
            letters.duplicate.len() as u64 + letters.duplicate_more,
            letters.refused,
            if letters.is_compared { "" } else { "; too many to compare one by one" }
        )?;
        for place in &letters.missing {
            writeln!(out, "             missing    {place}")?;
        }
        for place in &letters.duplicate {
            writeln!(out, "             duplicate  {place}")?;
        }
        for note in &self.notes {
            writeln!(out, "note         {note}")?;
        }
        writeln!(out, "verdict      {}", if self.is_right() { "right" } else { "NOT RIGHT" })
    }

    /// `has_max` says that the number of rows that a key may have is shown beside those that it has.
    fn write_kind(&self, out: &mut String, name: &str, kind: &Kind, has_max: bool) -> std::fmt::Result {
        writeln!(out, "{name:<12} {} keys", kind.keys)?;
        for named in &kind.named {
            let key = named.key.as_deref().unwrap_or("(key unknown)");
            write!(out, "             {key}: {} rows", named.rows)?;
            if has_max {
                write!(out, ", {} at the most", named.rows_max)?;
            }
            if let Some(source) = &named.source {
                write!(out, ", record {source}")?;
            }
            if let Some(item) = named.item {
                write!(out, ", item {item}")?;
            }
            match named.frames.as_slice() {
                [] => writeln!(out)?,
                frames => writeln!(out, ", of frame {}", frames.join(", "))?,
            }
        }
        let more = kind.keys - kind.named.len() as u64;
        if more > 0 {
            writeln!(out, "             and {more} more")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
