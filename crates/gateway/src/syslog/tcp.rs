//! Syslog in connections.
//!
//! Owns the bounds on connections and on their time and memory. Does not own where a message ends (`syslog::frames`), nor connections of
//! HTTP (`listener`). A connection whose messages find no room is not read, so its sender waits. At a stop, what has come before is still taken: no sender
//! notices that it was not, and sends it again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use listener::Tls;
use metrics::{counter, gauge};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::feeder::{Feeder, ROOM_PAUSE};
use super::frames::Frames;
use super::{Sink, asked_to_stop};
use crate::budget::Held;

/// Pause after the operating system refused a connection, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The time between two log lines about the same trouble, at least: whoever may connect could fill the log.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// After so long without a byte the other end is asked whether it is there.
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// Room for the bytes of an idle connection, which is not held: as many as may be open must leave room for their messages.
const ROOM_BYTES_MIN: usize = 2 << 10;
/// Room that is given back once nothing is in it.
const ROOM_BYTES_KEPT: usize = 16 << 10;
/// After so long without a byte all room is given back that is held.
const RESTS_AFTER: Duration = Duration::from_secs(1);
/// The longest wait for bytes that have come before a stop: the runtime may not have heard of them yet.
const LAST_READ: Duration = Duration::from_millis(100);
/// How long a connection is read on at a stop, and how much of it: more than a kernel keeps for one.
const LAST_TIME: Duration = Duration::from_secs(1);
/// See [`LAST_TIME`].
const LAST_BYTES_MAX: usize = 16 << 20;

