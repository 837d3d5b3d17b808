//! A real Pulsar over TLS (`pulsar+ssl://`), with certificates of our own authority: whom the program trusts, and how it logs in.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use live::issuer::token;
use live::pipeline::{ended, term};
use live::tls::{Authority, Identity};
use live::{Case, Pipeline};
use sources::pulsar::produce::{Compression, Outgoing, Producer};
use sources::pulsar::{PulsarOptions, Token};
use testkit::{Pulsar, Service, available, free_port, wait_until};

use super::pulsar::clock;

/// With this the broker checks tokens: the same key as `KEY_BASE64`.
const KEY: &[u8] = b"a key of 32 bytes for this test.";
const KEY_BASE64: &str = "YSBrZXkgb2YgMzIgYnl0ZXMgZm9yIHRoaXMgdGVzdC4=";
const TOPIC: &str = "events";
/// A token lives so long, in seconds.
const LIFE_S: u64 = 6;

/// A Pulsar that takes tokens and clients' certificates, and its port for TLS.
struct Broker {
    pulsar: Pulsar,
    port: u16,
}

impl Broker {
    fn start(authority: &Authority, identity: &Identity) -> Broker {
        let (port, admin) = (free_port(), token(KEY, "admin", None));
        let provider =
            |name: &str| format!("org.apache.pulsar.broker.authentication.AuthenticationProvider{name}");
        let options = testkit::PulsarOptions::default()
            .property("brokerServicePortTls", &port.to_string())
            .property("tlsCertificateFilePath", &identity.cert.display().to_string())
            .property("tlsKeyFilePath", &identity.key.display().to_string())
            .property("tlsTrustCertsFilePath", &authority.file().display().to_string())
            .property("authenticationEnabled", "true")
            .property("authenticationProviders", &format!("{},{}", provider("Token"), provider("Tls")))
            .property("tokenSecretKey", &format!("data:;base64,{KEY_BASE64}"))
            .property("authenticationRefreshCheckSeconds", "1")
            .property(
                "brokerClientAuthenticationPlugin",
                "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            )
            .property("brokerClientAuthenticationParameters", &format!("token:{admin}"))
            .token(&admin);
        let pulsar = Pulsar::start(options).expect("Pulsar must start");
        pulsar.create_topic(TOPIC, 0).expect("a topic");
        Broker { pulsar, port }
    }

    fn send(&self, ids: Range<u64>) {
        let mut options =
            PulsarOptions::new(&self.pulsar.service(), &[TOPIC.to_owned()], "x").expect("options");
        options.token = Some(Token::Fixed(token(KEY, "producer", None)));
        let mut producer = Producer::new(options, TOPIC, clock()).expect("a producer");
        let bodies: Vec<String> = ids.map(|id| format!("{{\"id\":{id}}}")).collect();
        let sent: Vec<Outgoing<'_>> = bodies
            .iter()
            .map(|body| Outgoing { payload: Some(body.as_bytes()), ..Outgoing::default() })
            .collect();
        producer.batch(&sent, Compression::None).expect("stored");
    }

    /// A pipeline that connects to the port for TLS under this name, with what `security:` says.
    fn pipeline(&self, case: &Case, host: &str, security: &str) -> Pipeline {
        let source = format!(
            "{{ pulsar: {{ service: 'pulsar+ssl://{host}:{}', topic: {TOPIC}{security} }} }}",
            self.port
        );
        case.pipeline().input_of("events", &source)
    }
}

fn trusting(ca: &Path, more: &str, login: &str) -> String {
    format!(", security: {{ tls: {{ ca: '{}'{more} }}{login} }}", ca.display())
}

/// The program does not start, and says why.
#[track_caller]
fn is_refused(pipeline: &Pipeline, words: &[&str]) {
    let (exit, said) = ended(pipeline.start_check());
    assert_ne!(exit.status.code(), Some(0), "{said}");
    for words in words {
        assert!(said.to_lowercase().contains(words), "`{words}` is not in: {said}");
    }
}

#[test]
fn pulsar_by_tls_is_trusted_by_its_authority_and_its_name_and_takes_tokens_and_certificates() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("pulsar_tls") else { return };
    let dir = case.dir();
    let authority = Authority::new(dir, "right").expect("an authority");
    let other = Authority::new(dir, "other").expect("an authority");
    let broker = Broker::start(&authority, &authority.issue(dir, "127.0.0.1").expect("a certificate"));
    let table = case.table("id UInt64", "id");
    let file = dir.join("token");
    let put_token = |life_s: Option<u64>| {
        // As a file of somebody else is replaced: whole, by a rename.
        std::fs::write(dir.join("token.new"), token(KEY, "loader", life_s)).expect("a file");
        std::fs::rename(dir.join("token.new"), &file).expect("a rename");
    };
    put_token(None);
    let login = format!(", oauth: {{ token_file: '{}' }}", file.display());
    let ca = authority.file();

    // Without `ca` the system's authorities count, and ours is none of them.
    let by_system = format!(", security: {{ oauth: {{ token_file: '{}' }} }}", file.display());
    is_refused(&broker.pipeline(&case, "127.0.0.1", &by_system), &["certificate"]);
    is_refused(&broker.pipeline(&case, "127.0.0.1", &trusting(other.file(), "", &login)), &["certificate"]);
    // The certificate names the address alone.
    is_refused(
        &broker.pipeline(&case, "localhost", &trusting(ca, "", &login)),
        &["certificate", "localhost"],
    );
    is_refused(&broker.pipeline(&case, "127.0.0.1", &trusting(ca, "", "")), &["127.0.0.1"]);

    broker.send(0..100);
    broker.pipeline(&case, "localhost", &trusting(ca, ", verify_host: false", &login)).drain();
    assert_eq!(table.count_and_distinct("id"), (100, 100));

    let pipeline = broker.pipeline(&case, "127.0.0.1", &trusting(ca, "", &login));
    pipeline.check(&["--connect"]);
    // A token of a few seconds, which somebody replaces while the program runs.
    put_token(Some(LIFE_S));
    let running = pipeline.run();
    for n in 1..6 {
        put_token(Some(LIFE_S));
        broker.send(n * 100..(n + 1) * 100);
        // On a busy machine a token runs out before all has come.
        wait_until(live::PATIENCE, "all to come and nothing to be wrong", || {
            put_token(Some(LIFE_S));
            table.count() == (n + 1) * 100 && pipeline.problem("events").is_none()
        });
        std::thread::sleep(Duration::from_secs(LIFE_S / 2));
    }
    // Nobody does: the broker takes the old one no longer, until there is a new one.
    pipeline.wait_for_problem("events", "source_away");
    broker.send(600..700);
    put_token(Some(600));
    table.wait_for(700);
    term(running);

    // By certificate, without a token.
    let by = |identity: &Identity| {
        let (cert, key) = (identity.cert.display(), identity.key.display());
        broker.pipeline(&case, "127.0.0.1", &trusting(ca, &format!(", cert: '{cert}', key: '{key}'"), ""))
    };
    is_refused(&by(&other.issue(dir, "stranger").expect("a certificate")), &["127.0.0.1"]);
    broker.send(700..800);
    by(&authority.issue(dir, "loader").expect("a certificate")).drain();
    assert_eq!(table.count_and_distinct("id"), (800, 800));
}
