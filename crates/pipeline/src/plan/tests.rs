use dataflow::{Column, ColumnType};

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
        Column::new("id", ColumnType::Uuid),
        Column::new("amount", ColumnType::Int64),
        with_default,
        Column::new("at", ColumnType::DateTime { timezone: None }),
    ])
}

const SOURCE: &str = "source: { kafka: { brokers: b, topic: t }";

/// The plan in lines, or its faults.
fn planned(fields: &str, rest: &str) -> String {
    let pipeline = pipeline(&format!("{SOURCE}{fields} }}\n{rest}"));
    let schema = |schema: &Schema| {
        let column = |c: &Column| format!("{} {}", c.name, clickhouse::types::name(&c.column_type));
        schema.columns().iter().map(column).collect::<Vec<_>>().join(", ")
    };
    match steps::plan(&pipeline, &[table()]) {
        Err(faults) => faults.iter().map(|fault| format!("{fault}\n")).collect(),
        Ok(plans) => {
            let plan = plans.inputs.into_iter().next().expect("one input").plan;
            let mut told = format!("input: {}\n", schema(&plan.input));
            told += &plan.time.map_or(String::new(), |time| format!("time: {time}\n"));
            for stage in &plan.stages {
                told += &format!("{} in {:?}: {}\n", stage.path, stage.place, schema(&stage.output));
            }
            for mapped in
                plan.tables[0].mapping.iter().filter(|m| m.conversion != Conversion::Same || m.from.is_none())
            {
                told += &format!("{} from {:?} {:?}\n", mapped.column, mapped.from, mapped.conversion);
            }
            let mapped = plan.transforms.last().is_some_and(|step| step.name() == "mapping");
            told + if mapped { "mapping\n" } else { "" }
        }
    }
}

const TABLE: &str = "id UUID, amount Int64, country String, at DateTime";

#[test]
fn without_steps_every_column_is_decoded_as_the_table_has_it() {
    assert_eq!(planned("", ""), format!("input: {TABLE}\n"));
    let steps = "columns: { id: meta.id }\nsteps: [{ dedup: { key: [id], window: 8h, time: at } }]";
    let expected = format!("input: {TABLE}\ntime: at\nsteps[0].dedup in Lane: {TABLE}\n");
    assert_eq!(planned("", steps), expected);
}

#[test]
fn a_filter_over_columns_of_the_table_costs_no_mapping() {
    let expected = format!("input: {TABLE}\nsteps[0].filter in DecodeJob: {TABLE}\n");
    assert_eq!(planned("", "steps: [{ filter: amount > 3 }]"), expected);
}

#[test]
fn a_field_that_only_an_expression_reads_is_decoded_if_its_type_is_declared() {
    let steps = "steps: [{ filter: level > 3 }, { dedup: { key: [id], window: unbounded } }]";
    let wide = format!("{TABLE}, level Int64");
    let expected =
        format!("input: {wide}\nsteps[0].filter in DecodeJob: {wide}\nsteps[1].dedup in Lane: {wide}\n");
    assert_eq!(planned(", fields: { level: Int64, never_read: String }", steps), expected);
    assert_eq!(
        planned("", steps),
        "`steps[0].filter`: there is no column `level`; the columns are `id`, `amount`, `country`, `at`, `_key`, `_headers`, `_input`, `_topic`, `_partition`, \
         `_position`, `_timestamp`, `_tombstone` and 1 more; if it is a field of the record, declare its type, because no column takes it unchanged: write \
         `fields: { level: String }` under `source:`\n"
    );
}

