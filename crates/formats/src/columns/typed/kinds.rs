//! The columns of each kind of type, filled by typed values.
//!
//! Owns which values a kind takes, and as what. Does not own the rules for single values (`columns::rules`), the memory (`columns::storage`) or which
//! type has which column (`columns::typed`).

use std::borrow::Cow;

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use dataflow::json_object;

use super::TypedColumn;
use crate::columns::numbers::{Exact, bool_number, bool_text};
use crate::columns::rules::{Fit, Misfit, Rule};
use crate::columns::storage::{Bools, FixedBytes, Growing, Lists, Maps, Primitives, Texts};
use crate::columns::text_types::FixedText;

/// Hands the memory's part on to the field `column`.
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

/// What Arrow holds as primitives.
pub(super) struct Ruled<R: Rule> {
    pub(super) rule: R,
    pub(super) column: Primitives<R::Arrow>,
}

impl<R: Rule> Growing for Ruled<R> {
    grows!();
}

/// Appends what the rule makes of a value.
macro_rules! by_rule {
    ($method:ident($($value:ident: $type:ty),*)) => {
        fn $method(&mut self, $($value: $type),*) -> Fit<()> {
            self.column.push(self.rule.$method($($value),*)?);
            Ok(())
        }
    };
}

impl<R: Rule> TypedColumn for Ruled<R> {
    fn fresh(&self, rows: usize) -> Box<dyn TypedColumn> {
        Box::new(Self { rule: self.rule.clone(), column: self.column.fresh(rows) })
    }

    fn type_name(&self) -> Cow<'static, str> {
        self.rule.type_name()
    }

    fn text(&mut self, text: &str) -> Fit<()> {
        self.column.push(self.rule.next_text(text.as_bytes())?);
        Ok(())
    }

    by_rule!(signed(value: i64));
    by_rule!(float(value: f64));
    by_rule!(decimal(value: Exact));
    by_rule!(bytes(value: &[u8]));
    by_rule!(date(days: i32));
    by_rule!(timestamp(ticks: i64, digits: u8));
    by_rule!(local_timestamp(ticks: i64, digits: u8));

    fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        self.column.repeat(from, times)
    }
}

/// Bool.
pub(super) struct Flags {
    pub(super) column: Bools,
}

impl Growing for Flags {
    grows!();
}

impl TypedColumn for Flags {
    fn fresh(&self, rows: usize) -> Box<dyn TypedColumn> {
        Box::new(Self { column: Bools::new(rows) })
    }

    fn type_name(&self) -> Cow<'static, str> {
        "Bool".into()
    }

    fn boolean(&mut self, value: bool) -> Fit<()> {
        self.column.push(value);
        Ok(())
    }

    fn signed(&mut self, value: i64) -> Fit<()> {
        self.column.push(bool_number(value)?);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Fit<()> {
        self.column.push(bool_text(text.as_bytes())?);
        Ok(())
    }

    fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        self.column.repeat(from, times)
    }
}

/// String.
pub(super) struct Strings {
    pub(super) column: Texts,
}

impl Growing for Strings {
    grows!();
}

impl TypedColumn for Strings {
    fn fresh(&self, rows: usize) -> Box<dyn TypedColumn> {
        Box::new(Self { column: self.column.fresh(rows) })
    }

    fn type_name(&self) -> Cow<'static, str> {
        "String".into()
    }

    fn text(&mut self, text: &str) -> Fit<()> {
        self.column.push(text)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Fit<()> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Misfit::range("is not UTF-8, and String takes no other bytes"))?;
        self.column.push(text)
    }

    fn uuid(&mut self, value: &[u8; 16]) -> Fit<()> {
        // Hex digits and dashes.
        let mut text = [b'-'; 36];
        let places = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
        for (byte, place) in value.iter().zip(places) {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            text[place] = DIGITS[usize::from(byte >> 4)];
            text[place + 1] = DIGITS[usize::from(byte & 15)];
        }
        self.bytes(&text)
    }

    fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        self.column.repeat(from, times)
    }
}

/// JSON: texts that are objects.
pub(super) struct JsonTexts {
    pub(super) column: Texts,
}

