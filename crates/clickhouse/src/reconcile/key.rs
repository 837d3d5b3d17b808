//! The text that stands for a row's key, the same on both sides of the wire, and its hash.
//!
//! Owns which types have such a text, its form in SQL, and what of a key the server makes. Does not own the form in Arrow (`reconcile::text`), nor the
//! questions that count by the hash (`reconcile`).
//!
//! | column type                  | text                                   | in SQL                          |
//! |------------------------------|----------------------------------------|---------------------------------|
//! | integers, Enum, Bool, IPv4   | the number, decimal                    | `toString` of the number        |
//! | String                       | its bytes                              | `toString`                      |
//! | FixedString                  | its bytes as hexadecimal digits        | `hex`                           |
//! | UUID                         | lowercase with hyphens                 | `toString`                      |
//! | Date, Date32                 | days since 1970                        | `toInt32`                       |
//! | DateTime, DateTime64         | ticks since 1970 in its unit           | `toUnixTimestamp…`              |
//! | Nullable of these            | `=` and the text, or `N`               | `ifNull(concat('=', …), 'N')`   |
//!
//! A key of several columns is each text with its length in bytes and a colon in front. The hash is XXH3 with 64 bits; a bucket
//! is its top bits, so that neighbouring buckets are one range of hashes.

use std::collections::BTreeMap;

use arrow_array::{Array, RecordBatch};
use dataflow::{ColumnType, Remedy, Schema, types::time_unit};

use super::text;
use crate::client::QueryError;
use crate::reader::Reader;
use crate::types::{identifier, quote};

/// The columns of a key.
#[derive(Clone, Debug)]
pub struct KeyPlan {
    columns: Vec<(usize, String, ColumnType)>,
    /// Of columns that the server fills where a record leaves them out: the expression, and its text if that is always the same.
    defaults: BTreeMap<String, (String, Option<Vec<u8>>)>,
}

/// Parts of function names whose value changes from row to row or from day to day, though it may be constant within one query.
const VARYING: [&str; 12] = [
    "now",
    "today",
    "yesterday",
    "current",
    "rand",
    "generate",
    "uuid",
    "host",
    "user",
    "serial",
    "uptime",
    "dict",
];

impl KeyPlan {
    /// The key of these columns.
    ///
    /// # Errors
    /// When there is no column, one is not in the schema, or its type has no text.
    pub fn new(schema: &Schema, key: &[String]) -> Result<Self, String> {
        if key.is_empty() {
            return Err("a key needs at least one column".into());
        }
        let columns = key.iter().map(|name| {
            let index = schema.index_of(name).ok_or_else(|| format!("the table has no column `{name}`"))?;
            let column_type = schema.columns()[index].column_type.clone();
            expression(name, &column_type)?;
            Ok((index, name.clone(), column_type))
        });
        let columns: Vec<_> = columns.collect::<Result<_, String>>()?;
        let filled = columns.iter().filter(|(_, _, column_type)| !text::is_nullable(column_type));
        let defaults = filled.filter_map(|(index, name, _)| {
            let default = schema.columns()[*index].default.clone()?;
            Some((name.clone(), (default, None)))
        });
        Ok(Self { defaults: defaults.collect(), columns })
    }

    /// Columns with a text, none of which the server fills.
    pub(super) fn without_defaults(columns: Vec<(usize, String, ColumnType)>) -> Self {
        Self { columns, defaults: BTreeMap::new() }
    }

