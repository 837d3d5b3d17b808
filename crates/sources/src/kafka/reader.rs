//! The reader in front of the fetch thread.

use std::sync::{Arc, Weak, mpsc};

use async_trait::async_trait;
use dataflow::{Event, Partition, ReadFrom, Reader, Runtime, SourceError, SourceFault};
use futures::channel::oneshot;

use super::KafkaOptions;
use super::fetch::{Add, Fetch, Handle};
use crate::queue::{Receiver, channel};

pub(super) struct KafkaReader {
    /// The thread owns it: destroying a handle blocks.
    handle: Weak<Handle>,
    additions: mpsc::Sender<Add>,
    events: Receiver<Result<Event, SourceError>>,
}

impl KafkaReader {
    /// Assigns the partitions and starts the thread. Blocks for moments only: connecting goes on in the background.
    pub(super) fn start(
        options: &KafkaOptions,
        runtime: Arc<dyn Runtime>,
        from: Vec<ReadFrom>,
    ) -> Result<Self, SourceError> {
        let (sender, events) = channel(options.ahead_bytes_max);
        let (additions, to_add) = mpsc::channel();
        let handle = Arc::new(Handle::new(options, runtime.clone())?);
        let reader = Self { handle: Arc::downgrade(&handle), additions, events };
        let fetch = Fetch::new(options, runtime, handle, sender, to_add, from)?;
        crate::thread::start("kafka-fetch", move || fetch.run())?;
        Ok(reader)
    }

    fn set_paused(&self, partition: &Partition, is_paused: bool) {
        if let Some(handle) = self.handle.upgrade() {
            handle.set_paused(partition, is_paused);
        }
    }

    fn wake(&self) {
        if let Some(handle) = self.handle.upgrade() {
            handle.wake();
        }
    }
}

fn ended() -> SourceError {
    SourceError::new(SourceFault::Refused, "the thread that reads kafka has ended after its last error")
}

#[async_trait]
impl Reader for KafkaReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        self.events.recv().await.unwrap_or_else(|| Err(ended()))
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        let (done, result) = oneshot::channel();
        self.additions.send(Add { from, done }).map_err(|_| ended())?;
        self.wake();
        result.await.unwrap_or_else(|_| Err(ended()))
    }

    fn pause(&mut self, partition: &Partition) {
        self.set_paused(partition, true);
    }

    fn resume(&mut self, partition: &Partition) {
        self.set_paused(partition, false);
    }
}

impl Drop for KafkaReader {
    fn drop(&mut self) {
        // The thread sees the closed queue at once instead of after its wait.
        self.wake();
    }
}
