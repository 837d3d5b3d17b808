//! What the source says to a start, and what becomes of some of its records.
//!
//! Owns how long a source is waited for, what its silence means, and whether the file fits the journal. Does not own the checks of a start
//! (`engine::start::open`, `engine::change`), nor what a sampled record becomes (`reads::sampler`).

mod sampler;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use admin::fields;
use admin::plan::PartitionNow;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::position::Position;
use dataflow::{
    Event, Partition, ReadFrom, Reader, Runtime, Source, SourceError, SourceFault, position, printing,
};
use engine::change::{Composition, NewState};
use engine::inputs::Inlet;
use engine::start::open::{Asking, Opened, Refusal, Shown, Standing};
use engine::{EngineError, Settings, Status, change, remake, start};
use pipeline::config::model::{Input, Pipeline};
use pipeline::lookups;
use pipeline::wiring;
use pipeline::wiring::steps::{Chain, InputChain};
use protocol::record::PartitionGenesis;
use serde_json::{Value, json};

use super::stored::Stored;
use super::{Found, Tables};
use crate::console::Exit;
use sampler::{SHOWN_MAX, Sampler};

/// A source that takes longer than this to name its partitions would not start well either.
const SOURCE_WAIT_MAX: Duration = Duration::from_secs(15);

/// How long the first records may take to come. What is refused is refused at once.
const RECORDS_WAIT_MAX: Duration = Duration::from_secs(10);

/// Asks the source where it stands, whether it can be read from where the lane stands, and for `sample` records.
pub async fn look(
    pipeline: &Pipeline,
    runtime: &Arc<dyn Runtime>,
    tables: &Tables,
    stored: Option<&Stored>,
    sample: usize,
    found: &mut Found,
) {
    if let Some(stored) = stored {
        fits(pipeline, tables, stored, found).await;
    }
    // What does not fit was reported before.
    let chain = tables.schemas.as_ref().and_then(|schemas| wiring::steps::chain(pipeline, schemas, 1).ok());
    let (router, mut chains) = match chain {
        Some(Chain { inputs, router, .. }) => (router, inputs.into_iter().map(Some).collect()),
        None => (None, Vec::new()),
    };
    let inputs = pipeline.inputs();
    chains.resize_with(inputs.len(), || None);
    let mut asked = Vec::with_capacity(inputs.len());
    for (input, chain) in inputs.iter().zip(chains) {
        // Those that the journal does not know get the next numbers; which, is of no matter here.
        let known = stored.and_then(|stored| stored.lane.input(input.name));
        let number = known.unwrap_or_else(|| stored.map_or(0, |stored| stored.lane.inputs.len() as u32));
        let sampler = chain.as_ref().zip(tables.schemas.as_ref()).map(|(chain, schemas)| {
            Sampler::new(
                pipeline,
                (chain.intake.clone(), router.clone()),
                schemas,
                (sample, runtime.wall_ms()),
            )
        });
        let one = One { pipeline, input, number, has_others: inputs.len() > 1, runtime };
        asked.push(one.look(chain, stored, sampler.filter(|_| sample > 0), sample, found).await);
    }
    found.json["source"] = match asked.as_slice() {
        [one] => one.clone(),
        several => inputs
            .iter()
            .map(|input| input.name.to_owned())
            .zip(several.iter().cloned())
            .collect::<serde_json::Map<_, _>>()
            .into(),
    };
}

/// One input on its own.
struct One<'a> {
    pipeline: &'a Pipeline,
    input: &'a Input<'a>,
    /// Its number in the lane.
    number: u32,
    has_others: bool,
    runtime: &'a Arc<dyn Runtime>,
}

