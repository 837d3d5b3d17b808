//! Starts, hurts and stops real services for tests and guards, by process id.
//!
//! Owns child processes, their directories, ports and logs, a proxy that misbehaves on order, and the seeded randomness of
//! tests. Does not own what is tested: it knows no crate of the data's path, so every one of them may use it.
//!
//! | item           | what it gives                                                                        |
//! |----------------|--------------------------------------------------------------------------------------|
//! | [`Kafka`]      | one broker (KRaft) on free ports; topics; kill, pause, restart on the same data       |
//! | [`ClickHouse`] | ClickHouse's engine behind HTTP; queries and inserts; kill, restart on the same data  |
//! | [`Process`]    | any child: log files, signals, exit with CPU seconds and peak memory                 |
//! | [`S3`]         | an S3 gateway (versitygw) with a bucket; kill, restart on the same objects           |
//! | [`Gcs`], [`Azure`] | Google's and Microsoft's object storage (fake-gcs-server, Azurite), if `scripts/setup clouds` installed them |
//! | [`Registry`]   | a schema registry (Apicurio); pause and resume                                       |
//! | [`Pulsar`]     | a standalone Pulsar; topics; kill, pause, restart on the same data                    |
//! | [`Postgres`]   | a PostgreSQL server; statements; stop, kill, pause, restart on the same data          |
//! | [`FaultProxy`] | stands before an HTTP server and refuses, delays, swallows or garbles on order        |
//! | [`TestDir`]    | a directory under `target/testkit` that goes when the test passes and stays when not |
//! | [`assert_this_machine_is_asked_directly`] | a client beside a proxy that the environment names                  |
//! | [`Fuzz`]       | changes inputs of a parser until something it promises breaks                         |
//! | [`CountingAllocator`] | how much memory a call takes at most                                           |
//!
//! No child outlives the test process: each dies with its handle, and the kernel kills it if the test process is killed.
//! A test that needs a service begins with [`available`], which skips loudly on a machine without the files and fails on CI.

// The seam for time and spawning belongs to the engine's code path; this crate watches real processes by the real clock.
#![allow(clippy::disallowed_methods)]

mod azure;
mod clickhouse;
mod dir;
mod environment;
mod fuzz;
mod gcs;
mod http;
mod kafka;
mod memory;
mod postgres;
mod process;
mod proxy;
mod pulsar;
mod random;
mod registry;
mod s3;
mod services;
mod wait;

pub use azure::Azure;
pub use clickhouse::{ClickHouse, ClickHouseOptions};
pub use dir::{TestDir, workspace_dir};
pub use environment::assert_this_machine_is_asked_directly;
pub use fuzz::Fuzz;
pub use gcs::Gcs;
pub use http::{HttpClient, HttpError, HttpResponse};
pub use kafka::{Credentials, Kafka, KafkaOptions, SCRAM_SHA_512_SESSION, Security, TopicDescription};
pub use memory::{CountingAllocator, peak_bytes};
pub use postgres::{Postgres, PostgresOptions};
pub use process::{Exit, Output, Process, Spawn, Usage};
pub use proxy::{Answer, Counters, Fault, FaultProxy, Reach, Rule, RuleId, Seen};
pub use pulsar::{Pulsar, PulsarOptions};
pub use random::{Lcg, seed};
pub use registry::Registry;
pub use s3::S3;
pub use services::{Service, available, skip};
pub use wait::{free_port, wait_until};
