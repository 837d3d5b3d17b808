use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use bytes::Bytes;
use dataflow::{Batch, Column, ColumnType, Operator, Output, Partition, Schema, State, StateError};

use super::{Upsert, UpsertConfig};
use crate::join::temporal::spilled::Sizes;

mod model;

/// Sizes at which every seal freezes all rows, some of them are a file and a few a block, and every two runs are merged.
const TINY: Sizes = Sizes {
    open_bytes: 1,
    index_bytes: u64::MAX,
    run_bytes: 600,
    block_bytes: 150,
    read_bytes: 300,
    hand_bytes: 0,
    runs_max: 1,
};

fn nullable(inner: ColumnType) -> ColumnType {
    ColumnType::Nullable(Box::new(inner))
}

fn table() -> Schema {
    Schema::new(vec![
        Column::new("v", ColumnType::Int64),
        Column::new("id", nullable(ColumnType::UInt32)),
        Column::new("sign", ColumnType::Int8),
        Column::new("note", nullable(ColumnType::String)),
    ])
}

/// The table's columns, in another order, with a column that the step does not know, and that of deletions behind.
fn input(table: &Schema) -> Schema {
    let mut columns = table.columns().to_vec();
    columns.push(Column::new("other", ColumnType::Int64));
    columns.push(Column::new("gone", nullable(ColumnType::Bool)));
    Schema::new(columns)
}

fn config(version: Option<&str>) -> UpsertConfig {
    UpsertConfig {
        key: vec!["id".to_owned()],
        version: version.map(str::to_owned),
        deleted: Some("gone".to_owned()),
        sign: "sign".to_owned(),
    }
}

fn step(version: Option<&str>) -> Upsert {
    Upsert::new(&input(&table()), &table(), &config(version)).unwrap()
}

/// A row: key, value, whether it deletes its key, time.
type Row = (Option<u32>, i64, bool, i64);

fn batch(rows: &[Row]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(rows.iter().map(|row| row.0).collect::<UInt32Array>()),
        Arc::new(Int8Array::from_value(0, rows.len())),
        Arc::new(
            rows.iter()
                .map(|row| (row.1 % 3 > 0).then(|| format!("note {}", row.1)))
                .collect::<StringArray>(),
        ),
        Arc::new(Int64Array::from_value(7, rows.len())),
        // NULL is no deletion.
        Arc::new(rows.iter().map(|row| (row.2 || row.1 % 2 > 0).then_some(row.2)).collect::<BooleanArray>()),
    ];
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(input(&table()).arrow().clone(), columns).unwrap(),
        positions: (100..100 + rows.len() as u64).collect(),
        times_ms: rows.iter().map(|row| row.3).collect(),
    }
}

/// A row that was made: sign, key, value.
type Made = (i8, Option<u32>, i64);

fn made(outputs: &[Output]) -> Vec<Made> {
    let mut all = Vec::new();
    for rows in outputs.iter().map(|output| &output.batch.rows) {
        let signs = rows.column_by_name("sign").unwrap().as_primitive::<Int8Type>();
        let ids = rows.column_by_name("id").unwrap().as_primitive::<UInt32Type>();
        let values = rows.column_by_name("v").unwrap().as_primitive::<Int64Type>();
        let notes = rows.column_by_name("note").unwrap().as_string::<i32>();
        for row in 0..rows.num_rows() {
            let value = values.value(row);
            let note = notes.is_valid(row).then(|| notes.value(row).to_owned());
            assert_eq!(note, (value % 3 > 0).then(|| format!("note {value}")), "the columns of one row");
            all.push((signs.value(row), ids.is_valid(row).then(|| ids.value(row)), value));
        }
    }
    all
}

/// Puts rows in and seals them.
fn seal(step: &mut Upsert, rows: &[Row]) -> Vec<Made> {
    put(step, rows);
    let outputs = step.advance(0).unwrap();
    assert_eq!(outputs.iter().map(|output| output.released).sum::<u64>(), rows.len() as u64);
    assert_eq!(step.held(), 0);
    made(&outputs)
}

fn put(step: &mut Upsert, rows: &[Row]) {
    let probed = step.probe(batch(rows)).unwrap();
    assert_eq!(step.finish(probed, &[]).unwrap().absorbed, rows.len() as u64);
}

