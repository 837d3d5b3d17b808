//! A list of partitions with offsets, as librdkafka wants it.
//!
//! Owns the list's memory and the unsafe calls around it. Does not own the handle that it is given to (`kafka::client`).

use dataflow::Partition;
use rdkafka_sys as ffi;

use super::client::text;

pub(super) struct List(*mut ffi::rd_kafka_topic_partition_list_t);

impl List {
    pub(super) fn new(capacity: usize) -> Self {
        // SAFETY: allocates; a capacity that does not fit is only a hint left out.
        Self(unsafe { ffi::rd_kafka_topic_partition_list_new(i32::try_from(capacity).unwrap_or(0)) })
    }

    pub(super) fn add(&mut self, partition: &Partition, offset: i64, leader_epoch: Option<i32>) {
        let topic = text(&partition.stream);
        // SAFETY: the list is live; the name is copied; the element is valid until the next addition.
        unsafe {
            let element =
                ffi::rd_kafka_topic_partition_list_add(self.0, topic.as_ptr(), partition.index as i32);
            (*element).offset = offset;
            if let Some(epoch) = leader_epoch {
                ffi::rd_kafka_topic_partition_set_leader_epoch(element, epoch);
            }
        }
    }

    /// Valid as long as the list.
    pub(super) fn raw(&self) -> *mut ffi::rd_kafka_topic_partition_list_t {
        self.0
    }

    pub(super) fn elements(&self) -> &[ffi::rd_kafka_topic_partition_t] {
        // SAFETY: the list is live and its count says how many elements stand there.
        unsafe {
            let list = &*self.0;
            if list.cnt == 0 { &[] } else { std::slice::from_raw_parts(list.elems, list.cnt as usize) }
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: made by this type and destroyed once.
        unsafe { ffi::rd_kafka_topic_partition_list_destroy(self.0) };
    }
}
