//! The reader in front of the fetch thread, where librdkafka reads.
//!
//! Owns the channels, and that the thread wakes for an order. Does not own the handle, whose end blocks: the thread has it
//! (`kafka::fetch`).

use std::sync::{Arc, Weak, mpsc};

use async_trait::async_trait;
use dataflow::{Event, Partition, ReadFrom, Reader, Runtime, SourceError, SourceFault};

use super::KafkaOptions;
use super::client::Client;
use super::fetch::{Fetch, Handle, Order};
use crate::queue::{Receiver, channel};

pub(super) struct KafkaReader {
    /// The thread owns it: destroying a handle blocks.
    handle: Weak<Handle>,
    orders: mpsc::Sender<Order>,
    events: Receiver<Result<Event, SourceError>>,
}

impl KafkaReader {
    /// Assigns the partitions and starts the thread. Blocks for moments only: connecting goes on in the background.
    pub(super) fn start(
        options: &KafkaOptions,
        runtime: Arc<dyn Runtime>,
        look: Arc<Client>,
        from: Vec<ReadFrom>,
    ) -> Result<Self, SourceError> {
        let (sender, events) = channel(options.ahead_bytes_max);
        let (orders, to_obey) = mpsc::channel();
        let handle = Arc::new(Handle::new(options, runtime.clone())?);
        let reader = Self { handle: Arc::downgrade(&handle), orders, events };
        let fetch = Fetch::new(options, runtime, handle, look, sender, to_obey, from)?;
        crate::thread::start("kafka-fetch", move || fetch.run())?;
        Ok(reader)
    }

    fn order(&self, order: Order) -> Result<(), SourceError> {
        self.orders.send(order).map_err(|_| ended())?;
        self.wake();
        Ok(())
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
        // Not waited for: the thread may itself wait for room in the queue, which only `next` makes.
        self.order(Order::Add(from))
    }

    fn remove(&mut self, partition: &Partition) {
        // A thread that has ended returns nothing more anyway; `next` says why.
        let _ = self.order(Order::Remove(partition.clone()));
    }

    fn pause(&mut self, partition: &Partition) {
        // A thread that has ended returns nothing more anyway.
        let _ = self.order(Order::Pause(partition.clone()));
    }

    fn resume(&mut self, partition: &Partition) {
        // As above; `next` says why it has ended.
        let _ = self.order(Order::Resume(partition.clone()));
    }
}

impl Drop for KafkaReader {
    fn drop(&mut self) {
        // The thread sees the closed queue at once instead of after its wait.
        self.wake();
    }
}