#[test]
fn the_row_before_is_taken_back_with_its_values() {
    let mut step = step(None);
    assert_eq!(
        seal(&mut step, &[(Some(1), 10, false, 5), (Some(2), 20, false, 6)]),
        [(1, Some(1), 10), (1, Some(2), 20)]
    );
    assert_eq!(seal(&mut step, &[(Some(1), 11, false, 7)]), [(-1, Some(1), 10), (1, Some(1), 11)]);
    assert_eq!(
        seal(&mut step, &[(Some(1), 12, true, 8), (Some(3), 30, false, 8)]),
        [(-1, Some(1), 11), (1, Some(3), 30)]
    );
    assert_eq!(step.entries(), 3, "a deletion is over by the next seal");
    assert_eq!(seal(&mut step, &[(Some(1), 13, false, 9)]), [(1, Some(1), 13)], "it is back");
    assert_eq!(step.entries(), 3);
    assert_eq!(seal(&mut step, &[]), []);
}

/// All rows with -1 stand in front: in one insert a CollapsingMergeTree keeps the first -1 and the last 1.
#[test]
fn rows_of_one_seal_do_not_take_each_other_back() {
    let mut step = step(None);
    seal(&mut step, &[(Some(1), 10, false, 5), (Some(2), 20, false, 5)]);
    put(&mut step, &[(Some(1), 11, false, 6), (Some(2), 21, true, 6), (Some(4), 40, false, 6)]);
    assert_eq!(
        seal_more(&mut step, &[(Some(1), 12, false, 7), (Some(4), 41, true, 7), (Some(2), 22, true, 7)]),
        [(-1, Some(1), 10), (-1, Some(2), 20), (1, Some(1), 12)]
    );
}

/// The same for rows behind others that were put in before.
fn seal_more(step: &mut Upsert, rows: &[Row]) -> Vec<Made> {
    put(step, rows);
    let outputs = step.advance(0).unwrap();
    let mut found = made(&outputs);
    let first = found.iter().position(|row| row.0 == 1).unwrap_or(found.len());
    found[..first].sort_unstable();
    found
}

#[test]
fn a_row_with_a_lesser_version_changes_nothing() {
    let mut step = step(Some("v"));
    assert_eq!(
        seal(&mut step, &[(Some(1), 10, false, 5), (Some(1), 12, false, 5), (Some(1), 11, false, 5)]),
        [(1, Some(1), 12)]
    );
    assert_eq!(seal(&mut step, &[(Some(1), 11, false, 6)]), []);
    assert_eq!(
        seal(&mut step, &[(Some(1), 12, false, 6)]),
        [(-1, Some(1), 12), (1, Some(1), 12)],
        "of equal ones the last"
    );
    assert_eq!(seal(&mut step, &[(Some(1), 20, true, 6)]), [(-1, Some(1), 12)]);
    assert_eq!(seal(&mut step, &[(Some(1), 15, false, 7)]), [], "it is older than the deletion");
    assert_eq!(seal(&mut step, &[(Some(1), -5, true, 7)]), []);
    assert_eq!(seal(&mut step, &[(Some(1), 21, false, 7)]), [(1, Some(1), 21)]);
}

#[test]
fn a_row_without_a_key_equals_none() {
    let mut step = step(None);
    assert_eq!(
        seal(&mut step, &[(None, 10, false, 5), (None, 11, false, 5)]),
        [(1, None, 10), (1, None, 11)]
    );
    assert_eq!(seal(&mut step, &[(None, 12, false, 6)]), [(1, None, 12)]);
    assert_eq!(step.entries(), 0);
}

/// The state of one table, read by a step for another.
fn moved(from: &Schema, to: &Schema) -> Result<Upsert, StateError> {
    let config = UpsertConfig { deleted: None, ..config(None) };
    let mut before = Upsert::new(from, from, &config).unwrap();
    let columns = from.columns().iter().map(|column| -> ArrayRef {
        match (&*column.name, column.column_type.bare()) {
            ("id", _) => Arc::new(UInt32Array::from(vec![1, 2])),
            (_, ColumnType::Int8 | ColumnType::Enum8(_)) => Arc::new(Int8Array::from(vec![5, 6])),
            (_, ColumnType::Int32) => Arc::new(Int32Array::from(vec![70_000, 8])),
            (_, ColumnType::Int64) => Arc::new(Int64Array::from(vec![70_000, 8])),
            _ => Arc::new(StringArray::from(vec![Some("a"), None])),
        }
    });
    let rows = RecordBatch::try_new(from.arrow().clone(), columns.collect()).unwrap();
    let probed =
        before.probe(Batch { rows, positions: vec![1, 2], times_ms: vec![1, 2], ..batch(&[]) }).unwrap();
    before.finish(probed, &[]).unwrap();
    before.advance(0).unwrap();
    before.seal(0);
    let mut after = Upsert::new(to, to, &config).unwrap();
    assert!(after.restore(&before.snapshot())?.is_empty());
    Ok(after)
}

