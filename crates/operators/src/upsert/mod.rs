//! Rows that replace each other by key, in a table that takes rows back: each change comes out as the row before with the sign -1, and the new one with 1.
//!
//! Owns the rule, and the last row of each key. Does not own how rows are kept in memory and in files, which is the
//! [temporal join's](crate::join::temporal), nor tables that keep the newest row themselves (`clickhouse::upsert`).
//!
//! **The rule.** At each seal the rows that came since the one before are reduced to one of each key: the last, or with a version the last of those with the greatest.
//! It replaces what the state has of its key, unless that has a greater version.
//!
//! | the state has          | the row               | what comes out                     |
//! |------------------------|-----------------------|------------------------------------|
//! | no row of the key      | is one                | the row with 1                     |
//! | a row                  | is one                | that row with -1, the new one with 1 |
//! | a row                  | says that it is deleted | that row with -1                 |
//! | no row                 | says that it is deleted | nothing                          |
//! | a greater version      | any                   | nothing                            |
//! | –                      | has a NULL in its key | the row with 1: it is equal to none |
//!
//! All rows with -1 stand before those with 1, as a CollapsingMergeTree needs them: of one insert it keeps the first -1 and the last 1 of a key. Rows of one
//! seal never take each other back.
//!
//! | module  | what it owns                                                        |
//! |---------|---------------------------------------------------------------------|
//! | `rows`  | rows as bytes, which are read though the table has other columns since |
//! | `fresh` | the rows since the last seal, and which of them are the last of their key |
//! | `state` | the bytes of deltas and snapshots                                   |
//!
//! **State.** A temporal join of the rows with themselves, whose time is the number of the seal: a left row asks for the version of its key that held before the seal, and
//! the right side is what holds from it on. So the last rows are spilled, found in files and recovered as versions are. Within a seal the left side goes first, then what it
//! found decides what becomes the new version; each half has a delta of its own. Without versions of the rows' own a key that is deleted takes no memory behind the next
//! seal; with them its version stays, as in a ReplacingMergeTree.

mod fresh;
mod rows;
mod state;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, Int8Array, RecordBatch, UInt32Array};
use bytes::Bytes;
use dataflow::{
    Batch, Column, ColumnType, KeptEnum, Operator, OperatorError, Output, Partition, Probed, Schema, State,
    StateError, StateFile, StateRead, StateWork,
};

use crate::ConfigError;
use crate::config::column_index;
use crate::dedup::key::key_kind;
use crate::join::temporal::{DELETED_MS, TemporalJoin};
use crate::join::{JoinColumn, JoinSide, MEMORY_DEFAULT, TemporalConfig};
use fresh::Fresh;
use rows::Layouts;
use state::Head;

/// The step's name.
const NAME: &str = "upsert";

/// Milliseconds of the join's time between two seals: a version that deletes its key is over by the next one.
const SEAL_MS: i64 = DELETED_MS + 10;

/// Columns of the join. No step can name them.
const NUMBER: &str = "`number`";
const LAYOUT: &str = "`layout`";
const ROW: &str = "`row`";
const VERSION: &str = "`version`";
const DELETED: &str = "`deleted`";

/// Columns of a table at the most, as a join has them.
const COLUMNS_MAX: usize = crate::join::COLUMNS_MAX;

/// The settings of the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpsertConfig {
    /// The columns of the key; 1 to [`KEY_COLUMNS_MAX`](crate::join::KEY_COLUMNS_MAX).
    pub key: Vec<String>,
    /// The column by which the newest row of a key is known; the last one is if there is none.
    pub version: Option<String>,
    /// A Bool column that is true for a row that deletes its key; NULL is no deletion. It need not be one of the table.
    pub deleted: Option<String>,
    /// The Int8 column of the table that gets the sign.
    pub sign: String,
}

