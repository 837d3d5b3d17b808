//! The DEFAULT of an Array or a Map: neither can be sent as NULL, so no null can stand for it.
//!
//! Owns the value that a row gets where a step has made NULL, or where nothing fills the column. Does not own which DEFAULT is a literal
//! (`clickhouse`), nor what a record gets that lacks the field (`formats`): there it is the same value.
//!
//! | the DEFAULT                                          | a row without a value                    |
//! |------------------------------------------------------|------------------------------------------|
//! | is of no Array or Map, or has no items               | has a null, which stands for it          |
//! | is of numbers, texts, days, or Arrays and Maps of them | has its value                          |
//! | is of other items: times, whose zone is not known here | is rejected                            |

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, MapArray, StringArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_cast::cast_with_options;
use arrow_schema::{ArrowError, DataType};
use arrow_select::interleave::interleave;
use dataflow::{Column, ColumnType, json_object};

use super::convert::{self, SAFE};
use super::types::limits;

/// What a column has where it has no value.
#[derive(Clone, Debug)]
pub(crate) enum Instead {
    /// A null: it stands for NULL, for the DEFAULT, or for no items.
    Null,
    /// The only value of this array.
    Value(ArrayRef),
    /// Nothing: the DEFAULT has no value here.
    Nothing,
}

impl Instead {
    /// What `column` has.
    pub(crate) fn of(column: &Column) -> Self {
        let Some(json) = &column.default_json else { return Self::Null };
        match Json::of(json) {
            Some(Json::Items(items)) if items.is_empty() => Self::Null,
            Some(Json::Entries(entries)) if entries.is_empty() => Self::Null,
            Some(value) => values_of(&[&value], &column.column_type).map_or(Self::Nothing, Self::Value),
            None => Self::Nothing,
        }
    }

    /// The values with this one in place of each null.
    pub(crate) fn fill(&self, values: ArrayRef) -> Result<ArrayRef, ArrowError> {
        let Self::Value(value) = self else { return Ok(values) };
        if values.null_count() == 0 {
            return Ok(values);
        }
        let place = |row: usize| if values.is_null(row) { (1, 0) } else { (0, row) };
        let places: Vec<(usize, usize)> = (0..values.len()).map(place).collect();
        interleave(&[values.as_ref(), value.as_ref()], &places)
    }
}

/// The values as an array of a type; `None` if one does not fit.
fn values_of(values: &[&Json], to: &ColumnType) -> Option<ArrayRef> {
    let mut lengths: Vec<usize> = Vec::with_capacity(values.len());
    let mut items: Vec<&Json> = Vec::new();
    match to.bare() {
        ColumnType::Array(item) => {
            for value in values {
                let Json::Items(own) = value else { return None };
                lengths.push(own.len());
                items.extend(own.iter());
            }
            let DataType::List(field) = to.arrow() else { return None };
            let offsets = OffsetBuffer::from_lengths(lengths);
            let items = values_of(&items, item)?;
            Some(Arc::new(ListArray::try_new(field, offsets, items, None).ok()?))
        }
        ColumnType::Map(key, item) => {
            let mut keys: Vec<Option<&str>> = Vec::new();
            for value in values {
                let Json::Entries(own) = value else { return None };
                lengths.push(own.len());
                keys.extend(own.iter().map(|(key, _)| Some(key.as_str())));
                items.extend(own.iter().map(|(_, item)| item));
            }
            let DataType::Map(entries, ordered) = to.arrow() else { return None };
            let DataType::Struct(fields) = entries.data_type() else { return None };
            let columns = vec![leaves(&keys, key)?, values_of(&items, item)?];
            let pairs = StructArray::try_new(fields.clone(), columns, None).ok()?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            Some(Arc::new(MapArray::try_new(entries, offsets, pairs, None, ordered).ok()?))
        }
        _ => {
            let text = |value: &&Json| match value {
                Json::Null => Some(None),
                Json::Leaf(text) => Some(Some(text.clone())),
                Json::Items(_) | Json::Entries(_) => None,
            };
            let texts: Vec<Option<String>> = values.iter().map(text).collect::<Option<_>>()?;
            leaves(&texts.iter().map(Option::as_deref).collect::<Vec<_>>(), to)
        }
    }
}

