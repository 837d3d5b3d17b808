//! Who a client is: bearer tokens and passwords from files that may change.
//!
//! Owns reading the files, also when they change, and the comparison. Does not own what a client may do ([`crate::gate`]).
//!
//! | header                           | by whom                                |
//! |----------------------------------|----------------------------------------|
//! | `Authorization: Bearer TOKEN`    | most                                   |
//! | `Authorization: Splunk TOKEN`    | senders for Splunk's event collector   |
//! | `Authorization: ApiKey TOKEN`    | senders for Elasticsearch              |
//! | `Authorization: Basic …`         | `curl --user USER:PASSWORD`            |
//!
//! Secrets are kept and compared as SHA-256, all of them for each request, so that the time taken tells nothing.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

use crate::options::{ClientOptions, SecretFile};
use crate::refusal::{Kind, Refusal};

/// How often the files are read again.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// After so long a file that has changed must still be the same: otherwise it is being written.
const SETTLED_AFTER: Duration = Duration::from_millis(200);

/// Bytes of a file of secrets at the most.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Secrets of one client at a time: an old one and a new one, as a rule. Each is compared with each request.
const SECRETS_MAX: usize = 16;

/// Bytes of a secret at the least: a shorter one can be guessed.
const SECRET_BYTES_MIN: usize = 8;

/// Why the files cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("client `{client}`: `{path}` {why}")]
pub struct SecretError {
    /// The client.
    pub client: String,
    /// The file.
    pub path: String,
    /// Why. No secret.
    pub why: String,
}

/// Who may fill streams, as of now.
#[derive(Clone)]
pub struct Auth {
    clients: Arc<Vec<Arc<ClientOptions>>>,
    secrets: Arc<RwLock<Vec<Secret>>>,
}

/// One secret, as its digest.
#[derive(Clone, PartialEq, Eq)]
struct Secret {
    digest: [u8; 32],
    client: usize,
}

impl Auth {
    /// Reads the secrets of all clients from their files.
    ///
    /// # Errors
    /// When one cannot be read, holds no secret, or one that another client has too.
    pub fn open(clients: Vec<ClientOptions>) -> Result<Self, SecretError> {
        let clients: Vec<Arc<ClientOptions>> = clients.into_iter().map(Arc::new).collect();
        let secrets = read_all(&clients)?;
        Ok(Self { clients: Arc::new(clients), secrets: Arc::new(RwLock::new(secrets)) })
    }

    /// Whether nobody has to show who he is.
    pub fn is_open(&self) -> bool {
        self.clients.is_empty()
    }

    /// The client that a request is from; `None` where nobody has to say.
    ///
    /// # Errors
    /// [`Kind::Unknown`] when it shows no secret, or a wrong one.
    pub fn check(&self, headers: &HeaderMap) -> Result<Option<Arc<ClientOptions>>, Refusal> {
        if self.is_open() {
            return Ok(None);
        }
        let shown = shown(headers).ok_or_else(|| {
            Refusal::new(
                Kind::Unknown,
                "this gateway asks for a token or a password; send it in the header `Authorization`",
            )
        })?;
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for secret in secrets.iter() {
            let differs = secret.digest.iter().zip(&shown).fold(0, |differs, (a, b)| differs | (a ^ b));
            if differs == 0 {
                found = Some(secret.client);
            }
        }
        let client = found.ok_or_else(|| Refusal::new(Kind::Unknown, "the token or password is wrong"))?;
        Ok(Some(self.clients[client].clone()))
    }

    /// Reads the files again now and then, for ever.
    pub async fn follow<Never>(self) -> Never {
        let mut told = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let auth = self.clone();
            match tokio::task::spawn_blocking(move || auth.look()).await {
                Ok(Ok(false)) | Err(_) => {}
                Ok(Ok(true)) => {
                    told = None;
                    tracing::info!("the clients' tokens and passwords have changed");
                }
                Ok(Err(error)) if told.as_ref() != Some(&error) => {
                    tracing::error!(%error, "the clients' tokens and passwords cannot be read again; those that were read before stay good");
                    told = Some(error);
                }
                Ok(Err(_)) => {}
            }
        }
    }

    /// Reads the files; true if they have changed, and what they hold now counts. Takes a moment then.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn look(&self) -> Result<bool, SecretError> {
        self.look_by(|| read_all(&self.clients))
    }

    /// The same by another way of reading them.
    fn look_by(&self, read: impl Fn() -> Result<Vec<Secret>, SecretError>) -> Result<bool, SecretError> {
        let secrets = read()?;
        if *self.secrets.read().unwrap_or_else(PoisonError::into_inner) == secrets {
            return Ok(false);
        }
        // The beginning of a file is one as well: clients whose secrets follow would be turned away, and drop what they have.
        std::thread::sleep(SETTLED_AFTER);
        if read()? != secrets {
            return Ok(false);
        }
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        Ok(true)
    }
}

fn read_all(clients: &[Arc<ClientOptions>]) -> Result<Vec<Secret>, SecretError> {
    let mut secrets: Vec<Secret> = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let (path, user) = match &client.secret {
            SecretFile::Tokens(path) => (path, None),
            SecretFile::Passwords(user, path) => (path, Some(user.as_str())),
        };
        let wrong =
            |why: String| SecretError { client: client.name.clone(), path: path.display().to_string(), why };
        let text = read(path).map_err(&wrong)?;
        // An editor may begin a file with a byte order mark, which no client sends.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() || lines.len() > SECRETS_MAX {
            return Err(wrong(format!(
                "holds {} lines; it takes 1 to {SECRETS_MAX}, a secret in each",
                lines.len()
            )));
        }
        for line in lines {
            if line.len() < SECRET_BYTES_MIN {
                return Err(wrong(format!(
                    "holds a secret of less than {SECRET_BYTES_MIN} bytes, which can be guessed"
                )));
            }
            let digest = digest_of(user, line.as_bytes());
            if secrets.iter().any(|other| other.digest == digest && other.client != number) {
                return Err(wrong("holds a secret that another client has too".to_owned()));
            }
            secrets.push(Secret { digest, client: number });
        }
    }
    Ok(secrets)
}

fn read(path: &Path) -> Result<String, String> {
    let unread = |error: std::io::Error| format!("cannot be read: {error}");
    let length = std::fs::metadata(path).map_err(unread)?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("has {length} bytes, more than {FILE_BYTES_MAX}"));
    }
    // Its words may be a secret, so they stay out of the message.
    std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => "is not UTF-8".to_owned(),
        _ => unread(error),
    })
}

/// What a request shows, as a digest.
fn shown(headers: &HeaderMap) -> Option<[u8; 32]> {
    // A secret may have letters beyond ASCII.
    let text = std::str::from_utf8(headers.get(header::AUTHORIZATION)?.as_bytes()).ok()?;
    let (scheme, rest) = text.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("basic") {
        let decoded = STANDARD.decode(rest).ok()?;
        let colon = memchr::memchr(b':', &decoded)?;
        let user = std::str::from_utf8(&decoded[..colon]).ok()?;
        return Some(digest_of(Some(user), &decoded[colon + 1..]));
    }
    let is_token = ["bearer", "splunk", "apikey"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_token.then(|| digest_of(None, rest.as_bytes()))
}

/// A token and a password of the same letters are not the same secret.
fn digest_of(user: Option<&str>, secret: &[u8]) -> [u8; 32] {
    let mut text = match user {
        None => b"token\0".to_vec(),
        Some(user) => format!("user\0{}\0{user}", user.len()).into_bytes(),
    };
    text.extend_from_slice(secret);
    digest(&SHA256, &text).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests;
