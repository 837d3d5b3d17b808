//! A refused row's way back: it becomes a dead letter, and the steps forget its key in the same seal (C10).
//!
//! Owns which keys are forgotten, when a key must stay known, and what the dead letter says of that. Does not own the reading of the row's record
//! (`crate::refused`, `crate::reread`), nor the way of other rows (`lane::absorb`).

use dataflow::{Batch, Duplicates, Selected};
use metrics::counter;

use super::LaneTask;
use super::absorb::{dense, forget};
use crate::EngineError;
use crate::refused::Refused;
use crate::tables::route;

/// What the dead letter of a refused row says whose dedup key is not known any more.
const KEY_KEPT: &str = "; its `dedup` key could not be forgotten, because its record cannot be re-read and steps have computed the row from it: later \
                        records of the same key are dropped as its duplicates until the window has passed";
/// What the dead letter of a refused row says that a step made of several records, and that another step took for seen.
const RESULT_KEPT: &str = "; its `dedup` key stays known, because no record can be re-read for it: later results of the same key are dropped as its \
                           duplicates until the window has passed";
/// What the dead letter of a refused row says that a step has made of a record that another step before it took for seen.
const RECORD_KEPT: &str = "; the `dedup` key of its record stays known: later records of the same key are dropped as its duplicates until the window has passed";
/// What the dead letter of a refused row says whose record may have other rows.
const SHARED: &str = "; other rows of this record may already be written, so its key stays known: a replay would be dropped as a duplicate";

impl LaneTask {
    /// Takes refused rows, and all others that wait here: one cut serves them.
    pub(super) async fn refuse_all(&mut self, refused: Vec<Refused>) -> Result<(), EngineError> {
        for row in refused {
            self.refuse(row).await?;
        }
        while let Ok(others) = self.refused.try_recv() {
            for row in others {
                self.refuse(row).await?;
            }
        }
        Ok(())
    }

    /// A refused row becomes a dead letter, and its keys are forgotten in the same seal (C10); not if a table may have another row
    /// of the same record, for a later record of the key would be there twice.
    async fn refuse(&mut self, refused: Refused) -> Result<(), EngineError> {
        let mut duplicates = Duplicates::default();
        // No key was taken for seen by a row that a state released: its records are in the state's other rows too.
        let stateful =
            refused.step().is_none() && self.steps.iter_mut().any(|step| step.seen_keys().is_some());
        let aside_at = self.aside_at(&refused);
        let again = if stateful { self.again(&refused, aside_at.is_some())? } else { None };
        let is_shared = stateful && self.is_shared(&refused, again.as_ref(), aside_at.is_some())?;
        let is_forgotten = again.is_some() || !stateful;
        // A row of a side output came no further, and no step behind knows its key.
        let is_kept_behind =
            aside_at.is_none() && refused.step().is_some_and(|step| self.has_keys_behind(step));
        let place = again.as_ref().and_then(|batch| match refused.record() {
            Some(record) => self.owner_of(record),
            None => self.feeds.iter().position(|feed| feed.inlet.number == batch.partition.input),
        });
        let is_kept_before = refused.step().is_some_and(|step| self.has_keys_before(step));
        let end = aside_at.unwrap_or(self.steps.len());
        let path = self.path(place, end);
        if let Some(mut batch) = again.filter(|_| !is_shared) {
            for port in path {
                let step = &mut self.steps[port.step];
                if let Some(keys) = step.seen_keys() {
                    refused.place(&mut batch);
                    let found = keys.duplicates_of(&batch)?;
                    duplicates.count += found.count;
                    duplicates.places.extend(found.places);
                    forget(self.works.files(), step, &batch).await?;
                } else {
                    let probed = step.probe_of(port.input, batch)?;
                    batch = dense(step.finish(probed, &[])?)?.batch;
                }
            }
            if batch.is_empty() {
                return Err(EngineError::Internal("a step that drops a row it let pass before"));
            }
        }
        counter!("forebay_refused_duplicates_total").increment(duplicates.count);
        // One that was read again for one row holds that one alone.
        let is_of_several = refused.item().is_none()
            && refused.record().is_some_and(|record| record.item.is_none() && self.holds_several(record));
        let (refusal, mut reject) = refused.into_reject(&duplicates, is_of_several);
        if is_shared {
            reject.message += SHARED;
        } else if !is_forgotten {
            let partition = &reject.partition;
            tracing::warn!(%partition, position = reject.position, "the key of a refused row cannot be forgotten");
            reject.message += KEY_KEPT;
        } else if is_kept_behind {
            reject.message += RESULT_KEPT;
        } else if is_kept_before {
            reject.message += RECORD_KEPT;
        }
        self.builder.refused(refusal, reject, self.context.runtime.elapsed());
        Ok(())
    }

