//! A world small enough to look into: a table that behaves as ClickHouse does with tokens, and numbers as records.
//!
//! Owns the table and its faults, and numbers as records. Does not own the engine, the store, the source and the dedup step, which are the
//! real ones; nor a world whose faults come from a seed (`sim`).

mod bench;
mod puts;
mod readers;
mod table;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::{Array, RecordBatch, StringArray, UInt64Array};
use async_trait::async_trait;
use bytes::Bytes;
use dataflow::{
    Attempt, Batch, BlockBuilder, Column, ColumnType, Decoded, Decoder, Effect, Encoded, Event, Fit, FrameId,
    InsertError, Intake, Layout, LayoutColumn, Operator, Partition, PartitionStart, Position, Presence,
    ReadFrom, Reader, Reason, RecordBlock, Reject, Remedy, RowsFrom, Runtime, Schema, Selected, Sighting,
    Source, SourceError, SourceFault, Streams, TYPE_DEFAULT, Table, TableError, TableFault, Tokens,
};
use engine::problem::SOURCE;
use engine::totals::Totals;
use engine::{EngineError, Input, Outcome, Pipeline, Settings, Status, TokioRuntime};
use operators::dedup::spilled::Sizes;
use operators::dedup::{Dedup, DedupConfig, Late};
use sources::memory::{MemoryHandle, MemorySource};
use store::{Entry, Key, Prefix, Put, Store, StoreError};
use tokens::{ClickHouseTokens, Facts};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

pub use bench::{Bench, LONG, Process};
pub use puts::AroundPuts;
pub use readers::{Damaged, Told};

/// Records are decimal numbers; anything else is a reject.
pub struct Numbers(pub Schema);

impl Decoder for Numbers {
    fn schema(&self) -> &Schema {
        &self.0
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        let (mut ids, mut positions, mut times_ms, mut rejects) = (vec![], vec![], vec![], vec![]);
        for row in 0..block.len() {
            match std::str::from_utf8(block.payloads.get(row)).ok().and_then(|text| text.parse::<u64>().ok())
            {
                Some(id) => {
                    ids.push(id);
                    positions.push(block.positions[row]);
                    times_ms.push(block.times_ms[row]);
                }
                None => rejects.push(Reject::of(block, row, Reason::Malformed, "id", "not a number".into())),
            }
        }
        let rows = RecordBatch::try_new(self.0.arrow().clone(), vec![Arc::new(UInt64Array::from(ids))]);
        let batch = Batch {
            items: Vec::new(),
            era: 0,
            partition: block.partition.clone(),
            rows: rows.expect("one column"),
            positions,
            times_ms,
        };
        Decoded { batch, rejects, several: None }
    }
}

/// What the next insert runs into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happened, and the client knows.
    Refused,
    /// It happened, the answer was lost.
    LostAfter,
    /// It did not happen, the client does not know.
    LostBefore,
    /// The server died between the token's line and the part: a token without rows.
    TokenWithoutRows,
}

