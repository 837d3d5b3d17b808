//! What people change about a stopped pipeline: where it reads on.

use live::Case;
use serde_json::{Value, json};
use sources::kafka::produce::Outgoing;

/// The exit codes for "a person must decide" and for an error of the command line.
const PERSON: i32 = 4;
const FAULT: i32 = 2;

fn ids(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|id| json!({ "id": id }).to_string())
}

fn moves(said: &Value) -> Vec<(u64, u64, u64)> {
    let moves = said["moves"].as_array().expect("moves").iter();
    let number = |one: &Value, key: &str| one[key].as_u64().expect("a number");
    let mut all: Vec<_> =
        moves.map(|one| (number(one, "index"), number(one, "from"), number(one, "to"))).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_stopped_pipeline_is_moved_by_time_by_positions_and_to_both_ends() {
    let Some(case) = Case::begin("moved_back") else { return };
    let feed = case.feed();
    for id in 0..90_u32 {
        let body = json!({ "id": id }).to_string();
        let time_ms = Some(1_700_000_000_000 + i64::from(id) * 1_000);
        feed.put(&Outgoing {
            topic: case.name(),
            partition: Some(id % 3),
            payload: Some(body.as_bytes()),
            key: None,
            time_ms,
            headers: &[],
        });
    }
    feed.flush();
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline();
    pipeline.drain();
    let name = case.name();
    let reset = |to: &str, more: &[&str], code: i32| {
        let mut after = vec!["--to", to, "--json"];
        after.extend(more);
        pipeline.tool(&["reset"], &after, code)
    };
    // Where it stands already there is nothing to agree to.
    assert_eq!(moves(&reset("latest", &[], 0)), []);
    // Nothing is changed without a word.
    assert_eq!(moves(&reset("earliest", &[], PERSON)), [(0, 30, 0), (1, 30, 0), (2, 30, 0)]);
    pipeline.drain();
    assert_eq!(table.count(), 90);
    // By the broker's times: records 60 to 89 are read again. What the consumer group says is no sign of an older store.
    let said = reset("2023-11-14T22:14:20Z", &["--yes"], 0);
    assert_eq!(moves(&said), [(0, 30, 20), (1, 30, 20), (2, 30, 20)]);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (120, 90));
    // Positions of some partitions; those that are not held are refused.
    pipeline.tool_fails(
        &["reset"],
        &["--to", &format!("{name}/1=31"), "--yes"],
        FAULT,
        "positions from 0 to 30",
    );
    pipeline.tool_fails(&["reset"], &["--to", &format!("{name}/7=1"), "--yes"], FAULT, "does not read");
    pipeline.tool_fails(
        &["reset"],
        &["--to", "earliest", "--topic", "another"],
        FAULT,
        "does not read `another`",
    );
    let said = reset(&format!("{name}/1=25"), &["--yes"], 0);
    assert_eq!(moves(&said), [(1, 30, 25)]);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (125, 90));
    // On: what comes before is never read.
    feed.send_to(0, ids(1_000..1_010));
    assert_eq!(moves(&reset("latest", &["--partition", &format!("{name}/0"), "--yes"], 0)), [(0, 30, 40)]);
    feed.send_to(0, ids(2_000..2_005));
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (130, 95));
    assert_eq!(pipeline.accounts().read, 130);
}

#[test]
fn a_running_pipeline_is_not_moved() {
    let Some(case) = Case::begin("moved_while_running") else { return };
    case.feed().send(ids(0..30));
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline();
    let running = pipeline.run();
    table.wait_for(30);
    pipeline.tool_fails(&["reset"], &["--to", "earliest", "--yes"], 3, "stop it first");
    live::pipeline::term(running);
    assert_eq!(table.count(), 30);
}

/// `about name becomes` of every item that is a change.
fn changes(plan: &Value) -> Vec<String> {
    let items = plan["items"].as_array().expect("items").iter();
    let text = |item: &Value, key: &str| item[key].as_str().expect("a text").to_owned();
    let changed = items.filter(|item| item["becomes"] != "same");
    changed
        .map(|item| format!("{} {} {}", text(item, "about"), text(item, "name"), text(item, "becomes")))
        .collect()
}