#[test]
fn a_select_decodes_what_it_reads_and_what_passes() {
    let steps = "steps: [{ select: { id: uid, amount: cents + 1, at: at } }]";
    let expected = "input: uid UUID, at DateTime, cents Int64\n\
                    steps[0].select in DecodeJob: id UUID, amount Int64, at DateTime\n\
                    country from None Same\nmapping\n";
    assert_eq!(planned(", fields: { cents: Int64 }", steps), expected);
    // A computed column of the table's own name has no type from the table.
    let steps = "steps: [{ select: { \"*\": \"*\", amount: amount + 1 } }]";
    assert_eq!(
        planned("", steps),
        "`steps[0].select.amount`: there is no column `amount`; the columns are `id`, `country`, `at`, `_key`, `_headers`, `_input`, `_topic`, `_partition`, \
         `_position`, `_timestamp`, `_tombstone`, `_ingested`; if it is a field of the record, declare its type, because no column takes it unchanged: \
         write `fields: { amount: Int64 }` under `source:`\n"
    );
    let told = planned(", fields: { amount: UInt8 }", steps);
    assert!(told.starts_with("input: id UUID, country String, at DateTime, amount UInt8\n"), "{told}");
}

#[test]
fn a_column_is_decoded_where_it_is_written_also_if_no_value_depends_on_it() {
    let fields = ", fields: { a: String, b: String, n: Nullable(String), k: UInt32, e: \"Enum8('x' = 1)\", f: Nullable(Int64) }";
    let texts = [
        "country: coalesce(a, '-')",
        "country: coalesce(a, b)",
        "country: coalesce(n, a, b)",
        "country: (a)",
        "country: input.a",
        "country: nvl(a, n)",
        "country: nvl2(k, a, n)",
        "country: CASE WHEN true THEN a ELSE b END",
        "country: e",
        "country: (e)",
        "amount: k & k",
        "amount: coalesce(k, f)",
    ];
    let selects = texts.map(|text| {
        let (name, text) = text.split_once(": ").expect("a name");
        format!("select: {{ \"*\": \"*\", {name}: {text:?} }}")
    });
    let filters = ["b = b", "b LIKE '%'", "a IS NULL", "e = NULL", "true OR k > 1"];
    let filters = filters.map(|text| format!("filter: {text:?}"));
    let queries = [
        "SELECT * EXCEPT (k) FROM input",
        "SELECT * EXCLUDE (k, a) FROM input WHERE b = b",
        "SELECT * EXCEPT (b, _headers) FROM input WHERE coalesce(a, b) <> ''",
        "SELECT id, at, amount, (a) AS country FROM input",
    ];
    let queries = queries.map(|text| format!("sql: {text:?}"));
    for step in selects.iter().chain(&filters).chain(&queries) {
        let told = planned(fields, &format!("steps: [{{ {step} }}]"));
        assert!(told.starts_with("input: "), "{step}: {told}");
    }
}

#[test]
fn a_query_passes_columns_under_other_names() {
    let told = planned(
        ", fields: { cents: Int64 }",
        "steps: [{ sql: \"SELECT uid AS id, cents + 1 AS amount, at FROM input\" }]",
    );
    // What it reads must be known: `uid` is no column, and fills one only behind the query.
    assert!(told.contains("`fields: { uid: String }`"), "{told}");
    let fields = ", fields: { cents: Int64, uid: UUID }";
    let told = planned(fields, "steps: [{ sql: \"SELECT uid AS id, cents + 1 AS amount, at FROM input\" }]");
    assert!(told.starts_with("input: uid UUID, at DateTime, cents Int64\n"), "{told}");
}

#[test]
fn a_query_may_pass_everything_and_compute_a_column_of_the_table() {
    let told = planned(
        ", fields: { cents: Int64 }",
        "steps: [{ sql: \"SELECT *, cents + 1 AS amount FROM input WHERE cents > 3\" }]",
    );
    assert!(told.starts_with("input: id UUID, country String, at DateTime, cents Int64\n"), "{told}");
    let told = planned(
        ", fields: { cents: Int64 }",
        "steps: [{ sql: \"SELECT UNNEST([cents]) AS amount, id, at FROM input\" }]",
    );
    assert!(told.contains("steps[0].sql in DecodeJob: amount Nullable(Int64), id UUID"), "{told}");
}

