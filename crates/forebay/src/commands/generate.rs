//! `forebay generate`: writes a workload's records to a file, to standard output, or to a Kafka topic.
//!
//! Owns where the records go. The records are those of `workloads`: the same options give the same bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use workloads::glassflow::{self, RECORD_BYTES_MAX, Spec};

use crate::cli::Exit;
use crate::config::model::source::Workload;

/// Writes made-up records, the same at every run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay generate glassflow --uniques 2000000 --to events.jsonl
  forebay generate glassflow --uniques 1000 --to - | head -3
  forebay generate glassflow --uniques 2000000 --far-duplicates 100000 --publishers 4 --to events.jsonl")]
pub struct Generate {
    /// What the records look like.
    #[arg(value_enum)]
    workload: Workload,

    #[command(flatten)]
    shape: Shape,

    /// The file to write, one record a line; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,

    /// Writes over a file that is there.
    #[arg(long)]
    force: bool,
}

/// How many records of which sort.
#[derive(Clone, Debug, Args)]
pub struct Shape {
    /// Distinct records of all publishers together; a multiple of --publishers.
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    pub uniques: u64,

    /// Independent streams of records.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub publishers: u32,

    /// The same seed gives the same records.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Copies from anywhere in a publisher's past, of all publishers together.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub far_duplicates: u64,

    /// Copies of other publishers' records, of all publishers together.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub cross_duplicates: u64,
}

impl Shape {
    /// The workload of that shape.
    ///
    /// # Errors
    /// When the numbers make none.
    pub fn workload(&self) -> anyhow::Result<glassflow::Workload> {
        let publishers = u64::from(self.publishers);
        let share = |what: &str, number: u64| match number.checked_rem(publishers) {
            Some(0) => Ok(number / publishers),
            _ => bail!("`{what}` is `{number}`, which is no multiple of the `{publishers}` publishers"),
        };
        let spec = Spec {
            seed: self.seed,
            publishers: self.publishers,
            uniques: share("uniques", self.uniques)?,
            far_duplicates: share("far duplicates", self.far_duplicates)?,
            cross_duplicates: share("cross duplicates", self.cross_duplicates)?,
            ..Spec::default()
        };
        Ok(glassflow::Workload::new(spec)?)
    }
}

impl Generate {
    /// Runs the command.
    ///
    /// # Errors
    /// When the shape makes no workload or the place cannot be written.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Workload::Glassflow = self.workload;
        let workload = self.shape.workload()?;
        if self.to == Path::new("-") {
            let result = write_lines(&workload, std::io::stdout().lock());
            return match result {
                // The reader has seen enough.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Done),
                other => other.map(|()| Exit::Done).context("cannot write to standard output"),
            };
        }
        let shown = self.to.display();
        let mut options = File::options();
        options.write(true);
        if self.force {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        let file = options.open(&self.to).with_context(|| match self.to.exists() {
            true => format!("`{shown}` is there already; pass --force to write over it"),
            false => format!("cannot create `{shown}`"),
        })?;
        write_lines(&workload, file).with_context(|| format!("cannot write `{shown}`"))?;
        eprintln!(
            "wrote {} records ({} distinct, {} duplicates) to `{shown}`",
            workload.records_total(),
            workload.uniques_total(),
            workload.duplicates_total()
        );
        Ok(Exit::Done)
    }
}

/// All records, one a line, the publishers in turn: the order in which they would arrive at the same pace.
fn write_lines(workload: &glassflow::Workload, to: impl Write) -> std::io::Result<()> {
    let mut to = BufWriter::with_capacity(1 << 20, to);
    let mut line = Vec::with_capacity(RECORD_BYTES_MAX + 1);
    let publishers = workload.spec().publishers;
    let longest = (0..publishers).map(|publisher| workload.records(publisher)).max().unwrap_or(0);
    for position in 0..longest {
        for publisher in 0..publishers {
            line.clear();
            if workload.write(publisher, position, &mut line).is_some() {
                line.push(b'\n');
                to.write_all(&line)?;
            }
        }
    }
    to.flush()
}
