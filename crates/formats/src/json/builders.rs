//! Columns that are filled from JSON.
//!
//! Owns, for each way of holding values, how the value at a cursor gets there, and the choice of all these by a column's type. Does not own
//! the columns' memory and rules ([`crate::columns`]), the reading of single values ([`super::values`]), nor which field fills which
//! column ([`super::plan`]).
//!
//! The decoder keeps one empty builder a column as a pattern and takes a [`fresh`](Builder::fresh) one for every block.

use arrow_array::{ArrayRef, ArrowPrimitiveType};
use arrow_schema::{ArrowError, DataType, FieldRef};
use dataflow::{Column, Reason, json_object};

use super::fail::{Fail, Step};
use super::scan::Cursor;
use super::values::{Read, bool_value};
use super::{ConfigError, JsonOptions};
use crate::columns::{
    self, Bools, Date, Decimal, Enum, Fit, FixedBytes, FixedText, Float, Growing, Integer, Ipv4, Lists,
    Maker, Maps, Primitives, Settings, Texts, Time, Width, bool_text, dashed_uuid,
};

/// A column, or the items of one, while it is filled from JSON.
pub(super) trait Builder: Growing {
    /// An empty builder of the same kind with room for `rows` values.
    fn fresh(&self, rows: usize) -> Box<dyn Builder>;
    /// Steps over a value that is not null and appends it.
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()>;
    /// Appends the value of a map's key, which starts at byte `at` of the record.
    fn key(&mut self, text: &[u8], at: usize) -> Step<()>;
}

/// The empty builder of a column.
pub(super) fn builder(column: &Column, options: &JsonOptions) -> Result<Box<dyn Builder>, ConfigError> {
    let settings = Settings { timezone: &options.assume_timezone, epoch: options.epoch_unit };
    let maker = Builders { coerce: options.coerce_to_string };
    columns::compile(&column.column_type, settings, &maker)
        .map_err(|why| ConfigError::Type { column: column.name.clone(), why })
}

/// What a rule says of the value that starts at `at`.
#[inline(always)]
fn at<T>(fit: Fit<T>, at: usize) -> Step<T> {
    fit.map_err(|misfit| Fail::misfit(at, *misfit))
}

/// Hands the memory's part of a builder on to its field `column`.
macro_rules! grows {
    () => {
        fn null(&mut self) -> Fit<()> {
            self.column.null()
        }

        fn len(&self) -> usize {
            self.column.len()
        }

        fn truncate(&mut self, len: usize) {
            self.column.truncate(len);
        }

        fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
            Box::new(self.column).finish()
        }
    };
}

/// Values that Arrow holds as primitives.
struct Values<R: Read> {
    rule: R,
    column: Primitives<R::Arrow>,
    scratch: Vec<u8>,
}

impl<R: Read> Growing for Values<R> {
    grows!();
}

impl<R: Read> Builder for Values<R> {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        Box::new(Self { rule: self.rule.clone(), column: self.column.fresh(rows), scratch: Vec::new() })
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        self.column.push(self.rule.read(cursor, &mut self.scratch)?);
        Ok(())
    }

    fn key(&mut self, text: &[u8], start: usize) -> Step<()> {
        self.column.push(at(self.rule.text(text), start)?);
        Ok(())
    }
}

/// Bool.
struct Flags {
    column: Bools,
}

impl Growing for Flags {
    grows!();
}

impl Builder for Flags {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        Box::new(Self { column: Bools::new(rows) })
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        self.column.push(bool_value(cursor)?);
        Ok(())
    }

    fn key(&mut self, text: &[u8], start: usize) -> Step<()> {
        self.column.push(at(bool_text(text), start)?);
        Ok(())
    }
}

/// String.
struct Strings {
    /// Values of other kinds become their own text in the record.
    coerce: bool,
    column: Texts,
}

impl Growing for Strings {
    grows!();
}

