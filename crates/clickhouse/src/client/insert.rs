//! One attempt at one insert.
//!
//! Owns the request: its statement, its settings, and the moment at which its last bytes leave. The length is announced at
//! the start and the last bytes wait for the gate, so that a process that slept, or lost its lane while it sent, leaves an
//! incomplete request behind, which the server throws away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use dataflow::{Attempt, InsertError};
use futures::channel::oneshot;
use futures::future::{Either, select};
use futures::stream::{self, StreamExt};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Response};

use super::{Client, INSERT_ANSWER_BYTES_MAX, exception_code};
use crate::response::{self, Answer, NoAnswer};

/// Bytes that are held back until the gate opens: less than one packet, so that they leave at once.
const HELD_BYTES: usize = 1 << 10;
/// Bytes given to the connection at a time.
const PIECE_BYTES: usize = 256 << 10;
/// How much earlier than we the server gives up: its refusal is an answer, our timeout is a doubt.
const SERVER_MARGIN_S: u64 = 5;

/// What the statement and the settings of a table's inserts are: the same for every attempt.
#[derive(Clone, Debug)]
pub struct Insert {
    /// `INSERT INTO … (…) FORMAT Native`.
    pub statement: String,
    /// The settings that differ by table.
    pub settings: InsertSettings,
}

/// Settings of an insert that differ by table.
#[derive(Clone, Debug)]
pub struct InsertSettings {
    /// Partitions that one frame may touch in the table and in each view's target: 1 unless a view's target needs more.
    pub partitions_max: u32,
    /// Replicas that must confirm; 0 leaves the setting out.
    pub quorum: u32,
    /// True if materialized views hang on the table.
    pub views: bool,
}

impl Client {
    /// Sends a frame once. The error says whether rows may be there.
    pub async fn insert(&self, insert: &Insert, attempt: Attempt<'_>) -> Result<(), InsertError> {
        let complete = Arc::new(AtomicBool::new(false));
        let (body, held) = held_body(attempt.body.clone(), complete.clone());
        let mut url = self.url.clone();
        let seconds = self.config.insert_timeout.as_secs();
        settings_of(insert, &attempt, seconds.saturating_sub(SERVER_MARGIN_S).max(1), |name, value| {
            url.query_pairs_mut().append_pair(name, value);
        });
        let sending = self.http.post(url).header(CONTENT_LENGTH, attempt.body.len()).body(body).send();
        let talk = async {
            let answer = open_gate_while(held, &attempt, sending).await?;
            self.judge(answer, insert.settings.views, &complete).await
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
                error.message = self.password.scrub(&error.message);
                error
            }
            Failure::Sending(error) => {
                let fault = if error.is_connect() { NoAnswer::Connect } else { NoAnswer::Broken };
                response::classify_no_answer(fault, complete.load(Ordering::SeqCst), &self.clean(error))
            }
        })
    }

    async fn judge(&self, answer: Response, views: bool, complete: &AtomicBool) -> Result<(), Failure> {
        let status = answer.status().as_u16();
        let exception_code = exception_code(&answer);
        let from_clickhouse = answer.headers().keys().any(|k| k.as_str().starts_with("x-clickhouse-"));
        let body = self.read_body(answer, INSERT_ANSWER_BYTES_MAX).await;
        let body = body.map_err(|detail| {
            response::classify_no_answer(NoAnswer::Broken, complete.load(Ordering::SeqCst), &detail)
        })?;
        let seen = Answer { status, exception_code, from_clickhouse, body: &body };
        let mut judged = response::classify_answer(seen, views);
        if let Err(error) = &mut judged
            && !complete.load(Ordering::SeqCst)
        {
            // The server refused before the request was whole.
            error.effect = dataflow::Effect::None;
        }
        Ok(judged?)
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

/// Every setting that decides what an insert means is named: defaults differ between versions and profiles.
fn settings_of(insert: &Insert, attempt: &Attempt<'_>, seconds: u64, mut put: impl FnMut(&str, &str)) {
    put("query", &insert.statement);
    put("query_id", attempt.query_id);
    put("decompress", "1");
    put("wait_end_of_query", "1");
    put("async_insert", "0");
    put("insert_deduplicate", "1");
    put("insert_deduplication_token", attempt.token);
    put("deduplicate_blocks_in_dependent_materialized_views", "1");
    put("input_format_null_as_default", "1");
    // A null for a DEFAULT reaches servers that insert by way of SELECT as well.
    put("insert_null_as_default", "1");
    // A column whose type was changed, or that was dropped, must be an error: a cast would wrap numbers in silence.
    put("input_format_native_allow_types_conversion", "0");
    put("input_format_skip_unknown_fields", "0");
    put("max_partitions_per_insert_block", &insert.settings.partitions_max.to_string());
    put("throw_on_max_partitions_per_insert_block", "1");
    put("max_execution_time", &seconds.to_string());
    put("timeout_overflow_mode", "throw");
    // A block that is large enough is passed on as it is, whatever its size: one block, one part.
    put("min_insert_block_size_rows", "0");
    put("min_insert_block_size_bytes", "0");
    put("max_insert_block_size", "10000000");
    // A view that fails must fail the insert, or its rows are lost in silence.
    put("materialized_views_ignore_errors", "0");
    if insert.settings.quorum > 1 {
        put("insert_quorum", &insert.settings.quorum.to_string());
    }
}
