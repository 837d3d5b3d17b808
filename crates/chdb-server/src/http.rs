//! The HTTP front: takes a request, its body and its turn, and hands the work to a blocking thread.
//!
//! Owns the paths, the order in which a request meets its bounds, and the reading of its body. Does not own connections and heads
//! (`listener`), each bound's size (`serve`) or what the blocking thread does (`work`).
//!
//! Refuses what a web page sends (`listener::Names`) and what has no token (`auth`), before a body is read.
//!
//! Bounds, in the order a request meets them: the number of requests at a time, the size of its body, the memory
//! of all bodies, the number of statements that run. A request that finds no place is answered with status 503 or 413.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use futures::StreamExt;

use crate::compression::Room;
use crate::request::{self, Asked};
use crate::response::{self, AUTHENTICATION_FAILED, Failure, STD_EXCEPTION, TOO_MANY_QUERIES};
use crate::room::{Budget, Share};
use crate::shared::{Admitted, Server};
use crate::work::{self, Work};

/// A client that sends nothing for so long has lost its place.
const BODY_PAUSE_MAX: Duration = Duration::from_secs(120);

/// Answers one request.
pub async fn answer(server: Arc<Server>, request: Request<Body>) -> Response<Body> {
    let timezone = HeaderValue::from_str(server.engine.timezone());
    let mut response = route(server, request).await;
    if let Ok(timezone) = timezone {
        response.headers_mut().insert("x-clickhouse-timezone", timezone);
    }
    response
}

async fn route(server: Arc<Server>, request: Request<Body>) -> Response<Body> {
    if let Err(refusal) = server.names.check(request.uri(), request.headers()) {
        return Failure::new(AUTHENTICATION_FAILED, refusal.message()).response(None);
    }
    let (method, path) = (request.method(), request.uri().path());
    let reads = method == Method::GET || method == Method::HEAD;
    match path {
        "/ping" | "/replicas_status" if reads => response::plain("Ok.\n"),
        "/" if reads && request.uri().query().is_none_or(str::is_empty) => response::plain("Ok.\n"),
        "/" | "/query" if reads || method == Method::POST => {
            match server.guard.check(request.uri().query().unwrap_or(""), request.headers()) {
                Ok(()) => query(server, request).await,
                Err(failure) => failure.response(None),
            }
        }
        "/" | "/query" => {
            Failure::bad_request("use GET or POST").with_status(StatusCode::METHOD_NOT_ALLOWED).response(None)
        }
        _ => Failure::bad_request(&format!("there is nothing at `{path}`; queries go to `/`"))
            .with_status(StatusCode::NOT_FOUND)
            .response(None),
    }
}

async fn query(server: Arc<Server>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut asked = match request::read(&parts.method, parts.uri.query().unwrap_or(""), &parts.headers) {
        Ok(asked) => asked,
        Err(failure) => return failure.response(None),
    };
    let query_id = asked.query_id.take().unwrap_or_else(work::random_id);
    match admitted_query(server, asked, &query_id, &parts.headers, body).await {
        Ok(response) => response,
        Err(failure) => {
            tracing::debug!(
                query_id,
                code = failure.code,
                status = failure.status.as_u16(),
                "refused or failed"
            );
            failure.response(Some(&query_id))
        }
    }
}

async fn admitted_query(
    server: Arc<Server>,
    asked: Asked,
    query_id: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response<Body>, Failure> {
    server.engine.known().check(&asked.settings)?;
    let place = Arc::clone(&server.places).try_acquire_owned().map_err(|_| busy())?;
    let ticket = server.running.enter(query_id, &asked.query)?;
    let session = asked.session.as_ref().map(|session| server.sessions.take(session)).transpose()?;
    let admitted = Admitted { ticket, session, _place: place };
    let (body, share) = read_body(&server.budget, headers, body).await?;
    let turn = Arc::clone(&server.turns)
        .acquire_owned()
        .await
        .map_err(|_| Failure::new(STD_EXCEPTION, "the server is stopping"))?;
    let headers = work::BodyHeaders::read(headers);
    let worker = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work::run(&server, Work { asked, headers, body, share, admitted })
    });
    worker.await.map_err(|error| Failure::new(STD_EXCEPTION, &format!("the worker failed: {error}")))?
}

fn busy() -> Failure {
    Failure::new(TOO_MANY_QUERIES, "the queue of waiting requests is full; try again later")
        .with_status(StatusCode::SERVICE_UNAVAILABLE)
}

/// Reads the whole body. A length that is too large is refused before a byte is read.
async fn read_body(budget: &Budget, headers: &HeaderMap, body: Body) -> Result<(Vec<u8>, Share), Failure> {
    let length = headers
        .get("content-length")
        .and_then(|value| value.to_str().ok())
        .and_then(|digits| digits.parse::<u64>().ok());
    let mut share = match length {
        Some(length) => budget.wait_for(length).await?,
        None => budget.share(),
    };
    // `wait_for` has checked the length against the bound of a body.
    let mut bytes = Vec::with_capacity(length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0));
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = next_chunk(&mut chunks).await? {
        share.take(chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, share))
}

async fn next_chunk(chunks: &mut axum::body::BodyDataStream) -> Result<Option<Bytes>, Failure> {
    match tokio::time::timeout(BODY_PAUSE_MAX, chunks.next()).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
        Ok(Some(Err(error))) => Err(Failure::bad_request(&format!("the body ended early: {error}"))),
        Err(_) => {
            Err(Failure::bad_request("the body stopped coming").with_status(StatusCode::REQUEST_TIMEOUT))
        }
    }
}
