//! A running read of a source and the replay log beside it.
//!
//! Owns whose turn it is, and when the next name of the log is polled. Does not own where a read of the log may begin, nor the block that a record becomes
//! (`source`).

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Event, Partition, ReadFrom, Reader, RecordBlock, SourceError};
use futures::future::BoxFuture;

use super::{LOOK_EVERY, WithReplays, block, fault, partition, start};
use crate::LogError;
use crate::object::Replay;

/// Where the log is read.
pub(super) struct Cursor {
    /// The next position to hand out.
    pub(super) next: u64,
    /// The object that holds it, if it is there.
    pub(super) loaded: Option<Replay>,
    is_paused: bool,
    /// True if the lane knows that everything below `next` was handed out.
    is_told: bool,
    has_ended: bool,
}

impl Cursor {
    /// Where `next` is handed out next, and `loaded` holds it if it is there.
    pub(super) fn new(next: u64, loaded: Option<Replay>) -> Self {
        Self { next, loaded, is_paused: false, is_told: false, has_ended: false }
    }
}

type Look = BoxFuture<'static, Result<Option<Found>, LogError>>;

/// What a poll of the next name found.
enum Found {
    /// The log holds its first object now, which begins here.
    First(u64),
    /// The next object.
    Next(Replay),
}

pub(super) struct ReaderWithReplays {
    inner: Box<dyn Reader>,
    /// Partitions of the inner source that have not ended.
    open: BTreeSet<Partition>,
    log: WithReplays,
    cursor: Option<Cursor>,
    /// True once the lane knows of the log.
    is_found: bool,
    /// The log was removed, and that was not reported yet.
    is_leaving: bool,
    /// True if the last poll had no answer.
    is_failing: bool,
    /// Where the log begins, once it is known; asked for while it holds nothing.
    begin: Arc<OnceLock<u64>>,
    /// The poll under way: kept, because the lane drops `next` whenever something else happens.
    look: Option<Look>,
}

impl ReaderWithReplays {
    /// A reader of `open` partitions of the source, and of the log from the cursor on.
    pub(super) fn new(
        inner: Box<dyn Reader>,
        open: BTreeSet<Partition>,
        log: WithReplays,
        cursor: Option<Cursor>,
    ) -> Self {
        let (is_found, is_leaving, is_failing) = (false, false, false);
        Self { inner, open, log, cursor, is_found, is_leaving, is_failing, begin: Arc::default(), look: None }
    }

    /// A record at hand.
    fn take(&mut self) -> Option<RecordBlock> {
        let cursor = self.cursor.as_mut().filter(|cursor| !cursor.is_paused && !cursor.has_ended)?;
        let record = cursor.loaded.as_ref()?.record(cursor.next)?;
        let block = block(cursor.next, record);
        cursor.next += 1;
        cursor.is_told = false;
        Some(block)
    }

    /// Starts to poll the next name, if there is a reason to: at once for a lane that waits to learn where it stands.
    fn look(&mut self) {
        let (position, waits) = match &self.cursor {
            Some(cursor) if cursor.is_paused || cursor.has_ended => return,
            Some(cursor) => {
                let is_open = !self.open.is_empty() || self.log.outlives;
                (Some(cursor.next), cursor.is_told && is_open)
            }
            None if self.is_found => return,
            None => (None, true),
        };
        let waits = waits || self.is_failing;
        if self.look.is_some() {
            return;
        }
        let (log, runtime) = (self.log.log.clone(), self.log.runtime.clone());
        let (begin, is_told) = (self.begin.clone(), self.log.is_told_by_journal);
        self.look = Some(Box::pin(async move {
            if waits {
                runtime.sleep(LOOK_EVERY).await;
            }
            match position {
                Some(position) => Ok(log.durable_at(position).await?.map(Found::Next)),
                // The lane knows nothing of the log, so none of it was read, and it begins at its beginning.
                None => {
                    let begin = match begin.get() {
                        Some(begin) => *begin,
                        None if is_told => match log.first_of_lane().await? {
                            Some(first) => *begin.get_or_init(|| first),
                            None => return Ok(None),
                        },
                        None => 0,
                    };
                    Ok(log.end_of(begin).await?.map(|_| Found::First(begin)))
                }
            }
        }));
    }

    /// What a poll has found, as an event if it is one.
    fn seen(&mut self, found: Result<Option<Found>, LogError>) -> Result<Option<Event>, SourceError> {
        let found = match found {
            Ok(found) => found,
            Err(LogError::Store(error)) if error.kind.is_transient() => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "the replay log cannot be read; trying again");
                }
                return Ok(None);
            }
            Err(error) => return Err(fault(error)),
        };
        self.is_failing = false;
        match (found, &mut self.cursor) {
            (Some(Found::First(begin)), _) => {
                self.is_found = true;
                Ok(Some(Event::Found(start(begin))))
            }
            (Some(Found::Next(replay)), Some(cursor)) => {
                tracing::info!(records = replay.records.len(), from = replay.first, "a replay is read");
                cursor.loaded = Some(replay);
                Ok(None)
            }
            (None, Some(cursor)) if self.open.is_empty() && !self.log.outlives => {
                cursor.has_ended = true;
                Ok(Some(Event::Ended { partition: partition(), next: cursor.next.into() }))
            }
            (None, Some(cursor)) if !cursor.is_told => {
                cursor.is_told = true;
                cursor.loaded = None;
                let next = cursor.next;
                Ok(Some(Event::CaughtUp {
                    partition: partition(),
                    next: next.into(),
                    leader_epoch: NO_LEADER_EPOCH,
                }))
            }
            (Some(Found::Next(_)) | None, _) => Ok(None),
        }
    }
}

#[async_trait]
impl Reader for ReaderWithReplays {
    async fn next(&mut self) -> Result<Event, SourceError> {
        loop {
            if std::mem::take(&mut self.is_leaving) {
                return Ok(Event::Removed { partition: partition() });
            }
            if let Some(block) = self.take() {
                return Ok(Event::Block(block));
            }
            self.look();
            let looking = async {
                match &mut self.look {
                    Some(look) => look.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                found = looking => {
                    self.look = None;
                    if let Some(event) = self.seen(found)? {
                        return Ok(event);
                    }
                }
                event = self.inner.next() => {
                    let event = event?;
                    if let Event::Ended { partition, .. } | Event::Removed { partition } = &event {
                        self.open.remove(partition);
                        if self.open.is_empty() {
                            // The log is polled once more, and at once.
                            self.look = None;
                        }
                    }
                    return Ok(event);
                }
            }
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        if from.partition != partition() {
            let added = from.partition.clone();
            self.inner.add(from).await?;
            self.open.insert(added);
            return Ok(());
        }
        if self.cursor.is_some() {
            return Err(SourceError::read_already(&from.partition));
        }
        self.cursor = Some(self.log.cursor(&from).await?);
        self.look = None;
        Ok(())
    }

    fn remove(&mut self, at: &Partition) {
        if *at != partition() {
            self.inner.remove(at);
        } else if self.cursor.take().is_some() {
            (self.look, self.is_found, self.is_leaving) = (None, true, true);
        }
    }

    fn pause(&mut self, at: &Partition) {
        match &mut self.cursor {
            Some(cursor) if *at == partition() => cursor.is_paused = true,
            _ => self.inner.pause(at),
        }
    }

    fn resume(&mut self, at: &Partition) {
        match &mut self.cursor {
            Some(cursor) if *at == partition() => cursor.is_paused = false,
            _ => self.inner.resume(at),
        }
    }
}
