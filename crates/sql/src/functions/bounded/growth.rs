//! What a call makes of one record.
//!
//! Owns the counting, without making it. Does not own the bounds ([`super`]).

use std::collections::HashMap;
use std::sync::LazyLock;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use regex::Regex;

use super::TEXT_BYTES_MAX;
use crate::sizes;

/// The arguments of one record.
pub(super) struct Row<'a> {
    /// Each with whether it is a constant: one value for all records.
    pub(super) columns: &'a [(ArrayRef, bool)],
    pub(super) row: usize,
}

impl<'a> Row<'a> {
    /// The argument with the place of its value; `None` if there is none or it is NULL.
    fn at(&self, argument: usize) -> Option<(&'a ArrayRef, usize)> {
        let (column, constant) = self.columns.get(argument)?;
        let row = if *constant { 0 } else { self.row };
        column.is_valid(row).then_some((column, row))
    }

    /// A whole number, or the days of a date.
    pub(super) fn integer(&self, argument: usize) -> Option<i64> {
        let (column, row) = self.at(argument)?;
        if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
            return Some(numbers.value(row));
        }
        let one = column.slice(row, 1);
        let one = match one.data_type() {
            DataType::Date32 => arrow_cast::cast(&one, &DataType::Int32).ok()?,
            t if t.is_integer() => one,
            _ => return None,
        };
        let one = arrow_cast::cast(&one, &DataType::Int64).ok()?;
        Some(one.as_primitive_opt::<Int64Type>()?.value(0))
    }

    /// A text; NULL is an empty one, as is what is none.
    pub(super) fn text(&self, argument: usize) -> &'a str {
        let Some((column, row)) = self.at(argument) else { return "" };
        match column.data_type() {
            DataType::Utf8 => column.as_string::<i32>().value(row),
            DataType::LargeUtf8 => column.as_string::<i64>().value(row),
            DataType::Utf8View => column.as_string_view().value(row),
            _ => "",
        }
    }

    /// Bytes of a text.
    pub(super) fn len(&self, argument: usize) -> i64 {
        self.text(argument).len() as i64
    }

    /// Bytes of any value; those of its place if it is NULL.
    pub(super) fn bytes(&self, argument: usize) -> i64 {
        let Some((column, constant)) = self.columns.get(argument) else { return 0 };
        let row = if *constant { 0 } else { self.row };
        sizes::bytes(column, row..row + 1) as i64
    }

    /// Items of an array; `None` if it is none.
    pub(super) fn list(&self, argument: usize) -> Option<i32> {
        let (column, row) = self.at(argument)?;
        Some(column.as_list_opt::<i32>()?.value_length(row))
    }

    /// The same; 0 if it is none.
    pub(super) fn items(&self, argument: usize) -> i64 {
        self.list(argument).map_or(0, i64::from)
    }
}

/// Bytes that `concat(a, b, …)` makes of a batch, or `concat_ws(separator, a, b, …)`.
pub(super) fn concatenated(columns: &[(ArrayRef, bool)], rows: usize, has_separator: bool) -> i64 {
    let bytes = columns.iter().enumerate().map(|(at, (column, constant))| {
        let times = if *constant { rows } else { 1 };
        let written = if at == 0 && has_separator { columns.len().saturating_sub(2) } else { 1 };
        sizes::bytes(column, 0..column.len()).saturating_mul(times).saturating_mul(written)
    });
    i64::try_from(bytes.fold(0, usize::saturating_add)).unwrap_or(i64::MAX)
}

/// Bytes that `replace(text, from, to)` adds.
pub(super) fn replaced(row: &Row) -> i64 {
    let (from, to) = (row.len(1), row.len(2));
    if to <= from {
        return 0;
    }
    let found = row.text(0).matches(row.text(1)).count() as i64;
    found.saturating_mul(to - from)
}

/// Delimiters and texts for NULL that `array_to_string(array, delimiter, null)` writes, and what the array has for its items: 4 bytes for each.
pub(super) fn joined(row: &Row) -> (i64, i64) {
    let Some((array, at)) = row.at(0) else { return (0, 0) };
    let (items, nulls) = sizes::leaves(array, at..at + 1);
    let delimiters = row.len(1).saturating_mul(items as i64);
    let added = delimiters.saturating_add(row.len(2).saturating_mul(nulls as i64));
    (added, 4 * items as i64)
}

