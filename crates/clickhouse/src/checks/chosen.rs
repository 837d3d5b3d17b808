//! The columns of a table that inserts name.
//!
//! Owns the choice, and which DEFAULTs an insert can have computed. Does not own what those columns must be ([`super::columns`]).
//!
//! ClickHouse computes a DEFAULT in place of NULL from the columns of the insert alone, and a DEFAULT of a column that the insert leaves
//! out from all columns of the table (tried with 26.7):
//!
//! | `x UInt64 DEFAULT tw + 1`, and `tw` is                | NULL for `x` | an insert without `x` |
//! |-------------------------------------------------------|--------------|-----------------------|
//! | stored and sent                                       | computed     | computed              |
//! | EPHEMERAL and sent                                    | computed     | computed              |
//! | ALIAS, MATERIALIZED or EPHEMERAL, and so not sent     | code 47      | computed              |

use super::read::{ColumnRow, TableRow};
use crate::config::TableConfig;

/// The columns of an insert.
pub(super) struct Chosen<'a> {
    /// Their names, in the order of the table, or of whoever named them.
    pub(super) names: Vec<&'a str>,
    /// Those of them that no NULL may stand for: the server cannot compute their DEFAULT.
    pub(super) have_no_default: Vec<&'a str>,
}

impl<'a> Chosen<'a> {
    /// The columns that are named, or all that are stored as they are sent; of those that the pipeline fills by name also EPHEMERAL ones.
    pub(super) fn of(table: &'a TableRow, config: &'a TableConfig, notes: &mut Vec<String>) -> Self {
        let columns = &table.columns;
        let mut names: Vec<&str> = match &config.columns {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => columns.iter().filter(|c| is_sent(c, config)).map(|c| c.name.as_str()).collect(),
        };
        let mut have_no_default = Vec::new();
        // A column that is left out may be one that another's DEFAULT reads; each round leaves out one more.
        while let Some((column, read)) = columns.iter().find_map(|column| {
            let is_open =
                names.contains(&column.name.as_str()) && !have_no_default.contains(&column.name.as_str());
            let read = is_open.then(|| reads_what_is_not_sent(column, columns, &names)).flatten()?;
            Some((column, read))
        }) {
            let (name, default) = (&column.name, &column.default_expression);
            let kind = match read.default_kind.as_str() {
                "ALIAS" | "MATERIALIZED" | "EPHEMERAL" => read.default_kind.as_str(),
                _ => "left to the server",
            };
            let what = format!(
                "column `{name}` has the DEFAULT `{default}`, which reads `{}`, and that is {kind}",
                read.name
            );
            match config.is_named(name) {
                true => {
                    have_no_default.push(name.as_str());
                    notes.push(format!("{what}: ClickHouse cannot compute it in place of NULL, so records must have the field"));
                }
                false => {
                    names.retain(|sent| sent != name);
                    notes.push(format!(
                        "{what}: the server computes the column, and a field `{name}` of the records is not read; to send it, name it under \
                         `columns`, as in `columns: {{ {name}: {name} }}`, and every record must have it"
                    ));
                }
            }
        }
        Self { names, have_no_default }
    }
}

fn is_sent(column: &ColumnRow, config: &TableConfig) -> bool {
    column.is_stored_as_sent() || (column.is_ephemeral() && config.is_named(&column.name))
}

/// A column that the DEFAULT of `column` reads and an insert into `names` does not have.
pub(crate) fn reads_what_is_not_sent<'a>(
    column: &ColumnRow,
    columns: &'a [ColumnRow],
    names: &[&str],
) -> Option<&'a ColumnRow> {
    let read: Vec<String> = Names { rest: &column.default_expression }.collect();
    let is_read = |other: &&ColumnRow| {
        other.name != column.name && !names.contains(&other.name.as_str()) && read.contains(&other.name)
    };
    columns.iter().find(is_read)
}

/// The names in an expression that may be columns: all words but functions, and all quoted names. The parameter of a lambda is taken for
/// one too; at worst the server computes a column that could be sent.
struct Names<'a> {
    rest: &'a str,
}

impl Iterator for Names<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            let first = self.rest.chars().next()?;
            match first {
                '\'' => drop(self.quoted(first)),
                '`' | '"' => return Some(self.quoted(first)),
                _ if first.is_alphabetic() || first == '_' => {
                    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
                    let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
                    let (word, rest) = self.rest.split_at(end);
                    self.rest = rest;
                    if !rest.trim_start().starts_with('(') {
                        return Some(word.to_owned());
                    }
                }
                // The digits of a number, and what follows them (`1e5`), are no name.
                _ if first.is_ascii_digit() => {
                    let end = self.rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                }
                _ => self.rest = &self.rest[first.len_utf8()..],
            }
        }
    }
}

impl Names<'_> {
    /// What stands between two of these quotes; a backslash takes the next character as it is.
    fn quoted(&mut self, quote: char) -> String {
        let (mut text, mut chars) = (String::new(), self.rest.char_indices());
        chars.next();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, next)| next)),
                _ if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return text;
                }
                _ => text.push(c),
            }
        }
        self.rest = "";
        text
    }
}

#[cfg(test)]
mod tests;
