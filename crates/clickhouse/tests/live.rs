//! The table against ClickHouse's own engine. Needs the server's binary in `FOREBAY_SERVER_BIN`; skips loudly without it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run in real time and may panic")]

#[path = "../src/testing.rs"]
mod testing;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::*;
use bytes::Bytes;
use clickhouse::{ClickHouseTable, CreateTable, Fault, ServerConfig, TableConfig, Upsert};
use dataflow::{Attempt, Effect, Fit, FrameId, InsertError, Presence, Remedy, Selected, Table, TableFault};
use testing::{Fixed, RealTime};
use testkit::{ClickHouse, ClickHouseOptions, Fault as Trouble, FaultProxy, Lcg, Rule, seed};

fn start() -> Option<ClickHouse> {
    match std::env::var("FOREBAY_SERVER_BIN") {
        Ok(binary) => Some(ClickHouse::start(ClickHouseOptions::default().binary(binary)).unwrap()),
        Err(_) => {
            testkit::skip("`FOREBAY_SERVER_BIN` does not name the server's binary");
            None
        }
    }
}

macro_rules! server_or_skip {
    () => {
        match start() {
            Some(server) => server,
            None => return,
        }
    };
}

#[path = "live/facts.rs"]
mod facts;
#[path = "live/faults.rs"]
mod faults;
#[path = "live/inserts.rs"]
mod inserts;
#[path = "live/objects.rs"]
mod objects;
#[path = "live/profiles.rs"]
mod profiles;
#[path = "live/replicas.rs"]
mod replicas;
#[path = "live/upserts.rs"]
mod upserts;
#[path = "live/values.rs"]
mod values;
#[path = "live/views.rs"]
mod views;

const WINDOW: &str = "SETTINGS non_replicated_deduplication_window = 100";

async fn open_with(server: &ClickHouse, config: TableConfig) -> Result<ClickHouseTable, Vec<Fault>> {
    ClickHouseTable::open(ServerConfig::new(server.url()), config, RealTime::shared()).await
}

async fn open(server: &ClickHouse, table: &str) -> ClickHouseTable {
    match open_with(server, TableConfig::new("default", table)).await {
        Ok(table) => table,
        Err(faults) => panic!("{faults:?}"),
    }
}

async fn send(table: &ClickHouseTable, token: &str, body: &Bytes) -> Result<(), InsertError> {
    static ATTEMPTS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let attempt = ATTEMPTS.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let query_id = format!("forebay-live-{attempt}");
    table
        .insert(Attempt { token, query_id: &query_id, body: body.clone(), layout: None, gate: &Fixed(true) })
        .await
}

/// Encodes rows with the ids 1, 2, …
fn frames(table: &ClickHouseTable, rows: &[RecordBatch]) -> Vec<dataflow::Encoded> {
    let mut id = 0;
    let mut next = || {
        id += 1;
        FrameId(id)
    };
    let all: Vec<Selected> = rows.iter().cloned().map(Selected::all).collect();
    table.encode(&all, &mut next).unwrap()
}

fn batch(arrays: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(arrays.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn ints(values: impl IntoIterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

fn fixed<const N: usize>(values: [[u8; N]; 2]) -> ArrayRef {
    Arc::new(FixedSizeBinaryArray::try_from_iter(values.iter()).unwrap())
}

/// What the rules read of a sighting.
fn facts(seen: &dataflow::Sighting) -> tokens::Facts {
    tokens::Facts::of(seen).expect("the table was seen")
}

/// A table in a database whose tables have identities.
fn atomic(server: &ClickHouse, engine: &str) -> TableConfig {
    server.query("CREATE DATABASE IF NOT EXISTS a ENGINE = Atomic").unwrap();
    server
        .query(&format!(
            "CREATE TABLE a.t (n Int32, v Int32, at DateTime, _forebay UUID) ENGINE = {engine} {WINDOW}"
        ))
        .unwrap();
    TableConfig::new("a", "t")
}
