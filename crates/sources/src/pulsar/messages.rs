//! The commands of Pulsar's binary protocol, as far as they are used here.
//!
//! Owns their fields and numbers. Does not own framing (`frame`), nor the metadata of messages, which is read field by field (`entry`).
//! Numbers that a newer broker adds are skipped. What the protocol requires is written even if it is zero: `required`.

/// `AuthMethod` of the handshake has been a text for years; this is the one for tokens, that for clients' certificates, and that for nobody.
pub(super) const TOKEN_METHOD: &str = "token";
pub(super) const CERTIFICATE_METHOD: &str = "tls";
pub(super) const NO_METHOD: &str = "none";

/// The protocol that is spoken: 19 has had all that is used here since Pulsar 2.10.
pub(super) const PROTOCOL_VERSION: i32 = 19;

/// The kinds of commands, by their number in [`Command::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Kind {
    Unknown = 0,
    Connect = 2,
    Connected = 3,
    Subscribe = 4,
    Producer = 5,
    Send = 6,
    SendReceipt = 7,
    SendError = 8,
    Message = 9,
    Ack = 10,
    Flow = 11,
    Unsubscribe = 12,
    Success = 13,
    Error = 14,
    CloseProducer = 15,
    CloseConsumer = 16,
    ProducerSuccess = 17,
    Ping = 18,
    Pong = 19,
    PartitionedMetadata = 21,
    PartitionedMetadataResponse = 22,
    Lookup = 23,
    LookupResponse = 24,
    ConsumerStats = 25,
    ConsumerStatsResponse = 26,
    ReachedEndOfTopic = 27,
    Seek = 28,
    GetLastMessageId = 29,
    GetLastMessageIdResponse = 30,
    ActiveConsumerChange = 31,
    GetSchema = 34,
    GetSchemaResponse = 35,
    AuthChallenge = 36,
    AuthResponse = 37,
    AckResponse = 38,
    TopicMigrated = 68,
}

/// One command: its kind, and the field that goes with it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Command {
    #[prost(enumeration = "Kind", required, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) connect: Option<Connect>,
    #[prost(message, optional, tag = "3")]
    pub(super) connected: Option<Connected>,
    #[prost(message, optional, tag = "4")]
    pub(super) subscribe: Option<Subscribe>,
    #[prost(message, optional, tag = "5")]
    pub(super) producer: Option<Producer>,
    #[prost(message, optional, tag = "6")]
    pub(super) send: Option<Send>,
    #[prost(message, optional, tag = "7")]
    pub(super) send_receipt: Option<SendReceipt>,
    #[prost(message, optional, tag = "8")]
    pub(super) send_error: Option<SendError>,
    #[prost(message, optional, tag = "9")]
    pub(super) message: Option<Delivery>,
    #[prost(message, optional, tag = "10")]
    pub(super) ack: Option<Ack>,
    #[prost(message, optional, tag = "11")]
    pub(super) flow: Option<Flow>,
    #[prost(message, optional, tag = "12")]
    pub(super) unsubscribe: Option<OfConsumer>,
    #[prost(message, optional, tag = "13")]
    pub(super) success: Option<Success>,
    #[prost(message, optional, tag = "14")]
    pub(super) error: Option<Failure>,
    #[prost(message, optional, tag = "15")]
    pub(super) close_producer: Option<OfConsumer>,
    #[prost(message, optional, tag = "16")]
    pub(super) close_consumer: Option<OfConsumer>,
    #[prost(message, optional, tag = "17")]
    pub(super) producer_success: Option<ProducerSuccess>,
    #[prost(message, optional, tag = "18")]
    pub(super) ping: Option<Nothing>,
    #[prost(message, optional, tag = "19")]
    pub(super) pong: Option<Nothing>,
    #[prost(message, optional, tag = "21")]
    pub(super) partitions: Option<Partitions>,
    #[prost(message, optional, tag = "22")]
    pub(super) partitions_response: Option<PartitionsResponse>,
    #[prost(message, optional, tag = "23")]
    pub(super) lookup: Option<Lookup>,
    #[prost(message, optional, tag = "24")]
    pub(super) lookup_response: Option<LookupResponse>,
    #[prost(message, optional, tag = "25")]
    pub(super) stats: Option<StatsOf>,
    #[prost(message, optional, tag = "26")]
    pub(super) stats_response: Option<Stats>,
    #[prost(message, optional, tag = "27")]
    pub(super) reached_end: Option<OfConsumer>,
    #[prost(message, optional, tag = "28")]
    pub(super) seek: Option<Seek>,
    #[prost(message, optional, tag = "29")]
    pub(super) get_last: Option<OfConsumer>,
    #[prost(message, optional, tag = "30")]
    pub(super) last: Option<Last>,
    #[prost(message, optional, tag = "34")]
    pub(super) get_schema: Option<GetSchema>,
    #[prost(message, optional, tag = "35")]
    pub(super) schema: Option<SchemaResponse>,
    #[prost(message, optional, tag = "36")]
    pub(super) auth_challenge: Option<Nothing>,
    #[prost(message, optional, tag = "37")]
    pub(super) auth_response: Option<AuthResponse>,
    #[prost(message, optional, tag = "38")]
    pub(super) ack_response: Option<AckResponse>,
}

