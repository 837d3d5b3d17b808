//! From the text of a type's name to the type.
//!
//! Owns the grammar, its bounds, how types may nest, and the advice for a type that no pipeline writes. Does not own the way back to a name, nor the error
//! around a reason (`types`).

use std::collections::BTreeSet;
use std::sync::Arc;

use dataflow::ColumnType;
use dataflow::types::{EnumName, StateFunction, StateType};

use super::{aliases, name, quote, shorten};

/// Nesting of type names: `Array(Array(…))` of 16 levels is beyond every real table, and keeps the recursion small.
const DEPTH_MAX: usize = 16;
/// Length of a type name in bytes. An `Enum16` can name 65,536 values; a megabyte of names is no table's type.
const NAME_BYTES_MAX: usize = 1 << 20;

/// Reads a whole type name; why it cannot be read, otherwise.
pub(super) fn parse(type_name: &str) -> Result<ColumnType, String> {
    whole(type_name, false)
}

/// As [`parse`], of a type in a statement that makes a table: other names stand for types there (`aliases`), and what is left out has its default. With
/// `is_nullable` the word NULL follows it.
pub(super) fn parse_declared(type_name: &str, is_nullable: bool) -> Result<ColumnType, String> {
    match whole(type_name, true)? {
        inner if is_nullable && !inner.is_nullable() => wrap("Nullable", inner),
        column_type => Ok(column_type),
    }
}

fn whole(type_name: &str, is_declared: bool) -> Result<ColumnType, String> {
    let mut parser = Parser { rest: type_name, is_declared };
    if type_name.len() > NAME_BYTES_MAX {
        Err(format!("a type name may have {NAME_BYTES_MAX} bytes at the most"))
    } else {
        parser.type_name(0).and_then(|t| parser.end().map(|()| t))
    }
}

/// What follows in the text; every method takes a token off the front or says why it cannot.
struct Parser<'a> {
    rest: &'a str,
    /// Whether it stands in a statement that makes a table, and not in `system.columns`.
    is_declared: bool,
}

impl<'a> Parser<'a> {
    fn type_name(&mut self, depth: usize) -> Result<ColumnType, String> {
        if depth > DEPTH_MAX {
            return Err(format!("types may nest {DEPTH_MAX} deep at the most"));
        }
        let family = self.family()?;
        let plain = match family {
            "Int8" => ColumnType::Int8,
            "Int16" => ColumnType::Int16,
            "Int32" => ColumnType::Int32,
            "Int64" => ColumnType::Int64,
            "UInt8" => ColumnType::UInt8,
            "UInt16" => ColumnType::UInt16,
            "UInt32" => ColumnType::UInt32,
            "UInt64" => ColumnType::UInt64,
            "Float32" => ColumnType::Float32,
            "Float64" => ColumnType::Float64,
            "Bool" => ColumnType::Bool,
            "String" => ColumnType::String,
            "UUID" => ColumnType::Uuid,
            "Date" => ColumnType::Date,
            "Date32" => ColumnType::Date32,
            "IPv4" => ColumnType::Ipv4,
            "IPv6" => ColumnType::Ipv6,
            "DateTime" if self.has_precision() => self.datetime64()?,
            "DateTime" => ColumnType::DateTime { timezone: self.zone_alone()? },
            "DateTime64" if self.lacks_parens() => ColumnType::DateTime64 { precision: 3, timezone: None },
            "DateTime64" => self.datetime64()?,
            "FixedString" => ColumnType::FixedString(self.in_parens(|p| p.number(1, 1 << 24))? as u32),
            "Decimal" if self.lacks_parens() => ColumnType::Decimal { precision: 10, scale: 0 },
            "Decimal" => self.decimal()?,
            "Decimal32" => self.sized_decimal(9)?,
            "Decimal64" => self.sized_decimal(18)?,
            "Decimal128" => self.sized_decimal(38)?,
            "Enum8" => ColumnType::Enum8(self.enum_names(i8::MIN as i64, i8::MAX as i64, |n| n as i8)?),
            "Enum16" => ColumnType::Enum16(self.enum_names(i16::MIN as i64, i16::MAX as i64, |n| n as i16)?),
            "Enum" if self.is_declared => self.either_enum()?,
            "Nullable" | "LowCardinality" | "Array" => {
                let inner = self.in_parens(|p| p.type_name(depth + 1))?;
                wrap(family, inner)?
            }
            "Map" => self.map(depth)?,
            "JSON" => ColumnType::Json { parameters: self.parameters()? },
            "AggregateFunction" if depth == 0 => self.state(depth)?,
            "SimpleAggregateFunction" if depth == 0 => self.in_parens(|p| {
                p.word()?;
                p.expect(',')?;
                p.type_name(depth + 1)
            })?,
            other => return Err(unsupported(other)),
        };
        if self.is_declared && has_width(&plain) {
            self.skip_width()?;
        }
        Ok(plain)
    }

