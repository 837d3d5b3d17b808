//! The options of `forebay bench clients`, and the hidden command that is one client.
//!
//! Owns which combinations a command line asks for and their order, and that a client has one thread. Does not own the sending
//! (`clients::client`), nor the turns and the comparison (`crate::clients`).

use clap::{Args, ValueEnum};
use workloads::clients::Rows;

use super::{Print, Shared, runtime, say};
use crate::clients::{self, Plan, Way, client};
use crate::peer::Peer;

/// Sends wide rows from columns in memory, as a client library does.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Sends wide rows from columns in memory, as a client library does: 32 columns and 917 bytes a row, batches of 100,000, one \
connection. Reports the client's CPU a row, and which share it reaches of what the server takes of a block that is ready, which \
is sent beside each batch.

Every combination of --content, --columns, --compression and --mode is measured, --repeat times in turns. A run sends 22 batches \
and takes 8 to 15 s on two cores, so the four by default take about 4 minutes.",
    after_help = "\
Examples:
  forebay bench clients                                                 # varied rows, 32 columns
  forebay bench clients --compression none --mode serial --repeat 1
  forebay bench clients --content identical,varied --columns 32,689     # all sixteen combinations
  forebay bench clients --mode serial --against ch-go,clickhouse-go     # needs Go
  forebay bench clients --json > report.json

Ends with code 1 when a table is wrong."
)]
pub struct Clients {
    /// Rows per batch.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    batch_rows: u64,

    /// Batches to measure, after two that are not measured.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    batches: u64,

    /// The same seed gives the same rows.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Whether rows differ.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Content::Varied])]
    content: Vec<Content>,

    /// Columns of the table; those beyond 32 get their defaults.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Columns::Filled])]
    columns: Vec<Columns>,

    /// Whether blocks are compressed.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Compression::None, Compression::Lz4])]
    compression: Vec<Compression>,

    /// Whether the next batch is encoded while the previous one is sent.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Mode::Serial, Mode::Pipelined])]
    mode: Vec<Mode>,

    /// Also measures a peer client, in serial mode; it is built with Go on this machine.
    #[arg(long, value_name = "PEER", value_delimiter = ',', value_parser = [Peer::ChGo.name(), Peer::ClickhouseGo.name()])]
    against: Vec<String>,

    #[command(flatten)]
    shared: Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Content {
    /// Every row is the same.
    Identical,
    /// Each row by itself.
    Varied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Columns {
    /// Those that every row fills.
    #[value(name = "32")]
    Filled,
    /// 657 more.
    #[value(name = "689")]
    Wide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compression {
    /// As they are, with checksums.
    None,
    /// By LZ4.
    Lz4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Encode, send, wait.
    Serial,
    /// Encode the next meanwhile.
    Pipelined,
}

impl Clients {
    /// Runs the command; true if every table was right.
    ///
    /// # Errors
    /// When a part does not start or a client fails.
    pub fn execute(&self, print: Print) -> anyhow::Result<bool> {
        let plan = Plan {
            common: self.shared.common(None),
            batch_rows: self.batch_rows,
            batches: self.batches,
            seed: self.seed,
            ways: self.ways(),
            against: [Peer::ChGo, Peer::ClickhouseGo]
                .into_iter()
                .filter(|peer| self.against.iter().any(|name| name == peer.name()))
                .collect(),
        };
        let report = runtime()?.block_on(clients::measure(&plan, &say))?;
        self.shared.show(&report, print)
    }

    fn ways(&self) -> Vec<Way> {
        let mut ways = Vec::new();
        for content in &self.content {
            for columns in &self.columns {
                for compression in &self.compression {
                    for mode in &self.mode {
                        ways.push(Way {
                            rows: match content {
                                Content::Identical => Rows::Identical,
                                Content::Varied => Rows::Varied,
                            },
                            wide: *columns == Columns::Wide,
                            pipelined: *mode == Mode::Pipelined,
                            compressed: *compression == Compression::Lz4,
                        });
                    }
                }
            }
        }
        ways
    }
}

/// One client of `clients`: a process of its own, so that what it uses is its own.
#[derive(Debug, Args)]
pub struct Client {
    #[command(flatten)]
    order: client::Order,
}

impl Client {
    /// Runs the command; true if every table was right.
    ///
    /// # Errors
    /// When the table or a batch is refused.
    pub fn execute(&self, print: Print) -> anyhow::Result<bool> {
        // One thread sends and waits, as in the clients that it is compared with; encoding ahead has one of its own.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(client::send(&self.order))?;
        print(&format!("{}\n", serde_json::to_string(&outcome)?))?;
        Ok(true)
    }
}