#[test]
fn unnest_is_refused_where_a_row_could_not_be_told_by_its_record_and_item() {
    let unnest = "{ sql: \"SELECT id, UNNEST(items) AS amount, at FROM input\" }";
    let fields = ", fields: { items: Array(Int64) }";
    let told =
        planned(fields, &format!("steps: [{unnest}, {{ dedup: {{ key: [id, amount], window: 1h }} }}]"));
    assert!(told.contains("mapping"), "{told}");
    let told = planned(fields, &format!("steps: [{{ dedup: {{ key: [id], window: 1h }} }}, {unnest}]"));
    assert!(told.starts_with("`steps[1].sql`: UNNEST behind `steps[0].dedup` is not supported"), "{told}");
    let again = "{ sql: \"SELECT id, UNNEST([amount]) AS amount, at FROM input\" }";
    let told = planned(fields, &format!("steps: [{unnest}, {again}]"));
    assert!(
        told.starts_with("`steps[1].sql`: the rows of `steps[0].sql` are made of items already"),
        "{told}"
    );
}

#[test]
fn the_last_rows_are_mapped_to_the_table_by_name() {
    let steps = "columns: { amount: n }\nsteps: [{ select: { id: id, n: level + 1, at: at } }]";
    let told = planned(", fields: { level: UInt8 }", steps);
    assert!(told.ends_with("mapping\n") && !told.contains("amount from"), "{told}");
    let told = planned(", fields: { amount: UInt8, at: DateTime64(0) }", "");
    assert!(
        told.contains("amount from Some(\"amount\") Lossless\nat from Some(\"at\") Checked\nmapping\n"),
        "{told}"
    );
}

#[test]
fn a_column_that_cannot_be_filled_is_a_fault_with_the_cast_that_mends_it() {
    assert_eq!(
        planned("", "steps: [{ select: { id: id, amount: CAST(at AS String), at: at } }]"),
        "`steps[0].select.amount`: `amount` is of type String, and column `amount` of the table of type Int64: no conversion keeps every value; \
         write `CAST(… AS Int64)` in a `select`, or make the column String\n"
    );
    assert_eq!(
        planned("", "steps: [{ select: { id: id, at: at } }]"),
        "`steps[0].select`: no step gives column `amount` (Int64) of the table, which has neither NULL nor a DEFAULT; give it, or `ALTER TABLE … \
         MODIFY COLUMN` with a DEFAULT\n"
    );
    assert_eq!(
        planned("", "steps: [{ select: { \"*\": \"*\", amonut: CAST(at AS String) } }]"),
        "`steps[0].select.amonut`: the table has no column `amonut`, and no step reads it, did you mean `amount`?\n"
    );
}

#[test]
fn the_event_time_is_a_field_of_the_record_before_any_step() {
    let dedup = |time: &str| format!("{{ dedup: {{ key: [id], window: 8h, time: {time} }} }}");
    let select = "{ select: { \"*\": \"*\", at: created } }";
    let told = planned("", &format!("steps: [{select}, {}]", dedup("at")));
    assert!(told.contains("\ntime: created\n"), "{told}");
    let told = planned(", fields: { made: DateTime64(3) }", &format!("steps: [{}]", dedup("made")));
    assert!(
        told.contains("\ntime: made\n") && told.starts_with(&format!("input: {TABLE}, made DateTime64(3)\n")),
        "{told}"
    );
    let computed = "{ select: { \"*\": \"*\", at: CAST(country AS DateTime) } }";
    let told = planned(", fields: { country: String }", &format!("steps: [{computed}, {}]", dedup("at")));
    assert!(told.contains("`steps[1].dedup.time`: `at` is computed by `steps[0].select`"), "{told}");
    let told = planned("", &format!("steps: [{{ filter: amount > 1 }}, {}]", dedup("made")));
    assert!(told.contains("`steps[1].dedup.time`: `made` is no column of the table"), "{told}");
}

