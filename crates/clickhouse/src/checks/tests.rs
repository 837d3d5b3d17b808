use super::read::{ColumnRow, target_of};
use super::*;

fn column(name: &str, type_name: &str, kind: &str, expression: &str) -> ColumnRow {
    ColumnRow {
        name: name.into(),
        type_name: type_name.into(),
        default_kind: kind.into(),
        default_expression: expression.into(),
    }
}

fn table(engine: &str, engine_full: &str) -> TableRow {
    TableRow {
        engine: engine.into(),
        engine_full: engine_full.into(),
        uuid: "11111111-1111-1111-1111-111111111111".into(),
        columns: vec![column("n", "Int32", "", ""), column(PROVENANCE, "UUID", "", "")],
        ..TableRow::default()
    }
}

fn plain() -> TableRow {
    table(
        "MergeTree",
        "MergeTree ORDER BY n SETTINGS index_granularity = 8192, non_replicated_deduplication_window = 100",
    )
}

fn facts(table: TableRow) -> Facts {
    let defaults = [
        (false, "non_replicated_deduplication_window", 0),
        (true, "replicated_deduplication_window", 10_000),
        (true, "replicated_deduplication_window_seconds", 3600),
    ];
    let table_defaults = defaults.iter().map(|(r, n, v)| (*r, (*n).to_owned(), *v)).collect();
    Facts {
        server: Server { version: (26, 7), zone: "UTC".into(), table_defaults },
        table: Some(table),
        views: Vec::new(),
        nodes: vec!["a".into(), "a".into()],
    }
}

fn view(target: Option<TableRow>, select: &str) -> View {
    View { name: "d.v".into(), target_path: ("d".into(), "target".into()), target, select: select.into() }
}

fn config() -> TableConfig {
    TableConfig::new("d", "t")
}

