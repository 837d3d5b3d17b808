//! One connection to one broker.
//!
//! Owns the socket, the handshake, frames, signs of life, and what a silent or babbling broker may cost: every wait and every size has a
//! bound. Does not own encryption (`tls`), what is asked (`client`, `broker`) or whom. Blocks, so callers are threads.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use dataflow::Runtime;

use super::PulsarOptions;
use super::address::Address;
use super::frame::{self, Frame, PREFIX_BYTES};
use super::messages::{
    AuthData, AuthResponse, CERTIFICATE_METHOD, Command, Connect, FeatureFlags, Kind, NO_METHOD,
    PROTOCOL_VERSION, TOKEN_METHOD, error,
};
use crate::tls::{Stream, is_pause};
use crate::token::TokenError;

/// A broker that cannot be connected to, or says nothing for so long, is away: twice as long as it takes brokers to ask whether we live.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);
/// An answer takes at most so long: longer than a topic's load on another broker.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
/// How often a wait looks whether anybody still waits.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Brokers close connections that were silent for a minute.
const SIGN_EVERY: Duration = Duration::from_secs(15);
/// Bytes that are received at once: enough that a block is cut for its number of records, not for want of bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// A buffer that a large entry has stretched beyond this is given back.
const BUFFER_KEPT_MAX: usize = 16 << 20;
/// Bytes of a frame before the broker has said how large its messages are: answers to questions.
const HELLO_BYTES_MAX: usize = 64 << 10;
/// What a broker takes unless it says something else.
const MESSAGE_BYTES_USUAL: usize = 5 << 20;
/// The largest message that a broker may be configured to take, as far as we follow it.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Metadata beside the largest message.
const METADATA_BYTES_MAX: usize = 1 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// The reader is gone.
    #[error("nobody waits for an answer any more")]
    Closed,
    /// The connection is of no use any more.
    #[error("`{address}`: {why}")]
    Failed { address: String, why: String },
    /// The broker does not let us in, or is too old.
    #[error("`{address}`: {why}")]
    Denied { address: String, why: String },
    /// There is no token to log in with, and will be none before the settings are changed.
    #[error("{0}")]
    NoToken(String),
}

/// A connection that has said hello.
pub(super) struct Connection {
    address: Address,
    stream: Stream,
    options: Arc<PulsarOptions>,
    runtime: Arc<dyn Runtime>,
    buffer: Vec<u8>,
    /// What of the buffer was received and not taken yet.
    held: Range<usize>,
    frame_bytes_max: usize,
    out: Vec<u8>,
    request: u64,
    heard: Duration,
    said: Duration,
    /// The token of the last login.
    token: Option<String>,
}

impl Connection {
    /// Connects to `address` and says hello. Through a proxy, `broker` is whom the proxy shall connect to. `is_wanted` turns false when
    /// the connection is of no use any more.
    pub(super) fn open(
        address: &Address,
        broker: Option<&Address>,
        options: &Arc<PulsarOptions>,
        runtime: &Arc<dyn Runtime>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Self, Lost> {
        let socket = connect(address).map_err(|why| failed(address, &why))?;
        let stream = secured(socket, address, options, &**runtime, is_wanted)?;
        let now = runtime.elapsed();
        let mut connection = Self {
            address: address.clone(),
            stream,
            options: options.clone(),
            runtime: runtime.clone(),
            buffer: vec![0; BUFFER_BYTES],
            held: 0..0,
            frame_bytes_max: HELLO_BYTES_MAX,
            out: Vec::new(),
            request: 0,
            heard: now,
            said: now,
            token: None,
        };
        connection.hello(broker, is_wanted)?;
        Ok(connection)
    }

    fn hello(&mut self, broker: Option<&Address>, is_wanted: &dyn Fn() -> bool) -> Result<(), Lost> {
        let token = self.token()?;
        let connect = Connect {
            client_version: concat!("forebay ", env!("CARGO_PKG_VERSION")).into(),
            auth_method_name: Some(self.method(token.is_some()).into()),
            auth_data: token,
            protocol_version: Some(PROTOCOL_VERSION),
            proxy_to_broker_url: broker.map(Address::authority),
            feature_flags: Some(FeatureFlags {
                supports_auth_refresh: Some(true),
                supports_partitions_without_creation: Some(true),
            }),
        };
        self.say(&Command { kind: Kind::Connect as i32, connect: Some(connect), ..Command::default() })?;
        let answer = self.wait(is_wanted, |command| match command.kind() {
            Kind::Connected | Kind::Error => Some(command),
            _ => None,
        })?;
        let Some(connected) = answer.connected else {
            let refusal = answer.error.unwrap_or_default();
            let why = super::errors::words(refusal.error, &refusal.message);
            if refusal.error == error::AUTHENTICATION {
                self.refused();
            }
            return Err(match refusal.error {
                error::AUTHENTICATION | error::AUTHORIZATION | error::UNSUPPORTED_VERSION => {
                    Lost::Denied { address: self.address.authority(), why }
                }
                _ => self.failed(&why),
            });
        };
        if connected.protocol_version.unwrap_or_default() < PROTOCOL_VERSION {
            let why = format!(
                "Pulsar `{}` speaks version `{}` of the protocol, and `{PROTOCOL_VERSION}` is needed (Pulsar 2.10)",
                connected.server_version,
                connected.protocol_version.unwrap_or_default()
            );
            return Err(Lost::Denied { address: self.address.authority(), why });
        }
        let message = connected.max_message_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let message = message.filter(|bytes| *bytes > 0).unwrap_or(MESSAGE_BYTES_USUAL);
        self.frame_bytes_max = message.min(MESSAGE_BYTES_MAX) + METADATA_BYTES_MAX;
        Ok(())
    }

    /// How we log in. A broker looks at a client's certificate only if it is told to.
    fn method(&self, has_token: bool) -> &'static str {
        let has_certificate = self.options.tls.as_ref().is_some_and(|tls| tls.identity.is_some());
        match (has_token, has_certificate) {
            (true, _) => TOKEN_METHOD,
            (false, true) => CERTIFICATE_METHOD,
            (false, false) => NO_METHOD,
        }
    }

