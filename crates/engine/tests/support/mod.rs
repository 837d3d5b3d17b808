//! A world small enough to look into: a table that behaves as ClickHouse does with tokens, and numbers as records.
//!
//! Owns the table and its faults, and numbers as records. Does not own the engine, the store, the source and the dedup step, which are the
//! real ones; nor a world whose faults come from a seed (`sim`).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Rows that the server does not take.
    pub poison: Vec<u64>,
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
    /// Materialized views that it feeds now.
    pub views: usize,
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

#[async_trait]
impl Table for TokenTable {
    fn name(&self) -> &str {
        self.name
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn layout(&self) -> Layout {
        self.opened.clone()
    }

    fn changed(&self) -> Option<Layout> {
        let now = self.world.lock().expect("no panic").layout();
        let names = |layout: &Layout| -> Vec<(String, String)> {
            layout.columns.iter().map(|c| (c.name.clone(), c.type_name.clone())).collect()
        };
        (names(&self.opened) != names(&now)).then_some(now)
    }

    fn version_column(&self) -> Option<&Column> {
        self.replacing.as_ref().map(|(_, column)| column)
    }

    fn replaced(&self, rows: &[Selected]) -> Result<Vec<u32>, TableError> {
        let Some((keys, _)) = &self.replacing else { return Ok(Vec::new()) };
        let mut newest = BTreeMap::new();
        let numbers = (0..).zip(self.ids_of(rows));
        let mut replaced: Vec<u32> =
            numbers.filter_map(|(number, id)| newest.insert(id % keys, number)).collect();
        replaced.sort_unstable();
        Ok(replaced)
    }

    fn must_reopen(&self) -> bool {
        self.world.lock().expect("no panic").views > self.opened_views
    }

    fn fit(&self, layout: &Layout) -> Fit {
        let now = self.world.lock().expect("no panic").layout();
        let mut fit = Fit::AsIs;
        for column in &layout.columns {
            let Some(now) = now.column(&column.name) else {
                return Fit::No { words: format!("column `{}` is gone; ADD COLUMN it", column.name) };
            };
            match (column.type_name.as_str(), now.type_name.as_str()) {
                (from, to) if from == to => {}
                ("UInt32", "UInt64") => fit = Fit::Again { always: true },
                (from, to) => return Fit::No { words: format!("values of {from} in {to}") },
            }
        }
        fit
    }

    fn encode(
        &self,
        rows: &[Selected],
        ids: &mut dyn FnMut() -> FrameId,
    ) -> Result<Vec<Encoded>, TableError> {
        let numbers = self.ids_of(rows);
        let versions = self.versions_of(rows);
        let said = rows.iter().filter_map(|rows| rows.batch().column_by_name("message"));
        let said = said.filter_map(|column| column.as_any().downcast_ref::<StringArray>());
        let said = said.flat_map(|column| column.iter().flatten().map(str::to_owned));
        self.world.lock().expect("no panic").messages.extend(said);
        let weight_max = self.world.lock().expect("no panic").frame_weight_max;
        let mean = numbers.iter().sum::<u64>() / numbers.len().max(1) as u64;
        let cut = if weight_max == 0 { numbers.len() } else { (weight_max / mean.max(1)).max(1) as usize };
        let mut first = 0;
        let frames = numbers.chunks(cut.max(1)).map(|rows| {
            let next = first + rows.len() as u32;
            frame(ids(), rows, std::mem::replace(&mut first, next)..next)
        });
        let frames: Vec<Encoded> = frames.collect();
        let mut world = self.world.lock().expect("no panic");
        for frame in frames.iter().filter(|_| !versions.is_empty()) {
            let rows = (0..frame.rows_from.len()).map(|at| frame.rows_from.get(at) as usize);
            world.versions.extend(rows.map(|row| ((frame.id, numbers[row]), versions[row])));
        }
        drop(world);
        Ok(frames)
    }

    fn encode_again(
        &self,
        rows: &RecordBatch,
        made_for: Option<&Layout>,
        id: FrameId,
    ) -> Result<(Encoded, Layout), TableError> {
        let numbers = self.ids_of(&[Selected::all(rows.clone())]);
        let mut now = self.world.lock().expect("no panic").layout();
        now.columns.retain(|column| made_for.is_none_or(|made| made.column(&column.name).is_some()));
        Ok((frame(id, &numbers, 0..numbers.len() as u32), now))
    }

    fn decode(&self, body: &[u8]) -> Result<RecordBatch, TableError> {
        let numbers = numbers(body);
        let schema = self.schema.arrow().clone();
        Ok(RecordBatch::try_new(schema, vec![Arc::new(UInt64Array::from(numbers))]).expect("one column"))
    }

    fn to_json(&self, rows: &RecordBatch, row: usize) -> String {
        let ids = rows.column(0).as_any().downcast_ref::<UInt64Array>().expect("numbers");
        format!("{{\"id\":{}}}", ids.value(row))
    }

    async fn insert(&self, attempt: Attempt<'_>) -> Result<(), InsertError> {
        self.runtime.sleep(Duration::from_millis(2)).await;
        {
            let mut world = self.world.lock().expect("no panic");
            let others = world.others_on_the_way.pop_front().unwrap_or_default();
            world.others_insert(others);
            if world.restarts_on_the_way.pop_front().unwrap_or_default() {
                world.restart();
            }
        }
        if !attempt.gate.may_complete().await {
            self.world.lock().expect("no panic").held_back += 1;
            return Err(error(Effect::None, Remedy::Stop, TableFault::Fenced));
        }
        let mut world = self.world.lock().expect("no panic");
        world.attempts += 1;
        if world.away {
            return Err(error(Effect::None, Remedy::Resend, TableFault::Connection));
        }
        let known =
            world.bodies.entry(attempt.token.to_owned()).or_insert_with(|| attempt.body.clone()).clone();
        assert_eq!(known, attempt.body, "C3: one token, one byte string");
        for column in &attempt.layout.unwrap_or(&self.opened).columns {
            match world.columns.iter().find(|(name, _)| *name == column.name) {
                Some((_, type_name)) if *type_name == column.type_name => {}
                Some(_) => return Err(error(Effect::None, Remedy::Divert, TableFault::BadContent)),
                None => return Err(error(Effect::None, Remedy::Stop, TableFault::Differs)),
            }
        }
        let rows = numbers(&attempt.body);
        if world.poison_after.as_ref().is_some_and(|(after, _)| world.attempts > *after) {
            world.poison = world.poison_after.take().expect("just looked at").1;
        }
        if rows.iter().any(|n| world.poison.contains(n)) {
            return Err(error(Effect::None, Remedy::Divert, TableFault::BadContent));
        }
        if let Some((kind, remedy, effect, false)) = world.says {
            return Err(error(effect, remedy, kind));
        }
        let fault = world.faults.pop_front();
        match fault {
            Some(Fault::Refused) => {
                return Err(error(Effect::None, Remedy::Resend, TableFault::TooManyParts));
            }
            Some(Fault::LostBefore) => {
                return Err(error(Effect::Unknown, Remedy::Resend, TableFault::Broken));
            }
            Some(Fault::LostAfter | Fault::TokenWithoutRows) | None => {}
        }
        if !world.tokens.iter().any(|t| t == attempt.token) {
            world.tokens.push_back(attempt.token.to_owned());
            world.block += 1;
            if world.tokens.len() > 100 {
                world.tokens.pop_front();
            }
            if fault != Some(Fault::TokenWithoutRows) {
                let id = u128::from_str_radix(&attempt.token[8..40], 16).expect("a frame's name");
                world.rows.push((FrameId(id), rows));
            }
        }
        if let Some((kind, remedy, effect, true)) = world.says {
            return Err(error(effect, remedy, kind));
        }
        match fault {
            None => Ok(()),
            Some(Fault::TokenWithoutRows) => {
                world.restart();
                Err(error(Effect::Unknown, Remedy::Resend, TableFault::Broken))
            }
            Some(_) => {
                if std::mem::take(&mut world.dies_after_fault) {
                    world.restart();
                }
                Err(error(Effect::Unknown, Remedy::Resend, TableFault::Broken))
            }
        }
    }

    fn tokens(&self) -> &dyn Tokens {
        &ClickHouseTokens
    }

    async fn see(&self) -> Result<Sighting, TableError> {
        let mut world = self.world.lock().expect("no panic");
        world.looks += 1;
        if world.away && world.facts_away {
            return Err(TableError {
                remedy: Remedy::Resend,
                kind: TableFault::Connection,
                message: "away".into(),
            });
        }
        if world.changed {
            let message = "column `id` has changed".into();
            return Err(TableError { remedy: Remedy::Stop, kind: TableFault::Differs, message });
        }
        let facts = Facts {
            start_ms: world.start_ms,
            seen_ms: world.now_ms,
            server_uuid: "s".into(),
            block_number: world.block,
            view_blocks: vec![world.block; world.views],
            token_window: 100,
            tokens_per_frame: 1,
            token_age_ms_max: None,
            tokens_per_block_max: Some(1),
            asked_ms: world.now_ms,
            answered_ms: world.now_ms,
        };
        Ok(facts.seen(format!("{}-{}", self.name, world.exchanged)))
    }

    async fn probe(&self, frame: FrameId, _: u64, _: &[u8]) -> Result<Presence, TableError> {
        let mut world = self.world.lock().expect("no panic");
        world.probes += 1;
        if world.cannot_tell {
            return Ok(Presence::Inadmissible);
        }
        let found = world.rows.iter().any(|(id, _)| *id == frame);
        Ok(if found { Presence::All } else { Presence::None })
    }

    async fn look_for(
        &self,
        frame: FrameId,
        rows: u64,
        probe: &[u8],
    ) -> Result<(Presence, Sighting), TableError> {
        let (presence, mut seen) = (self.probe(frame, rows, probe).await?, self.see().await?);
        if self.world.lock().expect("no panic").rows_elsewhere {
            seen.table_uuid = "elsewhere".into();
            return Ok((Presence::None, seen));
        }
        Ok((presence, seen))
    }

    fn may_object_to_first_start(&self) -> bool {
        self.world.lock().expect("no panic").asks_if_filled
    }

    async fn objects_to_first_start(&self) -> Result<Option<String>, TableError> {
        let world = self.world.lock().expect("no panic");
        Ok((world.asks_if_filled && !world.ids().is_empty()).then(|| "the table has rows".into()))
    }

    async fn end_attempts(&self, _: &str) -> Result<u64, TableError> {
        Ok(0)
    }
}

fn numbers(body: &[u8]) -> Vec<u64> {
    body.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect()
}

/// A pipeline from one memory source into one table, which can be started as often as one likes.
pub struct Bench {
    pub source: Arc<MemorySource>,
    pub feed: MemoryHandle,
    pub store: Arc<dyn Store>,
    pub table: Arc<TokenTable>,
    pub dead_letters: Arc<TokenTable>,
    pub settings: Settings,
    /// When dedup keys leave memory.
    pub sizes: Sizes,
    /// Into how many shards they are divided in memory; any two rows are worth a job.
    pub shards: usize,
    pub status: Arc<Status>,
    pub runtime: Arc<TokioRuntime>,
}

impl Bench {
    /// Two partitions, a store in memory, small batches.
    pub fn new() -> Self {
        let runtime = TokioRuntime::new(2);
        let settings = Settings {
            batch_rows_max: 50,
            batch_age_max: Duration::from_millis(10),
            settle_age_max: Duration::from_millis(20),
            retry_pause_max: Duration::from_millis(20),
            // Tests that wait for its end set their own; on a busy machine a drain may take seconds.
            drain_time_max: Duration::from_secs(60),
            window_frames_max: 4,
            owner_quiet_min: Duration::from_millis(200),
            ..Settings::default()
        };
        let source = Arc::new(MemorySource::new([("e", 2)]));
        Self {
            feed: source.handle(),
            source,
            store: Arc::new(store::MemoryStore::new(1 << 30)),
            table: TokenTable::numbers("d.t", runtime.clone()),
            dead_letters: TokenTable::dead_letters(runtime.clone()),
            settings,
            sizes: Sizes::new(1 << 20),
            shards: 1,
            status: Arc::default(),
            runtime,
        }
    }

