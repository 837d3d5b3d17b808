//! From a file, or an answer of ClickHouse or PostgreSQL, to a table of rows.
//!
//! Owns the reading and its bounds. A row is decoded by the format's own decoder, so its values have the rules of a record's; one that does not fit its types makes the
//! whole unusable, for without it records would find nothing. Does not own when it is read ([`super`]).

use std::fs::{File, Metadata};
use std::io::{BufReader, Read};
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use clickhouse::ServerConfig;
use clickhouse::client::Client;
use dataflow::{BlockBuilder, Decoded, Decoder, Partition, RecordBlock, Runtime, TableFault};
use operators::LookupTable;
use operators::lookup::LookupKeyer;
use sources::file::Csv;

use super::asked::Place;

/// Settings by which an answer has all of its rows.
pub(super) const WHOLE: [(&str, &str); 3] = [("limit", "0"), ("offset", "0"), ("use_query_cache", "0")];

/// Settings by which an answer holds values as they are: 64-bit numbers and decimals as texts, times with their zone.
/// NaN and infinities too; and no limit of a user's profile, nor a shard that is away, may shorten it without an error.
pub(super) const EXACT: [(&str, &str); 18] = [
    ("output_format_json_quote_64bit_integers", "1"),
    ("output_format_json_quote_decimals", "1"),
    ("output_format_json_quote_denormals", "1"),
    ("date_time_output_format", "iso"),
    ("result_overflow_mode", "throw"),
    ("read_overflow_mode", "throw"),
    ("timeout_overflow_mode", "throw"),
    ("read_overflow_mode_leaf", "throw"),
    ("group_by_overflow_mode", "throw"),
    ("join_overflow_mode", "throw"),
    ("set_overflow_mode", "throw"),
    ("distinct_overflow_mode", "throw"),
    ("sort_overflow_mode", "throw"),
    ("limit", "0"),
    ("offset", "0"),
    ("skip_unavailable_shards", "0"),
    ("use_query_cache", "0"),
    ("send_progress_in_http_headers", "0"),
];

/// Where the rows are.
pub enum From {
    /// In a file.
    File {
        /// The file.
        path: PathBuf,
        /// What tells records apart; `None` for lines.
        csv: Option<Csv>,
    },
    /// In a table of a server.
    ClickHouse {
        /// The server.
        server: ServerConfig,
        /// The table.
        place: Place,
    },
    /// In PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(postgres::Side),
}

/// What becomes of rows that were read.
#[derive(Clone)]
pub struct Rules {
    /// The step's key in the pipeline file.
    pub step: String,
    /// Where its rows are, for people: the table and the kind of its server, or the file.
    pub side: String,
    /// Decodes them.
    pub decoder: Arc<dyn Decoder>,
    /// Knows their keys.
    pub keyer: LookupKeyer,
    /// Memory that they may take, as text and as rows.
    pub bytes_max: u64,
}

impl Rules {
    /// Why the rows cannot be read or used, as a whole sentence.
    pub fn sentence(&self, why: &str) -> String {
        format!("`{}`, {}: {why}; records wait until it can be read", self.step, self.side)
    }
}

/// How the rows are read.
#[derive(Clone)]
pub struct Load {
    /// Where they are.
    pub from: Arc<From>,
    /// What becomes of them.
    pub rules: Rules,
}

/// By what a file is known not to have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    len: u64,
    modified: SystemTime,
    /// Which file it is, and when its attributes changed: it may be replaced by one of the same length and time.
    #[cfg(unix)]
    inode: (u64, i64, i64),
}