    /// The broker does not take the token of the last login (any more).
    fn refused(&mut self) {
        if let (Some(source), Some(token)) = (&self.options.token, self.token.take()) {
            source.refused(&token);
        }
    }

    /// The token to log in with, if there is one.
    fn token(&mut self) -> Result<Option<Vec<u8>>, Lost> {
        let Some(source) = &self.options.token else { return Ok(None) };
        let token = source.get(self.runtime.wall_ms()).map_err(|why| match why {
            TokenError::Away(why) => self.failed(&why),
            TokenError::Refused(why) => Lost::NoToken(why),
        })?;
        self.token = Some(token.clone());
        Ok(Some(token.into_bytes()))
    }

    /// A number for a request or a consumer that this connection has not had.
    pub(super) fn number(&mut self) -> u64 {
        self.request += 1;
        self.request
    }

    /// Sends a command.
    pub(super) fn say(&mut self, command: &Command) -> Result<(), Lost> {
        self.out.clear();
        frame::write(&mut self.out, command);
        self.send()
    }

    /// Sends a command with an entry.
    pub(super) fn say_entry(
        &mut self,
        command: &Command,
        metadata: &[u8],
        payload: &[u8],
    ) -> Result<(), Lost> {
        self.out.clear();
        frame::write_entry(&mut self.out, command, metadata, payload);
        self.send()
    }

    fn send(&mut self) -> Result<(), Lost> {
        let sent = self.stream.write_all(&self.out).and_then(|()| self.stream.flush());
        sent.map_err(|why| failed(&self.address, &why))?;
        self.said = self.runtime.elapsed();
        Ok(())
    }

    /// Shows the broker that we live, if it is time to. Call it at least every few seconds while nothing else is called.
    pub(super) fn live(&mut self) -> Result<(), Lost> {
        if self.runtime.elapsed().saturating_sub(self.said) >= SIGN_EVERY {
            self.say(&frame::ping())?;
        }
        Ok(())
    }

    /// Asks, and waits for the answer that `wanted` takes. What else comes is dropped.
    pub(super) fn ask<T>(
        &mut self,
        command: &Command,
        is_wanted: &dyn Fn() -> bool,
        wanted: impl FnMut(Command) -> Option<T>,
    ) -> Result<T, Lost> {
        self.say(command)?;
        self.wait(is_wanted, wanted)
    }

    /// Waits for a command that `wanted` takes.
    pub(super) fn wait<T>(
        &mut self,
        is_wanted: &dyn Fn() -> bool,
        mut wanted: impl FnMut(Command) -> Option<T>,
    ) -> Result<T, Lost> {
        let until = self.runtime.elapsed() + ANSWER_WAIT_MAX;
        loop {
            if !is_wanted() {
                return Err(Lost::Closed);
            }
            if self.runtime.elapsed() > until {
                return Err(self.failed(&format!("no answer within {ANSWER_WAIT_MAX:?}")));
            }
            if let Some(frame) = self.receive()?
                && let Frame::Command(command) = self.read(frame)?
                && let Some(answer) = wanted(*command)
            {
                return Ok(answer);
            }
        }
    }

    /// Where the next frame lies, which [`read`](Self::read) then reads; `None` if none comes within a moment. Answers what a broker asks
    /// of every client by itself. A frame is valid until the next call.
    pub(super) fn receive(&mut self) -> Result<Option<Range<usize>>, Lost> {
        loop {
            let Some(frame) = self.next_frame()? else {
                if !self.fill()? {
                    let silence = self.runtime.elapsed().saturating_sub(self.heard);
                    if silence > SILENCE_MAX {
                        return Err(self.failed(&format!("the broker has not answered for {silence:?}")));
                    }
                    self.live()?;
                    return Ok(None);
                }
                continue;
            };
            match kind(&self.buffer[frame.clone()]) {
                Some(Kind::Ping) => self.say(&frame::pong())?,
                Some(Kind::Pong) => {}
                Some(Kind::AuthChallenge) => self.renew()?,
                _ => return Ok(Some(frame)),
            }
        }
    }

