//! The HTTP client: one question, or one attempt at one insert.
//!
//! Owns connections, headers, settings of the request and the release of an insert's last bytes. Does not own the meaning of
//! answers ([`crate::response`]), retries (`engine::deliver`) or statements ([`crate::checks`], [`crate::table`]).
//!
//! The password travels in a header, never in an address, and is taken out of every text that comes back.

mod insert;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataflow::{Remedy, Runtime, TableFault};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Response, Url};
use serde::de::DeserializeOwned;

pub use insert::Insert;

use crate::config::{Secret, ServerConfig};
use crate::response::{self, MESSAGE_CHARS_MAX};
use crate::types::shorten;

/// Names with their values.
type Named<'a> = &'a [(&'a str, &'a str)];

/// To open a connection, TLS included.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Bytes of an answer to a question. Tables of a thousand columns with their defaults stay far below.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Bytes kept of the beginning and of the end of the answer to an insert, which is empty or an error. What stands between them are values that the
/// server quotes, whole: of a row that a constraint refuses as many as the row has.
const INSERT_ANSWER_BYTES_MAX: usize = 64 << 10;

/// A question that the user may not ask is asked again after so long: a grant shows within ten minutes.
const ASK_AGAIN: Duration = Duration::from_secs(600);
/// Numbers of 64 bits as numbers.
const JSON_NUMBERS: (&str, &str) = ("output_format_json_quote_64bit_integers", "0");
/// Tuples as arrays, whatever names their fields have.
const JSON_TUPLES: (&str, &str) = ("output_format_json_named_tuples_as_objects", "0");

/// Why a question has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct QueryError {
    /// `Resend` if it is worth asking again, `Stop` if an operator is needed.
    pub remedy: Remedy,
    /// The server's code; 0 if it gave none.
    pub code: i32,
    /// What went wrong.
    pub kind: TableFault,
    /// The whole sentence; no secrets.
    pub message: String,
}

impl QueryError {
    fn new(remedy: Remedy, kind: TableFault, message: String) -> Self {
        Self { remedy, code: 0, kind, message }
    }
}

/// A client of one server.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: Url,
    password: Secret,
    runtime: Arc<dyn Runtime>,
    config: ServerConfig,
    /// Questions that this user may not ask, and when that was found out; there are three such questions.
    denied: Arc<Mutex<BTreeMap<String, Duration>>>,
    /// Settings that the server refuses to set, and when that was found out.
    unsettable: Arc<Mutex<BTreeMap<&'static str, Duration>>>,
    /// What the server that answered the newest question calls itself.
    answered_by: Arc<Mutex<Option<String>>>,
}

/// What the server that answers calls itself; a proxy may drop it.
fn display_name(answer: &Response) -> Option<String> {
    let name = answer.headers().get("x-clickhouse-server-display-name")?.to_str().ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}

impl Client {
    /// A client for the server of `config`. Opens no connection yet.
    pub fn new(config: ServerConfig, runtime: Arc<dyn Runtime>) -> Result<Self, QueryError> {
        Self::build(config, runtime, true)
    }

    /// The same server, with a new connection for each request: behind a balancer they may reach different nodes.
    pub fn without_kept_connections(&self) -> Result<Self, QueryError> {
        Self::build(self.config.clone(), self.runtime.clone(), false)
    }

