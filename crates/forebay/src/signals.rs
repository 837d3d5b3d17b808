//! SIGTERM and SIGINT: the first drains, the second stops at once.
//!
//! Owns the order, and that SIGXFSZ ends nothing: a write beyond `ulimit -f` fails with an error that says so. Does not own draining (`engine`). Stopping at once loses nothing: what was sealed is in the store, and
//! what was not is read again.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask the process to end.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals over. From here on none of them ends the process by itself.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn listen() -> std::io::Result<Self> {
        // Taken over for as long as the process lives, also once this is dropped.
        drop(signal(SignalKind::from_raw(libc::SIGXFSZ))?);
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next of them and gives its name. May be dropped without losing one.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
