//! Could a pipeline start now, and what would happen? Asked of the store, the source and the tables. Reads only.
//!
//! Owns the order of the questions, which is that of a start, and what each answer means for it. Does not own the checks themselves:
//! they are those that `run` makes ([`pipeline::wiring`], [`engine::start`]).
//!
//! | module      | asks                                                                            |
//! |-------------|---------------------------------------------------------------------------------|
//! | [`stored`]  | the store: the journal, frames that wait, open questions, the steps' state      |
//! | [`reads`]   | the source: partitions, positions, lag, and some records, decoded               |

mod reads;
mod stored;
mod told;

use std::sync::Arc;

use dataflow::{Remedy, Runtime, Schema, Table, TableFault};
use engine::TokioRuntime;
use engine::change::Composition;
use pipeline::config::model::Pipeline;
use pipeline::config::model::sink::Target;
use pipeline::parts;
use pipeline::plan::Fault;
use pipeline::wiring::listening::Listening;
use pipeline::wiring::{self, WiringError, sink, source};
use protocol::Lane;
use serde_json::{Value, json};

use crate::commands::{explain, run};
use crate::console::Exit;
use admin::plan::{PartitionNow, TableNow};
use admin::running;
use told::Told;

/// Something that stands against a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key of the pipeline file that it is about.
    pub path: String,
    /// What `run` would end with. [`Exit::Failed`] where it would wait.
    pub exit: Exit,
    /// A whole sentence, with the way out.
    pub message: String,
    /// The byte of the key's text at which it is wrong, if that is known.
    pub at: Option<usize>,
}

/// All that was found.
#[derive(Debug, Default)]
pub struct Found {
    /// What stands against a start, in the order in which a start would meet it.
    pub problems: Vec<Problem>,
    /// What would happen, each a whole sentence.
    pub notes: Vec<String>,
    /// The same for programs.
    pub json: Value,
    /// The partitions that a start would read.
    pub partitions: Vec<PartitionNow>,
}

/// What was read on the way, for a comparison.
pub struct Looked {
    /// The journal; `None` if it cannot be read.
    pub lane: Option<Lane>,
    /// What the pipeline is made of; `None` if its steps do not fit the tables, or those cannot be read.
    pub made: Option<Composition>,
    /// The tables for rows.
    pub tables: Vec<TableNow>,
}

impl Found {
    fn problem(&mut self, path: &str, exit: Exit, message: impl Into<String>) {
        let problem = Problem { path: path.to_owned(), exit, message: message.into(), at: None };
        if !self.problems.iter().any(|known| known.message == problem.message) {
            self.problems.push(problem);
        }
    }

    fn wiring(&mut self, path: &str, error: &WiringError) {
        self.problem(path, run::exit_of_wiring(error), error.to_string());
    }

    /// A fault of the steps, at its place in the text.
    fn steps(&mut self, fault: &Fault) {
        self.problem(&fault.path, Exit::Fault, fault.to_string());
        if let (Some(problem), Some(at)) = (self.problems.last_mut(), &fault.at)
            && problem.path == fault.path
        {
            problem.at = Some(at.start);
        }
    }

    fn engine(&mut self, path: &str, error: &engine::EngineError) {
        self.problem(path, run::exit_of(error), error.to_string());
    }

    /// What `run` would end with: with the first of these that the operator must change, for it waits for the others.
    pub fn exit(&self) -> Exit {
        let ends = self.problems.iter().find(|problem| problem.exit != Exit::Failed);
        ends.or(self.problems.first()).map_or(Exit::Done, |problem| problem.exit)
    }
}

/// The tables as they are now.
#[derive(Default)]
struct Tables {
    /// Those that are there and can be used, in the order of the file, the dead letters last.
    open: Vec<Arc<dyn Table>>,
    /// How many there are in the file, the dead letters among them.
    all: usize,
    /// The columns of each table for rows, also of one that would be created; `None` if the steps do not fit them.
    schemas: Option<Vec<Schema>>,
}

/// Asks everything; `sample` records of the source are decoded and shown.
pub async fn look(pipeline: &Pipeline, sample: usize) -> Found {
    ask(pipeline, sample).await.0
}

