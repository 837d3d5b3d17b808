//! The options of `forebay bench dedup`.
//!
//! Owns the size that is measured unless another is named, a hundredth of the published one. Does not own the two readings and their
//! verdict (`crate::dedup`) or the rows (`workloads::dedup`).

use clap::Args;
use pipeline::config::values::Size;
use workloads::dedup::{MINUTES_PUBLISHED, Spec, Workload};

use super::{Print, Shared, runtime, say};
use crate::dedup::{self, Plan};

/// Reads files of sales twice; the second time every row is a duplicate.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Ingests files of sales twice: the second time every row is a duplicate. Reports the second reading by the first, in wall time \
and engine CPU, and how many duplicates are visible at the end of it.

Five countries of three files each, six rows a minute. The published size is 2,102,400 minutes a file: 189,216,000 rows. \
Files hold JSON lines, and one table takes all countries.",
    after_help = "\
Examples:
  forebay bench dedup                                  # a hundredth of the published size, five times
  forebay bench dedup --minutes 210240 --repeat 1      # a tenth
  forebay bench dedup --look-again                     # looks for duplicates again after 10 s and 60 s
  forebay bench dedup --upsert --replacing             # beside it, a second reading that changes every row
  forebay bench dedup --against questdb                # the same with QuestDB; needs Maven and Java 17
  forebay bench dedup --json > report.json

Ends with code 1 when a table is wrong, or more rows were ever visible than there are keys."
)]
pub struct Dedup {
    /// Minutes of each file.
    #[arg(long, value_name = "N", default_value_t = MINUTES_PUBLISHED / 100)]
    minutes: u32,

    /// Files of each of the five countries.
    #[arg(long, value_name = "N", default_value_t = 3)]
    files_per_country: u32,

    /// The same seed gives the same rows.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Checks for duplicates again 10 s and 60 s after the second reading, in every run.
    #[arg(long)]
    look_again: bool,

    /// Reads into a table with `upsert` too: there the second reading changes every row.
    #[arg(long)]
    upsert: bool,

    /// Has a plain client insert the same changed rows into a ReplacingMergeTree too.
    #[arg(long)]
    replacing: bool,

    /// Sends the same changed rows to QuestDB too, in alternation; Maven fetches it to this machine, and Java 17 runs it.
    #[arg(long, value_name = "PEER", value_parser = ["questdb"])]
    against: Option<String>,

    /// The pipeline's `memory`, such as `256MiB`; its default if left out.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    #[command(flatten)]
    shared: Shared,
}

impl Dedup {
    /// Runs the command; true if every table was right.
    ///
    /// # Errors
    /// When a part does not start or the engine fails.
    pub fn execute(&self, print: Print) -> anyhow::Result<bool> {
        let Self { minutes, files_per_country, seed, look_again, upsert, replacing, against, memory, shared } =
            self;
        let spec = Spec { seed: *seed, minutes: *minutes, files_per_country: *files_per_country };
        let plan = Plan {
            common: shared.common(*memory),
            workload: Workload::new(spec)?,
            look_again: *look_again,
            upsert: *upsert,
            replacing: *replacing,
            questdb: against.is_some(),
        };
        let report = runtime()?.block_on(dedup::measure(&plan, &say))?;
        shared.show(&report, print)
    }
}
