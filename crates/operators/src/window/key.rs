//! Keys of groups as bytes.
//!
//! Owns the form, which seals hold and later versions must read: the key's columns one after the other, each with a byte in front that is 1
//! for a null if the column may hold one. Values of 8 and 16 bytes are little-endian; bytes of any length stand behind their length, 4
//! bytes little-endian, and so do the items of an Array or a Map ([`items`]). A null has its value's bytes as zeros, or the length 0, so that a key of values with
//! one width has one length. Does not own
//! the search for a key (`window::index`), nor keys of which only a hash is kept (`dedup::key`).
//!
//! Floats are keys as numbers: -0 is 0, and every NaN the same.

pub(crate) mod items;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use dataflow::{Column, ColumnType, Schema};

use super::values::{self, Form, Store, Values, canonical};
use items::Items;

/// One column of the key.
#[derive(Clone, Debug)]
struct KeyColumn {
    column: Column,
    form: Form,
    /// Of an Array or a Map, whose bytes are a value of the form [`Form::Bytes`].
    items: Option<Items>,
    is_nullable: bool,
}

/// How keys are written and read.
#[derive(Clone, Debug)]
pub struct Keys {
    columns: Vec<KeyColumn>,
    /// Bytes of every key, if all have as many.
    stride: Option<usize>,
}

/// The keys of a batch's rows, one after the other.
pub struct Encoded {
    bytes: Vec<u8>,
    places: Places,
}

/// Where each key is.
enum Places {
    /// All have as many bytes.
    Each(usize),
    /// Where each begins, and where the last ends.
    Begins(Vec<u32>),
}

impl Encoded {
    /// The key of a row.
    pub fn get(&self, row: usize) -> &[u8] {
        match &self.places {
            Places::Each(len) => &self.bytes[row * len..(row + 1) * len],
            Places::Begins(begins) => &self.bytes[begins[row] as usize..begins[row + 1] as usize],
        }
    }

    /// The keys as numbers, if each has eight bytes.
    pub fn eights(&self) -> Option<&[[u8; 8]]> {
        matches!(self.places, Places::Each(8)).then(|| self.bytes.as_chunks::<8>().0)
    }
}

impl Keys {
    /// Keys of these columns; `None` if one is of a type that is no key.
    pub fn new(columns: &[Column]) -> Option<Self> {
        let columns: Vec<KeyColumn> = columns
            .iter()
            .map(|column| {
                let items = Items::of(&column.column_type);
                let form = if items.is_some() { Form::Bytes } else { Form::of(&column.column_type)? };
                Some(KeyColumn { column: column.clone(), form, items, is_nullable: column.is_optional() })
            })
            .collect::<Option<_>>()?;
        let width = |column: &KeyColumn| Some(column.form.width()? + usize::from(column.is_nullable));
        let stride = columns.iter().map(width).sum();
        Some(Self { columns, stride })
    }

    /// The same keys, each with the bounds of a session behind it: two numbers of eight bytes.
    pub fn with_span(&self) -> Self {
        let bound = |name: &str| {
            let column = Column::new(name, ColumnType::Int64);
            KeyColumn { column, form: Form::Int, items: None, is_nullable: false }
        };
        let columns = self.columns.iter().cloned().chain(["first", "last"].map(bound)).collect();
        Self { columns, stride: self.stride.map(|stride| stride + 16) }
    }

