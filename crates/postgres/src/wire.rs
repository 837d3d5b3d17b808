//! The bytes that a server sends, passed on up to a bound of each message.
//!
//! Owns that bound: a message says its length before its content, and whoever reads it reserves memory for all of it at once. Does not own what messages mean.
//!
//! Every message of a server is a letter, four bytes of length (which counts itself, not the letter), and the content.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that any message may have: errors, parameters, descriptions of a thousand columns.
const MESSAGE_BYTES_MIN: usize = 1 << 20;
/// Bytes of a message before its content.
const HEAD_BYTES: usize = 5;

/// Follows messages in a stream that comes in pieces.
#[derive(Debug)]
pub(crate) struct Messages {
    bytes_max: usize,
    head: [u8; HEAD_BYTES],
    /// Bytes of the head that have come.
    headed: usize,
    /// Bytes of the content that are still to come.
    left: usize,
}

impl Messages {
    /// Messages of rows, of which each has at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max: bytes_max.saturating_add(MESSAGE_BYTES_MIN),
            head: [0; HEAD_BYTES],
            headed: 0,
            left: 0,
        }
    }

    /// Takes a piece; the length of the first message in it that is too long, if there is one.
    pub fn follow(&mut self, mut piece: &[u8]) -> Result<(), usize> {
        while !piece.is_empty() {
            if self.headed == HEAD_BYTES {
                let content = piece.len().min(self.left);
                (piece, self.left) = (&piece[content..], self.left - content);
            } else {
                let head = piece.len().min(HEAD_BYTES - self.headed);
                self.head[self.headed..self.headed + head].copy_from_slice(&piece[..head]);
                (piece, self.headed) = (&piece[head..], self.headed + head);
                if self.headed < HEAD_BYTES {
                    return Ok(());
                }
                let [_, length @ ..] = self.head;
                let length = u32::from_be_bytes(length) as usize;
                // A length below its own four bytes is refused by whoever reads the message.
                self.left = length.saturating_sub(4);
                if length > self.bytes_max {
                    return Err(length);
                }
            }
            if self.left == 0 {
                self.headed = 0;
            }
        }
        Ok(())
    }
}

/// A connection whose messages are bounded.
pub(crate) struct Bounded<S> {
    inner: S,
    messages: Messages,
    is_over: Arc<AtomicBool>,
}

impl<S> Bounded<S> {
    /// The connection, and what becomes true when a message was too long.
    pub fn new(inner: S, bytes_max: usize) -> (Self, Arc<AtomicBool>) {
        let is_over = Arc::new(AtomicBool::new(false));
        (Self { inner, messages: Messages::new(bytes_max), is_over: is_over.clone() }, is_over)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, into);
        if let Err(length) = self.messages.follow(&into.filled()[before..]) {
            self.is_over.store(true, Ordering::Relaxed);
            into.set_filled(before);
            let why = format!("the server sends a message of `{length}` bytes");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
