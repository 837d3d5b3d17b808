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
    let query = "SELECT count(*) AS n FROM TUMBLE(input, at, INTERVAL '1 minute') WHERE amount > 3 GROUP BY window_start, window_end";
    let faults = checked(query).unwrap_err();
    let expected = format!(
        "test:6:{}: WHERE is refused beside windows; put a `filter` step before this one",
        7 + query.find("amount").unwrap()
    );
    assert!(faults.contains(&expected), "{faults}");
    let short = query.replace(" WHERE amount > 3", "").replace("1 minute", "1 millisecond");
    assert!(checked(&short).unwrap_err().contains("too short"));
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
