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

use std::collections::{BTreeSet, HashMap};
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
        let (secrets, errors) = read_each(&clients, &[]);
        if let Some(first) = errors.into_iter().next() {
            return Err(first);
        }
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
        let mut told: Vec<SecretError> = Vec::new();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let auth = self.clone();
            let looked = tokio::task::spawn_blocking(move || auth.look()).await;
            // It panics only by a fault of ours, which the runtime reports.
            let Ok((has_changed, errors)) = looked else { continue };
            if has_changed {
                tracing::info!("the clients' tokens and passwords have changed");
            }
            for error in errors.iter().filter(|error| !told.contains(*error)) {
                tracing::error!(%error, "the tokens or passwords of a client cannot be read again; those that it had before stay good");
            }
            told = errors;
        }
    }

    /// Reads the files; true if they have changed, and what they hold now counts. Takes a moment then. A client whose file cannot be used keeps the secrets
    /// that it had; why it cannot is told as well.
    pub fn look(&self) -> (bool, Vec<SecretError>) {
        self.look_by(|before| read_each(&self.clients, before))
    }

    /// The same by another way of reading them.
    fn look_by(&self, read: impl Fn(&[Secret]) -> Read) -> (bool, Vec<SecretError>) {
        let before = self.secrets.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (secrets, errors) = read(&before);
        if secrets == before {
            return (false, errors);
        }
        // The beginning of a file is one as well: clients whose secrets follow would be turned away, and drop what they have.
        std::thread::sleep(SETTLED_AFTER);
        if read(&before).0 != secrets {
            return (false, errors);
        }
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        (true, errors)
    }
}

/// The secrets of all clients, and why files cannot be used.
type Read = (Vec<Secret>, Vec<SecretError>);

/// What the files hold. A client whose file cannot be used keeps the secrets that it had `before`, so that those of others can be replaced meanwhile; but none
/// that another client has now.
fn read_each(clients: &[Arc<ClientOptions>], before: &[Secret]) -> Read {
    let mut read: Vec<_> = (0..clients.len()).map(|number| read_one(&clients[number], number)).collect();
    for number in with_anothers(&read, before) {
        read[number] = Err(fault(&clients[number], "holds a secret that another client has too".to_owned()));
    }
    let now: Vec<Secret> = read.iter().flatten().flatten().cloned().collect();
    let is_free = |kept: &&Secret| now.iter().all(|other| other.digest != kept.digest);
    let (mut secrets, mut errors): Read = Default::default();
    for (number, own) in read.into_iter().enumerate() {
        match own {
            Ok(own) => secrets.extend(own),
            Err(error) => {
                errors.push(error);
                let own = before.iter().filter(|kept| kept.client == number);
                secrets.extend(own.filter(is_free).cloned());
            }
        }
    }
    (secrets, errors)
}

/// The clients whose files hold a secret that is another one's: who had it `before` keeps it, and else the first of two.
fn with_anothers(read: &[Result<Vec<Secret>, SecretError>], before: &[Secret]) -> BTreeSet<usize> {
    let (mut found, mut owners) = (BTreeSet::new(), HashMap::new());
    for secret in read.iter().flatten().flatten() {
        let owner = *owners.entry(secret.digest).or_insert(secret);
        if owner.client == secret.client {
            continue;
        }
        let is_its_own = before.contains(secret);
        found.insert(if is_its_own { owner.client } else { secret.client });
        if is_its_own {
            owners.insert(secret.digest, secret);
        }
    }
    found
}

fn path_of(client: &ClientOptions) -> &Path {
    match &client.secret {
        SecretFile::Tokens(path) | SecretFile::Passwords(_, path) => path,
    }
}

fn fault(client: &ClientOptions, why: String) -> SecretError {
    SecretError { client: client.name.clone(), path: path_of(client).display().to_string(), why }
}

/// The secrets of one client.
fn read_one(client: &ClientOptions, number: usize) -> Result<Vec<Secret>, SecretError> {
    let user = match &client.secret {
        SecretFile::Tokens(_) => None,
        SecretFile::Passwords(user, _) => Some(user.as_str()),
    };
    let wrong = |why: String| fault(client, why);
    let path = path_of(client);
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
    let mut own = Vec::new();
    for line in lines {
        if line.len() < SECRET_BYTES_MIN {
            return Err(wrong(format!(
                "holds a secret of less than {SECRET_BYTES_MIN} bytes, which can be guessed"
            )));
        }
        own.push(Secret { digest: digest_of(user, line.as_bytes()), client: number });
    }
    Ok(own)
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
