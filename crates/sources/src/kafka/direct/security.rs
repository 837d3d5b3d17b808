//! Which encryption and login a direct fetch takes over from the properties.
//!
//! Owns the meaning of librdkafka's words for both. Does not own handshakes (`tls`, `login`). Pure.
//!
//! | left to librdkafka                         | why                                                         |
//! |--------------------------------------------|-------------------------------------------------------------|
//! | `OAUTHBEARER`, `GSSAPI`                    | tokens and tickets are asked for seldom, and live in it     |
//! | private keys with a password               | their ciphers are its TLS library's                         |
//! | a folder of authorities                    | its names are hashes of that library                        |
//! | keys and certificates as text, stores, CRLs, ciphers, … | asked for seldom                               |

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::scram::Hash;
use crate::tls::Tls;

/// Properties that are understood here.
pub(super) const KNOWN: &[&str] = &[
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.endpoint.identification.algorithm",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
];

/// How a connection is encrypted, and who logs in on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Security {
    pub(super) tls: Option<Tls>,
    pub(super) login: Option<Login>,
}

/// Who logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) mechanism: Mechanism,
    pub(super) user: String,
    pub(super) password: Secret,
}

/// How one logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    Scram(Hash),
}

impl Mechanism {
    /// The broker's word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(Hash::Sha256) => "SCRAM-SHA-256",
            Self::Scram(Hash::Sha512) => "SCRAM-SHA-512",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Plain, Self::Scram(Hash::Sha256), Self::Scram(Hash::Sha512)]
            .into_iter()
            .find(|mechanism| mechanism.name() == name)
    }
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// What the properties ask for; `Err` says why it is left to librdkafka.
pub(super) fn security(set: &BTreeMap<&str, &str>) -> Result<Security, String> {
    let protocol = set.get("security.protocol").copied().unwrap_or("plaintext");
    let (is_encrypted, logs_in) = match protocol.to_ascii_lowercase().as_str() {
        "plaintext" => (false, false),
        "ssl" => (true, false),
        "sasl_plaintext" => (false, true),
        "sasl_ssl" => (true, true),
        _ => return Err(format!("`security.protocol` is `{protocol}`")),
    };
    Ok(Security {
        tls: is_encrypted.then(|| tls(set)).transpose()?,
        login: logs_in.then(|| login(set)).transpose()?,
    })
}

fn tls(set: &BTreeMap<&str, &str>) -> Result<Tls, String> {
    let file = |name: &str| set.get(name).map(PathBuf::from);
    let identity = match (file("ssl.certificate.location"), file("ssl.key.location")) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some((cert, key)),
        _ => {
            return Err(
                "a certificate without its key, or a key without a certificate, is librdkafka's".into()
            );
        }
    };
    let ca = file("ssl.ca.location");
    if let Some(ca) = ca.as_ref().filter(|ca| !ca.is_file()) {
        return Err(format!("`ssl.ca.location` is `{}`, which is no file", ca.display()));
    }
    let verify_host = match set.get("ssl.endpoint.identification.algorithm").copied().unwrap_or("https") {
        "https" => true,
        "none" => false,
        other => return Err(format!("`ssl.endpoint.identification.algorithm` is `{other}`")),
    };
    Ok(Tls { ca, identity, verify_host })
}

fn login(set: &BTreeMap<&str, &str>) -> Result<Login, String> {
    // Two names of one property; librdkafka takes the one that is set last, which is the longer one.
    let name = set.get("sasl.mechanisms").or_else(|| set.get("sasl.mechanism")).copied().unwrap_or("GSSAPI");
    let Some(mechanism) = Mechanism::named(name) else {
        return Err(format!("mechanism `{name}` is librdkafka's"));
    };
    let (Some(user), Some(password)) = (set.get("sasl.username"), set.get("sasl.password")) else {
        return Err(format!("`{name}` needs `sasl.username` and `sasl.password`"));
    };
    Ok(Login { mechanism, user: (*user).to_owned(), password: Secret((*password).to_owned()) })
}

#[cfg(test)]
mod tests;