    /// The step whose side output a refused row is of, if its table takes such rows.
    fn aside_at(&self, refused: &Refused) -> Option<usize> {
        let index = |place: usize| self.context.targets[place].index;
        let side = self.sides.iter().find(|side| index(side.table) == refused.refusal.table);
        side.map(|side| side.step)
    }

    /// The place of the so manyth step with state.
    fn place_of(&mut self, step: u32) -> Option<usize> {
        (0..self.steps.len()).filter(|at| self.steps[*at].state().is_some()).nth(step as usize)
    }

    /// Whether a step before the so manyth with state takes keys for seen, and that one makes rows of single records.
    fn has_keys_before(&mut self, step: u32) -> bool {
        let Some(at) = self.place_of(step) else { return false };
        let makes_of_single = self.steps[at].state().is_some_and(|state| !state.absorbs());
        makes_of_single && self.steps[..at].iter_mut().any(|step| step.seen_keys().is_some())
    }

    /// Whether a step behind the so manyth with state takes keys for seen.
    fn has_keys_behind(&mut self, step: u32) -> bool {
        let Some(mut at) = self.place_of(step) else { return false };
        loop {
            at = self.flow.next(at).step;
            let Some(step) = self.steps.get_mut(at) else { return false };
            if step.seen_keys().is_some() {
                return true;
            }
        }
    }

    /// A refused row as the first step of the lane saw it: its record, read again, goes through the same work as the first time. Where the
    /// record cannot be had the row itself serves, unless steps have made it from other columns.
    fn again(&self, refused: &Refused, is_late: bool) -> Result<Option<Batch>, EngineError> {
        if let Some(record) = refused.record() {
            let batch = match self.intake_of(record.partition.input) {
                Some(intake) => intake.prepare(record, self.context.runtime.wall_ms())?.batch,
                None => return Ok(None),
            };
            // Otherwise the pipeline's steps are others than those that let the record pass.
            if batch.len() == 1 {
                return Ok(Some(batch));
            }
        }
        if is_late {
            return Ok(None);
        }
        let row = refused.batch();
        match self.intake_of(row.partition.input) {
            Some(intake) => Ok(intake.rows_again(row)?),
            None => Ok(None),
        }
    }

    /// Whether a table may have another row of a record; the record as the first step of the lane saw it, if it is known.
    fn is_shared(
        &self,
        refused: &Refused,
        again: Option<&Batch>,
        is_late: bool,
    ) -> Result<bool, EngineError> {
        // A row of an item has a key of its own, and is made again without the rows beside it.
        let is_of_item = refused.item().is_some();
        let multiplies = self.steps.iter().any(|step| step.multiplies())
            || (!is_of_item && self.feeds.iter().any(|feed| feed.intake.multiplies()));
        let tables = self.tables();
        match again {
            _ if multiplies => Ok(true),
            // It goes to the table for late rows alone.
            _ if is_late => Ok(false),
            None => Ok(tables > 1),
            Some(batch) => {
                let rows = Selected::all(batch.rows.clone());
                Ok(route(self.router.as_deref(), tables, rows)?.tables.len() > 1)
            }
        }
    }
}
