//! The Kafka source against a real broker that lets in only those it knows: certificates, passwords, tokens.
//!
//! | what is wrong                            | what comes of it                                        |
//! |------------------------------------------|---------------------------------------------------------|
//! | authority, password, token, at the start | `Config` within one call's bound, with broker and reason |
//! | a token that runs out while reading      | `Away` with the reason, until there is one again        |
//! | a session that ends while reading        | nothing: it was renewed before                          |

#![cfg(feature = "kafka")]

#[path = "support/runtime.rs"]
mod runtime;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

use dataflow::conformance::source::at;
use dataflow::{Event, Reader, Runtime, Source, SourceError, SourceFault};
use runtime::TestRuntime;
use sources::kafka::produce::{Outgoing, Producer};
use sources::kafka::{FetchBy, Issuer, IssuerOptions, KafkaOptions, KafkaSource, TokenSource};
use testkit::{Kafka, Security, Service};
use tracing::span;

const TOPIC: &str = "events";
/// Records of partition 0, which nobody adds to.
const RECORDS: usize = 5;
/// Partitions that tests add to, each its own.
const BY_COMMAND: u32 = 1;
const BY_FILE: u32 = 2;
const BY_SESSIONS: u32 = 3;
const BY_ISSUER: u32 = 4;
/// Short, so that tokens end within a test; long enough for a busy machine to log in with.
const TOKEN_S: i64 = 6;
/// A failed token is asked for again after 10 s.
const UNTIL_MAX: Duration = Duration::from_secs(300);
const WRONG: &str = "a-wrong-password";
const CLIENT_SECRET: &str = "a-clients-secret";

/// The one broker of these tests; it goes with the last of them that runs.
static SHARED: Mutex<Weak<Kafka>> = Mutex::new(Weak::new());

fn shared() -> Option<Arc<Kafka>> {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| tracing::subscriber::set_global_default(Log).expect("nobody else listens"));
    if !testkit::available(&[Service::Kafka]) {
        return None;
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    Some(shared.upgrade().unwrap_or_else(|| {
        let options = testkit::KafkaOptions::default().security(Security::SaslTls);
        let broker = Arc::new(Kafka::start(options).expect("the broker starts"));
        broker.create_topic(TOPIC, 5, &[]).expect("a topic");
        fill(&broker, 0, RECORDS);
        *shared = Arc::downgrade(&broker);
        broker
    }))
}

/// What everybody logged, down to librdkafka's own debug lines.
static LOGGED: Mutex<String> = Mutex::new(String::new());

