//! Syslog in datagrams, a message in each.
//!
//! Owns the socket. Does not own what a message says (`syslog::parse`), nor the appends (`syslog::feeder`). Nobody can be asked to wait
//! here: what finds no room is dropped and counted, and so is what the kernel drops because it is not read fast enough.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::feeder::{Feeder, dropped};
use super::frames::Frame;
use super::{Sink, asked_to_stop};

/// Bytes that the kernel is asked to keep for us; it gives as many as `net.core.rmem_max` allows.
const RECEIVE_BYTES: usize = 8 << 20;
/// More than a datagram can have.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// Datagrams that are taken before anything else gets its turn.
const BURST: usize = 512;
/// Datagrams that are taken at the end: what the kernel kept.
const LAST_MAX: usize = 100_000;
/// How often it is told what was dropped here, and the kernel is asked what it dropped.
const DROPS_EVERY: Duration = Duration::from_secs(5);
/// Pause after an error of the socket, which stays good.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// Listens.
pub(super) async fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address).await?;
    if let Err(error) = SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BYTES) {
        tracing::debug!(%error, "the kernel keeps its own size of the receive buffer");
    }
    Ok(socket)
}

/// Takes messages until it is stopped.
pub(super) async fn serve(socket: UdpSocket, sink: Sink, mut stopping: watch::Receiver<bool>) {
    let mut taking = Taking {
        message_bytes_max: sink.message_bytes_max,
        feeder: Feeder::new(sink.clone()),
        peer: (SocketAddr::from(([0; 4], 0)), String::new()),
    };
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let mut drops = Drops { inode: inode(&socket), known: 0 };
    let mut look = interval(DROPS_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = asked_to_stop(&mut stopping) => break,
            () = taking.feeder.appended() => {}
            _ = look.tick() => {
                taking.feeder.tell_dropped();
                drops.count(&sink).await;
            }
            readable = socket.readable() => if let Err(error) = readable {
                tracing::warn!(%error, "the socket of syslog cannot be read; trying again");
                sleep(ERROR_PAUSE).await;
            },
        }
        taking.take_waiting(&socket, &mut buffer, BURST);
        taking.feeder.start();
    }
    taking.take_waiting(&socket, &mut buffer, LAST_MAX);
    taking.feeder.tell_dropped();
    drops.count(&sink).await;
    drop(socket);
    taking.feeder.finish().await;
}

struct Taking {
    feeder: Feeder,
    message_bytes_max: usize,
    /// Who sent last, also as text.
    peer: (SocketAddr, String),
}

impl Taking {
    /// Takes what the kernel has, `count_max` datagrams at the most.
    fn take_waiting(&mut self, socket: &UdpSocket, buffer: &mut [u8], count_max: usize) {
        for _ in 0..count_max {
            match socket.try_recv_from(buffer) {
                Ok((length, peer)) => self.take(&buffer[..length], peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Of an earlier datagram that we never sent; the socket stays good.
                Err(error) => tracing::debug!(%error, "a datagram could not be received"),
            }
        }
    }

    fn take(&mut self, datagram: &[u8], peer: SocketAddr) {
        if datagram.is_empty() {
            return;
        }
        if self.peer.0 != peer {
            self.peer = (peer, peer.to_string());
        }
        let kept = datagram.len().min(self.message_bytes_max);
        let frame = Frame { bytes: &datagram[..kept], is_cut: datagram.len() > kept };
        if self.feeder.push(frame, &self.peer.1).is_err() {
            self.feeder.drop_one();
        }
    }
}

/// What the kernel dropped of a socket.
struct Drops {
    inode: Option<u64>,
    known: u64,
}

impl Drops {
    async fn count(&mut self, sink: &Sink) {
        let Some(inode) = self.inode else { return };
        let looked = tokio::task::spawn_blocking(move || {
            ["/proc/self/net/udp", "/proc/self/net/udp6"].iter().find_map(|path| {
                // A table of all sockets of this machine; unreadable, it leaves the count as it is.
                drops_of(&std::fs::read_to_string(path).ok()?, inode)
            })
        });
        let Ok(Some(now)) = looked.await else { return };
        let more = now.saturating_sub(self.known);
        if more > 0 {
            tracing::warn!(
                stream = sink.stream.name,
                messages = more,
                "the kernel dropped messages of syslog; a greater `net.core.rmem_max` lets it keep more"
            );
            dropped(&sink.stream.name, sink.transport, "kernel", more);
        }
        self.known = now;
    }
}

/// The number by which the kernel's table names a socket.
fn inode(socket: &UdpSocket) -> Option<u64> {
    let named = std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd()));
    named.ok().map(|named| named.ino())
}

/// The last column of the line whose tenth is the inode.
pub(super) fn drops_of(table: &str, inode: u64) -> Option<u64> {
    let (inode, mut lines) = (inode.to_string(), table.lines().skip(1));
    let line = lines.find(|line| line.split_ascii_whitespace().nth(9) == Some(inode.as_str()))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}