    /// The name of a type; the type's own where another one stands for it.
    fn family(&mut self) -> Result<&'a str, String> {
        self.peek();
        let Some((family, bytes)) = aliases::resolve(self.rest).filter(|_| self.is_declared) else {
            return self.word();
        };
        let (alias, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        // `INT(11) UNSIGNED`: the sign stands behind the width, which means nothing.
        let mut behind = Self { rest, ..*self };
        if behind.skip_width().unwrap_or(false) && matches!(behind.peek(), Some('s' | 'S' | 'u' | 'U')) {
            let sign = behind.word()?;
            if let Some((signed, _)) = aliases::resolve(&format!("{alias} {sign}")).filter(|_| has_sign(sign))
            {
                self.rest = behind.rest;
                return Ok(signed);
            }
        }
        Ok(family)
    }

    /// Takes one or two numbers in parentheses, which the server reads behind numbers and texts and makes nothing of; whether there were any.
    fn skip_width(&mut self) -> Result<bool, String> {
        let is_width =
            self.peek() == Some('(') && self.rest[1..].trim_start().starts_with(|c: char| c.is_ascii_digit());
        if is_width {
            self.in_parens(|p| {
                p.number(0, i64::MAX)?;
                if p.take(',') { p.number(0, i64::MAX).map(drop) } else { Ok(()) }
            })?;
        }
        Ok(is_width)
    }

    /// Whether a type is declared without what stands in its parentheses.
    fn lacks_parens(&mut self) -> bool {
        self.is_declared && self.peek() != Some('(')
    }

    /// `DateTime(3)` is a DateTime64 where a table is made.
    fn has_precision(&mut self) -> bool {
        self.is_declared
            && self.peek() == Some('(')
            && self.rest[1..].trim_start().starts_with(|c: char| c.is_ascii_digit())
    }

    /// `Enum` is the smaller one that holds the numbers.
    fn either_enum(&mut self) -> Result<ColumnType, String> {
        let rest = self.rest;
        if let Ok(names) = self.enum_names(i8::MIN.into(), i8::MAX.into(), |n| n as i8) {
            return Ok(ColumnType::Enum8(names));
        }
        self.rest = rest;
        Ok(ColumnType::Enum16(self.enum_names(i16::MIN.into(), i16::MAX.into(), |n| n as i16)?))
    }

    fn zone_alone(&mut self) -> Result<Option<Arc<str>>, String> {
        if self.peek() == Some('(') { self.in_parens(|p| p.text()).map(|z| Some(z.into())) } else { Ok(None) }
    }

    fn datetime64(&mut self) -> Result<ColumnType, String> {
        self.in_parens(|p| {
            let precision = p.number(0, 9)? as u8;
            let timezone = if p.take(',') { Some(p.text()?.into()) } else { None };
            Ok(ColumnType::DateTime64 { precision, timezone })
        })
    }

    fn decimal(&mut self) -> Result<ColumnType, String> {
        self.in_parens(|p| {
            let precision = p.number(1, 76)? as u8;
            let scale = if p.take(',') { p.number(0, i64::from(precision))? as u8 } else { 0 };
            if precision > 38 {
                return Err("decimals of more than 38 digits are not supported".into());
            }
            Ok(ColumnType::Decimal { precision, scale })
        })
    }

    fn sized_decimal(&mut self, precision: u8) -> Result<ColumnType, String> {
        let scale = self.in_parens(|p| p.number(0, i64::from(precision)))? as u8;
        Ok(ColumnType::Decimal { precision, scale })
    }

    fn map(&mut self, depth: usize) -> Result<ColumnType, String> {
        self.in_parens(|p| {
            let key = p.type_name(depth + 1)?;
            p.expect(',')?;
            let value = p.type_name(depth + 1)?;
            let is_nested =
                matches!(key, ColumnType::Array(_) | ColumnType::Map(..) | ColumnType::Json { .. });
            if key.is_nullable() || is_nested {
                return Err(format!("`{}` cannot be a map's key", name(&key)));
            }
            Ok(ColumnType::Map(Box::new(key), Box::new(value)))
        })
    }

