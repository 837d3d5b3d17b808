//! Columns while they grow: plain vectors that can be cut back to the start of a record.
//!
//! Owns the memory of a batch and its change into Arrow arrays. Does not own which field fills which column
//! ([`super::plan`]), nor how a value is read ([`Rule`]s in `numbers`, `times`, `text_types`).
//!
//! The decoder keeps one empty builder a column as a pattern and takes a [`fresh`](Builder::fresh) one for every block.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, ListArray, MapArray, PrimitiveArray,
    StringArray, StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};
use dataflow::Reason;

use super::fail::{Fail, Step};
use super::numbers::{bool_text, read_bool};
use super::scan::Cursor;
use super::text_types::FixedText;

/// How a value becomes one entry of a primitive Arrow array.
pub(super) trait Rule: Clone + Send + Sync + 'static {
    /// The Arrow type that holds it.
    type Arrow: ArrowPrimitiveType;

    /// Steps over a value. `scratch` holds the text of strings with escapes. What is remembered of the value changes no later one.
    fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        scratch: &mut Vec<u8>,
    ) -> Step<<Self::Arrow as ArrowPrimitiveType>::Native>;

    /// The value of a string's content (or of a map's key), which starts at byte `at` of the record.
    fn text(&self, text: &[u8], at: usize) -> Step<<Self::Arrow as ArrowPrimitiveType>::Native>;
}

/// A column, or the items of one, while it grows.
///
/// After an error the builder may hold a part of the value; the caller cuts it back with [`truncate`](Self::truncate).
pub(super) trait Builder: Send + Sync {
    /// An empty builder of the same kind with room for `rows` values.
    fn fresh(&self, rows: usize) -> Box<dyn Builder>;
    /// Steps over a value that is not null and appends it.
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()>;
    /// Appends the value of a map's key, which starts at byte `at` of the record.
    fn key(&mut self, text: &[u8], at: usize) -> Step<()>;
    /// Appends a null.
    fn null(&mut self);
    /// The number of values.
    fn len(&self) -> usize;
    /// Cuts the builder back to `len` values.
    fn truncate(&mut self, len: usize);
    /// The values as an Arrow array.
    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError>;
}

/// The end of what was appended, as an offset; a batch holds less than 2 GiB of one column.
#[inline]
fn offset(end: usize, at: usize) -> Step<i32> {
    i32::try_from(end).map_err(|_| full(at))
}

#[cold]
fn full(at: usize) -> Box<Fail> {
    Fail::value(at, Reason::TooLarge, "does not fit: a batch holds 2 GiB of a column at the most")
}

/// Bytes of a text in the first batch, as a guess.
const TEXT_BYTES_GUESSED: usize = 16;
/// Memory that a column of text gets before it has any: as much as a block of records has bytes.
const TEXT_BYTES_RESERVED_MAX: usize = 4 << 20;

/// Which values are null. Nothing is kept until one is.
#[derive(Default)]
struct Nulls(Option<NullBufferBuilder>);

impl Nulls {
    /// A value that is not null.
    #[inline]
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
pub(super) struct Primitives<R: Rule> {
    rule: R,
    data_type: DataType,
    values: Vec<<R::Arrow as ArrowPrimitiveType>::Native>,
    nulls: Nulls,
    scratch: Vec<u8>,
}

impl<R: Rule> Primitives<R> {
    /// An empty column whose array has `data_type` (which adds zone or precision to the rule's type).
    pub fn new(rule: R, data_type: DataType) -> Self {
        Self { rule, data_type, values: Vec::new(), nulls: Nulls::default(), scratch: Vec::new() }
    }
}

impl<R: Rule> Builder for Primitives<R> {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        let mut fresh = Self::new(self.rule.clone(), self.data_type.clone());
        fresh.values.reserve(rows);
        Box::new(fresh)
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        self.values.push(self.rule.read(cursor, &mut self.scratch)?);
        self.nulls.value();
        Ok(())
    }

    fn key(&mut self, text: &[u8], at: usize) -> Step<()> {
        self.values.push(self.rule.text(text, at)?);
        self.nulls.value();
        Ok(())
    }

    fn null(&mut self) {
        self.nulls.null(self.values.len());
        self.values.push(Default::default());
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
        let array = PrimitiveArray::<R::Arrow>::try_new(values, self.nulls.finish())?;
        Ok(Arc::new(array.with_data_type(self.data_type)))
    }
}

/// Bool.
pub(super) struct Bools {
    values: BooleanBufferBuilder,
    nulls: Nulls,
}

impl Bools {
    /// An empty column.
    pub fn new(rows: usize) -> Self {
        Self { values: BooleanBufferBuilder::new(rows), nulls: Nulls::default() }
    }
}

