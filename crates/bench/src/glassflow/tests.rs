use pipeline::config::values::Size;

use super::*;
use crate::engine::no_fault;

fn common(memory: Option<Size>) -> Common {
    Common {
        clickhouse: None,
        repeat: 1,
        dir: "bench".into(),
        keep: false,
        memory,
        program: None,
        touch: Size::mib(0),
    }
}

#[test]
fn the_pipeline_file_has_no_fault() {
    for source in [
        kafka("127.0.0.1:9092", "events", "bench_1"),
        "generator: { workload: glassflow, uniques: 1000, publishers: 2, seed: 1 }".to_owned(),
    ] {
        for age in [None, Some(Duration::from_millis(200))] {
            for steps in [Steps::Dedup, Steps::None, Steps::FilterAndDedup] {
                let rest = pipeline_text(&source, "http://127.0.0.1:8123", "bench_1", age, steps);
                no_fault(rest.clone() + &common(None).memory_line());
                no_fault(rest + &common(Some(Size::mib(256))).memory_line());
            }
        }
    }
}

#[test]
fn the_goal_of_memory_is_the_budget_and_a_fifth_of_it() {
    let peak_at = |bytes: f64| {
        let mut figures = Figures::default();
        figures.put(figure::ENGINE_RSS_BYTES_MAX, bytes);
        let run = Run {
            arm: FOREBAY.to_owned(),
            figures,
            verdict: Verdict::default(),
            not_valid: None,
            trace: crate::trace::Trace::default(),
        };
        let setting = Setting {
            workload: "glassflow",
            sentences: Vec::new(),
            facts: serde_json::Map::new(),
            clickhouse: String::new(),
            build: crate::report::RELEASE,
            processor: String::new(),
            cores: 1,
        };
        let report =
            Report::new(setting, vec![run], |arms| vec![common(Some(Size::mib(100))).memory_goal(arms)]);
        let goal = report.goals.into_iter().next().unwrap();
        assert!(goal.text.ends_with("`memory: 100MiB`"), "{}", goal.text);
        goal.met
    };
    let fifth_above = 1.2 * f64::from(100 << 20);
    assert_eq!(peak_at(fifth_above), Some(true));
    assert_eq!(peak_at(fifth_above + 1.0), Some(false));
}
