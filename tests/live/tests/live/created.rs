//! Tables that the file describes, and steps that do not fit them.

use live::{Case, Table};

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
