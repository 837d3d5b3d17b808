//! From a cut to a durable seal.
//!
//! Owns the order: encode (on compute threads, while the lane gathers the next cut), write the segment, append the record, and only then
//! wake the delivery (C2). Does not own when a cut is made (`lane::cutting`), the sums in it ([`crate::cut`]), the layout of a segment
//! ([`crate::segment`]), which segments stay unwritten ([`leave`]), nor the rules of a record (`protocol::lane`). Waits here when the spool is full, which makes the lane and then the
//! source wait.

mod leave;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Encoded, FrameId, Partition, Position, Selected, Table, TableError, reject};
use futures::future::BoxFuture;
use metrics::{counter, gauge, histogram};
use protocol::record::{Absorbed, Body, Counts, Derived, Frame, InputCounts, Seal, StateDelta, TableRows};
use protocol::{Lane, names};
use tokio::sync::mpsc;

use crate::context::Context;
use crate::cut::{Cut, TableCut};
use crate::inputs::Inlet;
use crate::origins::Origins;
use crate::segment::Segment;
use crate::stage::{self, Stage};
use crate::status::Phase;
use crate::totals::Totals;
use crate::{EngineError, accounts, deliver, inputs, layouts, versions};

/// Frames of one cut, the bits that number them within it: a cut of half a million rows spread over a million table
/// partitions would still fit.
const FRAME_BITS: u32 = 20;

/// Sealed and not yet delivered frames at which the source pauses: a checkpoint holds a line on each, and must stay well
/// below the largest journal record however small frames are and however long the table is away.
const SPOOL_FRAMES_MAX: usize = 100_000;

/// Published positions are for lag tools; more often would cost the broker for nothing.
const PUBLISH_EVERY: Duration = Duration::from_secs(5);

/// A cut on its way to the seal, its frames being encoded.
pub struct Encoding {
    cut: Cut,
    frames: BoxFuture<'static, Option<Result<Frames, TableError>>>,
}

/// The frames of a cut, with the table that each goes to (by its place in [`Context::targets`]) and the bytes of its origins.
struct Frames {
    /// Rows of each table, by place, that later ones replace: they are in no frame.
    replaced: Vec<u64>,
    encoded: Vec<(usize, Encoded, Bytes)>,
}

/// Starts to encode a cut.
pub fn encode(context: &Context, pipeline: &Arc<str>, mut cut: Cut) -> Encoding {
    let judged_by_ms = cut.judged_by_ms;
    let mut rows: Vec<(Vec<Selected>, Origins)> = cut
        .tables
        .iter_mut()
        .map(|table| {
            table.origins.watermark_ms = judged_by_ms;
            (std::mem::take(&mut table.rows), std::mem::take(&mut table.origins))
        })
        .collect();
    let rejects = std::mem::take(&mut cut.rejects);
    cut.letters = rejects.len() as u64;
    count_rejects(context, &rejects);
    let tables: Vec<(u32, Arc<dyn Table>)> =
        context.targets.iter().map(|t| (t.index, t.table.clone())).collect();
    let letters = context.letters();
    let (nonce, number, now_ms) = (context.objects.nonce, cut.number, context.runtime.wall_ms());
    let pipeline = pipeline.clone();
    let frames = stage::compute(Stage::Encode, &context.runtime, &context.status, move || {
        let mut replaced = Vec::with_capacity(rows.len());
        for ((_, table), (rows, origins)) in tables.iter().zip(&mut rows) {
            replaced.push(versions::remove_replaced(&**table, rows, origins)?);
        }
        let mut encoded = Vec::new();
        let mut add =
            |place: usize, rows: &[Selected], origins: Option<&Origins>| -> Result<(), TableError> {
                let (index, table) = &tables[place];
                let mut next = number << FRAME_BITS;
                let mut ids = || {
                    next += 1;
                    FrameId(names::frame_id(nonce, *index, next, 0))
                };
                for frame in table.encode(rows, &mut ids)? {
                    let origins = origins.map_or(Bytes::new(), |o| o.encode(&frame.rows_from).into());
                    encoded.push((place, frame, origins));
                }
                Ok(())
            };
        for (place, (rows, origins)) in rows.iter().enumerate().filter(|(_, (rows, _))| !rows.is_empty()) {
            add(place, rows, Some(origins))?;
        }
        if !rejects.is_empty() {
            // Dead letters name their origins in columns of their own.
            add(letters, &[Selected::all(reject::to_rows(&pipeline, now_ms, &rejects))], None)?;
        }
        Ok(Frames { replaced, encoded })
    });
    Encoding { cut, frames }
}

