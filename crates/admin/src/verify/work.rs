//! The comparison, step by step.
//!
//! Owns the order of the questions and what is asked twice. Does not own the arithmetic ([`super::expect`]), the reading
//! ([`super::reading`]) or the statements (`clickhouse::reconcile`).
//!
//! | module      | what it holds                                                                     |
//! |-------------|-----------------------------------------------------------------------------------|
//! | [`source`]  | which records are read, and which again once the table was asked                  |
//! | [`buckets`] | keys and values compared bucket by bucket                                         |
//! | [`naming`]  | names for some of what differs                                                    |

mod buckets;
mod naming;
mod source;

use dataflow::position;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clickhouse::reconcile::{KeyPlan, TableKeys, Values};
use clickhouse::{ClickHouseTable, TableConfig};
use dataflow::{Runtime, Table};
use engine::inputs::numbered::Numbered;
use engine::totals::Totals;
use pipeline::config::model::Pipeline;
use pipeline::config::model::sink::{Takes, Target};
use pipeline::config::values::Window;
use pipeline::replays::{self, Log};
use pipeline::wiring::{self, WiringError, sink};
use protocol::Lane;
use store::Store;

use super::Bound;
use super::expect::{Expected, Rule};
use super::newest::{self, Newest};
use super::reading::{DryInput, DryRun, Nameless, Ranges, Seen, Times};
use super::report::{Range, Report};
use super::spill::Spill;
use super::{frames, letters};
use crate::fields;

/// A question that reads the key columns of a large table takes its time.
pub const QUERY_MAX: Duration = Duration::from_secs(1_800);