/// What the step is, apart from its state.
pub(crate) struct Plan {
    config: UpsertConfig,
    /// The columns of the table.
    table: Schema,
    /// The place of the sign among them.
    sign: usize,
    /// The columns of the rows that come: those of the table without the sign, and that of deletions if it is none of them.
    input: Schema,
    shape: String,
}

/// The step, with the last row of each key.
pub struct Upsert {
    plan: Arc<Plan>,
    last: TemporalJoin,
    layouts: Layouts,
    fresh: Fresh,
    /// The columns of the two sides of the join.
    left: Schema,
    right: Schema,
    head: Head,
    /// Whether the rows since the last seal have asked for those before them.
    has_asked: bool,
    /// The delta of the seal under way.
    delta: Bytes,
}

fn failed(message: impl Into<String>) -> OperatorError {
    OperatorError { step: NAME.to_owned(), message: message.into() }
}

/// An error of the join within, which does not know what it is for.
fn of_join(error: OperatorError) -> OperatorError {
    failed(error.message)
}

impl Plan {
    fn new(input: &Schema, table: &Schema, config: &UpsertConfig) -> Result<Self, ConfigError> {
        let fail = |setting, message| Err(ConfigError::Setting { setting, message });
        let sign = column_index(table, "upsert.sign", &config.sign)?;
        if *table.columns()[sign].column_type.bare() != ColumnType::Int8 {
            return fail("upsert.sign", format!("the column `{}` must be an Int8", config.sign));
        }
        if table.columns().len() > COLUMNS_MAX {
            return fail("upsert.sign", format!("a table of more than {COLUMNS_MAX} columns"));
        }
        for column in table.columns() {
            if rows::form(&column.column_type).is_none() {
                let message = format!(
                    "the column `{}` is of a type of which no row is kept; use a ReplacingMergeTree, for which none has to be",
                    column.name
                );
                return fail("columns", message);
            }
        }
        let mut known = table.columns().to_vec();
        known.remove(sign);
        if let Some(name) = &config.deleted {
            let column = &input.columns()[column_index(input, "upsert.deleted", name)?];
            if *column.column_type.bare() != ColumnType::Bool {
                return fail("upsert.deleted", format!("the column `{name}` must be a Bool"));
            }
            if table.index_of(name).is_none() {
                known.push(column.clone());
            }
        }
        let mut kinds = Vec::new();
        for (setting, name) in config
            .key
            .iter()
            .map(|name| ("upsert.key", name))
            .chain(config.version.iter().map(|name| ("upsert.version", name)))
        {
            let column = &table.columns()[column_index(table, setting, name)?];
            let kind = key_kind(&column.column_type).map_err(|found| ConfigError::ColumnKind {
                setting,
                name: name.clone(),
                found,
                wanted: "a type whose values can be compared",
            })?;
            kinds.push(format!("`{name}` {kind}"));
        }
        let version = config.version.as_ref().and_then(|_| kinds.pop());
        let shape = format!(
            "key {}, {}{}",
            kinds.join(", "),
            version.map_or("the last row".to_owned(), |version| format!("the greatest {version}")),
            if config.deleted.is_some() { ", with deletions" } else { "" }
        );
        let (config, table, input) = (config.clone(), table.clone(), Schema::new(known));
        Ok(Self { config, table, sign, input, shape })
    }

    /// The columns that the join has of the rows, on either side behind the key.
    fn sides(&self) -> [Schema; 2] {
        let key = || {
            let of = |name: &String| {
                let at = self.table.index_of(name).expect("it was found before");
                self.table.columns()[at].clone()
            };
            self.config.key.iter().map(of).collect::<Vec<_>>()
        };
        let [mut left, mut right] = [key(), key()];
        left.push(Column::new(NUMBER, ColumnType::UInt32));
        right.push(Column::new(LAYOUT, ColumnType::UInt32));
        right.push(Column::new(ROW, ColumnType::String));
        right.push(Column::new(DELETED, ColumnType::Bool));
        if self.config.version.is_some() {
            right.push(Column::new(VERSION, ColumnType::String));
        }
        [Schema::new(left), Schema::new(right)]
    }