impl Growing for JsonTexts {
    grows!();
}

impl TypedColumn for JsonTexts {
    fn fresh(&self, rows: usize) -> Box<dyn TypedColumn> {
        Box::new(Self { column: self.column.fresh(rows) })
    }

    fn type_name(&self) -> Cow<'static, str> {
        "JSON".into()
    }

    fn text(&mut self, text: &str) -> Fit<()> {
        json_object::check(text).map_err(Misfit::object)?;
        self.column.push(text)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Fit<()> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Misfit::range("is not UTF-8, and JSON takes no other bytes"))?;
        self.text(text)
    }

    fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        self.column.repeat(from, times)
    }
}

/// UUID, IPv6 and FixedString.
pub(super) struct Fixed {
    pub(super) rule: FixedText,
    pub(super) column: FixedBytes,
}

impl Growing for Fixed {
    grows!();
}

impl TypedColumn for Fixed {
    fn fresh(&self, rows: usize) -> Box<dyn TypedColumn> {
        Box::new(Self { rule: self.rule.clone(), column: self.column.fresh(rows) })
    }

    fn type_name(&self) -> Cow<'static, str> {
        self.rule.name().into()
    }

    fn text(&mut self, text: &str) -> Fit<()> {
        self.rule.text(text.as_bytes(), self.column.bytes())?;
        self.column.end()
    }

    fn bytes(&mut self, bytes: &[u8]) -> Fit<()> {
        self.rule.bytes(bytes, self.column.bytes())?;
        self.column.end()
    }

    fn uuid(&mut self, value: &[u8; 16]) -> Fit<()> {
        match self.rule {
            FixedText::Uuid => self.bytes(value),
            FixedText::Ipv6 | FixedText::Padded(_) => Err(Misfit::kind(&self.type_name())),
        }
    }

    fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        self.column.repeat(from, times)
    }
}

/// Array.
pub(super) struct Arrays {
    pub(super) column: Lists<dyn TypedColumn>,
}

impl Growing for Arrays {
    grows!();
}

impl TypedColumn for Arrays {
    fn fresh(&self, rows: usize) -> Box<dyn TypedColumn> {
        let items = self.column.items.fresh(rows);
        Box::new(Self { column: self.column.fresh(items, rows) })
    }

    fn type_name(&self) -> Cow<'static, str> {
        format!("Array({})", self.column.items.type_name()).into()
    }

    fn items(&mut self) -> Option<(&mut dyn TypedColumn, bool)> {
        let is_nullable = self.column.is_nullable();
        Some((&mut *self.column.items, is_nullable))
    }

    fn keep_repeats(&mut self) {
        self.column.items.keep_repeats();
    }

    fn end(&mut self) -> Fit<()> {
        self.column.end()
    }

    fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        self.column.repeat(from, times, |items, from, times| items.repeat(from, times))
    }
}

/// Map.
pub(super) struct Objects {
    pub(super) column: Maps<dyn TypedColumn>,
}

impl Growing for Objects {
    grows!();
}

impl TypedColumn for Objects {
    fn fresh(&self, rows: usize) -> Box<dyn TypedColumn> {
        let (keys, values) = (self.column.keys.fresh(rows), self.column.values.fresh(rows));
        Box::new(Self { column: self.column.fresh(keys, values, rows) })
    }

    fn type_name(&self) -> Cow<'static, str> {
        format!("Map({}, {})", self.column.keys.type_name(), self.column.values.type_name()).into()
    }

    fn entries(&mut self) -> Option<(&mut dyn TypedColumn, &mut dyn TypedColumn, bool)> {
        let is_nullable = self.column.is_nullable();
        Some((&mut *self.column.keys, &mut *self.column.values, is_nullable))
    }

    fn keep_repeats(&mut self) {
        self.column.keep_repeats();
        self.column.values.keep_repeats();
    }

    fn end(&mut self) -> Fit<()> {
        self.column.end()
    }

    fn repeat(&mut self, from: usize, times: usize) -> Fit<()> {
        self.column.repeat(from, times, |parts, from, times| parts.repeat(from, times))
    }
}
