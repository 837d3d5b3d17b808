//! Why a request, or a row of it, is turned down, and the sentence that says so.
//!
//! Owns the words. Does not own the rules that they break ([`crate::columns`], [`super::wire`]).

use std::fmt::Display;

use dataflow::Reason;

use crate::columns::Fit;
use crate::shown::shorten;

/// What a step of the decoder gives.
pub(super) type Step<T> = Result<T, Box<Fault>>;

/// A fault, before it is known which record has it. Made only on the way out, so it may allocate.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// The rule's class.
    pub reason: Reason,
    /// Which column was being filled, by its place in the schema.
    pub column: Option<usize>,
    /// The whole sentence.
    pub message: String,
}

impl Fault {
    /// The bytes are not OTLP.
    #[cold]
    pub fn malformed(message: String) -> Box<Self> {
        Box::new(Self { reason: Reason::Malformed, column: None, message })
    }

    /// It is more than is taken.
    #[cold]
    pub fn too_large(message: String) -> Box<Self> {
        Box::new(Self { reason: Reason::TooLarge, column: None, message })
    }

    /// The same, for a value of the column in this place, which the field `field` fills.
    #[cold]
    pub fn in_column(mut self: Box<Self>, column: usize, field: &str) -> Box<Self> {
        self.column = Some(column);
        self.message = format!("field `{field}`: {}", self.message);
        self
    }
}

/// What a rule says of a value that displays as itself.
#[inline(always)]
pub(super) fn fits(fit: Fit<()>, value: impl Display) -> Step<()> {
    match fit {
        Ok(()) => Ok(()),
        Err(misfit) => {
            let message = format!("value `{value}` {}", misfit.rule);
            Err(Box::new(Fault { reason: misfit.reason, column: None, message }))
        }
    }
}

/// What a rule says of a text.
#[inline(always)]
pub(super) fn text_fits(fit: Fit<()>, text: &str) -> Step<()> {
    match fit {
        Ok(()) => Ok(()),
        Err(misfit) => fits(Err(misfit), shorten(text.as_bytes())),
    }
}

/// The text that these bytes are.
#[inline(always)]
pub(super) fn utf8(bytes: &[u8]) -> Step<&str> {
    std::str::from_utf8(bytes).map_err(|_| not_utf8(bytes))
}

#[cold]
fn not_utf8(bytes: &[u8]) -> Box<Fault> {
    Fault::malformed(format!("the text `{}` is not UTF-8", shorten(bytes)))
}
