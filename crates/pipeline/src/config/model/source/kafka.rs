//! `kafka:` of a source: topics of a Kafka cluster, and how to connect to it.
//!
//! Owns the keys; a schema registry has TLS of the same form. Does not own rules that span several of them (`config::rules::inputs`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{default_start, default_true};
use crate::config::values::{Broker, HttpUrl, Identifier, OneOrMany, Secret, Start, Topic};

/// Topics of a Kafka cluster. Read without a consumer group's help: positions live in the journal.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["topic"]}, {"required": ["topics"]}]))]
pub struct Kafka {
    /// Brokers to ask first, `host:port`; a list, or a text with commas.
    pub brokers: OneOrMany<Broker>,

    /// The topic to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,

    /// The topics to read, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1000), extend("uniqueItems" = true))]
    pub topics: Option<Vec<Topic>>,

    /// Where a pipeline that has never run begins. Later starts go on from the journal. A partition that is added to
    /// the topic while the pipeline runs is read from its beginning.
    #[serde(default = "default_start")]
    pub start: Start,

    /// The consumer group under which read positions are published for lag tools; `forebay-` and the pipeline's
    /// name if left out. It is never read from; only a store that is behind it is refused, as lost or rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Identifier>,

    /// Encryption and login.
    #[serde(default)]
    pub security: Security,

    /// Who fetches the records.
    #[serde(default)]
    pub fetch: Fetch,

    /// Further properties of librdkafka, as in its documentation. Those that decide what is read or how one logs in
    /// have settings of their own here and are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<Identifier, Secret>,
}

/// Who fetches the records of a topic. What is read and what is guaranteed is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fetch {
    /// `direct` where that can be done, else `librdkafka`; the log says which.
    #[default]
    Auto,
    /// Forebay itself, at a fifth of the cost: from Kafka 3.1 on, with properties that concern fetching, encryption and a login by
    /// password only; not with tokens, a private key's password, or a broker's certificate that is an authority itself. A pipeline
    /// for which that does not hold is not started.
    Direct,
    /// librdkafka.
    Librdkafka,
}

/// Encryption and login.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Security {
    /// Encrypts connections. `{}` trusts the authorities that the system trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,

    /// Logs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<Sasl>,
}

/// Encryption by TLS.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file of the authorities to trust; the system's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,

    /// PEM file of the client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,

    /// PEM file of the client's private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,

    /// The private key's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_password: Option<Secret>,

    /// Whether the broker's certificate must contain the broker's host name. Turn this off only if the certificates contain other names;
    /// the certificate authority is still checked.
    #[serde(default = "default_true")]
    pub verify_host: bool,
}

/// Login by SASL.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sasl {
    /// How to log in.
    pub mechanism: Mechanism,

    /// The user, for PLAIN and SCRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,

    /// The password, for PLAIN and SCRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,

    /// Where tokens come from, for OAUTHBEARER.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuth>,

    /// Allows a password or token to be sent unencrypted to another machine; anyone on the network can read it.
    #[serde(default)]
    pub allow_plaintext_password: bool,
}

/// A SASL mechanism, named as the broker names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[allow(missing_docs, reason = "the names are Kafka's")]
pub enum Mechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    #[serde(rename = "OAUTHBEARER")]
    OAuthBearer,
}

impl Mechanism {
    /// The broker's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }
}

/// Where tokens come from: exactly one of `token_file`, `token_command` and `issuer_url`. A token is asked for anew before the last one expires.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["token_file"]}, {"required": ["token_command"]}, {"required": ["issuer_url"]}]))]
pub struct OAuth {
    /// A file with the token, which another program refreshes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,

    /// A program that prints the token, and its arguments; not a shell command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub token_command: Option<Vec<String>>,

    /// The issuer of OAuth 2.0 that gives tokens to a client by `client_id` and `client_secret`. What it has is described at
    /// `.well-known/openid-configuration` below this address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_url: Option<HttpUrl>,

    /// The client's name at the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,

    /// The client's secret at the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,

    /// For whom the token is to be, if the issuer wants to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,

    /// What the token is to allow, if the issuer wants to know; several words with spaces between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,

    /// PEM file of the authorities to trust at the issuer; the system's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}
