//! Tables whose rows replace each other.

use super::*;

fn by_key(version: Option<&str>, deleted: Option<&str>) -> Upsert {
    let name = |name: &str| name.to_owned();
    Upsert { key: vec!["id".into()], version: version.map(name), deleted: deleted.map(name), sign: None }
}

/// Rows with an id, a value, whether they are deleted, and a version of their own or of the engine.
fn keyed(ids: &[i32], values: &[i32], deleted: &[bool], version: (&str, ArrayRef)) -> RecordBatch {
    batch(vec![
        ("id", ints(ids.iter().copied())),
        ("v", ints(values.iter().copied())),
        ("gone", Arc::new(BooleanArray::from(deleted.to_vec()))),
        version,
    ])
}

#[tokio::test]
async fn rows_replace_each_other_in_a_table_that_is_created_for_it() {
    let server = server_or_skip!();
    let columns = [("id", "Int32"), ("v", "Int32"), ("gone", "UInt8")];
    let create = CreateTable {
        columns: columns.map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec(),
        order_by: "id".into(),
        partition_by: "id % 2".into(),
    };
    let config = TableConfig {
        create: Some(create),
        upsert: Some(by_key(None, Some("gone"))),
        ..TableConfig::new("default", "t")
    };
    let table = open_with(&server, config.clone()).await.unwrap();
    assert_eq!(table.version_column().map(|column| column.name.as_str()), Some("_version"));
    let versions = |from: u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(from..from + 4)) };
    let newer =
        keyed(&[1, 2, 3, 4], &[10, 20, 30, 40], &[false, false, true, false], ("_version", versions(1_000)));
    let older =
        keyed(&[1, 2, 3, 5], &[11, 21, 31, 51], &[false, true, false, false], ("_version", versions(10)));
    // Frames of the older rows arrive last, and change nothing but the key that the newer ones do not have.
    for (n, rows) in [newer, older].iter().enumerate() {
        for (m, frame) in frames(&table, std::slice::from_ref(rows)).iter().enumerate() {
            send(&table, &format!("{n}-{m}"), &frame.body).await.unwrap();
        }
    }
    let newest = "SELECT id, v FROM t FINAL ORDER BY id";
    assert_eq!(server.query(newest).unwrap(), "1\t10\n2\t20\n4\t40\n5\t51\n");
    server.query("OPTIMIZE TABLE t FINAL").unwrap();
    assert_eq!(server.query(newest).unwrap(), "1\t10\n2\t20\n4\t40\n5\t51\n", "merged");
    assert_eq!(open_with(&server, config).await.map(|_| ()).map_err(|faults| format!("{faults:?}")), Ok(()));
}

#[tokio::test]
async fn rows_of_one_batch_that_are_replaced_are_those_that_a_merge_would_drop() {
    let server = server_or_skip!();
    for name in ["all", "newest"] {
        let statement =
            "(id Int32, v Int32, gone UInt8, at Int64) ENGINE = ReplacingMergeTree(at, gone) ORDER BY id";
        server.query(&format!("CREATE TABLE {name} {statement} {WINDOW}")).unwrap();
    }
    let config = |name| TableConfig {
        upsert: Some(by_key(Some("at"), Some("gone"))),
        ..TableConfig::new("default", name)
    };
    let (all, newest) = (
        open_with(&server, config("all")).await.unwrap(),
        open_with(&server, config("newest")).await.unwrap(),
    );
    assert!(all.order_dependent(), "rows may have the same version");
    let count = 500;
    let ids: Vec<i32> = (0..count).map(|n| n * 7_919 % 37).collect();
    let at: Vec<i64> = (0..count).map(|n| i64::from(n * 104_729 % 11) - 5).collect();
    let deleted: Vec<bool> = (0..count).map(|n| n % 13 == 0).collect();
    let values: Vec<i32> = (0..count).collect();
    let rows = keyed(&ids, &values, &deleted, ("at", Arc::new(Int64Array::from(at))));
    let given = [Selected::all(rows.clone())];
    let replaced = newest.replaced(&given).unwrap();
    assert_eq!(replaced.len(), 500 - 37, "one row of each key is left");
    let left = [given[0].except(&replaced)];
    for (table, rows) in [(&all, &given), (&newest, &left)] {
        let frame = table.encode(rows, &mut || FrameId(1)).unwrap().remove(0);
        send(table, "a", &frame.body).await.unwrap();
    }
    let of = |name: &str| server.query(&format!("SELECT * FROM {name} FINAL ORDER BY id")).unwrap();
    assert_eq!(of("newest"), of("all"));
    assert!(of("all").lines().count() > 20, "{}", of("all"));
}

