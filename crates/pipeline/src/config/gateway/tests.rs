use super::*;
use crate::config::values::reference::Surroundings;
use crate::config::{check_gateway, is_gateway, is_pipeline};

/// All faults of a file, one a line; and whether it can be used.
fn faults(text: &str) -> (bool, String) {
    let around = Surroundings { env: &|_| Ok(Some("x".into())), file: &|_| Err("no".into()) };
    let checked = check_gateway(text, &around);
    (checked.gateway.is_some(), checked.faults.render("gateway.yaml"))
}

#[track_caller]
fn good(text: &str) -> Gateway {
    let around = Surroundings { env: &|_| Ok(Some("x".into())), file: &|_| Err("no".into()) };
    let checked = check_gateway(text, &around);
    checked.gateway.unwrap_or_else(|| panic!("{}", checked.faults.render("gateway.yaml")))
}

#[track_caller]
fn wrong(text: &str, why: &[&str]) {
    let (is_good, found) = faults(text);
    assert!(!is_good, "{text}");
    assert_eq!(found.lines().count(), why.len(), "{found}");
    for why in why {
        assert!(found.contains(why), "`{why}` is not in:\n{found}");
    }
}

#[test]
fn a_small_file_has_the_defaults_of_the_reference() {
    let gateway = good("gateway: edge\nstreams:\n  orders: {}\n");
    assert_eq!(gateway.listen.to_string(), "127.0.0.1:8686");
    let (name, stream) = gateway.streams.iter().next().unwrap();
    assert_eq!(gateway.log_of(name), "./forebay-logs/orders");
    assert_eq!(
        (stream.keys_for.ms, stream.keys, gateway.body_bytes_of(stream)),
        (600_000, 250_000, 16 << 20)
    );
    assert_eq!((gateway.limits.memory.bytes, gateway.limits.connections), (256 << 20, 1_024));
}

#[test]
fn an_address_of_other_machines_asks_who_sends_and_encrypts() {
    let on = |more: &str| format!("gateway: g\nlisten: 0.0.0.0:80\n{more}streams: {{ a: {{}} }}\n");
    wrong(&on(""), &["there are no `clients`"]);
    good(&on("allow_anyone: true\n"));
    let clients = "clients: { c: { token_file: t } }\n";
    wrong(&on(clients), &["sent in clear by other machines"]);
    good(&on(&format!("{clients}allow_plaintext: true\n")));
    good(&on(&format!("{clients}tls: {{ cert: c, key: k }}\n")));
    good(&on("tls: { cert: c, key: k, client_ca: a }\n"));
    wrong(&on("tls: { cert: c, key: k }\n"), &["there are no `clients`"]);
    wrong(
        "gateway: g\nalso_listen: ['127.0.0.1:4317', '0.0.0.0:4318', none]\nstreams: { a: {} }\n",
        &["`0.0.0.0:4318` can be reached", "leave it out, or write an address"],
    );
    good("gateway: g\nalso_listen: ['127.0.0.1:4317']\nstreams: { a: {} }\n");
    let nowhere =
        |more: &str| format!("gateway: g\nlisten: none\nstreams: {{ files: {{}}, syslog: {{}} }}\n{more}\n");
    wrong(&nowhere(""), &["nothing would fill the streams"]);
    wrong(&nowhere("also_listen: ['127.0.0.1:4317']"), &["has further addresses of a gateway"]);
    let found = good(&nowhere("files: [{ paths: [a], open: 7 }]"));
    assert_eq!((found.listen, found.open_max()), (Listen::None, 7));
    good(&nowhere("syslog: [{ udp: '127.0.0.1:514' }]"));
}

