//! ClickHouse's names of column types, read into [`ColumnType`] and written back.
//!
//! Owns the names of all types that a pipeline writes, as the server has them in `system.columns` and users in a pipeline file (read by
//! `grammar`), what a statement that makes a table says of a column (`declaration`), and the quoting of texts and identifiers. Does not own
//! how a type is held in memory (`dataflow::types`) or on the wire ([`crate::native`]).
//!
//! | name                                          | read as                                   |
//! |-----------------------------------------------|-------------------------------------------|
//! | `Decimal(P, S)`, `Decimal(P)`                 | Decimal, P at most 38                     |
//! | `Decimal32(S)`, `Decimal64(S)`, `Decimal128(S)` | Decimal of 9, 18, 38 digits             |
//! | `DateTime`, `DateTime('zone')`                | DateTime                                  |
//! | `DateTime64(p)`, `DateTime64(p, 'zone')`      | DateTime64                                |
//! | `Enum8('a' = 1, …)`, `Enum16(…)`              | the same, every number written out        |
//! | `Nullable`, `LowCardinality`, `Array`, `Map`  | the same, nested as ClickHouse permits    |
//! | `JSON`, `JSON(max_dynamic_paths = 8, a.b UInt8, SKIP c)` | JSON, what stands in parentheses as it is |
//! | `AggregateFunction(f, t, …)`                  | State, for the functions whose states are made |
//! | `SimpleAggregateFunction(f, t)`               | `t`, which is what it takes               |
//! | everything else                               | an error that names the column and the type |

mod aliases;
mod declaration;
mod grammar;

use dataflow::ColumnType;
use dataflow::types::EnumName;

pub use declaration::{Declaration, declaration};

/// Why a type cannot be written by a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column `{column}` has the type `{type_name}`: {reason}")]
pub struct TypeError {
    /// The column concerned.
    pub column: String,
    /// The whole type as it was written, shortened to 200 characters.
    pub type_name: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads the type of `column`.
pub fn parse(column: &str, type_name: &str) -> Result<ColumnType, TypeError> {
    let parsed = grammar::parse(type_name);
    parsed.map_err(|reason| TypeError {
        column: column.to_owned(),
        type_name: shorten(type_name, 200),
        reason,
    })
}

/// The type's name as ClickHouse writes it.
pub fn name(column_type: &ColumnType) -> String {
    let mut out = String::new();
    write_name(column_type, &mut out);
    out
}

/// Text in single quotes with ClickHouse's escapes.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for c in text.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\0"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// A name in backticks with ClickHouse's escapes, safe to stand in a statement.
pub fn identifier(text: &str) -> String {
    let quoted = quote(text);
    let inner = quoted[1..quoted.len() - 1].replace("\\'", "'").replace('`', "\\`");
    format!("`{inner}`")
}

/// The first `chars_max` characters, with an ellipsis if there were more.
pub(crate) fn shorten(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn write_name(column_type: &ColumnType, out: &mut String) {
    let plain = match column_type {
        ColumnType::Int8 => "Int8",
        ColumnType::Int16 => "Int16",
        ColumnType::Int32 => "Int32",
        ColumnType::Int64 => "Int64",
        ColumnType::UInt8 => "UInt8",
        ColumnType::UInt16 => "UInt16",
        ColumnType::UInt32 => "UInt32",
        ColumnType::UInt64 => "UInt64",
        ColumnType::Float32 => "Float32",
        ColumnType::Float64 => "Float64",
        ColumnType::Bool => "Bool",
        ColumnType::String => "String",
        ColumnType::Uuid => "UUID",
        ColumnType::Date => "Date",
        ColumnType::Date32 => "Date32",
        ColumnType::Ipv4 => "IPv4",
        ColumnType::Ipv6 => "IPv6",
        ColumnType::DateTime { timezone: None } => "DateTime",
        ColumnType::DateTime { timezone: Some(zone) } => {
            return out.push_str(&format!("DateTime({})", quote(zone)));
        }
        ColumnType::DateTime64 { precision, timezone: None } => {
            return out.push_str(&format!("DateTime64({precision})"));
        }
        ColumnType::DateTime64 { precision, timezone: Some(zone) } => {
            return out.push_str(&format!("DateTime64({precision}, {})", quote(zone)));
        }
        ColumnType::FixedString(n) => return out.push_str(&format!("FixedString({n})")),
        ColumnType::Decimal { precision, scale } => {
            return out.push_str(&format!("Decimal({precision}, {scale})"));
        }
        ColumnType::Enum8(names) => return write_enum("Enum8", names, out),
        ColumnType::Enum16(names) => return write_enum("Enum16", names, out),
        ColumnType::LowCardinality(inner) => return write_nested("LowCardinality", &[inner], out),
        ColumnType::Nullable(inner) => return write_nested("Nullable", &[inner], out),
        ColumnType::Array(item) => return write_nested("Array", &[item], out),
        ColumnType::Map(key, value) => return write_nested("Map", &[key, value], out),
        ColumnType::Json { parameters: None } => "JSON",
        ColumnType::Json { parameters: Some(parameters) } => {
            return out.push_str(&format!("JSON({parameters})"));
        }
        ColumnType::State(state) => {
            out.push_str("AggregateFunction(");
            out.push_str(state.function.name());
            if state.function.has_levels() {
                let levels: Vec<String> =
                    state.levels.iter().map(|level| (f64::from(*level) / 1e6).to_string()).collect();
                out.push_str(&format!("({})", levels.join(", ")));
            }
            for argument in &state.arguments {
                out.push_str(", ");
                write_name(argument, out);
            }
            return out.push(')');
        }
    };
    out.push_str(plain);
}

fn write_nested(family: &str, inner: &[&ColumnType], out: &mut String) {
    out.push_str(family);
    for (i, column_type) in inner.iter().enumerate() {
        out.push_str(if i == 0 { "(" } else { ", " });
        write_name(column_type, out);
    }
    out.push(')');
}

fn write_enum<T: std::fmt::Display>(family: &str, names: &[EnumName<T>], out: &mut String) {
    out.push_str(family);
    for (i, (name, number)) in names.iter().enumerate() {
        out.push_str(if i == 0 { "(" } else { ", " });
        out.push_str(&format!("{} = {number}", quote(name)));
    }
    out.push(')');
}

#[cfg(test)]
mod tests;