fn count_rejects(context: &Context, rejects: &[dataflow::Reject]) {
    for reject in rejects {
        counter!("forebay_dead_letters_total", "reason" => reject.reason.as_str()).increment(1);
    }
    if !rejects.is_empty() {
        context.status.update(|s| {
            for reject in rejects {
                *s.dead_letters.entry(reject.reason.as_str()).or_default() += 1;
            }
        });
    }
}

/// Seals cuts in order until there are no more.
pub async fn run(context: Arc<Context>, mut cuts: mpsc::Receiver<Encoding>) -> Result<(), EngineError> {
    // The first seal is published at once: a start with another store must not take the source for one that nobody has read.
    let mut published: Option<Duration> = None;
    let mut publishing = None;
    while let Some(Encoding { mut cut, frames }) = cuts.recv().await {
        let frames = frames.await.ok_or(EngineError::Internal("encode"))?;
        // A row that cannot be encoded was checked by the decoder already: this is a fault of the program or a table that
        // changed its columns under our feet, and either needs the operator.
        let frames = frames.map_err(|error| EngineError::Mismatch(error.message))?;
        let snapshots = cut.snapshots.take();
        let seq = seal(&context, cut, frames).await?;
        tell_sources(&context).await;
        context.objects.sealed();
        context.spool.quiet.notify_one();
        if let Some(snapshots) = snapshots {
            context.checkpoints.start(seq, snapshots);
        }
        let now = context.runtime.elapsed();
        if published.is_none_or(|published| now.saturating_sub(published) >= PUBLISH_EVERY) {
            // Beside the seal: a broker that is slow to commit must not hold records up. The task before has run out of time.
            let context_of_task = context.clone();
            let task = async move { publish(&context_of_task).await };
            drop(publishing.replace(context.runtime.spawn("publish", Box::pin(task))));
            published = Some(now);
        }
    }
    drop(publishing);
    publish(&context).await;
    Ok(())
}

/// Tells the sources that wait for seals how far is sealed now.
async fn tell_sources(context: &Context) {
    for input in context.inputs.iter().filter(|input| input.is_open() && input.source.wants_seals()) {
        let positions = read_to(context.journal.lock().await.lane(), input.number);
        input.source.sealed(&positions);
    }
}

/// Where the lane stands in the partitions of an input.
fn read_to(lane: &Lane, input: u32) -> Vec<(Partition, Position)> {
    let own = lane.reading().filter(|(_, p)| p.input == input);
    own.map(|(_, p)| (Partition::new(p.stream.as_str(), p.index).of_input(p.input), p.next)).collect()
}

/// Tells the source of every input how far is sealed, or settled where it lets go of records. Best effort: monitoring tools and retention
/// read it, nothing else does. A source that was never opened is left alone: it is away or refuses, and asking it would only hold up the
/// end.
async fn publish(context: &Context) {
    let open = context.inputs.iter().filter(|input| input.is_open());
    futures::future::join_all(open.map(|input| publish_of(context, input))).await;
}

/// The same at the end, once all is settled, for the sources that let go of what is published.
pub async fn release(context: &Context) {
    let open = context.inputs.iter().filter(|input| input.is_open() && input.source.releases());
    futures::future::join_all(open.map(|input| publish_of(context, input))).await;
}

async fn publish_of(context: &Context, input: &Inlet) {
    let positions = {
        let journal = context.journal.lock().await;
        let now = read_to(journal.lane(), input.number);
        input.publishable(journal.lane(), now)
    };
    let Some(positions) = positions else { return };
    match context.runtime.timeout(PUBLISH_EVERY, input.source.publish(&positions)).await {
        Some(Ok(())) => {
            if input.set_unpublished(false) {
                tracing::info!(input = &*input.name, "positions are published again");
            }
        }
        Some(Err(error)) => {
            if input.set_unpublished(true) {
                tracing::warn!(input = &*input.name, %error,
                    "positions are not published: tools that show the lag do not see this pipeline, and an older copy of the store is not recognized");
            }
        }
        None => tracing::debug!("positions could not be published in time"),
    }
}

