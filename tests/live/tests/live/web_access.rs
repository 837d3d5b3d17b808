//! Requests of a real web server, each sent twice and in disorder; where its log is not, those of a sample.

mod agents;
mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use live::{Accounts, Case, Table};
use serde_json::{Map, Value, json};
use testkit::{Lcg, seed, workspace_dir};

/// The folder with the log, which is no part of the workspace.
const FOLDER: &str = "FOREBAY_TEST_DATA";

/// The lines of the log, or of the sample.
fn text() -> String {
    let beside = || workspace_dir().join("../shared/data");
    let path = std::env::var_os(FOLDER).map_or_else(beside, PathBuf::from).join("web_access.jsonl");
    std::fs::read_to_string(&path).unwrap_or_else(|error| {
        eprintln!(
            "`{}` cannot be read ({error}); {FOLDER} names its folder. A sample stands for it",
            path.display()
        );
        sample::text()
    })
}

const COLUMNS: &str = "request_id UUID, remote_addr String, user Nullable(String), time DateTime('UTC'), \
    `request.method` LowCardinality(String), `request.path` String, `request.protocol` LowCardinality(String), \
    status UInt16, bytes Nullable(UInt64), referrer Nullable(String), user_agent Nullable(String)";

#[test]
fn every_line_sent_twice_and_shuffled_is_one_row_with_every_value_of_the_file() {
    let text = text();
    let Some(case) = Case::begin("web_access") else { return };
    let lines: Vec<&str> = text.lines().collect();
    let count = lines.len();

    let mut random = Lcg::new(seed());
    let mut twice: Vec<&str> = lines.iter().chain(&lines).copied().collect();
    shuffle(&mut twice, &mut random);
    let feed = case.feed();
    for line in twice {
        feed.push(random.below(3) as u32, line.as_bytes());
    }
    feed.flush();

    let table = case.table(COLUMNS, "(time, request_id)");
    let pipeline = case.pipeline().dedup("request_id", Some("time")).batch("{ rows: 1000, age: 100ms }");
    pipeline.drain();

    let wanted: BTreeMap<String, Map<String, Value>> =
        lines.iter().map(|line| read_independently(line)).collect();
    assert_eq!(wanted.len(), count, "the file's ids are distinct");
    let rows = table.rows("SELECT * EXCEPT _forebay FROM {t}");
    assert_eq!(rows.len(), count);
    for row in rows {
        let row = row.as_object().expect("a row is an object");
        let id = row["request_id"].as_str().expect("an id is text");
        assert_eq!(row, wanted.get(id).unwrap_or_else(|| panic!("`{id}` is not in the file")));
    }
    let count = count as u64;
    assert_eq!(table.count_and_distinct("request_id"), (count, count));
    assert_eq!(table.dead_letters().count(), 0);
    let accounts = Accounts { read: 2 * count, written: count, duplicates: count, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

const SQL_COLUMNS: &str = "request_id UUID, time DateTime('UTC'), status UInt16, method LowCardinality(String), path String, \
    query Nullable(String), page Nullable(UInt32), status_class UInt8, is_bot Bool, agent Nullable(String), bytes Nullable(UInt64)";

/// What the rows of [`SQL_COLUMNS`] are made by. A page that is no number fails its record.
const SQL_SELECT: &str = "select: { request_id: request_id, time: time, status: status, bytes: bytes, \
    method: 'lower(\"request.method\")', path: 'url_path(\"request.path\")', query: 'url_query(\"request.path\")', \
    page: 'CAST(url_parameter(\"request.path\", ''page'') AS UInt32)', status_class: status / 100, \
    is_bot: 'coalesce(ua_is_bot(user_agent), false)', agent: ua_name(user_agent) }";

#[test]
fn the_lines_through_sql_give_the_values_of_an_independent_reading() {
    let text = text();
    let Some(case) = Case::begin("web_access_sql") else { return };
    let lines: Vec<&str> = text.lines().collect();
    let feed = case.feed();
    for (n, line) in lines.iter().chain(&lines).enumerate() {
        feed.push(n as u32 % 3, line.as_bytes());
    }
    let broken = ["{\"request_id\":", "no JSON"];
    broken.iter().for_each(|line| feed.push(0, line.as_bytes()));
    feed.flush();

    let table = case.table(SQL_COLUMNS, "(time, request_id)");
    let pipeline = case
        .pipeline()
        .field("request.method: String")
        .field("request.path: String")
        .field("user_agent: Nullable(String)")
        .step("filter: status <> 404")
        .step(SQL_SELECT)
        .dedup("request_id", Some("time"))
        .batch("{ rows: 1000, age: 100ms }");
    pipeline.check(&["--connect"]);
    pipeline.drain();

    let (mut wanted, mut filtered, mut failed) = (BTreeMap::new(), 0, 0);
    for line in &lines {
        let fields: Value = serde_json::from_str(line).expect("the file is JSON");
        match through_steps(&fields) {
            Fate::Row(row) => {
                wanted.insert(text_of(&fields["request_id"]), row);
            }
            Fate::Filtered => filtered += 2,
            Fate::Fails => failed += 2,
        }
    }
    let few = lines.len() as u64 / 100;
    assert!(filtered > 2 * few && failed > 0, "the file has both: {filtered} {failed}");
    let rows = table.rows("SELECT * EXCEPT _forebay FROM {t}");
    assert_eq!(rows.len(), wanted.len());
    let (mut bots, mut unnamed) = (BTreeSet::new(), 0);
    for row in rows {
        let mut row = row.as_object().expect("a row is an object").clone();
        let is_bot = row.remove("is_bot").and_then(|bot| bot.as_bool()).expect("a Bool");
        let name = row.remove("agent").expect("a column");
        let (wanted, agent) = &wanted[&text_of(&row["request_id"])];
        assert_eq!(&row, wanted);
        let Some(agent) = agent else {
            assert_eq!((name, is_bot), (Value::Null, false));
            continue;
        };
        let read = agents::read(agent);
        assert_eq!(is_bot, read.is_bot, "{agent}");
        match read.name {
            Some(read) => assert_eq!(name, read, "{agent}"),
            None => unnamed += 1,
        }
        bots.extend(is_bot.then(|| agent.clone()));
    }
    assert!(bots.len() >= 5 && unnamed < wanted.len() / 4, "{unnamed} agents were not judged: {bots:?}");

    let written = wanted.len() as u64;
    let dead_letters = failed + broken.len() as u64;
    let read = 2 * lines.len() as u64 + broken.len() as u64;
    let accounts =
        Accounts { read, written, duplicates: written, filtered, dead_letters, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
    let letters = table
        .dead_letters()
        .rows("SELECT reason, toUInt32(count()) AS n FROM {t} GROUP BY reason ORDER BY reason");
    assert_eq!(
        letters,
        [json!({"reason": "expression", "n": failed}), json!({"reason": "malformed", "n": 2})]
    );
}

/// Rows of bots need a size, which fits 32 bits; those of people need none.
const BOT_COLUMNS: &str = "id UUID, time DateTime('UTC'), user_agent LowCardinality(String), bytes UInt32";
const PEOPLE_COLUMNS: &str = "request_id UUID, time DateTime('UTC'), status UInt16, user_agent Nullable(String), bytes Nullable(UInt64)";

#[test]
fn bots_go_to_a_table_of_their_own_and_each_line_to_one_table() {
    let text = text();
    let Some(case) = Case::begin("web_access_two") else { return };
    let lines: Vec<&str> = text.lines().collect();
    let feed = case.feed();
    for (n, line) in lines.iter().chain(&lines).enumerate() {
        feed.push(n as u32 % 3, line.as_bytes());
    }
    feed.flush();

    let bots = case.table_called("web_access_bots", BOT_COLUMNS, "(time, id)");
    let people = case.table_called("web_access_people", PEOPLE_COLUMNS, "(time, request_id)");
    let pipeline = case
        .pipeline()
        .field("user_agent: Nullable(String)")
        .field("bytes: Nullable(UInt64)")
        .field("status: UInt16")
        .dedup("request_id", Some("time"))
        .one_of(
            "{ clickhouse: { table: web_access_bots }, columns: { id: request_id }, \
             where: \"lower(user_agent) LIKE '%bot%' OR lower(user_agent) LIKE '%spider%'\" }",
        )
        .one_of("{ clickhouse: { table: web_access_people }, otherwise: true }")
        .batch("{ rows: 1000, age: 100ms }");
    pipeline.check(&["--connect"]);
    pipeline.drain();

    let (mut of_bots, mut of_people, mut failed) = (BTreeMap::new(), BTreeMap::new(), 0);
    for line in &lines {
        let fields: Value = serde_json::from_str(line).expect("the file is JSON");
        let id = text_of(&fields["request_id"]);
        let time = text_of(&fields["time"]).replace('T', " ").replace('Z', "");
        let agent = fields["user_agent"].as_str();
        let bytes = fields["bytes"].as_u64();
        let is_bot = agent.map(str::to_lowercase).is_some_and(|a| a.contains("bot") || a.contains("spider"));
        match (is_bot, bytes) {
            (true, None) => failed += 1,
            (true, Some(bytes)) => {
                let row = json!({ "id": id, "time": time, "user_agent": agent, "bytes": bytes });
                of_bots.insert(id, row);
            }
            (false, bytes) => {
                let row = json!({
                    "request_id": id, "time": time, "status": fields["status"], "user_agent": agent,
                    "bytes": bytes.map(|bytes| bytes.to_string())
                });
                of_people.insert(id, row);
            }
        }
    }
    assert!(of_bots.len() > lines.len() / 100 && failed > 0, "the file has both: {} {failed}", of_bots.len());
    for (table, key, wanted) in [(&bots, "id", &of_bots), (&people, "request_id", &of_people)] {
        let rows = table.rows("SELECT * EXCEPT _forebay FROM {t}");
        let rows: BTreeMap<String, Value> = rows.into_iter().map(|row| (text_of(&row[key]), row)).collect();
        assert_eq!(&rows, wanted);
        assert_eq!(table.count_and_distinct(key), (wanted.len() as u64, wanted.len() as u64));
    }
    let written = (of_bots.len() + of_people.len()) as u64;
    // A record that does not fit its table never counts as seen: both of its copies are dead letters.
    let accounts = Accounts {
        read: 2 * lines.len() as u64,
        written,
        duplicates: written,
        dead_letters: 2 * failed,
        ..Accounts::default()
    };
    assert_eq!(pipeline.accounts(), accounts);
    let letters = Table::at(&case.server().url(), "web_access_two_rejected");
    let letters =
        letters.rows("SELECT reason, column, toUInt32(count()) AS n FROM {t} GROUP BY reason, column");
    assert_eq!(letters, [json!({ "reason": "missing", "column": "bytes", "n": 2 * failed })]);
    // Each table by its name, against the source.
    for table in ["web_access_bots", "web_access_people"] {
        let said = pipeline.tool(&["verify"], &["--json", "--values", "--table", table], 0);
        assert_eq!(said["table"].as_str(), Some(format!("default.{table}").as_str()), "{said:#}");
    }
}

/// What the steps make of a line.
enum Fate {
    /// The columns but those of the user agent, and that.
    Row((Map<String, Value>, Option<String>)),
    Filtered,
    Fails,
}

/// The steps once more, by other means than the program's.
fn through_steps(fields: &Value) -> Fate {
    let status = fields["status"].as_u64().expect("a status");
    if status == 404 {
        return Fate::Filtered;
    }
    let target = text_of(&fields["request"]["path"]);
    let target = target.split('#').next().expect("a text has a first part");
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, json!(query)),
        None => (target, Value::Null),
    };
    let parameters = query.as_str().into_iter().flat_map(|query| query.split('&'));
    let page = parameters.filter_map(|one| one.strip_prefix("page=")).next();
    let page = match page.map(str::parse::<u32>) {
        None => Value::Null,
        Some(Ok(page)) => json!(page),
        Some(Err(_)) => return Fate::Fails,
    };
    let row = json!({
        "request_id": fields["request_id"], "time": text_of(&fields["time"]).replace('T', " ").replace('Z', ""), "status": status,
        "method": text_of(&fields["request"]["method"]).to_lowercase(), "path": path, "query": query, "page": page,
        "status_class": status / 100, "bytes": fields["bytes"].as_u64().map(|bytes| bytes.to_string()),
    });
    let Value::Object(row) = row else { panic!("an object was written") };
    Fate::Row((row, fields["user_agent"].as_str().map(str::to_owned)))
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("`{value}` is no text")).to_owned()
}