#[test]
fn syslog_has_an_address_and_a_stream_of_json() {
    let with =
        |more: &str| format!("gateway: g\nstreams: {{ syslog: {{}}, c: {{ format: message }} }}\n{more}\n");
    let found = good(&with(
        "syslog: [{ udp: '127.0.0.1:514' }, { tcp: 'localhost:601', message: 480B, connections: 9 }]",
    ));
    assert_eq!((found.syslog[0].message.bytes, found.syslog[0].stream.as_str()), (64 << 10, "syslog"));
    assert_eq!(found.syslog[1].tcp.map(|tcp| tcp.to_string()), Some("127.0.0.1:601".to_owned()));
    wrong(&with("syslog: [{ stream: syslog }]"), &["write `udp`"]);
    wrong(&with("syslog: [{ udp: none }]"), &["leave it out"]);
    wrong(&with("syslog: [{ udp: '0.0.0.0:514' }]"), &["syslog knows no login"]);
    good(&with("allow_anyone: true\nsyslog: [{ udp: '0.0.0.0:514', tcp: '0.0.0.0:514' }]"));
    let tls = "tls: { cert: c, key: k, client_ca: a }\n";
    good(&with(&format!("{tls}syslog: [{{ tcp: '0.0.0.0:6514', encrypted: true }}]")));
    wrong(&with(&format!("{tls}syslog: [{{ tcp: '0.0.0.0:6514' }}]")), &["syslog knows no login"]);
    wrong(&with("syslog: [{ tcp: '127.0.0.1:6514', encrypted: true }]"), &["only `tcp` can be encrypted"]);
    wrong(&with("syslog: [{ udp: '127.0.0.1:514', stream: d }]"), &["there is no stream `d`"]);
    wrong(&with("syslog: [{ udp: '127.0.0.1:514', stream: c }]"), &["`c` does not take JSON"]);
    wrong(&with("syslog: [{ udp: '127.0.0.1:514', message: 2MiB }]"), &["1MiB"]);
    wrong(
        "gateway: g\nstreams: { syslog: { memory: 1MiB, body: 256KiB } }\nsyslog: [{ udp: '127.0.0.1:514', message: 1MiB }]\n",
        &["an eighth of the `memory`"],
    );
}

#[test]
fn files_fill_a_stream_of_json_that_no_others_fill() {
    let with = |more: &str| {
        format!(
            "gateway: g\nstreams: {{ files: {{}}, c: {{ format: message }}, small: {{ memory: 1MiB, body: 256KiB }} }}\n{more}\n"
        )
    };
    let found = good(&with("files: [{ paths: ['/var/log/*.log'] }]"));
    let files = &found.files[0];
    assert_eq!(
        (files.stream.as_str(), files.lines, files.start),
        ("files", FileLines::Line, FileStart::Beginning)
    );
    assert_eq!((files.line.bytes, files.open, files.ahead.bytes), (64 << 10, 256, 16 << 20));
    good(&with("files: [{ paths: [a], as: json, start: end, host: web1 }, { paths: [a], stream: small }]"));
    wrong(&with("files: [{ paths: [] }]"), &["files[0].paths"]);
    wrong(&with("files: [{ paths: [a], stream: d }]"), &["there is no stream `d`"]);
    wrong(&with("files: [{ paths: [a], stream: c }]"), &["`c` does not take JSON"]);
    wrong(&with("files: [{ paths: [a], stream: small, line: 1MiB }]"), &["an eighth of the `memory`"]);
    wrong(&with("files: [{ paths: [a], line: 2MiB }]"), &["1MiB"]);
    wrong(&with("files: [{ paths: [a] }, { paths: [b] }]"), &["other files fill stream `files`"]);
}

