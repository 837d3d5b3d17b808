//! `forebay demo`: the whole path on one machine, checked at the end.
//!
//! Owns the story: ClickHouse's engine as a child, a pipeline file that one can keep and change, live progress, and a look
//! at the table itself. Does not own the checks' arithmetic (`workloads::glassflow::oracle`) or anything of the path.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bench::server::Server;
use clap::Args;
use engine::{Outcome, Snapshot, Status, TokioRuntime};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pipeline::wiring;
use tokio::sync::watch;
use workloads::glassflow::oracle::{self, Content};
use workloads::glassflow::{Spec, Workload};

use super::place;
use crate::console::{Exit, print};
use crate::progress;
use crate::signals::Signals;

/// Publishers of the made-up events; each is a partition.
const PUBLISHERS: u32 = 2;
/// The table of the demo.
const TABLE: &str = "user_events";
/// A file that marks a folder as the demo's own, which may be emptied.
const MARK: &str = ".forebay-demo";

/// Shows the whole path: generates events with duplicates, deduplicates them into ClickHouse, and checks the table.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Shows the whole path on this machine: starts ClickHouse's engine, generates user events with duplicates near and far, runs \
a pipeline over them, and checks the table: row count, unique ids, content. Needs no other service.

Ends with code 0 only if every event is in the table exactly once.",
    after_help = "\
Examples:
  forebay demo
  forebay demo --uniques 20000000
  forebay demo --dir /tmp/forebay-demo"
)]
pub struct Demo {
    /// The number of distinct events; a tenth as many duplicates are added.
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(2_000..=1_000_000_000))]
    uniques: u64,

    /// The folder for the data and the pipeline file. Files of an earlier demo in it are deleted.
    #[arg(long, value_name = "DIR", default_value = "./forebay-demo")]
    dir: PathBuf,
}

impl Demo {
    /// Runs the command.
    ///
    /// # Errors
    /// When a part does not start, or the pipeline cannot go on.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        super::runtime()?.block_on(self.run())
    }

    async fn run(&self) -> anyhow::Result<Exit> {
        let dir = fresh(&self.dir)?;
        let workload = Workload::new(self.spec()).context("cannot make up such events")?;
        say("starting ClickHouse's engine")?;
        let server = Server::start_with_token(&dir).await?;
        let token = server.token().unwrap_or_default().to_owned();
        let file = dir.join("user-events.yaml");
        write_private(&file, &self.pipeline(server.url(), &token, &dir))
            .context("cannot write the pipeline file")?;
        say(&format!(
            "ClickHouse {} listens at {}/?password={token}; the pipeline is {}",
            server.version(),
            server.url(),
            file.display()
        ))?;
        let begun = Instant::now();
        let Some(last) = run_pipeline(&file, workload.records_total()).await? else {
            server.stop().await?;
            return Ok(Exit::Stopped);
        };
        let seconds = begun.elapsed().as_secs_f64();
        let found = server.content(&oracle::sql(TABLE)).await?;
        let url = server.url().to_owned();
        server.stop().await?;
        let right = verdict(&workload.expected(), &found, &last, seconds)?;
        print(&next_commands(&dir, &file, &url, &token))?;
        Ok(if right { Exit::Done } else { Exit::Failed })
    }

    /// Whole numbers of everything for each publisher.
    fn spec(&self) -> Spec {
        let uniques = self.uniques / u64::from(PUBLISHERS);
        Spec {
            publishers: PUBLISHERS,
            uniques,
            far_duplicates: uniques / 20,
            cross_duplicates: uniques / 100,
            ..Spec::default()
        }
    }

    fn pipeline(&self, url: &str, token: &str, dir: &Path) -> String {
        let Spec { uniques, far_duplicates, cross_duplicates, seed, .. } = self.spec();
        let all = |each: u64| each * u64::from(PUBLISHERS);
        format!(
            "\
# Written by `forebay demo`. Keep it, change it, run it: forebay run {file}
pipeline: user-events
store: {store}
source:
  generator:
    workload: glassflow
    uniques: {uniques}
    publishers: {PUBLISHERS}
    far_duplicates: {far}
    cross_duplicates: {cross}
    seed: {seed}
steps:
  - dedup: {{ key: [event_id], window: unbounded, time: created_at }}
columns: {{ user_name: name, user_email: email }}
sink:
  clickhouse:
    url: {url}
    password: \"{token}\"
    table: {TABLE}
    provenance: true
    create:
      columns:
        event_id: UUID
        user_id: UUID
        created_at: DateTime('UTC')
        user_name: String
        user_email: String
      order_by: event_id
http: {{ listen: none }}
",
            file = place::quoted(&dir.join("user-events.yaml")),
            store = dir.join("store").display(),
            uniques = all(uniques),
            far = all(far_duplicates),
            cross = all(cross_duplicates),
        )
    }
}

