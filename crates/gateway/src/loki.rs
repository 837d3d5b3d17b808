//! Loki's push, in JSON and in Protocol Buffers, for senders that speak nothing else.
//!
//! Owns the envelope and the answers. Does not own the two encodings of a push (`loki::json`, `loki::protobuf`), nor who may fill a stream
//! (`gateway::gate`). `POST /loki/api/v1/push` fills the stream `loki` (of the request's tenant, by `X-Scope-OrgID`, if the gateway's
//! `tenant_header` says so); `POST /NAME/loki/api/v1/push` fills another. Each entry is a record:
//!
//! ```json
//! {"timestamp":"1700000000000000000","line":"GET /","labels":{"app":"web"},"metadata":{"trace":"a1"}}
//! ```
//!
//! The timestamp is nanoseconds since 1970 as a text, as Loki has it, so that no digit is lost; a column `DateTime64(9)` takes it. Protocol
//! Buffers in Snappy ([`protobuf`]), with `Content-Type: application/x-protobuf`, make the same records. Labels and metadata are always there and their values
//! are texts, as in Loki, so that columns `Map(String, String)` take every record.

mod json;
mod labels;
mod protobuf;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use metrics::counter;

use crate::gate::{self, Gate};
use crate::quoting::{quote, quoted_bytes};
use crate::records::{self, Errors, Parsed, Rows};
use crate::refusal::{Kind, Refusal};
use crate::stream::Stream;
use crate::text;

/// The stream of a push that names none.
const STREAM: &str = "loki";

/// The routes of Loki's push, and of `/ready`.
pub fn routes(gate: Gate) -> Router {
    Router::new()
        .route(
            "/loki/api/v1/push",
            post(async |State(gate): State<Gate>, request: Request| push(gate, STREAM, request).await),
        )
        .route(
            "/{stream}/loki/api/v1/push",
            post(async |State(gate): State<Gate>, Path(stream): Path<String>, request: Request| {
                push(gate, &stream, request).await
            }),
        )
        .route("/ready", get(ready))
        .layer(DefaultBodyLimit::disable())
        .with_state(gate)
}

async fn ready(State(gate): State<Gate>) -> Response {
    match gate.is_ready() {
        true => "ready\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping\n").into_response(),
    }
}

async fn push(gate: Gate, stream: &str, request: Request) -> Response {
    let mut met = None;
    let taken = take(&gate, stream, request, &mut met).await;
    gate::count(met.as_deref(), gate::word(&taken));
    match taken {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        // Loki's senders show the text of an answer, and send 429 and 5xx again, but not 408.
        Err(refusal) => refusal.without_408().into_response(),
    }
}

/// Takes a push; `met` is its stream once that is found.
async fn take(
    gate: &Gate,
    name: &str,
    request: Request,
    met: &mut Option<Arc<Stream>>,
) -> Result<(), Refusal> {
    let (head, body) = request.into_parts();
    let caller = gate.admit(&head.uri, &head.headers)?;
    let stream = met.insert(gate.stream(&caller, name)?).clone();
    stream.takes_json()?;
    let is_protobuf = match records::media(&head.headers).0.as_str() {
        "application/json" => false,
        "application/x-protobuf" | "application/protobuf" => true,
        _ => {
            let message = "a push has the `Content-Type` `application/json` or `application/x-protobuf`";
            return Err(Refusal::new(Kind::Media, message));
        }
    };
    let raw = gate.body(&stream, &head.headers, body).await?;
    let (now_ms, room) = (stream.now_ms(), raw.room());
    let parsed = gate.compute(move || {
        let (mut body, mut held) = if is_protobuf { raw.or_snappy().inflate()? } else { raw.inflate()? };
        if !is_protobuf {
            // Labels too: one that is no text would cost all of the push.
            body = text::of_json(body, &mut held)?;
        }
        let rows = Rows::new(now_ms, room, body.len())?;
        if is_protobuf { protobuf::entries(&body, rows) } else { json::entries(&body, rows) }
    });
    let Parsed { records, held, errors } = parsed.await?;
    if !records.is_empty() {
        stream.append(records, None, held, gate.answer_wait_max()).await?;
    }
    left_out(&stream, &errors)
}

/// What a sender is told that has sent parts which cannot be taken: as Loki does it, an answer after which nothing is sent again.
fn left_out(stream: &Stream, errors: &Errors) -> Result<(), Refusal> {
    let Some((number, why)) = errors.shown.first() else { return Ok(()) };
    counter!("forebay_gateway_skipped_total", "stream" => stream.name.clone()).increment(errors.count);
    let message = format!(
        "{} parts of the push were left out, and the others are durable; the first of them, in stream {number}: {why}",
        errors.count
    );
    Err(Refusal::new(Kind::Malformed, message))
}

/// Appends the record of an entry, whose size is known before it is written. Labels and metadata are objects; without any of either, `{}` or an empty text.
fn write_record(
    rows: &mut Rows,
    time: &str,
    line: &[u8],
    labels: &str,
    metadata: &str,
) -> Result<(), Refusal> {
    let bytes = time.len() + quoted_bytes(line) + labels.len() + metadata.len() + 64;
    rows.push_with(bytes, |out| {
        out.extend_from_slice(b"{\"timestamp\":\"");
        out.extend_from_slice(time.as_bytes());
        out.extend_from_slice(b"\",\"line\":");
        quote(out, line);
        out.extend_from_slice(b",\"labels\":");
        out.extend_from_slice(labels.as_bytes());
        out.extend_from_slice(b",\"metadata\":");
        out.extend_from_slice(if metadata.is_empty() { b"{}" } else { metadata.as_bytes() });
        out.push(b'}');
    })
}

#[cfg(test)]
mod tests;
