//! One HTTP request to object storage, sent once.
//!
//! Owns the deadlines and the capture of answers that are no success: they become a [`Refusal`] that travels inside of
//! `object_store`'s error to `answer`. Does not own what a refusal means.

// The network's own timers: a simulated world has a store of its own, without a network.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, Extensions};

/// A connection that takes longer is one to a machine that is away.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// What a provider may take for its part of a request, and between two pieces of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A body travels at this rate at the least: 256 KiB/s, so that 64 MiB may take four minutes and no put waits for ever.
pub const RATE_BYTES_MIN: u64 = 256 << 10;

/// Bytes of an error's text that are read; the texts have a few hundred.
const REFUSAL_BYTES_MAX: usize = 16 << 10;

/// Idle connections that are kept, as many as requests may be under way.
const IDLE_MAX: usize = super::REQUESTS_MAX;

/// Providers close idle connections after 5 s and more; one that closes while we write costs an attempt.
const IDLE_TIME_MAX: Duration = Duration::from_secs(4);

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
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(IDLE_MAX)
            .pool_idle_timeout(IDLE_TIME_MAX)
            .https_only(!allow_http)
            .http1_only();
        if self.ca_pem.is_some() || allow_http {
            // A machine without certificates of its own may still speak http.
            let pem = self.ca_pem.as_deref().unwrap_or_default();
            let certificates = reqwest::Certificate::from_pem_bundle(pem).unwrap_or_default();
            if self.ca_pem.is_some() && certificates.is_empty() {
                return Err(failed("`ca` holds no certificates in PEM form".into()));
            }
            if self.ca_pem.is_some() {
                builder = builder.tls_certs_only(certificates);
            }
        }
        let client = builder.build().map_err(|e| failed(format!("the http client cannot be made: {e}")))?;
        Ok(HttpClient::new(Wire { client }))
    }
}

#[derive(Debug)]
struct Wire {
    client: reqwest::Client,
}

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // Deletes cannot be marked, and nothing but objects is deleted.
        let is_told = request.extensions().get::<Told>().is_some() || request.method().as_str() == "DELETE";
        let body_bytes = request.body().content_length() as u64;
        let deadline = ANSWER_MAX + Duration::from_millis(body_bytes * 1_000 / RATE_BYTES_MIN);
        let late = || HttpError::new(HttpErrorKind::Timeout, Late(deadline));
        let answered = tokio::time::timeout(deadline, HttpService::call(&self.client, request)).await;
        let answer = answered.map_err(|_| late())??;
        let status = answer.status();
        if !is_told || status.is_success() {
            return Ok(answer);
        }
        let body = in_time(answer.into_body().bytes()).await.ok_or_else(late)?;
        // A text that cannot be read leaves the status, which is what counts.
        let body = body.unwrap_or_else(|_| Bytes::new());
        let body = String::from_utf8_lossy(&body[..body.len().min(REFUSAL_BYTES_MAX)]).into_owned();
        Err(HttpError::new(HttpErrorKind::Unknown, Refusal { status: status.as_u16(), body }))
    }
}
