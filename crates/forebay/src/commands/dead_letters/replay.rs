//! `forebay dead-letters replay`.
//!
//! Owns the order: choose, put into the replay log, wait, tell what became of each. Does not own the choice and the results
//! (`admin::dead_letters`), nor the log and its reading by the pipeline (`replays`). The put is what makes a replay happen, exactly once:
//! killed before it, nothing has happened; killed after it, the pipeline reads the records all the same, and the same command again tells
//! the results.

mod inputs;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use admin::dead_letters::anew::has_moved;
use admin::dead_letters::choose::{Choice, pieces, record};
use admin::dead_letters::follow::{Follower, Progress};
use admin::dead_letters::letters::{Head, batches};
use admin::dead_letters::results::{Outcome, Results, failed_again, outcome};
use admin::dead_letters::{Table, choose, clock, open_to_read, position_in_log};
use admin::running::{self, Presence};
use anyhow::{Context, bail};
use clap::Args;
use dataflow::Runtime;
use engine::Status;
use pipeline::config::model::Pipeline;
use pipeline::config::values::Period;
use pipeline::replays::memory::Memory;
use pipeline::replays::object::Replay as Object;
use pipeline::replays::{Log, STREAM, object};
use pipeline::wiring;
use pipeline::wiring::{Known, Reads};
use protocol::Lane;
use protocol::record::Before;
use store::Store;

use super::filter::Filter;
use super::results;
use crate::commands::run;
use crate::console::{Exit, PipelineFile, say};
use crate::signals::Signals;
use inputs::Inputs;

/// How often the journal is polled.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// A run that is well takes up a replay within a poll of the log and a seal; one that has not moved by then is not there.
const GRACE: Duration = Duration::from_secs(8);

/// A journal that was written so short a time ago may be somebody's at work, though nothing of them is seen from here: a process in a container has an address
/// of its own. One that works writes within [`QUIET`].
const RECENT_MS: i64 = 10_000;
const QUIET: Duration = Duration::from_secs(3);

/// Writers that may come first at one place of the log, each of them another `replay`.
const RACES_MAX: u32 = 100;

/// Sends the records of dead letters through the pipeline as it is now, exactly once, and reports what became of each.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay dead-letters replay user-events.yaml --dry-run
  forebay dead-letters replay user-events.yaml --reason out_of_range --since 2h
  forebay dead-letters replay user-events.yaml --column amount --no-wait  # leave them to the pipeline's next start
  forebay dead-letters replay user-events.yaml --topic user_events --partition 2 --position 1234 --again
  forebay dead-letters replay user-events.yaml --json | jq -r 'select(.result == \"dead_letter\") | .message'

Fix the cause first (the table or the pipeline file), then replay. The letters stay in their table; one that was replayed \
is not replayed again without --again. Neither is a letter whose record the pipeline reads again, because it was moved back \
or reset after the letter was written. A running pipeline reads the records within seconds. If it is not running, this \
command processes them itself, without reading the source, and ends when they are in the table; with --no-wait they wait \
for the pipeline's next start.

Results: written, duplicate, filtered, late, dead_letter (it failed again, or the server refused its row later; the new \
letter is named), sealed (its insert is not settled yet), waiting (not read yet).

Exit codes: 0 if no record failed again; 1 if one did, the wait timed out, or the pipeline was reset or moved meanwhile; \
2 for an error in the command line or the file; 3 if another process took over the pipeline meanwhile; 4 if you must decide something.")]
pub struct Replay {
    #[command(flatten)]
    file: PipelineFile,

    #[command(flatten)]
    filter: Filter,

    /// How many letters to replay at most, oldest first.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,

    /// Also replays letters that were replayed before, or whose records are read again after a `reset`. Without `dedup` in the pipeline their rows may then
    /// be in the table twice.
    #[arg(long)]
    again: bool,

    /// Only prints which letters would be replayed.
    #[arg(long)]
    dry_run: bool,

    /// Takes over the pipeline from a process elsewhere that is busy and has not read the records within seconds; that process ends with
    /// code 3. Without this option the command processes the records itself only if no process runs the pipeline.
    #[arg(long, conflicts_with = "no_wait")]
    run: bool,

    /// Does not wait for the results.
    #[arg(long)]
    no_wait: bool,

    /// How long to wait for the results.
    #[arg(long, value_name = "PERIOD", default_value = "60s")]
    timeout: Period,

