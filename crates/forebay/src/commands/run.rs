//! `forebay run`: a pipeline from start to end.
//!
//! Owns the process around a lane: logs, HTTP, signals, progress, the exit code. Does not own the lane (`engine::pipeline`), its parts
//! (`pipeline::wiring`), nor the pages that it answers over HTTP ([`crate::http`]).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use admin::running;
use anyhow::{Context, anyhow};
use clap::Args;
use dataflow::{Effect, Runtime, SourceFault};
use engine::change::{NewState, Unchanged};
use engine::problem::{Noticed, State};
use engine::{EngineError, Outcome, Snapshot, Status, TokioRuntime};
use pipeline::config::model::Pipeline;
use pipeline::config::model::sink::ExistingRows;
use pipeline::config::values::Listen;
use pipeline::wiring::listening::Listening;
use pipeline::wiring::{self, Known, Reads, WiringError};
use tokio::sync::watch;

use super::Places;
use crate::console::{Exit, Mistake, PipelineFile};
use crate::http::Server;
use crate::logging::LogOptions;
use crate::recorder::Metrics;
use crate::signals::Signals;
use crate::status_view::LaneView;
use crate::{http, logging, open_files, progress};

/// How often a line tells how far the pipeline is.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Pause between two tries to listen at the address of the process that is taken over.
const ADDRESS_PAUSE: Duration = Duration::from_millis(500);

/// How long that address may be taken while that process no longer answers there: it ends within 10 s.
const ADDRESS_WAIT_MAX: Duration = Duration::from_secs(30);

/// Pause between two polls of a table that somebody is changing.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Runs a pipeline until its source ends or a signal stops it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay run user-events.yaml
  forebay run user-events.yaml --drain             # processes what is in the source now, then exits
  forebay run user-events.yaml --log-format json --log-level debug
  forebay run user-events.yaml --new-state dedup   # its key or window has changed

On the first SIGTERM or SIGINT the pipeline drains: it stops reading and delivers what it has read, for at most \
`shutdown.timeout`. On the second one it stops at once. Nothing is lost or written twice either way; the next start \
continues where this one stopped.

Exit codes: 0 if everything was read or the pipeline was drained; 2 for an error in the file; 3 if another process has \
taken over the pipeline; 4 if you must decide something; 5 if all was done, but a larger share of the records became \
dead letters than `dead_letters.fail_above` allows (without that setting: all of them did); 1 for any other failure.")]
pub struct Run {
    #[command(flatten)]
    file: PipelineFile,

    /// Exits once everything that is in the source at the start has been read and is in the table.
    #[arg(long)]
    drain: bool,

    /// Lets a pipeline that has never run start although its table already contains rows, as `existing_rows: keep` does.
    #[arg(long)]
    into_filled_table: bool,

    /// Starts this step with empty state, after its key, its window or its place has changed; may be given more than once. What the step
    /// remembered is lost. Refused for a step that has not changed.
    #[arg(long, value_name = "STEP")]
    new_state: Vec<String>,

    /// With `--new-state`: also for a step that has not changed.
    #[arg(long, requires = "new_state")]
    yes: bool,
}

impl Run {
    /// Runs the command.
    ///
    /// # Errors
    /// When the process itself cannot be set up. What the pipeline ends with is logged, and is the exit code.
    pub fn execute(&self, log: &LogOptions) -> anyhow::Result<Exit> {
        let Some((mut pipeline, places)) = super::load_with_places(&self.file.file)? else {
            return Ok(Exit::Fault);
        };
        if self.file.file == Path::new("-") && reads_standard_input(&pipeline) {
            let message = "the pipeline file was read from standard input, so its records (`paths: \"-\"`) cannot be read from there too: give the file \
                           by its name";
            return Err(Mistake::of(anyhow!(message)));
        }
        if self.into_filled_table {
            pipeline.sink.clickhouse.existing_rows = ExistingRows::Keep;
        }
        logging::start(log, pipeline.log.level, pipeline.log.format)?;
        super::runtime()?.block_on(self.run(pipeline, &places))
    }

