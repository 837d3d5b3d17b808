//! Sends sealed frames and settles them: one task a table.
//!
//! Owns the send window as seen from outside (what is in flight, what comes next) and the recording of the frontier. Does
//! not own the fate of one frame ([`crate::attempt`]) or the rules (`protocol::window`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use dataflow::TableFacts;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use metrics::{counter, gauge, histogram};
use protocol::Lane;
use protocol::lane::Piece;
use protocol::record::{Body, Frame, Settle};
use protocol::window::{self, Settled};

use crate::EngineError;
use crate::attempt::{self, Task};
use crate::context::Context;

type Attempts = FuturesUnordered<BoxFuture<'static, (u64, u64, Result<(), EngineError>)>>;

/// What the journal says about a table, at one moment.
struct View {
    recorded: u64,
    next_ordinal: u64,
    limit: u64,
    fresh: Vec<(u64, Vec<Piece>)>,
}

/// Delivers the frames of one table until the lane closes and all is settled.
///
/// # Errors
/// When a frame needs a person, another owner took over, or the store refuses.
pub async fn run(context: Arc<Context>, place: usize) -> Result<(), EngineError> {
    let target = &context.targets[place];
    let (start, doubtful_below) = {
        let journal = context.journal.lock().await;
        let table = &journal.lane().tables[target.index as usize];
        (table.frontier, table.frontier.saturating_add(table.window).min(table.next_ordinal))
    };
    let mut settled = Settled::at(start);
    let mut in_flight: BTreeSet<u64> = BTreeSet::new();
    let mut attempts: Attempts = FuturesUnordered::new();
    let mut facts = facts_later(&context, place);
    loop {
        let view = look(&context, place, &settled, &in_flight).await;
        if window_is_due(&context, &view, &settled) {
            record(&context, place, settled.frontier()).await?;
            continue;
        }
        for (ordinal, pieces) in view.fresh {
            in_flight.insert(ordinal);
            let doubtful = ordinal < doubtful_below;
            let task = Task { place, ordinal, pieces, doubtful };
            let context = context.clone();
            attempts.push(Box::pin(async move {
                let rows = task.rows();
                let result = attempt::settle(&context, task).await;
                (ordinal, rows, result)
            }));
        }
        let all_settled = settled.frontier() == view.next_ordinal;
        if context.is_closing() && all_settled && view.recorded == view.next_ordinal {
            return Ok(());
        }
        let unrecorded = settled.frontier() > view.recorded;
        let settle_at = async {
            match unrecorded {
                true => context.runtime.sleep(context.settings.settle_age_max).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some((ordinal, rows, result)) = attempts.next(), if !attempts.is_empty() => {
                result?;
                in_flight.remove(&ordinal);
                settled.settle(ordinal);
                target.forget(ordinal);
                target.frontier.store(settled.frontier(), Ordering::Release);
                context.quiet.notify_one();
                tell(&context, place, ordinal, rows, settled.frontier());
            }
            () = target.wake.notified() => {}
            () = settle_at => record(&context, place, settled.frontier()).await?,
            seen = &mut facts => {
                if let Some(seen) = seen {
                    target.see(seen);
                }
                facts = facts_later(&context, place);
            }
        }
    }
}

/// Sees the server again after a while, although all goes well: the token of a frame whose answer is lost certainly stands
/// only if the server was seen shortly before. `None` if it does not answer; the attempts find out what that means.
fn facts_later(context: &Arc<Context>, place: usize) -> BoxFuture<'static, Option<TableFacts>> {
    let (context, table) = (context.clone(), context.targets[place].table.clone());
    Box::pin(async move {
        context.runtime.sleep(context.settings.facts_every).await;
        let facts = table.facts().await;
        facts.inspect_err(|error| tracing::debug!(%error, "the table does not answer")).ok()
    })
}

async fn look(context: &Context, place: usize, settled: &Settled, in_flight: &BTreeSet<u64>) -> View {
    let journal = context.journal.lock().await;
    let table = &journal.lane().tables[context.targets[place].index as usize];
    let limit = window::send_limit(table);
    let free = context.settings.in_flight_max.saturating_sub(in_flight.len());
    let fresh = (settled.frontier()..limit)
        .filter(|n| !settled.contains(*n) && !in_flight.contains(n))
        .take(free)
        .filter_map(|n| Some((n, table.pieces(n)?.to_vec())))
        .collect();
    View { recorded: table.frontier, next_ordinal: table.next_ordinal, limit, fresh }
}

/// The frontier must be recorded now: nothing more may be sent before it is, or the lane closes with everything settled.
fn window_is_due(context: &Context, view: &View, settled: &Settled) -> bool {
    let moved = settled.frontier() > view.recorded;
    let blocked = view.limit < view.next_ordinal && settled.frontier() >= view.limit;
    let last = context.is_closing() && settled.frontier() == view.next_ordinal;
    moved && (blocked || last)
}

async fn record(context: &Context, place: usize, frontier: u64) -> Result<(), EngineError> {
    let target = &context.targets[place];
    let (spool_bytes, pending) = {
        let mut journal = context.journal.lock().await;
        // A seal may have taken the frontier along in the meantime.
        if journal.lane().tables[target.index as usize].frontier < frontier {
            let settled = vec![target.frontier_record(journal.lane(), &context.settings)];
            journal.append(Body::Settle(Settle { settled, servers: vec![target.server()] })).await?;
        }
        let lane = journal.lane();
        (lane.spool_bytes(), lane.tables.iter().map(|t| t.pending.len()).sum::<usize>())
    };
    gauge!("forebay_spool_bytes").set(spool_bytes as f64);
    gauge!("forebay_spool_frames").set(pending as f64);
    context.status.update(|s| s.spool_bytes = spool_bytes);
    context.see_spool(spool_bytes);
    Ok(())
}

fn tell(context: &Context, place: usize, ordinal: u64, rows: u64, frontier: u64) {
    let name = context.targets[place].table.name();
    counter!("forebay_rows_settled_total", "table" => name.to_owned()).increment(rows);
    for time_ms in context.targets[place].take_samples(ordinal) {
        let latency_ms = context.runtime.wall_ms().saturating_sub(time_ms).max(0);
        histogram!("forebay_end_to_end_seconds").record(latency_ms as f64 / 1_000.0);
    }
    let window = context.targets[place].window(&context.settings);
    context.status.update(|s| {
        let table = s.tables.entry(name.to_owned()).or_default();
        table.frames_settled = frontier;
        table.rows_settled += rows;
        table.window = window;
        table.problem = None;
    });
}

/// Keeps record times of a seal until its last frame is settled.
pub fn sample(context: &Context, sealed: &[(usize, Frame, Bytes)], samples_ms: &[i64]) {
    // The target's last frame stands for the seal: frames of one seal go out one after the other.
    if let Some((place, frame, _)) = sealed.iter().rfind(|(place, _, _)| *place == 0) {
        context.targets[*place].keep_samples(frame.ordinal, samples_ms);
    }
}

/// When the oldest unsettled frame was sealed, Unix milliseconds; `None` if all is settled.
pub fn oldest_ms(lane: &Lane) -> Option<i64> {
    lane.tables.iter().filter_map(|t| Some(t.pending.front()?.first()?.sealed_at_ms)).min()
}