    /// Records `ids`, in turn over both partitions.
    pub fn push(&self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            self.push_text(id, &id.to_string());
        }
    }

    /// A record of any text.
    pub fn push_text(&self, n: u64, text: &str) {
        self.feed.push(&Partition::new("e", (n % 2) as u32), 1_000 + n as i64, text);
    }

    /// The only input, with this source.
    pub fn inputs(&self, source: Arc<dyn Source>) -> Vec<Input> {
        vec![self.input(SOURCE, source)]
    }

    /// An input of numbers.
    pub fn input(&self, name: &str, source: Arc<dyn Source>) -> Input {
        let intake = Intake::new(Arc::new(Numbers(self.table.schema().clone())));
        Input { name: name.to_owned(), source, intake }
    }

    /// The pipeline, ready to run.
    pub fn pipeline(&self, drain: bool) -> Pipeline {
        let schema = self.table.schema().clone();
        let dedup = DedupConfig { key: vec!["id".into()], window: None, late: Late::Keep };
        let step = Dedup::new(&schema, dedup).expect("a valid step").with_sizes(self.sizes);
        let steps: Vec<Box<dyn Operator>> =
            vec![Box::new(step.with_shards(self.shards).with_job_rows_min(1))];
        Pipeline {
            name: "p".into(),
            lane: 0,
            parts: Vec::new(),
            new_state: Default::default(),
            owner: "test".into(),
            inputs: self.inputs(self.source.clone()),
            steps,
            tables: vec![self.table.clone()],
            router: None,
            sides: Vec::new(),
            flow: engine::Flow::default(),
            dead_letters: self.dead_letters.clone(),
            store: self.store.clone(),
            runtime: self.runtime.clone(),
            settings: self.settings.clone(),
            status: self.status.clone(),
            drain,
        }
    }

