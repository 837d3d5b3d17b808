//! Sales of five countries, minute by minute, to be ingested twice.
//!
//! Owns the rows, the files they stand in, and what the table must hold after the first file as after the second reading of
//! all. Does not own where the files lie and in which order they are read.
//!
//! A row is JSON of about 120 bytes; country, time and category name it:
//! ```text
//! {"ts": "2020-01-01 00:01:00", "country": "UK", "category": "WOMEN", "visits": 511, "unique_visitors": 104, "sales": 179.2440}
//! ```
//! A file holds `minutes` minutes of one country, six rows a minute, and begins where the country's file before it ends. With
//! U{a..b} a whole number chosen evenly, minute n = 1, 2, … of each file has
//!
//! | field             | value                                                         |
//! |-------------------|---------------------------------------------------------------|
//! | `visits`          | ⌊U{a..b} · n · (1 + 0.2 · cos(n · 6.28 / 43,800))⌋            |
//! | `unique_visitors` | ⌊U{c..d} · n · (1 + 0.5 · cos(n · 6.28 / 43,800))⌋            |
//! | `sales`           | `unique_visitors` · U{3,4} / 100 · U{1..6} · the category's price, exact to four decimals |
//!
//! The experiment was published with a table a country and 15 files of 2,102,400 minutes: 189,216,000 rows.

pub mod oracle;
mod wave;

use crate::random::{below, nth};
use crate::text::date_time;
use wave::cos;

/// Minutes of a file as published: four years.
pub const MINUTES_PUBLISHED: u32 = 2_102_400;
/// Files of each country as published.
pub const FILES_PER_COUNTRY_PUBLISHED: u32 = 3;
/// Bytes of the longest row: reserve so many per row and [`Workload::write`] never allocates.
pub const ROW_BYTES_MAX: usize = 192;
/// 2020-01-01 00:00:00 UTC: the minute before the first.
const START_TIME_S: u64 = 1_577_836_800;
/// Minutes of one country at the most, all its files together: the last still fits ClickHouse's `DateTime`.
pub const MINUTES_MAX: u64 = 40_000_000;

/// A country and its ranges, both ends inclusive.
struct Country {
    name: &'static str,
    visits: (u64, u64),
    visitors: (u64, u64),
}

const COUNTRIES: [Country; 5] = [
    Country { name: "UK", visits: (500, 520), visitors: (100, 300) },
    Country { name: "DE", visits: (420, 500), visitors: (80, 280) },
    Country { name: "FR", visits: (400, 480), visitors: (130, 240) },
    Country { name: "IT", visits: (350, 400), visitors: (60, 150) },
    Country { name: "ES", visits: (300, 310), visitors: (40, 125) },
];

/// Name and price in hundredths.
const CATEGORIES: [(&str, u64); 6] = [
    ("WOMEN", 5_745),
    ("MEN", 4_634),
    ("KIDS", 4_975),
    ("HOME", 6_753),
    ("KITCHEN", 2_632),
    ("BATHROOM", 2_367),
];

/// The size of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Everything random comes from it.
    pub seed: u64,
    /// Minutes of each file; at least 1.
    pub minutes: u32,
    /// Files of each country; at least 1.
    pub files_per_country: u32,
}

impl Default for Spec {
    /// A hundredth of the published size: 1,892,160 rows in 15 files.
    fn default() -> Self {
        Self { seed: 1, minutes: MINUTES_PUBLISHED / 100, files_per_country: FILES_PER_COUNTRY_PUBLISHED }
    }
}

/// Why a [`Spec`] makes no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Nothing to write.
    #[error("`0` minutes or files; give at least 1 of each")]
    Nothing,
    /// Times would not fit.
    #[error("a country would have `{0}` minutes; at most {MINUTES_MAX} fit the time column")]
    TooLong(u64),
}

/// A checked [`Spec`] that gives its rows. Costs nothing to make or clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    spec: Spec,
}

/// A row's values.
struct Row {
    time_s: u64,
    country: &'static str,
    category: &'static str,
    visits: u64,
    unique_visitors: u64,
    /// In ten-thousandths.
    sales: u64,
}

impl Workload {
    /// Checks the spec.
    ///
    /// # Errors
    /// When there is nothing to write, or more than fits.
    pub fn new(spec: Spec) -> Result<Self, SpecError> {
        if spec.minutes == 0 || spec.files_per_country == 0 {
            return Err(SpecError::Nothing);
        }
        let minutes = u64::from(spec.minutes) * u64::from(spec.files_per_country);
        if minutes > MINUTES_MAX {
            return Err(SpecError::TooLong(minutes));
        }
        Ok(Self { spec })
    }

