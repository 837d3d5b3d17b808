//! What stands in the columns beside the key, as one number for each row, the same on both sides of the wire.
//!
//! Owns which columns can be compared, and the sum that stands for a row. Does not own the hash of one value, or the columns of the key
//! (`reconcile::key`). Of a column with a DEFAULT only what a record gives is known: what the server put in the place of a missing value
//! depends on when and where. So each such column has a hash of its own, and a record says which of them it left out.

use arrow_array::{Array, RecordBatch};
use dataflow::{ColumnType, Schema};

use super::key::{KeyPlan, expression, hash};
use super::text;

/// Columns with a DEFAULT that are compared; the others are named as left out.
const GIVEN_MAX: usize = 64;

/// The columns beside the key whose values can be compared.
#[derive(Clone, Debug)]
pub struct Values {
    /// Columns that hold what the record says, a null included.
    always: Option<KeyPlan>,
    /// Columns that the server fills where a record leaves them out.
    given: Vec<(usize, String, ColumnType)>,
}

/// What stands for one record's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// The sum over the columns that the record gives; see [`sum`].
    pub sum: u64,
    /// The columns with a DEFAULT that it left out, by bit.
    pub missing: u64,
}

/// Rows of one key that have the same values.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct SameRows {
    /// The key's hash.
    pub key: u64,
    /// The hash of the columns that are always told.
    pub always: u64,
    /// The hash of each column with a DEFAULT.
    pub given: Vec<u64>,
    /// Rows.
    pub rows: u64,
}

impl SameRows {
    /// True if a record of this value may have become these rows.
    pub fn are_of(&self, value: Value) -> bool {
        sum(self.always, &self.given, value.missing) == value.sum
    }
}

/// The hash of the columns that are always told, and those of the columns with a DEFAULT but for the missing ones, each times an odd
/// number of its own, so that two columns which have changed places do not look the same.
pub fn sum(always: u64, given: &[u64], missing: u64) -> u64 {
    let told = given.iter().enumerate().filter(|(n, _)| missing & (1 << n) == 0);
    told.fold(always, |sum, (n, hash)| sum.wrapping_add(hash.wrapping_mul(weight(n))))
}

fn weight(column: usize) -> u64 {
    2 * column as u64 + 3
}

/// The expressions for a row of the table.
pub(super) struct Sql {
    pub(super) sum: String,
    pub(super) always: String,
    pub(super) given: String,
}

impl Values {
    /// The columns beside those of `key` that can be compared, if there are any, and the names of the others: those without an exact
    /// text.
    pub fn of_the_rest(schema: &Schema, key: &[String]) -> (Option<Self>, Vec<String>) {
        let (mut always, mut given, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for (index, column) in schema.columns().iter().enumerate() {
            if key.contains(&column.name) {
                continue;
            }
            // A null of a nullable column stays one.
            let is_filled = column.default.is_some() && !text::is_nullable(&column.column_type);
            let place = (index, column.name.clone(), column.column_type.clone());
            match expression(&column.name, &column.column_type) {
                Ok(_) if !is_filled => always.push(place),
                Ok(_) if given.len() < GIVEN_MAX => given.push(place),
                _ => left_out.push(column.name.clone()),
            }
        }
        let always = (!always.is_empty()).then(|| KeyPlan::without_defaults(always));
        let values = (always.is_some() || !given.is_empty()).then_some(Self { always, given });
        (values, left_out)
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<&str> {
        let always = self.always.iter().flat_map(KeyPlan::names);
        always.chain(self.given.iter().map(|(_, name, _)| name.as_str())).collect()
    }

    /// The value of every row.
    ///
    /// # Errors
    /// When a column is not what the schema says: a fault of the program.
    pub fn of(&self, rows: &RecordBatch) -> Result<Vec<Value>, String> {
        let mut values = vec![Value::default(); rows.num_rows()];
        if let Some(always) = &self.always {
            always.texts(rows, |row, text| values[row].sum = hash(text))?;
        }
        let mut text = Vec::new();
        for (n, (index, name, column_type)) in self.given.iter().enumerate() {
            let array = rows.columns().get(*index).ok_or_else(|| format!("no column `{name}` in a batch"))?;
            let texts = text::Texts::new(column_type, &**array, None)?;
            for (row, value) in values.iter_mut().enumerate() {
                if array.is_null(row) {
                    value.missing |= 1 << n;
                    continue;
                }
                text.clear();
                texts.write(row, &mut text);
                value.sum = value.sum.wrapping_add(hash(&text).wrapping_mul(weight(n)));
            }
        }
        Ok(values)
    }

    pub(super) fn sql(&self) -> Sql {
        let always =
            self.always.as_ref().map_or("toUInt64(0)".to_owned(), |plan| format!("xxh3({})", plan.sql()));
        let hashes: Vec<String> = self
            .given
            .iter()
            .map(|(_, name, column_type)| {
                format!("xxh3({})", expression(name, column_type).expect("checked when it was made"))
            })
            .collect();
        let sum = hashes.iter().enumerate().fold(always.clone(), |sum, (n, hash)| {
            // UInt64 all the way: it wraps around as here.
            format!("{sum} + {hash} * toUInt64({})", weight(n))
        });
        let given = match hashes.as_slice() {
            [] => "emptyArrayUInt64()".to_owned(),
            hashes => format!("[{}]", hashes.join(", ")),
        };
        Sql { sum, always, given }
    }
}
