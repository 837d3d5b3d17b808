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
    assert!(faults.contains("steps[0].sql") || faults.contains("test:5:"), "{faults}");
    assert!(faults.contains("put a `filter` step before this one"), "{faults}");
    let short = query.replace(" WHERE amount > 3", "").replace("1 minute", "1 millisecond");
    assert!(checked(&short).unwrap_err().contains("too short"));
}
