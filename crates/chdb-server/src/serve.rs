//! Starting, listening and stopping: the server as a whole.
//!
//! Owns its settings with their defaults, and the order of a start and of an end: listeners first, running statements within their time,
//! then sessions, then the database. Does not own connections (`listener`) or requests (`http`).

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use listener::{Bounds, Names};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::auth::{Guard, Token};
use crate::engine::{Engine, StartError};
use crate::room::Budget;
use crate::running::Running;
use crate::session::Sessions;
use crate::{http, processes, shared};

/// How the server is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The data folder; made if it does not exist.
    pub path: PathBuf,
    /// Allow an address that other machines can reach.
    pub listen_anywhere: bool,
    /// Statements that run at a time; at least 1.
    pub statements_max: usize,
    /// Requests that wait for their turn or send their body, beyond those that run.
    pub queue_max: usize,
    /// The largest body, packed or unpacked.
    pub body_bytes_max: u64,
    /// The largest memory of all bodies together.
    pub bodies_bytes_max: u64,
    /// How long a stop waits for running requests.
    pub stop_wait_max: Duration,
    /// The token that clients must know.
    pub token: Token,
    /// Host names that the server may be asked under, beside loopback's and the address that it listens at.
    pub host_names: Vec<String>,
    /// Lets statements reach files and the network: `file()`, `url()`, `s3()`, engines of other servers.
    pub allow_files_and_network: bool,
    /// A file of the engine's users, profiles, constraints and quotas (`users.xml`). The grants stand there too, so that it needs
    /// `allow_files_and_network`; without it this is ignored.
    pub users_config: Option<PathBuf>,
    /// Connections open at a time.
    pub connections_max: usize,
    /// The longest wait for the head of a request, and for the next request of a kept connection.
    pub head_wait_max: Duration,
}

impl Config {
    /// The defaults for a data folder and an address.
    pub fn new(address: SocketAddr, path: impl Into<PathBuf>) -> Config {
        Config {
            address,
            path: path.into(),
            listen_anywhere: false,
            statements_max: 16,
            queue_max: 256,
            body_bytes_max: 1 << 30,
            bodies_bytes_max: 2 << 30,
            stop_wait_max: Duration::from_secs(10),
            token: Token::Drawn,
            host_names: Vec::new(),
            allow_files_and_network: false,
            users_config: None,
            // Beyond the requests that may be here at a time, so that a full queue is told apart from a full listener.
            connections_max: 1024,
            // ClickHouse's own `keep_alive_timeout`.
            head_wait_max: Duration::from_secs(30),
        }
    }
}

/// Why the server did not start or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The engine did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The address is not a loopback address.
    #[error(
        "`{0}` can be reached from other machines, and this server speaks no TLS; pass --listen-anywhere if that is meant"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on `{address}`: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's words.
        reason: std::io::Error,
    },
    /// Accepting connections failed.
    #[error("the listener failed: {0}")]
    Accept(std::io::Error),
    /// No random bytes for a token.
    #[error("cannot draw a token: {0}; give one by --token, or pass --no-token")]
    Token(std::io::Error),
    /// The thread that starts the engine panicked.
    #[error("the engine's start failed: {0}")]
    Panicked(String),
}

/// A server that is started and listens.
pub struct Server {
    address: SocketAddr,
    listener: TcpListener,
    shared: Arc<shared::Server>,
    stop_wait_max: Duration,
    bounds: Bounds,
}

/// The largest head. A statement may stand in the query string; ClickHouse takes as much (`http_max_uri_size`).
const HEAD_BYTES_MAX: usize = 1 << 20;
/// The longest wait for a client to take bytes of its answer: as long as one that sends a body may pause.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(120);