/// A line as the table should show it, by another JSON reader than the program's. 64-bit integers show as texts.
fn read_independently(line: &str) -> (String, Map<String, Value>) {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else { panic!("`{line}` is no object") };
    let Some(Value::Object(request)) = fields.remove("request") else { panic!("no request in `{line}`") };
    for (name, value) in request {
        fields.insert(format!("request.{name}"), value);
    }
    let time = fields["time"].as_str().expect("a time").replace('T', " ").replace('Z', "");
    fields["time"] = json!(time);
    if let Some(bytes) = fields["bytes"].as_u64() {
        fields["bytes"] = json!(bytes.to_string());
    }
    (fields["request_id"].as_str().expect("an id").to_owned(), fields)
}

fn shuffle<T>(items: &mut [T], random: &mut Lcg) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// Where the log is, the tests above do not see the sample.
#[test]
fn the_sample_has_what_the_tests_look_for() {
    let text = sample::text();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let ids: BTreeSet<String> = lines.iter().map(|line| text_of(&line["request_id"])).collect();
    assert_eq!(ids.len(), lines.len());
    let (mut filtered, mut fails, mut rows) = (0, 0, 0);
    for line in &lines {
        match through_steps(line) {
            Fate::Row(_) => rows += 1,
            Fate::Filtered => filtered += 1,
            Fate::Fails => fails += 1,
        }
    }
    assert!(filtered > 50 && fails > 50 && rows > 500, "{filtered} {fails} {rows}");
    let agents: BTreeSet<&str> = lines.iter().filter_map(|line| line["user_agent"].as_str()).collect();
    let bots = agents.iter().filter(|agent| agents::read(agent).is_bot).count();
    assert_eq!((agents.len(), bots), (15, 6));
    let is_unsized = |line: &&Value| line["bytes"].is_null() && text_of(&line["time"]).starts_with("2026");
    assert!(lines.iter().filter(is_unsized).count() > 100);
}
