//! A connection whose client no longer takes its answer, or still sends when it has it.
//!
//! Owns the time of one such wait, and the end of a connection of which not everything was read. Does not own the time of a whole answer: one
//! that is taken slowly may take long; nor whether everything was read (`unread`).
//!
//! A write that waits longer than its bound fails, and the connection ends with it: otherwise a client that asks and
//! never reads would hold its place for ever. Reads pass through; what bounds them is the wait for a request's head, and
//! the service's own bound on bodies.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep};

use crate::stopping::{LAST_READ, asked};
use crate::unread::{self, Unread};

/// Bytes that are thrown away at a time.
const PIECE_BYTES: usize = 8 << 10;

/// A stream with a bound on each wait for its client to take bytes.
pub struct Stalling {
    stream: TcpStream,
    wait_max: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    unread: Unread,
    stopping: watch::Receiver<bool>,
    /// While the end of our side is sent and the client may still send.
    lingering: Option<Lingering>,
}

/// What comes behind the last answer is thrown away, within bounds.
struct Lingering {
    /// Bytes that may still come.
    left: usize,
    /// Ends with the time for all of it, or soon after the server is asked to stop.
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Ends if nothing comes.
    silent: Pin<Box<Sleep>>,
}

impl Lingering {
    fn new(mut stopping: watch::Receiver<bool>) -> Self {
        let over = async move {
            tokio::select! {
                () = sleep(unread::TIME_MAX) => {}
                () = asked(&mut stopping) => sleep(LAST_READ).await,
            }
        };
        Self { left: unread::BYTES_MAX, over: Box::pin(over), silent: Box::pin(sleep(unread::WAIT_MAX)) }
    }

    /// Ready once the client has ended, or a bound is met.
    fn poll(&mut self, stream: &mut TcpStream, context: &mut Context<'_>) -> Poll<()> {
        // First: a client that never lets reading wait must not keep this from being asked.
        if self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; PIECE_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && self.left > 0 => {
                    self.left = self.left.saturating_sub(buffer.filled().len());
                    self.silent.as_mut().reset(Instant::now() + unread::WAIT_MAX);
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        self.silent.as_mut().poll(context)
    }
}

impl Stalling {
    /// Bounds the writes of `stream`. If `unread` says so at the end, it is read on then, and not for long after `stopping` says true.
    pub(crate) fn new(
        stream: TcpStream,
        wait_max: Duration,
        unread: Unread,
        stopping: watch::Receiver<bool>,
    ) -> Stalling {
        Stalling { stream, wait_max, waiting: None, unread, stopping, lingering: None }
    }

    fn bounded<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let wait_max = self.wait_max;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(wait_max)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Stalling {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.unread.come();
        }
        polled
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.bounded(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        if this.lingering.is_none() && !this.unread.may_be() {
            return Poll::Ready(Ok(()));
        }
        let lingering = this.lingering.get_or_insert_with(|| Lingering::new(this.stopping.clone()));
        lingering.poll(&mut this.stream, context).map(Ok)
    }
}
