//! The bytes of one column, and numbers and bits in the bytes of the state.
//!
//! Owns their form for every form of column that a schema can have, and every check on the way in: what is there before anything is allocated for it, and
//! then all that Arrow checks of an array. Does not own which columns there are (`state`). Numbers are little-endian.
//!
//! | part       | bytes             | meaning                                                                    |
//! |------------|-------------------|----------------------------------------------------------------------------|
//! | nulls      | 1                 | 1 if there is any, otherwise 0                                             |
//! | validity   | a bit each        | only with nulls: 1 is a value; the bits behind the last are 0              |
//! | text       | 1                 | of a top-level text only: 1 if all of it is UTF-8, otherwise 0             |
//! | values     | by the form       | numbers and bytes of a fixed width: one after the other; Bool: a bit each  |
//! |            | 4 each            | text, array, map: the end of each; then the bytes, or the column inside    |
//! |            |                   | the entries of a map: the keys, then the values                            |

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::{ArrayData, layout};
use arrow_schema::{ArrowError, DataType};
use dataflow::StateError;

/// Arrays in arrays that are read: more than a table has.
const DEPTH_MAX: usize = 16;

/// Why the bytes are no state of a join.
pub(super) fn damaged(what: impl std::fmt::Display) -> StateError {
    StateError::Damaged(format!("the state of a join {what}"))
}

/// Writes a length of 32 bits.
pub(super) fn put_len(to: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("rows and their numbers are of 32 bits");
    to.extend_from_slice(&len.to_le_bytes());
}

/// Writes a bit for each item, and zeros up to the next byte.
pub(super) fn put_bits(to: &mut Vec<u8>, bits: &BooleanBuffer) {
    let (start, len) = (to.len(), bits.len().div_ceil(8));
    to.extend_from_slice(&bits.sliced()[..len]);
    let over = bits.len() % 8;
    if over > 0 {
        to[start + len - 1] &= (1 << over) - 1;
    }
}

/// Writes a column, whose form is `form` but for the text of a top-level column.
pub(super) fn put_column(to: &mut Vec<u8>, column: &ArrayRef, form: &DataType) {
    let data = column.to_data();
    put_nulls(to, &data);
    if *form == DataType::Utf8 {
        to.push(u8::from(is_utf8(column)));
    }
    put_values(to, &data);
}

/// Whether a text column is UTF-8, whatever the form that it came in: what is written depends on the values alone.
fn is_utf8(column: &ArrayRef) -> bool {
    match column.as_binary_opt::<i32>() {
        None => true,
        Some(texts) => (0..texts.len()).all(|row| std::str::from_utf8(texts.value(row)).is_ok()),
    }
}

fn put_nulls(to: &mut Vec<u8>, data: &ArrayData) {
    match data.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => to.push(0),
        Some(nulls) => {
            to.push(1);
            put_bits(to, nulls.inner());
        }
    }
}

fn put_values(to: &mut Vec<u8>, data: &ArrayData) {
    let (offset, len) = (data.offset(), data.len());
    match data.data_type() {
        DataType::Boolean => put_bits(to, &BooleanBuffer::new(data.buffers()[0].clone(), offset, len)),
        DataType::Utf8 | DataType::Binary => {
            let (from, end) = put_ends(to, data);
            to.extend_from_slice(&data.buffers()[1][from..end]);
        }
        DataType::List(_) | DataType::Map(..) => {
            let (from, end) = put_ends(to, data);
            let items = data.child_data()[0].slice(from, end - from);
            put_nulls(to, &items);
            put_values(to, &items);
        }
        DataType::Struct(_) => {
            for child in data.child_data() {
                // A slice of a struct is one of its columns already.
                put_nulls(to, child);
                put_values(to, child);
            }
        }
        form => {
            let width = width(form).expect("every other form has a width");
            to.extend_from_slice(&data.buffers()[0][offset * width..(offset + len) * width]);
        }
    }
}

/// Writes the ends of values of any length, and returns where the first begins and the last ends.
fn put_ends(to: &mut Vec<u8>, data: &ArrayData) -> (usize, usize) {
    if data.is_empty() {
        return (0, 0);
    }
    let offsets = &data.buffers()[0].typed_data::<i32>()[data.offset()..data.offset() + data.len() + 1];
    let first = offsets[0];
    to.reserve(data.len() * 4);
    offsets[1..].iter().for_each(|end| to.extend_from_slice(&(end - first).to_le_bytes()));
    (first as usize, offsets[data.len()] as usize)
}

