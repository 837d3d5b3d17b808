//! The workload `dedup`: files of sales, ingested twice.
//!
//! Owns its files, its pipeline and its figures. Does not own the rows and what the table must hold (`workloads::dedup`), nor the readings
//! that change rows ([`upsert`], [`replacing`]). The first reading is the baseline of the second in the same run. Files of JSON lines stand
//! for the published CSV, and one table whose key begins with the country for the published five: a pipeline fills one table, and one state
//! for all rows is the harder case.
//!
//! Beside it, in the same run, the second reading may change every row: with `upsert`, with a plain client and a ReplacingMergeTree, and
//! with QuestDB.
//!
//! The second reading finds the same files under new names, so that each of them is a partition that was never read. It is
//! not told that anything was read before: only the keys know.

mod questdb;
mod replacing;
mod upsert;

use std::cell::Cell;
use std::convert::Infallible;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use workloads::content::Content;
use workloads::dedup::{ROW_BYTES_MAX, Workload, oracle};

use super::child::{End, Usage};
use super::engine::{Accounts, Pipeline, Seen};
use super::figure::{self, Figure, Figures, Shown};
use super::place::{Common, Place};
use super::report::{Arm, Check, Goal, Report, Run, Setting, Verdict, of_content};
use super::server::Server;
use super::{RUN_MAX, child};

/// The wall time of the second reading by that of the first, at the most.
const WALL_RATIO_GOAL: f64 = 0.9;
/// How often the table is counted during the second reading: a count is read from metadata.
const COUNT_EVERY: Duration = Duration::from_millis(100);

/// Lines of an insert by a plain client: what costs the server least a row.
const LINES_OF_AN_INSERT: usize = 100_000;

const FIRST: &str = "first reading";
const SECOND: &str = "second reading";

const ROWS_PER_CPU_S: Figure = Figure::new("rows_per_cpu_s", "rows per engine CPU-second", Shown::Whole);
const ROWS_PER_S: Figure = Figure::new("rows_per_s", "rows per second, start to end", Shown::Whole);
const WALL_RATIO: Figure = Figure::new("wall_ratio", "wall, second by first", Shown::Decimals(3));
const CPU_RATIO: Figure = Figure::new("engine_cpu_ratio", "engine CPU, second by first", Shown::Decimals(3));
const DUPLICATES: Figure =
    Figure::new("duplicates_visible", "duplicates visible at the end (t = 0)", Shown::Whole);
const ROWS_BEYOND: Figure =
    Figure::new("rows_beyond_max", "rows beyond the first reading's, at the most", Shown::Whole);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What every workload is given.
    pub common: Common,
    /// The rows.
    pub workload: Workload,
    /// Looks for duplicates again 10 s and 60 s after the second reading.
    pub look_again: bool,
    /// Reads changed rows into a table with `upsert` too.
    pub upsert: bool,
    /// Has a plain client insert the same rows into a ReplacingMergeTree too.
    pub replacing: bool,
    /// Has a plain client send the same rows to QuestDB too, which Maven fetches.
    pub questdb: bool,
}

impl Plan {
    /// Some arm reads rows that the second reading changes.
    fn changes(&self) -> bool {
        self.upsert || self.replacing || self.questdb
    }
}

/// When duplicates are looked for again, after the end of the second reading, and how it is reported.
const LOOKS: [(Duration, Figure); 2] = [
    (
        Duration::from_secs(10),
        Figure::new("duplicates_visible_10s", "duplicates visible at t = 10 s", Shown::Whole),
    ),
    (
        Duration::from_secs(60),
        Figure::new("duplicates_visible_60s", "duplicates visible at t = 60 s", Shown::Whole),
    ),
];

/// Measures, and tells progress by `say`.
///
/// # Errors
/// When a part does not start or the engine fails. A wrong table is no error but a verdict.
pub async fn measure(plan: &Plan, say: &dyn Fn(&str)) -> anyhow::Result<Report> {
    let place = Place::make(&plan.common, say)?;
    let bench = Bench { plan, place: &place };
    let outcome = bench.measure().await;
    place.clear(outcome)
}

struct Bench<'a> {
    plan: &'a Plan,
    place: &'a Place<'a>,
}

/// Files of two readings, and what the table must show after each.
struct Changes {
    files: [Vec<PathBuf>; 2],
    /// The same as line protocol, where QuestDB is measured.
    lines: [Vec<PathBuf>; 2],
    expected: [Content; 2],
}