    fn join(&self, left: &Schema, right: &Schema) -> Result<TemporalJoin, ConfigError> {
        let column = |side, name: &str| JoinColumn {
            name: name.to_owned(),
            side,
            from: name.to_owned(),
            is_of_side_alone: true,
        };
        let mut columns = vec![
            column(JoinSide::Left, NUMBER),
            column(JoinSide::Right, LAYOUT),
            column(JoinSide::Right, ROW),
        ];
        let deleted = match self.config.version {
            // The version of a deletion holds as any other: an older row that comes later must find it.
            Some(_) => {
                columns.push(column(JoinSide::Right, DELETED));
                columns.push(column(JoinSide::Right, VERSION));
                None
            }
            None => Some(DELETED.to_owned()),
        };
        let config = TemporalConfig {
            on: self.config.key.iter().map(|name| (name.clone(), name.clone())).collect(),
            lateness: Duration::ZERO,
            is_outer: false,
            columns,
            deleted,
            unmatched: Vec::new(),
        };
        TemporalJoin::new(left, right, &config)
    }
}

impl Upsert {
    /// A step for rows with the columns of `input`, the first of which are those of `table`; with no row kept.
    ///
    /// # Errors
    /// When a column is unknown, named twice or of a type that does not serve.
    pub fn new(input: &Schema, table: &Schema, config: &UpsertConfig) -> Result<Self, ConfigError> {
        let plan = Arc::new(Plan::new(input, table, config)?);
        let [left, right] = plan.sides();
        let last = plan.join(&left, &right)?.of_upsert().with_memory(MEMORY_DEFAULT);
        let layouts = Layouts::of(&plan.table, plan.sign);
        let (fresh, head) = (Fresh::default(), Head::default());
        Ok(Self { plan, last, layouts, fresh, left, right, head, has_asked: false, delta: Bytes::new() })
    }

    /// Takes this much memory for rows, before those that came first are spilled to files.
    #[must_use]
    pub fn with_memory(self, memory_max: u64) -> Self {
        Self { last: self.last.with_memory(memory_max), ..self }
    }

    /// As [`with_memory`](Self::with_memory), with all sizes: for tests.
    #[must_use]
    pub fn with_sizes(self, sizes: crate::join::temporal::spilled::Sizes) -> Self {
        Self { last: self.last.with_sizes(sizes), ..self }
    }

    /// The columns of the rows that it makes.
    pub fn output(&self) -> &Schema {
        &self.plan.table
    }

    /// The join's time of the seal under way: when rows ask, and when those that came hold.
    fn times_ms(&self) -> (i64, i64) {
        let asks_ms = (self.head.seals as i64 + 1) * SEAL_MS;
        (asks_ms, asks_ms + 1)
    }

    /// The watermark up to which the join has been advanced when rows ask: behind their time.
    fn asking_ms(&self) -> i64 {
        match self.fresh.is_empty() {
            // Nothing asks, and the join's time stands still.
            true => self.head.watermark_ms,
            false => self.times_ms().0 + 1,
        }
    }

    /// Gives rows to one side of the join. Nothing has to be read for them: they are newer than all that is there.
    fn put(&mut self, side: JoinSide, rows: RecordBatch, time_ms: i64) -> Result<(), OperatorError> {
        let len = rows.num_rows();
        if len == 0 {
            return Ok(());
        }
        let batch = Batch {
            items: Vec::new(),
            era: 0,
            partition: Partition::new(NAME, 0),
            rows,
            positions: (0..len as u64).collect(),
            times_ms: vec![time_ms; len],
        };
        let probed = self.last.probe_of(side as usize, batch).map_err(of_join)?;
        if !probed.reads.is_empty() {
            return Err(failed(
                "rows that are newer than all others must be compared with files; this is a fault of the program",
            ));
        }
        let output = self.last.finish(probed, &[]).map_err(of_join)?;
        if output.absorbed != len as u64 {
            return Err(failed("the join did not take a row; this is a fault of the program"));
        }
        Ok(())
    }

