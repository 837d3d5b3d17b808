//! The requests: a schema by its number, and the schemas that it refers to.
//!
//! Owns addresses, the login, and what each answer means. Does not own when something is asked again ([`crate::source`]).
//!
//! | answer                        | meaning                                                    |
//! |-------------------------------|------------------------------------------------------------|
//! | 200, a schema of the format   | [`Found::Texts`]                                           |
//! | 200, of another kind          | [`Found::Unusable`]: the records of this number can never be read |
//! | 404, with an `error_code`     | [`Found::Missing`]: they cannot be read now                |
//! | 404, in other words, or in those for an address that is unknown | of a gateway before it, or of a wrong path: [`SourceFault::Away`] |
//! | 401, 403                      | the login is wrong: [`SourceFault::Config`]                |
//! | none, 408, 429, 5xx           | the registry is unavailable: [`SourceFault::Away`]         |
//! | anything else                 | not a registry: [`SourceFault::Config`]                    |

use std::collections::BTreeMap;
use std::time::Duration;

use dataflow::SourceFault;
use formats::schemas::SchemaText;
use reqwest::{Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;

/// Bytes of an answer: a schema of a megabyte, with every character escaped, and room.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// A request, from the connection to the answer's last byte. A schema is small.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Schemas that one may refer to, directly or through others.
const REFERENCES_MAX: usize = 64;
/// Asks for a version that was deleted since, too, unless it was deleted for good: a schema that refers to it is given by its number as before.
const DELETED_TOO: &str = "deleted=true";
/// What servers of Confluent say of an address that they do not know, with an `error_code` too: a registry below another path, or Kafka Connect.
const NO_ADDRESS: &str = "HTTP 404 Not Found";
/// Characters of an answer that is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// What schemas are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Avro, which registries leave out of their answers.
    #[default]
    Avro,
    /// Protocol Buffers.
    Protobuf,
}

impl Kind {
    /// The word in a registry's answers.
    fn word(self) -> &'static str {
        match self {
            Self::Avro => "AVRO",
            Self::Protobuf => "PROTOBUF",
        }
    }

    /// The name for people.
    fn name(self) -> &'static str {
        match self {
            Self::Avro => "Avro",
            Self::Protobuf => "Protobuf",
        }
    }
}

/// A registry and how we log in there.
#[derive(Clone, Default)]
pub struct Config {
    /// `http://host:port` or `https://host:port`, with a path if there is one; without user and password.
    pub url: String,
    /// The user of a basic login; empty for none.
    pub user: String,
    /// Its password.
    pub password: String,
    /// A bearer token instead; empty for none.
    pub token: String,
    /// What its schemas are of; others are of no use.
    pub kind: Kind,
    /// Certificates (PEM) that are trusted instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
}

/// Why a schema could not be asked for. It holds no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RegistryError {
    /// What to do about it.
    pub fault: SourceFault,
    /// The whole sentence.
    pub message: String,
}

/// What the registry has under a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A schema's text, the last, behind those that it refers to.
    Texts(Vec<SchemaText>),
    /// Nothing that a record could be read by, and why: the rest of a sentence that begins with the schema's number.
    Unusable(String),
    /// Nothing yet, and why, in the same form.
    Missing(String),
}

/// A client of one registry.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    config: Config,
    url: Url,
    /// Whether the keys of records without a body name schemas too.
    reads_keys: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    schema: String,
    #[serde(default)]
    schema_type: Option<String>,
    /// Left out or null for none.
    #[serde(default)]
    references: Option<Vec<Reference>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Reference {
    /// What the schema calls it: in Protobuf, the file that it imports.
    #[serde(default)]
    name: String,
    subject: String,
    version: u32,
}

impl Client {
    /// Takes the keys of records without a body for data that name a schema, too.
    pub fn and_keys(&mut self) {
        self.reads_keys = true;
    }

