//! What a request is answered: the headers of ClickHouse's HTTP interface, and errors with their code and status.
//!
//! Owns the headers, this server's own error codes, and the status of each code of ClickHouse's. Does not own when something is refused:
//! the module that refuses makes the [`Failure`].

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::ffi::Answer;

/// ClickHouse's code for a body or parameter that makes no sense.
pub const BAD_ARGUMENTS: u32 = 36;
/// A compressed body that cannot be read.
pub const CANNOT_DECOMPRESS: u32 = 271;
/// A statement that does not parse, or several of them.
pub const SYNTAX_ERROR: u32 = 62;
/// A setting that does not exist.
pub const UNKNOWN_SETTING: u32 = 115;
/// Asked for what this server does not do.
pub const NOT_IMPLEMENTED: u32 = 48;
/// Two requests with one query id.
pub const QUERY_WITH_SAME_ID: u32 = 216;
/// The queue is full.
pub const TOO_MANY_QUERIES: u32 = 202;
/// A session that was asked to exist does not.
pub const SESSION_NOT_FOUND: u32 = 372;
/// A session runs one statement at a time.
pub const SESSION_IS_LOCKED: u32 = 373;
/// `session_timeout` out of bounds.
pub const INVALID_SESSION_TIMEOUT: u32 = 374;
/// A time bound was passed.
pub const TIMEOUT_EXCEEDED: u32 = 159;
/// Killed before it began.
pub const QUERY_CANCELLED: u32 = 394;
/// The token is missing or wrong.
pub const AUTHENTICATION_FAILED: u32 = 516;
/// The user has no grant.
pub const ACCESS_DENIED: u32 = 497;
/// No room for the body.
pub const MEMORY_LIMIT: u32 = 241;
/// A body beyond the bound.
pub const TOO_MANY_BYTES: u32 = 307;
/// A bug, or the operating system failed.
pub const STD_EXCEPTION: u32 = 1001;

/// An error as the client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// ClickHouse's error code.
    pub code: u32,
    /// The HTTP status.
    pub status: StatusCode,
    /// The whole body.
    pub text: String,
}

impl Failure {
    /// An error of this server, worded like the engine's.
    pub fn new(code: u32, message: &str) -> Failure {
        Failure { code, status: status_of(code), text: format!("Code: {code}. DB::Exception: {message}") }
    }

    /// A request that makes no sense.
    pub fn bad_request(message: &str) -> Failure {
        Failure::new(BAD_ARGUMENTS, message).with_status(StatusCode::BAD_REQUEST)
    }

    /// The same error under another status.
    pub fn with_status(mut self, status: StatusCode) -> Failure {
        self.status = status;
        self
    }

    /// The same error under another of ClickHouse's codes; the status stays.
    pub fn with_code(mut self, code: u32) -> Failure {
        self.text = self.text.replacen(&format!("Code: {}.", self.code), &format!("Code: {code}."), 1);
        self.code = code;
        self
    }

    /// An error in the engine's own words, which begin with its code.
    pub fn from_engine(text: String) -> Failure {
        let code = text
            .strip_prefix("Code: ")
            .and_then(|rest| rest.split('.').next())
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(STD_EXCEPTION);
        let beyond = ["READ ON", "WRITE ON", "TABLE ENGINE ON", "BACKUP ON", "NAMED COLLECTION"];
        let text = match code == ACCESS_DENIED && beyond.iter().any(|grant| text.contains(grant)) {
            true => format!("{text}; --allow-files-and-network at the server's start gives it"),
            false => text,
        };
        Failure { code, status: status_of(code), text }
    }

    /// The answer for the client.
    pub fn response(self, query_id: Option<&str>) -> Response<Body> {
        let mut response = Response::new(Body::from(self.text + "\n"));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert("content-type", HeaderValue::from_static("text/plain; charset=UTF-8"));
        headers.insert("x-clickhouse-exception-code", HeaderValue::from(self.code));
        common_headers(headers, query_id);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert("retry-after", HeaderValue::from_static("1"));
        }
        response
    }
}

