//! OTLP over HTTP: `POST /v1/logs`, `/v1/traces` and `/v1/metrics`, in Protocol Buffers or JSON; and over gRPC ([`grpc`]).
//!
//! Owns the routes, and how a request becomes a record. Does not own the words of the answers ([`status`]), what a request has to be
//! (`formats::otlp::check`), nor what becomes of its rows: a pipeline reads them by `format: otlp_logs` and its like. A request is one
//! record, as it came; one in JSON, or with broken rows, is written anew in Protocol Buffers. A row whose fields cannot be read is left out, and the answer has a partial
//! success with the count and the first reason. What is broken in a value of a row is no matter of the gateway's: the pipeline makes a dead letter of that row.
//!
//! | a request that                                    | meets                                                  |
//! |---------------------------------------------------|--------------------------------------------------------|
//! | is durable                                        | 200 with the response of its service, which is empty   |
//! | has no rows                                       | the same, and nothing is appended                      |
//! | has broken rows beside others                     | 200 with a `partial_success`, once the others are durable |
//! | cannot be divided into rows, or has broken ones alone | 400: the sender drops it                           |
//! | finds no room, or a gateway that stops            | 429 or 503 with `Retry-After`: the sender comes again  |
//! | came too slowly                                   | 503: senders do not repeat what 408 refused            |
//!
//! A sender that has no answer sends the same request again. It is recognised by its bytes where the stream drops repeats, as it does unless told
//! otherwise, or by its `Idempotency-Key`.

mod grpc;
mod status;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
pub use formats::otlp::Signal;

use crate::body::Inflated;
use crate::gate::{self, Caller, Gate};
use crate::options::{Format, OtlpStreams};
use crate::records::otlp::{Form, check};
use crate::records::{self, Errors, Parsed, Rows};
use crate::refusal::{Kind, Refusal};
use crate::stream::{OtlpRows, Packed, Stream};
use crate::text;

/// What the routes share.
#[derive(Clone)]
struct Service {
    gate: Gate,
    streams: Arc<OtlpStreams>,
}

/// The routes; requests fill the streams of these names, of the caller's tenant if it has one.
pub fn routes(gate: Gate, streams: OtlpStreams) -> Router {
    let of = |signal| {
        post(async move |State(service): State<Service>, request: Request| {
            export(&service, signal, request).await
        })
    };
    Router::new()
        .route("/v1/logs", of(Signal::Logs))
        .route("/v1/traces", of(Signal::Traces))
        .route("/v1/metrics", of(Signal::Metrics))
        .layer(DefaultBodyLimit::disable())
        .merge(grpc::routes())
        .fallback(grpc::unknown)
        .with_state(Service { gate, streams: Arc::new(streams) })
}

impl OtlpStreams {
    /// The stream of a signal.
    pub fn of(&self, signal: Signal) -> &str {
        match signal {
            Signal::Logs => &self.logs,
            Signal::Traces => &self.traces,
            Signal::Metrics => &self.metrics,
        }
    }
}

async fn export(service: &Service, signal: Signal, request: Request) -> Response {
    let form = Form::of(&records::media(request.headers()).0);
    let mut met = None;
    let taken = take(service, signal, form, request, &mut met).await;
    gate::count(met.as_deref(), gate::word(&taken));
    match taken {
        Ok(errors) => status::good(form.unwrap_or(Form::Protobuf), signal, &errors),
        Err(refusal) => status::bad(form.unwrap_or(Form::Json), &refusal),
    }
}

async fn take(
    service: &Service,
    signal: Signal,
    form: Option<Form>,
    request: Request,
    met: &mut Option<Arc<Stream>>,
) -> Result<Errors, Refusal> {
    let (head, body) = request.into_parts();
    let gate = &service.gate;
    let caller = gate.admit(&head.uri, &head.headers)?;
    let Some(form) = form else {
        let message =
            "a request of OTLP has the `Content-Type` `application/x-protobuf` or `application/json`";
        return Err(Refusal::new(Kind::Media, message));
    };
    let stream = met.insert(stream_of(gate, &service.streams, &caller, signal)?).clone();
    let raw = gate.body(&stream, &head.headers, body).await?;
    let taking = Taking { signal, form, headers: &head.headers, wait_max: gate.answer_wait_max() };
    append(gate, &caller, &stream, taking, move || raw.inflate_and_keep().map(|body| (0, body))).await
}

