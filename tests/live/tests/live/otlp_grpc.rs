//! A sender of OTLP over gRPC that does as the specification says: each request is sent until it is acknowledged, the same bytes each time.
//!
//! Owns the calls, what each of their ends means to a sender, and how long it then waits. Does not own what a request holds, nor what dies meanwhile
//! ([`super::gateway_kills`]).
//!
//! | a call that                                                                            | the sender                                       |
//! |----------------------------------------------------------------------------------------|--------------------------------------------------|
//! | ends with `OK` and an empty response                                                   | goes on with its next request                    |
//! | ends with `UNAVAILABLE`                                                                | waits as long as `RetryInfo` says, which must be there, and calls again |
//! | ends with `CANCELLED`, `DEADLINE_EXCEEDED`, `ABORTED`, `OUT_OF_RANGE` or `DATA_LOSS`, or with `RESOURCE_EXHAUSTED` and `RetryInfo` | waits as long as `RetryInfo` says if it is there, and calls again |
//! | breaks with its connection, or has no end in time                                      | calls again, on a new connection if that broke   |
//! | ends with any other code                                                               | would drop the request: the test fails           |

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use h2::client::SendRequest;
use hyper::{HeaderMap, Request};
use live::PATIENCE;
use tokio::net::TcpStream;

use super::logs::Sent;

const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// How long a call is waited for, and how long by those who hardly wait: shorter than the log lingers.
const CALL_MAX: Duration = Duration::from_secs(20);
const CALL_MAX_IMPATIENT: Duration = Duration::from_millis(3);
/// The wait where no answer names one: shorter than exporters wait, for more tries.
const AGAIN: Duration = Duration::from_millis(10);

/// A response without a field, behind its prefix: all rows were taken.
const TAKEN: [u8; 5] = [0; 5];

/// What a call means to its sender.
enum Outcome {
    Taken,
    /// It is sent again, after this wait if the gateway named one.
    Again(Option<Duration>),
}

/// A sender and its connection.
struct Sender {
    port: u16,
    /// `None` before the first call, and after a connection broke.
    client: Option<SendRequest<Bytes>>,
    tries: u64,
}

/// Sends one request after the other until told to end; how many that were.
pub(super) fn send(port: u16, over: &AtomicBool, sent: &Sent, request: &dyn Fn(u64) -> Vec<u8>) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut sender = Sender { port, client: None, tries: 0 };
    runtime.block_on(async {
        let mut number = 0;
        while !over.load(Ordering::Acquire) {
            sender.deliver(&request(number), sent).await;
            sent.answered.fetch_add(1, Ordering::Relaxed);
            number += 1;
        }
        number
    })
}

impl Sender {
    async fn deliver(&mut self, message: &[u8], sent: &Sent) {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "a request of OTLP over gRPC was never acknowledged");
            sent.tries.fetch_add(1, Ordering::Relaxed);
            match self.attempt(message).await {
                Outcome::Taken => return,
                Outcome::Again(wait) => tokio::time::sleep(wait.unwrap_or(AGAIN)).await,
            }
        }
    }

    async fn attempt(&mut self, message: &[u8]) -> Outcome {
        // Some exporters hardly wait: they give the call up, or have the gateway end it at its deadline. The first try is one of these.
        let (wait, deadline) = match self.tries % 6 {
            0 => (CALL_MAX_IMPATIENT, None),
            3 => (CALL_MAX, Some(CALL_MAX_IMPATIENT)),
            _ => (CALL_MAX, Some(CALL_MAX)),
        };
        self.tries += 1;
        let Ok(client) = self.connected().await else { return Outcome::Again(None) };
        match tokio::time::timeout(wait, call(client, message, deadline)).await {
            Ok(Ok(outcome)) => outcome,
            // The connection is gone: the gateway was killed, or told the sender to go.
            Ok(Err(_)) => {
                self.client = None;
                Outcome::Again(None)
            }
            // The call that nobody waits for is cancelled. The connection goes on.
            Err(_) => Outcome::Again(None),
        }
    }

    async fn connected(&mut self) -> anyhow::Result<SendRequest<Bytes>> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let (client, connection) = h2::client::handshake(stream).await?;
        tokio::spawn(connection);
        self.client = Some(client.clone());
        Ok(client)
    }
}

/// A call with one message; an error when its connection broke.
async fn call(
    client: SendRequest<Bytes>,
    message: &[u8],
    deadline: Option<Duration>,
) -> anyhow::Result<Outcome> {
    let mut request = Request::post(format!("http://localhost{EXPORT}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(deadline) = deadline {
        request = request.header("grpc-timeout", format!("{}m", deadline.as_millis()));
    }
    let request = request.body(()).expect("a request");
    let length = u32::try_from(message.len()).expect("it is small").to_be_bytes();
    let framed = [&[0], &length[..], message].concat();
    let mut ready = client.ready().await?;
    let (response, mut sending) = ready.send_request(request, false)?;
    sending.send_data(framed.into(), true)?;
    let (head, mut body) = response.await?.into_parts();
    let mut answer = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        answer.extend_from_slice(&piece);
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    Ok(meaning(head.status.as_u16(), &head.headers, &trailers, &answer))
}

/// What the end of a call means. A call that was not done has its status in the head.
fn meaning(status: u16, head: &HeaderMap, trailers: &HeaderMap, answer: &[u8]) -> Outcome {
    let text =
        |name: &str| head.get(name).or_else(|| trailers.get(name)).and_then(|value| value.to_str().ok());
    // Where no gRPC is spoken, these stand for `UNAVAILABLE`.
    if [429, 502, 503, 504].contains(&status) {
        return Outcome::Again(None);
    }
    assert_eq!(status, 200, "{head:?}");
    // Without a code the call broke off within its answer.
    let Some(code) = text("grpc-status") else { return Outcome::Again(None) };
    let (words, wait) =
        (text("grpc-message").unwrap_or_default(), text("grpc-status-details-bin").and_then(named_wait));
    match code {
        "0" => {
            assert_eq!(answer, &TAKEN[..], "all were taken");
            Outcome::Taken
        }
        "14" => {
            assert!(wait.is_some(), "UNAVAILABLE names a wait: {words}");
            Outcome::Again(wait)
        }
        "1" | "4" | "10" | "11" | "15" => Outcome::Again(wait),
        "8" if wait.is_some() => Outcome::Again(wait),
        code => panic!("a sender drops what ends with code {code}: {words}"),
    }
}

/// The wait that a `google.rpc.RetryInfo` names, if there is one in the details of a status.
fn named_wait(details: &str) -> Option<Duration> {
    const NAME: &[u8] = b"google.rpc.RetryInfo";
    let details = STANDARD_NO_PAD.decode(details).expect("details are in base64");
    let at = details.windows(NAME.len()).position(|part| part == NAME)?;
    match &details[at + NAME.len()..] {
        // The value of the `Any`, its only field, and of that the seconds.
        [0x12, _, 0x0a, _, 0x08, seconds, ..] if *seconds < 0x80 => {
            Some(Duration::from_secs(u64::from(*seconds)))
        }
        other => panic!("a wait in another form: {other:?}"),
    }
}
