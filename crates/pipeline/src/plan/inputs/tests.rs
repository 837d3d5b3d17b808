use dataflow::ColumnType;

use super::*;
use crate::config;
use crate::config::values::reference::Surroundings;
use crate::wiring::steps;

fn pipeline(rest: &str) -> Pipeline {
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\n{rest}"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(&text, &around);
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

fn table() -> Schema {
    let with_default = Column { default: Some("'?'".into()), ..Column::new("country", ColumnType::String) };
    Schema::new(vec![
        Column::new("id", ColumnType::String),
        Column::new("amount", ColumnType::Int64),
        with_default,
        Column::new("note", ColumnType::Nullable(Box::new(ColumnType::String))),
    ])
}

/// Two inputs, `a` and `b`, each with these further settings.
fn planned(a: &str, b: &str, rest: &str) -> String {
    let kafka = |topic: &str| format!("kafka: {{ brokers: k, topic: {topic} }}");
    let text = format!("inputs:\n  a: {{ {}{a} }}\n  b: {{ {}{b} }}\n{rest}", kafka("ta"), kafka("tb"));
    let pipeline = pipeline(&text);
    let schema = |schema: &Schema| {
        let column = |c: &Column| format!("{} {}", c.name, clickhouse::types::name(&c.column_type));
        schema.columns().iter().map(column).collect::<Vec<_>>().join(", ")
    };
    match steps::plan(&pipeline, &[table()]) {
        Err(faults) => faults.iter().map(|fault| format!("{fault}\n")).collect(),
        Ok(plans) => {
            let mut told = String::new();
            for InputPlan { name, plan, .. } in &plans.inputs {
                told += &format!("{name}: {}\n", schema(&plan.input));
                told += &plan.time.as_ref().map_or(String::new(), |time| format!("  time {time}\n"));
                for stage in plan.stages.iter().filter(|stage| stage.place == crate::plan::Place::DecodeJob) {
                    told += &format!("  {}: {}\n", stage.path, schema(&stage.output));
                }
                let steps: Vec<&str> = plan.transforms.iter().map(|step| step.name()).collect();
                told += &format!("  [{}]\n", steps.join(", "));
            }
            let lanes: Vec<String> = plans.inputs.iter().map(|input| schema(&input.plan.lane)).collect();
            assert!(lanes.iter().all(|lane| *lane == lanes[0]), "{lanes:?}");
            told + &format!("lane: {}\n", lanes[0])
        }
    }
}

const TABLE: &str = "id String, amount Int64, country String, note Nullable(String)";

#[test]
fn without_steps_every_input_is_decoded_as_the_table_has_it() {
    assert_eq!(planned("", "", ""), format!("a: {TABLE}\n  []\nb: {TABLE}\n  []\nlane: {TABLE}\n"));
}

#[test]
fn each_input_has_the_time_that_it_says() {
    let expected = format!("a: {TABLE}\n  time amount\n  []\nb: {TABLE}\n  []\nlane: {TABLE}\n");
    let dedup = "steps: [{ dedup: { key: [id], window: 8h } }]";
    assert_eq!(planned(", time: amount", "", dedup), expected);
    let with_time = "steps: [{ dedup: { key: [id], window: 8h, time: amount } }]";
    let both = format!("b: {TABLE}\n  time amount\n");
    assert_eq!(planned(", time: amount", "", with_time), expected.replace(&format!("b: {TABLE}\n"), &both));
    assert_eq!(
        planned(", time: note", "", with_time),
        "`steps[0].dedup.time`: the event time of `inputs.a` is `note`, by `inputs.a.time`, and here it is `amount`; leave it out here, and give \
         every input its `time`\n"
    );
    let refused = "time: the column `note` is of type String; use a Date, DateTime, DateTime64, or an Int64 or UInt64 of unix milliseconds\n";
    assert_eq!(planned(", time: note", "", dedup), format!("`inputs.a.time`: {refused}"));
    let by_step = "steps: [{ filter: amount > 3 }, { dedup: { key: [id], window: 8h, time: note } }]";
    assert_eq!(planned("", "", by_step), format!("`steps[1].dedup.time`: {refused}"));
}

#[test]
fn a_time_that_no_column_holds_is_decoded_if_it_is_declared() {
    let told = planned(", time: at, fields: { at: DateTime }", "", "");
    assert_eq!(
        told,
        format!("a: {TABLE}, at DateTime\n  time at\n  [mapping]\nb: {TABLE}\n  [mapping]\nlane: {TABLE}\n")
    );
    assert_eq!(
        planned(", time: at", "", ""),
        "`inputs.a.time`: `at` is no column of the table, and its type is not known; write `fields: { at: DateTime64(3) }` under `inputs.a:`, \
         with its type\n"
    );
}

#[test]
fn a_step_with_from_works_on_the_rows_of_its_input_alone() {
    let steps =
        "steps:\n  - { from: b, select: { \"*\": \"*\", amount: cents / 100 } }\n  - { filter: amount > 3 }";
    let told = planned("", ", fields: { cents: Int64 }", steps);
    let expected = format!(
        "a: {TABLE}\n  steps[1].filter: {TABLE}\n  [filter]\n\
         b: id String, country String, note Nullable(String), cents Int64\n  steps[0].select: id String, country String, note Nullable(String), \
         cents Int64, amount Int64\n  steps[1].filter: id String, country String, note Nullable(String), cents Int64, amount Int64\n  \
         [select, filter, mapping]\nlane: {TABLE}\n"
    );
    assert_eq!(told, expected);
}

#[test]
fn a_narrower_type_is_widened_where_a_step_reads_both() {
    let steps = "steps: [{ filter: level > 3 }]";
    let told = planned(", fields: { level: Int32 }", ", fields: { level: Int64 }", steps);
    assert!(told.contains(&format!("a: {TABLE}, level Int32\n  inputs: {TABLE}, level Int64\n")), "{told}");
    assert!(told.contains(&format!("b: {TABLE}, level Int64\n  steps[0].filter: ")), "{told}");
}

#[test]
fn a_type_that_no_step_reads_may_differ() {
    let told = planned(
        ", fields: { note: Float64 }",
        ", fields: { note: \"Nullable(String)\" }",
        "steps: [{ filter: amount > 3 }]",
    );
    // Both are brought to the table's column by itself, and Float64 has no way there.
    assert!(
        told.starts_with("`steps[0].filter`: `note` is of type Float64 for the rows of input `a`, and"),
        "{told}"
    );
    let told = planned(
        ", fields: { amount: Int8 }",
        ", fields: { amount: UInt32 }",
        "steps: [{ filter: note = 'x' }]",
    );
    assert!(
        told.contains("amount Int8") && told.contains("amount UInt32") && !told.contains("inputs:"),
        "{told}"
    );
}

#[test]
fn two_types_that_go_not_together_are_a_fault_with_a_cast_that_mends_it() {
    let filter = "steps: [{ filter: level > 3 }]";
    let told = planned(", fields: { level: Int64 }", ", fields: { level: String }", filter);
    assert_eq!(
        told,
        "`inputs.b.fields.level`: `level` is Int64 in input `a` and String in input `b`, and a step reads it of both: give it one type under \
         `fields` of both, or bring it to one type before, as in `- { from: b, select: { \"*\": \"*\", level: \"CAST(level AS Int64)\" } }`\n"
    );
    let mended = "steps: [{ from: b, select: { \"*\": \"*\", level: \"CAST(level AS Int64)\" } }, { filter: level > 3 }]";
    let told = planned(", fields: { level: Int64 }", ", fields: { level: String }", mended);
    assert!(told.starts_with(&format!("a: {TABLE}, level Int64\n")), "{told}");
    assert!(told.contains(&format!("b: {TABLE}, level String\n")), "{told}");
}

#[test]
fn a_field_that_one_input_lacks_is_null_if_it_may_be_missing() {
    let filter = "steps: [{ filter: \"level IS NULL OR level > 3\" }]";
    let told = planned("", ", fields: { level: Int64 }", filter);
    assert_eq!(
        told,
        "`inputs.a.fields`: a step reads `level`, which is Int64 in input `b` and not known in input `a`: write `fields: { level: Int64 }` under \
         `inputs.a:` too if its records have it, or make it `Nullable(Int64)` under `inputs.b.fields` if they do not\n"
    );
    let told = planned("", ", fields: { level: Nullable(Int64) }", filter);
    assert!(told.starts_with(&format!("a: {TABLE}, level Nullable(Int64)\n  steps[0]")), "{told}");
    let told = planned(", fields: { level: Int64 }", ", fields: { level: Int64 }", filter);
    assert!(told.starts_with(&format!("a: {TABLE}, level Int64\n  steps[0]")), "{told}");
    // What a step of `a` has dropped is not read from its records again.
    let dropped = "steps: [{ from: a, select: { id: id, amount: amount } }, { filter: \"level IS NULL OR level > 3\" }]";
    let told = planned("", ", fields: { level: Nullable(Int64) }", dropped);
    assert!(
        told.starts_with("a: id String, amount Int64\n  steps[0].select: id String, amount Int64\n  inputs: id String, amount Int64, level Nullable(Int64)\n"),
        "{told}"
    );
}

#[test]
fn a_key_that_no_table_stores_has_one_type() {
    let dedup = "steps: [{ dedup: { key: [event], window: unbounded } }]";
    let told = planned(", fields: { event: UInt32 }", ", fields: { event: UInt64 }", dedup);
    assert!(told.contains("inputs: ") && told.ends_with(&format!("lane: {TABLE}, event UInt64\n")), "{told}");
    let told = planned(", fields: { event: UInt32 }", ", fields: { event: Nullable(UInt32) }", dedup);
    assert!(told.ends_with(&format!("lane: {TABLE}, event Nullable(UInt32)\n")), "{told}");
    let told = planned(", fields: { event: UInt32 }", "", dedup);
    assert!(told.starts_with("`inputs.b.fields`: a step reads `event`"), "{told}");
}

#[test]
fn a_fault_of_a_step_for_all_rows_is_told_once() {
    let told = planned("", "", "steps: [{ filter: amount >> }]");
    assert_eq!(told.lines().count(), 1, "{told}");
    // Types that no step reads do not hide it.
    let hidden =
        planned(", fields: { x: String }", ", fields: { x: Int8 }", "steps: [{ filter: amount >> }]");
    assert_eq!(hidden, told);
}

#[test]
fn the_name_of_the_input_is_a_column() {
    let told =
        planned("", "", "columns: { note: _input }\nsteps: [{ filter: \"_input = 'a' OR amount > 3\" }]");
    assert!(told.contains("_input LowCardinality(String)"), "{told}");
}

#[test]
fn rows_of_two_inputs_meet_in_one_window() {
    let steps = "steps:\n  - window: { key: [id], size: 1m, aggregates: { amount: sum(cents) } }\n";
    let told =
        planned(", fields: { id: String, cents: Int32 }", ", fields: { id: String, cents: Int64 }", steps);
    assert!(told.ends_with("lane: id String, cents Int64\n"), "{told}");
    let told = planned(", fields: { id: String, cents: Int32 }", ", fields: { id: String }", steps);
    assert!(told.starts_with("`inputs.b.fields`: a step reads `cents`"), "{told}");
    let of_expression = steps.replace("sum(cents)", "sum(cents * 2)");
    let told = planned(
        ", fields: { id: String, cents: Int32 }",
        ", fields: { id: String, cents: Int64 }",
        &of_expression,
    );
    assert!(told.contains("a: id String, cents Int32\n  inputs: id String, cents Int64\n"), "{told}");
}

#[test]
fn a_key_that_stands_for_a_default_in_one_input_may_be_null_in_all() {
    let rest = "steps:\n  - { from: b, select: { \"*\": \"*\", country: upper(note) } }\n  - dedup: { key: [country], window: unbounded }\n  \
                - filter: amount > 3";
    let told = planned("", "", rest);
    assert!(told.contains("country Nullable(String)") && told.contains("lane: "), "{told}");
}

#[test]
fn steps_behind_a_dedup_read_one_type_too() {
    let steps = "steps: [{ dedup: { key: [id], window: unbounded } }, { filter: level > 3 }]";
    let told = planned(", fields: { level: Int32 }", ", fields: { level: Int64 }", steps);
    let a = told.lines().skip_while(|line| !line.starts_with("a: ")).take(2).collect::<Vec<_>>();
    assert!(a[0].ends_with(", level Int32") && a[1].ends_with(", level Int64"), "{told}");
    let told = planned(", fields: { level: Int32 }", ", fields: { level: String }", steps);
    assert!(told.starts_with("`inputs.b.fields.level`: `level` is Int32 in input `a` and String"), "{told}");
    let window = "steps:\n  - dedup: { key: [id], window: unbounded }\n  - filter: cents > 3\n  \
                  - window: { key: [id], size: 1m, aggregates: { amount: sum(cents) } }\n  - filter: amount > 100\n";
    let told =
        planned(", fields: { id: String, cents: Int32 }", ", fields: { id: String, cents: Int64 }", window);
    assert!(told.contains("a: id String, cents Int32\n  inputs: id String, cents Int64\n"), "{told}");
}

#[test]
fn the_time_of_a_step_is_found_under_the_name_that_each_input_has_for_it() {
    let steps = "steps:\n  - { from: b, select: { \"*\": \"*\", amount: cents } }\n  - dedup: { key: [id], window: 8h, time: amount }";
    let told = planned("", ", fields: { cents: Int64 }", steps);
    assert!(told.contains("  time amount\n") && told.contains("  time cents\n"), "{told}");
}

#[test]
fn a_query_over_the_rows_of_all_reads_one_type_and_lets_the_others_pass() {
    let steps = "steps:\n  - sql: \"SELECT *, level + 1 AS amount FROM input WHERE level > 3\"";
    let told = planned(", fields: { level: Int32 }", ", fields: { level: Int64 }", steps);
    assert!(
        told.contains("level Int32\n  inputs: ") && told.ends_with(&format!("lane: {TABLE}\n")),
        "{told}"
    );
    let told = planned(", fields: { level: Int32 }", "", steps);
    assert!(told.starts_with("`inputs.b.fields`: a step reads `level`"), "{told}");
}

#[test]
fn a_condition_of_a_table_reads_one_type() {
    let with = |b: &str| {
        let text = format!(
            "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\" }} }}\nsinks:\n  - {{ clickhouse: {{ table: t }}, where: level > 3 }}\n\
             inputs:\n  a: {{ kafka: {{ brokers: k, topic: ta }}, fields: {{ level: Int32 }} }}\n  b: {{ kafka: {{ brokers: k, topic: tb }}{b} }}\n"
        );
        let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
        let pipeline = config::check(&text, &around).pipeline.expect("a good file");
        steps::plan(&pipeline, &[table()]).map(|plans| plans.inputs.len())
    };
    assert_eq!(with(", fields: { level: UInt8 }").ok(), Some(2));
    let faults = with("").expect_err("it is not known there");
    assert!(faults[0].path == "inputs.b.fields" && faults.len() == 1, "{faults:?}");
}

#[test]
fn a_key_that_one_input_declares_has_one_type_where_steps_stand_behind_it() {
    let steps = "steps: [{ dedup: { key: [id], window: unbounded } }, { filter: amount > 3 }]";
    for a in [", fields: { id: String }", ", fields: { id: String, amount: Int64 }", ""] {
        let told = planned(a, "", steps);
        assert!(told.contains("lane: "), "{told}");
    }
}

/// Whatever two inputs declare, the planner either says what is missing or gives rows of one kind: its last resort never speaks.
#[test]
fn every_pair_of_declarations_is_planned_or_explained() {
    let fields =
        ["", "id: String", "id: Nullable(String)", "amount: Int32", "level: Int64", "level: Nullable(Int32)"];
    let steps = [
        "",
        "{ filter: amount > 3 }",
        "{ dedup: { key: [id], window: unbounded } }",
        "{ dedup: { key: [level], window: unbounded } }",
        "{ dedup: { key: [id], window: unbounded } }, { filter: amount > 3 }",
        "{ dedup: { key: [id, level], window: unbounded } }, { filter: amount > 3 }",
        "{ from: a, select: { \"*\": \"*\", id: upper(id) } }, { dedup: { key: [id], window: unbounded } }, { filter: amount > 3 }",
        "{ from: b, select: { id: id, amount: amount } }, { filter: amount > 3 }, { dedup: { key: [country], window: unbounded } }",
        "{ sql: 'SELECT *, upper(id) AS note FROM input' }, { dedup: { key: [note], window: unbounded } }, { filter: amount > 3 }",
        "{ select: { \"*\": \"*\", note: upper(id) } }, { dedup: { key: [note, amount], window: unbounded } }",
    ];
    let (mut plans, mut faults) = (0, 0);
    for of_a in fields {
        for of_b in fields {
            for steps in steps {
                let declared =
                    |of: &str| if of.is_empty() { String::new() } else { format!(", fields: {{ {of} }}") };
                let told = planned(&declared(of_a), &declared(of_b), &format!("steps: [{steps}]"));
                assert!(
                    !told.contains("a step with a state needs one type"),
                    "{of_a} | {of_b} | {steps}\n{told}"
                );
                assert!(!told.contains("cannot be brought"), "{of_a} | {of_b} | {steps}\n{told}");
                if told.starts_with('`') { faults += 1 } else { plans += 1 }
            }
        }
    }
    assert!(plans > 150 && faults > 20, "{plans} plans, {faults} faults");
}
