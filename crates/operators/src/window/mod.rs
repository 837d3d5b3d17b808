//! Aggregates of rows by key and window of event time.
//!
//! Owns the rule, the results, and the state between a row and its window's result. Does not own the watermark (the engine moves it, and
//! seals it), nor where a record's time comes from (the broker, or [`EventTime`](crate::EventTime) before this step).
//!
//! **The rule.** Windows are `[n * size, (n + 1) * size)` since 1970, in UTC. A row belongs to the window that its event time lies in. A window is
//! *closed* by the first watermark of a seal that is at least its end plus the lateness: that seal holds one row for each of its keys, and a
//! row that comes later is late. So a result never changes once it is there.
//!
//! | a row                                    | becomes                                             |
//! |------------------------------------------|-----------------------------------------------------|
//! | its window is open                       | a part of the window's result ([`Output::absorbed`]) |
//! | its window is closed                     | late, and dropped ([`Output::late`])                |
//! | it has no usable time                    | a reject: no window is its                          |
//!
//! | result          | is                                                                             |
//! |-----------------|--------------------------------------------------------------------------------|
//! | the key's columns | as they came                                                                 |
//! | `window_start`, `window_end` | the bounds, as DateTime64(3)                                      |
//! | each aggregate  | see [`aggregate`]                                                              |
//!
//! A result's event time is its window's last millisecond, so that a window of results holds those of its own time.
//!
//! | module        | what it owns                                        |
//! |---------------|-----------------------------------------------------|
//! | [`aggregate`] | functions and their types                           |
//! | `partial`     | the aggregates of one batch, made in the decode job |
//! | `groups`      | from a key to its aggregates                        |
//! | `accumulator` | one aggregate of every group                        |
//! | `key`         | the bytes of keys                                   |
//! | `index`       | from a hash to an entry                             |
//! | `values`      | columns in the five forms that state knows          |
//! | [`state`]     | the bytes of deltas and snapshots                   |
//! | `encoding`    | numbers and lengths in them                         |
//!
//! **State.** The decode job makes the aggregates of each batch; the lane merges them into those of the seal under way (`fresh`), and a seal merges
//! those into all others (`base`). The delta is `fresh`: a start merges the deltas in the same order, and has the same sums, bit for bit.
//! All of it is in memory. When the open windows take more than the step's [memory](Window::with_memory) the step ends the run, and says
//! what to do: spilling them to files, as dedup does with its keys, is not built yet.

mod accumulator;
pub mod aggregate;
mod encoding;
mod groups;
mod index;
mod key;
mod partial;
pub mod state;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::Field;
use bytes::Bytes;
use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Ahead, Batch, Column, ColumnType, Operator, OperatorError, Output, Partition, Probed, Reason, Reject,
    Schema, State, StateError, StateRead,
};

use crate::ConfigError;
use crate::config::column_index;
pub use aggregate::{Aggregate, Function};
use groups::Groups;
use key::Keys;
use partial::Partial;
use state::Kind;

const NAME: &str = "window";

/// The column of a result that holds its window's first instant.
pub const START: &str = "window_start";

/// The column that holds the instant after its last.
pub const END: &str = "window_end";

/// Memory for open windows unless the step is given another: some two million pairs of key and window.
pub const MEMORY_DEFAULT: u64 = 256 << 20;

/// Columns of a key at the most, and aggregates: beyond it somebody meant something else.
pub const COLUMNS_MAX: usize = 64;

/// The longest window, and the longest lateness: ten years, so that no sum of times overflows.
pub const SIZE_MAX: Duration = Duration::from_secs(3650 * 24 * 3600);

/// The step's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// The columns of the key; without one there is one result a window.
    pub key: Vec<String>,
    /// How long a window is, at least a millisecond.
    pub size: Duration,
    /// How far the watermark must be behind a window's end to close it.
    pub lateness: Duration,
    /// What is computed; at least one.
    pub aggregates: Vec<Aggregate>,
}

