//! A reader that finds out what the records of several blocks look up at the same time, and hands the blocks out in their order.
//!
//! Owns the order, the bound of what is read ahead, and that a block is kept whatever fails. Does not own what is asked ([`super::walk`]).
//!
//! | the first of its blocks … | the reader …                                                                              |
//! |---------------------------|-------------------------------------------------------------------------------------------|
//! | has its rows              | hands it out, once there is room for them beside those of earlier blocks                  |
//! | is on its way             | waits, and reads further blocks meanwhile                                                 |
//! | needs too many rows       | makes two of it; and of the next ones from the start, until they need few                 |
//! | has failed                | fails with the reason, and asks again when it is asked again; so do all behind it. None of them holds rows meanwhile |

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use dataflow::block::Found;
use dataflow::{
    BlockBuilder, Event, Partition, ReadFrom, Reader, RecordBlock, Runtime, SourceError, SourceFault,
};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::keyed::Why;
use super::source::Looks;
use super::walk::{Taken, Walked};
use super::{HELD_ASK_EVERY, away};

/// Bytes of blocks that wait at the most, but for the first: two that are full.
const BYTES_MAX: usize = 8 << 20;
/// Events that wait at the most before more are read. Most are blocks; others wait behind one.
const EVENTS_MAX: usize = 64;

/// What becomes of a block; an error that is not away is a fault of the program, and the block is gone.
type Asked = Result<Walked, SourceError>;

/// What the inner reader gave.
enum Slot {
    /// No block.
    Event(Event),
    /// A block that is asked for once it is among the first.
    Waiting(RecordBlock),
    /// One that has failed: it is asked for again once it is the first.
    Failed(RecordBlock),
    /// One whose keys are found and asked for.
    Asking(BoxFuture<'static, Asked>),
    /// One that can be handed out.
    Ready(RecordBlock, Vec<Taken>),
    /// Nothing: it is being changed.
    Between,
}

/// The reader.
pub struct ReaderAhead {
    inner: Box<dyn Reader>,
    looks: Looks,
    runtime: Arc<dyn Runtime>,
    slots: VecDeque<Slot>,
    /// Records of a block at the most: as many as did not need too many rows.
    records_max: usize,
    /// Whether the first block has failed and has not had its rows since: what those behind it find meanwhile is not kept.
    waits: bool,
    /// Why the inner reader gives nothing more; told once all that came before has been handed out.
    failed: Option<SourceError>,
}

/// What comes first.
enum First {
    /// The answer for the block at this place.
    Asked(usize, Asked),
    /// What the inner reader gives.
    Came(Result<Event, SourceError>),
}

impl ReaderAhead {
    /// `inner`, whose blocks wait for what they look up.
    pub fn new(inner: Box<dyn Reader>, looks: Looks, runtime: Arc<dyn Runtime>) -> Self {
        let (slots, records_max) = (VecDeque::new(), BlockBuilder::RECORDS_MAX);
        Self { inner, looks, runtime, slots, records_max, waits: false, failed: None }
    }

    fn asking(&self, block: RecordBlock) -> Slot {
        let (looks, runtime) = (self.looks.clone(), self.runtime.clone());
        Slot::Asking(Box::pin(async move {
            let found = match looks.lookups.fresh(&*runtime) {
                Some(found) => found,
                None => match looks.lookups.read(&runtime).await {
                    Ok(found) => found,
                    Err(error) => return Ok(Walked { block, taken: Err(Why::Away(error.message)) }),
                },
            };
            looks.walk(block, found, &runtime, false).await
        }))
    }

    /// Asks for the first blocks, as many as may be on their way, and for one that has failed if it is the first.
    fn start(&mut self) {
        let is_busy = |slot: &&Slot| matches!(slot, Slot::Asking(_) | Slot::Ready(..) | Slot::Failed(_));
        let mut left = self.looks.ahead.saturating_sub(self.slots.iter().filter(is_busy).count());
        for at in 0..self.slots.len() {
            let starts = match &self.slots[at] {
                Slot::Failed(_) => at == 0,
                Slot::Waiting(_) => left > 0,
                Slot::Event(_) | Slot::Asking(_) | Slot::Ready(..) | Slot::Between => false,
            };
            if !starts {
                continue;
            }
            match std::mem::replace(&mut self.slots[at], Slot::Between) {
                Slot::Waiting(block) => {
                    left -= 1;
                    self.slots[at] = self.asking(block);
                }
                Slot::Failed(block) => self.slots[at] = self.asking(block),
                other => self.slots[at] = other,
            }
        }
    }

    fn may_read(&self) -> bool {
        let bytes = |slot: &Slot| match slot {
            Slot::Waiting(block) | Slot::Failed(block) | Slot::Ready(block, _) => block.memory_bytes(),
            // A block on its way is with those who ask; it is full at the most.
            Slot::Asking(_) => BlockBuilder::BYTES_MAX,
            Slot::Event(_) | Slot::Between => 0,
        };
        let blocks = self.slots.iter().filter(|slot| !matches!(slot, Slot::Event(_))).count();
        self.failed.is_none()
            && self.slots.len() < EVENTS_MAX
            && blocks < self.looks.ahead
            && self.slots.iter().skip(1).map(bytes).sum::<usize>() < BYTES_MAX
    }

