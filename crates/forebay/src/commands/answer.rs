//! `forebay answer`: the operator's word on an insert in doubt.
//!
//! Owns the command line and what it prints. Does not own when an answer is taken (`engine::answer`).

use std::fmt::Write as _;
use std::sync::Arc;

use clap::Args;
use dataflow::Runtime;
use engine::answer::{AnswerError, Request};
use engine::{Status, TokioRuntime};
use pipeline::config::model::Pipeline;
use pipeline::wiring;
use protocol::doubt::Verdict;

use crate::console::{self, Exit, PipelineFile, print};

/// Answers the question that a pipeline asked when it stopped with code 4: are the rows of an insert in the table?
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay status user-events.yaml                             # shows the questions
  forebay answer user-events.yaml --frame 3f0c…9a --present   # the rows are there: do not send them again
  forebay answer user-events.yaml --frame 3f0c…9a --absent    # they are not: send them
  forebay answer user-events.yaml --all --absent

The answer is written to the pipeline's journal, and the next `forebay run` continues with it. A process that asked about one table and still \
writes the others need not be stopped: it takes the answer up by itself within seconds.

Exit codes: 0; 2 if there is no such question, or for an error in the file; 3 if another process has taken over the pipeline since the \
question; 1 if it is too early for --absent, or the journal cannot be written: give the same answer again; 4 if the journal is damaged or the \
pipeline has another name.")]
#[command(group(clap::ArgGroup::new("which").required(true).args(["frame", "all"])))]
#[command(group(clap::ArgGroup::new("verdict").required(true).args(["present", "absent"])))]
pub struct Answer {
    #[command(flatten)]
    file: PipelineFile,

    /// The id of the frame in question, as shown by the message and by `status`; may be given more than once.
    #[arg(long, value_name = "ID")]
    frame: Vec<String>,

    /// Gives the same answer to every open question.
    #[arg(long)]
    all: bool,

    /// The rows are in the table (and in the targets of its views): do not send them again.
    #[arg(long)]
    present: bool,

    /// None of the rows is in the table, and none is on its way: send them under a new token.
    #[arg(long)]
    absent: bool,

    /// Answers even if another process has claimed the pipeline since the question; if that process is running, it opens the pipeline again and
    /// continues with the answer.
    #[arg(long)]
    take_over: bool,
}

impl Answer {
    /// Runs the command.
    ///
    /// # Errors
    /// When the store or the journal cannot be used.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some(pipeline) = super::load(&self.file.file)? else { return Ok(Exit::Fault) };
        let verdict = if self.present { Verdict::Present } else { Verdict::Absent };
        match super::runtime()?.block_on(self.answer(&pipeline, verdict))? {
            Ok(frames) => {
                let mut text = String::new();
                let word = if self.present { "present" } else { "absent" };
                for frame in frames {
                    writeln!(text, "frame {frame}: {word}")?;
                }
                writeln!(
                    text,
                    "written to the journal; a process that still writes other tables continues by itself, otherwise start the pipeline again"
                )?;
                print(&text)
            }
            Err(error) => Ok(refuse(&error)),
        }
    }

    async fn answer(
        &self,
        pipeline: &Pipeline,
        verdict: Verdict,
    ) -> anyhow::Result<Result<Vec<String>, AnswerError>> {
        let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
        let store = wiring::storage::open(pipeline, &*runtime, &Status::default()).await?;
        let folder = wiring::lane_folder(pipeline);
        let request = Request {
            frames: self.frame.clone(),
            verdict,
            by: wiring::owner(),
            take_over: self.take_over,
            insert_time_max: pipeline.sink.clickhouse.timeout.duration(),
        };
        Ok(engine::answer::answer(store, runtime, &folder, &request).await)
    }
}

/// Says why an answer was not taken.
fn refuse(error: &AnswerError) -> Exit {
    console::refuse(error);
    match error {
        AnswerError::NotOpen { .. } => Exit::Fault,
        // The same line is right a little later.
        AnswerError::TooEarly { .. } => Exit::Failed,
        AnswerError::Claimed => Exit::Fenced,
        AnswerError::Engine(error) => super::run::exit_of(error),
    }
}
