//! Calls with several messages: questions that are answered one by one, and news that come by themselves.
//!
//! Owns how long such a call lives and what it holds: questions within bounds, and one answer at a time, made when the client has taken the
//! one before. Does not own what is answered ([`super::reflection`], health).

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::time::timeout;

use super::frame::{self, PREFIX_BYTES};
use super::{NOT_SERVING, SERVICE_UNKNOWN, SERVING, STATUS};
use crate::gate::Gate;

/// Bytes of one question. Names are short.
const QUESTION_BYTES_MAX: usize = 4 << 10;

/// Questions of one call: a tool that wants to know everything asks some tens.
const QUESTIONS_MAX: u32 = 1_000;

/// The longest wait for a further question; a call that rests keeps a connection.
const QUESTION_WAIT_MAX: Duration = Duration::from_secs(60);

/// How often health is polled for those who watch it, and whether the gateway stops for those who ask nothing.
const WATCH_EVERY: Duration = Duration::from_secs(1);

const OK: u32 = 0;
const INVALID_ARGUMENT: u32 = 3;

/// What a body still has to say.
enum Next {
    Message(Vec<u8>),
    End(u32),
}

/// A call whose questions are answered in order, each when it has come, until `is_over`: a client that asks nothing more must not hold up a stop.
pub(super) fn answers(
    questions: Body,
    answer: fn(&[u8]) -> Vec<u8>,
    is_over: impl Fn() -> bool + Send + 'static,
) -> Response {
    let asking = Asking { body: questions, bytes: Vec::new(), answered: 0, is_over };
    let messages = stream::unfold(Some(asking), move |asking| async move {
        let mut asking = asking?;
        match asking.next().await {
            Ok(question) => Some((frame_of(Next::Message(answer(&question))), Some(asking))),
            Err(code) => Some((frame_of(Next::End(code)), None)),
        }
    });
    response(Body::new(StreamBody::new(messages)))
}

/// A call that is told at once how a service is, and again when that changes, until the gateway takes no more requests, which ends it.
pub(super) fn watch(gate: Gate, is_known: bool) -> Response {
    let messages = stream::unfold((gate, Watch::First), move |(gate, at)| async move {
        let now = |gate: &Gate| match (gate.is_ready(), is_known) {
            (false, _) => NOT_SERVING,
            (true, false) => SERVICE_UNKNOWN,
            (true, true) if gate.is_serving() => SERVING,
            // A pipeline that requests go to has not begun to read.
            (true, true) => NOT_SERVING,
        };
        match at {
            Watch::First => {}
            Watch::Later(said) => {
                while gate.is_ready() && now(&gate) == said {
                    tokio::time::sleep(WATCH_EVERY).await;
                }
            }
            Watch::Last => return Some((frame_of(Next::End(OK)), (gate, Watch::Done))),
            Watch::Done => return None,
        }
        let said = now(&gate);
        let is_last = said == NOT_SERVING && !gate.is_ready();
        let next = if is_last { Watch::Last } else { Watch::Later(said) };
        Some((frame_of(Next::Message(vec![0x08, said])), (gate, next)))
    });
    response(Body::new(StreamBody::new(messages)))
}

/// What a watcher is told next.
enum Watch {
    First,
    /// What differs from this.
    Later(u8),
    Last,
    Done,
}

fn response(body: Body) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"))], body).into_response()
}

fn frame_of(next: Next) -> Result<Frame<Bytes>, std::convert::Infallible> {
    Ok(match next {
        Next::Message(message) => Frame::data(Bytes::from(frame::framed(&message))),
        Next::End(code) => Frame::trailers(HeaderMap::from_iter([(STATUS, HeaderValue::from(code))])),
    })
}

/// The questions of a call.
struct Asking<F> {
    body: Body,
    /// What has come and was not answered.
    bytes: Vec<u8>,
    answered: u32,
    /// Whether the gateway stops.
    is_over: F,
}

impl<F: Fn() -> bool> Asking<F> {
    /// The next question, or the code that the call ends with.
    async fn next(&mut self) -> Result<Vec<u8>, u32> {
        let mut rested = Duration::ZERO;
        loop {
            if let Some(question) = self.whole()? {
                self.answered += 1;
                return if self.answered > QUESTIONS_MAX { Err(INVALID_ARGUMENT) } else { Ok(question) };
            }
            if rested >= QUESTION_WAIT_MAX || (self.is_over)() {
                // Well, also within a question: the client may come again.
                return Err(OK);
            }
            match timeout(WATCH_EVERY, self.body.frame()).await {
                Err(_) => rested += WATCH_EVERY,
                Ok(None) => return Err(if self.bytes.is_empty() { OK } else { INVALID_ARGUMENT }),
                Ok(Some(Err(_))) => return Err(INVALID_ARGUMENT),
                Ok(Some(Ok(frame))) => {
                    rested = Duration::ZERO;
                    let Some(piece) = frame.data_ref() else { continue };
                    if self.bytes.len() + piece.len() > PREFIX_BYTES + QUESTION_BYTES_MAX {
                        return Err(INVALID_ARGUMENT);
                    }
                    self.bytes.extend_from_slice(piece);
                }
            }
        }
    }

    /// The first question, if all of it is there.
    fn whole(&mut self) -> Result<Option<Vec<u8>>, u32> {
        let Some((&[flag, a, b, c, d], rest)) = self.bytes.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let said = u32::from_be_bytes([a, b, c, d]) as usize;
        // No question is worth compressing, and a client compresses only what it was told may be.
        if flag != 0 || said > QUESTION_BYTES_MAX {
            return Err(INVALID_ARGUMENT);
        }
        let Some(question) = rest.get(..said) else { return Ok(None) };
        let question = question.to_vec();
        self.bytes.drain(..PREFIX_BYTES + said);
        Ok(Some(question))
    }
}
