//! The workload `clients`: wide rows from columns in memory into ClickHouse, by a client library.
//!
//! Owns the arms, their order and their figures. Every client is a process of its own (`client`, or a peer's program) that reads
//! the same rows from a file, makes its own columns of them before the clock starts, sends two batches to warm up, and then
//! counts its CPU over the rest; [`Outcome`] is what it prints. Does not own the measured loop (`clients::client`), the file
//! (`clients::rows`), the rows (`workloads::clients`), nor the programs of others (`crate::peer`).
//!
//! | arm      | what it does                                                                                   |
//! |----------|------------------------------------------------------------------------------------------------|
//! | `forebay`| encodes each batch and sends it: `serial`, or `pipelined` (the next is encoded meanwhile)       |
//! | `replay` | sends one block that was encoded before: what the server takes at the most, by this connection; in the same process, a batch of the one beside a batch of the other |
//! | a peer   | a program of others, which sends the same rows one batch after the other                       |
//!
//! A client's share of the ceiling is the median over these pairs; a peer's, which runs by itself, is its rate over that of the
//! ready blocks before it, and as uncertain as what the server does meanwhile.

pub mod client;
mod rows;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clickhouse::compress::Method;
use clickhouse::{ClickHouseTable, CreateTable, ServerConfig, TableConfig};
use engine::TokioRuntime;
use serde::{Deserialize, Serialize};
use serde_json::json;
use workloads::clients::{ABSENT_COLUMNS, COLUMNS, Kind, ROW_BYTES, Rows, Workload, oracle};

use super::RUN_MAX;
use super::child::Child;
use super::engine::program;
use super::figure::{self, Figure, Figures, Shown};
use super::peer::Peer;
use super::place::{Common, Place};
use super::report::{Arm as Summed, Goal, Report, Run, Verdict, of_content};
use super::server::Server;
use super::trace::Trace;

/// Microseconds of the client's CPU a row that are to be reached, uncompressed, of 32 columns.
const CPU_US_GOAL: f64 = 0.7;
/// The share of the server's own ceiling that is to be reached.
const CEILING_GOAL: f64 = 0.95;
/// Batches that are sent before the clock starts.
pub const WARM_UP: u64 = 2;

const CPU_US_PER_ROW: Figure =
    Figure::new("client_cpu_us_per_row", "client CPU a row, µs", Shown::Decimals(3));
const USER_US_PER_ROW: Figure =
    Figure::new("client_user_us_per_row", "  in its own code, µs", Shown::Decimals(3));
const SYSTEM_US_PER_ROW: Figure =
    Figure::new("client_system_us_per_row", "  in the kernel, µs", Shown::Decimals(3));
const ROWS_PER_S: Figure = Figure::new("rows_per_s", "rows per second", Shown::Whole);
const SHARE_OF_CEILING: Figure =
    Figure::new("share_of_ceiling", "of what the server takes of a ready block", Shown::Percent);
const CLIENT_RSS: Figure =
    Figure::new("client_rss_bytes_max", "client memory at the most, MB", Shown::Megabytes);
const SERVER_US_PER_ROW: Figure =
    Figure::new("clickhouse_cpu_us_per_row", "ClickHouse CPU a row, µs", Shown::Decimals(2));

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What every workload is given.
    pub common: Common,
    /// Rows of a batch; at least 1.
    pub batch_rows: u64,
    /// Batches that are measured; at least 1.
    pub batches: u64,
    /// The seed of the rows.
    pub seed: u64,
    /// Which rows, how many columns, how sent: every combination is measured.
    pub ways: Vec<Way>,
    /// Peers that send the same rows, in turns; where batches are sent one after the other.
    pub against: Vec<Peer>,
}

/// Who sends.
#[derive(Clone, Copy)]
enum Who<'a> {
    Forebay,
    Peer(Peer, &'a Path),
}

impl Who<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Forebay => "forebay",
            Self::Peer(peer, _) => peer.name(),
        }
    }
}

