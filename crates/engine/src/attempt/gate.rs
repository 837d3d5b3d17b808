//! May the last bytes of an insert leave?
//!
//! Owns the second judgement of a resend. Sending a body takes up to the insert's timeout, and meanwhile others use up tokens, the server
//! restarts, the token grows old or another table takes the name. So before the held-back bytes of a resend leave, the facts are read
//! again, the table's rules ([`dataflow::Tokens`]) say whether the decision still holds, and if not the request is never completed. Does not own
//! the rule, nor what follows: the doubt begins again ([`super::doubt`]).
//!
//! | attempt                       | asked before its last bytes                             |
//! |-------------------------------|---------------------------------------------------------|
//! | the first under its token     | is this process the owner?                              |
//! | one that resends or confirms  | the facts, then the owner, all within [`JUDGED_MAX`]     |
//!
//! A first attempt needs no facts: no copy of it was ever sent, so nothing of it can have been remembered and forgotten. Facts cost a dozen small
//! questions; only resends ask them, which an outage has anyway made rare.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::{Basis, Gate, Sighting};

use crate::context::Context;

/// A judgement counts for this long: a process that was stopped between the facts and the last bytes asks again. As long as the table
/// is left alone while all goes well, which a resend reckons with anyway.
const JUDGED_MAX: Duration = Duration::from_secs(5);

/// Judgements of one attempt at the most: a server that takes longer than [`JUDGED_MAX`] to say what it is, over and over, is in no state to be
/// sent anything.
const JUDGEMENTS_MAX: u32 = 3;

/// What a decision to send a frame again rests on.
#[derive(Clone, Debug)]
pub struct Decided {
    /// Why it may be sent again.
    pub basis: Basis,
    /// The sighting of the server since which that must hold.
    pub since: Sighting,
    /// The sighting before the first attempt, if the targets of views must remember the token since then.
    pub first: Option<Sighting>,
}

/// The gate of one attempt.
pub struct ResendGate<'a> {
    context: &'a Context,
    place: usize,
    decided: Option<&'a Decided>,
    lapsed: AtomicBool,
}

impl<'a> ResendGate<'a> {
    /// The gate of an attempt at a frame of the table `place`; `decided` is `None` for the first under its token.
    pub fn new(context: &'a Context, place: usize, decided: Option<&'a Decided>) -> Self {
        Self { context, place, decided, lapsed: AtomicBool::new(false) }
    }

    /// True if the last bytes were held back because the decision does not hold any more, or cannot be judged.
    pub fn has_lapsed(&self) -> bool {
        self.lapsed.load(Ordering::Acquire)
    }

    /// Whether the decision holds by facts read now.
    async fn holds(&self, decided: &Decided) -> bool {
        let target = &self.context.targets[self.place];
        let table = target.table.name();
        match target.table.see().await {
            Ok(now) => {
                let tokens = target.table.tokens();
                let in_views =
                    |first: &Sighting| now.feeds_views && tokens.may_be_in_views_alone(first, &now);
                let in_views = decided.first.as_ref().is_some_and(in_views).then_some("views_unknown");
                let lapse = tokens.lapse(decided.basis, &decided.since, &now).or(in_views);
                self.context.see(self.place, now);
                if let Some(reason) = lapse {
                    tracing::info!(
                        table,
                        reason,
                        "a resend was cancelled before its last bytes, because the facts that it was decided by have changed; nothing of it \
                         was written, and it will be decided again"
                    );
                }
                lapse.is_none()
            }
            Err(error) => {
                tracing::info!(table, %error, "a resend was cancelled before its last bytes, because the table does not answer; nothing of it was written");
                false
            }
        }
    }
}

#[async_trait]
impl Gate for ResendGate<'_> {
    async fn may_complete(&self) -> bool {
        let Some(decided) = self.decided else { return self.context.ownership.may_complete().await };
        for _ in 0..JUDGEMENTS_MAX {
            let begun = self.context.runtime.elapsed();
            if !self.holds(decided).await {
                break;
            }
            if !self.context.ownership.may_complete().await {
                return false;
            }
            if self.context.runtime.elapsed().saturating_sub(begun) <= JUDGED_MAX {
                return true;
            }
        }
        self.lapsed.store(true, Ordering::Release);
        false
    }
}
