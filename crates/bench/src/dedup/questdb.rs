//! The second reading changes every row: QuestDB, whose tables replace the rows of a key by themselves (`DEDUP UPSERT KEYS`).
//!
//! Owns its process, of which nothing is kept after a run, and the client, which sends the rows as line protocol over HTTP, a hundred thousand
//! at a time, two files at a time as our engine reads them. A reading is over once the table has taken all of it from its log, which it writes
//! first: only then does a query see the rows. Does not own the jar (`crate::maven`) nor the rows.
//!
//! QuestDB parses its own protocol and not JSON, so its CPU compares with that of an engine that was given the rows in its own format.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use workloads::content::Content;
use workloads::dedup::{Workload, oracle};

use super::upsert::{ASKED, COUNT_MS, SUM_MS};
use super::{
    AtEnd, Bench, Changes, DUPLICATES, Figure, Figures, LINES_OF_AN_INSERT, LOOKS, ROWS_PER_S, Run, Shown,
    Verdict, WALL_RATIO, figure, of_content, parts_of,
};
use crate::child::{Child, Usage};
use crate::maven::Jars;

const POM: &str = include_str!("../../peers-questdb/pom.xml");

/// The arm's name.
const NAME: &str = "QuestDB 9.3.4";
/// The table. A month is a partition of it, so that no reading touches more than a few hundred.
const TABLE: &str = "sales";
const CREATE: &str = "CREATE TABLE sales (ts TIMESTAMP, country SYMBOL, category SYMBOL, visits LONG, unique_visitors LONG, sales DOUBLE) \
     TIMESTAMP(ts) PARTITION BY MONTH WAL DEDUP UPSERT KEYS(ts, country, category)";

/// From the start of the Java machine to the first answer.
const START_MAX: Duration = Duration::from_secs(120);
/// A clean stop.
const STOP_MAX: Duration = Duration::from_secs(60);
/// The table takes in what its log holds at a million rows a second as a rule.
const TAKE_IN_MAX: Duration = Duration::from_secs(1_800);
/// How often it is asked whether it has: the error of the wall time.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes of an answer at the most: one row of the table takes 60.
const ANSWER_BYTES_MAX: usize = 16 << 30;

const CPU_S: Figure = Figure::new("questdb_cpu_s", "QuestDB CPU, s", Shown::Decimals(2));
const CPU_RATIO: Figure =
    Figure::new("questdb_cpu_ratio", "QuestDB CPU, second by first", Shown::Decimals(3));

/// What its jar is, once it is here.
pub(super) struct QuestDb {
    jars: Jars,
}

impl QuestDb {
    /// Fetches the jar into `dir`.
    ///
    /// # Errors
    /// When Maven is not there, or refuses.
    pub fn fetch(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self { jars: Jars::fetch(dir, "questdb", POM)? })
    }

    /// Both readings, of rows as line protocol.
    pub async fn run(&self, bench: &Bench<'_>, number: u32, changes: &Changes) -> anyhow::Result<[Run; 2]> {
        let dir = bench.place.folder(&format!("run-{number}-questdb"))?;
        let mut server = Running::start(&self.jars, &dir).await?;
        let outcome = readings(bench, &server, changes).await;
        server.stop().await?;
        if !bench.plan.common.keep {
            std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove `{}`", dir.display()))?;
        }
        outcome
    }
}

