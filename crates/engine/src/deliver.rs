//! Sends sealed frames and settles them: one task a table.
//!
//! Owns the send window as seen from outside (what is in flight, what comes next) and the recording of the frontier. Does
//! not own the fate of one frame ([`crate::settle`]) or the rules (`protocol::window`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use dataflow::{Effect, Remedy, Sighting};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use metrics::{counter, gauge, histogram};
use protocol::Lane;
use protocol::lane::Piece;
use protocol::record::{Body, Frame, Settle, SettledAbove};
use protocol::window::{self, Reach, Settled};

use crate::context::Context;
use crate::cut::TableCut;
use crate::problem::{Noticed, State};
use crate::settle::{self, Rows, Task};
use crate::tasks::{on_a_task, until};
use crate::{EngineError, layouts, start};

/// Once a frame needs the operator, the other frames in doubt get this long to be settled or to need one too, so that all is
/// asked at once. More would hide the stop while the server is away.
const ASK_OTHERS_MAX: Duration = Duration::from_secs(30);

/// How often a table that waits for the operator looks whether the others still go on.
const PARKED_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Inserts that take longer than this are rare enough for two more records each.
const SILENT_AFTER: Duration = Duration::from_secs(2);

type Attempts = FuturesUnordered<BoxFuture<'static, (u64, Result<Rows, EngineError>)>>;

/// What the journal says about a table, at one moment.
struct View {
    reach: Reach,
    fresh: Vec<(u64, Vec<Piece>)>,
    accepted_uuid: String,
}

/// Frames that only the operator can settle.
#[derive(Default)]
struct Asked {
    ordinals: BTreeSet<u64>,
    first: Option<EngineError>,
    since: Duration,
}

impl Asked {
    fn add(&mut self, ordinal: u64, error: EngineError, now: Duration) {
        self.ordinals.insert(ordinal);
        if self.first.is_none() {
            (self.first, self.since) = (Some(error), now);
        }
    }

    /// The error to stop with: the first question, and how many others there are.
    fn take(&mut self) -> Option<EngineError> {
        let others = self.ordinals.len().saturating_sub(1);
        let mut error = self.first.take()?;
        if let EngineError::Doubt { more, .. } = &mut error {
            *more = others;
        }
        Some(error)
    }
}

/// Delivers the frames of one table until the lane closes and all is settled. A frame that needs the operator does not stop the other
/// tables: the error comes once they are done or the spool is full.
///
/// # Errors
/// When a frame needs the operator, another owner took over, or the store refuses.
pub async fn run(context: Arc<Context>, place: usize) -> Result<(), EngineError> {
    let delivered = deliver(&context, place).await;
    if let Err(error @ EngineError::Doubt { .. }) = &delivered
        && !while_others_go_on(&context, place, error).await
    {
        return Ok(());
    }
    context.targets[place].end();
    delivered
}

/// Waits with the question of one table as long as other tables for rows can go on: until all of them have ended, or the spool is full. False
/// if the lane is opened again instead, which asks again.
async fn while_others_go_on(context: &Context, place: usize, question: &EngineError) -> bool {
    let target = &context.targets[place];
    let others_go_on = || {
        let others = context.targets.iter().enumerate().filter(|(other, _)| *other != place);
        others.clone().any(|(_, other)| !other.takes_dead_letters && !other.has_ended())
    };
    if !others_go_on() {
        return true;
    }
    let (name, words) = (target.table.name(), question.to_string());
    tracing::error!(table = name, "{words}; the other tables are written until the spool is full");
    context.status.met(
        name,
        State::Asks,
        &words,
        Effect::Unknown,
        Noticed::Inserting,
        context.runtime.wall_ms(),
    );
    target.end();
    context.spool.quiet.notify_one();
    while others_go_on() && !context.spool.is_full() {
        if context.spool.is_closing() && context.is_reopening() {
            return false;
        }
        context.runtime.timeout(PARKED_LOOK_EVERY, target.wake.notified()).await;
    }
    true
}

