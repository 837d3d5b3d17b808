//! Splunk's HTTP event collector, for senders that speak nothing else.
//!
//! Owns the envelope and the answers. Does not own who may fill which index (`gateway::gate`), nor where a record begins in a body
//! (`gateway::records`). The `index` of an event is the stream, `splunk` if it names none; an event is taken with its envelope, as it
//! stands; what cannot be a text in JSON is replaced by U+FFFD.
//!
//! | request                                           | body                                                      |
//! |---------------------------------------------------|-----------------------------------------------------------|
//! | `POST /services/collector`, `/services/collector/event` | envelopes one after the other, or in an array       |
//! | `POST /services/collector/raw?index=NAME`         | lines; each becomes `{"event": LINE}`, with the query's `time`, `host`, `source` and `sourcetype` |
//! | `OPTIONS` of the paths for envelopes              | none: 200, as Docker's driver asks before a container starts |
//! | `GET /services/collector/health`                  | whether requests are taken                                |
//! | `POST /services/collector/ack`                    | none: an answer of 200 means durable, as where Splunk has turned acknowledgements off |
//!
//! Each path may end with the version of the protocol, `/1.0`.
//!
//! Senders mix indices in a request, so each stream has an append of its own. A request is refused before anything is stored if an event of it
//! cannot be taken, or finds no room. After that its streams may fare differently: the answer is the worst of them, so a sender that sends all of it
//! again stores some of it twice, and loses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use futures::future::join_all;
use serde::Deserialize;
use serde_json::json;

use crate::budget::Held;
use crate::gate::{self, Gate};
use crate::quoting::quote;
use crate::records::{self, Parsed, Rows, Word};
use crate::refusal::{Kind, Refusal, answer};
use crate::stream::Stream;
use crate::text;

/// The stream of events without an index.
const STREAM: &str = "splunk";

/// Indices of one request at the most: each is an append of its own.
const INDICES_MAX: usize = 100;

/// The routes of the event collector.
pub fn routes(gate: Gate) -> Router {
    Router::new()
        .route("/services/collector", post(events).options(there))
        .route("/services/collector/event", post(events).options(there))
        .route("/services/collector/event/1.0", post(events).options(there))
        .route("/services/collector/raw", post(lines))
        .route("/services/collector/raw/1.0", post(lines))
        .route("/services/collector/ack", post(acknowledged))
        .route("/services/collector/ack/1.0", post(acknowledged))
        .route("/services/collector/health", get(health))
        .route("/services/collector/health/1.0", get(health))
        .layer(DefaultBodyLimit::disable())
        .with_state(gate)
}

/// There is an event collector. Who asks shows no token yet.
async fn there() -> StatusCode {
    StatusCode::OK
}

async fn health(State(gate): State<Gate>) -> Response {
    match gate.is_ready() {
        true => said(StatusCode::OK, 17, "HEC is healthy"),
        false => said(StatusCode::SERVICE_UNAVAILABLE, 23, "Server is shutting down"),
    }
}

/// What was answered is durable already, so there is nothing to ask for later. Splunk says so by this code.
async fn acknowledged() -> Response {
    said(StatusCode::BAD_REQUEST, 14, "ACK is disabled")
}

async fn events(State(gate): State<Gate>, request: Request) -> Response {
    counted(&gate, Ok(None), request).await
}

async fn lines(State(gate): State<Gate>, request: Request) -> Response {
    let envelope = RawEnvelope::of(request.uri()).map(Some);
    counted(&gate, envelope, request).await
}

async fn counted(gate: &Gate, raw: Result<Option<RawEnvelope>, Refusal>, request: Request) -> Response {
    let mut met = None;
    let taken = take(gate, raw, request, &mut met).await;
    if let Err(refusal) = &taken {
        gate::count(met.as_deref(), refusal.kind.word());
    }
    answered(taken.and_then(|appended| worst(appended).map_or(Ok(()), Err)))
}

/// The part of an envelope that says where its event goes.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    index: Option<Word>,
    event: Option<serde::de::IgnoredAny>,
}

/// What the query of a raw request says of its lines.
#[derive(Default, Deserialize)]
struct RawEnvelope {
    index: Option<String>,
    /// Seconds since 1970, as a number.
    time: Option<String>,
    host: Option<String>,
    source: Option<String>,
    sourcetype: Option<String>,
}

impl RawEnvelope {
    fn of(uri: &Uri) -> Result<Self, Refusal> {
        let malformed = |why: String| Refusal::new(Kind::Malformed, why);
        let Query(envelope) =
            Query::<Self>::try_from_uri(uri).map_err(|error| malformed(error.body_text()))?;
        if let Some(time) = &envelope.time
            && (time.trim() != time || serde_json::from_str::<serde_json::Number>(time).is_err())
        {
            return Err(malformed(format!("the query's `time` is `{time}`, which is no number of seconds")));
        }
        Ok(envelope)
    }

    fn index(&self) -> &str {
        self.index.as_deref().filter(|index| !index.is_empty()).unwrap_or(STREAM)
    }

