//! Metrics, health and status over HTTP.
//!
//! Owns the paths and who may ask. Does not own what is told ([`View`] and the metrics' recorder). There is no
//! authentication, nothing can be changed here, and nothing secret is shown.
//!
//! | path       | answer                                                                          |
//! |------------|---------------------------------------------------------------------------------|
//! | `/metrics` | Prometheus text                                                                 |
//! | `/healthz` | 200 while the process answers at all                                            |
//! | `/readyz`  | 200 while the lane runs, 503 with the reason otherwise                          |
//! | `/status`  | the lane at this moment, JSON                                                   |

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Requests answered at the same time; rendering metrics costs memory, and nobody needs more.
const REQUESTS_MAX: usize = 16;

/// How often old samples of histograms are folded, so that their memory stays bounded between scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Upper bounds of the histograms of seconds, from a fast local insert to an outage.
const SECONDS: [f64; 23] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5,
    5.0, 10.0, 30.0, 120.0, 600.0,
];

/// What a running pipeline tells.
pub trait View: Send + Sync {
    /// `Ok` while the lane runs; otherwise the reason, in a few words.
    fn ready(&self) -> Result<(), String>;

    /// The lane at this moment, without anything secret.
    fn status(&self) -> serde_json::Value;
}

/// Installs the recorder that all metrics of this process go to.
///
/// # Errors
/// When there is one already.
pub fn record_metrics() -> anyhow::Result<PrometheusHandle> {
    let builder =
        PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?;
    Ok(builder.install_recorder()?)
}

/// Folds old samples now and then, for ever: also needed where nobody scrapes.
pub async fn upkeep<Never>(metrics: PrometheusHandle) -> Never {
    loop {
        tokio::time::sleep(UPKEEP_EVERY).await;
        metrics.run_upkeep();
    }
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
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| anyhow::anyhow!("cannot listen at `{address}`: {error}{hint}"))?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the future is dropped.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self, metrics: PrometheusHandle, view: Arc<dyn View>) -> std::io::Result<()> {
        let upkeep = upkeep::<()>(metrics.clone());
        let is_local = self.address.ip().is_loopback();
        let router = router(Api { metrics, view, places: Arc::new(Semaphore::new(REQUESTS_MAX)), is_local });
        tokio::select! {
            result = async { axum::serve(self.listener, router).await } => result,
            () = upkeep => Ok(()),
        }
    }
}

#[derive(Clone)]
struct Api {
    metrics: PrometheusHandle,
    view: Arc<dyn View>,
    places: Arc<Semaphore>,
    is_local: bool,
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
    if api.is_local && !names_this_machine(request.headers()) {
        return (StatusCode::FORBIDDEN, "ask for this server by its address or as localhost\n")
            .into_response();
    }
    let Ok(_place) = api.places.try_acquire() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many requests at once\n").into_response();
    };
    next.run(request).await
}

fn names_this_machine(headers: &HeaderMap) -> bool {
    // HTTP/1.0 knows no such header, and browsers do not speak it.
    let Some(host) = headers.get(header::HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let without_port = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    without_port == "localhost" || without_port.parse::<IpAddr>().is_ok()
}

async fn metrics_text(State(api): State<Api>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], api.metrics.render())
}

async fn ready(State(api): State<Api>) -> Response {
    match api.view.ready() {
        Ok(()) => "ready\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn status(State(api): State<Api>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], format!("{:#}\n", api.view.status()))
}

#[cfg(test)]
mod tests;
