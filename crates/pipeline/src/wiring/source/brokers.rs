//! Schemas of records as the brokers of Pulsar keep them.
//!
//! Owns what a schema of the brokers means for a pipeline that reads Avro, Protobuf, or a format without schemas. Does not own how they are asked
//! (`sources::pulsar`), when (`registry`), nor what a schema says (`formats`).
//!
//! | the brokers …                        | what becomes of it                                             |
//! |--------------------------------------|----------------------------------------------------------------|
//! | have a schema of the format in this version | records are read by it                                  |
//! | have one of another type             | dead letters; at a start, if it is the topic's newest, a refusal |
//! | do not have the version              | dead letters, after some questions                             |
//! | are unavailable, or refuse us        | the block waits                                                |
//!
//! Formats without schemas only meet the refusal: no version is asked for.

use std::sync::Arc;

use async_trait::async_trait;
use dataflow::{RecordBlock, SourceError, SourceFault};
use formats::schemas::SchemaText;
use registry::{Found, Registry, RegistryError};
use sources::pulsar::{BrokerSchema, SchemaClient, SchemaKind};

/// What a pipeline reads from topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    Avro,
    Protobuf,
    /// A format that is all text and has no schemas, by its name.
    Text(&'static str),
}

impl Reads {
    fn name(self) -> &'static str {
        match self {
            Self::Avro => "Avro",
            Self::Protobuf => "Protobuf",
            Self::Text(name) => name,
        }
    }

    /// Whether records are read by schemas of this kind.
    fn is_by(self, kind: SchemaKind) -> bool {
        matches!((self, kind), (Self::Avro, SchemaKind::Avro) | (Self::Protobuf, SchemaKind::ProtobufNative))
    }
}

/// The brokers, asked for schemas.
pub(super) struct Brokers {
    pub(super) client: SchemaClient,
    pub(super) reads: Reads,
}

#[async_trait]
impl Registry for Brokers {
    type Key = Arc<str>;

    fn named(&self, block: &RecordBlock) -> Vec<Arc<str>> {
        block.schema.iter().cloned().collect()
    }

    async fn schema(&self, name: &Arc<str>) -> Result<Found, RegistryError> {
        // Whoever is refused now was let in when the read began: a token may be renewed at any time, and nothing is lost meanwhile.
        let away = |error: SourceError| RegistryError {
            fault: SourceFault::Away,
            message: format!("the schema `{name}` cannot be asked for: {}", error.message),
        };
        Ok(match self.client.named(name).await.map_err(away)? {
            None => Found::Missing("the brokers have no schema of this version".into()),
            Some(BrokerSchema { kind, data }) if self.reads.is_by(kind) => match String::from_utf8(data) {
                Ok(text) => Found::Texts(vec![SchemaText::own(text)]),
                Err(_) => Found::Unusable("its text is not in UTF-8".into()),
            },
            Some(BrokerSchema { kind: SchemaKind::Protobuf, .. }) if self.reads == Reads::Protobuf => {
                Found::Unusable(format!("{NO_TYPES}; write {AS_FILE}"))
            }
            Some(BrokerSchema { kind, .. }) => Found::Unusable(format!(
                "it is a schema of {kind}, and the pipeline reads {}",
                self.reads.name()
            )),
        })
    }

    async fn check(&self) -> Result<(), RegistryError> {
        for topic in self.client.topics() {
            let newest = match (self.client.newest(topic).await, self.reads) {
                (Ok(newest), _) => newest,
                // Its records need no schema, so nothing depends on the answer.
                (Err(error), Reads::Text(_)) => {
                    tracing::warn!(topic, "the topic's schema cannot be asked for: {}", error.message);
                    continue;
                }
                (Err(error), _) => {
                    return Err(RegistryError { fault: error.fault, message: error.message });
                }
            };
            if let Some(message) = newest.and_then(|schema| refusal(topic, schema.kind, self.reads)) {
                return Err(RegistryError { fault: SourceFault::Config, message });
            }
        }
        Ok(())
    }
}

/// What is wrong with a schema of the type PROTOBUF.
const NO_TYPES: &str =
    "a schema of the type PROTOBUF describes Protobuf as if it were Avro, without the numbers of the fields";
/// Where types come from instead.
const AS_FILE: &str = "`format: { protobuf: { schema_file: orders.proto, message: shop.Order } }` with the types of the messages";

/// Why records of a topic whose newest schema is of this kind cannot be read, and what to do.
fn refusal(topic: &str, kind: SchemaKind, reads: Reads) -> Option<String> {
    let way_out = match (kind, reads) {
        // Without a schema, or with one to come.
        (SchemaKind::None, _) => return None,
        (kind, reads) if reads.is_by(kind) => return None,
        // A text in a schema of its own, or the value beside a key, may be in the format all the same.
        (SchemaKind::Json | SchemaKind::KeyValue | SchemaKind::Other(_), Reads::Text(_)) => return None,
        (SchemaKind::Protobuf, Reads::Protobuf) => {
            return Some(format!("topic `{topic}`: {NO_TYPES}: write {AS_FILE}"));
        }
        (SchemaKind::Json, _) => "write `format: json`".to_owned(),
        (SchemaKind::Avro, _) => "write `format: avro`".to_owned(),
        (SchemaKind::ProtobufNative, _) => "write `format: protobuf`".to_owned(),
        (SchemaKind::Protobuf, _) => format!("write {AS_FILE}"),
        (SchemaKind::KeyValue, _) => format!(
            "a key and a value with a schema each are not read; produce records of one schema of {} into a topic of its own, and read that one",
            reads.name()
        ),
        (SchemaKind::Other(_), _) => format!(
            "a row is made of a record; produce records of a schema of {} into a topic of its own, and read that one",
            reads.name()
        ),
    };
    Some(format!(
        "topic `{topic}` has a schema of {kind}, and the pipeline reads {}: {way_out}",
        reads.name()
    ))
}

#[cfg(test)]
mod tests;