#[tokio::test]
async fn a_new_journal_does_not_begin_below_the_versions_of_the_table() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (id Int32, _version UInt64) ENGINE = ReplacingMergeTree(_version) ORDER BY id {WINDOW}"
        ))
        .unwrap();
    let config = TableConfig { upsert: Some(by_key(None, None)), ..TableConfig::new("default", "t") };
    let table = open_with(&server, config).await.unwrap();
    assert!(table.may_object_to_first_start());
    assert_eq!(table.objects_to_first_start().await.unwrap(), None, "it is empty");
    server.query("INSERT INTO t SELECT 1, bitShiftLeft(toUInt64(1700000000000), 20)").unwrap();
    assert_eq!(table.objects_to_first_start().await.unwrap(), None, "the clock has passed them");
    server.query("INSERT INTO t SELECT 2, bitShiftLeft(toUInt64(4000000000000), 20)").unwrap();
    let why = table.objects_to_first_start().await.unwrap().expect("the clock is behind");
    assert!(why.contains("so that its rows would never replace those"), "{why}");
}

/// A value that only the server knows would tell nobody which of two rows is the newer one.
#[tokio::test]
async fn the_statement_that_takes_a_default_from_a_key_or_a_version_is_a_way_out() {
    let server = server_or_skip!();
    for (name, columns, role) in [
        ("k", "id Int32 DEFAULT v, v Int32, at Int64", "key"),
        ("w", "id Int32, v Int32, at Int64 DEFAULT toUnixTimestamp(now())", "version"),
    ] {
        server
            .query(&format!(
                "CREATE TABLE {name} ({columns}) ENGINE = ReplacingMergeTree(at) ORDER BY id {WINDOW}"
            ))
            .unwrap();
        let config =
            || TableConfig { upsert: Some(by_key(Some("at"), None)), ..TableConfig::new("default", name) };
        let faults = open_with(&server, config()).await.err().unwrap();
        let [fault] = &faults[..] else { panic!("one fault: {faults:?}") };
        assert!(fault.message.contains(&format!("`upsert.{role}` has a DEFAULT")), "{fault}");
        server.query(fault.fix.as_ref().unwrap()).unwrap();
        open_with(&server, config()).await.unwrap_or_else(|faults| panic!("{role}: {faults:?}"));
    }
}

/// The statements for a table that takes rows back: from one that cannot to one that is taken.
#[tokio::test]
async fn the_statements_for_a_table_that_takes_rows_back_make_one() {
    let server = server_or_skip!();
    let config = |name: &str| TableConfig {
        upsert: Some(Upsert { sign: Some("sign".into()), ..by_key(None, Some("gone")) }),
        ..TableConfig::new("default", name)
    };
    for (name, columns, engine) in [
        ("plain", "id Int32, v Int32", "MergeTree"),
        ("versions", "id Int32, v Int32, sign Int8", "VersionedCollapsingMergeTree(sign, v)"),
        ("other", "id Int32, v Int8, sign Int8", "CollapsingMergeTree(v)"),
    ] {
        server
            .query(&format!("CREATE TABLE {name} ({columns}) ENGINE = {engine} ORDER BY id {WINDOW}"))
            .unwrap();
        let faults = open_with(&server, config(name)).await.err().unwrap();
        // With the engine goes the sorting key, which ends with the version.
        let fixes: Vec<&String> = faults.iter().filter_map(|fault| fault.fix.as_ref()).collect();
        assert!(fixes.iter().any(|fix| fix.contains("ENGINE = CollapsingMergeTree(`sign`)")), "{faults:?}");
        for fix in fixes {
            let statement = fix.split(", then copy the rows").next().unwrap();
            server.query(statement).unwrap_or_else(|e| panic!("{statement}: {e}"));
        }
        let made = config(&format!("{name}_by_key"));
        open_with(&server, made).await.unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
    }
    let columns = [("id", "Int32"), ("v", "Int32")];
    let create = CreateTable {
        columns: columns.map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec(),
        order_by: "id".into(),
        partition_by: String::new(),
    };
    let created = TableConfig { create: Some(create), ..config("created") };
    let table = open_with(&server, created).await.unwrap();
    let names: Vec<&str> = table.schema().columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["id", "v", "sign"]);
    assert!(table.order_dependent());
}