/// A message without fields, or one whose fields do not matter here.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Nothing {}

/// Where an entry stands, and a message in it. An entry of all ones stands for "before the first".
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct MessageId {
    #[prost(uint64, required, tag = "1")]
    pub(super) ledger: u64,
    #[prost(uint64, required, tag = "2")]
    pub(super) entry: u64,
    #[prost(int32, optional, tag = "3")]
    pub(super) partition: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub(super) batch_index: Option<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FeatureFlags {
    #[prost(bool, optional, tag = "1")]
    pub(super) supports_auth_refresh: Option<bool>,
    /// Asking for the partitions of a topic that does not exist then creates none.
    #[prost(bool, optional, tag = "5")]
    pub(super) supports_partitions_without_creation: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Connect {
    #[prost(string, required, tag = "1")]
    pub(super) client_version: String,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) auth_data: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "4")]
    pub(super) protocol_version: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub(super) auth_method_name: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub(super) proxy_to_broker_url: Option<String>,
    #[prost(message, optional, tag = "10")]
    pub(super) feature_flags: Option<FeatureFlags>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Connected {
    #[prost(string, required, tag = "1")]
    pub(super) server_version: String,
    #[prost(int32, optional, tag = "2")]
    pub(super) protocol_version: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) max_message_bytes: Option<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AuthData {
    #[prost(string, optional, tag = "1")]
    pub(super) method: Option<String>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) data: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AuthResponse {
    #[prost(string, optional, tag = "1")]
    pub(super) client_version: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub(super) response: Option<AuthData>,
    #[prost(int32, optional, tag = "3")]
    pub(super) protocol_version: Option<i32>,
}

