use serde_json::Map;
use workloads::content::Content;

use super::*;
use crate::figure::{ENGINE_USER_S, Figures, WALL_S};
use crate::report::{Goal, Setting, Verdict, of_content};
use crate::trace::{Percentile, Sample, Trace};

fn report() -> Report {
    report_of(&["a & b"])
}

fn report_of(arms: &[&str]) -> Report {
    let mut figures = Figures::default();
    figures.put(WALL_S, 2.5);
    figures.put(ENGINE_USER_S, 1.25);
    let mut trace = Trace::default();
    for n in 0..4_u32 {
        trace.push(Sample {
            at_s: f64::from(n),
            rows: u64::from(n) * 100,
            cpu_s: f64::from(n) / 2.0,
            rss_bytes: 50_000_000,
            lag_records: Some(u64::from(3 - n)),
        });
    }
    trace.threads.insert("compute-0".to_owned(), 1.5);
    trace.stages.insert("decode".to_owned(), 1.0);
    trace.percentiles =
        [(0.5, 0.1), (0.9, 0.2), (1.0, 0.9)].map(|(share, latency_s)| Percentile { share, latency_s }).into();
    let wrong = Verdict::of(of_content(Content { rows: 2, ..Content::default() }, Content::default()));
    let run = |arm: &&str| Run {
        arm: (*arm).to_owned(),
        figures: figures.clone(),
        verdict: wrong.clone(),
        not_valid: None,
        trace: trace.clone(),
    };
    let setting = Setting {
        workload: "test",
        sentences: vec!["two < three, with `dedup`".to_owned()],
        facts: Map::new(),
        clickhouse: "1".to_owned(),
        build: "development",
        processor: "one".to_owned(),
        cores: 2,
    };
    Report::new(setting, arms.iter().map(run).collect(), |_| {
        vec![Goal { text: "fast".to_owned(), met: Some(true) }]
    })
}

#[test]
fn a_page_has_every_plot_and_fetches_nothing() {
    let page = page(&report());
    for title in [
        "rows settled a second",
        "cores used by the engine",
        "memory of the engine, MB",
        "lag, records",
        "latency, s",
        "CPU by stage",
        "CPU by thread",
    ] {
        assert!(page.contains(title), "{title}: {page}");
    }
    assert_eq!(page.matches("<svg").count(), 7);
    for word in ["<script", "http:", "https:", "src=", "url(", "@import", "NaN", "inf"] {
        assert!(!page.contains(word), "{word}: {page}");
    }
}

#[test]
fn what_is_wrong_stands_in_it_and_texts_are_escaped() {
    let page = page(&report());
    assert!(page.contains("class=\"wrong\">wrong in run 1 (a &amp; b): rows in the table"), "{page}");
    assert!(page.contains("two &lt; three") && !page.contains("two < three"), "{page}");
}

#[test]
fn several_arms_stand_side_by_side_by_what_says_something_alone() {
    let page = page(&report_of(&["one", "two"]));
    assert!(page.contains("<h2>side by side</h2>") && page.contains("<figcaption>wall, s, median"), "{page}");
    assert!(!page.contains("in its own code, s, median"), "{page}");
    assert!(!super::page(&report()).contains("side by side"), "nothing stands beside a single arm");
}

#[test]
fn what_stands_between_backticks_is_code() {
    assert!(page(&report()).contains("two &lt; three, with <code>dedup</code>"));
    assert_eq!(prose("one ` alone"), "one ` alone");
}

#[test]
fn a_table_of_its_own_has_its_rows_and_its_sentences() {
    let report = report().with_grids(|_| {
        let mut grid = Grid::new("cost < Kafka", &[WALL_S, ENGINE_USER_S]);
        grid.push("ours & theirs", |figure| (figure == WALL_S).then_some(2.0));
        grid.notes.push("a `PUT` costs".to_owned());
        vec![grid]
    });
    let page = page(&report);
    assert!(page.contains("<h2>cost &lt; Kafka</h2>"), "{page}");
    assert!(page.contains("<tr><td>ours &amp; theirs</td><td>2.00</td><td>-</td></tr>"), "{page}");
    assert!(page.contains("<p>a <code>PUT</code> costs</p>"), "{page}");
}