    /// The rows since the last seal ask for those before them, once.
    fn ask(&mut self) -> Result<(), OperatorError> {
        if std::mem::replace(&mut self.has_asked, true) {
            return Ok(());
        }
        self.fresh.reduce(&self.plan).map_err(failed)?;
        let (asks_ms, _) = self.times_ms();
        let mut first = 0;
        for part in 0..self.fresh.parts() {
            let batch = self.fresh.part(part);
            let numbers = UInt32Array::from_iter_values(first..first + batch.len() as u32);
            first += batch.len() as u32;
            let mut columns = key_columns(&self.plan, &batch.rows);
            columns.push(Arc::new(numbers));
            let rows = RecordBatch::try_new(rows::arrow(&self.left, &columns), columns).map_err(not_made)?;
            self.put(JoinSide::Left, rows, asks_ms)?;
        }
        Ok(())
    }

    /// The rows with -1, and which of the rows that came hold from now on: `false` for those that are older than what the state has.
    fn taken_back(&mut self, found: Vec<Output>) -> Result<(Vec<RecordBatch>, Vec<bool>), OperatorError> {
        let mut holds = vec![true; self.fresh.len()];
        let mut taken_back = Vec::new();
        for batch in found.into_iter().map(|output| output.batch.rows).filter(|rows| rows.num_rows() > 0) {
            let numbers = batch.column(0).as_primitive::<UInt32Type>().values().to_vec();
            let mut is_row = vec![true; numbers.len()];
            if self.plan.config.version.is_some() {
                let (deleted, versions) = (batch.column(3).as_boolean(), bytes_of(batch.column(4)));
                for (at, number) in numbers.iter().enumerate() {
                    // Of equal versions the last row is the newest.
                    let is_newer = self.fresh.version(*number as usize) >= versions.value(at);
                    holds[*number as usize] = is_newer;
                    is_row[at] = is_newer && !deleted.value(at);
                }
            }
            let layouts = batch.column(1).as_primitive::<UInt32Type>().values();
            let rows = bytes_of(batch.column(2));
            let kept = is_row.iter().enumerate().filter(|(_, is_row)| **is_row);
            let kept = kept.map(|(at, _)| (layouts[at], rows.value(at)));
            let columns = self.layouts.decode(kept).map_err(failed)?;
            for columns in columns {
                taken_back.push(signed(&self.plan, columns, -1)?);
            }
        }
        Ok((taken_back, holds))
    }

    /// What holds from this seal on goes to the state.
    fn keep(&mut self, holds: &[bool]) -> Result<(), OperatorError> {
        let (_, holds_ms) = self.times_ms();
        for part in 0..self.fresh.parts() {
            let range = self.fresh.range(part);
            let kept = BooleanArray::from(holds[range.clone()].to_vec());
            let batch = self.fresh.part(part);
            let encoded = self.layouts.encode(&batch.rows).map_err(failed)?;
            let layout = self.layouts.now().map_err(failed)?;
            let len = batch.len();
            let mut columns = key_columns(&self.plan, &batch.rows);
            columns.push(Arc::new(UInt32Array::from_value(layout, len)));
            columns.push(Arc::new(encoded));
            columns.push(Arc::new(self.fresh.deletions(part)));
            if self.plan.config.version.is_some() {
                let versions = range.map(|number| self.fresh.version(number));
                columns.push(Arc::new(BinaryArray::from_iter_values(versions)));
            }
            let schema = rows::arrow(&self.right, &columns);
            let rows = RecordBatch::try_new(schema, columns).map_err(not_made)?;
            let rows = arrow_select::filter::filter_record_batch(&rows, &kept).map_err(not_made)?;
            self.put(JoinSide::Right, rows, holds_ms)?;
        }
        Ok(())
    }

