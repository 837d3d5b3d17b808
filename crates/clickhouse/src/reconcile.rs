//! What a table holds, by key: digests of buckets first, then the keys of the buckets that differ.
//!
//! Owns the text that stands for a row's key, the same on both sides of the wire, its hash, and the questions that count by it.
//! Reads only. Does not own what is expected of the table (`forebay verify`).
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

use crate::client::{Client, QueryError};
use crate::config::{ServerConfig, TableConfig};
use crate::types::{identifier, quote};

mod text;
mod values;

pub use values::{SameRows, Value, Values, sum};

/// Bits of the finest buckets: their digests still fit into one answer.
pub const BITS_MAX: u32 = 17;

/// Hashes that one question may name.
pub const HASHES_MAX: usize = 1_000;

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

    /// The same key, knowing what the server puts where a record leaves a column of it out. Only for a DEFAULT that is a constant:
    /// what others became is not known.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn with_defaults(mut self, client: &Client) -> Result<Self, QueryError> {
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
            match client.rows::<(String,)>(&sql, &[]).await {
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
    fn sql(&self) -> String {
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

fn expression(name: &str, column_type: &ColumnType) -> Result<String, String> {
    let c = identifier(name);
    Ok(match column_type {
        ColumnType::Nullable(inner) => format!("ifNull(concat('=', {}), 'N')", expression(name, inner)?),
        ColumnType::LowCardinality(inner) => match &**inner {
            ColumnType::Nullable(inner) => {
                let plain = format!("CAST({c}, 'Nullable({})')", crate::types::name(inner));
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

/// Rows of one bucket: how many, and the sum of their hashes (modulo 2⁶⁴).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Rows.
    pub rows: u64,
    /// Their hashes, summed with wrap-around.
    pub sum: u64,
}

impl Digest {
    /// Adds `rows` rows of one hash.
    pub fn add(&mut self, hash: u64, rows: u64) {
        self.rows += rows;
        self.sum = self.sum.wrapping_add(hash.wrapping_mul(rows));
    }
}

/// A row among the dead letters.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct Letter {
    /// Topic, file or publisher group; empty for refused rows that do not know it.
    pub source: String,
    /// Number inside of it.
    pub partition: u32,
    /// Position.
    pub position: u64,
    /// Of a row of an item of the record's array the item's number and one; otherwise 0.
    pub item: u64,
    /// The rule that was broken.
    pub reason: String,
    /// How often it is there.
    pub copies: u64,
}

/// [`Letter::item`] as an expression ([`dataflow::block::ITEM_HEADER`]).
const ITEM: &str =
    "if(mapContains(headers, 'forebay.item'), toUInt64OrZero(headers['forebay.item']) + 1, toUInt64(0))";

/// A table that is asked for its keys.
pub struct TableKeys {
    client: Client,
    table: String,
    text: String,
    values: Option<values::Sql>,
    has_provenance: bool,
}

impl TableKeys {
    /// The table of `config`; nothing is asked yet.
    ///
    /// # Errors
    /// When the server's settings do not do.
    pub fn new(
        server: ServerConfig,
        config: &TableConfig,
        plan: &KeyPlan,
        runtime: std::sync::Arc<dyn dataflow::Runtime>,
    ) -> Result<Self, QueryError> {
        let (client, text) = (Client::new(server, runtime)?, plan.sql());
        Ok(Self { client, table: config.quoted(), text, values: None, has_provenance: false })
    }

    /// Compares by these columns' values, too.
    pub fn with_values(self, values: Option<&Values>) -> Self {
        Self { values: values.map(Values::sql), ..self }
    }

    /// The table has the provenance column.
    pub fn with_provenance(self, has_provenance: bool) -> Self {
        Self { has_provenance, ..self }
    }

    /// Rows that replace each other are one: the newest, if it does not delete its key.
    pub fn with_final(mut self, is_final: bool) -> Self {
        if is_final {
            self.table.push_str(" FINAL");
        }
        self
    }

    /// Rows now.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn rows(&self) -> Result<u64, QueryError> {
        let sql = format!("SELECT count() FROM {}", self.table);
        self.client.one::<(u64,)>(&sql, &[], &[]).await.map(|(rows,)| rows)
    }

    /// The digest of every bucket, by number; `bits` is at most [`BITS_MAX`]. Reads the key columns once.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn digests(&self, bits: u32) -> Result<Vec<Digest>, QueryError> {
        let sql = format!(
            "SELECT bitShiftRight(h, {}) AS bucket, count(), toString(sumWithOverflow(h)) FROM \
             (SELECT xxh3({}) AS h FROM {}) GROUP BY bucket",
            64 - bits,
            self.text,
            self.table
        );
        let mut digests = vec![Digest::default(); 1 << bits];
        for (bucket, rows, sum) in self.client.rows::<(u64, u64, String)>(&sql, &[]).await? {
            if let (Some(digest), Ok(sum)) = (digests.get_mut(bucket as usize), sum.parse()) {
                *digest = Digest { rows, sum };
            }
        }
        Ok(digests)
    }

    /// Every hash from `first` to `last`, ascending, with the number of its rows.
    ///
    /// # Errors
    /// When the server does not answer, or the answer is too long: ask for a smaller range.
    pub async fn hashes(&self, first: u64, last: u64) -> Result<Vec<(u64, u64)>, QueryError> {
        let sql = format!(
            "SELECT h, count() FROM (SELECT xxh3({}) AS h FROM {}) WHERE h BETWEEN {first} AND {last} GROUP BY h ORDER BY h",
            self.text, self.table
        );
        self.client.rows(&sql, &[]).await
    }

    /// The sum of the rows' values ([`sum`], modulo 2⁶⁴) in every bucket of keys, by number. Reads the columns of both once.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn value_sums(&self, bits: u32) -> Result<Vec<u64>, QueryError> {
        let mut sums = vec![0; 1 << bits];
        let Some(values) = &self.values else { return Ok(sums) };
        let sql = format!(
            "SELECT bitShiftRight(xxh3({}), {}) AS bucket, toString(sumWithOverflow({})) FROM {} GROUP BY bucket",
            self.text,
            64 - bits,
            values.sum,
            self.table
        );
        for (bucket, sum) in self.client.rows::<(u64, String)>(&sql, &[]).await? {
            if let (Some(of_bucket), Ok(sum)) = (sums.get_mut(bucket as usize), sum.parse()) {
                *of_bucket = sum;
            }
        }
        Ok(sums)
    }

    /// Every hash of a key from `first` to `last`, ascending, with the hashes of its values and the number of such rows.
    ///
    /// # Errors
    /// When the server does not answer, or the answer is too long: ask for a smaller range.
    pub async fn values(&self, first: u64, last: u64) -> Result<Vec<SameRows>, QueryError> {
        let Some(values) = &self.values else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT h, v, g, count() FROM (SELECT xxh3({}) AS h, {} AS v, {} AS g FROM {}) WHERE h BETWEEN {first} AND {last} \
             GROUP BY h, v, g ORDER BY h, v, g",
            self.text, values.always, values.given, self.table
        );
        self.client.rows(&sql, &[]).await
    }

    /// The rows of each of these frames (at most [`HASHES_MAX`]) that has some, by the provenance column.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn frames(&self, frames: &[u128]) -> Result<Vec<(u128, u64)>, QueryError> {
        if frames.is_empty() || !self.has_provenance {
            return Ok(Vec::new());
        }
        let column = identifier(crate::checks::PROVENANCE);
        let text = |id: &u128| format!("toUUID('{}')", crate::table::uuid_text(&id.to_be_bytes()));
        let list: Vec<String> = frames.iter().take(HASHES_MAX).map(text).collect();
        let sql = format!(
            "SELECT replaceAll(toString({column}), '-', ''), count() FROM {} WHERE {column} IN ({}) GROUP BY {column}",
            self.table,
            list.join(", ")
        );
        let rows: Vec<(String, u64)> = self.client.rows(&sql, &[]).await?;
        Ok(rows.into_iter().filter_map(|(id, n)| Some((u128::from_str_radix(&id, 16).ok()?, n))).collect())
    }

    /// For each of these hashes (at most [`HASHES_MAX`]) that is there, the frames that its rows name, five at the most.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn frames_of(&self, hashes: &[u64]) -> Result<Vec<(u64, Vec<String>)>, QueryError> {
        if hashes.is_empty() || !self.has_provenance {
            return Ok(Vec::new());
        }
        let column = identifier(crate::checks::PROVENANCE);
        let list: Vec<String> = hashes.iter().take(HASHES_MAX).map(u64::to_string).collect();
        let sql = format!(
            "SELECT xxh3({}) AS h, arraySort(groupUniqArray(5)(replaceAll(toString({column}), '-', ''))) FROM {} WHERE h IN ({}) \
             GROUP BY h ORDER BY h",
            self.text,
            self.table,
            list.join(", ")
        );
        self.client.rows(&sql, &[]).await
    }

    /// For each of these hashes (at most [`HASHES_MAX`]) that is there, the rows and the text of one key.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn named(&self, hashes: &[u64]) -> Result<Vec<(u64, u64, String)>, QueryError> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let list: Vec<String> = hashes.iter().take(HASHES_MAX).map(u64::to_string).collect();
        let sql = format!(
            "SELECT h, count(), substring(any(t), 1, 1000) FROM (SELECT {} AS t, xxh3(t) AS h FROM {}) WHERE h IN ({}) \
             GROUP BY h ORDER BY h",
            self.text,
            self.table,
            list.join(", ")
        );
        self.client.rows(&sql, &[]).await
    }
}

