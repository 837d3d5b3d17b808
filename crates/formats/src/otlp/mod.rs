//! Requests of OTLP, the protocol of OpenTelemetry, straight into Arrow columns: logs, traces, and metrics of all five kinds.
//!
//! A record is one request (`ExportLogsServiceRequest` and its like, which on the wire are also `LogsData` and its like: what the collector's
//! Kafka exporter writes as `otlp_proto`; one that begins with `{` is in JSON), and has as many rows as it has log records, spans or data points. Columns take fields by the names
//! that the collector's ClickHouse exporter gives its columns.
//!
//! Owns the decoder, its options and the form of its rejects. The bytes are read once, from left to right, into the columns; there is no
//! tree of messages and no allocation a row. Does not own how requests arrive.
//!
//! | module     | what it owns                                                            |
//! |------------|-------------------------------------------------------------------------|
//! | `wire`     | Protocol Buffers: fields into slots                                     |
//! | `messages` | which message has which fields                                          |
//! | `fields`   | which fields rows have, by their names                                  |
//! | `plan`     | which field fills which column                                          |
//! | `walk`     | from a request to its rows; what rows share; taking rows back           |
//! | `fill`     | a value into its column                                                 |
//! | `value`    | values of any type, as text and JSON                                    |
//! | `split`    | a row as a request of its own; a request without some of its rows       |
//! | `check`    | a request that is not decoded yet: is it one, which rows, from JSON     |
//! | `json`     | requests in JSON, which are written anew                                |
//! | `fault`    | the words of faults                                                     |
//!
//! Rules beside those of types:
//! - A field that was not sent has the value that Protocol Buffers gives it: 0, the empty text, no items. NULL is written only for the sum,
//!   minimum and maximum that a histogram may leave out, and for fields that rows of another kind have.
//! - A time that is 0 is taken from where the next best stands: of a log the observed time, of a span its end, and for all the source's time of the
//!   record.
//! - A row that is turned down is a reject of its own, whose bytes are a request with that row alone; the rows beside it stay.

mod check;
mod fault;
mod fields;
mod fill;
mod json;
mod messages;
mod plan;
mod split;
mod value;
mod walk;
mod wire;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use dataflow::reject::{self, RowReject};
use dataflow::{Decoded, Decoder, RecordBlock, Reject, Schema, Several, Spans};

use crate::columns::{self, ColumnsError, EpochUnit, Settings, TypedColumn};
use crate::rows;
pub use check::{Broken, Checked, Invalid, check};
use fault::{Fault, Step};
use plan::Plan;
pub use value::DEPTH_MAX;
pub use walk::GROWTH_MAX;
use walk::{Turned, Walk};

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Log records.
    Logs,
    /// Spans.
    Traces,
    /// Data points of metrics.
    Metrics,
}

impl Signal {
    /// The word in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }

    /// The format's word in a pipeline file.
    pub fn format(self) -> &'static str {
        match self {
            Self::Logs => "otlp_logs",
            Self::Traces => "otlp_traces",
            Self::Metrics => "otlp_metrics",
        }
    }
}

/// How requests are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpOptions {
    /// Bytes of a request; a longer one is rejected unread.
    pub record_bytes_max: usize,
}

impl Default for OtlpOptions {
    fn default() -> Self {
        // Four times what the collector's receiver takes by default.
        Self { record_bytes_max: 16 << 20 }
    }
}

/// Columns that no request could be decoded into.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The target's columns or the zone of the options.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// A column whose field rows do not have.
    #[error(
        "column `{column}`: rows of `{format}` have no field `{field}`, and the column has neither NULL nor a DEFAULT; they have `{known}`"
    )]
    NoField {
        /// The column.
        column: String,
        /// The field.
        field: String,
        /// The format's word.
        format: &'static str,
        /// The fields that rows have.
        known: String,
    },
    /// A column of a type that does not take the field.
    #[error("column `{column}`: the field `{field}` is {kind}, which its type does not take")]
    Kind {
        /// The column.
        column: String,
        /// The field.
        field: String,
        /// What its values are.
        kind: String,
    },
}

/// A [`Decoder`] for records that are requests of OTLP.
pub struct OtlpDecoder {
    schema: Schema,
    options: OtlpOptions,
    plan: Plan,
    patterns: Vec<Box<dyn TypedColumn>>,
    /// Bytes of a row of the newest block, about.
    row_bytes: AtomicUsize,
}

impl OtlpDecoder {
    /// A decoder of requests of `signal`, compiled for the columns of `schema`.
    ///
    /// # Errors
    /// When a column cannot be filled.
    pub fn new(signal: Signal, schema: Schema, options: OtlpOptions) -> Result<Self, ConfigError> {
        // No value comes without a zone, and none as a number without a unit.
        let settings = Settings { timezone: "UTC", epoch: EpochUnit::Nanoseconds };
        let mut patterns = columns::patterns(&schema, settings)?;
        // Nothing of a request is dropped, and the collector's exporter stores what a sender names twice as it comes.
        patterns.iter_mut().for_each(|column| column.keep_repeats());
        let plan = Plan::new(signal, &schema)?;
        Ok(Self { schema, options, plan, patterns, row_bytes: AtomicUsize::new(ROW_BYTES_GUESSED) })
    }

