//! `forebay forget`: a topic, partition or file leaves a pipeline.
//!
//! Owns the command line, the question on the terminal and what is printed. Does not own when a stream is forgotten (`engine::forget`), nor what the next
//! run does with it ([`next`]).

mod next;

use dataflow::{Partition, position, printing};
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dataflow::Runtime;
use engine::forget::{ForgetError, Leaving, Left, Named, Request};
use engine::{Status, TokioRuntime};
use pipeline::config::model::Pipeline;
use pipeline::replays;
use pipeline::wiring;

use self::next::Next;
use crate::console::{self, Exit, PipelineFile, print, say};
use admin::dead_letters::replays_waiting;
use admin::running;

/// How long the journal must stand still before it counts as nobody's: an owner that works settles within a second.
const QUIET: Duration = Duration::from_secs(3);

/// Removes topics, partitions or files from a pipeline.
#[derive(Debug, Args)]
#[command(after_help = concat!("\
Examples:
  forebay forget user-events.yaml --topic orders
  forebay forget user-events.yaml --topic orders --topic returns --yes
  forebay forget user-events.yaml --partition orders/3 --from-start
  forebay forget user-events.yaml --file /var/log/events-2026-10.jsonl

Stop the pipeline first, and remove the topic or file from the pipeline file. Rows that are already sealed are delivered by the next \
run. The position is remembered: if the same topic or file is added again to the same input, reading continues where it stopped. An input or a file that has \
another name now is read as a new one, and so is a topic that has no id (of Pulsar, or of an old Kafka); the command says so before it asks. With --from-start the \
position is forgotten too: reading then begins where `start` says (`latest` skips what was not read yet), and rows that are already in the table are written a second time, \
unless `dedup` still knows their keys.

Exit codes: 0; 2 if the pipeline does not read what is named, or if the command cannot ask for confirmation (no terminal, no --yes); \
3 if a process runs the pipeline; 1 if the store cannot be read or written, or you did not confirm; 4 if the journal is damaged, the pipeline has another \
name, or replayed dead letters wait to be read.

", running_means!()))]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["topic", "partition", "files", "stream", "input"])))]
pub struct Forget {
    #[command(flatten)]
    pipeline: PipelineFile,

    /// A topic with all its partitions; may be given more than once.
    #[arg(long, value_name = "NAME")]
    topic: Vec<String>,

    /// One partition of a topic.
    #[arg(long, value_name = "TOPIC/NUMBER", value_parser = partition)]
    partition: Vec<Named>,

    /// A file, by the path that `forebay status` shows.
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,

    /// A stream of any source, by the name that `forebay status` shows.
    #[arg(long, value_name = "NAME")]
    stream: Vec<String>,

    /// An input, with all that it reads; with another of these options, the topic, partition, file or stream of this input alone.
    #[arg(long, value_name = "NAME")]
    input: Option<String>,

    /// Also forgets the positions: if the topic or file is added again, it is read from where `start` says.
    #[arg(long)]
    from_start: bool,

    /// Takes over a pipeline that is running; its process stops with code 3.
    #[arg(long)]
    take_over: bool,

    /// Does not ask for confirmation.
    #[arg(long)]
    yes: bool,
}

