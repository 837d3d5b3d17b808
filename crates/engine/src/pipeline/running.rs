//! The tasks of a lane side by side, and the watch over who owns it.
//!
//! Owns the order in which they end. Does not own what each does ([`crate::lane`], [`crate::seal`], [`crate::deliver`]).

use std::sync::Arc;
use std::time::Duration;

use dataflow::Runtime;
use futures::future::{BoxFuture, Either, select, try_join, try_join3};
use protocol::record::{Body, Settle};
use tokio::sync::{Notify, mpsc};

use crate::EngineError;
use crate::context::Context;
use crate::lane::End;
use crate::ownership::Ownership;
use crate::problem::STORE;
use crate::retry::Backoff;
use crate::tasks::on_a_task;
use crate::{deliver, seal};

/// How long inserts that are under way may take to end when the lane is opened again. What is left is in doubt, as after a crash.
const REOPEN_TIME_MAX: Duration = Duration::from_secs(10);

/// What a newer owner has retired is missing to one that slept, and what it has published is ahead of one whose source was away.
pub(super) async fn or_fenced(context: &Context, error: EngineError) -> EngineError {
    if is_fenced(&context.ownership, &*context.runtime, context.settings.retry_pause_max).await {
        return EngineError::Fenced { seq: context.journal.lock().await.lane().next_seq };
    }
    error
}

/// Whether another process owns the lane. Asks until the store answers: a process that was replaced must not tell the operator of faults that it
/// alone sees, and there is nothing else to do meanwhile. A stop ends the wait.
pub(super) async fn is_fenced(ownership: &Ownership, runtime: &dyn Runtime, pause_max: Duration) -> bool {
    let mut backoff = Backoff::new(pause_max);
    loop {
        match ownership.look().await {
            Ok(is_owner) => return !is_owner,
            Err(error) => {
                if backoff.should_log() {
                    tracing::warn!(%error, "cannot check whether this process still owns the lane; trying again");
                }
                backoff.pause(runtime).await;
            }
        }
    }
}

/// The lane, the seal and the deliveries side by side; they end in this order, and the first error ends all.
pub(super) async fn tasks(
    context: Arc<Context>,
    lane: BoxFuture<'static, Result<End, EngineError>>,
    cuts: mpsc::Receiver<seal::Encoding>,
) -> Result<End, EngineError> {
    let left = Notify::new();
    let reading = async {
        let end = on_a_task(&context.runtime, "lane", lane).await?;
        if matches!(end, End::Reopen) {
            left.notify_one();
        }
        Ok(end)
    };
    let sealing = on_a_task(&context.runtime, "seal", {
        let context = context.clone();
        async move {
            let result = seal::run(context.clone(), cuts).await;
            context.spool.close();
            context.wake_all();
            result
        }
    });
    let deliveries = (0..context.targets.len())
        .map(|place| on_a_task(&context.runtime, "deliver", deliver::run(context.clone(), place)));
    let deliveries = futures::future::try_join_all(deliveries);
    let watching = on_a_task(&context.runtime, "watch", watch_ownership(context.clone()));
    let writing = async {
        if context.may_leave {
            let late = {
                let context = context.clone();
                async move { context.objects.write_late(context.stopping.clone()).await }
            };
            on_a_task(&context.runtime, "write", late).await?;
        }
        Ok(())
    };
    let watching = std::pin::pin!(async { try_join(watching, writing).await.map(drop) });
    // The lane sees a closed channel when the seal has failed: the seal's error is the one to report, so it stands first.
    let working = std::pin::pin!(try_join3(sealing, async { deliveries.await.map(|_| ()) }, reading));
    let out_of_time = std::pin::pin!(async {
        left.notified().await;
        context.runtime.sleep(REOPEN_TIME_MAX).await;
    });
    match select(select(working, watching), out_of_time).await {
        Either::Left((Either::Left((done, _)), _)) => Ok(done?.2),
        Either::Left((Either::Right((replaced, _)), _)) => {
            Err(replaced.err().unwrap_or(EngineError::Internal("watch")))
        }
        Either::Right(((), _)) => Ok(End::Reopen),
    }
}

/// Ends, with an error, when another owner has taken the lane over. Appends and inserts find that out by themselves; this is
/// for an owner that has nothing to do, or whose table is away. While frames wait it shows in the journal that it is alive:
/// whoever starts beside it and cannot read the source would take them for left alone ([`start::quiet`]).
async fn watch_ownership(context: Arc<Context>) -> Result<(), EngineError> {
    loop {
        let seq = context.ownership.next_seq();
        context.runtime.sleep(context.settings.owner_check_every).await;
        if context.ownership.next_seq() != seq {
            // It has appended meanwhile, which shows it too.
            continue;
        }
        match context.ownership.look().await {
            Ok(true) => show_life(&context, seq).await?,
            Ok(false) => {
                context.ownership.fence();
                return Err(EngineError::Fenced { seq });
            }
            Err(error) => tracing::debug!(%error, "cannot check whether this process still owns the lane"),
        }
    }
}

/// Appends a record that says nothing, if frames wait and nothing was appended since `seq`. One every [`Settings::owner_check_every`] is little
/// beside what a working lane appends, and the next checkpoint retires them.
async fn show_life(context: &Context, seq: u64) -> Result<(), EngineError> {
    // A store that takes nothing is waited for with the journal held, which what is settled meanwhile needs. Nobody else can
    // claim the lane there either.
    if context.status.snapshot().problems.contains_key(STORE) {
        return Ok(());
    }
    let mut journal = context.journal.lock().await;
    if journal.lane().next_seq == seq && journal.lane().spool_frames() > 0 {
        journal.append(Body::Settle(Settle::default())).await?;
    }
    Ok(())
}