impl Builder for Strings {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        Box::new(Self { coerce: self.coerce, column: self.column.fresh(rows) })
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let start = cursor.position();
        // SAFETY: what is appended is a part of a record that `Rows` has found to be UTF-8, cut before and behind a byte of ASCII (a quote,
        // a backslash, the ends of a value), or a whole character for an escape.
        let bytes = unsafe { self.column.bytes() };
        if cursor.peek() == b'"' {
            cursor.string_into(bytes)?;
        } else {
            if !self.coerce {
                return Err(cursor.other_kind(start, "String"));
            }
            cursor.skip_value()?;
            bytes.extend_from_slice(cursor.since(start));
        }
        at(self.column.end(), start)
    }

    fn key(&mut self, text: &[u8], start: usize) -> Step<()> {
        // SAFETY: a key is the content of a string in such a record, with whole characters for its escapes.
        unsafe { self.column.bytes() }.extend_from_slice(text);
        at(self.column.end(), start)
    }
}

/// JSON: the object's own text in the record.
struct JsonTexts {
    column: Texts,
}

impl Growing for JsonTexts {
    grows!();
}

impl Builder for JsonTexts {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        Box::new(Self { column: self.column.fresh(rows) })
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let start = cursor.position();
        if cursor.peek() != b'{' {
            return Err(cursor.other_kind(start, "JSON"));
        }
        // The bytes are blamed first, if they are no value at all.
        cursor.skip_value()?;
        let text = std::str::from_utf8(cursor.since(start))
            .map_err(|_| Fail::bytes(start, "an object is not UTF-8"))?;
        at(json_object::check(text).map_err(columns::Misfit::object), start)?;
        at(self.column.push(text), start)
    }

    fn key(&mut self, _text: &[u8], start: usize) -> Step<()> {
        // Plans with such keys are refused at the start; this keeps the trait total.
        Err(Fail::kind(start, "JSON"))
    }
}

/// UUID, IPv6 and FixedString.
struct Fixed {
    rule: FixedText,
    column: FixedBytes,
    scratch: Vec<u8>,
}

impl Fixed {
    /// Steps over a UUID that is wholly plain, without searching for its end; `None` leaves the cursor where it was.
    #[inline]
    fn shortcut(&self, cursor: &mut Cursor<'_>) -> Option<[u8; 16]> {
        if !matches!(self.rule, FixedText::Uuid) {
            return None;
        }
        // Hex digits between two quotes are neither an escape nor a control byte.
        let quoted = cursor.ahead::<38>()?;
        if quoted[0] != b'"' || quoted[37] != b'"' {
            return None;
        }
        let uuid = dashed_uuid(quoted[1..37].first_chunk()?)?;
        cursor.advance(38);
        Some(uuid)
    }
}

impl Growing for Fixed {
    grows!();
}

impl Builder for Fixed {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        Box::new(Self { rule: self.rule.clone(), column: self.column.fresh(rows), scratch: Vec::new() })
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let start = cursor.position();
        if let Some(value) = self.shortcut(cursor) {
            self.column.push16(&value);
            return Ok(());
        }
        if cursor.peek() != b'"' {
            return Err(cursor.other_kind(start, &self.rule.name()));
        }
        at(self.rule.text(cursor.string(&mut self.scratch)?, self.column.bytes()), start)?;
        at(self.column.end(), start)
    }

    fn key(&mut self, text: &[u8], start: usize) -> Step<()> {
        at(self.rule.text(text, self.column.bytes()), start)?;
        at(self.column.end(), start)
    }
}

/// Steps over an item of an Array or a value of a Map.
#[inline]
fn item(builder: &mut dyn Builder, is_nullable: bool, cursor: &mut Cursor<'_>) -> Step<()> {
    if cursor.peek() != b'n' {
        return builder.read(cursor);
    }
    let start = cursor.position();
    cursor.word("null")?;
    if !is_nullable {
        return Err(Fail::value(start, Reason::Missing, "is an item whose type is not Nullable"));
    }
    at(builder.null(), start)
}

/// Array.
struct Arrays {
    column: Lists<dyn Builder>,
}

impl Growing for Arrays {
    grows!();
}

impl Builder for Arrays {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        let items = self.column.items.fresh(rows);
        Box::new(Self { column: self.column.fresh(items, rows) })
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let start = cursor.position();
        if cursor.peek() != b'[' {
            return Err(cursor.other_kind(start, "Array"));
        }
        cursor.enter()?;
        cursor.space();
        if cursor.peek() != b']' {
            let is_nullable = self.column.is_nullable();
            loop {
                item(&mut *self.column.items, is_nullable, cursor)?;
                if !cursor.another(b']')? {
                    break;
                }
            }
        }
        cursor.leave();
        at(self.column.end(), start)
    }

    fn key(&mut self, _text: &[u8], start: usize) -> Step<()> {
        // Plans with such keys are refused at the start; this keeps the trait total.
        Err(Fail::kind(start, "Array"))
    }
}

