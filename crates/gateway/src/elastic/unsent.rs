//! An answer that counts until its client has taken it: that of a `_bulk` is as large as its request, or larger.
//!
//! Owns handing it out in pieces. Does not own what it says ([`super`]), nor how long a client may take (`listener`).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use crate::budget::Held;

/// Bytes that are handed out at a time: what a connection may still have to send when the rest is given back.
const PIECE_BYTES: usize = 64 << 10;

/// The rest of an answer, and what holds all of it.
pub(super) struct Unsent {
    rest: Bytes,
    _held: Held,
}

impl Unsent {
    /// All of an answer; `held` is what its request holds.
    pub(super) fn new(mut text: String, mut held: Held) -> Self {
        text.shrink_to_fit();
        held.shrink_to(text.len());
        Self { rest: text.into(), _held: held }
    }
}

impl HttpBody for Unsent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.rest.len().min(PIECE_BYTES);
        // A part of it would keep all of it in memory for as long as it is not sent.
        let piece = Bytes::copy_from_slice(&self.rest.split_to(length));
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests;
