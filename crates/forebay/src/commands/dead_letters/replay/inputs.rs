//! The inputs that replayed records enter by.
//!
//! Owns which input a dead letter names, and whether it can take the record. Does not own what is chosen ([`super`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use admin::dead_letters::letters::Head;
use anyhow::bail;
use dataflow::Reason;
use pipeline::config::model::{Input, Pipeline};
use pipeline::replays::STREAM;
use pipeline::wiring;
use protocol::Lane;
use store::Store;

/// The inputs that records may belong to.
pub(super) struct Inputs {
    /// By topic or file, the name of its input; empty in a pipeline with one.
    of_streams: BTreeMap<String, String>,
    /// The input that carries the log.
    carrier: String,
    /// Those that can take records of the log.
    can: BTreeSet<String>,
    /// Those whose records hold several rows: requests of OTLP.
    of_several: BTreeSet<String>,
    /// Those whose schemas are fetched while they are read.
    fetch: BTreeSet<String>,
}

impl Inputs {
    pub(super) async fn of(pipeline: &Pipeline, lane: &Lane, store: &Arc<dyn Store>) -> anyhow::Result<Self> {
        let Some(carrier) = wiring::replayed::carrier(pipeline, store).await else {
            let first = lane.inputs.first().map_or("", |input| input.name.as_str());
            bail!(
                "input `{first}` is no longer in the pipeline file, and replays are read through it, because it was the first input; add it \
                 again, or send the records to their topics (`forebay dead-letters show` prints them)"
            );
        };
        let mut of_streams = BTreeMap::new();
        if pipeline.has_several_inputs() {
            let name = |input: u32| lane.inputs.get(input as usize).map(|input| input.name.clone());
            let named = lane.partitions.iter().filter_map(|p| Some((p.stream.clone(), name(p.input)?)));
            of_streams.extend(named.filter(|(stream, _)| stream != STREAM));
        }
        let inputs = pipeline.inputs();
        let fetches =
            |input: &&Input<'_>| input.source.format.avro().is_some_and(|avro| avro.registry.is_some());
        let fetch = inputs.iter().filter(fetches).map(|input| input.name.to_owned()).collect();
        let has_requests = |input: &&Input<'_>| input.source.format.otlp().is_some();
        let of_several = inputs.iter().filter(has_requests).map(|input| input.name.to_owned()).collect();
        let can = inputs.iter().map(|input| input.name.to_owned()).collect();
        Ok(Self { of_streams, carrier, can, of_several, fetch })
    }

    pub(super) fn of_stream(&self, stream: &str) -> String {
        // Letters of programs that did not say where a row came from are older than the second input.
        let unknown = if self.of_streams.is_empty() { "" } else { self.carrier.as_str() };
        self.of_streams.get(stream).map_or(unknown, String::as_str).to_owned()
    }

    /// Whether the record of a letter that names no row of it may hold several. Of a record that was replayed, the letter names the row, but not if
    /// ClickHouse refused it and it is kept as it was sent.
    pub(super) fn holds_several(&self, head: &Head) -> bool {
        if self.of_several.len() == self.can.len() {
            return true;
        }
        match head.letter.source.as_str() {
            STREAM => !self.of_several.is_empty() && head.reason == Reason::Refused.as_str(),
            stream => self.of_several.contains(&self.of_stream(stream)),
        }
    }

    /// Whether the pipeline can take these records.
    pub(super) fn check<'r>(&self, of_records: impl Iterator<Item = &'r str>) -> anyhow::Result<()> {
        for name in of_records.filter(|name| !name.is_empty()) {
            if !self.can.contains(name) {
                bail!(
                    "some of these records are of input `{name}`, which the pipeline file does not name any more; choose others by `--topic`"
                );
            }
            if name != self.carrier && self.fetch.contains(name) {
                bail!(
                    "some of these records are of input `{name}`, whose schemas come from a registry: they cannot be replayed beside input `{}` \
                     yet; choose others by `--topic`, or send them to their topic again",
                    self.carrier
                );
            }
        }
        Ok(())
    }
}
