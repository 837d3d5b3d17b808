//! Rows with the columns of a row elsewhere that has the same key: a lookup join.
//!
//! Owns the rule, and the rows of the other side in memory ([`LookupTable`]): all of them, or those of the keys that a block's records have. Does not own where they come
//! from, nor how old they may be: they come beside each block ([`dataflow::block::Found`]), so its records see the same again when it is processed again.
//!
//! | a row whose key                       | inner                        | left                                     |
//! |---------------------------------------|------------------------------|------------------------------------------|
//! | is that of a row of the other side    | is kept, with its columns    | is kept, with its columns                |
//! | is not, or has a NULL in it           | is filtered                  | is kept, with NULL in these columns      |
//! | has found what no column has room for | is rejected (`wide`)         | is rejected                              |
//!
//! Keys are equal if their 128-bit hashes are ([`dedup::key`](crate::dedup::key)). The other side has at most one row per key: with two of them the match would be
//! ambiguous.

pub mod keys;
mod wide;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{Field, FieldRef};
use arrow_select::take::take;
use dataflow::{
    Batch, Column, ColumnType, KeptEnum, OperatorError, RecordBlock, Reject, Schema, Transform, Transformed,
};
use hashbrown::HashTable;

use crate::ConfigError;
use crate::config::column_index;
use crate::dedup::key::{KeyError, Keyer, kind};

const NAME: &str = "lookup";

/// Pairs of key columns at the most: beyond it somebody meant something else.
pub const KEY_COLUMNS_MAX: usize = 16;

/// The settings of a `lookup` step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupConfig {
    /// The number by which it finds the rows of the other side beside a block.
    pub number: u32,
    /// The key: pairs of a column of the rows and one of the other side; 1 to [`KEY_COLUMNS_MAX`].
    pub on: Vec<(String, String)>,
    /// The columns that rows get: the name, and the column of the other side; at least 1.
    pub columns: Vec<(String, String)>,
    /// Whether rows without a match are kept.
    pub is_outer: bool,
}

/// The rows of the other side: all of them at one moment, or those of some keys.
pub struct LookupTable {
    rows: RecordBatch,
    /// The hash of each key and its row.
    keys: HashTable<(u128, u32)>,
    /// Of a table for some keys: those of them that the other side has no row of. About any further key it says nothing.
    absent: Option<HashTable<u128>>,
}

/// Two rows of the other side have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rows `{first}` and `{second}`, counted from 1, have the same key")]
pub struct Repeated {
    /// The first of them, from 1.
    pub first: usize,
    /// The second of them.
    pub second: usize,
}

/// Makes [`LookupTable`]s of rows of the other side, by its key.
#[derive(Clone, Debug)]
pub struct LookupKeyer(Keyer);

impl LookupKeyer {
    /// For rows of `side`, whose key these columns are.
    ///
    /// # Errors
    /// When a column is unknown, or no scalar.
    pub fn new(side: &Schema, names: &[String]) -> Result<Self, ConfigError> {
        Keyer::new(side, names).map(Self)
    }

    /// The rows by their keys; rows with a NULL in the key are not found by anybody.
    ///
    /// # Errors
    /// When two rows have the same key.
    ///
    /// # Panics
    /// When the rows are of another schema.
    pub fn table(&self, rows: RecordBatch) -> Result<LookupTable, Repeated> {
        let (mut hashes, mut keys) = (Vec::new(), HashTable::with_capacity(rows.num_rows()));
        self.0.hash(&rows, &mut hashes).expect("the rows are of the schema that the keyer was made for");
        let keyed = keyed(&self.0, &rows);
        for (row, hash) in hashes.into_iter().enumerate() {
            if keyed.as_ref().is_some_and(|keyed| keyed.is_null(row)) {
                continue;
            }
            let place =
                keys.entry(hash as u64, |known: &(u128, u32)| known.0 == hash, |known| known.0 as u64);
            match place {
                hashbrown::hash_table::Entry::Vacant(place) => _ = place.insert((hash, row as u32)),
                hashbrown::hash_table::Entry::Occupied(found) => {
                    return Err(Repeated { first: found.get().1 as usize + 1, second: row + 1 });
                }
            }
        }
        Ok(LookupTable { rows, keys, absent: None })
    }

