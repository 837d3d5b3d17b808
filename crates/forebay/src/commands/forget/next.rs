//! What the next run does with streams that are forgotten.
//!
//! Owns the comparison of what leaves with what the pipeline file names now, and the words for it. Does not own what is recorded, nor where a stream that
//! comes back begins (`engine::forget`).
//!
//! | the pipeline file names                          | the next run                                                          |
//! |--------------------------------------------------|-----------------------------------------------------------------------|
//! | the stream, in the input that read it            | continues where it was left                                           |
//! | the same, and it is a topic without an identity  | reads it from where `start` says: its rows are in the table twice     |
//! | the stream, in another input that has not read it | reads it as a new one: its rows are in the table twice                |
//! | the file, under a name that was not read         | the same                                                              |
//! | neither                                          | reads nothing of it                                                   |

use std::sync::Arc;

use dataflow::source::Streams;
use dataflow::{Partition, PartitionStart, Runtime, Source};
use engine::TokioRuntime;
use engine::forget::Leaving;
use pipeline::config::model::Pipeline;
use pipeline::wiring;
use protocol::Lane;
use sources::file::{self, Node};

/// What becomes of a stream that is forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is read on.
    Continues {
        /// The stream.
        stream: String,
    },
    /// It is read from where `start` says, since nothing tells it from a topic that was created again under its name.
    Anew {
        /// The stream.
        stream: String,
    },
    /// An input that has not read it reads it from where `start` says.
    OtherInput {
        /// The stream.
        stream: String,
        /// The input that has read it.
        was: String,
        /// The one that names it now.
        is: String,
    },
    /// A file is read from its beginning, since it has another name now.
    OtherName {
        /// The name that it was read under.
        was: String,
        /// The name that it has now.
        is: String,
    },
}

/// An input as the pipeline file has it now.
struct Input {
    name: String,
    /// Its number in the lane, if that has read any of it.
    number: Option<u32>,
    source: Arc<dyn Source>,
    /// The names of the files that it shows; none if it shows no files, or could not be asked.
    files: Vec<(Node, String)>,
}

impl Next {
    /// Whether rows that are in the table are written once more.
    pub(super) fn doubles(&self) -> bool {
        match self {
            Self::Continues { .. } => false,
            Self::Anew { .. } | Self::OtherInput { .. } | Self::OtherName { .. } => true,
        }
    }

    /// What to do instead, as long as nothing is forgotten.
    pub(super) fn way_out(&self) -> String {
        match self {
            Self::Continues { .. } => String::new(),
            Self::Anew { stream } => format!(
                "To go on where it stopped, do not forget it. To read it from its beginning instead, run `forebay reset FILE --to earliest --topic {}`",
                files::names::quoted(stream)
            ),
            Self::OtherInput { was, .. } => {
                format!("To go on where it stopped, do not forget it: name the input `{was}` again")
            }
            Self::OtherName { was, .. } => {
                format!("To go on where it stopped, do not forget it: let `paths` name `{was}` too")
            }
        }
    }

    /// What the next run does, if the positions are forgotten too (`from_start`) or not.
    pub(super) fn told(&self, from_start: bool) -> String {
        let twice =
            "and rows of it that are in the table are written a second time unless `dedup` knows them";
        match self {
            Self::Continues { stream } if from_start => format!(
                "`{stream}` is still in the pipeline file: the next run reads it from the position that `start` names, unless it is removed from the file"
            ),
            Self::Continues { stream } => format!(
                "`{stream}` is still in the pipeline file: the next run continues reading it where the last one stopped (or from the position that \
                 `start` names if it was deleted and created again), unless it is removed from the file"
            ),
            Self::Anew { stream } => format!(
                "`{stream}` is still in the pipeline file, and no id tells whether it was deleted and created again: unless it is removed from the file, the \
                 next run reads it from the position that `start` names. If it is the same topic, what was not read yet before that position is skipped, {twice}"
            ),
            Self::OtherInput { stream, was, is } => format!(
                "`{stream}` is in the pipeline file as a stream of input `{is}`, which does not know what input `{was}` has read: the next run reads it \
                 from the position that `start` names, {twice}"
            ),
            Self::OtherName { was, is } => format!(
                "`{is}` is the file that was read as `{was}`, under another name: the next run reads it from its beginning, {twice}"
            ),
        }
    }
}