/// The status that ClickHouse gives to an error code.
fn status_of(code: u32) -> StatusCode {
    match code {
        194 => StatusCode::UNAUTHORIZED,
        192 | 193 | AUTHENTICATION_FAILED => StatusCode::FORBIDDEN,
        // Text, numbers, dates and data that do not parse; the syntax tree; wrong types.
        6 | 25 | 26 | 27 | 38 | 41 | 72 | 675 | 676 | 62 | 53 | 117 | 123 | 167 | 168 | 321 => {
            StatusCode::BAD_REQUEST
        }
        INVALID_SESSION_TIMEOUT => StatusCode::BAD_REQUEST,
        // Unknown functions, identifiers, types, tables, databases, settings, formats, engines.
        46 | 47 | 50 | 56 | 60 | 63 | 73 | 81 | 115 => StatusCode::NOT_FOUND,
        159 => StatusCode::REQUEST_TIMEOUT,
        381 => StatusCode::LENGTH_REQUIRED,
        48 => StatusCode::NOT_IMPLEMENTED,
        209 | 439 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What an answer's headers tell beside its body.
pub struct About<'a> {
    /// The query's id, given or made.
    pub query_id: &'a str,
    /// The format of the body.
    pub format: &'a str,
    /// `gzip`, `zstd` or `lz4`, if the body is compressed so.
    pub encoding: Option<&'static str>,
    /// The counters; their body is already taken.
    pub counts: &'a Answer,
}

/// A good answer with `body`.
pub fn success(body: Vec<u8>, about: &About<'_>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static(content_type(about.format)));
    put(headers, "x-clickhouse-format", about.format);
    put(headers, "x-clickhouse-summary", &summary(about.counts));
    if let Some(encoding) = about.encoding {
        headers.insert("content-encoding", HeaderValue::from_static(encoding));
    }
    common_headers(headers, Some(about.query_id));
    response
}

/// A plain text such as `Ok.`
pub fn plain(text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert("content-type", HeaderValue::from_static("text/html; charset=UTF-8"));
    common_headers(response.headers_mut(), None);
    response
}

fn common_headers(headers: &mut HeaderMap, query_id: Option<&str>) {
    headers.insert("x-clickhouse-server-display-name", HeaderValue::from_static("chdb-server"));
    if let Some(id) = query_id {
        put(headers, "x-clickhouse-query-id", id);
    }
}

/// Sets a header, unless the value holds bytes that a header cannot carry.
fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Numbers as strings, as ClickHouse writes them.
fn summary(counts: &Answer) -> String {
    let nanoseconds = (counts.elapsed_s.max(0.0) * 1e9) as u64;
    let fields = [
        ("read_rows", counts.read_rows),
        ("read_bytes", counts.read_bytes),
        ("written_rows", counts.written_rows),
        ("written_bytes", counts.written_bytes),
        ("total_rows_to_read", counts.read_rows),
        ("result_rows", counts.result_rows),
        ("result_bytes", counts.result_bytes),
        ("elapsed_ns", nanoseconds),
    ];
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":\"{value}\"")).collect();
    format!("{{{}}}", fields.join(","))
}

fn content_type(format: &str) -> &'static str {
    match format {
        "JSON" | "JSONStrings" | "JSONCompact" | "JSONCompactStrings" | "JSONColumnsWithMetadata" => {
            "application/json; charset=UTF-8"
        }
        "JSONEachRow" | "JSONLines" | "NDJSON" | "JSONCompactEachRow" | "JSONStringsEachRow" => {
            "application/x-ndjson; charset=UTF-8"
        }
        "CSV" | "CSVWithNames" | "CSVWithNamesAndTypes" => "text/csv; charset=UTF-8; header=absent",
        "TabSeparated"
        | "TSV"
        | "TabSeparatedWithNames"
        | "TabSeparatedWithNamesAndTypes"
        | "TabSeparatedRaw"
        | "TSVRaw"
        | "TSVWithNames"
        | "TSVWithNamesAndTypes" => "text/tab-separated-values; charset=UTF-8",
        "Native"
        | "RowBinary"
        | "RowBinaryWithNames"
        | "RowBinaryWithNamesAndTypes"
        | "Parquet"
        | "Arrow"
        | "ArrowStream"
        | "ORC"
        | "Avro"
        | "Protobuf"
        | "MsgPack"
        | "BSONEachRow" => "application/octet-stream",
        "XML" => "application/xml; charset=UTF-8",
        _ => "text/plain; charset=UTF-8",
    }
}

#[cfg(test)]
mod tests;