    /// The fields of each record behind `event`, called as in an envelope, each behind a comma.
    fn fields(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        if let Some(time) = &self.time {
            fields.extend_from_slice(b",\"time\":");
            fields.extend_from_slice(time.as_bytes());
        }
        for (name, value) in
            [("host", &self.host), ("source", &self.source), ("sourcetype", &self.sourcetype)]
        {
            if let Some(value) = value {
                fields.extend_from_slice(format!(",\"{name}\":").as_bytes());
                quote(&mut fields, value.as_bytes());
            }
        }
        fields
    }
}

/// The records for a stream.
type ForStream = (Arc<Stream>, Parsed);

/// Appends the events of a request: what became of those of each stream. An error means that nothing was stored; `met` is then the stream of the
/// event that was refused, if it has one.
async fn take(
    gate: &Gate,
    raw: Result<Option<RawEnvelope>, Refusal>,
    request: Request,
    met: &mut Option<Arc<Stream>>,
) -> Result<Vec<Result<(), Refusal>>, Refusal> {
    let (head, body) = request.into_parts();
    let caller = gate.admit(&head.uri, &head.headers)?;
    let raw = raw?;
    let shared = gate.shared_body(&caller, &head.headers, body).await?;
    let (streams, room) = (gate.clone(), shared.room());
    let work = move || {
        let (mut body, mut held) = shared.inflate()?;
        if raw.is_none() {
            // Senders drop what is refused, and one event that is cut within a letter would cost all of them.
            body = text::of_json(body, &mut held)?;
        }
        let mut met = None;
        let mut stream_of = |index: &str| {
            let stream = met.insert(streams.stream(&caller, index)?).clone();
            stream.takes_json()?;
            let room = room.beside(&stream.budget);
            Ok((stream, room))
        };
        let found = match &raw {
            Some(envelope) => lines_of(&body, envelope, &mut stream_of).map(|one| vec![one]),
            None => by_index(&body, &mut stream_of),
        };
        drop(held);
        Ok((found, met))
    };
    let (found, of) = gate.compute(work).await?;
    *met = of;
    let appends = found?.into_iter().map(async |(stream, parsed)| {
        let appended = stream.append(parsed.records, None, parsed.held, gate.answer_wait_max()).await;
        gate::count(Some(&stream), gate::word(&appended));
        appended.map(drop)
    });
    Ok(join_all(appends).await)
}

/// The answer of a request whose streams were not all filled. As long as sending it again may help, its sender is told to.
fn worst(appended: Vec<Result<(), Refusal>>) -> Option<Refusal> {
    let refused = appended.into_iter().filter_map(Result::err);
    refused.max_by_key(|refusal| refusal.kind.retry_after().is_some())
}

/// Finds the stream of an index, and what the request holds of its memory.
type Named<'a> = dyn FnMut(&str) -> Result<(Arc<Stream>, Held), Refusal> + 'a;

/// The lines of a body.
fn lines_of(body: &[u8], envelope: &RawEnvelope, stream_of: &mut Named<'_>) -> Result<ForStream, Refusal> {
    let (stream, room) = stream_of(envelope.index())?;
    let parsed = records::texts(body, "event", &envelope.fields(), stream.now_ms(), room)?;
    match parsed.records.is_empty() {
        true => Err(no_data()),
        false => Ok((stream, parsed)),
    }
}

/// The events of a body by index. A body with one that cannot be taken is refused before anything of it is stored.
fn by_index(body: &[u8], stream_of: &mut Named<'_>) -> Result<Vec<ForStream>, Refusal> {
    let mut found: BTreeMap<String, (Arc<Stream>, Rows)> = BTreeMap::new();
    let mut event = 0_u64;
    records::each_value(body, |_, value| {
        let malformed = |why: &str| Refusal::new(Kind::Malformed, format!("event {event}: {why}"));
        let envelope: Envelope =
            serde_json::from_slice(value).map_err(|error| malformed(&error.to_string()))?;
        let index = envelope.index.map(|Word(index)| index).filter(|index| !index.is_empty());
        let index = index.unwrap_or_else(|| STREAM.to_owned());
        if !found.contains_key(&index) {
            if found.len() == INDICES_MAX {
                return Err(malformed("the request has more indices than it may; send fewer at a time"));
            }
            let (stream, room) = stream_of(&index)?;
            let rows = Rows::new(stream.now_ms(), room, 0)?;
            found.insert(index.clone(), (stream, rows));
        }
        if value[0] != b'{' || envelope.event.is_none() {
            return Err(malformed("Event field is required"));
        }
        found.get_mut(&index).expect("just inserted").1.push(value)?;
        event += 1;
        Ok(())
    })?;
    match found.is_empty() {
        true => Err(no_data()),
        false => Ok(found.into_values().map(|(stream, rows)| (stream, rows.done())).collect()),
    }
}

fn no_data() -> Refusal {
    Refusal::new(Kind::Malformed, "No data")
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
