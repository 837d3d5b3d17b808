use crate::config::model::Pipeline;
use crate::config::values::reference::Surroundings;

fn checked(query: &str) -> Result<Pipeline, String> {
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\n\
         source: {{ kafka: {{ brokers: b, topic: t }}, fields: {{ device: String, at: DateTime64(3), amount: Int64 }} }}\nsteps:\n  - sql: >-\n      {query}\n"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = crate::config::check(&text, &around);
    checked.pipeline.ok_or_else(|| checked.faults.render("test"))
}

#[test]
fn a_query_over_windows_is_the_window_step() {
    let query = "SELECT window_start, device, count(*) AS n, sum(amount) FILTER (WHERE amount > 3) AS total FROM HOP(input, at, \
                 INTERVAL '10 seconds', INTERVAL '1 minute', lateness => INTERVAL '2 seconds') GROUP BY window_start, window_end, device";
    let pipeline = checked(query).unwrap();
    let [step] = &pipeline.steps[..] else { panic!("one step") };
    let window = step.window.as_ref().expect("a window");
    assert_eq!(step.word(), "window");
    let told = serde_json::to_value(window).unwrap();
    let expected = serde_json::json!({
        "key": ["device"], "time": "at", "size": "1m", "slide": "10s", "lateness": "2s", "memory": "256MiB",
        "aggregates": { "n": "count(*)", "total": "sum(amount) FILTER (WHERE amount > 3)" }
    });
    assert_eq!(told, expected);
}

#[test]
fn a_fault_of_such_a_query_stands_at_the_step() {
    let query = "SELECT count(*) AS n FROM TUMBLE(input, at, INTERVAL '1 minute') WHERE sum(amount) > 3 GROUP BY window_start, window_end";
    let faults = checked(query).unwrap_err();
    let expected = format!(
        "test:6:{}: `sum(amount)` is a result, and WHERE sees the records; write the condition behind HAVING",
        7 + query.find("sum(amount)").unwrap()
    );
    assert!(faults.contains(&expected), "{faults}");
    let short = query.replace(" WHERE sum(amount) > 3", "").replace("1 minute", "1 millisecond");
    assert!(checked(&short).unwrap_err().contains("too short"));
}

#[test]
fn conditions_and_expressions_over_results_are_steps_around_the_windows() {
    let query = "SELECT device AS d, sum(amount) / count(*) AS mean FROM TUMBLE(input, at, INTERVAL '1 minute') WHERE amount > 3 GROUP BY window_start, window_end, device HAVING max(amount) < 100";
    let pipeline = checked(query).unwrap();
    let words: Vec<&str> = pipeline.steps.iter().map(|step| step.word()).collect();
    assert_eq!(words, ["sql", "window", "sql", "sql"]);
    let texts = pipeline.steps.iter().skip(2).filter_map(|step| step.sql.as_deref());
    let texts: Vec<String> =
        texts.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        texts,
        [
            "SELECT * FROM input WHERE aggregate_3 < 100",
            "SELECT * EXCEPT (device, aggregate_1, aggregate_2, aggregate_3), device AS d, aggregate_1 / aggregate_2 AS mean FROM input",
        ]
    );
}

#[test]
fn conditional_aggregates_medians_and_states_are_those_of_the_window_too() {
    let query = "SELECT device, countIf(amount > 3) AS large, sumState(amount) AS total, median(amount) AS middle FROM TUMBLE(input, at, INTERVAL '1 minute') \
                 GROUP BY window_start, window_end, device HAVING countIf(amount > 3) > 1";
    let pipeline = checked(query).unwrap();
    let words: Vec<&str> = pipeline.steps.iter().map(|step| step.word()).collect();
    assert_eq!(words, ["window", "sql"]);
    let told = serde_json::to_value(pipeline.steps[0].window.as_ref().expect("a window")).unwrap();
    let expected = serde_json::json!({ "large": "countIf(amount > 3)", "total": "sumState(amount)", "middle": "median(amount)" });
    assert_eq!(told["aggregates"], expected);
    let having = pipeline.steps[1].sql.as_deref().unwrap();
    let having = having.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(having, "SELECT * FROM input WHERE large > 1");
}

#[test]
fn columns_under_the_alias_of_the_windows_are_those_of_the_step() {
    let query = "SELECT w.device, sum(w.amount) AS total FROM TUMBLE(input, at, INTERVAL '1 minute') AS w GROUP BY w.window_start, w.window_end, w.device";
    let pipeline = checked(query).unwrap();
    let [step] = &pipeline.steps[..] else { panic!("one step") };
    let told = serde_json::to_value(step.window.as_ref().expect("a window")).unwrap();
    assert_eq!(told["key"], serde_json::json!(["device"]));
    assert_eq!(told["aggregates"], serde_json::json!({ "total": "sum(amount)" }));
}

