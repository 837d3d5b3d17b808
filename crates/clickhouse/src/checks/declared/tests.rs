use dataflow::ColumnType;

use super::*;
use crate::config::Upsert;

fn create(columns: &[(&str, &str)]) -> CreateTable {
    let columns = columns.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    CreateTable { columns, order_by: "k".into(), partition_by: String::new() }
}

fn config() -> TableConfig {
    TableConfig::new("d", "t")
}

/// The faults, a column and a message each.
fn faults(config: &TableConfig, columns: &[(&str, &str)]) -> Vec<String> {
    let faults = declared(config, &create(columns)).err().unwrap_or_default();
    let shown =
        faults.iter().map(|fault| format!("{}: {}", fault.column.as_deref().unwrap_or("-"), fault.message));
    shown.collect()
}

#[test]
fn the_columns_are_those_that_the_table_will_have() {
    let columns = [
        ("k", "INT UNSIGNED"),
        ("b", "bool"),
        ("n", "Int8 DEFAULT 5 CODEC(ZSTD)"),
        ("big", "Int128 ALIAS k"),
    ];
    let config = TableConfig { provenance: true, ..config() };
    let schema = declared(&config, &create(&columns)).expect("it can be written");
    let shown: Vec<(&str, &ColumnType, Option<&str>)> = schema
        .columns()
        .iter()
        .map(|column| (column.name.as_str(), &column.column_type, column.default.as_deref()))
        .collect();
    let wanted = [
        ("k", &ColumnType::UInt32, None),
        ("b", &ColumnType::Bool, None),
        ("n", &ColumnType::Int8, Some("5")),
    ];
    assert_eq!(shown, wanted);
}

#[test]
fn a_type_that_no_pipeline_writes_is_a_fault_of_its_column() {
    for text in ["Int128", "Tuple(a Int64, b String)", "Decimal(76, 10)", "Map(Array(Int8), Int8)"] {
        let found = faults(&config(), &[("k", "UInt32"), ("x", text)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("x: no pipeline writes a column of the type `"), "{found:?}");
        let computed = format!("{text} MATERIALIZED f(k)");
        assert_eq!(faults(&config(), &[("k", "UInt32"), ("x", &computed)]), Vec::<String>::new());
    }
    assert_eq!(
        faults(&config(), &[("k", "UInt32"), ("x", "Int8, y Int8")]),
        ["x: `Int8, y Int8`: `,` follows the type: give each column a line of its own"]
    );
}

#[test]
fn columns_with_a_role_are_judged_before_the_table_is_made() {
    let named = TableConfig { named: vec!["x".into()], ..config() };
    assert_eq!(
        faults(&named, &[("k", "UInt32"), ("x", "Int8 ALIAS k")]),
        ["-: column `x` is ALIAS: the server computes it; take it out of `columns`"]
    );
    let unique = TableConfig { unique_key: vec!["x".into()], ..config() };
    assert_eq!(
        faults(&unique, &[("k", "UInt32"), ("x", "Float64")]),
        [
            "-: column `x` of the unique key has the type `Float64`; integers, text, UUID, dates and times can be probed for"
        ]
    );
    let upsert =
        Upsert { key: vec!["k".into()], version: Some("x".into()), deleted: Some("gone".into()), sign: None };
    let upsert = TableConfig { upsert: Some(upsert), ..config() };
    assert_eq!(
        faults(&upsert, &[("k", "UInt32 DEFAULT 1"), ("x", "Nullable(Int8)"), ("gone", "String")]).len(),
        3
    );
    assert_eq!(faults(&upsert, &[("k", "UInt32"), ("x", "Int8"), ("gone", "UInt8")]), Vec::<String>::new());
}

#[test]
fn a_key_of_partitions_by_which_rows_cannot_be_cut_is_a_fault_before_the_table_is_made() {
    let fault = |key: &str, part: &str| {
        let columns = [("k", "UInt64"), ("at", "DateTime DEFAULT now()"), ("part", part)];
        let create = CreateTable { partition_by: key.into(), ..create(&columns) };
        declared(&config(), &create).err().unwrap_or_default().pop()
    };
    for key in ["", "k", "toYYYYMM(at)", "intDiv(k, 1000)", "(part, toDate(at))", "k DIV 1000"] {
        assert_eq!(fault(key, "UInt8 MATERIALIZED k % 8"), None, "{key}");
    }
    for key in ["part", "cityHash64(k) % 8", "(k, cityHash64(k))"] {
        let fault = fault(key, "UInt64 MATERIALIZED cityHash64(k)").expect(key);
        assert_eq!(fault.column, None);
        let begin =
            format!("the partition key `{key}` cannot be cut by: `cityHash64` is not one of the functions");
        assert!(fault.message.starts_with(&begin), "{}", fault.message);
    }
}