/// How often the journal is looked at while frames are to settle.
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
    /// Compares.
    ///
    /// # Errors
    /// When the journal, the source or the table cannot be read, or what is sealed does not settle in time.
    pub async fn compare(self) -> anyhow::Result<Report> {
        anyhow::ensure!(
            self.pipeline.steps.iter().all(|step| step.window.is_none()),
            "`verify` compares each row with its record, and the rows of a `window` are made of many: the accounts of `forebay status` say that \
             every record is in a result, held, late or a dead letter; compare the results with a query over the source's data"
        );
        anyhow::ensure!(
            self.pipeline.steps.iter().all(|step| step.join.is_none()),
            "`verify` compares each row with its record, and the rows of a `join` are made of two: the accounts of `forebay status` say that every \
             record is absorbed by the join, late or a dead letter; compare the joined rows with a query over the source's data"
        );
        anyhow::ensure!(
            !self.pipeline.has_records_of_several_rows(),
            "`verify` compares each row with its record, and a request of OTLP has many rows: the accounts of `forebay status` say that every request's \
             rows are in the tables, filtered or dead letters"
        );
        anyhow::ensure!(
            !self.pipeline.is_sent_to(),
            "`verify` reads the source again, and requests that were sent to the pipeline are not kept: the accounts of `forebay status` say what became of \
             every record"
        );
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
        let plan =
            plan.with_defaults(table.client()).await.context("the table cannot be asked for its defaults")?;
        let server = sink::server_for(&self.pipeline.sink.clickhouse, QUERY_MAX)?;
        let (values, left_out) = match self.values {
            true => {
                let steps = wiring::steps::plan(self.pipeline, &schemas).map_err(WiringError::Steps)?;
                // When a record was read is another time now.
                let fleeting = steps.fleeting(self.place);
                let compared_elsewhere: Vec<String> = key.iter().chain(&fleeting).cloned().collect();
                let (values, mut left_out) = Values::of_the_rest(table.schema(), &compared_elsewhere);
                left_out.extend(fleeting);
                (values, left_out)
            }
            false => (None, Vec::new()),
        };
        let keys = TableKeys::new(server, &config, &plan, self.runtime.clone())?
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
                .map(|upsert| Newest::new(upsert, &schema))
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
        if rule != Rule::EveryCopy && targets.iter().any(|target| target.takes != Takes::Every) {
            report.notes.push(
                "`dedup` keeps one record of a key for all tables: a key whose records go to different tables is missing in all but one"
                    .into(),
            );
        }

        if let Some(lookup) = self.pipeline.steps.iter().position(|step| step.lookup.is_some()) {
            report.notes.push(format!(
                "records look up what is there now: the columns that are computed in steps are not compared, and a row that `steps[{lookup}].lookup`, or a condition on \
                 what it found, drops or keeps may be named as too many or missing if the other side has changed since it was written"
            ));
        }

        let mut spill = Spill::new(&self.scratch)
            .context("temporary files cannot be created; name a `--scratch` folder")?;
        let mut seen = Seen::default();
        let (lane, ranges) = self.read(&*store, &mut dry, &mut spill, &mut seen, &mut report).await?;
        self.settled(&*store, &lane).await?;
        self.describe(&lane, &ranges, &seen, &mut report)?;

        let log = Log::new(store.clone(), &wiring::lane_folder(self.pipeline));
        let at = lane.partition(0, replays::STREAM, 0).map_or(0, |at| lane.partitions[at].next);
        let kept = letters::Kept {
            replayed: log.memory(position::low(at)).await.context("the replay log cannot be read")?.taken,
            purged: log.purged().await.context("what was purged cannot be read")?,
        };
        let against =
            letters::Against { lane: &lane, ranges: &ranges, seen: &seen, key: &dry.key, kept: &kept, rule };
        let letters = letters::read(&self, &schemas, against).await?;
        spill.leave_out(letters.not_rows.clone());
        let left_out = dry.nameless.places.intersection(&letters.not_rows).count() as u64;
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
        report.letters = letters.report;
        if !report.is_all {
            self.look_elsewhere(&*store, &mut dry, rule, &mut differences, &mut report).await?;
        }
        let newest = self
            .look_again(&*store, &mut dry, (&lane, &ranges), (&mut differences, rule), report.is_all)
            .await?;
        let most = dry.nameless.records - left_out;
        if let Some(first) = dry.nameless.first.filter(|_| most > 0) {
            let columns: Vec<String> = dry
                .key
                .made_by_the_server()
                .map(|(name, default)| format!("`{name}` (`{default}`)"))
                .collect();
            let expected = Expected { least: least_nameless(rule, first_nameless), most, first };
            report.notes.push(match report.is_all.then(|| differences.explain_nameless(expected)) {
                Some(Some(rows)) => format!(
                    "{most} records have no value for column {} of the key, so the server filled it in. The table has {rows} rows with such keys, which is \
                     a possible number; the rows are not compared with the records one by one",
                    columns.join(", ")
                ),
                Some(None) => format!(
                    "{most} records leave out column {} of the key, and the server has filled it in: they can have become {} to {most} \
                     rows under keys of no record, and there are others than that",
                    columns.join(", "),
                    expected.least
                ),
                None => format!(
                    "{most} records leave out column {} of the key, which the server has filled in: their rows are not compared",
                    columns.join(", ")
                ),
            });
        }
        report.in_flight = in_flight(&newest);
        report.more = differences.more;
        if !differences.duplicate.is_empty() && matches!(rule, Rule::OnePerWindow(_)) {
            report.notes.push(
                "with `late: keep`, duplicates that came very late may correctly be in the table".into(),
            );
        }
        self.name(&keys, &mut dry, &lane, &differences, &mut report).await?;
        Ok(report)
    }

    /// Opens a table as the pipeline does: records need not give columns that were added later.
    async fn open(&self, config: TableConfig, lane: &Lane) -> anyhow::Result<ClickHouseTable> {
        let name = config.name();
        let refused = || format!("table `{name}` cannot be used now; `forebay check --connect` says why");
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

    /// The columns to compare by, and how copies of a key become rows.
    fn key_and_rule(&self, target: &Target) -> anyhow::Result<(Vec<String>, Rule)> {
        if let Some(upsert) = &target.upsert {
            let of = (self.pipeline, target, upsert);
            let key = newest::key(of, (self.key, self.values), (self.from, self.to))?;
            return Ok((key, Rule::Newest));
        }
        let dedups: Vec<_> = self.pipeline.steps.iter().filter_map(|step| step.dedup.as_ref()).collect();
        let names = |columns: &[_]| columns.iter().map(ToString::to_string).collect::<Vec<String>>();
        let [dedup] = dedups.as_slice() else {
            if dedups.len() > 1 {
                bail!("a pipeline with several `dedup` steps cannot be compared by one key");
            }
            let unique = names(&target.clickhouse.unique_key);
            let key = if self.key.is_empty() { unique } else { self.key.to_vec() };
            if key.is_empty() {
                bail!(
                    "there is neither a `dedup` step nor a `unique_key`: name the columns to compare by with `--key`"
                );
            }
            return Ok((key, Rule::EveryCopy));
        };
        let own: Vec<String> = names(&dedup.key).iter().map(|key| self.column_of(target, key)).collect();
        let same: BTreeSet<&String> = own.iter().collect();
        if !self.key.is_empty() && self.key.iter().collect::<BTreeSet<_>>() != same {
            bail!("rows are deduplicated by {own:?}, so they can only be compared by that");
        }
        let rule = match dedup.window {
            Window::Unbounded => Rule::OneEver,
            Window::Within(period) => {
                Rule::OnePerWindow(i64::try_from(period.duration().as_millis()).unwrap_or(i64::MAX))
            }
        };
        Ok((own, rule))
    }

    /// The table's column that holds a column of the key. With several tables a key is named as the last step gives it.
    fn column_of(&self, target: &Target, key: &str) -> String {
        let renamed = target.columns.iter().find(|(_, from)| from.as_str() == key);
        let renamed = renamed.filter(|_| !self.pipeline.sinks.is_empty());
        renamed.map_or_else(|| key.to_owned(), |(column, _)| column.to_string())
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

    fn describe(&self, lane: &Lane, ranges: &Ranges, seen: &Seen, report: &mut Report) -> anyhow::Result<()> {
        report.accounts = Totals::of(lane);
        report.replayed = fields::replayed(lane).min(lane.counts.read);
        report.records = seen.records;
        let gone = lane.forgotten.keys().map(|n| partition(lane, *n));
        let gone: BTreeSet<String> =
            gone.filter(|name| !ranges.keys().any(|n| partition(lane, *n) == *name)).collect();
        if !gone.is_empty() {
            let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
            report.notes.push(format!(
                "`{}` was removed from the pipeline by `forebay forget`; its rows are not compared",
                gone.join("`, `")
            ));
        }
        report.ranges = ranges
            .iter()
            .map(|(n, (from, to))| Range { partition: partition(lane, *n), from: *from, to: *to })
            .collect();
        if !self.from.is_empty() || !self.to.is_empty() {
            return Ok(());
        }
        match seen.records.cmp(&lane.counts.read) {
            std::cmp::Ordering::Equal => report.is_all = true,
            std::cmp::Ordering::Less => report.notes.push(format!(
                "the source holds {} of the {} records that the pipeline has read; what it holds no more is not compared",
                seen.records, lane.counts.read
            )),
            std::cmp::Ordering::Greater => bail!(
                "the source holds {} records up to where the pipeline has read {}: it did not begin at the oldest; say with \
                 `--from` where to begin",
                seen.records,
                lane.counts.read
            ),
        }
        Ok(())
    }
}

/// What is not compared of rows that replace each other.
fn notes_of_newest(rule: Rule, report: &Report) -> Vec<String> {
    if rule != Rule::Newest {
        return Vec::new();
    }
    let mut notes = vec![
        "the newest record of each key is compared with `SELECT … FINAL`; the rows that it has replaced, and the rows of single inserts, are not compared".to_owned(),
    ];
    if report.without_order > 0 {
        notes.push(format!(
            "{} keys have records in several partitions, between which nobody knows the order: the last one of any of them counts as the newest",
            report.without_order
        ));
    }
    notes
}

/// Rows at least of records whose keys are not known. The step that drops copies takes all keys left out for the same.
fn least_nameless(rule: Rule, records: u64) -> u64 {
    match rule {
        Rule::EveryCopy => records,
        Rule::OneEver | Rule::OnePerWindow(_) | Rule::Newest => records.min(1),
    }
}

fn partition(lane: &Lane, n: u32) -> String {
    lane.partitions.get(n as usize).map_or_else(|| n.to_string(), |p| format!("{}/{}", p.stream, p.index))
}

fn in_flight(lane: &Lane) -> (u64, u64) {
    let live = lane.tables.iter().flat_map(|t| t.pending.iter().flatten()).filter(|p| !p.dead);
    live.fold((0, 0), |(frames, rows), piece| (frames + 1, rows + piece.frame.rows))
}

fn time(bounds: &[Bound]) -> Option<i64> {
    bounds.iter().find_map(|bound| match bound {
        Bound::Time(ms) => Some(*ms),
        Bound::Position { .. } => None,
    })
}