async fn readings(bench: &Bench<'_>, server: &Running, changes: &Changes) -> anyhow::Result<[Run; 2]> {
    server.exec(CREATE).await?;
    let rows = bench.plan.workload.rows_total() as f64;
    let mut readings = Vec::with_capacity(2);
    for (files, expected) in changes.lines.iter().zip(changes.expected) {
        bench.place.touch_memory()?;
        let (before, begun) = (server.usage()?, Instant::now());
        server.send(files).await?;
        server.take_in().await?;
        let wall_s = begun.elapsed().as_secs_f64();
        let cpu_s = server.usage()?.since(before).cpu_s();
        let at_end = AtEnd { at: Instant::now(), duplicates: server.duplicates().await? };
        let found = server.content().await?;
        readings.push((wall_s, cpu_s, Verdict::of(of_content(expected, found)), at_end));
    }
    let [first, second] = <[_; 2]>::try_from(readings).map_err(|_| anyhow::anyhow!("two readings"))?;
    let mut asked = Figures::default();
    asked.put(WALL_RATIO, second.0 / first.0);
    asked.put(CPU_RATIO, second.1 / first.1);
    server.ask(bench, second.3, &mut asked).await?;
    let run = |arm: &str, (wall_s, cpu_s, verdict, _): (f64, f64, Verdict, AtEnd), asked: Figures| {
        let mut figures = Figures::default();
        figures.put(ROWS_PER_S, rows / wall_s);
        figures.put(figure::WALL_S, wall_s);
        figures.put(CPU_S, cpu_s);
        asked.figures().for_each(|figure| figures.put_if(figure, asked.get(figure)));
        Run { arm: format!("{NAME}, {arm}"), figures, verdict, not_valid: None, trace: Default::default() }
    };
    Ok([run("second reading", second, asked), run("first reading", first, Figures::default())])
}