async fn deliver(context: &Arc<Context>, place: usize) -> Result<(), EngineError> {
    let target = &context.targets[place];
    // What this owner has sealed since its claim, before this task came to its turn, was never sent.
    let doubtful_below = target.doubtful_below;
    let start = context.journal.lock().await.lane().tables[target.index as usize].frontier;
    let mut settled = Settled::at(start);
    let mut in_flight: BTreeSet<u64> = BTreeSet::new();
    let mut attempts: Attempts = FuturesUnordered::new();
    let mut later = see_later(context, place);
    let mut asked = Asked::default();
    let mut settle_at: Option<BoxFuture<'static, ()>> = None;
    let mut silent_at: Option<BoxFuture<'static, ()>> = None;
    let mut recorded_beyond = Vec::new();
    loop {
        // With a question open only the doubts go on, so that all questions are asked at once.
        let may_send = |n: u64| asked.first.is_none() || n < doubtful_below && !asked.ordinals.contains(&n);
        let view = look(
            context,
            place,
            |n| !settled.contains(n) && !in_flight.contains(&n) && may_send(n),
            in_flight.len(),
        )
        .await;
        if !context.is_reopening()
            && layouts::should_reopen(target, &context.journal).await
            && context.may_reopen(place)
        {
            context.reopen(place);
        }
        // The lane is at its end, to be opened again: what is under way comes to its own, and nothing is begun.
        let is_ending = context.spool.is_closing() && context.is_reopening();
        if is_ending && attempts.is_empty() {
            return record(context, place, &settled, true).await;
        }
        if is_ending && record_beyond(context, place, &settled, &mut recorded_beyond).await? {
            continue;
        }
        if view.reach.must_record(&settled, context.spool.is_closing()) {
            record(context, place, &settled, false).await?;
            continue;
        }
        if target.is_held() && view.reach.next_ordinal > 0 && !is_ending {
            // Another journal of the same source, in another store, may have begun at the same time as this one.
            start::check_rows(&*context.runtime, &context.settings, &*target.table, &context.status).await?;
            target.release();
            record_limit(context, place, &settled).await?;
            continue;
        }
        // Nothing may be sent but what was let out before, and there is room for more: the others are let out one by one.
        let is_short = view.fresh.is_empty() && target.lets_out_more(view.reach.limit, settled.frontier());
        let is_short =
            is_short && view.reach.limit < view.reach.next_ordinal && !is_ending && asked.first.is_none();
        if is_short && record_limit(context, place, &settled).await? {
            continue;
        }
        for (ordinal, pieces) in view.fresh.into_iter().filter(|_| !is_ending) {
            in_flight.insert(ordinal);
            let doubtful = ordinal < doubtful_below;
            let task = Task { place, ordinal, pieces, doubtful, accepted_uuid: view.accepted_uuid.clone() };
            let context = context.clone();
            attempts.push(Box::pin(async move {
                // On a task of its own: an attempt waits for the journal in turn with the loop below, and if its turn came while
                // that loop waits behind it, nobody would poll it.
                let sending = context.clone();
                let work = async move { settle::settle(&sending, task).await };
                (ordinal, on_a_task(&context.runtime, "attempt", work).await)
            }));
        }
        if attempts.is_empty()
            && let Some(error) = asked.take()
        {
            leave(context, place, &settled).await?;
            return Err(error);
        }
        let all_settled = settled.frontier() == view.reach.next_ordinal;
        if context.spool.is_closing() && all_settled && view.reach.recorded == view.reach.next_ordinal {
            return Ok(());
        }
        let ask_at = async {
            match asked.first.is_some() {
                true => {
                    let waited = context.runtime.elapsed().saturating_sub(asked.since);
                    context.runtime.sleep(ASK_OTHERS_MAX.saturating_sub(waited)).await;
                }
                false => std::future::pending().await,
            }
        };
        // One timer from the first answer on: whatever else wakes this loop must not put it off for ever.
        if settled.frontier() == view.reach.recorded {
            settle_at = None;
        } else if settle_at.is_none() {
            settle_at = Some(context.runtime.sleep(context.settings.settle_age_max));
        }
        // A window full of frames that nobody has sent must not be asked about after a crash: once no insert has been answered for a
        // while, it is recorded which were let out.
        if attempts.is_empty() {
            silent_at = None;
        } else if silent_at.is_none() {
            silent_at = Some(context.runtime.sleep(SILENT_AFTER));
        }
        tokio::select! {
            biased;
            Some((ordinal, result)) = attempts.next(), if !attempts.is_empty() => {
                in_flight.remove(&ordinal);
                let rows = match result {
                    Ok(rows) => rows,
                    // Where the order of inserts shows, nothing overtakes a frame that waits for the operator.
                    Err(error @ EngineError::Doubt { .. }) if context.settings.in_flight_max > 1 => {
                        asked.add(ordinal, error, context.runtime.elapsed());
                        continue;
                    }
                    Err(error) => {
                        if matches!(error, EngineError::Doubt { .. }) {
                            leave(context, place, &settled).await?;
                        }
                        return Err(error);
                    }
                };
                silent_at = None;
                settled.settle(ordinal);
                target.forget(ordinal);
                context.objects.unwritten.settled(target.index, ordinal, context.runtime.elapsed());
                target.frontier.store(settled.frontier(), Ordering::Release);
                context.spool.quiet.notify_one();
                tell(context, place, ordinal, rows, settled.frontier());
                if target.set_answered(true) {
                    record_limit(context, place, &settled).await?;
                }
            }
            () = target.wake.notified() => {}
            () = ask_at => {
                leave(context, place, &settled).await?;
                return Err(asked.take().expect("something was asked"));
            }
            () = until(&mut silent_at) => {
                silent_at = Some(context.runtime.sleep(SILENT_AFTER));
                let was_answered = target.set_answered(false);
                let is_recorded = record_beyond(context, place, &settled, &mut recorded_beyond).await?;
                if was_answered && !is_recorded {
                    record_limit(context, place, &settled).await?;
                }
            }
            () = until(&mut settle_at) => {
                settle_at = None;
                record(context, place, &settled, false).await?;
            }
            seen = &mut later => {
                if let Some(seen) = seen {
                    context.see(place, seen);
                }
                later = see_later(context, place);
            }
        }
    }
}

