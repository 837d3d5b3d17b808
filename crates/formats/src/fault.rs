//! Why a record is turned down, and the sentence that says so: shared by the formats in binary whose schemas say their bytes (Avro, Protobuf).
//!
//! Owns the kinds of faults and their words. Does not own the rules that they break ([`crate::columns`]).
//!
//! Made only on the way out, so it may allocate; the good path carries a pointer that is null.
//!
//! | kind    | reason                               | sentence                                                            |
//! |---------|--------------------------------------|---------------------------------------------------------------------|
//! | bytes   | `Malformed`                          | ``byte `17`, field `user.id`: the number does not end within the record`` |
//! | a value | `WrongKind`, `OutOfRange`, `TooLarge` | ``field `status`: value `70000` does not fit UInt16 (0 to 65535)``   |
//! | null    | `Missing`                            | ``field `status`: value `null` is refused, because its column …``        |
//! | absent  | `Missing`                            | ``field `status` is missing, and its column …``                      |
//! | schema  | `Schema`                             | ``schema `7`: the registry has no schema of this number``, ``the message names no schema: …`` |

use std::borrow::Cow;
use std::fmt::Display;

use dataflow::{Reason, RecordBlock, Reject, Schema};

use crate::columns::{Fit, Misfit};
use crate::shown::{printable, shorten};

/// What a step of the decoder gives.
pub(crate) type Step<T> = Result<T, Box<Fault>>;

/// A record's fault, before it is known which record it was.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The rule's class.
    pub reason: Reason,
    /// Which column was being filled, by its place in the schema.
    pub column: Option<usize>,
    kind: Kind,
    /// The field, dotted; grows from its end while the fault travels up.
    field: String,
    rule: Cow<'static, str>,
}

#[derive(Debug)]
enum Kind {
    /// The record's bytes are not of the schema, from this one on.
    Bytes(usize),
    /// This value is turned down.
    Value(String),
    Absent,
    /// The writer's schema of this number or name is of no use.
    Schema(String),
    /// Nothing says which schema it is of.
    Nameless,
}

impl Fault {
    #[cold]
    fn new(reason: Reason, kind: Kind, rule: Cow<'static, str>) -> Box<Self> {
        Box::new(Self { reason, column: None, kind, field: String::new(), rule })
    }

    /// The byte `at` of the record is not what the schema says.
    #[cold]
    pub fn bytes(at: usize, rule: impl Into<Cow<'static, str>>) -> Box<Self> {
        Self::new(Reason::Malformed, Kind::Bytes(at), rule.into())
    }

    /// The record is of schema `id`, by which it cannot be read.
    #[cold]
    pub fn schema(id: &dyn Display, why: &str) -> Box<Self> {
        Self::new(
            Reason::Schema,
            Kind::Schema(printable(id.to_string().as_bytes(), FIELD_CHARS)),
            why.to_owned().into(),
        )
    }

    /// The record comes without the name of its schema.
    #[cold]
    pub fn nameless(rule: &'static str) -> Box<Self> {
        Self::new(Reason::Schema, Kind::Nameless, rule.into())
    }

    /// Null, where neither the type nor a DEFAULT takes it.
    #[cold]
    pub fn null(rule: &'static str) -> Box<Self> {
        Self::new(Reason::Missing, Kind::Value("null".into()), rule.into())
    }

    /// The record has nothing for a column.
    #[cold]
    pub fn absent(column: usize, field: &str) -> Box<Self> {
        Self::lacking(column, field, "is missing, and its column has neither NULL nor a DEFAULT")
    }

    /// The same, by another rule.
    #[cold]
    pub fn lacking(column: usize, field: &str, rule: &'static str) -> Box<Self> {
        let mut fault = Self::new(Reason::Missing, Kind::Absent, rule.into());
        fault.column = Some(column);
        fault.field = field.into();
        fault
    }

    /// The same, for a value of `column`.
    #[cold]
    pub fn in_column(mut self: Box<Self>, column: usize) -> Box<Self> {
        self.column.get_or_insert(column);
        self
    }

    /// The same, found within the field `name`.
    #[cold]
    pub fn within(mut self: Box<Self>, name: &str) -> Box<Self> {
        if matches!(self.kind, Kind::Absent) {
            // It has its whole path.
            return self;
        }
        self.field = if self.field.is_empty() { name.into() } else { format!("{name}.{}", self.field) };
        self
    }

    /// The reject of the record `row` of a block, whose columns are those of `schema`.
    #[cold]
    pub fn reject(&self, block: &RecordBlock, row: usize, schema: &Schema) -> Reject {
        let column = self.column.map_or("", |n| &schema.columns()[n].name);
        Reject::of(block, row, self.reason, column, self.sentence())
    }

    /// The whole sentence.
    pub fn sentence(&self) -> String {
        let field = printable(self.field.as_bytes(), FIELD_CHARS);
        match &self.kind {
            Kind::Bytes(at) if field.is_empty() => format!("byte `{at}`: {}", self.rule),
            Kind::Bytes(at) => format!("byte `{at}`, field `{field}`: {}", self.rule),
            Kind::Value(value) => format!("field `{field}`: value `{value}` {}", self.rule),
            Kind::Absent => format!("field `{field}` {}", self.rule),
            Kind::Schema(id) => format!("schema `{id}`: {}", self.rule),
            Kind::Nameless => self.rule.to_string(),
        }
    }
}

/// Characters of a field's path that a sentence shows.
const FIELD_CHARS: usize = 200;
/// Bytes of a value without a text form that a sentence shows.
const BYTES_SHOWN: usize = 24;

/// What a rule says of a value that displays as itself.
#[inline(always)]
pub(crate) fn fits(fit: Fit<()>, value: impl Display) -> Step<()> {
    match fit {
        Ok(()) => Ok(()),
        Err(misfit) => Err(misfits(*misfit, value.to_string())),
    }
}

/// What a rule says of a text.
#[inline(always)]
pub(crate) fn text_fits(fit: Fit<()>, text: &[u8]) -> Step<()> {
    match fit {
        Ok(()) => Ok(()),
        Err(misfit) => Err(misfits(*misfit, shorten(text))),
    }
}

/// What a rule says of bytes.
#[inline(always)]
pub(crate) fn bytes_fit(fit: Fit<()>, bytes: &[u8]) -> Step<()> {
    match fit {
        Ok(()) => Ok(()),
        Err(misfit) => Err(misfits(*misfit, hex(bytes))),
    }
}

#[cold]
fn misfits(misfit: Misfit, value: String) -> Box<Fault> {
    Fault::new(misfit.reason, Kind::Value(value), misfit.rule)
}

#[cold]
fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().take(BYTES_SHOWN).map(|byte| format!("{byte:02x}"));
    let cut = if bytes.len() > BYTES_SHOWN { "…" } else { "" };
    format!("0x{}{cut}", digits.collect::<String>())
}