    /// The rows with 1, each with the time of its record.
    fn given(&self, holds: &[bool]) -> Result<Vec<Batch>, OperatorError> {
        let mut given = Vec::new();
        for part in 0..self.fresh.parts() {
            let (batch, deleted) = (self.fresh.part(part), self.fresh.deletions(part));
            let range = self.fresh.range(part);
            let dropped: Vec<usize> =
                (0..batch.len()).filter(|row| deleted.value(*row) || !holds[range.start + row]).collect();
            let batch = batch.clone().without(&dropped).map_err(not_made)?;
            let columns = batch.rows.columns()[..self.plan.table.columns().len()].to_vec();
            let rows = signed(&self.plan, columns, 1)?;
            given.push(Batch { rows, ..batch });
        }
        Ok(given)
    }

    /// A batch of made rows, which have numbers for positions.
    fn made(&mut self, rows: RecordBatch, times_ms: Vec<i64>) -> Output {
        let count = rows.num_rows() as u64;
        let positions = (self.head.position..self.head.position + count).collect();
        self.head.position += count;
        let batch = Batch {
            items: Vec::new(),
            era: 0,
            partition: Partition::new(NAME, 0),
            rows,
            positions,
            times_ms,
        };
        Output { added: count, is_made: true, ..Output::all(batch) }
    }
}

/// The columns of the key, in order.
fn key_columns(plan: &Plan, rows: &RecordBatch) -> Vec<ArrayRef> {
    let of = |name: &String| {
        let at = plan.table.index_of(name).expect("it was found before");
        rows.column(at).clone()
    };
    plan.config.key.iter().map(of).collect()
}

fn not_made(error: arrow_schema::ArrowError) -> OperatorError {
    failed(format!("rows cannot be put together: {error}"))
}

/// A column of bytes, which come as text where all of them are.
fn bytes_of(column: &ArrayRef) -> BinaryArray {
    match column.as_string_opt::<i32>() {
        Some(texts) => BinaryArray::from(texts.clone()),
        None => column.as_binary::<i32>().clone(),
    }
}

/// Rows of the table with this sign.
fn signed(plan: &Plan, mut columns: Vec<ArrayRef>, sign: i8) -> Result<RecordBatch, OperatorError> {
    let len = columns.first().map_or(0, |column| column.len());
    columns[plan.sign] = Arc::new(Int8Array::from_value(sign, len));
    RecordBatch::try_new(rows::arrow(&plan.table, &columns), columns).map_err(not_made)
}

impl Operator for Upsert {
    fn name(&self) -> &str {
        NAME
    }

    fn columns(&self, _input: usize) -> Option<&Schema> {
        Some(&self.plan.input)
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        if self.has_asked {
            return Err(failed(
                "rows came between what was read for a seal and the seal; this is a fault of the program",
            ));
        }
        let absorbed = probed.batch.len() as u64;
        let none = probed.batch.clone().without_all();
        self.fresh.push(&self.plan, probed.batch).map_err(failed)?;
        Ok(Output { absorbed, ..Output::all(none) })
    }

    fn advance_reads(
        &mut self,
        _watermark_ms: i64,
        _is_closing: bool,
    ) -> Result<Vec<StateRead>, OperatorError> {
        self.ask()?;
        self.last.advance_reads(self.asking_ms(), false).map_err(of_join)
    }

    fn advance_read(&mut self, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        self.last.advance_read(answers).map_err(of_join)
    }

