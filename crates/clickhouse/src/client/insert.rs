//! One attempt at one insert.
//!
//! Owns the request: its statement, its settings, and the moment at which its last bytes leave. Does not own the meaning of an answer
//! (`crate::response`), which settings are named (`crate::settings`), nor the next attempt (`engine::deliver`). The length is announced at
//! the start and the last bytes wait for the gate, so that a process that slept, or lost its lane while it sent, leaves an incomplete
//! request behind, which the server throws away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use dataflow::{Attempt, InsertError, TableFault};
use futures::channel::oneshot;
use futures::future::{Either, select};
use futures::stream::{self, StreamExt};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Response};

use super::{Client, INSERT_ANSWER_BYTES_MAX, exception_code, text};
use crate::response::{self, Answer, NoAnswer};

/// Bytes that are held back until the gate opens: less than one packet, so that they leave at once.
const HELD_BYTES: usize = 1 << 10;
/// Bytes given to the connection at a time.
const PIECE_BYTES: usize = 256 << 10;
/// How much earlier than we the server gives up: its refusal is an answer, our timeout is a doubt.
pub(super) const SERVER_MARGIN_S: u64 = 5;

/// A table's inserts: the same for every attempt.
#[derive(Clone, Debug)]
pub struct Insert {
    /// `INSERT INTO … (…) FORMAT Native`.
    pub statement: String,
    /// True if materialized views hang on the table.
    pub views: bool,
    /// What the one server with the rows of tables that are not replicated calls itself; `None` if it does not matter who answers, or it is not known.
    pub home: Option<String>,
    /// The settings to name, beside the token: [`crate::settings::Known::insert`].
    pub settings: Vec<(&'static str, String)>,
}

impl Client {
    /// Sends a frame once. The error says whether rows may be there.
    pub async fn insert(&self, insert: &Insert, attempt: Attempt<'_>) -> Result<(), InsertError> {
        let complete = Arc::new(AtomicBool::new(false));
        let (body, held) = held_body(attempt.body.clone(), complete.clone());
        let mut url = self.url.clone();
        let seconds = self.config.insert_timeout.as_secs();
        url.query_pairs_mut()
            .append_pair("query", &insert.statement)
            .append_pair("query_id", attempt.query_id)
            .append_pair("decompress", "1")
            .append_pair("wait_end_of_query", "1")
            .append_pair("insert_deduplication_token", attempt.token)
            .extend_pairs(insert.settings.iter().map(|(name, value)| (*name, value.as_str())));
        let sending = self.http.post(url).header(CONTENT_LENGTH, attempt.body.len()).body(body).send();
        let talk = async {
            let answer = open_gate_while(held, &attempt, sending).await?;
            self.judge(answer, insert, &complete).await
        };
        let result = match self.runtime.timeout(self.config.insert_timeout, talk).await {
            Some(result) => result,
            None => {
                let complete = complete.load(Ordering::SeqCst);
                Err(response::classify_no_answer(NoAnswer::Timeout, complete, &format!("{seconds} s")).into())
            }
        };
        result.map_err(|failure| match failure {
            Failure::Judged(mut error) => {
                if error.kind != TableFault::Fenced {
                    error.message = self.located(error.code, &error.message);
                }
                error.message = self.password.scrub(&error.message);
                error
            }
            Failure::Sending(error) => {
                let fault = if error.is_connect() { NoAnswer::Connect } else { NoAnswer::Broken };
                let sent_all = complete.load(Ordering::SeqCst);
                let mut error = response::classify_no_answer(fault, sent_all, &self.clean(error));
                error.message = self.of_server(&error.message);
                error
            }
        })
    }

