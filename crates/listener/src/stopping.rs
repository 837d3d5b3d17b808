//! How the parts of a connection learn that the server stops.
//!
//! Owns the wait for that, and how long they go on. Does not own the order of a stop (`serve`).

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// How long a connection is read on after the server was asked to stop: long enough for a request that has come before, on a busy machine too.
pub(crate) const LAST_READ: Duration = Duration::from_millis(100);

/// How long after that a client may take that has to hear or say something first, but has sent no request: some round trips over a bad network.
pub(crate) const LAST_WORD: Duration = Duration::from_secs(2);

/// Ends some time after the server was asked to stop: [`LAST_WORD`].
pub(crate) async fn soon_after(stopping: &mut watch::Receiver<bool>) {
    asked(stopping).await;
    sleep(LAST_WORD).await;
}

/// Ends when the server is asked to. An error means that whoever asks is gone, and with it the server. The receiver stays with the connection: the
/// server waits until no one has any.
pub(crate) async fn asked(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopped| *stopped).await;
}
