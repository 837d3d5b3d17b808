//! One sender's connection: HTTP 1.1, or HTTP/2 for gRPC.
//!
//! Owns the form of a request and the meaning of its answer. A request that is turned away (429, 503, `UNAVAILABLE`), or whose connection breaks, is sent
//! again, as collectors do. Over HTTP its name makes a repeat exact; over gRPC its bytes do. Does not own what a body holds, nor when it is
//! sent (`buffer::send`).

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, RETRY_AFTER, TE};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::Target;
use crate::buffer::{Compression, Over};

/// A request that was turned away so often is given up: the longest wait of a gateway is seconds.
const TRIES_MAX: u32 = 200;
/// The wait before a request is sent again, whatever the answer says: no gateway names more for a moment's pressure.
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// The same where the answer says nothing that is read here. The time that gRPC names is in a message of details.
const AGAIN: Duration = Duration::from_secs(1);
/// A gateway that was killed is back within this time; the wait between two tries to reach it.
const AWAY_MAX: Duration = Duration::from_secs(60);
const REACH_EVERY: Duration = Duration::from_millis(100);
/// More than a gateway has to say.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// What stands before each message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// gRPC's codes of a call that was taken, and of one that may be sent again.
const OK: &str = "0";
const UNAVAILABLE: &str = "14";

/// A connection that stays open.
pub enum Connection {
    /// HTTP 1.1.
    Http(http1::SendRequest<Full<Bytes>>),
    /// HTTP/2.
    Grpc(http2::SendRequest<Full<Bytes>>),
}

/// What an answer means.
enum Answer {
    Taken,
    Again(Duration),
    Refused(String),
}

impl Connection {
    /// Opens one.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn open(target: &Target) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(&target.address)
            .await
            .with_context(|| format!("cannot connect to `{}`", target.address))?;
        stream.set_nodelay(true)?;
        let stream = TokioIo::new(stream);
        // The end of a connection shows in the next request.
        Ok(match target.over {
            Over::OtlpGrpc => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                Self::Grpc(sender)
            }
            Over::OtlpHttp | Over::Stream => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                Self::Http(sender)
            }
        })
    }

    /// Opens one in place of one that broke: the gateway may be away.
    async fn reopen(target: &Target) -> anyhow::Result<Self> {
        let begun = Instant::now();
        loop {
            match Self::open(target).await {
                Err(_) if begun.elapsed() < AWAY_MAX => tokio::time::sleep(REACH_EVERY).await,
                opened => return opened,
            }
        }
    }

    /// Sends request `n` until it is taken; says how often it was turned away or its connection broke.
    ///
    /// # Errors
    /// When it is refused for good.
    pub async fn deliver(&mut self, target: &Target, n: u64, body: Bytes) -> anyhow::Result<u32> {
        for tries in 0..TRIES_MAX {
            let request = target.request(n, body.clone())?;
            // A gateway that is too busy for a body answers before it has read it, and closes.
            let Some(answer) = self.send(request).await else {
                *self = Self::reopen(target).await?;
                continue;
            };
            match target.meaning(answer).await {
                Answer::Taken => return Ok(tries),
                Answer::Again(after) => tokio::time::sleep(after.min(AGAIN_MAX)).await,
                Answer::Refused(why) => bail!("the gateway refuses a request: {why}"),
            }
        }
        bail!("the gateway turned a request away {TRIES_MAX} times")
    }

    /// `None` when the connection is gone.
    async fn send(&mut self, request: Request<Full<Bytes>>) -> Option<Response<Incoming>> {
        match self {
            Self::Http(sender) => {
                sender.ready().await.ok()?;
                sender.send_request(request).await.ok()
            }
            Self::Grpc(sender) => {
                sender.ready().await.ok()?;
                sender.send_request(request).await.ok()
            }
        }
    }
}

impl Target {
    fn request(&self, n: u64, body: Bytes) -> anyhow::Result<Request<Full<Bytes>>> {
        let encoding = match self.compression {
            Compression::None => None,
            Compression::Gzip => Some("gzip"),
            Compression::Zstd => Some("zstd"),
        };
        let (path, kind) = match self.over {
            Over::OtlpHttp => ("/v1/logs", "application/x-protobuf"),
            Over::Stream => ("/v1/streams/logs", "application/octet-stream"),
            Over::OtlpGrpc => return self.call(encoding, &body),
        };
        let mut request = Request::post(path)
            .header(HOST, &self.address)
            .header(CONTENT_TYPE, kind)
            .header("idempotency-key", n.to_string());
        if let Some(encoding) = encoding {
            request = request.header(CONTENT_ENCODING, encoding);
        }
        Ok(request.body(Full::new(body))?)
    }

    /// A call of gRPC with one message.
    fn call(&self, encoding: Option<&str>, message: &[u8]) -> anyhow::Result<Request<Full<Bytes>>> {
        let service = "opentelemetry.proto.collector.logs.v1.LogsService";
        let mut call = Request::post(format!("http://{}/{service}/Export", self.address))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers");
        if let Some(encoding) = encoding {
            call = call.header("grpc-encoding", encoding);
        }
        let bytes = u32::try_from(message.len()).context("a message of 4 GiB")?;
        let mut framed = Vec::with_capacity(PREFIX_BYTES + message.len());
        framed.push(u8::from(encoding.is_some()));
        framed.extend_from_slice(&bytes.to_be_bytes());
        framed.extend_from_slice(message);
        Ok(call.body(Full::new(framed.into()))?)
    }

    async fn meaning(&self, answer: Response<Incoming>) -> Answer {
        let (head, rest) = answer.into_parts();
        let rest = Limited::new(rest, ANSWER_BYTES_MAX).collect().await.ok();
        let trailers = rest.as_ref().and_then(|rest| rest.trailers().cloned());
        let words = rest.map(|rest| rest.to_bytes()).unwrap_or_default();
        match (self.over, head.status.as_u16()) {
            // A call that is refused before its message was read has its status in the head.
            (Over::OtlpGrpc, 200) => of_call(&trailers.unwrap_or(head.headers)),
            (Over::OtlpHttp | Over::Stream, 200..=299) => Answer::Taken,
            (_, 429 | 503) => {
                let named = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                Answer::Again(named.map_or(AGAIN, Duration::from_secs))
            }
            (_, status) => Answer::Refused(format!("{status} {}", String::from_utf8_lossy(&words))),
        }
    }
}

/// The meaning of a call's trailers.
fn of_call(trailers: &HeaderMap) -> Answer {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some(OK) => Answer::Taken,
        // Without a status the connection broke before the answer was whole: what became of the call is not known.
        Some(UNAVAILABLE) | None => Answer::Again(AGAIN),
        Some(code) => {
            Answer::Refused(format!("code {code} {}", text("grpc-message").unwrap_or("without a word")))
        }
    }
}