    async fn judge(&self, answer: Response, insert: &Insert, complete: &AtomicBool) -> Result<(), Failure> {
        let name = super::display_name(&answer);
        let status = answer.status().as_u16();
        let exception_code = exception_code(&answer);
        let from_clickhouse = super::is_of_clickhouse(&answer);
        let body = self.read_ends(answer, INSERT_ANSWER_BYTES_MAX).await;
        let body = text(body.map_err(|unread| {
            response::classify_no_answer(
                NoAnswer::Broken,
                complete.load(Ordering::SeqCst),
                &unread.to_string(),
            )
        })?);
        let seen = Answer { status, exception_code, from_clickhouse, body: &body };
        let mut judged = response::classify_answer(seen, insert.views);
        if let Err(error) = &mut judged {
            error.message = self.with_way(error.code, &body, &error.message);
        }
        if let Err(error) = &mut judged
            && !complete.load(Ordering::SeqCst)
        {
            // The server refused before the request was whole.
            error.effect = dataflow::Effect::None;
        }
        if judged.is_ok() && !complete.load(Ordering::SeqCst) {
            return Err(too_early().into());
        }
        if judged.is_ok()
            && let (Some(home), Some(name)) = (&insert.home, &name)
            && home != name
        {
            return Err(elsewhere(home, name).into());
        }
        Ok(judged?)
    }
}

/// Whoever says so has not read the whole request. The last bytes may be leaving at this moment, so that the rows are in doubt.
fn too_early() -> InsertError {
    InsertError {
        effect: dataflow::Effect::Unknown,
        remedy: dataflow::Remedy::Resend,
        code: 0,
        kind: TableFault::NotTheServer,
        message: "the answer says success and came before the request was whole, so it is not that of ClickHouse to this insert: something between Forebay \
                  and the server answers in its place"
            .into(),
    }
}

/// The rows may be on a server that nobody looks at: they are in doubt until the one that has the others answers again.
fn elsewhere(home: &str, name: &str) -> InsertError {
    InsertError {
        effect: dataflow::Effect::Unknown,
        remedy: dataflow::Remedy::Resend,
        code: 0,
        kind: TableFault::Differs,
        message: format!(
            "server `{name}` answered an insert where server `{home}` answers polls, and the table is not replicated: its rows are in doubt, and are sent to \
             `{home}` once that answers. Point `url` at one server"
        ),
    }
}

enum Failure {
    Judged(InsertError),
    Sending(reqwest::Error),
}

impl From<InsertError> for Failure {
    fn from(error: InsertError) -> Self {
        Self::Judged(error)
    }
}

/// The connection's side of the gate has been reached; the answer goes back through the sender.
struct Held {
    reached: oneshot::Receiver<()>,
    release: oneshot::Sender<bool>,
}

/// The body in pieces; the last bytes wait for the gate. `complete` is set before they are handed over.
fn held_body(body: Bytes, complete: Arc<AtomicBool>) -> (Body, Held) {
    let split = body.len().saturating_sub(HELD_BYTES);
    let (first, last) = (body.slice(..split), body.slice(split..));
    let (reached_sender, reached) = oneshot::channel();
    let (release, released) = oneshot::channel();
    let pieces = (0..first.len())
        .step_by(PIECE_BYTES)
        .map(move |at| Ok::<Bytes, std::io::Error>(first.slice(at..first.len().min(at + PIECE_BYTES))));
    let tail = stream::once(async move {
        // Without a listener the request is over, and so is this body.
        let _ = reached_sender.send(());
        match released.await {
            Ok(true) => {
                complete.store(true, Ordering::SeqCst);
                Ok(last)
            }
            Ok(false) | Err(oneshot::Canceled) => Err(std::io::Error::other("the gate is shut")),
        }
    });
    (Body::wrap_stream(stream::iter(pieces).chain(tail)), Held { reached, release })
}

/// Drives the request, and asks the gate once the connection has taken all but the last bytes.
async fn open_gate_while(
    held: Held,
    attempt: &Attempt<'_>,
    sending: impl Future<Output = Result<Response, reqwest::Error>>,
) -> Result<Response, Failure> {
    let sending = std::pin::pin!(sending);
    let gate = std::pin::pin!(async {
        // An error means that the body was dropped: the request has failed and says so itself.
        if held.reached.await.is_err() {
            return true;
        }
        let open = attempt.gate.may_complete().await;
        // The same: nobody waits for the release of a body that is gone.
        let _ = held.release.send(open);
        open
    });
    match select(sending, gate).await {
        Either::Left((answer, _)) => answer.map_err(Failure::Sending),
        Either::Right((true, sending)) => sending.await.map_err(Failure::Sending),
        // The request is dropped here, and its connection with it.
        Either::Right((false, _)) => Err(response::classify_no_answer(NoAnswer::Fenced, false, "").into()),
    }
}