/// What becomes of all that leaves, each stream once.
///
/// # Errors
/// When a source of the pipeline file cannot be made.
pub(super) async fn of(pipeline: &Pipeline, lane: &Lane, leaving: &Leaving) -> anyhow::Result<Vec<Next>> {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let mut inputs = Vec::new();
    for input in pipeline.inputs() {
        let source = wiring::source::source(pipeline, &input, &runtime)?;
        let files = match source.streams() {
            Streams::Files => source.partitions().await.map(named).unwrap_or_default(),
            Streams::Topics | Streams::Logs | Streams::Others => Vec::new(),
        };
        inputs.push(Input { name: input.name.to_owned(), number: lane.input(input.name), source, files });
    }
    let mut all = Vec::new();
    for Partition { input, stream, index } in leaving.partitions.iter().map(|left| &left.partition) {
        let was = lane.inputs.get(*input as usize).map_or("", |input| &*input.name);
        let identity = lane.partition(*input, stream, *index).map(|at| &*lane.partitions[at].identity);
        let is_read = |input: &Input, stream: &str| is_read(lane, leaving, input, stream);
        all.extend(next((was, stream, identity.unwrap_or_default()), &inputs, &is_read));
    }
    all.dedup();
    Ok(all)
}

/// The files that are shown.
fn named(shown: Vec<PartitionStart>) -> Vec<(Node, String)> {
    let file =
        |start: PartitionStart| Some((file::node(&start.identity)?, start.partition.stream.to_string()));
    shown.into_iter().filter_map(file).collect()
}

/// Whether an input has read a stream, and goes on with it.
fn is_read(lane: &Lane, leaving: &Leaving, input: &Input, stream: &str) -> bool {
    lane.reading().any(|(_, p)| {
        let leaves = |left: &Partition| p.is(left.input, &left.stream, left.index);
        Some(p.input) == input.number
            && p.stream == stream
            && !leaving.partitions.iter().any(|left| leaves(&left.partition))
    })
}

/// What becomes of a partition of `stream` with this identity, which the input `was` has read.
fn next(
    (was, stream, identity): (&str, &str, &str),
    inputs: &[Input],
    is_read: &dyn Fn(&Input, &str) -> bool,
) -> Option<Next> {
    let node = file::node(identity);
    let is_it = |(shown, _): &&(Node, String)| node.is_some_and(|node| node.is(shown));
    let has_it = |input: &Input| input.files.iter().find(is_it).map(|(_, name)| name.clone());
    let own = inputs.iter().find(|input| input.name == was);
    // Its own name first, if it has that still.
    let has_own_name = |input: &Input| input.files.iter().filter(is_it).any(|(_, name)| name == stream);
    if let Some(own) = own.filter(|own| own.source.covers(stream))
        && (has_own_name(own) || has_it(own).is_none_or(|name| is_read(own, &name)))
    {
        let stream = stream.to_owned();
        // As `protocol::lane::forget` has it: only a known identity is known again.
        let is_unknown = identity.is_empty() && own.source.streams() == Streams::Topics;
        return Some(if is_unknown { Next::Anew { stream } } else { Next::Continues { stream } });
    }
    for input in inputs {
        if let Some(is) = has_it(input).filter(|is| *is != *stream && !is_read(input, is)) {
            return Some(Next::OtherName { was: stream.to_owned(), is });
        }
    }
    // A file that has gone is read by nobody.
    let has_it_still = |input: &Input| input.source.streams() != Streams::Files || has_own_name(input);
    let names_it = |input: &&Input| {
        input.name != was && input.source.covers(stream) && !is_read(input, stream) && has_it_still(input)
    };
    let other = inputs.iter().find(names_it)?;
    Some(Next::OtherInput { stream: stream.to_owned(), was: was.to_owned(), is: other.name.clone() })
}

#[cfg(test)]
mod tests;