/// What the step is, apart from its state.
pub(crate) struct Plan {
    keys: Keys,
    aggregates: Vec<aggregate::Bound>,
    size_ms: i64,
    lateness_ms: i64,
    output: Schema,
    shape: String,
}

/// The step.
pub struct Window {
    plan: Arc<Plan>,
    /// What earlier seals brought, by window.
    base: BTreeMap<i64, Groups>,
    /// What came since the last.
    fresh: BTreeMap<i64, Groups>,
    watermark_ms: i64,
    /// The delta of the seal under way, made when its watermark was known.
    delta: Bytes,
    memory_max: u64,
}

impl Window {
    /// A step for batches of `schema`, with no window open.
    ///
    /// # Errors
    /// When a column is unknown, named twice or of a type that does not serve, or a setting is out of its bounds.
    pub fn new(schema: &Schema, config: &WindowConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            plan: Arc::new(Plan::new(schema, config)?),
            base: BTreeMap::new(),
            fresh: BTreeMap::new(),
            watermark_ms: TIME_UNKNOWN_MS,
            delta: Bytes::new(),
            memory_max: MEMORY_DEFAULT,
        })
    }

    /// Takes this much memory for open windows.
    #[must_use]
    pub fn with_memory(self, memory_max: u64) -> Self {
        Self { memory_max, ..self }
    }

    /// The columns of the results.
    pub fn output(&self) -> &Schema {
        &self.plan.output
    }

    fn check_memory(&self) -> Result<(), OperatorError> {
        let bytes = self.memory_bytes();
        if bytes <= self.memory_max {
            return Ok(());
        }
        Err(failed(format!(
            "the open windows hold `{}` results in `{bytes}` bytes, and `memory` is `{}`; nothing of this batch is sealed, and nothing is lost. \
             Raise `memory` of the step (and of the pipeline), or close windows sooner with a smaller `size` or `lateness`, then start again",
            self.entries(),
            self.memory_max
        )))
    }

    /// Takes the windows out that a watermark closes.
    fn closed(&mut self, watermark_ms: i64) -> Vec<(i64, Groups)> {
        let mut closed = Vec::new();
        while let Some(first) = self.base.first_entry() {
            if !self.plan.is_closed(*first.key(), watermark_ms) {
                break;
            }
            closed.push(first.remove_entry());
        }
        closed
    }

    fn merge(&mut self, later: BTreeMap<i64, Groups>) {
        for (start, groups) in later {
            merge(&mut self.base, start, groups);
        }
    }
}

/// Takes later groups of a window in.
fn merge(windows: &mut BTreeMap<i64, Groups>, start: i64, later: Groups) {
    match windows.get_mut(&start) {
        Some(groups) => groups.merge(&later),
        None => {
            windows.insert(start, later);
        }
    }
}