/// One way to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Which rows.
    pub rows: Rows,
    /// Whether the table has 657 more columns, left to their defaults.
    pub wide: bool,
    /// Whether the next batch is encoded while one is under way.
    pub pipelined: bool,
    /// Whether blocks are compressed by LZ4.
    pub compressed: bool,
}

/// What a client says when it is done, on one line of JSON: of the batches after those that warm up.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// Rows sent and answered; of ready blocks as many.
    pub rows: u64,
    /// What its own batches took.
    #[serde(flatten)]
    pub spent: Spent,
    /// The most memory that it held, of a client with ready blocks before it made one.
    pub rss_bytes_max: u64,
    /// What ready blocks took beside them; a peer tells none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
}

/// Ready blocks, one beside each batch.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Ceiling {
    /// What all of them took.
    #[serde(flatten)]
    pub spent: Spent,
    /// The time of a ready block over that of the batch beside it, the median of these.
    pub share: f64,
}

/// What batches took.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Spent {
    /// From the first byte to the answer, encoding included that nothing else hides.
    pub wall_s: f64,
    /// CPU of the client in its own code over that time, all its threads.
    pub user_s: f64,
    /// CPU of the client in the kernel over that time.
    pub system_s: f64,
}

impl Spent {
    fn add(&mut self, other: Self) {
        self.wall_s += other.wall_s;
        self.user_s += other.user_s;
        self.system_s += other.system_s;
    }

    fn figures(self, rows: u64) -> Figures {
        let per_row_us = |seconds: f64| seconds * 1e6 / rows as f64;
        let mut figures = Figures::default();
        figures.put(CPU_US_PER_ROW, per_row_us(self.user_s + self.system_s));
        figures.put(USER_US_PER_ROW, per_row_us(self.user_s));
        figures.put(SYSTEM_US_PER_ROW, per_row_us(self.system_s));
        figures.put(ROWS_PER_S, rows as f64 / self.wall_s);
        figures
    }
}

impl Way {
    /// Its name.
    pub fn name(self) -> String {
        let rows = match self.rows {
            Rows::Identical => "identical",
            Rows::Varied => "varied",
        };
        let columns = COLUMNS.len() + if self.wide { ABSENT_COLUMNS } else { 0 };
        let packed = if self.compressed { "lz4" } else { "uncompressed" };
        let order = if self.pipelined { "pipelined" } else { "serial" };
        format!("{rows}, {columns} columns, {packed}, {order}")
    }

    fn is_judged(self) -> bool {
        !self.compressed && !self.wide
    }
}

/// Measures, and tells progress by `say`.
///
/// # Errors
/// When a part does not start or a client fails. A wrong table is no error but a verdict.
pub async fn measure(plan: &Plan, say: &dyn Fn(&str)) -> anyhow::Result<Report> {
    if plan.ways.is_empty() {
        bail!("there is no way of sending to measure");
    }
    let place = Place::make(&plan.common, say)?;
    let bench = Bench { plan, place: &place };
    let outcome = bench.measure().await;
    place.clear(outcome)
}

struct Bench<'a> {
    plan: &'a Plan,
    place: &'a Place<'a>,
}

