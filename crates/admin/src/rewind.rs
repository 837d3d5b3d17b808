//! Where a stopped pipeline is moved to: words, times and positions, as the partitions of its inputs.
//!
//! Owns what `earliest`, `latest`, a time and positions lead to, and which partitions are meant. Does not own the conditions under which
//! partitions are moved, nor the record (`engine::rewind`).
//!
//! | the word                 | Kafka                                          | files                          |
//! |--------------------------|------------------------------------------------|--------------------------------|
//! | `earliest`               | the oldest record that is still held           | the file's beginning           |
//! | `latest`                 | behind the newest record                       | the file's end                 |
//! | a time in RFC 3339       | the first record at or after it, by the broker | refused: files know no times   |
//! | `topic/partition=offset` | there, if it is still held                     | refused: positions are bytes, and one may lie within a record |

use dataflow::position;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Partition, PartitionStart, Position, ReadFrom, Runtime, Source, Streams};
use engine::inputs::Inlet;
use engine::rewind::Target;
use pipeline::config::model::source::LogStart;
use pipeline::config::model::{Input, Pipeline};
use pipeline::config::values::Start;
use pipeline::{replays, wiring};
use protocol::Lane;

/// The place that partitions are moved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// The oldest record, the newest one, or a time.
    Start(Start),
    /// These positions: stream, partition, position.
    Positions(Vec<(String, u32, Position)>),
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('=') {
            return text.parse().map(Self::Start).map_err(|_| {
                format!("`{text}` is neither `earliest`, `latest`, a time like `2026-01-31T08:00:00Z`, nor positions like `orders/0=1200,orders/1=900`")
            });
        }
        let place = |text: &str| {
            let (partition, position) = text.split_once('=')?;
            let (stream, index) = partition.rsplit_once('/').filter(|(stream, _)| !stream.is_empty())?;
            Some((stream.to_owned(), index.parse().ok()?, position::parse(position)?))
        };
        let parse = |text: &str| {
            place(text).ok_or(format!("`{text}` is no position; write `topic/partition=offset`"))
        };
        text.split(',').map(parse).collect::<Result<_, _>>().map(Self::Positions)
    }
}

impl To {
    /// Whether a partition that is meant is moved: positions name those that are.
    fn moves(&self, p: &Partition) -> bool {
        match self {
            Self::Start(_) => true,
            Self::Positions(positions) => {
                positions.iter().any(|(stream, index, _)| *p.stream == **stream && p.index == *index)
            }
        }
    }
}

/// Which partitions are meant; all if nothing is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Only those of this input.
    pub input: Option<String>,
    /// Only those of these streams: topics or files.
    pub streams: Vec<String>,
    /// Only these.
    pub partitions: Vec<(String, u32)>,
}

impl Chosen {
    fn means(&self, lane: &Lane, p: &Partition) -> bool {
        let input = lane.inputs.get(p.input as usize).map(|input| &input.name);
        let is_named = self.streams.is_empty() && self.partitions.is_empty()
            || self.streams.iter().any(|stream| **stream == *p.stream)
            || self.partitions.iter().any(|(stream, index)| **stream == *p.stream && *index == p.index);
        is_named && self.input.as_ref().is_none_or(|own| Some(own) == input)
    }

    /// What is named and not read.
    fn unknown(&self, read: &[Partition], lane: &Lane) -> Option<String> {
        let input = self.input.iter().find(|name| lane.input(name).is_none());
        let is_read = |stream: &str| read.iter().any(|p| &*p.stream == stream);
        let stream = self.streams.iter().find(|stream| !is_read(stream));
        let is_there = |(stream, index): &&(String, u32)| {
            read.iter().any(|p| *p.stream == **stream && p.index == *index)
        };
        let partition = self.partitions.iter().find(|partition| !is_there(partition));
        input.or(stream).cloned().or_else(|| partition.map(|(stream, index)| format!("{stream}/{index}")))
    }
}