    fn new_state(&self) -> NewState {
        let unchanged = if self.yes { Unchanged::Empty } else { Unchanged::Refuse };
        NewState { steps: self.new_state.clone(), unchanged }
    }

    async fn run(&self, pipeline: Pipeline, places: &Places) -> anyhow::Result<Exit> {
        let mut signals = Signals::listen().context("cannot take over SIGTERM and SIGINT")?;
        let status = Arc::new(Status::default());
        let metrics = Metrics::install()?;
        let Some(server) = unless_stopped(&mut signals, listen(&pipeline)).await else {
            return Ok(Exit::Done);
        };
        let server = server?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime: Arc<dyn Runtime> = TokioRuntime::new(threads);
        let (stop, stopping) = watch::channel(false);
        if let Some(lack) = pipeline.gateway().and_then(|listening| open_files::lack(listening.open_max())) {
            tracing::warn!("{lack}");
        }
        let listening = match Listening::open(&pipeline, &runtime, stopping.clone()).await {
            Ok(listening) => listening,
            Err(error) => {
                told(&pipeline, &error.to_string());
                return Ok(exit_of_wiring(&error));
            }
        };
        let ways = listening.as_ref().map(Listening::ways).unwrap_or_default();
        let known = Known { new_state: self.new_state(), ways, ..Known::default() };
        let lane = async {
            let reads = (Reads::All, known);
            let of_file = (&pipeline, Some(places));
            let exit = lane(of_file, runtime, status.clone(), self.drain, reads, stopping).await;
            if let Some(listening) = listening {
                listening.end().await;
            }
            exit
        };
        tokio::select! {
            exit = lane => Ok(exit),
            exit = obey(&mut signals, &stop) => Ok(exit),
            error = serve(&pipeline, server, metrics, LaneView::new(&pipeline, status.clone())) => Err(error),
            () = progress::tell(&status, PROGRESS_EVERY) => Ok(Exit::Failed),
        }
    }
}

fn reads_standard_input(pipeline: &Pipeline) -> bool {
    let inputs = pipeline.inputs();
    let mut files = inputs.iter().filter_map(|input| input.source.file.as_ref());
    files.any(|files| files.paths.as_slice().iter().any(|path| path == "-"))
}

/// What comes of work before anything is started; `None` if a signal came first. Then there is nothing to drain.
async fn unless_stopped<T>(signals: &mut Signals, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        name = signals.next() => {
            tracing::info!(signal = name, "stopped before anything was started");
            None
        }
    }
}

/// Where metrics, health and status are told.
enum Served {
    /// The file asks for no address.
    Nowhere,
    /// Here.
    At(Server),
    /// At the address that the process has which is being taken over, once that one has ended.
    Later,
}

/// Listens before anything else starts, so that an address that another program has is reported at once.
async fn listen(pipeline: &Pipeline) -> anyhow::Result<Served> {
    match bind_http(pipeline).await {
        Ok(None) => Ok(Served::Nowhere),
        Ok(Some(server)) => {
            tell_address(&server);
            Ok(Served::At(server))
        }
        Err(error) if http::is_taken(&error) && running::answers(pipeline).await => {
            tracing::info!(
                "a process that runs this pipeline listens at `http.listen`; this one takes over, and listens there once that one has ended"
            );
            Ok(Served::Later)
        }
        Err(error) => Err(error),
    }
}

fn tell_address(server: &Server) {
    tracing::info!(address = %server.address(), "metrics, health and status over HTTP");
}