async fn seal(context: &Arc<Context>, mut cut: Cut, frames: Frames) -> Result<u64, EngineError> {
    let begun = context.runtime.elapsed();
    let mut segment = Segment::default();
    let mut sealed = Vec::with_capacity(frames.encoded.len());
    cut.tables.iter_mut().zip(&frames.replaced).for_each(|(table, rows)| table.replaced = *rows);
    let rows = rows(context, &cut);
    {
        let journal = context.journal.lock().await;
        for (place, target) in context.targets.iter().enumerate() {
            let own = frames.encoded.iter().filter(|(of, ..)| *of == place);
            let in_frames = own.map(|(_, encoded, _)| encoded.rows).sum();
            let gathered = cut.rows_of(place, target.takes_dead_letters);
            let replaced = cut.replaced(place);
            accounts::check(journal.lane().next_seq, target.table.name(), gathered, replaced, in_frames)?;
        }
        let tables = &journal.lane().tables;
        let mut next: Vec<u64> =
            context.targets.iter().map(|t| tables[t.index as usize].next_ordinal).collect();
        stage::accounted(Stage::Seal, &*context.runtime, &context.status, || {
            for (place, encoded, origins) in &frames.encoded {
                let ordinal = next[*place];
                next[*place] += 1;
                sealed.push((
                    *place,
                    segment.frame(context.targets[*place].index, ordinal, encoded, origins.clone()),
                    encoded.body.clone(),
                ));
            }
        });
    }
    let states: Vec<StateDelta> = stage::accounted(Stage::Seal, &*context.runtime, &context.status, || {
        std::mem::take(&mut cut.states).into_iter().map(|(step, delta)| segment.state(step, delta)).collect()
    });
    let segment_bytes = segment.len();
    let frame_bytes = sealed.iter().map(|(_, frame, _)| frame.len).sum();
    leave::wait_for_memory(context, &cut, &sealed).await;
    wait_for_room(context, frame_bytes).await;
    let object = if segment.is_empty() { String::new() } else { context.objects.segment(cut.number) };
    if let Some(made) = leave::made_of(context, &mut cut, &sealed) {
        let frame = &mut sealed[0].1;
        frame.made = Some(Box::new(made));
        // Before the record: from then on the delivery may read it.
        let (place, now) = ((frame.table, frame.ordinal), context.runtime.elapsed());
        context.objects.unwritten.hold(&object, place, segment.into_pieces(), now);
    } else if !segment.is_empty() {
        context.objects.write(&object, segment.into_pieces(), leave::next_reader(context, &sealed)).await?;
    }
    let refused = cut.refusals.len();
    // Held from reading the frontiers to the append, or the delivery may record a later one in between (C4).
    let mut journal = context.journal.lock().await;
    journal.catch_up().await?;
    let mut said = Vec::new();
    for (place, target) in context.targets.iter().enumerate() {
        let columns = layouts::to_record(&target.table.layout());
        let table = &journal.lane().tables[target.index as usize];
        let (number, new) = table.number_layout(target.index, &columns);
        let mut own = sealed.iter_mut().filter(|(of, ..)| *of == place).map(|(_, frame, _)| frame).peekable();
        if own.peek().is_some() {
            said.extend(new);
        }
        own.for_each(|frame| frame.layout = number);
    }
    let body = Body::Seal(Seal {
        ranges: cut.ranges,
        segment: object,
        segment_bytes,
        frames: sealed.iter().map(|(_, frame, _)| frame.clone()).collect(),
        states,
        watermark_ms: cut.watermark_ms,
        idle: cut.idle,
        settled: context
            .targets
            .iter()
            .map(|t| t.frontier_record(journal.lane(), &context.settings))
            .collect(),
        servers: context.targets.iter().map(|t| t.server()).collect(),
        counts: cut
            .counts
            .into_iter()
            .map(|(input, counts)| InputCounts::of(input, counts))
            .filter(has_any)
            .collect(),
        rows,
        derived: (cut.derived != Derived::default()).then_some(cut.derived),
        refusals: cut.refusals,
        fates: cut.fates,
        layouts: said,
        absorbed: (cut.absorbed != Absorbed::default()).then_some(cut.absorbed),
        next_version: cut.next_version,
    });
    let seq = journal.append(body).await.inspect_err(accounts::refused)?;
    context.spool.sealed_refusals(refused);
    // Still held: what is kept for a frame must be there before the delivery sees the frame.
    for (place, frame, body) in &sealed {
        context.targets[*place].keep(frame.ordinal, body.clone(), context.settings.body_cache_bytes_max);
    }
    deliver::sample(context, &sealed, &cut.tables);
    context.spool.see(journal.lane().spool_bytes(), context.settings.spool_bytes_max);
    drop(journal);
    tell(context, &sealed, &cut.tables, segment_bytes, begun).await;
    context.wake_all();
    Ok(seq)
}

/// Whether an input gave any record.
fn has_any(counts: &InputCounts) -> bool {
    counts.counts() != Counts::default()
}

