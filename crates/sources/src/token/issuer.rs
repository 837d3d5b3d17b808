//! Tokens of an issuer of OAuth 2.0, asked for with the credentials of a client.
//!
//! Owns the two requests (where the issuer gives tokens, and for one), what their answers mean, and the token that is kept while it is good. Does not
//! own who logs in with it, nor that a broker accepts it.
//!
//! | the issuer …                                  | what becomes of it                                                       |
//! |-----------------------------------------------|--------------------------------------------------------------------------|
//! | gives a token                                 | it is kept for three quarters of its life                                |
//! | does not answer, or is busy (408, 429, 5xx)   | the kept token if it is still good, else [`TokenError::Away`]             |
//! | refuses the client, or answers with something else | [`TokenError::Refused`]: the settings have to be changed              |
//!
//! After a failure nobody is asked for [`PAUSE`], and the failure is reported again: whoever logs in tries every half second.

use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use reqwest::{Response, StatusCode, Url};
use serde_json::Value;

use super::{LIFETIME_MS, TOKEN_BYTES_MAX, Token, TokenError, claims, principal};

/// One of the two requests, from the connection to the answer's last byte.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Both of them, and the name's resolution, which has no bound of its own.
const FETCH_MAX: Duration = Duration::from_secs(25);
/// Bytes of an answer: a token, and room for what issuers say of themselves.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Between two requests for a token, unless the last one has been used up.
const PAUSE: Duration = Duration::from_secs(5);
/// Characters of an issuer's word for a refusal; the standard's have 22.
const WORD_CHARS_MAX: usize = 40;
/// Where an issuer says what it has.
const DISCOVERY: &str = ".well-known/openid-configuration";

/// An issuer, and how a client shows who it is.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuerOptions {
    /// The issuer's address; what it has is described below it at `.well-known/openid-configuration`.
    pub issuer_url: String,
    /// The client's name there.
    pub client_id: String,
    /// Its secret.
    pub client_secret: String,
    /// For whom the token is to be, if the issuer wants to know.
    pub audience: Option<String>,
    /// What the token is to allow, if the issuer wants to know.
    pub scope: Option<String>,
    /// Certificates (PEM) that are trusted instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
}

/// An issuer, and the token that is kept.
pub struct Issuer {
    options: IssuerOptions,
    url: Url,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    token: Option<Kept>,
    /// The last failure, and when.
    failed: Option<(TokenError, i64)>,
}

struct Kept {
    token: Token,
    asked_ms: i64,
    /// From then on another one is asked for.
    renew_ms: i64,
    /// A broker does not take it.
    is_refused: bool,
}

/// What an issuer gives.
struct Answer {
    token: String,
    life_s: Option<f64>,
}

impl Issuer {
    /// An issuer that nobody has asked yet.
    ///
    /// # Errors
    /// When its address or the certificates cannot be used.
    pub fn new(options: IssuerOptions) -> Result<Self, String> {
        let url = Url::parse(&options.issuer_url)
            .map_err(|why| format!("`issuer_url` is not an address: {why}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
            return Err("`issuer_url` must be `https://host`, with a path if there is one".into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "`issuer_url` holds a user or a password; put them into `client_id` and `client_secret`"
                    .into(),
            );
        }
        let issuer = Self { options, url, held: Mutex::default() };
        issuer.client(&issuer.url).map(|_| issuer)
    }

    /// A broker does not take `token`: it is not given again.
    pub(super) fn refused(&self, token: &str) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = held.token.as_mut().filter(|kept| kept.token.value == token) {
            kept.is_refused = true;
        }
    }