    /// The columns.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().map(|column| &column.column)
    }

    /// Bytes of every key, if all have as many.
    pub fn stride(&self) -> Option<usize> {
        self.stride
    }

    /// The keys of all rows.
    ///
    /// # Errors
    /// When a column is missing or of another form, or the keys together have 4 GiB.
    pub fn encode(&self, rows: &RecordBatch) -> Result<Encoded, String> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for own in &self.columns {
            let name = &own.column.name;
            let array =
                rows.column_by_name(name).ok_or_else(|| format!("the batch has no column `{name}`"))?;
            arrays.push(own.written(array)?);
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for (own, array) in self.columns.iter().zip(&arrays) {
            let read = values::read(array.as_ref(), own.value_type());
            columns.push((own, array, read.ok_or_else(|| own.came_as(array))?));
        }
        if let Some(stride) = self.stride {
            return Ok(fixed_keys(&columns, rows.num_rows(), stride));
        }
        let mut begins = Vec::with_capacity(rows.num_rows() + 1);
        let mut end = 0_u64;
        begins.push(0);
        for row in 0..rows.num_rows() {
            end += columns.iter().map(|(own, array, read)| own.len(array, read, row) as u64).sum::<u64>();
            begins.push(u32::try_from(end).map_err(|_| "the keys of a batch have `4` GiB or more")?);
        }
        let mut bytes = vec![0; end as usize];
        let mut cursors = begins.clone();
        for (own, array, read) in &columns {
            own.write(array, read, &mut bytes, &mut cursors);
        }
        Ok(Encoded { bytes, places: Places::Begins(begins) })
    }

    /// Whether bytes are a key.
    pub fn is_key(&self, mut bytes: &[u8]) -> bool {
        for own in &self.columns {
            if own.is_nullable {
                match bytes.split_first() {
                    Some((0 | 1, rest)) => bytes = rest,
                    _ => return false,
                }
            }
            let len = match own.form.width() {
                Some(width) => width,
                None => match bytes.split_first_chunk::<4>() {
                    Some((len, rest)) => {
                        bytes = rest;
                        u32::from_le_bytes(*len) as usize
                    }
                    None => return false,
                },
            };
            match bytes.split_at_checked(len) {
                Some((value, rest)) if own.items.as_ref().is_none_or(|items| items.are(value)) => {
                    bytes = rest
                }
                _ => return false,
            }
        }
        bytes.is_empty()
    }

    /// Keys as columns, in order; each must be one.
    ///
    /// # Errors
    /// The name of a column with a value that is beyond the type that it has now.
    pub fn decode<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>, &str> {
        let mut stores: Vec<(Store, Vec<bool>)> =
            self.columns.iter().map(|own| (Store::new(own.form), Vec::new())).collect();
        for key in keys {
            let mut rest = key;
            for (own, (store, nulls)) in self.columns.iter().zip(&mut stores) {
                let is_null = own.is_nullable && take(&mut rest, 1)[0] == 1;
                nulls.push(is_null);
                take_value(store, &mut rest);
            }
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for (own, (store, nulls)) in self.columns.iter().zip(&stores) {
            columns.push(own.decoded(store, nulls).ok_or(own.column.name.as_str())?);
        }
        Ok(columns)
    }

    /// The columns of a schema with these names, each once.
    pub fn named(schema: &Schema, names: &[String]) -> Vec<Column> {
        let found = |name: &String| schema.index_of(name).map(|at| schema.columns()[at].clone());
        names.iter().filter_map(found).collect()
    }
}