fn faults(facts: &Facts) -> String {
    let faults = judge(facts, &config()).err().unwrap_or_default();
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_plain_table_with_a_window_is_fine() {
    let plan = judge(&facts(plain()), &config()).unwrap();
    assert_eq!((plan.token_window, plan.token_age_ms_max, plan.partitions_max), (100, u64::MAX, 1));
    assert!(plan.provenance && !plan.order_dependent && !plan.merges && !plan.expires && !plan.views);
    assert_eq!(plan.schema.columns().len(), 1, "the provenance column is not one of the rows' columns");
}

#[test]
fn a_table_without_a_window_names_the_statement() {
    let text = faults(&facts(table("MergeTree", "MergeTree ORDER BY n SETTINGS index_granularity = 8192")));
    assert_eq!(
        text,
        "table `d.t` does not remember insert tokens (`non_replicated_deduplication_window` is 0), so a repeated insert \
         doubles its rows; mend it with: ALTER TABLE `d`.`t` MODIFY SETTING non_replicated_deduplication_window = 10000"
    );
}

#[test]
fn replicated_tables_have_the_servers_window_and_an_age() {
    let replicated = table(
        "ReplicatedMergeTree",
        "ReplicatedMergeTree('/path', 'r1') ORDER BY n SETTINGS index_granularity = 8192",
    );
    let plan = judge(&facts(replicated), &config()).unwrap();
    assert_eq!((plan.token_window, plan.token_age_ms_max), (10_000, 3_600_000));
    let without = table(
        "SharedMergeTree",
        "SharedMergeTree ORDER BY n SETTINGS replicated_deduplication_window = 0, replicated_deduplication_window_seconds = 0",
    );
    let text = faults(&facts(without));
    assert!(
        text.contains("replicated_deduplication_window = 10000") && text.contains("seconds = 604800"),
        "{text}"
    );
}

#[test]
fn several_plain_servers_behind_one_address_are_refused() {
    let mut two = facts(plain());
    two.nodes = vec!["a".into(), "b".into(), "a".into()];
    assert!(faults(&two).contains("reach 2 servers"), "{}", faults(&two));
    two.table = Some(table("ReplicatedMergeTree", "ReplicatedMergeTree('/p', 'r') ORDER BY n"));
    assert_eq!(faults(&two), "");
}

#[test]
fn old_servers_are_refused_with_words() {
    let mut old = facts(plain());
    old.server.version = (21, 8);
    assert!(faults(&old).contains("ClickHouse 21.8; exactly-once insertion needs 23.3 or newer"));
    old.server.version = (23, 8);
    assert_eq!(faults(&old), "");
    old.views = vec![view(Some(plain()), "SELECT n FROM t")];
    assert!(faults(&old).contains("with materialized views needs 24.8"));
}

#[test]
fn engines_say_what_repeats_and_merges_do_to_them() {
    for (engine, full, order_dependent, loses_rows) in [
        ("MergeTree", "MergeTree ORDER BY n", false, false),
        (
            "MergeTree",
            "MergeTree ORDER BY n TTL at + toIntervalDay(1) SETTINGS index_granularity = 8192",
            false,
            true,
        ),
        ("ReplacingMergeTree", "ReplacingMergeTree ORDER BY n", true, true),
        ("ReplacingMergeTree", "ReplacingMergeTree(ver) ORDER BY n", false, true),
        ("ReplicatedReplacingMergeTree", "ReplicatedReplacingMergeTree('/p', 'r') ORDER BY n", true, true),
        (
            "ReplicatedReplacingMergeTree",
            "ReplicatedReplacingMergeTree('/p', 'r', ver) ORDER BY n",
            false,
            true,
        ),
        ("CollapsingMergeTree", "CollapsingMergeTree(sign) ORDER BY n", true, true),
        ("VersionedCollapsingMergeTree", "VersionedCollapsingMergeTree(sign, ver) ORDER BY n", false, true),
        ("SummingMergeTree", "SummingMergeTree ORDER BY n", false, true),
        ("CoalescingMergeTree", "CoalescingMergeTree ORDER BY n", true, true),
        ("AggregatingMergeTree", "AggregatingMergeTree ORDER BY n", false, true),
    ] {
        let read = Engine::read(engine, full).unwrap();
        assert_eq!(
            (read.order_dependent, read.merges || read.expires),
            (order_dependent, loses_rows),
            "{full}"
        );
    }
    for engine in ["Distributed", "Buffer", "View", "MaterializedView", "Null", "Memory", "Log", ""] {
        assert!(Engine::read(engine, engine).is_err(), "{engine}");
    }
}

#[test]
fn a_views_target_is_held_to_the_same_rules() {
    let mut facts = facts(plain());
    facts.views = vec![view(Some(table("MergeTree", "MergeTree ORDER BY n")), "SELECT n FROM t")];
    assert!(
        faults(&facts)
            .contains("ALTER TABLE `d`.`target` MODIFY SETTING non_replicated_deduplication_window")
    );
    facts.views = vec![view(None, "SELECT n FROM t")];
    assert!(faults(&facts).contains("`d.target`, which does not exist"));
    facts.views = vec![view(Some(TableRow { engine: "Null".into(), ..plain() }), "SELECT n FROM t")];
    assert!(faults(&facts).contains("engine `Null`"));
    let narrow = table(
        "ReplacingMergeTree",
        "ReplacingMergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 7",
    );
    facts.views = vec![view(Some(narrow), "SELECT n FROM t")];
    let plan = judge(&facts, &config()).unwrap();
    assert_eq!((plan.token_window, plan.order_dependent, plan.views), (7, true, true));
    assert!(!plan.merges && !plan.expires, "a probe looks at the table, not at the target");
}

#[test]
fn a_partitioned_target_needs_a_view_that_repeats() {
    let mut facts = facts(plain());
    let remembering = |tokens: u32| {
        let full = format!("MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = {tokens}");
        TableRow { partition_key: "toYYYYMM(at)".into(), ..table("MergeTree", &full) }
    };
    let partitioned = || remembering(1_000);
    facts.views = vec![view(Some(partitioned()), "CREATE … AS SELECT n, now() AS at FROM t")];
    assert!(faults(&facts).contains("calls `now(`"), "{}", faults(&facts));
    facts.views = vec![view(Some(partitioned()), "CREATE … AS SELECT n, unknow(at) AS at FROM t")];
    let plan = judge(&facts, &config()).unwrap();
    assert_eq!((plan.partitions_max, plan.parts_per_frame), (100, 100));
    facts.views.push(facts.views[0].clone());
    let plan = judge(&facts, &config()).unwrap();
    assert_eq!(plan.parts_per_frame, 200, "two views into one target cost it twice the tokens");
    assert_eq!(plan.places.len(), 2, "a target is looked at once, however many views feed it");
    facts.views = vec![view(Some(remembering(399)), "CREATE … AS SELECT n, at FROM t")];
    let text = faults(&facts);
    assert!(
        text.contains("must remember 400") && text.contains("ALTER TABLE `d`.`target` MODIFY SETTING"),
        "two inserts of up to 100 tokens each, and as many of others: {text}"
    );
}

#[test]
fn a_memory_too_small_for_the_inserts_under_way_is_refused_with_the_statement() {
    let with = |tokens: u32| {
        let full = format!("MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = {tokens}");
        facts(table("MergeTree", &full))
    };
    let many = TableConfig { inserts_in_flight: 64, ..config() };
    assert!(judge(&with(128), &many).is_ok(), "the bound itself is enough");
    let refused = judge(&with(127), &many).err().unwrap();
    let mend = refused[0].mend.as_deref().unwrap();
    assert_eq!(mend, "ALTER TABLE `d`.`t` MODIFY SETTING non_replicated_deduplication_window = 10000");
}

#[test]
fn a_replica_that_cannot_know_all_rows_says_so() {
    assert_eq!(read::lag(Some((0, 0, 0))), None);
    for replica in [None, Some((0, 0, 3)), Some((1, 0, 0)), Some((0, 1, 0))] {
        assert!(read::lag(replica).is_some(), "{replica:?}");
    }
}

#[test]
fn computed_columns_are_left_out_and_may_not_be_named() {
    let mut row = plain();
    row.columns.push(column("day", "Date", "MATERIALIZED", "toDate(at)"));
    row.columns.push(column("e", "Int8", "EPHEMERAL", ""));
    row.columns.push(column("tags", "Array(String)", "DEFAULT", "['x']"));
    row.columns.push(column("list", "Array(String)", "DEFAULT", "[]"));
    let facts = facts(row);
    let plan = judge(&facts, &config()).unwrap();
    let names: Vec<&str> = plan.schema.columns().iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["n", "tags", "list"]);
    assert_eq!(plan.schema.columns()[1].default, None, "a null cannot become that default");
    assert_eq!(plan.schema.columns()[2].default.as_deref(), Some("[]"));
    assert!(plan.notes[0].contains("`tags`"), "{:?}", plan.notes);
    let named = TableConfig { columns: Some(vec!["day".into(), "nope".into()]), ..config() };
    let faults = judge(&facts, &named).err().unwrap();
    assert!(
        faults[0].message.contains("the server computes it")
            && faults[1].message.contains("no column `nope`")
    );
}

