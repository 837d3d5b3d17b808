//! A real collector of OpenTelemetry, `telemetrygen`, and a program with the SDK for Go send to a gateway.
//!
//! These programs take two to five minutes to build where nothing is cached, too long for a ladder that is to end within the hour, so these tests run on request:
//! `scripts/setup otel`, then `cargo test --workspace --features forebay/development --test end_to_end -- --ignored collector`.
//!
//! The collector's exporter for ClickHouse is not beside them: it starts with a query of clickhouse-go over HTTP that the engine of the tests, which is no whole server,
//! answers without a row (`failed to query server hello`). Its tables are made by our own statements instead ([`super::otlp`]). `forebay bench buffer --against otelcol` answers that query
//! in the engine's place, and has the exporter fill a table.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use live::{Case, PATIENCE};
use serde_json::Value;
use testkit::{HttpClient, Lcg, Process, Spawn, free_port, seed, wait_until, workspace_dir};

use super::otel::{from, into_tables, sdk, sink, start_gateway, told, write_gateway};
use super::otlp::{compare, tables};

/// Logs and points that `telemetrygen` sends by each protocol.
const LOGS: u64 = 5_000;
/// Traces of two spans; its queue drops what is beyond 2,048 spans.
const TRACES: u64 = 800;

/// Batches of 100 logs that the SDK for Go sends, and how often the gateway dies meanwhile.
const BATCHES: u64 = 60;
const KILLS: u64 = 3;

/// A program that `scripts/setup otel` has put in place.
fn program(name: &str) -> PathBuf {
    let path = workspace_dir().join(".cache/otel").join(name);
    assert!(path.is_file(), "`{}` is missing; run `scripts/setup otel`", path.display());
    path
}

/// Starts a collector that takes OTLP over HTTP at `port`, and gives what it takes to `exporters`, the lines of its file for each.
fn start_collector(dir: &Path, port: u16, exporters: &[String]) -> Process {
    let names = exporters.iter().map(|lines| lines.trim().split(':').next().expect("an exporter has a name"));
    let names: Vec<&str> = names.collect();
    let pipelines = ["logs", "traces", "metrics"]
        .map(|signal| format!("    {signal}: {{ receivers: [otlp], exporters: [{}] }}\n", names.join(", ")))
        .concat();
    // Without a queue a sender is answered once all of them have taken what it sent.
    let exporters = exporters.iter().map(|lines| format!("{lines}    sending_queue: {{ enabled: false }}\n"));
    let exporters: String = exporters.collect();
    let text = format!(
        "receivers:\n  otlp:\n    protocols:\n      http: {{ endpoint: '127.0.0.1:{port}' }}\n\
         exporters:\n{exporters}\
         service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  pipelines:\n{pipelines}"
    );
    std::fs::write(dir.join("collector.yaml"), text).expect("the test's folder can be written");
    let spawn = Spawn::new("otelcol", program("otelcol")).args(["--config", "collector.yaml"]).cwd(dir);
    let mut collector = spawn.start(dir).expect("the collector starts");
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}"));
    wait_until(PATIENCE, "the collector", || {
        assert!(collector.is_running().expect("a child"), "{}", collector.stderr().unwrap_or_default());
        client.get("/").is_ok()
    });
    collector
}

#[test]
#[ignore = "needs the programs of `scripts/setup otel`"]
fn what_a_collector_passes_on_by_grpc_is_in_the_tables_as_it_was_told() {
    passed_on("collector_grpc", |_, grpc| {
        format!("  otlp/gateway:\n    endpoint: '127.0.0.1:{grpc}'\n    tls: {{ insecure: true }}\n")
    });
}

#[test]
#[ignore = "needs the programs of `scripts/setup otel`"]
fn what_a_collector_passes_on_by_http_is_in_the_tables_as_it_was_told() {
    passed_on("collector_http", |http, _| {
        format!("  otlphttp/gateway:\n    endpoint: 'http://127.0.0.1:{http}'\n    compression: zstd\n")
    });
}