impl Plan {
    fn new(schema: &Schema, config: &WindowConfig) -> Result<Self, ConfigError> {
        let fail = |setting, message: String| Err(ConfigError::Setting { setting, message });
        let WindowConfig { key, size, lateness, aggregates } = config;
        if size.as_millis() == 0 || *size > SIZE_MAX {
            return fail("window.size", format!("`{size:?}` is not between 1 ms and 3650 days"));
        }
        if *lateness > SIZE_MAX {
            return fail("window.lateness", format!("`{lateness:?}` is more than 3650 days"));
        }
        if aggregates.is_empty() || aggregates.len() > COLUMNS_MAX || key.len() > COLUMNS_MAX {
            let (keys, results) = (key.len(), aggregates.len());
            let message =
                format!("`{keys}` key columns and `{results}` aggregates; up to {COLUMNS_MAX} of each");
            return fail("window.aggregates", format!("{message}, and at least one aggregate"));
        }
        for (at, name) in key.iter().enumerate() {
            let column = &schema.columns()[column_index(schema, "window.key", name)?];
            if key[..at].contains(name) {
                return Err(ConfigError::RepeatedColumn { setting: "window.key", name: name.clone() });
            }
            if values::Form::of(&column.column_type).is_none() {
                return Err(ConfigError::ColumnKind {
                    setting: "window.key",
                    name: name.clone(),
                    found: format!("{:?}", column.column_type),
                    wanted: "a column with one value a row",
                });
            }
        }
        let Some(keys) = Keys::new(&Keys::named(schema, key)) else {
            return fail("window.key", "a column has no single value".to_owned());
        };
        let bound: Vec<aggregate::Bound> = aggregates
            .iter()
            .map(|aggregate| aggregate::Bound::new(schema, aggregate))
            .collect::<Result<_, _>>()?;
        let bounds = [START, END].map(|name| {
            Column::new(name, ColumnType::DateTime64 { precision: 3, timezone: Some("UTC".into()) })
        });
        // A key's default is the input's business: here a null is a null.
        let of_key = keys.columns().map(|column| {
            let is_bare = column.column_type.is_nullable() || !column.is_optional();
            let nullable = || ColumnType::Nullable(Box::new(column.column_type.bare().clone()));
            Column::new(&column.name, if is_bare { column.column_type.clone() } else { nullable() })
        });
        let of_aggregates =
            bound.iter().map(|bound| Column::new(&bound.aggregate.name, bound.output.clone()));
        let columns: Vec<Column> = of_key.chain(bounds).chain(of_aggregates).collect();
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| other.name == column.name) {
                let name = column.name.clone();
                return Err(ConfigError::RepeatedColumn { setting: "window.aggregates", name });
            }
        }
        let words: Vec<String> = bound.iter().map(aggregate::Bound::words).collect();
        let named: Vec<String> = keys.columns().map(key_words).collect();
        let shape = format!(
            "key `{}`, size `{}ms`, lateness `{}ms`, aggregates `{}`",
            named.join(", "),
            size.as_millis(),
            lateness.as_millis(),
            words.join(", ")
        );
        let output = Schema::new(columns);
        let (size_ms, lateness_ms) = (size.as_millis() as i64, lateness.as_millis() as i64);
        Ok(Self { keys, aggregates: bound, size_ms, lateness_ms, output, shape })
    }

    /// The start of the window that a time lies in; `None` for a time that is unknown or beyond all windows.
    fn start(&self, time_ms: i64) -> Option<i64> {
        let start = time_ms.checked_sub(time_ms.rem_euclid(self.size_ms))?;
        let end = start.checked_add(self.size_ms)?.checked_add(self.lateness_ms)?;
        (time_ms != TIME_UNKNOWN_MS && end < i64::MAX).then_some(start)
    }

    fn is_closed(&self, start: i64, watermark_ms: i64) -> bool {
        start.saturating_add(self.size_ms).saturating_add(self.lateness_ms) <= watermark_ms
    }

    /// The results of a window.
    fn results(&self, start: i64, groups: &Groups) -> Result<Output, OperatorError> {
        let len = groups.len();
        let end = start + self.size_ms;
        let mut columns = self.keys.decode((0..len).map(|group| groups.key(group)));
        for bound in [start, end] {
            let bounds = TimestampMillisecondArray::from_value(bound, len).with_timezone("UTC");
            columns.push(Arc::new(bounds));
        }
        let mut too_large: Vec<(usize, Vec<u32>)> = Vec::new();
        let mut accumulators = groups.accumulators.iter();
        for bound in &self.aggregates {
            let column = if bound.keeps_state() {
                let accumulator = accumulators.next().expect("one for each aggregate that keeps anything");
                let (column, out) = accumulator.column(bound);
                if !out.is_empty() {
                    too_large.push((columns.len(), out));
                }
                column
            } else {
                values::Store::UInt(groups.counts.clone()).column(&bound.output, |_| false)
            };
            columns.push(column);
        }
        let rejects = self.rejects(&too_large, &columns, end - 1);
        let fields: Vec<Field> = self.output.arrow().fields().iter().map(|field| (**field).clone()).collect();
        // Texts that are not UTF-8 come as Binary, and a result that is a reject has a null.
        let fields: Vec<Field> = fields
            .into_iter()
            .zip(&columns)
            .map(|(field, column)| {
                let is_nullable = field.is_nullable() || column.null_count() > 0;
                field.with_data_type(column.data_type().clone()).with_nullable(is_nullable)
            })
            .collect();
        let rows = RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns)
            .map_err(|error| failed(error.to_string()))?;
        let batch = Batch {
            partition: Partition::new(format!("@{NAME}"), 0),
            rows,
            positions: (0..len as u64).collect(),
            times_ms: vec![end - 1; len],
        };
        let gone: Vec<usize> = rejects.iter().map(|reject| reject.position as usize).collect();
        let batch = batch.without(&gone).map_err(|error| failed(error.to_string()))?;
        Ok(Output { added: len as u64, released: groups.rows(), rejects, ..Output::all(batch) })
    }

    /// The results with a sum that its type does not hold.
    fn rejects(&self, too_large: &[(usize, Vec<u32>)], columns: &[ArrayRef], time_ms: i64) -> Vec<Reject> {
        let mut rejects: BTreeMap<u32, Reject> = BTreeMap::new();
        for (column, rows) in too_large {
            let name = &self.output.columns()[*column].name;
            for row in rows {
                rejects.entry(*row).or_insert_with(|| Reject {
                    partition: Partition::new(format!("@{NAME}"), 0),
                    position: u64::from(*row),
                    time_ms,
                    reason: Reason::OutOfRange,
                    column: name.clone(),
                    message: format!(
                        "the sum `{name}` of a window does not fit its type; sum a Decimal or a Float64; `raw` is the result without it"
                    ),
                    key: None,
                    headers: Vec::new(),
                    raw: self.json(columns, *row as usize).into_bytes(),
                });
            }
        }
        rejects.into_values().collect()
    }

    /// A result as a JSON object of texts.
    fn json(&self, columns: &[ArrayRef], row: usize) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let member = |(column, array): (&Column, &ArrayRef)| {
            let text = ArrayFormatter::try_new(array, &FormatOptions::default())
                .map_or_else(|error| error.to_string(), |formatter| formatter.value(row).to_string());
            let value = if array.is_null(row) { "null".to_owned() } else { quoted(&text) };
            format!("{}:{value}", quoted(&column.name))
        };
        let members: Vec<String> = self.output.columns().iter().zip(columns).map(member).collect();
        format!("{{{}}}", members.join(","))
    }
}

