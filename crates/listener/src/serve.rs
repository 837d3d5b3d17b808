//! Accepts connections and answers their requests, within bounds.
//!
//! | a client that …                                  | meets                                            |
//! |--------------------------------------------------|--------------------------------------------------|
//! | sends its head a byte at a time, or none         | the connection ends after `head_wait_max`        |
//! | keeps its connection open between requests       | the same                                         |
//! | sends a head without end                         | status 431 at `head_bytes_max`                   |
//! | opens one connection more than `connections_max` | status 503 and the end, before it is read        |
//! | asks and never reads the answer                  | the connection ends after `write_wait_max`       |

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::stall::Stalling;

/// The reply to a connection beyond the bound.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nconnection: close\r\nretry-after: 1\r\n\
    content-length: 46\r\n\r\ntoo many connections at once; try again later\n";
/// Pause after the operating system refused a connection, most often for want of file descriptors: they come back when
/// connections end, and without a pause the loop would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bounds on what clients may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections open at a time; one more is answered 503 and closed.
    pub connections_max: usize,
    /// The longest wait for a request's whole head, from the opening of the connection or the end of the answer before.
    pub head_wait_max: Duration,
    /// The largest head; at least 8 KiB.
    pub head_bytes_max: usize,
    /// The longest wait for a client to take bytes of its answer.
    pub write_wait_max: Duration,
}

/// Answers requests by `router` until `stop` ends; then lets the requests that are here finish.
///
/// # Errors
/// Never at present: a failed accept is tried again, since the listener itself stays good.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(bounds.connections_max));
    let (stopping, asked) = watch::channel(false);
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => {
                    tokio::spawn(connection(stream, place, router.clone(), bounds, asked.clone()));
                }
                Err(_) => turn_away(stream),
            },
            // The client went away before it was accepted; the next one may be here already.
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // No connection listening any more means that all have ended.
    let _ = stopping.send(true);
    drop(asked);
    stopping.closed().await;
    Ok(())
}

async fn connection(
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    router: Router,
    bounds: Bounds,
    mut stopping: watch::Receiver<bool>,
) {
    // Without it the end of a small answer waits for the client's acknowledgement of its beginning.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let stream = TokioIo::new(Stalling::new(stream, bounds.write_wait_max));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_wait_max)
        .max_buf_size(bounds.head_bytes_max)
        .pipeline_flush(true);
    let mut serving = pin!(builder.serve_connection(stream, TowerToHyperService::new(router)));
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        // An error means that the sender is gone, and with it the server.
        _ = async { stopping.wait_for(|stopped| *stopped).await.map(drop) } => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
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
