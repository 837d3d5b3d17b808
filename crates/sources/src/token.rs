//! Tokens that a broker lets us in by: where they come from and how long they hold.
//!
//! Owns reading a token from a file or a command and its expiry; `issuer` asks for one over HTTP. Does not own checking it: the broker does.

mod issuer;

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

pub use issuer::{Issuer, IssuerOptions};

/// A token that takes longer to get is as good as none; the next attempt comes by itself.
const COMMAND_WAIT_MAX: Duration = Duration::from_secs(30);
/// Larger than any token that a broker takes in a header.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// For tokens that do not say when they expire.
const LIFETIME_MS: i64 = 300_000;

/// Where a token comes from. It is asked for at each login: librdkafka does at about 80 % of its life, a Pulsar broker when it has expired.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// The content of a file, kept fresh by somebody else (Kubernetes, Vault).
    File(String),
    /// What a command prints; its words, not a shell's line.
    Command(Vec<String>),
    /// What an issuer of OAuth 2.0 gives to a client; kept while it is good.
    Issuer(Arc<Issuer>),
}

/// Why there is no token. It holds no secret, and leaves it to the caller to name the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// There may be one later.
    #[error("{0}")]
    Away(String),
    /// There is none before the settings are changed, and which.
    #[error("{0}")]
    Refused(String),
}

impl std::fmt::Debug for TokenSource {
    /// Shows a command's program alone: its arguments may hold a client's secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Command(words) => f.debug_tuple("Command").field(&words.first()).finish_non_exhaustive(),
            Self::Issuer(issuer) => write!(f, "Issuer({issuer})"),
        }
    }
}

impl std::fmt::Display for TokenSource {
    /// Names the place for a message, without a command's arguments.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "file `{path}`"),
            Self::Command(words) => write!(f, "command `{}`", words.first().map_or("", String::as_str)),
            Self::Issuer(issuer) => issuer.fmt(f),
        }
    }
}

/// A token, never shown.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) value: String,
    pub(crate) principal: String,
    /// Unix milliseconds.
    pub(crate) expires_ms: i64,
}

impl TokenSource {
    /// Gets a token now.
    pub(crate) fn get(&self, now_ms: i64) -> Result<Token, TokenError> {
        let value = match self {
            Self::File(path) => std::fs::File::open(path).and_then(read).map_err(|error| error.to_string()),
            Self::Command(words) => command(words),
            Self::Issuer(issuer) => return issuer.get(now_ms),
        };
        let value = value.map_err(TokenError::Away)?;
        if value.is_empty() {
            return Err(TokenError::Away("the token is empty".into()));
        }
        let claims = claims(&value);
        let expires_ms = claims.as_ref().and_then(expires_ms).unwrap_or(now_ms + LIFETIME_MS);
        Ok(Token { value, principal: principal(claims.as_ref()), expires_ms })
    }
}

impl TokenSource {
    /// A broker does not take `token` (any more): what is kept of it is not given again.
    pub(crate) fn refused(&self, token: &str) {
        if let Self::Issuer(issuer) = self {
            issuer.refused(token);
        }
    }
}

/// When a token ends by its claims, in Unix milliseconds.
fn expires_ms(claims: &serde_json::Value) -> Option<i64> {
    claims.get("exp").and_then(serde_json::Value::as_f64).map(|seconds| (seconds * 1_000.0) as i64)
}

/// Whom a token is for by its claims.
fn principal(claims: Option<&serde_json::Value>) -> String {
    let subject = claims.and_then(|claims| claims.get("sub")).and_then(serde_json::Value::as_str);
    subject.unwrap_or("forebay").to_owned()
}

fn read(from: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    from.take(TOKEN_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

fn command(words: &[String]) -> Result<String, String> {
    let [program, arguments @ ..] = words else { return Err("the token's command is empty".into()) };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let stdout = child.stdout.take().ok_or("the token's command has no output")?;
    let (done, output) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // The one who waits may have given up.
        let _ = done.send(read(stdout));
    });
    let Ok(text) = output.recv_timeout(COMMAND_WAIT_MAX) else {
        // It may have ended by itself in between; either way it is waited for, so that none stays behind.
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("it took longer than `{}` s", COMMAND_WAIT_MAX.as_secs()));
    };
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("it failed: {status}"));
    }
    text.map_err(|error| error.to_string())
}

/// The middle part of a JWT, if the token is one.
fn claims(token: &str) -> Option<serde_json::Value> {
    serde_json::from_slice(&base64url(token.split('.').nth(1)?)?).ok()
}

/// Base64 of URLs, without padding.
fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests;
