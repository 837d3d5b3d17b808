//! The built program against a real Kafka broker and ClickHouse's real engine.
//!
//! Owns the harness: services shared by the tests of one process, topics and tables of a test's own, pipeline files, runs
//! of the binary, and the accounts. Does not own any rule: those stand in `tests/live`, one test each.
//!
//! | module       | what it holds                                                        |
//! |--------------|----------------------------------------------------------------------|
//! | [`case`]     | one test: its broker, server, topic, table, directory                |
//! | [`pipeline`] | a pipeline file, its runs, what `status` says of it                  |
//! | [`producer`] | records into partitions of the case's topic                          |
//! | [`s3`]       | a store on S3 and a proxy before it                                  |
//! | [`table`]    | tables and what they hold                                            |
//! | [`issuer`]   | an issuer of OAuth 2.0                                               |
//! | [`tls`]      | certificates, and a door that speaks TLS                             |
//!
//! The binary is the one that cargo built beside the tests, or the one that `FOREBAY_BIN` names:
//! ```text
//! cargo build -p forebay --features development
//! cargo test -p live --test end_to_end -- --test-threads 2
//! cargo test -p live --test end_to_end -- --exact faults::fault_08_two_duplicates_in_one_batch_leave_one_row
//! FOREBAY_SEED=7 FOREBAY_KILLS=40 FOREBAY_KILL_UNIQUES=400000 cargo test -p live --test end_to_end -- --nocapture kill_test
//! ```

// The harness watches real processes by the real clock; no code of the data's path is here.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

pub mod case;
pub mod issuer;
pub mod pipeline;
pub mod producer;
pub mod s3;
pub mod table;
pub mod tls;

pub use case::Case;
pub use pipeline::{Accounts, Pipeline};
pub use producer::Feed;
pub use s3::S3Store;
pub use table::{Content, Table};

/// How long a test waits for what must come. Only what never comes takes as long, so that a busy machine decides no verdict.
pub const PATIENCE: Duration = Duration::from_secs(900);
