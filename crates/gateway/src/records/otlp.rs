//! A request of OTLP as one record.
//!
//! Owns its encodings, and what of it is appended. Does not own its rows, which a decoder makes (`formats`), nor what the sender is answered (`otlp`).

use formats::otlp::{self, Signal};

use super::{Rows, Unit};
use crate::refusal::{Kind, Refusal};

/// The encoding of a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Protocol Buffers.
    Protobuf,
    /// JSON.
    Json,
}

impl Form {
    /// By a content type.
    pub(crate) fn of(media: &str) -> Option<Self> {
        match media {
            "application/x-protobuf" | "application/protobuf" => Some(Self::Protobuf),
            "application/json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// Looks at a request: the record that it is, without those of its rows that are broken, which become errors.
///
/// # Errors
/// [`Kind::Malformed`] for bytes that cannot be divided into rows, and [`Kind::TooLarge`] for more than a record may have or a decoder takes.
pub(crate) fn check<'b>(
    signal: Signal,
    form: Form,
    body: &'b [u8],
    rows: &mut Rows,
) -> Result<otlp::Checked<'b>, Refusal> {
    let invalid = |invalid: otlp::Invalid| {
        let kind = match invalid.reason {
            dataflow::Reason::TooLarge => Kind::TooLarge,
            _ => Kind::Malformed,
        };
        Refusal::new(kind, format!("{}; nothing was stored", invalid.message))
    };
    let bytes_max = object_log::object::APPEND_BYTES_MAX;
    let checked = otlp::check(signal, body, form == Form::Json, bytes_max).map_err(invalid)?;
    if let Some((number, why)) = &checked.broken.first {
        rows.errors.unit = Unit::Record;
        rows.error(*number as u64, why.message.as_str());
        rows.errors.add_unshown(checked.broken.rows as u64 - 1);
    }
    Ok(checked)
}

/// Appends a request as a record, unless it has no rows. How many it has.
///
/// # Errors
/// As [`check`].
pub(crate) fn record(signal: Signal, form: Form, body: &[u8], rows: &mut Rows) -> Result<usize, Refusal> {
    let checked = check(signal, form, body, rows)?;
    if checked.rows > 0 {
        rows.push(&checked.request)?;
    }
    Ok(checked.rows)
}

/// What a body is that comes without a path of its signal: by its type, and otherwise by its first byte, which no request in Protocol Buffers shares
/// with JSON.
pub(crate) fn form_of(media: &str, body: &[u8]) -> Form {
    let guessed = if body.first() == Some(&b'{') { Form::Json } else { Form::Protobuf };
    Form::of(media).unwrap_or(guessed)
}