#[test]
fn a_plan_says_what_the_next_run_changes_and_writes_nothing() {
    let Some(case) = Case::begin("planned") else { return };
    let feed = case.feed();
    feed.send(ids(0..30));
    let table = case.table("id UInt32", "id");
    let name = case.name();
    let base = case.pipeline().field("id: UInt32");
    let pipeline = base.clone().dedup("id", None);
    let plan = |pipeline: &live::Pipeline, code| pipeline.tool(&["plan"], &["--json"], code);
    let first = plan(&pipeline, 0);
    assert!(
        first["has_run"] == false && changes(&first).contains(&"state dedup new".to_owned()),
        "{first:#}"
    );
    assert!(!pipeline.store().exists(), "a plan makes no store");
    pipeline.drain();
    let epoch = pipeline.status()["epoch"].clone();
    let same = plan(&pipeline, 0);
    assert_eq!((&same["changes"], changes(&same)), (&false.into(), vec![]), "{same:#}");
    // What changes freely.
    feed.send(ids(30..60));
    table.ask("ALTER TABLE {t} ADD COLUMN more Nullable(UInt8)");
    let filtered = base.clone().step("filter: 'id >= 0'").dedup("id", None);
    let free = plan(&filtered, 0);
    let columns = format!("columns default.{} changed", table.name());
    assert_eq!(changes(&free), ["step 1 filter new".to_owned(), columns], "{free:#}");
    let waits = free["items"].as_array().expect("items").iter().filter(|item| item["about"] == "partition");
    let waits: u64 = waits
        .filter_map(|item| {
            item["words"].as_str()?.rsplit_once(": ")?.1.split(' ').next()?.parse::<u64>().ok()
        })
        .sum();
    assert_eq!(waits, 30, "{free:#}");
    // What needs a decision, and the way out that is named.
    let other = base.clone().step("filter: 'id >= 0'").step("dedup: { key: [id], window: 1d }");
    let undecided = plan(&other, PERSON);
    assert!(changes(&undecided).contains(&"state dedup undecided".to_owned()), "{undecided:#}");
    assert!(undecided["problems"][0].as_str().is_some_and(|words| words.contains("--new-state dedup")));
    assert_eq!(pipeline.status()["epoch"], epoch, "nothing was claimed");
    let output = other.run_tool(&["run"], &["--drain", "--new-state", "dedup"]);
    assert_eq!(output.exit.status.code(), Some(0), "{}", output.stderr);
    assert_eq!(changes(&plan(&other, 0)), Vec::<String>::new());
    assert_eq!(table.count_and_distinct("id"), (60, 60));
    // A topic that is gone: the plan says what `run` would.
    let gone = plan(&other.clone().topic(&format!("{name}_other")), PERSON);
    assert!(gone["problems"].as_array().is_some_and(|all| !all.is_empty()), "{gone:#}");
    let text = other.run_tool(&["plan"], &[]);
    assert!(text.stdout.contains("the next run changes nothing"), "{}", text.stdout);
    assert!(text.stdout.contains("state      dedup is kept"), "{}", text.stdout);
}

#[test]
fn a_dedup_goes_on_with_more_names_of_an_enum_and_not_with_other_numbers() {
    let Some(case) = Case::begin("enum_names") else { return };
    let feed = case.feed();
    let record = |name: &str, v: u32| [json!({ "k": name, "v": v }).to_string()];
    let table = case.table("v UInt32", "v");
    let of = |names: &str| case.pipeline().field(&format!("k: \"Enum8({names})\"")).dedup("k", None);
    feed.send(record("high", 1));
    of("'low' = 1, 'high' = 2").drain();
    feed.send(record("mid", 2));
    // `mid` would be a duplicate of `high`.
    let renumbered = of("'low' = 1, 'mid' = 2, 'high' = 3");
    let undecided = renumbered.tool(&["plan"], &["--json"], PERSON);
    assert!(changes(&undecided).contains(&"state dedup undecided".to_owned()), "{undecided:#}");
    let why = "`high` = 2 in the Enum of `k`, and now has `high` = 3";
    renumbered.tool_fails(&["run"], &["--drain"], PERSON, why);
    assert_eq!(table.count(), 1);
    let more = of("'low' = 1, 'mid' = 3, 'high' = 2");
    more.drain();
    assert_eq!(table.count(), 2);
    feed.send(record("high", 3));
    more.drain();
    assert_eq!(table.count(), 2, "it is still known");
    // The names that were added count too.
    of("'low' = 1, 'high' = 2").tool_fails(&["run"], &["--drain"], PERSON, "now has no `mid`");
}

