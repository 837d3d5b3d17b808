//! An issuer that answers by a script, over real sockets.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::*;

const SECRET: &str = "hunter2&=+";

/// Answers by the first word and path of a request; without one it closes the connection.
struct Server {
    url: String,
    answers: Arc<Mutex<Vec<(String, u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let server = Self { url, answers: Arc::default(), asked: Arc::default() };
        let (answers, asked) = (server.answers.clone(), server.asked.clone());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = Vec::new();
                let mut piece = [0; 4_096];
                let whole = |bytes: &[u8]| {
                    let text = String::from_utf8_lossy(bytes).into_owned();
                    let (head, body) = text.split_once("\r\n\r\n")?;
                    let length =
                        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                    (body.len() >= length.unwrap_or(0)).then_some(text)
                };
                let text = loop {
                    let Ok(count) = stream.read(&mut piece) else { break String::new() };
                    request.extend_from_slice(&piece[..count]);
                    if let Some(text) = whole(&request) {
                        break text;
                    }
                    if count == 0 {
                        break String::new();
                    }
                };
                let what = text.split(" HTTP").next().unwrap_or_default().to_owned();
                asked.lock().expect("no panic").push(text);
                let found =
                    answers.lock().expect("no panic").iter().rfind(|(path, ..)| *path == what).cloned();
                if let Some((_, status, body)) = found {
                    let head = format!(
                        "HTTP/1.1 {status} -\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all((head + &body).as_bytes());
                }
            }
        });
        server
    }

    /// One whose description names the address of tokens.
    fn described() -> Self {
        let server = Self::start();
        let text = format!("{{\"token_endpoint\": \"{}/token\"}}", server.url);
        server.says("GET /in/.well-known/openid-configuration", 200, &text);
        server
    }

    fn says(&self, what: &str, status: u16, body: &str) {
        self.answers.lock().expect("no panic").push((what.into(), status, body.into()));
    }

    fn gives(&self, token: &str, life_s: u64) {
        self.says(
            "POST /token",
            200,
            &format!("{{\"access_token\": \"{token}\", \"expires_in\": {life_s}}}"),
        );
    }

    fn is_away(&self) {
        self.says("GET /in/.well-known/openid-configuration", 503, "");
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }

    fn issuer(&self) -> Issuer {
        Issuer::new(options(&format!("{}/in/", self.url))).expect("an address")
    }
}

fn options(url: &str) -> IssuerOptions {
    IssuerOptions {
        issuer_url: url.to_owned(),
        client_id: "me & you".into(),
        client_secret: SECRET.into(),
        audience: Some("urn:pulsar".into()),
        scope: None,
        ca_pem: None,
    }
}

#[track_caller]
fn value(issuer: &Issuer, now_ms: i64) -> String {
    issuer.get(now_ms).unwrap_or_else(|why| panic!("a token: {why}")).value
}

#[track_caller]
fn refusal(issuer: &Issuer, now_ms: i64) -> TokenError {
    let Err(why) = issuer.get(now_ms) else { panic!("there is none") };
    assert!(!why.to_string().contains(SECRET) && !why.to_string().contains("hunter2"), "{why}");
    why
}

#[test]
fn a_token_is_kept_for_three_quarters_of_its_life_and_a_refused_one_is_replaced() {
    let server = Server::described();
    let issuer = server.issuer();
    server.gives("one", 100);
    assert_eq!(value(&issuer, 0), "one");
    assert_eq!(issuer.get(74_999).expect("kept").expires_ms, 100_000);
    assert_eq!(server.asked(), 2, "the description, and the token once");
    let form = server.asked.lock().expect("no panic")[1].clone();
    let fields = "grant_type=client_credentials&client_id=me+%26+you&client_secret=hunter2%26%3D%2B&audience=urn%3Apulsar";
    assert!(form.ends_with(fields), "{form}");
    server.gives("two", 100);
    assert_eq!(value(&issuer, 75_000), "two");

    // A broker does not take it: the issuer is asked again, but not at once.
    server.gives("three", 100);
    issuer.refused("one");
    assert_eq!(value(&issuer, 76_000), "two", "another one was refused");
    issuer.refused("two");
    assert!(
        matches!(refusal(&issuer, 77_000), TokenError::Away(why) if why.contains("the broker has refused"))
    );
    assert_eq!(value(&issuer, 80_000), "three");
}

