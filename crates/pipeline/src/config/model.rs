//! The pipeline file as types: the one source of truth for keys, defaults and bounds.
//!
//! Owns every key that a file may have. The JSON Schema, the reference page, the schema walk and serde all come from
//! these types; nothing is said twice. Does not own rules that span several keys (`rules`).
//!
//! Beside JSON Schema's own words these keywords are used:
//!
//! | keyword             | meaning                                                                  |
//! |---------------------|--------------------------------------------------------------------------|
//! | `x-kind`            | the kind of a text, see `values`                                         |
//! | `x-least`, `x-most` | bounds of a period or size, as texts of that kind                        |
//! | `x-why`             | the reason of the bounds                                                 |
//! | `x-why-most`        | the reason of the greater one, if it is another                          |
//! | `x-later`           | words that a later version will know                                     |
//! | `x-both`            | the way out where more than one of `oneOf` is there                      |
//! | `x-never`           | keys that other programs have here and that none will be, with the reason and the way out |

pub mod input;
pub mod join;
pub mod listen;
pub mod lookup;
pub mod sink;
pub mod source;
pub mod step;
pub mod storage;
pub mod written;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use input::Input;
pub use sink::Create;
pub use source::Kafka;
pub use storage::ObjectStorage;

use self::listen::Listening;
use self::sink::{DeadLetters, Sink, Spool, TableSink};
use self::source::Source;
use self::step::Step;
use super::values::{Field, Identifier, Listen, Period, PipelineName, Size, StoreUrl};

/// A pipeline: where records come from, what happens to them, and the tables they end in.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Forebay pipeline file", extend(
    "oneOf" = [{"required": ["source"]}, {"required": ["inputs"]}],
    "x-both" = "write what `source` says as `source: …` under `inputs`, where it keeps its positions"
))]
pub struct Pipeline {
    /// The pipeline's name. It names the journal in the store: another name is another pipeline, which reads from the start.
    pub pipeline: PipelineName,

    /// Where the journal, the sealed segments and the state are kept. Pipelines may share a store.
    #[serde(default = "default_store")]
    pub store: StoreUrl,

    /// How to connect to a store on object storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_storage: Option<ObjectStorage>,

    /// The delivery guarantee. With `exactly_once` the pipeline refuses to start where the guarantee could not be kept.
    #[serde(default)]
    pub delivery: Delivery,

    /// Where records come from, if they come from one place: an input whose name is `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,

    /// Several inputs by name, each with what `source` says; the rows of all of them go through the same steps. The journal knows an input by its name: another name is another
    /// input, which is read from its start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "minProperties" = 1, "maxProperties" = 16,
        "x-why" = "each reads ahead, with connections and a decoder of its own, and they share the memory for it"
    ))]
    pub inputs: BTreeMap<Identifier, Source>,

    /// Where requests are taken for inputs that `listen`, and who may send them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<Listening>,

    /// What happens to the rows, in this order.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-why" = "every step costs a pass over the rows"))]
    pub steps: Vec<Step>,

    /// Columns whose field has another name: column to field, dotted for nested fields. Columns that are not named here
    /// are filled by the field of their own name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<Identifier, Field>,

    /// The table that the rows go to. With `sinks` it is what they share: the server and the bounds of a batch.
    pub sink: Sink,

    /// Several tables, with the rows that each of them takes. All are written exactly once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-why" = "each table has inserts in flight of its own, and a bit in the set that says where a row goes")
    )]
    pub sinks: Vec<TableSink>,

    /// How much may wait in the store while ClickHouse is unavailable. Beyond either bound reading pauses; nothing is lost.
    #[serde(default)]
    pub spool: Spool,

    /// The table for records that could not be written, each with the reason.
    #[serde(default)]
    pub dead_letters: DeadLetters,

    /// The memory that the pipeline uses in all, to within a fifth: records read ahead, batches, frames in flight, and the state of steps.
    #[serde(default = "default_memory")]
    #[schemars(extend(
        "x-least" = "128MiB", "x-most" = "1TiB",
        "x-why" = "the program alone takes half of that"
    ))]
    pub memory: Size,

    /// Metrics, health and status over HTTP.
    #[serde(default)]
    pub http: Http,

    /// What happens on SIGTERM and SIGINT.
    #[serde(default)]
    pub shutdown: Shutdown,

    /// What is logged, and how. The options of the command line and `FOREBAY_LOG` take precedence.
    #[serde(default)]
    pub log: Log,
}

/// What is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Every record is in the table once, whatever fails on the way.
    #[default]
    ExactlyOnce,
    /// Every record is in the table, some perhaps twice after a crash. Allows stores and sources that do not survive a crash.
    AtLeastOnce,
}

/// Metrics, health and status over HTTP.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// The address to listen on; `none` for no server, port 0 for any free port (the log says which). If the default port is in use, the next
    /// free one of the 16 from it on is taken.
    #[serde(default = "default_listen")]
    pub listen: Listen,

    /// Lets `listen` be an address that other machines can reach. There is no authentication.
    #[serde(default)]
    pub allow_remote: bool,
}

/// Pipelines on one machine that need no thought about ports: as many follow one another from the default port on.
const DEFAULT_PORTS: u16 = 16;

impl Http {
    /// The addresses to listen at, the first that is free: one, unless it is the default.
    pub fn addresses(&self) -> Vec<std::net::SocketAddr> {
        match self.listen {
            Listen::None => Vec::new(),
            Listen::At(address) if self.listen == default_listen() => {
                (0..DEFAULT_PORTS).map(|next| (address.ip(), address.port() + next).into()).collect()
            }
            Listen::At(address) => vec![address],
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: default_listen(), allow_remote: false }
    }
}

/// What happens on SIGTERM and SIGINT.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// How long to wait until sealed rows are in the table; what is left then waits in the store for the next start. Of a gateway: until requests under way are answered.
    #[serde(default = "default_shutdown")]
    #[schemars(extend(
        "x-least" = "1s", "x-most" = "1h",
        "x-why" = "a process that is asked to end must end; nothing is lost by a short time"
    ))]
    pub timeout: Period,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { timeout: default_shutdown() }
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// The log level: lines of this importance or more are logged.
    #[serde(default)]
    pub level: LogLevel,

    /// The format of a line.
    #[serde(default)]
    pub format: LogFormat,
}

/// How important a line must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people; coloured on a terminal.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

fn default_store() -> StoreUrl {
    "./forebay-data".parse().expect("the default is a path")
}

/// The memory of a pipeline whose file does not speak of it.
pub fn default_memory() -> Size {
    Size::mib(1024)
}

fn default_listen() -> Listen {
    Listen::At(std::net::SocketAddr::from(([127, 0, 0, 1], 9464)))
}

fn default_shutdown() -> Period {
    Period::seconds(30)
}
