//! The bounded way from a source's threads to an async [`next`](dataflow::Reader::next).
//!
//! Owns the bound in bytes and the waking in both directions. Does not own what travels.
//!
//! A sender waits while the queue holds its bound; one item larger than the bound passes alone. The receiver's `recv` may
//! be dropped at any time: an item leaves the queue only in the poll that returns it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::task::AtomicWaker;

struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    senders: usize,
    is_closed: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    room: Condvar,
    ready: AtomicWaker,
    bytes_max: usize,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing below panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts items in, from a thread.
pub(crate) struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// Takes items out, in a task.
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

/// The receiver is gone: the thread should end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// A queue that holds at most `bytes_max` bytes, or one larger item.
pub(crate) fn channel<T>(bytes_max: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State { items: VecDeque::new(), bytes: 0, senders: 1, is_closed: false }),
        room: Condvar::new(),
        ready: AtomicWaker::new(),
        bytes_max,
    });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

impl<T> Sender<T> {
    /// Waits for room and puts `item` in, charged with `bytes` (and a little for the item itself, so that items without
    /// bytes are bounded too).
    pub(crate) fn send(&self, item: T, bytes: usize) -> Result<(), Closed> {
        let bytes = bytes + size_of::<(T, usize)>();
        let mut state = self.shared.lock();
        while !state.is_closed && !state.items.is_empty() && state.bytes + bytes > self.shared.bytes_max {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return Err(Closed);
        }
        state.bytes += bytes;
        state.items.push_back((item, bytes));
        drop(state);
        self.shared.ready.wake();
        Ok(())
    }

    /// As [`send`](Self::send), but waits at most `time` for room; gives the item back if there is none by then.
    #[cfg(feature = "pulsar")]
    pub(crate) fn send_within(&self, item: T, bytes: usize, time: Duration) -> Result<Option<T>, Closed> {
        let bytes = bytes + size_of::<(T, usize)>();
        let has_no_room = |state: &mut State<T>| {
            !state.is_closed && !state.items.is_empty() && state.bytes + bytes > self.shared.bytes_max
        };
        let waited = self.shared.room.wait_timeout_while(self.shared.lock(), time, has_no_room);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(Closed);
        }
        if waited.timed_out() {
            return Ok(Some(item));
        }
        state.bytes += bytes;
        state.items.push_back((item, bytes));
        drop(state);
        self.shared.ready.wake();
        Ok(None)
    }

    /// Whether all that was put in has been taken; true too once the receiver is gone. What is said again and again is put in only then: whoever takes it may
    /// pause after each, and what is worth more would stand behind all that was said meanwhile.
    #[cfg(any(feature = "kafka", feature = "pulsar", test))]
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.lock().items.is_empty()
    }

    /// True once the receiver is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.lock().is_closed
    }

    /// Waits at most `time` for the receiver to go; true if it has.
    pub(crate) fn wait_closed(&self, time: Duration) -> bool {
        let state = self.shared.lock();
        let waited = self.shared.room.wait_timeout_while(state, time, |state| !state.is_closed);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.lock().senders += 1;
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.lock().senders -= 1;
        self.shared.ready.wake();
    }
}

impl<T> Receiver<T> {
    /// The next item; `None` once every sender is gone and the queue is empty.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        std::future::poll_fn(|context| {
            // Registered before the look, so that an item put in between is not missed.
            self.shared.ready.register(context.waker());
            let mut state = self.shared.lock();
            if let Some((item, bytes)) = state.items.pop_front() {
                state.bytes -= bytes;
                drop(state);
                self.shared.room.notify_all();
                return Poll::Ready(Some(item));
            }
            if state.senders == 0 { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        state.items.clear();
        state.bytes = 0;
        drop(state);
        self.shared.room.notify_all();
    }
}

#[cfg(test)]
mod tests;
