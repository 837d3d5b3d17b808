//! Syslog over TCP and UDP, into streams: RFC 5424, and the older RFC 3164 as leniently as it is written.
//!
//! Owns the addresses, and what becomes of a message. Does not own the forms of a message ([`parse`]), the two transports with their bounds
//! (`syslog::tcp`, `syslog::udp`), nor the appends (`syslog::feeder`). A sender of syslog gets no answer, so it cannot send again: from the
//! time when a message was taken off the network until it is durable in the log, a kill of the gateway loses it. Afterwards a pipeline
//! reads it exactly once.
//!
//! | what comes                                           | meets                                                              |
//! |------------------------------------------------------|--------------------------------------------------------------------|
//! | a message, whatever is in it                         | a record ([`parse`]); one without a priority holds its text alone   |
//! | a message longer than `message_bytes_max`            | its beginning, with `"truncated":true`, counted                    |
//! | a message that does not end within [`MESSAGE_TIME_MAX`] | the same, and the end of its connection                         |
//! | messages over TCP faster than the log takes them     | their connection is not read until there is room                   |
//! | the same over UDP                                    | they are dropped and counted, also those that the kernel drops     |
//! | one connection more than `connections_max`           | it is closed, and counted                                          |
//! | a connection that sends nothing                      | stays; one whose other end is gone is ended by TCP's own probes     |
//!
//! | module     | what it does                                             |
//! |------------|----------------------------------------------------------|
//! | `frames`   | from the bytes of a connection to messages               |
//! | [`parse`], `structured` | from a message to a record                  |
//! | `feeder`   | gathers records and appends them, one append at a time   |
//! | `tcp`, `udp` | the two transports                                     |

mod feeder;
mod frames;
pub mod parse;
mod structured;
mod tcp;
mod udp;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use listener::Tls;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;

use crate::gate::Gate;
pub use crate::options::{SyslogOptions, Transport};
use crate::stream::Stream;

/// The longest time from the first byte of a message over TCP to its end.
pub const MESSAGE_TIME_MAX: Duration = Duration::from_secs(60);

/// An address that is listened at.
pub(crate) struct Bound {
    pub(crate) address: SocketAddr,
    socket: Socket,
    stream: Arc<Stream>,
    message_bytes_max: usize,
}

enum Socket {
    Tcp { listener: TcpListener, tls: Option<Tls>, connections_max: usize },
    Udp(UdpSocket),
}

impl Bound {
    /// Listens.
    ///
    /// # Errors
    /// When the address is taken.
    pub(crate) async fn open(options: SyslogOptions, stream: Arc<Stream>) -> std::io::Result<Self> {
        let SyslogOptions { listen, transport, message_bytes_max, .. } = options;
        let (address, socket) = match transport {
            Transport::Tcp { tls, connections_max } => {
                let listener = TcpListener::bind(listen).await?;
                (listener.local_addr()?, Socket::Tcp { listener, tls, connections_max })
            }
            Transport::Udp => {
                let socket = udp::open(listen).await?;
                (socket.local_addr()?, Socket::Udp(socket))
            }
        };
        Ok(Self { address, socket, stream, message_bytes_max })
    }

    /// Takes messages until `stopping` says so; ends once what was taken is durable, or is known not to become so.
    pub(crate) async fn serve(self, gate: Gate, stopping: watch::Receiver<bool>) {
        let Self { socket, stream, message_bytes_max, .. } = self;
        let transport = match &socket {
            Socket::Tcp { tls: Some(_), .. } => "tls",
            Socket::Tcp { .. } => "tcp",
            Socket::Udp(_) => "udp",
        };
        let sink = Sink { gate, stream, message_bytes_max, message_time_max: MESSAGE_TIME_MAX, transport };
        match socket {
            Socket::Tcp { listener, tls, connections_max } => {
                tcp::serve(listener, tls, connections_max, sink, stopping).await;
            }
            Socket::Udp(socket) => udp::serve(socket, sink, stopping).await,
        }
    }
}

/// Where messages go.
#[derive(Clone)]
struct Sink {
    gate: Gate,
    stream: Arc<Stream>,
    message_bytes_max: usize,
    /// For a message over TCP.
    message_time_max: Duration,
    /// In metrics.
    transport: &'static str,
}

/// Ends when it says so.
async fn asked_to_stop(stopping: &mut watch::Receiver<bool>) {
    // A sender that is gone has stopped too.
    let _ = stopping.wait_for(|stopped| *stopped).await;
}

#[cfg(test)]
mod tests;