    /// Runs until everything that is there was read and is in the table.
    pub async fn drain(&self) -> Result<Outcome, EngineError> {
        let (_stop, asked) = watch::channel(false);
        let run = engine::run(self.pipeline(true), asked);
        tokio::time::timeout(LONG, run).await.expect("a drain of a few records ends")
    }

    /// As [`Bench::drain`], in a process of its own, so that the store stands still afterwards.
    pub async fn drain_and_exit(&self) -> Result<Outcome, EngineError> {
        Process::start(self.pipeline(true)).ends().await
    }

    /// Both ledgers of all that is sealed.
    pub async fn totals(&self) -> Totals {
        Totals::of(&self.lane().await)
    }

    /// Waits until the engine knows the table as it is now: whoever looks again has the answer of a look that began before.
    pub async fn table_looked_at(&self) {
        let looks = || self.table.world.lock().expect("no panic").looks;
        let first = looks();
        while looks() < first + 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The table holds exactly these ids, each once.
    pub fn assert_holds(&self, ids: impl IntoIterator<Item = u64>) {
        let expected: BTreeMap<u64, u64> = ids.into_iter().map(|id| (id, 1)).collect();
        let found = self.table.world.lock().expect("no panic").ids();
        assert!(
            found == expected,
            "expected {} ids once, found {} ids, {} rows",
            expected.len(),
            found.len(),
            found.values().sum::<u64>()
        );
    }

    /// What the journal says.
    pub async fn lane(&self) -> protocol::Lane {
        engine::journal::load(&*self.store, "p/lane-0").await.expect("the journal is sound")
    }
}

/// Longer than anything here takes on a machine that is busy with other work, and short enough for a run that hangs.
pub const LONG: Duration = Duration::from_secs(300);

/// A pipeline in a process of its own, as it were: threads and tasks that no other has, and that have ended when
/// [`Process::kill`] or [`Process::ends`] returns.
///
/// Aborting a task that runs the engine is no crash: what the engine has spawned is told to end too, but may first go on to its next
/// await, on another thread and beside the next owner.
pub struct Process {
    kill: oneshot::Sender<()>,
    ended: JoinHandle<Option<Result<Outcome, EngineError>>>,
}

impl Process {
    pub fn start(pipeline: Pipeline) -> Self {
        let (kill, killed) = oneshot::channel();
        let ended = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let (_stop, asked) = watch::channel(false);
                let pipeline = Pipeline { runtime: TokioRuntime::new(2), ..pipeline };
                tokio::select! {
                    biased;
                    _ = killed => None,
                    ended = engine::run(pipeline, asked) => Some(ended),
                }
            })
        });
        Self { kill, ended }
    }

    /// Kills it; how it ended, if it had ended before.
    pub async fn kill(self) -> Option<Result<Outcome, EngineError>> {
        // Nobody listens once it has ended.
        let _ = self.kill.send(());
        self.ended.await.expect("no panic")
    }

    /// Kills it after a time.
    pub async fn kill_after(self, life: Duration) -> Option<Result<Outcome, EngineError>> {
        tokio::time::sleep(life).await;
        self.kill().await
    }

    /// Waits until it ends by itself.
    pub async fn ends(self) -> Result<Outcome, EngineError> {
        let ended = tokio::time::timeout(LONG, self.ended).await.expect("it ends by itself");
        ended.expect("no panic").expect("nobody kills it")
    }
}

