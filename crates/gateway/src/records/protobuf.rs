//! Messages of Protocol Buffers: one, or several behind their lengths.
//!
//! Owns which of both a body is, by its content type. Does not own where a message ends, nor whether it is one (`formats::protobuf`), nor its type: a pipeline
//! knows that.

use formats::protobuf::{check, delimited};

use super::Rows;
use crate::refusal::{Kind, Refusal};

/// What a body of one message that is none is told.
const SEVERAL: &str = "if there are several messages, each behind its length, say `Content-Type: application/x-protobuf; encoding=delimited`";

/// Whether a content type is one of Protocol Buffers.
pub(super) fn is_media(kind: &str) -> bool {
    matches!(kind, "application/x-protobuf" | "application/protobuf" | "application/vnd.google.protobuf")
}

/// The messages of a body.
///
/// # Errors
/// [`Kind::Media`] for parameters that are not known, [`Kind::Malformed`] for lengths that do not divide the body, [`Kind::Busy`] and [`Kind::TooLarge`].
pub(super) fn messages(parameters: &str, body: &[u8], rows: &mut Rows) -> Result<(), Refusal> {
    if !is_delimited(parameters)? {
        match check(body) {
            Ok(()) => rows.push(body)?,
            Err(why) => rows.error(1, format!("{why}; {SEVERAL}")),
        }
        return Ok(());
    }
    let (mut at, mut number) = (0, 0);
    while at < body.len() {
        number += 1;
        let (begin, end) = delimited(body, at).map_err(|why| {
            let message = format!(
                "message {number} of the body cannot be told from the next: {why}; nothing was stored"
            );
            Refusal::new(Kind::Malformed, message)
        })?;
        at = end;
        match check(&body[begin..end]) {
            Ok(()) => rows.push(&body[begin..end])?,
            Err(why) => rows.error(number, why),
        }
    }
    Ok(())
}

/// Whether messages come behind their lengths. A parameter that is not understood may say how they come, so it is not ignored.
fn is_delimited(parameters: &str) -> Result<bool, Refusal> {
    let mut is_delimited = false;
    for parameter in parameters.split(';').map(str::trim).filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = value.trim().trim_matches('"');
        match (name.trim(), value) {
            ("encoding", "delimited") | ("delimited", "true") => is_delimited = true,
            ("delimited", "false") | ("charset" | "proto" | "messagetype" | "version", _) => {}
            _ => {
                let message = "a parameter of the `Content-Type` is not known; messages that each stand behind their length are `application/x-protobuf; \
                               encoding=delimited`, and one alone is `application/x-protobuf`";
                return Err(Refusal::new(Kind::Media, message));
            }
        }
    }
    Ok(is_delimited)
}

#[cfg(test)]
mod tests;
