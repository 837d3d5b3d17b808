//! The words of OTLP over HTTP: responses of the services, and `google.rpc.Status` for what was not done.
//!
//! Owns the encodings and the codes. A response and a status are in the encoding of the request.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

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

    fn media(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        })
    }
}

/// What a request that was done meets: a response without a field, since nothing of it was turned down.
pub(super) fn good(form: Form) -> Response {
    let body = match form {
        Form::Protobuf => Body::empty(),
        Form::Json => Body::from("{}"),
    };
    ([(header::CONTENT_TYPE, form.media())], body).into_response()
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
    if let (Kind::TooSlow, Some(after)) = (refusal.kind, Kind::Busy.retry_after()) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs()));
    }
    response
}

/// Senders repeat what 429, 502, 503 and 504 refused, and drop the rest.
fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::TooSlow => StatusCode::SERVICE_UNAVAILABLE,
        kind => kind.status(),
    }
}

/// The code of a `google.rpc.Status`.
pub(crate) fn code(kind: Kind) -> u32 {
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
pub(crate) fn message(code: u32, text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    out.extend_from_slice(&[0x08, code as u8, 0x12]);
    varint(text.len() as u64, &mut out);
    out.extend_from_slice(text.as_bytes());
    out
}

/// Appends a number.
pub(crate) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