/// Texts as values of a type without items; `None` if one does not fit.
fn leaves(texts: &[Option<&str>], to: &ColumnType) -> Option<ArrayRef> {
    use ColumnType as T;
    let is_written_so = |text: &&str| match to.bare() {
        // Nothing is rounded.
        T::Decimal { scale, .. } => {
            let behind = text.split_once('.').map_or("", |(_, behind)| behind.trim_end_matches('0'));
            !text.contains(['e', 'E']) && behind.len() <= usize::from(*scale)
        }
        T::Date | T::Date32 => text.len() == "2024-05-01".len(),
        _ => true,
    };
    if !texts.iter().flatten().all(is_written_so) {
        return None;
    }
    let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let made = match to.bare() {
        T::String => Arc::clone(&texts),
        T::FixedString(_) | T::Uuid | T::Ipv4 | T::Ipv6 | T::Enum8(_) | T::Enum16(_) => {
            convert::array(&texts, &T::String, to).ok()?
        }
        T::Bool | T::Float32 | T::Float64 | T::Decimal { .. } | T::Date | T::Date32 => {
            cast_with_options(&texts, &to.arrow(), &SAFE).ok()?
        }
        other if other.integer_range().is_some() => cast_with_options(&texts, &to.arrow(), &SAFE).ok()?,
        _ => return None,
    };
    let fits = made.null_count() == texts.null_count();
    let is_inside = limits(to).is_none_or(|(least, most)| convert::outside(&made, least, most).is_empty());
    (fits && is_inside).then_some(made)
}

/// A value of JSON; numbers and truth values as their text.
enum Json {
    Null,
    Leaf(String),
    Items(Vec<Json>),
    Entries(Vec<(String, Json)>),
}

impl Json {
    /// The value that a text is; `None` if it is none.
    fn of(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text, depth: 0 };
        let value = reader.value()?;
        reader.rest.trim_start().is_empty().then_some(value)
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: u32,
}

impl Reader<'_> {
    /// Steps over a sign, and the space before it.
    fn take(&mut self, sign: char) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(sign) {
            Some(behind) => {
                self.rest = behind;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Option<Json> {
        self.depth += 1;
        if self.depth > json_object::DEPTH_MAX {
            return None;
        }
        let value = if self.take('[') {
            Json::Items(self.parts(']', Self::value)?)
        } else if self.take('{') {
            Json::Entries(self.parts('}', Self::entry)?)
        } else if self.take('"') {
            Json::Leaf(self.text()?)
        } else {
            self.word()?
        };
        self.depth -= 1;
        Some(value)
    }

    /// What stands between an opening sign and `end`.
    fn parts<T>(&mut self, end: char, part: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut parts = Vec::new();
        while !self.take(end) {
            if !parts.is_empty() && !self.take(',') {
                return None;
            }
            parts.push(part(self)?);
        }
        Some(parts)
    }

    fn entry(&mut self) -> Option<(String, Json)> {
        let key = if self.take('"') { self.text()? } else { return None };
        if self.take(':') { Some((key, self.value()?)) } else { None }
    }

    fn word(&mut self) -> Option<Json> {
        let rest = self.rest.trim_start();
        let is_end = |c: char| matches!(c, ',' | ']' | '}') || c.is_whitespace();
        let (word, behind) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        self.rest = behind;
        match word {
            "" => None,
            "null" => Some(Json::Null),
            word => Some(Json::Leaf(word.to_owned())),
        }
    }

    /// What stands behind an opening quote, up to the closing one.
    fn text(&mut self) -> Option<String> {
        let (mut text, mut chars) = (String::new(), self.rest.chars());
        loop {
            let c = match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'u' => {
                        let (digits, behind) = chars.as_str().split_at_checked(4)?;
                        chars = behind.chars();
                        char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
                    }
                    c @ ('"' | '\\' | '/') => c,
                    _ => return None,
                },
                c => c,
            };
            text.push(c);
        }
        self.rest = chars.as_str();
        Some(text)
    }
}