    /// The same of the rows of some keys, and the keys of which it is known that there is no row.
    ///
    /// # Errors
    /// When two rows have the same key.
    ///
    /// # Panics
    /// When the rows are of another schema.
    pub fn table_of_some(
        &self,
        rows: RecordBatch,
        absent: impl IntoIterator<Item = u128>,
    ) -> Result<LookupTable, Repeated> {
        let mut known = HashTable::new();
        for key in absent {
            known.insert_unique(key as u64, key, |known| *known as u64);
        }
        Ok(LookupTable { absent: Some(known), ..self.table(rows)? })
    }

    /// The hash of each row's key; `None` where a column of it is NULL.
    ///
    /// # Errors
    /// When a key column is missing or of another form.
    pub fn hashes(&self, rows: &RecordBatch) -> Result<Vec<Option<u128>>, KeyError> {
        let mut hashes = Vec::new();
        self.0.hash(rows, &mut hashes)?;
        let keyed = keyed(&self.0, rows);
        let is_keyed = |row: usize| keyed.as_ref().is_none_or(|keyed| keyed.is_valid(row));
        Ok(hashes.into_iter().enumerate().map(|(row, hash)| is_keyed(row).then_some(hash)).collect())
    }
}

/// Which rows have no null in their key; `None` if none has.
fn keyed(keyer: &Keyer, rows: &RecordBatch) -> Option<NullBuffer> {
    let columns = keyer.columns().iter().map(|column| rows.column_by_name(&column.name));
    NullBuffer::union_many(columns.map(|column| column.and_then(|column| column.nulls())))
}

impl LookupTable {
    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let absent = self.absent.as_ref().map_or(0, HashTable::allocation_size);
        (self.rows.get_array_memory_size() + self.keys.allocation_size() + absent) as u64
    }

    /// The row of a key; `None` if there is none.
    ///
    /// # Errors
    /// When nothing is known of the key: a NULL for it would be a guess.
    fn row(&self, hash: u128) -> Result<Option<u32>, OperatorError> {
        let row = self.keys.find(hash as u64, |known| known.0 == hash).map(|(_, row)| *row);
        let is_known = |absent: &HashTable<u128>| absent.find(hash as u64, |known| *known == hash).is_some();
        match row.is_some() || self.absent.as_ref().is_none_or(is_known) {
            true => Ok(row),
            false => Err(failed(
                "a key came that the other side was not asked for; this is a fault of the program".to_owned(),
            )),
        }
    }
}

/// Says how many rows of a batch found no match.
pub type Unmatched = Arc<dyn Fn(u64) + Send + Sync>;

/// The `lookup` step. It has no state: the other side's rows come beside each block.
#[derive(Clone)]
pub struct Lookup {
    number: u32,
    keyer: Keyer,
    schema: Schema,
    /// The columns of the other side that rows get, in order.
    from: Vec<String>,
    is_outer: bool,
    unmatched: Option<Unmatched>,
}

impl Lookup {
    /// A step for rows of `input` and another side with the columns of `side`.
    ///
    /// # Errors
    /// When a column is unknown, named twice or of a type that does not serve.
    pub fn new(input: &Schema, side: &Schema, config: &LookupConfig) -> Result<Self, ConfigError> {
        check_key(input, side, &config.on)?;
        let mut columns: Vec<Column> = input.columns().to_vec();
        for (name, from) in &config.columns {
            let found = &side.columns()[column_index(side, "lookup.columns", from)?];
            if columns.iter().any(|column| column.name == *name) {
                let message = format!(
                    "`{name}` is a column of the rows already; give it another name under `columns`, as in `columns: {{ {name}_found: {from} }}`"
                );
                return Err(ConfigError::Setting { setting: "lookup.columns", message });
            }
            columns.push(Column::new(name, output_type(found, config.is_outer)?));
        }
        let names: Vec<String> = config.on.iter().map(|(own, _)| own.clone()).collect();
        Ok(Self {
            number: config.number,
            keyer: Keyer::new(input, &names)?,
            schema: Schema::new(columns),
            from: config.columns.iter().map(|(_, from)| from.clone()).collect(),
            is_outer: config.is_outer,
            unmatched: None,
        })
    }

