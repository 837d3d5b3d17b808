//! Rules of `format: csv` of an input, or of the file of a lookup.
//!
//! Owns what the schema of the pipeline file cannot say of these settings. Does not own the format ([`formats::csv`]).

use std::collections::BTreeSet;

use super::Rules;
use crate::config::model::Input;
use crate::config::model::source::{Format, FormatWord, NO_QUOTE};

impl Rules<'_> {
    pub(super) fn csv(&mut self, input: &Input<'_>) {
        let source = input.source;
        if source.generator.is_some() && source.format.csv().is_some() {
            let message = "a generator makes JSON; leave `format` out";
            return self.fault(&format!("{}.format.csv", input.path), message);
        }
        self.csv_of(&source.format, &format!("{}.format", input.path), source.file.is_some());
    }

    /// The settings of `format`, whose key this is.
    pub(super) fn csv_of(&mut self, format: &Format, key: &str, from_file: bool) {
        let path = format!("{key}.csv");
        if matches!(format, Format::Word(FormatWord::Csv)) {
            let of_file = "; for files whose first line names them `format: { csv: { header: true } }`";
            let message = format!(
                "CSV needs the names of its fields: write `format: {{ csv: {{ columns: [id, name] }} }}`{}",
                if from_file { of_file } else { "" }
            );
            return self.fault(key, message);
        }
        let Some(csv) = format.csv() else { return };
        match (csv.header, csv.columns.is_empty()) {
            (true, false) => self.fault(
                &format!("{path}.columns"),
                "with `header: true` the first line of each file names the fields; remove one of the two",
            ),
            (true, true) if !from_file => self.fault(
                &format!("{path}.header"),
                "only files have a header; name the fields of a message with `columns: [id, name]`",
            ),
            (false, true) => {
                let of_file = ", or `header: true` if the first line of each file names them";
                let message = format!(
                    "the fields have no names: write `columns: [id, name]`{}",
                    if from_file { of_file } else { "" }
                );
                self.fault(&path, message);
            }
            (true, true) | (false, false) => {}
        }
        let mut names = BTreeSet::new();
        if let Some(at) = csv.columns.iter().position(|name| !names.insert(name)) {
            self.fault(&format!("{path}.columns[{at}]"), format!("`{}` names two fields", csv.columns[at]));
        }
        let is_one =
            |text: &str| matches!(text.as_bytes(), [byte] if byte.is_ascii() && !b"\r\n".contains(byte));
        if !is_one(&csv.delimiter) {
            self.fault(
                &format!("{path}.delimiter"),
                "`delimiter` is one ASCII character and no line break; `\"\\t\"` is a tab",
            );
        }
        if csv.quote != NO_QUOTE && (!is_one(&csv.quote) || csv.quote == csv.delimiter) {
            self.fault(
                &format!("{path}.quote"),
                "`quote` is one ASCII character, neither a line break nor the delimiter; `none` gives quotes no meaning",
            );
        }
    }
}
