//! `forebay generate`: writes a workload's records to a file, to standard output, or to a Kafka topic.
//!
//! Owns where the records go. Does not own the records (`workloads`: the same options give the same bytes), nor their options, which
//! `bench` has too (`options::shape`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bench::options::Shape;
use clap::Args;
use pipeline::config::model::source::Workload;
use sources::kafka::produce::{Outgoing, Producer};
use workloads::glassflow::{self, RECORD_BYTES_MAX};

use crate::console::{Exit, Mistake};

/// Writes generated records, the same in every run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay generate glassflow --uniques 2000000 --to events.jsonl
  forebay generate glassflow --uniques 1000 --to - | head -3
  forebay generate glassflow --uniques 2000000 --far-duplicates 100000 --publishers 4 --to events.jsonl
  forebay generate glassflow --uniques 2000000 --brokers localhost:9092 --topic user_events")]
pub struct Generate {
    /// What the records look like.
    #[arg(value_enum)]
    workload: Workload,

    #[command(flatten)]
    shape: Shape,

    /// The file to write, one record a line; `-` for standard output.
    #[arg(long, value_name = "FILE", required_unless_present = "topic")]
    to: Option<PathBuf>,

    /// Overwrites an existing file.
    #[arg(long, requires = "to")]
    force: bool,

    /// The Kafka topic to write to, which must exist; records have no key, so they are spread over its partitions.
    #[arg(long, value_name = "TOPIC", requires = "brokers", conflicts_with = "to")]
    topic: Option<String>,

    /// Brokers to contact first, as `host:port`, separated by commas.
    #[arg(long, value_name = "BROKERS", requires = "topic")]
    brokers: Option<String>,
}

impl Generate {
    /// Runs the command.
    ///
    /// # Errors
    /// When the shape makes no workload or the place cannot be written.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Workload::Glassflow = self.workload;
        let workload = self.shape.workload().map_err(Mistake::of)?;
        let place = match (&self.to, &self.topic, &self.brokers) {
            (Some(path), ..) if path == Path::new("-") => return to_stdout(&workload),
            (Some(path), ..) => {
                let file = self.create(path)?;
                write_lines(&workload, file).with_context(|| format!("cannot write `{}`", path.display()))?;
                format!("`{}`", path.display())
            }
            (None, Some(topic), Some(brokers)) => {
                produce(&workload, brokers, topic)?;
                format!("topic `{topic}`")
            }
            (None, ..) => bail!("give `--to`, or `--brokers` and `--topic`"),
        };
        let told = writeln!(
            std::io::stderr(),
            "wrote {} records ({} distinct, {} duplicates) to {place}",
            workload.records_total(),
            workload.uniques_total(),
            workload.duplicates_total()
        );
        // The records are written, whether anybody reads that they are or not.
        told.ok();
        Ok(Exit::Done)
    }

    fn create(&self, path: &Path) -> anyhow::Result<File> {
        let shown = path.display();
        let mut options = File::options();
        options.write(true);
        if self.force {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        options.open(path).with_context(|| match path.exists() {
            true => format!("`{shown}` exists already; pass --force to overwrite it"),
            false => format!("cannot create `{shown}`"),
        })
    }
}

fn to_stdout(workload: &glassflow::Workload) -> anyhow::Result<Exit> {
    match write_lines(workload, std::io::stdout().lock()) {
        // The reader has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        other => other.map(|()| Exit::Done).context("cannot write to standard output"),
    }
}

/// How long the last records may take to be acknowledged by all replicas.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(60);

fn produce(workload: &glassflow::Workload, brokers: &str, topic: &str) -> anyhow::Result<()> {
    let brokers: Vec<String> = brokers.split(',').map(|broker| broker.trim().to_owned()).collect();
    let producer = Producer::new(&brokers, &BTreeMap::new(), None)?;
    each_record(workload, |record| {
        producer.send(&Outgoing { topic, payload: Some(record), ..Outgoing::default() })
    })?;
    Ok(producer.flush(ACKNOWLEDGED_WITHIN)?)
}

fn write_lines(workload: &glassflow::Workload, to: impl Write) -> std::io::Result<()> {
    let mut to = BufWriter::with_capacity(1 << 20, to);
    each_record(workload, |record| {
        to.write_all(record)?;
        to.write_all(b"\n")
    })?;
    to.flush()
}

/// All records, the publishers in turn: the order in which they would arrive at the same pace.
fn each_record<E>(
    workload: &glassflow::Workload,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut record = Vec::with_capacity(RECORD_BYTES_MAX);
    let publishers = workload.spec().publishers;
    let longest = (0..publishers).map(|publisher| workload.records(publisher)).max().unwrap_or(0);
    for position in 0..longest {
        for publisher in 0..publishers {
            record.clear();
            if workload.write(publisher, position, &mut record).is_some() {
                take(&record)?;
            }
        }
    }
    Ok(())
}