fn altered(column: Column) -> Schema {
    let mut columns = table().columns().to_vec();
    columns.retain(|known| known.name != column.name);
    columns.push(column);
    Schema::new(columns)
}

/// The rows of the keys 1 and 2 are replaced, and those before them looked at.
fn taken_back(mut step: Upsert) -> Result<Vec<RecordBatch>, String> {
    let table = step.output().clone();
    let columns = table.columns().iter().map(|column| -> ArrayRef {
        match (&*column.name, column.column_type.bare()) {
            ("id", _) => Arc::new(UInt32Array::from(vec![1, 2])),
            (_, ColumnType::Int8 | ColumnType::Enum8(_)) => Arc::new(Int8Array::from(vec![0, 0])),
            (_, ColumnType::Int32) => Arc::new(Int32Array::from(vec![0, 0])),
            (_, ColumnType::Int64) => Arc::new(Int64Array::from(vec![0, 0])),
            _ => Arc::new(StringArray::from(vec!["new", "new"])),
        }
    });
    let rows = RecordBatch::try_new(table.arrow().clone(), columns.collect()).unwrap();
    let probed =
        step.probe(Batch { rows, positions: vec![1, 2], times_ms: vec![1, 2], ..batch(&[]) }).unwrap();
    step.finish(probed, &[]).unwrap();
    let outputs = step.advance(0).map_err(|error| error.message)?;
    let of_before = outputs.into_iter().map(|output| output.batch.rows);
    Ok(of_before
        .filter(|rows| rows.column_by_name("sign").unwrap().as_primitive::<Int8Type>().value(0) == -1)
        .collect())
}

#[test]
fn rows_are_taken_back_though_columns_have_come_gone_and_become_wider() {
    let narrow = altered(Column::new("v", ColumnType::Int32));
    for (from, to) in [
        (table(), table()),
        (narrow.clone(), table()),
        (table(), altered(Column::new("more", nullable(ColumnType::String)))),
        (table(), altered(Column::new("more", ColumnType::Int32))),
        (altered(Column::new("more", ColumnType::String)), table()),
        (table(), altered(Column::new("note", ColumnType::String))),
    ] {
        let from = if from.index_of("more").is_some() {
            altered(Column::new("more", nullable(ColumnType::String)))
        } else {
            from
        };
        let found = taken_back(moved(&from, &to).unwrap()).unwrap();
        let [rows] = &found[..] else { panic!("{found:?}") };
        let text = |name: &str| {
            rows.column_by_name(name).map(|column| {
                let texts = arrow_cast::cast(column, &arrow_schema::DataType::Utf8).unwrap();
                texts.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
            })
        };
        let some = |texts: [&str; 2]| Some(texts.map(|text| Some(text.to_owned())).to_vec());
        assert_eq!((text("id"), text("v")), (some(["1", "2"]), some(["70000", "8"])));
        let has_null = to.columns()[to.index_of("note").unwrap()].is_optional();
        let note = vec![Some("a".to_owned()), if has_null { None } else { Some(String::new()) }];
        assert_eq!(text("note"), Some(note));
        match to.index_of("more").map(|at| &to.columns()[at].column_type) {
            None => assert_eq!(text("more"), None),
            Some(ColumnType::Int32) => assert_eq!(text("more"), some(["0", "0"])),
            Some(_) => assert_eq!(text("more"), Some(vec![None, None])),
        }
    }
}

#[test]
fn a_column_of_another_kind_is_refused_with_the_way_out_and_a_narrower_one_by_its_value() {
    let of_text = altered(Column::new("v", ColumnType::String));
    match moved(&table(), &of_text).err() {
        Some(StateError::Configured { was, now, way_out }) => {
            assert_eq!((&*was, &*now), ("the column `v` as int", "it as string"));
            assert!(!way_out.is_empty());
        }
        other => panic!("{other:?}"),
    }
    let narrow = altered(Column::new("v", ColumnType::Int8));
    let wrong = taken_back(moved(&table(), &narrow).unwrap()).unwrap_err();
    assert!(wrong.contains("column `v`") && wrong.contains("MODIFY COLUMN"), "{wrong}");
}