impl One<'_> {
    /// Asks the source where it stands, whether it can be read from where the lane stands, and for a sample. Its partitions and its lag.
    async fn look(
        &self,
        chain: Option<InputChain>,
        stored: Option<&Stored>,
        mut sampler: Option<Sampler>,
        sample: usize,
        found: &mut Found,
    ) -> Value {
        let path = self.input.path.as_str();
        // A source without settings was reported before; so was a store that cannot be opened.
        let Ok(source) = wiring::source_to_look_at(self.pipeline, self.input, self.runtime).await else {
            return Value::Null;
        };
        let source = match &chain {
            Some(chain) => chain.decoding.ready(source, self.runtime),
            None => source,
        };
        let inlet = Arc::new(Inlet::new(self.number, self.input.name, source, self.has_others));
        let source = inlet.source.clone();
        let status = Arc::new(Status::default());
        let asking = Asking {
            runtime: self.runtime.clone(),
            settings: Settings::default(),
            input: inlet.clone(),
            names: self.pipeline.inputs().iter().map(|input| input.name.into()).collect(),
            status: status.clone(),
            drain: false,
        };
        let Some(shown) = self.in_time(asking.shown(), &status, found).await else { return Value::Null };
        let Some(stored) = stored else { return Value::Null };
        let opened = self.in_time(asking.open(&Standing::of(&stored.lane), shown), &status, found).await;
        let Some(Opened { shown, reader, new, .. }) = opened else { return Value::Null };
        let ends = match tokio::time::timeout(SOURCE_WAIT_MAX, source.ends()).await {
            Ok(Ok(ends)) => ends.into_iter().collect(),
            Ok(Err(error)) => {
                found.problem(path, exit_of(&error), format!("{}: {error}", self.shown()));
                BTreeMap::new()
            }
            Err(_) => BTreeMap::new(),
        };
        let from = read_from(stored, self.number, &new);
        if from.is_empty() {
            // As an empty file, which a start waits for, or is done with.
            found.notes.push(format!("{}: there is nothing to read now", self.shown()));
        }
        let behind = behind(&*source, &from, &ends).await;
        let told = describe(&inlet, &from, &ends, &behind, found);
        read(reader, path, &from, sampler.as_mut(), found).await;
        let mut is_new = true;
        if let Some(sampler) = sampler.as_mut().filter(|sampler| sampler.is_empty()) {
            let again = from_the_first(&shown, &from);
            let reader = tokio::time::timeout(RECORDS_WAIT_MAX, source.read(again.clone()));
            if !again.is_empty()
                && let Ok(Ok(reader)) = reader.await
            {
                is_new = false;
                // What cannot be read any more is no fault: nobody would read it.
                let mut nobody = Found { json: json!({}), ..Found::default() };
                read(reader, path, &again, Some(sampler), &mut nobody).await;
            }
        }
        match sampler {
            Some(sampler) => sampler.tell(is_new, self.has_others.then_some(self.input.name), found),
            None if sample > 0 => {
                let note = "no sample: without the table's columns records cannot be decoded".to_owned();
                if !found.notes.contains(&note) {
                    found.notes.push(note);
                }
            }
            None => {}
        }
        told
    }

    /// The source in a message.
    fn shown(&self) -> String {
        if self.has_others { format!("input `{}`", self.input.name) } else { "source".to_owned() }
    }
}

impl One<'_> {
    /// What the source answers; a refusal, or that it is away, is reported.
    async fn in_time<T>(
        &self,
        asked: impl Future<Output = Result<T, Refusal>>,
        status: &Status,
        found: &mut Found,
    ) -> Option<T> {
        let path = self.input.path.as_str();
        match tokio::time::timeout(SOURCE_WAIT_MAX, asked).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(refusal)) => {
                found.engine(if refusal.may_deliver { path } else { "store" }, &refusal.error);
                None
            }
            Err(_) => {
                let away = status.snapshot().problems.remove(self.input.name);
                let why = away.map_or_else(
                    || format!("no answer within {} seconds", SOURCE_WAIT_MAX.as_secs()),
                    |problem| problem.words,
                );
                found.problem(path, Exit::Failed, format!("{}: {why}", self.shown()));
                None
            }
        }
    }
}

