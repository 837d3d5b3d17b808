//! OTLP over gRPC: `Export` of the three services, one message a call; `grpc.health.v1`; and `grpc.reflection`.
//!
//! Owns the words of gRPC: codes and their details in trailers, and the deadline of a call. Does not own a message's prefix ([`frame`]),
//! calls with several messages ([`stream`]), nor what is done with a request, which is the same over HTTP ([`super`]). The calls come by
//! HTTP/2 on the ports of the other routes, within their bounds: a message is counted by the budgets before it is kept, which is why no
//! gRPC library stands here.
//!
//! | a call that                              | ends with                                                            |
//! |------------------------------------------|----------------------------------------------------------------------|
//! | is durable                               | `OK` and the response of its service: empty, or with a `partial_success` |
//! | can never be taken                       | `INVALID_ARGUMENT`, `NOT_FOUND`, `UNIMPLEMENTED`, `PERMISSION_DENIED`, `UNAUTHENTICATED` |
//! | meets a bound, or a gateway that stops   | `UNAVAILABLE` with `RetryInfo`                                       |
//! | is not durable at its deadline           | `DEADLINE_EXCEEDED`; it may become so                                |
//!
//! `RESOURCE_EXHAUSTED` is never said: senders drop what it refused.

mod frame;
mod reflection;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use formats::otlp::Signal;
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;

use super::{Service, Taking, status};
use crate::body::{self, BodyBounds, Encoding, Inflated};
use crate::budget::{Budget, Held};
use crate::gate;
use crate::records::otlp::Form;
use crate::records::{self, Errors};
use crate::refusal::{Kind, Refusal};
use crate::stream::Stream;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// Where some senders look for the same delay.
const RETRY_INFO: HeaderName = HeaderName::from_static("google.rpc.retryinfo-bin");
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// How messages may be compressed.
const ENCODINGS: &str = "identity, gzip, zstd, deflate";

const UNIMPLEMENTED: u32 = 12;
const DEADLINE_EXCEEDED: u32 = 4;

const SERVICES: [(&str, Signal); 3] = [
    ("opentelemetry.proto.collector.logs.v1.LogsService", Signal::Logs),
    ("opentelemetry.proto.collector.trace.v1.TraceService", Signal::Traces),
    ("opentelemetry.proto.collector.metrics.v1.MetricsService", Signal::Metrics),
];

/// The words of `grpc.health.v1` for what is asked about.
const SERVING: u8 = 1;
const NOT_SERVING: u8 = 2;
const SERVICE_UNKNOWN: u8 = 3;

/// Bytes of a question for health: a service's name.
const QUESTION_BYTES_MAX: usize = 1 << 10;
/// The longest wait for one.
const QUESTION_WAIT_MAX: Duration = Duration::from_secs(10);

/// The routes.
pub(super) fn routes() -> Router<Service> {
    let exports = SERVICES.into_iter().fold(Router::new(), |router, (service, signal)| {
        let call = post(async move |State(service): State<Service>, request: Request| {
            export(&service, signal, request).await
        });
        router.route(&format!("/{service}/Export"), call)
    });
    let asks = reflection::NAMES.into_iter().fold(exports, |router, service| {
        let call = post(async move |State(Service { gate, .. }): State<Service>, request: Request| {
            let answers = |body| stream::answers(body, reflection::answer, move || !gate.is_ready());
            no_call(&request).unwrap_or_else(|| answers(request.into_body()))
        });
        router.route(&format!("/{service}/ServerReflectionInfo"), call)
    });
    asks.route(&format!("/{}/Check", reflection::HEALTH), post(check))
        .route(&format!("/{}/List", reflection::HEALTH), post(list))
        .route(&format!("/{}/Watch", reflection::HEALTH), post(watch))
        .layer(DefaultBodyLimit::disable())
}

