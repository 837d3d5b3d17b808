//! Delimiters and quotes: the fields of a record.
//!
//! Owns where a field begins and ends, and the text within quotes. Does not own what a field means.

use super::fault::{Fault, Step};

/// The bytes between and around fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    delimiter: u8,
    quote: Option<u8>,
}

impl Dialect {
    /// `None` if these bytes are equal, or could be line ends or parts of a character.
    pub fn new(delimiter: u8, quote: Option<u8>) -> Option<Self> {
        let is_usable = |byte: u8| byte.is_ascii() && !b"\n\r".contains(&byte);
        let is_good =
            is_usable(delimiter) && quote.is_none_or(|quote| is_usable(quote) && quote != delimiter);
        is_good.then_some(Self { delimiter, quote })
    }
}

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'r> {
    /// Where `raw` begins in the record.
    pub at: usize,
    /// Its bytes, without the quotes around them.
    pub raw: &'r [u8],
    /// What stood around and in it.
    pub form: Form,
}

/// What stands around and in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Nothing.
    Plain,
    /// Quotes around it.
    Quoted,
    /// Quotes around it and, doubled, in it.
    Doubled(u8),
}

impl<'r> Field<'r> {
    /// The field's text; `scratch` holds one that differs from its bytes.
    #[inline(always)]
    pub fn text<'a>(&self, scratch: &'a mut Vec<u8>) -> Step<&'a str>
    where
        'r: 'a,
    {
        let bytes: &'a [u8] = match self.form {
            Form::Plain | Form::Quoted => self.raw,
            Form::Doubled(quote) => undoubled(self.raw, quote, scratch),
        };
        std::str::from_utf8(bytes).map_err(|_| self.no_text())
    }

    /// Where the first byte stands that is no UTF-8: quotes are ASCII, so doubling them breaks no character.
    #[cold]
    fn no_text(&self) -> Box<Fault> {
        let valid = std::str::from_utf8(self.raw).map_or_else(|error| error.valid_up_to(), |_| 0);
        let byte = self.raw.get(valid).copied().unwrap_or_default();
        Fault::bytes(self.at + valid, format!("byte `0x{byte:02x}` is not UTF-8"))
    }
}

#[inline(never)]
fn undoubled<'a>(raw: &[u8], quote: u8, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    scratch.clear();
    let mut rest = raw;
    while let Some(at) = memchr::memchr(quote, rest) {
        scratch.extend_from_slice(&rest[..=at]);
        // Its twin follows.
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    scratch.extend_from_slice(rest);
    scratch
}

/// The fields of a record, one after the other.
#[derive(Debug)]
pub(super) struct Fields<'r> {
    record: &'r [u8],
    dialect: Dialect,
    /// Where the next field begins; none behind the last one.
    next: Option<usize>,
}

impl<'r> Fields<'r> {
    /// The fields of `record`; a line end behind it is no part of it.
    pub fn new(record: &'r [u8], dialect: Dialect) -> Self {
        let record =
            record.strip_suffix(b"\n").map_or(record, |record| record.strip_suffix(b"\r").unwrap_or(record));
        Self { record, dialect, next: Some(0) }
    }

    /// Where the next field begins, or the record ends.
    pub fn position(&self) -> usize {
        self.next.unwrap_or(self.record.len())
    }

    /// The next field; `None` behind the last one.
    #[inline(always)]
    pub fn step(&mut self) -> Step<Option<Field<'r>>> {
        let Some(at) = self.next else { return Ok(None) };
        let rest = &self.record[at..];
        let Dialect { delimiter, quote } = self.dialect;
        if quote.is_some() && rest.first().copied() == quote {
            return self.quoted(at).map(Some);
        }
        let end = match memchr::memchr2(delimiter, b'\n', rest) {
            None => {
                self.next = None;
                rest.len()
            }
            Some(end) if rest[end] == delimiter => {
                self.next = Some(at + end + 1);
                end
            }
            Some(end) => return Err(Fault::bytes(at + end, "a line ends here, and a record is one line")),
        };
        Ok(Some(Field { at, raw: &rest[..end], form: Form::Plain }))
    }

    /// The field whose opening quote is at `open`.
    fn quoted(&mut self, open: usize) -> Step<Field<'r>> {
        let quote = self.record[open];
        let at = open + 1;
        let (mut end, mut form) = (at, Form::Quoted);
        loop {
            let Some(found) = memchr::memchr(quote, &self.record[end..]) else {
                return Err(Fault::bytes(open, "the quote that opens here is not closed within the record"));
            };
            end += found;
            match self.record.get(end + 1) {
                None => self.next = None,
                Some(next) if *next == self.dialect.delimiter => self.next = Some(end + 2),
                Some(next) if *next == quote => {
                    form = Form::Doubled(quote);
                    end += 2;
                    continue;
                }
                Some(_) => {
                    let rule =
                        "the field continues behind its closing quote; a quote within quotes is doubled";
                    return Err(Fault::bytes(end + 1, rule));
                }
            }
            return Ok(Field { at, raw: &self.record[at..end], form });
        }
    }
}