/// Keys of columns whose values have a width: each column is written from where it begins in the first key on.
fn fixed_keys(columns: &[(&KeyColumn, &ArrayRef, Values<'_>)], rows: usize, stride: usize) -> Encoded {
    let mut bytes = vec![0; rows * stride];
    let mut begin = 0;
    // Without columns there is nothing to write: every key is empty.
    for (own, array, read) in columns {
        own.write_fixed(array, read, &mut bytes, (begin, stride));
        begin += own.form.width().unwrap_or(0) + usize::from(own.is_nullable);
    }
    Encoded { bytes, places: Places::Each(stride) }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(len);
    *rest = left;
    taken
}

fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("taken with that length")
}

/// Takes a value from the front.
#[inline]
fn take_value(store: &mut Store, rest: &mut &[u8]) {
    match store {
        Store::Int(values) => values.push(i64::from_le_bytes(fixed(take(rest, 8)))),
        Store::UInt(values) => values.push(u64::from_le_bytes(fixed(take(rest, 8)))),
        Store::Float(values) => values.push(f64::from_le_bytes(fixed(take(rest, 8)))),
        Store::Wide(values) => values.push(i128::from_le_bytes(fixed(take(rest, 16)))),
        Store::Bytes(values) => {
            let len = u32::from_le_bytes(fixed(take(rest, 4))) as usize;
            values.push(take(rest, len).into());
        }
    }
}

impl KeyColumn {
    /// The column that is written: of Arrays and Maps that of their bytes.
    fn written(&self, array: &ArrayRef) -> Result<ArrayRef, String> {
        let Some(items) = &self.items else { return Ok(array.clone()) };
        let read = items.read(array.as_ref()).ok_or_else(|| self.came_as(array))?;
        Ok(Arc::new(read.encode()?))
    }

    /// The type of what is written.
    fn value_type(&self) -> &ColumnType {
        if self.items.is_some() { &ColumnType::String } else { &self.column.column_type }
    }

    fn came_as(&self, array: &ArrayRef) -> String {
        format!("the column `{}` came as `{}`", self.column.name, array.data_type())
    }

    /// What was read from keys as a column; `None` if a value is beyond the type that it has now.
    fn decoded(&self, store: &Store, nulls: &[bool]) -> Option<ArrayRef> {
        if let (Some(items), Store::Bytes(keys)) = (&self.items, store) {
            return items.decode(keys, nulls);
        }
        let is_beyond = store.is_beyond(&self.column.column_type);
        (!is_beyond).then(|| store.column(&self.column.column_type, |at| nulls[at]))
    }

    fn len(&self, array: &ArrayRef, values: &Values<'_>, row: usize) -> usize {
        let own = match (self.form.width(), values) {
            (Some(width), _) => width,
            (None, Values::Bytes(_)) if self.is_nullable && array.is_null(row) => 4,
            (None, Values::Bytes(texts)) => 4 + texts.get(row).len(),
            (None, _) => unreachable!("only texts have no width"),
        };
        own + usize::from(self.is_nullable)
    }

    fn write(&self, array: &ArrayRef, values: &Values<'_>, bytes: &mut [u8], cursors: &mut [u32]) {
        match values {
            Values::Int(values) => self.put(array, bytes, cursors, |row| values[row].to_le_bytes()),
            Values::UInt(values) => self.put(array, bytes, cursors, |row| values[row].to_le_bytes()),
            Values::Float(values) => {
                self.put(array, bytes, cursors, |row| canonical(values[row]).to_le_bytes());
            }
            Values::Wide(values) => self.put(array, bytes, cursors, |row| values[row].to_le_bytes()),
            Values::Bytes(texts) => {
                for (row, cursor) in cursors[..array.len()].iter_mut().enumerate() {
                    let mut at = *cursor as usize;
                    let is_null = self.is_nullable && array.is_null(row);
                    if self.is_nullable {
                        bytes[at] = u8::from(is_null);
                        at += 1;
                    }
                    let text = if is_null { &[][..] } else { texts.get(row) };
                    bytes[at..at + 4].copy_from_slice(&(text.len() as u32).to_le_bytes());
                    bytes[at + 4..at + 4 + text.len()].copy_from_slice(text);
                    *cursor = (at + 4 + text.len()) as u32;
                }
            }
        }
    }

    fn write_fixed(&self, array: &ArrayRef, values: &Values<'_>, bytes: &mut [u8], at: (usize, usize)) {
        match values {
            Values::Int(values) => self.put_fixed(array, bytes, at, |row| values[row].to_le_bytes()),
            Values::UInt(values) => self.put_fixed(array, bytes, at, |row| values[row].to_le_bytes()),
            Values::Float(values) => {
                self.put_fixed(array, bytes, at, |row| canonical(values[row]).to_le_bytes());
            }
            Values::Wide(values) => self.put_fixed(array, bytes, at, |row| values[row].to_le_bytes()),
            Values::Bytes(_) => unreachable!("texts have no width"),
        }
    }

    /// Writes a value into each key of `stride` bytes, from its byte `begin` on.
    fn put_fixed<const N: usize>(
        &self,
        array: &ArrayRef,
        bytes: &mut [u8],
        (begin, stride): (usize, usize),
        value: impl Fn(usize) -> [u8; N],
    ) {
        let keys = bytes.chunks_exact_mut(stride).enumerate();
        if !self.is_nullable {
            return keys.for_each(|(row, key)| key[begin..begin + N].copy_from_slice(&value(row)));
        }
        for (row, key) in keys {
            let is_null = array.is_null(row);
            key[begin] = u8::from(is_null);
            if !is_null {
                key[begin + 1..begin + 1 + N].copy_from_slice(&value(row));
            }
        }
    }

    fn put<const N: usize>(
        &self,
        array: &ArrayRef,
        bytes: &mut [u8],
        cursors: &mut [u32],
        value: impl Fn(usize) -> [u8; N],
    ) {
        for (row, cursor) in cursors[..array.len()].iter_mut().enumerate() {
            let mut at = *cursor as usize;
            let is_null = self.is_nullable && array.is_null(row);
            if self.is_nullable {
                bytes[at] = u8::from(is_null);
                at += 1;
            }
            if !is_null {
                bytes[at..at + N].copy_from_slice(&value(row));
            }
            *cursor = (at + N) as u32;
        }
    }
}