    fn advance(&mut self, _watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        self.ask()?;
        let asking_ms = self.asking_ms();
        let found = self.last.advance(asking_ms).map_err(of_join)?;
        let asked = State::seal(&mut self.last, asking_ms);
        let absorbed = self.fresh.absorbed();
        let (mut outputs, mut kept) = (Vec::new(), Bytes::new());
        if !self.fresh.is_empty() {
            let (taken_back, holds) = self.taken_back(found)?;
            self.keep(&holds)?;
            let given = self.given(&holds)?;
            let now_ms = self.fresh.newest_ms();
            for rows in taken_back {
                let times_ms = vec![now_ms; rows.num_rows()];
                outputs.push(self.made(rows, times_ms));
            }
            for batch in given.into_iter().filter(|batch| !batch.is_empty()) {
                outputs.push(self.made(batch.rows, batch.times_ms));
            }
            if outputs.is_empty() {
                outputs.push(self.made(RecordBatch::new_empty(self.plan.table.arrow().clone()), Vec::new()));
            }
            outputs[0].released = absorbed;
            // Behind the time from which they hold: what was before them is over.
            let (_, holds_ms) = self.times_ms();
            self.head.watermark_ms = holds_ms + 1;
            self.last.advance(self.head.watermark_ms).map_err(of_join)?;
            kept = State::seal(&mut self.last, self.head.watermark_ms);
            self.head.seals += 1;
        }
        if absorbed > 0 || !asked.is_empty() {
            self.delta = state::delta(&self.plan, self.head, self.layouts.unsealed(), [&asked, &kept]);
        }
        self.fresh = Fresh::default();
        self.has_asked = false;
        Ok(outputs)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Upsert {
    fn shape(&self) -> String {
        self.plan.shape.clone()
    }

    /// Those by which rows are compared. Of all other columns the layouts know them.
    fn enums(&self) -> Vec<KeptEnum> {
        let config = &self.plan.config;
        let is_compared =
            |column: &&Column| config.key.iter().chain(&config.version).any(|name| *name == column.name);
        let columns = self.plan.table.columns().iter().filter(is_compared);
        columns.flat_map(|column| KeptEnum::within(&column.name, &column.column_type)).collect()
    }

    fn loss(&self) -> &str {
        "the last row of each key: what comes later takes no earlier row back, so a key that is in the table is there once more until parts are merged"
    }

    fn seal(&mut self, _watermark_ms: i64) -> Bytes {
        std::mem::take(&mut self.delta)
    }

    fn snapshot(&self) -> Bytes {
        assert!(self.fresh.is_empty(), "a snapshot is taken right after a seal");
        state::snapshot(&self.plan, self.head, self.layouts.sealed(), &self.last.snapshot())
    }

    fn files(&self) -> Vec<StateFile> {
        self.last.files()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        let read = state::read_snapshot(&self.plan, snapshot)?;
        self.layouts = Layouts::of(&self.plan.table, self.plan.sign);
        self.layouts.add(read.layouts)?;
        (self.head, self.fresh, self.has_asked, self.delta) =
            (read.head, Fresh::default(), false, Bytes::new());
        self.last.restore(read.parts[0])
    }

    fn open(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.last.open(bytes)
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        if delta.is_empty() {
            return Ok(());
        }
        let read = state::read_delta(&self.plan, delta)?;
        self.layouts.add(read.layouts)?;
        for part in &read.parts {
            self.last.apply(part)?;
        }
        self.head = read.head;
        Ok(())
    }

    fn work(&mut self) -> Option<Box<dyn StateWork>> {
        self.last.work()
    }

    fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        self.last.adopt(work)
    }

    fn is_crowded(&self) -> bool {
        self.last.is_crowded()
    }

    fn held(&self) -> u64 {
        self.fresh.absorbed()
    }

    fn unsealed_bytes(&self) -> u64 {
        self.fresh.bytes()
    }

    /// The rows that are kept, one of each key, and those that came since the last seal.
    fn entries(&self) -> u64 {
        self.last.entries() + self.fresh.absorbed()
    }

    fn spilled_entries(&self) -> u64 {
        self.last.spilled_entries()
    }

    fn memory_bytes(&self) -> u64 {
        self.last.memory_bytes() + self.fresh.bytes()
    }
}

#[cfg(test)]
mod tests;
