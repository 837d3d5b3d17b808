//! The comparison, step by step.
//!
//! Owns the order of the questions and what is asked twice. Does not own the arithmetic ([`super::expect`]), the reading
//! ([`super::reading`]) or the statements (`clickhouse::reconcile`).
//!
//! | module      | what it holds                                                                     |
//! |-------------|-----------------------------------------------------------------------------------|
//! | [`basis`]   | the columns that are compared, and which pipelines cannot be                      |
//! | [`source`]  | which records are read, and which again once the table was asked                  |
//! | [`buckets`] | keys and values compared bucket by bucket                                         |
//! | [`naming`]  | names for some of what differs                                                    |
//! | [`notes`]   | what the report says beside that                                                  |

mod basis;
mod buckets;
mod naming;
mod notes;
mod source;

use dataflow::position;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clickhouse::reconcile::{KeyPlan, TableKeys};
use clickhouse::{ClickHouseTable, TableConfig};
use dataflow::{Runtime, Table};
use engine::inputs::numbered::Numbered;
use pipeline::config::model::Pipeline;
use pipeline::plan::taken_back::rows_of;
use pipeline::replays::{self, Log};
use pipeline::wiring::{self, sink};
use protocol::Lane;
use store::Store;

use super::Bound;
use super::expect::Rule;
use super::newest::Newest;
use super::reading::{DryInput, DryRun, Nameless, Seen, Times};
use super::report::Report;
use super::spill::Spill;
use super::{frames, letters};
use crate::pipelines::in_flight;
use notes::{note_nameless, notes_of_newest};

/// A question that reads the key columns of a large table takes its time.
pub const QUERY_MAX: Duration = Duration::from_secs(1_800);

/// How often the journal is polled while frames are to settle.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Where a comparison tells how far it is.
pub trait Progress: Send + Sync {
    /// A step begins.
    fn begin(&self, what: &'static str);
    /// How much the steps have to do from now on.
    fn length(&self, all: u64);
    /// How much of that is done.
    fn done(&self, so_far: u64);
}

/// A comparison about to be made.
pub struct Work<'a> {
    /// The pipeline.
    pub pipeline: &'a Pipeline,
    /// Which of its tables, by its place among [`Pipeline::targets`].
    pub place: usize,
    /// Clock and threads.
    pub runtime: Arc<dyn Runtime>,
    /// Where to begin.
    pub from: &'a [Bound],
    /// Where to end.
    pub to: &'a [Bound],
    /// Columns to compare by; empty for the pipeline's own key.
    pub key: &'a [String],
    /// True if the values of the other columns are compared too.
    pub values: bool,
    /// How long to wait until all is settled.
    pub wait: Duration,
    /// Where temporary files go.
    pub scratch: PathBuf,
    /// Rows of each kind to name.
    pub limit: usize,
    /// Where progress is shown.
    pub progress: Arc<dyn Progress>,
}

