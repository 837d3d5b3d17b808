//! Schemas that messages were produced with, as their brokers keep them.
//!
//! Owns the name of a schema (its topic and its version there), the name that a block gets ([`Naming`]) and the questions to brokers. Does not own
//! what is in a schema, nor when it is asked for: whoever decodes does.
//!
//! A message names its schema by a version in its metadata, which says nothing without the topic. So blocks have `topic:version`, for example
//! `public/default/orders:3`, which dead letters keep.

use std::fmt;
use std::sync::Arc;

use dataflow::{Runtime, SourceError};

use super::client::{Client, Unanswered};
use super::{PulsarOptions, thread};

/// What a schema is of, as brokers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaKind {
    /// No schema: bytes.
    None,
    /// Avro.
    Avro,
    /// JSON; its text is one of Avro all the same.
    Json,
    /// Protocol Buffers, described by an Avro schema.
    Protobuf,
    /// Protocol Buffers, described by themselves.
    ProtobufNative,
    /// A schema of the key and another of the value.
    KeyValue,
    /// Another one, by its number: a single text, number or time.
    Other(i32),
}

impl SchemaKind {
    /// The number in the protocol.
    pub(super) fn number(self) -> i32 {
        match self {
            Self::None => 0,
            Self::Json => 2,
            Self::Protobuf => 3,
            Self::Avro => 4,
            Self::KeyValue => 15,
            Self::ProtobufNative => 20,
            Self::Other(number) => number,
        }
    }

    pub(super) fn of(number: i32) -> Self {
        let known =
            [Self::None, Self::Json, Self::Protobuf, Self::Avro, Self::KeyValue, Self::ProtobufNative];
        known.into_iter().find(|kind| kind.number() == number).unwrap_or(Self::Other(number))
    }
}

impl fmt::Display for SchemaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("bytes"),
            Self::Avro => f.write_str("Avro"),
            Self::Json => f.write_str("JSON"),
            Self::Protobuf | Self::ProtobufNative => f.write_str("Protobuf"),
            Self::KeyValue => f.write_str("KeyValue"),
            Self::Other(1) => f.write_str("String"),
            Self::Other(number) => write!(f, "a single value (type `{number}`)"),
        }
    }
}

/// A schema as a broker has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSchema {
    /// What it is of.
    pub kind: SchemaKind,
    /// Its text; for some kinds, bytes that are none.
    pub data: Vec<u8>,
}

/// Asks brokers for schemas, by connections of its own that are kept while they live.
#[derive(Clone)]
pub struct SchemaClient {
    client: Arc<Client>,
    topics: Arc<[String]>,
}

impl SchemaClient {
    /// A client of the brokers of `options`. Nothing is connected yet.
    pub fn new(options: PulsarOptions, runtime: Arc<dyn Runtime>) -> Self {
        let topics = options.topics.clone().into();
        Self { client: Arc::new(Client::new(Arc::new(options), runtime)), topics }
    }

    /// The topics of the options, as blocks name them.
    pub fn topics(&self) -> &[String] {
        &self.topics
    }

    /// The schema that a block names ([`dataflow::RecordBlock::schema`]); `None` if the brokers do not have it, or it is no such name.
    ///
    /// # Errors
    /// When the brokers are unavailable, or refuse us.
    pub async fn named(&self, name: &str) -> Result<Option<BrokerSchema>, SourceError> {
        let Some((topic, version)) = parsed(name) else { return Ok(None) };
        self.ask(topic, Some(version)).await
    }

    /// The newest schema of a topic; `None` if it has none.
    ///
    /// # Errors
    /// When the brokers are unavailable, or refuse us.
    pub async fn newest(&self, topic: &str) -> Result<Option<BrokerSchema>, SourceError> {
        self.ask(topic.to_owned(), None).await
    }

    async fn ask(
        &self,
        topic: String,
        version: Option<Vec<u8>>,
    ) -> Result<Option<BrokerSchema>, SourceError> {
        let client = self.client.clone();
        thread::run("pulsar-schema", move || client.schema(&topic, version).map_err(Unanswered::error)).await
    }
}

/// The name of the version of a topic's schema. Brokers number versions from 0 in eight bytes; others are shown byte by byte.
fn name(stream: &str, version: &[u8]) -> Arc<str> {
    match <[u8; 8]>::try_from(version) {
        Ok(number) => format!("{stream}:{}", u64::from_be_bytes(number)).into(),
        Err(_) => {
            let digits: String = version.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{stream}:0x{digits}").into()
        }
    }
}

/// The topic and the version of a name.
fn parsed(name: &str) -> Option<(String, Vec<u8>)> {
    let (stream, version) = name.rsplit_once(':')?;
    let version = match version.strip_prefix("0x") {
        Some(digits) if digits.is_ascii() => (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
            .collect::<Option<Vec<u8>>>()?,
        Some(_) => return None,
        None => version.parse::<u64>().ok()?.to_be_bytes().to_vec(),
    };
    Some((stream.to_owned(), version))
}

/// Bytes of a version; brokers give 8. A longer one is none.
const VERSION_BYTES_MAX: usize = 64;

/// The names of the schemas of one partition's messages; the last one is kept, for most entries name the same.
pub(super) struct Naming {
    stream: Arc<str>,
    version: Vec<u8>,
    name: Option<Arc<str>>,
}

impl Naming {
    pub(super) fn new(stream: Arc<str>) -> Self {
        Self { stream, version: Vec::new(), name: None }
    }

    /// The name of the schema of this version; `None` if there is no version, or one that no broker gives.
    #[inline]
    pub(super) fn of(&mut self, version: &[u8]) -> Option<&Arc<str>> {
        if self.version != version {
            self.version.clear();
            self.name = None;
            if (1..=VERSION_BYTES_MAX).contains(&version.len()) {
                self.version.extend_from_slice(version);
                self.name = Some(name(&self.stream, version));
            }
        }
        self.name.as_ref()
    }
}

#[cfg(test)]
mod tests;