    /// Prints one JSON object per line for each letter.
    #[arg(long)]
    json: bool,
}

/// Where the chosen records are put.
struct Place<'a> {
    /// The letters.
    table: &'a Table,
    log: &'a Log,
    store: &'a Arc<dyn Store>,
    folder: &'a str,
    /// The lane when the letters were chosen.
    chosen_at: &'a Lane,
}

impl Place<'_> {
    /// Asked right before each put: letters that were chosen before a `reset` or `forget` may be of records that are read again behind it.
    async fn check_not_moved(&self) -> anyhow::Result<()> {
        let now = engine::journal::load(&**self.store, self.folder).await;
        let now = now.context("the journal cannot be read")?;
        match moved(self.chosen_at, &now) {
            None => Ok(()),
            Some(why) => self.refuse(why),
        }
    }

    /// Asked right behind each put, for a command that slept before it. An object behind a `reset` is taken back: the next pipeline of this name would write
    /// its rows beside those of the records that it reads anew. Behind a move the lane may read it at this moment, so it stays.
    async fn check_behind(&self, object: &Object) -> anyhow::Result<()> {
        let now = engine::journal::load_any(&**self.store, self.folder).await;
        let now = now.context("the journal cannot be read; the records are in the replay log")?;
        let Some(why) = moved(self.chosen_at, &now) else { return Ok(()) };
        if is_another(self.chosen_at.before, &now) {
            let taken_back = self.log.take_back(object).await;
            taken_back
                .context("the pipeline was reset or deleted, and its replay log still holds records")?;
        }
        self.refuse(why)
    }

    fn refuse(&self, why: &str) -> anyhow::Result<()> {
        bail!("pipeline `{}` {why}. Run the same command again for those that are left", self.table.pipeline)
    }
}

/// What has become of the pipeline since the letters were chosen, so that they must not be put; `None` if they may.
fn moved(chosen_at: &Lane, now: &Lane) -> Option<&'static str> {
    if !has_moved(chosen_at, now) {
        return None;
    }
    Some(match is_another(chosen_at.before, now) {
        true => {
            "was reset or deleted after the letters were chosen, so no more of them are replayed: if it runs again, it reads their records from where `start` says"
        }
        false => {
            "was moved by `reset --to` or `forget` after the letters were chosen, and may read their records again: those that are in the replay log by now are \
             replayed, the others are not"
        }
    })
}

/// Whether the pipeline was reset or deleted since it said this of those before it.
fn is_another(before: Before, now: &Lane) -> bool {
    now.removed.is_some() || now.before != before
}

/// What the wait ended with.
enum Waited {
    Done,
    /// The pipeline was reset or deleted, and the replay log with it.
    Removed,
    /// Nobody reads; the records wait for the next start.
    NotRead,
    TooLong,
    Failed(Exit),
}

