//! What an owner does beside the appends, one thing at a time: a segment, retention, a sweep.
//!
//! Owns when each is begun, and which edits follow from it. Does not own what is deleted (`collect`), nor when a segment is due (`decide::seal`).

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

pub(super) enum Aside {
    Sealed(Reference),
    Collected(Collected),
}

impl Run {
    /// What the last thing aside has found must be in the root before the next one looks at it.
    pub(super) fn is_free_for_aside(&self) -> bool {
        self.edits.is_empty() && self.seen.is_some()
    }

    /// What is done beside the appends, one thing at a time: a segment, retention, a sweep.
    pub(super) fn begin_aside(&mut self) -> Option<BoxFuture<'static, Result<Aside, LogError>>> {
        if !self.is_free_for_aside() {
            return None;
        }
        let root = self.root().clone();
        let partition = self.partition.clone();
        if let Some(segment) = decide::seal(&root) {
            let written = Written { epoch: self.claim.epoch, run: self.claim.run, number: self.next_segment };
            self.next_segment += 1;
            return Some(Box::pin(async move {
                let reference = partition.put_segment(root.queue_id(), written, &segment).await?;
                Ok(Aside::Sealed(reference))
            }));
        }
        if root.tail.len() >= TAIL_MAX {
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
            return Some(Box::pin(async move { unless_lost(collect::sweep(&partition, claim).await) }));
        }
        if now >= self.collect_at {
            self.collect_at = now + self.settings.collect_every;
            let (retention, pinned) = (self.settings.retention, self.pinned.position());
            return Some(Box::pin(async move {
                unless_lost(collect::collect(&partition, &root, &retention, pinned).await)
            }));
        }
        None
    }

    pub(super) fn aside_done(&mut self, aside: Aside) {
        match aside {
            Aside::Sealed(reference) => self.edits.push(Edit::Seal(reference)),
            Aside::Collected(Collected { low, consumers, cleaned, is_more, .. }) => {
                self.edits.extend(low.map(|low| Edit::Retain(low, consumers)));
                self.edits.extend(cleaned.map(|(to, bytes)| Edit::Cleaned(to, bytes)));
                if is_more || low.is_some() {
                    self.collect_at = self.runtime.elapsed();
                }
            }
        }
    }
}

/// What retention cannot do now it may do later, and appends continue meanwhile. Only an owner that was fenced ends.
fn unless_lost(collected: Result<Collected, LogError>) -> Result<Aside, LogError> {
    match collected {
        Err(error @ (LogError::Fenced { .. } | LogError::Recreated { .. })) => Err(error),
        // A command that is done ends in the middle of a sweep: the next owner begins with one.
        Err(LogError::Store(error)) if error.kind == ErrorKind::Stopped => {
            tracing::debug!(%error, "the process ended before something was deleted from the log");
            Ok(Aside::Collected(Collected::default()))
        }
        Err(error) => {
            tracing::error!(%error, "nothing was deleted from the log this time");
            Ok(Aside::Collected(Collected::default()))
        }
        Ok(collected) => Ok(Aside::Collected(collected)),
    }
}
