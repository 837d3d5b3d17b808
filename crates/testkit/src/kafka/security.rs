//! A broker that lets in only those with a password, over TLS.
//!
//! Owns the certificate, the users and the lines of `server.properties` for both. Does not own the broker's other settings ([`super`]). The
//! broker listens in clear as well, on a port of its own, for Kafka's tools; the clients under test are never told of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::Spawn;

/// Guards a key that exists for one test; keytool wants six characters.
const STORE_PASSWORD: &str = "testkit-store";
const USER: &str = "forebay";
const PASSWORD: &str = "testkit-password";
/// keytool is a JVM that makes one key.
const KEYTOOL_MAX: Duration = Duration::from_secs(300);
/// So long a session by SCRAM-SHA-512 lasts unless the client logs in again before: a test can wait for its end.
pub const SCRAM_SHA_512_SESSION: Duration = Duration::from_secs(4);

/// Who may speak to the broker, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Security {
    /// Anybody on this machine, in clear.
    #[default]
    Plaintext,
    /// SASL over TLS: SCRAM-SHA-256, SCRAM-SHA-512 and PLAIN for one user, OAUTHBEARER for everybody with an unsigned token
    /// (`alg` is `none`) that has a `sub` and an `exp` to come, and a certificate for `127.0.0.1` and `localhost` that is
    /// signed by itself. A session by a token ends with the token, one by SCRAM-SHA-512 after [`SCRAM_SHA_512_SESSION`],
    /// unless the client logs in again before.
    SaslTls,
}

/// What a client needs to be let in.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The user of all three mechanisms.
    pub user: String,
    /// Its password. It guards nothing but one test's data.
    pub password: String,
    /// A PEM file with the authority of the broker's certificate.
    pub ca_file: PathBuf,
}

impl Credentials {
    pub(super) fn new(certificate: Certificate) -> Credentials {
        Credentials { user: USER.to_owned(), password: PASSWORD.to_owned(), ca_file: certificate.pem }
    }

    /// Arguments that make the user when the storage is formatted.
    pub(super) fn format_args(&self) -> Vec<String> {
        let user = |mechanism| format!("{mechanism}=[name={},password={}]", self.user, self.password);
        ["SCRAM-SHA-256", "SCRAM-SHA-512"].iter().flat_map(|m| ["--add-scram".to_owned(), user(*m)]).collect()
    }

    /// Settings of a Java client that logs in with other words, or the right ones.
    pub(super) fn client_properties(&self, user: &str, password: &str) -> String {
        format!(
            "security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={}\nsasl.mechanism=SCRAM-SHA-256\n\
             sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
             username=\"{user}\" password=\"{password}\";\n",
            self.ca_file.display()
        )
    }
}

/// A key, and its certificate signed by itself.
#[derive(Debug)]
pub(super) struct Certificate {
    store: PathBuf,
    pem: PathBuf,
}

impl Certificate {
    /// Makes both with the JDK's keytool, in `dir`.
    pub(super) fn make(dir: &Path) -> Result<Certificate> {
        let certificate = Certificate { store: dir.join("broker.p12"), pem: dir.join("ca.pem") };
        let keytool = |action: &[&str]| {
            let tool = Spawn::new("keytool", "keytool").args(action).arg("-keystore").arg(&certificate.store);
            tool.args(["-alias", "broker", "-storetype", "PKCS12", "-storepass", STORE_PASSWORD])
        };
        let make = [
            "-genkeypair",
            "-keyalg",
            "EC",
            "-groupname",
            "secp256r1",
            "-validity",
            "30",
            "-dname",
            "CN=localhost",
        ];
        let names = ["-ext", "san=ip:127.0.0.1,dns:localhost"];
        keytool(&make)
            .args(names)
            .run(dir, KEYTOOL_MAX)?
            .success()
            .context("keytool could not make a key")?;
        keytool(&["-exportcert", "-rfc"])
            .arg("-file")
            .arg(&certificate.pem)
            .run(dir, KEYTOOL_MAX)?
            .success()
            .context("keytool could not export the certificate")?;
        Ok(certificate)
    }

    /// Lines of `server.properties` for the listener of clients.
    pub(super) fn server_properties(&self) -> Vec<(String, String)> {
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required";
        let oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;";
        [
            ("sasl.enabled.mechanisms", "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER".to_owned()),
            ("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config", scram.to_owned()),
            ("listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config", scram.to_owned()),
            ("listener.name.sasl_ssl.plain.sasl.jaas.config", format!("{plain} user_{USER}=\"{PASSWORD}\";")),
            ("listener.name.sasl_ssl.oauthbearer.sasl.jaas.config", oauth.to_owned()),
            // Without a bound a session outlives its token; with one it lasts as long as the token at the most.
            ("listener.name.sasl_ssl.oauthbearer.connections.max.reauth.ms", "3600000".to_owned()),
            (
                "listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms",
                SCRAM_SHA_512_SESSION.as_millis().to_string(),
            ),
            ("ssl.keystore.type", "PKCS12".to_owned()),
            ("ssl.keystore.location", self.store.display().to_string()),
            ("ssl.keystore.password", STORE_PASSWORD.to_owned()),
            ("ssl.client.auth", "none".to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }
}
