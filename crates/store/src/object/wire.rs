//! One HTTP request to object storage, sent once.
//!
//! Owns the deadlines and the capture of answers that are no success: they become a [`Refusal`] that travels inside of
//! `object_store`'s error to `answer`. Does not own what a refusal means.

// The network's own timers: a simulated world has a store of its own, without a network.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use http_body_util::{BodyExt, Limited};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, Extensions};

/// If connecting takes longer, the machine is considered unavailable.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// What a provider may take for its part of a request, and between two pieces of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A body travels at this rate at the least: 256 KiB/s, so that 64 MiB may take four minutes and no put waits for ever.
pub const RATE_BYTES_MIN: u64 = 256 << 10;

/// Bytes of an error's text that are read; the texts have a few hundred.
const REFUSAL_BYTES_MAX: usize = 16 << 10;

/// Bytes of an answer that is no object: a page of a listing has 2 MB with the longest names, credentials have some hundred.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// Idle connections that are kept, as many as requests may be under way.
const IDLE_MAX: usize = super::REQUESTS_MAX;

/// Providers close idle connections after 5 s and more; one that closes while we write costs an attempt.
const IDLE_TIME_MAX: Duration = Duration::from_secs(4);

/// Times that a read is sent when connections break under it: as often as two kept ones in a row were closed meanwhile.
const READ_TRIES_MAX: usize = 3;

/// An answer that is no success.
#[derive(Debug, thiserror::Error)]
#[error("status {status}: {body}")]
pub(super) struct Refusal {
    pub status: u16,
    pub body: String,
}

/// No answer in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs())]
struct Late(Duration);

/// An answer that is longer than any of its kind.
#[derive(Debug, thiserror::Error)]
#[error("the answer has more than {0} bytes: {1}")]
struct TooLong(usize, String);

/// An answer of 200 that is no object: a page to log in at, or of maintenance. As one it would be damaged.
#[derive(Debug, thiserror::Error)]
#[error("a page in HTML came in place of an object, so something before the store has answered")]
struct Page;

/// Marks the requests for objects. Those for credentials are left to `object_store`, which knows their answers.
#[derive(Clone, Copy, Debug)]
struct Told;

/// The mark as part of an operation's options.
pub(super) fn told() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Told);
    extensions
}

/// `future`, unless it takes as long as nothing in an answer may.
pub(super) async fn in_time<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(ANSWER_MAX, future).await.ok()
}

/// Makes the clients. `object_store` asks once for the objects and once for credentials.
#[derive(Debug)]
pub(super) struct Connector {
    pub ca_pem: Option<Vec<u8>>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |why: String| object_store::Error::Generic { store: "http", source: why.into() };
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another part of the process may win the race; any provider serves.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|v| v == "true");
        // What goes to this machine never passes a proxy of the environment, which would see its keys.
        let made = |builder: reqwest::ClientBuilder| {
            builder.build().map_err(|e| failed(format!("the http client cannot be made: {e}")))
        };
        let local = made(builder_of(self, allow_http).map_err(failed)?.no_proxy())?;
        let client = made(builder_of(self, allow_http).map_err(failed)?)?;
        Ok(HttpClient::new(Wire { client, local }))
    }
}

/// A client as both are made: one passes the environment's proxies, the other none.
fn builder_of(connector: &Connector, allow_http: bool) -> Result<reqwest::ClientBuilder, String> {
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_MAX)
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(IDLE_MAX)
        .pool_idle_timeout(IDLE_TIME_MAX)
        .https_only(!allow_http)
        .http1_only();
    if connector.ca_pem.is_some() || allow_http {
        // A machine without certificates of its own may still speak http.
        let pem = connector.ca_pem.as_deref().unwrap_or_default();
        let certificates = reqwest::Certificate::from_pem_bundle(pem).unwrap_or_default();
        if connector.ca_pem.is_some() && certificates.is_empty() {
            return Err("`ca` holds no certificates in PEM form".into());
        }
        if connector.ca_pem.is_some() {
            builder = builder.tls_certs_only(certificates);
        }
    }
    Ok(builder)
}

/// Whether `host` is this machine. A name that only resolves to it may resolve elsewhere tomorrow.
fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[derive(Debug)]
struct Wire {
    client: reqwest::Client,
    /// For this machine: without a proxy.
    local: reqwest::Client,
}