/// How a subscription is shared.
pub(super) const EXCLUSIVE: i32 = 0;
pub(super) const FAILOVER: i32 = 2;
/// Where a new subscription begins.
pub(super) const EARLIEST: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Subscribe {
    #[prost(string, required, tag = "1")]
    pub(super) topic: String,
    #[prost(string, required, tag = "2")]
    pub(super) subscription: String,
    #[prost(int32, required, tag = "3")]
    pub(super) kind: i32,
    #[prost(uint64, required, tag = "4")]
    pub(super) consumer: u64,
    #[prost(uint64, required, tag = "5")]
    pub(super) request: u64,
    #[prost(string, optional, tag = "6")]
    pub(super) name: Option<String>,
    #[prost(bool, optional, tag = "8")]
    pub(super) durable: Option<bool>,
    #[prost(message, optional, tag = "9")]
    pub(super) start: Option<MessageId>,
    #[prost(int32, optional, tag = "13")]
    pub(super) initial_position: Option<i32>,
    #[prost(bool, optional, tag = "15")]
    pub(super) create_topic: Option<bool>,
    /// Begins with what was published so many seconds ago, whatever `start` says.
    #[prost(uint64, optional, tag = "16")]
    pub(super) age_seconds: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Partitions {
    #[prost(string, required, tag = "1")]
    pub(super) topic: String,
    #[prost(uint64, required, tag = "2")]
    pub(super) request: u64,
    #[prost(bool, optional, tag = "6")]
    pub(super) create: Option<bool>,
}

/// `response` of an answer that failed.
pub(super) const PARTITIONS_FAILED: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PartitionsResponse {
    #[prost(uint32, optional, tag = "1")]
    pub(super) partitions: Option<u32>,
    #[prost(uint64, required, tag = "2")]
    pub(super) request: u64,
    #[prost(int32, optional, tag = "3")]
    pub(super) response: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub(super) error: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub(super) message: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Lookup {
    #[prost(string, required, tag = "1")]
    pub(super) topic: String,
    #[prost(uint64, required, tag = "2")]
    pub(super) request: u64,
    #[prost(bool, optional, tag = "3")]
    pub(super) authoritative: Option<bool>,
    #[prost(string, optional, tag = "7")]
    pub(super) listener: Option<String>,
}

/// `response` of a lookup: ask that broker; connect to that broker. Any other is a failure.
pub(super) const LOOKUP_REDIRECT: i32 = 0;
pub(super) const LOOKUP_CONNECT: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LookupResponse {
    #[prost(string, optional, tag = "1")]
    pub(super) url: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) url_tls: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub(super) response: Option<i32>,
    #[prost(uint64, required, tag = "4")]
    pub(super) request: u64,
    #[prost(bool, optional, tag = "5")]
    pub(super) authoritative: Option<bool>,
    #[prost(int32, optional, tag = "6")]
    pub(super) error: Option<i32>,
    #[prost(string, optional, tag = "7")]
    pub(super) message: Option<String>,
    #[prost(bool, optional, tag = "8")]
    pub(super) through_service_url: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatsOf {
    #[prost(uint64, required, tag = "1")]
    pub(super) request: u64,
    #[prost(uint64, required, tag = "4")]
    pub(super) consumer: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Stats {
    #[prost(uint64, required, tag = "1")]
    pub(super) request: u64,
    #[prost(int32, optional, tag = "2")]
    pub(super) error: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub(super) message: Option<String>,
    /// Entries that the subscription has before it.
    #[prost(uint64, optional, tag = "15")]
    pub(super) backlog: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Delivery {
    #[prost(uint64, required, tag = "1")]
    pub(super) consumer: u64,
    #[prost(message, optional, tag = "2")]
    pub(super) id: Option<MessageId>,
}

/// Acknowledges all up to a message.
pub(super) const CUMULATIVE: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Ack {
    #[prost(uint64, required, tag = "1")]
    pub(super) consumer: u64,
    #[prost(int32, required, tag = "2")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "3")]
    pub(super) id: Option<MessageId>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) request: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AckResponse {
    #[prost(uint64, required, tag = "1")]
    pub(super) consumer: u64,
    #[prost(int32, optional, tag = "4")]
    pub(super) error: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub(super) message: Option<String>,
    #[prost(uint64, optional, tag = "6")]
    pub(super) request: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Flow {
    #[prost(uint64, required, tag = "1")]
    pub(super) consumer: u64,
    #[prost(uint32, required, tag = "2")]
    pub(super) permits: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Seek {
    #[prost(uint64, required, tag = "1")]
    pub(super) consumer: u64,
    #[prost(uint64, required, tag = "2")]
    pub(super) request: u64,
    #[prost(message, optional, tag = "3")]
    pub(super) id: Option<MessageId>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) publish_time: Option<u64>,
}

/// A command that names a consumer (or a producer), and a request where it has an answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OfConsumer {
    #[prost(uint64, required, tag = "1")]
    pub(super) consumer: u64,
    #[prost(uint64, optional, tag = "2")]
    pub(super) request: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Success {
    #[prost(uint64, required, tag = "1")]
    pub(super) request: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Failure {
    #[prost(uint64, required, tag = "1")]
    pub(super) request: u64,
    #[prost(int32, required, tag = "2")]
    pub(super) error: i32,
    #[prost(string, required, tag = "3")]
    pub(super) message: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Last {
    #[prost(message, optional, tag = "1")]
    pub(super) id: Option<MessageId>,
    #[prost(uint64, required, tag = "2")]
    pub(super) request: u64,
    /// All up to here is acknowledged by the consumer's subscription.
    #[prost(message, optional, tag = "3")]
    pub(super) acknowledged: Option<MessageId>,
}

/// Asks for a schema; without a version, for the newest.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetSchema {
    #[prost(uint64, required, tag = "1")]
    pub(super) request: u64,
    #[prost(string, required, tag = "2")]
    pub(super) topic: String,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) version: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchemaResponse {
    #[prost(uint64, required, tag = "1")]
    pub(super) request: u64,
    #[prost(int32, optional, tag = "2")]
    pub(super) error: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub(super) message: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub(super) schema: Option<Schema>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Schema {
    #[prost(string, required, tag = "1")]
    pub(super) name: String,
    #[prost(bytes = "vec", required, tag = "3")]
    pub(super) data: Vec<u8>,
    /// As [`SchemaKind`](super::schema::SchemaKind) numbers it.
    #[prost(int32, required, tag = "4")]
    pub(super) kind: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Producer {
    #[prost(string, required, tag = "1")]
    pub(super) topic: String,
    #[prost(uint64, required, tag = "2")]
    pub(super) producer: u64,
    #[prost(uint64, required, tag = "3")]
    pub(super) request: u64,
    #[prost(message, optional, tag = "7")]
    pub(super) schema: Option<Schema>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProducerSuccess {
    #[prost(uint64, required, tag = "1")]
    pub(super) request: u64,
    #[prost(string, required, tag = "2")]
    pub(super) name: String,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(super) schema_version: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Send {
    #[prost(uint64, required, tag = "1")]
    pub(super) producer: u64,
    #[prost(uint64, required, tag = "2")]
    pub(super) sequence: u64,
    #[prost(int32, optional, tag = "3")]
    pub(super) messages: Option<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SendReceipt {
    #[prost(uint64, required, tag = "1")]
    pub(super) producer: u64,
    #[prost(uint64, required, tag = "2")]
    pub(super) sequence: u64,
    #[prost(message, optional, tag = "3")]
    pub(super) id: Option<MessageId>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SendError {
    #[prost(uint64, required, tag = "1")]
    pub(super) producer: u64,
    #[prost(uint64, required, tag = "2")]
    pub(super) sequence: u64,
    #[prost(int32, required, tag = "3")]
    pub(super) error: i32,
    #[prost(string, required, tag = "4")]
    pub(super) message: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyValue {
    #[prost(string, required, tag = "1")]
    pub(super) key: String,
    #[prost(string, required, tag = "2")]
    pub(super) value: String,
}

/// By what an entry is encrypted. Brokers insist on its fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptionKey {
    #[prost(string, required, tag = "1")]
    pub(super) key: String,
    #[prost(bytes = "vec", required, tag = "2")]
    pub(super) value: Vec<u8>,
}

/// What a producer writes about an entry. Read field by field in `entry`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Metadata {
    #[prost(string, required, tag = "1")]
    pub(super) producer: String,
    #[prost(uint64, required, tag = "2")]
    pub(super) sequence: u64,
    #[prost(uint64, required, tag = "3")]
    pub(super) publish_time: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) properties: Vec<KeyValue>,
    #[prost(string, optional, tag = "6")]
    pub(super) key: Option<String>,
    #[prost(int32, optional, tag = "8")]
    pub(super) compression: Option<i32>,
    #[prost(uint32, optional, tag = "9")]
    pub(super) uncompressed_bytes: Option<u32>,
    #[prost(int32, optional, tag = "11")]
    pub(super) messages: Option<i32>,
    #[prost(uint64, optional, tag = "12")]
    pub(super) event_time: Option<u64>,
    #[prost(message, repeated, tag = "13")]
    pub(super) encryption_keys: Vec<EncryptionKey>,
    #[prost(bytes = "vec", optional, tag = "16")]
    pub(super) schema_version: Option<Vec<u8>>,
    /// The kind of what brokers write for themselves, such as the end of a transaction. They deliver none of it.
    #[prost(int32, optional, tag = "20")]
    pub(super) marker: Option<i32>,
    #[prost(bool, optional, tag = "25")]
    pub(super) is_null: Option<bool>,
    #[prost(string, optional, tag = "26")]
    pub(super) uuid: Option<String>,
    #[prost(int32, optional, tag = "27")]
    pub(super) chunks: Option<i32>,
    #[prost(int32, optional, tag = "28")]
    pub(super) chunked_bytes: Option<i32>,
    #[prost(int32, optional, tag = "29")]
    pub(super) chunk: Option<i32>,
}

/// What a producer writes about a message of a batch. Read field by field in `entry`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SingleMetadata {
    #[prost(message, repeated, tag = "1")]
    pub(super) properties: Vec<KeyValue>,
    #[prost(string, optional, tag = "2")]
    pub(super) key: Option<String>,
    #[prost(int32, required, tag = "3")]
    pub(super) payload_bytes: i32,
    #[prost(uint64, optional, tag = "5")]
    pub(super) event_time: Option<u64>,
    #[prost(bool, optional, tag = "6")]
    pub(super) is_key_base64: Option<bool>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) sequence: Option<u64>,
    #[prost(bool, optional, tag = "9")]
    pub(super) is_null: Option<bool>,
}

/// Errors that a broker names, as far as they are told apart.
pub(super) mod error {
    pub(in super::super) const AUTHENTICATION: i32 = 3;
    pub(in super::super) const AUTHORIZATION: i32 = 4;
    pub(in super::super) const UNSUPPORTED_VERSION: i32 = 10;
    pub(in super::super) const TOPIC_NOT_FOUND: i32 = 11;
    pub(in super::super) const INVALID_TOPIC_NAME: i32 = 17;
    pub(in super::super) const NOT_ALLOWED: i32 = 22;
}
