//! Prometheus' remote write, 1.0 and 2.0.
//!
//! Owns the routes and the answers. Does not own the records of a request ([`series`]), nor who may fill a stream (`gateway::gate`).
//! `POST /api/v1/write` fills the stream `prometheus`, `POST /NAME/api/v1/write` another. The `Content-Type` tells the message, and the
//! body is a block of Snappy. Each sample, histogram, exemplar and family of metadata is a record of its own.
//!
//! | answer | when                                                                 | the sender            |
//! |--------|----------------------------------------------------------------------|-----------------------|
//! | 204    | all of it is durable                                                 | goes on               |
//! | 400    | parts of it are no series; the others are durable, if it can be read | drops those, goes on  |
//! | 4xx    | it is not allowed, or for no stream, or too large                    | drops it              |
//! | 503    | there is no room, or it came too slowly, or nobody knows yet         | sends again           |
//!
//! There is no 429: Prometheus drops what is answered so, unless it is told otherwise. An answer to 2.0 says how many samples, histograms and exemplars were
//! written, in headers.

mod histogram;
mod labels;
mod series;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use metrics::counter;

use crate::gate::{self, Gate};
use crate::records::{self, Parsed, Rows};
use crate::refusal::{Kind, Refusal};
use crate::stream::Stream;
use series::{Found, Written};

/// The stream of a request that names none.
const STREAM: &str = "prometheus";

/// What an answer to 2.0 counts.
const WRITTEN: [HeaderName; 3] = [
    HeaderName::from_static("x-prometheus-remote-write-samples-written"),
    HeaderName::from_static("x-prometheus-remote-write-histograms-written"),
    HeaderName::from_static("x-prometheus-remote-write-exemplars-written"),
];

/// The version of remote write, as a sender says it.
const VERSION: HeaderName = HeaderName::from_static("x-prometheus-remote-write-version");

/// Which message a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// `prometheus.WriteRequest`.
    One,
    /// `io.prometheus.write.v2.Request`.
    Two,
}

/// The routes of remote write.
pub fn routes(gate: Gate) -> Router {
    Router::new()
        .route(
            "/api/v1/write",
            post(async |State(gate): State<Gate>, request: Request| write(gate, STREAM, request).await),
        )
        .route(
            "/{stream}/api/v1/write",
            post(async |State(gate): State<Gate>, Path(stream): Path<String>, request: Request| {
                write(gate, &stream, request).await
            }),
        )
        .layer(DefaultBodyLimit::disable())
        .with_state(gate)
}

async fn write(gate: Gate, stream: &str, request: Request) -> Response {
    let version = version(request.headers());
    let is_two = version.as_ref().is_ok_and(|version| *version == Version::Two);
    let mut met = None;
    let taken = match version {
        Ok(version) => take(&gate, stream, version, request, &mut met).await,
        Err(refusal) => Err(refusal),
    };
    let code = match &taken {
        Ok((_, Some(refusal))) | Err(refusal) => refusal.kind.word(),
        Ok((_, None)) => "ok",
    };
    gate::count(met.as_deref(), code);
    let (written, mut response) = match taken {
        Ok((written, None)) => (written, StatusCode::NO_CONTENT.into_response()),
        Ok((written, Some(refusal))) => (written, refusal.into_response()),
        Err(refusal) => (Written::default(), retried(refusal).into_response()),
    };
    // What became of a request that is sent again is not known as a rule.
    if is_two && !response.status().is_server_error() {
        let counts = [written.samples, written.histograms, written.exemplars];
        WRITTEN.into_iter().zip(counts).for_each(|(name, count)| {
            response.headers_mut().insert(name, HeaderValue::from(count));
        });
    }
    response
}

/// The same refusal, of a kind that Prometheus sends again if it helps.
fn retried(refusal: Refusal) -> Refusal {
    match refusal.kind {
        Kind::Busy => Refusal { kind: Kind::Unavailable, ..refusal },
        _ => refusal.without_408(),
    }
}

fn version(headers: &HeaderMap) -> Result<Version, Refusal> {
    let (media, parameters) = records::media(headers);
    let message = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("proto="));
    let says_two = headers.get(VERSION).is_some_and(|version| version.as_bytes().starts_with(b"2."));
    match (media.as_str(), message.map(|message| message.trim_matches('"'))) {
        ("application/x-protobuf", None) if says_two => {
            let message = "`X-Prometheus-Remote-Write-Version` says 2, whose message the `Content-Type` names: send \
                           `application/x-protobuf;proto=io.prometheus.write.v2.Request`";
            Err(Refusal::new(Kind::Media, message))
        }
        ("application/x-protobuf", None | Some("prometheus.writerequest")) => Ok(Version::One),
        ("application/x-protobuf", Some("io.prometheus.write.v2.request")) => Ok(Version::Two),
        _ => {
            let message = "the `Content-Type` is `application/x-protobuf`, of `prometheus.WriteRequest` or `io.prometheus.write.v2.Request`";
            Err(Refusal::new(Kind::Media, message))
        }
    }
}

/// What was written, and why the rest was not; `met` is the stream once that is found.
async fn take(
    gate: &Gate,
    name: &str,
    version: Version,
    request: Request,
    met: &mut Option<Arc<Stream>>,
) -> Result<(Written, Option<Refusal>), Refusal> {
    let (head, body) = request.into_parts();
    let caller = gate.admit(&head.uri, &head.headers)?;
    let stream = met.insert(gate.stream(&caller, name)?).clone();
    stream.takes_json()?;
    let raw = gate.body(&stream, &head.headers, body).await?;
    let (now_ms, room) = (stream.now_ms(), raw.room());
    let (client, filled) = (caller.name().to_owned(), stream.clone());
    let found = gate.compute(move || {
        let (body, held) = raw.or_snappy().inflate()?;
        let rows = Rows::new(now_ms, room, body.len())?;
        let found = match version {
            Version::One => series::one(&body, rows)?,
            Version::Two => series::two(&body, rows, held.another())?,
        };
        let key = filled.key(&client, None, &found.parsed.records, None)?;
        Ok((found, key))
    });
    let (Found { parsed: Parsed { records, held, .. }, written, refused }, key) = found.await?;
    if refused.count > 0 {
        counter!("forebay_gateway_skipped_total", "stream" => stream.name.clone()).increment(refused.count);
    }
    if !records.is_empty() {
        stream.append(records, key, held, gate.answer_wait_max()).await?;
    }
    Ok((written, refused.refusal()))
}

#[cfg(test)]
mod tests;
