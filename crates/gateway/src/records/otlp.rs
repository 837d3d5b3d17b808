//! A request of OTLP as one record.
//!
//! Owns its encodings, and what of it is appended. Does not own its rows, which a decoder makes (`formats`), nor what the sender is answered (`otlp`).

use formats::otlp::{self, Signal};

use super::Rows;
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

/// Appends a request as a record, unless it has no rows; how many it has.
///
/// # Errors
/// [`Kind::Malformed`] for bytes that cannot be divided into rows, and [`Kind::TooLarge`] for more than a record may have or a decoder takes.
pub(crate) fn record(signal: Signal, form: Form, body: &[u8], rows: &mut Rows) -> Result<usize, Refusal> {
    let invalid = |invalid: otlp::Invalid| {
        let kind = match invalid.reason {
            dataflow::Reason::TooLarge => Kind::TooLarge,
            _ => Kind::Malformed,
        };
        Refusal::new(kind, format!("{}; nothing was stored", invalid.message))
    };
    let written = match form {
        Form::Protobuf => None,
        Form::Json => {
            let bytes_max = object_log::object::APPEND_BYTES_MAX;
            Some(otlp::from_json(signal, body, bytes_max).map_err(invalid)?)
        }
    };
    let request = written.as_deref().unwrap_or(body);
    let count = otlp::count(signal, request).map_err(invalid)?;
    if count > 0 {
        rows.push(request)?;
    }
    Ok(count)
}

/// What a body is that comes without a path of its signal: by its type, and otherwise by its first byte, which no request in Protocol Buffers shares
/// with JSON.
pub(crate) fn form_of(media: &str, body: &[u8]) -> Form {
    let guessed = if body.first() == Some(&b'{') { Form::Json } else { Form::Protobuf };
    Form::of(media).unwrap_or(guessed)
}
