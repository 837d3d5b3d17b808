//! Columns while they grow: plain vectors that can be cut back to the start of a record.
//!
//! Owns the memory of a batch and its change into Arrow arrays. Does not own what a value means ([`super::rules`]).
//!
//! A decoder keeps one empty column of each kind as a pattern and takes a `fresh` one for every block.

mod repeat;
mod twice;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, ListArray, MapArray, PrimitiveArray,
    StringArray, StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};

use super::rules::{Fit, Misfit};

/// A column, or the items of one, while it grows.
///
/// After an error a column may hold a part of the value; the caller cuts it back with [`truncate`](Self::truncate).
pub(crate) trait Growing: Send + Sync {
    /// Appends a null.
    fn null(&mut self) -> Fit<()>;
    /// The number of values.
    fn len(&self) -> usize;
    /// Cuts the column back to `len` values.
    fn truncate(&mut self, len: usize);
    /// The values as an Arrow array.
    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError>;
}

/// The end of what was appended, as an offset; a batch holds less than 2 GiB of one column.
#[inline(always)]
fn offset(end: usize) -> Fit<i32> {
    i32::try_from(end).map_err(|_| Misfit::full())
}

/// Bytes of a text in the first batch, as a guess.
const TEXT_BYTES_GUESSED: usize = 16;
/// Memory that a column of text gets before it has any: twice the bytes of a block of records, since its last record may make a block longer.
const TEXT_BYTES_RESERVED_MAX: usize = 8 << 20;

/// Which values are null. Nothing is kept until one is.
#[derive(Default)]
struct Nulls(Option<NullBufferBuilder>);

impl Nulls {
    /// A value that is not null.
    #[inline(always)]
    fn value(&mut self) {
        if let Some(nulls) = &mut self.0 {
            nulls.append_non_null();
        }
    }

    /// A null behind `before` values and nulls.
    fn null(&mut self, before: usize) {
        let nulls = self.0.get_or_insert_with(|| {
            let mut nulls = NullBufferBuilder::new(before + 1);
            nulls.append_n_non_nulls(before);
            nulls
        });
        nulls.append_null();
    }

    fn truncate(&mut self, len: usize) {
        if let Some(nulls) = &mut self.0 {
            nulls.truncate(len);
        }
    }

    fn finish(self) -> Option<NullBuffer> {
        self.0?.finish()
    }
}

/// The offsets of an empty column.
fn offsets(rows: usize) -> Vec<i32> {
    let mut offsets = Vec::with_capacity(rows + 1);
    offsets.push(0);
    offsets
}

/// Values of a fixed width that Arrow holds as primitives.
pub(crate) struct Primitives<A: ArrowPrimitiveType> {
    data_type: DataType,
    values: Vec<A::Native>,
    nulls: Nulls,
}

impl<A: ArrowPrimitiveType> Primitives<A> {
    /// An empty column whose array has `data_type` (which adds zone or precision to `A`).
    pub fn new(data_type: DataType) -> Self {
        Self { data_type, values: Vec::new(), nulls: Nulls::default() }
    }

    /// An empty column of the same kind with room for `rows` values.
    pub fn fresh(&self, rows: usize) -> Self {
        let mut fresh = Self::new(self.data_type.clone());
        fresh.values.reserve(rows);
        fresh
    }

    /// Appends a value.
    #[inline(always)]
    pub fn push(&mut self, value: A::Native) {
        self.values.push(value);
        self.nulls.value();
    }
}

impl<A: ArrowPrimitiveType> Growing for Primitives<A> {
    fn null(&mut self) -> Fit<()> {
        self.nulls.null(self.values.len());
        self.values.push(Default::default());
        Ok(())
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.nulls.truncate(len);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let values = ScalarBuffer::from(self.values);
        let array = PrimitiveArray::<A>::try_new(values, self.nulls.finish())?;
        Ok(Arc::new(array.with_data_type(self.data_type)))
    }
}

/// Bool.
pub(crate) struct Bools {
    values: BooleanBufferBuilder,
    nulls: Nulls,
}

impl Bools {
    /// An empty column.
    pub fn new(rows: usize) -> Self {
        Self { values: BooleanBufferBuilder::new(rows), nulls: Nulls::default() }
    }

    /// Appends a value.
    #[inline(always)]
    pub fn push(&mut self, value: bool) {
        self.values.append(value);
        self.nulls.value();
    }
}

impl Growing for Bools {
    fn null(&mut self) -> Fit<()> {
        self.nulls.null(self.values.len());
        self.values.append(false);
        Ok(())
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.nulls.truncate(len);
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(BooleanArray::new(self.values.finish(), self.nulls.finish())))
    }
}

