//! What is sealed goes to the tables, though the state of a step is damaged and the lane cannot go on.
//!
//! Owns the wait until all of it is settled. Sealed inserts need no state, and while any waits no step may begin empty ([`crate::change`]): a damage that kept
//! them from their tables would leave no way out but a backup. Does not own the deliveries ([`crate::deliver`]), nor how the run ends ([`crate::pipeline`]).

use dataflow::Effect;

use super::{End, LaneTask, is_settled};
use crate::EngineError;
use crate::problem::{Noticed, State};
use crate::status::Phase;

impl LaneTask {
    /// Reads and cuts nothing more, and waits until what is sealed is settled; the run then ends with `error`. It ends before that if a table refuses a row: the seal
    /// of its dead letter makes the steps forget the row's key.
    ///
    /// # Errors
    /// `error`, if nothing waits, if something does that cannot arrive without the state, or if another process owns the lane.
    pub async fn deliver(mut self, error: EngineError) -> Result<End, EngineError> {
        // What a newer owner has retired is missing to one that slept, and no damage.
        let is_replaced = matches!(self.context.ownership.look().await, Ok(false));
        if is_replaced || is_settled(&self.context, self.cut_number).await {
            return Err(error);
        }
        tracing::error!(%error, "the state of a step is damaged; what is sealed goes to the tables, then the pipeline ends");
        let (words, now_ms) = (error.to_string(), self.context.runtime.wall_ms());
        self.context.status.met("state", State::StateDamaged, &words, Effect::None, Noticed::Asking, now_ms);
        self.context.status.update(|s| s.phase = Phase::Draining);
        // What was read and not cut is read again by the next start.
        self.feeds.clear();
        self.waiting.clear();
        loop {
            let are_sealed = self.context.objects.cuts_sealed() >= self.cut_number;
            if are_sealed && self.context.spool.has_refusals() {
                tracing::error!(
                    "a table refuses a row of a sealed insert, and its dead letter cannot be sealed without the damaged state; change the table so that it takes \
                     the row, and start again"
                );
                return Err(error);
            }
            // A table that waits for the operator settles nothing more, and something of it waits.
            if self.context.targets.iter().any(|target| target.has_ended()) {
                return Err(error);
            }
            if is_settled(&self.context, self.cut_number).await {
                return Ok(End::Refused(error));
            }
            tokio::select! {
                biased;
                // Counted among the refusals of the spool.
                Some(_) = self.refused.recv() => {}
                () = self.context.spool.quiet.notified() => {}
                // The seal reports its own failure; here it is enough not to wait for it.
                () = self.cuts.closed() => return Ok(End::Refused(error)),
            }
        }
    }
}