    fn state(&mut self, depth: usize) -> Result<ColumnType, String> {
        self.in_parens(|p| {
            let word = p.word()?;
            let function = StateFunction::ALL.into_iter().find(|function| function.name() == word);
            let has_levels = function.is_some_and(StateFunction::has_levels);
            if has_levels && p.peek() != Some('(') {
                return Err(format!(
                    "`{word}` needs its level here, as in `AggregateFunction({word}(0.5), …)`"
                ));
            }
            let levels = if has_levels { p.in_parens(Self::levels)? } else { Vec::new() };
            let mut arguments = Vec::new();
            while function.is_some() && p.take(',') {
                arguments.push(p.type_name(depth + 1)?);
            }
            let function = function.filter(|_| !arguments.iter().any(ColumnType::holds_json));
            match function.filter(|function| function.takes(arguments.len())) {
                Some(function) => Ok(ColumnType::State(Arc::new(StateType { function, arguments, levels }))),
                None => Err(unsupported("AggregateFunction")),
            }
        })
    }

    /// Levels of quantiles, in millionths.
    fn levels(&mut self) -> Result<Vec<u32>, String> {
        let mut levels = Vec::new();
        loop {
            self.peek();
            let end = self.rest.find([',', ')', ' ']).unwrap_or(self.rest.len());
            let (text, rest) = self.rest.split_at(end);
            let millionths = text.parse().map_or(-1.0, |level: f64| level * 1e6);
            let whole = millionths.round();
            if !(0.0..=1e6).contains(&millionths) || (millionths - whole).abs() > 1e-6 {
                return Err(format!("`{}` is no level from 0 to 1 of at most six digits", shorten(text, 20)));
            }
            levels.push(whole as u32);
            self.rest = rest;
            if !self.take(',') {
                return Ok(levels);
            }
        }
    }

    /// What stands between a type's parentheses, if it has any, as it is: texts and names in quotes may hold others.
    fn parameters(&mut self) -> Result<Option<Arc<str>>, String> {
        if !self.take('(') {
            return Ok(None);
        }
        let (mut open, mut quote, mut bytes) = (0_usize, None, self.rest.bytes().enumerate());
        while let Some((at, byte)) = bytes.next() {
            match (quote, byte) {
                (Some(_), b'\\') => drop(bytes.next()),
                (Some(end), byte) if end == byte => quote = None,
                (Some(_), _) => {}
                (None, b'\'' | b'`' | b'"') => quote = Some(byte),
                (None, b'(') => open += 1,
                (None, b')') if open == 0 => {
                    let (parameters, rest) = (&self.rest[..at], &self.rest[at + 1..]);
                    self.rest = rest;
                    return Ok((!parameters.trim().is_empty()).then(|| parameters.into()));
                }
                (None, b')') => open -= 1,
                (None, _) => {}
            }
        }
        Err("a parenthesis is not closed".into())
    }

    fn enum_names<T>(
        &mut self,
        min: i64,
        max: i64,
        number: fn(i64) -> T,
    ) -> Result<Arc<[EnumName<T>]>, String> {
        self.in_parens(|p| {
            let mut names: Vec<EnumName<T>> = Vec::new();
            let (mut numbers, mut texts, mut last) = (BTreeSet::new(), BTreeSet::new(), 0);
            loop {
                let text: Arc<str> = p.text()?.into();
                let value = match p.take('=') {
                    true => p.number(min, max)?,
                    // The server counts on from the number before.
                    false if p.is_declared && last < max => last + 1,
                    false => {
                        return Err(format!(
                            "the enum name {} has no number: write `= n` after it",
                            quote(&text)
                        ));
                    }
                };
                last = value;
                if !numbers.insert(value) {
                    return Err(format!("the enum number `{value}` appears twice"));
                }
                if !texts.insert(text.clone()) {
                    return Err(format!("the enum name {} appears twice", quote(&text)));
                }
                names.push((text, number(value)));
                if !p.take(',') {
                    return Ok(names.into());
                }
            }
        })
    }

