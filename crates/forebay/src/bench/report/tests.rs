use super::*;

fn setting() -> Setting {
    Setting {
        workload: "glassflow",
        records: 22,
        uniques: 20,
        duplicates: 2,
        source: "a test".into(),
        rate: None,
        clickhouse: "1".into(),
        build: RELEASE,
        processor: "a test's".into(),
        cores: 1,
    }
}

const RIGHT: Content = Content { rows: 20, ids: 20, checksum: 7 };
const ACCOUNTS: Accounts = Accounts { read: 22, written: 20, duplicates: 2, dead_letters: 0 };

fn run(records_per_cpu_s: f64, rss_bytes_max: u64) -> Run {
    Run {
        wall_s: 1.0,
        records_per_s: 22.0,
        settled_rows_per_s: None,
        engine: Usage { user_s: 0.5, system_s: 0.25, rss_bytes_max },
        records_per_cpu_s,
        clickhouse: None,
        state_keys: 20,
        state_bytes: 400,
        state_bytes_per_key: Some(20.0),
        latency: None,
        verdict: Verdict::new(&setting(), RIGHT, RIGHT, ACCOUNTS),
    }
}

#[test]
fn a_median_of_an_even_number_is_the_mean_of_the_middle() {
    assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    assert_eq!(Spread::of([9.0, 1.0, 3.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
    assert_eq!(Spread::of([]), None);
}

#[test]
fn every_number_that_differs_is_named_in_the_verdict() {
    let found = Content { rows: 21, ids: 20, checksum: 8 };
    let accounts = Accounts { duplicates: 1, dead_letters: 1, ..ACCOUNTS };
    let verdict = Verdict::new(&setting(), RIGHT, found, accounts);
    assert!(!verdict.right);
    assert_eq!(verdict.faults.len(), 4, "{:?}", verdict.faults);
    assert!(verdict.faults[0].contains("`21`") && verdict.faults[0].contains("`20`"), "{:?}", verdict.faults);
}

#[test]
fn one_wrong_run_makes_the_report_wrong() {
    let wrong = Verdict::new(&setting(), RIGHT, Content { checksum: 8, ..RIGHT }, ACCOUNTS);
    let runs = vec![run(5e5, 1), Run { verdict: wrong, ..run(5e5, 1) }];
    assert!(!Report::new(setting(), runs).right);
    assert!(Report::new(setting(), vec![run(5e5, 1)]).right);
    assert!(!Report::new(setting(), Vec::new()).right, "no run shows nothing");
}

#[test]
fn goals_need_the_rate_of_the_median_and_the_memory_of_every_run() {
    let goals = |runs| Report::new(setting(), runs).goals_met;
    assert_eq!(goals(vec![run(399_999.0, 1), run(400_001.0, 1)]), Some(true));
    assert_eq!(goals(vec![run(399_999.0, 1)]), Some(false));
    assert_eq!(goals(vec![run(5e5, 1), run(5e5, RSS_BYTES_GOAL)]), Some(false));
    let development = Setting { build: "development", ..setting() };
    assert_eq!(Report::new(development, vec![run(5e5, 1)]).goals_met, None);
    let paced = Setting { rate: Some(1), ..setting() };
    assert_eq!(Report::new(paced, vec![run(5e5, 1)]).goals_met, None);
}