/// An empty folder, absolute. Only what a demo made is removed.
fn fresh(dir: &Path) -> anyhow::Result<PathBuf> {
    let dir = std::path::absolute(dir).with_context(|| format!("`{}` is no path", dir.display()))?;
    if dir.exists() {
        let is_empty =
            dir.read_dir().with_context(|| format!("cannot read `{}`", dir.display()))?.next().is_none();
        if !is_empty && !dir.join(MARK).exists() {
            bail!("`{}` holds something that no demo made; name another folder with `--dir`", dir.display());
        }
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot empty `{}`", dir.display()))?;
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
    std::fs::write(dir.join(MARK), "").with_context(|| format!("cannot write to `{}`", dir.display()))?;
    Ok(dir)
}

/// Runs the pipeline to its end with live progress; `None` if a signal stopped it before.
async fn run_pipeline(file: &Path, records: u64) -> anyhow::Result<Option<Snapshot>> {
    let pipeline = super::load(file)?.context("the demo's own pipeline file has faults")?;
    let mut signals = Signals::listen().context("cannot take over SIGTERM and SIGINT")?;
    let status = Arc::new(Status::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let reads = wiring::Reads::All;
    let runtime = TokioRuntime::new(threads);
    let known = wiring::Known::default();
    let parts = wiring::assemble(&pipeline, runtime, status.clone(), false, reads, &known).await?;
    let (stop, asked) = watch::channel(false);
    let run = engine::run(parts, asked);
    tokio::pin!(run);
    let mut asked_already = false;
    loop {
        tokio::select! {
            outcome = &mut run => {
                return match outcome? {
                    Outcome::Complete => Ok(Some(status.snapshot())),
                    // Nobody changes the demo's own table; whoever does ends it.
                    Outcome::Drained | Outcome::Interrupted | Outcome::Reopen { .. } => Ok(None),
                };
            }
            _ = signals.next() => {
                if asked_already {
                    return Ok(None);
                }
                asked_already = true;
                // The lane is at its end if nobody listens.
                let _ = stop.send(true);
            }
            () = show(&status, records) => {}
        }
    }
}

/// Shows progress until it is dropped: a bar on a terminal, a line a second elsewhere.
async fn show(status: &Status, records: u64) {
    let is_terminal = std::io::stderr().is_terminal();
    let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(records), target);
    let style =
        ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}").expect("the template is fixed");
    bar.set_style(style);
    let mut before = status.snapshot();
    let every = if is_terminal { Duration::from_millis(200) } else { Duration::from_secs(1) };
    loop {
        tokio::time::sleep(every).await;
        let now = status.snapshot();
        let line = line(&before, &now, records, every.as_secs_f64());
        bar.set_position(progress::read(&now));
        bar.set_message(line.clone());
        if !is_terminal {
            // A progress line that cannot be written is not worth a failure.
            let _ = writeln!(std::io::stderr(), "  {line}");
        }
        before = now;
    }
}

fn line(before: &Snapshot, now: &Snapshot, records: u64, seconds: f64) -> String {
    let read = progress::read(now);
    let rate = (read.saturating_sub(progress::read(before)) as f64 / seconds).round() as u64;
    format!(
        "{} records/s, lag {}, duplicates dropped {}, settled {}",
        grouped(rate),
        grouped(records.saturating_sub(read)),
        grouped(now.sealed.records.duplicates + now.unsealed.records.duplicates),
        grouped(progress::settled(now)),
    )
}

/// Tells what the table holds beside what it should, and whether that is right.
fn verdict(expected: &Content, found: &Content, last: &Snapshot, seconds: f64) -> anyhow::Result<bool> {
    let counts = last.sealed;
    let mut text = format!(
        "\n{} records read in {seconds:.1} s: {} written, {} duplicates dropped, {} dead letters\n\n",
        grouped(counts.records.read),
        grouped(counts.written),
        grouped(counts.records.duplicates),
        grouped(counts.dead_letters)
    );
    let mut right = counts.records.add_up();
    let rows = [
        ("rows in the table", expected.rows, found.rows),
        ("unique event ids", expected.ids, found.ids),
        ("content checksum", expected.checksum, found.checksum),
    ];
    for (what, expected, found) in rows {
        let word = if expected == found { "right" } else { "WRONG" };
        right &= expected == found;
        let (expected, found) = if what == "content checksum" {
            (format!("{expected:016x}"), format!("{found:016x}"))
        } else {
            (grouped(expected), grouped(found))
        };
        text += &format!("  {what:<18} {found:>18}   expected {expected:>18}   {word}\n");
    }
    text +=
        if right { "\nEvery event is in the table exactly once.\n" } else { "\nThe table is not right.\n" };
    print(&text)?;
    Ok(right)
}

/// Writes a file that only its owner may read, for it holds a password.
fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())
}

fn next_commands(dir: &Path, file: &Path, url: &str, token: &str) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "forebay".to_owned());
    let address = url.trim_start_matches("http://");
    let (program, data) = (files::names::quoted(&program), place::quoted(&dir.join("clickhouse")));
    let (dir, file) = (dir.display(), place::quoted(file));
    format!(
        "
The data is in {dir}. Next:
  {program} clickhouse --http {address} --path {data} --token {token} &
  curl http://default:{token}@{address} --data-binary 'SELECT user_name, count() FROM {TABLE} GROUP BY user_name ORDER BY 2 DESC LIMIT 5'
  {program} status {file}
"
    )
}

fn say(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stderr(), "{line}").context("cannot write to standard error")
}

/// A number with a blank between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or("")).collect();
    groups.join(" ")
}

#[cfg(test)]
mod tests;