/// What is asked for at a path that is no route: a call is told so as calls are told things, and anything else by its status.
pub(super) async fn unknown(request: Request) -> Response {
    if no_call(&request).is_some() {
        return StatusCode::NOT_FOUND.into_response();
    }
    ended(UNIMPLEMENTED, "there is no such method; `grpc.reflection` names the services that there are", None)
}

/// What a call is answered that was not done.
struct Fault {
    code: u32,
    refusal: Refusal,
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.kind {
            Kind::Media => UNIMPLEMENTED,
            kind => status::code(kind),
        };
        Self { code, refusal }
    }
}

async fn export(service: &Service, signal: Signal, request: Request) -> Response {
    if let Some(response) = no_call(&request) {
        return response;
    }
    let mut met = None;
    let taken = take(service, signal, request, &mut met).await;
    let word = taken.as_ref().map_or_else(|fault| fault.refusal.kind.word(), |_| "ok");
    gate::count(met.as_deref(), word);
    match taken {
        Ok(errors) => good(&status::response(&errors)),
        Err(fault) => ended(fault.code, &fault.refusal.message, status::retry_after(fault.refusal.kind)),
    }
}

async fn take(
    service: &Service,
    signal: Signal,
    request: Request,
    met: &mut Option<Arc<Stream>>,
) -> Result<Errors, Fault> {
    let (head, body) = request.into_parts();
    let gate = &service.gate;
    let caller = gate.admit(&head.uri, &head.headers)?;
    let stream = met.insert(super::stream_of(gate, &service.streams, &caller, signal)?).clone();
    let encoding = frame::encoding(&head.headers)?;
    let deadline = timeout(&head.headers)?.map(|wait| Instant::now() + wait);
    let left =
        || deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
    let bounds = BodyBounds {
        bytes_max: stream.bounds.bytes_max + frame::PREFIX_BYTES,
        time_max: stream.bounds.time_max.min(left()),
        ..stream.bounds
    };
    let room = gate.hold_for_request(&stream);
    let raw = body::read_announced(body, Encoding::Identity, bounds, room, frame::announced).await?;
    let wait_max = gate.answer_wait_max().min(left());
    let taking = Taking { signal, form: Form::Protobuf, headers: &head.headers, wait_max };
    let taken = super::append(gate, &caller, &stream, taking, move || frame::message(raw, encoding)).await;
    match taken {
        Ok(errors) => Ok(errors),
        Err(refusal) if refusal.kind == Kind::NotYet && left().is_zero() => {
            Err(Fault { code: DEADLINE_EXCEEDED, refusal })
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// What a request that is no call of gRPC meets.
fn no_call(request: &Request) -> Option<Response> {
    if request.version() != Version::HTTP_2 {
        return Some((StatusCode::HTTP_VERSION_NOT_SUPPORTED, "gRPC needs HTTP/2\n").into_response());
    }
    let is_grpc =
        matches!(records::media(request.headers()).0.as_str(), "application/grpc" | "application/grpc+proto");
    (!is_grpc).then(|| {
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, "a call has the `Content-Type` `application/grpc`\n")
            .into_response()
    })
}

/// How long a call waits for its end, if it says so.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let parsed = value.to_str().ok().and_then(|text| {
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
        let count: u64 = is_number.then(|| digits.parse().ok())??;
        Some(match unit {
            "H" => Duration::from_secs(3_600 * count),
            "M" => Duration::from_secs(60 * count),
            "S" => Duration::from_secs(count),
            "m" => Duration::from_millis(count),
            "u" => Duration::from_micros(count),
            "n" => Duration::from_nanos(count),
            _ => return None,
        })
    });
    let malformed =
        || Refusal::new(Kind::Malformed, "`grpc-timeout` is no time: up to eight digits and a unit");
    parsed.map(Some).ok_or_else(malformed)
}