#[test]
fn a_key_that_the_table_does_not_store_stands_behind_its_columns() {
    let steps =
        "steps: [{ select: { \"*\": \"*\", key: level + 1 } }, { dedup: { key: [key], window: unbounded } }]";
    let told = planned(", fields: { level: Int64 }", steps);
    assert!(told.contains(&format!("steps[1].dedup in Lane: {TABLE}, key Int64\n")), "{told}");
    let steps = "steps: [{ filter: amount > 1 }, { dedup: { key: [kye], window: unbounded } }]";
    let told = planned("", steps);
    assert!(told.contains("`steps[1].dedup.key[0]`: `kye` is no column of the table"), "{told}");
}

#[test]
fn what_the_source_says_of_a_record_is_a_column_where_something_reads_it() {
    let told = planned("", "steps: [{ filter: _topic = 'a' AND amount > 1 }]");
    let input = format!("input: {TABLE}, _topic LowCardinality(String)\n");
    assert!(told.starts_with(&input) && !told.contains("mapping"), "{told}");
    // Of a table's column too, and by `columns:` of a column with another name; a declared field of the name is a field.
    let told = planned("", "columns: { country: _key }");
    assert_eq!(told, "input: id UUID, amount Int64, at DateTime, _key Nullable(String)\nmapping\n");
    let told = planned(", fields: { _key: String }", "columns: { country: _key }");
    assert_eq!(told, "input: id UUID, amount Int64, _key String, at DateTime\nmapping\n");
    let told = planned("", "steps: [{ dedup: { key: [_key], window: 8h, time: _timestamp } }]");
    assert!(
        told.contains("time: _timestamp\n")
            && told.contains(&format!("in Lane: {TABLE}, _key Nullable(String)")),
        "{told}"
    );
}

/// The plan of a pipeline with two tables in lines, or its faults.
fn planned_for_two(fields: &str, sinks: &str, steps: &str) -> String {
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\" }} }}\n\
         {SOURCE}{fields} }}\n{sinks}\n{steps}"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(&text, &around);
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let bots = Schema::new(vec![
        Column::new("id", ColumnType::Uuid),
        Column::new("agent", ColumnType::LowCardinality(Box::new(ColumnType::String))),
        Column::new("amount", ColumnType::UInt8),
    ]);
    let schema = |schema: &Schema| {
        let column = |c: &Column| format!("{} {}", c.name, clickhouse::types::name(&c.column_type));
        schema.columns().iter().map(column).collect::<Vec<_>>().join(", ")
    };
    match steps::plan(&pipeline, &[table(), bots]) {
        Err(faults) => faults.iter().map(|fault| format!("{fault}\n")).collect(),
        Ok(plans) => {
            let plan = plans.inputs.into_iter().next().expect("one input").plan;
            let mut told = format!("input: {}\n", schema(&plan.input));
            for stage in &plan.stages {
                told += &format!("{} in {:?} reads {:?}\n", stage.path, stage.place, stage.reads);
            }
            told += &format!("lane: {}\n", schema(&plan.lane));
            for table in &plan.tables {
                let columns = table.mapping.iter().map(|m| format!("{} {:?}", m.column, m.conversion));
                told += &format!("{}: {}\n", table.name, columns.collect::<Vec<_>>().join(", "));
            }
            let router = plan.router.expect("there are two tables");
            told + &format!("{:?} by {:?}\n", router.columns, router.set)
        }
    }
}

const BOTS: &str = "sinks: [{ clickhouse: { table: t }, otherwise: true }, { clickhouse: { table: bots }, where: agent = 'bot' }]";

