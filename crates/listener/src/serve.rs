//! Accepts connections and answers their requests, within bounds.
//!
//! Owns how long a connection may wait for each thing, and that a stop answers whoever has connected. Does not own certificates (`tls`), a
//! client that takes no bytes (`stall`), one that sends on when it was answered (`unread`) or the router's answers.
//!
//! | a client that …                                  | meets                                            |
//! |--------------------------------------------------|--------------------------------------------------|
//! | sends its head a byte at a time, or none         | the connection ends after `head_wait_max`        |
//! | keeps its connection open between requests       | the same                                         |
//! | sends a head without end                         | status 431 at `head_bytes_max`, and beyond 100 headers |
//! | ends its side behind a request                   | the answer, and then the end                     |
//! | is answered before its body was read             | the answer; the rest is thrown away, within bounds |
//! | opens one connection more than `connections_max` | status 503 and the end, before it is read; over TLS |
//! |                                                  | the end alone, since plain text is no TLS        |
//! | asks and never reads the answer, or opens no     | the connection ends after `write_wait_max`       |
//! | window of HTTP/2 for it                          |                                                  |
//! | opens a connection and does not finish TLS       | the connection ends after `head_wait_max`        |
//! | has a dead connection of HTTP/2                  | the connection ends after two pings unanswered   |
//! | has one alive, and no request on it              | it is told to go after `head_wait_max`, and ends |
//! |                                                  | after as long again                              |
//! | has sent no request when the server is asked to stop | the connection ends soon after it            |
//! | sends a request of HTTP/1.1 while the server stops | its answer, with `connection: close`           |

use std::convert::Infallible;
use std::future::{Future, pending};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::requests::{Answer, Requests};
use crate::stall::Stalling;
use crate::stopping::{LAST_READ, LAST_WORD, asked, soon_after};
use crate::tls::Tls;
use crate::unread::{Drained, Followed, Unread};
use crate::windows::{Window, Windows};

/// The reply to a connection beyond the bound.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nconnection: close\r\nretry-after: 1\r\n\
    content-length: 46\r\n\r\ntoo many connections at once; try again later\n";
/// Pause after the operating system refused a connection, most often for want of file descriptors: they come back when
/// connections end, and without a pause the loop would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The time between two log lines about that, at least.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Bounds on what clients may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections open at a time; one more is answered 503 and closed, over TLS only closed.
    pub connections_max: usize,
    /// The longest wait for a request's whole head, from the opening of the connection or the end of the answer before.
    pub head_wait_max: Duration,
    /// The largest head; at least 8 KiB.
    pub head_bytes_max: usize,
    /// The longest wait for a client to take bytes of its answer.
    pub write_wait_max: Duration,
}

/// What a listener speaks: TLS or not, HTTP/2 or not. Listeners whose edges are clones share the windows.
#[derive(Debug, Clone, Default)]
pub struct Edge {
    /// Encrypts connections.
    pub tls: Option<Tls>,
    /// Takes HTTP/2 beside HTTP/1.1: what ALPN says with TLS, and without it a client that begins with HTTP/2's preface. Its connections
    /// share these windows.
    pub http2: Option<Windows>,
}

/// How every client of HTTP/2 that knows it in advance begins; no request of HTTP/1.1 begins so.
const PREFACE: &[u8] = b"PRI ";
/// Pause before the second look at a connection that has sent less than the preface; each further one is twice as long.
const PREFACE_PAUSE: Duration = Duration::from_millis(5);
/// The longest such pause: a client that sends its greeting in pieces waits no longer than this for the server to notice the rest.
const PREFACE_PAUSE_MAX: Duration = Duration::from_millis(250);

/// Requests of one connection of HTTP/2 at a time.
const STREAMS_MAX: u32 = 128;
/// After so long without a frame a connection of HTTP/2 is asked whether it is alive, and ends after as long without an answer.
const PING_EVERY: Duration = Duration::from_secs(20);

/// Answers requests of HTTP/1.1 by `router` until `stop` ends; then lets the requests that are here finish.
///
/// # Errors
/// Never at present: a failed accept is tried again, since the listener itself stays good.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_with(listener, router, bounds, Edge::default(), stop).await
}

