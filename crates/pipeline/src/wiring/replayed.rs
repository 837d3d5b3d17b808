//! Which input carries the replay log, and what is done with its records of other inputs.
//!
//! A lane has one log. It stands beside the source of the input that the journal knows first, whose number never changes, so no record of it is
//! read by two inputs, whatever the file says later; or of the one that has read it, if the first had left before. Each record names the input that it belongs to, and goes through the work of that one.
//! One of an input that has left the file meanwhile stays a dead letter: the work of another would make other rows of it.
//!
//! Owns the choice and the dispatch. Does not own the log ([`crate::replays`]).

use std::sync::Arc;

use dataflow::{
    BlockBuilder, Decoded, Decoder, Elsewhere, Intake, Reason, RecordBlock, Reject, Runtime, Schema, Source,
};
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
    /// Of these inputs.
    pub fn of(chains: &[InputChain]) -> Self {
        Self(chains.iter().map(|chain| (chain.name.clone(), chain.intake.clone())).collect())
    }

    /// `intake` of the input `carrier`, which does the work of the others for records that name them.
    pub fn within(&self, carrier: &str, intake: Intake) -> Intake {
        let unread = intake.clone().with_decoder(Arc::new(Unread(intake.decoder().clone())));
        let named = Named { inputs: self.0.clone(), left: (carrier.to_owned(), unread) };
        intake.with_elsewhere(Some(Arc::new(named)))
    }
}

/// What is done with a record of the log that names its input.
struct Named {
    inputs: Vec<(String, Intake)>,
    /// For records of an input that the file does not name any more: the carrier, and its work without any decoding.
    left: (String, Intake),
}

impl Elsewhere for Named {
    fn input(&self, block: &RecordBlock) -> Option<(&str, &Intake)> {
        let name = input_of(block)?;
        let (name, intake) = self.inputs.iter().find(|(input, _)| input == name).unwrap_or(&self.left);
        Some((name.as_str(), intake))
    }
}

/// Rejects every record, with the columns of another decoder.
struct Unread(Arc<dyn Decoder>);

impl Decoder for Unread {
    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        let input = input_of(block).unwrap_or_default();
        let message = format!(
            "the record is of input `{input}`, which the pipeline file does not name any more, so nothing says how it is read; add it again, then replay \
             this letter"
        );
        let reject = |row| Reject::of(block, row, Reason::Schema, "", message.clone());
        let nothing = BlockBuilder::new(block.partition.clone(), block.next).take();
        let batch = self.0.decode(&nothing).batch;
        Decoded { batch, rejects: (0..block.len()).map(reject).collect(), several: None }
    }
}

#[cfg(test)]
mod tests;
