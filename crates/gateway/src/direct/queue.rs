//! Which requests wait, which the pipeline was given, and which are sealed. Pure.
//!
//! Owns the numbers of records. Does not own the bound on what waits, which is that of its streams' budgets: they hold each request until
//! it is answered (`gateway::budget`). Nor does it own the reader that hands records out (`direct::source`).

use std::collections::VecDeque;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{RecordBlock, position};

/// Requests of fewer bytes are handed out together, up to [`TOGETHER_BYTES`]: a block costs the lane some microseconds, whatever it holds.
const SMALL_BYTES: usize = 64 << 10;
/// See [`SMALL_BYTES`].
const TOGETHER_BYTES: usize = 256 << 10;

/// A request that the pipeline was not given.
#[derive(Debug)]
struct Waiting<T> {
    /// Of all requests of the stream.
    number: u64,
    records: RecordBlock,
    tell: T,
}

/// A request that the pipeline was given and has not sealed.
#[derive(Debug)]
struct Handed<T> {
    first: u64,
    next: u64,
    tell: T,
}

/// The requests of a stream; `T` is whom to tell what became of one.
#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: VecDeque<Waiting<T>>,
    handed: VecDeque<Handed<T>>,
    /// The number of the next request.
    request: u64,
    /// The number of the next record that is handed out.
    next: u64,
    /// The number of the newest reader, from 1; older ones get nothing.
    reader: u64,
    is_closed: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let (waiting, handed) = (VecDeque::new(), VecDeque::new());
        Self { waiting, handed, request: 0, next: 0, reader: 0, is_closed: false }
    }
}

impl<T> Queue<T> {
    /// A request has come: its number, by which it may be withdrawn. It is given back if none is taken any more.
    pub fn push(&mut self, records: RecordBlock, tell: T) -> Result<u64, T> {
        if self.is_closed {
            return Err(tell);
        }
        let number = self.request;
        self.request += 1;
        self.waiting.push_back(Waiting { number, records, tell });
        Ok(number)
    }

    /// Takes back a request that was not handed out: it never will be. `None` for any other.
    pub fn withdraw(&mut self, number: u64) -> Option<T> {
        let at = self.waiting.binary_search_by_key(&number, |waiting| waiting.number).ok()?;
        self.waiting.remove(at).map(|waiting| waiting.tell)
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether nothing waits to be handed out.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether no request is taken any more.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether a reader has ever asked for records.
    pub fn has_reader(&self) -> bool {
        self.reader > 0
    }

    /// Whether `reader` is the newest one.
    pub fn is_read_by(&self, reader: u64) -> bool {
        self.reader == reader
    }

    /// The next records, of one request or of several small ones.
    pub fn hand_out(&mut self) -> Option<RecordBlock> {
        let Waiting { records: mut block, tell, .. } = self.waiting.pop_front()?;
        let first = self.next;
        self.hand(block.len(), tell);
        while let Some(more) = self.waiting.front()
            && may_join(&block, &more.records)
        {
            let Waiting { records: more, tell, .. } = self.waiting.pop_front()?;
            join(&mut block, &more);
            self.hand(more.len(), tell);
        }
        block.positions = (first..self.next).collect();
        block.next = position::position(0, self.next);
        block.leader_epoch = NO_LEADER_EPOCH;
        Some(block)
    }

    fn hand(&mut self, rows: usize, tell: T) {
        let first = self.next;
        self.next += rows as u64;
        self.handed.push_back(Handed { first, next: self.next, tell });
    }

    /// All records below `position` are sealed: those requests whose last one is, each with the position of its first.
    pub fn sealed(&mut self, position: u64) -> Vec<(u64, T)> {
        let count = self.handed.iter().take_while(|handed| handed.next <= position).count();
        self.handed.drain(..count).map(|handed| (handed.first, handed.tell)).collect()
    }

    /// A new reader begins at `position`, up to which all is sealed and beyond which nothing is: the number of the reader, requests that are sealed, and
    /// those that were handed out and are not. What waits is handed out to the new reader.
    pub fn open(&mut self, position: u64) -> (u64, Vec<(u64, T)>, Vec<T>) {
        let sealed = self.sealed(position);
        let lost = self.handed.drain(..).map(|handed| handed.tell).collect();
        self.next = position;
        self.reader += 1;
        (self.reader, sealed, lost)
    }

    /// Takes no more: the requests that the pipeline was not given.
    pub fn close(&mut self) -> Vec<T> {
        self.is_closed = true;
        self.waiting.drain(..).map(|waiting| waiting.tell).collect()
    }

    /// Nothing that was handed out will be told of any more.
    pub fn forget(&mut self) {
        self.handed.clear();
    }
}

/// Whether two requests may be one block: small, and with nothing but bodies.
fn may_join(block: &RecordBlock, more: &RecordBlock) -> bool {
    let (own, others) = (block.payloads.bytes.len(), more.payloads.bytes.len());
    let is_plain = |block: &RecordBlock| {
        block.keys.is_none() && block.headers.is_none() && block.absent.is_empty() && block.cut.is_empty()
    };
    others < SMALL_BYTES
        && own + others <= TOGETHER_BYTES
        && is_plain(block)
        && is_plain(more)
        && block.head == more.head
        && block.schema == more.schema
}

fn join(block: &mut RecordBlock, more: &RecordBlock) {
    let before = u32::try_from(block.payloads.bytes.len()).expect("it is small");
    block.payloads.bytes.extend_from_slice(&more.payloads.bytes);
    block.payloads.ends.extend(more.payloads.ends.iter().map(|end| before + end));
    block.times_ms.extend_from_slice(&more.times_ms);
}

#[cfg(test)]
mod tests;