/// Bytes of a value of a form with a fixed width.
fn width(form: &DataType) -> Option<usize> {
    match form {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    }
}

/// Bytes that are read from the front.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// So many bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], StateError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| damaged("ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// As many as an array has.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        Ok(self.take(N)?.try_into().expect("taken with that length"))
    }

    /// A length of 32 bits.
    pub fn len(&mut self) -> Result<usize, StateError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// A byte that is 0 or 1.
    pub fn flag(&mut self) -> Result<bool, StateError> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(damaged(format!("has `{other}` where a 0 or a 1 stands"))),
        }
    }

    /// So many numbers: their bytes are there before there is memory for them.
    pub fn numbers<const N: usize, T>(
        &mut self,
        count: usize,
        number: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, StateError> {
        let bytes = self.take(count.saturating_mul(N))?;
        Ok(bytes.as_chunks::<N>().0.iter().map(|chunk| number(*chunk)).collect())
    }

    /// So many bits.
    pub fn bits(&mut self, count: usize) -> Result<BooleanBuffer, StateError> {
        let bytes = self.take(count.div_ceil(8))?;
        Ok(BooleanBuffer::new(Buffer::from(bytes), 0, count))
    }

    /// A column of so many values.
    pub fn column(&mut self, form: &DataType, len: usize) -> Result<ArrayRef, StateError> {
        let nulls = self.nulls(len)?;
        let form = match form {
            DataType::Utf8 if !self.flag()? => &DataType::Binary,
            other => other,
        };
        Ok(make_array(self.values(form, len, nulls, 0)?))
    }

    fn nulls(&mut self, len: usize) -> Result<Option<Buffer>, StateError> {
        Ok(if self.flag()? { Some(Buffer::from(self.take(len.div_ceil(8))?)) } else { None })
    }

    fn child(&mut self, form: &DataType, len: usize, depth: usize) -> Result<ArrayData, StateError> {
        let nulls = self.nulls(len)?;
        self.values(form, len, nulls, depth + 1)
    }

    fn values(
        &mut self,
        form: &DataType,
        len: usize,
        nulls: Option<Buffer>,
        depth: usize,
    ) -> Result<ArrayData, StateError> {
        if depth > DEPTH_MAX {
            return Err(damaged("has arrays in arrays beyond every table's"));
        }
        let (mut buffers, mut children) = (Vec::new(), Vec::new());
        match form {
            DataType::Boolean => buffers.push(Buffer::from(self.take(len.div_ceil(8))?)),
            DataType::Utf8 | DataType::Binary => {
                let (offsets, end) = self.ends(len)?;
                buffers = vec![offsets, Buffer::from(self.take(end)?)];
            }
            DataType::List(item) => {
                let (offsets, end) = self.ends(len)?;
                buffers.push(offsets);
                children.push(self.child(item.data_type(), end, depth)?);
            }
            DataType::Map(entries, _) => {
                let (offsets, end) = self.ends(len)?;
                buffers.push(offsets);
                children.push(self.child(entries.data_type(), end, depth)?);
            }
            DataType::Struct(fields) => {
                for field in fields {
                    children.push(self.child(field.data_type(), len, depth)?);
                }
            }
            other => {
                let width = width(other).ok_or_else(|| damaged(format!("has a column of form `{other}`")))?;
                buffers.push(Buffer::from(self.take(len.saturating_mul(width))?));
            }
        }
        debug_assert_eq!(buffers.len(), layout(form).buffers.len());
        ArrayData::try_new(form.clone(), len, nulls, 0, buffers, children)
            .map_err(|error: ArrowError| damaged(format!("has a column that is none: {error}")))
    }

    /// The offsets of values of any length, which begin with 0, and the last of them.
    fn ends(&mut self, len: usize) -> Result<(Buffer, usize), StateError> {
        let bytes = self.take(len.saturating_mul(4))?;
        let mut offsets = Vec::with_capacity(len + 1);
        offsets.push(0_i32);
        offsets.extend(bytes.as_chunks::<4>().0.iter().map(|end| i32::from_le_bytes(*end)));
        if !offsets.is_sorted() {
            return Err(damaged("has a value that ends before it begins"));
        }
        let end = offsets[len] as usize;
        Ok((Buffer::from_vec(offsets), end))
    }
}
