//! The inputs that a lane reads side by side.
//!
//! Owns the turn: the inputs are asked one after the other, beginning behind the one that came last, so that none of them starves the
//! others; the pause of an input whose source is away, during which the others are read; and partitions that were found and cannot be read yet. Does not own
//! what is done with what comes ([`super::LaneTask`]).

use std::sync::Arc;

use dataflow::{Event, Intake, Partition, PartitionStart, Reader, Runtime, SourceError};
use futures::future::{BoxFuture, select_all};

use super::Opening;
use crate::inputs::Inlet;
use crate::retry::Backoff;
use crate::start::open::{Opened, Refusal};
use crate::tasks::until;

/// An input as the lane reads it.
pub(super) struct Feed {
    /// What all tasks know of it.
    pub inlet: Arc<Inlet>,
    /// What is done with its blocks before the lane.
    pub intake: Arc<Intake>,
    /// The running read; `None` before its source is open, and once it refuses.
    pub reader: Option<Box<dyn Reader>>,
    /// True if its source was away and has not been heard of since.
    pub is_away: bool,
    /// True if nothing more is read of it by this process.
    pub is_refused: bool,
    /// Its source on the way; `None` once it is read.
    opening: Option<Opening>,
    backoff: Backoff,
    /// Runs while its source is left alone.
    pause: Option<BoxFuture<'static, ()>>,
    /// Partitions that were found and cannot be read yet: they are told of only once.
    unread: Vec<PartitionStart>,
    unread_backoff: Backoff,
    /// Runs until they are tried again.
    unread_pause: Option<BoxFuture<'static, ()>>,
}

/// What has come, with the place of its input.
pub(super) enum Came {
    /// The source is open, or refuses.
    Opened(usize, Result<Opened, Refusal>),
    /// An event, or why there is none.
    Event(usize, Result<Event, SourceError>),
    /// Partitions that were found before and could not be read are to be tried again.
    Found(usize, Vec<PartitionStart>),
}

impl Feed {
    /// An input whose source is on its way.
    pub fn new(inlet: Arc<Inlet>, intake: Intake, opening: Opening, backoff: Backoff) -> Self {
        Self {
            inlet,
            intake: Arc::new(intake),
            reader: None,
            is_away: false,
            is_refused: false,
            opening: Some(opening),
            unread: Vec::new(),
            unread_backoff: backoff.clone(),
            unread_pause: None,
            backoff,
            pause: None,
        }
    }

    /// Whether its source is still on its way.
    pub fn is_opening(&self) -> bool {
        self.opening.is_some()
    }

    /// Nothing more is read of it.
    pub fn refuse(&mut self) {
        (self.is_refused, self.opening, self.reader, self.pause) = (true, None, None, None);
        (self.unread, self.unread_pause) = (Vec::new(), None);
    }

    /// Whether a partition that was found cannot be read yet.
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// A partition that was found cannot be read yet, and comes again after a while; says whether that should be logged.
    pub fn keep(&mut self, start: PartitionStart, runtime: &dyn Runtime) -> bool {
        let should_log = self.unread_backoff.should_log();
        self.unread.push(start);
        self.unread_pause = Some(runtime.sleep(self.unread_backoff.next_pause(runtime)));
        should_log
    }

    /// A partition that was found is read: the next pause of one that is not is a short one again.
    pub fn has_added(&mut self) {
        self.unread_backoff.reset();
    }

    /// Its source is left alone for a while; says whether that should be logged.
    pub fn pause(&mut self, runtime: &dyn Runtime) -> bool {
        let should_log = self.backoff.should_log();
        self.is_away = true;
        self.pause = Some(runtime.sleep(self.backoff.next_pause(runtime)));
        should_log
    }

    /// Its source has said something: the next pause is a short one again. Says whether it was away.
    pub fn has_spoken(&mut self) -> bool {
        self.backoff.reset();
        std::mem::take(&mut self.is_away)
    }

    async fn next(&mut self, place: usize, may_read: bool) -> Came {
        if let Some(opening) = &mut self.opening {
            let opened = opening.await;
            self.opening = None;
            return Came::Opened(place, opened);
        }
        if let Some(pause) = &mut self.pause {
            pause.await;
            self.pause = None;
        }
        match &mut self.reader {
            Some(reader) if may_read && self.unread.is_empty() => Came::Event(place, reader.next().await),
            Some(reader) if may_read => {
                tokio::select! {
                    biased;
                    () = until(&mut self.unread_pause) => {}
                    event = reader.next() => return Came::Event(place, event),
                }
                self.unread_pause = None;
                Came::Found(place, std::mem::take(&mut self.unread))
            }
            _ => std::future::pending().await,
        }
    }
}

/// What comes next, from whichever input; the one at place `turn` is asked first. A source may come to be open at any time; events are
/// taken only if `may_read`.
pub(super) async fn next(feeds: &mut [Feed], turn: usize, may_read: bool) -> Came {
    // Most pipelines have one input, and need no list of futures for each block.
    if let [only] = feeds {
        return only.next(0, may_read).await;
    }
    let turn = turn % feeds.len().max(1);
    let (later, first) = feeds.split_at_mut(turn);
    let first = first.iter_mut().zip(turn..);
    let all = first.chain(later.iter_mut().zip(0..));
    select_all(all.map(|(feed, place)| Box::pin(feed.next(place, may_read)))).await.0
}

/// The input that a partition belongs to.
pub(super) fn feed_of<'a>(feeds: &'a mut [Feed], partition: &Partition) -> Option<&'a mut Feed> {
    feeds.iter_mut().find(|feed| feed.inlet.number == partition.input)
}