    /// Takes what the inner reader gave.
    fn took(&mut self, came: Result<Event, SourceError>) {
        match came {
            Ok(Event::Block(mut block)) => {
                while block.len() > self.records_max {
                    let (first, rest) = block.split(self.records_max);
                    self.slots.push_back(Slot::Waiting(first));
                    block = rest;
                }
                self.slots.push_back(Slot::Waiting(block));
            }
            Ok(event) => self.slots.push_back(Slot::Event(event)),
            Err(error) => self.failed = Some(error),
        }
    }

    /// What comes first: the answer for a block, with its place, or what the inner reader gives.
    async fn first(&mut self) -> First {
        let may_read = self.may_read();
        let Self { inner, slots, .. } = self;
        let mut reading = may_read.then(|| inner.next());
        poll_fn(|context| {
            for (at, slot) in slots.iter_mut().enumerate() {
                if let Slot::Asking(asking) = slot
                    && let Poll::Ready(asked) = asking.poll_unpin(context)
                {
                    return Poll::Ready(First::Asked(at, asked));
                }
            }
            match reading.as_mut().map(|reading| reading.poll_unpin(context)) {
                Some(Poll::Ready(came)) => Poll::Ready(First::Came(came)),
                Some(Poll::Pending) | None => Poll::Pending,
            }
        })
        .await
    }

    /// Takes the answer for the block at a place.
    ///
    /// # Errors
    /// When the first one has failed.
    fn asked(&mut self, at: usize, asked: Asked) -> Result<(), SourceError> {
        self.slots[at] = Slot::Between;
        let Walked { mut block, taken } = asked?;
        let is_first = at == 0;
        if taken.is_err() || self.waits && !is_first {
            // Nothing that was found is held while a block waits: a side that is in memory as a whole is not read once more before its older state is let go.
            block.found = Found::default();
        }
        match taken {
            Ok(_) if self.waits && !is_first => self.slots[at] = Slot::Failed(block),
            Ok(taken) => {
                if is_first {
                    self.waits = false;
                    self.retry();
                }
                let has_few = taken.iter().all(|taken| taken.side.is_few(taken.bytes));
                if has_few && block.len() >= self.records_max {
                    self.records_max = (2 * self.records_max).min(BlockBuilder::RECORDS_MAX);
                }
                self.slots[at] = Slot::Ready(block, taken);
            }
            Err(Why::TooMuch(_)) if block.len() > 1 => {
                let (first, rest) = block.split(block.len() / 2);
                self.records_max = self.records_max.min(rest.len());
                self.slots[at] = Slot::Waiting(first);
                self.slots.insert(at + 1, Slot::Waiting(rest));
            }
            Err(Why::TooMuch(why) | Why::Away(why)) => {
                self.slots[at] = Slot::Failed(block);
                if is_first {
                    self.waits = true;
                    self.let_go();
                    return Err(away(why));
                }
            }
        }
        Ok(())
    }

    /// Nobody knows for how long the first block waits, and nothing that others have found is held meanwhile.
    fn let_go(&mut self) {
        self.change(|slot| match slot {
            Slot::Ready(mut block, _) => {
                block.found = Found::default();
                Slot::Failed(block)
            }
            other => other,
        });
    }

    /// The first block has its rows: those behind it that have failed are asked for again.
    fn retry(&mut self) {
        self.change(|slot| match slot {
            Slot::Failed(block) => Slot::Waiting(block),
            other => other,
        });
    }

    fn change(&mut self, to: impl Fn(Slot) -> Slot) {
        for slot in &mut self.slots {
            *slot = to(std::mem::replace(slot, Slot::Between));
        }
    }
}

#[async_trait]
impl Reader for ReaderAhead {
    async fn next(&mut self) -> Result<Event, SourceError> {
        loop {
            self.start();
            match self.slots.front() {
                None => {
                    if let Some(error) = self.failed.take() {
                        return Err(error);
                    }
                }
                Some(Slot::Ready(_, taken)) => {
                    if !taken.iter().all(|taken| taken.side.has_room(taken.bytes)) {
                        self.runtime.sleep(HELD_ASK_EVERY).await;
                        continue;
                    }
                    taken.iter().for_each(|taken| taken.side.hands_out(&taken.table, taken.bytes));
                }
                Some(Slot::Between) => return Err(SourceError::new(SourceFault::Refused, FAULT)),
                Some(Slot::Event(_) | Slot::Waiting(_) | Slot::Failed(_) | Slot::Asking(_)) => {}
            }
            match self.slots.pop_front() {
                Some(Slot::Ready(block, _)) => return Ok(Event::Block(block)),
                Some(Slot::Event(event)) => return Ok(event),
                Some(other) => self.slots.push_front(other),
                None => {}
            }
            match self.first().await {
                First::Came(came) => self.took(came),
                First::Asked(at, asked) => self.asked(at, asked)?,
            }
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.inner.add(from).await
    }

    fn remove(&mut self, partition: &Partition) {
        self.inner.remove(partition);
    }

    fn pause(&mut self, partition: &Partition) {
        self.inner.pause(partition);
    }

    fn resume(&mut self, partition: &Partition) {
        self.inner.resume(partition);
    }
}

const FAULT: &str = "finding what a block looks up ended in a fault of the program; report this";

impl Looks {
    /// The block with what its records look up, or why that is not known; the block is lost only by a fault of the program.
    pub(super) async fn walk(
        &self,
        block: RecordBlock,
        found: Found,
        runtime: &Arc<dyn Runtime>,
        any_age: bool,
    ) -> Asked {
        let walk = self.walks.of(&block, self.own).clone();
        let walked = walk.walk(block, found, runtime, any_age).await;
        walked.ok_or_else(|| SourceError::new(SourceFault::Refused, FAULT))
    }
}