impl Server {
    /// Starts the engine and listens.
    pub async fn start(config: Config) -> Result<Server, ServeError> {
        if !config.address.ip().is_loopback() && !config.listen_anywhere {
            return Err(ServeError::NotLoopback(config.address));
        }
        let listen = |reason| ServeError::Listen { address: config.address, reason };
        let listener = TcpListener::bind(config.address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let guard = Guard::new(&config.token).map_err(ServeError::Token)?;
        let names = config.host_names.iter().fold(Names::of(address.ip()), |names, name| names.allow(name));
        let (path, open) = (config.path.clone(), config.allow_files_and_network);
        let users = config.users_config.clone();
        let engine = tokio::task::spawn_blocking(move || Engine::start(&path, open, users.as_deref()))
            .await
            .map_err(|error| ServeError::Panicked(error.to_string()))??;
        let statements_max = config.statements_max.max(1);
        let shared = Arc::new(shared::Server {
            engine,
            sessions: Sessions::default(),
            running: Arc::new(Running::default()),
            budget: Budget::new(config.bodies_bytes_max, config.body_bytes_max),
            guard,
            names,
            places: Arc::new(Semaphore::new(statements_max + config.queue_max)),
            turns: Arc::new(Semaphore::new(statements_max)),
        });
        let bounds = Bounds {
            connections_max: config.connections_max,
            head_wait_max: config.head_wait_max,
            head_bytes_max: HEAD_BYTES_MAX,
            write_wait_max: WRITE_WAIT_MAX,
        };
        Ok(Server { address, listener, shared, stop_wait_max: config.stop_wait_max, bounds })
    }

    /// The token that clients must know; `None` if they need none.
    pub fn token(&self) -> Option<&str> {
        self.shared.guard.token()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// ClickHouse's version.
    pub fn version(&self) -> &str {
        self.shared.engine.version()
    }

    /// Answers requests until `stop` ends, lets the running ones finish within the bound, and closes the database.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        let shared = Arc::clone(&self.shared);
        let app =
            axum::Router::new().fallback(move |request: Request| http::answer(Arc::clone(&shared), request));
        let (told, mut stopping) = tokio::sync::watch::channel(false);
        let graceful = async move {
            stop.await;
            // Nobody listening any more means that the server ended on its own.
            let _ = told.send(true);
        };
        let serving = listener::serve(self.listener, app, self.bounds, graceful);
        let sweeper = sweep_sessions(Arc::clone(&self.shared));
        let late = async {
            // An error means that `told` is gone, and then so is `serving`.
            let _ = stopping.wait_for(|stopped| *stopped).await;
            tokio::time::sleep(self.stop_wait_max).await;
        };
        let result = tokio::select! {
            result = serving => result.map_err(ServeError::Accept),
            () = late => {
                tracing::warn!(requests = self.shared.running.count(), "stopping with requests that did not end in time");
                Ok(())
            }
            () = sweeper => Ok(()),
        };
        close(self.shared).await;
        result
    }
}

/// Drops resting sessions now and then, so that they go even when no new one comes.
async fn sweep_sessions(shared: Arc<shared::Server>) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        shared.sessions.sweep();
    }
}

/// How long killed statements may take to end before the process ends without them.
const KILLED_WAIT_MAX: Duration = Duration::from_secs(5);

async fn close(shared: Arc<shared::Server>) {
    let closed = tokio::task::spawn_blocking(move || {
        let end = std::time::Instant::now() + KILLED_WAIT_MAX;
        while shared.running.count() > 0 && std::time::Instant::now() < end {
            if let Err(failure) = processes::kill_all(&shared) {
                tracing::warn!(error = failure.text, "killing the running statements failed");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        shared.sessions.clear();
        shared.engine.close()
    });
    match closed.await {
        Ok(true) => tracing::info!("the database is closed"),
        Ok(false) => tracing::warn!("the database was left open: a statement still runs"),
        Err(error) => tracing::error!(%error, "closing the database failed"),
    }
}

/// Starts and runs a server; `ready` receives the address and the token.
pub async fn serve(
    config: Config,
    stop: impl Future<Output = ()> + Send + 'static,
    ready: impl FnOnce(SocketAddr, Option<&str>),
) -> Result<(), ServeError> {
    let server = Server::start(config).await?;
    ready(server.address(), server.token());
    server.run(stop).await
}

/// Ends at the first SIGTERM or SIGINT. Call it before the server starts, so that no signal is missed.
///
/// # Errors
/// When the operating system refuses the signal handlers.
pub fn termination() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
