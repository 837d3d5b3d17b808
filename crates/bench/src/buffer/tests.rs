use pipeline::config::values::Size;
use pipeline::config::{self, values::reference::Surroundings};
use workloads::buffer::{Spec, Workload};

use super::*;
use crate::engine::no_fault;
use crate::place::Common;

fn plan(over: Over, direct: bool) -> Plan {
    let common = Common {
        clickhouse: None,
        repeat: 1,
        dir: "/var/tmp".into(),
        keep: false,
        memory: None,
        program: None,
        touch: Size { bytes: 0 },
    };
    Plan {
        common,
        workload: Workload::new(Spec::default()).expect("valid"),
        bucket: None,
        delay: Delay::default(),
        direct,
        over,
        compression: Compression::Zstd,
        inserts: Inserts::None,
        senders: 1,
        rates: Vec::new(),
        time: None,
        batch_age: Some(Duration::from_millis(200)),
        trouble: Trouble::None,
        collector: None,
    }
}

async fn folder(name: &str) -> Store {
    Store::start(None, Delay::default(), name, "run-1", "/var/tmp".as_ref(), 0).await.expect("a folder")
}

#[tokio::test]
async fn the_files_of_both_processes_have_no_fault() {
    let plan = plan(Over::Stream, false);
    let store = folder("bench_1").await;
    for is_timed in [false, true] {
        no_fault(consumer::text(&plan, &store, "http://127.0.0.1:8123", "bench_1", is_timed));
    }
    let text = gateway::text(&store, plan.over, 0);
    let checked = config::check_gateway(&text, &Surroundings::of_process());
    assert!(checked.gateway.is_some(), "{}", checked.faults.render("gateway.yaml"));
}

#[tokio::test]
async fn the_file_of_a_pipeline_that_listens_has_no_fault() {
    let plan = plan(Over::OtlpHttp, true);
    no_fault(consumer::text(&plan, &folder("bench_2").await, "http://127.0.0.1:8123", "bench_2", true));
}

#[test]
fn a_rate_that_is_offered_for_a_time_has_the_records_of_that_time() {
    let mut plan = plan(Over::OtlpHttp, false);
    let requests = |plan: &Plan, rate| plan.workload_at(rate).expect("valid").spec().requests;
    assert_eq!(requests(&plan, 5_000), Spec::default().requests, "all records, however fast");
    plan.time = Some(Duration::from_secs(30));
    assert_eq!(requests(&plan, 5_000), 147, "146.5 requests of 1,024 records");
    assert_eq!(requests(&plan, 1), 1);
}

#[test]
fn a_run_whose_sender_was_late_is_not_valid() {
    assert_eq!(late(SENDER_LATE_MAX), None);
    assert!(late(Duration::from_millis(250)).is_some_and(|why| why.contains("0.25 s late")));
}

#[test]
fn the_file_of_a_collector_names_the_gateway_and_no_queue() {
    let text = |over| collector::text(over, Compression::Zstd, 1_234, To::Gateway("127.0.0.1:4318"));
    let http = text(Over::OtlpHttp).expect("OTLP");
    assert!(http.contains("http: { endpoint: '127.0.0.1:1234' }"), "{http}");
    assert!(http.contains("endpoint: 'http://127.0.0.1:4318'"), "{http}");
    let grpc = text(Over::OtlpGrpc).expect("OTLP");
    assert!(grpc.contains("grpc: { endpoint: '127.0.0.1:1234' }"), "{grpc}");
    assert!(grpc.contains("sending_queue: { enabled: false }"), "{grpc}");
    assert!(text(Over::Stream).is_err(), "a collector has no streams of other formats");
}

