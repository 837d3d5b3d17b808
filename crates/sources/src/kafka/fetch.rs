//! The thread that takes messages from librdkafka and makes blocks of them.
//!
//! Owns the hot path: batches of messages, one copy each into the block of their partition, no allocation a record; and what stops a read.
//! Does not own a partition's place (`kafka::slot`), the consumer's handle (`fetch::handle`), nor fetching without librdkafka
//! ([`super::direct`]). All partitions are forwarded to the one consumer queue by librdkafka itself.
//!
//! Blocks are *staged* when they are full, when the queue ran dry or when enough bytes are staged, and leave only after
//! the ids of all topics were confirmed later than their fetch: librdkafka follows a topic that was created again by itself,
//! and would return its records at the old offsets. The confirmation shows new partitions too.

mod failures;
mod handle;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{BlockBuilder, Event, Partition, ReadFrom, Runtime, SourceError};
use rdkafka_sys as ffi;

use super::client::{Client, NO_ERROR, Topic, string};
use super::slot::Slot;
use super::{CALL_WAIT_MAX, KafkaOptions, found, slot};
use crate::queue::{Closed, Sender};
use failures::MISSES_MAX;
pub(super) use handle::Handle;

/// Messages taken by one call: enough to spread its cost, few enough to stay in the cache between fetch and copy.
const BATCH_MESSAGES: usize = 1_024;

/// Staged bytes that ask for a confirmation: 20 a second at 320 MB/s, while the bytes held stay few.
const STAGED_BYTES_MAX: usize = 16 << 20;

/// At a trickle, confirmations are no more frequent than this; it is also the latency that they may add.
const CONFIRM_EVERY_MIN: Duration = Duration::from_millis(20);

/// How long the thread waits for a message before it looks around.
const LOOK_WAIT_MS: i32 = 100;

const AGAIN: Duration = Duration::from_millis(500);

/// What the reader wants of the thread.
pub(super) enum Order {
    /// A partition to read from now on. If that fails, the next event tells.
    Add(ReadFrom),
    /// No more of this one, and say so.
    Remove(Partition),
    /// No more of this one for now.
    Pause(Partition),
    /// On with it.
    Resume(Partition),
}

/// Why the thread does not just go on.
enum Stop {
    /// The reader is gone.
    Closed,
    /// This is all that the reader learns.
    Failed(SourceError),
    /// What came cannot be read, and is asked for again.
    Again(String),
}

impl From<Closed> for Stop {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

impl From<SourceError> for Stop {
    fn from(error: SourceError) -> Self {
        Self::Failed(error)
    }
}

/// The state of the thread.
pub(super) struct Fetch {
    options: KafkaOptions,
    runtime: Arc<dyn Runtime>,
    handle: Arc<Handle>,
    /// Asks over connections of its own: on the fetching ones an answer may stand behind a fetch that waits for records.
    look: Arc<Client>,
    events: Sender<Result<Event, SourceError>>,
    orders: mpsc::Receiver<Order>,
    slots: Vec<Slot>,
    /// From librdkafka's topic object (constant while a partition of it is assigned) and partition to the slot.
    index: BTreeMap<(usize, i32), usize>,
    /// The key and slot of the newest message: the next one is mostly of the same partition.
    newest: ((usize, i32), usize),
    staged: Vec<Event>,
    staged_bytes: usize,
    /// Partitions that were there, were reported or are read.
    known: BTreeSet<Partition>,
    confirmed: Option<Duration>,
    misses: u32,
    away_reported: Option<Duration>,
    must_confirm: bool,
}

impl Fetch {
    pub(super) fn new(
        options: &KafkaOptions,
        runtime: Arc<dyn Runtime>,
        handle: Arc<Handle>,
        look: Arc<Client>,
        events: Sender<Result<Event, SourceError>>,
        orders: mpsc::Receiver<Order>,
        from: Vec<ReadFrom>,
    ) -> Result<Self, SourceError> {
        let known = from.iter().map(|from| from.partition.clone()).collect();
        let slots: Vec<Slot> =
            from.into_iter().map(|from| Slot::new(from, options.record_bytes_max)).collect();
        handle.assign(&slots)?;
        Ok(Self {
            options: options.clone(),
            runtime,
            handle,
            look,
            events,
            orders,
            slots,
            index: BTreeMap::new(),
            newest: ((0, -1), 0),
            staged: Vec::new(),
            staged_bytes: 0,
            known,
            confirmed: None,
            misses: 0,
            away_reported: None,
            must_confirm: true,
        })
    }

