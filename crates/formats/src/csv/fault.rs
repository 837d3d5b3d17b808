//! Why a record is turned down, and the sentence that says so.
//!
//! Owns the kinds of faults and their words. Does not own the rules that they break ([`crate::columns`]).
//!
//! Made only on the way out, so it may allocate; the good path carries a pointer that is null.
//!
//! | kind    | reason                                          | sentence                                                           |
//! |---------|-------------------------------------------------|--------------------------------------------------------------------|
//! | bytes   | `Malformed`                                     | ``byte `17`, field `name`: the quote that opens here is not closed …`` |
//! | a value | `WrongKind`, `OutOfRange`, `Missing`, `TooLarge` | ``field `status`: value `70000` does not fit UInt16 (0 to 65535)``  |

use std::borrow::Cow;

use dataflow::Reason;

use super::plan::Fill;
use crate::columns::Misfit;
use crate::shown::{printable, shorten};

/// Characters of a field's name that a sentence shows.
const FIELD_CHARS: usize = 200;

/// What a step of the decoder gives.
pub(super) type Step<T> = Result<T, Box<Fault>>;

/// A record's fault, before it is known which record it was.
#[derive(Debug)]
pub(super) struct Fault {
    /// The rule's class.
    pub reason: Reason,
    /// Which column was being filled, by its place in the schema.
    pub column: Option<usize>,
    kind: Kind,
    rule: Cow<'static, str>,
}

#[derive(Debug)]
enum Kind {
    /// The record's bytes are not CSV, from this one on.
    Bytes(usize),
    /// This value is turned down.
    Value(String),
}

impl Fault {
    /// The byte `at` of the record is not what it should be.
    #[cold]
    pub fn bytes(at: usize, rule: impl Into<Cow<'static, str>>) -> Box<Self> {
        let (reason, kind) = (Reason::Malformed, Kind::Bytes(at));
        Box::new(Self { reason, column: None, kind, rule: rule.into() })
    }

    /// A column does not take this value.
    #[cold]
    pub fn value(misfit: Misfit, value: &[u8], column: usize) -> Box<Self> {
        let kind = Kind::Value(shorten(value));
        Box::new(Self { reason: misfit.reason, column: Some(column), kind, rule: misfit.rule })
    }

    /// The same, for a value of `column`.
    #[cold]
    pub fn in_column(mut self: Box<Self>, column: usize) -> Box<Self> {
        self.column.get_or_insert(column);
        self
    }

    /// The same, for a field that `fill` was to be done with.
    #[cold]
    pub fn of(self: Box<Self>, fill: &Fill) -> Box<Self> {
        match fill {
            Fill::Skip => self,
            Fill::One(column) => self.in_column(*column),
            Fill::Several(columns) => self.in_column(columns[0]),
        }
    }

    /// The whole sentence, with the field that fills the column, if it is known.
    pub fn sentence(&self, field: Option<&str>) -> String {
        let field = field.map(|field| printable(field.as_bytes(), FIELD_CHARS));
        match (&self.kind, field) {
            (Kind::Bytes(at), None) => format!("byte `{at}`: {}", self.rule),
            (Kind::Bytes(at), Some(field)) => format!("byte `{at}`, field `{field}`: {}", self.rule),
            (Kind::Value(value), field) => {
                format!("field `{}`: value `{value}` {}", field.unwrap_or_default(), self.rule)
            }
        }
    }
}
