//! What a table holds, by key: digests of buckets first, then the keys of the buckets that differ.
//!
//! Owns the questions that count by a key's hash. Reads only. Does not own what is expected of the table (`admin::verify`).
//!
//! | module      | what it owns                                                              |
//! |-------------|---------------------------------------------------------------------------|
//! | `key`       | the text that stands for a row's key on both sides of the wire, its hash   |
//! | `text`      | that text, from a column in Arrow                                         |
//! | `values`    | the columns beside the key, as one number for each row                    |
//! | `letters`   | the table of dead letters, read for a comparison                          |

use std::time::Duration;

use crate::client::QueryError;
use crate::config::{ServerConfig, TableConfig};
use crate::reader::Reader;
use crate::types::identifier;

mod key;
mod letters;
mod text;
mod values;

pub use key::{KeyPlan, hash};
pub use letters::{Letter, Letters};
pub use values::{SameRows, Value, Values, sum};

/// Bits of the finest buckets: their digests still fit into one answer.
pub const BITS_MAX: u32 = 17;

/// Hashes that one question may name.
pub const HASHES_MAX: usize = 1_000;

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

/// A table that is asked for its keys.
pub struct TableKeys {
    reader: Reader,
    table: String,
    text: String,
    values: Option<values::Sql>,
    has_provenance: bool,
}

impl TableKeys {
    /// The table of `config`; nothing is asked yet. A replica that is behind is waited for so long with the first question that meets one.
    ///
    /// # Errors
    /// When the server's settings do not do.
    pub fn new(
        server: ServerConfig,
        (config, wait): (&TableConfig, Duration),
        plan: &KeyPlan,
        runtime: std::sync::Arc<dyn dataflow::Runtime>,
    ) -> Result<Self, QueryError> {
        let (reader, text) = (Reader::new(server, runtime)?.about(config, wait), plan.sql());
        Ok(Self { reader, table: config.quoted(), text, values: None, has_provenance: false })
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

    /// How far a replica was behind whose answers were taken all the same: rows that it has not yet are missing in them. `None` if there was none.
    pub fn lag(&self) -> Option<String> {
        self.reader.lag()
    }

    /// How many rows the table has now.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn rows(&self) -> Result<u64, QueryError> {
        let sql = format!("SELECT count() FROM {}", self.table);
        self.reader.one_shown::<(u64,)>(&sql).await.map(|(rows,)| rows)
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
        for (bucket, rows, sum) in self.reader.rows_shown::<(u64, u64, String)>(&sql).await? {
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
        self.reader.rows_shown(&sql).await
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
        for (bucket, sum) in self.reader.rows_shown::<(u64, String)>(&sql).await? {
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
        self.reader.rows_shown(&sql).await
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
        let rows: Vec<(String, u64)> = self.reader.rows_shown(&sql).await?;
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
        self.reader.rows_shown(&sql).await
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
        self.reader.rows_shown(&sql).await
    }
}
