//! Loki's push, in JSON and in Protocol Buffers, for senders that speak nothing else.
//!
//! Owns the envelope. `POST /loki/api/v1/push` fills the stream `loki` (of the request's tenant, by `X-Scope-OrgID`, if the gateway's `tenant_header` says so);
//! `POST /NAME/loki/api/v1/push` fills another. Each entry is a record:
//!
//! ```json
//! {"timestamp":"1700000000000000000","line":"GET /","labels":{"app":"web"},"metadata":{"trace":"a1"}}
//! ```
//!
//! The timestamp is nanoseconds since 1970 as a text, as Loki has it, so that no digit is lost; a column `DateTime64(9)` takes it. Protocol
//! Buffers in Snappy ([`protobuf`]), with `Content-Type: application/x-protobuf`, make the same records.

mod labels;
mod protobuf;

use std::borrow::Cow;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::gate::Gate;
use crate::quoting::{quote, quoted_bytes};
use crate::records::{self, Parsed, Rows};
use crate::refusal::{Kind, Refusal};

/// The stream of a push that names none.
const STREAM: &str = "loki";

/// The routes.
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
        .route("/ready", get(async || "ready\n"))
        .layer(DefaultBodyLimit::disable())
        .with_state(gate)
}

async fn push(gate: Gate, stream: &str, request: Request) -> Response {
    match take(&gate, stream, request).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        // Loki's senders show the text of an answer, and send 429 and 5xx again.
        Err(refusal) => refusal.into_response(),
    }
}

async fn take(gate: &Gate, name: &str, request: Request) -> Result<(), Refusal> {
    let (head, body) = request.into_parts();
    let caller = gate.admit(&head.uri, &head.headers)?;
    let stream = gate.stream(&caller, name)?;
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
    let (now_ms, room) = (stream.now_ms(), gate.hold(&stream));
    let parsed = gate.compute(move || {
        let (body, _held) = if is_protobuf { raw.or_snappy().inflate()? } else { raw.inflate()? };
        let rows = Rows::new(now_ms, room, body.len())?;
        if is_protobuf { protobuf::entries(&body, rows) } else { entries(&body, rows) }
    });
    let Parsed { records, held, .. } = parsed.await?;
    if records.is_empty() {
        return Ok(());
    }
    stream.append(records, None, held, gate.answer_wait_max()).await.map(drop)
}

/// The entries of a push as records, one after the other: none of them is kept besides.
fn entries(body: &[u8], mut rows: Rows) -> Result<Parsed, Refusal> {
    let mut refused = None;
    let mut from = serde_json::Deserializer::from_slice(body);
    let read = Push { rows: &mut rows, refused: &mut refused }.read(&mut from).and_then(|()| from.end());
    match (refused, read) {
        (Some(refusal), _) => Err(refusal),
        (None, Err(error)) => {
            Err(Refusal::new(Kind::Malformed, format!("the body is no push: {error}; nothing was taken")))
        }
        (None, Ok(())) => Ok(rows.done()),
    }
}

struct Push<'r> {
    rows: &'r mut Rows,
    refused: &'r mut Option<Refusal>,
}

impl Push<'_> {
    fn read<'de, D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Push<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object with `streams`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "streams" => map.next_value_seed(Streams { rows: self.rows, refused: self.refused })?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Streams<'r> {
    rows: &'r mut Rows,
    refused: &'r mut Option<Refusal>,
}

/// One stream: its labels, and its entries.
#[derive(Deserialize)]
struct OneStream<'b> {
    #[serde(default)]
    stream: Map<String, Value>,
    #[serde(borrow, default)]
    values: Vec<Entry<'b>>,
}

/// Nanoseconds, the line, and perhaps metadata.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry<'b> {
    Plain(#[serde(borrow)] Cow<'b, str>, #[serde(borrow)] Cow<'b, str>),
    Rich(#[serde(borrow)] Cow<'b, str>, #[serde(borrow)] Cow<'b, str>, Map<String, Value>),
}

impl<'de> serde::de::DeserializeSeed<'de> for Streams<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Streams<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of streams")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(OneStream { stream, values }) = seq.next_element::<OneStream<'de>>()? {
            let labels = Value::Object(stream).to_string();
            for entry in values {
                let (time, line, metadata) = match entry {
                    Entry::Plain(time, line) => (time, line, Map::new()),
                    Entry::Rich(time, line, metadata) => (time, line, metadata),
                };
                if time.is_empty() || time.len() > 19 || !time.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(serde::de::Error::custom("a timestamp is no number of nanoseconds"));
                }
                let written = write_record(self.rows, &time, line.as_bytes(), &labels, metadata);
                if let Err(refusal) = written {
                    *self.refused = Some(refusal);
                    return Err(serde::de::Error::custom("there is no room"));
                }
            }
        }
        Ok(())
    }
}

/// Appends the record of an entry, whose size is known before it is written.
fn write_record(
    rows: &mut Rows,
    time: &str,
    line: &[u8],
    labels: &str,
    metadata: Map<String, Value>,
) -> Result<(), Refusal> {
    let metadata = if metadata.is_empty() { String::new() } else { Value::Object(metadata).to_string() };
    let bytes = time.len() + quoted_bytes(line) + labels.len() + metadata.len() + 64;
    rows.push_with(bytes, |out| {
        out.extend_from_slice(b"{\"timestamp\":\"");
        out.extend_from_slice(time.as_bytes());
        out.extend_from_slice(b"\",\"line\":");
        quote(out, line);
        out.extend_from_slice(b",\"labels\":");
        out.extend_from_slice(labels.as_bytes());
        if !metadata.is_empty() {
            out.extend_from_slice(b",\"metadata\":");
            out.extend_from_slice(metadata.as_bytes());
        }
        out.push(b'}');
    })
}

#[cfg(test)]
mod tests;