/// The same over TLS, or of HTTP/2 too.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    edge: Edge,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(bounds.connections_max));
    let (stopping, asked) = watch::channel(false);
    let mut stop = pin!(stop);
    let mut told: Option<Instant> = None;
    let take = |stream| match Arc::clone(&places).try_acquire_owned() {
        Ok(place) => {
            let edge = edge.clone();
            drop(tokio::spawn(connection(stream, place, router.clone(), bounds, edge, asked.clone())));
        }
        Err(_) if edge.tls.is_some() => drop(stream),
        Err(_) => turn_away(stream),
    };
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => take(stream),
            // The client went away before it was accepted; the next one may be here already.
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                    told = Some(Instant::now());
                    tracing::warn!(
                        %error,
                        "a connection could not be accepted, so clients wait; trying again. If too many files are open, raise the limit of the process \
                         (`LimitNOFILE=65536` of a systemd unit, `ulimit -n 65536` before it starts)"
                    );
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // Who has connected already is answered as well: closed with the listener, its request would be in doubt. The system is asked itself, for what it
    // has told of is older.
    match listener.into_std() {
        Err(error) => tracing::warn!(%error, "connections that wait are not answered"),
        Ok(listener) => waiting(&listener, bounds.connections_max).for_each(take),
    }
    // No connection listening any more means that all have ended.
    let _ = stopping.send(true);
    drop(asked);
    stopping.closed().await;
    Ok(())
}

/// The connections that wait to be accepted, so many at the most: whoever comes while they are taken must not hold the stop up.
fn waiting(listener: &std::net::TcpListener, most: usize) -> impl Iterator<Item = TcpStream> {
    let accepted = std::iter::from_fn(|| listener.accept().ok()).take(most);
    accepted.filter_map(|(stream, _)| {
        let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
        stream.inspect_err(|error| tracing::debug!(%error, "a connection was lost")).ok()
    })
}

async fn connection(
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    router: Router,
    bounds: Bounds,
    edge: Edge,
    mut stopping: watch::Receiver<bool>,
) {
    // Without it the end of a small answer waits for the client's acknowledgement of its beginning.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let unread = Unread::default();
    match edge.tls {
        None => {
            let greeted = async {
                match edge.http2 {
                    Some(_) => begins_http2(&stream, bounds.head_wait_max, &mut stopping).await,
                    None => Some(false),
                }
            };
            let Some(is_http2) = greeted.await else {
                tracing::debug!("a connection did not say in time what it speaks");
                return;
            };
            let http2 = edge.http2.filter(|_| is_http2);
            let stream = Stalling::new(stream, bounds.write_wait_max, unread.clone(), stopping.clone());
            requests(stream, http2, router, bounds, (unread, stopping)).await;
        }
        Some(tls) => {
            let stream = Stalling::new(stream, bounds.write_wait_max, unread.clone(), stopping.clone());
            let accepting = tls.acceptor().accept(stream);
            let accepting = Box::pin(async {
                tokio::select! {
                    accepted = timeout(bounds.head_wait_max, accepting) => Some(accepted),
                    // Not at once: who has connected already is answered as well.
                    () = soon_after(&mut stopping) => None,
                }
            });
            let accepted = accepting.await;
            match accepted {
                Some(Ok(Ok(stream))) => {
                    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let http2 = edge.http2.filter(|_| is_http2);
                    requests(stream, http2, router, bounds, (unread, stopping)).await;
                }
                Some(Ok(Err(error))) => tracing::debug!(%error, "a connection could not be encrypted"),
                Some(Err(_)) | None => tracing::debug!("a connection was not encrypted in time"),
            }
        }
    }
}

/// Whether a connection begins as one of HTTP/2 does; takes nothing from it. `None` once `wait_max` has passed and it could still be one. A stop
/// ends the wait: what has come so far is then read as HTTP/1.1.
async fn begins_http2(
    stream: &TcpStream,
    wait_max: Duration,
    stopping: &mut watch::Receiver<bool>,
) -> Option<bool> {
    let until = Instant::now() + wait_max;
    let mut begun = [0; PREFACE.len()];
    let mut pause = PREFACE_PAUSE;
    loop {
        let peeked = tokio::select! {
            peeked = timeout_at(until, stream.peek(&mut begun)) => peeked,
            () = asked(stopping) => return Some(false),
        };
        match peeked {
            Ok(Ok(read)) if read == PREFACE.len() => return Some(begun == PREFACE),
            Ok(Ok(read)) if read > 0 && begun[..read] == PREFACE[..read] => {}
            // Whoever reads on meets the end or the error.
            Ok(_) => return Some(false),
            Err(_) => return None,
        }
        // The bytes that are there make the next look end at once, also after the client has closed: only the clock ends this.
        if Instant::now() >= until {
            return None;
        }
        tokio::select! {
            () = sleep_until(until.min(Instant::now() + pause)) => {}
            () = asked(stopping) => return Some(false),
        }
        pause = (2 * pause).min(PREFACE_PAUSE_MAX);
    }
}