    fn in_parens<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.expect('(')?;
        let value = inner(self)?;
        self.expect(')')?;
        Ok(value)
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.take(wanted) {
            Ok(())
        } else {
            Err(format!("`{wanted}` is expected before `{}`", shorten(self.rest, 20)))
        }
    }

    fn end(&mut self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(format!("`{}` follows the type", shorten(self.rest, 20))),
        }
    }

    fn word(&mut self) -> Result<&'a str, String> {
        self.peek();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        if end == 0 {
            return Err(format!("a type's name is expected before `{}`", shorten(self.rest, 20)));
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(word)
    }

    fn number(&mut self, min: i64, max: i64) -> Result<i64, String> {
        self.peek();
        let sign = usize::from(self.rest.starts_with('-'));
        let digits = self.rest[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len() - sign);
        let (text, rest) = self.rest.split_at(sign + digits);
        let value: i64 =
            text.parse().map_err(|_| format!("a number is expected before `{}`", shorten(self.rest, 20)))?;
        self.rest = rest;
        if (min..=max).contains(&value) {
            Ok(value)
        } else {
            Err(format!("the number `{value}` is not between {min} and {max}"))
        }
    }

    /// Text in single quotes. A quote inside is `\'` or `''`.
    fn text(&mut self) -> Result<String, String> {
        self.expect('\'')?;
        let mut bytes = Vec::new();
        let mut rest = self.rest.bytes().enumerate().peekable();
        loop {
            let Some((at, byte)) = rest.next() else { return Err("a quote is not closed".into()) };
            match byte {
                b'\'' if rest.peek().map(|&(_, b)| b) == Some(b'\'') => {
                    rest.next();
                    bytes.push(b'\'');
                }
                b'\'' => {
                    self.rest = &self.rest[at + 1..];
                    return String::from_utf8(bytes).map_err(|_| "a quoted text is not UTF-8".into());
                }
                b'\\' => {
                    let Some((_, escaped)) = rest.next() else { return Err("a quote is not closed".into()) };
                    match escaped {
                        b'n' => bytes.push(b'\n'),
                        b't' => bytes.push(b'\t'),
                        b'r' => bytes.push(b'\r'),
                        b'0' => bytes.push(0),
                        b'b' => bytes.push(8),
                        b'f' => bytes.push(12),
                        b'a' => bytes.push(7),
                        b'v' => bytes.push(11),
                        b'x' => {
                            let digit =
                                |b: Option<(usize, u8)>| b.and_then(|(_, b)| (b as char).to_digit(16));
                            let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
                                return Err("`\\x` needs two hexadecimal digits".into());
                            };
                            bytes.push((high * 16 + low) as u8);
                        }
                        other => bytes.push(other),
                    }
                }
                other => bytes.push(other),
            }
        }
    }
}

fn has_sign(word: &str) -> bool {
    word.eq_ignore_ascii_case("SIGNED") || word.eq_ignore_ascii_case("UNSIGNED")
}

/// Types behind which the server reads a width.
fn has_width(column_type: &ColumnType) -> bool {
    use ColumnType as T;
    matches!(column_type, T::String | T::Float32 | T::Float64) || column_type.integer_range().is_some()
}

/// Puts `family` around `inner`, as far as ClickHouse permits it.
fn wrap(family: &str, inner: ColumnType) -> Result<ColumnType, String> {
    let nested = matches!(inner, ColumnType::Array(_) | ColumnType::Map(..));
    let refuse = || Err(format!("`{family}` cannot hold `{}`", name(&inner)));
    match family {
        "Nullable" if nested || matches!(inner, ColumnType::Nullable(_) | ColumnType::LowCardinality(_)) => {
            refuse()
        }
        "Nullable" => Ok(ColumnType::Nullable(Box::new(inner))),
        "LowCardinality"
            if nested || matches!(inner, ColumnType::LowCardinality(_) | ColumnType::Json { .. }) =>
        {
            refuse()
        }
        "LowCardinality" => Ok(ColumnType::LowCardinality(Box::new(inner))),
        _ => Ok(ColumnType::Array(Box::new(inner))),
    }
}

fn unsupported(family: &str) -> String {
    let advice = match family {
        "SimpleAggregateFunction" => "it cannot stand within another type",
        "AggregateFunction" => {
            "a pipeline makes states of count, sum, avg, min, max, any, argMin, argMax, uniq, quantileTDigest and quantilesTDigest: for others write to a plain table and let a materialized \
             view aggregate"
        }
        "Int128" | "UInt128" | "Int256" | "UInt256" | "Decimal256" => {
            "integers above 64 bits and decimals above 38 digits are not supported: use Decimal(38, 0), or String if the records have them as text"
        }
        "Tuple" | "Nested" | "Object" | "Variant" | "Dynamic" => {
            "it is not supported: give each field that you need a column of its own, which `columns: { city: address.city }` in the \
             pipeline file fills"
        }
        _ => "it is not supported",
    };
    format!("`{family}`: {advice}")
}
