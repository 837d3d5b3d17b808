use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch};
use arrow_schema::DataType;
use dataflow::{Batch, Column, ColumnType, Operator, Partition, Schema, State, StateError};
use testkit::Fuzz;
use xxhash_rust::xxh3::xxh3_64;

use super::super::tests::{batch, cut, join, put};
use super::super::{Join, JoinColumn, JoinConfig, JoinKind, JoinSide};
use super::{CHECKSUM, VERSION};

/// A step with rows of both sides, matched and not, and its delta and snapshot.
fn written() -> (Join, bytes::Bytes, bytes::Bytes) {
    let mut step = join(JoinKind::Full);
    put(&mut step, JoinSide::Left, batch(JoinSide::Left, &[(Some(1), 1, "a", 10), (None, 2, "", 20)]));
    put(
        &mut step,
        JoinSide::Right,
        batch(JoinSide::Right, &[(Some(1), 3, "bcd", 30), (Some(7), 4, "e", 40)]),
    );
    put(&mut step, JoinSide::Left, batch(JoinSide::Left, &[(Some(8), 5, "f", 15)]));
    let (_, delta) = cut(&mut step, 7);
    let snapshot = step.snapshot();
    (step, delta, snapshot)
}

/// Columns of every other form.
fn of_forms() -> Join {
    let column = Column::new;
    let string = || Box::new(ColumnType::String);
    let schema = Schema::new(vec![
        column("key", ColumnType::Int64),
        column("tags", ColumnType::Array(Box::new(ColumnType::Nullable(string())))),
        column("nested", ColumnType::Array(Box::new(ColumnType::Array(Box::new(ColumnType::Int64))))),
        column("labels", ColumnType::Map(string(), string())),
        column("price", ColumnType::Decimal { precision: 20, scale: 2 }),
        column("heat", ColumnType::Nullable(Box::new(ColumnType::Float64))),
    ]);
    let of = |name: &str| JoinColumn {
        name: name.to_owned(),
        side: JoinSide::Left,
        from: name.to_owned(),
        is_of_side_alone: false,
    };
    let config = JoinConfig {
        on: vec![("key".to_owned(), "key".to_owned())],
        before: Duration::ZERO,
        after: Duration::ZERO,
        lateness: Duration::ZERO,
        kind: JoinKind::Left,
        columns: schema.columns().iter().map(|column| of(&column.name)).collect(),
        unmatched: [Vec::new(), Vec::new()],
    };
    Join::new(&schema, &schema, &config).unwrap()
}

fn batch_of_forms(rows: i64) -> Batch {
    let mut tags = ListBuilder::new(StringBuilder::new());
    let item = |form| arrow_schema::Field::new("item", form, false);
    let inner = item(DataType::Int64);
    let outer = item(DataType::List(Arc::new(inner.clone())));
    let mut nested =
        ListBuilder::new(ListBuilder::new(Int64Builder::new()).with_field(inner)).with_field(outer);
    let names = arrow_array::builder::MapFieldNames {
        entry: "entries".to_owned(),
        key: "keys".to_owned(),
        value: "values".to_owned(),
    };
    let mut labels = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new())
        .with_values_field(arrow_schema::Field::new("values", DataType::Utf8, false));
    for row in 0..rows {
        for item in 0..row % 4 {
            tags.values().append_option((item != 1).then(|| format!("tag {item}")));
            nested.values().values().append_value(item);
            nested.values().append(true);
            labels.keys().append_value(format!("k{item}"));
            labels.values().append_value(format!("v{row}"));
        }
        tags.append(true);
        nested.append(true);
        labels.append(true).unwrap();
    }
    let step = of_forms();
    let prices = Decimal128Array::from_iter_values((0..rows).map(i128::from));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..rows)),
        Arc::new(tags.finish()),
        Arc::new(nested.finish()),
        Arc::new(labels.finish()),
        Arc::new(prices.with_precision_and_scale(20, 2).unwrap()),
        Arc::new((0..rows).map(|row| (row % 2 == 0).then_some(row as f64)).collect::<Float64Array>()),
    ];
    let schema = step.output().arrow();
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(schema.clone(), columns).unwrap(),
        positions: (0..rows as u64).collect(),
        times_ms: (0..rows).collect(),
    }
}

#[test]
fn columns_of_every_form_come_back_as_they_were() {
    let mut live = of_forms();
    put(&mut live, JoinSide::Left, batch_of_forms(50));
    let part = batch_of_forms(50);
    let rows = part.rows.slice(13, 20);
    put(
        &mut live,
        JoinSide::Left,
        Batch { rows, positions: (0..20).collect(), times_ms: (13..33).collect(), ..part },
    );
    let (_, delta) = cut(&mut live, 0);
    let mut applied = of_forms();
    applied.apply(&delta).unwrap();
    let mut restored = of_forms();
    restored.restore(&live.snapshot()).unwrap();
    assert_eq!(applied.snapshot(), live.snapshot());
    assert_eq!(restored.snapshot(), live.snapshot());
    let rows = |step: &mut Join| {
        let (outputs, _) = cut(step, i64::MAX);
        assert_eq!(outputs.len(), 1);
        outputs.into_iter().next().unwrap().batch.rows
    };
    let expected = rows(&mut live);
    assert_eq!(expected.num_rows(), 70);
    let all = batch_of_forms(50).rows;
    assert_eq!(expected.slice(0, 13), all.slice(0, 13));
    for row in 13..33 {
        let twice = expected.slice(13 + 2 * (row - 13), 2);
        assert_eq!((twice.slice(0, 1), twice.slice(1, 1)), (all.slice(row, 1), all.slice(row, 1)));
    }
    assert_eq!(expected.slice(53, 17), all.slice(33, 17));
    assert_eq!(rows(&mut applied), expected);
    assert_eq!(rows(&mut restored), expected);
}