/// The dead letters of a pipeline, for those who compare.
pub struct Letters {
    client: Client,
    table: String,
}

impl Letters {
    /// The table of `config`; nothing is asked yet.
    ///
    /// # Errors
    /// When the server's settings do not do.
    pub fn new(
        server: ServerConfig,
        config: &TableConfig,
        runtime: std::sync::Arc<dyn dataflow::Runtime>,
    ) -> Result<Self, QueryError> {
        Ok(Self { client: Client::new(server, runtime)?, table: config.quoted() })
    }

    /// Up to `limit` of the letters behind `after`, in order. `of` is the condition that names the pipeline's letters; the table is read
    /// by its sorting key's first column.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn page(
        &self,
        of: &str,
        after: Option<&Letter>,
        limit: usize,
    ) -> Result<Vec<Letter>, QueryError> {
        let behind = match after {
            None => String::new(),
            Some(l) => format!(
                " AND (toString(source), partition, position, {ITEM}, toString(reason)) > ({}, {}, {}, {}, {})",
                quote(&l.source),
                l.partition,
                l.position,
                l.item,
                quote(&l.reason)
            ),
        };
        let sql = format!(
            "SELECT toString(source) AS s, partition, position, {ITEM} AS i, toString(reason) AS r, count() FROM {} WHERE {of}{behind} \
             GROUP BY s, partition, position, i, r ORDER BY s, partition, position, i, r LIMIT {limit}",
            self.table
        );
        self.client.rows(&sql, &[]).await
    }

    /// The raw rows, as JSON, of letters that the server refused; `limit` at the most, `skip` left out. `of` as for a page.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn refused(&self, of: &str, skip: usize, limit: usize) -> Result<Vec<String>, QueryError> {
        let sql = format!(
            "SELECT raw FROM {} WHERE {of} AND reason = 'refused' ORDER BY time, raw LIMIT {skip}, {limit}",
            self.table
        );
        let rows: Vec<(String,)> = self.client.rows(&sql, &[]).await?;
        Ok(rows.into_iter().map(|(raw,)| raw).collect())
    }
}

#[cfg(test)]
mod tests;
