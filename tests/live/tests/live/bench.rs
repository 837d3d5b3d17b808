//! The benchmarks at a tiny scale: that they end, judge, and tell a right table from a wrong one. No figure is looked at.

use live::{Case, case::binary};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use testkit::{Service, available};

/// Runs one benchmark once and gives its report.
fn bench(case: &Case, workload: &str, arguments: &[&str]) -> Value {
    let mut command = Command::new(binary().expect("the program is built"));
    command
        .args(["bench", workload, "--repeat", "1", "--json", "--clickhouse", &case.server().url(), "--dir"])
        .arg(case.dir().join("bench"))
        .args(arguments);
    if !arguments.contains(&"--pulsar") {
        command.env("FOREBAY_BROKERS", case.kafka().bootstrap());
    }
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).expect("the report is JSON")
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).expect("the folder is there").next().is_none()
}

#[test]
fn bench_glassflow_gives_a_right_table() {
    let Some(case) = Case::begin("bench_glassflow") else { return };
    let report = bench(&case, "glassflow", &["--uniques", "4000", "--far-duplicates", "100"]);
    assert_eq!(report["right"], true, "{report:#}");
    assert_eq!(report["setting"]["records"], 4_500);
    assert_eq!(report["arms"][0]["name"], "forebay");
    assert!(report["summary"]["records_per_cpu_s"]["median"].as_f64().is_some_and(|rate| rate > 0.0));
    assert!(is_empty(&case.dir().join("bench")), "nothing is left over");
    plans_capacity(&case, &report);
}

/// That capacity is planned with the coefficients of a report.
fn plans_capacity(case: &Case, report: &Value) {
    let (from, file) = (case.dir().join("report.json"), case.dir().join("planned.yaml"));
    let mut report = report.clone();
    // A server that was named, as here, has no CPU in the report.
    report["summary"]["clickhouse_cpu_s"] = serde_json::json!({ "median": 0.5 });
    std::fs::write(&from, report.to_string()).expect("a report");
    let text = "pipeline: planned\nsource: { kafka: { brokers: 'b:9092', topic: t } }\nsink: { clickhouse: { url: 'http://c:8123', table: t } }\n";
    std::fs::write(&file, text).expect("a file");
    let output = Command::new(binary().expect("the program is built"))
        .arg("plan")
        .arg(&file)
        .args(["--rate", "1M/s", "--json", "--from"])
        .arg(&from)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let planned: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rate = report["summary"]["records_per_cpu_s"]["median"].as_f64().expect("a rate");
    let cores = planned["capacity"][0]["value"].as_f64().expect("a number");
    assert!((cores - 1e6 / rate / 0.7).abs() < 1e-6 * cores, "{planned:#}");
}

#[test]
fn bench_glassflow_joins_two_topics_into_a_right_table() {
    let Some(case) = Case::begin("bench_join") else { return };
    let report = bench(&case, "glassflow", &["--uniques", "4000", "--join", "--within", "10"]);
    assert_eq!(report["right"], true, "{report:#}");
    assert_eq!(report["setting"]["records"], 8_000);
    let checks = report["runs"][0]["verdict"]["checks"].as_array().expect("checks");
    let rows = checks.iter().find(|check| check["what"] == "rows in the table").expect("rows are counted");
    assert_eq!(rows["found"], 3_600, "a tenth has no match");
    assert!(is_empty(&case.dir().join("bench")), "nothing is left over");
    plans_capacity(&case, &report);
}

#[test]
fn bench_flink_drains_a_backlog_into_right_windows() {
    let Some(case) = Case::begin("bench_flink_backlog") else { return };
    let small = ["--sensors", "50", "--window-ms", "2000", "--windows", "2", "--readings", "20"];
    let report = bench(
        &case,
        "flink",
        &[small.as_slice(), ["--partitions", "4", "--touch", "0B"].as_slice()].concat(),
    );
    assert_eq!(report["right"], true, "{report:#}");
    assert_eq!(report["setting"]["records"], 2_250, "a quarter of a window more closes the last one");
    assert!(is_empty(&case.dir().join("bench")), "nothing is left over");
    plans_capacity(&case, &report);
}