impl Forget {
    /// Runs the command.
    ///
    /// # Errors
    /// When the store or the journal cannot be used.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some(pipeline) = super::load(&self.pipeline.file)? else { return Ok(Exit::Fault) };
        super::runtime()?.block_on(self.forget(&pipeline))
    }

    async fn forget(&self, pipeline: &Pipeline) -> anyhow::Result<Exit> {
        let named = self.named();
        let folder = wiring::lane_folder(pipeline);
        if named.iter().any(|named| named.stream.as_deref() == Some(replays::STREAM)) {
            console::refuse(format_args!(
                "`{}` holds replayed dead letters and cannot be forgotten",
                replays::STREAM
            ));
            return Ok(Exit::Fault);
        }
        let Some(store) = wiring::storage::open_to_read(pipeline).await? else {
            console::refuse(format_args!(
                "pipeline `{}` has never run with this store, so there is nothing to forget",
                pipeline.pipeline
            ));
            return Ok(Exit::Fault);
        };
        let lane = match engine::journal::load(&*store, &folder).await {
            Ok(lane) => lane,
            Err(error) => return Ok(refuse(&error.into())),
        };
        let leaving = match engine::forget::leaving(&lane, &named) {
            Ok(leaving) => leaving,
            Err(error) => return Ok(refuse(&error)),
        };
        if !self.take_over && running::ask(pipeline).await.is_ok() {
            return Ok(refuse(&ForgetError::Running));
        }
        let waiting = replays_waiting(&store, &folder, &lane).await?;
        if let Some(why) = refused_for_replays(waiting, self.from_start, &leaving) {
            console::refuse(why);
            return Ok(Exit::Person);
        }
        let next = next::of(pipeline, &lane, &leaving).await?;
        say(self.announced(pipeline, &leaving, &next)?.trim_end());
        if !self.yes && !std::io::stdin().is_terminal() {
            say("forebay: this is not a terminal, so nobody can confirm; `--yes` forgets them");
            return Ok(Exit::Fault);
        }
        if !self.yes && !is_confirmed()? {
            say("nothing was forgotten");
            return Ok(Exit::Failed);
        }
        let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
        let store = wiring::storage::open(pipeline, &*runtime, &Status::default()).await?;
        let request = Request {
            named,
            from_start: self.from_start,
            by: wiring::owner(),
            take_over: self.take_over,
            quiet_min: QUIET,
        };
        match engine::forget::forget(store, runtime, &folder, &request).await {
            Ok(leaving) => print(&self.told(&leaving, &next)?),
            Err(error) => Ok(refuse(&error)),
        }
    }

    fn named(&self) -> Vec<Named> {
        let whole = self.topic.iter().chain(&self.files).chain(&self.stream);
        let whole = whole.map(|stream| Named {
            input: self.input.clone(),
            stream: Some(stream.clone()),
            index: None,
        });
        let partitions =
            self.partition.iter().map(|named| Named { input: self.input.clone(), ..named.clone() });
        let mut named: Vec<Named> = whole.chain(partitions).collect();
        if named.is_empty() {
            named.extend(self.input.iter().map(|input| Named {
                input: Some(input.clone()),
                stream: None,
                index: None,
            }));
        }
        named
    }

    /// What the person is asked about.
    fn announced(&self, pipeline: &Pipeline, leaving: &Leaving, next: &[Next]) -> anyhow::Result<String> {
        let mut text = String::new();
        writeln!(text, "pipeline `{}` will read no more of:", pipeline.pipeline)?;
        for left in &leaving.partitions {
            let (name, at) = (shown(&left.partition), position::shown(left.next));
            let kept = if is_log(left) { "; this position is kept" } else { "" };
            writeln!(text, "  {name} (read up to position {at}{kept})")?;
        }
        if leaving.inserts > 0 {
            writeln!(
                text,
                "{} sealed inserts wait for the table; rows of these are delivered by the next run",
                leaving.inserts
            )?;
        }
        if self.from_start {
            writeln!(
                text,
                "their positions are forgotten too: added again, they are read from where `start` says, and rows that are in the table \
                 already are written a second time unless `dedup` knows them"
            )?;
        }
        for next in next.iter().filter(|next| next.doubles()) {
            writeln!(text, "{}. {}", next.told(self.from_start), next.way_out())?;
        }
        Ok(text)
    }

    fn told(&self, leaving: &Leaving, next: &[Next]) -> anyhow::Result<String> {
        let mut text = String::new();
        for left in &leaving.partitions {
            writeln!(
                text,
                "{}: forgotten at position {}",
                shown(&left.partition),
                position::shown(left.next)
            )?;
        }
        for next in next {
            writeln!(text, "{}", next.told(self.from_start))?;
        }
        Ok(text)
    }
}

fn partition(text: &str) -> Result<Named, String> {
    let (stream, index) =
        text.rsplit_once('/').filter(|(stream, _)| !stream.is_empty()).ok_or("write it as `topic/number`")?;
    let index = index.parse().map_err(|_| format!("`{index}` is no partition's number"))?;
    Ok(Named { input: None, stream: Some(stream.to_owned()), index: Some(index) })
}

fn is_log(left: &Left) -> bool {
    *left.partition.stream == *replays::STREAM
}

/// Why nothing is forgotten while so many records of dead letters wait to be replayed; `None` if they do not matter.
fn refused_for_replays(waiting: u64, from_start: bool, leaving: &Leaving) -> Option<String> {
    let means = match leaving.partitions.iter().any(is_log) {
        _ if waiting == 0 => return None,
        true => "would wait until this input is read again, because they are read through it",
        false if from_start => "may be of records that are read a second time from where `start` says",
        false => return None,
    };
    Some(format!(
        "{waiting} records of dead letters wait to be replayed, and {means}, so nothing was forgotten. Deliver them first: `forebay run FILE --drain`, or \
         `forebay dead-letters replay FILE` if the source cannot be read"
    ))
}

/// On one line, whatever a file is called.
fn shown(partition: &Partition) -> String {
    printing::escaped(&partition.to_string(), usize::MAX).into_owned()
}

/// Asks on the terminal.
fn is_confirmed() -> anyhow::Result<bool> {
    let mut err = std::io::stderr().lock();
    err.write_all(b"forget them? [y/N] ")
        .and_then(|()| err.flush())
        .context("cannot write to standard error")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Says why nothing was forgotten.
fn refuse(error: &ForgetError) -> Exit {
    console::refuse(error);
    match error {
        ForgetError::NotRead { .. } => Exit::Fault,
        ForgetError::Running => Exit::Fenced,
        ForgetError::Pending { .. } => Exit::Person,
        ForgetError::Engine(error) => super::run::exit_of(error),
    }
}

#[cfg(test)]
mod tests;
