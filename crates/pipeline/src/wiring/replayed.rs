//! Which input carries the replay log, and what is done with its records of other inputs.
//!
//! A lane has one log. It stands beside the source of the input that the journal knows first, whose number never changes, so no record of it is
//! read by two inputs, whatever the file says later. Each record names the input that it belongs to, and goes through the work of that one.
//!
//! Owns the choice and the dispatch. Does not own the log ([`crate::replays`]).

use std::sync::Arc;

use dataflow::{Elsewhere, Intake, RecordBlock, Runtime, Source};
use store::Store;

use super::lane_folder;
use super::steps::InputChain;
use crate::config::model::Pipeline;
use crate::replays::Log;
use crate::replays::source::{WithReplays, input_of};

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
        Ok(lane) => match lane.inputs.first() {
            Some(first) => inputs.iter().any(|input| input.name == first.name).then(|| first.name.clone()),
            None => first_of_file,
        },
        // Whoever opens the lane says why.
        Err(_) => first_of_file,
    }
}

/// A source, and the log beside it.
pub fn beside(
    source: Arc<dyn Source>,
    pipeline: &Pipeline,
    store: &Arc<dyn Store>,
    runtime: &Arc<dyn Runtime>,
) -> Arc<dyn Source> {
    let log = Log::new(store.clone(), &lane_folder(pipeline));
    let goes_on =
        pipeline.has_several_inputs() && pipeline.inputs().iter().any(|input| input.source.kafka.is_some());
    Arc::new(WithReplays::new(source, log, runtime.clone()).outliving(goes_on).told_by_journal(true))
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
