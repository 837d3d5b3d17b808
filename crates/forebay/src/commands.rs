//! What each command does.
//!
//! Owns one module a command, and what they share: loading a pipeline file and the tokio runtime. Does not own what a command does beyond
//! its words and its exit code (`admin`, `engine`, `pipeline`), nor the list of commands with their help ([`crate::cli`]).

/// What the help of the commands says that refuse while a process runs the pipeline.
macro_rules! running_means {
    () => {
        "A process counts as running if it answers at `http.listen` on this machine, or writes to the journal within 3 s. A process that is idle or \
         suspended, and cannot be asked from this machine, is not noticed: the command continues, and that process writes nothing more and ends with \
         code 3."
    };
}

pub mod answer;
pub mod check;
#[cfg(feature = "development")]
pub mod clickhouse;
pub mod dead_letters;
#[cfg(feature = "development")]
pub mod demo;
pub mod explain;
pub mod forget;
pub mod gateway;
#[cfg(feature = "development")]
pub mod generate;
pub mod log;
pub mod otel_tables;
pub mod pipelines;
pub mod place;
pub mod plan;
pub mod rename;
pub mod rewind;
pub mod run;
pub mod status;
pub mod store;
pub mod try_out;
pub mod verify;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pipeline::config::faults::Faults;
use pipeline::config::model::Pipeline;
use pipeline::config::values::reference::Surroundings;
use pipeline::config::{self, Checked};
use pipeline::wiring::WiringError;

use crate::console::{self, Exit, Mistake};

/// Loads a pipeline file, enters its folder, and writes its faults and hints to stderr; `None` if it has faults.
///
/// # Errors
/// When the file cannot be read, which is a [`Mistake`].
pub fn load(file: &Path) -> anyhow::Result<Option<Pipeline>> {
    place::leave()?;
    let text = config::load(file).map_err(Mistake::of)?;
    Ok(loaded(file, &text)?.map(|(pipeline, _)| pipeline))
}

/// Where what a fault is about stands in a pipeline file.
#[derive(Debug)]
pub struct Places {
    file: PathBuf,
    checked: Checked,
}

impl Places {
    /// `message` with the place of `path`, at this byte of its text if that is known, as `check` writes it.
    pub fn said(&self, path: &str, at: Option<usize>, message: &str) -> String {
        let mut faults = Faults::default();
        faults.fault(self.checked.place_in(path, at), path, message);
        faults.render(&self.file.display().to_string()).trim_end().to_owned()
    }

    /// What `error` says, each fault of a step with its place.
    pub fn of(&self, error: &WiringError) -> String {
        let WiringError::Steps(faults) = error else { return error.to_string() };
        let said = |fault: &pipeline::plan::Fault| {
            self.said(&fault.path, fault.at.as_ref().map(|at| at.start), &fault.to_string())
        };
        faults.iter().map(said).collect::<Vec<_>>().join("\n")
    }
}

/// As [`load`], with the places of the file.
///
/// # Errors
/// When the file cannot be read.
pub fn load_with_places(file: &Path) -> anyhow::Result<Option<(Pipeline, Places)>> {
    place::leave()?;
    let text = config::load(file).map_err(Mistake::of)?;
    let placed = |checked| Places { file: file.to_owned(), checked };
    Ok(loaded(file, &text)?.map(|(pipeline, checked)| (pipeline, placed(checked))))
}

/// As [`load`], with the places of the file for [`refuse`].
///
/// # Errors
/// When the file cannot be read.
pub fn load_to_plan(file: &Path) -> anyhow::Result<Option<(Pipeline, Checked)>> {
    place::leave()?;
    let text = config::load(file).map_err(Mistake::of)?;
    loaded(file, &text)
}

/// Writes the faults of steps that do not fit the tables, with their places, as `check` does.
///
/// # Errors
/// When standard error cannot be written.
pub fn refuse(file: &Path, checked: &Checked, found: &[pipeline::plan::Fault]) -> anyhow::Result<Exit> {
    let mut faults = Faults::default();
    for fault in found {
        let at = checked.place_in(&fault.path, fault.at.as_ref().map(|at| at.start));
        faults.fault(at, fault.path.as_str(), fault.to_string());
    }
    let shown = faults.render(&file.display().to_string());
    std::io::stderr().write_all(shown.as_bytes()).context("cannot write to standard error")?;
    Ok(Exit::Fault)
}

fn loaded(file: &Path, text: &str) -> anyhow::Result<Option<(Pipeline, Checked)>> {
    if config::is_gateway(text) {
        let file = place::quoted(file);
        return Err(Mistake::of(anyhow::anyhow!(
            "`{file}` is a gateway file, not a pipeline file; `forebay gateway {file}` runs it, and `forebay check {file}` checks it"
        )));
    }
    place::enter(file)?;
    let mut checked = config::check(text, &Surroundings::of_process());
    console::tell(&checked.faults.render(&file.display().to_string()));
    if let Some(why) = checked.pipeline.as_ref().map(place::store_elsewhere).transpose()?.flatten() {
        console::say(&format!("{}: {why}", file.display()));
        return Ok(None);
    }
    Ok(checked.pipeline.take().map(|pipeline| (pipeline, checked)))
}

/// The JSON Schema of pipeline files, as it is published.
pub fn schema_text() -> String {
    let schema = config::schema::pipeline_schema();
    let mut text = serde_json::to_string_pretty(&schema).expect("a JSON value has a text");
    text.push('\n');
    text
}

/// The JSON Schema of a gateway's file, as it is published.
pub fn gateway_schema_text() -> String {
    let schema = config::schema::gateway_schema();
    let mut text = serde_json::to_string_pretty(&schema).expect("a JSON value has a text");
    text.push('\n');
    text
}

/// The tokio runtime of a command.
///
/// # Errors
/// When the system gives no threads.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the threads that wait for sockets")
}