#[test]
fn the_largest_body_fits_the_memory_that_it_may_have() {
    let of = |stream: &str, limits: &str| {
        format!("gateway: g\nstreams: {{ a: {{ {stream} }}, b: {{ body: 2MiB }} }}\nlimits: {{ {limits} }}\n")
    };
    good(&of("memory: 64MiB", "memory: 64MiB"));
    good(&of("memory: 1MiB, body: 256KiB", "memory: 8MiB"));
    wrong(&of("memory: 63MiB, body: 16MiB", ""), &["a quarter of the stream's `memory` is less"]);
    wrong(
        &of("body: 16MiB", "memory: 63MiB"),
        &["bodies of `16MiB` could never be taken: a quarter of `limits.memory`"],
    );
    wrong(&of("memory: 1MiB, body: 3MiB", "memory: 8MiB"), &["the stream's `memory`", "`limits.memory`"]);
    for (stream, limits, expected) in [
        ("", "", 16 << 20),
        ("body: 1MiB", "", 1 << 20),
        ("memory: 8MiB", "", 2 << 20),
        ("memory: 64MiB", "memory: 16MiB", 4 << 20),
        ("memory: 1MiB", "memory: 16MiB", 256 << 10),
    ] {
        let found = good(&of(stream, limits));
        assert_eq!(
            found.body_bytes_of(found.streams.values().next().expect("a")),
            expected,
            "{stream}, {limits}"
        );
    }
}

#[test]
fn streams_and_clients_keep_to_their_rules() {
    wrong("gateway: g\n", &["the gateway needs the key `streams`"]);
    wrong(
        "gateway: g\nstore: memory://\nstreams:\n  \"a/b\": {}\n  .c: {}\n",
        &["cannot be the name of a stream", "`.c` cannot be", "`memory://` forgets"],
    );
    wrong(
        "gateway: g\nstreams:\n  a: { log: ./logs/x }\n  b: { log: ./logs/x }\n  c: { log: ./logs/x, partition: 1 }\n",
        &["stream `a` fills that partition"],
    );
    let here = std::env::current_dir().unwrap().display().to_string();
    for (one, other) in [
        ("./l", "./l/"),
        ("l", &format!("file://{here}/l/")),
        ("l/./m", "l//m"),
        ("l", &format!("{here}/l")),
        ("./forebay-logs/a", "forebay-logs/a/"),
        ("s3://bucket/l", "s3://bucket/l/"),
    ] {
        let text = format!("gateway: g\nstreams:\n  a: {{ log: '{one}' }}\n  b: {{ log: '{other}' }}\n");
        wrong(&text, &["stream `a` fills that partition"]);
    }
    good(
        "gateway: g\nstreams:\n  a: { log: ./l }\n  b: { log: ./l/m }\n  c: { log: s3://l }\n  d: { log: gs://l }\n",
    );
    wrong(
        "gateway: g\nstreams:\n  a: { format: csv }\n  b: { columns: [x] }\n  c: { format: csv, columns: [x], delimiter: ab, quote: xy }\n  d: { keep: 1m }\n",
        &[
            "CSV needs the names",
            "`columns` go with",
            "`delimiter` is one",
            "`quote` is one",
            "records go before their",
        ],
    );
    wrong(
        "gateway: g\nstreams:\n  a: { format: avro }\n  b: { schema_file: x.avsc }\n  c: { format: protobuf, schema_file: x.proto }\n",
        &[
            "write `schema_file: orders.avsc`; or `format: json`",
            "goes with `format: avro`",
            "goes with `format: avro`",
        ],
    );
    good(
        "gateway: g\nstreams:\n  a: { format: avro, schema_file: x.avsc }\n  b: { format: protobuf }\n  c: { format: lines }\n",
    );
    wrong(
        "gateway: g\nclients:\n  x: { user: u }\n  y: { token_file: t, streams: [b] }\n  z: { token_file: t, tenant: a.b }\n  w: { token_file: t, user: u }\nstreams: { a: {} }\n",
        &["needs exactly one of", "go together", "there is no stream `b`", "a tenant's name", "go together"],
    );
    wrong("gateway: g\ntenant_header: 'a b'\nstreams: { a: {} }\n", &["is no name of a header"]);
}

#[test]
fn the_connections_and_files_of_all_bounds_are_counted() {
    assert_eq!(good("gateway: g\nstreams: { a: {} }\n").open_max(), 1_024);
    let many = "gateway: g\nalso_listen: ['127.0.0.1:1', '127.0.0.1:2']\nlimits: { connections: 100 }\nstreams: { syslog: {}, files: {} }\n\
                syslog: [{ udp: '127.0.0.1:3', tcp: '127.0.0.1:3', connections: 7 }, { udp: '127.0.0.1:4' }]\nfiles: [{ paths: [a], open: 50 }]\n";
    assert_eq!(good(many).open_max(), 3 * 100 + 7 + 50);
}

