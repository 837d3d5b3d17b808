//! The gateway: takes records over HTTP, messages of syslog, and lines of files, appends them to logs, and answers once they are durable
//! there; or gives them to a pipeline of the same process, and answers once they are sealed.
//!
//! Owns the listener's routes, who may use them, the bounds on what is in memory for all requests together, the names of requests
//! (`Idempotency-Key`), and the order of a start and an end. Does not own the log (`object_log`), connections and TLS (`listener`), the gateway's file
//! (`pipeline::config::gateway`), nor what a record means: a pipeline that reads the log decodes it.
//!
//! ```text
//! request ─▶ admit ─▶ stream ─▶ body ─▶ records ─▶ append ─▶ answer with positions
//!            who?     which     bytes   split,      key known?   durable
//!                     log?      held    checked     group commit
//! ```
//!
//! | module      | what it does                                                          |
//! |-------------|-----------------------------------------------------------------------|
//! | [`server`]  | opens the logs, listens, drains                                       |
//! | [`gate`]    | what every route asks: who, which stream, the body                    |
//! | [`auth`]    | bearer tokens and passwords from files that may change                |
//! | [`budget`]  | bytes in memory, of all requests and of one stream                    |
//! | [`body`]    | reads and inflates a body within bounds                               |
//! | [`records`] | from a body to records, with an error for each line that is none      |
//! | [`keys`]    | names of requests: new, on its way, known, or used for something else |
//! | [`stream`]  | one log or pipeline, its keys, its bounds                             |
//! | [`direct`]  | requests on their way into a pipeline of this process, without a log  |
//! | [`ingest`]  | `POST /v1/streams/NAME`                                               |
//! | [`otlp`]    | OpenTelemetry, over HTTP and gRPC                                     |
//! | [`elastic`], [`loki`], [`splunk`], [`prometheus`] | what senders for those send already |
//! | [`syslog`]  | messages over TCP and UDP, which nobody answers                       |
//! | [`files`]   | files of this host, whose lines are followed                          |
//! | [`refusal`] | what a client is told                                                 |
//! | `quoting`   | texts as JSON strings, straight into a record                         |
//! | `text`      | a body of JSON, whatever in it is no text                             |
//! | `wire`      | Protocol Buffers, field by field                                      |
//! | [`options`] | what a gateway is made of                                             |
//!
//! **Another protocol** is one more [`axum::Router`], made from a [`Gate`] and given to [`Server::serve`]: it admits a request, finds its stream, reads the
//! body, makes a [`dataflow::RecordBlock`] of it and appends. [`ingest`] is the example.
// The gateway stands at the edge of the system and waits for clients: it lives in wall time.
#![allow(clippy::disallowed_methods)]

pub mod auth;
pub mod body;
pub mod budget;
pub mod direct;
pub mod elastic;
pub mod files;
pub mod gate;
pub mod ingest;
pub mod keys;
pub mod loki;
pub mod options;
pub mod otlp;
pub mod prometheus;
mod quoting;
pub mod records;
pub mod refusal;
pub mod server;
pub mod splunk;
pub mod stream;
pub mod syslog;
mod text;
mod wire;

pub use gate::{Caller, Gate};
pub use keys::Stored;
pub use options::{ClientOptions, Fills, Format, Limits, Options, OtlpStreams, StreamOptions};
pub use refusal::{Kind, Refusal};
pub use server::{End, GatewayError, Server};
pub use stream::Stream;

#[cfg(test)]
#[global_allocator]
static MEMORY: testkit::CountingAllocator = testkit::CountingAllocator;

#[cfg(test)]
mod support;