/// The rows that a cut has for each table.
fn rows(context: &Context, cut: &Cut) -> Vec<TableRows> {
    let rows = context.targets.iter().enumerate().map(|(place, target)| TableRows {
        table: target.index,
        rows: cut.rows_of(place, target.takes_dead_letters) - cut.replaced(place),
        replaced: cut.replaced(place),
    });
    rows.filter(|rows| rows.rows > 0).collect()
}

/// Keeps sealing within the spool: by bytes, and by the age of what is oldest. One seal always fits, and those up to the
/// dead letter of a refused row: the few cuts under way, since the lane gathers nothing while the spool is full.
async fn wait_for_room(context: &Context, bytes: u64) {
    loop {
        let room = context.spool.room.notified();
        let (spool, frames, oldest_ms) = {
            let journal = context.journal.lock().await;
            let lane = journal.lane();
            (lane.spool_bytes(), lane.spool_frames(), deliver::oldest_ms(lane))
        };
        let age_ms = oldest_ms.map_or(0, |ms| context.runtime.wall_ms().saturating_sub(ms).max(0));
        let too_much = spool > 0 && spool + bytes > context.settings.spool_bytes_max;
        let too_old = age_ms as u128 > context.settings.spool_age_max.as_millis();
        let too_many = frames > SPOOL_FRAMES_MAX;
        let is_full = too_much || too_old || too_many;
        context.spool.set_full(is_full);
        if is_full && context.spool.has_refusals() {
            return;
        }
        if !is_full {
            context.status.update(|s| {
                if s.phase == Phase::Paused {
                    s.phase = Phase::Running;
                }
            });
            return;
        }
        context.status.update(|s| {
            if s.phase == Phase::Running {
                tracing::warn!(spool_bytes = spool, frames, age_ms, "the spool is full; the source waits");
                s.phase = Phase::Paused;
            }
        });
        // Age passes without anyone's doing, hence the bound on the wait.
        context.runtime.timeout(Duration::from_secs(1), room).await;
    }
}

async fn tell(
    context: &Context,
    sealed: &[(usize, Frame, Bytes)],
    tables: &[TableCut],
    segment_bytes: u64,
    begun: Duration,
) {
    counter!("forebay_bytes_sealed_total").increment(segment_bytes);
    histogram!("forebay_seal_seconds").record((context.runtime.elapsed() - begun).as_secs_f64());
    let (partitions, inputs, totals, spool_bytes, pending, watermark_ms) = {
        let journal = context.journal.lock().await;
        let lane = journal.lane();
        let partitions: Vec<_> =
            lane.reading().map(|(_, p)| (inputs::shown(&context.inputs, lane, p), p.next)).collect();
        let pending: usize = lane.tables.iter().map(|t| t.pending.len()).sum();
        accounts::tell(lane);
        let inputs: Vec<_> = lane.inputs.iter().map(|input| (input.name.clone(), input.counts)).collect();
        (partitions, inputs, Totals::of(lane), lane.spool_bytes(), pending, lane.watermark_ms)
    };
    if watermark_ms != TIME_UNKNOWN_MS {
        let lag_ms = context.runtime.wall_ms().saturating_sub(watermark_ms);
        gauge!("forebay_watermark_lag_seconds").set(lag_ms as f64 / 1e3);
    }
    gauge!("forebay_spool_bytes").set(spool_bytes as f64);
    gauge!("forebay_spool_frames").set(pending as f64);
    context.status.update(|s| {
        for (name, next) in partitions {
            s.partitions.entry(name).or_default().sealed = next;
        }
        s.inputs = inputs.into_iter().collect();
        s.sealed = totals;
        s.spool_bytes = spool_bytes;
        s.watermark_ms = watermark_ms;
        for (place, frame, _) in sealed {
            let table = s.tables.entry(context.targets[*place].table.name().to_owned()).or_default();
            table.frames_sealed = frame.ordinal + 1;
            table.rows_sealed += frame.rows;
        }
    });
    for (target, cut) in context.targets.iter().zip(tables).filter(|(_, cut)| cut.replaced > 0) {
        let table = target.table.name().to_owned();
        counter!("forebay_rows_replaced_total", "table" => table).increment(cut.replaced);
    }
    for (place, frame, _) in sealed {
        let table = context.targets[*place].table.name().to_owned();
        counter!("forebay_rows_sealed_total", "table" => table).increment(frame.rows);
    }
    debug_assert!(!context.spool.is_closing(), "nothing is sealed after closing");
}
