//! Which input carries the replay log, and what is done with its records of other inputs.
//!
//! A lane has one log. It stands beside the source of the input that the journal knows first, whose number never changes, so no record of it is
//! read by two inputs, whatever the file says later; or of the one that has read it, if the first had left before. Each record names the input that it belongs to, and goes through the work of that one.
//!
//! Owns the choice and the dispatch. Does not own the log ([`crate::replays`]).

use std::sync::Arc;

use dataflow::{Elsewhere, Intake, RecordBlock, Runtime, Source};
use protocol::Lane;
use store::Store;

use super::lane_folder;
use super::steps::InputChain;
use crate::config::model::Pipeline;
use crate::replays::source::{WithReplays, input_of};
use crate::replays::{Log, STREAM};

/// The input that carries the log; `None` if it is not in the file any more: then nobody reads the log.
pub async fn carrier(pipeline: &Pipeline, store: &Arc<dyn Store>) -> Option<String> {
    let inputs = pipeline.inputs();
    let first_of_file = inputs.first().map(|input| input.name.to_owned());
    let folder = lane_folder(pipeline);
    // The journal is read once more only where the answer may be another one.
    let is_short = pipeline.source.is_some();
    if is_short && matches!(Log::new(store.clone(), &folder).extent().await, Ok(None)) {
        return first_of_file;
    }
    match engine::journal::load(&**store, &folder).await {
        Ok(lane) => carried_by(&lane, pipeline),
        // Whoever opens the lane says why.
        Err(_) => first_of_file,
    }
}

/// The same by the journal. The log stays with the input that has read it: that is another one than the first if the first had left before.
fn carried_by(lane: &Lane, pipeline: &Pipeline) -> Option<String> {
    let inputs = pipeline.inputs();
    let first_of_file = || inputs.first().map(|input| input.name.to_owned());
    let log = lane.partitions.iter().find(|partition| partition.stream == STREAM);
    let Some(known) = lane.inputs.get(log.map_or(0, |log| log.input as usize)) else {
        return first_of_file();
    };
    if inputs.iter().any(|input| input.name == known.name) {
        return Some(known.name.clone());
    }
    // Nothing else is asked as long as there is no log, and what was begun so goes on so.
    if log.is_none() && pipeline.source.is_some() { first_of_file() } else { None }
}

/// A source, and the log beside it.
pub fn beside(
    source: Arc<dyn Source>,
    pipeline: &Pipeline,
    store: &Arc<dyn Store>,
    runtime: &Arc<dyn Runtime>,
) -> Arc<dyn Source> {
    let log = Log::new(store.clone(), &lane_folder(pipeline));
    let source = WithReplays::new(source, log, runtime.clone()).outliving(goes_on(pipeline));
    Arc::new(source.told_by_journal(true))
}

/// Whether the pipeline is still read when the input that carries the log may have ended.
fn goes_on(pipeline: &Pipeline) -> bool {
    pipeline.has_several_inputs() && pipeline.inputs().iter().any(|input| input.source.is_endless())
}

/// The work of every input, by name, for records of the log.
pub struct Others(Vec<(String, Intake)>);

impl Others {
    /// Of these inputs; none if there is only one.
    pub fn of(chains: &[InputChain]) -> Arc<Self> {
        let all = chains.iter().map(|chain| (chain.name.clone(), chain.intake.clone()));
        Arc::new(Self(if chains.len() > 1 { all.collect() } else { Vec::new() }))
    }

    /// `intake`, which does the work of the others for records that name them.
    pub fn within(self: &Arc<Self>, intake: Intake) -> Intake {
        match self.0.is_empty() {
            true => intake,
            false => intake.with_elsewhere(Some(self.clone())),
        }
    }
}

impl Elsewhere for Others {
    fn input(&self, block: &RecordBlock) -> Option<(&str, &Intake)> {
        let name = input_of(block)?;
        self.0.iter().find(|(other, _)| other == name).map(|(name, intake)| (name.as_str(), intake))
    }
}

#[cfg(test)]
mod tests;
