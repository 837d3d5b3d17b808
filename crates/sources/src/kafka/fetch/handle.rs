//! The consumer of one read.
//!
//! Owns its queue, and which partitions it is assigned. Does not own the thread that takes messages from it ([`super`]).

use std::sync::Arc;

use dataflow::{Partition, Runtime, SourceError, SourceFault};
use rdkafka_sys as ffi;

use crate::kafka::KafkaOptions;
use crate::kafka::client::{Client, take_error};
use crate::kafka::config::Role;
use crate::kafka::list::List;
use crate::kafka::slot::Slot;

/// The handle and its queue, shared by the thread and the reader in front of it.
pub(crate) struct Handle {
    // The queue is destroyed in `drop`, before the client.
    pub(super) queue: *mut ffi::rd_kafka_queue_t,
    pub(super) client: Client,
}

// SAFETY: librdkafka's queues may be used by several threads at once.
unsafe impl Send for Handle {}

unsafe impl Sync for Handle {}

impl Handle {
    pub(crate) fn new(options: &KafkaOptions, runtime: Arc<dyn Runtime>) -> Result<Self, SourceError> {
        let client = Client::new(options, Role::Read, runtime)?;
        // SAFETY: the handle is live and outlives the queue.
        let queue = unsafe { ffi::rd_kafka_queue_get_consumer(client.raw()) };
        if queue.is_null() {
            return Err(SourceError::new(SourceFault::Config, "kafka gives no queue to read from"));
        }
        Ok(Self { queue, client })
    }

    /// Ends the thread's wait.
    pub(crate) fn wake(&self) {
        // SAFETY: the queue is live.
        unsafe { ffi::rd_kafka_queue_yield(self.queue) };
    }

    pub(super) fn assign<'a>(&self, slots: impl IntoIterator<Item = &'a Slot>) -> Result<(), SourceError> {
        let mut list = List::new(0);
        for slot in slots {
            list.add(&slot.from.partition, i64::try_from(slot.next).unwrap_or(i64::MAX), slot.epoch());
        }
        // SAFETY: the handle and the list are live.
        let result = unsafe { take_error(ffi::rd_kafka_incremental_assign(self.client.raw(), list.raw())) };
        result.map_err(|(code, why)| self.client.failed("cannot assign partitions", code, &why))
    }

    /// Stops fetching a partition and drops what was fetched ahead.
    pub(super) fn unassign(&self, partition: &Partition) -> Result<(), SourceError> {
        let mut list = List::new(1);
        list.add(partition, 0, None);
        // SAFETY: the handle and the list are live.
        let result = unsafe { take_error(ffi::rd_kafka_incremental_unassign(self.client.raw(), list.raw())) };
        result.map_err(|(code, why)| self.client.failed("cannot leave a partition", code, &why))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: nobody else has the queue any more.
        unsafe { ffi::rd_kafka_queue_destroy(self.queue) };
    }
}
