//! Tables that the file describes: steps that do not fit them, and users who may not create them.

use live::{Case, Table};
use testkit::ClickHouseOptions;

use super::ways::PERSON;

/// The table of both runs, with a column of this type.
fn sink(kind: &str) -> String {
    format!(
        "{{ clickhouse: {{ table: created_rows, create: {{ order_by: id, columns: {{ id: UInt32, x: {kind} }} }} }} }}"
    )
}

#[test]
fn no_table_is_created_for_steps_that_do_not_fit_it_and_one_that_is_there_is_named() {
    let Some(case) = Case::begin("created") else { return };
    let table = Table::at(&case.server().url(), "created_rows");
    case.feed().spread((0..9).map(|id| format!(r#"{{"id":{id}}}"#)));
    let pipeline = |kind: &str, x: &str| {
        let pipeline = case.pipeline().field("id: UInt32");
        pipeline.step(&format!("select: {{ id: id, x: \"{x}\" }}")).one_of(&sink(kind))
    };
    let half = "CAST(id AS Float64) / 2";
    pipeline("Int64", half).tool_fails(&["run"], &["--drain"], 2, "or make the column Float64");
    assert_eq!(table.value("EXISTS TABLE {t}"), "0", "the file still decides the column's type");
    pipeline("Float64", half).drain();
    assert_eq!(table.value("SELECT sum(x) FROM {t}"), "18");
    // What is there counts, whatever the file says of it.
    pipeline("Int64", half).drain();
    let why = "table `created_rows` exists, and its column `x` is of type Float64, not String: `create` is for a table that does not exist";
    for command in ["run", "check", "explain"] {
        let after: &[&str] = match command {
            "run" => &["--drain"],
            "check" => &["--connect"],
            _ => &[],
        };
        pipeline("String", "upper('x')").tool_fails(&[command], after, 2, why);
    }
}

/// `check --connect` reports what a start would, before the table is there; each statement that it prints, as an administrator of a `users.xml` runs it,
/// mends it.
#[test]
fn a_user_who_may_not_create_a_table_or_not_write_it_is_told_by_the_check_as_by_the_run() {
    let reads = "<grants><query>GRANT SELECT, INSERT ON *.*</query></grants>";
    let options = ClickHouseOptions::default().user(reads).profile("<readonly>2</readonly>");
    let Some(mut case) = Case::with_users("created_by", options) else { return };
    let table = Table::at(&case.server().url(), "created_rows");
    case.feed().send((0..9).map(|id| format!(r#"{{"id":{id}}}"#)));
    let pipeline = case.pipeline().field("id: UInt32").one_of(&sink("Nullable(Int64)"));
    let both = |why: &str| {
        pipeline.tool_fails(&["check"], &["--connect"], PERSON, why);
        pipeline.tool_fails(&["run"], &["--drain"], PERSON, why);
        assert_eq!(table.value("EXISTS TABLE {t}"), "0");
    };
    both("ALTER USER `default` MODIFY SETTING readonly = 0");
    case.own_server().set_profile("<readonly>0</readonly>");
    case.own_server().restart().expect("it starts");
    both(
        "user `default` may not create it; fix it with: GRANT CREATE TABLE ON `default`.`created_rows` TO `default`",
    );
    // That of the dead letters is named as well.
    let said = pipeline.run_tool(&["check"], &["--connect"]).stderr;
    let grants = said.split("fix it with: ").skip(1).filter_map(|rest| rest.split_once(" TO `default`"));
    let grants: Vec<String> = grants.map(|(grant, _)| format!("<query>{grant}</query>")).collect();
    assert_eq!(grants.len(), 2, "{said}");
    case.own_server().set_user(&reads.replace("</grants>", &format!("{}</grants>", grants.concat())));
    case.own_server().restart().expect("it starts");
    pipeline.run_tool(&["check"], &["--connect"]).success().expect("all is well");
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (9, 9));
}
