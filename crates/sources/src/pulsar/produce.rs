//! A producer of batches, for tests and measurements.
//!
//! Owns the bytes of a batch and the wait for its receipt. Does not own anything that a pipeline needs: pipelines read.

use std::sync::Arc;

use dataflow::{Runtime, SourceError};
use prost::Message as _;

use super::PulsarOptions;
use super::client::{Client, Unanswered};
use super::connection::Connection;
use super::errors::{self, Trouble};
use super::messages::{Command, KeyValue, Kind, Metadata, Producer as Produce, Schema, Send, SingleMetadata};
use super::place::Entry;
use super::schema::BrokerSchema;
use super::topic;

/// How a batch is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are Pulsar's")]
pub enum Compression {
    #[default]
    None,
    Lz4,
    Zlib,
    Zstd,
    Snappy,
}

/// A message to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outgoing<'a> {
    /// The body; `None` for a message without one.
    pub payload: Option<&'a [u8]>,
    /// The key.
    pub key: Option<&'a str>,
    /// The properties.
    pub properties: &'a [(&'a str, &'a str)],
    /// The event time in Unix milliseconds; 0 for none.
    pub event_time_ms: u64,
}

/// A producer of one partition, which waits for each receipt.
pub struct Producer {
    connection: Connection,
    runtime: Arc<dyn Runtime>,
    sequence: u64,
    /// The name that the broker has given it.
    name: String,
    /// The version that the broker has given its schema.
    schema_version: Option<Vec<u8>>,
}

const PRODUCER: u64 = 0;
/// The marker by which brokers of replicated subscriptions ask each other for their positions.
const SNAPSHOT_REQUEST: i32 = 10;

/// Each may take as long as the broker takes to give up.
const TRIES_MAX: usize = 5;

impl Producer {
    /// Connects to the broker of `topic` (a partition by its full name if the topic has some), which is made if the broker allows it.
    ///
    /// # Errors
    /// When the broker is away or refuses.
    pub fn new(options: PulsarOptions, topic: &str, runtime: Arc<dyn Runtime>) -> Result<Self, SourceError> {
        let name = topic::whole(&topic::full(topic).map_err(|why| {
            SourceError::new(dataflow::SourceFault::Config, format!("topic `{topic}` {why}"))
        })?);
        Self::patiently(&Arc::new(options), &name, &runtime, None)
    }

    /// The same whose messages are of `schema`, which the broker registers for the topic.
    ///
    /// # Errors
    /// As [`new`](Self::new), and when the schema is not compatible with those that the topic has.
    pub fn of_schema(
        options: PulsarOptions,
        topic: &str,
        runtime: Arc<dyn Runtime>,
        schema: &BrokerSchema,
    ) -> Result<Self, SourceError> {
        let config = |why| SourceError::new(dataflow::SourceFault::Config, format!("topic `{topic}` {why}"));
        let name = topic::whole(&topic::full(topic).map_err(config)?);
        let schema = Schema { name: name.clone(), data: schema.data.clone(), kind: schema.kind.number() };
        Self::patiently(&Arc::new(options), &name, &runtime, Some(schema))
    }

    /// The messages from now on say that they are of this version of the topic's schema, whether the broker has it or not.
    pub fn claim_schema(&mut self, version: Option<Vec<u8>>) {
        self.schema_version = version;
    }

    /// Opens it, once more if the broker is away: it gives up loading a topic after a minute, which is short on a busy machine.
    fn patiently(
        options: &Arc<PulsarOptions>,
        name: &str,
        runtime: &Arc<dyn Runtime>,
        schema: Option<Schema>,
    ) -> Result<Self, SourceError> {
        let mut tries = 1;
        loop {
            match Self::open(options, name, runtime, schema.clone()).map_err(Unanswered::error) {
                Err(error) if error.fault == dataflow::SourceFault::Away && tries < TRIES_MAX => tries += 1,
                result => return result,
            }
        }
    }

    fn open(
        options: &Arc<PulsarOptions>,
        name: &str,
        runtime: &Arc<dyn Runtime>,
        schema: Option<Schema>,
    ) -> Result<Self, Unanswered> {
        let route = Client::new(options.clone(), runtime.clone()).route(name)?;
        let mut connection =
            Connection::open(&route.address, route.broker.as_ref(), options, runtime, &|| true)?;
        let request = connection.number();
        let has_schema = schema.is_some();
        let producer = Some(Produce { topic: name.to_owned(), producer: PRODUCER, request, schema });
        let command = Command { kind: Kind::Producer as i32, producer, ..Command::default() };
        let answer = connection.ask(&command, &|| true, |command| {
            match (command.producer_success, command.error) {
                (Some(success), _) if success.request == request => Some(Ok(success)),
                (_, Some(failure)) if failure.request == request => Some(Err(failure)),
                _ => None,
            }
        })?;
        let answer =
            answer.map_err(|failure| Unanswered::Trouble(errors::of(failure.error, &failure.message)));
        let success = answer?;
        Ok(Self {
            connection,
            runtime: runtime.clone(),
            sequence: 0,
            name: success.name,
            schema_version: success.schema_version.filter(|_| has_schema),
        })
    }

