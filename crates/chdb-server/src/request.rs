//! What a request asks: its query string and headers, read once into one value. Pure.
//!
//! Owns the names of parameters and headers, and that a request of `GET` changes nothing. Does not own whether a setting exists
//! (`settings`) or the password (`auth`).
//!
//! Parameters of the HTTP interface, settings of the engine and `param_*` substitutions share one query string; this
//! module keeps them apart.

use axum::http::{HeaderMap, Method};

use crate::response::Failure;

/// Everything that a request says beside its body.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Asked {
    /// SQL from the query string; the body follows it after a line end.
    pub query: String,
    /// The current database, if not the default one.
    pub database: Option<String>,
    /// The client's name for the query.
    pub query_id: Option<String>,
    /// The session to run in.
    pub session: Option<SessionAsked>,
    /// Format of answers to statements that name none.
    pub default_format: Option<String>,
    /// The body is framed in ClickHouse's compressed blocks.
    pub decompress: bool,
    /// The answer is to be framed in ClickHouse's compressed blocks.
    pub compress: bool,
    /// Settings, in the order given.
    pub settings: Vec<(String, String)>,
    /// Substitutions `{name:Type}`.
    pub parameters: Vec<(String, String)>,
}

/// `session_id`, `session_timeout` and `session_check`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SessionAsked {
    /// The client's name for it.
    pub id: String,
    /// Seconds of rest after which it is dropped; 1 to 3600.
    pub timeout_s: u64,
    /// Refuse to make it if it does not exist.
    pub must_exist: bool,
}

/// Longest rest of a session, the same as a real server's `max_session_timeout`.
const SESSION_TIMEOUT_S_MAX: u64 = 3600;
const SESSION_TIMEOUT_S_DEFAULT: u64 = 60;
/// Longest names that are kept while a request runs.
const ID_BYTES_MAX: usize = 1024;

/// Reads the query string and headers of a request.
pub fn read(method: &Method, query_string: &str, headers: &HeaderMap) -> Result<Asked, Failure> {
    let mut asked = Asked::default();
    let (mut session_id, mut session_timeout, mut session_check) = (None, None, None);
    for pair in query_string.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (percent_decoded(name)?, percent_decoded(value)?);
        match name.as_str() {
            "query" => asked.query.push_str(&value),
            "database" => asked.database = Some(value).filter(|name| !name.is_empty()),
            "query_id" => asked.query_id = Some(value).filter(|id| !id.is_empty()),
            "default_format" => asked.default_format = Some(value).filter(|format| !format.is_empty()),
            "session_id" => session_id = Some(value).filter(|id| !id.is_empty()),
            "session_timeout" => session_timeout = Some(value),
            "session_check" => session_check = Some(value),
            "decompress" => asked.decompress = flag(&name, &value)?,
            "compress" => asked.compress = flag(&name, &value)?,
            // Nothing to do: the password is `auth`'s, users are not inspected, and every answer is complete before its first byte is sent.
            "user"
            | "password"
            | "quota_key"
            | "role"
            | "stacktrace"
            | "buffer_size"
            | "wait_end_of_query"
            | "client_protocol_version"
            | "close_session"
            | "http_write_exception_in_output_format" => {}
            _ => match name.strip_prefix("param_") {
                Some(parameter) => asked.parameters.push((parameter.to_owned(), value)),
                None => asked.settings.push((name, value)),
            },
        }
    }
    from_headers(&mut asked, headers);
    if let Some(id) = session_id {
        asked.session = Some(SessionAsked {
            id,
            timeout_s: timeout(session_timeout.as_deref())?,
            must_exist: session_check.as_deref() == Some("1"),
        });
    }
    short_enough("query_id", asked.query_id.as_deref())?;
    short_enough("session_id", asked.session.as_ref().map(|session| session.id.as_str()))?;
    if *method == Method::GET || *method == Method::HEAD {
        only_reads(&mut asked.settings);
    }
    Ok(asked)
}

/// A link that somebody clicks changes nothing, whatever it says: only 1, which allows still less than 2, is left to it. The
/// setting goes last, since nothing can be set any more behind it.
fn only_reads(settings: &mut Vec<(String, String)>) {
    let strict = settings.iter().any(|(name, value)| name == "readonly" && value == "1");
    settings.retain(|(name, _)| name != "readonly");
    settings.push(("readonly".to_owned(), if strict { "1" } else { "2" }.to_owned()));
}

fn from_headers(asked: &mut Asked, headers: &HeaderMap) {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    asked.database = asked.database.take().or_else(|| text("x-clickhouse-database"));
    asked.default_format = asked.default_format.take().or_else(|| text("x-clickhouse-format"));
    asked.query_id = asked.query_id.take().or_else(|| text("x-clickhouse-query-id"));
}

fn short_enough(name: &str, value: Option<&str>) -> Result<(), Failure> {
    match value {
        Some(value) if value.len() > ID_BYTES_MAX || value.contains(['\0', '\n']) => Err(
            Failure::bad_request(&format!("`{name}` must be at most {ID_BYTES_MAX} bytes without line ends")),
        ),
        _ => Ok(()),
    }
}

fn flag(name: &str, value: &str) -> Result<bool, Failure> {
    match value {
        "1" | "true" => Ok(true),
        "0" | "false" | "" => Ok(false),
        _ => Err(Failure::bad_request(&format!("`{name}` is 0 or 1, not `{value}`"))),
    }
}

fn timeout(value: Option<&str>) -> Result<u64, Failure> {
    let Some(value) = value else { return Ok(SESSION_TIMEOUT_S_DEFAULT) };
    value.parse().ok().filter(|seconds| (1..=SESSION_TIMEOUT_S_MAX).contains(seconds)).ok_or_else(|| {
        Failure::new(
            crate::response::INVALID_SESSION_TIMEOUT,
            &format!("`session_timeout` is 1 to {SESSION_TIMEOUT_S_MAX} seconds, not `{value}`"),
        )
    })
}

/// Undoes `%41` and `+`. Bytes that are no UTF-8 are refused, since every name and SQL text must be.
pub fn percent_decoded(text: &str) -> Result<String, Failure> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let (byte, left) = match (first, tail) {
            (b'+', _) => (b' ', tail),
            (b'%', [high, low, left @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, left),
                _ => (b'%', tail),
            },
            _ => (*first, tail),
        };
        bytes.push(byte);
        rest = left;
    }
    String::from_utf8(bytes).map_err(|_| Failure::bad_request("the query string is not UTF-8"))
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests;
