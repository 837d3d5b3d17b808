//! A report as JSON in which rows stand as they are.
//!
//! Owns the layout. Does not own the rows' text ([`clickhouse::json`]), whose numbers have more digits than a `Value` of `serde_json` keeps.

use std::fmt::{self, Display, Write};

use serde_json::Value;

/// JSON, with texts in it that are JSON already.
pub(super) enum Json {
    Value(Value),
    /// On one line, to the last digit.
    Row(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, 0)
    }
}

impl Json {
    pub(super) fn of(value: impl Into<Value>) -> Self {
        Self::Value(value.into())
    }

    /// Writes it behind what stands on its line already, whose depth is `depth`.
    fn write(&self, out: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let margin = "  ".repeat(depth);
        match self {
            // No text of JSON has a line end of its own.
            Self::Value(value) => out.write_str(&format!("{value:#}").replace('\n', &format!("\n{margin}"))),
            Self::Row(text) => out.write_str(text),
            Self::List(items) if items.is_empty() => out.write_str("[]"),
            Self::Object(entries) if entries.is_empty() => out.write_str("{}"),
            Self::List(items) => {
                out.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    write!(out, "{}\n{margin}  ", if at > 0 { "," } else { "" })?;
                    item.write(out, depth + 1)?;
                }
                write!(out, "\n{margin}]")
            }
            Self::Object(entries) => {
                out.write_char('{')?;
                for (at, (name, value)) in entries.iter().enumerate() {
                    let name = Value::from(name.as_str());
                    write!(out, "{}\n{margin}  {name}: ", if at > 0 { "," } else { "" })?;
                    value.write(out, depth + 1)?;
                }
                write!(out, "\n{margin}}}")
            }
        }
    }
}