    /// Says of each batch how many of its rows found no match.
    #[must_use]
    pub fn with_unmatched(self, unmatched: Unmatched) -> Self {
        Self { unmatched: Some(unmatched), ..self }
    }

    /// The rows with what `table` has for them.
    ///
    /// # Errors
    /// When the batch, or the table, does not have the columns that the step was made for.
    pub fn look_up(&self, batch: Batch, table: &LookupTable) -> Result<Transformed, OperatorError> {
        let mut hashes = Vec::new();
        self.keyer.hash(&batch.rows, &mut hashes).map_err(|error| failed(error.to_string()))?;
        let keyed = keyed(&self.keyer, &batch.rows);
        let is_keyed = |row: usize| keyed.as_ref().is_none_or(|keyed| keyed.is_valid(row));
        let found = |(row, hash): (usize, &u128)| if is_keyed(row) { table.row(*hash) } else { Ok(None) };
        let mut places: Vec<Option<u32>> =
            hashes.iter().enumerate().map(found).collect::<Result<_, OperatorError>>()?;
        let unmatched = places.iter().filter(|place| place.is_none()).count() as u64;
        if let Some(report) = self.unmatched.as_ref().filter(|_| unmatched > 0) {
            report(unmatched);
        }
        let (mut batch, mut filtered) = (batch, 0);
        if !self.is_outer && unmatched > 0 {
            let dropped: Vec<usize> = (0..places.len()).filter(|row| places[*row].is_none()).collect();
            batch = batch.without(&dropped).map_err(|error| failed(error.to_string()))?;
            places.retain(Option::is_some);
            filtered = unmatched;
        }
        let places = UInt32Array::from(places);
        let error = match self.with_columns(&batch.rows, table, &places) {
            Ok(rows) => return Ok(Transformed { filtered, ..Transformed::all(Batch { rows, ..batch }) }),
            Err(error) => error,
        };
        let (batch, places, rejects) = self.without_wide(batch, table, &places, wide::COLUMN_BYTES_MAX)?;
        if rejects.is_empty() {
            return Err(error);
        }
        let rows = self.with_columns(&batch.rows, table, &places)?;
        Ok(Transformed { batch: Batch { rows, ..batch }, filtered, rejects })
    }

    /// The batch and the places without the rows that columns of so many bytes have no room for, and the rejects of those.
    fn without_wide(
        &self,
        batch: Batch,
        table: &LookupTable,
        places: &UInt32Array,
        bytes_max: u64,
    ) -> Result<(Batch, UInt32Array, Vec<Reject>), OperatorError> {
        let own = self.schema.columns().len() - self.from.len();
        let named = self.schema.columns()[own..].iter().zip(&self.from);
        let columns: Vec<(&str, &ArrayRef)> = named
            .filter_map(|(column, from)| Some((column.name.as_str(), table.rows.column_by_name(from)?)))
            .collect();
        let wide = wide::rows(&columns, places, bytes_max);
        let rejects = wide.iter().map(|(row, column)| wide::reject(&batch, *row, column)).collect();
        let dropped: Vec<usize> = wide.into_iter().map(|(row, _)| row).collect();
        let kept = (0..places.len()).filter(|row| dropped.binary_search(row).is_err());
        let places = kept.map(|row| places.is_valid(row).then(|| places.value(row))).collect();
        let batch = batch.without(&dropped).map_err(|error| failed(error.to_string()))?;
        Ok((batch, places, rejects))
    }

    fn with_columns(
        &self,
        rows: &RecordBatch,
        table: &LookupTable,
        places: &UInt32Array,
    ) -> Result<RecordBatch, OperatorError> {
        let mut fields: Vec<FieldRef> = rows.schema().fields().iter().cloned().collect();
        let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
        let declared = self.schema.arrow();
        for (from, field) in self.from.iter().zip(declared.fields().iter().skip(columns.len())) {
            let column = table.rows.column_by_name(from);
            let column = column.ok_or_else(|| failed(format!("the other side came without `{from}`")))?;
            let taken = take(column.as_ref(), places, None).map_err(|error| failed(error.to_string()))?;
            // A text that is not UTF-8 makes its column Binary.
            let field: Field = field.as_ref().clone().with_data_type(taken.data_type().clone());
            fields.push(Arc::new(field));
            columns.push(taken);
        }
        let schema = Arc::new(arrow_schema::Schema::new(fields));
        RecordBatch::try_new(schema, columns).map_err(|error| failed(error.to_string()))
    }
}