/// As [`look`] without records, and what was read on the way.
pub async fn look_closer(pipeline: &Pipeline) -> (Found, Looked) {
    let (found, tables, stored) = ask(pipeline, 0).await;
    let made = tables.schemas.as_ref().and_then(|schemas| wiring::steps::chain(pipeline, schemas, 1).ok());
    let made = made.map(|mut chain| Composition::of(&mut chain.steps, parts::of(pipeline)));
    let table = |target: Target| {
        let name = target.clickhouse.full_name();
        let open = tables.open.iter().find(|table| table.name() == name);
        TableNow { name, layout: open.map(|table| table.layout()) }
    };
    let tables = pipeline.targets().into_iter().map(table).collect();
    (found, Looked { lane: stored.map(|stored| stored.lane), made, tables })
}

async fn ask(pipeline: &Pipeline, sample: usize) -> (Found, Tables, Option<stored::Stored>) {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let mut found = Found { json: json!({}), ..Found::default() };
    for input in pipeline.inputs() {
        if let Err(error) = source::source(pipeline, &input, &runtime) {
            found.wiring(&input.path, &error);
        }
    }
    let tables = tables(pipeline, &runtime, &mut found).await;
    lookups(pipeline, &runtime, &mut found).await;
    let stored = stored::look(pipeline, &tables.open, &mut found).await;
    reads::look(pipeline, &runtime, &tables, stored.as_ref(), sample, &mut found).await;
    if let Some(stored) = &stored {
        stored::state(pipeline, tables.schemas.as_deref(), stored, &mut found).await;
    }
    match running::ask(pipeline).await {
        Ok(now) => {
            let phase = now["phase"].as_str().unwrap_or("unknown").to_owned();
            found.notes.push(format!(
                "the pipeline runs on this machine now (phase {phase}): a start takes it over, and that process ends with code 3"
            ));
            found.json["running"] = json!({ "phase": phase });
        }
        Err(_) => {
            found.json["running"] = Value::Null;
            addresses(pipeline, &runtime, &mut found).await;
        }
    }
    found.json["exit"] = (found.exit() as u8).into();
    (found, tables, stored)
}

/// Whether a start could listen. Only asked while the pipeline does not run here, for then the addresses are its own.
async fn addresses(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>, found: &mut Found) {
    if let Err(error) = Listening::try_out(pipeline, runtime).await {
        found.wiring("listen", &error);
    }
    if let Err(error) = run::bind_http(pipeline).await {
        found.problem("http.listen", Exit::Failed, format!("{error:#}"));
    }
}

/// Whether the other side of each lookup can be read and used; `run` would wait for it.
async fn lookups(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>, found: &mut Found) {
    match wiring::lookups::lookups(pipeline) {
        Ok(None) => {}
        Ok(Some(lookups)) => {
            for (path, rows) in lookups.try_each(runtime).await {
                match rows {
                    Ok(Some(rows)) => {
                        found.notes.push(format!("`{path}` finds `{rows}` rows on the other side"));
                    }
                    Ok(None) => found.notes.push(format!("`{path}` can ask the other side for keys")),
                    Err(why) => found.problem(&path, Exit::Failed, why),
                }
            }
        }
        Err(error) => found.wiring("steps", &error),
    }
}