#[test]
fn several_tables_share_the_columns_that_are_filled_alike() {
    let told =
        planned_for_two("", "sinks: [{ clickhouse: { table: t } }, { clickhouse: { table: bots } }]", "");
    assert_eq!(
        told,
        "input: id UUID, amount Int64, country String, at DateTime, agent LowCardinality(String)\n\
         lane: `id` of `t` UUID, `amount` of `t` Int64, `country` of `t` String, `at` of `t` DateTime, \
         `agent` of `bots` LowCardinality(String), `amount` of `bots` UInt8\n\
         t: id Same, amount Same, country Same, at Same\n\
         bots: id Same, agent Same, amount Checked\n\
         [[0, 1, 2, 3], [0, 4, 5]] by None\n"
    );
}

#[test]
fn tables_of_one_name_in_two_databases_are_filled_by_their_own_fields() {
    let sinks = "sinks: [{ clickhouse: { database: a, table: t } }, { clickhouse: { database: b, table: t }, columns: { id: other } }]";
    let told = planned_for_two("", sinks, "");
    assert_eq!(
        told,
        "input: id UUID, amount Int64, country String, at DateTime, other UUID, agent LowCardinality(String)\n\
         lane: `id` of `a.t` UUID, `amount` of `a.t` Int64, `country` of `a.t` String, `at` of `a.t` DateTime, \
         `id` of `b.t` UUID, `agent` of `b.t` LowCardinality(String), `amount` of `b.t` UInt8\n\
         a.t: id Same, amount Same, country Same, at Same\n\
         b.t: id Same, agent Same, amount Checked\n\
         [[0, 1, 2, 3], [4, 5, 6]] by None\n"
    );
}

#[test]
fn a_row_that_a_table_does_not_take_need_not_fit_it() {
    let dedup = "steps: [{ dedup: { key: [id], window: unbounded } }]";
    let told = planned_for_two("", BOTS, dedup);
    assert_eq!(
        told,
        "input: id UUID, amount Int64, country String, at Nullable(DateTime), agent LowCardinality(Nullable(String))\n\
         sinks in DecodeJob reads [\"agent\"]\n\
         steps[0].dedup in Lane reads [\"id\"]\n\
         lane: `id` of `t` UUID, `amount` of `t` Nullable(Int64), `country` of `t` String, `at` of `t` Nullable(DateTime), \
         `agent` of `bots` LowCardinality(Nullable(String)), `amount` of `bots` Nullable(UInt8), id UUID, `sinks` of a row UInt32\n\
         t: id Same, amount Same, country Same, at Same\n\
         bots: id Same, agent Same, amount Checked\n\
         [[0, 1, 2, 3], [0, 4, 5]] by Some(7)\n"
    );
}

#[test]
fn a_condition_is_a_truth_over_the_columns_behind_the_last_step() {
    let of = |condition: &str| BOTS.replace("agent = 'bot'", condition);
    let select = "steps: [{ select: { \"*\": \"*\", is_bot: \"agent = 'bot'\" } }]";
    let fields = ", fields: { agent: String }";
    let told = planned_for_two(fields, &of("is_bot"), select);
    assert!(told.contains("sinks in DecodeJob reads [\"is_bot\"]\n"), "{told}");
    let told = planned_for_two(fields, &of("amount + 1"), "");
    assert!(told.starts_with("`sinks[1].where`: this is of type "), "{told}");
    let told = planned_for_two(fields, &of("agnet = 'bot'"), "");
    assert!(told.starts_with("`sinks[1].where`: there is no column `agnet`"), "{told}");
    // A column that no table has and that nothing reads is a slip of the pen; one that a condition reads is none.
    let told = planned_for_two(fields, BOTS, select);
    assert!(told.starts_with("`steps[0].select.is_bot`: no table has a column `is_bot`"), "{told}");
}

#[test]
fn a_column_that_cannot_be_filled_is_told_with_its_table() {
    let select = "steps: [{ select: { \"*\": \"*\", amount: agent } }]";
    let told = planned_for_two(", fields: { agent: String }", BOTS, select);
    assert!(told.contains("column `amount` of table `t` of type Int64"), "{told}");
    let unknown =
        "sinks: [{ clickhouse: { table: t }, columns: { conutry: x } }, { clickhouse: { table: bots } }]";
    let told = planned_for_two("", unknown, "");
    assert_eq!(
        told,
        "`sinks[0].columns.conutry`: table `t` has no column `conutry`, did you mean `country`?\n"
    );
}