/// Waits for the address of the process that is taken over. That one may have it as long as it runs the pipeline: until this one has claimed the journal.
async fn bind_later(pipeline: &Pipeline) -> anyhow::Result<Option<Server>> {
    let mut silent = Duration::ZERO;
    loop {
        match bind_http(pipeline).await {
            Err(error) if http::is_taken(&error) && silent < ADDRESS_WAIT_MAX => {
                silent =
                    if running::answers(pipeline).await { Duration::ZERO } else { silent + ADDRESS_PAUSE };
                tokio::time::sleep(ADDRESS_PAUSE).await;
            }
            bound => {
                bound.as_ref().ok().and_then(Option::as_ref).inspect(|server| tell_address(server));
                return bound;
            }
        }
    }
}

/// A server at the address of `http.listen`, which nobody is answered by yet; `None` if the file asks for none.
///
/// # Errors
/// When the address is taken, or may not be listened at.
pub(super) async fn bind_http(pipeline: &Pipeline) -> anyhow::Result<Option<Server>> {
    match pipeline.http.listen {
        Listen::None => Ok(None),
        Listen::At(_) => {
            Ok(Some(Server::bind_free(&pipeline.http.addresses(), pipeline.http.allow_remote).await?))
        }
    }
}

/// Ends only by failing.
async fn serve(pipeline: &Pipeline, server: Served, metrics: Metrics, view: LaneView) -> anyhow::Error {
    let server = match server {
        Served::Nowhere => None,
        Served::At(server) => Some(server),
        Served::Later => match bind_later(pipeline).await {
            Ok(server) => server,
            Err(error) => return error,
        },
    };
    match server {
        None => std::future::pending().await,
        Some(server) => match server.serve(metrics, Arc::new(view)).await {
            Ok(()) => anyhow::anyhow!("the HTTP server ended by itself"),
            Err(error) => anyhow::Error::new(error).context("the HTTP server failed"),
        },
    }
}

/// The first signal drains, the second ends the process.
pub(super) async fn obey(signals: &mut Signals, stop: &watch::Sender<bool>) -> Exit {
    let name = signals.next().await;
    tracing::info!(signal = name, "draining; another signal stops at once");
    // Without a receiver the lane is at its end already.
    let _ = stop.send(true);
    let name = signals.next().await;
    tracing::warn!(signal = name, "stopped at once; the next start continues from the journal");
    Exit::Stopped
}

/// Runs the lane until it ends, and says what that means for whoever started the process.
pub(super) async fn lane(
    (pipeline, places): (&Pipeline, Option<&Places>),
    runtime: Arc<dyn Runtime>,
    status: Arc<Status>,
    drain: bool,
    (reads, mut known): (Reads, Known),
    stopping: watch::Receiver<bool>,
) -> Exit {
    // Each turn follows a change of the table's columns: it is opened anew for those of now.
    let result = loop {
        let mut asked = stopping.clone();
        let made = wiring::assemble(pipeline, runtime.clone(), status.clone(), drain, reads, &known);
        let assembled = tokio::select! {
            assembled = made => assembled,
            _ = asked.wait_for(|stop| *stop) => match known.is_open_again {
                // What was read before the table changed is reported; rows may wait in the store.
                true => break Ok(Outcome::Interrupted),
                // Nothing was claimed or read so far, so there is nothing to drain.
                false => return Exit::Done,
            },
        };
        let parts = match assembled {
            Ok(parts) => parts,
            // It was fine a moment ago: somebody is changing it.
            Err(error @ WiringError::Table { .. }) if known.is_open_again => {
                tracing::warn!(pipeline = %pipeline.pipeline, "{error}");
                let WiringError::Table { table: name, .. } = &error else { unreachable!("it was matched") };
                let (state, now_ms) = (State::TableDiffers, runtime.wall_ms());
                status.met(name, state, &error.to_string(), Effect::None, Noticed::Asking, now_ms);
                tokio::select! {
                    () = runtime.sleep(LOOK_AGAIN) => continue,
                    _ = asked.wait_for(|stop| *stop) => break Ok(Outcome::Interrupted),
                }
            }
            Err(error) => {
                let said = places.map_or_else(|| error.to_string(), |places| places.of(&error));
                // A fault a line: a line break within one would be escaped.
                said.lines().for_each(|fault| told(pipeline, fault));
                return exit_of_wiring(&error);
            }
        };
        match engine::run(parts, stopping.clone()).await {
            Ok(Outcome::Reopen { claimed, added }) => {
                known.is_open_again = true;
                if claimed {
                    known.new_state.unchanged = Unchanged::Keep;
                }
                for (table, columns) in added {
                    let known = known.added.entry(table).or_default();
                    known.extend(columns);
                    known.sort();
                    known.dedup();
                }
            }
            result => break result,
        }
    };
    progress::sum(&status.snapshot());
    match result {
        Ok(outcome) => exit_of_outcome(pipeline, outcome, &status.snapshot(), reads),
        Err(error) => {
            told(pipeline, &error.to_string());
            exit_of(&error)
        }
    }
}

