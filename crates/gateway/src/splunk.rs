//! Splunk's HTTP event collector, for senders that speak nothing else.
//!
//! Owns the envelope and the answers. Does not own who may fill which index (`gateway::gate`), nor where a record begins in a body
//! (`gateway::records`). The `index` of an event is the stream, `splunk` if it names none; an event is taken with its envelope, as it
//! stands.
//!
//! | request                                           | body                                                      |
//! |---------------------------------------------------|-----------------------------------------------------------|
//! | `POST /services/collector`, `/services/collector/event` | envelopes one after the other, or in an array       |
//! | `POST /services/collector/raw?index=NAME`         | lines; each becomes `{"event": LINE}`                     |
//! | `GET /services/collector/health`                  | whether requests are taken                                |
//!
//! All events of a request go to one stream: what names another one is refused, since an append is taken at once or not at all.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use dataflow::RecordBlock;
use serde::Deserialize;
use serde_json::json;

use crate::budget::Held;
use crate::gate::{self, Gate};
use crate::records::{self, Parsed};
use crate::refusal::{Kind, Refusal, answer};
use crate::stream::Stream;

/// The stream of events without an index.
const STREAM: &str = "splunk";

/// The routes of the event collector.
pub fn routes(gate: Gate) -> Router {
    Router::new()
        .route("/services/collector", post(events))
        .route("/services/collector/event", post(events))
        .route("/services/collector/event/1.0", post(events))
        .route("/services/collector/raw", post(lines))
        .route("/services/collector/health", get(health))
        .layer(DefaultBodyLimit::disable())
        .with_state(gate)
}

async fn health(State(gate): State<Gate>) -> Response {
    match gate.is_ready() {
        true => said(StatusCode::OK, 17, "HEC is healthy"),
        false => said(StatusCode::SERVICE_UNAVAILABLE, 23, "Server is shutting down"),
    }
}

async fn events(State(gate): State<Gate>, request: Request) -> Response {
    counted(&gate, None, request, false).await
}

async fn lines(State(gate): State<Gate>, RawQuery(query): RawQuery, request: Request) -> Response {
    let pairs = query.as_deref().unwrap_or_default().split('&');
    let index = pairs.filter_map(|pair| pair.strip_prefix("index=")).next().map(str::to_owned);
    counted(&gate, index, request, true).await
}

async fn counted(gate: &Gate, index: Option<String>, request: Request, is_raw: bool) -> Response {
    let mut met = None;
    let taken = take(gate, index, request, is_raw, &mut met).await;
    gate::count(met.as_deref(), gate::word(&taken));
    answered(taken)
}

/// The part of an envelope that says where its event goes.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    index: Option<String>,
    event: Option<serde::de::IgnoredAny>,
}

/// Takes a request; `met` is its stream once that is found.
async fn take(
    gate: &Gate,
    index: Option<String>,
    request: Request,
    is_raw: bool,
    met: &mut Option<Arc<Stream>>,
) -> Result<(), Refusal> {
    let (head, body) = request.into_parts();
    let caller = gate.admit(&head.uri, &head.headers)?;
    let raw = gate.shared_body(&head.headers, body).await?;
    let (streams, asking) = (gate.clone(), caller.clone());
    let room = raw.room();
    let work = move || {
        let (body, held) = raw.inflate()?;
        let index = match is_raw {
            true => index.unwrap_or_else(|| STREAM.to_owned()),
            false => index_of(&body)?,
        };
        let stream = streams.stream(&asking, &index)?;
        let parsed = parse(&stream, &body, &index, is_raw, room.beside(&stream.budget));
        drop(held);
        Ok((stream, parsed))
    };
    let (stream, parsed) = gate.compute(work).await?;
    *met = Some(stream.clone());
    let Parsed { records, held, .. } = parsed?;
    stream.append(records, None, held, gate.answer_wait_max()).await.map(drop)
}

/// The events of a body for this stream.
fn parse(stream: &Stream, body: &[u8], index: &str, is_raw: bool, room: Held) -> Result<Parsed, Refusal> {
    stream.takes_json()?;
    let parsed = match is_raw {
        true => records::texts(body, "event", stream.now_ms(), room)?,
        false => records::objects(body, stream.now_ms(), room)?,
    };
    if parsed.errors.count > 0 {
        return Err(parsed.errors.refusal());
    }
    if parsed.records.is_empty() {
        return Err(Refusal::new(Kind::Malformed, "No data"));
    }
    if !is_raw {
        check(&parsed.records, index)?;
    }
    Ok(parsed)
}

/// Whether every envelope has an event, and is for this index.
fn check(records: &RecordBlock, expected: &str) -> Result<(), Refusal> {
    for row in 0..records.len() {
        let envelope: Result<Envelope, _> = serde_json::from_slice(records.payloads.get(row));
        let envelope =
            envelope.map_err(|error| Refusal::new(Kind::Malformed, format!("event {row}: {error}")))?;
        if envelope.event.is_none() {
            return Err(Refusal::new(Kind::Malformed, format!("event {row}: Event field is required")));
        }
        if envelope.index.as_deref().unwrap_or(STREAM) != expected {
            let message =
                format!("event {row} is for another index than those before; send one index at a time");
            return Err(Refusal::new(Kind::Malformed, message));
        }
    }
    Ok(())
}

/// The index of the first event.
fn index_of(body: &[u8]) -> Result<String, Refusal> {
    let body = body.trim_ascii_start();
    let body = body.strip_prefix(b"[").unwrap_or(body);
    let first = serde_json::Deserializer::from_slice(body).into_iter::<Envelope>().next();
    match first {
        Some(Ok(envelope)) => Ok(envelope.index.unwrap_or_else(|| STREAM.to_owned())),
        Some(Err(error)) => Err(Refusal::new(Kind::Malformed, format!("Invalid data format: {error}"))),
        None => Err(Refusal::new(Kind::Malformed, "No data")),
    }
}

fn answered(taken: Result<(), Refusal>) -> Response {
    let Err(refusal) = taken else { return said(StatusCode::OK, 0, "Success") };
    // The codes are those that senders know; the text says more.
    let code = match refusal.kind {
        Kind::Unknown => 4,
        Kind::Forbidden | Kind::NoStream => 7,
        Kind::Busy | Kind::Unavailable | Kind::NotYet | Kind::TooSlow => 9,
        Kind::Malformed | Kind::Media | Kind::KeyReused | Kind::TooLarge => 6,
    };
    // Senders retry 503, and neither 408 nor 429.
    let status = match refusal.kind {
        Kind::Busy | Kind::TooSlow => StatusCode::SERVICE_UNAVAILABLE,
        Kind::NoStream => StatusCode::BAD_REQUEST,
        kind => kind.status(),
    };
    let mut response = said(status, code, &refusal.message);
    refusal.without_408().kind.put_headers(response.headers_mut());
    response
}

fn said(status: StatusCode, code: u32, text: &str) -> Response {
    answer(status, &json!({ "text": text, "code": code }))
}

#[cfg(test)]
mod tests;