/// A table with a token memory, in which several "servers" may succeed one another.
#[derive(Default)]
pub struct World {
    /// A first start asks about rows that are there.
    pub asks_if_filled: bool,
    tokens: VecDeque<String>,
    /// Frame to rows, as often as they were written.
    pub rows: Vec<(FrameId, Vec<u64>)>,
    block: u64,
    start_ms: i64,
    now_ms: i64,
    /// Taken by inserts, in order.
    pub faults: VecDeque<Fault>,
    /// While set, nothing answers.
    pub away: bool,
    /// What an insert takes longer than usual.
    pub insert_time: Duration,
    /// Rows that the server does not take.
    pub poison: Vec<u64>,
    /// The server does not say which row it refuses an insert for.
    pub names_no_row: bool,
    /// Inserts that were refused for their rows.
    pub refused: u64,
    /// The first refusal changes the table, and before the answer to so many looks from then on it is mended, and takes every row; 0 for none.
    pub mended_at_look: u64,
    /// The messages of the dead letters that were encoded.
    pub messages: Vec<String>,
    /// Rows that it no longer takes after so many attempts.
    pub poison_after: Option<(u64, Vec<u64>)>,
    /// False if questions are answered while it is away: only inserts find nobody.
    pub facts_away: bool,
    /// Bytes under each token: C3.
    bodies: BTreeMap<String, Bytes>,
    /// While set, a person has changed the table: it says so when it is asked.
    pub changed: bool,
    /// Looks at the rows of a frame.
    pub probes: u64,
    /// Inserts that were begun.
    pub begun: u64,
    /// Inserts that were tried.
    pub attempts: u64,
    /// The server restarts after the next fault.
    pub dies_after_fault: bool,
    /// Nothing names a row's frame.
    pub cannot_tell: bool,
    /// A balancer sends whoever looks for rows to a server that has another table of this name.
    pub rows_elsewhere: bool,
    /// Tables of this name that came before this one.
    pub exchanged: u64,
    /// How often it was asked what it is.
    pub looks: u64,
    /// Names and types of its columns now; empty if it does not tell.
    pub columns: Vec<(&'static str, &'static str)>,
    /// The columns that it has from the next question on whether frames fit.
    pub columns_at_fit: Option<Vec<(&'static str, &'static str)>>,
    /// Materialized views that it feeds now.
    pub views: usize,
    /// A view that came did not come alone: rows fall into other partitions.
    pub is_exchanged: bool,
    /// Frames are cut so that each holds at most this sum of ids, judged by the mean over the rows given; 0 cuts nothing.
    pub frame_weight_max: u64,
    /// Tokens that others use while the body of an insert travels, by insert in order.
    pub others_on_the_way: VecDeque<u64>,
    /// Servers that succeed one another while the body of an insert travels, by insert in order.
    pub restarts_on_the_way: VecDeque<bool>,
    /// Requests that ended before their last bytes.
    pub held_back: u64,
    /// While set, inserts end with an error of this kind; whether the rows were written all the same.
    pub says: Option<(TableFault, Remedy, Effect, bool)>,
    /// The version of each row of each frame that was encoded, whether it was sealed or not.
    pub versions: BTreeMap<(FrameId, u64), u64>,
}

impl World {
    /// Its columns as frames are made for them.
    fn layout(&self) -> Layout {
        let column = |(name, type_name): &(&str, &str)| LayoutColumn {
            name: (*name).into(),
            type_name: (*type_name).into(),
            is_required: !type_name.starts_with("Nullable"),
            ..LayoutColumn::default()
        };
        Layout { columns: self.columns.iter().map(column).collect() }
    }

    /// The server dies and comes back, with tokens and rows.
    pub fn restart(&mut self) {
        self.now_ms += 60_000;
        self.start_ms = self.now_ms - 10_000;
    }

    /// Others insert so many blocks.
    pub fn others_insert(&mut self, blocks: u64) {
        self.block += blocks;
        for n in 0..blocks {
            self.tokens.push_back(format!("other-{}-{n}", self.block));
            if self.tokens.len() > 100 {
                self.tokens.pop_front();
            }
        }
    }

    /// Every id with the number of times that it is in the table.
    pub fn ids(&self) -> BTreeMap<u64, u64> {
        let mut ids = BTreeMap::new();
        self.rows.iter().flat_map(|(_, rows)| rows).for_each(|id| *ids.entry(*id).or_default() += 1);
        ids
    }
}

/// One table of the world.
pub struct TokenTable {
    name: &'static str,
    schema: Schema,
    pub world: Arc<Mutex<World>>,
    runtime: Arc<dyn Runtime>,
    /// Its columns when it was opened.
    opened: Layout,
    /// Its views then.
    opened_views: usize,
    /// Rows whose ids have the same rest replace each other, by versions in this column.
    replacing: Option<(u64, Column)>,
}

impl TokenTable {
    /// A table of numbers.
    pub fn numbers(name: &'static str, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        let schema = Schema::new(vec![Column::new("id", ColumnType::UInt64)]);
        let (opened, opened_views, replacing) = (Layout::default(), 0, None);
        Arc::new(Self { name, schema, world: world(), runtime, opened, opened_views, replacing })
    }