fn exit_of(error: &SourceError) -> Exit {
    match error.fault {
        SourceFault::Away | SourceFault::Lookup | SourceFault::Store => Exit::Failed,
        SourceFault::Refused | SourceFault::Config => Exit::Person,
    }
}

/// Whether the pipeline fits what the store holds, whatever its source says.
async fn fits(pipeline: &Pipeline, tables: &Tables, stored: &Stored, found: &mut Found) {
    let steps = tables.schemas.as_ref().and_then(|schemas| wiring::steps::chain(pipeline, schemas, 1).ok());
    let all = match tables.open.split_last() {
        Some((letters, rows)) if tables.open.len() == tables.all => {
            engine::tables::Tables::new(rows.to_vec(), letters.clone())
        }
        _ => Err(EngineError::Internal("a table that is not there")),
    };
    match steps.zip(all.ok()) {
        Some((wiring::steps::Chain { mut steps, .. }, all)) => {
            let made = Composition::of(&mut steps, pipeline::parts::of(pipeline));
            let name = pipeline.pipeline.as_str();
            if let Err(error) = start::check(&stored.lane, name, &all) {
                found.engine("pipeline", &error);
            }
            if let Err(error) = change::decide(&stored.lane, &made, &NewState::default(), "") {
                found.engine("steps", &error);
            }
            if let Some(store) = &stored.store
                && let Err(error) = remake::check(&**store, &stored.lane, &made).await
            {
                found.engine("pipeline", &error);
            }
        }
        None if !stored.lane.has_run() => {}
        None => found.notes.push("not checked: whether tables and steps are those of the journal".to_owned()),
    }
}

/// Where a start would read on, for every partition: where the lane stands, or where the file says.
fn read_from(stored: &Stored, input: u32, new: &[PartitionGenesis]) -> Vec<ReadFrom> {
    let known = stored.lane.reading().filter(|(_, p)| p.input == input);
    let known = known.map(|(_, p)| (&p.stream, p.index, &p.identity, p.next, p.leader_epoch));
    let new = new.iter().map(|p| (&p.stream, p.index, &p.identity, p.next(), p.leader_epoch));
    let from = known.chain(new).map(|(stream, index, identity, next, leader_epoch)| ReadFrom {
        partition: Partition::new(stream.as_str(), index).of_input(input),
        identity: identity.clone(),
        next,
        leader_epoch: if leader_epoch < 0 { NO_LEADER_EPOCH } else { leader_epoch },
    });
    from.collect()
}

/// The partitions of which something was read already, from their first record on.
fn from_the_first(shown: &Shown, from: &[ReadFrom]) -> Vec<ReadFrom> {
    let first = |from: &ReadFrom| {
        let start = shown.partitions.iter().find(|start| start.partition == from.partition)?;
        let is_read = from.next > start.first;
        is_read.then(|| ReadFrom { next: start.first, leader_epoch: NO_LEADER_EPOCH, ..from.clone() })
    };
    from.iter().filter_map(first).collect()
}

/// What the source counts of the partitions whose positions do not say their lag; nothing of it where it does not answer.
async fn behind(
    source: &dyn Source,
    from: &[ReadFrom],
    ends: &BTreeMap<Partition, Position>,
) -> BTreeMap<Partition, u64> {
    let is_counted =
        |at: &&ReadFrom| ends.get(&at.partition).is_none_or(|end| position::between(at.next, *end).is_some());
    let from: Vec<_> =
        from.iter().filter(|at| !is_counted(at)).map(|at| (at.partition.clone(), at.next)).collect();
    if from.is_empty() {
        return BTreeMap::new();
    }
    let asked = tokio::time::timeout(SOURCE_WAIT_MAX, source.behind(&from)).await;
    asked.ok().and_then(Result::ok).unwrap_or_default().into_iter().collect()
}

