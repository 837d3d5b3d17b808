//! Arrays and Maps as bytes of a key.
//!
//! Owns the form, which seals hold and later versions must read: the items one after the other, each as [`super`] writes a column. So an item
//! has a byte in front that is 1 for a null if it may be one, and a text, or an Array within, stands behind its length. The bytes of all
//! items stand behind theirs, as a text does. How many items there are follows from the bytes, for every item takes some. Does not own the
//! columns around it ([`super`]), nor the hashes of joins' keys, which are made of the same bytes (`dedup::key`).
//!
//! - Two Arrays are equal if they have the same items in the same order. A NULL among them equals a NULL, as in ClickHouse.
//! - Two Maps are equal if they have the same entries, in whatever order they came: most formats leave that to the writer. Each key stands
//!   before its value, and the entries stand in the order of their keys. So the order in a result does not depend on which record came first.
//! - JSON has no such form: objects that are equal may have different texts.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, MapArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use dataflow::ColumnType;

use super::{fixed, take, take_value};
use crate::dedup::key::kind;
use crate::window::values::{self, Form, Store, Values, canonical};

/// Bytes of a length.
const LEN: usize = 4;

/// How the items of an Array or a Map are written and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Items {
    /// The item of an Array; the key and the value of a Map.
    parts: Vec<Part>,
    /// The form that a batch's column has.
    arrow: DataType,
}

/// What stands in each item.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    column_type: ColumnType,
    /// Whether there is a byte in front that is 1 for a null.
    has_null: bool,
    held: Held,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    Value(Form),
    Items(Items),
}

impl Items {
    /// Those of a type, as the keys of windows have them; `None` if it is no Array or Map, or one of something that is no key.
    pub(crate) fn of(column_type: &ColumnType) -> Option<Self> {
        Self::new(column_type, false)
    }

    /// The same with the byte for a null in front of every item, so that `Nullable` around a type does not change a hash.
    pub(crate) fn hashed(column_type: &ColumnType) -> Option<Self> {
        Self::new(column_type, true)
    }

    fn new(column_type: &ColumnType, has_nulls: bool) -> Option<Self> {
        let bare = column_type.bare();
        let parts = match bare {
            ColumnType::Array(item) => vec![Part::new(item, has_nulls)?],
            ColumnType::Map(key, value) => {
                let key = Part::new(key, has_nulls)?;
                if matches!(key.held, Held::Items(_)) {
                    return None;
                }
                vec![key, Part::new(value, has_nulls)?]
            }
            _ => return None,
        };
        Some(Self { parts, arrow: bare.arrow() })
    }

    fn is_map(&self) -> bool {
        self.parts.len() > 1
    }

    /// The words that the state of a window knows them by: the kinds of keys, and where there is a byte for a null.
    pub(crate) fn words(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(Part::words).collect();
        format!("{}({})", if self.is_map() { "map" } else { "array" }, parts.join(", "))
    }

    /// The items of a batch's column; `None` if it is of another form.
    pub(crate) fn read<'a>(&self, array: &'a dyn Array) -> Option<BatchItems<'a>> {
        if is_form(array.data_type(), &self.arrow) { self.parts_of(array) } else { None }
    }

    fn parts_of<'a>(&self, array: &'a dyn Array) -> Option<BatchItems<'a>> {
        let (offsets, inner) = if self.is_map() {
            let map = array.as_map_opt()?;
            (map.value_offsets(), vec![map.keys(), map.values()])
        } else {
            let list = array.as_list_opt::<i32>()?;
            (list.value_offsets(), vec![list.values()])
        };
        let parts = self.parts.iter().zip(inner).map(|(part, inner)| part.read(inner.as_ref()));
        Some(BatchItems { array, offsets, parts: parts.collect::<Option<_>>()? })
    }

    /// Whether bytes are items.
    pub(crate) fn are(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            for part in &self.parts {
                match part.behind(bytes) {
                    Some(rest) => bytes = rest,
                    None => return false,
                }
            }
        }
        true
    }

    /// What was read from keys as a column, null where `nulls` says so; all [are](Self::are) items. `None` if a value is beyond the type that it has now.
    pub(crate) fn decode(&self, keys: &[Box<[u8]>], nulls: &[bool]) -> Option<ArrayRef> {
        let mut rows = KeyItems::new(self);
        keys.iter().for_each(|key| rows.push(key));
        rows.finish(nulls)
    }

    /// The column of these parts.
    ///
    /// # Errors
    /// When the parts are none of this type.
    fn array(
        &self,
        columns: Vec<ArrayRef>,
        offsets: OffsetBuffer<i32>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let field = |name: &str, at: usize| -> FieldRef {
            let is_nullable = self.parts[at].column_type.is_nullable();
            Arc::new(Field::new(name, columns[at].data_type().clone(), is_nullable))
        };
        if !self.is_map() {
            let list = ListArray::try_new(field("item", 0), offsets, columns[0].clone(), nulls)?;
            return Ok(Arc::new(list));
        }
        let fields = Fields::from(vec![field("keys", 0), field("values", 1)]);
        let entries = StructArray::try_new(fields.clone(), columns, None)?;
        let entry = Arc::new(Field::new("entries", DataType::Struct(fields), false));
        Ok(Arc::new(MapArray::try_new(entry, offsets, entries, nulls, false)?))
    }
}