/// How a request is taken.
struct Taking<'h> {
    signal: Signal,
    form: Form,
    headers: &'h HeaderMap,
    wait_max: Duration,
}

/// Appends a request and waits until it is durable: the rows of it that were left out. `inflate` says where in a body it begins.
async fn append(
    gate: &Gate,
    caller: &Caller,
    stream: &Arc<Stream>,
    taking: Taking<'_>,
    inflate: impl FnOnce() -> Result<(usize, Inflated), Refusal> + Send + 'static,
) -> Result<Errors, Refusal> {
    let Taking { signal, form, headers, wait_max } = taking;
    let key = crate::ingest::key_of(headers)?.map(<[u8]>::to_vec);
    let now_ms = stream.now_ms();
    let (client, filled) = (caller.name().to_owned(), stream.clone());
    let parsed = gate.compute(move || {
        let (begin, Inflated { mut bytes, packed, mut held }) = inflate()?;
        bytes.drain(..begin);
        if form == Form::Json {
            // One text that is none would cost all rows; in Protocol Buffers it costs its own.
            bytes = text::of_json(bytes, &mut held)?;
        }
        // For a request that is written anew, beside its body; one that is taken as it came gives as much back below.
        let mut rows = Rows::new(now_ms, held.another(), bytes.len())?;
        let checked = check(signal, form, &bytes, &mut rows)?;
        let count = checked.rows;
        let anew = match checked.request {
            Cow::Owned(anew) => Some(anew),
            Cow::Borrowed(_) => None,
        };
        // Only where the body is the record.
        let packed = packed.filter(|_| anew.is_none());
        if count > 0 {
            rows.push_whole(anew.unwrap_or(bytes))?;
        }
        let mut parsed = rows.done();
        if count == 0 && parsed.errors.count > 0 {
            return Err(nothing_left(&parsed.errors));
        }
        let key = filled.key(&client, key.as_deref(), &parsed.records, packed.as_ref())?;
        let packed = packed.or_else(|| filled.pack(&parsed.records));
        if let Some(packed) = &packed {
            held.shrink_to(packed.len());
            parsed.held.merge(held);
        }
        Ok((parsed, packed, key, count))
    });
    let (Parsed { records, held, errors }, packed, key, count) = parsed.await?;
    if count > 0 {
        let otlp = Some(OtlpRows { taken: count as u64, rejected: errors.count });
        stream.append_packed(Packed { records, packed, otlp }, key, held, wait_max).await?;
    }
    if errors.count > 0 && stream.may_say_rejected() {
        tracing::warn!(
            stream = stream.name,
            client = caller.name(),
            rows = count,
            rejected = errors.count,
            first = status::reason(&errors),
            "rows of a request of OTLP cannot be read; they were left out, and the sender was told how many"
        );
    }
    Ok(errors)
}

/// The refusal of a request of which no row can be read.
fn nothing_left(errors: &Errors) -> Refusal {
    let message = format!("{}; nothing was stored", status::reason(errors));
    Refusal::new(Kind::Malformed, message)
}

/// The stream that a signal of this caller's fills.
fn stream_of(
    gate: &Gate,
    streams: &OtlpStreams,
    caller: &Caller,
    signal: Signal,
) -> Result<Arc<Stream>, Refusal> {
    if !gate.is_ready() {
        return Err(Refusal::new(Kind::Unavailable, "the gateway is stopping; send again, to the next one"));
    }
    let name = streams.of(signal);
    let stream = gate.stream(caller, name).map_err(|refusal| match refusal.kind {
        Kind::NoStream => Refusal::new(
            Kind::NoStream,
            format!(
                "the gateway has no stream `{name}` for {}; its file says which streams there are",
                signal.name()
            ),
        ),
        _ => refusal,
    })?;
    match stream.format {
        Format::Otlp(of) if of == signal => Ok(stream),
        _ => Err(Refusal::new(
            Kind::Media,
            format!(
                "stream `{}` does not take {} of OTLP; it needs `format: {}`",
                stream.name,
                signal.name(),
                signal.format()
            ),
        )),
    }
}

#[cfg(test)]
mod tests;
