//! What the checks of a table find, and the statements that mend it.

use super::*;

/// Every way out that the checks of a table print, run: the table is made, the fault is found, and after the statement there is none.
#[tokio::test]
async fn every_statement_that_the_checks_print_is_a_way_out() {
    let server = server_or_skip!();
    let plain = "ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 10000";
    let keyed = |columns: &str| format!("({columns}) {plain}");
    let cases = [
        ("does not remember insert tokens", "(n Int32) ENGINE = MergeTree ORDER BY n".to_owned()),
        ("remembers 3 insert tokens", keyed("n Int32").replace("10000", "3")),
        ("has no column `_forebay`", keyed("n Int32")),
        ("`_forebay` must be a plain `UUID`", keyed("n Int32, _forebay Nullable(UUID)")),
        ("`_forebay` must be a plain `UUID`", keyed("n Int32, _forebay UUID MATERIALIZED generateUUIDv4()")),
        ("`_forebay` must be a plain `UUID`", keyed("n Int32, _forebay UUID ALIAS generateUUIDv4()")),
        ("`_forebay` must be a plain `UUID`", keyed("n Int32, _forebay Nullable(String)")),
        ("`Tuple(a Int8)`", keyed("n Int32, c Tuple(a Int8)")),
        ("`Tuple(a String, b UInt8)`", keyed("n Int32, c Tuple(a String, b UInt8)")),
        ("`Int128`", keyed("n Int32, c Int128")),
        ("`UInt256`", keyed("n Int32, c UInt256")),
        ("`Decimal(76, 2)`", keyed("n Int32, c Decimal(76, 2)")),
        ("AggregateFunction", keyed("n Int32, c AggregateFunction(uniqExact, UInt64)")),
        ("Array(Tuple", keyed("n Int32, c Array(Tuple(a Int8))")),
        ("`Map(String, Tuple", keyed("n Int32, `odd 'name` Map(String, Tuple(a Int8))")),
    ];
    for (n, (part, table)) in cases.iter().enumerate() {
        let name = format!("way_out_{n}");
        server.query(&format!("CREATE TABLE {name} {table}")).unwrap_or_else(|e| panic!("{table}: {e}"));
        server
            .query(&format!("INSERT INTO {name} (n) VALUES (-1)"))
            .unwrap_or_else(|e| panic!("{table}: {e}"));
        let config = || TableConfig {
            provenance: part.contains("_forebay"),
            ..TableConfig::new("default", name.as_str())
        };
        let faults = open_with(&server, config()).await.err().unwrap_or_else(|| panic!("{table}: no fault"));
        let text: Vec<String> = faults.iter().map(Fault::to_string).collect();
        assert!(text.join("\n").contains(part), "{part} in {text:?}");
        for fault in &faults {
            let fix = fault.fix.as_ref().unwrap_or_else(|| panic!("no way out: {fault}"));
            server.query(fix).unwrap_or_else(|e| panic!("{fix}: {e}"));
        }
        let table = open_with(&server, config()).await.unwrap_or_else(|faults| panic!("{part}: {faults:?}"));
        let written: Vec<&str> = table.schema().columns().iter().map(|column| column.name.as_str()).collect();
        if written == ["n"] {
            let rows = batch(vec![("n", ints(0..10))]);
            send(&table, "a", &frames(&table, &[rows])[0].body).await.unwrap();
            assert_eq!(server.query(&format!("SELECT count() FROM {name}")).unwrap(), "11\n", "{part}");
        } else {
            assert_eq!(written, ["n", "_forebay_before"]);
        }
    }
}

/// What a user may do is the administrator's to change. The engine of the tests keeps its users in a `users.xml` and runs none of these statements (codes
/// 495 and 514): they are parsed by it. What they change is taken live by another `users.xml`: `GRANT CREATE TABLE` and `readonly` by `created.rs` of the
/// live tests; grants, `readonly`, row policies and quotas under a running pipeline by `users.rs` there.
#[tokio::test]
async fn every_statement_about_users_that_the_checks_print_is_one() {
    let server = server_or_skip!();
    for statement in testing::ACCESS.lines() {
        server.query(&format!("EXPLAIN AST {statement}")).unwrap_or_else(|e| panic!("{statement}: {e}"));
        let wrong = statement
            .replace(" TO ", " INTO ")
            .replace(" = ", " := ")
            .replace(" DROP SETTING ", " DROP SETTLING ");
        assert!(server.query(&format!("EXPLAIN AST {wrong}")).is_err(), "{wrong}");
    }
}

