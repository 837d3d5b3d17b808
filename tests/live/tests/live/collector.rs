//! A real collector of OpenTelemetry, and `telemetrygen`, whose senders are the SDK for Go, send to a gateway.
//!
//! Its programs take minutes to build, so these tests run on request: `scripts/setup otel`, then
//! `cargo test -p live --test end_to_end -- --ignored collector`.

use std::path::{Path, PathBuf};
use std::process::Command;

use live::{Case, PATIENCE};
use serde_json::Value;
use testkit::{HttpClient, Process, Spawn, free_port, wait_until, workspace_dir};

use super::otel::{into_tables, sdk, start_gateway, told, write_gateway};
use super::otlp::{compare, tables};

/// Logs and points that `telemetrygen` sends by each protocol.
const LOGS: u64 = 5_000;
/// Traces of two spans; its queue drops what is beyond 2,048 spans.
const TRACES: u64 = 800;

/// A program that `scripts/setup otel` has put in place.
fn program(name: &str) -> PathBuf {
    let path = workspace_dir().join(".cache/otel").join(name);
    assert!(path.is_file(), "`{}` is missing; run `scripts/setup otel`", path.display());
    path
}

/// Starts a collector that takes OTLP over HTTP at `port`, and gives what it takes to a gateway by `exporter`, the lines of its file for it.
fn start_collector(dir: &Path, port: u16, exporter: &str) -> Process {
    let name = exporter.trim().split(':').next().expect("an exporter has a name");
    let pipelines = ["logs", "traces", "metrics"]
        .map(|signal| format!("    {signal}: {{ receivers: [otlp], exporters: [{name}] }}\n"))
        .concat();
    // Without a queue a sender is answered once the gateway has answered.
    let text = format!(
        "receivers:\n  otlp:\n    protocols:\n      http: {{ endpoint: '127.0.0.1:{port}' }}\n\
         exporters:\n{exporter}    sending_queue: {{ enabled: false }}\n\
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
    let collector = start_collector(case.dir(), port, &exporter(http, grpc));
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