    /// The kept token if it is good; else a new one.
    pub(super) fn get(&self, now_ms: i64) -> Result<Token, TokenError> {
        // Whoever else logs in waits here, and then finds the token.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // What lies in the future was before the clock was set back.
        let is_recent = |at_ms: i64| (0..PAUSE.as_millis() as i64).contains(&(now_ms - at_ms));
        if let Some(kept) = &held.token {
            if !kept.is_refused && now_ms < kept.renew_ms {
                return Ok(kept.token.clone());
            }
            if kept.is_refused && now_ms < kept.renew_ms && is_recent(kept.asked_ms) {
                let why = "the broker has refused a token that the issuer has just given; another one is asked for in some seconds";
                return Err(TokenError::Away(why.into()));
            }
        }
        let failed = held.failed.clone().filter(|(_, at_ms)| is_recent(*at_ms));
        let fetched = match failed {
            Some((why, _)) => Err(why),
            None => self.fetch().map(|answer| self.kept(answer, now_ms)),
        };
        match fetched {
            Ok(kept) => {
                let token = kept.token.clone();
                *held = Held { token: Some(kept), failed: None };
                Ok(token)
            }
            Err(why) => {
                if held.failed.as_ref().is_none_or(|(_, at_ms)| !is_recent(*at_ms)) {
                    held.failed = Some((why.clone(), now_ms));
                }
                let kept = held.token.as_ref().filter(|kept| {
                    matches!(why, TokenError::Away(_)) && !kept.is_refused && now_ms < kept.token.expires_ms
                });
                kept.map(|kept| kept.token.clone()).ok_or(why)
            }
        }
    }

    fn kept(&self, answer: Answer, now_ms: i64) -> Kept {
        let claims = claims(&answer.token);
        let life_ms =
            answer.life_s.filter(|seconds| *seconds > 0.0).map(|seconds| (seconds * 1_000.0) as i64);
        let claimed = claims.as_ref().and_then(super::expires_ms);
        let expires_ms =
            life_ms.map(|life| now_ms.saturating_add(life)).or(claimed).unwrap_or(now_ms + LIFETIME_MS);
        let token = Token { principal: principal(claims.as_ref()), value: answer.token, expires_ms };
        Kept {
            renew_ms: now_ms + expires_ms.saturating_sub(now_ms) / 4 * 3,
            asked_ms: now_ms,
            is_refused: false,
            token,
        }
    }

