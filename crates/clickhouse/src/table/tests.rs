use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, StringArray};

use super::frames::slice_bytes;
use super::*;
use crate::checks::Facts;
use crate::checks::read::{ColumnRow, Server, TableRow};
use crate::config::Upsert;
use crate::testing::RealTime;

fn table_of(
    columns: &[(&str, &str)],
    partition_key: &str,
    change: impl Fn(&mut TableConfig),
) -> ClickHouseTable {
    let columns = columns
        .iter()
        .map(|(name, type_name)| ColumnRow {
            name: (*name).into(),
            type_name: (*type_name).into(),
            ..ColumnRow::default()
        })
        .collect();
    let row = TableRow {
        engine: "MergeTree".into(),
        engine_full: "MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100".into(),
        partition_key: partition_key.into(),
        sorting_key: "n".into(),
        columns,
        ..TableRow::default()
    };
    let server = Server { version: (26, 7), zone: "UTC".into(), ..Server::default() };
    let mut config = TableConfig::new("d", "t");
    change(&mut config);
    let facts = Facts {
        server,
        table: Some(row),
        has_database: true,
        may_create: true,
        views: Vec::new(),
        nodes: Vec::new(),
    };
    let plan = checks::judge(&facts, &config).unwrap();
    let client = Client::new(ServerConfig::new("http://127.0.0.1:1"), RealTime::shared()).unwrap();
    ClickHouseTable::with_plan(client, config, plan)
}

/// A table with these columns: name, type, DEFAULT.
pub(crate) fn facts_of_columns(columns: &[(&str, &str, &str)]) -> Facts {
    let column = |(name, type_name, default): &(&str, &str, &str)| ColumnRow {
        name: (*name).into(),
        type_name: (*type_name).into(),
        default_kind: if default.is_empty() { String::new() } else { "DEFAULT".into() },
        default_expression: (*default).into(),
    };
    let row = TableRow {
        engine: "MergeTree".into(),
        engine_full: "MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100".into(),
        sorting_key: "n".into(),
        columns: columns.iter().map(column).collect(),
        ..TableRow::default()
    };
    let server = Server { version: (26, 7), zone: "UTC".into(), ..Server::default() };
    Facts {
        server,
        table: Some(row),
        has_database: true,
        may_create: true,
        views: Vec::new(),
        nodes: Vec::new(),
    }
}

pub(crate) fn open_with(columns: &[(&str, &str, &str)]) -> ClickHouseTable {
    let config = TableConfig::new("d", "t");
    let plan = checks::judge(&facts_of_columns(columns), &config).unwrap();
    let client = Client::new(ServerConfig::new("http://127.0.0.1:1"), RealTime::shared()).unwrap();
    ClickHouseTable::with_plan(client, config, plan)
}

fn rows(numbers: std::ops::Range<i32>) -> RecordBatch {
    let s: ArrayRef = Arc::new(StringArray::from_iter_values(numbers.clone().map(|n| n.to_string())));
    let n: ArrayRef = Arc::new(Int32Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("n", n), ("s", s)]).unwrap()
}

const COLUMNS: &[(&str, &str)] = &[("n", "Int32"), ("s", "String"), ("_forebay", "UUID")];

fn encode(table: &ClickHouseTable, batches: &[RecordBatch]) -> Vec<Encoded> {
    encode_selected(table, &batches.iter().cloned().map(Selected::all).collect::<Vec<_>>())
}

fn encode_selected(table: &ClickHouseTable, rows: &[Selected]) -> Vec<Encoded> {
    let mut id = 0;
    let mut next = || {
        id += 1;
        FrameId(id)
    };
    table.encode(rows, &mut next).unwrap()
}

fn numbers(table: &ClickHouseTable, frame: &Encoded) -> Vec<i32> {
    let rows = table.decode(&frame.body).unwrap();
    rows.column(0).as_any().downcast_ref::<Int32Array>().unwrap().values().to_vec()
}

#[test]
fn the_statement_names_every_column() {
    let table = table_of(COLUMNS, "", |_| {});
    assert_eq!(
        table.insert.lock().unwrap().statement,
        "INSERT INTO `d`.`t` (`n`, `s`, `_forebay`) FORMAT Native"
    );
}

