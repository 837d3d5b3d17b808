use super::super::tests::{column, facts};
use super::super::{Plan, judge};
use super::*;

const SETTINGS: &str = "SETTINGS index_granularity = 8192, non_replicated_deduplication_window = 100";

/// A table of this engine, with its arguments and clauses.
fn table(engine: &str, arguments: &str, sorting_key: &str) -> TableRow {
    TableRow {
        engine: engine.into(),
        engine_full: format!("{engine}{arguments} ORDER BY ({sorting_key}) {SETTINGS}"),
        sorting_key: sorting_key.into(),
        uuid: "11111111-1111-1111-1111-111111111111".into(),
        columns: vec![
            column("id", "UInt64", "", ""),
            column("kind", "LowCardinality(String)", "", ""),
            column("v", "Int32", "", ""),
            column("at", "DateTime64(3)", "", ""),
            column("gone", "UInt8", "", ""),
            column(VERSION, "UInt64", "", ""),
        ],
        ..TableRow::default()
    }
}

fn judged(table: TableRow, upsert: Upsert) -> Result<Plan, String> {
    let config = TableConfig { upsert: Some(upsert), ..TableConfig::new("d", "t") };
    let joined = |faults: Vec<Fault>| faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n");
    judge(&facts(table), &config).map_err(joined)
}

fn fault(table: TableRow, upsert: Upsert) -> String {
    judged(table, upsert).expect_err("it is refused")
}

fn by_id() -> Upsert {
    Upsert { key: vec!["id".into()], ..Upsert::default() }
}

#[test]
fn versions_that_are_made_stand_behind_the_columns_of_rows() {
    let plan = judged(table("ReplacingMergeTree", "(_version)", "id"), by_id()).unwrap();
    let names =
        |schema: &Schema| -> Vec<String> { schema.columns().iter().map(|c| c.name.clone()).collect() };
    assert_eq!(names(&plan.schema), ["id", "kind", "v", "at", "gone"]);
    assert_eq!(names(&plan.sent), ["id", "kind", "v", "at", "gone", VERSION]);
    assert_eq!(plan.upsert, Some(Places { key: vec![0], version: None }));
    assert!(!plan.order_dependent, "no two rows have the same version");
}

#[test]
fn versions_of_the_records_are_a_column_like_any_other() {
    let upsert = Upsert { version: Some("at".into()), deleted: Some("gone".into()), ..by_id() };
    let plan =
        judged(table("ReplicatedReplacingMergeTree", "('/p', 'r', at, `gone`)", "id"), upsert).unwrap();
    assert_eq!(plan.sent.columns().len(), plan.schema.columns().len());
    assert_eq!(plan.upsert, Some(Places { key: vec![0], version: Some(3) }));
    assert_eq!(plan.schema.columns()[4].column_type, dataflow::ColumnType::Bool, "0 and 1 alone");
    assert!(plan.order_dependent, "of equal versions the last insert stays");
}

#[test]
fn a_key_of_several_columns_may_be_sorted_in_another_order() {
    let upsert = Upsert { key: vec!["kind".into(), "id".into()], ..Upsert::default() };
    let plan = judged(table("SharedReplacingMergeTree", "(_version)", "id, kind"), upsert).unwrap();
    assert_eq!(plan.upsert, Some(Places { key: vec![1, 0], version: None }));
}

#[test]
fn another_engine_is_refused_with_the_statement_for_a_table_that_serves() {
    let text = fault(table("MergeTree", "", "id"), by_id());
    assert_eq!(
        text,
        "table `d.t` has the engine `MergeTree`: only a ReplacingMergeTree keeps the newest row of each key, and the engine of a table \
         cannot be changed; fix it with: CREATE TABLE `d`.`t_by_key` AS `d`.`t` ENGINE = ReplacingMergeTree(`_version`) ORDER BY (`id`) \
         SETTINGS non_replicated_deduplication_window = 10000, then copy the rows and EXCHANGE TABLES"
    );
    let text = fault(table("VersionedCollapsingMergeTree", "(v, at)", "id"), by_id());
    assert!(
        text.contains(
            "takes a row away by the same row with the opposite sign; write `sign: v` under `upsert`"
        ),
        "{text}"
    );
}