/// The words that a column of the key is known by: those of dedup's keys, and whether it may be null, which is in the bytes of the key.
fn key_words(column: &Column) -> String {
    let kind = crate::dedup::key::kind(&column.column_type).unwrap_or_else(str::to_lowercase);
    format!("{} {kind}{}", column.name, if column.is_optional() { " or null" } else { "" })
}

fn failed(message: String) -> OperatorError {
    OperatorError { step: NAME.to_owned(), message }
}

impl Ahead for Plan {
    fn apply(&self, batch: &Batch) -> Result<Box<dyn std::any::Any + Send>, OperatorError> {
        Ok(Box::new(Partial::of(self, batch).map_err(failed)?))
    }
}

impl Operator for Window {
    fn name(&self) -> &str {
        NAME
    }

    fn ahead(&self) -> Option<Arc<dyn Ahead>> {
        Some(self.plan.clone())
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        let scratch = self.plan.apply(&batch)?;
        Ok(Probed { batch, reads: Vec::new(), scratch: Some(scratch) })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let partial = probed.scratch.and_then(|scratch| scratch.downcast::<Partial>().ok());
        let Some(partial) = partial else {
            return Err(failed("a batch came to `finish` that `probe` of this step has not seen".to_owned()));
        };
        let Partial { windows, rejects } = *partial;
        let (mut late, mut absorbed) = (0, 0);
        for (start, groups) in windows {
            if self.plan.is_closed(start, self.watermark_ms) {
                late += groups.rows();
                continue;
            }
            absorbed += groups.rows();
            merge(&mut self.fresh, start, groups);
        }
        let batch = Batch {
            rows: RecordBatch::new_empty(self.plan.output.arrow().clone()),
            positions: Vec::new(),
            times_ms: Vec::new(),
            ..probed.batch
        };
        Ok(Output { late, absorbed, rejects, ..Output::all(batch) })
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        // A watermark that goes back is held: what it closed is gone.
        let watermark_ms = watermark_ms.max(self.watermark_ms);
        let fresh = std::mem::take(&mut self.fresh);
        self.delta = if fresh.is_empty() && watermark_ms == self.watermark_ms {
            Bytes::new()
        } else {
            let stays = fresh.iter().filter(|(start, _)| !self.plan.is_closed(**start, watermark_ms));
            let stays: Vec<(&i64, &Groups)> = stays.collect();
            state::write(Kind::Delta, &self.plan.shape, watermark_ms, stays.into_iter())
        };
        self.merge(fresh);
        self.watermark_ms = watermark_ms;
        let closed = self.closed(watermark_ms);
        self.check_memory()?;
        closed.iter().map(|(start, groups)| self.plan.results(*start, groups)).collect()
    }

