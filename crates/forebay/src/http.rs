//! Metrics, health and status over HTTP.
//!
//! Owns the paths and who may ask. Does not own what is answered ([`View`] and [`crate::recorder`]), nor how connections are
//! bounded (`listener`). There is no authentication, nothing can be changed here, and nothing secret is shown.
//!
//! | path       | answer                                                                          |
//! |------------|---------------------------------------------------------------------------------|
//! | `/metrics` | Prometheus text                                                                 |
//! | `/healthz` | 200 while the process answers at all                                            |
//! | `/readyz`  | 200 while rows can flow, 503 with every reason otherwise, one a line            |
//! | `/status`  | the lane at this moment, JSON                                                   |

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use dataflow::printing;
use listener::{Bounds, Names};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::recorder::Metrics;

/// Requests answered at the same time; rendering metrics costs memory, and nobody needs more.
const REQUESTS_MAX: usize = 16;

/// Connections open at a time. A few scrapers and probes keep theirs; more would be idle or hostile.
const CONNECTIONS_MAX: usize = 64;
/// The longest wait for the head of a request, and for the next request of a kept connection. A scraper that comes less often
/// connects anew.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(30);
/// The largest head: nobody has much to say here.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The longest wait for a client to take bytes of its answer.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(30);

/// What a running pipeline tells.
pub trait View: Send + Sync {
    /// `Ok` while rows can flow from the source to the tables; otherwise every reason why they cannot, one a line. The line ends are those between the
    /// reasons alone: what others have said is on one line.
    fn ready(&self) -> Result<(), String>;

    /// The lane at this moment, without anything secret.
    fn status(&self) -> serde_json::Value;
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens at `address`.
    ///
    /// # Errors
    /// When other machines could reach it without leave, or the address is taken.
    pub async fn bind(address: SocketAddr, allow_remote: bool) -> anyhow::Result<Self> {
        if !address.ip().is_loopback() && !allow_remote {
            anyhow::bail!(
                "`{address}` can be reached by other machines; `http.allow_remote: true` allows it"
            );
        }
        let hint = "; choose another by `http: { listen: … }`";
        let listener = TcpListener::bind(address).await.map_err(|error| {
            anyhow::Error::new(error).context(format!("cannot listen at `{address}`{hint}"))
        })?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Listens at the first of these addresses that no other process has; there is at least one.
    ///
    /// # Errors
    /// As [`bind`](Self::bind), of the last one.
    pub async fn bind_free(addresses: &[SocketAddr], allow_remote: bool) -> anyhow::Result<Self> {
        let (last, others) =
            addresses.split_last().ok_or_else(|| anyhow::anyhow!("no address to listen at"))?;
        for address in others {
            match Self::bind(*address, allow_remote).await {
                Err(error) if is_taken(&error) => {
                    tracing::info!(%address, "another process listens here; taking the next port");
                }
                bound => return bound,
            }
        }
        Self::bind(*last, allow_remote).await
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the future is dropped.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self, metrics: Metrics, view: Arc<dyn View>) -> std::io::Result<()> {
        let bounds = Bounds {
            connections_max: CONNECTIONS_MAX,
            head_wait_max: HEAD_WAIT_MAX,
            head_bytes_max: HEAD_BYTES_MAX,
            write_wait_max: WRITE_WAIT_MAX,
        };
        self.serve_within(bounds, metrics, view).await
    }

    async fn serve_within(
        self,
        bounds: Bounds,
        metrics: Metrics,
        view: Arc<dyn View>,
    ) -> std::io::Result<()> {
        // Behind an address of other machines it is asked by names that only their network knows.
        let ip = self.address.ip();
        let names = ip.is_loopback().then(|| Names::of(ip).any_address());
        let router = router(Api { metrics, view, places: Arc::new(Semaphore::new(REQUESTS_MAX)), names });
        listener::serve(self.listener, router, bounds, std::future::pending()).await
    }
}

#[derive(Clone)]
struct Api {
    metrics: Metrics,
    view: Arc<dyn View>,
    places: Arc<Semaphore>,
    /// The names that it may be asked under; `None` where any will do.
    names: Option<Names>,
}

fn router(api: Api) -> Router {
    Router::new()
        .route("/metrics", get(metrics_text))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/status", get(status))
        .layer(middleware::from_fn_with_state(api.clone(), admit))
        .with_state(api)
}

/// Turns away requests beyond the bound, and those that a web page smuggles to this machine under a foreign name.
async fn admit(State(api): State<Api>, request: Request, next: Next) -> Response {
    let refused = api.names.as_ref().and_then(|names| names.check(request.uri(), request.headers()).err());
    if let Some(refusal) = refused {
        return (StatusCode::FORBIDDEN, format!("{}\n", refusal.message())).into_response();
    }
    let Ok(_place) = api.places.try_acquire() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many requests at once\n").into_response();
    };
    next.run(request).await
}

async fn metrics_text(State(api): State<Api>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], api.metrics.text())
}

async fn ready(State(api): State<Api>) -> Response {
    match api.view.ready() {
        Ok(()) => "ready\n".into_response(),
        Err(why) => {
            let why = printing::escaped_lines(&why);
            (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
        }
    }
}

async fn status(State(api): State<Api>) -> impl IntoResponse {
    let mut value = api.view.status();
    escape_texts(&mut value);
    ([(header::CONTENT_TYPE, "application/json")], format!("{value:#}\n"))
}

/// Escapes every text: a server's words may hold a record's, and `/status` is read on terminals.
fn escape_texts(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => {
            if let Cow::Owned(escaped) = printing::escaped(text, printing::TEXT_CHARS_MAX) {
                *text = escaped;
            }
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(escape_texts),
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(escape_texts);
            // The names of topics, files and tables are keys.
            if fields.keys().any(|name| !name.chars().all(printing::is_printable)) {
                let named = std::mem::take(fields).into_iter();
                *fields = named
                    .map(|(name, value)| (printing::escaped(&name, usize::MAX).into_owned(), value))
                    .collect();
            }
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

/// Whether an address could not be had because somebody else has it.
pub fn is_taken(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests;