#[test]
fn frames_are_bounded_by_rows_and_by_bytes() {
    let table = table_of(COLUMNS, "", |c| c.frame_rows_max = 40);
    let frames = encode(&table, &[rows(0..60), rows(60..100)]);
    assert_eq!(frames.iter().map(|f| f.rows).collect::<Vec<_>>(), [40, 40, 20]);
    assert_eq!(frames.iter().map(|f| f.id.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(
        frames.iter().flat_map(|f| numbers(&table, f)).collect::<Vec<_>>(),
        (0..100).collect::<Vec<_>>()
    );
    let narrow = table_of(COLUMNS, "", |c| c.frame_bytes_max = 1);
    assert_eq!(encode(&narrow, &[rows(0..5)]).len(), 5, "a row larger than the bound is a frame of its own");
    assert!(encode(&table, &[rows(0..0)]).is_empty());
    assert!(encode(&table, &[]).is_empty());
}

#[test]
fn half_a_frame_is_one_frame_however_heavy_its_rows_are() {
    // The later rows hold longer texts, so that their own mean would cut them.
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|n| "x".repeat(n * n / 10))));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
    let rows = RecordBatch::try_from_iter([("n", numbers), ("s", texts)]).unwrap();
    let bytes = slice_bytes(&rows);
    let table = table_of(COLUMNS, "", |c| c.frame_bytes_max = bytes + 100);
    let whole = encode(&table, std::slice::from_ref(&rows)).remove(0);
    assert_eq!(whole.rows, 100);
    // Heavier than a frame may be in all: as if the bound was lowered between two starts.
    let table = table_of(COLUMNS, "", |c| c.frame_bytes_max = bytes / 4);
    let heavy = table.decode(&whole.body).unwrap().slice(50, 50);
    assert!(encode(&table, std::slice::from_ref(&heavy)).len() > 1, "by their mean they would be several");
    let (half, _) = table.encode_again(&heavy, None, FrameId(9)).unwrap();
    assert_eq!((half.rows, half.id, half.rows_from), (50, FrameId(9), dataflow::RowsFrom::Run(0..50)));
}

#[test]
fn a_frame_touches_one_partition() {
    let table = table_of(COLUMNS, "n % 3", |_| {});
    let frames = encode(&table, &[rows(0..5), rows(5..9)]);
    let shown: Vec<(&str, Vec<i32>)> =
        frames.iter().map(|f| (f.table_partition.as_str(), numbers(&table, f))).collect();
    assert_eq!(shown, [("0", vec![0, 3, 6]), ("1", vec![1, 4, 7]), ("2", vec![2, 5, 8])]);
}

#[test]
fn the_same_rows_and_ids_give_the_same_bytes() {
    let table = table_of(COLUMNS, "n % 3", |c| c.sort = true);
    let batches = [rows(-50..50), rows(-10..10)];
    let (a, b) = (encode(&table, &batches), encode(&table, &batches));
    assert!(a.iter().zip(&b).all(|(a, b)| a.body == b.body && a.rows == b.rows));
    let joined = arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap();
    let c = encode(&table, &[joined]);
    assert!(a.iter().zip(&c).all(|(a, c)| a.body == c.body), "the split into batches does not show");
}

#[test]
fn rows_that_go_no_further_do_not_show_in_a_frame() {
    let shuffled = |numbers: std::ops::Range<i32>| {
        let rows = numbers.len();
        let order = arrow_array::UInt32Array::from_iter_values((0..rows).map(|n| (n * 7 % rows) as u32));
        arrow_select::take::take_record_batch(&self::rows(numbers), &order).unwrap()
    };
    let gone: Vec<usize> = (0..100).filter(|n| n % 11 == 3 || *n > 97).collect();
    let selected = [
        Selected::without(shuffled(0..100), &gone),
        Selected::all(shuffled(100..110)),
        Selected::without(shuffled(110..120), &(0..10).collect::<Vec<_>>()),
        Selected::without(shuffled(120..150), &[0, 29]),
    ];
    let dense: Vec<RecordBatch> = selected
        .iter()
        .map(|rows| {
            let kept = rows.gather(&(0..rows.batch().num_rows() as u32).collect::<Vec<_>>());
            arrow_select::take::take_record_batch(rows.batch(), &arrow_array::UInt32Array::from(kept))
                .unwrap()
        })
        .collect();
    type Change = fn(&mut TableConfig);
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, Change);
    let cases: [Case<'_>; 6] = [
        ("as they come", COLUMNS, "", |_| {}),
        ("sorted", COLUMNS, "", |c| c.sort = true),
        ("by partition", COLUMNS, "n % 3", |_| {}),
        ("of one partition", COLUMNS, "intDiv(n, 1000)", |_| {}),
        ("many frames, sorted, by partition", COLUMNS, "n % 3", |c| (c.sort, c.frame_rows_max) = (true, 20)),
        ("with a sample of keys", &COLUMNS[..2], "", |c| {
            (c.unique_key, c.frame_rows_max) = (vec!["n".into()], 40)
        }),
    ];
    for (what, columns, partition_key, change) in cases {
        let table = table_of(columns, partition_key, change);
        let (frames, expected) = (encode_selected(&table, &selected), encode(&table, &dense));
        assert_eq!(frames.len(), expected.len(), "{what}");
        for (frame, expected) in frames.iter().zip(&expected) {
            assert!(frame.body == expected.body && frame.rows == expected.rows, "{what}");
            assert_eq!(frame.probe, expected.probe, "{what}");
            assert_eq!(frame.table_partition, expected.table_partition, "{what}");
            assert_eq!(frame.rows_from, expected.rows_from, "{what}");
        }
    }
}