    /// Reads until the reader is gone or going on would be wrong.
    pub(super) fn run(mut self) {
        let mut result = Ok(());
        loop {
            result = match result {
                Ok(()) => self.round(),
                Err(Stop::Again(why)) => self.fetch_again(why),
                Err(Stop::Closed) => return,
                Err(Stop::Failed(error)) => {
                    tracing::error!(%error, "reading kafka stops");
                    // The reader may be gone by now; then nobody asks.
                    let _ = self.events.send(Err(error), 0);
                    return;
                }
            };
        }
    }

    /// Takes what is there, and confirms and sends what is due.
    fn round(&mut self) -> Result<(), Stop> {
        if self.events.is_closed() {
            return Err(Stop::Closed);
        }
        self.obey()?;
        let taken = self.take_batch(0, BATCH_MESSAGES)?;
        let now = self.runtime.elapsed();
        let is_dry = taken == 0;
        let since = self.confirmed.map(|at| now.saturating_sub(at));
        let may_confirm = since.is_none_or(|since| since >= CONFIRM_EVERY_MIN);
        let is_waiting = !self.staged.is_empty() || self.slots.iter().any(|slot| !slot.block.is_empty());
        let is_due = self.staged_bytes >= STAGED_BYTES_MAX
            || (is_dry && is_waiting && may_confirm)
            || (self.must_confirm && may_confirm)
            || since.is_none_or(|since| since >= self.options.look_every);
        if is_due {
            self.confirm_and_send()?;
        } else if is_dry {
            // One message ends the wait, so that it adds nothing to the latency.
            let wait_ms = if is_waiting { CONFIRM_EVERY_MIN.as_millis() as i32 } else { LOOK_WAIT_MS };
            self.take_batch(wait_ms, 1)?;
        }
        self.tell_failure()
    }

    fn obey(&mut self) -> Result<(), Stop> {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Add(from) => self.add(from)?,
                Order::Remove(partition) => self.remove(&partition)?,
                Order::Pause(partition) => self.set_paused(&partition, true)?,
                Order::Resume(partition) => self.set_paused(&partition, false)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        if self.slots.iter().any(|slot| slot.from.partition == from.partition) {
            return Err(SourceError::read_already(&from.partition));
        }
        let slot = Slot::new(from, self.options.record_bytes_max);
        self.handle.assign([&slot])?;
        self.known.insert(slot.from.partition.clone());
        self.slots.push(slot);
        // Its identity is checked by the next confirmation, its position by the broker.
        self.must_confirm = true;
        Ok(())
    }

    /// Leaves a partition; what was fetched of it goes out first, with all that is staged.
    fn remove(&mut self, partition: &Partition) -> Result<(), SourceError> {
        let Some(at) = self.slots.iter().position(|slot| slot.from.partition == *partition) else {
            return Ok(());
        };
        let mut slot = self.slots.remove(at);
        if !slot.is_paused {
            self.handle.unassign(partition)?;
        }
        if !slot.block.is_empty() {
            self.staged.push(Event::Block(slot.block.take()));
        }
        self.staged.push(Event::Removed { partition: partition.clone() });
        self.must_confirm = true;
        self.forget_places();
        Ok(())
    }

    /// Slots have moved, or a topic's object may be another one from now on.
    fn forget_places(&mut self) {
        self.index.clear();
        self.newest = ((0, -1), 0);
    }

