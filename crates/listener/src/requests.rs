//! How many requests a connection of HTTP/2 has, since when it has none, and since when its client takes nothing of an answer.
//!
//! Owns the count, and the waits until there has been none, or a piece of an answer was not taken, for some time. Does not own what then
//! becomes of the connection (`serve`).
//!
//! hyper bounds neither the greeting of such a connection nor its rest, nor how long a client may keep a window closed, so whoever serves one must
//! know. A request counts from the end of its head to the end of its answer.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// The requests of one connection.
#[derive(Clone, Default)]
pub(crate) struct Requests {
    counts: Arc<watch::Sender<Counts>>,
}

#[derive(Default)]
struct Counts {
    under_way: usize,
    /// There was one.
    has_begun: bool,
    /// The number of the next request.
    next: u64,
    /// Requests with a piece of their answer that waits for the client, and since when.
    untaken: BTreeMap<u64, Instant>,
}

/// A request that counts until this is dropped.
pub(crate) struct One {
    counts: Arc<watch::Sender<Counts>>,
    number: u64,
}

impl Requests {
    /// Counts one more.
    pub(crate) fn begin(&self) -> One {
        let mut number = 0;
        self.counts.send_modify(|counts| {
            counts.under_way += 1;
            counts.has_begun = true;
            number = counts.next;
            counts.next += 1;
        });
        One { counts: Arc::clone(&self.counts), number }
    }

    /// Whether there was one.
    pub(crate) fn have_begun(&self) -> bool {
        self.counts.borrow().has_begun
    }

    /// Ends when there has been no request for `wait`, counted from now or from the end of the last.
    pub(crate) async fn none_for(&self, wait: Duration) {
        let mut counts = self.counts.subscribe();
        loop {
            let rests = counts.borrow_and_update().under_way == 0;
            // The sender is `self`'s, so a change is all that can come.
            match rests {
                true if timeout(wait, counts.changed()).await.is_err() => return,
                true => {}
                false => drop(counts.changed().await),
            }
        }
    }

    /// Ends when a piece of an answer has waited for its client for `wait`.
    pub(crate) async fn untaken_for(&self, wait: Duration) {
        let mut counts = self.counts.subscribe();
        loop {
            let oldest = counts.borrow_and_update().untaken.values().min().copied();
            match oldest.map(|since| since + wait) {
                Some(until) if until <= Instant::now() => return,
                Some(until) => drop(timeout_at(until, counts.changed()).await),
                None => drop(counts.changed().await),
            }
        }
    }
}

impl One {
    /// A piece of its answer waits for the client.
    fn waits(&self) {
        self.counts.send_modify(|counts| {
            counts.untaken.insert(self.number, Instant::now());
        });
    }

    /// The client has taken it.
    fn taken(&self) {
        self.counts.send_if_modified(|counts| counts.untaken.remove(&self.number).is_some());
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.counts.send_modify(|counts| {
            counts.under_way -= 1;
            counts.untaken.remove(&self.number);
        });
    }
}

/// The body of an answer, whose request counts until it is sent or given up.
pub(crate) struct Answer {
    pub(crate) body: Body,
    pub(crate) one: One,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // hyper asks for the next piece once the client's window has taken the one before.
        self.one.taken();
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(Some(Ok(_)))) {
            self.one.waits();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
