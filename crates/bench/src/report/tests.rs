use super::*;
use crate::figure::{RECORDS_PER_CPU_S, WALL_S};

fn setting(build: &'static str) -> Setting {
    Setting {
        workload: "a test",
        sentences: Vec::new(),
        facts: Map::from_iter([("records".to_owned(), 22.into())]),
        clickhouse: "1".into(),
        build,
        processor: "a test's".into(),
        cores: 1,
    }
}

const RIGHT: Content = Content { rows: 20, ids: 20, checksum: 7 };

fn run(arm: &str, rate: f64) -> Run {
    let mut figures = Figures::default();
    figures.put(RECORDS_PER_CPU_S, rate);
    let verdict = Verdict::of(of_content(RIGHT, RIGHT));
    Run { arm: arm.to_owned(), figures, verdict, not_valid: None, trace: Trace::default() }
}

fn fast(arms: &[Arm]) -> Vec<Goal> {
    let rate = arms.first().and_then(|arm| arm.summary.get(RECORDS_PER_CPU_S));
    vec![Goal { text: "fast".into(), met: rate.map(|rate| rate.median >= 4.0) }]
}

#[test]
fn a_median_of_an_even_number_is_the_mean_of_the_middle() {
    assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    assert_eq!(Spread::of([9.0, 1.0, 3.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
    assert_eq!(Spread::of([]), None);
}

#[test]
fn every_number_that_differs_is_named_in_the_verdict() {
    let verdict = Verdict::of(of_content(RIGHT, Content { rows: 21, ids: 20, checksum: 8 }));
    assert!(!verdict.right);
    assert_eq!(verdict.faults.len(), 2, "{:?}", verdict.faults);
    assert!(verdict.faults[0].contains("`21`") && verdict.faults[0].contains("`20`"), "{:?}", verdict.faults);
    assert!(!Verdict::of([]).right, "nothing compared shows nothing");
}

#[test]
fn one_wrong_run_makes_the_report_wrong() {
    let wrong = Verdict::of(of_content(RIGHT, Content { checksum: 8, ..RIGHT }));
    let runs = vec![run("a", 5.0), Run { verdict: wrong, ..run("b", 5.0) }];
    assert!(!Report::new(setting(RELEASE), runs, fast).right);
    assert!(Report::new(setting(RELEASE), vec![run("a", 5.0)], fast).right);
    assert!(!Report::new(setting(RELEASE), Vec::new(), fast).right, "no run shows nothing");
}

#[test]
fn a_run_that_is_not_valid_counts_in_no_median() {
    let late = Run { not_valid: Some("the sender was late".into()), ..run("a", 9.0) };
    let report = Report::new(setting(RELEASE), vec![run("a", 1.0), late.clone()], fast);
    assert_eq!(report.summary.get(RECORDS_PER_CPU_S).map(|s| s.max), Some(1.0));
    assert_eq!(report.arms[0].counts(), "valid runs: 1 of 2");
    let page = crate::table::text(&report);
    assert!(page.contains("NOT VALID is run 2 (a): the sender was late"), "{page}");
    assert_eq!(
        Report::new(setting(RELEASE), vec![late], fast).goals_met,
        None,
        "nothing is left to judge by"
    );
}

#[test]
fn each_arm_is_summed_up_by_itself_and_the_first_is_the_one_that_is_measured() {
    let mut odd = run("b", 7.0);
    odd.figures.put(WALL_S, 1.0);
    let report = Report::new(setting(RELEASE), vec![run("a", 1.0), run("b", 6.0), run("a", 3.0), odd], fast);
    let of = |arm: usize| (report.arms[arm].name.as_str(), report.arms[arm].runs);
    assert_eq!((of(0), of(1)), (("a", 2), ("b", 2)));
    assert_eq!(report.arms[1].summary.get(RECORDS_PER_CPU_S).map(|s| s.median), Some(6.5));
    assert_eq!(report.arms[1].summary.get(WALL_S).map(|s| s.max), Some(1.0));
    assert_eq!(report.summary, report.arms[0].summary);
    let json = serde_json::to_value(&report).expect("a report can be written");
    assert_eq!(json["summary"]["records_per_cpu_s"]["median"], 2.0);
    assert_eq!(json["setting"]["records"], 22);
}

#[test]
fn goals_are_judged_of_a_release_build_alone() {
    let met = |build, rate| Report::new(setting(build), vec![run("a", rate)], fast).goals_met;
    assert_eq!((met(RELEASE, 4.0), met(RELEASE, 3.0)), (Some(true), Some(false)));
    assert_eq!(met("development", 4.0), None);
    assert_eq!(Report::new(setting(RELEASE), vec![run("a", 4.0)], |_| Vec::new()).goals_met, None);
}