struct Log;

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields<'a>(&'a mut String);
        impl tracing::field::Visit for Fields<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                writeln!(self.0, "{field}={value:?}").expect("a string takes all");
            }
        }
        event.record(&mut Fields(&mut LOGGED.lock().unwrap_or_else(PoisonError::into_inner)));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn logged() -> String {
    LOGGED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn ca(kafka: &Kafka) -> String {
    kafka.credentials().expect("the broker is secured").ca_file.display().to_string()
}

/// A login over TLS with the broker's own authority.
fn login(kafka: &Kafka, mechanism: &str, password: &str) -> KafkaOptions {
    let user = kafka.credentials().expect("the broker is secured").user.clone();
    with(
        kafka.bootstrap(),
        &[
            ("security.protocol", "SASL_SSL"),
            ("ssl.ca.location", &ca(kafka)),
            ("sasl.mechanism", mechanism),
            ("sasl.username", &user),
            ("sasl.password", password),
            // Whatever librdkafka says of its doings must not hold the password.
            ("debug", "security,broker"),
        ],
    )
}

/// The same, read by the direct fetch or not at all.
fn directly(mut options: KafkaOptions) -> KafkaOptions {
    // A property of librdkafka's that a direct fetch does not know.
    options.properties.remove("debug");
    KafkaOptions { fetch: FetchBy::Direct, ..options }
}

fn by_token(kafka: &Kafka, token: TokenSource) -> KafkaOptions {
    let options = with(
        kafka.bootstrap(),
        &[
            ("security.protocol", "SASL_SSL"),
            ("ssl.ca.location", &ca(kafka)),
            ("sasl.mechanism", "OAUTHBEARER"),
        ],
    );
    KafkaOptions { token: Some(token), ..options }
}

fn with(broker: String, properties: &[(&str, &str)]) -> KafkaOptions {
    let mut options = KafkaOptions::new(vec![broker], vec![TOPIC.into()], "forebay-secure");
    options.properties = map(properties);
    options
}

fn password(kafka: &Kafka) -> String {
    kafka.credentials().expect("the broker is secured").password.clone()
}

fn fill(kafka: &Kafka, partition: u32, count: usize) {
    let properties = login(kafka, "PLAIN", &password(kafka)).properties;
    let producer = Producer::new(&[kafka.bootstrap()], &properties, None).expect("a producer");
    let record =
        Outgoing { topic: TOPIC, partition: Some(partition), payload: Some(b"{}"), ..Outgoing::default() };
    for _ in 0..count {
        producer.send(&record).expect("sends");
    }
    producer.flush(Duration::from_secs(600)).expect("all acknowledged");
}

struct Reading {
    reader: Box<dyn Reader>,
    rows: usize,
    away: Vec<String>,
}

impl Reading {
    /// Reads a partition from its beginning.
    async fn of(options: KafkaOptions, partition: u32) -> Result<Self, SourceError> {
        let source = KafkaSource::new(options, Arc::new(TestRuntime::new()))?;
        let starts = source.partitions().await?;
        let start = starts.iter().find(|start| start.partition.index == partition).expect("the partition");
        Ok(Self { reader: source.read(vec![at(start, 0)]).await?, rows: 0, away: Vec::new() })
    }

    /// Reads on until `enough`; what is away is noted.
    async fn until(&mut self, mut enough: impl FnMut(&Self) -> bool) -> Result<(), SourceError> {
        let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
        // What is away is reported again and again, so that one event's bound would never end it.
        while !enough(self) {
            let left = UNTIL_MAX.checked_sub(runtime.elapsed());
            let Some(event) = runtime.timeout(left.unwrap_or_default(), self.reader.next()).await else {
                panic!("`{}` rows came in time, and: {:?}", self.rows, self.away)
            };
            match event {
                Ok(Event::Block(block)) => self.rows += block.len(),
                Ok(_) => {}
                Err(error) if error.fault == SourceFault::Away => self.away.push(error.message),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

async fn reads_all(options: KafkaOptions) {
    let shown = format!("{options:?}");
    let mut reading = Reading::of(options, 0).await.unwrap_or_else(|error| panic!("{shown}: {error}"));
    reading.until(|reading| reading.rows >= RECORDS).await.expect("reads");
    assert_eq!(reading.rows, RECORDS, "{shown}");
}

/// The source must stop for an operator, and say `says`; none of it holds a secret.
async fn is_refused(options: KafkaOptions, says: &[&str]) {
    let shown = format!("{options:?}");
    let Err(error) = Reading::of(options, 0).await else { panic!("{shown} must be refused") };
    assert_eq!(error.fault, SourceFault::Config, "{shown}: {error}");
    for word in says {
        assert!(error.message.contains(word), "`{word}` is not in: {error}");
    }
    for secret in [WRONG, CLIENT_SECRET] {
        assert!(!format!("{shown}{error:?}").contains(secret), "{shown}: {error}");
    }
    assert!(!error.message.contains("Timed out"), "the reason alone: {error}");
}

fn base64url(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letters = |three: &[u8]| {
        let bits =
            three.iter().chain([&0, &0]).take(3).fold(0_usize, |bits, byte| bits << 8 | *byte as usize);
        let letter = move |n: usize| char::from(LETTERS[bits >> (18 - 6 * n) & 63]);
        (0..=three.len()).map(letter).collect::<String>()
    };
    text.as_bytes().chunks(3).map(letters).collect()
}

/// A token that ends after `life_s`, with a signature that nobody has checked or none.
fn jwt(algorithm: &str, life_s: i64, signature: &str) -> String {
    let end_s = TestRuntime::new().wall_ms() / 1_000 + life_s;
    let header = base64url(&format!(r#"{{"alg":"{algorithm}"}}"#));
    let claims = base64url(&format!(r#"{{"sub":"loader","exp":{end_s}}}"#));
    format!("{header}.{claims}.{}", base64url(signature))
}

/// A new token at every call, which it notes in a file.
fn command(calls: &Path) -> TokenSource {
    let script = format!(
        r#"part() {{ printf %s "$1" | base64 | tr -d '=\n' | tr '+/' '-_'; }}
        echo called >> "$1"
        echo "$(part '{{"alg":"none"}}').$(part '{{"sub":"loader","exp":'$(($(date +%s) + {TOKEN_S}))'}}').""#
    );
    let calls = calls.display().to_string();
    TokenSource::Command(["sh", "-c", &script, "token", &calls, CLIENT_SECRET].map(str::to_owned).into())
}

/// An issuer that gives a new token to whoever shows the secret, with the number of those that it has given.
fn issuer(secret: &str) -> (TokenSource, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let (given, described) =
        (Arc::<AtomicUsize>::default(), format!("{{\"token_endpoint\":\"{url}/token\"}}"));
    let counted = given.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut request, mut piece) = (String::new(), [0; 4_096]);
            // A form ends with its last field; the description has none.
            while !request.contains("\r\n\r\n")
                || request.starts_with("POST") && !request.contains("client_secret=")
            {
                match stream.read(&mut piece) {
                    Ok(count) if count > 0 => request += &String::from_utf8_lossy(&piece[..count]),
                    _ => break,
                }
            }
            let (status, body) = if request.starts_with("GET ") {
                (200, described.clone())
            } else if request.contains(&format!("client_secret={CLIENT_SECRET}")) {
                counted.fetch_add(1, Ordering::SeqCst);
                let token = jwt("none", TOKEN_S, "");
                (200, format!("{{\"access_token\":\"{token}\",\"expires_in\":{TOKEN_S}}}"))
            } else {
                (401, "{\"error\":\"invalid_client\"}".to_owned())
            };
            let head =
                format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            // Whoever asked may be gone.
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    let options = IssuerOptions {
        issuer_url: url,
        client_id: "loader".into(),
        client_secret: secret.into(),
        audience: None,
        scope: None,
        ca_pem: None,
    };
    (TokenSource::Issuer(Arc::new(Issuer::new(options).expect("an address"))), given)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_authority_and_every_mechanism_read() {
    let Some(kafka) = shared() else { return };
    let over_tls = [("security.protocol", "SSL"), ("ssl.ca.location", &*ca(&kafka))];
    let over_tls = with(kafka.tls_bootstrap(), &over_tls);
    let logins = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
    let logins = logins.map(|mechanism| login(&kafka, mechanism, &password(&kafka)));
    for options in [over_tls].into_iter().chain(logins) {
        reads_all(KafkaOptions { fetch: FetchBy::Librdkafka, ..options.clone() }).await;
        reads_all(directly(options)).await;
    }
    let log = logged();
    assert!(log.contains("SASL"), "librdkafka tells of the login: {log}");
    assert!(!log.contains(&password(&kafka)), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_must_not_be_let_in_is_told_why_and_a_wrong_authority_is_not_trusted() {
    let Some(kafka) = shared() else { return };
    let files = testkit::TestDir::new("kafka-secure").expect("a directory");
    let file = |name: &str, content: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, content).expect("writes");
        path.display().to_string()
    };
    let by_file = |path: &str| by_token(&kafka, TokenSource::File(path.to_owned()));
    let (tls, sasl) = (kafka.tls_bootstrap(), kafka.bootstrap());
    let other = file("other.pem", OTHER_AUTHORITY);
    let ended = file("ended", &jwt("none", -60, ""));
    let foreign = file("foreign", &jwt("RS256", 600, "signed elsewhere"));
    let absent = files.path().join("absent").display().to_string();
    let over_tls =
        |more: &[(&str, &str)]| with(tls.clone(), &[&[("security.protocol", "SSL")], more].concat());
    let untrusted: [&str; 3] = [&tls, "certificate verify failed", "ssl.ca.location"];
    let wrong: [&str; 2] = [&sasl, "Authentication failed"];
    let fails = TokenSource::Command(["false", CLIENT_SECRET].map(str::to_owned).into());
    let cases: [(KafkaOptions, &[&str]); 10] = [
        (over_tls(&[("ssl.ca.location", &other)]), &untrusted),
        (over_tls(&[]), &untrusted),
        (login(&kafka, "PLAIN", WRONG), &wrong),
        (login(&kafka, "SCRAM-SHA-256", WRONG), &wrong),
        (login(&kafka, "SCRAM-SHA-512", WRONG), &wrong),
        (by_file(&ended), &[&ended, "unexpired token"]),
        (by_file(&foreign), &[&sasl, "invalid_token"]),
        (by_file(&absent), &[&absent]),
        (by_token(&kafka, fails), &["command `false`: it failed"]),
        (
            by_token(&kafka, issuer(WRONG).0),
            &[
                "no token from issuer `http://127.0.0.1:",
                "refuses client `loader` (`invalid_client`); check `client_id`",
            ],
        ),
    ];
    // Side by side, for each takes the whole time that a call may.
    futures::future::join_all(cases.map(|(options, says)| is_refused(options, says))).await;
    assert!(!logged().contains(WRONG) && !logged().contains(CLIENT_SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_fetch_outlives_its_session() {
    let Some(kafka) = shared() else { return };
    let runtime = TestRuntime::new();
    fill(&kafka, BY_SESSIONS, 1);
    let options = directly(login(&kafka, "SCRAM-SHA-512", &password(&kafka)));
    let mut reading = Reading::of(options, BY_SESSIONS).await.expect("lets in");
    reading.until(|reading| reading.rows == 1).await.expect("reads");
    let began = runtime.elapsed();
    let mut sent = 1;
    while runtime.elapsed() - began < 2 * testkit::SCRAM_SHA_512_SESSION {
        runtime.sleep(Duration::from_millis(500)).await;
        fill(&kafka, BY_SESSIONS, 1);
        sent += 1;
        reading.until(|reading| reading.rows >= sent).await.expect("reads");
    }
    assert_eq!(reading.rows, sent);
    // A broker closes a connection on which a session has ended, and that would have been told.
    assert_eq!(reading.away, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_by_command_is_asked_for_anew_and_reading_outlives_the_first() {
    let Some(kafka) = shared() else { return };
    let files = testkit::TestDir::new("kafka-token").expect("a directory");
    let path = files.path().join("calls");
    let calls = || std::fs::read_to_string(&path).expect("the command was called").lines().count();
    let runtime = TestRuntime::new();
    fill(&kafka, BY_COMMAND, 1);
    let options = by_token(&kafka, command(&path));
    assert!(!format!("{options:?}{:?}", options.token).contains(CLIENT_SECRET));
    let mut reading = Reading::of(options, BY_COMMAND).await.expect("lets in");
    reading.until(|reading| reading.rows == 1).await.expect("reads");
    let (first, began) = (calls(), runtime.elapsed());
    let life = Duration::from_secs(TOKEN_S as u64);
    let mut sent = 1;
    // The broker ends a session with its token: what comes later comes by a login with the next one.
    while runtime.elapsed() - began < life + Duration::from_secs(3) {
        runtime.sleep(Duration::from_secs(1)).await;
        fill(&kafka, BY_COMMAND, 1);
        sent += 1;
        reading.until(|reading| reading.rows >= sent).await.expect("reads");
    }
    assert_eq!(reading.rows, sent);
    assert!(calls() > first, "asked `{first}` times at first and `{}` in all", calls());
    assert!(!logged().contains(CLIENT_SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_an_issuer_is_asked_for_anew_and_reading_outlives_the_first() {
    let Some(kafka) = shared() else { return };
    let (source, given) = issuer(CLIENT_SECRET);
    let runtime = TestRuntime::new();
    fill(&kafka, BY_ISSUER, 1);
    let mut reading = Reading::of(by_token(&kafka, source), BY_ISSUER).await.expect("lets in");
    reading.until(|reading| reading.rows == 1).await.expect("reads");
    let (first, began) = (given.load(Ordering::SeqCst), runtime.elapsed());
    let life = Duration::from_secs(TOKEN_S as u64);
    let mut sent = 1;
    while runtime.elapsed() - began < life + Duration::from_secs(3) {
        runtime.sleep(Duration::from_secs(1)).await;
        fill(&kafka, BY_ISSUER, 1);
        sent += 1;
        reading.until(|reading| reading.rows >= sent).await.expect("reads");
    }
    assert_eq!(reading.rows, sent);
    assert!(given.load(Ordering::SeqCst) > first, "`{first}` at first, and none later");
    assert!(!logged().contains(CLIENT_SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_file_that_went_stale_is_reported_until_it_is_fresh() {
    let Some(kafka) = shared() else { return };
    let files = testkit::TestDir::new("kafka-token").expect("a directory");
    let path = files.path().join("token");
    fill(&kafka, BY_FILE, 1);
    let is_stale = |reading: &Reading| reading.away.iter().any(|why| why.contains("unexpired token"));
    // On a busy machine a token may be stale before it is shown.
    let mut reading = loop {
        std::fs::write(&path, jwt("none", TOKEN_S, "")).expect("writes");
        match Reading::of(by_token(&kafka, TokenSource::File(path.display().to_string())), BY_FILE).await {
            Err(error) if error.message.contains("unexpired token") => {}
            opened => break opened.expect("lets in"),
        }
    };
    reading.until(|reading| reading.rows == 1 || is_stale(reading)).await.expect("reads");
    reading.until(is_stale).await.expect("goes on asking");
    std::fs::write(&path, jwt("none", 600, "")).expect("writes");
    fill(&kafka, BY_FILE, 1);
    reading.until(|reading| reading.rows >= 2).await.expect("reads");
    assert_eq!(reading.rows, 2);
}

/// A certificate for the broker's names by an authority that is not its own; its key was never kept.
const OTHER_AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUIHDg4c29bm6IdBEnNm9t5SoDAH8wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMDE1MzAwNVoYDzIxMjYxMDI3
MTUzMDA1WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQ2owgMO1PZBNB9JpTpaXY0sZowvWkaH5SkpWjEWKl4fWDij1uFKdqU
zkSc7HCpHH+BBKPCB7UX1cNqtV8OSobVo28wbTAdBgNVHQ4EFgQU23gjg+JhtT43
uF7Ehrpz55bMzX8wHwYDVR0jBBgwFoAU23gjg+JhtT43uF7Ehrpz55bMzX8wDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3QwCgYIKoZI
zj0EAwIDSAAwRQIgAO1xWxEJn+xUgypvWdeEvFcLlMkOFHydNuxot6fVpKMCIQC7
9exR8CyWR1wUDd3FoP9jEntc5OW2ueSGRMXZbuVPcA==
-----END CERTIFICATE-----
";