    /// Whether it does.
    pub(crate) fn reads_keys(&self) -> bool {
        self.reads_keys
    }

    /// A client of the registry of `config`. Opens no connection yet.
    ///
    /// # Errors
    /// When the address, the certificates or the login cannot be used.
    pub fn new(config: &Config) -> Result<Self, RegistryError> {
        let url =
            Url::parse(&config.url).map_err(|error| unusable(format!("`url` is not an address: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.cannot_be_a_base() {
            return Err(unusable(
                "`url` must be `http://host:port` or `https://host:port`, with a path if there is one",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(unusable("`url` holds a user or a password; put them into `user` and `password`"));
        }
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another part of the process may win the race; any provider serves.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let mut builder =
            reqwest::Client::builder().timeout(REQUEST_MAX).redirect(reqwest::redirect::Policy::none());
        if config.ca_pem.is_some() || url.scheme() == "http" {
            let pem = config.ca_pem.as_deref().unwrap_or_default();
            let certificates = reqwest::Certificate::from_pem_bundle(pem).unwrap_or_default();
            if config.ca_pem.is_some() && certificates.is_empty() {
                return Err(unusable("`ca` holds no certificates in PEM form"));
            }
            // A machine without certificates of its own may still speak http.
            builder = builder.tls_certs_only(certificates);
        }
        if is_this_machine(&url) {
            // A proxy of the environment could not reach this machine's loopback.
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| unusable(format!("the http client cannot be made: {}", chain(&error))))?;
        Ok(Self { http, config: config.clone(), url, reads_keys: false })
    }

    /// The schema of this number.
    ///
    /// # Errors
    /// When the registry is unavailable, or refuses the login.
    pub async fn schema(&self, id: u32) -> Result<Found, RegistryError> {
        if i32::try_from(id).is_err() {
            // Registries take a number for a signed one of 32 bits, and answer another with whatever is said of a wrong address.
            return Ok(Found::Unusable(format!("no registry gives a number above `{}`", i32::MAX)));
        }
        let Some((answer, references)) = self.get(&["schemas", "ids", &id.to_string()], None).await? else {
            return Ok(Found::Missing(format!("the registry {} has no schema of this number", self.shown())));
        };
        let (kind, found) = (self.config.kind, answer.schema_type.as_deref().unwrap_or("AVRO"));
        if found != kind.word() {
            let why = format!("it is a schema of {found}, and the pipeline reads {}", kind.name());
            return Ok(Found::Unusable(why));
        }
        let mut others = BTreeMap::new();
        let mut open = references.clone();
        while let Some(reference) = open.pop() {
            if others.contains_key(&reference) {
                continue;
            }
            if others.len() == REFERENCES_MAX {
                return Ok(Found::Unusable(format!(
                    "it refers to more than `{REFERENCES_MAX}` other schemas"
                )));
            }
            let Reference { subject, version, .. } = &reference;
            let path = ["subjects", subject.as_str(), "versions", &version.to_string()];
            let Some((answer, references)) = self.get(&path, Some(DELETED_TOO)).await? else {
                let why = format!(
                    "it refers to version `{version}` of `{subject}`, which the registry does not have"
                );
                return Ok(Found::Missing(why));
            };
            open.extend(references.iter().cloned());
            others.insert(reference, (answer.schema, references));
        }
        Ok(Found::Texts(in_order(answer.schema, &references, &mut others)))
    }

    /// The answer at a path below the registry's, and what it refers to; `None` if nothing is there.
    async fn get(
        &self,
        path: &[&str],
        query: Option<&str>,
    ) -> Result<Option<(Answer, Vec<Reference>)>, RegistryError> {
        let mut url = self.url.clone();
        url.path_segments_mut().expect("an http address has a path").pop_if_empty().extend(path);
        url.set_query(query);
        let away = |error: reqwest::Error| RegistryError {
            fault: SourceFault::Away,
            message: format!(
                "the schema registry {} does not answer: {}",
                self.shown(),
                chain(&error.without_url())
            ),
        };
        let request = self.http.get(url);
        let request = match &self.config {
            Config { token, .. } if !token.is_empty() => request.bearer_auth(token),
            Config { user, password, .. } if !user.is_empty() => request.basic_auth(user, Some(password)),
            _ => request,
        };
        let response = request.send().await.map_err(away)?;
        let status = response.status();
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                let body = read(response).await.map_err(away)?.unwrap_or_default();
                // Who is no registry does not know whether there is a schema. Gateways speak JSON too.
                let fields = serde_json::from_slice::<BTreeMap<String, Value>>(&body).unwrap_or_default();
                let what = match fields.get("message") {
                    _ if !fields.contains_key("error_code") => {
                        "a registry would say so in JSON, with an `error_code`. It is asked again; check `url`, and the proxy before it if there is one"
                    }
                    Some(Value::String(said)) if said == NO_ADDRESS => {
                        "it does not know the address, which a registry does. It is asked again; check the port and the path of `url`"
                    }
                    Some(_) | None => return Ok(None),
                };
                return Err(self.refusal(SourceFault::Away, status, what));
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(self.refusal(
                    SourceFault::Config,
                    status,
                    "check `user` and `password`, or `token`",
                ));
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                return Err(self.refusal(SourceFault::Away, status, "it is asked again"));
            }
            status if status.is_server_error() => {
                return Err(self.refusal(SourceFault::Away, status, "it is asked again"));
            }
            status => return Err(self.refusal(SourceFault::Config, status, "check `url`")),
        }
        let body = read(response).await.map_err(away)?;
        let Some(body) = body else {
            return Err(RegistryError {
                fault: SourceFault::Config,
                message: format!(
                    "the answer of {} has more than `{ANSWER_BYTES_MAX}` bytes; check `url`",
                    self.shown()
                ),
            });
        };
        let answer: Result<Answer, _> = serde_json::from_slice(&body);
        let mut answer = answer.map_err(|error| {
            let text: String = String::from_utf8_lossy(&body).chars().take(SHOWN_CHARS_MAX).collect();
            RegistryError {
                fault: SourceFault::Config,
                message: format!(
                    "{} does not answer as a schema registry ({error}); check `url`: `{text}`",
                    self.shown()
                ),
            }
        })?;
        let mut references = answer.references.take().unwrap_or_default();
        if self.config.kind == Kind::Avro {
            // Types are named within the text: the same one is the same by whatever name it is referred to.
            references.iter_mut().for_each(|reference| reference.name.clear());
        }
        Ok(Some((answer, references)))
    }

    fn refusal(&self, fault: SourceFault, status: StatusCode, what: &str) -> RegistryError {
        let message = format!("the schema registry {} answers `{status}`; {what}", self.shown());
        RegistryError { fault, message }
    }

    fn shown(&self) -> String {
        format!("`{}`", self.url.as_str().trim_end_matches('/'))
    }
}

/// The texts of `others` that a schema with `references` needs, each behind those that it needs itself, and at the end its own.
fn in_order(
    text: String,
    references: &[Reference],
    others: &mut BTreeMap<Reference, (String, Vec<Reference>)>,
) -> Vec<SchemaText> {
    let mut texts = Vec::new();
    for reference in references {
        // Taken out, so that each comes once; the recursion is as deep as there are others, which are bounded.
        if let Some((text, references)) = others.remove(reference) {
            let from = texts.len();
            texts.extend(in_order(text, &references, others));
            if let Some(own) = texts[from..].last_mut() {
                own.name.clone_from(&reference.name);
            }
        }
    }
    texts.push(SchemaText::own(text));
    texts
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

fn unusable(message: impl Into<String>) -> RegistryError {
    RegistryError { fault: SourceFault::Config, message: message.into() }
}

/// Whether the server is this machine. A name that only resolves to it may resolve elsewhere tomorrow.
fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
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