/// Hands out one record a block, and wants told what becomes of each.
pub struct Told {
    pub inner: Arc<MemorySource>,
    /// Records from this position on are handed out twice.
    pub twice_from: u64,
}

impl Told {
    pub fn honest(inner: Arc<MemorySource>) -> Self {
        Self { inner, twice_from: u64::MAX }
    }
}

struct OneByOne {
    inner: Box<dyn Reader>,
    blocks: VecDeque<RecordBlock>,
    twice_from: u64,
}

#[async_trait]
impl Source for Told {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.ends().await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let inner = self.inner.read(from).await?;
        Ok(Box::new(OneByOne { inner, blocks: VecDeque::new(), twice_from: self.twice_from }))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }

    fn wants_fates(&self, _: &Partition) -> bool {
        true
    }
}

#[async_trait]
impl Reader for OneByOne {
    async fn next(&mut self) -> Result<Event, SourceError> {
        if self.blocks.is_empty() {
            match self.inner.next().await? {
                Event::Block(block) => {
                    for row in 0..block.len() {
                        let mut one = BlockBuilder::new(block.partition.clone(), block.positions[row].into());
                        one.push(block.positions[row], block.times_ms[row], Some(block.payloads.get(row)));
                        let one = one.take();
                        if one.positions[0] >= self.twice_from {
                            self.blocks.push_back(one.clone());
                        }
                        self.blocks.push_back(one);
                    }
                }
                other => return Ok(other),
            }
        }
        Ok(Event::Block(self.blocks.pop_front().expect("a block has records")))
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.inner.add(from).await
    }