/// Every fault of all tables, and of decoder and steps against the columns of those for rows.
async fn tables(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>, found: &mut Found) -> Tables {
    let mut tables = Tables::default();
    let (targets, all) = match (sink::targets(pipeline), sink::faults(pipeline, runtime).await) {
        (Ok(targets), Ok(all)) => (targets, all),
        (Err(error), _) | (_, Err(error)) => {
            found.wiring("sink.clickhouse", &error);
            return tables;
        }
    };
    let mut told = Told::default();
    tables.all = all.len();
    let paths = pipeline.targets().into_iter().map(|target| format!("{}.clickhouse.table", target.path));
    let paths: Vec<String> = paths.chain(["dead_letters.table".to_owned()]).collect();
    for ((table, faults), own) in all.iter().zip(&paths) {
        for fault in faults {
            if !told.is_new(fault) {
                continue;
            }
            let path = match fault.remedy {
                _ if fault.kind == TableFault::Access => "sink.clickhouse.user",
                Remedy::Resend => "sink.clickhouse.url",
                Remedy::Divert | Remedy::Stop => own,
            };
            let exit = if fault.remedy == Remedy::Resend { Exit::Failed } else { Exit::Person };
            let fault = fault.to_string();
            let is_named = fault.contains(&format!("`{table}`"));
            found.problem(path, exit, if is_named { fault } else { format!("table `{table}`: {fault}") });
        }
    }
    let mut created = Vec::new();
    let configs = targets.into_iter().chain([sink::dead_letters(pipeline)]);
    for (config, (table, faults)) in configs.zip(&all) {
        if !faults.is_empty() {
            continue;
        }
        match sink::open_once(config, pipeline, runtime).await {
            Ok(Some(open)) => {
                for note in open.notes() {
                    let is_named = note.contains(&format!("`{table}`"));
                    found.notes.push(if is_named {
                        note.clone()
                    } else {
                        format!("table `{table}`: {note}")
                    });
                }
                tables.open.push(Arc::new(open));
            }
            // It has no fault and is not there.
            Ok(None) => {
                found.notes.push(format!("a start creates table `{table}`"));
                created.push(table.clone());
            }
            Err(error) => found.wiring("sink.clickhouse", &error),
        }
    }
    found.json["creates"] = json!(created);
    let columns = pipeline.targets().into_iter().map(|target| {
        let name = target.clickhouse.full_name();
        match tables.open.iter().find(|table| table.name() == name) {
            None if created.contains(&name) => wiring::sink::described(&target),
            open => open.map(|table| table.schema().clone()),
        }
    });
    if let Some(columns) = columns.collect::<Option<Vec<Schema>>>() {
        tables.schemas = fit(pipeline, columns, runtime, found);
    }
    tables
}

/// Whether `columns:`, the records' fields, decoder and steps fit the tables' columns: every fault of each.
fn fit(
    pipeline: &Pipeline,
    schemas: Vec<Schema>,
    runtime: &Arc<dyn Runtime>,
    found: &mut Found,
) -> Option<Vec<Schema>> {
    let mut known = pipeline.clone();
    for (target, columns) in pipeline.targets().into_iter().zip(&schemas) {
        for name in target.columns.keys().filter(|name| columns.index_of(name.as_str()).is_none()) {
            // One at a time, so that each gets its own line.
            let mut only = target.clone();
            only.columns.retain(|column, _| column == name);
            if let Err(error) = wiring::with_fields(columns, &only) {
                found.wiring(&format!("{}.{name}", target.columns_path), &error);
            }
            if target.path == "sink" {
                known.columns.remove(name);
            }
            let sinks = known.sinks.iter_mut().enumerate();
            sinks.filter(|(index, _)| target.path == format!("sinks[{index}]")).for_each(|(_, sink)| {
                sink.columns.remove(name);
            });
        }
    }
    let plans = match explain::planned(&known, &schemas) {
        Ok(plans) => plans,
        Err(faults) => {
            faults.iter().for_each(|fault| found.steps(fault));
            return None;
        }
    };
    let mut decodes = true;
    for (input, of) in pipeline.inputs().iter().zip(&plans.inputs) {
        if let Err(error) = source::decoder(input, of.plan.decoded.clone()) {
            found.wiring(&format!("{}.format", input.path), &error);
            decodes = false;
        }
    }
    let lane_steps = plans.common().lane_steps.clone();
    for (path, error) in wiring::steps::lane_faults(&known, lane_steps, runtime.compute_threads()) {
        let step = path.split_once(']').map_or(path.clone(), |(step, _)| format!("{step}]"));
        found.problem(&step, run::exit_of_wiring(&error), error.to_string());
    }
    if let Err(error) = wiring::steps::chain(&known, &schemas, 1) {
        // The event time, which is not among the operators.
        if found.problems.is_empty() {
            found.wiring("steps", &error);
        }
    }
    decodes.then_some(schemas)
}
