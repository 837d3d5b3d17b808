//! The OpenTelemetry SDK for Python sends logs, spans and metrics to a gateway, by gRPC and by HTTP, and pipelines bring them from its logs into the tables
//! of the collector's exporter: every value is what the SDK was told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use live::{Case, PATIENCE, Pipeline};
use serde_json::{Value, json};
use testkit::{HttpClient, Lcg, Process, Spawn, free_port, seed, wait_until};

use super::hostile::field;
use super::otlp::{compare, tables};

/// Batches of the test with kills, logs of each, and how often the gateway dies.
const BATCHES: u64 = 150;
const PER_BATCH: u64 = 20;
const KILLS: u64 = 4;

/// Writes the gateway's file; its ports are those of HTTP and of gRPC.
pub(super) fn write_gateway(dir: &Path, http: u16, grpc: u16) {
    let streams = ["logs", "traces", "metrics"]
        .map(|signal| format!("  otlp_{signal}: {{ format: otlp_{signal}, linger: 50ms }}\n"))
        .concat();
    let text = format!(
        "gateway: test\nlisten: '127.0.0.1:{http}'\nalso_listen: ['127.0.0.1:{grpc}']\nstore: ./otel\nstreams:\n{streams}http: {{ listen: none }}\n"
    );
    std::fs::write(dir.join("gateway.yaml"), text).expect("the test's folder can be written");
}

pub(super) fn start_gateway(dir: &Path, port: u16) -> Process {
    let program = live::case::binary().expect("the program");
    let spawn = Spawn::new("gateway", program).args(["gateway", "gateway.yaml"]).cwd(dir);
    let gateway =
        spawn.env("NO_COLOR", "1").env_remove("FOREBAY_LOG").start(dir).expect("the gateway starts");
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}"));
    wait_until(PATIENCE, "the gateway", || client.get("/readyz").is_ok_and(|answer| answer.status == 200));
    gateway
}

pub(super) fn sdk(args: &[&str]) -> Command {
    let python = std::env::var_os("FOREBAY_PYTHON").expect("the ladder names a Python with the SDK");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/live/otel_sdk.py");
    let mut command = Command::new(python);
    command.arg(script).args(args).stdin(Stdio::null());
    command
}

/// A pipeline from a stream of the gateway's into tables of the case's database.
pub(super) fn from(case: &Case, signal: &str, sinks: &[String]) -> Pipeline {
    let pipeline = Pipeline::new(case, &format!("{}_{signal}", case.name()))
        .input_of(
            "events",
            &format!(
                "{{ log: {{ url: ./otel/otlp_{signal} }}, format: otlp_{signal}{} }}",
                match signal {
                    "metrics" => ", fields: { MetricType: String }",
                    _ => "",
                }
            ),
        )
        .batch("{ age: 100ms }");
    sinks.iter().fold(pipeline, |pipeline, sink| pipeline.one_of(sink))
}

pub(super) fn sink(case: &Case, table: &str, condition: &str) -> String {
    format!("{{ clickhouse: {{ database: {}, table: {table} }}{condition} }}", case.name())
}

#[test]
fn what_the_sdk_sends_by_grpc_is_in_the_tables_as_it_was_told() {
    everything("otel_grpc", "grpc");
}

#[test]
fn what_the_sdk_sends_by_http_is_in_the_tables_as_it_was_told() {
    everything("otel_http", "http");
}

