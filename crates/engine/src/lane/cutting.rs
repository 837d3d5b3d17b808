//! When a cut is made, and what it takes with it.
//!
//! Owns the bounds of a batch, the steps' watermarks and their deltas. Does not own what happens to a cut ([`crate::seal`]).

use std::time::Duration;

use super::LaneTask;
use crate::cut::Cut;
use crate::{EngineError, seal};

/// A cut is made at this many bytes whatever the settings say: Arrow's texts and bytes end at 2 GiB, and a block more may follow.
const CUT_BYTES_MAX: u64 = 1 << 30;

impl LaneTask {
    pub(super) fn batch_age_max(&self) -> Duration {
        let settings = &self.context.settings;
        match self.cut_number {
            0 => settings.batch_age_max.min(settings.first_batch_age_max),
            _ => settings.batch_age_max,
        }
    }

    pub(super) fn is_full(&mut self) -> bool {
        let (mut unsealed, mut held_back) = (0, 0);
        for state in self.steps.iter_mut().filter_map(|step| step.state()) {
            unsealed += state.unsealed_bytes();
            // What the next cut lets out at once.
            held_back += if state.absorbs() { 0 } else { state.held() };
        }
        let settings = &self.context.settings;
        self.builder.rows_max() + held_back >= settings.batch_rows_max
            || self.builder.bytes() + unsealed >= settings.batch_bytes_max.min(CUT_BYTES_MAX)
    }

    /// Whether a cut without a new record would let something out: a partition has fallen silent, and no longer holds the watermark.
    pub(super) fn is_due(&self) -> bool {
        let own_ms = self.step_watermarks(self.watermarks.next(self.context.runtime.elapsed()));
        self.steps.iter().zip(own_ms).any(|(step, own_ms)| step.is_due(own_ms))
    }

    /// The watermark of each step, where that of all partitions is `watermark_ms`.
    pub(super) fn step_watermarks(&self, watermark_ms: i64) -> Vec<i64> {
        let behind = |step: usize, own_ms| self.steps[step].watermark_behind(own_ms);
        self.flow.watermarks(watermark_ms, self.steps.len(), behind)
    }

    /// Whether the cut under way is to let out what steps hold that nothing else would.
    fn has_to_close(&mut self) -> bool {
        self.is_closing && self.steps.iter_mut().any(|step| step.closes_at_end() && step.waiting() > 0)
    }

    /// Whether results of a step are on their way out of files.
    pub(super) fn is_releasing(&self) -> bool {
        self.steps.iter().any(|step| step.is_releasing())
    }

    /// Cuts until all results that are on their way out of files, all that they let out of steps behind, and all that `finish` has to close, are out.
    pub(super) async fn release_all(&mut self) -> Result<(), EngineError> {
        let mut was_idle = false;
        while self.is_releasing() || self.is_due() || self.has_to_close() {
            // More results than the spool takes wait in their files.
            if self.context.spool.is_full() {
                tokio::select! {
                    biased;
                    Some(refused) = self.refused.recv() => {
                        self.refuse_all(refused).await?;
                        self.cut().await?;
                    }
                    () = self.context.spool.quiet.notified() => {}
                    // The seal reports its own failure; here it is enough not to wait for it.
                    () = self.cuts.closed() => return Ok(()),
                }
                continue;
            }
            // Without work under way one more cut closes a step behind one that was emptied by the cut before, or starts work; after that nothing more would come.
            let is_idle = !self.is_due() && !self.works.next(&mut self.steps).await?;
            if is_idle && was_idle {
                break;
            }
            was_idle = is_idle;
            self.cut().await?;
        }
        Ok(())
    }

    /// Cuts what was gathered and hands it to the seal; waits while the seal is behind.
    pub(super) async fn cut(&mut self) -> Result<(), EngineError> {
        let wall_ms = self.context.runtime.wall_ms();
        self.steps.iter_mut().for_each(|step| step.at(wall_ms));
        if self.builder.is_empty() && !self.is_due() && !self.has_to_close() {
            // What a start has found in memory may have to go to files, and results in files go on their way, though nothing is read.
            return self.works.start(&mut self.steps).await;
        }
        let now = self.context.runtime.elapsed();
        let watermark_ms = self.watermarks.advance(now);
        self.works.adopt(&mut self.steps)?;
        self.release(watermark_ms).await?;
        let mut cut: Cut = self.builder.take(self.cut_number);
        self.cut_number += 1;
        cut.watermark_ms = watermark_ms;
        cut.judged_by_ms = std::mem::replace(&mut self.judged_by_ms, cut.watermark_ms);
        cut.idle = self.watermarks.idle(now);
        cut.next_version = self.versions.recorded();
        let with_snapshots = {
            let journal = self.context.journal.lock().await;
            self.context.checkpoints.is_due(journal.lane())
        };
        let mut index = 0;
        let watermarks = self.step_watermarks(cut.watermark_ms);
        for (step, own_ms) in self.steps.iter_mut().zip(watermarks) {
            let Some(state) = step.state() else { continue };
            let delta = state.seal(own_ms);
            if !delta.is_empty() {
                cut.states.push((index, delta));
            }
            cut.absorbed.held += state.held();
            index += 1;
        }
        if with_snapshots {
            cut.snapshots = Some(self.works.snapshots(&mut self.steps));
        }
        for range in &cut.ranges {
            self.readings[range.partition as usize].cut = range.next();
        }
        self.tell();
        let encoding = seal::encode(&self.context, &self.pipeline, cut);
        let begun = self.context.runtime.elapsed();
        if self.cuts.send(encoding).await.is_err() {
            // The receiver is gone only if the seal has failed. Its error is the one that counts, and ends this task.
            std::future::pending::<()>().await;
        }
        self.pressure.waited(self.context.runtime.elapsed().saturating_sub(begun));
        self.works.start(&mut self.steps).await
    }
}