/// The pipeline with two inputs and these steps.
fn joined(steps: &str) -> Pipeline {
    let input = |topic: &str, fields: &str| {
        format!("{{ kafka: {{ brokers: b, topic: {topic} }}, fields: {{ {fields} }}, time: at }}")
    };
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\ninputs:\n  orders: {}\n  payments: {}\nsteps:\n{steps}\n",
        input("o", "id: String, at: DateTime64(3), country: String"),
        input("p", "order_id: String, at: DateTime64(3), amount: Int64")
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = crate::config::check(&text, &around);
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

#[test]
fn a_query_over_two_inputs_is_the_join_step() {
    let query = "SELECT o.id, p.amount FROM orders AS o FULL JOIN payments AS p ON o.id = p.order_id AND p.at BETWEEN o.at - INTERVAL '5 minutes' AND o.at + INTERVAL '1 hour'";
    let pipeline = joined(&format!("  - sql: \"{query}\""));
    let [step] = &pipeline.steps[..] else { panic!("one step") };
    assert_eq!((step.word(), step.sql.is_none()), ("join", true));
    let told = serde_json::to_value(step.join.as_ref().expect("a join")).unwrap();
    let written = joined(
        "  - join: { left: orders, right: payments, on: [\"id = order_id\"], before: 5m, after: 1h, kind: full }",
    );
    let mut expected = serde_json::to_value(written.steps[0].join.as_ref().expect("a join")).unwrap();
    expected["query"] = query.into();
    assert_eq!(told, expected, "and the text goes to the journal, so that `plan` can show a change of it");
}

#[test]
fn a_query_with_versions_is_the_temporal_join() {
    let query = "SELECT o.id FROM orders AS o LEFT JOIN payments FOR SYSTEM_TIME AS OF o.at AS p ON o.id = p.order_id";
    let pipeline = joined(&format!("  - sql: \"{query}\""));
    let told = serde_json::to_value(pipeline.steps[0].join.as_ref().expect("a join")).unwrap();
    let written = joined(
        "  - join: { left: orders, right: payments, on: [\"id = order_id\"], as_of: orders, kind: left }",
    );
    let mut expected = serde_json::to_value(written.steps[0].join.as_ref().expect("a join")).unwrap();
    expected["query"] = query.into();
    assert_eq!(told, expected);
}

/// The steps of a file with four inputs, as they are in the journal, each with the key that the file has it under.
fn steps(queries: &[&str]) -> Result<Vec<(serde_json::Value, String)>, String> {
    let input = |topic: &str, fields: &str| {
        format!("{{ kafka: {{ brokers: b, topic: {topic} }}, fields: {{ {fields} }}, time: at }}")
    };
    let steps: String = queries.iter().map(|query| format!("  - {query}\n")).collect();
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\ninputs:\n  orders: {}\n  payments: {}\n  refunds: {}\nsteps:\n{steps}",
        input("o", "id: String, at: DateTime64(3), country: String"),
        input("p", "id: String, order_id: String, at: DateTime64(3), amount: Int64"),
        input("r", "payment: String, at: DateTime64(3), reason: String")
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = crate::config::check(&text, &around);
    let Some(pipeline) = checked.pipeline else { return Err(checked.faults.render("test")) };
    let step = |(at, step): (usize, &crate::config::model::step::Step)| {
        let mut told = serde_json::to_value(step).expect("a step is JSON");
        if let Some(join) = told.get_mut("join") {
            join.as_object_mut().expect("its settings").remove("query");
        }
        (told, pipeline.step_in_file(at))
    };
    Ok(pipeline.steps.iter().enumerate().map(step).collect())
}

const THREE: &str = "SELECT o.id, p.amount, r.reason, r.at AS at FROM orders AS o JOIN payments AS p ON o.id = p.order_id AND p.at BETWEEN o.at AND o.at + INTERVAL '1 hour' \
                     LEFT JOIN refunds AS r ON r.payment = p.id AND r.at BETWEEN p.at AND p.at + INTERVAL '1 day'";

#[test]
fn a_query_with_several_joins_is_a_step_for_each() {
    let filter = "{ from: orders, filter: \"country = 'at'\" }";
    let told = steps(&[filter, &format!("sql: \"{THREE}\""), "filter: amount > 3"]).unwrap();
    let join = |left: &str, right: &str, on: &str, after: &str, kind: &str, name: Option<&str>| {
        let mut join = serde_json::json!({
            "left": left, "right": right, "on": [on], "before": "0ms", "after": after, "kind": kind, "lateness": "0ms", "memory": "256MiB"
        });
        if let Some(name) = name {
            join["as"] = name.into();
        }
        serde_json::json!({ "join": join })
    };
    let both = "orders JOIN payments";
    assert_eq!(
        told[1],
        (join("orders", "payments", "id = order_id", "1h", "inner", Some(both)), "steps[1].sql".into())
    );
    assert_eq!(told[2], (join(both, "refunds", "p.id = payment", "1d", "left", None), "steps[1].sql".into()));
    assert_eq!((told.len(), told[3].1.as_str()), (4, "steps[2].filter"));
}

#[test]
fn queries_within_each_other_are_steps_behind_each_other() {
    let hop = "SELECT window_start, window_end, window_time, order_id, count(*) AS num FROM HOP(input, at, INTERVAL '2 seconds', INTERVAL '10 seconds') \
               GROUP BY window_start, window_end, window_time, order_id";
    let query = format!(
        "WITH hops AS ({hop}) SELECT most FROM (SELECT max(num) AS most FROM TUMBLE(hops, window_time, INTERVAL '2 seconds') GROUP BY window_start, window_end) WHERE most > 3"
    );
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\n\
         source: {{ kafka: {{ brokers: b, topic: t }}, fields: {{ order_id: String, at: DateTime64(3) }} }}\nsteps:\n  - sql: >-\n      {query}\n  - filter: most < 9\n"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = crate::config::check(&text, &around);
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let words: Vec<&str> = pipeline.steps.iter().map(|step| step.word()).collect();
    assert_eq!(words, ["window", "window", "sql", "filter"]);
    let [first, second] = [0, 1].map(|at| serde_json::to_value(&pipeline.steps[at].window).unwrap());
    assert_eq!((&first["time"], &second["time"]), (&"at".into(), &serde_json::Value::Null));
    assert_eq!(first["key"], serde_json::json!(["order_id"]));
    assert_eq!(pipeline.steps[2].sql.as_deref(), Some("SELECT most FROM input WHERE most > 3"));
    let places: Vec<String> = (0..4).map(|at| pipeline.step_in_file(at)).collect();
    assert_eq!(places, ["steps[0].sql", "steps[0].sql", "steps[0].sql", "steps[1].filter"]);
    let at = pipeline.steps[2].sql.as_ref().unwrap().find("most > 3").unwrap();
    let (path, place) = pipeline.in_file("steps[2].sql", Some(at..at + 8));
    let begin = query.find("most > 3").unwrap();
    assert_eq!((path.as_str(), place), ("steps[0].sql", Some(begin..begin + 8)));
}

#[test]
fn a_window_over_a_join_names_the_column_that_the_time_of_the_rows_is() {
    let window = |time: &str| {
        format!(
            "SELECT id, count(*) AS n FROM TUMBLE(input, {time}, INTERVAL '1 minute') GROUP BY window_start, window_end, id"
        )
    };
    let two = "SELECT o.id, p.at AS paid_at, o.at AS ordered_at FROM orders AS o JOIN payments AS p ON o.id = p.order_id AND p.at BETWEEN o.at AND o.at + INTERVAL '1 hour' \
               LEFT JOIN refunds AS r ON r.payment = p.id AND r.at = p.at";
    let nested = |time: &str| window(time).replace("input", &format!("({two})"));
    let told = steps(&[&format!("sql: \"{}\"", nested("paid_at"))]).unwrap();
    assert_eq!(told.last().unwrap().0["window"]["key"], serde_json::json!(["id"]));
    assert_eq!(told.last().unwrap().0["window"]["time"], serde_json::Value::Null);
    let wrong = steps(&[&format!("sql: \"{}\"", nested("ordered_at"))]).unwrap_err();
    assert!(
        wrong.contains("the later of its inputs' times, which `ordered_at` need not be; write `paid_at`"),
        "{wrong}"
    );
    // The same in steps of their own.
    let of = |time: &str, between: &str| {
        steps(&[&format!("sql: \"{two}\""), between, &format!("sql: \"{}\"", window(time))])
    };
    assert!(of("paid_at", "filter: id <> ''").is_ok());
    assert!(
        of("paid_at", "select: { '*': '*', paid_at: ordered_at }")
            .unwrap_err()
            .contains("`window` step without `time`")
    );
}

#[test]
fn a_window_behind_a_window_has_the_time_of_the_results() {
    let window = |from: &str| {
        format!("SELECT window_end, count(*) AS n FROM {from} GROUP BY window_start, window_end")
    };
    let inner = window("TUMBLE(input, at, INTERVAL '1 minute')");
    let wrong = checked(&window(&format!("TUMBLE(({inner}), window_end, INTERVAL '1 hour')"))).unwrap_err();
    assert!(wrong.contains("write `window_time` in place of `window_end`"), "{wrong}");
    let selected = inner.replace("window_end, count", "window_time, count");
    assert!(checked(&selected).unwrap_err().contains("`window_time` is no column"));
    let pipeline =
        checked(&window(&format!("TUMBLE(({selected}), window_time, INTERVAL '1 hour')"))).unwrap();
    assert_eq!(pipeline.steps.len(), 2);
}

#[test]
fn a_fault_within_a_query_within_another_stands_where_the_text_has_it() {
    let query = "SELECT n FROM (SELECT count(*) AS n FROM TUMBLE(input, at, INTERVAL '1 minute') WHERE sum(amount) > 3 GROUP BY window_start, window_end) WHERE n > 1";
    let faults = checked(query).unwrap_err();
    let place = format!("test:6:{}: `sum(amount)` is a result", 7 + query.find("sum(amount)").unwrap());
    assert!(faults.contains(&place), "{faults}");
}