#[test]
fn a_table_for_each_value_of_a_column_takes_the_rows_of_its_value() {
    let by = "sinks: [{ clickhouse: { table: \"{kind}\" }, by: { column: kind, values: [t, \"bo'ts\"] }, where: amount > 1 }]";
    let told = planned_for_two(", fields: { kind: String }", by, "");
    assert!(told.contains("sinks in DecodeJob reads [\"amount\", \"kind\"]\n"), "{told}");
    assert!(
        told.contains("\nt: ") && told.contains("\nbo'ts: ") && told.ends_with(" by Some(6)\n"),
        "{told}"
    );
    let told = planned_for_two("", by, "");
    assert!(told.starts_with("`sinks[0].by.values[0]`: there is no column `kind`"), "{told}");
}

#[test]
fn a_step_behind_dedup_is_done_ahead_and_leaves_the_key_as_it_was() {
    let steps = "steps: [{ filter: level > 3 }, { dedup: { key: [id], window: 8h, time: at } }, \
                 { filter: amount > 7 }, { select: { \"*\": \"*\", id: other } }]";
    let told = planned(", fields: { level: Int64, other: UUID, id: UUID }", steps);
    let input = "input: other UUID, amount Nullable(Int64), country String, at Nullable(DateTime), level Int64, id UUID\ntime: at\n";
    assert!(told.starts_with(input), "{told}");
    let lane = "`id` of `t` Nullable(UUID), `amount` of `t` Nullable(Int64), `country` of `t` String, `at` of `t` Nullable(DateTime), \
                id UUID, `sinks` of a row UInt32";
    assert!(told.contains(&format!("steps[1].dedup in Lane: {lane}\nsteps[2].filter in Ahead: ")), "{told}");
    assert!(told.contains("steps[3].select in Ahead: ") && told.ends_with("mapping\n"), "{told}");
    // A key that a step behind replaces is no field of a column, so that its type is not known.
    let told = planned(", fields: { level: Int64, other: UUID }", steps);
    assert!(
        told.starts_with("`steps[1].dedup.key[0]`: `id` is no column of the table, and its type"),
        "{told}"
    );
}

#[test]
fn a_dedup_that_steps_follow_is_told_what_fills_the_column_that_it_names() {
    let steps = "columns: { id: event_id, at: made }\n\
                 steps: [{ dedup: { key: [id], window: 8h, time: at } }, { filter: amount > 7 }]";
    // Without steps behind it names the columns of the table.
    let told = planned("", &steps.replace(", { filter: amount > 7 }", ""));
    assert!(told.contains("steps[0].dedup in Lane"), "{told}");
    let told = planned("", steps);
    assert!(told.starts_with("`steps[0].dedup.time`: `at` is a column of the table"), "{told}");
    assert!(told.contains("write `made`"), "{told}");
    let told = planned("", &steps.replace("time: at", "time: made"));
    assert!(told.starts_with("`steps[0].dedup.key[0]`: `id` is a column of the table"), "{told}");
    assert!(told.contains("write `event_id`"), "{told}");
    let told = planned("", &steps.replace("time: at", "time: made").replace("[id]", "[event_id]"));
    assert!(told.contains("time: made\n") && told.contains("steps[0].dedup in Lane"), "{told}");
    // No other column has the name of the one that is missing.
    let steps =
        "steps: [{ dedup: { key: [id], window: 8h, time: at } }, { select: { \"*\": \"*\", id: other } }]";
    let told = planned(", fields: { other: UUID }", steps);
    assert!(told.contains("dedup.key[0]") && !told.contains("did you mean `id`"), "{told}");
}