/// The bytes that a program has written are those that it reads: a change here is a new version.
#[test]
fn deltas_and_snapshots_keep_their_golden_bytes() {
    let (_, delta, snapshot) = written();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if std::env::var_os("FOREBAY_TEST_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/join/state/golden.txt");
        std::fs::write(path, format!("{}\n{}\n", hex(&delta), hex(&snapshot))).unwrap();
    }
    let golden = include_str!("golden.txt").lines().collect::<Vec<_>>();
    assert_eq!(golden, [hex(&delta), hex(&snapshot)]);
}

#[test]
fn every_damaged_byte_is_noticed() {
    let (_, delta, snapshot) = written();
    for at in 0..delta.len() {
        let mut damaged = delta.to_vec();
        damaged[at] ^= 1;
        assert!(join(JoinKind::Full).apply(&damaged).is_err(), "byte {at}");
    }
    for len in 0..snapshot.len() {
        assert!(join(JoinKind::Full).restore(&snapshot[..len]).is_err(), "cut to {len}");
    }
    assert!(join(JoinKind::Full).restore(&delta).is_err(), "a delta is no snapshot");
}

#[test]
fn a_later_version_is_refused_by_its_number() {
    let (_, _, snapshot) = written();
    let mut later = snapshot[..snapshot.len() - CHECKSUM].to_vec();
    later[4..6].copy_from_slice(&(VERSION + 1).to_le_bytes());
    later.extend_from_slice(&xxh3_64(&later).to_le_bytes());
    let error = join(JoinKind::Full).restore(&later).unwrap_err();
    assert!(matches!(error, StateError::TooNew { found: 3, known: 2 }), "{error}");
}

/// A delta on another state than its own would make other rows than were made.
#[test]
fn a_delta_of_another_state_is_refused() {
    let (mut step, delta, _) = written();
    let error = step.apply(&delta).unwrap_err().to_string();
    assert!(error.contains("makes rows up to position"), "{error}");
}

/// Programs before this one gave rows without a match no number where they were dropped.
#[test]
fn a_delta_that_counts_no_rows_that_were_dropped_is_read() {
    let of = |watermark_ms| {
        let mut step = join(JoinKind::Inner);
        put(&mut step, JoinSide::Left, batch(JoinSide::Left, &[(Some(1), 1, "", 10), (Some(2), 2, "", 500)]));
        let (_, first) = cut(&mut step, watermark_ms);
        put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(Some(2), 3, "", 500)]));
        (first, cut(&mut step, watermark_ms).1, step.position)
    };
    let (first, second, position) = of(300);
    let mut numbers = u64::from_le_bytes(position_of(&second).try_into().unwrap());
    assert_eq!((numbers, position), (2, 2), "the row that was dropped, and the pair");
    numbers -= 1;
    let mut of_before = second[..second.len() - CHECKSUM].to_vec();
    let at = position_of(&second).as_ptr() as usize - second.as_ptr() as usize;
    of_before[at..at + 8].copy_from_slice(&numbers.to_le_bytes());
    of_before.extend_from_slice(&xxh3_64(&of_before).to_le_bytes());
    for (delta, position) in [(&second[..], 2), (&of_before[..], 1)] {
        let mut step = join(JoinKind::Inner);
        step.apply(&first).unwrap();
        step.apply(delta).unwrap();
        assert_eq!(step.position, position);
    }
}

/// Where a delta says how many numbers are taken: behind its settings and the watermark.
fn position_of(delta: &[u8]) -> &[u8] {
    let shape = u32::from_le_bytes(delta[8..12].try_into().unwrap()) as usize;
    &delta[12 + shape + 8..][..8]
}

fn fuzz(name: &str, examples: [bytes::Bytes; 2], step: impl Fn() -> Join) {
    let examples = examples.map(|bytes| bytes.to_vec());
    Fuzz::new(name).examples(examples).memory_max(1 << 20, 256).run(10_000, |bytes| {
        let Some((body, _)) = bytes.split_last_chunk::<CHECKSUM>() else { return };
        let mut summed = body.to_vec();
        summed.extend_from_slice(&xxh3_64(body).to_le_bytes());
        let mut step = step();
        let _ = step.restore(&summed);
        let _ = step.apply(&summed);
        if step.advance(0).is_ok() {
            drop(step.snapshot());
        }
        let held = step.held();
        if let Ok(outputs) = step.advance(i64::MAX) {
            let released: u64 = outputs.iter().map(|output| output.released).sum();
            assert_eq!(released + step.held(), held);
        }
    });
}

/// Whoever can write into the store can make a checksum, too.
#[test]
fn fuzz_join_state() {
    let (_, delta, snapshot) = written();
    fuzz("join state", [delta, snapshot], || join(JoinKind::Full));
}

#[test]
fn fuzz_join_state_of_every_form() {
    let mut step = of_forms();
    put(&mut step, JoinSide::Left, batch_of_forms(5));
    let (_, delta) = cut(&mut step, 0);
    fuzz("join state of every form", [delta, step.snapshot()], of_forms);
}
