//! What an administrator takes from the pipeline's user and gives back while it runs, and what its statements may reach.
//!
//! The engine of the tests keeps its users in a `users.xml` and takes no `ALTER USER`, `GRANT`, `CREATE ROW POLICY` or `CREATE QUOTA`: what such a
//! statement changes is changed there, and the server restarted. That each statement which is printed is one is shown by the `clickhouse` crate.

use std::time::Duration;

use live::pipeline::term;
use live::{Accounts, Case, PATIENCE, Pipeline, Table};
use serde_json::json;
use testkit::{ClickHouseOptions, wait_until};

use super::ways::PERSON;

const ALL: &str = "<access_management>1</access_management>";
const NO_PROFILE: &str = "";

fn ids(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|id| json!({ "id": id }).to_string())
}

/// A pipeline that runs, of which `rows` have arrived.
struct Running<'c> {
    case: &'c mut Case,
    pipeline: Pipeline,
    table: Table,
    rows: u32,
}

impl Running<'_> {
    /// The user has these rights and this profile from now on; what is waited for then has `state`, and says `words`. Once all is given back, the rows
    /// that came meanwhile arrive.
    fn waits_without(&mut self, (user, profile): (&str, &str), state: &str, words: &[&str]) {
        let place = format!("default.{}", self.case.name());
        self.becomes(user, profile);
        self.case.feed().send(ids(self.rows..self.rows + 50));
        self.rows += 50;
        let problem = self.pipeline.wait_for_problem(&place, state).to_string();
        for words in words {
            assert!(problem.contains(words), "`{words}` in {problem}");
        }
        self.becomes(ALL, NO_PROFILE);
        self.table.wait_for(u64::from(self.rows));
        wait_until(PATIENCE, "the problem to end", || self.pipeline.problem(&place).is_none());
    }

    fn becomes(&mut self, user: &str, profile: &str) {
        let server = self.case.own_server();
        server.set_user(user);
        server.set_profile(profile);
        server.restart().expect("it starts");
    }
}

#[test]
fn what_is_taken_from_the_user_of_a_running_pipeline_is_told_and_costs_no_row_once_it_is_given_back() {
    let Some(mut case) = Case::with_users("users_taken", ClickHouseOptions::default().user(ALL)) else {
        return;
    };
    let table = case.table("id UInt32", "id");
    case.feed().send(ids(0..50));
    let pipeline = case.pipeline();
    let running = pipeline.run();
    table.wait_for(50);
    let mut lane = Running { case: &mut case, pipeline, table, rows: 50 };
    let reads = "<grants><query>GRANT SELECT, KILL QUERY ON *.*</query></grants>";
    let cannot_insert = ["necessary to have the grant INSERT", "give the user its password or grant back"];
    lane.waits_without((reads, NO_PROFILE), "access", &cannot_insert);
    let statement = ["ALTER USER `default` MODIFY SETTING readonly = 0"];
    lane.waits_without((ALL, "<readonly>2</readonly>"), "access", &statement);
    // A policy of a `users.xml` names the user alone.
    let policy = format!(
        "{ALL}<databases><default><users_taken><filter>id &lt; 20</filter></users_taken></default></databases>"
    );
    let hidden = [
        "may hide rows of table `default.users_taken` from user `default`",
        "take the user out of the policy",
    ];
    lane.waits_without((&policy, NO_PROFILE), "table_differs", &hidden);
    let (pipeline, table) = (lane.pipeline, lane.table);
    term(running);
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    assert_eq!(pipeline.accounts(), Accounts { read: 200, written: 200, ..Accounts::default() });
}