impl Builder for Bools {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        Box::new(Self::new(rows))
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        self.values.append(read_bool(cursor)?);
        self.nulls.value();
        Ok(())
    }

    fn key(&mut self, text: &[u8], at: usize) -> Step<()> {
        self.values.append(bool_text(text, at)?);
        self.nulls.value();
        Ok(())
    }

    fn null(&mut self) {
        self.nulls.null(self.values.len());
        self.values.append(false);
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
pub(super) struct Strings {
    /// Values of other kinds become their own text in the record.
    coerce: bool,
    bytes: Vec<u8>,
    offsets: Vec<i32>,
    nulls: Nulls,
    /// Bytes that 64 rows of the newest batch have; shared by the pattern and all that were made from it.
    bytes_per_64: Arc<AtomicUsize>,
}

impl Strings {
    /// An empty column.
    pub fn new(coerce: bool, rows: usize) -> Self {
        let bytes_per_64 = Arc::new(AtomicUsize::new(64 * TEXT_BYTES_GUESSED));
        Self { coerce, bytes: Vec::new(), offsets: offsets(rows), nulls: Nulls::default(), bytes_per_64 }
    }

    #[inline(always)]
    fn end(&mut self, at: usize) -> Step<()> {
        self.offsets.push(offset(self.bytes.len(), at)?);
        self.nulls.value();
        Ok(())
    }
}

impl Builder for Strings {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        // A sixteenth more than the batch before: text that outgrows its memory is copied into twice as much.
        let bytes = rows * self.bytes_per_64.load(Ordering::Relaxed) / 60;
        Box::new(Self {
            coerce: self.coerce,
            bytes: Vec::with_capacity(bytes.min(TEXT_BYTES_RESERVED_MAX)),
            offsets: offsets(rows),
            nulls: Nulls::default(),
            bytes_per_64: self.bytes_per_64.clone(),
        })
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let at = cursor.position();
        if cursor.peek() == b'"' {
            cursor.string_into(&mut self.bytes)?;
        } else {
            if !self.coerce {
                return Err(cursor.other_kind(at, "String"));
            }
            cursor.skip_value()?;
            self.bytes.extend_from_slice(cursor.since(at));
        }
        self.end(at)
    }

    fn key(&mut self, text: &[u8], at: usize) -> Step<()> {
        self.bytes.extend_from_slice(text);
        self.end(at)
    }

    fn null(&mut self) {
        self.nulls.null(self.len());
        self.offsets.push(self.offsets[self.offsets.len() - 1]);
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
        // SAFETY: every value is a part of a record that `Rows` has found to be UTF-8, cut before and behind a byte of ASCII (a
        // quote, a backslash, the ends of a value), or a whole character for an escape. Offsets are lengths of `bytes` in the
        // order in which it grew, and values that are taken back take their offset with them.
        Ok(Arc::new(unsafe { StringArray::new_unchecked(offsets, bytes, nulls) }))
    }
}

/// UUID, IPv6 and FixedString.
pub(super) struct FixedBytes {
    rule: FixedText,
    bytes: Vec<u8>,
    nulls: Nulls,
    scratch: Vec<u8>,
}

impl FixedBytes {
    /// An empty column.
    pub fn new(rule: FixedText) -> Self {
        Self { rule, bytes: Vec::new(), nulls: Nulls::default(), scratch: Vec::new() }
    }

    /// A padded value is longer than its text, so the whole is bounded here and not by the block.
    #[inline(always)]
    fn end(&mut self, at: usize) -> Step<()> {
        offset(self.bytes.len(), at)?;
        self.nulls.value();
        Ok(())
    }
}

impl Builder for FixedBytes {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        let mut fresh = Self::new(self.rule.clone());
        fresh.bytes.reserve(rows * self.rule.width().min(64));
        Box::new(fresh)
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let at = cursor.position();
        if let Some(value) = self.rule.shortcut(cursor) {
            // Shorter than its text, so the block's bound is enough.
            self.bytes.extend_from_slice(&value);
            self.nulls.value();
            return Ok(());
        }
        if cursor.peek() == b'"' {
            self.rule.text(cursor.string(&mut self.scratch)?, at, &mut self.bytes)?;
        } else {
            return Err(cursor.other_kind(at, &self.rule.name()));
        }
        self.end(at)
    }

    fn key(&mut self, text: &[u8], at: usize) -> Step<()> {
        self.rule.text(text, at, &mut self.bytes)?;
        self.end(at)
    }

    fn null(&mut self) {
        self.nulls.null(self.len());
        self.bytes.extend(std::iter::repeat_n(0, self.rule.width()));
    }

    fn len(&self) -> usize {
        self.bytes.len() / self.rule.width()
    }

    fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len * self.rule.width());
        self.nulls.truncate(len);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let width = self.rule.width() as i32;
        let bytes = Buffer::from_vec(self.bytes);
        Ok(Arc::new(FixedSizeBinaryArray::try_new(width, bytes, self.nulls.finish())?))
    }
}

