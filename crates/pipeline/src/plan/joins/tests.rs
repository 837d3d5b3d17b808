use dataflow::{Column, ColumnType, Schema};

use crate::config;
use crate::config::values::reference::Surroundings;
use crate::plan::chain::LaneStep;
use crate::wiring::steps;

const ORDERS: &str = "id: String, created_at: DateTime64(3), country: String, amount: Int32, noise: String";
const PAYMENTS: &str = "order: String, created_at: DateTime64(3), method: String, payment_id: UInt64";
const JOIN: &str = "{ join: { left: orders, right: payments, on: [\"id = order\"], within: 1h } }";

fn checked(inputs: &[(&str, &str)], steps: &str) -> config::model::Pipeline {
    let input = |(name, fields): &(&str, &str)| {
        format!(
            "  {name}: {{ kafka: {{ brokers: b, topic: {name} }}, fields: {{ {fields} }}, time: created_at }}\n"
        )
    };
    let inputs: String = inputs.iter().map(input).collect();
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\ninputs:\n{inputs}steps: [{steps}]"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(&text, &around);
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

fn table(columns: &[(&str, ColumnType)]) -> Schema {
    Schema::new(columns.iter().map(|(name, of_type)| Column::new(*name, of_type.clone())).collect())
}

fn named(schema: &Schema) -> String {
    let column = |c: &Column| format!("{} {}", c.name, clickhouse::types::name(&c.column_type));
    schema.columns().iter().map(column).collect::<Vec<_>>().join(", ")
}

/// The plan in lines, or its faults.
fn planned(inputs: &[(&str, &str)], steps: &str, table: &Schema) -> String {
    let pipeline = checked(inputs, steps);
    let plans = match steps::plan(&pipeline, std::slice::from_ref(table)) {
        Err(faults) => return faults.iter().map(|fault| format!("{fault}\n")).collect(),
        Ok(plans) => plans,
    };
    let mut told = String::new();
    for (input, entry) in plans.inputs.iter().zip(&plans.flow.entries) {
        told += &format!(
            "{}: {}\n  enters {}.{}\n",
            input.name,
            named(&input.plan.input),
            entry.step,
            entry.input
        );
        for stage in &input.plan.stages {
            told += &format!("  {} in {:?}: {}\n", stage.path, stage.place, named(&stage.output));
        }
    }
    for (at, step) in plans.common().lane_steps.iter().enumerate() {
        let word = match step {
            LaneStep::Time { .. } => "time",
            LaneStep::Dedup { .. } => "dedup",
            LaneStep::Gate(_) => "gate",
            LaneStep::Window { .. } => "window",
            LaneStep::Join { .. } => "join",
            LaneStep::Upsert { .. } => "upsert",
            LaneStep::Stateless { .. } => "stateless",
        };
        let next = plans.flow.next(at);
        told += &format!("{at} {word} -> {}.{}\n", next.step, next.input);
    }
    for mapped in &plans.common().tables[0].mapping {
        told += &format!("{} from {:?} {:?}\n", mapped.column, mapped.from, mapped.conversion);
    }
    told
}

fn both() -> [(&'static str, &'static str); 2] {
    [("orders", ORDERS), ("payments", PAYMENTS)]
}

#[test]
fn each_side_decodes_its_key_and_what_is_read_of_it_behind_the_join() {
    let told =
        planned(&both(), JOIN, &table(&[("amount", ColumnType::Int32), ("method", ColumnType::String)]));
    let expected = "\
orders: id String, amount Int32, created_at DateTime64(3)
  enters 0.0
  steps[0].join in Lane: amount Int32, method String
payments: order String, method String, created_at DateTime64(3)
  enters 0.1
  steps[0].join in Lane: amount Int32, method String
0 join -> 1.0
1 stateless -> 2.0
amount from Some(\"amount\") Same
method from Some(\"method\") Same
";
    assert_eq!(told, expected);
}

#[test]
fn what_may_be_absent_of_a_side_is_nullable() {
    let join = JOIN.replace("within: 1h", "within: 1h, kind: left");
    let told =
        planned(&both(), &join, &table(&[("amount", ColumnType::Int32), ("method", ColumnType::String)]));
    assert!(told.contains("steps[0].join in Lane: amount Int32, method Nullable(String)\n"), "{told}");
    assert!(told.ends_with("method from Some(\"method\") Same\n"), "its NULLs make dead letters: {told}");
}

/// Metadata have a map: nobody has to read it for a join of any kind to be planned.
#[test]
fn what_cannot_be_null_is_a_fault_only_if_it_is_read() {
    let with_tags = [("orders", "id: String, created_at: DateTime64(3), tags: Array(String)"), both()[1]];
    for kind in ["right", "full"] {
        let steps = JOIN.replace("within", &format!("kind: {kind}, within"));
        let told = planned(
            &with_tags,
            &steps,
            &table(&[("id", ColumnType::String), ("method", ColumnType::String)]),
        );
        assert!(told.contains("orders: ") && !told.contains("can be NULL"), "{kind}: {told}");
        let tags = ColumnType::Array(Box::new(ColumnType::String));
        let told = planned(&with_tags, &steps, &table(&[("id", ColumnType::String), ("tags", tags)]));
        assert!(told.contains("`tags`") && told.contains("use a column that can be NULL"), "{kind}: {told}");
    }
}

#[test]
fn steps_of_a_side_run_before_the_join_and_steps_behind_it_on_joined_rows() {
    let steps = format!(
        "{{ from: payments, dedup: {{ key: [payment_id], window: 8h }} }}, {{ from: payments, filter: \"method <> 'test'\" }}, {JOIN}, \
         {{ select: {{ \"*\": \"*\", twice: amount * 2 }} }}, {{ dedup: {{ key: [id], window: 8h }} }}"
    );
    let told = planned(&both(), &steps, &table(&[("id", ColumnType::String), ("twice", ColumnType::Int64)]));
    let expected = "\
orders: id String, amount Int32, created_at DateTime64(3)
  enters 2.0
  steps[2].join in Lane: id String, amount Int32
  steps[3].select in Joined: id String, amount Int32, twice Int64
  steps[4].dedup in Joined: id String, twice Int64
payments: order String, created_at DateTime64(3), method String, payment_id UInt64
  enters 0.0
  steps[0].dedup in Lane: `order` of `t` Nullable(String), payment_id UInt64, `1` keeps the row Bool, `sinks` of a row UInt32
  steps[1].filter in Ahead: order String, created_at DateTime64(3), method String, payment_id UInt64
  steps[2].join in Lane: id String, amount Int32
  steps[3].select in Joined: id String, amount Int32, twice Int64
  steps[4].dedup in Joined: id String, twice Int64
0 dedup -> 1.0
1 gate -> 2.1
2 join -> 3.0
3 stateless -> 4.0
4 stateless -> 5.0
5 dedup -> 6.0
id from Some(\"id\") Same
twice from Some(\"twice\") Same
";
    assert_eq!(told, expected);
}

#[test]
fn joins_in_a_row_hand_on_only_what_is_needed() {
    let inputs = [
        ("orders", ORDERS),
        ("payments", PAYMENTS),
        ("refunds", "payment: UInt64, created_at: DateTime64(3), cents: Int64"),
    ];
    let steps = format!(
        "{}, {{ from: paid, filter: amount > 0 }}, {{ join: {{ left: paid, right: refunds, on: [\"payment_id = payment\"], within: 1d, kind: left }} }}, \
         {{ window: {{ key: [country], size: 1h, aggregates: {{ refunded: sum(cents) }} }} }}",
        JOIN.replace("within: 1h", "within: 1h, as: paid")
    );
    let time = || ColumnType::DateTime64 { precision: 3, timezone: None };
    let columns = [
        ("country", ColumnType::String),
        ("window_start", time()),
        ("refunded", ColumnType::Nullable(Box::new(ColumnType::Int64))),
    ];
    let told = planned(&inputs, &steps, &table(&columns));
    let expected = "\
orders: id String, country String, amount Int32, created_at DateTime64(3)
  enters 0.0
  steps[0].join in Lane: country String, amount Int32, payment_id UInt64
  steps[1].filter in Joined: country String, amount Int32, payment_id UInt64
  steps[2].join in Joined: country String, cents Nullable(Int64)
  steps[3].window in Joined: country String, window_start DateTime64(3, 'UTC'), window_end DateTime64(3, 'UTC'), refunded Nullable(Int64)
payments: order String, payment_id UInt64, created_at DateTime64(3)
  enters 0.1
  steps[0].join in Lane: country String, amount Int32, payment_id UInt64
  steps[1].filter in Joined: country String, amount Int32, payment_id UInt64
  steps[2].join in Joined: country String, cents Nullable(Int64)
  steps[3].window in Joined: country String, window_start DateTime64(3, 'UTC'), window_end DateTime64(3, 'UTC'), refunded Nullable(Int64)
refunds: payment UInt64, cents Int64, created_at DateTime64(3)
  enters 3.1
  steps[2].join in Lane: country String, cents Nullable(Int64)
  steps[3].window in Joined: country String, window_start DateTime64(3, 'UTC'), window_end DateTime64(3, 'UTC'), refunded Nullable(Int64)
0 join -> 1.0
1 stateless -> 2.0
2 stateless -> 3.0
3 join -> 4.0
4 stateless -> 5.0
5 window -> 6.0
6 stateless -> 7.0
country from Some(\"country\") Same
window_start from Some(\"window_start\") Same
refunded from Some(\"refunded\") Same
";
    assert_eq!(told, expected);
}

#[test]
fn a_dedup_of_an_input_may_name_its_time_though_another_join_stands_before_it() {
    let steps = format!(
        "{}, {{ from: refunds, dedup: {{ key: [payment], window: 8h, time: created_at }} }}, \
         {{ join: {{ left: paid, right: refunds, on: [\"payment_id = payment\"], within: 1d }} }}",
        JOIN.replace("within: 1h", "within: 1h, as: paid")
    );
    let told = planned(&three(), &steps, &table(&[("reason", ColumnType::String)]));
    assert!(told.contains("steps[1].dedup in Lane"), "{told}");
}

#[test]
fn what_cannot_be_planned_says_where_and_what_to_write() {
    let of = |join: &str, columns: &[(&str, ColumnType)]| planned(&both(), join, &table(columns));
    let time = || ColumnType::DateTime64 { precision: 3, timezone: None };
    let amount = [("amount", ColumnType::Int32)];
    let told = of(JOIN, &[("created_at", time())]);
    assert_eq!(
        told,
        "`steps[0].join`: `created_at` is a column of both sides; say which one under `columns`, as in `columns: { created_at: orders.created_at }`, \
         or `payments.created_at`\n"
    );
    let renamed = JOIN.replace("within: 1h", "within: 1h, columns: { created_at: payments.created_at }");
    assert!(of(&renamed, &[("created_at", time())]).ends_with("created_at from Some(\"created_at\") Same\n"));
    let told = of(&JOIN.replace("id = order", "id = ordr"), &amount);
    assert_eq!(
        told,
        "`steps[0].join.on[0]`: the type of `ordr` of `payments` is not known; write `fields: { ordr: String }` under `inputs.payments:`, with its type; \
         did you mean `order`?\n"
    );
    let told = of(&JOIN.replace("within: 1h", "within: 1h, columns: { at: orders.at }"), &amount);
    assert!(
        told.starts_with("`steps[0].join.columns.at`: the type of `at` of `orders` is not known"),
        "{told}"
    );
    let told = of(&JOIN.replace("id = order", "id = payment_id"), &amount);
    assert!(told.contains("steps[0].join") && told.contains("payment_id"), "{told}");
    let told = of(JOIN, &[("amount", ColumnType::Int32), ("unheard", ColumnType::Int32)]);
    assert!(told.contains("no step gives column `unheard` (Int32)"), "{told}");
}

/// The plan of a join whose unmatched rows have tables, or its faults; and what the state of the join is known by.
fn beside(join: &str, sinks: &str, tables: &[Schema]) -> Result<(String, String), String> {
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\" }} }}\nsinks: [{sinks}]\ninputs:\n  orders: {{ kafka: {{ brokers: b, topic: o }}, \
         fields: {{ {ORDERS} }}, time: created_at }}\n  payments: {{ kafka: {{ brokers: b, topic: p }}, fields: {{ {PAYMENTS} }}, time: created_at }}\nsteps: [{join}]"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(&text, &around);
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let plans = steps::plan(&pipeline, tables)
        .map_err(|faults| faults.iter().map(|fault| format!("{fault}\n")).collect::<String>())?;
    let mut told = String::new();
    for input in &plans.inputs {
        told += &format!("{}: {}\n", input.name, named(&input.plan.input));
        told += &format!("  reads {}\n", input.plan.stages[0].reads.join(", "));
    }
    for table in &plans.common().tables {
        told += &format!("{}\n", table.name);
        for mapped in &table.mapping {
            assert_eq!(mapped.field, None, "a row behind a join is no record");
            told += &format!("  {} from {:?} {:?}\n", mapped.column, mapped.from, mapped.conversion);
        }
    }
    let mut chain = steps::chain(&pipeline, tables, 1).map_err(|error| error.to_string())?;
    for side in &chain.sides {
        told += &format!("step {} {:?} -> {}\n", side.step, side.rows, side.table);
    }
    let shape = chain.steps[0].state().expect("a join has one").shape();
    Ok((told, shape))
}

const SINKS: &str = "{ from: paid.right_unmatched, clickhouse: { table: free }, columns: { at: created_at } }, { clickhouse: { table: t } }, \
                     { from: paid.left_unmatched, clickhouse: { table: unpaid } }";

#[test]
fn rows_without_a_match_bring_their_table_what_it_has_columns_for() {
    let join = JOIN.replace("within: 1h", "within: 1h, as: paid");
    let time = ColumnType::DateTime64 { precision: 3, timezone: None };
    let t = table(&[("amount", ColumnType::Int32), ("method", ColumnType::String)]);
    let free = table(&[("payment_id", ColumnType::UInt64), ("at", time)]);
    let unpaid =
        table(&[("id", ColumnType::String), ("amount", ColumnType::Int64), ("note", ColumnType::String)]);
    let (told, shape) = beside(&join, SINKS, &[t.clone(), free, unpaid]).expect("a plan");
    let expected = "\
orders: id String, amount Int32, note String, created_at DateTime64(3)
  reads id, amount, note
payments: order String, method String, payment_id UInt64, created_at DateTime64(3)
  reads order, method, payment_id, created_at
t
  amount from Some(\"amount\") Same
  method from Some(\"method\") Same
free
  payment_id from Some(\"payment_id\") Same
  at from Some(\"created_at\") Same
unpaid
  id from Some(\"id\") Same
  amount from Some(\"amount\") Lossless
  note from Some(\"note\") Same
step 0 Unmatched(0) -> 2
step 0 Unmatched(1) -> 1
";
    assert_eq!(told, expected);
    let plain = |sinks: &str, tables: &[Schema]| beside(&join, sinks, tables).expect("a plan").1;
    let without = plain("{ clickhouse: { table: t } }", std::slice::from_ref(&t));
    assert_ne!(shape, without, "it holds more columns");
    let of_held = table(&[("amount", ColumnType::Int32)]);
    let sinks = "{ clickhouse: { table: t } }, { from: paid.left_unmatched, clickhouse: { table: unpaid } }";
    assert_eq!(plain(sinks, &[t, of_held]), without, "a table of what is held may come and go");
}

#[test]
fn a_table_that_cannot_have_rows_without_a_match_is_a_fault() {
    let join = JOIN.replace("within: 1h", "within: 1h, as: paid");
    let t = table(&[("amount", ColumnType::Int32)]);
    let told = |column: (&str, ColumnType)| {
        let sinks =
            "{ clickhouse: { table: t } }, { from: paid.left_unmatched, clickhouse: { table: unpaid } }";
        beside(&join, sinks, &[t.clone(), table(&[column])]).expect_err("a fault")
    };
    assert_eq!(
        told(("amount", ColumnType::Int16)),
        "`sinks[1]`: unmatched rows are written as they came to the join, so every column must fit them: `amount` is Int32, and column `amount` of \
         table `unpaid` is Int16; make the column Int32\n"
    );
}

#[test]
fn rows_of_a_join_without_a_match_in_the_next_one_have_the_columns_that_joined_rows_have() {
    let inputs = "pipeline: p
sink: { clickhouse: { url: \"http://localhost:8123\" } }
sinks: [ { clickhouse: { table: t } }, { from: returned.left_unmatched, clickhouse: { table: kept } } ]
inputs:
  orders: { kafka: { brokers: b, topic: o }, fields: { id: String, created_at: DateTime64(3), amount: Int32 }, time: created_at }
  payments: { kafka: { brokers: b, topic: p }, fields: { order: String, created_at: DateTime64(3), method: String }, time: created_at }
  refunds: { kafka: { brokers: b, topic: r }, fields: { of: String, created_at: DateTime64(3), cents: Int64 }, time: created_at }
steps:
  - join: { left: orders, right: payments, on: [\"id = order\"], within: 1h, as: paid }
  - join: { left: paid, right: refunds, on: [\"id = of\"], within: 1h, as: returned }
";
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(inputs, &around);
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let t = table(&[("cents", ColumnType::Int64)]);
    let chain = |kept: Schema| steps::chain(&pipeline, &[t.clone(), kept], 1);
    let kept = table(&[("method", ColumnType::String), ("amount", ColumnType::Int32)]);
    let chain_of = chain(kept).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(chain_of.sides.len(), 1);
    let mut with_state = chain_of.steps.iter().enumerate().filter(|(_, step)| step.inputs() == 2);
    assert_eq!(with_state.nth(1).map(|(at, _)| at), Some(chain_of.sides[0].step));
    let told = chain(table(&[("unheard", ColumnType::String)])).err().expect("a fault").to_string();
    assert!(told.contains("no step before the join gives `unheard`"), "{told}");
}

const RATES: &str = "op: String, currency: String, rate: Int64, at: DateTime64(3)";

fn temporal() -> [(&'static str, &'static str); 2] {
    [("orders", "id: String, created_at: DateTime64(3), currency: String"), ("rates", RATES)]
}

#[test]
fn the_condition_of_a_deletion_is_computed_before_the_join_and_goes_no_further() {
    let inputs = temporal().map(|(name, fields)| (name, fields.replace(" at:", " created_at:")));
    let inputs = inputs.each_ref().map(|(name, fields)| (*name, fields.as_str()));
    let join = "{ from: rates, filter: rate > 0 }, \
                { join: { left: orders, right: rates, on: [currency], as_of: orders, deleted: \"op = 'd'\", kind: left } }";
    let told = planned(&inputs, join, &table(&[("id", ColumnType::String), ("rate", ColumnType::Int64)]));
    let expected = "\
orders: currency String, id String, created_at DateTime64(3)
  enters 0.0
  steps[1].join in Lane: id String, rate Nullable(Int64)
rates: currency String, rate Int64, op String, created_at DateTime64(3)
  enters 0.1
  steps[0].filter in DecodeJob: currency String, rate Int64, op String, created_at DateTime64(3)
  steps[1].join.deleted in DecodeJob: currency String, rate Int64, op String, created_at DateTime64(3), `is deleted` Bool
  steps[1].join in Lane: id String, rate Nullable(Int64)
0 join -> 1.0
1 stateless -> 2.0
id from Some(\"id\") Same
rate from Some(\"rate\") Same
";
    assert_eq!(told, expected);
}

/// A record without a body says so by a column that the source fills.
#[test]
fn a_record_without_a_body_may_be_a_deletion() {
    let inputs = temporal().map(|(name, fields)| (name, fields.replace(" at:", " created_at:")));
    let inputs = inputs.each_ref().map(|(name, fields)| (*name, fields.as_str()));
    let join = "{ join: { left: orders, right: rates, on: [currency], as_of: orders, deleted: _tombstone, kind: left } }";
    let told = planned(&inputs, join, &table(&[("id", ColumnType::String), ("rate", ColumnType::Int64)]));
    assert!(
        told.contains("rates: currency String, rate Int64, created_at DateTime64(3), _tombstone Bool"),
        "{told}"
    );
}

#[test]
fn a_deletion_that_is_no_condition_is_refused_where_it_stands() {
    let inputs = temporal().map(|(name, fields)| (name, fields.replace(" at:", " created_at:")));
    let inputs = inputs.each_ref().map(|(name, fields)| (*name, fields.as_str()));
    let told = |deleted: &str| {
        let join = format!(
            "{{ join: {{ left: orders, right: rates, on: [currency], as_of: orders, deleted: \"{deleted}\" }} }}"
        );
        planned(&inputs, &join, &table(&[("id", ColumnType::String), ("rate", ColumnType::Int64)]))
    };
    let message = told("rate + 1");
    assert!(message.contains("steps[0].join.deleted") && message.contains("true or false"), "{message}");
    let message = told("opp = 'd'");
    assert!(message.contains("steps[0].join.deleted") && message.contains("opp"), "{message}");
}

/// The lane's steps, and the words that the state of the join is known by.
fn state_of(steps: &str, table: &Schema) -> (String, String) {
    let pipeline = checked(&both(), steps);
    let plans =
        steps::plan(&pipeline, std::slice::from_ref(table)).unwrap_or_else(|faults| panic!("{faults:?}"));
    let joins = plans.common().lane_steps.iter().filter_map(|step| match step {
        LaneStep::Join { config, sides: [left, right], .. } => Some((config, left, right)),
        _ => None,
    });
    let [(config, left, right)] = joins.collect::<Vec<_>>()[..] else { panic!("one join") };
    let mut step = config.step((left, right), 1 << 20, false).expect("it fits");
    let shape = step.state().expect("it has a state").shape();
    (planned(&both(), steps, table), shape)
}

const ON: &str = "ON o.id = p.order AND p.created_at BETWEEN o.created_at - INTERVAL '1 hour' AND o.created_at + INTERVAL '1 hour'";

#[test]
fn a_join_in_sql_has_the_state_of_the_step() {
    let table = table(&[("amount", ColumnType::Int32), ("method", ColumnType::String)]);
    let (_, of_step) = state_of(JOIN, &table);
    for list in ["amount, method", "p.method, o.amount", "*", "o.amount, method AS method"] {
        let (told, of_query) = state_of(
            &format!("{{ sql: \"SELECT {list} FROM orders AS o JOIN payments AS p {ON}\" }}"),
            &table,
        );
        assert_eq!(of_query, of_step, "{list}");
        assert!(told.contains("steps[0].join in Lane") && told.contains("steps[0].sql in Joined"), "{told}");
    }
}

#[test]
fn the_select_list_and_the_filter_of_a_join_in_sql_see_the_joined_rows() {
    let query = format!(
        "{{ sql: \"SELECT o.id, p.created_at AS paid_at, o.amount * 2 AS twice FROM orders AS o LEFT JOIN payments AS p {ON} WHERE p.order IS NULL OR country = 'at'\" }}"
    );
    let columns = [
        ("id", ColumnType::String),
        ("paid_at", ColumnType::Nullable(Box::new(ColumnType::DateTime64 { precision: 3, timezone: None }))),
        ("twice", ColumnType::Int64),
    ];
    let told = planned(&both(), &query, &table(&columns));
    let expected = "\
orders: id String, country String, amount Int32, created_at DateTime64(3)
  enters 0.0
  steps[0].join in Lane: o.id String, country String, o.amount Int32, p.order Nullable(String), p.created_at Nullable(DateTime64(3))
  steps[0].sql in Joined: id String, paid_at Nullable(DateTime64(3)), twice Int64
payments: order String, created_at DateTime64(3)
  enters 0.1
  steps[0].join in Lane: o.id String, country String, o.amount Int32, p.order Nullable(String), p.created_at Nullable(DateTime64(3))
  steps[0].sql in Joined: id String, paid_at Nullable(DateTime64(3)), twice Int64
0 join -> 1.0
1 stateless -> 2.0
2 stateless -> 3.0
id from Some(\"id\") Same
paid_at from Some(\"paid_at\") Same
twice from Some(\"twice\") Same
";
    assert_eq!(told, expected);
}

#[test]
fn a_join_in_sql_compares_the_time_that_a_dedup_before_it_takes() {
    let of = |time: &str, compared: &str| {
        let text = format!(
            "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\ninputs:\n  \
             orders: {{ kafka: {{ brokers: b, topic: orders }}, fields: {{ id: String, created: DateTime64(3) }}{time} }}\n  \
             payments: {{ kafka: {{ brokers: b, topic: payments }}, fields: {{ order: String }} }}\nsteps:\n  \
             - {{ from: orders, dedup: {{ key: [id], window: 8h, time: created }} }}\n  \
             - sql: \"SELECT o.id FROM orders AS o JOIN payments AS p ON o.id = p.order AND p._timestamp BETWEEN o.{compared} AND \
             o.{compared} + INTERVAL '1 hour'\"\n"
        );
        let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
        let checked = config::check(&text, &around);
        let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
        steps::plan(&pipeline, &[table(&[("id", ColumnType::String)])]).map(drop)
    };
    let faults = of("", "_timestamp").expect_err("the rows of `orders` have another time");
    assert_eq!(faults[0].path, "steps[1].sql");
    let message = "`_timestamp` is not the event time of `orders`, by which rows are joined, for that is `created`; the `dedup` before takes it";
    assert!(faults[0].message.starts_with(message), "{}", faults[0].message);
    assert_eq!(of(", time: created", "created"), Ok(()));
}

#[test]
fn the_faults_of_a_join_in_sql_stand_at_their_character() {
    let text = format!("SELECT o.id, p.amounts FROM orders AS o JOIN payments AS p {ON}");
    let pipeline = checked(&both(), &format!("{{ sql: \"{text}\" }}"));
    let faults = steps::plan(&pipeline, &[table(&[("id", ColumnType::String)])]).err().expect("a fault");
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!(fault.path, "steps[0].sql");
    assert_eq!(fault.at.clone().map(|at| &text[at]), Some("p.amounts"));
    let text = format!("SELECT created_at FROM orders AS o JOIN payments AS p {ON}");
    let pipeline = checked(&both(), &format!("{{ sql: \"{text}\" }}"));
    let faults = steps::plan(
        &pipeline,
        &[table(&[("created_at", ColumnType::DateTime64 { precision: 3, timezone: None })])],
    )
    .err()
    .expect("a fault");
    assert_eq!(faults[0].at.clone(), Some(7..17), "{faults:?}");
}

#[test]
fn a_window_behind_a_join_in_sql_takes_the_rows_of_its_select_list() {
    let steps = format!(
        "{{ sql: \"SELECT o.country AS land, p.method FROM orders AS o JOIN payments AS p {ON}\" }}, {{ window: {{ key: [land], size: 1m, aggregates: {{ n: count(method) }} }} }}"
    );
    let told = planned(&both(), &steps, &table(&[("land", ColumnType::String), ("n", ColumnType::UInt64)]));
    assert!(
        told.contains("steps[0].sql in Joined: land String, method String\n  steps[1].window in Joined"),
        "{told}"
    );
}

const REFUNDS: &str = "payment: UInt64, created_at: DateTime64(3), reason: String, method: Int32";

fn three() -> [(&'static str, &'static str); 3] {
    [("orders", ORDERS), ("payments", PAYMENTS), ("refunds", REFUNDS)]
}

/// The key of a later join is handed on by those before it, and goes no further.
#[test]
fn several_joins_in_a_query_are_steps_in_a_row_and_hand_on_only_what_is_needed() {
    let query = "{ sql: \"SELECT o.id, amount, r.reason FROM orders AS o JOIN payments AS p ON o.id = p.order AND p.created_at BETWEEN o.created_at AND o.created_at + INTERVAL '1 hour' \
                 LEFT JOIN refunds AS r ON r.payment = p.payment_id AND r.created_at BETWEEN p.created_at AND p.created_at + INTERVAL '1 day' WHERE country <> 'xx'\" }, { filter: amount > 3 }";
    let columns = [
        ("id", ColumnType::String),
        ("amount", ColumnType::Int32),
        ("reason", ColumnType::Nullable(Box::new(ColumnType::String))),
    ];
    let told = planned(&three(), query, &table(&columns));
    let expected = "\
orders: id String, country String, amount Int32, created_at DateTime64(3)
  enters 0.0
  steps[0].join in Lane: o.id String, country String, amount Int32, p.payment_id UInt64
  steps[0].join in Joined: o.id String, country String, amount Int32, r.reason Nullable(String)
  steps[0].sql in Joined: id String, amount Int32, reason Nullable(String)
  steps[1].filter in Joined: id String, amount Int32, reason Nullable(String)
payments: order String, payment_id UInt64, created_at DateTime64(3)
  enters 0.1
";
    assert!(told.starts_with(expected), "{told}");
    assert!(
        told.contains("refunds: payment UInt64, reason String, created_at DateTime64(3)\n  enters 2.1\n"),
        "{told}"
    );
    assert!(told.contains("0 join -> 1.0\n1 stateless -> 2.0\n2 join -> 3.0\n"), "{told}");
}

#[test]
fn faults_of_a_query_with_several_joins_stand_where_the_file_has_them() {
    let told = |(query, filter): (&str, &str)| {
        let text = format!(
            "{{ from: orders, filter: amount > 0 }}, {{ sql: \"{query}\" }}, {{ filter: \"{filter}\" }}"
        );
        planned(&three(), &text, &table(&[("id", ColumnType::String)]))
    };
    let query = |list: &str, key: &str| {
        format!(
            "SELECT {list} FROM orders AS o JOIN payments AS p ON o.id = p.order AND p.created_at = o.created_at JOIN refunds AS r ON r.payment = p.{key} AND r.created_at = p.created_at"
        )
    };
    let good = "id <> ''";
    let faults = [
        (query("o.id", "payment"), good, "`steps[1].sql`: the type of `payment` of `payments` is not known"),
        (query("o.id", "order"), good, "`steps[1].sql`: "),
        (query("o.idd", "payment_id"), good, "`steps[1].sql`: the type of `idd` of `orders` is not known"),
        (
            query("o.id, method", "payment_id"),
            good,
            "`steps[1].sql`: `method` is a column of several inputs; write one of `o.method`, `p.method`, `r.method`",
        ),
        (query("o.id", "payment_id"), "nothing > 3", "`steps[2].filter`: there is no column `nothing`"),
    ];
    for (query, filter, expected) in faults {
        let told = told((&query, filter));
        assert!(told.starts_with(expected), "{query}: {told}");
    }
}

#[test]
fn the_time_of_the_rows_that_a_window_over_a_join_names_need_not_be_read() {
    let query = "{ sql: \"SELECT id, count(*) AS n FROM TUMBLE((SELECT o.id, p.created_at AS paid_at FROM orders AS o JOIN payments AS p ON o.id = p.order AND p.created_at BETWEEN \
                 o.created_at AND o.created_at + INTERVAL '1 hour'), paid_at, INTERVAL '1 minute') GROUP BY window_start, window_end, id\" }";
    let told = planned(&both(), query, &table(&[("id", ColumnType::String), ("n", ColumnType::UInt64)]));
    assert!(told.contains("  steps[0].window in Joined: id String"), "{told}");
    assert!(told.contains("id from Some(\"id\") Same"), "{told}");
}