/// The age of tokens counts for replicated tables alone; every table of the family takes the setting.
#[tokio::test]
async fn the_statement_that_lengthens_the_age_of_tokens_is_run() {
    let server = server_or_skip!();
    server.query("CREATE DATABASE d").unwrap();
    server.query("CREATE TABLE d.t (n Int32) ENGINE = MergeTree ORDER BY n").unwrap();
    server.query(testing::AGE).unwrap();
    let made = server.query("SHOW CREATE TABLE d.t").unwrap();
    assert!(made.contains("replicated_deduplication_window_seconds = 604800"), "{made}");
}

#[tokio::test]
async fn every_fault_comes_at_once_and_its_statement_mends_it() {
    let server = server_or_skip!();
    server
        .query("CREATE TABLE t (n Int32, t Tuple(a Int8), at DateTime DEFAULT now()) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY n")
        .unwrap();
    server.query("CREATE TABLE target (n Int32) ENGINE = MergeTree ORDER BY n").unwrap();
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n FROM t").unwrap();
    let asking = TableConfig { provenance: true, ..TableConfig::new("default", "t") };
    let faults = open_with(&server, asking).await.err().unwrap();
    let text: Vec<String> = faults.iter().map(Fault::to_string).collect();
    let text = text.join("\n");
    for part in [
        "table `default.t` does not remember insert tokens",
        "ALTER TABLE `default`.`t` MODIFY SETTING non_replicated_deduplication_window = 10000",
        "table `default.target` does not remember",
        "ALTER TABLE `default`.`target` MODIFY SETTING",
        "column `t` has the type `Tuple(a Int8)`",
        "ALTER TABLE `default`.`t` ADD COLUMN `_forebay` UUID",
        "DEFAULT `now()`, which is not constant",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    for fix in faults.iter().filter_map(|f| f.fix.as_ref()) {
        server.query(fix).unwrap_or_else(|e| panic!("{fix}: {e}"));
    }
    server.query("ALTER TABLE t MODIFY COLUMN at REMOVE DEFAULT").unwrap();
    let config =
        TableConfig { columns: Some(vec!["n".into(), "at".into()]), ..TableConfig::new("default", "t") };
    let table = open_with(&server, config).await.unwrap_or_else(|faults| panic!("{faults:?}"));
    let rows = batch(vec![
        ("n", ints(0..10)),
        ("at", Arc::new(TimestampSecondArray::from(vec![1_700_000_000; 10]))),
    ]);
    let frame = &frames(&table, &[rows])[0];
    for _ in 0..3 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "10\n");
    assert_eq!(
        server.query("SELECT count() FROM target").unwrap(),
        "10\n",
        "the view's target knows the token too"
    );
}

/// Frames wait for a column that no insert may name any more; the statement that they are given is one.
#[tokio::test]
async fn a_column_that_is_not_sent_any_more_is_given_back_by_the_statement_that_is_printed() {
    let server = server_or_skip!();
    let kinds = ["MATERIALIZED 3", "ALIAS 3", "EPHEMERAL 3", "DEFAULT w + 1"];
    let changes = kinds.map(|kind| format!("UInt8 {kind}"));
    let changes = changes.into_iter().chain(["Variant(UInt8, String)".to_owned()]);
    for (number, (change, default)) in changes.flat_map(|c| [(c.clone(), ""), (c, " DEFAULT 7")]).enumerate()
    {
        // A DEFAULT that is a number is none of a variant's.
        if change.starts_with("Variant") && !default.is_empty() {
            continue;
        }
        let name = format!("given_back_{number}");
        let order = "ENGINE = MergeTree ORDER BY id";
        server
            .query(&format!(
                "CREATE TABLE {name} (id Int32, w Int32 ALIAS id, d UInt8{default}) {order} {WINDOW}"
            ))
            .unwrap();
        let table = open(&server, &name).await;
        let layout = table.layout();
        assert_eq!(table.fit(&layout), Fit::AsIs);
        server.query(&format!("ALTER TABLE {name} MODIFY COLUMN d {change}")).unwrap();
        table.see().await.unwrap();
        let Fit::No { words } = table.fit(&layout) else { panic!("{change}{default} takes no value of it") };
        let begin = words.find("ALTER TABLE").unwrap_or_else(|| panic!("no statement: {words}"));
        server.query(&words[begin..]).unwrap_or_else(|why| panic!("{change}{default}: {words}: {why}"));
        table.see().await.unwrap();
        assert!(!matches!(table.fit(&layout), Fit::No { .. }), "{change}{default}: {words}");
    }
}