/// Says what became of the records of a run that ended well, and whether too many of them are dead letters.
fn exit_of_outcome(pipeline: &Pipeline, outcome: Outcome, last: &Snapshot, reads: Reads) -> Exit {
    let (database, table) = pipeline.letters_place();
    let verdict = progress::verdict(&outcome, last, &format!("{database}.{table}"));
    match outcome {
        Outcome::Complete | Outcome::Drained => tracing::info!("{verdict}"),
        // Before its last turn a run goes on; a table that changes once more is for the next start.
        Outcome::Interrupted | Outcome::Reopen { .. } => tracing::warn!("{verdict}"),
    }
    // A replay says of each record what became of it, and has an exit code for that.
    let failure = match reads {
        Reads::All => progress::too_many_dead_letters(last, pipeline.dead_letters.fail_above),
        Reads::Replays => None,
    };
    let Some(failure) = failure else { return Exit::Done };
    let why = format!(
        "{failure}; they are in `{database}.{table}` with the reasons, and starting again does not read them again: fix the cause, then \
         `forebay dead-letters replay FILE`"
    );
    told(pipeline, &why);
    Exit::DeadLetters
}

/// Says why a run did not begin, or has not ended well.
fn told(pipeline: &Pipeline, why: &str) {
    tracing::error!(pipeline = %pipeline.pipeline, "{why}");
    logging::refuse_unless_logged(why);
}

/// What the end of a lane means for whoever started the process.
pub(super) fn exit_of(error: &EngineError) -> Exit {
    match error {
        EngineError::Fenced { .. } => Exit::Fenced,
        EngineError::Source(error) => match error.fault {
            SourceFault::Away | SourceFault::Lookup | SourceFault::Store => Exit::Failed,
            SourceFault::Refused | SourceFault::Config => Exit::Person,
        },
        EngineError::Delivered { error, .. } | EngineError::LeftAlone { error, .. } => exit_of(error),
        EngineError::Doubt { .. }
        | EngineError::Mismatch(_)
        | EngineError::Operator(_)
        | EngineError::State { .. }
        | EngineError::Damaged { .. }
        | EngineError::Record(_)
        | EngineError::Violation(_) => Exit::Person,
        EngineError::Store(_) | EngineError::Internal(_) => Exit::Failed,
    }
}

pub(super) fn exit_of_wiring(error: &WiringError) -> Exit {
    match error {
        WiringError::Settings(_) | WiringError::Steps(_) => Exit::Fault,
        WiringError::Table { .. } => Exit::Person,
        WiringError::Listen(_) => Exit::Failed,
        WiringError::Store(error) => exit_of_store(error),
    }
}

/// What a store that does not open means for whoever started the process.
pub(super) fn exit_of_store(error: &store::StoreError) -> Exit {
    match error.kind {
        // A store that cannot fence stays so until the operator gives another.
        store::ErrorKind::NotSupported => Exit::Person,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests;