    /// The signal whose requests it reads.
    pub fn signal(&self) -> Signal {
        self.plan.signal
    }

    /// The requests of a block that are in JSON, each with its row and in the other encoding.
    fn rewritten(&self, block: &RecordBlock) -> Vec<(usize, Step<Vec<u8>>)> {
        let is_taken = |row: &usize| {
            let request = block.payloads.get(*row);
            json::is_json(request) && request.len() <= self.options.record_bytes_max
        };
        let rows = (0..block.len()).filter(is_taken);
        rows.map(|row| (row, self.to_wire(block.payloads.get(row)))).collect()
    }

    fn to_wire(&self, request: &[u8]) -> Step<Vec<u8>> {
        // It grows by what numbers in lists take, at most.
        json::to_wire(self.plan.signal, request, usize::MAX)
    }

    /// The reject of a request.
    #[cold]
    fn reject(&self, block: &RecordBlock, row: usize, fault: &Fault) -> Reject {
        Reject::of(block, row, fault.reason, self.column(fault), fault.message.clone())
    }

    /// The rejects of rows of one request: each with a request of that row alone as its bytes.
    #[cold]
    fn turned(&self, block: &RecordBlock, row: usize, turned: Vec<Turned>) -> Vec<Reject> {
        let of_row = |(number, fault, raw): Turned| RowReject {
            number: Some(number),
            reason: fault.reason,
            column: self.column(&fault).to_owned(),
            message: fault.message,
            raw,
        };
        reject::each_row(block, row, turned.into_iter().map(of_row).collect())
    }

    /// Rows for which columns get memory, as large as those of the block before.
    fn rows_expected(&self, block: &RecordBlock) -> usize {
        block.payloads.bytes.len() / self.row_bytes.load(Ordering::Relaxed) + block.len()
    }

    /// Expects a sixteenth more rows per byte than this block had: columns that outgrow their memory are copied into twice as much.
    fn had_rows(&self, block: &RecordBlock, rows: usize) {
        if let Some(per_row) = block.payloads.bytes.len().checked_div(rows) {
            let per_row = (per_row * 15 / 16).clamp(ROW_BYTES_GUESSED_MIN, ROW_BYTES_GUESSED_MAX);
            self.row_bytes.store(per_row, Ordering::Relaxed);
        }
    }

    fn column(&self, fault: &Fault) -> &str {
        fault.column.map_or("", |at| &self.schema.columns()[at].name)
    }
}

impl fmt::Debug for OtlpDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpDecoder")
            .field("signal", &self.plan.signal)
            .field("schema", &self.schema)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Bytes of a row before the first block, as a guess for the first memory of a column.
const ROW_BYTES_GUESSED: usize = 256;
/// Bounds of that guess after a block: behind rows of two bytes a block of large ones must not take memory for millions, and behind one huge row small ones must not find
/// columns without any.
const ROW_BYTES_GUESSED_MIN: usize = 32;
const ROW_BYTES_GUESSED_MAX: usize = 64 << 10;

impl Decoder for OtlpDecoder {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        let expected = self.rows_expected(block);
        let rewritten = self.rewritten(block);
        let mut of_json = rewritten.iter().peekable();
        let mut walk = Walk::new(&self.plan, &self.patterns, expected);
        let (mut rejects, mut of_rows) = (Vec::new(), Vec::new());
        let (mut positions, mut times_ms) = (Vec::with_capacity(expected), Vec::with_capacity(expected));
        let mut several = Several::default();
        let mut absent = block.absent.iter().copied().peekable();
        for row in 0..block.len() {
            if absent.next_if_eq(&(row as u32)).is_some() {
                rejects.push(rows::no_body(block, row));
                continue;
            }
            let request = block.payloads.get(row);
            if request.len() > self.options.record_bytes_max {
                rejects.push(rows::too_large(block, row, self.options.record_bytes_max));
                continue;
            }
            let time_ms = block.times_ms[row];
            let taken = match of_json.next_if(|(at, _)| *at == row) {
                Some((_, Ok(request))) => walk.push(request, time_ms),
                Some((_, Err(fault))) => Err(fault.clone()),
                None => walk.push(request, time_ms),
            };
            match taken {
                Err(fault) => rejects.push(self.reject(block, row, &fault)),
                Ok(taken) if taken.rows + taken.turned.len() == 0 => several.empty += 1,
                Ok(taken) => {
                    several.records += 1;
                    positions.extend(std::iter::repeat_n(block.positions[row], taken.rows));
                    times_ms.extend(std::iter::repeat_n(time_ms, taken.rows));
                    if !taken.turned.is_empty() {
                        of_rows.extend(self.turned(block, row, taken.turned));
                    }
                }
            }
        }
        self.had_rows(block, positions.len());
        several.rejected_rows = of_rows.len();
        rejects.extend(of_rows);
        rows::of_several(block, &self.schema, walk.finish(), (positions, times_ms), rejects, several)
    }

    fn split(&self, block: &RecordBlock, row: usize) -> Option<Spans> {
        let request = block.payloads.get(row);
        if !json::is_json(request) {
            return Walk::apart(&self.plan, request).ok();
        }
        let request = self.to_wire(request).ok()?;
        Walk::apart(&self.plan, &request).ok()
    }
}

#[cfg(test)]
mod tests;