#[tokio::test]
async fn engines_that_remember_no_tokens_are_refused() {
    let server = server_or_skip!();
    for (name, engine) in [
        ("m", "Memory"),
        ("nul", "Null"),
        ("l", "Log"),
        ("b", "Buffer(default, m, 1, 10, 100, 10, 100, 10, 100)"),
    ] {
        server.query(&format!("CREATE TABLE {name} (n Int32, _forebay UUID) ENGINE = {engine}")).unwrap();
        let faults = open_with(&server, TableConfig::new("default", name)).await.err().unwrap();
        assert!(faults.iter().any(|f| f.message.contains("engine")), "{engine}: {faults:?}");
    }
    server.query("CREATE VIEW w AS SELECT 1 AS n").unwrap();
    assert!(open_with(&server, TableConfig::new("default", "w")).await.is_err());
    let faults = open_with(&server, TableConfig::new("default", "gone")).await.err().unwrap();
    assert!(faults[0].message.contains("does not exist"), "{faults:?}");
}

async fn check(server: &ClickHouse, config: &TableConfig) -> Vec<Fault> {
    ClickHouseTable::check(ServerConfig::new(server.url()), config, RealTime::shared()).await
}

#[tokio::test]
async fn a_database_that_is_not_there_is_a_fault_before_the_start_and_at_it() {
    let server = server_or_skip!();
    let create = CreateTable {
        columns: vec![("n".into(), "Int32".into())],
        order_by: "n".into(),
        partition_by: String::new(),
    };
    let config = TableConfig { create: Some(create), ..TableConfig::new("no'db`", "t") };
    let before = check(&server, &config).await;
    let [fault] = before.as_slice() else { panic!("one fault: {before:?}") };
    assert_eq!(open_with(&server, config.clone()).await.err(), Some(before.clone()));
    server.query(fault.fix.as_ref().expect("a statement")).unwrap();
    assert_eq!(check(&server, &config).await, []);
    assert!(open_with(&server, config).await.is_ok());
}

#[tokio::test]
async fn a_table_is_made_if_the_pipeline_says_how() {
    let server = server_or_skip!();
    let create = CreateTable {
        columns: vec![
            ("id".into(), "UUID".into()),
            ("at".into(), "DateTime DEFAULT '2020-01-01 00:00:00'".into()),
        ],
        order_by: "id".into(),
        partition_by: "toYYYYMM(at)".into(),
    };
    let config =
        TableConfig { create: Some(create), provenance: true, ..TableConfig::new("default", "made") };
    let faults = check(&server, &config).await;
    assert_eq!(faults, [], "a check takes a table that would be made for granted");
    assert_eq!(server.query("EXISTS TABLE made").unwrap(), "0\n", "and writes nothing");
    for _ in 0..2 {
        let table = open_with(&server, config.clone()).await.unwrap_or_else(|f| panic!("{f:?}"));
        assert_eq!(table.schema().columns().len(), 2);
    }
}

fn created(columns: &[(&str, &str)]) -> TableConfig {
    let columns = columns.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    let create = CreateTable { columns, order_by: "k".into(), partition_by: String::new() };
    TableConfig { create: Some(create), ..TableConfig::new("default", "made") }
}