    /// Pauses by leaving the partition, and resumes at our own position. librdkafka's own pause goes on from a position
    /// that it counts one too far after the end of a partition was reported, and so would step over a record.
    fn set_paused(&mut self, partition: &Partition, is_paused: bool) -> Result<(), Stop> {
        let of = |slot: &&mut Slot| slot.from.partition == *partition && slot.is_paused != is_paused;
        let Some(slot) = self.slots.iter_mut().find(of) else { return Ok(()) };
        slot.is_paused = is_paused;
        if is_paused {
            self.handle.unassign(partition)?;
        } else {
            self.handle.assign([&*slot])?;
        }
        self.forget_places();
        Ok(())
    }

    /// Has all partitions fetched again from where they stand, after a moment. librdkafka goes on behind what it cannot read, so nothing counts that it
    /// fetched from there on; and what was taken together with it, and dropped, may be of any partition.
    fn fetch_again(&mut self, why: String) -> Result<(), Stop> {
        self.away(why)?;
        if self.events.wait_closed(AGAIN) {
            return Err(Stop::Closed);
        }
        for slot in self.slots.iter().filter(|slot| !slot.is_paused) {
            self.handle.unassign(&slot.from.partition)?;
            self.handle.assign([slot])?;
        }
        self.forget_places();
        Ok(())
    }

    /// Takes at most `count` messages; waits for the first one. After an error the others are dropped.
    fn take_batch(&mut self, wait_ms: i32, count: usize) -> Result<usize, Stop> {
        let mut batch = [null_mut(); BATCH_MESSAGES];
        // SAFETY: the queue is live; the array has room for `count` pointers.
        let taken = unsafe {
            ffi::rd_kafka_consume_batch_queue(
                self.handle.queue,
                wait_ms,
                batch.as_mut_ptr(),
                count.min(BATCH_MESSAGES),
            )
        };
        let taken = usize::try_from(taken).unwrap_or(0);
        let mut result = Ok(());
        for message in &batch[..taken] {
            // SAFETY: librdkafka hands over `taken` live messages; each is destroyed once, also after an error.
            unsafe {
                if result.is_ok() {
                    result = self.take(&**message);
                }
                ffi::rd_kafka_message_destroy(*message);
            }
        }
        result.map(|()| taken)
    }

    /// # Safety
    /// `message` is live.
    unsafe fn take(&mut self, message: &ffi::rd_kafka_message_t) -> Result<(), Stop> {
        // SAFETY: as promised.
        let slot = unsafe { self.slot_of(message) };
        if message.err != NO_ERROR {
            // SAFETY: as promised.
            return unsafe { self.take_error(message, slot) };
        }
        let (Some(slot), Ok(position)) = (slot, u64::try_from(message.offset)) else { return Ok(()) };
        let slot = &mut self.slots[slot];
        if position < slot.next {
            // After a pause librdkafka may fetch once more what was returned; positions show it.
            return Ok(());
        }
        slot.next = position + 1;
        // SAFETY: as promised.
        unsafe { push(slot, position, message) };
        if slot.block.is_full() {
            let block = slot.block.take();
            self.staged_bytes += block.memory_bytes();
            self.staged.push(Event::Block(block));
        }
        Ok(())
    }

    /// The slot of a message; `None` if it names no partition that is read.
    ///
    /// # Safety
    /// `message` is live.
    unsafe fn slot_of(&mut self, message: &ffi::rd_kafka_message_t) -> Option<usize> {
        let key = (message.rkt as usize, message.partition);
        if self.newest.0 == key {
            return Some(self.newest.1);
        }
        if message.rkt.is_null() {
            return None;
        }
        let slot = if let Some(slot) = self.index.get(&key) {
            *slot
        } else {
            // SAFETY: the topic lives as long as the message.
            let name = unsafe { string(ffi::rd_kafka_topic_name(message.rkt)) };
            let is_this = |slot: &Slot| {
                *slot.from.partition.stream == name && slot.from.partition.index as i32 == message.partition
            };
            let slot = self.slots.iter().position(is_this)?;
            self.index.insert(key, slot);
            slot
        };
        self.newest = (key, slot);
        Some(slot)
    }

