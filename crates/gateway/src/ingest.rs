//! `POST /v1/streams/NAME`: records into a stream, answered with their positions once they are durable.
//!
//! Owns the route's query, the header `Idempotency-Key` and the form of the answer; `/healthz` and `/readyz` stand beside it. Does not own
//! who may send (`gate`), what a record is (`records`), or what becomes of a name that comes twice (`keys`).

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use metrics::counter;
use serde_json::json;

use crate::body::Inflated;
use crate::gate::{self, Gate};
use crate::keys::Stored;
use crate::options::Format;
use crate::records::{self, OnError, Parsed};
use crate::refusal::{Kind, Refusal, answer};
use crate::stream::{Packed, Stream};

/// The name by which a client's retry is recognised.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The routes of streams, and those of health.
pub fn routes(gate: Gate) -> Router {
    Router::new()
        .route("/v1/streams/{name}", post(ingest))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        // Bodies are bounded where they are read.
        .layer(DefaultBodyLimit::disable())
        .with_state(gate)
}

async fn ready(State(gate): State<Gate>) -> Response {
    let unavailable = |why: &'static str| (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    match (gate.is_ready(), gate.is_serving()) {
        (true, true) => "ready\n".into_response(),
        (true, false) => unavailable("the pipeline is starting, and reads nothing yet\n"),
        (false, _) => unavailable("the gateway is stopping\n"),
    }
}

async fn ingest(
    State(gate): State<Gate>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let mut met = None;
    let taken = take(&gate, &name, query.as_deref(), request, &mut met).await;
    gate::count(met.as_deref(), gate::word(&taken));
    taken.unwrap_or_else(IntoResponse::into_response)
}

/// Takes a request; `met` is its stream once that is found.
async fn take(
    gate: &Gate,
    name: &str,
    query: Option<&str>,
    request: Request,
    met: &mut Option<Arc<Stream>>,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let caller = gate.admit(&head.uri, &head.headers)?;
    let stream = met.insert(gate.stream(&caller, name)?).clone();
    let on_error = on_error(query)?;
    let key = key_of(&head.headers)?.map(<[u8]>::to_vec);
    let raw = gate.body(&stream, &head.headers, body).await?;
    let (media, format, now_ms) = (records::media(&head.headers), stream.format.clone(), stream.now_ms());
    let (client, filled) = (caller.name().to_owned(), stream.clone());
    let parsed = gate.compute(move || {
        let Inflated { bytes, packed, held } = raw.inflate_and_keep()?;
        let body = (&bytes[..], filled.bounds.bytes_max);
        let mut parsed = records::parse(&format, &media, body, now_ms, held.another())?;
        // Only where the body is the record.
        let packed = packed.filter(|_| matches!(format, Format::Message));
        let key = filled.key(&client, key.as_deref(), &parsed.records, packed.as_ref())?;
        let packed = packed.or_else(|| filled.pack(&parsed.records));
        if packed.is_some() {
            parsed.held.merge(held);
        }
        Ok((parsed, packed, key))
    });
    let (Parsed { records, errors, held }, packed, key) = parsed.await?;
    if errors.count > 0 && on_error == OnError::Refuse {
        return Err(errors.refusal());
    }
    if errors.count > 0 {
        counter!("forebay_gateway_skipped_total", "stream" => stream.name.clone()).increment(errors.count);
    }
    let stored = match records.is_empty() {
        true => Stored { first: None, rows: 0, is_repeat: false },
        false => {
            let packed = Packed { records, packed, otlp: None };
            stream.append_packed(packed, key, held, gate.answer_wait_max()).await?
        }
    };
    Ok(answer(
        StatusCode::OK,
        &json!({
            "stream": stream.name,
            "partition": stream.partition,
            "records": stored.rows,
            "first": stored.first,
            "next": stored.first.map(|first| first + stored.rows),
            "repeat": stored.is_repeat,
            "skipped": errors.count,
            "errors": errors.to_json(),
        }),
    ))
}

/// What is done with bad lines. A misspelt parameter is not ignored: records would go another way than was meant.
fn on_error(query: Option<&str>) -> Result<OnError, Refusal> {
    let mut found = OnError::default();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        found = match pair {
            "on_error=refuse" => OnError::Refuse,
            "on_error=skip" => OnError::Skip,
            _ => {
                let message = "the query is not known; it takes `on_error=refuse` or `on_error=skip`";
                return Err(Refusal::new(Kind::Malformed, message));
            }
        };
    }
    Ok(found)
}

/// The request's name, if it has one.
pub(crate) fn key_of(headers: &HeaderMap) -> Result<Option<&[u8]>, Refusal> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let first = values.next().map(axum::http::HeaderValue::as_bytes);
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Refusal::new(Kind::Malformed, "the request has more than one `Idempotency-Key`")),
    }
}

#[cfg(test)]
mod tests;