/// Accepts connections until it is stopped; ends when they have.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    connections_max: usize,
    sink: Sink,
    mut stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(connections_max));
    let open = gauge!("forebay_gateway_syslog_connections", "stream" => sink.stream.name.clone(), "transport" => sink.transport);
    let mut connections = JoinSet::new();
    let asked = stopping.clone();
    let (mut full, mut unaccepted) = (Told::default(), Told::default());
    let mut take = |connections: &mut JoinSet<()>, stream: TcpStream, peer: SocketAddr| {
        let place = Arc::clone(&places).try_acquire_owned();
        match place {
            Ok(place) => {
                let (tls, sink, asked) = (tls.clone(), sink.clone(), asked.clone());
                connections.spawn(async move {
                    connection(stream, peer, tls, sink, asked).await;
                    drop(place);
                });
                open.set(connections.len() as f64);
            }
            Err(_) => {
                counter!("forebay_gateway_syslog_turned_away_total", "stream" => sink.stream.name.clone(), "transport" => sink.transport)
                    .increment(1);
                if full.is_due(Instant::now()) {
                    tracing::warn!(%peer, connections_max, "the limit of connections is reached; a syslog connection was closed");
                }
            }
        }
    };
    loop {
        let accepted = tokio::select! {
            () = asked_to_stop(&mut stopping) => break,
            Some(_) = connections.join_next() => {
                open.set(connections.len() as f64);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => take(&mut connections, stream, peer),
            Err(error) => {
                if unaccepted.is_due(Instant::now()) {
                    tracing::warn!(%error, "a syslog connection could not be accepted; trying again");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // Who has connected before has sent messages as well. The system is asked itself, for what it has told of is older.
    match listener.into_std() {
        Err(error) => tracing::warn!(%error, "syslog connections that wait are not read"),
        Ok(listener) => waiting(&listener, connections_max)
            .for_each(|(stream, peer)| take(&mut connections, stream, peer)),
    }
    while connections.join_next().await.is_some() {}
    open.set(0.0);
}

/// When the log last spoke of a trouble.
#[derive(Default)]
struct Told(Option<Instant>);

impl Told {
    /// Whether it does so now.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|told| now.duration_since(told) >= TELL_EVERY);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// The connections that wait to be accepted, so many at the most.
fn waiting(listener: &std::net::TcpListener, most: usize) -> impl Iterator<Item = (TcpStream, SocketAddr)> {
    let accepted = std::iter::from_fn(|| listener.accept().ok()).take(most);
    accepted.filter_map(|(stream, peer)| {
        let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
        let stream = stream.inspect_err(|error| tracing::debug!(%error, "a connection was lost")).ok()?;
        Some((stream, peer))
    })
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Tls>,
    sink: Sink,
    stopping: watch::Receiver<bool>,
) {
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_AFTER / 6);
    if let Err(error) = SockRef::from(&stream).set_tcp_keepalive(&probes) {
        tracing::debug!(%error, "a connection is not probed");
    }
    let peer = peer.to_string();
    match tls {
        None => receive(stream, &peer, sink, stopping).await,
        Some(tls) => {
            let mut asked = stopping.clone();
            let encrypted = tokio::select! {
                encrypted = timeout(sink.message_time_max, tls.acceptor().accept(stream)) => encrypted,
                // Nothing of it was read.
                () = asked_to_stop(&mut asked) => return,
            };
            match encrypted {
                Ok(Ok(stream)) => receive(stream, &peer, sink, stopping).await,
                Ok(Err(error)) => {
                    tracing::debug!(peer, %error, "a connection of syslog could not be encrypted");
                }
                Err(_) => tracing::debug!(peer, "a connection of syslog was not encrypted in time"),
            }
        }
    }
}

/// Takes messages until the connection ends.
pub(super) async fn receive(
    mut stream: impl AsyncRead + Unpin,
    peer: &str,
    sink: Sink,
    mut stopping: watch::Receiver<bool>,
) {
    let mut held = sink.gate.hold(&sink.stream);
    let mut frames = Frames::new(sink.message_bytes_max);
    let message_time_max = sink.message_time_max;
    let mut feeder = Feeder::new(sink);
    let mut until = None;
    let (is_whole, is_stopped) = loop {
        let mut has_taken = false;
        while let Some(frame) = frames.next() {
            has_taken = true;
            feeder.push_when_room(frame, peer).await;
        }
        feeder.start();
        frames.compact();
        if frames.buffer.is_empty() && frames.buffer.capacity() > ROOM_BYTES_KEPT {
            frames.buffer = Vec::new();
            held = held.another();
        }
        until = match until {
            _ if !frames.is_within() => None,
            Some(until) if !has_taken => Some(until),
            _ => Some(Instant::now() + message_time_max),
        };
        if !make_room(&mut frames, &mut held) {
            tokio::select! {
                () = asked_to_stop(&mut stopping) => break (false, true),
                () = feeder.appended() => {}
                () = sleep(ROOM_PAUSE) => {}
            }
            // Its sender is not late: it is not read.
            until = None;
            continue;
        }
        let late = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let gives_back = held.bytes() > 0 && frames.buffer.is_empty();
        let rests = async {
            match gives_back {
                true => sleep(RESTS_AFTER).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            read = stream.read_buf(&mut frames.buffer) => match read {
                Ok(0) => break (true, false),
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(peer, %error, "a connection of syslog broke off");
                    break (false, false);
                }
            },
            () = feeder.appended() => {}
            () = rests => {
                frames.buffer = Vec::new();
                held = held.another();
            }
            () = late => {
                tracing::warn!(peer, "a message of syslog did not end in time, so its connection ends");
                break (false, false);
            }
            () = asked_to_stop(&mut stopping) => break (false, true),
        }
    };
    let is_whole = match is_stopped {
        true => take_last(&mut stream, &mut frames, (&mut feeder, &mut held), peer).await,
        false => is_whole,
    };
    while let Some(frame) = frames.next() {
        feeder.push_when_room(frame, peer).await;
    }
    if let Some(frame) = frames.last(is_whole) {
        feeder.push_when_room(frame, peer).await;
    }
    drop(frames);
    feeder.finish().await;
}

/// Makes room for what comes next; false if there is none.
fn make_room(frames: &mut Frames, held: &mut Held) -> bool {
    let free = frames.buffer.capacity() - frames.buffer.len();
    if free >= ROOM_BYTES_MIN / 2 {
        return true;
    }
    if frames.buffer.capacity() == 0 {
        frames.buffer.reserve_exact(ROOM_BYTES_MIN);
        return true;
    }
    let more = frames.buffer.len().max(ROOM_BYTES_MIN);
    let is_held = held.take(more).is_ok();
    if is_held {
        frames.buffer.reserve_exact(more);
    }
    is_held
}

/// Takes what has come before a stop, within bounds; true if the connection has ended then.
async fn take_last(
    stream: &mut (impl AsyncRead + Unpin),
    frames: &mut Frames,
    (feeder, held): (&mut Feeder, &mut Held),
    peer: &str,
) -> bool {
    let until = Instant::now() + LAST_TIME;
    let mut left = LAST_BYTES_MAX;
    while left > 0 && Instant::now() < until {
        while let Some(frame) = frames.next() {
            feeder.push_when_room(frame, peer).await;
        }
        feeder.start();
        frames.compact();
        if !make_room(frames, held) {
            return false;
        }
        match timeout(LAST_READ, stream.read_buf(&mut frames.buffer)).await {
            Ok(Ok(0)) => return true,
            Ok(Ok(read)) => left = left.saturating_sub(read),
            Ok(Err(_)) | Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests;
