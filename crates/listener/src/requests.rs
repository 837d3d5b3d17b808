//! How many requests a connection of HTTP/2 has, and since when it has none.
//!
//! Owns the count, and the wait until there has been none for some time. Does not own what then becomes of the connection (`serve`).
//!
//! hyper bounds neither the greeting of such a connection nor its rest, so whoever serves one must know. A request counts from the
//! end of its head to the end of its answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::timeout;

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
}

/// A request that counts until this is dropped.
pub(crate) struct One(Arc<watch::Sender<Counts>>);

impl Requests {
    /// Counts one more.
    pub(crate) fn begin(&self) -> One {
        self.counts.send_modify(|counts| {
            counts.under_way += 1;
            counts.has_begun = true;
        });
        One(Arc::clone(&self.counts))
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
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.under_way -= 1);
    }
}

/// The body of an answer, whose request counts until it is sent or given up.
pub(crate) struct Answer {
    pub(crate) body: Body,
    pub(crate) _one: One,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