impl Part {
    fn new(column_type: &ColumnType, has_nulls: bool) -> Option<Self> {
        let held = match Items::new(column_type, has_nulls) {
            Some(items) => Held::Items(items),
            None => Held::Value(Form::of(column_type)?),
        };
        let has_null = has_nulls || column_type.is_nullable();
        Some(Self { column_type: column_type.clone(), has_null, held })
    }

    fn words(&self) -> String {
        let words = match &self.held {
            Held::Items(items) => items.words(),
            Held::Value(_) => kind(&self.column_type).unwrap_or_else(str::to_lowercase),
        };
        format!("{words}{}", if self.has_null { " or null" } else { "" })
    }

    fn read<'a>(&self, array: &'a dyn Array) -> Option<BatchPart<'a>> {
        let values = match &self.held {
            Held::Items(items) => PartValues::Items(items.parts_of(array)?),
            Held::Value(_) => PartValues::Values(values::read(array, &self.column_type)?),
        };
        Some(BatchPart { array, has_null: self.has_null, values })
    }

    /// The bytes behind the first item; `None` if there is none.
    fn behind<'a>(&self, mut bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut is_null = false;
        if self.has_null {
            let (null, rest) = bytes.split_first()?;
            if *null > 1 {
                return None;
            }
            (is_null, bytes) = (*null == 1, rest);
        }
        let width = match &self.held {
            Held::Value(form) => form.width(),
            Held::Items(_) => None,
        };
        let len = match width {
            Some(width) => width,
            None => {
                let (len, rest) = bytes.split_first_chunk::<LEN>()?;
                bytes = rest;
                u32::from_le_bytes(*len) as usize
            }
        };
        let (value, rest) = bytes.split_at_checked(len)?;
        let is_value = match &self.held {
            Held::Items(items) => items.are(value),
            Held::Value(Form::Bytes) if !is_null => self.can_have(value.len()),
            Held::Value(_) => true,
        };
        is_value.then_some(rest)
    }

    /// Whether its values, which are bytes, may have this length.
    fn can_have(&self, len: usize) -> bool {
        match self.column_type.arrow() {
            DataType::FixedSizeBinary(width) => usize::try_from(width) == Ok(len),
            _ => true,
        }
    }
}

/// Whether a column of a batch is of this form: a text may be bytes.
fn is_form(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (DataType::List(found), DataType::List(wanted))
        | (DataType::Map(found, _), DataType::Map(wanted, _)) => is_field(found, wanted),
        (DataType::Struct(found), DataType::Struct(wanted)) => {
            let mut fields = found.iter().zip(wanted.iter());
            found.len() == wanted.len() && fields.all(|(found, wanted)| is_field(found, wanted))
        }
        (DataType::Binary, DataType::Utf8) => true,
        _ => found == wanted,
    }
}

/// Whether the items of a batch are of this form: those that may be NULL may also never be.
fn is_field(found: &Field, wanted: &Field) -> bool {
    (wanted.is_nullable() || !found.is_nullable()) && is_form(found.data_type(), wanted.data_type())
}

/// A column of Arrays or Maps of a batch.
pub(crate) struct BatchItems<'a> {
    array: &'a dyn Array,
    /// Where the items of each row begin, and where those of the last end.
    offsets: &'a [i32],
    parts: Vec<BatchPart<'a>>,
}

/// What stands in the items of a column.
struct BatchPart<'a> {
    array: &'a dyn Array,
    has_null: bool,
    values: PartValues<'a>,
}

enum PartValues<'a> {
    Values(Values<'a>),
    Items(BatchItems<'a>),
}

impl BatchItems<'_> {
    /// The items of a row as bytes; none where it is null.
    pub(crate) fn bytes(&self, row: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(row, &mut bytes);
        bytes
    }

    /// Those of all rows.
    ///
    /// # Errors
    /// When they have 2 GiB together.
    pub(crate) fn encode(&self) -> Result<BinaryArray, String> {
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(self.array.len() + 1));
        ends.push(0_i32);
        for row in 0..self.array.len() {
            self.write(row, &mut bytes);
            let end = i32::try_from(bytes.len());
            ends.push(end.map_err(|_| "the Arrays and Maps in the keys of a batch have `2` GiB or more")?);
        }
        let (offsets, nulls) = (OffsetBuffer::new(ends.into()), self.array.nulls().cloned());
        BinaryArray::try_new(offsets, Buffer::from_vec(bytes), nulls).map_err(|error| error.to_string())
    }

    fn write(&self, row: usize, to: &mut Vec<u8>) {
        if self.array.is_null(row) {
            return;
        }
        let items = self.offsets[row] as usize..self.offsets[row + 1] as usize;
        match self.parts.as_slice() {
            [key, value] => {
                let mut entries: Vec<usize> = items.collect();
                entries.sort_by(|a, b| key.compare(*a, *b));
                for entry in entries {
                    key.write(entry, to);
                    value.write(entry, to);
                }
            }
            parts => {
                for item in items {
                    parts.iter().for_each(|part| part.write(item, to));
                }
            }
        }
    }
}

