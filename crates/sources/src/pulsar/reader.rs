//! The reader in front of the threads.
//!
//! Owns the channels to and from the threads. Does not own any reading (`pulsar::supervisor`, `pulsar::broker`): orders are sent and not
//! waited for, and an error comes by `next`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::{Event, Partition, ReadFrom, Reader, Runtime, SourceError, SourceFault};

use super::PulsarOptions;
use super::client::{Client, Topic};
use super::lead::Slot;
use super::supervisor::{Message, Supervisor};
use crate::queue::{Receiver, channel};

/// Reads by threads of its own.
pub(super) struct PulsarReader {
    orders: mpsc::Sender<Message>,
    events: Receiver<Result<Event, SourceError>>,
}

impl PulsarReader {
    /// Starts the threads; connecting goes on in the background. `from` was checked against `topics`.
    pub(super) fn start(
        options: Arc<PulsarOptions>,
        runtime: Arc<dyn Runtime>,
        client: Arc<Client>,
        topics: BTreeMap<String, Topic>,
        from: Vec<ReadFrom>,
    ) -> Result<Self, SourceError> {
        let (sender, events) = channel(options.ahead_bytes_max);
        let (orders, messages) = mpsc::channel();
        let partitions: BTreeSet<Partition> = from.iter().map(|from| from.partition.clone()).collect();
        let slot = |from| {
            let slot = Slot::new(from, String::new(), options.record_bytes_max);
            slot.naming_schemas(options.names_schemas)
        };
        let supervisor = Supervisor {
            waiting: from.into_iter().map(slot).collect(),
            options,
            runtime,
            client,
            events: sender,
            messages,
            reports: orders.clone(),
            read: partitions.clone(),
            known: partitions,
            asked: 0,
            paused: BTreeSet::new(),
            leaving: BTreeSet::new(),
            ensured: BTreeSet::new(),
            brokers: BTreeMap::new(),
            placed: BTreeMap::new(),
            look_at: Duration::ZERO,
            misses: 0,
            away_reported: None,
        };
        crate::thread::start("pulsar-lead", move || supervisor.run(&topics))?;
        Ok(Self { orders, events })
    }
}

fn ended() -> SourceError {
    SourceError::new(SourceFault::Refused, "the thread that reads pulsar has ended after its last error")
}

#[async_trait]
impl Reader for PulsarReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        self.events.recv().await.unwrap_or_else(|| Err(ended()))
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        // Not waited for: the threads may themselves wait for room in the queue, which only `next` makes.
        self.orders.send(Message::Add(from)).map_err(|_| ended())
    }

    fn remove(&mut self, partition: &Partition) {
        // As below.
        let _ = self.orders.send(Message::Remove(partition.clone()));
    }

    fn pause(&mut self, partition: &Partition) {
        // Threads that have ended return nothing more anyway; `next` says why.
        let _ = self.orders.send(Message::Pause(partition.clone(), true));
    }

    fn resume(&mut self, partition: &Partition) {
        let _ = self.orders.send(Message::Pause(partition.clone(), false));
    }
}