#[test]
fn steps_without_state_fields_and_tables_change_freely_around_a_dedup_that_goes_on() {
    let Some(case) = Case::begin("changed_freely") else { return };
    let feed = case.feed();
    let records = |range: std::ops::Range<u32>| range.map(|id| json!({ "id": id, "v": id % 2 }).to_string());
    let table = case.table("id UInt32, v UInt8", "id");
    let more = case.table_called(&format!("{}_more", case.name()), "id UInt32, v UInt8", "id");
    let base = case.pipeline().field("id: UInt32");
    feed.send(records(0..30));
    base.clone().dedup("id", None).drain();
    assert_eq!(table.count_and_distinct("id"), (30, 30));
    // In front of it: what is filtered there does not count as seen.
    feed.send(records(30..60));
    base.clone().field("v: UInt8").step("filter: 'v = 0'").dedup("id", None).drain();
    assert_eq!(table.count_and_distinct("id"), (45, 45));
    // Behind it: that does.
    feed.send(records(60..90));
    base.clone().dedup("id", None).step("filter: 'id % 3 = 0'").drain();
    assert_eq!(table.count_and_distinct("id"), (55, 55));
    // All of it again, without the filters and with a second table.
    feed.send(records(0..90));
    let [first, second] =
        [&table, &more].map(|table| format!("{{ clickhouse: {{ table: {} }} }}", table.name()));
    base.clone().dedup("id", None).one_of(&first).one_of(&second).drain();
    assert_eq!(table.count_and_distinct("id"), (70, 70));
    assert_eq!(more.count_and_distinct("id"), (15, 15));
    // And without it.
    feed.send(records(80..100));
    base.dedup("id", None).drain();
    assert_eq!(table.count_and_distinct("id"), (80, 80));
    assert_eq!(more.count(), 15);
}

#[test]
fn one_of_two_inputs_is_moved_and_the_other_stays() {
    let Some(case) = Case::begin("moved_input") else { return };
    let other = format!("{}_b", case.name());
    case.feed().send(ids(0..30));
    live::Feed::new(case.kafka(), &other).send(ids(100..120));
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline().input("a", case.name(), "").input("b", &other, "");
    pipeline.drain();
    let earliest = ["--to", "earliest", "--input", "b", "--json"];
    let said = pipeline.tool(&["reset"], &[&earliest[..], &["--yes"]].concat(), 0);
    let all = said["moves"].as_array().expect("moves");
    assert!(
        !all.is_empty() && all.iter().all(|one| one["input"] == "b" && one["stream"] == *other),
        "{said:#}"
    );
    pipeline.tool_fails(
        &["reset"],
        &["--to", "earliest", "--input", "c", "--yes"],
        FAULT,
        "does not read `c`",
    );
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (70, 50));
    // An input that is gone is a decision, and the plan says so; a move leaves it where it is, and says so.
    let without_b = case.pipeline().input("a", case.name(), "");
    let said = without_b.tool(&["reset"], &["--to", "earliest", "--json"], PERSON);
    assert_eq!((&said["left_out"], &said["moves"][0]["input"]), (&json!(["b"]), &json!("a")), "{said:#}");
    let earliest = ["--to", "earliest", "--yes"];
    for named in [["--input", "b"], ["--topic", other.as_str()]] {
        let words = "input `b` is no longer in the pipeline file, so it is not read and cannot be moved";
        without_b.tool_fails(&["reset"], &[&earliest[..], &named].concat(), FAULT, words);
    }
    let plan = without_b.tool(&["plan"], &["--json"], PERSON);
    assert!(changes(&plan).contains(&"input b gone".to_owned()), "{plan:#}");
    assert!(
        plan["problems"][0].as_str().is_some_and(|words| words.contains("forebay forget FILE --input b")),
        "{plan:#}"
    );
}
