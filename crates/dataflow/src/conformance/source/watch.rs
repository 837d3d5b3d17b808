//! Reads a source to its end and checks on the way what holds for every event.
//!
//! Owns those checks: positions rise, `next` lies behind every record, nothing follows an end, columns are of one length. Does not own
//! rules that compare one reading with another (`rules`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Fixture;
use crate::{
    Event, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, SourceError, SourceFault,
};

/// How long the suite waits for one event: a real broker on a busy machine may need as long for a metadata round.
const EVENT_WAIT_MAX: Duration = Duration::from_secs(300);

/// A record as the suite compares it: position, time, body, key, encoded headers.
pub type Record = (Position, i64, Option<Vec<u8>>, Vec<u8>, Vec<u8>);

/// What a reader has returned of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The records, in order.
    pub records: Vec<Record>,
    /// The position to fetch next.
    pub next: Position,
    /// True once everything at hand was returned.
    pub caught_up: bool,
    /// True once the partition has ended for ever.
    pub ended: bool,
}

impl Seen {
    /// True if nothing more is to be waited for at the moment.
    pub fn is_done(&self) -> bool {
        self.caught_up || self.ended
    }
}

/// Watches a reader: which partitions it reads, and what came.
pub struct Watch<'a> {
    fixture: &'a dyn Fixture,
    reader: Box<dyn Reader>,
    /// What was seen, by partition.
    pub seen: BTreeMap<Partition, Seen>,
    /// The leader epoch that goes with each partition's `next`.
    pub epochs: BTreeMap<Partition, i32>,
    /// Partitions that appeared on the way.
    pub found: Vec<PartitionStart>,
    /// Partitions that were added without having been found.
    added: BTreeSet<Partition>,
    /// What was seen of partitions that were taken away.
    left: BTreeMap<Partition, Seen>,
}

/// The start of a partition as a place to continue from.
pub fn at(start: &PartitionStart, next: Position) -> ReadFrom {
    ReadFrom {
        partition: start.partition.clone(),
        identity: start.identity.clone(),
        next,
        leader_epoch: start.leader_epoch,
    }
}

impl<'a> Watch<'a> {
    /// Starts to read `from`.
    pub async fn start(fixture: &'a dyn Fixture, from: Vec<ReadFrom>) -> Result<Watch<'a>, SourceError> {
        let seen =
            from.iter().map(|f| (f.partition.clone(), Seen { next: f.next, ..Seen::default() })).collect();
        let epochs = from.iter().map(|f| (f.partition.clone(), f.leader_epoch)).collect();
        let reader = fixture.source().read(from).await?;
        Ok(Self {
            fixture,
            reader,
            seen,
            epochs,
            found: Vec::new(),
            added: BTreeSet::new(),
            left: BTreeMap::new(),
        })
    }

    /// The reader itself.
    pub fn reader(&mut self) -> &mut dyn Reader {
        &mut *self.reader
    }

    /// Reads a further partition.
    pub async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.seen.insert(from.partition.clone(), Seen { next: from.next, ..Seen::default() });
        if self.found.iter().all(|found| found.partition != from.partition) {
            self.added.insert(from.partition.clone());
        }
        self.reader.add(from).await
    }

    /// Takes a partition away, and waits until the reader says that it is; what came of it up to then.
    pub async fn remove(&mut self, partition: &Partition) -> Result<Seen, SourceError> {
        self.reader.remove(partition);
        loop {
            if let Some(seen) = self.left.remove(partition) {
                return Ok(seen);
            }
            self.step().await?;
        }
    }

    /// Waits for one event and notes it.
    pub async fn step(&mut self) -> Result<(), SourceError> {
        let runtime = self.fixture.runtime();
        let event = runtime.timeout(EVENT_WAIT_MAX, self.reader.next()).await;
        self.note_result(event.expect("an event comes within the bound of the suite"))
    }

    /// Notes what comes within `time`; nothing need come.
    pub async fn linger(&mut self, time: Duration) -> Result<(), SourceError> {
        let runtime = self.fixture.runtime();
        let until = runtime.elapsed() + time;
        while let Some(left) = until.checked_sub(runtime.elapsed()) {
            match runtime.timeout(left, self.reader.next()).await {
                None => break,
                Some(result) => self.note_result(result)?,
            }
        }
        Ok(())
    }