impl Bench<'_> {
    async fn measure(&self) -> anyhow::Result<Report> {
        let server = self.place.server().await?;
        for rows in [Rows::Identical, Rows::Varied] {
            let workload = self.workload(rows);
            if self.plan.ways.iter().any(|way| way.rows == rows) {
                rows::write(&workload, self.plan.batch_rows, &self.rows_file(rows))?;
            }
        }
        let setting = {
            let sentences = vec![
                format!(
                    "{} batches of {} rows of 32 columns and {ROW_BYTES} B, over one connection (HTTP, FORMAT Native)",
                    self.plan.batches,
                    figure::whole(self.plan.batch_rows as f64)
                ),
                format!(
                    "after {WARM_UP} batches to warm up; CPU is the client process's own, its columns made before"
                ),
                "beside each batch a block that was encoded before: what the server takes at that moment"
                    .to_owned(),
            ];
            let facts = json!({ "batches": self.plan.batches, "batch_rows": self.plan.batch_rows });
            self.place.setting("clients", &server, sentences, facts.as_object().cloned().unwrap_or_default())
        };
        let mut built = Vec::new();
        for peer in &self.plan.against {
            self.place.say(&format!("building {}", peer.name()));
            built.push((*peer, peer.build(&self.place.dir)?));
        }
        let mut runs = Vec::new();
        for round in 1..=self.plan.common.repeat {
            for way in &self.plan.ways {
                self.place.say(&format!("round {round} of {}: {}", self.plan.common.repeat, way.name()));
                runs.extend(self.round(&server, *way, &built).await.with_context(|| way.name())?);
            }
        }
        server.stop().await?;
        let judged: Vec<String> =
            self.plan.ways.iter().filter(|way| way.is_judged()).map(|way| forebay(*way)).collect();
        Ok(Report::new(setting, runs, |arms| goals(arms, &judged)))
    }

    /// The client with its ready blocks, and then the peers.
    async fn round(&self, server: &Server, way: Way, built: &[(Peer, PathBuf)]) -> anyhow::Result<Vec<Run>> {
        let mut runs = self.run(server, way, Who::Forebay).await?;
        let ceiling = runs.last().and_then(|ready| ready.figures.get(ROWS_PER_S));
        for (peer, program) in built.iter().filter(|_| !way.pipelined) {
            for mut run in self.run(server, way, Who::Peer(*peer, program)).await? {
                let share = run.figures.get(ROWS_PER_S).zip(ceiling);
                run.figures.put_if(SHARE_OF_CEILING, share.map(|(rate, ceiling)| rate / ceiling));
                runs.push(run);
            }
        }
        Ok(runs)
    }

    /// One client; what it reports about ready blocks is a run of its own.
    async fn run(&self, server: &Server, way: Way, who: Who<'_>) -> anyhow::Result<Vec<Run>> {
        let table = format!("{}_rows", self.place.name);
        create(server, &table, way).await?;
        let touched = self.place.touch_memory()?;
        let before = server.usage()?;
        let order = client::Order {
            url: server.url().to_owned(),
            table: table.clone(),
            rows: self.rows_file(way.rows),
            batches: self.plan.batches,
            pipelined: way.pipelined,
            compressed: way.compressed,
        };
        let outcome = self.client(who, &order).await?;
        let clickhouse = server.usage()?.zip(before).map(|(after, before)| after.since(before));
        let found = server.content(&oracle::sql(&table)).await?;
        let measured = self.plan.batches * if outcome.ceiling.is_some() { 2 } else { 1 };
        let sent = WARM_UP + measured;
        let expected = self.workload(way.rows).expected(self.plan.batch_rows, sent);
        server.ask(&format!("DROP TABLE `{table}` SYNC")).await?;

        let mut figures = outcome.spent.figures(outcome.rows);
        figures.put(CLIENT_RSS, outcome.rss_bytes_max as f64);
        // Over all batches: those that warm up and the ready ones among them.
        let server_us = clickhouse.map(|usage| usage.cpu_s() * 1e6 / (sent * self.plan.batch_rows) as f64);
        figures.put_if(SERVER_US_PER_ROW, server_us);
        figures.put_if(SHARE_OF_CEILING, outcome.ceiling.map(|ceiling| ceiling.share));
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        let verdict = Verdict::of(of_content(expected, found));
        let run = |name: &str, figures| Run {
            arm: format!("{name}: {}", way.name()),
            figures,
            verdict: verdict.clone(),
            not_valid: None,
            trace: Trace::default(),
        };
        let ready = outcome.ceiling.map(|ceiling| run("replay", ceiling.spent.figures(outcome.rows)));
        Ok([run(who.name(), figures)].into_iter().chain(ready).collect())
    }

    /// Runs a client as a child and reads what it tells.
    async fn client(&self, who: Who<'_>, order: &client::Order) -> anyhow::Result<Outcome> {
        let command = match who {
            Who::Forebay => {
                let mut command = program()?;
                command.args(["bench", "client"]).args(order.arguments());
                command
            }
            Who::Peer(_, program) => {
                let mut command = Command::new(program);
                // Go takes long options with one dash as with two.
                command.args(order.arguments());
                command
            }
        };
        let mut child = Child::start("client", command, &self.place.dir)?;
        let end = child.wait(RUN_MAX).await?;
        let said = |suffix: &str| {
            std::fs::read_to_string(self.place.dir.join(format!("client.{suffix}"))).unwrap_or_default()
        };
        if !end.status.success() {
            bail!("{} failed ({}): {}", who.name(), end.status, said("err").trim());
        }
        let line = said("out");
        serde_json::from_str(&line).with_context(|| format!("the client reports `{}`", line.trim()))
    }

    fn workload(&self, rows: Rows) -> Workload {
        Workload { seed: self.plan.seed, rows }
    }

    fn rows_file(&self, rows: Rows) -> PathBuf {
        self.place.dir.join(match rows {
            Rows::Identical => "identical.rows",
            Rows::Varied => "varied.rows",
        })
    }
}