impl Replay {
    /// Runs the command.
    ///
    /// # Errors
    /// When the table, the journal or the replay log cannot be read or written.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some(pipeline) = crate::commands::load(&self.file.file)? else { return Ok(Exit::Fault) };
        crate::commands::runtime()?.block_on(self.replay(&pipeline))
    }

    async fn replay(&self, pipeline: &Pipeline) -> anyhow::Result<Exit> {
        let runtime = clock();
        let table = Table::new(pipeline, &runtime).await?;
        let Some((looked_at, lane)) = open_to_read(pipeline).await? else {
            say(&format!(
                "forebay: `{}` has never run with this store, so nothing can be replayed",
                table.pipeline
            ));
            return Ok(Exit::Failed);
        };
        let folder = wiring::lane_folder(pipeline);
        // A store that is opened to be written is written at once, with a probe.
        let store = match self.dry_run {
            true => looked_at,
            false => wiring::storage::open(pipeline, &*runtime, &Status::default()).await?,
        };
        let inputs = Inputs::of(pipeline, &lane, &store).await?;
        let log = Log::new(store.clone(), &folder);
        let mut memory = log.memory(position_in_log(&lane)).await?;
        let condition = self.filter.on(&table, runtime.wall_ms())?;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let is_of_several = |head: &Head| inputs.holds_several(head);
        let choice = choose::choose(&table, &condition, &memory, (self.again, limit), &is_of_several).await?;
        tell_choice(&choice, &table, pipeline);
        check_inputs(&inputs, &choice)?;
        if self.dry_run {
            return results::print_choice(&choice, self.json);
        }
        let into = Place { table: &table, log: &log, store: &store, folder: &folder, chosen_at: &lane };
        let placed = self.place(&into, (&condition, &inputs), &choice, &mut memory, &*runtime).await?;
        if let Err(error) = log.retire(&memory, &lane).await {
            tracing::warn!(%error, "replays that were read are not retired this time");
        }
        let before = lane.before;
        let mut follower = Follower::new(store, folder, lane);
        let mut positions = placed.iter().filter_map(|(_, at)| *at);
        let is_waiting = positions.any(|at| {
            matches!(outcome(follower.lane(), &table.name, at), Outcome::Waiting | Outcome::OnItsWay)
        });
        let waited = match is_waiting {
            // Earlier results may be told, but nothing is waited for.
            false => Waited::Done,
            true => self.wait(pipeline, &mut follower, memory.end).await?,
        };
        let is_removed = is_waiting && is_another(before, follower.lane());
        let waited = if is_removed { Waited::Removed } else { waited };
        let exit = self.tell(&table, &placed, &choice, follower.lane()).await?;
        Ok(match waited {
            Waited::Done => exit,
            Waited::Removed => {
                say(&format!(
                    "forebay: pipeline `{}` was reset or deleted meanwhile, and records that were not read yet went with it: if it runs again, it reads them from \
                     where `start` says",
                    table.pipeline
                ));
                Exit::Failed
            }
            Waited::NotRead => {
                say("the records are in the store, and a pipeline that runs, or its next start, reads them");
                exit
            }
            Waited::TooLong => {
                let seconds = self.timeout.duration().as_secs();
                say(&format!(
                    "forebay: not done within {seconds} s; the pipeline continues with it; run the same command again for the results"
                ));
                Exit::Failed
            }
            Waited::Failed(exit) => exit,
        })
    }

    /// Puts the chosen records into the log, and gives each letter its place there. Letters that another `replay` takes
    /// meanwhile are left to it.
    async fn place(
        &self,
        into: &Place<'_>,
        (condition, inputs): (&str, &Inputs),
        choice: &Choice,
        memory: &mut Memory,
        runtime: &dyn Runtime,
    ) -> anyhow::Result<Vec<(Head, Option<u64>)>> {
        let mut placed: Vec<(Head, Option<u64>)> = Vec::new();
        for piece in pieces(&choice.fresh) {
            let mut records = Vec::with_capacity(piece.len());
            let mut bytes = 0;
            for batch in batches(piece) {
                // Letters that leave their record to another one weigh more than they said.
                if bytes > object::BYTES_MAX {
                    inputs.check(records.iter().map(|record: &object::Replayed| record.input.as_str()))?;
                    self.append(into, std::mem::take(&mut records), memory, runtime).await?;
                    bytes = 0;
                }
                let whole = into.table.whole(condition, batch).await?;
                bytes += whole.iter().map(|whole| whole.raw.len()).sum::<usize>();
                records.extend(whole.iter().map(|whole| record(whole, &|stream| inputs.of_stream(stream))));
            }
            inputs.check(records.iter().map(|record| record.input.as_str()))?;
            self.append(into, records, memory, runtime).await?;
            placed.extend(piece.iter().map(|head| (head.clone(), memory.place(&head.letter))));
        }
        placed.extend(choice.already.iter().map(|head| (head.clone(), memory.place(&head.letter))));
        Ok(placed)
    }

    async fn append(
        &self,
        into: &Place<'_>,
        mut records: Vec<object::Replayed>,
        memory: &mut Memory,
        runtime: &dyn Runtime,
    ) -> anyhow::Result<()> {
        for _ in 0..RACES_MAX {
            if !self.again {
                records.retain(|record| {
                    record.letter.as_ref().is_some_and(|letter| !memory.taken.holds(letter))
                });
            }
            if records.is_empty() {
                return Ok(());
            }
            let object = Object {
                first: memory.end,
                made_at_ms: runtime.wall_ms(),
                table: into.table.name.clone(),
                nonce: runtime.random().to_le_bytes().to_vec(),
                records,
            };
            into.check_not_moved().await?;
            let put = into.log.append_behind(memory, &object).await;
            if put.context("the records could not be put into the replay log")? {
                into.check_behind(&object).await?;
                memory.add(&object);
                return Ok(());
            }
            // Another replay was first: what it took is left out.
            records = object.records;
            *memory = into.log.memory(memory.lane_next).await?;
        }
        bail!("{RACES_MAX} other replays came first; try again")
    }

    async fn wait(&self, pipeline: &Pipeline, follower: &mut Follower, end: u64) -> anyhow::Result<Waited> {
        if self.no_wait {
            return Ok(Waited::NotRead);
        }
        let mut signals = None;
        let presence = running::presence(pipeline).await;
        if presence != Presence::Here {
            let grace = grace(presence, follower.lane().newest_ms, clock().wall_ms());
            let (before, pipeline_before) = (follower.lane().next_seq, follower.lane().before);
            if matches!(self.until(follower, end, grace, true).await?, Waited::Done) {
                return Ok(Waited::Done);
            }
            // Whoever claims the lane then begins a new pipeline, which this command must not do.
            if is_another(pipeline_before, follower.lane()) {
                return Ok(Waited::Removed);
            }
            // A journal that grows is somebody's at work, who is not taken over unasked.
            let nobody = grace.is_zero() || self.run || follower.lane().next_seq == before;
            if nobody && (position_in_log(follower.lane()) < end || presence == Presence::Nowhere) {
                if let Some(name) = unopened(pipeline, follower.lane()) {
                    say(&format!(
                        "input `{name}` was not read so far, and its first run finds where it begins, so this command does not process the records itself: start \
                         the pipeline with `forebay run`"
                    ));
                    return Ok(Waited::NotRead);
                }
                let mut taken = Signals::listen().context("cannot take over SIGTERM and SIGINT")?;
                match drain(pipeline, &mut taken).await {
                    (Exit::Done, false) => signals = Some(taken),
                    (Exit::Done, true) => {
                        let waited = self.until(follower, end, Duration::ZERO, false).await?;
                        return Ok(if matches!(waited, Waited::Done) { waited } else { Waited::NotRead });
                    }
                    (exit, _) => return Ok(Waited::Failed(exit)),
                }
            }
        }
        let waiting = self.until(follower, end, self.timeout.duration(), false);
        unless_asked(signals.as_mut(), waiting).await.unwrap_or(Ok(Waited::NotRead))
    }

    /// Waits until all below `end` is settled; with `only_for_a_start` no longer than until somebody reads.
    async fn until(
        &self,
        follower: &mut Follower,
        end: u64,
        limit: Duration,
        only_for_a_start: bool,
    ) -> anyhow::Result<Waited> {
        let begun = Instant::now();
        let from = position_in_log(follower.lane());
        // Other replays may have been read beyond the end of this one.
        let bar = results::bar(end.saturating_sub(from));
        loop {
            follower.advance().await.context("the journal cannot be read")?;
            match follower.progress(end) {
                Progress::Done => return Ok(Waited::Done),
                Progress::Reading(next) => {
                    bar.set_position(next.saturating_sub(from));
                    if only_for_a_start && next > from {
                        // Somebody reads: from here on the whole time counts.
                        return Box::pin(self.until(follower, end, self.timeout.duration(), false)).await;
                    }
                }
                Progress::Settling(inserts) => {
                    bar.set_position(end.saturating_sub(from));
                    bar.set_message(format!("{inserts} inserts are not settled"));
                }
            }
            if begun.elapsed() >= limit {
                return Ok(Waited::TooLong);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Tells what became of each letter.
    async fn tell(
        &self,
        table: &Table,
        placed: &[(Head, Option<u64>)],
        choice: &Choice,
        lane: &Lane,
    ) -> anyhow::Result<Exit> {
        let places: Vec<u64> = placed.iter().filter_map(|(_, at)| *at).collect();
        let failed = failed_again(table, &places).await?;
        let outcome = |position: u64| match failed.get(&position) {
            Some(failure) => Outcome::DeadLetter(failure.clone()),
            None => outcome(lane, &table.name, position),
        };
        let fresh = choice.fresh.len();
        let results: Vec<Results> = placed
            .iter()
            .enumerate()
            .map(|(n, (head, position))| Results {
                head: head.clone(),
                position: *position,
                is_already: n >= fresh,
                outcome: position.map_or(Outcome::Forgotten, outcome),
            })
            .collect();
        results::print_all(&results, self.json)?;
        let has_failed = results
            .iter()
            .any(|result| !result.is_already && matches!(result.outcome, Outcome::DeadLetter(_)));
        Ok(if has_failed { Exit::Failed } else { Exit::Done })
    }
}

/// How long a process may take to show that it runs the pipeline, whose newest record was written at `newest_ms`.
fn grace(presence: Presence, newest_ms: i64, now_ms: i64) -> Duration {
    match presence {
        Presence::Here | Presence::Unknown => GRACE,
        Presence::Nowhere if now_ms.saturating_sub(newest_ms) < RECENT_MS => QUIET,
        Presence::Nowhere => Duration::ZERO,
    }
}

/// Whether the pipeline can take these letters, before the first is put. Of those that were replayed before, each piece shows it.
fn check_inputs(inputs: &Inputs, choice: &Choice) -> anyhow::Result<()> {
    let first_time = choice.fresh.iter().filter(|head| head.letter.source != STREAM);
    let owners: BTreeSet<String> = first_time.map(|head| inputs.of_stream(&head.letter.source)).collect();
    inputs.check(owners.iter().map(String::as_str))
}

fn tell_choice(choice: &Choice, table: &Table, pipeline: &Pipeline) {
    let Choice { fresh, already_count, anew_count, of_several_count, has_more, .. } = choice;
    say(&format!(
        "dead letters in `{}`: {} chosen, {already_count} replayed before",
        table.name,
        fresh.len()
    ));
    if *anew_count > 0 {
        say(&of_earlier_readings(*anew_count, pipeline));
    }
    if *of_several_count > 0 {
        say(&format!(
            "{of_several_count} more are of requests of OTLP and do not hold one row alone, so other rows would be written twice: they are passed over. The `raw` of \
             a row that ClickHouse refused is the row: insert it into its table as JSONEachRow. The others hold a whole request, or were written by an \
             earlier program, whose letters hold one row: `forebay dead-letters show FILE LETTER --raw` prints it, to be sent again"
        ));
    }
    if *has_more {
        say("there are more; `--limit` takes more of them, or run the command again");
    }
}

/// What is said of letters from before a `reset`. What was sent to a pipeline that listens does not come again, though its positions begin anew: such a letter is not told
/// from one of a record that does.
fn of_earlier_readings(count: u64, pipeline: &Pipeline) -> String {
    let inputs = pipeline.inputs();
    let listening = inputs.iter().filter(|input| input.source.listen.is_some()).count();
    if listening == inputs.len() {
        return format!(
            "{count} more are older than a `reset`, behind which positions begin anew: they are passed over. The records that were sent to the pipeline do not come \
             again; `--again` replays them"
        );
    }
    let sent = match listening {
        0 => "",
        _ => ", and records that were sent to the pipeline do not come again without it",
    };
    format!(
        "{count} more are older than a `reset` by which the pipeline reads their records again, so their rows would be written twice: they are \
         passed over; a record that fails again is a new letter. `--again` replays them all the same{sent}"
    )
}

/// An input of the file that no run has opened. Its first run takes `start` from the file; this command asks no source, and behind it the input would count as
/// one that was opened, whose partitions are all read from their beginning.
fn unopened<'p>(pipeline: &'p Pipeline, lane: &Lane) -> Option<&'p str> {
    let inputs = pipeline.inputs();
    let mut names = inputs.iter().map(|input| input.name);
    names.find(|name| !lane.inputs.iter().any(|known| known.name == **name && known.was_opened))
}

/// What `work` gives; `None` if a signal asks for an end before. Signals that were taken over end nothing by themselves any more.
async fn unless_asked<T>(signals: Option<&mut Signals>, work: impl Future<Output = T>) -> Option<T> {
    let asked = async {
        match signals {
            Some(signals) => signals.next().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        done = work => Some(done),
        _ = asked => None,
    }
}

/// Runs the pipeline until the replay log is read and all of it is in the table; the source is left alone. True if a signal has stopped it before.
async fn drain(pipeline: &Pipeline, signals: &mut Signals) -> (Exit, bool) {
    say("this command processes the records itself");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime: Arc<dyn Runtime> = engine::TokioRuntime::new(threads);
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let reads = (Reads::Replays, Known::default());
    let lane = run::lane((pipeline, None), runtime, Arc::default(), true, reads, stopping);
    let exit = tokio::select! {
        exit = lane => exit,
        exit = run::obey(signals, &stop) => exit,
    };
    let is_asked = *stop.borrow();
    (exit, is_asked)
}

#[cfg(test)]
mod tests;