#[test]
fn what_makes_a_frame_findable_is_optional_and_told() {
    let mut row = plain();
    row.columns.pop();
    let without = facts(row.clone());
    let asked = TableConfig { provenance: true, ..config() };
    let fault = judge(&without, &asked).err().unwrap().remove(0).to_string();
    assert!(fault.contains("ALTER TABLE `d`.`t` ADD COLUMN `_forebay` UUID"), "{fault}");
    let plan = judge(&without, &config()).unwrap();
    assert!(plan.notes[0].contains("ADD COLUMN `_forebay` UUID"), "optional, and told: {:?}", plan.notes);
    let keyed = TableConfig { unique_key: vec!["n".into()], ..config() };
    let plan = judge(&without, &keyed).unwrap();
    assert_eq!((plan.unique_key, plan.notes), (vec![0], Vec::new()));
    let mut merging = row.clone();
    merging.engine = "ReplacingMergeTree".into();
    merging.engine_full =
        "ReplacingMergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100".into();
    let plan = judge(&facts(merging), &keyed).unwrap();
    assert!(plan.notes[0].contains("earlier rows of a key"), "{:?}", plan.notes);
    row.columns.push(column(PROVENANCE, "String", "", ""));
    assert!(faults(&facts(row)).contains("MODIFY COLUMN `_forebay` UUID"));
}

#[test]
fn the_target_of_a_view_is_read_from_its_declaration() {
    let target = |query: &str, uuid: &str| {
        let row = TableRow { create_query: query.into(), uuid: uuid.into(), ..TableRow::default() };
        let (database, table) = target_of(&row, "d", "v");
        format!("{database}|{table}")
    };
    let nil = "00000000-0000-0000-0000-000000000000";
    assert_eq!(target("CREATE MATERIALIZED VIEW d.v TO x.y (`n` Int32) AS SELECT n FROM d.t", nil), "x|y");
    assert_eq!(target("CREATE MATERIALIZED VIEW d.v TO y AS SELECT n FROM d.t", nil), "d|y");
    assert_eq!(target("CREATE MATERIALIZED VIEW d.v TO `a.b`.`c d` (`n` Int32) AS SELECT 1", nil), "a.b|c d");
    let inner =
        "CREATE MATERIALIZED VIEW d.v (`n` Int32) ENGINE = MergeTree ORDER BY n AS SELECT n TO x FROM d.t";
    assert_eq!(target(inner, nil), "d|.inner.v");
    assert_eq!(
        target(inner, "11111111-0000-0000-0000-000000000000"),
        "d|.inner_id.11111111-0000-0000-0000-000000000000"
    );
}

#[test]
fn a_missing_table_names_the_way_out() {
    let missing = Facts { table: None, ..facts(plain()) };
    assert!(faults(&missing).contains("`create: true`"));
    let create = CreateTable {
        columns: vec![("n".into(), "Int32".into())],
        order_by: "n".into(),
        partition_by: "n % 4".into(),
    };
    let config = TableConfig { create: Some(create), provenance: true, ..config() };
    let fault = judge(&missing, &config).err().unwrap().remove(0);
    assert_eq!(
        fault.mend.unwrap(),
        "CREATE TABLE IF NOT EXISTS `d`.`t` (`n` Int32, `_forebay` UUID) ENGINE = MergeTree PARTITION BY n % 4 ORDER BY (n) \
         SETTINGS non_replicated_deduplication_window = 10000"
    );
    let without = judge(&missing, &TableConfig { provenance: false, ..config }).err().unwrap().remove(0);
    assert!(!without.mend.unwrap().contains(PROVENANCE), "made on request only");
}