/// String.
pub(crate) struct Texts {
    bytes: Vec<u8>,
    offsets: Vec<i32>,
    nulls: Nulls,
    /// Bytes that 64 rows of the newest batch have; shared by the pattern and all that were made from it.
    bytes_per_64: Arc<AtomicUsize>,
}

impl Texts {
    /// An empty column.
    pub fn new() -> Self {
        let bytes_per_64 = Arc::new(AtomicUsize::new(64 * TEXT_BYTES_GUESSED));
        Self { bytes: Vec::new(), offsets: offsets(0), nulls: Nulls::default(), bytes_per_64 }
    }

    /// An empty column with room for `rows` values as long as those of the batch before.
    pub fn fresh(&self, rows: usize) -> Self {
        // A sixteenth more than the batch before: text that outgrows its memory is copied into twice as much.
        let bytes = rows * self.bytes_per_64.load(Ordering::Relaxed) / 60;
        Self {
            bytes: Vec::with_capacity(bytes.min(TEXT_BYTES_RESERVED_MAX)),
            offsets: offsets(rows),
            nulls: Nulls::default(),
            bytes_per_64: self.bytes_per_64.clone(),
        }
    }

    /// Appends a value.
    #[inline(always)]
    pub fn push(&mut self, text: &str) -> Fit<()> {
        self.bytes.extend_from_slice(text.as_bytes());
        self.end()
    }

    /// Where the bytes of the next value go; [`end`](Self::end) makes them one.
    ///
    /// # Safety
    /// Until `end` the caller appends UTF-8 only, and changes nothing before it.
    #[inline(always)]
    pub unsafe fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the value whose bytes were appended.
    #[inline(always)]
    pub fn end(&mut self) -> Fit<()> {
        self.offsets.push(offset(self.bytes.len())?);
        self.nulls.value();
        Ok(())
    }
}

impl Growing for Texts {
    fn null(&mut self) -> Fit<()> {
        self.nulls.null(self.len());
        self.offsets.push(self.offsets[self.offsets.len() - 1]);
        Ok(())
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.bytes.truncate(self.offsets[self.offsets.len() - 1] as usize);
        self.nulls.truncate(len);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        if let Some(bytes_per_64) = (64 * self.bytes.len()).checked_div(self.len()) {
            self.bytes_per_64.store(bytes_per_64, Ordering::Relaxed);
        }
        debug_assert!(
            std::str::from_utf8(&self.bytes)
                .is_ok_and(|text| { self.offsets.iter().all(|end| text.is_char_boundary(*end as usize)) })
        );
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let (bytes, nulls) = (Buffer::from_vec(self.bytes), self.nulls.finish());
        // SAFETY: every value is a `&str`, or bytes that the caller of `bytes` vouches for. Offsets are lengths of `bytes` in the order
        // in which it grew, and values that are taken back take their offset with them.
        Ok(Arc::new(unsafe { StringArray::new_unchecked(offsets, bytes, nulls) }))
    }
}

/// UUID, IPv6 and FixedString.
pub(crate) struct FixedBytes {
    width: usize,
    bytes: Vec<u8>,
    nulls: Nulls,
}

impl FixedBytes {
    /// An empty column of values of `width` bytes, at least 1.
    pub fn new(width: usize) -> Self {
        Self { width, bytes: Vec::new(), nulls: Nulls::default() }
    }

    /// An empty column of the same kind with room for `rows` values.
    pub fn fresh(&self, rows: usize) -> Self {
        let mut fresh = Self::new(self.width);
        fresh.bytes.reserve(rows * self.width.min(64));
        fresh
    }

    /// Appends a value of sixteen bytes to a column of that width. Such a value has a longer form in a record, whose block bounds the
    /// column then.
    #[inline(always)]
    pub fn push16(&mut self, value: &[u8; 16]) {
        debug_assert_eq!(self.width, 16);
        self.bytes.extend_from_slice(value);
        self.nulls.value();
    }

    /// Where the bytes of the next value go, as many as the column is wide; [`end`](Self::end) makes them one.
    #[inline(always)]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the value whose bytes were appended. A padded value is longer than its text, so the whole is bounded here and not by the block.
    #[inline(always)]
    pub fn end(&mut self) -> Fit<()> {
        offset(self.bytes.len())?;
        self.nulls.value();
        Ok(())
    }
}

impl Growing for FixedBytes {
    fn null(&mut self) -> Fit<()> {
        // A null may be one byte in a record, and is as wide as every value here.
        offset(self.bytes.len() + self.width)?;
        self.nulls.null(self.len());
        self.bytes.extend(std::iter::repeat_n(0, self.width));
        Ok(())
    }

    fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len * self.width);
        self.nulls.truncate(len);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let bytes = Buffer::from_vec(self.bytes);
        Ok(Arc::new(FixedSizeBinaryArray::try_new(self.width as i32, bytes, self.nulls.finish())?))
    }
}

/// Array, of items that a format builds as `B`.
pub(crate) struct Lists<B: Growing + ?Sized> {
    field: FieldRef,
    /// The items of all lists.
    pub items: Box<B>,
    offsets: Vec<i32>,
    nulls: Nulls,
}

impl<B: Growing + ?Sized> Lists<B> {
    /// An empty column; `field` is that of the Arrow type's items.
    pub fn new(field: FieldRef, items: Box<B>, rows: usize) -> Self {
        Self { field, items, offsets: offsets(rows), nulls: Nulls::default() }
    }

    /// An empty column of the same kind over empty `items`, with room for `rows` lists.
    pub fn fresh(&self, items: Box<B>, rows: usize) -> Self {
        Self::new(Arc::clone(&self.field), items, rows)
    }

    /// True if null is one of the items' values.
    pub fn is_nullable(&self) -> bool {
        self.field.is_nullable()
    }

    /// Ends the list whose items were appended.
    pub fn end(&mut self) -> Fit<()> {
        self.offsets.push(offset(self.items.len())?);
        self.nulls.value();
        Ok(())
    }
}

impl<B: Growing + ?Sized> Growing for Lists<B> {
    fn null(&mut self) -> Fit<()> {
        self.nulls.null(self.len());
        self.offsets.push(self.offsets[self.offsets.len() - 1]);
        Ok(())
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.items.truncate(self.offsets[self.offsets.len() - 1] as usize);
        self.nulls.truncate(len);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let items = self.items.finish()?;
        Ok(Arc::new(ListArray::try_new(self.field, offsets, items, self.nulls.finish())?))
    }
}

/// Map, of keys and values that a format builds as `B`.
pub(crate) struct Maps<B: Growing + ?Sized> {
    field: FieldRef,
    /// The keys of all maps.
    pub keys: Box<B>,
    /// The values of all maps, one for each key.
    pub values: Box<B>,
    values_nullable: bool,
    /// Whether entries whose key is there again are kept too; otherwise the last of them is.
    keeps_repeats: bool,
    offsets: Vec<i32>,
    nulls: Nulls,
}

impl<B: Growing + ?Sized> Maps<B> {
    /// An empty column; `field` is that of the Arrow type's entries.
    pub fn new(field: FieldRef, keys: Box<B>, values: Box<B>, rows: usize) -> Self {
        let values_nullable = match field.data_type() {
            DataType::Struct(fields) => fields.get(1).is_some_and(|values| values.is_nullable()),
            _ => false,
        };
        let (offsets, nulls) = (offsets(rows), Nulls::default());
        Self { field, keys, values, values_nullable, keeps_repeats: false, offsets, nulls }
    }

    /// An empty column of the same kind over empty `keys` and `values`, with room for `rows` maps.
    pub fn fresh(&self, keys: Box<B>, values: Box<B>, rows: usize) -> Self {
        Self { keeps_repeats: self.keeps_repeats, ..Self::new(Arc::clone(&self.field), keys, values, rows) }
    }

    /// Every entry is kept, as it was sent.
    pub fn keep_repeats(&mut self) {
        self.keeps_repeats = true;
    }

    /// True if null is one of the values of an entry.
    pub fn is_nullable(&self) -> bool {
        self.values_nullable
    }

    /// Ends the map whose entries were appended.
    pub fn end(&mut self) -> Fit<()> {
        self.offsets.push(offset(self.keys.len())?);
        self.nulls.value();
        Ok(())
    }
}

impl<B: Growing + ?Sized> Growing for Maps<B> {
    fn null(&mut self) -> Fit<()> {
        self.nulls.null(self.len());
        self.offsets.push(self.offsets[self.offsets.len() - 1]);
        Ok(())
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        let entries = self.offsets[self.offsets.len() - 1] as usize;
        self.keys.truncate(entries);
        self.values.truncate(entries);
        self.nulls.truncate(len);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let DataType::Struct(fields) = self.field.data_type().clone() else {
            return Err(ArrowError::SchemaError("the entries of a map are a struct".into()));
        };
        let (keys, values) = (self.keys.finish()?, self.values.finish()?);
        let (keys, values, offsets) = match self.keeps_repeats {
            true => (keys, values, self.offsets),
            false => twice::last_of_each(keys, values, self.offsets)?,
        };
        let entries = StructArray::try_new(fields, vec![keys, values], None)?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(MapArray::try_new(self.field, offsets, entries, self.nulls.finish(), false)?))
    }
}