/// A table's columns, with one more.
fn with(column: Column) -> Schema {
    Schema::new([table().columns(), &[column]].concat())
}

fn enumeration(names: &[(&str, i8)]) -> ColumnType {
    ColumnType::Enum8(names.iter().map(|(name, number)| ((*name).into(), *number)).collect())
}

/// A step for a table, behind a step for another one that had a row of key 1 in between.
fn moved_on(mut step: Upsert, to: &Schema) -> Result<Upsert, StateError> {
    let table = step.output().clone();
    let columns = table.columns().iter().map(|column| -> ArrayRef {
        match &*column.name {
            "id" => Arc::new(UInt32Array::from(vec![9])),
            "sign" => Arc::new(Int8Array::from(vec![0])),
            "v" => Arc::new(Int64Array::from(vec![1])),
            _ => Arc::new(StringArray::from(vec!["x"])),
        }
    });
    let rows = RecordBatch::try_new(table.arrow().clone(), columns.collect()).unwrap();
    let probed = step.probe(Batch { rows, positions: vec![1], times_ms: vec![1], ..batch(&[]) }).unwrap();
    step.finish(probed, &[]).unwrap();
    step.advance(0).unwrap();
    step.seal(0);
    let config = UpsertConfig { deleted: None, ..config(None) };
    let mut after = Upsert::new(to, to, &config).unwrap();
    after.restore(&step.snapshot())?;
    Ok(after)
}

/// The rows that the table had before have no value in the column that is there now.
#[test]
fn a_column_that_was_dropped_and_added_again_is_another_one() {
    let number = || with(Column::new("more", ColumnType::Int32));
    for again in [number(), with(Column::new("more", nullable(ColumnType::String)))] {
        let without = moved(&number(), &table()).unwrap();
        let found = taken_back(moved_on(without, &again).unwrap()).unwrap();
        let more: Vec<ArrayRef> =
            found.iter().map(|rows| rows.column_by_name("more").unwrap().clone()).collect();
        let is_none = |values: &ArrayRef| match values.as_primitive_opt::<arrow_array::types::Int32Type>() {
            Some(numbers) => numbers.values().iter().all(|value| *value == 0),
            None => values.null_count() == values.len(),
        };
        assert!(!more.is_empty() && more.iter().all(is_none), "{more:?}");
    }
    // Twice: the second is the third of its name.
    let without = moved_on(
        moved(&number(), &table()).unwrap(),
        &with(Column::new("more", nullable(ColumnType::String))),
    )
    .unwrap();
    let without = moved_on(moved_on(without, &table()).unwrap(), &number()).unwrap();
    let found = taken_back(without).unwrap();
    let numbers = |rows: &RecordBatch| {
        rows.column_by_name("more").unwrap().as_primitive::<arrow_array::types::Int32Type>().values().to_vec()
    };
    assert!(found.iter().flat_map(numbers).all(|value| value == 0), "{found:?}");
    // Without a row in between nobody knows, and the values are those that the column had.
    let same = taken_back(moved(&number(), &number()).unwrap()).unwrap();
    let values = same[0]
        .column_by_name("more")
        .unwrap()
        .as_primitive::<arrow_array::types::Int32Type>()
        .values()
        .to_vec();
    assert_eq!(values, [70_000, 8]);
}

