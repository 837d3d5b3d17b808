//! How a client is answered whose request was not done.
//!
//! Owns the kinds, their words, statuses and headers, in JSON. Does not own the sentence of a refusal (whoever refuses), nor how gRPC tells
//! a kind (`otlp::grpc`).
//!
//! | kind           | status | took effect | what the client does                                 |
//! |----------------|--------|-------------|------------------------------------------------------|
//! | [`Kind::Malformed`]    | 400 | no | mends the request                                    |
//! | [`Kind::Unknown`]      | 401 | no | shows who it is                                      |
//! | [`Kind::Forbidden`]    | 403 | no | asks for leave                                       |
//! | [`Kind::NoStream`]     | 404 | no | names another stream                                 |
//! | [`Kind::TooSlow`]      | 408 | no | sends again, faster                                  |
//! | [`Kind::TooLarge`]     | 413 | no | sends less at a time                                 |
//! | [`Kind::Media`]        | 415 | no | sends in another form                                |
//! | [`Kind::KeyReused`]    | 422 | no | gives each request a key of its own                  |
//! | [`Kind::Busy`]         | 429 | no | sends again after `Retry-After`                      |
//! | [`Kind::Unavailable`]  | 503 | no | the same                                             |
//! | [`Kind::NotYet`]       | 503 | unknown | sends again under the same key                  |

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// When a client that met a bound is asked to come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of reason.
    pub kind: Kind,
    /// The sentence, with the way out. No secret.
    pub message: String,
    /// Lines that could not be taken.
    pub lines: Option<Box<Value>>,
}

/// The kinds of refusals, each with a status and a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the module's table says it")]
pub enum Kind {
    Malformed,
    Unknown,
    Forbidden,
    NoStream,
    TooSlow,
    TooLarge,
    Media,
    KeyReused,
    Busy,
    Unavailable,
    NotYet,
}

impl Kind {
    /// The HTTP status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NoStream => StatusCode::NOT_FOUND,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Media => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable | Self::NotYet => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The word for it in an answer, and in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NoStream => "no_stream",
            Self::TooSlow => "too_slow",
            Self::TooLarge => "too_large",
            Self::Media => "media_type",
            Self::KeyReused => "key_reused",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::NotYet => "not_yet",
        }
    }

    /// When to send again without changing anything; `None` if that would not help.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Busy | Self::Unavailable | Self::NotYet => Some(RETRY_AFTER),
            Self::Malformed
            | Self::Unknown
            | Self::Forbidden
            | Self::NoStream
            | Self::TooSlow
            | Self::TooLarge
            | Self::Media
            | Self::KeyReused => None,
        }
    }
}

impl Refusal {
    /// A refusal without lines.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), lines: None }
    }

    /// The same refusal for senders that drop what 408 refused: 503, after which they send again.
    pub(crate) fn without_408(self) -> Self {
        match self.kind {
            Kind::TooSlow => Self { kind: Kind::Unavailable, ..self },
            Kind::Malformed
            | Kind::Unknown
            | Kind::Forbidden
            | Kind::NoStream
            | Kind::TooLarge
            | Kind::Media
            | Kind::KeyReused
            | Kind::Busy
            | Kind::Unavailable
            | Kind::NotYet => self,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": self.message, "code": self.kind.word() });
        if let Some(lines) = self.lines {
            body["errors"] = lines["shown"].clone();
            body["error_count"] = lines["count"].clone();
        }
        let mut response = answer(self.kind.status(), &body);
        self.kind.put_headers(response.headers_mut());
        response
    }
}

impl Kind {
    /// The headers of an answer in any protocol: when to come again, and how to show who one is.
    pub(crate) fn put_headers(self, headers: &mut HeaderMap) {
        if let Some(after) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs()));
        }
        if self == Kind::Unknown {
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"forebay\""));
        }
    }
}

/// An answer in JSON.
pub fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}
