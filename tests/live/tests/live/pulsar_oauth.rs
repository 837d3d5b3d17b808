//! A real Pulsar that lets in by token alone, and an issuer that gives tokens of a few seconds.

use std::time::Duration;

use live::issuer::{Issuer, Mood, token};
use live::pipeline::{ended, term};
use live::{Case, Pipeline};
use sources::pulsar::produce::{Compression, Outgoing, Producer};
use sources::pulsar::{PulsarOptions, Token};
use testkit::{Pulsar, Service, available, wait_until};

use super::pulsar::clock;

/// With this the broker checks tokens: the same key as `KEY_BASE64`.
const KEY: &[u8] = b"a key of 32 bytes for this test.";
const KEY_BASE64: &str = "YSBrZXkgb2YgMzIgYnl0ZXMgZm9yIHRoaXMgdGVzdC4=";
const CLIENT: (&str, &str) = ("loader", "a-secret-of-the-loader");
const AUDIENCE: &str = "pulsar";
/// A token lives so long, in seconds.
const LIFE_S: u64 = 5;

fn pulsar() -> Pulsar {
    let admin = token(KEY, "admin", None);
    let by_token = "org.apache.pulsar.client.impl.auth.AuthenticationToken";
    let options = testkit::PulsarOptions::default()
        .property("authenticationEnabled", "true")
        .property(
            "authenticationProviders",
            "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        )
        .property("tokenSecretKey", &format!("data:;base64,{KEY_BASE64}"))
        .property("authenticationRefreshCheckSeconds", "1")
        .property("brokerClientAuthenticationPlugin", by_token)
        .property("brokerClientAuthenticationParameters", &format!("token:{admin}"))
        .token(&admin);
    Pulsar::start(options).expect("Pulsar must start")
}

fn issuer() -> Issuer {
    Issuer::start(KEY, "loader", CLIENT, AUDIENCE)
}

fn pipeline(case: &Case, pulsar: &Pulsar, issuer: &str, topic: &str, secret: &str) -> Pipeline {
    let source = format!(
        "{{ pulsar: {{ service: '{}', topic: {topic}, security: {{ oauth: {{ issuer_url: '{issuer}', client_id: {}, \
         client_secret: \"${{LOADER_SECRET}}\", audience: {AUDIENCE} }} }} }} }}",
        pulsar.service(),
        CLIENT.0
    );
    case.pipeline().input_of("events", &source).env("LOADER_SECRET", secret)
}

fn send(pulsar: &Pulsar, topic: &str, ids: std::ops::Range<u64>) {
    let mut options = PulsarOptions::new(&pulsar.service(), &[topic.to_owned()], "x").expect("options");
    options.token = Some(Token::Fixed(token(KEY, "producer", None)));
    let mut producer = Producer::new(options, topic, clock()).expect("a producer");
    let bodies: Vec<String> = ids.map(|id| format!("{{\"id\":{id}}}")).collect();
    let sent: Vec<Outgoing<'_>> = bodies
        .iter()
        .map(|body| Outgoing { payload: Some(body.as_bytes()), ..Outgoing::default() })
        .collect();
    producer.batch(&sent, Compression::None).expect("stored");
}

/// Nothing of what must stay secret is in what the program says.
#[track_caller]
fn keeps_secrets(issuer: &Issuer, said: &str) {
    assert!(!said.contains(CLIENT.1), "{said}");
    for token in issuer.given() {
        let signature = token.rsplit('.').next().expect("a token has parts");
        assert!(!said.contains(signature), "{said}");
    }
}

#[test]
fn tokens_of_an_issuer_are_renewed_and_waited_for_while_it_is_away() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("pulsar_oauth") else { return };
    let (pulsar, issuer) = (pulsar(), issuer());
    issuer.set(Mood::Tokens(LIFE_S));
    pulsar.create_topic("events", 0).expect("a topic");
    let table = case.table("id UInt64", "id");
    let pipeline = pipeline(&case, &pulsar, &issuer.url(), "events", CLIENT.1);
    pipeline.check(&["--connect"]);
    let running = pipeline.run();
    // Several lives of a token, over which the broker asks for another one on the connection that reads.
    for n in 0..8 {
        send(&pulsar, "events", n * 100..(n + 1) * 100);
        table.wait_for((n + 1) * 100);
        std::thread::sleep(Duration::from_secs(2));
    }
    assert!(issuer.given().len() >= 3, "{} tokens in three lives", issuer.given().len());
    // On a busy machine one of them may have run out before the next came.
    wait_until(live::PATIENCE, "nothing to be wrong", || pipeline.problem("events").is_none());

    issuer.set(Mood::Away);
    let words = pipeline.wait_for_problem("events", "source_away").to_string();
    assert!(words.contains("no token from issuer") && words.contains("does not answer"), "{words}");
    keeps_secrets(&issuer, &words);
    send(&pulsar, "events", 800..900);
    issuer.set(Mood::Tokens(LIFE_S));
    table.wait_for(900);
    term(running);
    assert_eq!(table.count_and_distinct("id"), (900, 900));
}

#[test]
fn every_way_out_of_what_an_issuer_refuses_is_one() {
    if !available(&[Service::Pulsar]) {
        return;
    }
    let Some(case) = Case::begin("pulsar_issuer") else { return };
    let (pulsar, issuer) = (pulsar(), issuer());
    pulsar.create_topic("events", 0).expect("a topic");
    send(&pulsar, "events", 0..10);
    let table = case.table("id UInt64", "id");
    let with = |url: &str, secret: &str| pipeline(&case, &pulsar, url, "events", secret);
    let refused = |url: &str, secret: &str, words: &[&str]| {
        let (exit, log) = ended(with(url, secret).run());
        assert_ne!(exit.status.code(), Some(0), "{log}");
        for words in words {
            assert!(log.contains(words), "`{words}` in {log}");
        }
        assert!(!log.contains(secret), "{log}");
        keeps_secrets(&issuer, &log);
    };
    let url = issuer.url();
    refused(
        &url,
        "another-secret",
        &[
            "pulsar cannot be logged in to",
            "refuses client `loader` (`invalid_client`); check `client_id` and `client_secret`",
        ],
    );
    refused(&format!("{url}/wrong"), CLIENT.1, &["it answers `401", "check `issuer_url`"]);
    issuer.set(Mood::Page);
    refused(&url, CLIENT.1, &["names no `token_endpoint`; check `issuer_url`"]);
    issuer.set(Mood::Tokens(600));
    with(&url, CLIENT.1).drain();
    assert_eq!(table.count_and_distinct("id"), (10, 10));
}