#[test]
fn the_file_of_a_collector_that_inserts_itself_names_the_table_and_no_queue() {
    let to = To::Table { url: "http://127.0.0.1:8123", table: "bench_1", inserts: Inserts::Lz4 };
    let text = collector::text(Over::OtlpGrpc, Compression::Zstd, 1_234, to).expect("OTLP");
    for wanted in [
        "grpc: { endpoint: '127.0.0.1:1234' }",
        "  clickhouse:\n    endpoint: 'http://127.0.0.1:8123'\n",
        "logs_table_name: 'bench_1'",
        "create_schema: false",
        "compress: lz4",
        "sending_queue: { enabled: false }",
        "exporters: [clickhouse]",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn the_table_of_a_collector_that_inserts_itself_has_the_columns_and_the_key_of_ours() {
    let sql = consumer::create("bench_1");
    assert!(
        sql.starts_with("CREATE TABLE `bench_1` (`Timestamp` DateTime64(9), `TraceId` String, "),
        "{sql}"
    );
    assert!(
        sql.contains("`LogAttributes` Map(LowCardinality(String), String), `EventName` String)"),
        "{sql}"
    );
    assert!(sql.ends_with("ORDER BY (toStartOfFiveMinutes(Timestamp), ServiceName, Timestamp)"), "{sql}");
}

fn run(arm: &str, found: &[(figure::Figure, f64)], not_valid: Option<&str>) -> Run {
    let mut figures = figure::Figures::default();
    found.iter().for_each(|(figure, value)| figures.put(*figure, *value));
    Run {
        arm: arm.to_owned(),
        figures,
        verdict: Verdict::default(),
        not_valid: not_valid.map(str::to_owned),
        trace: Default::default(),
    }
}

/// The report of runs that a plan gave, by a release build.
fn report(runs: Vec<Run>, plan: &Plan) -> Report {
    let setting = Setting {
        workload: "buffer",
        sentences: Vec::new(),
        facts: serde_json::Map::new(),
        clickhouse: "1".to_owned(),
        build: crate::report::RELEASE,
        processor: "one".to_owned(),
        cores: 2,
    };
    Report::new(setting, runs, |arms| goals::goals(arms, plan))
}

#[test]
fn a_sweep_has_a_row_for_each_rate_also_where_no_run_was_valid() {
    let offered = [(figures::OFFERED, 5_000.0)];
    let runs = vec![
        run("5,000 records/s", &offered, None),
        run("40,000 records/s", &offered, Some("the sender was late")),
    ];
    let mut plan = plan(Over::OtlpHttp, false);
    let report = report(runs, &plan);
    assert_eq!(figures::by_rate(&report.arms, &plan), None, "a backlog has no rate");
    plan.rates = vec![5_000, 40_000];
    let grid = figures::by_rate(&report.arms, &plan).expect("two rates");
    let cells: Vec<Vec<String>> = grid.rows.iter().map(|row| grid.cells(row)).collect();
    assert_eq!(cells, [["5,000"], ["-"]]);
}

/// Without its goal all others may be met, and the report would say that every goal is.
#[test]
fn a_rate_at_which_no_run_was_valid_leaves_its_goal_open() {
    let mut plan = plan(Over::OtlpHttp, false);
    plan.rates = vec![5_000, 40_000];
    let fast = [(figures::VISIBLE_P99, 0.5), (figures::GATEWAY_RSS_BYTES_MAX, 1e6)];
    let late = Some("the sender was late");
    let runs = vec![
        run("5,000 records/s", &fast, None),
        // What goes through a collector is not ours, and has no goal.
        run("5,000 records/s behind a collector", &[], late),
        run("40,000 records/s", &fast, late),
    ];
    let report = report(runs, &plan);
    let met: Vec<Option<bool>> = report.goals.iter().map(|goal| goal.met).collect();
    assert_eq!(met, [Some(true), None, Some(true)], "{:?}", report.goals);
    assert!(report.goals[1].text.ends_with("at 40,000 records/s"), "{:?}", report.goals);
    assert_eq!(report.goals_met, None);
}

#[test]
fn the_goal_of_the_gateways_memory_is_missed_by_one_run_that_had_more() {
    let mut plan = plan(Over::OtlpHttp, false);
    plan.rates = vec![5_000];
    let met = |peaks: [f64; 3]| {
        let runs = peaks
            .map(|bytes| run("gateway, log and pipeline", &[(figures::GATEWAY_RSS_BYTES_MAX, bytes)], None));
        let report = report(runs.to_vec(), &plan);
        report.goals.iter().find(|goal| goal.text.starts_with("gateway memory")).and_then(|goal| goal.met)
    };
    assert_eq!(met([1e6, 512e6, 1e6]), Some(true));
    assert_eq!(met([1e6, 513e6, 1e6]), Some(false));
}