#[test]
fn rows_are_sorted_by_the_sorting_key_if_asked_to() {
    let table = table_of(COLUMNS, "", |c| c.sort = true);
    let frames = encode(&table, &[rows(5..8), rows(0..3)]);
    assert_eq!(numbers(&table, &frames[0]), [0, 1, 2, 5, 6, 7]);
}

#[test]
fn a_sample_of_keys_spreads_over_the_frame() {
    let table = table_of(&COLUMNS[..2], "", |c| c.unique_key = vec!["n".into()]);
    let frames = encode(&table, &[rows(0..300), rows(300..640)]);
    let sample = String::from_utf8(frames[0].probe.to_vec()).unwrap();
    assert!(sample.starts_with("keys\n64\n`n`\n"), "{sample}");
    assert!(sample.contains("tuple(0),") && sample.contains("tuple(630)"), "{sample}");
    let with_column = table_of(COLUMNS, "", |c| c.unique_key = vec!["n".into()]);
    assert_eq!(&encode(&with_column, &[rows(0..3)])[0].probe[..], b"frame", "the provenance column serves");
    let with_neither = table_of(&COLUMNS[..2], "", |_| {});
    assert!(encode(&with_neither, &[rows(0..3)])[0].probe.is_empty(), "nothing can tell");
}