    /// The spec it was made from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Rows with the same countries, times and categories, and other numbers: what a second reading brings that changes every row.
    pub fn changed(&self) -> Self {
        Self { spec: Spec { seed: self.spec.seed.wrapping_add(1), ..self.spec.clone() } }
    }

    /// Files, numbered from 0; the countries take turns.
    pub fn files(&self) -> u32 {
        self.spec.files_per_country * COUNTRIES.len() as u32
    }

    /// Rows of each file, numbered from 0.
    pub fn rows_per_file(&self) -> u64 {
        u64::from(self.spec.minutes) * CATEGORIES.len() as u64
    }

    /// Rows of all files, each of them different.
    pub fn rows_total(&self) -> u64 {
        u64::from(self.files()) * self.rows_per_file()
    }

    /// A name for a file: country and number, without an ending.
    pub fn file_name(&self, file: u32) -> String {
        let countries = COUNTRIES.len() as u32;
        let country = &COUNTRIES[(file % countries) as usize];
        format!("{}-{}", country.name.to_ascii_lowercase(), file / countries)
    }

    /// Appends a row of a file to `out`, without a line end. Behind the end it appends nothing and answers false.
    pub fn write(&self, file: u32, row: u64, out: &mut Vec<u8>) -> bool {
        let Some(row) = self.row(file, row) else { return false };
        row.write_json(out);
        true
    }

    /// The same as a line of the line protocol of InfluxDB and QuestDB, for a table of that name.
    pub fn write_line_protocol(&self, table: &str, file: u32, row: u64, out: &mut Vec<u8>) -> bool {
        let Some(row) = self.row(file, row) else { return false };
        row.write_line_protocol(table, out);
        true
    }

    fn row(&self, file: u32, row: u64) -> Option<Row> {
        if file >= self.files() || row >= self.rows_per_file() {
            return None;
        }
        let countries = COUNTRIES.len() as u32;
        let country = &COUNTRIES[(file % countries) as usize];
        let minutes_before = u64::from(file / countries) * u64::from(self.spec.minutes);
        let minute = row / CATEGORIES.len() as u64 + 1;
        let (category, price) = CATEGORIES[(row % CATEGORIES.len() as u64) as usize];
        let series = nth(nth(self.spec.seed, u64::from(file)), row);
        let pick = |n, (from, to): (u64, u64)| from + below(nth(series, n), to - from + 1);
        // 6.28, as published, and not a whole turn.
        let angle = minute as f64 * 628.0 / 4_380_000.0;
        let grown = |number: u64, swing: f64| {
            // Never negative: the swing is below 1, and so is the wave.
            ((number * minute) as f64 * (1.0 + swing * cos(angle))) as u64
        };
        let unique_visitors = grown(pick(1, country.visitors), 0.5);
        Some(Row {
            time_s: START_TIME_S + (minutes_before + minute) * 60,
            country: country.name,
            category,
            visits: grown(pick(0, country.visits), 0.2),
            unique_visitors,
            sales: unique_visitors * pick(2, (3, 4)) * pick(3, (1, 6)) * price,
        })
    }
}

impl Row {
    fn write_json(&self, out: &mut Vec<u8>) {
        use std::io::Write;
        let Self { country, category, visits, unique_visitors, sales, .. } = self;
        out.extend_from_slice(b"{\"ts\": \"");
        out.extend_from_slice(&date_time(self.time_s));
        write!(
            out,
            "\", \"country\": \"{country}\", \"category\": \"{category}\", \"visits\": {visits}, \
             \"unique_visitors\": {unique_visitors}, \"sales\": {}.{:04}}}",
            sales / 10_000,
            sales % 10_000
        )
        .expect("a vector takes every byte");
    }

    fn write_line_protocol(&self, table: &str, out: &mut Vec<u8>) {
        use std::io::Write;
        let Self { time_s, country, category, visits, unique_visitors, sales } = self;
        write!(
            out,
            "{table},country={country},category={category} visits={visits}i,unique_visitors={unique_visitors}i,\
             sales={}.{:04} {time_s}000000000",
            sales / 10_000,
            sales % 10_000
        )
        .expect("a vector takes every byte");
    }
}

#[cfg(test)]
mod tests;