fn forebay(way: Way) -> String {
    format!("{}: {}", Who::Forebay.name(), way.name())
}

/// How the client opens its table: the 32 columns, and frames as large as a batch.
fn table_config(table: &str, compressed: bool) -> TableConfig {
    let mut config = TableConfig::new("default", table);
    config.columns = Some(COLUMNS.iter().map(|column| column.name.to_owned()).collect());
    config.compression = if compressed { Method::Lz4 } else { Method::None };
    // A batch of any size that is measured is one insert.
    config.frame_rows_max = usize::MAX;
    config.frame_bytes_max = usize::MAX;
    config
}

async fn create(server: &Server, table: &str, way: Way) -> anyhow::Result<()> {
    let type_of = |kind| match kind {
        Kind::Text(_) => "String",
        Kind::Int32 => "Int32",
        Kind::Int64 => "Int64",
    };
    let mut columns: Vec<(String, String)> =
        COLUMNS.iter().map(|column| (column.name.to_owned(), type_of(column.kind).to_owned())).collect();
    if way.wide {
        // Of the same types in turn, as in a log that many devices share.
        let defaults = ["String DEFAULT ''", "Int32 DEFAULT 0", "Int64 DEFAULT 0"];
        columns.extend((0..ABSENT_COLUMNS).map(|n| (format!("other_{n}"), defaults[n % 3].to_owned())));
    }
    let mut config = table_config(table, false);
    config.create = Some(CreateTable { columns, order_by: "lid".to_owned(), partition_by: String::new() });
    let opened = ClickHouseTable::open(ServerConfig::new(server.url()), config, TokioRuntime::new(1)).await;
    opened.map(|_| ()).map_err(|faults| client::refused(&faults))
}

fn goals(arms: &[Summed], judged: &[String]) -> Vec<Goal> {
    let of = |name: &String, figure| {
        arms.iter().find(|arm| arm.name == *name).and_then(|arm| arm.summary.get(figure))
    };
    let each = |name: &String| {
        let cpu = of(name, CPU_US_PER_ROW).map(|cpu| cpu.median <= CPU_US_GOAL);
        let share = of(name, SHARE_OF_CEILING).map(|share| share.median >= CEILING_GOAL);
        [
            Goal { text: format!("at most {CPU_US_GOAL} µs of client CPU a row ({name})"), met: cpu },
            Goal {
                text: format!("{:.0} % of the server's ceiling ({name})", CEILING_GOAL * 100.0),
                met: share,
            },
        ]
    };
    judged.iter().flat_map(each).collect()
}