#[tokio::test]
async fn a_table_that_could_not_be_written_is_not_created() {
    let server = server_or_skip!();
    for text in ["Int128", "Tuple(a Int64, b String)", "Decimal(76, 10)", "Map(Array(Int8), Int8)"] {
        let faults =
            open_with(&server, created(&[("k", "UInt32"), ("x", text)])).await.err().expect("a fault");
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].message.starts_with("column `x`: no pipeline writes a column"), "{faults:?}");
        assert_eq!(server.query("EXISTS TABLE made").unwrap(), "0\n", "{text}");
    }
    // One that only the server can read is made, and says what then stands in the way.
    let mut config = created(&[("k", "UInt32")]);
    for (key, is_there, words) in [
        ("cityHash64(k) % 8", "0\n", "`cityHash64` is not one of the functions"),
        (
            "if(k > 3, 1, 2)",
            "1\n",
            "if the table holds no rows that you need, make room for another: `DROP TABLE `default`.`made``",
        ),
    ] {
        if let Some(create) = &mut config.create {
            create.partition_by = key.into();
        }
        let faults = open_with(&server, config.clone()).await.err().expect("a fault");
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].message.contains(words), "{faults:?}");
        assert_eq!(server.query("EXISTS TABLE made").unwrap(), is_there, "{key}");
    }
    server.query("DROP TABLE `default`.`made`").unwrap();
    if let Some(create) = &mut config.create {
        create.partition_by = "k DIV 1000".into();
    }
    open_with(&server, config).await.unwrap_or_else(|faults| panic!("{faults:?}"));
}

#[tokio::test]
async fn a_create_that_the_server_refuses_ends_the_start_and_names_the_statement() {
    let server = server_or_skip!();
    for (text, code) in [
        ("LowCardinality(UInt8)", 455),
        ("Int8 MATERIALIZED foo(1)", 46),
        ("Int8 MATERIALIZED nope", 47),
        ("Int8 CODEC(Nope)", 432),
        ("DateTime('Europe/Nowhere')", 36),
    ] {
        let faults =
            open_with(&server, created(&[("k", "UInt32"), ("x", text)])).await.err().expect("a fault");
        let [fault] = faults.as_slice() else { panic!("one fault: {faults:?}") };
        assert_eq!(fault.remedy, Remedy::Stop, "{fault}");
        let begin = format!("table `default.made` is not created: the server refuses it: code {code}: ");
        assert!(fault.message.starts_with(&begin), "{fault}");
        assert!(fault.message.contains("; the statement is: CREATE TABLE IF NOT EXISTS"), "{fault}");
    }
}

#[tokio::test]
async fn columns_are_declared_as_the_server_makes_them() {
    let server = server_or_skip!();
    let config = created(&[
        ("k", "INT UNSIGNED"),
        ("b", "bool"),
        ("at", "DateTime32 DEFAULT now() TTL at + INTERVAL 1 DAY"),
        ("ms", "timestamp(3)"),
        ("n", "bigint(20) unsigned NULL DEFAULT 5 COMMENT 'it''s' CODEC(ZSTD(1))"),
        ("e", "Enum('a', 'b' = 300)"),
        ("m", "Map(VARCHAR(3), DOUBLE PRECISION)"),
        ("d", "DECIMAL"),
        ("text", "CHARACTER VARYING(7) NOT NULL"),
        ("wide", "Int128 MATERIALIZED toInt128(k)"),
        ("list", "Array(INT) DEFAULT [1, 2]"),
    ]);
    let create = config.create.clone().expect("it is made");
    let declared = clickhouse::checks::declared(&config, &create).expect("it can be written");
    let table = open_with(&server, config).await.unwrap_or_else(|faults| panic!("{faults:?}"));
    assert_eq!(declared.columns(), table.schema().columns());
}

#[tokio::test]
async fn every_other_name_of_a_type_stands_for_what_the_server_says() {
    let server = server_or_skip!();
    let listed = "SELECT name, alias_to FROM system.data_type_families WHERE alias_to != '' AND alias_to != 'Geometry'";
    let listed = server.query(listed).unwrap();
    let read = |name: &str, of: &str| {
        let parameters = match of {
            "FixedString" => "(4)",
            "Enum" => "('a' = 1)",
            _ => "",
        };
        clickhouse::types::declaration("c", &format!("{name}{parameters}")).and_then(|read| read.column_type)
    };
    let mut names = 0;
    for line in listed.lines() {
        let (name, of) = line.split_once('\t').expect("two columns");
        let found = read(name, of);
        assert!(found.is_ok(), "{name}: {found:?}");
        assert_eq!(found, read(of, of), "{name}");
        names += 1;
    }
    assert!(names > 60, "{listed}");
}