    /// A table of numbers, of which those with the same rest of a division by `keys` replace each other.
    pub fn replacing(name: &'static str, keys: u64, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        let schema = Schema::new(vec![Column::new("id", ColumnType::UInt64)]);
        let (opened, opened_views) = (Layout::default(), 0);
        let replacing = Some((keys, Column::new("_version", ColumnType::UInt64)));
        Arc::new(Self { name, schema, world: world(), runtime, opened, opened_views, replacing })
    }

    /// A table of dead letters; its world keeps their positions.
    pub fn dead_letters(runtime: Arc<dyn Runtime>) -> Arc<Self> {
        let (schema, opened) = (dataflow::reject::schema(), Layout::default());
        Arc::new(Self {
            name: "d.dead",
            schema,
            world: world(),
            runtime,
            opened,
            opened_views: 0,
            replacing: None,
        })
    }

    /// The same table, opened anew; `added` are columns that a record need not give.
    pub fn open_again(&self, added: &[String]) -> Arc<Self> {
        let mut opened = self.world.lock().expect("no panic").layout();
        for column in opened.columns.iter_mut().filter(|column| added.contains(&column.name)) {
            (column.default, column.is_required) = (TYPE_DEFAULT.into(), false);
        }
        let (schema, world) = (self.schema.clone(), self.world.clone());
        let opened_views = world.lock().expect("no panic").views;
        let (runtime, replacing) = (self.runtime.clone(), self.replacing.clone());
        Arc::new(Self { name: self.name, schema, world, runtime, opened, opened_views, replacing })
    }

    fn ids_of(&self, rows: &[Selected]) -> Vec<u64> {
        let mut all = Vec::new();
        for batch in rows {
            let column = batch.batch().column(self.column());
            let numbers = column.as_any().downcast_ref::<UInt64Array>().expect("numbers");
            all.extend(batch.of(numbers.values()));
        }
        all
    }

    fn versions_of(&self, rows: &[Selected]) -> Vec<u64> {
        let mut versions = Vec::new();
        for batch in rows.iter().filter(|_| self.replacing.is_some()) {
            let own = batch.batch().columns().last().expect("each row has a version");
            let own = own.as_any().downcast_ref::<UInt64Array>().expect("numbers");
            versions.extend(batch.of(own.values()));
        }
        versions
    }

    fn column(&self) -> usize {
        self.schema
            .index_of("id")
            .or_else(|| self.schema.index_of("position"))
            .expect("one of the two tables")
    }
}

fn frame(id: FrameId, rows: &[u64], from: Range<u32>) -> Encoded {
    Encoded {
        id,
        table_partition: String::new(),
        rows: rows.len() as u64,
        body: rows.iter().flat_map(|n| n.to_le_bytes()).collect(),
        probe: Bytes::new(),
        rows_from: RowsFrom::Run(from),
    }
}

fn world() -> Arc<Mutex<World>> {
    Arc::new(Mutex::new(World { now_ms: 1_000_000, facts_away: true, ..World::default() }))
}

fn error(effect: Effect, remedy: Remedy, kind: TableFault) -> InsertError {
    InsertError { effect, remedy, code: 0, kind, message: format!("made to fail: {kind}") }
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

fn numbers(body: &[u8]) -> Vec<u64> {
    body.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect()
}

/// A store that is always in the middle of retiring: every other record below the floor is still there.
#[derive(Debug)]
pub struct Retiring {
    inner: Arc<dyn Store>,
    hides_floor: AtomicBool,
}

impl Retiring {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, hides_floor: AtomicBool::new(false) }
    }

    /// The next question for the floor comes before it is raised.
    pub fn hide_floor_once(&self) {
        self.hides_floor.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Store for Retiring {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.inner.put_if_absent(key, body).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(key, bytes_max).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        self.inner.get_range(key, range).await
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        if prefix.as_str().ends_with("/floor") && self.hides_floor.swap(false, Ordering::SeqCst) {
            return Ok(Vec::new());
        }
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        let is_odd = protocol::names::number(key.as_str()).is_some_and(|n| n % 2 == 1);
        if is_odd && key.as_str().contains("/journal/") {
            return Ok(());
        }
        self.inner.delete(key).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.inner.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