/// What one reading left.
struct Reading {
    end: End,
    seen: Seen,
    clickhouse: Option<Usage>,
    verdict: Verdict,
    /// The most rows that a count saw.
    rows_max: u64,
    /// What touching memory before it took.
    touched: Option<f64>,
    at_end: AtEnd,
}

/// What a table showed once a reading had ended, before anything else was asked: to read all of it with `FINAL` takes long, and meanwhile the server merges.
#[derive(Clone, Copy)]
struct AtEnd {
    /// The end of the reading, from which later looks count.
    at: Instant,
    duplicates: u64,
}

impl AtEnd {
    async fn of(server: &Server, table: &str) -> anyhow::Result<Self> {
        let at = Instant::now();
        Ok(Self { at, duplicates: server.number(&duplicates(table)).await? })
    }
}

impl Bench<'_> {
    async fn measure(&self) -> anyhow::Result<Report> {
        let server = self.place.server().await?;
        let expected = self.plan.workload.expected();
        let files = self.write_files(&self.plan.workload, "files", Workload::write)?;
        let changes = self.changes(&files, expected)?;
        let questdb = self.questdb()?;
        let setting = self.setting(&server);
        let mut runs = Vec::new();
        for number in 1..=self.plan.common.repeat {
            self.place.say(&format!("run {number} of {}", self.plan.common.repeat));
            let both = self.run(number, &server, &files, expected).await;
            runs.extend(both.with_context(|| format!("run {number}"))?);
            if let Some(changes) = changes.as_ref().filter(|_| self.plan.upsert) {
                let both = upsert::run(self, number, &server, changes).await;
                runs.extend(both.with_context(|| format!("run {number}, upsert"))?);
            }
            if let Some(changes) = changes.as_ref().filter(|_| self.plan.replacing) {
                let both = replacing::run(self, number, &server, changes).await;
                runs.extend(both.with_context(|| format!("run {number}, ReplacingMergeTree"))?);
            }
            if let (Some(changes), Some(questdb)) = (&changes, &questdb) {
                let both = questdb.run(self, number, changes).await;
                runs.extend(both.with_context(|| format!("run {number}, QuestDB"))?);
            }
        }
        server.stop().await?;
        Ok(Report::new(setting, runs, |arms| goals(arms, &self.plan.common)))
    }

    fn questdb(&self) -> anyhow::Result<Option<questdb::QuestDb>> {
        if !self.plan.questdb {
            return Ok(None);
        }
        self.place.say("fetching QuestDB's jar, unless it is here");
        Ok(Some(questdb::QuestDb::fetch(&std::path::absolute(&self.plan.common.dir)?)?))
    }

    /// The rows of the first reading, and those that the second one changes them to; `None` if nothing asks for them.
    fn changes(&self, files: &[PathBuf], before: Content) -> anyhow::Result<Option<Changes>> {
        if !self.plan.changes() {
            return Ok(None);
        }
        let (same, changed) = (&self.plan.workload, self.plan.workload.changed());
        let lines = match self.plan.questdb {
            true => [
                self.write_files(same, "lines", questdb::write_line)?,
                self.write_files(&changed, "changed-lines", questdb::write_line)?,
            ],
            false => Default::default(),
        };
        Ok(Some(Changes {
            files: [files.to_vec(), self.write_files(&changed, "changed", Workload::write)?],
            lines,
            expected: [before, changed.expected()],
        }))
    }

    /// One file after the other; `write` appends a row of a file, without a line end.
    fn write_files(
        &self,
        workload: &Workload,
        name: &str,
        write: impl Fn(&Workload, u32, u64, &mut Vec<u8>) -> bool,
    ) -> anyhow::Result<Vec<PathBuf>> {
        let dir = self.place.folder(name)?;
        self.place.say(&format!("writing {} files", workload.files()));
        (0..workload.files())
            .map(|file| {
                let path = dir.join(format!("{}.jsonl", workload.file_name(file)));
                write_file(workload, file, &path, &write)
                    .with_context(|| format!("cannot write `{}`", path.display()))?;
                Ok(path)
            })
            .collect()
    }

    async fn run(
        &self,
        number: u32,
        server: &Server,
        files: &[PathBuf],
        expected: Content,
    ) -> anyhow::Result<[Run; 2]> {
        let table = format!("{}_{number}", self.place.name);
        let dir = self.place.folder(&format!("run-{number}"))?;
        let input = self.place.folder(&format!("run-{number}/in"))?;
        let rest = pipeline_text(&input, server.url(), &table) + &self.plan.common.memory_line();
        let pipeline = Pipeline {
            program: self.plan.common.program.clone(),
            dir,
            rest,
            store: None,
            table: table.clone(),
        };
        let rows = self.plan.workload.rows_total();

        link_all(files, &input, "1")?;
        let accounts = Accounts { read: rows, written: rows, ..Accounts::default() };
        let of = oracle::sql(&table);
        let first = self.read(&pipeline, server, (expected, &of), accounts).await?;

        link_all(files, &input, "2")?;
        let accounts = Accounts { read: 2 * rows, written: rows, duplicates: rows, dead_letters: 0 };
        let mut second = self.read(&pipeline, server, (expected, &of), accounts).await?;
        let beyond = second.rows_max.saturating_sub(expected.rows);
        let check =
            Check { what: "rows beyond the first reading's, at any time", expected: 0, found: beyond };
        second.verdict = Verdict::of(second.verdict.checks.into_iter().chain([check]));

        let mut figures = self.figures(&second);
        figures.put(WALL_RATIO, second.end.wall.as_secs_f64() / first.end.wall.as_secs_f64());
        figures.put(CPU_RATIO, second.end.usage.cpu_s() / first.end.usage.cpu_s());
        figures.put(ROWS_BEYOND, beyond as f64);
        figures.put(DUPLICATES, second.at_end.duplicates as f64);
        self.duplicates_later(server, &table, second.at_end.at, &mut figures).await?;
        self.place.drop_tables(server, &table).await?;
        let run = |arm: &str, figures, reading: Reading| Run {
            arm: arm.to_owned(),
            figures,
            verdict: reading.verdict,
            not_valid: None,
            trace: reading.seen.trace,
        };
        let first_figures = self.figures(&first);
        Ok([run(SECOND, figures, second), run(FIRST, first_figures, first)])
    }

    /// Reads what is there and was not read, to its end.
    async fn read(
        &self,
        pipeline: &Pipeline,
        server: &Server,
        (expected, of): (Content, &str),
        accounts: Accounts,
    ) -> anyhow::Result<Reading> {
        let touched = self.place.touch_memory()?;
        let before = server.usage()?;
        let rows_max = Cell::new(0);
        let (end, seen) = tokio::select! {
            watched = pipeline.start(true)?.watch(None, RUN_MAX) => watched?,
            never = count_for_ever(server, &pipeline.table, &rows_max) => match never {},
        };
        let clickhouse = server.usage()?.zip(before).map(|(after, before)| after.since(before));
        let at_end = AtEnd::of(server, &pipeline.table).await?;
        let found = server.content(of).await?;
        let checks = of_content(expected, found).into_iter().chain(pipeline.accounts()?.checks(accounts));
        let rows_max = rows_max.get().max(found.rows);
        Ok(Reading { end, seen, clickhouse, verdict: Verdict::of(checks), rows_max, touched, at_end })
    }

    fn figures(&self, reading: &Reading) -> Figures {
        let rows = self.plan.workload.rows_total() as f64;
        let Reading { end, seen, clickhouse, touched, .. } = reading;
        let mut figures = Figures::default();
        figures.put(ROWS_PER_CPU_S, rows / end.usage.cpu_s());
        figures.put(ROWS_PER_S, rows / end.wall.as_secs_f64());
        end.put_into(&mut figures);
        figures.put_if(figure::CLICKHOUSE_CPU_S, clickhouse.map(|usage: child::Usage| usage.cpu_s()));
        figures.put(figure::STATE_KEYS, seen.state_keys as f64);
        figures.put_if(figure::FIRST_TOUCH_MS, *touched);
        figures
    }

    /// Duplicates that are visible some time after the end of a reading, if that is asked for.
    async fn duplicates_later(
        &self,
        server: &Server,
        table: &str,
        ended: Instant,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        for (at, figure) in LOOKS.iter().filter(|_| self.plan.look_again) {
            tokio::time::sleep(at.saturating_sub(ended.elapsed())).await;
            figures.put(*figure, server.number(&duplicates(table)).await? as f64);
        }
        Ok(())
    }

    fn setting(&self, server: &Server) -> Setting {
        let workload = &self.plan.workload;
        let whole = |number: u64| figure::whole(number as f64);
        let sentences = vec![
            format!("{} rows in {} files, read twice", whole(workload.rows_total()), workload.files()),
            "from files of JSON lines, two at a time, into one table; key: country, time and category; no window"
                .to_owned(),
        ];
        let changes =
            "where rows replace each other, the second reading changes the numbers of every row".to_owned();
        let sentences = sentences.into_iter().chain(self.plan.changes().then_some(changes)).collect();
        let facts = json!({
            "rows": workload.rows_total(), "files": workload.files(), "minutes": workload.spec().minutes,
            "format": "json lines",
        });
        self.place.setting("dedup", server, sentences, facts.as_object().cloned().unwrap_or_default())
    }
}