/// A QuestDB that runs.
struct Running {
    child: Child,
    address: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Running {
    async fn start(jars: &Jars, dir: &Path) -> anyhow::Result<Self> {
        // Taken a moment later; a port that another has taken meanwhile shows as a start that fails.
        let free = std::net::TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        let address = free.local_addr()?.to_string();
        drop(free);
        let conf = dir.join("conf");
        std::fs::create_dir_all(&conf).with_context(|| format!("cannot make `{}`", conf.display()))?;
        std::fs::write(conf.join("server.conf"), configuration(&address))
            .with_context(|| format!("cannot write `{}`", conf.display()))?;
        let mut command = Command::new("java");
        command.args(["-cp", &jars.class_path(), "io.questdb.ServerMain", "-n", "-d"]).arg(dir);
        let child = Child::start("questdb", command, dir)?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut server = Self { child, address, client };
        let begun = Instant::now();
        while server.exec("SELECT 1").await.is_err() {
            if server.child.poll()?.is_some() || begun.elapsed() > START_MAX {
                let words = std::fs::read_to_string(dir.join("questdb.err")).unwrap_or_default();
                bail!("QuestDB did not start: {}", words.trim());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(server)
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        self.child.usage()
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        self.child.terminate();
        self.child.wait(STOP_MAX).await?;
        Ok(())
    }

    /// Sends every line of the files, of two at the same time.
    async fn send(&self, files: &[PathBuf]) -> anyhow::Result<()> {
        let every_other = async |first: usize| {
            for file in files.iter().skip(first).step_by(2) {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read `{}`", file.display()))?;
                for lines in parts_of(&text, LINES_OF_AN_INSERT) {
                    self.call(Method::POST, "/write", Bytes::copy_from_slice(lines.as_bytes())).await?;
                }
            }
            anyhow::Ok(())
        };
        tokio::try_join!(every_other(0), every_other(1))?;
        Ok(())
    }

    /// Waits until the table has taken in all that its log holds.
    async fn take_in(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let sql =
            format!("SELECT suspended, sequencerTxn - writerTxn FROM wal_tables() WHERE name = '{TABLE}'");
        loop {
            let row = self.exec(&sql).await?;
            ensure!(row[0] != Value::Bool(true), "QuestDB has suspended its table");
            if row[1].as_u64().with_context(|| format!("QuestDB answers `{row}` of its log"))? == 0 {
                return Ok(());
            }
            ensure!(begun.elapsed() < TAKE_IN_MAX, "QuestDB takes in nothing more");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Every value of every row.
    async fn content(&self) -> anyhow::Result<Content> {
        let sql = format!(
            "SELECT ts::long / 1000000, country, category, visits, unique_visitors, round(sales * 10000)::long FROM {TABLE}"
        );
        let csv = self.call(Method::GET, &path("/exp", &sql), Bytes::new()).await?;
        let mut content = Content::default();
        for line in std::str::from_utf8(&csv)?.lines().skip(1) {
            let hash = oracle::of_csv(line).with_context(|| format!("`{line}` is no row"))?;
            content = content.plus(Content { rows: 1, ids: 0, checksum: hash });
        }
        Ok(Content { ids: content.rows - self.duplicates().await?, ..content })
    }

    async fn duplicates(&self) -> anyhow::Result<u64> {
        let all = self.number(&format!("SELECT count() FROM {TABLE}")).await?;
        let keys = format!("SELECT count() FROM (SELECT DISTINCT ts, country, category FROM {TABLE})");
        Ok(all - self.number(&keys).await?)
    }

    /// Duplicates by and by, and what it costs to read the table.
    async fn ask(&self, bench: &Bench<'_>, at_end: AtEnd, figures: &mut Figures) -> anyhow::Result<()> {
        figures.put(DUPLICATES, at_end.duplicates as f64);
        for (figure, of) in [(COUNT_MS, "count()"), (SUM_MS, "sum(visits)")] {
            let mut took_ms = Vec::with_capacity(ASKED);
            for _ in 0..ASKED {
                let begun = Instant::now();
                self.number(&format!("SELECT {of} FROM {TABLE}")).await?;
                took_ms.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            took_ms.sort_by(f64::total_cmp);
            figures.put(figure, took_ms[ASKED / 2]);
        }
        for (at, figure) in LOOKS.iter().filter(|_| bench.plan.look_again) {
            tokio::time::sleep(at.saturating_sub(at_end.at.elapsed())).await;
            figures.put(*figure, self.duplicates().await? as f64);
        }
        Ok(())
    }

    async fn number(&self, sql: &str) -> anyhow::Result<u64> {
        let row = self.exec(sql).await?;
        row[0].as_u64().with_context(|| format!("QuestDB answers `{row}` instead of a number"))
    }

    /// Runs a statement; the first row of its answer, or null.
    async fn exec(&self, sql: &str) -> anyhow::Result<Value> {
        let answer = self.call(Method::GET, &path("/exec", sql), Bytes::new()).await?;
        let answer: Value = serde_json::from_slice(&answer).context("QuestDB answers no JSON")?;
        Ok(answer["dataset"][0].clone())
    }

    async fn call(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        let uri = format!("http://{}{path}", self.address);
        let request = Request::builder().method(method).uri(uri).body(Full::new(body))?;
        let answer = self.client.request(request).await.context("QuestDB does not answer")?;
        let status = answer.status();
        let words = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let words = words.map_err(|error| anyhow::anyhow!("QuestDB's answer broke off: {error}"))?.to_bytes();
        ensure!(status.is_success(), "QuestDB answers {status}: {}", String::from_utf8_lossy(&words).trim());
        Ok(words)
    }
}

/// One listener, on this machine alone.
fn configuration(address: &str) -> String {
    format!(
        "http.bind.to={address}\nhttp.min.enabled=false\npg.enabled=false\nline.tcp.enabled=false\ntelemetry.enabled=false\n"
    )
}

fn path(of: &str, sql: &str) -> String {
    let query: String = sql
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    format!("{of}?query={query}")
}

/// Appends a row as line protocol, without a line end; false behind the end of the file.
pub(super) fn write_line(workload: &Workload, file: u32, row: u64, out: &mut Vec<u8>) -> bool {
    workload.write_line_protocol(TABLE, file, row, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_a_path() {
        assert_eq!(path("/exec", "SELECT 'ä' + 1"), "/exec?query=SELECT%20%27%C3%A4%27%20%2B%201");
    }
}
