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
    /// By topic or file, the name of its input. Of a file with one input, only what others have read that have left it.
    of_streams: BTreeMap<String, String>,
    /// The input of letters that are of none of these streams: empty in a file with one.
    of_others: String,
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
            bail!(
                "input `{}` is no longer in the pipeline file, and replays are read through it; add it again, or send the records to their topics \
                 (`forebay dead-letters show` prints them)",
                carries(lane)
            );
        };
        let inputs = pipeline.inputs();
        let fetches = |input: &&Input<'_>| fetches_schemas(input);
        let fetch = inputs.iter().filter(fetches).map(|input| input.name.to_owned()).collect();
        let has_requests = |input: &&Input<'_>| input.source.format.otlp().is_some();
        let of_several = inputs.iter().filter(has_requests).map(|input| input.name.to_owned()).collect();
        let can: BTreeSet<String> = inputs.iter().map(|input| input.name.to_owned()).collect();
        let of_streams = of_streams(lane, &can);
        // Letters of programs that did not say where a row came from are older than the second input.
        let of_others = if can.len() > 1 && !of_streams.is_empty() { carrier.clone() } else { String::new() };
        Ok(Self { of_streams, of_others, carrier, can, of_several, fetch })
    }

    pub(super) fn of_stream(&self, stream: &str) -> String {
        self.of_streams.get(stream).unwrap_or(&self.of_others).clone()
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
                let names: Vec<String> = self.can.iter().map(|name| format!("`{name}`")).collect();
                bail!(
                    "some of these records are of input `{name}`, which the pipeline file does not name any more, so nothing says how they are read: add it \
                     again, or choose the letters of another input by `--input` with one of {}",
                    names.join(", ")
                );
            }
            if name != self.carrier && self.fetch.contains(name) {
                bail!(
                    "some of these records are of input `{name}`, whose schemas are fetched while it is read: they cannot be replayed beside input `{}` \
                     yet; choose the letters of another input by `--input`, or send them to their topic again",
                    self.carrier
                );
            }
        }
        Ok(())
    }
}

/// The input that the journal names for the log: the one that has read it, or the first.
fn carries(lane: &Lane) -> &str {
    let log = lane.partitions.iter().find(|partition| partition.stream == STREAM);
    let input = lane.inputs.get(log.map_or(0, |log| log.input as usize));
    input.map_or("", |input| input.name.as_str())
}

/// By topic or file, the input that has read it. One that the file names counts before one that has left. Where the file names one alone, its records need
/// no name; but those of others must not be read as its own.
fn of_streams(lane: &Lane, can: &BTreeSet<String>) -> BTreeMap<String, String> {
    let read = lane.partitions.iter().filter(|partition| partition.stream != STREAM);
    let named = read.filter_map(|partition| {
        let input = lane.inputs.get(partition.input as usize)?;
        Some((partition.stream.clone(), input.name.clone()))
    });
    let (present, left): (Vec<_>, Vec<_>) = named.partition(|(_, input)| can.contains(input));
    let mut of_streams: BTreeMap<String, String> = left.into_iter().collect();
    for (stream, input) in present {
        match can.len() {
            1 => drop(of_streams.remove(&stream)),
            _ => drop(of_streams.insert(stream, input)),
        }
    }
    of_streams
}

/// Whether the schemas of the records come from a registry or from the brokers of Pulsar, and are fetched for those that the input's own source hands out.
fn fetches_schemas(input: &Input<'_>) -> bool {
    let format = &input.source.format;
    format.avro().is_some_and(|avro| avro.registry.is_some())
        || format.protobuf().is_some_and(|protobuf| protobuf.registry.is_some())
        || format.is_of_the_source()
}

#[cfg(test)]
mod tests;