    /// Sends messages as one batch, and waits until it is stored. Gives its ledger and entry.
    ///
    /// # Errors
    /// When the broker is away or refuses.
    pub fn batch(
        &mut self,
        messages: &[Outgoing<'_>],
        compression: Compression,
    ) -> Result<(u64, u64), SourceError> {
        let mut payload = Vec::new();
        for message in messages {
            let single = SingleMetadata {
                properties: pairs(message.properties),
                key: message.key.map(str::to_owned),
                payload_bytes: message.payload.unwrap_or_default().len() as i32,
                event_time: (message.event_time_ms > 0).then_some(message.event_time_ms),
                sequence: Some(self.sequence),
                is_null: message.payload.is_none().then_some(true),
                ..SingleMetadata::default()
            };
            payload.extend_from_slice(&(single.encoded_len() as u32).to_be_bytes());
            single.encode(&mut payload).expect("a vector has room");
            payload.extend_from_slice(message.payload.unwrap_or_default());
        }
        let metadata = Metadata { messages: Some(messages.len() as i32), ..self.metadata() };
        self.send(metadata, &payload, messages.len() as i32, compression)
    }

    /// Sends a message by itself, and waits until it is stored. Gives its ledger and entry.
    ///
    /// # Errors
    /// When the broker is away or refuses.
    pub fn one(
        &mut self,
        message: &Outgoing<'_>,
        compression: Compression,
    ) -> Result<(u64, u64), SourceError> {
        let metadata = Metadata {
            properties: pairs(message.properties),
            key: message.key.map(str::to_owned),
            event_time: (message.event_time_ms > 0).then_some(message.event_time_ms),
            is_null: message.payload.is_none().then_some(true),
            ..self.metadata()
        };
        self.send(metadata, message.payload.unwrap_or_default(), 1, compression)
    }

    /// Sends a message as one that its producer says to have encrypted.
    ///
    /// # Errors
    /// When the broker is away or refuses.
    pub fn encrypted(&mut self, payload: &[u8]) -> Result<(u64, u64), SourceError> {
        let metadata = Metadata { encryption_keys: vec![Default::default()], ..self.metadata() };
        self.send(metadata, payload, 1, Compression::None)
    }

    /// Sends what is for brokers alone, which they deliver to nobody. It stands for the markers that they write for replicated subscriptions and at the end of
    /// a transaction.
    ///
    /// # Errors
    /// When the broker is away or refuses.
    pub fn marker(&mut self) -> Result<(u64, u64), SourceError> {
        let metadata = Metadata { marker: Some(SNAPSHOT_REQUEST), ..self.metadata() };
        self.send(metadata, b"", 1, Compression::None)
    }

    /// Sends chunk `index` of `chunks` of a message with this name, which has `bytes` in all. The chunks of a message have one sequence, which its first
    /// one begins.
    ///
    /// # Errors
    /// When the broker is away or refuses.
    pub fn chunk(
        &mut self,
        uuid: &str,
        payload: &[u8],
        (index, chunks): (i32, i32),
        bytes: usize,
    ) -> Result<(u64, u64), SourceError> {
        if index > 0 {
            self.sequence -= 1;
        }
        let metadata = Metadata {
            uuid: Some(uuid.to_owned()),
            chunk: Some(index),
            chunks: Some(chunks),
            chunked_bytes: Some(bytes as i32),
            ..self.metadata()
        };
        self.send(metadata, payload, 1, Compression::None)
    }

    fn metadata(&self) -> Metadata {
        Metadata {
            producer: self.name.clone(),
            sequence: self.sequence,
            publish_time: self.runtime.wall_ms().unsigned_abs(),
            schema_version: self.schema_version.clone(),
            ..Metadata::default()
        }
    }

    fn send(
        &mut self,
        metadata: Metadata,
        payload: &[u8],
        messages: i32,
        compression: Compression,
    ) -> Result<(u64, u64), SourceError> {
        let away = |why: String| SourceError::new(dataflow::SourceFault::Away, why);
        let packed = pack(compression, payload).map_err(|why| away(why.to_string()))?;
        let metadata = Metadata {
            compression: (compression != Compression::None).then_some(compression as i32),
            uncompressed_bytes: Some(payload.len() as u32),
            ..metadata
        };
        let sequence = self.sequence;
        self.sequence += messages.unsigned_abs() as u64;
        let send = Some(Send { producer: PRODUCER, sequence, messages: Some(messages) });
        let command = Command { kind: Kind::Send as i32, send, ..Command::default() };
        let answer = self
            .connection
            .say_entry(&command, &metadata.encode_to_vec(), &packed)
            .and_then(|()| {
                self.connection.wait(&|| true, |command| match (command.send_receipt, command.send_error) {
                    (Some(receipt), _) if receipt.sequence == sequence => Some(Ok(receipt.id)),
                    (_, Some(failure)) if failure.sequence == sequence => Some(Err(failure)),
                    _ => None,
                })
            })
            .map_err(|lost| Unanswered::Lost(lost).error())?;
        let id = answer.map_err(|failure| {
            Unanswered::Trouble(Trouble::Moved(errors::words(failure.error, &failure.message))).error()
        })?;
        let entry =
            id.as_ref().and_then(Entry::of).ok_or_else(|| away("the receipt names no entry".into()))?;
        Ok((entry.ledger, entry.entry))
    }
}

fn pairs(properties: &[(&str, &str)]) -> Vec<KeyValue> {
    let pair = |(key, value): &(&str, &str)| KeyValue { key: (*key).to_owned(), value: (*value).to_owned() };
    properties.iter().map(pair).collect()
}

fn pack(compression: Compression, payload: &[u8]) -> std::io::Result<Vec<u8>> {
    use std::io::Write as _;
    Ok(match compression {
        Compression::None => payload.to_vec(),
        Compression::Lz4 => lz4_flex::block::compress(payload),
        Compression::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(payload)?;
            encoder.finish()?
        }
        Compression::Zstd => zstd::stream::encode_all(payload, 1)?,
        Compression::Snappy => {
            snap::raw::Encoder::new().compress_vec(payload).map_err(std::io::Error::other)?
        }
    })
}