/// Map.
struct Objects {
    column: Maps<dyn Builder>,
    scratch: Vec<u8>,
}

impl Growing for Objects {
    grows!();
}

impl Builder for Objects {
    fn fresh(&self, rows: usize) -> Box<dyn Builder> {
        let (keys, values) = (self.column.keys.fresh(rows), self.column.values.fresh(rows));
        Box::new(Self { column: self.column.fresh(keys, values, rows), scratch: Vec::new() })
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Step<()> {
        let start = cursor.position();
        if cursor.peek() != b'{' {
            return Err(cursor.other_kind(start, "Map"));
        }
        cursor.enter()?;
        cursor.space();
        if cursor.peek() != b'}' {
            let is_nullable = self.column.is_nullable();
            loop {
                let key_start = cursor.position();
                if cursor.peek() != b'"' {
                    return Err(cursor.unexpected("a key"));
                }
                self.column.keys.key(cursor.string(&mut self.scratch)?, key_start)?;
                cursor.colon()?;
                item(&mut *self.column.values, is_nullable, cursor)?;
                if !cursor.another(b'}')? {
                    break;
                }
            }
        }
        cursor.leave();
        at(self.column.end(), start)
    }

    fn key(&mut self, _text: &[u8], start: usize) -> Step<()> {
        // Plans with such keys are refused at the start; this keeps the trait total.
        Err(Fail::kind(start, "Map"))
    }
}

/// Makes builders.
struct Builders {
    coerce: bool,
}

fn values<R: Read>(rule: R, data_type: DataType) -> Box<dyn Builder> {
    Box::new(Values { rule, column: Primitives::new(data_type), scratch: Vec::new() })
}

impl Maker for Builders {
    type Out = Box<dyn Builder>;

    fn integer<A>(&self, rule: Integer<A>, data_type: DataType) -> Self::Out
    where
        A: ArrowPrimitiveType,
        A::Native: TryFrom<i64> + TryFrom<i128>,
    {
        values(rule, data_type)
    }

    fn float<A: Width>(&self, rule: Float<A>, data_type: DataType) -> Self::Out {
        values(rule, data_type)
    }

    fn decimal(&self, rule: Decimal, data_type: DataType) -> Self::Out {
        values(rule, data_type)
    }

    fn time<A: ArrowPrimitiveType<Native = i64>>(&self, rule: Time<A>, data_type: DataType) -> Self::Out {
        values(rule, data_type)
    }

    fn date(&self, rule: Date, data_type: DataType) -> Self::Out {
        values(rule, data_type)
    }

    fn ipv4(&self, rule: Ipv4, data_type: DataType) -> Self::Out {
        values(rule, data_type)
    }

    fn enumeration<A>(&self, rule: Enum<A>, data_type: DataType) -> Self::Out
    where
        A: ArrowPrimitiveType,
        A::Native: Ord + TryFrom<i128>,
    {
        values(rule, data_type)
    }

    fn bools(&self) -> Self::Out {
        Box::new(Flags { column: Bools::new(0) })
    }

    fn texts(&self) -> Self::Out {
        Box::new(Strings { coerce: self.coerce, column: Texts::new() })
    }

    fn objects(&self) -> Self::Out {
        Box::new(JsonTexts { column: Texts::new() })
    }

    fn fixed(&self, rule: FixedText) -> Self::Out {
        let column = FixedBytes::new(rule.width());
        Box::new(Fixed { rule, column, scratch: Vec::new() })
    }

    fn list(&self, field: FieldRef, items: Self::Out) -> Self::Out {
        Box::new(Arrays { column: Lists::new(field, items, 0) })
    }

    fn map(&self, field: FieldRef, keys: Self::Out, values: Self::Out) -> Self::Out {
        Box::new(Objects { column: Maps::new(field, keys, values, 0), scratch: Vec::new() })
    }
}
