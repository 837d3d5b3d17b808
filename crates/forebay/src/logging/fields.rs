//! The fields of a log line as text.
//!
//! Owns what a field's value may do to a terminal: nothing. `tracing` escapes messages and errors, but not the values of other fields, and the colours that it
//! writes itself cannot be told from those of a value once the line is whole. Does not own the rest of the line ([`super`]).

use std::error::Error;
use std::fmt::{self, Debug};

use dataflow::printing;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use super::LINE_CHARS_MAX;

/// Writes fields as `tracing` does, with [`dataflow::printing`]'s escapes in their values.
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line { writer, is_empty: true, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

struct Line<'w> {
    writer: Writer<'w>,
    is_empty: bool,
    result: fmt::Result,
}

impl Line<'_> {
    fn put(&mut self, field: &Field, value: &str) -> fmt::Result {
        let name = field.name();
        // What other crates log comes with its place, which the line has already.
        if name.starts_with("log.") {
            return Ok(());
        }
        if !std::mem::take(&mut self.is_empty) {
            self.writer.write_char(' ')?;
        }
        if name != "message" {
            let name = name.strip_prefix("r#").unwrap_or(name);
            match self.writer.has_ansi_escapes() {
                true => write!(self.writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
                false => write!(self.writer, "{name}=")?,
            }
        }
        self.writer.write_str(&printing::escaped(value, LINE_CHARS_MAX))
    }

    fn field(&mut self, field: &Field, value: &str) {
        if self.result.is_ok() {
            self.result = self.put(field, value);
        }
    }
}

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.field(field, value),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut whole = value.to_string();
        let mut source = value.source();
        while let Some(error) = source {
            whole += &format!(": {error}");
            source = error.source();
        }
        self.field(field, &whole);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.field(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests;