    /// The same key, knowing what the server puts where a record leaves a column of it out. Only for a DEFAULT that is a constant:
    /// what others became is not known.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn with_defaults(mut self, reader: &Reader) -> Result<Self, QueryError> {
        for (name, (default, known)) in &mut self.defaults {
            let lower = default.to_lowercase();
            if VARYING.iter().any(|part| lower.contains(part)) {
                continue;
            }
            let Some((_, _, column_type)) = self.columns.iter().find(|(_, column, _)| column == name) else {
                continue;
            };
            let text = expression(name, column_type).expect("checked when it was made");
            let (type_name, column) = (quote(&crate::types::name(column_type)), identifier(name));
            // `toString` of a name that stands for a column of a subquery, as in the table.
            let sql = format!("SELECT {text} FROM (SELECT CAST(({default}), {type_name}) AS {column})");
            match reader.rows::<(String,)>(&sql, &[]).await {
                Ok(rows) => *known = rows.into_iter().next().map(|(text,)| text.into_bytes()),
                // It needs other columns, so it is no constant.
                Err(error) if error.remedy != Remedy::Resend => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self)
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|(_, name, _)| name.as_str()).collect()
    }

    /// Columns whose value is not known where a record leaves them out, with their DEFAULT.
    pub fn made_by_the_server(&self) -> impl Iterator<Item = (&str, &str)> {
        let unknown = self.defaults.iter().filter(|(_, (_, text))| text.is_none());
        unknown.map(|(name, (expression, _))| (name.as_str(), expression.as_str()))
    }

    /// For each row whether its key is not known, because the record leaves out what the server makes; `None` if all are known. Such a
    /// row's text is that of no key.
    ///
    /// # Errors
    /// When a column is not what the schema says: a fault of the program.
    pub fn unknown(&self, rows: &RecordBatch) -> Result<Option<Vec<bool>>, String> {
        let mut unknown: Option<Vec<bool>> = None;
        for (name, _) in self.made_by_the_server() {
            let Some((index, _, _)) = self.columns.iter().find(|(_, column, _)| column == name) else {
                continue;
            };
            let array = rows.columns().get(*index).ok_or_else(|| format!("no column `{name}` in a batch"))?;
            if array.null_count() == 0 {
                continue;
            }
            let unknown = unknown.get_or_insert_with(|| vec![false; rows.num_rows()]);
            unknown.iter_mut().enumerate().for_each(|(row, is)| *is |= array.is_null(row));
        }
        Ok(unknown)
    }

    /// Calls `each` with the number of every row and its text.
    ///
    /// # Errors
    /// When a column is not what the schema says: a fault of the program.
    pub fn texts(&self, rows: &RecordBatch, mut each: impl FnMut(usize, &[u8])) -> Result<(), String> {
        let columns = self.columns.iter().map(|(index, name, column_type)| {
            let array = rows.columns().get(*index).ok_or_else(|| format!("no column `{name}` in a batch"))?;
            let default = self.defaults.get(name).and_then(|(_, text)| text.as_deref());
            text::Texts::new(column_type, &**array, default)
        });
        let columns = columns.collect::<Result<Vec<_>, String>>()?;
        let (mut whole, mut one) = (Vec::new(), Vec::new());
        for row in 0..rows.num_rows() {
            whole.clear();
            if let [only] = columns.as_slice() {
                only.write(row, &mut whole);
            } else {
                for column in &columns {
                    one.clear();
                    column.write(row, &mut one);
                    whole.extend_from_slice(one.len().to_string().as_bytes());
                    whole.push(b':');
                    whole.extend_from_slice(&one);
                }
            }
            each(row, &whole);
        }
        Ok(())
    }

    /// The text as an expression.
    pub(super) fn sql(&self) -> String {
        let texts: Vec<String> = self
            .columns
            .iter()
            .map(|(_, name, column_type)| expression(name, column_type).expect("checked when it was made"))
            .collect();
        match texts.as_slice() {
            [only] => only.clone(),
            several => {
                let parts: Vec<String> =
                    several.iter().map(|t| format!("toString(length({t})), ':', {t}")).collect();
                format!("concat({})", parts.join(", "))
            }
        }
    }
}

/// The hash of a key's text.
pub fn hash(text: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(text)
}

pub(super) fn expression(name: &str, column_type: &ColumnType) -> Result<String, String> {
    let c = identifier(name);
    Ok(match column_type {
        ColumnType::Nullable(inner) => format!("ifNull(concat('=', {}), 'N')", expression(name, inner)?),
        ColumnType::LowCardinality(inner) => match &**inner {
            ColumnType::Nullable(inner) => {
                let plain =
                    format!("CAST({c}, {})", quote(&format!("Nullable({})", crate::types::name(inner))));
                format!("ifNull(concat('=', {}), 'N')", expression(name, inner)?.replace(&c, &plain))
            }
            inner => {
                let plain = format!("CAST({c}, {})", quote(&crate::types::name(inner)));
                expression(name, inner)?.replace(&c, &plain)
            }
        },
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64
        | ColumnType::String
        | ColumnType::Uuid => format!("toString({c})"),
        ColumnType::Bool => format!("toString(toUInt8({c}))"),
        ColumnType::Enum8(_) | ColumnType::Enum16(_) => format!("toString(toInt16({c}))"),
        ColumnType::Ipv4 => format!("toString(toUInt32({c}))"),
        ColumnType::FixedString(_) => format!("hex({c})"),
        ColumnType::Date | ColumnType::Date32 => format!("toString(toInt32({c}))"),
        ColumnType::DateTime { .. } => format!("toString(toUnixTimestamp({c}))"),
        ColumnType::DateTime64 { precision, .. } => match time_unit(*precision) {
            arrow_schema::TimeUnit::Second | arrow_schema::TimeUnit::Millisecond => {
                format!("toString(toUnixTimestamp64Milli({c}))")
            }
            arrow_schema::TimeUnit::Microsecond => format!("toString(toUnixTimestamp64Micro({c}))"),
            arrow_schema::TimeUnit::Nanosecond => format!("toString(toUnixTimestamp64Nano({c}))"),
        },
        ColumnType::Float32
        | ColumnType::Float64
        | ColumnType::Decimal { .. }
        | ColumnType::Ipv6
        | ColumnType::Array(_)
        | ColumnType::Map(..)
        | ColumnType::Json { .. }
        | ColumnType::State(_) => {
            return Err(format!(
                "column `{name}` is a `{}`, which has no exact text to compare by; name other columns",
                crate::types::name(column_type)
            ));
        }
    })
}

#[cfg(test)]
mod tests;
