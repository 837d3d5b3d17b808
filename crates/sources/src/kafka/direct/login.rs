//! Logging in on a connection, and staying logged in.
//!
//! Owns the requests `SaslHandshake` (version 1) and `SaslAuthenticate` (version 1), their answers, the order of messages, and
//! when a session must be renewed. Does not own proofs (`scram`) or the socket (`connection`). Pure.
//!
//! A broker may end sessions (`connections.max.reauth.ms`): it then closes a connection on which anything else is asked than a new
//! login. So one logs in again on the same connection, between two fetches.

use std::time::Duration;

use super::cursor::{Cursor, Malformed};
use super::scram::{Exchange, Expected, ScramError, nonce};
use super::security::{Login, Mechanism};
use super::wire::{begin, end};

const SASL_HANDSHAKE: i16 = 17;
const SASL_AUTHENTICATE: i16 = 36;
const VERSION: i16 = 1;

/// Error codes that say more in our words.
const UNSUPPORTED_MECHANISM: i16 = 33;

/// A broker takes no second login within a second.
const RENEW_AFTER_MIN: Duration = Duration::from_millis(1_100);

/// Why one is not logged in. Shows neither the password nor what is made of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LoginError {
    #[error("login by {mechanism} is refused: {why}")]
    Refused { mechanism: &'static str, why: String },
    #[error("login by {mechanism} is not known there; known are {known}")]
    Unknown { mechanism: &'static str, known: String },
    #[error("login by {mechanism}: {why}")]
    Scram { mechanism: &'static str, why: ScramError },
    #[error("login: {0}")]
    Malformed(#[from] Malformed),
}

/// Where a login stands.
enum State {
    Greeted,
    Plain,
    First(Exchange),
    Last(Expected),
}

/// What comes next.
pub(super) enum Next {
    /// This request is sent, and its answer handed to [`Dialogue::answer`].
    Send,
    /// Logged in; to be renewed after this, if ever.
    Done(Option<Duration>),
}

/// One login.
pub(super) struct Dialogue<'a> {
    login: &'a Login,
    client: &'a str,
    state: State,
}

impl<'a> Dialogue<'a> {
    /// Begins: `out` is the first request.
    pub(super) fn begin(login: &'a Login, client: &'a str, out: &mut Vec<u8>) -> Self {
        begin(out, SASL_HANDSHAKE, VERSION, 0, client);
        put_text(out, login.mechanism.name());
        end(out);
        Self { login, client, state: State::Greeted }
    }

    /// Takes the answer to the newest request; writes the next one to `out` if there is one.
    pub(super) fn answer(&mut self, answer: &[u8], out: &mut Vec<u8>) -> Result<Next, LoginError> {
        let mechanism = self.login.mechanism.name();
        let scram = |why| LoginError::Scram { mechanism, why };
        let next = match &self.state {
            State::Greeted => {
                greeted(answer, mechanism)?;
                let (message, state) = match self.login.mechanism {
                    Mechanism::Plain => (plain(self.login), State::Plain),
                    Mechanism::Scram(hash) => {
                        let exchange = Exchange::new(hash, &self.login.user, nonce().map_err(scram)?);
                        (exchange.first(), State::First(exchange))
                    }
                };
                Some((message, state))
            }
            State::Plain => {
                let granted = granted(answer, mechanism)?;
                return Ok(Next::Done(renew_after(granted.life_ms)));
            }
            State::First(exchange) => {
                let granted = granted(answer, mechanism)?;
                let (message, expected) =
                    exchange.last(granted.message, &self.login.password.0).map_err(scram)?;
                Some((message, State::Last(expected)))
            }
            State::Last(expected) => {
                let granted = granted(answer, mechanism)?;
                expected.check(granted.message).map_err(scram)?;
                return Ok(Next::Done(renew_after(granted.life_ms)));
            }
        };
        if let Some((message, state)) = next {
            begin(out, SASL_AUTHENTICATE, VERSION, 0, self.client);
            put_bytes(out, &message);
            end(out);
            self.state = state;
        }
        Ok(Next::Send)
    }
}

/// PLAIN's one message (RFC 4616): nobody else is acted for, the user, the password.
fn plain(login: &Login) -> Vec<u8> {
    [b"\0", login.user.as_bytes(), b"\0", login.password.0.as_bytes()].concat()
}

fn greeted(answer: &[u8], mechanism: &'static str) -> Result<(), LoginError> {
    let mut at = Cursor(answer);
    at.i32()?;
    let error = at.i16()?;
    if error == 0 {
        return Ok(());
    }
    if error != UNSUPPORTED_MECHANISM {
        return Err(LoginError::Refused { mechanism, why: super::errors::words(error) });
    }
    let mut known = Vec::new();
    for _ in 0..at.u32()? {
        known.push(String::from_utf8_lossy(text(&mut at)?.unwrap_or_default()).into_owned());
    }
    Err(LoginError::Unknown { mechanism, known: known.join(", ") })
}

/// What a broker grants.
struct Granted<'a> {
    message: &'a [u8],
    /// How long the session lives; 0 for ever.
    life_ms: i64,
}

fn granted<'a>(answer: &'a [u8], mechanism: &'static str) -> Result<Granted<'a>, LoginError> {
    let mut at = Cursor(answer);
    at.i32()?;
    let (error, why) = (at.i16()?, text(&mut at)?);
    if error != 0 {
        let words = || super::errors::words(error);
        // Brokers name neither password nor proof.
        let why = why.map_or_else(words, |why| String::from_utf8_lossy(why).into_owned());
        return Err(LoginError::Refused { mechanism, why });
    }
    let len = usize::try_from(at.i32()?).map_err(|_| Malformed)?;
    Ok(Granted { message: at.take(len)?, life_ms: at.i64()? })
}

/// When to log in again: early enough for a slow broker, and not so early that it is refused.
fn renew_after(life_ms: i64) -> Option<Duration> {
    let life = u64::try_from(life_ms).ok().filter(|life| *life > 0)?;
    Some(Duration::from_millis(life / 100 * 80).max(RENEW_AFTER_MIN))
}

/// A text behind its length in two bytes; `None` for a length of -1.
fn text<'a>(at: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match at.i16()? {
        -1 => Ok(None),
        len => at.take(usize::try_from(len).map_err(|_| Malformed)?).map(Some),
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let len = i16::try_from(text.len()).expect("names of mechanisms are short");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = i32::try_from(bytes.len()).expect("a pipeline file bounds names and passwords");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests;
