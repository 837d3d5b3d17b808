//! The OpenTelemetry SDK for Python by gRPC over TLS: who is let in, by a token or a certificate, and for which tenant.
//!
//! Owns the answers that a caller of gRPC gets before its request is read. Does not own what is in a request ([`super::otel`]).

use std::net::TcpStream;
use std::path::Path;

use live::tls::Authority;
use live::{Case, PATIENCE, Pipeline};
use testkit::{Process, Spawn, free_port, wait_until};

use super::otel::{sdk, sink};
use super::otlp::tables;

/// A gateway with TLS on one port, and `more` in its file.
fn start(
    dir: &Path,
    port: u16,
    identity: &live::tls::Identity,
    client_ca: Option<&Path>,
    more: &str,
) -> Process {
    let client_ca = client_ca.map_or_else(String::new, |file| format!(", client_ca: '{}'", file.display()));
    let text = format!(
        "gateway: encrypted\nlisten: '127.0.0.1:{port}'\nstore: ./encrypted\ntls: {{ cert: '{}', key: '{}'{client_ca} }}\n\
         http: {{ listen: none }}\n{more}",
        identity.cert.display(),
        identity.key.display()
    );
    std::fs::write(dir.join("encrypted.yaml"), text).expect("the test's folder can be written");
    let program = live::case::binary().expect("the program");
    let spawn = Spawn::new("gateway", program).args(["gateway", "encrypted.yaml"]).cwd(dir);
    let gateway =
        spawn.env("NO_COLOR", "1").env_remove("FOREBAY_LOG").start(dir).expect("the gateway starts");
    wait_until(PATIENCE, "the gateway", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    gateway
}

/// What the SDK is answered: `ok`, or the code.
fn answer(port: u16, ca: &Path, headers: &str, own: Option<&live::tls::Identity>) -> String {
    let (url, ca) = (format!("https://localhost:{port}"), ca.display().to_string());
    let mut command = sdk(&["encrypted", &url, &ca, headers]);
    if let Some(own) = own {
        command.arg(&own.cert).arg(&own.key);
    }
    let output = command.output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The bodies of the logs in a stream.
fn bodies(case: &Case, stream: &str) -> String {
    let database = tables(case, &["logs"]);
    Pipeline::new(case, &format!("{}_logs", case.name()))
        .input_of("events", &format!("{{ log: {{ url: ./encrypted/{stream} }}, format: otlp_logs }}"))
        .batch("{ age: 100ms }")
        .one_of(&sink(case, "otel_logs", ""))
        .drain();
    database.ask("SELECT Body FROM {t}.otel_logs").trim().to_owned()
}

#[test]
fn the_sdk_is_let_in_by_its_token_over_tls_and_fills_its_tenants_stream_alone() {
    let Some(case) = Case::begin("otel_tls_token") else { return };
    let (dir, port) = (case.dir(), free_port());
    let authority = Authority::new(dir, "authority").expect("certificates");
    let other = Authority::new(dir, "stranger").expect("certificates");
    let identity = authority.issue(dir, "localhost").expect("a certificate");
    std::fs::write(dir.join("token"), "s3cret-of-acme\n").expect("a file");
    let more = "clients:\n  acme: { token_file: ./token, tenant: acme }\ntenant_header: X-Scope-OrgID\n\
                streams:\n  acme.otlp_logs: { format: otlp_logs }\n  other.otlp_logs: { format: otlp_logs }\n";
    let gateway = start(dir, port, &identity, None, more);
    let told = |headers| answer(port, authority.file(), headers, None);
    assert_eq!(told("authorization=Bearer s3cret-of-acme"), "ok");
    assert_eq!(told(""), "UNAUTHENTICATED");
    assert_eq!(told("authorization=Bearer wrong"), "UNAUTHENTICATED");
    assert_eq!(told("authorization=Bearer s3cret-of-acme,x-scope-orgid=other"), "PERMISSION_DENIED");
    // Who does not trust the gateway sends it nothing.
    assert_eq!(answer(port, other.file(), "authorization=Bearer s3cret-of-acme", None), "UNAVAILABLE");
    live::pipeline::term(gateway);
    assert_eq!(bodies(&case, "acme.otlp_logs"), "authorization=Bearer s3cret-of-acme");
}

#[test]
fn the_sdk_is_let_in_by_its_certificate_and_nobody_without_one() {
    let Some(case) = Case::begin("otel_tls_mutual") else { return };
    let (dir, port) = (case.dir(), free_port());
    let authority = Authority::new(dir, "authority").expect("certificates");
    let of_clients = Authority::new(dir, "clients").expect("certificates");
    let identity = authority.issue(dir, "localhost").expect("a certificate");
    let known = of_clients.issue(dir, "sender").expect("a certificate");
    // Signed by somebody else.
    let unknown = authority.issue(dir, "sender").expect("a certificate");
    let more = "streams:\n  otlp_logs: { format: otlp_logs }\n";
    let gateway = start(dir, port, &identity, Some(of_clients.file()), more);
    assert_eq!(answer(port, authority.file(), "n=known", Some(&known)), "ok");
    assert_eq!(answer(port, authority.file(), "n=unknown", Some(&unknown)), "UNAVAILABLE");
    assert_eq!(answer(port, authority.file(), "n=nobody", None), "UNAVAILABLE");
    live::pipeline::term(gateway);
    assert_eq!(bodies(&case, "otlp_logs"), "n=known");
}