/// Sees the server again after a while, although all goes well: the token of a frame whose answer is lost certainly stands
/// only if the server was seen shortly before. `None` if it does not answer; the attempts find out what that means.
fn see_later(context: &Arc<Context>, place: usize) -> BoxFuture<'static, Option<Sighting>> {
    let (context, table) = (context.clone(), context.targets[place].table.clone());
    Box::pin(async move {
        context.runtime.sleep(context.settings.facts_every).await;
        let seen = table.see().await;
        seen.inspect_err(|error| {
            tracing::debug!(%error, "the table does not answer, or not as it did");
            context.not_seen(place, error, Effect::None);
            if error.remedy == Remedy::Stop {
                context.targets[place].suspect();
            }
        })
        .ok()
    })
}

/// The journal's view; `is_next` chooses among the frames that may be sent, `in_flight` are under way.
async fn look(context: &Context, place: usize, is_next: impl Fn(u64) -> bool, in_flight: usize) -> View {
    let journal = context.journal.lock().await;
    let table = &journal.lane().tables[context.targets[place].index as usize];
    let reach = Reach::of(table);
    let free = context.settings.in_flight_max.saturating_sub(in_flight);
    let accepted_uuid = table.accepted_uuid.clone();
    let fresh: Vec<(u64, Vec<Piece>)> = (table.frontier..reach.limit)
        .filter(|n| is_next(*n))
        .take(free)
        .filter_map(|n| Some((n, table.pieces(n)?.to_vec())))
        .collect();
    // The journal is still held: no record says of these that they are unsent.
    let end = fresh.last().map(|(ordinal, _)| ordinal + 1);
    context.targets[place].let_out(end, free.saturating_sub(fresh.len()) as u64);
    View { reach, fresh, accepted_uuid }
}

/// Records the frontier if it has moved, with what is settled beyond a hole; `always` if the lane is about to stop with one.
async fn record(context: &Context, place: usize, settled: &Settled, always: bool) -> Result<(), EngineError> {
    let must = always && !settled.above().is_empty();
    record_if(context, place, settled, |_, _| must).await.map(drop)
}

