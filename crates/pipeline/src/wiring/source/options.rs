//! Settings of Kafka, Pulsar and a log to the options of their sources.
//!
//! Owns what follows for a source from the other settings of the pipeline: bounds of memory, names, credentials. Does not own how a source connects (`sources`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sources::kafka::{FetchBy, Issuer, IssuerOptions, KafkaOptions, TokenSource};
use sources::log::{Access, LogOptions};
use sources::pulsar::{PulsarOptions, Token};

use super::decoding::record_bytes;
use crate::config::model::Pipeline;
use crate::config::model::source::{
    self as model, Fetch, Format, Kafka, LogStart, Mechanism, OAuth, Pulsar, Security,
};
use crate::config::values::Start;
use crate::wiring::{WiringError, bounds, storage};

pub(super) fn kafka_options(
    kafka: &Kafka,
    format: &Format,
    pipeline: &Pipeline,
) -> Result<KafkaOptions, WiringError> {
    let brokers = kafka.brokers.as_slice().iter();
    let brokers =
        brokers.flat_map(|broker| broker.as_str().split(',')).map(|broker| broker.trim().to_owned());
    let topics =
        kafka.topic.iter().chain(kafka.topics.iter().flatten()).map(|topic| topic.as_str().to_owned());
    let group = match &kafka.group {
        Some(group) => group.to_string(),
        None => format!("forebay-{}", pipeline.pipeline),
    };
    let mut options = KafkaOptions::new(brokers.collect(), topics.collect(), group);
    options.start = match kafka.start {
        Start::Earliest => sources::kafka::Start::Earliest,
        Start::Latest => sources::kafka::Start::Latest,
        Start::At { ms } => sources::kafka::Start::Time(ms),
    };
    options.fetch = match kafka.fetch {
        Fetch::Auto => FetchBy::Auto,
        Fetch::Direct => FetchBy::Direct,
        Fetch::Librdkafka => FetchBy::Librdkafka,
    };
    options.ahead_bytes_max = bounds::ahead_bytes(pipeline);
    options.record_bytes_max = bounds::handed_out_bytes(pipeline, record_bytes(format));
    options.properties =
        kafka.properties.iter().map(|(name, value)| (name.to_string(), value.reveal().to_owned())).collect();
    options.properties.extend(security(&kafka.security));
    options.token = token(&kafka.security)?;
    Ok(options)
}

pub(super) fn log_options(log: &model::LogSource, pipeline: &Pipeline) -> Result<LogOptions, WiringError> {
    let (url, remote) = (log.url.to_string(), storage::remote_of(pipeline, &log.url)?);
    let open = move |access| match access {
        Access::Read => store::url::open_to_read(&url, &remote),
        Access::Acknowledge => store::open(&url, &remote).map(Some),
    };
    let consumer = log.consumer.as_ref();
    Ok(LogOptions {
        open: Arc::new(open),
        name: log.url.to_string(),
        consumer: consumer.map_or_else(|| pipeline.pipeline.to_string(), ToString::to_string),
        from_latest: log.start == LogStart::Latest,
        ahead_bytes_max: bounds::ahead_bytes(pipeline) as u64,
    })
}

pub(super) fn pulsar_options(
    pulsar: &Pulsar,
    format: &Format,
    pipeline: &Pipeline,
) -> Result<PulsarOptions, WiringError> {
    let subscription = match &pulsar.subscription {
        Some(subscription) => subscription.to_string(),
        None => format!("forebay-{}", pipeline.pipeline),
    };
    let mut options = pulsar_connection(pulsar, subscription)?;
    options.start = match pulsar.start {
        Start::Earliest => sources::pulsar::Start::Earliest,
        Start::Latest => sources::pulsar::Start::Latest,
        Start::At { ms } => sources::pulsar::Start::Time(ms),
    };
    options.names_schemas = format.is_of_the_source();
    options.ahead_bytes_max = bounds::ahead_bytes(pipeline);
    options.record_bytes_max = bounds::handed_out_bytes(pipeline, record_bytes(format));
    Ok(options)
}