impl Work<'_> {
    /// Compares the table with the source. Only reads, and may run beside the pipeline.
    ///
    /// # Errors
    /// When the journal, the source or the table cannot be read, or what is sealed does not settle in time.
    pub async fn compare(self) -> anyhow::Result<Report> {
        self.refuse_rows_of_no_record()?;
        let store = self.store().await?;
        let targets = self.pipeline.targets();
        let target = &targets[self.place];
        let (key, rule) = self.key_and_rule(target)?;
        let config = sink::target(self.pipeline, target)?;
        let lane = self.lane(&*store).await?;
        let mut schemas = Vec::with_capacity(targets.len());
        let mut chosen = None;
        for (place, target) in targets.iter().enumerate() {
            let table = self.open(sink::target(self.pipeline, target)?, &lane).await?;
            schemas.push(table.schema().clone());
            if place == self.place {
                chosen = Some(table);
            }
        }
        let table = chosen.context("there is no such table")?;
        let schema = wiring::with_fields(table.schema(), target)?;
        let plan = KeyPlan::new(&schema, &key).map_err(anyhow::Error::msg)?;
        let plan = plan
            .with_defaults(&table.client().clone().into())
            .await
            .context("the table cannot be asked for its defaults")?;
        let server = sink::server_for(&self.pipeline.sink.clickhouse, QUERY_MAX)?;
        let (values, left_out) = self.values_to_compare(&schemas, &key)?;
        let keys = TableKeys::new(server, (&config, self.wait), &plan, self.runtime.clone())?
            .with_values(values.as_ref())
            .with_final(rule == Rule::Newest)
            .with_provenance(table.has_provenance());
        let chain = wiring::steps::chain(self.pipeline, &schemas, self.runtime.compute_threads())?;
        let mut inputs = Vec::with_capacity(chain.inputs.len());
        for (input, own) in self.pipeline.inputs().iter().zip(chain.inputs) {
            // One that the journal does not know has not been read.
            let Some(number) = lane.input(input.name) else { continue };
            let source = wiring::source_to_look_at(self.pipeline, input, &self.runtime).await?;
            let source = own.decoding.ready(source, &self.runtime);
            let source = Arc::new(Numbered::new(source, number));
            inputs.push(DryInput { number, source, intake: own.intake });
        }
        let mut dry = DryRun {
            inputs,
            part: chain.router.map(|router| (router, self.place)),
            key: plan,
            values,
            newest: target
                .upsert
                .as_ref()
                .map(|upsert| Newest::new(upsert, &rows_of(target, &schema)))
                .transpose()
                .map_err(anyhow::Error::msg)?,
            runtime: self.runtime.clone(),
            times: Times { from: time(self.from), to: time(self.to) },
            nameless: Nameless::default(),
        };
        let mut report = Report {
            pipeline: self.pipeline.pipeline.to_string(),
            table: table.name().to_owned(),
            key,
            ..Report::default()
        };
        report.values = dry.values.as_ref().map(|plan| plan.names().into_iter().map(String::from).collect());
        report.values_left_out = left_out;
        self.note_steps(rule, &targets, &mut report);

        let mut spill = Spill::new(&self.scratch)
            .context("temporary files cannot be created; name a `--scratch` folder")?;
        let mut seen = Seen::default();
        let (lane, ranges) = self.read(&*store, &mut dry, &mut spill, &mut seen, &mut report).await?;
        self.settled(&*store, &lane).await?;
        self.describe(&lane, &ranges, &seen, &mut report)?;

        let log = Log::new(store.clone(), &wiring::lane_folder(self.pipeline));
        let at = replays::stands_at(&lane).unwrap_or(0);
        let kept = letters::Kept {
            replayed: log.memory(position::low(at)).await.context("the replay log cannot be read")?.taken,
            purged: log.purged().await.context("what was purged cannot be read")?,
        };
        let against =
            letters::Against { lane: &lane, ranges: &ranges, seen: &seen, key: &dry.key, kept: &kept, rule };
        let letters = letters::read(&self, &schemas, against).await?;
        spill.leave_out(letters.not_rows.clone());
        let left_out =
            dry.nameless.places.iter().filter(|place| place.is_in(&letters.not_rows)).count() as u64;
        let first_nameless = dry.nameless.records - left_out;
        let refused = &letters.places;
        let mut differences = self.differences(&keys, rule, (&mut spill, refused), &mut report).await?;
        if dry.values.is_some() {
            self.values(&keys, rule, (&mut spill, refused), &report, &mut differences).await?;
        }
        report.notes.extend(notes_of_newest(rule, &report));
        if table.has_provenance() && rule != Rule::Newest {
            self.progress.begin("counting the rows of frames");
            let folder = wiring::lane_folder(self.pipeline);
            report.frames = Some(frames::compare(&*store, &folder, table.name(), &keys, self.limit).await?);
        }
        letters.take_from(&mut differences);
        let (of_letters, letters_name) = (letters.lag, sink::dead_letters(self.pipeline).name());
        report.letters = letters.report;
        if !report.is_all {
            self.look_elsewhere(&*store, &mut dry, rule, &mut differences, &mut report).await?;
        }
        let newest = self
            .look_again(&*store, &mut dry, (&lane, &ranges), (&mut differences, rule), report.is_all)
            .await?;
        let nameless = (first_nameless, dry.nameless.records - left_out);
        note_nameless(&dry, rule, nameless, &mut differences, &mut report);
        report.in_flight = in_flight(&newest);
        report.more = differences.more;
        if !differences.duplicate.is_empty() && matches!(rule, Rule::OnePerWindow(_)) {
            report.notes.push(
                "with `late: keep`, duplicates that came very late may correctly be in the table".into(),
            );
        }
        self.name(&keys, &mut dry, &lane, &differences, &mut report).await?;
        let lags = [(keys.lag(), config.name()), (of_letters, letters_name)];
        for (lag, name) in lags.into_iter().filter_map(|(lag, name)| Some((lag?, name))) {
            judge_behind(&mut report, rule, &name, &lag)?;
        }
        Ok(report)
    }

    /// Opens a table as the pipeline does: records need not give columns that were added later.
    async fn open(&self, config: TableConfig, lane: &Lane) -> anyhow::Result<ClickHouseTable> {
        let name = config.name();
        let refused =
            || format!("table `{name}` cannot be used now; `forebay check FILE --connect` says why");
        let table = sink::open_once(config.clone(), self.pipeline, &self.runtime).await?;
        let table = table.with_context(refused)?;
        let added = engine::layouts::added_to(lane, &table);
        if added.is_empty() {
            return Ok(table);
        }
        let config = TableConfig { added, ..config };
        sink::open_once(config, self.pipeline, &self.runtime).await?.with_context(refused)
    }

    async fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        let store = pipeline::wiring::storage::open_to_read(self.pipeline).await?;
        store.context("the pipeline has not run yet: there is nothing to compare")
    }

    async fn lane(&self, store: &dyn Store) -> anyhow::Result<Lane> {
        let folder = wiring::lane_folder(self.pipeline);
        engine::journal::load(store, &folder)
            .await
            .context("the journal cannot be read; see `forebay store check`")
    }

    /// Waits until everything that `lane` has sealed is settled.
    async fn settled(&self, store: &dyn Store, lane: &Lane) -> anyhow::Result<()> {
        self.progress.begin("waiting for what is sealed");
        let begun = tokio::time::Instant::now();
        loop {
            let now = self.lane(store).await?;
            let open: u64 = lane
                .tables
                .iter()
                .zip(&now.tables)
                .map(|(then, now)| then.next_ordinal.saturating_sub(now.frontier))
                .sum();
            if open == 0 {
                return Ok(());
            }
            if begun.elapsed() >= self.wait {
                bail!(
                    "{open} sealed inserts are not settled after {} s, so their rows may be there or not: start the pipeline \
                     or see `forebay status` for what holds it up, or give a longer `--wait`",
                    self.wait.as_secs()
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// What a report is worth of which some answers came from a replica that was behind: rows that are there are right whoever shows them.
///
/// # Errors
/// When something is wrong by them: it may be there, and not on that replica yet.
fn judge_behind(report: &mut Report, rule: Rule, table: &str, lag: &str) -> anyhow::Result<()> {
    if is_proved(report, rule) {
        report.notes.push(format!("of table `{table}` {lag}: what is called missing may be there"));
        return Ok(());
    }
    anyhow::ensure!(
        report.is_right(),
        "rows seem to be missing, or otherwise wrong, and that cannot be judged yet: of table `{table}` {lag}, so rows that it does not show may be \
         there. Wait until it has caught up (`SYSTEM SYNC REPLICA {table}` on its server waits for that), or give a longer `--wait`, and compare again; or point \
         `url` at a server whose replica is not behind"
    );
    report.notes.push(format!(
        "of table `{table}` {lag}: rows that are there twice, or that no record has, were not found if that replica does not have them yet"
    ));
    Ok(())
}

/// Whether something is wrong that rows which a replica lacks cannot explain. Where rows replace each other, one that it lacks may be what makes it right.
fn is_proved(report: &Report, rule: Rule) -> bool {
    let is_there = report.duplicate.keys + report.foreign.keys + report.different.keys > 0;
    !report.accounts.records.add_up() || rule != Rule::Newest && is_there
}

fn partition(lane: &Lane, n: u32) -> String {
    lane.partitions.get(n as usize).map_or_else(|| n.to_string(), |p| format!("{}/{}", p.stream, p.index))
}

fn time(bounds: &[Bound]) -> Option<i64> {
    bounds.iter().find_map(|bound| match bound {
        Bound::Time(ms) => Some(*ms),
        Bound::Position { .. } => None,
    })
}

#[cfg(test)]
mod tests;