/// Records what is settled beyond a hole, if there is anything and it is not what was `recorded`. True if it did.
///
/// Neither a crash nor a lane that is opened again waits for an insert that hangs. What was answered beyond it would be in doubt then, and for a view that
/// came meanwhile, or for a server that has restarted, perhaps only the operator could say whether its rows are there.
async fn record_beyond(
    context: &Context,
    place: usize,
    settled: &Settled,
    recorded: &mut Vec<u64>,
) -> Result<bool, EngineError> {
    let beyond = settled.above();
    let is_new = !beyond.is_empty() && beyond != *recorded;
    *recorded = beyond;
    if is_new {
        record(context, place, settled, true).await?;
    }
    Ok(is_new)
}

/// Only the operator can say what became of a frame, so nothing more is sent. Neither what is settled beyond it nor what was never let out, or is sealed
/// while the question is open, is asked about after the next start.
async fn leave(context: &Context, place: usize, settled: &Settled) -> Result<(), EngineError> {
    let target = &context.targets[place];
    target.let_out(None, 0);
    target.set_answered(false);
    let has_above = !settled.above().is_empty();
    record_if(context, place, settled, |before, after| has_above || before != after).await.map(drop)
}

/// Records which frames were let out, or that this says nothing any more, if that changes what may be sent. True if it did.
async fn record_limit(context: &Context, place: usize, settled: &Settled) -> Result<bool, EngineError> {
    record_if(context, place, settled, |before, after| before != after).await
}

/// As [`record`], also if `must` says so of the first ordinals that may not be sent, as recorded and as they would be.
async fn record_if(
    context: &Context,
    place: usize,
    settled: &Settled,
    must: impl FnOnce(u64, u64) -> bool,
) -> Result<bool, EngineError> {
    let target = &context.targets[place];
    let (spool_bytes, pending, recorded) = {
        let mut journal = context.journal.lock().await;
        journal.catch_up().await?;
        // A seal may have taken the frontier along in the meantime.
        let frontier = target.frontier_record(journal.lane(), &context.settings);
        let table = &journal.lane().tables[target.index as usize];
        let is_due = table.frontier < settled.frontier()
            || must(window::send_limit(table), window::limit_with(table, &frontier));
        if is_due {
            let above = vec![SettledAbove { table: target.index, ordinals: settled.above() }];
            let servers = vec![target.server()];
            journal.append(Body::Settle(Settle { settled: vec![frontier], servers, above })).await?;
        }
        let lane = journal.lane();
        let pending = lane.tables.iter().map(|t| t.pending.len()).sum::<usize>();
        (lane.spool_bytes(), pending, is_due)
    };
    gauge!("forebay_spool_bytes").set(spool_bytes as f64);
    gauge!("forebay_spool_frames").set(pending as f64);
    context.status.update(|s| s.spool_bytes = spool_bytes);
    context.spool.see(spool_bytes, context.settings.spool_bytes_max);
    Ok(recorded)
}

fn tell(context: &Context, place: usize, ordinal: u64, rows: Rows, frontier: u64) {
    let name = context.targets[place].table.name();
    counter!("forebay_rows_settled_total", "table" => name.to_owned()).increment(rows.settled);
    for time_ms in context.targets[place].take_samples(ordinal) {
        let latency_ms = context.runtime.wall_ms().saturating_sub(time_ms).max(0);
        histogram!("forebay_end_to_end_seconds").record(latency_ms as f64 / 1_000.0);
    }
    let window = context.targets[place].window(&context.settings);
    context.status.update(|s| {
        let table = s.tables.entry(name.to_owned()).or_default();
        table.frames_settled = frontier;
        table.rows_settled += rows.settled;
        table.rows_refused += rows.refused;
        table.window = window;
    });
    context.status.ended(name, Noticed::Inserting);
}

/// Keeps record times of a seal until the last frame of their table is settled.
pub fn sample(context: &Context, sealed: &[(usize, Frame, Bytes)], cuts: &[TableCut]) {
    for (place, cut) in cuts.iter().enumerate() {
        // The last frame stands for the others: frames of one seal go out one after the other.
        if let Some((_, frame, _)) = sealed.iter().rfind(|(of, ..)| *of == place) {
            context.targets[place].keep_samples(frame.ordinal, &cut.samples_ms);
        }
    }
}

/// When the oldest unsettled frame was sealed, Unix milliseconds; `None` if all is settled.
pub fn oldest_ms(lane: &Lane) -> Option<i64> {
    lane.tables.iter().filter_map(|t| Some(t.pending.front()?.first()?.sealed_at_ms)).min()
}