#[test]
fn bench_nexmark_answers_every_query_that_it_measures_right() {
    let Some(case) = Case::begin("bench_nexmark") else { return };
    let report =
        bench(&case, "nexmark", &["--events", "30000", "--events-per-second", "1000", "--touch", "0B"]);
    assert_eq!(report["right"], true, "{report:#}");
    let arms = report["arms"].as_array().expect("arms");
    let names: Vec<&str> = arms.iter().filter_map(|arm| arm["name"].as_str()).collect();
    assert_eq!(names, ["q5", "q7", "q8"]);
    assert!(is_empty(&case.dir().join("bench")), "nothing is left over");
}

/// A load from either, whose windows are compared with the oracle's; of Pulsar twice, since a topic is used again.
#[test]
fn bench_flink_at_a_rate_sees_every_window_from_kafka_and_from_pulsar() {
    let Some(case) = Case::begin("bench_flink") else { return };
    let load =
        ["--rate", "2000", "--sensors", "50", "--window-ms", "2000", "--windows", "2", "--partitions", "4"];
    let load = [load.as_slice(), ["--batch-age-ms", "100"].as_slice()].concat();
    let is_right = |report: &Value| {
        assert_eq!(report["right"], true, "{report:#}");
        // The run itself: a sender that is late on a busy machine makes its figures count in no median.
        let run = &report["runs"][0];
        let at = |key: &str| run[key].as_f64().unwrap_or_else(|| panic!("no `{key}`: {report:#}"));
        assert_eq!(at("offered_records_per_s"), 2_000.0);
        assert!(at("visible_p50_s") > 0.0 && at("visible_p50_s") <= at("visible_p99_s"), "{report:#}");
        assert!(at("watermark_lag_p50_s") > 0.0, "{report:#}");
        assert!(at("watermark_lag_p50_s") <= at("watermark_lag_max_s"), "{report:#}");
    };
    is_right(&bench(&case, "flink", &load));
    if !available(&[Service::Pulsar]) {
        return;
    }
    let pulsar = case.pulsar();
    pulsar.create_topic("bench_readings", 4).expect("a topic");
    let service = pulsar.service();
    let from = ["--pulsar", &service, "--pulsar-topic", "bench_readings"];
    for _ in 0..2 {
        let report = bench(&case, "flink", &[load.as_slice(), from.as_slice()].concat());
        assert_eq!(report["setting"]["pulsar"], true, "{report:#}");
        is_right(&report);
    }
    assert!(is_empty(&case.dir().join("bench")), "nothing is left over");
}

#[test]
fn bench_dedup_sees_no_row_twice() {
    let Some(case) = Case::begin("bench_dedup") else { return };
    let report = bench(&case, "dedup", &["--minutes", "40"]);
    assert_eq!(report["right"], true, "{report:#}");
    assert_eq!(report["setting"]["rows"], 40 * 6 * 15);
    let second = &report["arms"][0];
    assert_eq!(second["name"], "second reading");
    assert_eq!(second["summary"]["duplicates_visible"]["max"], 0.0);
    assert!(second["summary"]["wall_ratio"]["median"].as_f64().is_some_and(|ratio| ratio > 0.0));
}

/// The arms whose second reading changes every row.
#[test]
fn bench_dedup_reads_changed_rows_with_upsert_and_with_a_plain_client() {
    let Some(case) = Case::begin("bench_changes") else { return };
    let report = bench(&case, "dedup", &["--minutes", "40", "--upsert", "--replacing", "--touch", "0B"]);
    assert_eq!(report["right"], true, "{report:#}");
    let arms = report["arms"].as_array().expect("arms");
    for name in ["upsert, second reading", "ReplacingMergeTree, second reading"] {
        let arm = arms.iter().find(|arm| arm["name"] == name).unwrap_or_else(|| panic!("{name}: {report:#}"));
        for figure in ["wall_ratio", "duplicates_visible", "count_ms", "count_final_ms"] {
            assert!(arm["summary"][figure]["median"].is_number(), "{figure} of {name}: {report:#}");
        }
    }
    assert!(is_empty(&case.dir().join("bench")), "nothing is left over");
}

