//! What an owner does beside the appends: a segment, and beside that retention or a sweep.
//!
//! Owns when each is begun, and which edits follow from it. Does not own what is deleted (`collect`), nor when a segment is due (`decide::seal`).
//!
//! Without segments the tail fills up, and then no append is answered. A sweep of a large log takes minutes, so no segment waits for it:
//!
//! | beside a segment | allowed                                 | why                                                                              |
//! |------------------|-----------------------------------------|----------------------------------------------------------------------------------|
//! | a sweep          | always                                  | it deletes nothing that the present claim has written, whether the root names it yet or not, and a segment takes nothing of earlier claims out of the log |
//! | retention        | if the segment begins at the pass's low or above | the pass deletes, and takes out of the root, only what ends at that low or below: the two edits touch different spans, and either may come first |
//! | another segment  | never                                   | both would hold the same entries                                                 |
//!
//! A segment below the low of a pass would lose nothing either: its edit comes too late, or its reference leaves the root with the entries that were deleted. But its
//! object would stay until the next claim. Retention and a sweep exclude each other, since a sweep reads the segments that retention deletes, and both
//! begin only while no segment is being written.

use futures::future::BoxFuture;
use store::ErrorKind;

use super::run::Run;
use crate::collect::Collected;
use crate::error::LogError;
use crate::names::Written;
use crate::partition::Edit;
use crate::root::TAIL_MAX;
use crate::segment::Reference;
use crate::{collect, decide};

const NOTHING_DELETED: &str = "nothing was deleted from the log this time";

impl Run {
    /// What the last thing aside has found must be in the root before the next one looks at it.
    pub(super) fn is_free_for_aside(&self) -> bool {
        self.edits.is_empty() && self.seen.is_some()
    }

    /// Writes the segment that is due, if it may be written now; none is being written.
    pub(super) fn begin_seal(&mut self) -> Option<BoxFuture<'static, Result<Reference, LogError>>> {
        if !self.is_free_for_aside() {
            return None;
        }
        let (segment, queue) = {
            let root = self.root();
            (decide::seal(&root)?, root.queue_id())
        };
        if segment.spans().next().is_some_and(|oldest| oldest.first < self.collects_below) {
            return None;
        }
        let written = Written { epoch: self.claim.epoch, run: self.claim.run, number: self.next_segment };
        self.next_segment += 1;
        let partition = self.partition.clone();
        Some(Box::pin(async move { partition.put_segment(queue, written, &segment).await }))
    }

    pub(super) fn sealed(&mut self, reference: Reference) {
        self.edits.push(Edit::Seal(reference));
    }

    /// What is done beside appends and segments, one thing at a time: retention, a sweep, a look. No segment is being written.
    pub(super) fn begin_aside(&mut self) -> Option<BoxFuture<'static, Result<Collected, LogError>>> {
        if !self.is_free_for_aside() {
            return None;
        }
        let root = self.root().clone();
        let partition = self.partition.clone();
        if root.tail.len() >= TAIL_MAX && decide::seal(&root).is_none() {
            let message = format!(
                "`{}` has as many objects as its manifest can name; let retention drop more",
                partition.place()
            );
            return Some(Box::pin(async move { Err(LogError::Refused(message)) }));
        }
        let now = self.runtime.elapsed();
        if self.is_closed {
            return None;
        }
        if now >= self.sweep_at {
            self.sweep_at = now + self.settings.sweep_every;
            let claim = self.claim;
            return Some(Box::pin(async move {
                unless_lost(collect::sweep(&partition, claim).await, NOTHING_DELETED)
            }));
        }
        if now >= self.collect_at {
            self.collect_at = now + self.settings.collect_every;
            self.collects_below = root.low;
            let (retention, pinned) = (self.settings.retention, self.pinned.position());
            return Some(Box::pin(async move {
                unless_lost(collect::collect(&partition, &root, &retention, pinned).await, NOTHING_DELETED)
            }));
        }
        if now >= self.look_at {
            self.look_at = now + self.settings.look_every;
            let (claim, queue) = (self.claim, root.queue_id());
            return Some(Box::pin(async move {
                let looked = partition.check_owner(queue, claim).await.map(|()| Collected::default());
                unless_lost(looked, "it cannot be read whether this process still owns the log")
            }));
        }
        None
    }

    pub(super) fn aside_done(&mut self, collected: Collected) {
        let Collected { low, consumers, cleaned, is_more, .. } = collected;
        self.collects_below = 0;
        self.edits.extend(low.map(|low| Edit::Retain(low, consumers)));
        self.edits.extend(cleaned.map(|(to, bytes)| Edit::Cleaned(to, bytes)));
        if is_more || low.is_some() {
            self.collect_at = self.runtime.elapsed();
        }
    }
}

/// What retention cannot do now it may do later, and appends continue meanwhile. Only an owner that was fenced ends. `failed` says what
/// was not done.
fn unless_lost(collected: Result<Collected, LogError>, failed: &'static str) -> Result<Collected, LogError> {
    match collected {
        Err(error @ (LogError::Fenced { .. } | LogError::Recreated { .. })) => Err(error),
        // A command that is done ends in the middle of a sweep: the next owner begins with one.
        Err(LogError::Store(error)) if error.kind == ErrorKind::Stopped => {
            tracing::debug!(%error, "the process ended before something was deleted from the log");
            Ok(Collected::default())
        }
        Err(error) => {
            tracing::error!(%error, "{failed}");
            Ok(Collected::default())
        }
        Ok(collected) => Ok(collected),
    }
}
