use std::time::Duration;

use super::read::{ColumnRow, Hashes, target_of};
use super::*;
use crate::settings::Shown;

pub(super) fn column(name: &str, type_name: &str, kind: &str, expression: &str) -> ColumnRow {
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

pub(super) fn plain() -> TableRow {
    table(
        "MergeTree",
        "MergeTree ORDER BY n SETTINGS index_granularity = 8192, non_replicated_deduplication_window = 100",
    )
}

pub(super) fn facts(table: TableRow) -> Facts {
    let defaults = [
        (false, "non_replicated_deduplication_window", 0),
        (true, "replicated_deduplication_window", 10_000),
        (true, "replicated_deduplication_window_seconds", 3600),
    ];
    let table_defaults = defaults.iter().map(|(r, n, v)| (*r, (*n).to_owned(), *v)).collect();
    Facts {
        server: Server {
            version: (26, 7),
            zone: "UTC".into(),
            table_defaults,
            insert_seconds: 175,
            question_seconds: 30,
            counts_async: true,
            ..Server::default()
        },
        table: Some(table),
        has_database: true,
        may_create: true,
        views: Vec::new(),
        nodes: vec!["a".into(), "a".into()],
    }
}

fn view(target: Option<TableRow>, select: &str) -> View {
    let path = ("d".into(), "v".into());
    View {
        name: "d.v".into(),
        path,
        target_path: ("d".into(), "target".into()),
        target,
        select: select.into(),
    }
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
         doubles its rows; fix it with: ALTER TABLE `d`.`t` MODIFY SETTING non_replicated_deduplication_window = 10000"
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

/// Each forgets tokens by its own settings, and a statement that changes them reaches one.
#[test]
fn settings_of_a_replicated_table_are_to_be_changed_on_each_replica() {
    let told = |engine: &str, settings: &str| {
        let refused = table(engine, &format!("{engine} ORDER BY n SETTINGS {settings}"));
        let text = faults(&facts(refused));
        assert!(text.contains("; fix it with: ALTER TABLE `d`.`t` MODIFY SETTING"), "{text}");
        text.matches("change it on every replica (`ON CLUSTER`); fix it with: ").count()
    };
    let forgets = "replicated_deduplication_window = 0, replicated_deduplication_window_seconds = 0";
    assert_eq!(told("ReplicatedMergeTree", forgets), 2);
    let soon = "replicated_deduplication_window = 7, replicated_deduplication_window_seconds = 100";
    assert_eq!(told("ReplicatedMergeTree", soon), 2);
    assert_eq!(told("ReplicatedMergeTree", "async_insert = 1"), 1);
    assert_eq!(told("SharedMergeTree", forgets), 0);
    assert_eq!(told("MergeTree", "async_insert = 1"), 0);
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
    old = facts(plain());
    old.table.as_mut().unwrap().columns[0].type_name = "Array(JSON(SKIP a))".into();
    assert_eq!(faults(&old), "");
    old.server.version = (25, 2);
    assert!(faults(&old).contains("a column of type `JSON` needs 25.3 or newer"), "{}", faults(&old));
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

/// Rows that are not found are absent then, and nobody is asked about them.
#[test]
fn a_ttl_that_moves_parts_or_compresses_them_takes_no_rows() {
    for (ttl, takes) in [
        ("at + toIntervalDay(7) TO VOLUME 'cold'", false),
        (
            "at + toIntervalDay(7) TO DISK IF EXISTS 'a, b', at + toIntervalDay(30) RECOMPRESS CODEC(ZSTD(17), LZ4)",
            false,
        ),
        ("at + toIntervalDay(7) TO VOLUME 'cold', at + toIntervalDay(30)", true),
        ("at + toIntervalDay(30), at + toIntervalDay(7) TO VOLUME 'cold'", true),
        ("at + toIntervalDay(30) WHERE s = ' TO DISK '", true),
        ("at + toIntervalDay(30) WHERE ` TO DISK ` = 1", true),
        ("at + toIntervalDay(7) GROUP BY k, n SET v = max(v)", true),
    ] {
        for settings in ["", " SETTINGS index_granularity = 8192, storage_policy = 'hot'"] {
            let read =
                Engine::read("MergeTree", &format!("MergeTree ORDER BY n TTL {ttl}{settings}")).unwrap();
            assert_eq!((read.expires, read.merges), (takes, false), "{ttl}{settings}");
        }
    }
}

/// As with engines that keep the last row.
#[test]
fn a_column_that_keeps_the_last_value_depends_on_the_order_of_inserts() {
    let aggregating = "AggregatingMergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100";
    let plan_of = |full: &str, type_name: &str, of_target: bool| {
        let engine = full.split(' ').next().unwrap();
        let mut with = table(engine, full);
        with.columns.push(column("v", type_name, "", ""));
        let mut facts = facts(if of_target { plain() } else { with.clone() });
        facts.views = of_target.then(|| view(Some(with), "SELECT n FROM t")).into_iter().collect();
        judge(&facts, &config()).unwrap()
    };
    for of_target in [false, true] {
        let is_ordered = |full: &str, type_name: &str| plan_of(full, type_name, of_target).order_dependent;
        assert!(is_ordered(aggregating, "SimpleAggregateFunction(anyLast, Nullable(String))"));
        assert!(is_ordered(aggregating, "SimpleAggregateFunction(anyLast_respect_nulls, String)"));
        assert!(!is_ordered(aggregating, "SimpleAggregateFunction(max, UInt64)"));
        // It keeps every row.
        assert!(!is_ordered(&plain().engine_full, "SimpleAggregateFunction(anyLast, String)"));
    }
    assert!(plan_of(aggregating, "AggregateFunction(anyLast, String)", true).order_dependent);
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
        "ReplacingMergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 17",
    );
    facts.views = vec![view(Some(narrow), "SELECT n FROM t")];
    let plan = judge(&facts, &config()).unwrap();
    assert_eq!((plan.token_window, plan.order_dependent, plan.views), (17, true, true));
    assert!(!plan.merges && !plan.expires, "a probe looks at the table, not at the target");
}

#[test]
fn a_partitioned_target_needs_a_view_that_repeats() {
    let mut facts = facts(plain());
    let remembering = |tokens: u32| {
        let full = format!("MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = {tokens}");
        TableRow { partition_key: "toYYYYMM(at)".into(), ..table("MergeTree", &full) }
    };
    let partitioned = || remembering(2_000);
    facts.views = vec![view(Some(partitioned()), "CREATE … AS SELECT n, now() AS at FROM t")];
    assert!(faults(&facts).contains("calls `now()`"), "{}", faults(&facts));
    for call in
        ["randomString(3)", "CURDATE()", "rand(n)", "localtime()", "nowInBlock64(3)", "arrayShuffle([n])[1]"]
    {
        facts.views =
            vec![view(Some(partitioned()), &format!("CREATE … AS SELECT n, f({call}) AS at FROM t"))];
        let word = call.split('(').next().unwrap();
        assert!(faults(&facts).contains(&format!("calls `{word}()`")), "{call}: {}", faults(&facts));
    }
    for call in
        ["toDateTime(at)", "strand(at)", "my_now(at)", "dictGet('d', 'a', n)", "now", "concat('now(', at)"]
    {
        facts.views = vec![view(Some(partitioned()), &format!("CREATE … AS SELECT n, {call} AS at FROM t"))];
        let is_fault = call.contains("'now('");
        assert_eq!(judge(&facts, &config()).is_err(), is_fault, "{call}");
    }
    facts.views = vec![view(Some(partitioned()), "CREATE … AS SELECT n, unknow(at) AS at FROM t")];
    let plan = judge(&facts, &config()).unwrap();
    assert_eq!((plan.partitions_max, plan.parts_per_frame), (100, 100));
    facts.views.push(facts.views[0].clone());
    let plan = judge(&facts, &config()).unwrap();
    assert_eq!(plan.parts_per_frame, 200, "two views into one target cost it twice the tokens");
    assert_eq!(plan.places.len(), 2, "a target is looked at once, however many views feed it");
    facts.views = vec![view(Some(remembering(799)), "CREATE … AS SELECT n, at FROM t")];
    let text = faults(&facts);
    assert!(
        text.contains("at least 800") && text.contains("ALTER TABLE `d`.`target` MODIFY SETTING"),
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
    assert!(judge(&with(256), &many).is_ok(), "the bound itself is enough");
    let refused = judge(&with(255), &many).err().unwrap();
    let fix = refused[0].fix.as_deref().unwrap();
    assert_eq!(fix, "ALTER TABLE `d`.`t` MODIFY SETTING non_replicated_deduplication_window = 10000");
}

/// What is accepted is what the protocol can use: every insert under way may be in doubt, and each is trusted after all others.
#[test]
fn the_least_memory_that_is_accepted_is_the_protocols() {
    let with = |tokens: u64| {
        let full = format!("MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = {tokens}");
        facts(table("MergeTree", &full))
    };
    for in_flight in [1, 2, 4, 64] {
        let config = TableConfig { inserts_in_flight: in_flight, ..config() };
        let least =
            tokens::trust::tokens_min(in_flight, judge(&with(10_000), &config).unwrap().parts_per_frame);
        assert!(judge(&with(least), &config).is_ok(), "{in_flight}");
        assert!(judge(&with(least - 1), &config).is_err(), "{in_flight}");
        assert!(judge(&with(4), &config).is_ok() == (least <= 4), "{in_flight}");
    }
}

#[test]
fn an_insert_that_may_take_longer_than_half_of_a_tokens_age_is_refused_with_both_ways_out() {
    let with = |age_s: u64| {
        let full = format!(
            "ReplicatedMergeTree('/t', 'r') ORDER BY n SETTINGS replicated_deduplication_window = 10000, \
             replicated_deduplication_window_seconds = {age_s}"
        );
        facts(table("ReplicatedMergeTree", &full))
    };
    let taking = |s| TableConfig { insert_time_max: Duration::from_secs(s), ..config() };
    assert!(judge(&with(3_600), &taking(1_790)).is_ok(), "1,790 s and 10 s are half of an hour");
    let refused = judge(&with(3_600), &taking(1_791)).err().unwrap();
    assert!(
        refused[0].message.contains("lower `sink.clickhouse.timeout` to 1790s or less"),
        "{}",
        refused[0]
    );
    let fix = refused[0].fix.as_deref().unwrap();
    assert_eq!(fix, crate::testing::AGE);
    let hopeless = judge(&with(15), &taking(180)).err().unwrap();
    assert!(!hopeless[0].message.contains("lower `sink"), "no timeout is short enough: {}", hopeless[0]);
    assert!(judge(&with(380), &taking(180)).is_ok() && judge(&with(379), &taking(180)).is_err());
    assert!(judge(&facts(plain()), &taking(1_800)).is_ok(), "a plain table forgets by number alone");
}

#[test]
fn a_table_that_is_asynchronous_by_its_own_setting_is_refused_whatever_the_request_says() {
    let with = |engine: &str, setting: &str| {
        let full = format!("{engine} ORDER BY n SETTINGS non_replicated_deduplication_window = 100{setting}");
        facts(table(engine, &full))
    };
    for (engine, setting) in [
        ("MergeTree", ", async_insert = 1"),
        ("MergeTree", ", async_insert = true, index_granularity = 8192"),
        ("MergeTree", ", async_insert = 'auto'"),
        ("ReplicatedMergeTree", ", async_insert = 1"),
        ("SharedMergeTree", ", async_insert = true"),
    ] {
        let text = faults(&with(engine, setting));
        assert!(text.contains("asynchronously by its own setting `async_insert`"), "{setting}: {text}");
        assert!(text.ends_with("fix it with: ALTER TABLE `d`.`t` MODIFY SETTING async_insert = 0"), "{text}");
    }
    for setting in ["", ", async_insert = 0", ", async_insert = false"] {
        assert_eq!(faults(&with("MergeTree", setting)), "", "{setting}");
    }
}

#[test]
fn a_server_whose_tables_are_asynchronous_is_refused_unless_the_table_says_no() {
    let mut server_wide = facts(plain());
    server_wide.server.table_defaults.push((false, ASYNC_INSERT.into(), 1));
    let text = faults(&server_wide);
    assert!(text.contains("by the server's setting for tables `async_insert`"), "{text}");
    assert!(text.ends_with("ALTER TABLE `d`.`t` MODIFY SETTING async_insert = 0"), "{text}");
    // What the statement does.
    let full = "MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100, async_insert = 0";
    server_wide.table = Some(table("MergeTree", full));
    assert_eq!(faults(&server_wide), "");
    // Replicated tables have defaults of their own.
    server_wide.table = Some(table("ReplicatedMergeTree", "ReplicatedMergeTree('/p', 'r') ORDER BY n"));
    assert_eq!(faults(&server_wide), "");
    server_wide.server.table_defaults.push((true, ASYNC_INSERT.into(), 1));
    assert!(faults(&server_wide).contains("asynchronously"));
    // An insert reaches a view's target by way of the table, so that the target's setting does not matter.
    let mut through_a_view = facts(plain());
    let target = table(
        "MergeTree",
        "MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 9, async_insert = 1",
    );
    through_a_view.views = vec![view(Some(target), "SELECT n FROM t")];
    assert_eq!(faults(&through_a_view), "");
}

#[test]
fn a_profile_that_undoes_the_guarantee_is_a_fault_of_the_table() {
    let mut forbidden = facts(plain());
    let fixed = crate::settings::Shown { value: "disable".into(), fixed: true, ..Default::default() };
    forbidden.server.known.user = "writer".into();
    forbidden.server.known.settings.insert("deduplicate_insert".into(), fixed);
    let text = faults(&forbidden);
    assert!(text.contains("fixes at `disable` the setting `deduplicate_insert`"), "{text}");
    assert!(
        text.ends_with("fix it with: ALTER USER `writer` MODIFY SETTING deduplicate_insert = 'enable'"),
        "{text}"
    );
    assert!(crate::testing::is_parsed_by_a_server(&text), "{text}");
    // The same value by the profile, that the request may change, is changed.
    forbidden.server.known.settings.get_mut("deduplicate_insert").unwrap().fixed = false;
    let plan = judge(&forbidden, &config()).unwrap();
    assert_eq!(plan.insert_settings, [("deduplicate_insert", "enable".to_owned())]);
}

#[test]
fn a_row_policy_that_may_hide_rows_from_the_user_is_refused_with_the_statement() {
    let policy = |to_all, listed: &[&str], filter: &str| read::Policy {
        name: "p".into(),
        filter: filter.into(),
        to_all,
        listed: listed.iter().map(|name| (*name).to_owned()).collect(),
        own: vec!["writer".into(), "role".into()],
    };
    let with = |policy| {
        let mut facts = facts(plain());
        (facts.server.policies, facts.server.known.user) = (vec![policy], "writer".into());
        facts
    };
    let text = faults(&with(policy(true, &[], "n > 5")));
    assert!(
        text.starts_with("row policy `p` (`n > 5`) may hide rows of table `d.t` from user `writer`"),
        "{text}"
    );
    assert!(text.ends_with("fix it with: ALTER ROW POLICY `p` ON `d`.`t` TO ALL EXCEPT `writer`"), "{text}");
    assert!(crate::testing::is_parsed_by_a_server(&text), "{text}");
    for (to_all, listed, filter, is_refused) in [
        (true, &["writer"][..], "n > 5", false),
        (true, &["another"], "n > 5", true),
        (false, &["role"], "n > 5", true),
        (false, &["another"], "n > 5", false),
        (true, &[], "1", false),
    ] {
        let text = faults(&with(policy(to_all, listed, filter)));
        assert_eq!(!text.is_empty(), is_refused, "{to_all} {listed:?} {filter}: {text}");
    }
    // A policy for somebody else hides every row on a server where a user without one sees none.
    let mut hidden = with(policy(false, &["another"], "n > 5"));
    hidden.server.hidden_rows = 7;
    let text = faults(&hidden);
    assert!(
        text.starts_with("table `d.t` has 7 rows and row policies, and shows user `writer` none"),
        "{text}"
    );
    assert!(
        text.ends_with("fix it with: CREATE ROW POLICY forebay ON `d`.`t` USING 1 TO `writer`"),
        "{text}"
    );
    assert!(crate::testing::is_parsed_by_a_server(&text), "{text}");
    // Where rows are never looked for, none can be missed.
    let mut blind = with(policy(true, &[], "n > 5"));
    blind.table.as_mut().unwrap().columns.pop();
    assert_eq!(faults(&blind), "");
}

#[test]
fn what_cannot_be_counted_is_told_with_the_grant() {
    let mut denied = facts(plain());
    (denied.server.counts_async, denied.server.hashes) = (false, Hashes::Unknown);
    denied.server.known.user = "writer".into();
    let notes = judge(&denied, &config()).unwrap().notes;
    for table in ["system.events", "system.server_settings"] {
        let note = notes.iter().find(|note| note.contains(&format!("`GRANT SELECT ON {table} TO")));
        let statement = note.and_then(|note| note.split("To avoid this: `").nth(1)).expect("a statement");
        let statement = statement.strip_suffix('`').expect("it ends the note");
        assert!(crate::testing::is_parsed_by_a_server(statement), "{statement}");
    }
    assert!(judge(&facts(plain()), &config()).unwrap().notes.is_empty());
}

#[test]
fn tokens_are_counted_from_above() {
    let replicated = || table("ReplicatedMergeTree", "ReplicatedMergeTree('/p', 'r') ORDER BY n");
    for (table, hashes, counts_async, per_frame, per_block) in [
        (plain(), Hashes::Separate, true, 1, 1),
        (plain(), Hashes::Double, true, 2, 2),
        (plain(), Hashes::Unified, true, 1, 1),
        // Who may not ask how many asynchronous inserts there were must count with the most.
        (plain(), Hashes::Unified, false, 1, 450),
        (plain(), Hashes::Unknown, false, 2, 900),
        // Other replicas' asynchronous inserts are not seen here, and have a memory of their own in old versions.
        (replicated(), Hashes::Separate, true, 1, 1),
        (replicated(), Hashes::Double, true, 2, 2),
        (replicated(), Hashes::Unified, true, 1, 450),
    ] {
        let mut facts = facts(table);
        (facts.server.hashes, facts.server.counts_async) = (hashes, counts_async);
        let plan = judge(&facts, &config()).unwrap();
        let seen = (plan.parts_per_frame, plan.tokens_per_block_max);
        assert_eq!(seen, (per_frame, per_block), "{hashes:?} {counts_async}");
    }
    for (value, hashes) in [
        (Some("old_separate_hashes"), Hashes::Separate),
        (Some("compatible_double_hashes"), Hashes::Double),
        (Some("new_unified_hash"), Hashes::Unified),
        (Some(""), Hashes::Unknown),
        (None, Hashes::Unknown),
    ] {
        assert_eq!(Hashes::read(value), hashes);
    }
}

#[test]
fn a_target_that_is_not_replicated_needs_one_server_too() {
    let mut mixed = facts(table("ReplicatedMergeTree", "ReplicatedMergeTree('/p', 'r') ORDER BY n"));
    mixed.nodes = vec!["a".into(), "b".into()];
    assert_eq!(faults(&mixed), "");
    mixed.views = vec![view(Some(plain()), "SELECT n FROM t")];
    let text = faults(&mixed);
    assert!(text.contains("reach 2 servers, and table `d.target` is not replicated"), "{text}");
}

#[test]
fn computed_columns_are_left_out_and_may_not_be_named() {
    let mut row = plain();
    row.columns.push(column("day", "Date", "MATERIALIZED", "toDate(at)"));
    row.columns.push(column("e", "Int8", "EPHEMERAL", ""));
    row.columns.push(column("tags", "Array(String)", "DEFAULT", "['x']"));
    row.columns.push(column("list", "Array(String)", "DEFAULT", "[]"));
    row.columns.push(column("computed", "Array(UInt64)", "DEFAULT", "range(n)"));
    let facts = facts(row);
    let plan = judge(&facts, &config()).unwrap();
    let names: Vec<&str> = plan.schema.columns().iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["n", "tags", "list", "computed"]);
    let tags = &plan.schema.columns()[1];
    let literal = (tags.default.as_deref(), tags.default_json.as_deref());
    assert_eq!(literal, (Some("['x']"), Some(r#"["x"]"#)), "a literal is sent in its place");
    assert_eq!(plan.schema.columns()[3].default, None, "a null cannot become that default");
    assert_eq!(plan.schema.columns()[2].default.as_deref(), Some("[]"));
    assert!(plan.notes[0].contains("`computed`") && plan.notes.len() == 1, "{:?}", plan.notes);
    let named = TableConfig { columns: Some(vec!["day".into(), "nope".into()]), ..config() };
    let faults = judge(&facts, &named).err().unwrap();
    assert!(
        faults[0].message.contains("the server computes it")
            && faults[1].message.contains("no column `nope`")
    );
}

#[test]
fn an_array_that_was_added_to_a_table_says_what_a_record_without_it_gets() {
    let mut row = plain();
    row.columns.push(column("computed", "Array(UInt64)", "DEFAULT", "range(n)"));
    let added = TableConfig { added: vec!["computed".into()], ..config() };
    let plan = judge(&facts(row), &added).unwrap();
    assert_eq!(plan.schema.columns()[1].default.as_deref(), Some(dataflow::TYPE_DEFAULT));
    let [note] = &plan.notes[..] else { panic!("{:?}", plan.notes) };
    let way = "ALTER TABLE `d`.`t` MODIFY COLUMN `computed` MATERIALIZED range(n)";
    assert!(note.contains("get an empty one") && note.contains(way) && !note.contains("must have"), "{note}");
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
    assert!(faults(&facts(row)).contains("RENAME COLUMN `_forebay`"));
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
fn the_target_of_a_view_with_an_odd_name_is_read_from_its_declaration() {
    for name in ["by(day)", "copy TO x", "a`b(", "it's \\", "x AS SELECT y", "\u{e9})"] {
        let quoted = identifier(name);
        let create_query =
            format!("CREATE MATERIALIZED VIEW d.{quoted} TO x.{quoted} (`n` Int32) AS SELECT n FROM d.t");
        let row = TableRow { create_query, ..TableRow::default() };
        assert_eq!(target_of(&row, "d", name), ("x".to_owned(), name.to_owned()));
    }
}

#[test]
fn a_missing_table_names_the_way_out() {
    let missing = Facts { table: None, ..facts(plain()) };
    assert!(faults(&missing).ends_with("does not exist; create it"));
    let create = CreateTable {
        columns: vec![("n".into(), "Int32".into())],
        order_by: "n".into(),
        partition_by: "n % 4".into(),
    };
    let config = TableConfig { create: Some(create), provenance: true, ..config() };
    let fault = judge(&missing, &config).err().unwrap().remove(0);
    assert_eq!(
        fault.fix.unwrap(),
        "CREATE TABLE IF NOT EXISTS `d`.`t` (`n` Int32, `_forebay` UUID) ENGINE = MergeTree PARTITION BY n % 4 ORDER BY (n) \
         SETTINGS non_replicated_deduplication_window = 10000"
    );
    let without =
        judge(&missing, &TableConfig { provenance: false, ..config.clone() }).err().unwrap().remove(0);
    assert!(!without.fix.unwrap().contains(PROVENANCE), "made on request only");
    let nowhere = Facts { has_database: false, ..missing };
    let fault = judge(&nowhere, &config).err().unwrap().remove(0);
    assert_eq!(
        fault.to_string(),
        "table `d.t` does not exist, and neither does its database `d`; fix it with: CREATE DATABASE `d`"
    );
    let config = TableConfig { create: None, ..config };
    assert!(judge(&nowhere, &config).err().unwrap()[0].fix.is_none(), "the table is to be made too");
}

#[test]
fn a_table_is_made_to_take_inserts_at_once_whatever_the_server_has_for_tables() {
    let create = CreateTable {
        columns: vec![("n".into(), "Int32".into())],
        order_by: "n".into(),
        partition_by: String::new(),
    };
    let config = TableConfig { create: Some(create.clone()), ..config() };
    for (default, end) in
        [(None, "window = 10000"), (Some(0), "window = 10000"), (Some(1), "window = 10000, async_insert = 0")]
    {
        let mut missing = Facts { table: None, ..facts(plain()) };
        missing.server.table_defaults.extend(default.map(|on| (false, "async_insert".to_owned(), on)));
        let statement = create_statement_on(&missing.server, &config, &create);
        assert!(statement.ends_with(end), "{default:?}: {statement}");
        let fault = judge(&missing, &config).err().unwrap().remove(0);
        assert_eq!(fault.fix, Some(statement), "what is printed is what a start does");
    }
}

#[test]
fn a_column_that_the_table_of_dead_letters_lacks_is_given_back_by_the_statement() {
    let config = crate::dead_letters::config("d", "t");
    let create = config.create.clone().unwrap();
    let without = |dropped: &str| {
        let left = create.columns.iter().filter(|(name, _)| name != dropped);
        let columns = left.map(|(name, type_name)| column(name, type_name, "", ""));
        let columns = columns.chain([column(PROVENANCE, "UUID", "", "")]).collect();
        judge(&facts(TableRow { columns, ..plain() }), &config).err().unwrap_or_default()
    };
    assert_eq!(without("nothing"), []);
    let faults = without("headers");
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(
        faults[0].message.starts_with("table `d.t` has no column `headers`; it has `time`"),
        "{faults:?}"
    );
    let statement = "ALTER TABLE `d`.`t` ADD COLUMN `headers` Map(String, String)";
    assert_eq!(faults[0].fix.as_deref(), Some(statement));
}

#[test]
fn a_table_that_this_user_may_not_create_or_could_not_write_is_not_created() {
    let create = CreateTable { columns: Vec::new(), order_by: "n".into(), partition_by: String::new() };
    let config = TableConfig { create: Some(create), ..config() };
    let mut missing = Facts { table: None, ..facts(plain()) };
    missing.server.known.user = "writer".into();
    assert_eq!(faults_before_create(&missing, &config), []);
    missing.may_create = false;
    let faults: Vec<String> = faults_before_create(&missing, &config).iter().map(Fault::to_string).collect();
    assert_eq!(
        faults,
        [
            "table `d.t` does not exist, and user `writer` may not create it; fix it with: GRANT CREATE TABLE ON `d`.`t` TO `writer`"
        ]
    );
    assert!(crate::testing::is_parsed_by_a_server(&faults[0]), "{faults:?}");
    let readonly = Shown { value: "2".into(), ..Shown::default() };
    missing.server.known.settings.insert("readonly".into(), readonly);
    let faults: Vec<String> = faults_before_create(&missing, &config).iter().map(Fault::to_string).collect();
    assert!(faults[0].ends_with("ALTER USER `writer` MODIFY SETTING readonly = 0"), "{faults:?}");
    assert_eq!(faults.len(), 1, "what it is granted shows once it may do more than read");
}

#[test]
fn a_table_that_merges_results_of_different_windows_is_told_of() {
    let with = |engine: &str, order: &str, replaces, overlaps| {
        let full = format!("{engine} ORDER BY ({order}) SETTINGS non_replicated_deduplication_window = 100");
        let mut table = table(engine.split('(').next().unwrap(), &full);
        table.sorting_key = order.into();
        for (name, type_name) in [
            ("device", "String"),
            ("window_start", "DateTime64(3)"),
            ("window_end", "DateTime64(3)"),
            ("version", "UInt64"),
            ("sign", "Int8"),
        ] {
            table.columns.push(column(name, type_name, "", ""));
        }
        let columns = [&["device"][..], &["window_end"]];
        let columns =
            columns.iter().map(|list| list.iter().map(|name| (*name).to_owned()).collect()).collect();
        let results = crate::config::Results { columns, replaces, overlaps, ..Default::default() };
        let config = TableConfig { results: Some(results), ..config() };
        judge(&facts(table), &config).unwrap_or_else(|faults| panic!("{faults:?}")).notes.join("\n")
    };
    let replacing = "ReplacingMergeTree(version)";
    let note = with(replacing, "device, window_start", true, true);
    assert!(
        note.contains("without `window_end`: results of different keys or windows replace each other"),
        "{note}"
    );
    assert!(with(replacing, "window_end", true, true).contains("without `device`"));
    assert_eq!(with(replacing, "device, window_start, window_end", true, true), "");
    assert_eq!(with(replacing, "device, window_start", false, true), "", "the newest may be meant");
    assert_eq!(with(replacing, "device, toDate(window_start)", true, true), "", "nobody knows");
    assert!(
        with("CollapsingMergeTree(sign)", "device, window_start", true, false)
            .contains("take each other away")
    );
    assert!(with("AggregatingMergeTree", "device, window_start", false, true).contains("more than once"));
    assert_eq!(with("AggregatingMergeTree", "device", false, false), "");
    assert_eq!(with("MergeTree", "device", true, true), "");
}
