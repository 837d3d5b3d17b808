//! The words of OTLP over HTTP: responses of the services, and `google.rpc.Status` for what was not done.
//!
//! Owns the encodings and the codes. Does not own why a request is refused (`gateway::refusal`), nor the statuses of gRPC, which stand in
//! trailers (`otlp::grpc`). A response and a status are in the encoding of the request.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use formats::otlp::Signal;
use serde_json::json;

use crate::records::Errors;
use crate::records::otlp::Form;
use crate::refusal::{Kind, Refusal};

impl Form {
    fn media(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        })
    }
}

/// What a request that was done meets: a response without a field, or one with what was left out of it.
pub(super) fn good(form: Form, signal: Signal, errors: &Errors) -> Response {
    let body = match form {
        Form::Protobuf => Body::from(response(errors)),
        Form::Json if errors.count == 0 => Body::from("{}"),
        Form::Json => {
            let rejected = match signal {
                Signal::Logs => "rejectedLogRecords",
                Signal::Traces => "rejectedSpans",
                Signal::Metrics => "rejectedDataPoints",
            };
            // As ever in JSON of Protocol Buffers, a number of 64 bits is a text.
            let partial = json!({ rejected: errors.count.to_string(), "errorMessage": reason(errors) });
            Body::from(json!({ "partialSuccess": partial }).to_string())
        }
    };
    ([(header::CONTENT_TYPE, form.media())], body).into_response()
}

/// The response of a service: `partial_success`, whose fields have the same numbers for all signals, if something was left out.
pub(super) fn response(errors: &Errors) -> Vec<u8> {
    let mut out = Vec::new();
    if errors.count > 0 {
        let mut partial = vec![0x08];
        varint(errors.count, &mut partial);
        field(2, reason(errors).as_bytes(), &mut partial);
        field(1, &partial, &mut out);
    }
    out
}

/// What is wrong with the first row that was left out. Printable, and some lines at the most, since what a sender wrote is shortened in it.
pub(super) fn reason(errors: &Errors) -> String {
    match errors.shown.first() {
        Some((row, why)) => format!("row {row}: {why}"),
        None => String::new(),
    }
}

/// What a request that was not done meets.
pub(super) fn bad(form: Form, refusal: &Refusal) -> Response {
    let (status, code) = (status(refusal.kind), code(refusal.kind));
    let body = match form {
        Form::Protobuf => Body::from(message(code, &refusal.message)),
        Form::Json => Body::from(json!({ "code": code, "message": refusal.message }).to_string()),
    };
    let mut response = (status, [(header::CONTENT_TYPE, form.media())], body).into_response();
    refusal.kind.put_headers(response.headers_mut());
    if let Some(after) = retry_after(refusal.kind) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs()));
    }
    response
}

/// When to send again without changing anything; `None` if that would not help.
pub(super) fn retry_after(kind: Kind) -> Option<Duration> {
    match kind {
        Kind::TooSlow => Kind::Busy.retry_after(),
        kind => kind.retry_after(),
    }
}

/// Senders repeat what 429, 502, 503 and 504 refused, and drop the rest.
fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::TooSlow => StatusCode::SERVICE_UNAVAILABLE,
        kind => kind.status(),
    }
}

/// The code of a `google.rpc.Status`.
pub(super) fn code(kind: Kind) -> u32 {
    match kind {
        // INVALID_ARGUMENT: it can never be taken, so a sender drops it.
        Kind::Malformed | Kind::TooLarge | Kind::Media | Kind::KeyReused => 3,
        // NOT_FOUND, PERMISSION_DENIED, UNAUTHENTICATED.
        Kind::NoStream => 5,
        Kind::Forbidden => 7,
        Kind::Unknown => 16,
        // UNAVAILABLE: it may be sent again as it is.
        Kind::TooSlow | Kind::Busy | Kind::Unavailable | Kind::NotYet => 14,
    }
}

/// A `google.rpc.Status` without details.
pub(super) fn message(code: u32, text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    out.extend_from_slice(&[0x08, code as u8]);
    field(2, text.as_bytes(), &mut out);
    out
}

/// The same with a `google.rpc.RetryInfo`.
pub(super) fn with_retry(code: u32, text: &str, after: Duration) -> Vec<u8> {
    let mut any = Vec::new();
    field(1, b"type.googleapis.com/google.rpc.RetryInfo", &mut any);
    field(2, &retry_info(after), &mut any);
    let mut out = message(code, text);
    field(3, &any, &mut out);
    out
}

/// A `google.rpc.RetryInfo`: a delay in whole seconds.
pub(super) fn retry_info(after: Duration) -> Vec<u8> {
    let (mut delay, mut out) = (vec![0x08], Vec::new());
    varint(after.as_secs().max(1), &mut delay);
    field(1, &delay, &mut out);
    out
}

/// Appends a field of bytes.
fn field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a number.
fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