    /// Asks on a thread of its own: a caller may stand within a runtime, and an answer may never come.
    fn fetch(&self) -> Result<Answer, TokenError> {
        let (options, url) = (self.options.clone(), self.url.clone());
        let asked = Self { options, url, held: Mutex::default() };
        let (done, answer) = mpsc::sync_channel(1);
        let ask = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let answer = match runtime {
                Ok(runtime) => runtime.block_on(asked.ask()),
                Err(why) => Err(TokenError::Away(why.to_string())),
            };
            // The one who waits may have given up.
            let _ = done.send(answer);
        };
        let thread = std::thread::Builder::new().name("token-issuer".into()).spawn(ask);
        thread.map_err(|why| TokenError::Away(format!("a thread cannot be started: {why}")))?;
        answer.recv_timeout(FETCH_MAX).unwrap_or_else(|_| {
            Err(TokenError::Away(format!("no answer within `{}` s", FETCH_MAX.as_secs())))
        })
    }

    async fn ask(&self) -> Result<Answer, TokenError> {
        let mut discovery = self.url.clone();
        discovery
            .path_segments_mut()
            .map_err(|()| TokenError::Refused("check `issuer_url`".into()))?
            .pop_if_empty()
            .extend(DISCOVERY.split('/'));
        let request = self.client(&discovery).map_err(TokenError::Refused)?.get(discovery);
        let (status, body) = answered(request).await?;
        if status != StatusCode::OK {
            return Err(TokenError::Refused(format!(
                "it answers `{status}` at `{DISCOVERY}`; check `issuer_url`"
            )));
        }
        let token_endpoint = text(&body, "token_endpoint").ok_or_else(|| {
            TokenError::Refused(format!(
                "its answer at `{DISCOVERY}` names no `token_endpoint`; check `issuer_url`"
            ))
        })?;
        let endpoint = self.endpoint(&token_endpoint).map_err(TokenError::Refused)?;

        let request = self.client(&endpoint).map_err(TokenError::Refused)?.post(endpoint);
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(self.form());
        let (status, body) = answered(request).await?;
        if status != StatusCode::OK {
            return Err(TokenError::Refused(self.refusal(status, &body)));
        }
        // What cannot be read may hold a token, and is not shown.
        let token = text(&body, "access_token").ok_or_else(|| {
            TokenError::Refused("its answer holds no `access_token` in JSON; check `issuer_url`".into())
        })?;
        let is_token = !token.is_empty()
            && token.len() as u64 <= TOKEN_BYTES_MAX
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token {
            return Err(TokenError::Refused("its `access_token` is no token; check `issuer_url`".into()));
        }
        let life_s = match field(&body, "expires_in") {
            // Some issuers write the number as a text.
            Some(Value::String(text)) => text.parse().ok(),
            value => value.and_then(|value| value.as_f64()),
        };
        Ok(Answer { token, life_s })
    }

    /// Where tokens are given. The secret is not sent in clear because the issuer says so.
    fn endpoint(&self, named: &str) -> Result<Url, String> {
        let endpoint = Url::parse(named).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let endpoint = endpoint.ok_or("its `token_endpoint` is not an address; check `issuer_url`")?;
        if endpoint.scheme() == "http" && self.url.scheme() == "https" {
            return Err("its `token_endpoint` begins with `http://`, where the secret would be sent in clear; correct the issuer".into());
        }
        Ok(endpoint)
    }

    /// The request's fields, as a form has them.
    fn form(&self) -> String {
        let mut form = self.url.clone();
        let IssuerOptions { client_id, client_secret, audience, scope, .. } = &self.options;
        let mut fields = form.query_pairs_mut();
        fields.clear().append_pair("grant_type", "client_credentials");
        fields.append_pair("client_id", client_id).append_pair("client_secret", client_secret);
        for (name, value) in [("audience", audience), ("scope", scope)] {
            if let Some(value) = value {
                fields.append_pair(name, value);
            }
        }
        drop(fields);
        form.query().unwrap_or_default().to_owned()
    }

    /// What a status other than 200 says, with the standard's word for it if the answer has one.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> String {
        let word = text(body, "error").unwrap_or_default();
        let is_word = !word.is_empty()
            && word.len() <= WORD_CHARS_MAX
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            && word != self.options.client_secret;
        let word = if is_word { word } else { status.to_string() };
        let check = match word.as_str() {
            "invalid_scope" => "check `scope`",
            "invalid_target" => "check `audience`",
            _ if status == StatusCode::NOT_FOUND => "check `issuer_url`",
            _ => "check `client_id` and `client_secret`, then `audience` and `scope`",
        };
        format!("it refuses client `{}` (`{word}`); {check}", self.options.client_id)
    }

    fn client(&self, url: &Url) -> Result<reqwest::Client, String> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another part of the process may win the race; any provider serves.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let mut builder =
            reqwest::Client::builder().timeout(REQUEST_MAX).redirect(reqwest::redirect::Policy::none());
        let ca = self.options.ca_pem.as_deref();
        if ca.is_some() || url.scheme() == "http" {
            let certificates =
                reqwest::Certificate::from_pem_bundle(ca.unwrap_or_default()).unwrap_or_default();
            if ca.is_some() && certificates.is_empty() {
                return Err("`ca` holds no certificates in PEM form".into());
            }
            // A machine without certificates of its own may still speak http.
            builder = builder.tls_certs_only(certificates);
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_here = host.eq_ignore_ascii_case("localhost")
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
        if is_here {
            // A proxy of the environment could not reach this machine's loopback.
            builder = builder.no_proxy();
        }
        builder.build().map_err(|why| format!("the http client cannot be made: {why}"))
    }
}

/// The status and the body, unless the issuer is away or says too much.
async fn answered(request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), TokenError> {
    let away =
        |why: reqwest::Error| TokenError::Away(format!("it does not answer: {}", chain(&why.without_url())));
    let response = request.send().await.map_err(away)?;
    let status = response.status();
    if matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        || status.is_server_error()
    {
        return Err(TokenError::Away(format!("it answers `{status}`; it is asked again")));
    }
    match read(response).await.map_err(away)? {
        Some(body) => Ok((status, body)),
        None => Err(TokenError::Refused(format!(
            "its answer has more than `{ANSWER_BYTES_MAX}` bytes; check `issuer_url`"
        ))),
    }
}

/// The body, if it is not longer than [`ANSWER_BYTES_MAX`].
async fn read(mut response: Response) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// A field of the object that a body holds.
fn field(body: &[u8], name: &str) -> Option<Value> {
    serde_json::from_slice::<Value>(body).ok()?.get_mut(name).map(Value::take)
}

fn text(body: &[u8], name: &str) -> Option<String> {
    field(body, name)?.as_str().map(str::to_owned)
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

impl PartialEq for Issuer {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options
    }
}

impl Eq for Issuer {}

impl std::fmt::Display for Issuer {
    /// Names the issuer for a message.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "issuer `{}`", self.url.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests;
