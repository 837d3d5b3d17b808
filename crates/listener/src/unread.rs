//! What comes of a request after it was answered: read, and thrown away.
//!
//! Owns whether there may be something, and the bounds on reading it; and that a body of HTTP/2 that was reset is not taken for a whole one.
//! Does not own the end of a connection of HTTP/1.1 (`stall`).
//!
//! A request may be refused before its body was read: a wrong token, too many bytes, no room. Its client is then still sending. What comes at
//! a closed connection resets it, and most clients report the reset instead of the answer that came before it.
//!
//! | over     | what is done                                                                                   |
//! |----------|------------------------------------------------------------------------------------------------|
//! | HTTP/1.1 | the answer, the end of our side, then what comes is thrown away until the client ends or a bound |
//! | HTTP/2   | the answer, then the same for its stream alone; at a bound, the stream is reset                |

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::stopping::asked;

/// Bytes that are thrown away: four of the largest bodies that a service here takes. Who sends still more wastes less if it is stopped.
pub(crate) const BYTES_MAX: usize = 64 << 20;
/// The time for that: one of the largest bodies at 5 Mbit/s.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(30);
/// The longest wait for the next byte: a few losses of a packet. A client that has its answer and neither sends nor ends needs no more.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(5);

/// Whether a connection of HTTP/1.1 may have more to read than whole requests. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Unread(Arc<Flags>);

#[derive(Default)]
struct Flags {
    /// It is one of HTTP/1.1.
    is_followed: AtomicBool,
    /// Bytes have come since the last request was whole.
    has_come: AtomicBool,
    /// The head of a request has come.
    has_begun: AtomicBool,
}

impl Unread {
    /// Begins to follow the requests of a connection.
    pub(crate) fn follow(&self) {
        self.0.is_followed.store(true, Ordering::Relaxed);
    }

    /// Bytes have come.
    pub(crate) fn come(&self) {
        self.0.has_come.store(true, Ordering::Relaxed);
    }

    /// Whether the head of a request has ever come.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.has_begun.load(Ordering::Relaxed)
    }

    /// A request is whole.
    fn whole(&self) {
        self.0.has_come.store(false, Ordering::Relaxed);
    }

    /// Whether the client may still be sending what nobody reads.
    pub(crate) fn may_be(&self) -> bool {
        self.0.is_followed.load(Ordering::Relaxed) && self.0.has_come.load(Ordering::Relaxed)
    }
}

/// The body of a request of HTTP/1.1, which says when it is whole.
pub(crate) struct Followed {
    body: Incoming,
    unread: Unread,
}

impl Followed {
    pub(crate) fn new(body: Incoming, unread: Unread) -> Self {
        unread.0.has_begun.store(true, Ordering::Relaxed);
        let followed = Self { body, unread };
        followed.look();
        followed
    }

    fn look(&self) {
        if self.body.is_end_stream() {
            self.unread.whole();
        }
    }
}

impl HttpBody for Followed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(None) => self.unread.whole(),
            Poll::Ready(Some(_)) => self.look(),
            Poll::Pending => {}
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

/// The body of a request of HTTP/2, whose rest is thrown away if the service drops it, and which is whole only if its client has ended it.
pub(crate) struct Drained {
    /// `None` only while it is dropped.
    body: Option<Incoming>,
    stopping: watch::Receiver<bool>,
}

impl Drained {
    pub(crate) fn new(body: Incoming, stopping: watch::Receiver<bool>) -> Self {
        Self { body: Some(body), stopping }
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            drop(runtime.spawn(drain(body, self.stopping.clone())));
        }
    }
}

/// Reads a body within the bounds, or until the server stops.
async fn drain(mut body: Incoming, mut stopping: watch::Receiver<bool>) {
    let all = async {
        let mut read = 0;
        while read < BYTES_MAX {
            let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            let Ok(Some(Ok(frame))) = timeout(WAIT_MAX, next).await else { return };
            read += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    tokio::select! {
        _ = timeout(TIME_MAX, all) => {}
        () = asked(&mut stopping) => {}
    }
}

impl HttpBody for Drained {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        match ready!(Pin::new(&mut *body).poll_frame(context)) {
            Some(frame) => Poll::Ready(Some(frame.map_err(BoxError::from))),
            None if body.is_end_stream() => Poll::Ready(None),
            // hyper takes a reset with the code `NO_ERROR` for the end. Proxies send one where their own client went away in the middle.
            None => Poll::Ready(Some(Err("the client has reset the request before its end".into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}