/// The columns of a table that takes rows back, and what `upsert` says of it.
fn signed() -> Upsert {
    Upsert { sign: Some("sign".into()), deleted: Some("is_gone".into()), ..by_id() }
}

fn collapsing(engine: &str, arguments: &str, sorting_key: &str) -> TableRow {
    let mut table = table(engine, arguments, sorting_key);
    table.columns.pop();
    table.columns.push(column("sign", "Int8", "", ""));
    table
}

#[test]
fn a_table_that_takes_rows_back_has_the_sign_among_its_rows_and_gets_one_insert_at_a_time() {
    for engine in ["CollapsingMergeTree", "SharedCollapsingMergeTree"] {
        let plan = judged(collapsing(engine, "(sign)", "id"), signed()).unwrap();
        let names: Vec<&str> = plan.schema.columns().iter().map(|column| &*column.name).collect();
        assert_eq!(
            names,
            ["id", "kind", "v", "at", "gone", "sign"],
            "what says that a key is deleted need not be there"
        );
        assert_eq!(plan.sent.columns().len(), 6);
        assert_eq!(plan.upsert, None, "the rows of a batch were reduced before");
        assert!(plan.order_dependent);
        let about = |plan: &Plan, name: &str| {
            plan.notes.iter().any(|note| note.contains(&format!("column `{name}` has the DEFAULT")))
        };
        let mut computed = collapsing(engine, "(sign)", "id");
        computed.columns[2] = column("v", "Int32", "DEFAULT", "7");
        computed.columns[3] = column("at", "DateTime64(3)", "DEFAULT", "now64(3)");
        let plan = judged(computed, signed()).unwrap();
        assert!(about(&plan, "at") && !about(&plan, "v"), "{:?}", plan.notes);
    }
}

#[test]
fn a_table_that_cannot_take_rows_back_as_meant_is_refused() {
    let text = fault(collapsing("MergeTree", "", "id"), signed());
    assert!(
        text.contains("only a CollapsingMergeTree takes rows back")
            && text.contains("ENGINE = CollapsingMergeTree(`sign`) ORDER BY (`id`)"),
        "{text}"
    );
    let text = fault(collapsing("VersionedCollapsingMergeTree", "(sign, at)", "id"), signed());
    assert!(text.contains("pairs rows by their version") && text.contains("fix it with"), "{text}");
    let other = Upsert { sign: Some("sign".into()), ..by_id() };
    let text = fault(collapsing("CollapsingMergeTree", "(gone)", "id"), other.clone());
    assert!(
        text.contains("takes the sign of its rows from `gone`, and `upsert.sign` names `sign`"),
        "{text}"
    );
    let text = fault(collapsing("CollapsingMergeTree", "(sign)", "id, kind"), other.clone());
    assert!(text.contains("is sorted by `id, kind`, and `upsert.key` is `id`"), "{text}");
    let mut optional = collapsing("CollapsingMergeTree", "(sign)", "id");
    optional.columns[0].type_name = "Nullable(UInt64)".into();
    assert!(fault(optional, other.clone()).contains("column `id` of `upsert.key` is `Nullable`"));
    let mut wide = collapsing("CollapsingMergeTree", "(sign)", "id");
    wide.columns.last_mut().unwrap().type_name = "Int16".into();
    assert!(fault(wide, other.clone()).contains("`upsert.sign` must be a plain `Int8` and is `Int16`"));
    let mut none = collapsing("CollapsingMergeTree", "(sign)", "id");
    none.columns.pop();
    assert!(fault(none, other).contains("fix it with: ALTER TABLE `d`.`t` ADD COLUMN `sign` Int8"));
}