/// The inputs of which partitions are meant, but which are no longer in the pipeline file: nobody can say where they are to be read on.
pub fn left_out(pipeline: &Pipeline, lane: &Lane, chosen: &Chosen) -> Vec<String> {
    let in_file = pipeline.inputs();
    let is_meant = |number: usize| {
        lane.reading()
            .filter(|(_, p)| p.input as usize == number && p.stream != replays::STREAM)
            .any(|(_, p)| chosen.means(lane, &Partition::new(p.stream.as_str(), p.index).of_input(p.input)))
    };
    let all = lane.inputs.iter().enumerate().map(|(number, input)| (number, &input.name));
    let gone = all.filter(|(_, name)| in_file.iter().all(|input| input.name != **name));
    gone.filter(|(number, _)| is_meant(*number)).map(|(_, name)| name.clone()).collect()
}

/// Where the partitions that are meant are to be read on.
///
/// # Errors
/// When the source cannot be asked, or the words lead nowhere there.
pub async fn targets(
    pipeline: &Pipeline,
    lane: &Lane,
    to: &To,
    chosen: &Chosen,
    runtime: &Arc<dyn Runtime>,
) -> anyhow::Result<Vec<Target>> {
    let read: Vec<Partition> = lane
        .reading()
        .filter(|(_, p)| p.stream != replays::STREAM)
        .map(|(_, p)| Partition::new(p.stream.as_str(), p.index).of_input(p.input))
        .collect();
    if let Some(unknown) = chosen.unknown(&read, lane) {
        let all: Vec<String> = read.iter().map(|p| format!("`{p}`")).collect();
        bail!(
            "this pipeline does not read `{unknown}`; it reads {}",
            if all.is_empty() { "nothing".into() } else { all.join(", ") }
        );
    }
    let meant: Vec<Partition> = read.into_iter().filter(|p| chosen.means(lane, p)).collect();
    // Where others are moved as well, the caller says what stays.
    let left_out = left_out(pipeline, lane, chosen);
    let of_left_out = |p: &Partition| left_out.iter().find(|name| lane.input(name) == Some(p.input));
    let moved = meant.iter().filter(|p| to.moves(p)).map(of_left_out).collect::<Option<Vec<_>>>();
    if let Some(name) = moved.iter().flatten().next() {
        bail!(
            "input `{name}` is no longer in the pipeline file, so it is not read and cannot be moved: put it back into the file, or remove it from \
             the journal with `forebay forget FILE --input {name}`"
        );
    }
    let sources = sources(pipeline, lane, to, runtime)?;
    let mut targets = Vec::new();
    for (number, source) in sources {
        let own = moved_of(&meant, number, to);
        if !own.is_empty() {
            targets.append(&mut of_input(lane, &*source, to, &own).await?);
        }
    }
    if let To::Positions(positions) = to {
        let is_known = |(stream, index, _): &&(String, u32, Position)| {
            meant.iter().any(|p| *p.stream == **stream && p.index == *index)
        };
        if let Some((stream, index, _)) = positions.iter().find(|position| !is_known(position)) {
            bail!("this pipeline does not read `{stream}/{index}`");
        }
    }
    Ok(targets)
}

/// The partitions of an input that are moved. Of the others the source is not asked: it may know no positions, or not have them at the moment.
fn moved_of<'p>(meant: &'p [Partition], input: u32, to: &To) -> Vec<&'p Partition> {
    meant.iter().filter(|p| p.input == input && to.moves(p)).collect()
}

