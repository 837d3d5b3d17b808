//! What the client's own work costs: run with `cargo test -p clickhouse --test cost -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, reason = "a failure of a measurement may panic")]

use std::sync::Arc;

use arrow_array::*;
use clickhouse::compress::{Compressor, Method};
use clickhouse::native::{BlockPlan, RowRef, Rows};
use clickhouse::partition::PartitionKey;
use clickhouse::sort::SortKey;
use clickhouse::types::parse;
use dataflow::{Column, FrameId, Schema};

const ROWS: usize = 500_000;
const BATCHES: usize = 10;

fn schema() -> Schema {
    let columns = [
        ("event_id", "UUID"),
        ("user_id", "UUID"),
        ("created_at", "DateTime"),
        ("user_name", "String"),
        ("user_email", "String"),
    ];
    Schema::new(columns.iter().map(|(n, t)| Column::new(*n, parse(n, t).unwrap())).collect())
}

/// Rows of the `glassflow` workload: random ids, names of 13 and addresses of 22 bytes.
fn batches() -> Vec<RecordBatch> {
    let mut state = 1u128;
    let mut random = || {
        state = state
            .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
            .wrapping_add(0x5851_f42d_4c95_7f2d_1405_7b7e_f767_814f);
        (state ^ (state >> 67)).to_be_bytes()
    };
    (0..BATCHES)
        .map(|_| {
            let n = ROWS / BATCHES;
            let ids: Vec<[u8; 16]> = (0..n).map(|_| random()).collect();
            let users: Vec<[u8; 16]> = (0..n).map(|_| random()).collect();
            let arrays: Vec<(&str, ArrayRef)> = vec![
                ("event_id", Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).unwrap())),
                ("user_id", Arc::new(FixedSizeBinaryArray::try_from_iter(users.iter()).unwrap())),
                (
                    "created_at",
                    Arc::new(
                        TimestampSecondArray::from_iter_values((0..n as i64).map(|i| 1_700_000_000 + i))
                            .with_timezone("UTC"),
                    ),
                ),
                (
                    "user_name",
                    Arc::new(StringArray::from_iter_values(
                        ids.iter().map(|i| format!("user {:08}", i[0] as u32 * 77777)),
                    )),
                ),
                (
                    "user_email",
                    Arc::new(StringArray::from_iter_values(
                        ids.iter().map(|i| format!("mail{:06}@example.com", i[1] as u32 * 3901)),
                    )),
                ),
            ];
            RecordBatch::try_from_iter(arrays).unwrap()
        })
        .collect()
}

/// Time that this thread has spent on a core.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// The best of five, in CPU-seconds per million rows.
fn measure(what: &str, mut work: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = cpu_seconds();
        work();
        best = best.min(cpu_seconds() - start);
    }
    println!("{what:<45} {:.4} s per million rows", best * 1e6 / ROWS as f64);
}

#[test]
#[ignore = "a measurement, not a rule"]
fn cost_of_encoding() {
    let (schema, batches) = (schema(), batches());
    let plan = BlockPlan::new(&schema, Some("_forebay"));
    let plain = BlockPlan::new(&schema, None);
    let encode =
        |plan: &BlockPlan, rows: Rows<'_>| plan.encode(&batches, rows, FrameId(7), &mut |_| {}).unwrap();
    // As a table does it: what is full is taken at once, and the buffer is used again.
    let streamed = |plan: &BlockPlan, method: Method| {
        let mut compressor = Compressor::new(method);
        let rest =
            plan.encode(&batches, Rows::All, FrameId(7), &mut |out| compressor.take_full(out)).unwrap();
        compressor.push(&rest);
        compressor.finish()
    };
    measure("encode 5 columns", || drop(encode(&plain, Rows::All)));
    measure("encode 5 columns and _forebay", || drop(encode(&plan, Rows::All)));
    measure("encode 5 columns, take and forget", || {
        plain.encode(&batches, Rows::All, FrameId(7), &mut |out| out.clear()).unwrap();
    });
    measure("encode and compress Lz4", || drop(streamed(&plain, Method::Lz4)));
    measure("encode and compress None", || drop(streamed(&plain, Method::None)));
    let key = SortKey::new("event_id", &schema).unwrap();
    measure("order by UUID", || drop(key.order(&batches, Rows::All).unwrap()));
    let order = key.order(&batches, Rows::All).unwrap().unwrap();
    measure("encode 5 columns in that order", || drop(encode(&plain, Rows::Picked(&order))));
    let rows_key = SortKey::new("user_name, event_id", &schema).unwrap();
    measure("order by String, UUID", || drop(rows_key.order(&batches, Rows::All).unwrap()));
    let in_order: Vec<RowRef> = {
        let mut rows = order.clone();
        rows.sort_by_key(|r| (r.batch, r.row));
        rows
    };
    measure("encode 5 columns row by row, in place", || drop(encode(&plain, Rows::Picked(&in_order))));
    let partition =
        PartitionKey::new("toYYYYMM(created_at)", &schema, &[], &jiff::tz::TimeZone::UTC).unwrap();
    measure("cut by month", || drop(partition.cut(&batches, Rows::All).unwrap()));
    let raw = encode(&plan, Rows::All);
    for method in [Method::Lz4, Method::None] {
        let pack = || {
            let mut compressor = Compressor::new(method);
            compressor.push(&raw);
            compressor.finish()
        };
        measure(&format!("compress {method:?}"), || drop(pack()));
        println!("    {} bytes a row become {}", raw.len() / ROWS, pack().len() / ROWS);
    }
}