#[test]
fn a_computed_column_that_only_a_later_step_reads_is_used() {
    let steps = "steps:\n  - select: { \"*\": \"*\", level: \"CAST(word AS Int64)\" }\n  - filter: level > 3";
    let told = planned(", fields: { word: String }", steps);
    assert!(told.starts_with("input: ") && told.contains("steps[1].filter"), "{told}");
    let told = planned(
        ", fields: { level: String }",
        &steps.replace("word", "level").replace("filter: level", "filter: amount"),
    );
    assert!(told.contains("the table has no column `level`, and no step reads it"), "{told}");
}

/// Every type beside every other that it does not become by itself: the `CAST` that the message names is taken, or the column's other type.
#[test]
fn every_cast_that_a_message_names_can_be_written() {
    let types = [
        "Int64",
        "Float64",
        "Decimal(18, 2)",
        "String",
        "Bool",
        "Date",
        "DateTime('UTC')",
        "DateTime64(3, 'Asia/Kolkata')",
        "UUID",
        "Enum8('a' = 1)",
        "Array(Int64)",
        "Array(Nullable(Int64))",
        "Map(String, Int64)",
    ];
    let planned = |field: &str, select: &str, column: &str| {
        let fields = format!("fields: {{ x: \"{field}\" }}");
        let pipeline =
            pipeline(&format!("{SOURCE}, {fields} }}\nsteps: [{{ select: {{ x: \"{select}\" }} }}]"));
        let table = Schema::new(vec![Column::new("x", clickhouse::types::parse("x", column).unwrap())]);
        let planned = steps::plan(&pipeline, &[table]).map(|_| ());
        planned.map_err(|faults| faults.iter().map(ToString::to_string).collect::<String>())
    };
    let (mut wrong, mut casts) = (Vec::new(), 0);
    for field in types {
        for column in types {
            let Err(message) = planned(field, "x", column) else { continue };
            if let Some((_, rest)) = message.split_once("write `CAST(… AS ") {
                let (to, _) = rest.split_once(")` in a `select`").expect("its end");
                casts += 1;
                if let Err(error) = planned(field, &format!("CAST(x AS {to})"), column) {
                    wrong.push(format!("{field} for {column}: {message}: {error}"));
                }
            }
            let (_, to) = message.split_once("make the column ").expect("the other way");
            if let Err(error) = planned(field, "x", to) {
                wrong.push(format!("{field} for {column}: {message}: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(casts > 35, "{casts}");
}

#[test]
fn every_fault_of_the_steps_is_reported_at_once() {
    let steps = r#"steps:
  - filter: lowr(country) = 'x'
  - select:
      "*": "*"
      country: upper(contry)
      good: cents + 1
      bad: cents +
      third: cents + 1 / 0
  - filter: good = country
  - filter: bad > 1 AND good > 'x'
  - sql: SELECT id, good AS amount, nosuch(at) AS at FROM input
  - filter: never = 1
"#;
    let told = planned(", fields: { cents: Int64 }", steps);
    let places: Vec<&str> = told.lines().filter_map(|line| line.split('`').nth(1)).collect();
    assert_eq!(
        places,
        [
            "steps[0].filter",
            "steps[1].select.country",
            "steps[1].select.bad",
            "steps[1].select.third",
            "steps[4].sql"
        ],
        "what reads a lost column is no fault, nor what stands behind a query at fault: {told}"
    );
    for said in
        ["did you mean `lower`", "did you mean `country`", "divide by zero", "there is no function `nosuch`"]
    {
        assert!(told.contains(said), "{told}");
    }
    // Where everything else is right, a query says what passes as before.
    let steps =
        "steps: [{ filter: country > 1 + 'x' }, { sql: \"SELECT id, cents AS amount, at FROM input\" }]";
    let told = planned(", fields: { cents: Int64 }", steps);
    assert!(told.starts_with("`steps[0].filter`: ") && told.lines().count() == 1, "{told}");
}

#[test]
fn conditions_are_judged_where_a_step_before_them_is_at_fault() {
    let sinks = r#"steps:
  - filter: lowr(country) = 'x'
  - select: { "*": "*", level: "1 +" }
  - sql: SELECT * FROM input
sinks:
  - { clickhouse: { table: a }, where: cuntry = 'de' }
  - { clickhouse: { table: b }, where: level = 1 }
  - { clickhouse: { table: c }, where: amount >> 1 = }
  - { clickhouse: { table: d }, otherwise: true }
"#;
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\" }} }}\n{SOURCE} }}\n{sinks}"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(&text, &around);
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let places = |pipeline: &Pipeline| -> Vec<String> {
        let faults = steps::plan(pipeline, &[table(), table(), table(), table()]).err().expect("faults");
        faults.into_iter().map(|fault| fault.path).collect()
    };
    assert_eq!(
        places(&pipeline),
        ["steps[0].filter", "steps[1].select.level", "sinks[0].where", "sinks[2].where"]
    );
    let without = Pipeline { steps: Vec::new(), ..pipeline };
    assert_eq!(places(&without), ["sinks[0].where", "sinks[1].where", "sinks[2].where"]);
}

/// The table's sign is nobody's to give, and what says that a key is deleted is decoded though no column takes it.
#[test]
fn a_table_that_takes_rows_back_has_a_step_behind_all_others() {
    let signed = Schema::new([table().columns(), &[Column::new("sign", ColumnType::Int8)]].concat());
    let of = |steps: &str, fields: &str| {
        let text = format!(
            "pipeline: p\nsource: {{ kafka: {{ brokers: b, topic: t }}{fields} }}\nsteps: [{steps}]\nsink:\n  clickhouse: {{ url: \"http://localhost:8123\", table: t }}\n  \
             upsert: {{ key: [id], deleted: gone, sign: sign, memory: 8MiB }}\n"
        );
        let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
        let pipeline = config::check(&text, &around).pipeline.expect("it is one");
        let made = crate::wiring::steps::chain(&pipeline, std::slice::from_ref(&signed), 2);
        let made =
            made.map(|chain| chain.steps.iter().map(|step| step.name().to_owned()).collect::<Vec<_>>());
        let plans = steps::plan(&pipeline, std::slice::from_ref(&signed));
        (
            plans.map(|plans| plans.inputs.into_iter().next().expect("one input").plan),
            made.map_err(|error| error.to_string()),
        )
    };
    for (steps, fields, expected) in [
        ("", "", vec!["upsert"]),
        ("{ filter: amount > 3 }", ", fields: { amount: Int32, gone: UInt8 }", vec!["upsert"]),
        (
            "{ dedup: { key: [other], window: 8h, time: at } }",
            ", fields: { other: String }",
            vec!["dedup", "upsert"],
        ),
    ] {
        let (plan, made) = of(steps, fields);
        let plan = plan.unwrap_or_else(|faults| panic!("{steps}: {faults:?}"));
        assert_eq!(made.unwrap(), expected, "{steps}");
        assert!(plan.decoded.index_of("gone").is_some(), "{steps}: it is decoded");
        assert_eq!(
            plan.tables[0].columns.columns(),
            signed.columns(),
            "{steps}: the table has no such column"
        );
        assert_eq!(plan.tables[0].mapping.len(), signed.columns().len());
        let last = plan.stages.last().expect("it is a stage");
        assert_eq!((&*last.path, &*last.reads), ("sink.upsert", &["id".to_owned(), "gone".to_owned()][..]));
    }
    let (behind, _) = of("{ dedup: { key: [id], window: 8h, time: at } }, { filter: amount > 3 }", "");
    let faults = behind.err().expect("nobody knows the rows that it leaves");
    assert!(
        faults[0].to_string().contains("`sink.upsert.sign`: a step without state behind a `dedup`"),
        "{faults:?}"
    );
}
