//! Why a record is turned down, and the sentence that says so.
//!
//! Owns the error that travels up from a value to its record, and the wording. Does not own the rules that are broken (`json::scan`,
//! [`crate::columns`]), nor the faults of other formats (`formats::fault`, `csv::fault`). A [`Fail`] is made only on the way out, so it may
//! allocate; the good path carries a pointer that is null.
//!
//! | kind         | reason                             | sentence                                                      |
//! |--------------|------------------------------------|---------------------------------------------------------------|
//! | bytes        | `Malformed`, `TooLarge`            | ``byte `17`: expected `:` after a key, found `}` ``            |
//! | a value      | `WrongKind`, `OutOfRange`, `Missing` | ``field `status`: value `70000` does not fit UInt16 (0 to 65535)`` |

use dataflow::Reason;

use super::scan::Cursor;
use crate::columns::Misfit;
use crate::shown::{printable, shorten};

/// What a step of the decoder gives.
pub(crate) type Step<T> = Result<T, Box<Fail>>;

/// A record's fault, before it is known which record it was.
#[derive(Debug)]
pub(crate) struct Fail {
    /// The rule's class.
    pub reason: Reason,
    /// Where in the record's bytes: the fault itself, or the start of the value that is turned down.
    pub at: usize,
    /// The end of the sentence: what was broken.
    pub rule: String,
    /// Which column was being filled, by its place in the schema.
    pub column: Option<usize>,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Bytes,
    Value,
    Absent,
}

impl Fail {
    /// The bytes at `at` are not JSON.
    #[cold]
    pub fn bytes(at: usize, rule: impl Into<String>) -> Box<Self> {
        Box::new(Self { reason: Reason::Malformed, at, rule: rule.into(), column: None, kind: Kind::Bytes })
    }

    /// The value that starts at `at` is turned down; `rule` follows "value `…` ".
    #[cold]
    pub fn value(at: usize, reason: Reason, rule: impl Into<String>) -> Box<Self> {
        Box::new(Self { reason, at, rule: rule.into(), column: None, kind: Kind::Value })
    }

    /// The value that starts at `at` does not fit its column.
    #[cold]
    pub fn misfit(at: usize, misfit: Misfit) -> Box<Self> {
        Self::value(at, misfit.reason, misfit.rule)
    }

    /// The value that starts at `at` is of another kind than `type_name`.
    #[cold]
    pub fn kind(at: usize, type_name: &str) -> Box<Self> {
        Self::misfit(at, *Misfit::kind(type_name))
    }

    /// The record has no field for `column`.
    #[cold]
    pub fn absent(column: usize) -> Box<Self> {
        Box::new(Self {
            reason: Reason::Missing,
            at: 0,
            rule: "is missing, and its column has neither NULL nor a DEFAULT".into(),
            column: Some(column),
            kind: Kind::Absent,
        })
    }

    /// True if the record is no JSON, so that nothing more can be read of it.
    pub fn is_bytes(&self) -> bool {
        self.kind == Kind::Bytes
    }

    /// The same, for a value of `column`.
    pub fn in_column(mut self: Box<Self>, column: usize) -> Box<Self> {
        self.column = Some(column);
        self
    }

    /// The whole sentence, for a record of these bytes whose concerned column is filled by `field`.
    pub fn sentence(&self, record: &[u8], field: &str) -> String {
        match self.kind {
            Kind::Bytes => format!("byte `{}`: {}", self.at, self.rule),
            Kind::Value => {
                let value = shorten(value_at(record, self.at));
                format!("field `{}`: value `{value}` {}", printable(field.as_bytes(), usize::MAX), self.rule)
            }
            Kind::Absent => format!("field `{}` {}", printable(field.as_bytes(), usize::MAX), self.rule),
        }
    }
}

/// The bytes of the value that starts at `at`; all that is left if it does not end.
fn value_at(record: &[u8], at: usize) -> &[u8] {
    let mut cursor = Cursor::at(record, at);
    let end = match cursor.skip_value() {
        Ok(()) => cursor.position(),
        Err(_) => record.len(),
    };
    record.get(at..end).unwrap_or_default()
}
