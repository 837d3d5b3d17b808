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

/// Whether the goal of memory is met by arms with these peaks.
fn memory_met(peaks: &[(&str, f64)]) -> Option<bool> {
    let run = |(arm, bytes): &(&str, f64)| {
        let mut figures = Figures::default();
        figures.put(figure::ENGINE_RSS_BYTES_MAX, *bytes);
        Run {
            arm: (*arm).to_owned(),
            figures,
            verdict: Verdict::default(),
            not_valid: None,
            trace: crate::trace::Trace::default(),
        }
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
    let runs = peaks.iter().map(run).collect();
    let report = Report::new(setting, runs, |arms| goals(arms, &common(Some(Size::mib(100)))));
    let goal = report.goals.into_iter().find(|goal| goal.text.ends_with("`memory: 100MiB`"));
    goal.expect("a goal of memory").met
}

#[test]
fn the_goal_of_memory_is_the_budget_and_a_fifth_of_it() {
    let fifth_above = 1.2 * f64::from(100 << 20);
    assert_eq!(memory_met(&[(FOREBAY, fifth_above)]), Some(true));
    assert_eq!(memory_met(&[(FOREBAY, fifth_above + 1.0)]), Some(false));
}

#[test]
fn the_goal_of_memory_is_judged_by_the_program_that_is_measured_alone() {
    let (little, much) = (1e6, 3e9);
    let peer = "franz-go: at least once, duplicates stay";
    assert_eq!(memory_met(&[(FOREBAY, little), (peer, much), (OTHER, much)]), Some(true));
    for arm in [WITHOUT_DEDUP, FILTERED] {
        assert_eq!(memory_met(&[(FOREBAY, little), (arm, much)]), Some(false), "{arm}");
    }
    assert_eq!(memory_met(&[(peer, little)]), None);
}
