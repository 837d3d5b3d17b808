//! An issuer of OAuth 2.0 that signs real tokens, and can be told to misbehave.
//!
//! Owns the two addresses that a client asks (the description and the tokens), the client's secret and the signature (HS256). Does not own who accepts
//! the tokens. It speaks enough HTTP for one request a connection.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

/// What it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Tokens that live so many seconds.
    Tokens(u64),
    /// Nothing: connections are closed.
    Away,
    /// A page for people, where the description should be.
    Page,
}

/// Bytes of a request, which is small.
const REQUEST_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
struct State {
    mood: Mood,
    given: Vec<String>,
}

/// A running issuer. Its thread ends with the process.
#[derive(Debug)]
pub struct Issuer {
    port: u16,
    state: Arc<Mutex<State>>,
}

/// A token of `subject` that is signed with `key`; without `life_s` it never ends.
pub fn token(key: &[u8], subject: &str, life_s: Option<u64>) -> String {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let end = life_s.map_or(String::new(), |life| format!(",\"exp\":{}", now_s + life));
    let claims = format!("{{\"sub\":\"{subject}\",\"jti\":\"{:x}\"{end}}}", now_s);
    let signed =
        format!("{}.{}", URL_SAFE_NO_PAD.encode("{\"alg\":\"HS256\"}"), URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

impl Issuer {
    /// Starts one that gives tokens of `subject` to whoever shows `client` (its name and secret) and asks for `audience`.
    ///
    /// # Panics
    /// When it cannot listen.
    pub fn start(
        key: &'static [u8],
        subject: &'static str,
        client: (&'static str, &'static str),
        audience: &'static str,
    ) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(Mutex::new(State { mood: Mood::Tokens(600), given: Vec::new() }));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Whoever asked may be gone.
                let _ = answer(stream, port, &shared, |form| {
                    let has = |name: &str, value: &str| {
                        form.iter().any(|field| *field == format!("{name}={value}"))
                    };
                    let is_right = has("grant_type", "client_credentials")
                        && has("client_id", client.0)
                        && has("client_secret", client.1)
                        && has("audience", audience);
                    is_right.then_some((key, subject))
                });
            }
        });
        Issuer { port, state }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How it answers from now on.
    pub fn set(&self, mood: Mood) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).mood = mood;
    }

    /// All tokens that it has given.
    pub fn given(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).given.clone()
    }
}

fn answer(
    mut stream: TcpStream,
    port: u16,
    state: &Mutex<State>,
    who: impl Fn(&[String]) -> Option<(&'static [u8], &'static str)>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(600)))?;
    let (head, body) = request(&mut stream)?;
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let is_description = head.starts_with("GET /.well-known/openid-configuration ");
    let (status, text) = match state.mood {
        Mood::Away => return Ok(()),
        Mood::Page => (200, "<html>Log in here</html>".to_owned()),
        Mood::Tokens(_) if is_description => {
            (200, format!("{{\"issuer\":\"x\",\"token_endpoint\":\"http://127.0.0.1:{port}/token\"}}"))
        }
        Mood::Tokens(life_s) => {
            let form: Vec<String> = body.split('&').map(str::to_owned).collect();
            match who(&form).filter(|_| head.starts_with("POST /token ")) {
                Some((key, subject)) => {
                    let token = token(key, subject, Some(life_s));
                    state.given.push(token.clone());
                    (
                        200,
                        format!(
                            "{{\"access_token\":\"{token}\",\"token_type\":\"Bearer\",\"expires_in\":{life_s}}}"
                        ),
                    )
                }
                None => (401, format!("{{\"error\":\"invalid_client\",\"error_description\":\"{body}\"}}")),
            }
        }
    };
    drop(state);
    let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
    stream.write_all((head + &text).as_bytes())
}

/// The head of a request and its body.
fn request(stream: &mut TcpStream) -> std::io::Result<(String, String)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4_096];
    while bytes.len() < REQUEST_BYTES_MAX {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Ok((head.to_owned(), body.to_owned()));
            }
        }
        match stream.read(&mut piece)? {
            0 => break,
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
    Ok((String::new(), String::new()))
}
