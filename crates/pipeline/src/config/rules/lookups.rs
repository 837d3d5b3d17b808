//! Rules for lookups: what the file says of the other side.
//!
//! Does not own the columns of the rows and the place of the step, which the planner knows (`plan::lookups`).

use super::Rules;
use crate::config::model::source::{Format, FormatWord};

impl Rules<'_> {
    /// Every `lookup`.
    pub(super) fn lookups(&mut self) {
        for (at, step) in self.pipeline.steps.iter().enumerate() {
            let Some(lookup) = &step.lookup else { continue };
            let path = format!("steps[{at}].lookup");
            for (name, type_name) in &lookup.fields.0 {
                if let Err(error) = clickhouse::types::parse(name.as_str(), type_name) {
                    self.fault(&format!("{path}.fields.{name}"), format!("no type: {}", error.reason));
                }
            }
            for (nth, (own, theirs)) in lookup.pairs().iter().enumerate() {
                let of_key = format!("{path}.on[{nth}]");
                if own.is_empty() || theirs.is_empty() || theirs.contains('=') {
                    self.fault(&of_key, "write a column that both have, or `own_name = other_name`");
                } else if !lookup.fields.has(theirs) {
                    let message = format!(
                        "`{theirs}` has no type; write `{theirs}: String` under `fields`, with its type"
                    );
                    self.fault(&of_key, message);
                }
            }
            for (name, from) in &lookup.columns.0 {
                if !lookup.fields.has(from) {
                    let message =
                        format!("`{from}` has no type; write `{from}: String` under `fields`, with its type");
                    self.fault(&format!("{path}.columns.{name}"), message);
                }
            }
            let Some(file) = &lookup.file else { continue };
            let of_format = format!("{path}.file.format");
            match &file.format {
                Format::Word(FormatWord::Json | FormatWord::Csv) => {
                    self.csv_of(&file.format, &of_format, true)
                }
                Format::Options(options) if options.json.is_some() || options.csv.is_some() => {
                    self.csv_of(&file.format, &of_format, true);
                }
                _ => self.fault(&of_format, "a lookup reads JSON, one object a line, or CSV"),
            }
        }
    }
}