#[test]
fn bench_clients_sends_every_row_in_every_way() {
    let Some(case) = Case::begin("bench_clients") else { return };
    let small = ["--batch-rows", "300", "--batches", "2"];
    let ways = ["--content", "identical,varied", "--columns", "689", "--compression", "lz4"];
    let report = bench(&case, "clients", &[small.as_slice(), ways.as_slice()].concat());
    assert_eq!(report["right"], true, "{report:#}");
    let arms = report["arms"].as_array().expect("arms");
    assert_eq!(arms.len(), 8, "two contents, two modes, each with its replay: {report:#}");
    assert_eq!(arms[0]["name"], "forebay: identical, 689 columns, lz4, serial");
    assert_eq!(arms[1]["name"], "replay: identical, 689 columns, lz4, serial");
    assert!(arms[0]["summary"]["share_of_ceiling"]["median"].as_f64().is_some_and(|share| share > 0.0));
}

#[test]
fn bench_under_a_load_sees_every_sampled_record_become_visible() {
    let Some(case) = Case::begin("bench_load") else { return };
    let page = case.dir().join("report.html");
    let load =
        ["--uniques", "4000", "--load", "50%", "--capacity", "8000", "--batch-age-ms", "100", "--html"];
    let page_argument = [page.to_str().expect("UTF-8")];
    let report = bench(&case, "glassflow", &[load.as_slice(), page_argument.as_slice()].concat());
    assert_eq!(report["right"], true, "{report:#}");
    assert_eq!(report["arms"][0]["name"], "load 50 %");
    // The run itself: a sender that is late on a busy machine makes its figures count in no median.
    let run = &report["runs"][0];
    assert_eq!(run["arm"], "load 50 %");
    assert_eq!(run["offered_records_per_s"], 4_000.0);
    assert_eq!(run["visible_samples"], 4_000.0, "so few are all looked at");
    let at = |key: &str| run[key].as_f64().expect("a latency");
    assert!(at("visible_p50_s") > 0.0 && at("visible_p50_s") <= at("visible_p99_s"));
    assert!(at("visible_p99_s") <= at("visible_max_s"));
    let page = std::fs::read_to_string(page).expect("the page was written");
    assert!(page.contains("<svg") && page.contains("latency, s") && !page.contains("<script"));
}

/// Needs Go and its modules, and a minute or two to build them at the first time:
/// `cargo test -p live --test end_to_end -- --ignored bench_against`.
#[test]
#[ignore = "builds Go programs"]
fn bench_against_peers_checks_them_as_it_checks_itself() {
    let Some(case) = Case::begin("bench_against") else { return };
    let clients =
        ["--batch-rows", "300", "--batches", "2", "--mode", "serial", "--against", "ch-go,clickhouse-go"];
    let report = bench(&case, "clients", &clients);
    assert_eq!(report["right"], true, "{report:#}");
    assert_eq!(report["arms"].as_array().map(Vec::len), Some(8), "{report:#}");
    let report = bench(&case, "glassflow", &["--uniques", "4000", "--against", "franz-go"]);
    assert_eq!(report["right"], true, "{report:#}");
    assert_eq!(report["arms"][1]["name"], "franz-go: at least once, duplicates stay");
}

#[test]
fn bench_buffer_has_a_row_for_each_rate_and_two_latencies_of_each_record() {
    let Some(case) = Case::begin("bench_buffer") else { return };
    let arguments =
        ["--rate", "2048,4096", "--seconds", "3", "--per-request", "256", "--record-bytes", "300"];
    let report = bench(&case, "buffer", &arguments);
    assert_eq!(report["right"], true, "{report:#}");
    let rates = report["tables"][0]["rows"].as_array().expect("a row for each rate");
    assert_eq!(rates.len(), 2, "{report:#}");
    let runs = report["runs"].as_array().expect("a run of each rate");
    for (run, rate) in runs.iter().zip([2_048.0, 4_096.0]) {
        assert_eq!(run["offered_records_per_s"], rate, "{report:#}");
        for share in ["p50", "p99"] {
            let of = |latency: &str| run[format!("{latency}_{share}_s")].as_f64().expect("a latency");
            assert!(of("received_to_insert") <= of("visible"), "{share} of {rate}: {report:#}");
        }
    }
    assert!(is_empty(&case.dir().join("bench")), "nothing is left over");
}