/// `grpc.health.v1.Health/Check`: whether a service takes calls, or for no name the gateway. As on `/readyz`, nobody has to say who asks.
async fn check(State(service): State<Service>, request: Request) -> Response {
    if let Some(response) = no_call(&request) {
        return response;
    }
    match asked(request.into_body()).await {
        Ok(name) if is_service(&name) => {
            good(&[0x08, if service.gate.is_serving() { SERVING } else { NOT_SERVING }])
        }
        Ok(_) => ended(status::code(Kind::NoStream), "the gateway has no such service", None),
        Err(refusal) => ended(status::code(refusal.kind), &refusal.message, None),
    }
}

/// `grpc.health.v1.Health/Watch`: the same, and what it changes to.
async fn watch(State(service): State<Service>, request: Request) -> Response {
    if let Some(response) = no_call(&request) {
        return response;
    }
    match asked(request.into_body()).await {
        Ok(name) => stream::watch(service.gate, is_service(&name)),
        Err(refusal) => ended(status::code(refusal.kind), &refusal.message, None),
    }
}

/// `grpc.health.v1.Health/List`: all of them.
async fn list(State(service): State<Service>, request: Request) -> Response {
    if let Some(response) = no_call(&request) {
        return response;
    }
    let status = if service.gate.is_serving() { SERVING } else { NOT_SERVING };
    let mut all = Vec::new();
    for name in [""].into_iter().chain(SERVICES.map(|(name, _)| name)) {
        // Each is shorter than 128 bytes.
        let (length, name) = (name.len() as u8, name.as_bytes());
        all.extend_from_slice(&[0x0a, length + 6, 0x0a, length]);
        all.extend_from_slice(name);
        all.extend_from_slice(&[0x12, 2, 0x08, status]);
    }
    good(&all)
}

/// Whether health is known of it: a service, or by no name the gateway.
fn is_service(name: &str) -> bool {
    name.is_empty() || SERVICES.iter().any(|(known, _)| *known == name)
}

/// The service that a question for health names.
async fn asked(body: Body) -> Result<String, Refusal> {
    let bounds = BodyBounds {
        bytes_max: QUESTION_BYTES_MAX,
        wait_max: QUESTION_WAIT_MAX,
        time_max: QUESTION_WAIT_MAX,
    };
    // Requests that hold all their memory are no reason to call the gateway ill.
    let room = || Budget::apart("a question for health", QUESTION_BYTES_MAX);
    let raw = body::read(&HeaderMap::new(), body, bounds, Held::none(&room(), &room())).await?;
    let (begin, Inflated { bytes, .. }) = frame::message(raw, body::Encoding::Identity)?;
    match &bytes[begin..] {
        [] => Ok(String::new()),
        // One field: a text, whose length is one byte since it is short.
        [0x0a, length, name @ ..] if usize::from(*length) == name.len() && *length < 0x80 => {
            Ok(String::from_utf8_lossy(name).into_owned())
        }
        _ => Err(Refusal::new(Kind::NoStream, "the gateway has no such service")),
    }
}

/// A call that was done, with this response.
fn good(message: &[u8]) -> Response {
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))]);
    let body = Full::new(Bytes::from(frame::framed(message)));
    let body = Body::new(body.with_trailers(std::future::ready(Some(Ok(trailers)))));
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"))], body).into_response()
}

/// A call that was not done: its whole answer stands in the headers.
fn ended(code: u32, message: &str, retry_after: Option<Duration>) -> Response {
    let mut response = StatusCode::OK.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(ENCODINGS));
    headers.insert(STATUS, HeaderValue::from(code));
    let mut put = |name, text: String| {
        // Both are ASCII without control characters.
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    };
    put(MESSAGE, percent(message));
    if let Some(after) = retry_after {
        put(RETRY_INFO, STANDARD_NO_PAD.encode(status::retry_info(after)));
        put(DETAILS, STANDARD_NO_PAD.encode(status::with_retry(code, message, after)));
    }
    response
}

/// A text with all but printable ASCII as `%` and two digits.
fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | ..0x20 | 0x7f.. => out.push_str(&format!("%{byte:02X}")),
            _ => out.push(char::from(byte)),
        }
    }
    out
}

#[cfg(test)]
mod tests;
