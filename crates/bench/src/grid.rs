//! A small table of a report: a row for each thing that is compared, and the sentences that its numbers need.
//!
//! Owns its shape in `--json` and its layout as text. Does not own the numbers (each workload), nor the page (`html`).

use std::fmt::Write;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::figure::Figure;

/// Letters of a line of a sentence, at the most.
const NOTE_WIDTH: usize = 120;

/// What stands for a number that is not known.
const UNKNOWN: &str = "-";

/// A table with a title.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Grid {
    /// Above it.
    pub title: String,
    /// The heading of each number; a figure's label is short here.
    #[serde(skip)]
    pub columns: Vec<Figure>,
    /// In the order in which they are shown.
    pub rows: Vec<Row>,
    /// Sentences below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What the row is about.
    pub name: String,
    /// The numbers that are known, in any order.
    pub values: Vec<(Figure, f64)>,
}

impl Grid {
    /// One with these columns and no row.
    pub fn new(title: &str, columns: &[Figure]) -> Self {
        Self { title: title.to_owned(), columns: columns.to_vec(), ..Self::default() }
    }

    /// Adds a row; values of figures that are no column are left out, and columns without a value stay empty.
    pub fn push(&mut self, name: impl Into<String>, value: impl Fn(Figure) -> Option<f64>) {
        let values = self.columns.iter().filter_map(|column| Some((*column, value(*column)?))).collect();
        self.rows.push(Row { name: name.into(), values });
    }

    /// The texts of a row's cells, in the order of the columns.
    pub fn cells(&self, row: &Row) -> Vec<String> {
        let text = |column: &Figure| match row.values.iter().find(|(figure, _)| figure.key == column.key) {
            Some((figure, value)) => figure.shown.text(*value),
            None => UNKNOWN.to_owned(),
        };
        self.columns.iter().map(text).collect()
    }

    /// As text for a terminal.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write(&self, out: &mut impl Write) -> std::fmt::Result {
        let wide =
            |texts: &mut dyn Iterator<Item = &str>| texts.map(|text| text.chars().count()).max().unwrap_or(0);
        let names = wide(&mut self.rows.iter().map(|row| row.name.as_str()).chain([self.title.as_str()]));
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| self.cells(row)).collect();
        let widths: Vec<usize> = (self.columns.iter().enumerate())
            .map(|(n, column)| wide(&mut cells.iter().map(|row| row[n].as_str()).chain([column.label])))
            .collect();
        let mut line = |name: &str, texts: &mut dyn Iterator<Item = &str>| {
            write!(out, "{name:<names$}")?;
            texts.zip(&widths).try_for_each(|(text, width)| write!(out, "  {text:>width$}"))?;
            writeln!(out)
        };
        line(&self.title, &mut self.columns.iter().map(|column| column.label))?;
        for (row, cells) in self.rows.iter().zip(&cells) {
            line(&row.name, &mut cells.iter().map(String::as_str))?;
        }
        self.notes.iter().try_for_each(|note| write_wrapped(out, note))
    }
}

/// A sentence set in by two spaces, and further lines of it by four.
fn write_wrapped(out: &mut impl Write, sentence: &str) -> std::fmt::Result {
    let mut wide = 0;
    for word in sentence.split(' ') {
        let letters = word.chars().count();
        if wide > 0 && wide + 1 + letters > NOTE_WIDTH {
            write!(out, "\n    {word}")?;
            wide = 4 + letters;
        } else {
            let before = if wide == 0 { "  " } else { " " };
            write!(out, "{before}{word}")?;
            wide += before.len() + letters;
        }
    }
    writeln!(out)
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.values.len()))?;
        map.serialize_entry("name", &self.name)?;
        for (figure, value) in &self.values {
            map.serialize_entry(figure.key, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