/// The users of this engine are changed as above; the dead letters' table needs the same rights.
#[test]
fn rights_that_are_missing_are_told_by_the_check_and_the_start_with_their_grants() {
    let Some(mut case) = Case::with_users("users_rights", ClickHouseOptions::default().user(ALL)) else {
        return;
    };
    let table = case.table("id UInt32", "id");
    let pipeline = case.pipeline();
    case.feed().send(ids(0..10));
    pipeline.drain();
    let mut sent = 10;
    let mut becomes = |grants: &[&str]| {
        let queries: Vec<String> = grants.iter().map(|grant| format!("<query>{grant}</query>")).collect();
        case.feed().send(ids(sent..sent + 10));
        sent += 10;
        case.own_server().set_user(&format!("<grants>{}</grants>", queries.concat()));
        case.own_server().restart().expect("it starts");
    };
    let letters = "GRANT SELECT, INSERT ON default.users_rights_rejected";
    let others = "GRANT SELECT ON system.*";

    becomes(&["GRANT SELECT ON *.*", letters]);
    let why = "user `default` may not insert into table `default.users_rights`: it is necessary to have the grant INSERT on its columns; \
               fix it with: GRANT INSERT ON `default`.`users_rights` TO `default`";
    pipeline.tool_fails(&["check"], &["--connect"], PERSON, why);
    pipeline.tool_fails(&["run"], &["--drain"], PERSON, why);

    // Rows arrive all the same.
    becomes(&["GRANT INSERT ON *.*", letters, others]);
    let note = "To avoid this: `GRANT SELECT ON `default`.`users_rights` TO `default``";
    for command in [["check", "--connect"], ["run", "--drain"]] {
        let output = pipeline.run_tool(&command[..1], &command[1..]).success().expect("it is a note");
        let said = output.stdout + &output.stderr;
        assert!(said.contains(note), "{said}");
        assert_eq!(said.matches("GRANT SELECT ON").count(), 1, "{said}");
    }

    // As much as it needs is enough.
    let columns = "GRANT INSERT(id, _forebay), SELECT(_forebay) ON default.users_rights";
    becomes(&[columns, letters, others]);
    for command in [["check", "--connect"], ["run", "--drain"]] {
        let output = pipeline.run_tool(&command[..1], &command[1..]).success().expect("all is well");
        let said = output.stdout + &output.stderr;
        assert!(!said.contains("GRANT"), "{said}");
    }
    case.own_server().set_user(ALL);
    case.own_server().restart().expect("it starts");
    assert_eq!(table.count_and_distinct("id"), (40, 40));
}

#[test]
fn a_quota_that_is_used_up_passes_with_its_interval() {
    let Some(mut case) = Case::with_users("users_quota", ClickHouseOptions::default().user(ALL)) else {
        return;
    };
    let table = case.table("id UInt32", "id");
    case.own_server().set_quota("<interval><duration>6</duration><queries>40</queries></interval>");
    case.own_server().restart().expect("it starts");
    case.feed().send(ids(0..50));
    let pipeline = case.pipeline();
    let running = pipeline.run();
    // The pipeline's user is ours as well.
    wait_until(PATIENCE, "the first rows", || {
        std::thread::sleep(Duration::from_secs(1));
        table.try_count() == Some(50)
    });
    case.feed().send(ids(50..100));
    let place = format!("default.{}", case.name());
    let mut problem = None;
    wait_until(PATIENCE, "the quota to be used up", || {
        while table.try_ask("SELECT 1").is_ok() {}
        problem = pipeline.problem(&place);
        problem.is_some()
    });
    let problem = problem.expect("as above");
    assert_eq!(problem["state"], "overloaded", "{problem}");
    assert!(problem.to_string().contains("larger quota"), "{problem}");
    wait_until(PATIENCE, "the rows", || {
        std::thread::sleep(Duration::from_secs(2));
        table.try_count() == Some(100) && pipeline.problem(&place).is_none()
    });
    term(running);
    case.own_server().set_quota("");
    case.own_server().restart().expect("it starts");
    assert_eq!(table.count_and_distinct("id"), (100, 100));
}

/// A condition, and a view in the place of the letters' table, are SQL of others: it is run where it reads tables and nothing else.
#[test]
fn what_the_commands_for_dead_letters_ask_reaches_no_file_and_changes_nothing() {
    let Some(case) = Case::with_users("users_letters", ClickHouseOptions::default().user(ALL)) else {
        return;
    };
    let table = case.table("id UInt32", "id");
    case.feed().send(["{\"id\":1}".to_owned(), "no JSON".to_owned()]);
    let pipeline = case.pipeline();
    pipeline.drain();
    let files = std::path::Path::new("/proc/self/status");
    let reaches = format!("0 < (SELECT count() FROM file('{}', 'LineAsString'))", files.display());
    assert_eq!(table.value(&format!("SELECT {reaches}")), "1", "the server itself would");
    assert_eq!(
        pipeline.dead_letters("list", &["--json", "--where", "reason != ''"]).stdout.lines().count(),
        1
    );
    let refused = |args: &[&str]| {
        let output = pipeline.dead_letters("list", args);
        assert_ne!(output.exit.status.code(), Some(0), "{}", output.stdout);
        let said = &output.stderr;
        assert!(said.contains("reach a file or another server") && !said.contains("ALTER USER"), "{said}");
    };
    refused(&["--where", &reaches]);
    let letters = table.dead_letters();
    letters.ask("RENAME TABLE {t} TO users_letters_kept");
    letters.ask(&format!("CREATE VIEW {{t}} AS SELECT * FROM users_letters_kept WHERE {reaches}"));
    refused(&[]);
    letters.ask("CREATE OR REPLACE VIEW {t} AS SELECT * FROM users_letters_kept");
    assert_eq!(pipeline.dead_letters("list", &["--json"]).stdout.lines().count(), 1);
}
