//! `forebay rename`: a pipeline gets another name and keeps all that it has read.
//!
//! Owns the command line and what is printed. Does not own the steps (`engine::rename`).

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dataflow::Runtime;
use engine::rename::{Plan, RenameError, Request};
use engine::{Status, TokioRuntime};
use files::names::quoted;
use pipeline::config::model::Pipeline;
use pipeline::config::values::PipelineName;
use pipeline::wiring;
use protocol::lane::rename::Step;
use serde_json::{Value, json};

use super::place;
use crate::console::{self, Exit, PipelineFile, print};
use admin::running;

/// How long the journal must stand still before it counts as nobody's: an owner that works settles within a second.
const QUIET: Duration = Duration::from_secs(3);

/// Renames a pipeline. It keeps its positions, its state and its rows in flight.
#[derive(Debug, Args)]
#[command(after_help = concat!("\
Examples:
  forebay rename user-events.yaml clicks          # prints what would happen
  forebay rename user-events.yaml clicks --yes

Stop the pipeline first, and write the new name into the pipeline file afterwards: under the old name it no longer starts. Nothing is \
read again. If the command is interrupted, nothing is lost: run it again; until then the pipeline starts under neither name.

Exit codes: 0 if the pipeline was renamed; 4 without --yes; 3 if a process runs the pipeline; 2 if the new name cannot be used, or for \
an error in the file.

", running_means!()))]
pub struct Rename {
    #[command(flatten)]
    file: PipelineFile,

    /// The new name.
    #[arg(value_name = "NEW_NAME")]
    to: PipelineName,

    /// Renames the pipeline. Without this option the command only prints what would happen.
    #[arg(long)]
    yes: bool,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Rename {
    /// Runs the command.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some(pipeline) = super::load(&self.file.file)? else { return Ok(Exit::Fault) };
        super::runtime()?.block_on(self.rename(&pipeline))
    }

    async fn rename(&self, pipeline: &Pipeline) -> anyhow::Result<Exit> {
        let (from, to) = (pipeline.pipeline.as_str(), self.to.as_str());
        if running::ask(pipeline).await.is_ok() {
            return refuse(RenameError::Running);
        }
        let Some(store) = wiring::storage::open_to_read(pipeline).await? else {
            return refuse(RenameError::NotThere { name: from.to_owned() });
        };
        let plan = match engine::rename::plan(&*store, from, to, wiring::LANE).await {
            Ok(plan) => plan,
            Err(RenameError::Taken { .. }) if from == to => {
                let value = json!({ "from": from, "to": to, "done": true, "in_flight_inserts": null });
                let words = format!("pipeline `{to}` has this name already\n");
                return print(&if self.json { format!("{value:#}\n") } else { words });
            }
            Err(error) => return refuse(error),
        };
        if !self.yes {
            let file = place::quoted(&self.file.file);
            let words = format!(
                "{}Nothing was changed. To do it: `forebay rename {file} {to} --yes`\n",
                self.words(pipeline, &plan)?
            );
            return self.tell(&plan, false, &words, Exit::Person);
        }
        let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
        let store = wiring::storage::open(pipeline, &*runtime, &Status::default()).await?;
        let request = Request {
            from: from.to_owned(),
            to: to.to_owned(),
            lane: wiring::LANE,
            by: wiring::owner(),
            quiet_min: QUIET,
        };
        match engine::rename::rename(store, runtime, &request).await {
            Ok(done) => self.tell(&done, true, &self.words(pipeline, &plan)?, Exit::Done),
            Err(error) => refuse(error),
        }
    }

    fn words(&self, pipeline: &Pipeline, plan: &Plan) -> anyhow::Result<String> {
        let Plan { from, to, step, inserts } = plan;
        let mut out = String::new();
        // Without `--yes` nothing has happened yet.
        let word = if self.yes { "renamed" } else { "renames" };
        match step {
            Step::Clean => writeln!(out, "done         pipeline `{from}` is called `{to}` already")?,
            Step::Take => writeln!(out, "{word}      pipeline `{from}` to `{to}`")?,
            _ => writeln!(
                out,
                "{word}      pipeline `{from}` to `{to}`, which was begun before and not finished"
            )?,
        }
        writeln!(out, "keeps        positions, state, replay log, dead letters so far")?;
        if *inserts > 0 {
            writeln!(
                out,
                "keeps        {inserts} sealed inserts that wait for the table; the next run delivers them"
            )?;
        }
        writeln!(out, "unchanged    the tables with their rows, and the source")?;
        writeln!(
            out,
            "then         write `pipeline: {to}` into the pipeline file; `{from}` refuses to start from now on"
        )?;
        let inputs = pipeline.inputs();
        let mut kafkas = inputs.iter().filter_map(|input| input.source.kafka.as_ref());
        if kafkas.any(|kafka| kafka.group.is_none()) {
            writeln!(
                out,
                "then         Kafka's consumer group, which only shows the lag, is called `forebay-{to}` from the next run on"
            )?;
        }
        let logs = inputs.iter().filter_map(|input| input.source.log.as_ref());
        for log in logs.filter(|log| log.consumer.is_none()) {
            let url = quoted(&place::address(log.url.as_str()));
            writeln!(
                out,
                "then         the log's consumer is called `{to}` from the next run on; once `forebay log ls {url}` shows it, remove the \
                 earlier one from each partition (`forebay log truncate {url} --forget-consumer {from}`), for the log keeps what it has not acknowledged"
            )?;
        }
        let mut pulsars = inputs.iter().filter_map(|input| input.source.pulsar.as_ref());
        if pulsars.any(|pulsar| pulsar.subscription.is_none()) {
            writeln!(
                out,
                "then         Pulsar's subscription, which only shows the lag, is called `forebay-{to}` from the next run on; delete \
                 `forebay-{from}`, for brokers keep what it has not acknowledged"
            )?;
        }
        Ok(out)
    }

    fn tell(&self, plan: &Plan, done: bool, words: &str, exit: Exit) -> anyhow::Result<Exit> {
        let value: Value =
            json!({ "from": plan.from, "to": plan.to, "done": done, "in_flight_inserts": plan.inserts });
        print(&if self.json { format!("{value:#}\n") } else { words.to_owned() })?;
        Ok(exit)
    }
}

/// Says why nothing was renamed.
fn refuse(error: RenameError) -> anyhow::Result<Exit> {
    let exit = match &error {
        RenameError::NotThere { .. } | RenameError::Taken { .. } | RenameError::Elsewhere { .. } => {
            Exit::Fault
        }
        RenameError::Running => Exit::Fenced,
        RenameError::Engine(error) => super::run::exit_of(error),
    };
    console::refuse(error);
    Ok(exit)
}

#[cfg(test)]
mod tests;
