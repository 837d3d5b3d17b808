//! `pulsar:` of a source: topics of a Pulsar cluster, and how to connect to it.
//!
//! Owns the keys. Does not own rules that span several of them (`config::rules::inputs`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kafka::OAuth;
use super::{default_start, default_true};
use crate::config::values::{Identifier, PulsarTopic, PulsarUrl, Secret, Start};

/// Why there is no key for the type of the subscription.
const NO_TYPE: &str = "is no setting of a pipeline, which reads each partition whole and in order: its positions make rows exactly once, and with \
                       `Key_Shared` or `Shared` no consumer sees a whole partition; leave it out. The messages of a key keep their order within \
                       their partition";

/// Topics of a Pulsar cluster. Read without a cursor: positions live in the journal.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "oneOf" = [{"required": ["topic"]}, {"required": ["topics"]}],
    "x-never" = {"subscription_type": NO_TYPE, "subscriptionType": NO_TYPE}
))]
pub struct Pulsar {
    /// Brokers or proxies to ask first: `pulsar://host:port`, or `pulsar+ssl://host:port` for TLS. Further hosts follow after commas.
    pub service: PulsarUrl,

    /// The topic to read: `persistent://tenant/namespace/topic`, or a name in `public/default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<PulsarTopic>,

    /// The topics to read, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1000), extend("uniqueItems" = true))]
    pub topics: Option<Vec<PulsarTopic>>,

    /// Where a pipeline that has never run begins. Later starts go on from the journal. A time is compared with the time of publishing. A
    /// partition that is added to the topic while the pipeline runs is read from its beginning.
    #[serde(default = "default_start")]
    pub start: Start,

    /// The subscription under which read positions are published for lag tools, and for which brokers keep what was not read; `forebay-` and
    /// the pipeline's name if left out. It is never read from; only a store that is behind it is refused, as lost or rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<Identifier>,

    /// The listener whose addresses brokers give, where they have several (`advertisedListeners`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<Identifier>,

    /// Encryption and login.
    #[serde(default)]
    pub security: PulsarSecurity,
}

/// Encryption and login at Pulsar.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PulsarSecurity {
    /// Whom to trust, with `pulsar+ssl://`; the authorities that the system trusts if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<PulsarTls>,

    /// The token to log in with (a JWT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,

    /// Where tokens come from that expire, as those of OAuth 2.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuth>,

    /// Allows a token to be sent unencrypted (`pulsar://`) to another machine; anyone on the network can read it.
    #[serde(default)]
    pub allow_plaintext_password: bool,
}

/// Whom to trust, and how to show who one is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PulsarTls {
    /// PEM file of the authorities to trust; the system's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,

    /// PEM file of the client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,

    /// PEM file of the client's private key, without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,

    /// Whether the broker's certificate must contain the broker's host name. Turn this off only if the certificates contain other names;
    /// the certificate authority is still checked.
    #[serde(default = "default_true")]
    pub verify_host: bool,
}