#[test]
fn a_damaged_frame_is_an_error() {
    let table = table_of(COLUMNS, "", |_| {});
    let body = encode(&table, &[rows(0..3)]).remove(0).body;
    for cut in [0, 1, 20, body.len() - 1] {
        assert!(table.decode(&body[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn rows_of_another_shape_are_errors_that_name_table_and_column() {
    let table = table_of(COLUMNS, "", |_| {});
    let n: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let s: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let nulls = RecordBatch::try_from_iter_with_nullable([("n", n, true), ("s", s, true)]).unwrap();
    let error = table.encode(&[Selected::all(nulls)], &mut || FrameId(1)).unwrap_err().to_string();
    assert!(error.contains("`d.t`") && error.contains("column `n`: 1 null"), "{error}");
    let narrow = rows(0..1).project(&[0]).unwrap();
    assert!(table.encode(&[Selected::all(narrow)], &mut || FrameId(1)).is_err());
}

/// A row without a value there would be the row of another key, or of the oldest version.
#[test]
fn what_rows_replace_each_other_by_has_no_zero_however_late_its_column_was_added() {
    let columns = [("id", "UInt64", ""), ("at", "UInt64", ""), ("_version", "UInt64", ""), ("v", "Int8", "")];
    for (version, argument, expected) in
        [(None, "_version", ["id", "_version"]), (Some("at".to_owned()), "at", ["id", "at"])]
    {
        let mut facts = facts_of_columns(&columns);
        let row = facts.table.as_mut().unwrap();
        row.engine = "ReplacingMergeTree".into();
        row.engine_full = format!(
            "ReplacingMergeTree({argument}) ORDER BY id SETTINGS non_replicated_deduplication_window = 100"
        );
        row.sorting_key = "id".into();
        let upsert = Some(Upsert { key: vec!["id".into()], version, ..Upsert::default() });
        let config = TableConfig { upsert, ..TableConfig::new("d", "t") };
        let plan = checks::judge(&facts, &config).unwrap();
        let client = Client::new(ServerConfig::new("http://127.0.0.1:1"), RealTime::shared()).unwrap();
        let table = ClickHouseTable::with_plan(client, config, plan);
        let found: Vec<&str> =
            columns.iter().map(|column| column.0).filter(|name| table.has_no_zero(name)).collect();
        assert_eq!(found, expected);
    }
}

/// Another table may have come by this name while nothing waited.
#[test]
fn a_table_in_which_the_order_of_inserts_shows_now_is_opened_again() {
    let columns = [("n", "Int32", ""), ("_forebay", "UUID", "")];
    let table = open_with(&columns);
    for (engine, expected) in [
        ("MergeTree", false),
        ("SummingMergeTree", false),
        ("ReplacingMergeTree", true),
        ("CoalescingMergeTree", true),
    ] {
        let mut facts = facts_of_columns(&columns);
        let row = facts.table.as_mut().unwrap();
        row.engine = engine.into();
        row.engine_full = row.engine_full.replacen("MergeTree", engine, 1);
        let plan = checks::judge(&facts, &table.config).unwrap();
        *table.now.lock().unwrap() = Arc::new(Now::new(Arc::new(plan)));
        assert_eq!((table.must_reopen(), table.must_reopen_at_once()), (expected, expected), "{engine}");
    }
}

/// A server may not take those of the start any more: it was replaced by an older one, or a constraint came.
#[tokio::test]
async fn running_inserts_are_ended_with_the_settings_of_the_newest_poll() {
    use testkit::{Answer, FaultProxy, Rule};
    let proxy = FaultProxy::start("http://127.0.0.1:1").unwrap();
    let none = "[0,\"00000000-0000-0000-0000-000000000000\"]\n";
    for (part, answer) in [("KILL QUERY", ""), ("system.processes", none)] {
        let answer = Answer::new(200, answer).header("X-ClickHouse-Query-Id", "x");
        proxy.add(Rule::always(testkit::Fault::Answer(answer)).query(part).target("extremes=0"));
    }
    let config = TableConfig::new("d", "t");
    let plan = |value: &str| {
        let columns = [("n", "Int32", ""), ("_forebay", "UUID", "")];
        let plan = checks::judge(&facts_of_columns(&columns), &config).unwrap();
        Plan { look_settings: vec![("extremes", value.to_owned())], ..plan }
    };
    let client = Client::new(ServerConfig::new(proxy.url()), RealTime::shared()).unwrap();
    let table = ClickHouseTable::with_plan(client, config.clone(), plan("1"));
    *table.now.lock().unwrap() = Arc::new(Now::new(Arc::new(plan("0"))));
    assert_eq!(table.end_attempts("forebay-1").await.unwrap(), 0);
}

#[test]
fn a_search_for_the_rows_of_an_insert_that_takes_too_long_names_an_index() {
    let named = open_with(&[("n", "Int32", ""), ("_forebay", "UUID", "")]);
    let unnamed = open_with(&[("n", "Int32", "")]);
    let error = |code, kind| crate::client::QueryError {
        remedy: Remedy::Resend,
        code,
        kind,
        message: "no answer within 30 s".into(),
    };
    let slow = [error(0, TableFault::Timeout), error(159, TableFault::Overloaded)];
    for slow in slow {
        let told = named.unanswered(slow.clone(), true);
        assert_eq!((told.remedy, told.kind), (slow.remedy, slow.kind));
        let way = "`ALTER TABLE `d`.`t` ADD INDEX forebay `_forebay` TYPE bloom_filter GRANULARITY 1`";
        assert!(told.message.starts_with(&slow.message) && told.message.contains(way), "{told}");
        assert_eq!(named.unanswered(slow.clone(), false).message, slow.message, "a poll without a doubt");
        assert_eq!(unnamed.unanswered(slow.clone(), true).message, slow.message, "it is looked for by keys");
    }
    let other = error(241, TableFault::Overloaded);
    assert_eq!(named.unanswered(other.clone(), true).message, other.message);
}

/// Beside any other number its 0 would say that every token was used since.
#[test]
fn a_replica_without_its_keeper_has_no_number_once_there_was_one() {
    use crate::checks::sight::{Replica, Sight};
    let columns = [("n", "Int32", ""), ("_forebay", "UUID", "")];
    let table = open_with(&columns);
    let mut facts = facts_of_columns(&columns);
    let row = facts.table.as_mut().unwrap();
    row.engine = "ReplicatedMergeTree".into();
    row.engine_full =
        "ReplicatedMergeTree('/p', 'r') ORDER BY n SETTINGS replicated_deduplication_window = 100, \
                       replicated_deduplication_window_seconds = 3600"
            .into();
    let plan = checks::judge(&facts, &table.config).unwrap();
    let seen = |expired, log_max| {
        let (database, name) = ("d".to_owned(), "t".to_owned());
        let of_table = Replica { side: 1, database, table: name, expired, log_max, ..Replica::default() };
        let before = vec![of_table];
        let sight = Sight { table: vec![("u".into(), String::new())], before, ..Sight::default() };
        let seen = table.seen(&plan, &sight)?;
        Ok::<_, TableError>(tokens::Facts::of(&seen).expect("it was seen").block_number)
    };
    assert_eq!(seen(1, 0).unwrap(), 0, "at a start nothing is compared with it");
    assert_eq!(seen(0, 70).unwrap(), 70);
    let error = seen(1, 0).unwrap_err();
    assert_eq!((error.remedy, error.kind), (Remedy::Resend, TableFault::ReadOnly));
    assert!(error.message.contains("the replica of table `d.t` has lost its keeper"), "{error}");
    assert_eq!(seen(0, 71).unwrap(), 71);
}