#[test]
fn a_clock_that_is_set_back_keeps_nobody_from_another_token() {
    let server = Server::described();
    let issuer = server.issuer();
    server.gives("one", 3_600);
    assert_eq!(value(&issuer, 7_200_000), "one");
    // The clock was two hours ahead. For the issuer and the broker the token ends in time.
    issuer.refused("one");
    server.gives("two", 3_600);
    assert_eq!(value(&issuer, 1_000), "two");
    issuer.refused("two");
    assert!(
        matches!(refusal(&issuer, 2_000), TokenError::Away(why) if why.contains("the broker has refused"))
    );
    // Nor is the issuer asked without a pause.
    server.is_away();
    assert!(matches!(refusal(&issuer, 7_200_000), TokenError::Away(why) if why.contains("503")));
    let asked = server.asked();
    assert!(matches!(refusal(&issuer, 10_000), TokenError::Away(why) if why.contains("503")));
    assert_eq!(server.asked(), asked + 1);
    assert!(matches!(refusal(&issuer, 11_000), TokenError::Away(why) if why.contains("503")));
    assert_eq!(server.asked(), asked + 1, "it has just been asked");
}

#[test]
fn while_the_issuer_is_away_the_kept_token_serves_until_its_end() {
    let server = Server::described();
    let issuer = server.issuer();
    server.gives("one", 100);
    assert_eq!(value(&issuer, 0), "one");
    server.is_away();
    assert_eq!(value(&issuer, 90_000), "one");
    let asked = server.asked();
    assert_eq!(value(&issuer, 94_000), "one");
    assert_eq!(server.asked(), asked, "it has just been asked");
    assert!(matches!(refusal(&issuer, 100_000), TokenError::Away(why) if why.contains("503")));
    assert!(server.asked() > asked);
    let asked = server.asked();
    assert!(matches!(refusal(&issuer, 101_000), TokenError::Away(_)));
    assert_eq!(server.asked(), asked);
    server.says(
        "GET /in/.well-known/openid-configuration",
        200,
        &format!("{{\"token_endpoint\": \"{}/token\"}}", server.url),
    );
    server.gives("two", 100);
    assert_eq!(value(&issuer, 105_000), "two");
}

#[test]
fn a_refusal_says_what_to_check_and_shows_no_secret() {
    let long = "x".repeat(ANSWER_BYTES_MAX + 1);
    let cases = [
        (
            401,
            r#"{"error": "invalid_client", "error_description": "hunter2&=+"}"#,
            "(`invalid_client`); check `client_id` and `client_secret`",
        ),
        (400, r#"{"error": "invalid_scope"}"#, "(`invalid_scope`); check `scope`"),
        (400, r#"{"error": "hunter2&=+"}"#, "(`400 Bad Request`); check `client_id`"),
        (403, "<html>", "(`403 Forbidden`); check `client_id`"),
        (404, "", "check `issuer_url`"),
        (200, "<html>", "its answer holds no `access_token` in JSON; check `issuer_url`"),
        (200, r#"{"access_token": 7}"#, "its answer holds no `access_token` in JSON"),
        (200, r#"{"access_token": "a b"}"#, "is no token"),
        (200, &long, "has more than `262144` bytes"),
    ];
    let server = Server::described();
    for (status, body, says) in cases {
        server.says("POST /token", status, body);
        let why = refusal(&server.issuer(), 0);
        assert!(matches!(&why, TokenError::Refused(why) if why.contains(says)), "{says}: {why}");
    }
    for status in [408, 429, 500, 502, 503] {
        server.says("POST /token", status, "");
        assert!(matches!(refusal(&server.issuer(), 0), TokenError::Away(_)), "{status}");
    }
    let nobody = Issuer::new(options("http://127.0.0.1:1")).expect("an address");
    assert!(matches!(refusal(&nobody, 0), TokenError::Away(why) if why.contains("does not answer")));
    let page = Server::start();
    page.says("GET /in/.well-known/openid-configuration", 200, "<html>");
    assert!(
        matches!(refusal(&page.issuer(), 0), TokenError::Refused(why) if why.contains("names no `token_endpoint`"))
    );
}

#[test]
fn a_secret_is_not_sent_in_clear_because_an_issuer_says_so() {
    let issuer = Issuer::new(options("https://issuer.example")).expect("an address");
    assert!(issuer.endpoint("https://other.example/token").is_ok());
    for wrong in ["http://issuer.example/token", "ftp://issuer.example", "/token", ""] {
        assert!(issuer.endpoint(wrong).is_err(), "{wrong}");
    }
    for wrong in [
        "",
        "issuer.example",
        "ftp://issuer.example",
        "https://a:b@issuer.example",
        "https://issuer.example/?a=b",
    ] {
        assert!(Issuer::new(options(wrong)).is_err(), "{wrong}");
    }
    let source = crate::token::TokenSource::Issuer(Arc::new(issuer));
    for shown in [format!("{source}"), format!("{source:?}")] {
        assert!(shown.contains("https://issuer.example") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn an_issuer_on_this_machine_is_never_asked_through_a_proxy() {
    let name = "an_issuer_on_this_machine_is_never_asked_through_a_proxy";
    testkit::assert_this_machine_is_asked_directly(module_path!(), name, |url| {
        Issuer::new(options(url))
            .expect("an issuer")
            .get(0)
            .map(|token| token.value)
            .expect_err("it has nothing");
    });
}