/// The source of each input, asked for the start that is meant.
fn sources(
    pipeline: &Pipeline,
    lane: &Lane,
    to: &To,
    runtime: &Arc<dyn Runtime>,
) -> anyhow::Result<Vec<(u32, Arc<dyn Source>)>> {
    let mut sources = Vec::new();
    for input in pipeline.inputs() {
        let Some(number) = lane.input(input.name) else { continue };
        let mut asked = input.source.clone();
        if let (Some(kafka), To::Start(start)) = (&mut asked.kafka, to) {
            kafka.start = *start;
        }
        if let (Some(pulsar), To::Start(start)) = (&mut asked.pulsar, to) {
            pulsar.start = *start;
        }
        if let (Some(log), To::Start(start)) = (&mut asked.log, to) {
            log.start = match start {
                Start::Latest => LogStart::Latest,
                Start::Earliest | Start::At { .. } => LogStart::Earliest,
            };
        }
        let asked = Input { source: &asked, ..input };
        let inlet = Inlet::new(number, asked.name, wiring::source::source(pipeline, &asked, runtime)?, false);
        sources.push((number, inlet.source.clone()));
    }
    Ok(sources)
}

async fn of_input(
    lane: &Lane,
    source: &dyn Source,
    to: &To,
    own: &[&Partition],
) -> anyhow::Result<Vec<Target>> {
    match (source.streams(), to) {
        (Streams::Topics, _) | (_, To::Start(Start::Earliest | Start::Latest)) => {}
        // The number of a record always stands at its beginning.
        (Streams::Logs, To::Positions(_)) => {}
        (Streams::Logs, To::Start(Start::At { .. })) => {
            bail!("this source knows no times: use `--to earliest`, `--to latest` or a position")
        }
        (Streams::Files | Streams::Others, To::Start(Start::At { .. }) | To::Positions(_)) => bail!(
            "this source knows no times, and its positions may lie within a record: use `--to earliest` or `--to latest`"
        ),
    }
    let known: Vec<ReadFrom> = lane
        .reading()
        .filter_map(|(_, p)| {
            let partition = Partition::new(p.stream.as_str(), p.index).of_input(p.input);
            own.contains(&&partition).then(|| ReadFrom {
                partition,
                identity: p.identity.clone(),
                next: p.next,
                leader_epoch: NO_LEADER_EPOCH,
            })
        })
        .collect();
    let mut shown = source.partitions().await?;
    if matches!(source.streams(), Streams::Topics) {
        // Of others, which are not moved, nothing is to be said: beside these alone they would look like ones that came since.
        shown.retain(|start| own.contains(&&start.partition));
    }
    let shown = source.recognize(shown, known).await?;
    let ends: BTreeMap<Partition, Position> = source.ends().await?.into_iter().collect();
    let mut targets = Vec::new();
    for partition in own {
        let start = shown.iter().find(|start| start.partition == **partition);
        let start = start.with_context(|| {
            format!("the source has no `{partition}` at the moment, so it cannot be moved")
        })?;
        let end = ends.get(*partition).copied();
        let Some(target) = target(start, end, to)? else { continue };
        targets.push(target);
    }
    Ok(targets)
}

/// Where one partition is to be read on; `None` if the words do not name it.
fn target(start: &PartitionStart, end: Option<Position>, to: &To) -> anyhow::Result<Option<Target>> {
    let partition = start.partition.clone();
    let at = |next, leader_epoch| Ok(Some(Target { partition: partition.clone(), next, leader_epoch }));
    match to {
        To::Start(Start::Earliest) => at(start.first, NO_LEADER_EPOCH),
        To::Start(Start::At { .. }) => at(start.next, start.leader_epoch),
        To::Start(Start::Latest) => at(
            end.with_context(|| format!("the end of `{partition}` is known only once it was read"))?,
            NO_LEADER_EPOCH,
        ),
        To::Positions(positions) => {
            let is_named = |(stream, index, _): &&(String, u32, Position)| {
                **stream == *partition.stream && *index == partition.index
            };
            let Some((.., next)) = positions.iter().find(is_named) else { return Ok(None) };
            let held = start.first..=end.unwrap_or(Position::MAX);
            ensure!(
                held.contains(next),
                "`{partition}` has positions from {} to {}, and {} is not among them",
                position::shown(*held.start()),
                position::shown(*held.end()),
                position::shown(*next)
            );
            at(*next, NO_LEADER_EPOCH)
        }
    }
}

#[cfg(test)]
mod tests;