/// Bytes that `array_replace_all(array, from, to)` adds, or `array_replace_n(array, from, to, most)`.
pub(super) fn items_replaced(row: &Row) -> i64 {
    let most = if row.columns.len() > 3 { row.integer(3).unwrap_or(0) } else { i64::MAX };
    let (from, to) = (row.bytes(1), row.bytes(2));
    if to <= from {
        return 0;
    }
    let found = match row.at(0).and_then(|(array, at)| array.as_list_opt::<i32>().map(|list| list.value(at)))
    {
        Some(items) if items.data_type() == &DataType::Utf8 => {
            let wanted = row.at(1).map(|_| row.text(1));
            items.as_string::<i32>().iter().filter(|item| *item == wanted).count() as i64
        }
        // Arrays within the array: as if all of them were replaced.
        Some(items) => items.len() as i64,
        None => 0,
    };
    found.min(most).saturating_mul(to - from)
}

/// Items of a range. Of dates every day counts, whatever the step.
pub(super) fn span(row: &Row) -> i64 {
    let int = |at: usize| row.integer(at);
    let (start, stop, step) = match row.columns.len() {
        1 => (Some(0), int(0), Some(1)),
        2 => (int(0), int(1), Some(1)),
        _ => (int(0), int(1), int(2).or(Some(1))),
    };
    let (Some(start), Some(stop), Some(step)) = (start, stop, step) else { return 0 };
    match step {
        0 => 0,
        step => (i128::from(stop) - i128::from(start))
            .checked_div(i128::from(step))
            .map_or(0, |items| i64::try_from(items.abs()).unwrap_or(i64::MAX)),
    }
}

/// Regular expressions of a batch, compiled once; `None` for one that is none.
pub(super) type Patterns = HashMap<String, Option<Regex>>;

/// Bytes that `regexp_replace(text, pattern, replacement, flags)` adds, or more if that is within the bound anyway.
pub(super) fn matches_replaced(row: &Row, patterns: &mut Patterns) -> i64 {
    let (text, replacement, flags) = (row.text(0), row.text(2), row.text(3));
    let all = flags.contains('g');
    let references = replacement.bytes().filter(|byte| matches!(byte, b'$' | b'\\')).count();
    let matches_max = if all { text.len() + 1 } else { 1 };
    let most =
        matches_max.saturating_mul(replacement.len()).saturating_add(references.saturating_mul(text.len()));
    if most as i64 <= TEXT_BYTES_MAX {
        return most as i64;
    }
    let others = flags.replace('g', "");
    let pattern =
        if others.is_empty() { row.text(1).to_owned() } else { format!("(?{others}){}", row.text(1)) };
    let compiled = patterns.entry(pattern).or_insert_with_key(|pattern| Regex::new(pattern).ok());
    // DataFusion says what is wrong with it.
    let Some(pattern) = compiled else { return 0 };
    let replacement = Replacement::new(replacement, pattern);
    let mut added = 0_i64;
    for found in pattern.captures_iter(text).take(if all { usize::MAX } else { 1 }) {
        added = added.saturating_add(replacement.len(&found)) - found[0].len() as i64;
        // What is left can at most take away its own length.
        if added > TEXT_BYTES_MAX + text.len() as i64 {
            break;
        }
    }
    added
}

/// What takes the place of a match: its own bytes, and groups of the match with how often each is written.
struct Replacement {
    literal: i64,
    groups: HashMap<usize, i64>,
}

impl Replacement {
    /// `$1`, `${1}`, `${name}` and `\1` are groups, `$$` is a `$`.
    fn new(text: &str, pattern: &Regex) -> Self {
        static NUMBERS: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\\{1,2}(\d+)").expect("a constant pattern"));
        let text = NUMBERS.replace_all(text, "$${$1}");
        let (mut literal, mut groups, mut rest) = (0, HashMap::new(), &*text);
        while let Some(at) = rest.find('$') {
            literal += at as i64;
            rest = &rest[at + 1..];
            let braced = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let bare = || rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
            let (name, behind) = braced.unwrap_or_else(bare);
            if name.is_empty() && braced.is_none() {
                // Also the first of two.
                literal += 1;
                rest = rest.strip_prefix('$').unwrap_or(rest);
                continue;
            }
            let by_name = || pattern.capture_names().position(|group| group == Some(name));
            if let Some(group) = name.parse().ok().or_else(by_name) {
                *groups.entry(group).or_insert(0) += 1;
            }
            rest = behind;
        }
        Self { literal: literal + rest.len() as i64, groups }
    }

    fn len(&self, found: &regex::Captures) -> i64 {
        let group = |(group, times): (&usize, &i64)| {
            found.get(*group).map_or(0, |group| (group.len() as i64).saturating_mul(*times))
        };
        self.groups.iter().map(group).fold(self.literal, i64::saturating_add)
    }
}

#[cfg(test)]
mod tests;