/// Rows of a table beyond one for each key.
fn duplicates(table: &str) -> String {
    format!("SELECT count() - uniqExact(ts, country, category) FROM `{table}`")
}

/// Counts until the reading ends. A count that fails is left out: the table is not there before the engine made it.
async fn count_for_ever(server: &Server, table: &str, rows_max: &Cell<u64>) -> Infallible {
    let sql = format!("SELECT count() FROM `{table}`");
    loop {
        if let Ok(rows) = server.number(&sql).await {
            rows_max.set(rows_max.get().max(rows));
        }
        tokio::time::sleep(COUNT_EVERY).await;
    }
}

fn write_file(
    workload: &Workload,
    file: u32,
    path: &Path,
    write: &impl Fn(&Workload, u32, u64, &mut Vec<u8>) -> bool,
) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
    let mut line = Vec::with_capacity(ROW_BYTES_MAX);
    for row in 0..workload.rows_per_file() {
        line.clear();
        write(workload, file, row, &mut line);
        line.push(b'\n');
        out.write_all(&line)?;
    }
    out.flush()
}

/// The text in parts of so many lines, the last one shorter.
fn parts_of(text: &str, lines: usize) -> impl Iterator<Item = &str> {
    let mut left = text;
    std::iter::from_fn(move || {
        let end = left.match_indices('\n').nth(lines - 1).map_or(left.len(), |(at, _)| at + 1);
        let (part, behind) = left.split_at(end);
        left = behind;
        (!part.is_empty()).then_some(part)
    })
}