impl BatchPart<'_> {
    fn write(&self, item: usize, to: &mut Vec<u8>) {
        let is_null = self.array.is_null(item);
        if self.has_null {
            to.push(u8::from(is_null));
        }
        match &self.values {
            PartValues::Values(values) if is_null => to.resize(to.len() + null_bytes(values), 0),
            PartValues::Values(values) => put(values, item, to),
            PartValues::Items(items) => {
                let begin = to.len();
                to.extend_from_slice(&[0; LEN]);
                items.write(item, to);
                let len = (to.len() - begin - LEN) as u32;
                to[begin..begin + LEN].copy_from_slice(&len.to_le_bytes());
            }
        }
    }

    /// How two keys of Maps compare, which are values.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        match &self.values {
            PartValues::Values(Values::Int(values)) => values[a].cmp(&values[b]),
            PartValues::Values(Values::UInt(values)) => values[a].cmp(&values[b]),
            PartValues::Values(Values::Float(values)) => {
                canonical(values[a]).total_cmp(&canonical(values[b]))
            }
            PartValues::Values(Values::Wide(values)) => values[a].cmp(&values[b]),
            PartValues::Values(Values::Bytes(texts)) => texts.get(a).cmp(texts.get(b)),
            PartValues::Items(_) => Ordering::Equal,
        }
    }
}

/// The bytes of a value.
fn put(values: &Values<'_>, at: usize, to: &mut Vec<u8>) {
    match values {
        Values::Int(values) => to.extend_from_slice(&values[at].to_le_bytes()),
        Values::UInt(values) => to.extend_from_slice(&values[at].to_le_bytes()),
        Values::Float(values) => to.extend_from_slice(&canonical(values[at]).to_le_bytes()),
        Values::Wide(values) => to.extend_from_slice(&values[at].to_le_bytes()),
        Values::Bytes(texts) => {
            let text = texts.get(at);
            to.extend_from_slice(&(text.len() as u32).to_le_bytes());
            to.extend_from_slice(text);
        }
    }
}

/// How many zeros stand for a null.
fn null_bytes(values: &Values<'_>) -> usize {
    match values {
        Values::Int(_) | Values::UInt(_) | Values::Float(_) => 8,
        Values::Wide(_) => 16,
        Values::Bytes(_) => LEN,
    }
}

/// Arrays or Maps on their way from keys to a column.
struct KeyItems<'a> {
    items: &'a Items,
    offsets: Vec<i32>,
    parts: Vec<KeyPart<'a>>,
}

/// What was in their items.
struct KeyPart<'a> {
    part: &'a Part,
    nulls: Vec<bool>,
    values: Taken<'a>,
}

enum Taken<'a> {
    Values(Store),
    Items(KeyItems<'a>),
}

impl<'a> KeyItems<'a> {
    fn new(items: &'a Items) -> Self {
        Self { items, offsets: vec![0], parts: items.parts.iter().map(KeyPart::new).collect() }
    }

    /// One more row.
    fn push(&mut self, mut bytes: &[u8]) {
        let mut end = self.offsets[self.offsets.len() - 1];
        while !bytes.is_empty() {
            for part in &mut self.parts {
                part.push(&mut bytes);
            }
            end += 1;
        }
        self.offsets.push(end);
    }

    fn finish(self, nulls: &[bool]) -> Option<ArrayRef> {
        let Self { items, offsets, parts } = self;
        let columns: Vec<ArrayRef> = parts.into_iter().map(KeyPart::finish).collect::<Option<_>>()?;
        let valid = || NullBuffer::from(nulls.iter().map(|is_null| !is_null).collect::<Vec<bool>>());
        let made = items.array(columns, OffsetBuffer::new(offsets.into()), nulls.contains(&true).then(valid));
        Some(made.expect("keys have items of their type: that was checked when they were read"))
    }
}

impl<'a> KeyPart<'a> {
    fn new(part: &'a Part) -> Self {
        let values = match &part.held {
            Held::Value(form) => Taken::Values(Store::new(*form)),
            Held::Items(items) => Taken::Items(KeyItems::new(items)),
        };
        Self { part, nulls: Vec::new(), values }
    }

    /// Takes one item from the front.
    fn push(&mut self, bytes: &mut &[u8]) {
        self.nulls.push(self.part.has_null && take(bytes, 1)[0] == 1);
        match &mut self.values {
            Taken::Values(store) => take_value(store, bytes),
            Taken::Items(rows) => {
                let len = u32::from_le_bytes(fixed(take(bytes, LEN))) as usize;
                rows.push(take(bytes, len));
            }
        }
    }

    fn finish(self) -> Option<ArrayRef> {
        let Self { part, nulls, values } = self;
        match values {
            Taken::Values(store) => {
                let is_beyond = store.is_beyond(&part.column_type);
                (!is_beyond).then(|| store.column(&part.column_type, |at| nulls[at]))
            }
            Taken::Items(rows) => rows.finish(&nulls),
        }
    }
}

#[cfg(test)]
mod tests;