    /// True if a frame is at hand, so that [`receive`](Self::receive) does not wait.
    pub(super) fn has_frame(&self) -> bool {
        let held = &self.buffer[self.held.clone()];
        held.first_chunk()
            .is_some_and(|length| held.len() - PREFIX_BYTES >= u32::from_be_bytes(*length) as usize)
    }

    /// A frame that [`receive`](Self::receive) gave.
    pub(super) fn read(&self, frame: Range<usize>) -> Result<Frame<'_>, Lost> {
        frame::read(&self.buffer[frame]).map_err(|why| self.failed(&why))
    }

    /// Cuts a whole frame off what was received.
    fn next_frame(&mut self) -> Result<Option<Range<usize>>, Lost> {
        let held = &self.buffer[self.held.clone()];
        let Some(length) = held.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length < PREFIX_BYTES || length > self.frame_bytes_max {
            let why =
                format!("a frame of `{length}` bytes, and at most `{}` are taken", self.frame_bytes_max);
            return Err(self.failed(&why));
        }
        if held.len() - PREFIX_BYTES < length {
            return Ok(None);
        }
        let from = self.held.start + PREFIX_BYTES;
        self.held.start = from + length;
        Ok(Some(from..from + length))
    }

    /// Receives what there is; false if nothing came.
    fn fill(&mut self) -> Result<bool, Lost> {
        self.make_room();
        match self.stream.read(&mut self.buffer[self.held.end..]) {
            Ok(0) => Err(self.failed(&"the broker closed the connection")),
            Ok(count) => {
                self.held.end += count;
                self.heard = self.runtime.elapsed();
                Ok(true)
            }
            Err(error) if is_pause(&error) => Ok(false),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Moves what is held to the buffer's begin, and makes the buffer as long as the frame that it begins with.
    fn make_room(&mut self) {
        if self.held.start > 0 {
            self.buffer.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        let held = &self.buffer[self.held.clone()];
        let frame =
            held.first_chunk().map_or(0, |length| u32::from_be_bytes(*length) as usize + PREFIX_BYTES);
        if frame > self.buffer.len() {
            self.buffer.resize(frame, 0);
        } else if self.buffer.len() > BUFFER_KEPT_MAX && frame.max(self.held.len()) <= BUFFER_BYTES {
            self.buffer.truncate(BUFFER_BYTES);
            self.buffer.shrink_to_fit();
        }
    }

    /// The broker says that our token has expired, and asks for another.
    fn renew(&mut self) -> Result<(), Lost> {
        self.refused();
        let token = self.token()?;
        let response = AuthResponse {
            client_version: Some(concat!("forebay ", env!("CARGO_PKG_VERSION")).into()),
            response: Some(AuthData {
                method: Some(self.method(token.is_some()).into()),
                data: Some(token.unwrap_or_default()),
            }),
            protocol_version: Some(PROTOCOL_VERSION),
        };
        let kind = Kind::AuthResponse as i32;
        self.say(&Command { kind, auth_response: Some(response), ..Command::default() })
    }

    /// An error with this connection's address.
    pub(super) fn failed(&self, why: &dyn std::fmt::Display) -> Lost {
        failed(&self.address, why)
    }
}

/// The kind of a frame's command, if it says so first, as all brokers write it.
fn kind(frame: &[u8]) -> Option<Kind> {
    match frame.get(4..6)? {
        [0x08, kind] => Kind::try_from(i32::from(*kind)).ok(),
        _ => None,
    }
}

fn failed(address: &Address, why: &dyn std::fmt::Display) -> Lost {
    Lost::Failed { address: address.authority(), why: why.to_string() }
}

/// Encrypts a new connection, if that was asked for.
fn secured(
    socket: TcpStream,
    address: &Address,
    options: &PulsarOptions,
    runtime: &dyn Runtime,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Stream, Lost> {
    let Some(tls) = &options.tls else { return Ok(Stream::Clear(socket)) };
    let began = runtime.elapsed();
    let go_on = || {
        if !is_wanted() {
            return Err("nobody waits any more".to_owned());
        }
        if runtime.elapsed().saturating_sub(began) > ANSWER_WAIT_MAX {
            return Err(format!("TLS: no handshake within {ANSWER_WAIT_MAX:?}"));
        }
        Ok(())
    };
    Stream::encrypt(socket, tls, &address.host, go_on).map_err(|why| failed(address, &why))
}

/// Tries the addresses of a name in turn.
fn connect(address: &Address) -> std::io::Result<TcpStream> {
    let mut result = Err(std::io::Error::new(ErrorKind::NotFound, "the name has no address"));
    for resolved in (address.host.as_str(), address.port).to_socket_addrs()? {
        result = TcpStream::connect_timeout(&resolved, CONNECT_WAIT_MAX);
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    stream.set_write_timeout(Some(ANSWER_WAIT_MAX))?;
    Ok(stream)
}

#[cfg(test)]
mod tests;