#[test]
fn an_enum_may_come_and_get_more_names_and_lose_none() {
    let of = |names: &[(&str, i8)]| with(Column::new("state", enumeration(names)));
    let few = of(&[("a", 5), ("b", 6)]);
    for to in [table(), of(&[("a", 5), ("b", 6), ("c", 7)])] {
        assert_eq!(taken_back(moved(&few, &to).unwrap()).unwrap().len(), 1);
    }
    let optional = Column { default: Some("'a'".into()), ..Column::new("state", enumeration(&[("a", 5)])) };
    let mut come = moved(&table(), &with(optional)).unwrap();
    assert_eq!(come.enums(), [], "those of the key alone decide whether a state goes on");
    for names in [&[("a", 5)][..], &[("a", 5), ("b", 7)]] {
        match moved(&few, &of(names)).err() {
            Some(StateError::Configured { was, .. }) => {
                assert!(was.contains("`b` as 6 of the Enum of column `state`"), "{was}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(come.restore(&[]).is_err());
}

#[test]
fn an_array_that_was_added_has_its_default_in_rows_of_before() {
    let tags = ColumnType::Array(Box::new(ColumnType::String));
    let column = Column {
        default: Some("['a']".into()),
        default_json: Some(r#"["a"]"#.into()),
        ..Column::new("tags", tags)
    };
    let step = moved(&table(), &with(column)).unwrap();
    let rows = step.layouts.decode([(0, &*row_of_before())].into_iter()).unwrap();
    let tags = rows[0].last().unwrap().as_list::<i32>().value(0);
    assert_eq!(tags.as_string::<i32>().value(0), "a");
}

/// A row of the table of before as bytes.
fn row_of_before() -> Vec<u8> {
    let layouts = super::rows::Layouts::of(&table(), 2);
    let rows = batch(&[(Some(1), 1, false, 1)]).rows;
    layouts.encode(&rows).unwrap().value(0).to_vec()
}

/// Layouts are sealed once, with the first rows that have them.
#[test]
fn deltas_of_tables_with_other_columns_follow_one_another() {
    let wide = altered(Column::new("more", nullable(ColumnType::String)));
    let mut step = moved(&table(), &wide).unwrap();
    let first = step.snapshot();
    let mut deltas = Vec::new();
    for _ in 0..3 {
        let columns = wide.columns().iter().map(|column| -> ArrayRef {
            match &*column.name {
                "id" => Arc::new(UInt32Array::from(vec![1])),
                "sign" => Arc::new(Int8Array::from(vec![0])),
                "v" => Arc::new(Int64Array::from(vec![1])),
                _ => Arc::new(StringArray::from(vec!["x"])),
            }
        });
        let rows = RecordBatch::try_new(wide.arrow().clone(), columns.collect()).unwrap();
        let probed = step.probe(Batch { rows, positions: vec![1], times_ms: vec![1], ..batch(&[]) }).unwrap();
        step.finish(probed, &[]).unwrap();
        step.advance(0).unwrap();
        deltas.push(step.seal(0));
    }
    assert!(deltas[0].len() > deltas[1].len() + 40 && deltas[1].len() == deltas[2].len(), "{deltas:?}");
    let config = UpsertConfig { deleted: None, ..config(None) };
    let mut again = Upsert::new(&wide, &wide, &config).unwrap();
    again.restore(&first).unwrap();
    deltas.iter().for_each(|delta| again.apply(delta).unwrap());
    assert_eq!(again.snapshot(), step.snapshot());
    assert!(again.apply(&deltas[0]).is_err(), "its layouts are known");
}

#[test]
fn settings_that_do_not_fit_the_table_are_refused() {
    let refused = |config: UpsertConfig, table: &Schema| {
        Upsert::new(&input(table), table, &config).err().expect("it is refused").to_string()
    };
    let own = || config(None);
    let wrong = refused(UpsertConfig { sign: "v".into(), ..own() }, &table());
    assert_eq!(wrong, "upsert.sign: the column `v` must be an Int8");
    let wrong = refused(UpsertConfig { key: vec!["ids".into()], ..own() }, &table());
    assert_eq!(wrong, "upsert.key: there is no column `ids`; did you mean `id`?");
    let wrong = refused(UpsertConfig { deleted: Some("other".into()), ..own() }, &table());
    assert_eq!(wrong, "upsert.deleted: the column `other` must be a Bool");
    let states =
        altered(Column::new("more", ColumnType::Array(Box::new(ColumnType::Json { parameters: None }))));
    let wrong = refused(own(), &states);
    assert!(wrong.starts_with("columns: the column `more` is of a type of which no row is kept"), "{wrong}");
}

#[test]
fn too_little_memory_is_said_with_what_to_raise() {
    let mut step = step(None).with_memory(1 << 10);
    put(&mut step, &(0..1_000).map(|n| (Some(n), i64::from(n), false, 1)).collect::<Vec<_>>());
    let wrong = step.advance(0).unwrap_err();
    assert!(wrong.message.contains("Raise `upsert.memory`") && !wrong.message.contains("join"), "{wrong}");
    assert_eq!(wrong.step, "upsert");
}

/// The bytes of a state, which later programs must read.
#[test]
fn a_state_is_written_as_it_was() {
    let mut step = step(Some("v"));
    seal(&mut step, &[(Some(1), 10, false, 5)]);
    let golden = include_str!("tests/golden.txt");
    let hex = |bytes: &Bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let found = format!("delta {}\nsnapshot {}\n", hex(&step.seal(0)), hex(&step.snapshot()));
    assert_eq!(found, golden);
}