impl Wire {
    /// Sends a request; one that only reads is sent again when its connection broke. A kept connection may have been closed
    /// by the server just when it was taken, and a read can be repeated without harm. Writes are the caller's to repeat.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_local = request.uri().host().is_some_and(is_this_machine);
        let client = if is_local { &self.local } else { &self.client };
        let reads = matches!(request.method().as_str(), "GET" | "HEAD");
        let mut tries_left = if reads { READ_TRIES_MAX } else { 1 };
        loop {
            tries_left -= 1;
            match HttpService::call(client, request.clone()).await {
                Err(error) if tries_left > 0 && is_broken(&error) => {}
                result => return result,
            }
        }
    }
}

/// Whether the connection ended under a request, as opposed to one that was never opened or took too long.
fn is_broken(error: &HttpError) -> bool {
    matches!(error.kind(), HttpErrorKind::Interrupted | HttpErrorKind::Request)
}

/// The same body, which fails beyond so many bytes, whatever length it announces.
fn bounded(body: HttpResponseBody, bytes_max: usize) -> HttpResponseBody {
    let bounded = Limited::new(body, bytes_max);
    // A body that broke keeps its own error.
    HttpResponseBody::new(bounded.map_err(move |error| match error.downcast::<HttpError>() {
        Ok(own) => *own,
        Err(beyond) => HttpError::new(HttpErrorKind::Decode, TooLong(bytes_max, beyond.to_string())),
    }))
}

/// Whether an answer has a range that ends before it begins, as Azurite's has to one that begins at the end of an object. Azure refuses it.
fn is_empty_range(answer: &HttpResponse) -> bool {
    let range = answer.headers().get("content-range").and_then(|range| range.to_str().ok());
    let ends = range.and_then(|range| range.strip_prefix("bytes ")?.split_once('/')?.0.split_once('-'));
    ends.is_some_and(|(first, last)| match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) => last < first,
        _ => false,
    })
}

/// Whether an answer is a page for people. Objects are put without a type, and no service takes one for HTML.
fn is_page(answer: &HttpResponse) -> bool {
    let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"))
}

/// Whether the query of a request leaves it one for a single object, as opposed to a list or a batch. A key of Azure that is part of the address (SAS) is a query too.
fn is_of_object(query: Option<&str>) -> bool {
    let is_of_others = |part: &str| part.starts_with("list-type=") || part.starts_with("comp=");
    query.is_none_or(|query| !query.split('&').any(is_of_others))
}

/// The first bytes of a body. What cannot be read is left out: the status is what counts.
async fn beginning(body: HttpResponseBody, bytes_max: usize) -> Vec<u8> {
    let (mut pieces, mut read) = (body.bytes_stream(), Vec::new());
    while read.len() < bytes_max {
        let Some(Ok(piece)) = pieces.next().await else { break };
        read.extend_from_slice(&piece[..piece.len().min(bytes_max - read.len())]);
    }
    read
}

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // Deletes cannot be marked, and nothing but objects is deleted: one by one, or by Azure in a batch of one.
        let is_batch =
            request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "comp=batch"));
        let is_told =
            request.extensions().get::<Told>().is_some() || request.method().as_str() == "DELETE" || is_batch;
        let body_bytes = request.body().content_length() as u64;
        let deadline = ANSWER_MAX + Duration::from_millis(body_bytes * 1_000 / RATE_BYTES_MIN);
        let late = || HttpError::new(HttpErrorKind::Timeout, Late(deadline));
        // Objects are asked for by their path alone, and whoever reads one knows its length.
        let is_object = is_told && is_of_object(request.uri().query());
        let reads = request.method().as_str() == "GET";
        let answered = tokio::time::timeout(deadline, self.send(request)).await;
        let answer = answered.map_err(|_| late())??;
        let status = answer.status();
        if status.is_success() && is_object {
            if is_empty_range(&answer) {
                let body = "an empty range, for one that begins at the end of the object".to_owned();
                return Err(HttpError::new(HttpErrorKind::Unknown, Refusal { status: 416, body }));
            }
            if reads && is_page(&answer) {
                return Err(HttpError::new(HttpErrorKind::Decode, Page));
            }
            return Ok(answer);
        }
        if !is_told || status.is_success() {
            return Ok(answer.map(|body| bounded(body, PAGE_BYTES_MAX)));
        }
        let body = in_time(beginning(answer.into_body(), REFUSAL_BYTES_MAX)).await.ok_or_else(late)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        Err(HttpError::new(HttpErrorKind::Unknown, Refusal { status: status.as_u16(), body }))
    }
}

#[cfg(test)]
mod tests;