fn passed_on(name: &str, exporter: impl Fn(u16, u16) -> String) {
    let Some(case) = Case::begin(name) else { return };
    let (http, grpc, port) = (free_port(), free_port(), free_port());
    write_gateway(case.dir(), http, grpc);
    let gateway = start_gateway(case.dir(), http);
    let collector = start_collector(case.dir(), port, &[exporter(http, grpc)]);
    let urls = ["logs", "traces", "metrics"].map(|signal| format!("http://127.0.0.1:{port}/v1/{signal}"));
    let output = sdk(&["all", "http", &urls[0], &urls[1], &urls[2]]).output().expect("Python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    live::pipeline::term(collector);
    live::pipeline::term(gateway);

    let ours = tables(&case, &[]);
    into_tables(&case);
    for (table, rows) in told(&output.stdout) {
        compare(&ours, &case, &table, &rows);
    }
}

/// `telemetrygen` sends by the exporters of the SDK for Go.
#[test]
#[ignore = "needs the programs of `scripts/setup otel`"]
fn what_telemetrygen_sends_is_in_the_tables_once() {
    let Some(case) = Case::begin("telemetrygen") else { return };
    let (http, grpc) = (free_port(), free_port());
    write_gateway(case.dir(), http, grpc);
    let gateway = start_gateway(case.dir(), http);
    for (protocol, port) in [("--otlp-http=false", grpc), ("--otlp-http=true", http)] {
        let signals =
            [("logs", "--logs", LOGS), ("traces", "--traces", TRACES), ("metrics", "--metrics", LOGS)];
        for (signal, counted, count) in signals {
            let output = Command::new(program("telemetrygen"))
                .args([signal, protocol, "--otlp-insecure", "--rate", "0", counted, &count.to_string()])
                .args(["--otlp-endpoint", &format!("127.0.0.1:{port}")])
                .output()
                .expect("telemetrygen starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    live::pipeline::term(gateway);
    let database = tables(&case, &[]);
    into_tables(&case);
    let count = |table: &str| -> u64 {
        let rows: Vec<Value> = database.rows(&format!("SELECT count() AS n FROM {{t}}.{table}"));
        rows[0]["n"].as_str().expect("a number").parse().expect("a number")
    };
    assert_eq!(count("otel_logs"), 2 * LOGS);
    assert_eq!(count("otel_traces"), 4 * TRACES);
    assert_eq!(count("otel_metrics_gauge"), 2 * LOGS);
    let ids = database.ask("SELECT uniqExact(TraceId, SpanId) FROM {t}.otel_traces");
    assert_eq!(ids.trim(), (4 * TRACES).to_string(), "none is there twice");
}

/// Its exporter sends again what was not answered; every field of every log is what the SDK was told, once.
#[test]
#[ignore = "needs the programs of `scripts/setup otel`"]
fn kill_test_what_the_sdk_for_go_sends_is_in_the_table_once_as_it_was_told() {
    let Some(case) = Case::begin("otel_go") else { return };
    let (http, grpc) = (free_port(), free_port());
    write_gateway(case.dir(), http, grpc);
    let mut gateway = start_gateway(case.dir(), http);
    let [told, taken] = ["told.jsonl", "taken.txt"].map(|name| case.dir().join(name));
    let mut sender = Command::new(program("sdk"))
        .args([format!("127.0.0.1:{grpc}"), BATCHES.to_string()])
        .stdin(Stdio::null())
        .stdout(File::create(&told).expect("a file"))
        .stderr(File::create(&taken).expect("a file"))
        .spawn()
        .expect("the sender starts");
    let said = || std::fs::read_to_string(&taken).expect("a file");
    let mut random = Lcg::new(seed());
    for kill in 0..KILLS {
        let enough = kill * BATCHES / (KILLS + 1) + 1 + random.below(BATCHES / (2 * KILLS));
        wait_until(PATIENCE, "batches are taken", || said().lines().count() as u64 >= enough);
        gateway.kill9().expect("the gateway dies");
        std::thread::sleep(std::time::Duration::from_millis(random.below(300)));
        gateway = start_gateway(case.dir(), http);
    }
    assert!(sender.wait().expect("it ends").success(), "{}", said());
    live::pipeline::term(gateway);

    let database = tables(&case, &["logs", "--complete"]);
    from(&case, "logs", &[sink(&case, "otel_logs", "")]).drain();
    let rows = std::fs::read_to_string(&told).expect("a file");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("JSON")).collect();
    assert_eq!(rows.len() as u64, 100 * BATCHES);
    compare(&database, &case, "otel_logs", &rows);
}