/// Describes the partitions for users, and gives them for programs.
fn describe(
    inlet: &Inlet,
    from: &[ReadFrom],
    ends: &BTreeMap<Partition, Position>,
    behind: &BTreeMap<Partition, u64>,
    found: &mut Found,
) -> Value {
    let counted = |at: &ReadFrom| ends.get(&at.partition).and_then(|end| position::between(at.next, *end));
    let lag = |at: &ReadFrom| counted(at).or_else(|| behind.get(&at.partition).copied());
    let partitions: Vec<Value> = from
        .iter()
        .map(|at| {
            json!({
                "stream": &*at.partition.stream, "index": at.partition.index, "next": fields::position(at.next),
                "end": ends.get(&at.partition).map(|end| fields::position(*end)), "lag": lag(at)
            })
        })
        .collect();
    found.partitions.extend(from.iter().map(|at| PartitionNow {
        input: inlet.name.to_string(),
        stream: at.partition.stream.to_string(),
        index: at.partition.index,
        next: at.next,
        end: ends.get(&at.partition).copied(),
    }));
    for at in from.iter().take(SHOWN_MAX) {
        let left = match (ends.get(&at.partition), lag(at)) {
            (Some(end), Some(lag)) => {
                let what = if counted(at).is_some() { "positions" } else { "entries" };
                format!("to {}: {lag} {what} are not read yet", position::shown(*end))
            }
            _ => "to its end, which is not known".to_owned(),
        };
        found.notes.push(format!(
            "`{}` is read from {} {left}",
            printing::escaped(&inlet.shown(&at.partition), usize::MAX),
            position::shown(at.next)
        ));
    }
    if from.len() > SHOWN_MAX {
        found.notes.push(format!("and {} more partitions", from.len() - SHOWN_MAX));
    }
    let all: Option<u64> = from.iter().map(lag).sum();
    json!({ "partitions": partitions, "lag": all.filter(|_| !from.is_empty()) })
}

/// Reads until every partition has shown that it can be read, and the sample is full.
async fn read(
    mut reader: Box<dyn Reader>,
    path: &str,
    from: &[ReadFrom],
    mut sampler: Option<&mut Sampler>,
    found: &mut Found,
) {
    let mut silent: BTreeSet<Partition> = from.iter().map(|at| at.partition.clone()).collect();
    let mut open = silent.clone();
    let mut refuse = |error: SourceError| match lookups::step_of(&error) {
        // As a rule it was read before, and the fault was reported; one that is asked for keys shows some faults only with records.
        Some(step) if found.problems.iter().any(|known| known.path == step) => {}
        Some(step) => found.problem(step, exit_of(&error), error.message.clone()),
        None => found.problem(path, exit_of(&error), EngineError::Source(error).to_string()),
    };
    let deadline = tokio::time::Instant::now() + RECORDS_WAIT_MAX;
    loop {
        let wants_more = sampler.as_ref().is_some_and(|sampler| !sampler.is_full()) && !open.is_empty();
        if silent.is_empty() && !wants_more {
            return;
        }
        match tokio::time::timeout_at(deadline, reader.next()).await {
            // A source that is slow to answer is not refused: the lag tells what waits.
            Err(_) => return,
            Ok(Err(error)) if error.fault == SourceFault::Away => {
                // Some brokers of a cluster may be away for a moment.
                tokio::time::sleep(Duration::from_millis(200)).await;
                if tokio::time::Instant::now() >= deadline {
                    return refuse(error);
                }
            }
            Ok(Err(error)) => return refuse(error),
            Ok(Ok(Event::Block(block))) => {
                silent.remove(&block.partition);
                if let Some(sampler) = &mut sampler {
                    sampler.take(&block);
                }
            }
            Ok(Ok(Event::CaughtUp { partition, .. } | Event::Ended { partition, .. })) => {
                silent.remove(&partition);
                open.remove(&partition);
            }
            Ok(Ok(Event::Found(_) | Event::Removed { .. })) => {}
        }
    }
}
