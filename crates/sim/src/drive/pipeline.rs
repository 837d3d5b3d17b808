//! The pipeline of one process: the real engine and steps, in this world.
//!
//! Owns what a plan says of inputs, steps and tables, and what differs from process to process. Does not own when a process is started (`drive`), nor how
//! a variant breaks the pipeline (`variant`).

use std::sync::Arc;

use dataflow::{Intake, Operator, Router, Schema, Table, Transform};
use engine::{Flow, Input, Pipeline, Port};
use operators::EventTime;
use operators::dedup::spilled::Sizes;
use operators::dedup::{Dedup, DedupConfig};
use protocol::names;
use replays::Log;
use replays::source::WithReplays;
use store::Store;

use crate::broker::SimSource;
use crate::executor::Pid;
use crate::items;
use crate::lies::LyingStore;
use crate::objects::SimStore;
use crate::plan::STATE_IN_FILES;
use crate::plan::inputs::NAMES;
use crate::records::{TextDecoder, schema};
use crate::route::{ByKey, Twice};
use crate::server::DEAD;
use crate::table::SimTable;
use crate::variant::Variant;
use crate::world::World;

/// The open keys are divided into one to so many shards.
const SHARDS: u64 = 3;

/// The inputs; a person changes their order in the file between two starts.
fn inputs(world: &Arc<World>, pid: Pid, schema: &Schema, time: Option<Arc<dyn Transform>>) -> Vec<Input> {
    let mut intake = Intake::new(Arc::new(TextDecoder(schema.clone()))).with_time(time);
    if world.plan.unnests {
        intake = intake.with_steps(items::steps());
    }
    let input = |place: usize| Input {
        name: NAMES[place].into(),
        source: Arc::new(SimSource::new(world.clone(), pid, place)),
        intake: intake.clone(),
    };
    let mut inputs: Vec<Input> = (0..world.plan.inputs as usize).map(input).collect();
    if pid % 2 == 1 {
        inputs.reverse();
    }
    inputs
}

/// Sizes at which a handful of keys is closed, cut into parts and blocks, and merged.
const TINY: Sizes = Sizes { open_keys_max: 8, part_pairs: 4, block_pairs: 2, runs_max: 3 };

/// The pipeline of one process: the real engine and steps, in this world.
pub(super) fn pipeline(world: &Arc<World>, pid: Pid, variant: Option<Variant>) -> Pipeline {
    let plan = &world.plan;
    let schema = schema();
    let config = DedupConfig { key: vec!["key".into()], window: plan.window, late: plan.late };
    let time = plan.window.map(|_| EventTime::new(&schema, "time").expect("the schema has that column"));
    let time = time.map(|time| Arc::new(time) as Arc<dyn Transform>);
    let mut dedup = Dedup::new(&schema, config).expect("the windows of a plan are valid");
    // Most broken variants keep theirs in memory: the step that lies knows no files.
    let is_in_files = variant.is_none_or(Variant::knows_files) && plan.is_in_files();
    if is_in_files {
        dedup = dedup.with_sizes(TINY);
    }
    // Each process by itself, so that one takes over what another, divided otherwise, has left. Any two rows are worth a job.
    let shards = 1 + (plan.seed / STATE_IN_FILES + u64::from(pid)) % SHARDS;
    dedup = dedup.with_shards(shards as usize).with_job_rows_min(1);
    let mut steps: Vec<Box<dyn Operator>> = match (plan.aggregates, plan.joins, plan.changes) {
        (Some(aggregates), ..) => aggregates.steps(is_in_files),
        (None, Some(joins), _) => joins.steps(is_in_files),
        (None, None, Some(changes)) => changes.steps(is_in_files),
        (None, None, None) if plan.releases || plan.pushes => Vec::new(),
        (None, None, None) => vec![Box::new(dedup)],
    };
    if plan.multiplies {
        steps.push(Box::new(Twice));
    }
    let table = |place| Arc::new(SimTable::new(world.clone(), pid, place));
    let mut inputs = inputs(world, pid, &schema, time);
    if !plan.replays.is_empty() {
        let mut store: Arc<dyn Store> = Arc::new(SimStore { world: world.clone(), pid });
        if let Some(variant @ Variant::TornReplayIsRead) = variant {
            store = Arc::new(LyingStore { inner: store, world: world.clone(), variant });
        }
        let log = Log::new(store, &names::lane_folder("p", plan.lane));
        let source = inputs[0].source.clone();
        inputs[0].source = Arc::new(WithReplays::new(source, log, world.executor.runtime(pid)));
    }
    let flow = match plan.joins {
        None => Flow::default(),
        // The first input is the left side, wherever the file names it.
        Some(_) => {
            let side = |input: &Input| usize::from(input.name == NAMES[1]);
            let entry = |input: &Input| Port { step: 0, input: side(input) };
            Flow { entries: inputs.iter().map(entry).collect(), next: Vec::new() }
        }
    };
    let mut sides = plan.joins.map(|joins| joins.sides(plan.tables.len())).unwrap_or_default();
    sides.extend(plan.aggregates.and_then(|window| window.side(plan.tables.len())));
    let places = plan.tables.iter().copied().chain(sides.iter().map(|(place, _)| *place));
    let pipeline = Pipeline {
        name: "p".into(),
        lane: plan.lane,
        owner: format!("process-{pid}"),
        inputs,
        steps,
        parts: Vec::new(),
        new_state: Default::default(),
        tables: places.map(|place| -> Arc<dyn Table> { table(place) }).collect(),
        sides: sides.into_iter().map(|(_, side)| side).collect(),
        flow,
        router: plan.is_routed.then(|| -> Arc<dyn Router> { Arc::new(ByKey { tables: plan.tables.len() }) }),
        dead_letters: table(DEAD),
        store: Arc::new(SimStore { world: world.clone(), pid }),
        runtime: world.executor.runtime(pid),
        settings: plan.settings.clone(),
        status: Arc::default(),
        drain: false,
    };
    match variant {
        None => pipeline,
        Some(variant) => variant.apply(pipeline, world, pid),
    }
}