fn everything(name: &str, protocol: &str) {
    let Some(case) = Case::begin(name) else { return };
    let (http, grpc) = (free_port(), free_port());
    write_gateway(case.dir(), http, grpc);
    let gateway = start_gateway(case.dir(), http);
    let urls = match protocol {
        "grpc" => ["", "", ""].map(|_| format!("http://127.0.0.1:{grpc}")),
        _ => ["logs", "traces", "metrics"].map(|signal| format!("http://127.0.0.1:{http}/v1/{signal}")),
    };
    let output = sdk(&["all", protocol, &urls[0], &urls[1], &urls[2]]).output().expect("Python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let told = told(&output.stdout);
    live::pipeline::term(gateway);

    let database = tables(&case, &[]);
    into_tables(&case);
    for (table, rows) in &told {
        compare(&database, &case, table, rows);
    }
}

/// What `otel_sdk.py all` says that it has told the SDK: the rows of each table.
pub(super) fn told(output: &[u8]) -> BTreeMap<String, Vec<Value>> {
    let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in std::str::from_utf8(output).expect("text").lines() {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        told.entry(line["table"].as_str().expect("a table").to_owned()).or_default().push(line["row"].take());
    }
    assert_eq!(told.len(), 6, "{:?}", told.keys());
    assert_eq!((told["otel_logs"].len(), told["otel_traces"].len()), (3_000, 1_500));
    told
}

/// Brings what is in the gateway's logs into the tables of all three signals.
pub(super) fn into_tables(case: &Case) {
    from(case, "logs", &[sink(case, "otel_logs", "")]).drain();
    from(case, "traces", &[sink(case, "otel_traces", "")]).drain();
    let kinds = ["gauge", "sum", "histogram", "exponential_histogram", "summary"];
    let of_kind =
        |kind| sink(case, &format!("otel_metrics_{kind}"), &format!(", where: MetricType = '{kind}'"));
    from(case, "metrics", &kinds.map(of_kind)).drain();
}

/// The gateway dies while the SDK sends; its exporter sends the same bytes again as the protocol says, and they are recognised.
#[test]
fn kill_test_every_log_that_the_sdk_was_told_is_taken_is_in_the_table_once() {
    for (name, protocol) in [("otel_kill_grpc", "grpc"), ("otel_kill_http", "http")] {
        let Some(case) = Case::begin(name) else { return };
        let (http, grpc) = (free_port(), free_port());
        write_gateway(case.dir(), http, grpc);
        let mut gateway = start_gateway(case.dir(), http);
        let url = match protocol {
            "grpc" => format!("http://127.0.0.1:{grpc}"),
            _ => format!("http://127.0.0.1:{http}/v1/logs"),
        };
        let told = case.dir().join("told.txt");
        let out = std::fs::File::create(&told).expect("a file");
        let mut command = sdk(&["batches", protocol, &url, &BATCHES.to_string()]);
        let mut sender = command.stdout(out).stderr(Stdio::null()).spawn().expect("Python starts");
        let taken = || std::fs::read_to_string(&told).expect("a file").lines().count() as u64;
        let mut random = Lcg::new(seed());
        for kill in 0..KILLS {
            let enough = kill * BATCHES / (KILLS + 1) + 1 + random.below(BATCHES / (2 * KILLS));
            wait_until(PATIENCE, "batches are taken", || taken() >= enough);
            gateway.kill9().expect("the gateway dies");
            std::thread::sleep(Duration::from_millis(random.below(300)));
            gateway = start_gateway(case.dir(), http);
        }
        wait_until(PATIENCE, "all batches are taken", || taken() == BATCHES);
        assert!(sender.wait().expect("it ends").success());
        live::pipeline::term(gateway);

        let database = tables(&case, &["logs"]);
        from(&case, "logs", &[sink(&case, "otel_logs", "")]).drain();
        let ids = database.ask("SELECT LogAttributes['id'] FROM {t}.otel_logs");
        let distinct: BTreeSet<u64> = ids.lines().map(|id| id.parse().expect("a number")).collect();
        let all = BATCHES * PER_BATCH;
        assert!(
            distinct.len() as u64 == all && distinct.last() == Some(&(all - 1)),
            "{} of {all}",
            distinct.len()
        );
        assert_eq!(ids.lines().count() as u64, all, "{protocol}: sent again, and there twice");
    }
}

#[test]
fn a_client_that_knows_no_protocol_finds_the_services_by_reflection_and_sends_a_log() {
    let Some(case) = Case::begin("otel_reflection") else { return };
    let (http, grpc) = (free_port(), free_port());
    write_gateway(case.dir(), http, grpc);
    let gateway = start_gateway(case.dir(), http);
    let output = sdk(&["reflect", &format!("127.0.0.1:{grpc}")]).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let export = |name: &str| format!("opentelemetry.proto.collector.{name}");
    assert_eq!(
        lines,
        [
            json!({
                "grpc.health.v1.Health": ["Check", "List", "Watch"],
                "grpc.reflection.v1.ServerReflection": ["ServerReflectionInfo"],
                "grpc.reflection.v1alpha.ServerReflection": ["ServerReflectionInfo"],
                export("logs.v1.LogsService"): ["Export"],
                export("metrics.v1.MetricsService"): ["Export"],
                export("trace.v1.TraceService"): ["Export"],
            }),
            json!({ "health": 1 }),
            json!({ "": 1, export("logs.v1.LogsService"): 1, export("metrics.v1.MetricsService"): 1, export("trace.v1.TraceService"): 1 }),
        ]
    );
    live::pipeline::term(gateway);
    let database = tables(&case, &["logs"]);
    from(&case, "logs", &[sink(&case, "otel_logs", "")]).drain();
    assert_eq!(database.ask("SELECT Body, SeverityText FROM {t}.otel_logs").trim(), "by reflection\tINFO");
}

/// What the pipeline of the next test may use, by its file, and what it may take at the most: that, and two requests of the largest size that a
/// request may have in columns, each once more as it is sent.
const MEMORY_MIB: u64 = 128;
const PEAK_MIB_MAX: u64 = MEMORY_MIB + 2 * 2 * 128;

/// A request whose rows share an attribute of 4 MiB, with as many bytes again that allow them to.
fn broad(rows: usize) -> Vec<u8> {
    let attribute = |key: &str, bytes: usize| {
        field(1, &[field(1, key.as_bytes()), field(2, &field(1, &vec![b'v'; bytes]))].concat())
    };
    let rows = field(2, &[]).repeat(rows);
    let resource = [field(1, &attribute("shared", 4 << 20)), field(2, &rows)].concat();
    let padding = field(1, &attribute("padding", (4 << 20) + (400 << 10)));
    [field(1, &resource), field(1, &padding)].concat()
}

/// A gateway stops the first kind at the door. It may come another way, and then it must not end the pipeline, which would read it again at each start.
#[test]
fn a_kilobyte_that_would_become_a_gibibyte_of_columns_takes_no_memory() {
    let Some(case) = Case::begin("otel_memory") else { return };
    let port = free_port();
    let text = format!(
        "gateway: test\nlisten: '127.0.0.1:{port}'\nstore: ./otel\nstreams: {{ otlp_logs: {{ format: otlp_logs }}, raw: {{ format: message }} }}\n\
         http: {{ listen: none }}\n"
    );
    std::fs::write(case.dir().join("gateway.yaml"), text).expect("the test's folder can be written");
    let gateway = start_gateway(case.dir(), port);
    let post = |path: &str, body: &[u8]| {
        let packed = zstd::encode_all(body, 9).expect("memory takes all");
        let headers = [("Content-Type", "application/x-protobuf"), ("Content-Encoding", "zstd")];
        let client = HttpClient::new(&format!("http://127.0.0.1:{port}")).timeout(PATIENCE);
        let answer = client.request("POST", path, &headers, &packed).expect("an answer");
        (answer.status, answer.text(), packed.len())
    };
    // 250 rows of 4 MiB.
    let bomb = broad(250);
    let (status, told, bytes) = post("/v1/logs", &bomb);
    assert!(bytes < 4_096, "{bytes} bytes are sent");
    assert!([400, 413].contains(&status) && told.contains("send fewer attributes"), "{status} {told}");
    let wide = 28;
    let plain = field(1, &field(2, &field(2, &field(5, &field(1, b"plain")))));
    for body in [&bomb, &broad(wide), &bomb, &broad(wide), &plain] {
        let (status, told, _) = post("/v1/streams/raw", body);
        assert_eq!(status, 200, "{told}");
    }
    live::pipeline::term(gateway);

    let database = tables(&case, &["logs"]);
    let pipeline = case
        .pipeline()
        .input_of("events", "{ log: { url: ./otel/raw }, format: otlp_logs }")
        .one_of(&sink(&case, "otel_logs", ""))
        .batch("{ age: 100ms }")
        .more(&format!("memory: {MEMORY_MIB}MiB"));
    let running = pipeline.run();
    let rows = 2 * wide as u64 + 1;
    let count = || database.value("SELECT count() FROM {t}.otel_logs").parse::<u64>().expect("a number");
    wait_until(PATIENCE, "the rows", || count() == rows);
    let peak = running.usage().expect("its usage").rss_bytes_max >> 20;
    live::pipeline::term(running);
    let letters = pipeline.status()["records"]["dead_letters"].clone();
    assert_eq!((letters, count()), (json!(2), rows));
    println!("{peak} MiB at the most");
    assert!(peak <= PEAK_MIB_MAX, "{peak} MiB, and `memory` is {MEMORY_MIB} MiB");
}