#[test]
fn the_engine_takes_the_version_that_rows_have() {
    let text = fault(table("ReplacingMergeTree", "", "id"), by_id());
    assert!(text.contains("without a version: the row that is inserted last would win"), "{text}");
    let text = fault(table("ReplacingMergeTree", "(at)", "id"), by_id());
    assert!(text.contains("write `version: at` under `upsert` if the records have it"), "{text}");
    let named = Upsert { version: Some("at".into()), ..by_id() };
    let text = fault(table("ReplacingMergeTree", "(_version)", "id"), named);
    assert!(text.contains("from `_version`, and `upsert.version` names `at`"), "{text}");
}

#[test]
fn the_engine_takes_the_column_that_says_what_is_deleted_or_neither_does() {
    let text = fault(table("ReplacingMergeTree", "(_version, gone)", "id"), by_id());
    assert!(text.contains("write `deleted: gone` under `upsert`"), "{text}");
    let deleted = |name: &str| Upsert { deleted: Some(name.into()), ..by_id() };
    let text = fault(table("ReplacingMergeTree", "(_version)", "id"), deleted("gone"));
    assert!(text.contains("takes no column that says what is deleted"), "{text}");
    let text = fault(table("ReplacingMergeTree", "(_version, gone)", "id"), deleted("v"));
    assert!(text.contains("must be of type `UInt8` and is `Int32`"), "{text}");
    let text = fault(table("ReplacingMergeTree", "(_version)", "id"), deleted("missing"));
    assert!(text.contains("ALTER TABLE `d`.`t` ADD COLUMN `missing` UInt8"), "{text}");
}

#[test]
fn a_table_without_the_column_for_versions_names_the_statement() {
    let mut without = table("ReplacingMergeTree", "(_version)", "id");
    without.columns.pop();
    let text = fault(without, by_id());
    assert!(text.contains("ALTER TABLE `d`.`t` ADD COLUMN `_version` UInt64"), "{text}");
    let mut other = table("ReplacingMergeTree", "(_version)", "id");
    other.columns[5].type_name = "DateTime".into();
    assert!(fault(other, by_id()).contains("must be a plain `UInt64`"));
}

#[test]
fn rows_replace_each_other_by_the_sorting_key() {
    for sorting_key in ["id, kind", "kind", "intDiv(id, 2)", ""] {
        let text = fault(table("ReplacingMergeTree", "(_version)", sorting_key), by_id());
        assert!(text.contains("so both must be the same columns"), "`{sorting_key}`: {text}");
    }
}

#[test]
fn rows_of_a_key_lie_in_one_partition() {
    let partitioned =
        |key: &str| TableRow { partition_key: key.into(), ..table("ReplacingMergeTree", "(_version)", "id") };
    let text = fault(partitioned("toYYYYMM(at)"), by_id());
    assert!(text.contains("and `at` is not in `upsert.key`"), "{text}");
    judged(partitioned("id % 8"), by_id()).expect("computed from the key");
    judged(partitioned("tuple()"), by_id()).expect("not partitioned");
    let mut computed = partitioned("month");
    computed.columns.push(column("month", "UInt32", "MATERIALIZED", "toYYYYMM(at)"));
    assert!(fault(computed, by_id()).contains("`at` is not in"));
}

#[test]
fn only_what_rows_say_can_be_compared() {
    let mut table_of = table("ReplacingMergeTree", "(_version)", "id");
    table_of.columns[0] = column("id", "UInt64", "DEFAULT", "rand()");
    let text = fault(table_of, by_id());
    assert!(text.contains("would get a key that only the server knows"), "{text}");
    assert!(text.contains("MODIFY COLUMN `id` REMOVE DEFAULT"), "{text}");
    let mut nullable = table("ReplacingMergeTree", "(at)", "id");
    nullable.columns[3] = column("at", "Nullable(DateTime64(3))", "", "");
    let upsert = Upsert { version: Some("at".into()), ..by_id() };
    assert!(fault(nullable, upsert).contains("a version must have a value"));
}
