//! Schemas of Avro records as the brokers of Pulsar keep them.
//!
//! Owns what a schema of the brokers means for a pipeline that reads Avro. Does not own how they are asked (`sources::pulsar`), when (`registry`), nor
//! what a schema says (`formats::avro`).
//!
//! | the brokers …                        | what becomes of it                                             |
//! |--------------------------------------|----------------------------------------------------------------|
//! | have an Avro schema of this version  | records are read by it                                         |
//! | have one of another type             | dead letters; at a start, if it is the topic's newest, a refusal |
//! | do not have the version              | dead letters, after some questions                             |
//! | are unavailable, or refuse us        | the block waits                                                |

use std::sync::Arc;

use async_trait::async_trait;
use dataflow::{RecordBlock, SourceError, SourceFault};
use registry::{Found, Registry, RegistryError};
use sources::pulsar::{BrokerSchema, SchemaClient, SchemaKind};

/// The brokers, asked for schemas.
pub(super) struct Brokers(pub(super) SchemaClient);

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
        Ok(match self.0.named(name).await.map_err(away)? {
            None => Found::Missing("the brokers have no schema of this version".into()),
            Some(BrokerSchema { kind: SchemaKind::Avro, data }) => match String::from_utf8(data) {
                Ok(text) => Found::Texts(vec![text]),
                Err(_) => Found::Unusable("its text is not in UTF-8".into()),
            },
            Some(BrokerSchema { kind, .. }) => {
                Found::Unusable(format!("it is a schema of {kind}, and the pipeline reads Avro"))
            }
        })
    }

    async fn check(&self) -> Result<(), RegistryError> {
        for topic in self.0.topics() {
            let asked = self.0.newest(topic).await;
            let newest =
                asked.map_err(|error| RegistryError { fault: error.fault, message: error.message })?;
            if let Some(message) = newest.and_then(|schema| refusal(topic, schema.kind)) {
                return Err(RegistryError { fault: SourceFault::Config, message });
            }
        }
        Ok(())
    }
}

/// Why records of a topic whose newest schema is of this kind cannot be read as Avro, and what to do.
fn refusal(topic: &str, kind: SchemaKind) -> Option<String> {
    let way_out = match kind {
        // Without a schema, or with one to come.
        SchemaKind::Avro | SchemaKind::None => return None,
        SchemaKind::Json => "write `format: json`",
        SchemaKind::Protobuf | SchemaKind::ProtobufNative => {
            "Protobuf schemas of the brokers are not read; produce Avro or JSON into a topic of its own, and read that one"
        }
        SchemaKind::KeyValue => {
            "a key and a value with a schema each are not read; produce records of one Avro schema into a topic of its own, and read that one"
        }
        SchemaKind::Other(_) => {
            "a row is made of a record; produce records of an Avro schema into a topic of its own, and read that one"
        }
    };
    Some(format!("topic `{topic}` has a schema of {kind}, and the pipeline reads Avro: {way_out}"))
}
