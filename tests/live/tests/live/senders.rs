//! What other people's programs send to a gateway: Elasticsearch's client, a handler of Python's logging for Loki, writers of Loki's and Prometheus' messages by
//! Google's Protocol Buffers, posts as Vector and Fluent Bit make them, Python's handler of syslog and util-linux' `logger`.
//!
//! `senders.py` sends, and fails where a client does not take an answer; here the records in the logs are compared with what was sent.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use live::pipeline::term;
use live::tls::Authority;
use live::{Case, PATIENCE};
use serde_json::{Value, json};
use testkit::{free_port, wait_until, workspace_dir};

use super::logs::{program, start_gateway, wait_for_gateway};

/// Records of most senders, and of those that are slower, as `senders.py` has them.
const COUNT: u64 = 200;
const FEW: u64 = 20;

/// The records of a stream, each as JSON.
fn records(dir: &Path, stream: &str) -> Vec<Value> {
    let log = format!("logs/{stream}");
    let read = Command::new(program()).args(["log", "cat", &log]).current_dir(dir).output();
    let read = read.expect("the program starts");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let text = String::from_utf8(read.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// How many records each sender has, whose numbers are each there once.
#[track_caller]
fn counts(records: &[Value], of: impl Fn(&Value) -> (String, u64)) -> BTreeMap<String, u64> {
    let mut numbers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (sender, number) in records.iter().map(of) {
        numbers.entry(sender).or_default().push(number);
    }
    let counted = numbers.into_iter().map(|(sender, mut numbers)| {
        numbers.sort_unstable();
        let count = numbers.len() as u64;
        assert!(numbers.into_iter().eq(0..count), "{sender}");
        (sender, count)
    });
    counted.collect()
}

fn expected<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(sender, count)| (sender.to_owned(), count)).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

#[test]
fn every_record_of_other_peoples_senders_is_in_its_log_once() {
    let Some(case) = Case::begin("senders") else { return };
    let (dir, encrypted) = (case.dir(), case.dir().join("encrypted"));
    std::fs::create_dir(&encrypted).expect("the test's folder can be written");
    let authority = Authority::new(dir, "authority").expect("certificates");
    let identity = authority.issue(dir, "localhost").expect("certificates");
    let (http, syslog, tls) = (free_port(), free_port(), free_port());
    let common = "store: ./logs\nhttp: { listen: none }\nshutdown: { timeout: 20s }\n";
    let plain = format!(
        "gateway: plain\nlisten: '127.0.0.1:{http}'\n{common}streams: {{ docs: {{}}, loki: {{}}, prometheus: {{}}, events: {{}}, syslog: {{}} }}\n\
         syslog: [{{ udp: '127.0.0.1:{syslog}', tcp: '127.0.0.1:{syslog}' }}]\n"
    );
    let (cert, key) = (identity.cert.display(), identity.key.display());
    let other = format!(
        "gateway: encrypted\nlisten: '127.0.0.1:0'\n{common}streams: {{ syslog: {{}} }}\ntls: {{ cert: '{cert}', key: '{key}' }}\n\
         syslog: [{{ tcp: '127.0.0.1:{tls}', encrypted: true }}]\n"
    );
    let gateways = [(dir, plain), (encrypted.as_path(), other)].map(|(dir, file)| {
        std::fs::write(dir.join("gateway.yaml"), file).expect("the test's folder can be written");
        start_gateway(dir)
    });
    wait_for_gateway(http);
    wait_until(PATIENCE, "the encrypted gateway", || TcpStream::connect(("127.0.0.1", tls)).is_ok());
    let python = std::env::var_os("FOREBAY_PYTHON").expect("the ladder names a Python with the clients");
    let sent = Command::new(python)
        .arg(workspace_dir().join("tests/live/tests/live/senders.py"))
        .args([http, syslog, tls].map(|port| port.to_string()))
        .arg(authority.file())
        .output()
        .expect("Python starts");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    for gateway in gateways {
        term(gateway);
    }

    let by_field =
        |record: &Value| (text(&record["sender"]).to_owned(), record["n"].as_u64().expect("a number"));
    let docs = records(dir, "docs");
    assert_eq!(counts(&docs, by_field), expected([("elasticsearch", COUNT), ("fluent-bit", COUNT)]));
    assert!(docs.contains(&json!({ "sender": "elasticsearch", "n": 7, "text": "gr\u{fc}n 7" })));
    assert_eq!(
        counts(&records(dir, "events"), by_field),
        expected([("vector", COUNT), ("fluent-bit", COUNT)])
    );

    let by_line = |record: &Value| {
        let line = number(text(&record["line"]).split(' ').nth(1).expect("a number"));
        (text(&record["labels"]["sender"]).to_owned(), line)
    };
    let loki = records(dir, "loki");
    assert_eq!(counts(&loki, by_line), expected([("logging_loki", FEW), ("protobuf", COUNT)]));
    assert!(loki.contains(&json!({
        "timestamp": "1700000000000000007", "line": "line 7 \"quoted\"", "labels": { "app": "shop", "sender": "protobuf" }, "metadata": { "n": "7" },
    })));

    let written = records(dir, "prometheus");
    let (samples, histograms): (Vec<Value>, Vec<Value>) =
        written.into_iter().partition(|record| record["kind"] == "sample");
    let by_label =
        |record: &Value| (text(&record["labels"]["sender"]).to_owned(), number(text(&record["labels"]["n"])));
    assert_eq!(counts(&samples, by_label), expected([("1", COUNT), ("2", COUNT)]));
    for sender in ["1", "2"] {
        let labels = json!({ "n": "10", "sender": sender });
        let (name, timestamp) = ("hits", 1_700_000_000_010_u64);
        assert!(samples.contains(&json!({ "kind": "sample", "name": name, "labels": labels, "timestamp": timestamp, "value": 10.1 })));
        assert!(histograms.contains(&json!({
            "kind": "histogram", "name": name, "labels": labels, "timestamp": timestamp, "schema": 2, "is_float": false, "reset_hint": "unknown",
            "count": 7, "zero_count": 0, "sum": 10.0, "zero_threshold": 0.0, "negative_indexes": [], "negative_counts": [],
            "positive_indexes": [-1, 0, 4], "positive_counts": [2, 3, 2], "custom_bounds": [],
        })));
    }
    assert_eq!(histograms.len() as u64, 2 * COUNT / 10);

    let messages = records(dir, "syslog");
    let by_message = |record: &Value| {
        let message = text(&record["message"]);
        match text(&record["app_name"]) {
            // Python's handler has neither a header nor a program's name.
            "" => {
                let mut words = message.split(' ');
                let sender = words.next().expect("a sender").to_owned();
                (sender, number(words.next().expect("a number")))
            }
            sender => (sender.to_owned(), number(message.split(' ').next().expect("a number"))),
        }
    };
    let senders = [
        ("python-udp", COUNT),
        ("python-tcp", COUNT),
        ("logger-udp", FEW),
        ("logger-tcp", FEW),
        ("logger-counted", FEW),
        ("logger-old", FEW),
    ];
    assert_eq!(counts(&messages, by_message), expected(senders));
    let is_logger = |record: &&Value| text(&record["app_name"]).starts_with("logger");
    assert!(
        messages.iter().filter(is_logger).all(|record| record["facility"] == 4 && record["severity"] == 2)
    );
    let counted = messages.iter().find(|record| record["app_name"] == "logger-counted").expect("one");
    assert_eq!(counted["structured_data"]["test@1"], json!({ "a": "b" }));
    assert_eq!(counts(&records(&encrypted, "syslog"), by_message), expected([("tls", COUNT)]));
}