fn failed(message: String) -> OperatorError {
    OperatorError { step: NAME.to_owned(), message }
}

/// The type of a column that rows get, which may be absent if they need not have a match.
fn output_type(found: &Column, is_outer: bool) -> Result<ColumnType, ConfigError> {
    if !is_outer && !found.is_optional() {
        return Ok(found.column_type.clone());
    }
    if matches!(found.column_type.bare(), ColumnType::Array(_) | ColumnType::Map(..)) {
        return Err(ConfigError::ColumnKind {
            setting: "lookup.columns",
            name: found.name.clone(),
            found: format!("{:?}", found.column_type.bare()),
            wanted: "a column that can be NULL where there is no match, or `kind: inner`",
        });
    }
    Ok(nullable(&found.column_type))
}

fn nullable(column_type: &ColumnType) -> ColumnType {
    match column_type {
        ColumnType::LowCardinality(inner) => ColumnType::LowCardinality(Box::new(nullable(inner))),
        ColumnType::Nullable(_) => column_type.clone(),
        other => ColumnType::Nullable(Box::new(other.clone())),
    }
}

/// The key's columns are there, and the two of a pair are of one kind.
fn check_key(input: &Schema, side: &Schema, on: &[(String, String)]) -> Result<(), ConfigError> {
    const SETTING: &str = "lookup.on";
    if on.is_empty() || on.len() > KEY_COLUMNS_MAX {
        let message = format!("`{}` pairs of columns; name 1 to {KEY_COLUMNS_MAX}", on.len());
        return Err(ConfigError::Setting { setting: SETTING, message });
    }
    for (own, theirs) in on {
        let of_kind = |schema: &Schema, name: &String| -> Result<String, ConfigError> {
            let column = &schema.columns()[column_index(schema, SETTING, name)?];
            kind(&column.column_type).map_err(|found| ConfigError::ColumnKind {
                setting: SETTING,
                name: name.clone(),
                found: found.to_owned(),
                wanted: "a column with one value a row",
            })
        };
        let (of_own, of_theirs) = (of_kind(input, own)?, of_kind(side, theirs)?);
        if of_own != of_theirs {
            let message = format!(
                "`{own}` of the rows is of kind `{of_own}` and `{theirs}` of the other side of kind `{of_theirs}`, so no value of one equals one of the other; \
                 give `{theirs}` the same type under `fields`, or cast `{own}` in a `select` before"
            );
            return Err(ConfigError::Setting { setting: SETTING, message });
        }
        let enums = |schema: &Schema, name: &String| -> Result<Vec<KeptEnum>, ConfigError> {
            Ok(KeptEnum::within(name, &schema.columns()[column_index(schema, SETTING, name)?].column_type))
        };
        let (of_own, of_theirs) = (enums(input, own)?, enums(side, theirs)?);
        if !of_own.iter().zip(&of_theirs).all(|(own, theirs)| own.agrees(theirs)) {
            let message = format!(
                "`{own}` of the rows and `{theirs}` of the other side are Enums in which a name has two numbers, or a number two names, and keys are compared by \
                 number; give `{theirs}` the same type under `fields`"
            );
            return Err(ConfigError::Setting { setting: SETTING, message });
        }
    }
    Ok(())
}

impl Transform for Lookup {
    fn name(&self) -> &str {
        NAME
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn looks_up(&self) -> Option<u32> {
        Some(self.number)
    }

    fn quietly(&self) -> Option<Arc<dyn Transform>> {
        Some(Arc::new(Self { unmatched: None, ..self.clone() }))
    }

    fn apply(&self, _batch: Batch) -> Result<Transformed, OperatorError> {
        Err(failed(
            "rows came without their block, so nothing was found for them; this is a fault of the program"
                .to_owned(),
        ))
    }

    fn apply_of(&self, batch: Batch, block: &RecordBlock) -> Result<Transformed, OperatorError> {
        let Some(table) = block.found.of_step::<LookupTable>(self.number) else {
            return Err(failed(
                "a block came for which nothing was looked up; this is a fault of the program".to_owned(),
            ));
        };
        self.look_up(batch, table)
    }
}

#[cfg(test)]
mod tests;