/// Serves a connection until it ends or the server does. What each kind needs is on the heap by itself: most connections rest, and one of HTTP/1.1
/// must not take the room of HTTP/2 and TLS too.
async fn requests<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    http2: Option<Windows>,
    router: Router,
    bounds: Bounds,
    (unread, stopping): (Unread, watch::Receiver<bool>),
) {
    let stream = TokioIo::new(stream);
    let ended = match http2 {
        Some(windows) => Box::pin(of_http2(stream, windows.open(), router, bounds, stopping)).await,
        None => Box::pin(of_http1(stream, router, bounds, (unread, stopping))).await,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn of_http2<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: TokioIo<S>,
    window: Window,
    router: Router,
    bounds: Bounds,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), hyper::Error> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_connection_window_size(window.bytes)
        .initial_stream_window_size(window.of_request())
        .max_header_list_size(u32::try_from(bounds.head_bytes_max).unwrap_or(u32::MAX));
    let requests = Requests::default();
    let counted = requests.clone();
    let service = TowerToHyperService::new(router);
    let told = stopping.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let request = request.map(|body| Drained::new(body, told.clone()));
        let (one, answering) = (counted.begin(), service.call(request));
        async move { answering.await.map(|answer| answer.map(|body| Body::new(Answer { body, one }))) }
    });
    let mut serving = pin!(builder.serve_connection(stream, service));
    tokio::select! {
        ended = serving.as_mut() => return ended,
        () = asked(&mut stopping) => {}
        () = requests.none_for(bounds.head_wait_max) => {}
        () = requests.untaken_for(bounds.write_wait_max) => return Ok(()),
    }
    // Requests on their way are still answered: the client learns which was the last that counts, and sends others elsewhere.
    serving.as_mut().graceful_shutdown();
    tokio::select! {
        ended = serving.as_mut() => ended,
        // One that has not even greeted does not hear it.
        () = requests.none_for(bounds.head_wait_max) => Ok(()),
        () = requests.untaken_for(bounds.write_wait_max) => Ok(()),
        () = async {
            asked(&mut stopping).await;
            requests.none_for(LAST_WORD).await;
            if requests.have_begun() {
                // Its answer may still be on its way.
                pending::<()>().await;
            }
        } => Ok(()),
    }
}

async fn of_http1<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: TokioIo<S>,
    router: Router,
    bounds: Bounds,
    (unread, mut stopping): (Unread, watch::Receiver<bool>),
) -> Result<(), hyper::Error> {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_wait_max)
        .max_header_size(bounds.head_bytes_max)
        .max_buf_size(bounds.head_bytes_max)
        // A client that has sent all and ends its side still waits for the answer.
        .half_close(true);
    unread.follow();
    let begun = unread.clone();
    let service = TowerToHyperService::new(router);
    let told = stopping.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let answering = service.call(request.map(|body| Followed::new(body, unread.clone())));
        let told = told.clone();
        async move {
            let mut answer = answering.await?;
            if *told.borrow() {
                // So that the client sends its next request over another connection, and not into the end of this one.
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let mut serving = pin!(builder.serve_connection(stream, service));
    tokio::select! {
        ended = serving.as_mut() => ended,
        () = asked(&mut stopping) => {
            // What has come is still read and answered: a connection that is closed on a request resets it, and the client is in doubt.
            if let Ok(ended) = timeout(LAST_READ, serving.as_mut()).await {
                return ended;
            }
            serving.as_mut().graceful_shutdown();
            tokio::select! {
                ended = serving.as_mut() => ended,
                () = async {
                    sleep(LAST_WORD).await;
                    if begun.has_begun() {
                        pending::<()>().await;
                    }
                } => Ok(()),
            }
        }
    }
}

/// Says why, as far as the socket takes it at once, and closes. What the client has sent is not read.
fn turn_away(stream: TcpStream) {
    // A client that does not get the words still sees its connection end.
    let _ = stream.try_write(FULL);
}

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests;