    fn watermark_behind(&self, watermark_ms: i64) -> i64 {
        // Windows that end later are still open, and a result has the time of its window's last millisecond.
        watermark_ms.saturating_sub(self.plan.lateness_ms)
    }

    fn is_due(&self, watermark_ms: i64) -> bool {
        let first = self.base.keys().next().into_iter().chain(self.fresh.keys().next()).min();
        first.is_some_and(|first| self.plan.is_closed(*first, watermark_ms))
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Window {
    fn absorbs(&self) -> bool {
        true
    }

    fn shape(&self) -> String {
        self.plan.shape.clone()
    }

    fn loss(&self) -> &str {
        "the records in its open windows: they are in no result, and results of those windows hold later records only"
    }

    fn seal(&mut self, _watermark_ms: i64) -> Bytes {
        std::mem::take(&mut self.delta)
    }

    fn snapshot(&self) -> Bytes {
        assert!(self.fresh.is_empty(), "a snapshot is taken right after a seal");
        state::write(Kind::Snapshot, &self.plan.shape, self.watermark_ms, self.base.iter())
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        let parsed = state::parse(snapshot, Kind::Snapshot, &self.plan)?;
        (self.base, self.watermark_ms) = (parsed.windows, parsed.watermark_ms);
        (self.fresh, self.delta) = Default::default();
        Ok(Vec::new())
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        if delta.is_empty() {
            return Ok(());
        }
        let parsed = state::parse(delta, Kind::Delta, &self.plan)?;
        self.merge(parsed.windows);
        self.watermark_ms = self.watermark_ms.max(parsed.watermark_ms);
        self.closed(self.watermark_ms);
        Ok(())
    }

    fn held(&self) -> u64 {
        self.base.values().chain(self.fresh.values()).map(Groups::rows).sum()
    }

    fn unsealed_bytes(&self) -> u64 {
        self.fresh.values().map(Groups::memory_bytes).sum::<usize>() as u64
    }

    fn entries(&self) -> u64 {
        self.base.values().chain(self.fresh.values()).map(Groups::len).sum::<usize>() as u64
    }

    fn memory_bytes(&self) -> u64 {
        self.base.values().chain(self.fresh.values()).map(Groups::memory_bytes).sum::<usize>() as u64
    }
}

#[cfg(test)]
mod tests;