    /// Steps until `enough`.
    pub async fn until(
        &mut self,
        mut enough: impl FnMut(&BTreeMap<Partition, Seen>) -> bool,
    ) -> Result<(), SourceError> {
        while !enough(&self.seen) {
            self.step().await?;
        }
        Ok(())
    }

    /// Steps until every partition is caught up or has ended.
    pub async fn all(&mut self) -> Result<(), SourceError> {
        self.until(|seen| seen.values().all(Seen::is_done)).await
    }

    /// Notes an event or lets an absence pass: being away is no fault, and the suite's bound ends a long one.
    pub fn note_result(&mut self, result: Result<Event, SourceError>) -> Result<(), SourceError> {
        match result {
            Ok(event) => self.note(event),
            Err(error) if error.fault == SourceFault::Away => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Block(block) => {
                self.epochs.insert(block.partition.clone(), block.leader_epoch);
                note_block(self.of(&block.partition), &block);
            }
            Event::CaughtUp { partition, next, leader_epoch } => {
                self.epochs.insert(partition.clone(), leader_epoch);
                let seen = self.of(&partition);
                assert!(next >= seen.next, "{partition}: caught up at `{next}`, before `{}`", seen.next);
                seen.next = next;
                seen.caught_up = true;
            }
            Event::Ended { partition, next } => {
                let seen = self.of(&partition);
                assert!(!seen.ended, "{partition}: a partition ends once");
                assert!(next >= seen.next, "{partition}: ended at `{next}`, before `{}`", seen.next);
                seen.next = next;
                seen.ended = true;
            }
            Event::Removed { partition } => {
                let seen = self.seen.remove(&partition);
                let seen = seen.unwrap_or_else(|| panic!("{partition}: taken away, and it is not read"));
                assert!(self.left.insert(partition, seen).is_none(), "taken away twice");
            }
            // It may have been on its way when the partition was added.
            Event::Found(start) if self.added.remove(&start.partition) => {}
            Event::Found(start) => {
                assert!(!self.seen.contains_key(&start.partition), "{}: read already", start.partition);
                self.found.push(start);
            }
        }
    }

    fn of(&mut self, partition: &Partition) -> &mut Seen {
        self.seen.get_mut(partition).unwrap_or_else(|| panic!("{partition}: nobody asked to read it"))
    }
}

pub(super) fn note_block(seen: &mut Seen, block: &RecordBlock) {
    let partition = &block.partition;
    assert!(!block.is_empty(), "{partition}: a block holds at least one record");
    assert!(!seen.ended, "{partition}: no block comes after the end");
    assert_eq!(block.payloads.len(), block.len(), "{partition}: one body a record");
    assert_eq!(block.times_ms.len(), block.len(), "{partition}: one time a record");
    let beside = |spans: &Option<crate::Spans>, row: usize| {
        spans.as_ref().map(|s| s.get(row).to_vec()).unwrap_or_default()
    };
    for row in 0..block.len() {
        let position = block.position(row);
        assert!(position >= seen.next, "{partition}: position `{position}` came before `{}`", seen.next);
        seen.next = position + 1;
        let is_absent = block.absent.binary_search(&(row as u32)).is_ok();
        let body = block.payloads.get(row);
        assert!(!is_absent || body.is_empty(), "{partition}: an absent body has no bytes");
        seen.records.push((
            position,
            block.times_ms[row],
            (!is_absent).then(|| body.to_vec()),
            beside(&block.keys, row),
            beside(&block.headers, row),
        ));
    }
    assert!(block.next >= seen.next, "{partition}: `next` lies after the last record");
    seen.next = block.next;
    seen.caught_up = false;
}

/// Reads all partitions from their starts until each is caught up or has ended.
pub async fn read_all(fixture: &dyn Fixture) -> BTreeMap<Partition, Seen> {
    let starts = fixture.source().partitions().await.expect("the partitions are shown");
    let from = starts.iter().map(|start| at(start, start.next)).collect();
    let mut watch = Watch::start(fixture, from).await.expect("reading starts");
    watch.all().await.expect("reading goes on to the end");
    watch.seen
}