impl Version {
    /// `None` on systems that do not know when a file was changed.
    fn of(metadata: &Metadata) -> Option<Self> {
        Some(Self {
            len: metadata.len(),
            modified: metadata.modified().ok()?,
            #[cfg(unix)]
            inode: (metadata.ino(), metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// What a read of the other side gave.
pub enum Rows {
    /// What was there before.
    Same,
    /// Other rows.
    New(LookupTable, Option<Version>),
}

impl Load {
    /// Reads the rows; of a file of version `known` none.
    ///
    /// # Errors
    /// When they cannot be read, or not be used: why, and the way out.
    pub async fn load(&self, runtime: &Arc<dyn Runtime>, known: Option<Version>) -> Result<Rows, String> {
        let own = self.clone();
        let text = match &*self.from {
            From::File { .. } => None,
            From::ClickHouse { server, place } => {
                let client =
                    Client::new(server.clone(), runtime.clone()).map_err(|error| error.to_string())?;
                let bytes_max = usize::try_from(self.rules.bytes_max).unwrap_or(usize::MAX);
                let answer = client.query_bytes(&place.question(), &EXACT, bytes_max).await;
                Some(answer.map_err(|error| match error.kind == TableFault::TooLong {
                    true => too_long(bytes_max),
                    false => error.to_string(),
                })?)
            }
            #[cfg(feature = "postgres")]
            From::Postgres(side) => {
                let bytes_max = usize::try_from(self.rules.bytes_max).unwrap_or(usize::MAX);
                Some(side.read(runtime, bytes_max).await.map_err(|fault| match fault {
                    postgres::Fault::TooLong => too_long(bytes_max),
                    postgres::Fault::Failed(why) => why,
                })?)
            }
        };
        let job = move || match text {
            Some(text) => own.table(text).map(|table| Rows::New(table, None)),
            None => own.file(known),
        };
        runtime.run(job).await.unwrap_or_else(|| Err("reading it ended in a fault of the program".to_owned()))
    }

    /// Whether the name of a file that is read as JSON says that it is CSV.
    fn is_named_as_csv(&self) -> bool {
        let From::File { path, csv: None } = &*self.from else { return false };
        path.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"))
    }

    fn file(&self, known: Option<Version>) -> Result<Rows, String> {
        let From::File { path, .. } = &*self.from else { unreachable!("it is asked of files alone") };
        let unread = |error: std::io::Error| format!("it cannot be read: {error}");
        let file = File::open(path).map_err(unread)?;
        let metadata = file.metadata().map_err(unread)?;
        let version = Version::of(&metadata);
        if version.is_some() && known == version {
            return Ok(Rows::Same);
        }
        if metadata.len() > self.rules.bytes_max {
            return Err(too_large("it", metadata.len(), self.rules.bytes_max));
        }
        let mut text = Vec::with_capacity(metadata.len() as usize);
        // It may grow while it is read.
        BufReader::new(file).take(self.rules.bytes_max + 1).read_to_end(&mut text).map_err(unread)?;
        if text.len() as u64 > self.rules.bytes_max {
            return Err(too_large("it", text.len() as u64, self.rules.bytes_max));
        }
        Ok(Rows::New(self.table(text)?, version))
    }

    /// The rows of a text, which is dropped before they are decoded.
    fn table(&self, text: Vec<u8>) -> Result<LookupTable, String> {
        let csv = match &*self.from {
            From::File { csv, .. } => *csv,
            From::ClickHouse { .. } => None,
            #[cfg(feature = "postgres")]
            From::Postgres(_) => None,
        };
        let block = records(&text, csv);
        drop(text);
        // Lines of JSON and CSV hold a row each.
        let Decoded { batch, rejects, several: _ } = self.rules.decoder.decode(&block);
        if let Some(reject) = rejects.first() {
            let column =
                if reject.column.is_empty() { String::new() } else { format!("`{}`: ", reject.column) };
            let row = block.row_of(reject.position).map_or(0, |row| row + 1);
            let others = match rejects.len() - 1 {
                0 => String::new(),
                others => format!(", and `{others}` rows more"),
            };
            let way_out = if self.is_named_as_csv() { CSV } else { "correct it, or the types" };
            return Err(format!(
                "row `{row}`, counted from 1, does not fit `fields`: {column}{}{others}; {way_out}",
                reject.message
            ));
        }
        let table = self.rules.keyer.table(batch.rows).map_err(|repeated| {
            format!("{repeated}, so the match would be ambiguous; keep one row per key, as a view with `FINAL` or `GROUP BY` does")
        })?;
        if table.memory_bytes() > self.rules.bytes_max {
            return Err(too_large("it", table.memory_bytes(), self.rules.bytes_max));
        }
        Ok(table)
    }
}

/// What to do about a file of CSV without a `format`.
const CSV: &str = "it is read as JSON, one object a line: for CSV write `format: { csv: { header: true } }` beside its `path`";

/// What to do about a side that is too large.
const LESS: &str = "raise it (and `memory` of the pipeline, of which it is at most a quarter), or leave out columns and rows";

fn too_long(bytes_max: usize) -> String {
    format!("its rows as JSON take more than `{bytes_max}` bytes, and that is `memory` of the step; {LESS}")
}

fn too_large(what: &str, bytes: u64, bytes_max: u64) -> String {
    format!("{what} takes `{bytes}` bytes, and `memory` of the step is `{bytes_max}`; {LESS}")
}

/// The rows of a text, as records of one block. Empty lines are none.
pub(super) fn records(text: &[u8], csv: Option<Csv>) -> RecordBlock {
    let mut lines = BlockBuilder::new(Partition::new("lookup", 0), 0);
    // The byte order mark that some programs put in front of a file, which is ignored as in the files of a source.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let all = text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n');
    let all = all.map(|line| line.strip_suffix(b"\r").filter(|_| csv.is_none()).unwrap_or(line));
    for (nth, line) in all.filter(|line| csv.is_some() || !line.is_empty()).enumerate() {
        lines.push(nth as u64, 0, Some(line));
    }
    let lines = lines.take();
    match csv {
        Some(csv) => sources::file::joined(&lines, csv),
        None => lines,
    }
}