#[test]
fn otlp_fills_streams_of_its_formats() {
    let usual = good("gateway: g\nstreams: { a: {} }\n");
    assert_eq!(usual.otlp.logs.as_str(), "otlp_logs", "which need not be there");
    let streams = |otlp: &str| {
        format!(
            "gateway: g\notlp: {otlp}\nstreams:\n  x: {{ format: otlp_logs }}\n  t.x: {{ format: otlp_logs }}\n  y: {{}}\n"
        )
    };
    good(&streams("{ logs: x }"));
    wrong(&streams("{ logs: z }"), &["there is no stream `z`"]);
    wrong(
        &streams("{ metrics: x, traces: y }"),
        &["write `format: otlp_traces`", "write `format: otlp_metrics`", "write `format: otlp_metrics`"],
    );
    wrong(
        "gateway: g\nstreams: { otlp_logs: {} }\n",
        &["`/v1/logs` fills this stream: write `format: otlp_logs`"],
    );
}

#[test]
fn a_gateways_file_is_told_from_a_pipelines() {
    assert!(is_gateway("# edge\ngateway: edge\nstreams: {}\n"));
    assert!(!is_gateway("pipeline: p\nsource: { log: { url: x } }\n"));
    assert!(!is_gateway("pipeline: p\ngateway: g\n"), "a pipeline's file with a key too many");
}

#[test]
fn a_gateways_file_is_known_in_every_form_of_yaml_and_json() {
    for text in [
        "{\"gateway\": \"edge\", \"streams\": {\"orders\": {}}}",
        "{ gateway: edge, streams: { orders: {} } }\n",
        "\u{feff}gateway: edge\nstreams: {}\n",
        "\"gateway\": edge\n",
        "gateway : edge\n",
        // What cannot be read is told by its lines.
        "gateway: edge\nstreams: [\n",
    ] {
        assert!(is_gateway(text) && !is_pipeline(text), "{text}");
    }
    for text in ["{\"pipeline\": \"p\"}", "pipeline: p\nsource: [\n"] {
        assert!(is_pipeline(text) && !is_gateway(text), "{text}");
    }
    // A key of the same name that stands deeper, or in a text, is no sign.
    for text in ["columns: { gateway: a }\n", "note: |\n  gateway: edge\n", "gateway", ""] {
        assert!(!is_gateway(text) && !is_pipeline(text), "{text}");
    }
}

#[test]
fn metrics_of_a_gateway_are_told_to_other_machines_only_if_the_file_says_so() {
    let at = |http: &str| format!("gateway: g\nstreams: {{ a: {{}} }}\nhttp: {{ {http} }}\n");
    wrong(
        &at("listen: '0.0.0.0:9464'"),
        &["gateway.yaml:3:9: `0.0.0.0:9464` can be reached by other machines"],
    );
    for http in ["listen: '0.0.0.0:9464', allow_remote: true", "listen: '127.0.0.1:9465'", "listen: none"] {
        good(&at(http));
    }
}

#[test]
fn object_storage_of_a_gateway_is_asked_in_clear_only_if_the_file_says_so() {
    let at = |storage: &str| {
        format!("gateway: g\nstore: s3://b/logs\nstreams: {{ a: {{}} }}\nobject_storage: {{ {storage} }}\n")
    };
    wrong(
        &at("endpoint: 'http://minio:9000'"),
        &["gateway.yaml:4:19: `object_storage.endpoint` is not encrypted and on another machine"],
    );
    for storage in [
        "endpoint: 'http://minio:9000', allow_http: true",
        "endpoint: 'https://minio:9000'",
        "endpoint: 'http://127.0.0.1:9000'",
        "region: eu-central-1",
    ] {
        good(&at(storage));
    }
}