    /// Asks for the topics' ids until there is an answer; sends all that was fetched before, and what is new.
    fn confirm_and_send(&mut self) -> Result<(), Stop> {
        let topics = self.confirm()?;
        for slot in &mut self.slots {
            if !slot.block.is_empty() {
                self.staged.push(Event::Block(slot.block.take()));
            }
        }
        self.staged_bytes = 0;
        for event in std::mem::take(&mut self.staged) {
            let bytes = if let Event::Block(block) = &event { block.memory_bytes() } else { 0 };
            self.events.send(Ok(event), bytes)?;
        }
        Ok(found::report(&self.look, &topics, &mut self.known, &self.events)?)
    }

    fn confirm(&mut self) -> Result<BTreeMap<String, Topic>, Stop> {
        loop {
            let asked = self.runtime.elapsed();
            let (client, events) = (&self.look, &self.events);
            let result = client.describe(&self.options.topics, CALL_WAIT_MAX, || !events.is_closed());
            if self.events.is_closed() {
                return Err(Stop::Closed);
            }
            match result {
                Ok(topics) => {
                    if self.fits(&topics)? {
                        self.confirmed = Some(asked);
                        self.must_confirm = false;
                        return Ok(topics);
                    }
                }
                Err(error) => self.not_described(error)?,
            }
            if self.events.wait_closed(AGAIN) {
                return Err(Stop::Closed);
            }
        }
    }

    /// Whether an answer has all that is read. Another id ends the reading at once: librdkafka may have followed the topic, and a later answer of a broker that
    /// still names the old id would let the new topic's records out as the old one's.
    fn fits(&mut self, topics: &BTreeMap<String, Topic>) -> Result<bool, Stop> {
        let read = self.slots.iter().map(|slot| &slot.from);
        let Some((error, is_another)) = slot::refusal(read, topics) else {
            self.misses = 0;
            return Ok(true);
        };
        self.misses += 1;
        if is_another || self.misses >= MISSES_MAX {
            return Err(Stop::Failed(error));
        }
        self.away(format!("kafka: {error}; asking again"))?;
        Ok(false)
    }
}

/// Copies a message into its block.
///
/// # Safety
/// `message` is live and stands for a record.
#[inline]
unsafe fn push(slot: &mut Slot, position: u64, message: &ffi::rd_kafka_message_t) {
    let block = &mut slot.block;
    // SAFETY: a live message's payload and key are as long as it says, and null if there is none.
    unsafe {
        let mut kind = ffi::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        let time_ms = match ffi::rd_kafka_message_timestamp(message, &mut kind) {
            // As the direct fetch has it: a time before 1970 is none that a producer means.
            ..0 => TIME_UNKNOWN_MS,
            time_ms => time_ms,
        };
        block.push(position, time_ms, bytes(message.payload.cast(), message.len));
        if let Some(key) = bytes(message.key.cast(), message.key_len) {
            block.key(key);
        }
        slot.leader_epoch = ffi::rd_kafka_message_leader_epoch(message);
        block.leader_epoch(slot.leader_epoch);
        push_headers(block, message);
    }
}

/// # Safety
/// `message` is live.
unsafe fn push_headers(block: &mut BlockBuilder, message: &ffi::rd_kafka_message_t) {
    let mut headers = null_mut();
    // SAFETY: a live message's headers live as long as it; names end with a zero and values are as long as they say.
    unsafe {
        if ffi::rd_kafka_message_headers(message, &mut headers) != NO_ERROR {
            return;
        }
        let (mut index, mut name, mut value, mut size) = (0, std::ptr::null(), std::ptr::null(), 0);
        while ffi::rd_kafka_header_get_all(headers, index, &mut name, &mut value, &mut size) == NO_ERROR {
            let name = CStr::from_ptr(name).to_string_lossy();
            block.header(&name, bytes(value.cast(), size));
            index += 1;
        }
    }
}

/// # Safety
/// `at` is null or the start of `count` live bytes.
unsafe fn bytes<'a>(at: *const u8, count: usize) -> Option<&'a [u8]> {
    // SAFETY: as promised.
    (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, count) })
}