/// How the brokers of a source are connected to, and its topics.
pub(super) fn pulsar_connection(pulsar: &Pulsar, subscription: String) -> Result<PulsarOptions, WiringError> {
    let topics = pulsar.topic.iter().chain(pulsar.topics.iter().flatten());
    let topics: Vec<String> = topics.map(|topic| topic.as_str().to_owned()).collect();
    let options = PulsarOptions::new(pulsar.service.as_str(), &topics, subscription);
    let mut options = options.map_err(|error| WiringError::Settings(error.to_string()))?;
    options.listener = pulsar.listener.as_ref().map(ToString::to_string);
    let security = &pulsar.security;
    if let (Some(tls), Some(asked)) = (&mut options.tls, &security.tls) {
        tls.ca = asked.ca.as_ref().map(PathBuf::from);
        tls.identity =
            asked.cert.as_ref().zip(asked.key.as_ref()).map(|(cert, key)| (cert.into(), key.into()));
        tls.verify_host = asked.verify_host;
    }
    let fixed = security.token.as_ref().map(|token| Token::Fixed(token.reveal().to_owned()));
    let source = security.oauth.as_ref().map(token_source).transpose()?;
    options.token = fixed.or_else(|| source.flatten().map(Token::Source));
    Ok(options)
}

/// librdkafka's words for encryption and login.
pub(crate) fn security(security: &Security) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        properties.insert(name.to_owned(), value.to_owned());
    };
    let protocol = match (&security.tls, &security.sasl) {
        (None, None) => return properties,
        (Some(_), None) => "SSL",
        (None, Some(_)) => "SASL_PLAINTEXT",
        (Some(_), Some(_)) => "SASL_SSL",
    };
    set("security.protocol", protocol);
    if let Some(tls) = &security.tls {
        let files = [
            ("ssl.ca.location", &tls.ca),
            ("ssl.certificate.location", &tls.cert),
            ("ssl.key.location", &tls.key),
        ];
        for (name, path) in files {
            if let Some(path) = path {
                set(name, path);
            }
        }
        if let Some(password) = &tls.key_password {
            set("ssl.key.password", password.reveal());
        }
        set("ssl.endpoint.identification.algorithm", if tls.verify_host { "https" } else { "none" });
    }
    if let Some(sasl) = &security.sasl {
        set("sasl.mechanism", sasl.mechanism.as_str());
        if sasl.mechanism != Mechanism::OAuthBearer {
            if let Some(username) = &sasl.username {
                set("sasl.username", username);
            }
            if let Some(password) = &sasl.password {
                set("sasl.password", password.reveal());
            }
        }
    }
    properties
}

pub(super) fn token(security: &Security) -> Result<Option<TokenSource>, WiringError> {
    let sasl = security.sasl.as_ref().filter(|sasl| sasl.mechanism == Mechanism::OAuthBearer);
    sasl.and_then(|sasl| sasl.oauth.as_ref()).map_or(Ok(None), token_source)
}

fn token_source(oauth: &OAuth) -> Result<Option<TokenSource>, WiringError> {
    let issuer_url = match (&oauth.token_file, &oauth.token_command, &oauth.issuer_url) {
        (Some(path), ..) => return Ok(Some(TokenSource::File(path.clone()))),
        (None, Some(words), _) => return Ok(Some(TokenSource::Command(words.clone()))),
        (None, None, Some(url)) => url.to_string(),
        (None, None, None) => return Ok(None),
    };
    let ca = oauth.ca.as_deref().map(|ca| crate::wiring::pem(Path::new(ca), "oauth.ca")).transpose()?;
    let secret = oauth.client_secret.as_ref().map(|secret| secret.reveal().to_owned());
    let issuer = Issuer::new(IssuerOptions {
        issuer_url,
        client_id: oauth.client_id.clone().unwrap_or_default(),
        client_secret: secret.unwrap_or_default(),
        audience: oauth.audience.clone(),
        scope: oauth.scope.clone(),
        ca_pem: ca,
    });
    let issuer = issuer.map_err(|why| WiringError::Settings(format!("`oauth`: {why}")))?;
    Ok(Some(TokenSource::Issuer(Arc::new(issuer))))
}