/// The items of an Array or the values of a Map.
pub(super) struct Items {
    /// Where they go.
    pub builder: Box<dyn Builder>,
    /// True if null is one of their values.
    pub nullable: bool,
}

impl Items {
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        if cursor.peek() != b'n' {
            return self.builder.read(cursor);
        }
        let at = cursor.position();
        cursor.word("null")?;
        if !self.nullable {
            return Err(Fail::value(at, Reason::Missing, "stands for an item whose type is not Nullable"));
        }
        self.builder.null();
        Ok(())
    }

    fn fresh(&self, rows: usize) -> Self {
        Self { builder: self.builder.fresh(rows), nullable: self.nullable }
    }
}

/// Array.
pub(super) struct Lists {
    field: FieldRef,
    items: Items,
    offsets: Vec<i32>,
    nulls: Nulls,
}

impl Lists {
    /// An empty column; `field` is that of the Arrow type's items.
    pub fn new(field: FieldRef, items: Items, rows: usize) -> Self {
        Self { field, items, offsets: offsets(rows), nulls: Nulls::default() }
    }
}

impl Builder for Lists {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        Box::new(Self::new(Arc::clone(&self.field), self.items.fresh(rows), rows))
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let at = cursor.position();
        if cursor.peek() != b'[' {
            return Err(cursor.other_kind(at, "Array"));
        }
        cursor.enter()?;
        cursor.space();
        if cursor.peek() != b']' {
            loop {
                self.items.read(cursor)?;
                if !cursor.another(b']')? {
                    break;
                }
            }
        }
        cursor.leave();
        self.offsets.push(offset(self.items.builder.len(), at)?);
        self.nulls.value();
        Ok(())
    }

    fn key(&mut self, _text: &[u8], at: usize) -> Step<()> {
        // Plans with such keys are refused at the start; this keeps the trait total.
        Err(Fail::kind(at, "Array"))
    }

    fn null(&mut self) {
        self.nulls.null(self.len());
        self.offsets.push(self.offsets[self.offsets.len() - 1]);
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.items.builder.truncate(self.offsets[self.offsets.len() - 1] as usize);
        self.nulls.truncate(len);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let items = self.items.builder.finish()?;
        Ok(Arc::new(ListArray::try_new(self.field, offsets, items, self.nulls.finish())?))
    }
}

/// Map.
pub(super) struct Maps {
    field: FieldRef,
    keys: Box<dyn Builder>,
    values: Items,
    offsets: Vec<i32>,
    nulls: Nulls,
    scratch: Vec<u8>,
}

impl Maps {
    /// An empty column; `field` is that of the Arrow type's entries.
    pub fn new(field: FieldRef, keys: Box<dyn Builder>, values: Items, rows: usize) -> Self {
        let nulls = Nulls::default();
        Self { field, keys, values, offsets: offsets(rows), nulls, scratch: Vec::new() }
    }
}

impl Builder for Maps {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        let (field, keys) = (Arc::clone(&self.field), self.keys.fresh(rows));
        Box::new(Self::new(field, keys, self.values.fresh(rows), rows))
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let at = cursor.position();
        if cursor.peek() != b'{' {
            return Err(cursor.other_kind(at, "Map"));
        }
        cursor.enter()?;
        cursor.space();
        if cursor.peek() != b'}' {
            loop {
                let key_at = cursor.position();
                if cursor.peek() != b'"' {
                    return Err(cursor.unexpected("a key"));
                }
                self.keys.key(cursor.string(&mut self.scratch)?, key_at)?;
                cursor.colon()?;
                self.values.read(cursor)?;
                if !cursor.another(b'}')? {
                    break;
                }
            }
        }
        cursor.leave();
        self.offsets.push(offset(self.keys.len(), at)?);
        self.nulls.value();
        Ok(())
    }

    fn key(&mut self, _text: &[u8], at: usize) -> Step<()> {
        // Plans with such keys are refused at the start; this keeps the trait total.
        Err(Fail::kind(at, "Map"))
    }

    fn null(&mut self) {
        self.nulls.null(self.len());
        self.offsets.push(self.offsets[self.offsets.len() - 1]);
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        let entries = self.offsets[self.offsets.len() - 1] as usize;
        self.keys.truncate(entries);
        self.values.builder.truncate(entries);
        self.nulls.truncate(len);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let DataType::Struct(fields) = self.field.data_type().clone() else {
            return Err(ArrowError::SchemaError("the entries of a map are a struct".into()));
        };
        let (keys, values) = (self.keys.finish()?, self.values.builder.finish()?);
        let entries = StructArray::try_new(fields, vec![keys, values], None)?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        Ok(Arc::new(MapArray::try_new(self.field, offsets, entries, self.nulls.finish(), false)?))
    }
}
