//! The token that a client must know.
//!
//! Owns the token, where a request may carry it, and the comparison. Does not own which paths ask for it (`http`), nor what a statement may
//! do once it is in (`gate`).
//!
//! Each start draws a new one, unless it is given one or told to ask for none. Clients present it as they present
//! ClickHouse's password, so that none of them must know about it:
//!
//! | where                           | by whom                                |
//! |---------------------------------|----------------------------------------|
//! | `X-ClickHouse-Key: TOKEN`       | ClickHouse's own clients               |
//! | `Authorization: Basic …`        | `curl --user default:TOKEN`, browsers  |
//! | `?password=TOKEN`               | links, JDBC                            |
//!
//! The user's name is not inspected.

use std::fmt;
use std::io::Read;

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::request::percent_decoded;
use crate::response::{AUTHENTICATION_FAILED, Failure};

/// Bytes drawn for a token: 128 bits cannot be guessed.
const DRAWN_BYTES: usize = 16;

/// Which token a server asks for.
#[derive(Clone, Default)]
pub enum Token {
    /// A new one at each start.
    #[default]
    Drawn,
    /// This one.
    Given(String),
    /// None: whoever reaches the port may do everything.
    Off,
}

/// The token of a running server.
#[derive(Clone)]
pub struct Guard {
    token: Option<String>,
}

impl Guard {
    /// Draws the token where that is asked for.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn new(token: &Token) -> std::io::Result<Guard> {
        let token = match token {
            Token::Drawn => Some(drawn()?),
            Token::Given(text) => Some(text.clone()),
            Token::Off => None,
        };
        Ok(Guard { token })
    }

    /// The token; `None` if the server asks for none.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Lets a request in that presents the token.
    ///
    /// # Errors
    /// Code 516 for every other one.
    pub fn check(&self, query_string: &str, headers: &HeaderMap) -> Result<(), Failure> {
        let Some(token) = &self.token else { return Ok(()) };
        // Every presented one is compared, so that the time taken does not tell which was right.
        let right = presented(query_string, headers)
            .iter()
            .fold(false, |right, one| same(token.as_bytes(), one) | right);
        if right {
            return Ok(());
        }
        Err(Failure::new(
            AUTHENTICATION_FAILED,
            "default: Authentication failed: this server asks for the token that it printed at its start; give it as \
             `password`, in the header `X-ClickHouse-Key`, or as the password of basic authentication. \
             (AUTHENTICATION_FAILED)",
        ))
    }
}

/// Every secret that a request carries.
fn presented(query_string: &str, headers: &HeaderMap) -> Vec<Vec<u8>> {
    let parameters = query_string
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .filter(|(name, _)| percent_decoded(name).is_ok_and(|name| name == "password"))
        .filter_map(|(_, value)| percent_decoded(value).ok().map(String::into_bytes));
    let keys = headers.get_all("x-clickhouse-key").iter().map(|value| value.as_bytes().to_vec());
    let logins = headers.get_all(header::AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, packed) = value.to_str().ok()?.split_once(' ')?;
        let login = STANDARD.decode(packed.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
        let colon = login.iter().position(|byte| *byte == b':')?;
        Some(login[colon + 1..].to_vec())
    });
    parameters.chain(keys).chain(logins).collect()
}

/// Compares without stopping at the first difference. The length of the token is no secret.
fn same(token: &[u8], presented: &[u8]) -> bool {
    token.len() == presented.len()
        && token.iter().zip(presented).fold(0, |differs, (left, right)| differs | (left ^ right)) == 0
}

fn drawn() -> std::io::Result<String> {
    let mut bytes = [0; DRAWN_BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Token::Drawn => "Drawn",
            Token::Given(_) => "Given(***)",
            Token::Off => "Off",
        })
    }
}

#[cfg(test)]
mod tests;