/// Shows the files in `dir` under names that begin with `prefix`.
fn link_all(files: &[PathBuf], dir: &Path, prefix: &str) -> anyhow::Result<()> {
    for file in files {
        let name = file.file_name().context("a file has a name")?.to_string_lossy();
        let link = dir.join(format!("{prefix}-{name}"));
        std::fs::hard_link(file, &link).with_context(|| format!("cannot make `{}`", link.display()))?;
    }
    Ok(())
}

fn goals(arms: &[Arm], common: &Common) -> Vec<Goal> {
    let ratio = arms.iter().find_map(|arm| arm.summary.get(WALL_RATIO));
    let wall = Goal {
        text: format!("the second reading takes at most {WALL_RATIO_GOAL} of the first one's time"),
        met: ratio.map(|ratio| ratio.median <= WALL_RATIO_GOAL),
    };
    vec![wall, common.memory_goal(arms)]
}

fn pipeline_text(input: &Path, url: &str, table: &str) -> String {
    format!(
        "source:\n  file: {{ paths: '{}/*.jsonl' }}\n\
         steps:\n  - dedup: {{ key: [country, ts, category], window: unbounded }}\n\
         sink:\n  clickhouse:\n    url: {url}\n    table: {table}\n    provenance: true\n    create:\n      columns:\n\
         \u{20}       ts: DateTime('UTC')\n        country: LowCardinality(String)\n\
         \u{20}       category: LowCardinality(String)\n        visits: UInt64\n        unique_visitors: UInt64\n\
         \u{20}       sales: Decimal(18, 4)\n\
         \u{20}     order_by: [country, ts, category]\n",
        input.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::no_fault;

    #[test]
    fn a_text_is_cut_at_lines() {
        assert_eq!(parts_of("a\nb\nc\n", 2).collect::<Vec<_>>(), ["a\nb\n", "c\n"]);
        assert_eq!(parts_of("a\nb\n", 2).collect::<Vec<_>>(), ["a\nb\n"]);
        assert_eq!(parts_of("a\nb", 1).collect::<Vec<_>>(), ["a\n", "b"]);
        assert_eq!(parts_of("", 1).count(), 0);
    }

    #[test]
    fn the_pipeline_file_has_no_fault() {
        no_fault(pipeline_text(Path::new("/var/tmp/bench/in"), "http://127.0.0.1:8123", "bench_1"));
    }
}
