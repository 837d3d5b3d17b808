//! The reader in front of the threads.
//!
//! Owns the channels to and from the threads. Does not own any reading (`direct::supervisor`, `direct::broker`): orders are sent and not
//! waited for, and an error comes by `next`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::{Event, Partition, ReadFrom, Reader, Runtime, SourceError, SourceFault};

use super::Opened;
use super::leaders::Known;
use super::supervisor::{Message, Supervisor};
use crate::kafka::KafkaOptions;
use crate::kafka::client::{Client, Topic};
use crate::kafka::slot::Slot;
use crate::queue::{Receiver, channel};

/// Reads by threads of its own.
pub(crate) struct DirectReader {
    orders: mpsc::Sender<Message>,
    events: Receiver<Result<Event, SourceError>>,
}

impl DirectReader {
    /// Starts the threads; further connecting goes on in the background. `from` was checked against `topics`.
    pub(crate) fn start(
        options: &KafkaOptions,
        Opened { plan, connection }: Opened,
        topics: BTreeMap<String, Topic>,
        runtime: Arc<dyn Runtime>,
        look: Arc<Client>,
        from: Vec<ReadFrom>,
    ) -> Result<Self, SourceError> {
        let (sender, events) = channel(options.ahead_bytes_max);
        let (orders, messages) = mpsc::channel();
        let supervisor = Supervisor {
            options: options.clone(),
            plan: Arc::new(plan),
            runtime,
            look,
            events: sender,
            messages,
            reports: orders.clone(),
            read: from.iter().map(|from| (from.partition.clone(), from.clone())).collect(),
            known: from.iter().map(|from| from.partition.clone()).collect(),
            waiting: from.into_iter().map(|from| Slot::new(from, options.record_bytes_max)).collect(),
            paused: BTreeSet::new(),
            leaving: BTreeSet::new(),
            brokers: BTreeMap::new(),
            placed: BTreeMap::new(),
            leaders: Known::default(),
            opened: Some(connection),
            look_at: Duration::ZERO,
            misses: 0,
            away_reported: None,
        };
        crate::thread::start("kafka-lead", move || supervisor.run(&topics))?;
        Ok(Self { orders, events })
    }
}

fn ended() -> SourceError {
    SourceError::new(SourceFault::Refused, "the thread that reads kafka has ended after its last error")
}

#[async_trait]
impl Reader for DirectReader {
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