    fn build(config: ServerConfig, runtime: Arc<dyn Runtime>, keep: bool) -> Result<Self, QueryError> {
        let stop = |message: String| QueryError::new(Remedy::Stop, TableFault::Request, message);
        let url = Url::parse(&config.url).map_err(|e| stop(format!("`url` is not an address: {e}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(stop("`url` holds a user or a password; put them into `user` and `password`".into()));
        }
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() {
            return Err(stop("`url` must be `http://host:port` or `https://host:port` without `?…`".into()));
        }
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another part of the process may win the race; any provider serves.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .default_headers(headers(&config).map_err(stop)?)
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(if keep { 16 } else { 0 })
            // Old servers close idle connections after 3 s; one that closes while we write costs an attempt.
            .pool_idle_timeout(Duration::from_secs(2))
            .http1_only();
        if config.ca_pem.is_some() || url.scheme() == "http" {
            // A machine without certificates of its own may still speak http.
            let pem = config.ca_pem.as_deref().unwrap_or_default();
            let certificates = reqwest::Certificate::from_pem_bundle(pem).unwrap_or_default();
            if config.ca_pem.is_some() && certificates.is_empty() {
                return Err(stop("`ca` holds no certificates in PEM form".into()));
            }
            builder = builder.tls_certs_only(certificates);
        }
        if is_this_machine(&url) {
            // A proxy of the environment would see the password, and could not reach this machine's loopback.
            builder = builder.no_proxy();
        }
        let http =
            builder.build().map_err(|e| stop(format!("the http client cannot be made: {}", chain(&e))))?;
        let (denied, unsettable) = Default::default();
        let (password, answered_by) = (config.password.clone(), Arc::default());
        Ok(Self { http, url, password, runtime, config, denied, unsettable, answered_by })
    }

    /// The server's address, for messages.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// What the server that answered the newest question calls itself (its `display_name`); `None` if the answer did not say.
    pub fn answered_by(&self) -> Option<String> {
        self.answered_by.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Clock and threads.
    pub(crate) fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    /// This machine's clock, Unix milliseconds.
    pub fn wall_ms(&self) -> i64 {
        self.runtime.wall_ms()
    }

    /// The same clock without the steps that it made since the process began ([`Runtime::steady_ms`]).
    pub fn steady_ms(&self) -> i64 {
        self.runtime.steady_ms()
    }

    /// Asks `sql` and gives the body of the answer. `settings` are ClickHouse's; `params` fill `{name:Type}`.
    pub async fn query(
        &self,
        sql: &str,
        settings: &[(&str, &str)],
        params: &[(&str, &str)],
    ) -> Result<String, QueryError> {
        let answer = self.answer(sql, (settings, params), ANSWER_BYTES_MAX, of_question).await?;
        Ok(text(answer))
    }

    /// Has `sql` make something that is not there, such as a table, with these settings of ClickHouse.
    ///
    /// # Errors
    /// `Stop` when the server refuses to; `Resend` while it cannot, or does not answer.
    pub async fn make(&self, sql: &str, settings: &[(&str, &str)]) -> Result<(), QueryError> {
        self.answer(sql, (settings, &[]), ANSWER_BYTES_MAX, response::classify_making).await.map(drop)
    }

    /// As [`Client::query`], for an answer of at most `bytes_max` bytes, which are given as they came.
    ///
    /// # Errors
    /// As [`Client::query`]; of the kind `too_long` for an answer that is longer.
    pub async fn query_bytes(
        &self,
        sql: &str,
        settings: &[(&str, &str)],
        bytes_max: usize,
    ) -> Result<Vec<u8>, QueryError> {
        self.answer(sql, (settings, &[]), bytes_max, of_question).await
    }

    async fn answer(
        &self,
        sql: &str,
        (settings, params): (Named<'_>, Named<'_>),
        bytes_max: usize,
        classify: Classify,
    ) -> Result<Vec<u8>, QueryError> {
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("wait_end_of_query", "1")
            .extend_pairs(settings)
            .extend_pairs(params.iter().map(|(name, value)| (format!("param_{name}"), value)));
        let asked = async {
            let answer = self.send_query(url, sql).await.map_err(|e| {
                let what = if e.is_connect() { "no connection" } else { "no answer" };
                let text = self.of_server(&format!("{what}: {}", self.clean(e)));
                QueryError::new(Remedy::Resend, TableFault::Connection, text)
            })?;
            self.read_answer(answer, bytes_max, classify).await
        };
        match self.runtime.timeout(self.config.query_timeout, asked).await {
            Some(result) => result,
            None => {
                let seconds = self.config.query_timeout.as_secs_f64();
                let what = format!("no answer within {seconds} s to `{}`", shorten(sql, 100));
                let text = self.of_server(&what);
                Err(QueryError::new(Remedy::Resend, TableFault::Timeout, text))
            }
        }
    }

    /// Sends a question; one that only reads is sent again when its connection broke: the server may have closed a kept
    /// connection just when it was taken.
    async fn send_query(&self, url: Url, sql: &str) -> reqwest::Result<Response> {
        let send = || self.http.post(url.clone()).body(sql.to_owned()).send();
        let result = send().await;
        match result {
            Err(error) if !error.is_connect() && !error.is_timeout() && only_reads(sql) => send().await,
            result => result,
        }
    }

    /// Asks `sql`, with settings of ClickHouse, and reads each row of the answer as a tuple `T`.
    pub async fn rows_with<T: DeserializeOwned>(
        &self,
        sql: &str,
        settings: &[(&str, &str)],
        params: &[(&str, &str)],
    ) -> Result<Vec<T>, QueryError> {
        let sql = format!("{sql}\nFORMAT JSONCompactEachRow");
        let mut settings = settings.to_vec();
        for own in [JSON_NUMBERS, JSON_TUPLES] {
            if !settings.iter().any(|(name, _)| *name == own.0) {
                settings.push(own);
            }
        }
        let body = self.query(&sql, &settings, params).await?;
        body.lines().filter(|l| !l.is_empty()).map(|line| self.read_row(&sql, line)).collect()
    }

    /// As [`Client::rows_with`], for a question that always has exactly one row as its answer. Nothing is read from an answer of none: a
    /// proxy, or a setting of the user, has lost it.
    pub async fn one<T: DeserializeOwned>(
        &self,
        sql: &str,
        settings: &[(&str, &str)],
        params: &[(&str, &str)],
    ) -> Result<T, QueryError> {
        let mut rows = self.rows_with(sql, settings, params).await?;
        match (rows.pop(), rows.is_empty()) {
            (Some(row), true) => Ok(row),
            (found, _) => {
                let what = if found.is_none() { "is empty" } else { "has more than one row" };
                let text = format!(
                    "the answer {what}, to a question that always has one row: `{}`; look for a proxy, or for a setting of this user, that \
                     changes answers",
                    shorten(sql, 100)
                );
                Err(QueryError::new(Remedy::Resend, TableFault::Uncertain, text))
            }
        }
    }

    /// As [`Client::one`], or `None` if this user may not ask, or the server does not know what is asked. Then the same is not asked again
    /// for a while: the server writes every refusal into its log.
    pub async fn one_if_allowed<T: DeserializeOwned>(
        &self,
        sql: &str,
        settings: &[(&str, &str)],
        params: &[(&str, &str)],
    ) -> Result<Option<T>, QueryError> {
        let now = self.runtime.elapsed();
        let is_recent = |at: &Duration| now.saturating_sub(*at) < ASK_AGAIN;
        if self.denied.lock().unwrap_or_else(PoisonError::into_inner).get(sql).is_some_and(is_recent) {
            return Ok(None);
        }
        match self.one(sql, settings, params).await {
            Ok(row) => Ok(Some(row)),
            // Without a code it is no word of the server: a proxy has refused, or the answer is not to be read. A limit of the profile, or a login that fails,
            // says nothing of the right to ask. In all of these the answer is needed.
            Err(error)
                if error.remedy == Remedy::Stop
                    && !matches!(error.code, 0 | 192..=195 | 516)
                    && response::limits::limit(error.code, &error.message).is_none() =>
            {
                self.denied.lock().unwrap_or_else(PoisonError::into_inner).insert(sql.to_owned(), now);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Seconds after which the server gives up an insert by itself; at least 1.
    pub fn insert_seconds(&self) -> u64 {
        self.config.insert_timeout.as_secs().saturating_sub(insert::SERVER_MARGIN_S).max(1)
    }

    /// Seconds after which a question is given up; at least 1.
    pub fn question_seconds(&self) -> u64 {
        self.config.query_timeout.as_secs().max(1)
    }

    /// Settings that the server refuses to set, whatever is asked: found out lately, by the first questions.
    pub(crate) fn unsettable(&self) -> BTreeSet<&'static str> {
        let mut unsettable = self.unsettable.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.runtime.elapsed();
        unsettable.retain(|_, found| now.saturating_sub(*found) < ASK_AGAIN);
        unsettable.keys().copied().collect()
    }

    /// Notes settings that the server refuses to set.
    pub(crate) fn leave_unset(&self, names: impl IntoIterator<Item = &'static str>) {
        let now = self.runtime.elapsed();
        let mut unsettable = self.unsettable.lock().unwrap_or_else(PoisonError::into_inner);
        unsettable.extend(names.into_iter().map(|name| (name, now)));
    }

    fn read_row<T: DeserializeOwned>(&self, sql: &str, line: &str) -> Result<T, QueryError> {
        serde_json::from_str(line).map_err(|e| {
            // One that ends too early was cut off on its way.
            let (remedy, kind) = match e.is_eof() {
                true => (Remedy::Resend, TableFault::Broken),
                false => (Remedy::Stop, TableFault::Request),
            };
            let text = self.of_server(&format!(
                "the answer to `{}` cannot be read: {e}: `{}`",
                shorten(sql, 100),
                self.password.scrub(&shorten(line, 200))
            ));
            QueryError::new(remedy, kind, text)
        })
    }

    async fn read_answer(
        &self,
        answer: Response,
        bytes_max: usize,
        classify: Classify,
    ) -> Result<Vec<u8>, QueryError> {
        let status = answer.status().as_u16();
        let (code, is_the_servers) = (exception_code(&answer), is_of_clickhouse(&answer));
        *self.answered_by.lock().unwrap_or_else(PoisonError::into_inner) = display_name(&answer);
        let body = self.read_body(answer, bytes_max).await.map_err(|unread| {
            let message = self.of_server(&format!("the answer broke off: {unread}"));
            QueryError::new(Remedy::Resend, unread.kind(), message)
        })?;
        let failed = status != 200 || code.is_some_and(|c| c != 0);
        // It would read as "no rows": of a table that is looked up, of one that is verified.
        if !failed && body.is_empty() && !is_the_servers {
            return Err(QueryError::new(Remedy::Resend, TableFault::Uncertain, self.nobodys()));
        }
        if !failed {
            return Ok(body);
        }
        // Neither has an effect to speak of; only the remedy matters.
        let body = text(body);
        let seen = response::Answer { status, exception_code: code, from_clickhouse: true, body: &body };
        match classify(seen) {
            Ok(()) => Ok(body.into_bytes()),
            Err(e) => {
                let message = self.with_way(e.code, &body, &self.located(e.code, &e.message));
                let message = self.password.scrub(&message);
                Err(QueryError { code: e.code, ..QueryError::new(e.remedy, e.kind, message) })
            }
        }
    }

    /// The body, refused beyond `bytes_max`.
    async fn read_body(&self, mut answer: Response, bytes_max: usize) -> Result<Vec<u8>, Unread> {
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|e| Unread::Broken(self.clean(e)))? {
            if body.len() + piece.len() > bytes_max {
                return Err(Unread::TooLong(bytes_max));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// The beginning and the end of the body, at most `bytes_max` of each. How long it takes is bounded by whoever waits.
    async fn read_ends(&self, mut answer: Response, bytes_max: usize) -> Result<Vec<u8>, Unread> {
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        while let Some(piece) = answer.chunk().await.map_err(|e| Unread::Broken(self.clean(e)))? {
            let (first, rest) = piece.split_at(piece.len().min(bytes_max - begin.len()));
            begin.extend_from_slice(first);
            end.extend_from_slice(rest);
            if end.len() > 2 * bytes_max {
                end.drain(..end.len() - bytes_max);
            }
        }
        end.drain(..end.len().saturating_sub(bytes_max));
        begin.append(&mut end);
        Ok(begin)
    }

    /// What an empty answer is that shows no sign of the server.
    fn nobodys(&self) -> String {
        format!(
            "the answer is empty, and has none of the headers `X-ClickHouse-…` that the server at `{}` sends: something in front of it answers in its place, or \
             takes them off its answers: let them pass",
            self.url.as_str().trim_end_matches('/')
        )
    }

    /// `what` with the address of the server that it concerns. The address holds no user, no password and no query: [`Client::build`]
    /// refuses them.
    fn of_server(&self, what: &str) -> String {
        format!("server `{}`: {what}", self.url.as_str().trim_end_matches('/'))
    }

    /// `what` with the way out, if a setting of this user is what refuses in the server's `text`.
    fn with_way(&self, code: i32, text: &str, what: &str) -> String {
        match response::limits::limit(code, text) {
            Some(limit) => format!("{what}; {}", limit.way(&self.config.user)),
            None => what.to_owned(),
        }
    }

    /// As [`Client::of_server`], for an answer without ClickHouse's code: something else may have given it, at an address that is wrong.
    fn located(&self, code: i32, what: &str) -> String {
        if code == 0 { self.of_server(what) } else { what.to_owned() }
    }

    /// The error and its causes, without the address and the password.
    fn clean(&self, error: reqwest::Error) -> String {
        let text = chain(&error.without_url());
        // Said of every connection that fails; the reason follows.
        let reason = OF_ANY_CONNECTION.iter().fold(text.as_str(), |text, words| {
            text.strip_prefix(words).filter(|reason| !reason.is_empty()).unwrap_or(text)
        });
        shorten(&format!("{}{}", self.password.scrub(reason), own_limit(reason)), MESSAGE_CHARS_MAX)
    }
}

/// What an answer means.
type Classify = fn(response::Answer<'_>) -> Result<(), dataflow::InsertError>;

fn of_question(answer: response::Answer<'_>) -> Result<(), dataflow::InsertError> {
    response::classify_asking(answer)
}

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error("{0}")]
    Broken(String),
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
}

impl Unread {
    fn kind(&self) -> TableFault {
        match self {
            Self::Broken(_) => TableFault::Broken,
            Self::TooLong(_) => TableFault::TooLong,
        }
    }
}

/// An answer as a text. Bytes that are not UTF-8 are replaced: it is for messages.
fn text(body: Vec<u8>) -> String {
    String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// What the HTTP client puts before the reason of a connection that could not be opened, from the outside.
const OF_ANY_CONNECTION: &[&str] = &["error sending request: ", "client error (Connect): "];

/// Whether a statement can be asked twice without harm.
fn only_reads(sql: &str) -> bool {
    let word = sql.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    ["SELECT", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN"]
        .iter()
        .any(|reads| word.eq_ignore_ascii_case(reads))
}

/// Whether the server is this machine. A name that only resolves to it may resolve elsewhere tomorrow.
fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// What to add to the reason of a connection that fails, if neither the server nor the network is at fault.
fn own_limit(reason: &str) -> &'static str {
    if reason.contains("(os error 24)") {
        return ": this process has no file descriptor left, and the server is not at fault; raise its limit (`ulimit -n`, `LimitNOFILE=` of a unit)";
    }
    ""
}

fn headers(config: &ServerConfig) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut put = |name: &'static str, value: &str| {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("the value for the header `{name}` holds characters that no header can"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok::<(), String>(())
    };
    if !config.user.is_empty() {
        put("x-clickhouse-user", &config.user)?;
    }
    if !config.password.expose().is_empty() {
        put("x-clickhouse-key", config.password.expose())?;
    }
    Ok(headers)
}

/// Whether an answer has any header of ClickHouse, which each of its own has.
fn is_of_clickhouse(answer: &Response) -> bool {
    answer.headers().keys().any(|name| name.as_str().starts_with("x-clickhouse-"))
}

fn exception_code(answer: &Response) -> Option<i32> {
    answer.headers().get("x-clickhouse-exception-code")?.to_str().ok()?.parse().ok()
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