    fn remove(&mut self, partition: &Partition) {
        self.inner.remove(partition);
    }

    fn pause(&mut self, partition: &Partition) {
        self.inner.pause(partition);
    }

    fn resume(&mut self, partition: &Partition) {
        self.inner.resume(partition);
    }
}

/// Refuses to go on behind the last record, as a file does that is damaged there. Says that it ends early where `ends_at` says so.
pub struct Damaged {
    pub inner: Arc<MemorySource>,
    pub ends_at: Option<Position>,
}

struct DamagedReader(Box<dyn Reader>);

#[async_trait]
impl Source for Damaged {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let ends = self.inner.ends().await?;
        Ok(ends.into_iter().map(|(partition, end)| (partition, self.ends_at.unwrap_or(end))).collect())
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        Ok(Box::new(DamagedReader(self.inner.read(from).await?)))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }
}

#[async_trait]
impl Reader for DamagedReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        match self.0.next().await? {
            Event::Block(block) => Ok(Event::Block(block)),
            Event::CaughtUp { .. } | Event::Ended { .. } | Event::Found(_) | Event::Removed { .. } => {
                Err(SourceError::new(SourceFault::Refused, "damaged from here on"))
            }
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.0.add(from).await
    }

    fn remove(&mut self, partition: &Partition) {
        self.0.remove(partition);
    }

    fn pause(&mut self, partition: &Partition) {
        self.0.pause(partition);
    }

    fn resume(&mut self, partition: &Partition) {
        self.0.resume(partition);
    }
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
