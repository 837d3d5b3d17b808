//! A ClickHouse table that takes frames: the crate's implementation of [`dataflow::Table`].
//!
//! Owns the plan made at the start, the way from rows to frames, and the questions about facts and frames. Does not own
//! the decision when a frame may be sent (`protocol`), nor retries (`engine::deliver`).

mod columns;
mod given;
mod probe;
mod remembered;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use dataflow::{
    Attempt, Column, Encoded, Fit, FrameId, InsertError, Layout, Presence, Remedy, Runtime, Schema, Selected,
    Sighting, Spares, Table, TableError, TableFault, Tokens,
};
use tokens::{ClickHouseTokens, Facts};

use crate::checks::sight::{self, Sight};
use crate::checks::{self, ColumnFault, Fault, Memory, PROVENANCE, Plan, read};
use crate::client::{Client, Insert, QueryError};
use crate::compress::{self, Compressor};
use crate::config::{CreateTable, ServerConfig, TableConfig};
use crate::json;
use crate::native::{BlockPlan, Rows, read_rows, shape};
use crate::refused;
use crate::sort::SortKey;
use crate::types::{identifier, shorten};
use crate::upsert;
use columns::Now;
use given::Given;
use probe::Question;
use remembered::Remembered;

pub use probe::check_sample;
pub(crate) use probe::{can_probe, uuid_text};

/// Characters shown of a statement: those of a table of some thirty columns.
const STATEMENT_CHARS_MAX: usize = 1_000;

/// Makes the table, unless it could not be written then: `create` would not change it any more.
async fn make(
    client: &Client,
    config: &TableConfig,
    create: &CreateTable,
    settings: &[(&'static str, String)],
) -> Result<(), Vec<Fault>> {
    let unwritten = |faults: Vec<ColumnFault>| {
        let message = |fault: ColumnFault| match fault.column {
            Some(column) => format!("column `{column}`: {}", fault.message),
            None => fault.message,
        };
        faults.into_iter().map(|fault| Fault::stop(message(fault))).collect::<Vec<_>>()
    };
    checks::declared(config, create).map_err(unwritten)?;
    let statement = checks::create_statement(config, create);
    client.make(&statement, &read::borrowed(settings)).await.map_err(|error| {
        let what = if error.remedy == Remedy::Stop { "is not created" } else { "cannot be created now" };
        let statement = shorten(&statement, STATEMENT_CHARS_MAX);
        let message =
            format!("table `{}` {what}: {}; the statement is: {statement}", config.name(), error.message);
        vec![Fault { message, ..Fault::from(error) }]
    })
}

/// What a frame is made by.
struct Making<'a> {
    block: &'a BlockPlan,
    schema: &'a Schema,
    unique_key: &'a [usize],
    provenance: bool,
    sort: Option<&'a SortKey>,
}

/// A table, open for frames.
pub struct ClickHouseTable {
    client: Client,
    config: TableConfig,
    name: String,
    /// The table as it was opened: frames are made for it.
    plan: Arc<Plan>,
    layout: Layout,
    block: BlockPlan,
    /// As the newest look had it: settings come and go with the server's version.
    insert: Mutex<Arc<Insert>>,
    /// The identity of the server that answered first, if it has one.
    home: OnceLock<String>,
    /// The table as it was seen last.
    now: Mutex<Arc<Now>>,
    /// The tokens that it remembers, by the polls so far.
    remembered: Remembered,
    /// Bytes of the newest frame's body for 64 of its rows: how much memory the next one is given at once.
    body_bytes_per_64: AtomicUsize,
    /// Memory of frames that are settled.
    spares: Spares,
    /// The node that new connections reached at the newest look, where it matters.
    node: Mutex<Option<String>>,
    /// Looks so far, so that no two of them are alike.
    looks: AtomicU64,
}

impl ClickHouseTable {
    /// True if every row names its frame in the provenance column.
    pub fn has_provenance(&self) -> bool {
        self.plan.provenance
    }

    /// Checks the table, makes it first if it is not there and `config.create` says how, and plans the inserts.
    /// All faults come at once.
    pub async fn open(
        server: ServerConfig,
        config: TableConfig,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Self, Vec<Fault>> {
        let client = Client::new(server, runtime).map_err(|e| vec![e.into()])?;
        let mut facts = read::facts(&client, &config, None).await.map_err(|e| vec![e])?;
        if let (true, Some(create)) = (facts.lacks_table_alone(), &config.create) {
            let faults = checks::faults_before_create(&facts, &config);
            if !faults.is_empty() {
                return Err(faults);
            }
            make(&client, &config, create, &facts.server.known.make()).await?;
            facts = read::facts(&client, &config, None).await.map_err(|e| vec![e])?;
        }
        let plan = checks::judge(&facts, &config)?;
        Ok(Self::with_plan(client, config, plan))
    }

    /// Every fault that [`ClickHouseTable::open`] would find before it writes; a table that `open` would make is none.
    pub async fn check(server: ServerConfig, config: &TableConfig, runtime: Arc<dyn Runtime>) -> Vec<Fault> {
        let read = async {
            let client = Client::new(server, runtime)?;
            read::facts(&client, config, None).await
        };
        match read.await {
            Err(fault) => vec![fault],
            Ok(facts) if facts.lacks_table_alone() && config.create.is_some() => {
                checks::faults_before_create(&facts, config)
            }
            Ok(facts) => checks::judge(&facts, config).err().unwrap_or_default(),
        }
    }

    fn with_plan(client: Client, config: TableConfig, plan: Plan) -> Self {
        let block = BlockPlan::new(&plan.sent, plan.provenance.then_some(PROVENANCE));
        let insert = Insert {
            statement: statement(&config, block.column_names()),
            views: plan.views,
            home: home(&client, &plan),
            settings: plan.insert_settings.clone(),
        };
        let body_bytes_per_64 = AtomicUsize::new(0);
        let plan = Arc::new(plan);
        let memory = Memory { window: plan.token_window, age_ms: plan.token_age_ms_max };
        let remembered = Remembered::new(memory);
        let now = Now::new(plan.clone());
        Self {
            client,
            name: config.name(),
            config,
            plan,
            layout: now.layout.clone(),
            block,
            insert: Mutex::new(Arc::new(insert)),
            home: OnceLock::new(),
            now: Mutex::new(Arc::new(now)),
            remembered,
            body_bytes_per_64,
            spares: Spares::default(),
            node: Mutex::new(None),
            looks: AtomicU64::new(0),
        }
    }

    /// True if the order of inserts shows in the table or in a view's target: then one frame may be in flight.
    pub fn order_dependent(&self) -> bool {
        self.plan.order_dependent
    }

    /// What an operator should know and need not fix.
    pub fn notes(&self) -> &[String] {
        &self.plan.notes
    }

    /// The client, for questions beyond this table.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The bounds of one frame in rows, by the mean over all rows: those that go no further are few, and weigh like the others.
    fn frame_rows(&self, batches: &[RecordBatch]) -> usize {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let bytes: usize = batches.iter().map(slice_bytes).sum();
        let mean = (bytes / rows.max(1)).max(1);
        (self.config.frame_bytes_max / mean).clamp(1, self.config.frame_rows_max.max(1))
    }

    /// Bytes of a frame's body, rather too many than too few: one that outgrows its memory is copied whole.
    fn expected_bytes(&self, batches: &[RecordBatch], row_count: usize) -> usize {
        match self.body_bytes_per_64.load(Ordering::Relaxed) {
            // The first frame: hardly more than its columns. Memory that is not touched costs nothing.
            0 => {
                let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                let bytes: usize = batches.iter().map(slice_bytes).sum();
                bytes / rows.max(1) * row_count
            }
            // A sixteenth more than the frame before.
            per_64 => per_64 * row_count / 60,
        }
    }

    fn making(&self) -> Making<'_> {
        Making {
            block: &self.block,
            schema: &self.plan.sent,
            unique_key: &self.plan.unique_key,
            provenance: self.plan.provenance,
            sort: self.plan.sort.as_ref(),
        }
    }

    fn now(&self) -> Arc<Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn encode_frame(
        &self,
        making: &Making<'_>,
        given: &Given<'_>,
        rows: Rows<'_>,
        partition: &str,
        id: FrameId,
    ) -> Result<Encoded, String> {
        let batches = given.batches();
        let order = match making.sort {
            Some(key) => key.order(batches, rows)?,
            None => None,
        };
        let rows = order.as_deref().map_or(rows, Rows::Picked);
        let row_count = rows.count(batches.iter().map(RecordBatch::num_rows));
        let memory = self.spares.take(self.expected_bytes(batches, row_count));
        let front = memory.len();
        let mut compressor = Compressor::into_memory(self.config.compression, memory);
        let rest = making
            .block
            .encode(batches, rows, id, &mut |out| compressor.take_full(out))
            .map_err(|e| e.to_string())?;
        let body = self.spares.body(compressor.finish_with(rest), front);
        self.body_bytes_per_64.store(body.len() * 64 / row_count.max(1), Ordering::Relaxed);
        let probe = if making.provenance {
            probe::by_frame()
        } else {
            probe::sample(making.schema, making.unique_key, batches, rows)?
        };
        Ok(Encoded {
            id,
            table_partition: partition.to_owned(),
            rows: row_count as u64,
            body,
            probe,
            rows_from: given.rows_from(rows),
        })
    }

    fn decode_error(&self, reason: String) -> TableError {
        TableError {
            remedy: Remedy::Stop,
            kind: TableFault::Request,
            message: format!("a frame for table `{}` cannot be read back: {reason}", self.name),
        }
    }

    fn encode_error(&self, reason: String) -> TableError {
        TableError {
            remedy: Remedy::Stop,
            kind: TableFault::Request,
            message: format!("rows for table `{}` cannot be encoded: {reason}", self.name),
        }
    }

    /// The shape of the table, checked again, and what one server shows of it at one moment.
    async fn sight(
        &self,
        count: Option<&str>,
        unnamed: Option<&str>,
    ) -> Result<(Arc<Plan>, Sight), TableError> {
        // What a doubt rests on comes from as many connections as at the start.
        let known = self.node.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let known = known.as_deref().filter(|_| count.is_none());
        let facts = read::facts(&self.client, &self.config, known).await.map_err(fault_error)?;
        let is_one = facts.nodes.windows(2).all(|two| two[0] == two[1]);
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) =
            facts.nodes.first().filter(|_| is_one).cloned();
        // Frames of other columns need not wait for a column of a type that cannot be written.
        let config = TableConfig { leaves_out: true, ..self.config.clone() };
        if let Some(memory) = checks::remembered(&facts) {
            self.remembered.see(memory, self.client.steady_ms());
        }
        let plan = checks::judge(&facts, &config).map_err(|faults| self.all_faults(&faults))?;
        self.unchanged(&plan)?;
        let plan = Arc::new(plan);
        self.see_settings(&plan);
        let nonce = format!("look-{}-{}", self.client.wall_ms(), self.looks.fetch_add(1, Ordering::Relaxed));
        let (places, views, counts_async) = (&plan.places, &plan.view_paths, plan.counts_async);
        let question = sight::Question { places, views, count, unnamed, counts_async, nonce: &nonce };
        let mut settings = read::borrowed(&plan.look_settings);
        settings.push((sight::ECHO, &nonce));
        if count.is_some() {
            // A part of the statement was made from what lies in the store.
            settings.extend(probe::READ_ONLY);
        }
        let asked_ms = self.client.steady_ms();
        let mut sight: Sight = self.client.one(&question.sql(), &settings, &[]).await.map_err(query_error)?;
        (sight.asked_ms, sight.answered_ms) = (asked_ms, self.client.steady_ms());
        if sight.echo != nonce {
            return Err(echo_error(&sight.echo));
        }
        self.is_at_home(&plan, sight.server_identity())?;
        self.see_home(&plan);
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Now::new(plan.clone()));
        Ok((plan, sight))
    }

    /// What a question says whose answer is one number, on a server that has every row and says so in the same answer.
    ///
    /// # Errors
    /// While the server lags, or when the answer holds no number.
    async fn counted(
        &self,
        question: &str,
        unnamed: Option<&str>,
    ) -> Result<(Arc<Plan>, Sight, u64), TableError> {
        let (plan, sight) = self.sight(Some(question), unnamed).await?;
        let again = |kind, message| TableError { remedy: Remedy::Resend, kind, message };
        if let Some(why) = sight.lag(&plan.places) {
            return Err(again(
                TableFault::ReplicaLags,
                format!("{why}; its rows are counted once it has caught up"),
            ));
        }
        match sight.count {
            Some(found) => Ok((plan, sight, found)),
            None => Err(again(
                TableFault::Uncertain,
                format!("the answer to a question about the rows of table `{}` holds no number", self.name),
            )),
        }
    }

    /// The settings of the inserts to come are those that the server has now. With a view that came, an error no longer says that
    /// nothing was written.
    fn see_settings(&self, plan: &Plan) {
        let mut insert = self.insert.lock().unwrap_or_else(PoisonError::into_inner);
        if insert.settings != plan.insert_settings || insert.views != plan.views {
            let (settings, views) = (plan.insert_settings.clone(), plan.views);
            *insert = Arc::new(Insert { settings, views, ..Insert::clone(&insert) });
        }
    }

    /// Inserts are to be answered by the server that has just answered a poll.
    fn see_home(&self, plan: &Plan) {
        let mut insert = self.insert.lock().unwrap_or_else(PoisonError::into_inner);
        let home = home(&self.client, plan);
        if insert.home != home {
            *insert = Arc::new(Insert { home, ..Insert::clone(&insert) });
        }
    }

    /// An error if another server answers than before, and what it says is about rows and tokens of its own.
    fn is_at_home(&self, plan: &Plan, server: &str) -> Result<(), TableError> {
        let Some(plain) = plan.places.iter().find(|place| !place.replicated) else { return Ok(()) };
        if server.is_empty() {
            return Ok(());
        }
        let home = self.home.get_or_init(|| server.to_owned());
        if home == server {
            return Ok(());
        }
        Err(TableError {
            remedy: Remedy::Stop,
            kind: TableFault::Differs,
            message: format!(
                "server `{server}` answers where server `{home}` did, and table `{}.{}` is not replicated: each server has rows and \
                 insert tokens of its own. Nothing is sent. Point `url` at one server; if the server was replaced together with its \
                 data, restart the pipeline",
                plain.database, plain.table
            ),
        })
    }

    fn seen(&self, plan: &Plan, sight: &Sight) -> Result<Sighting, TableError> {
        let uncertain =
            |message: String| TableError { remedy: Remedy::Resend, kind: TableFault::Uncertain, message };
        let mut view_blocks = sight.blocks(&plan.places).map_err(uncertain)?;
        let block_number = view_blocks.remove(0);
        let Some(table_uuid) = sight.table_identity() else {
            let message = format!("table `{}` was there a moment ago and is not now", self.name);
            return Err(TableError { remedy: Remedy::Resend, kind: TableFault::TableMissing, message });
        };
        let bounded = |bound: u64| (bound != u64::MAX).then_some(bound);
        let facts = Facts {
            start_ms: sight.start_ms(),
            seen_ms: sight.now_ms,
            server_uuid: sight.server_identity().to_owned(),
            block_number,
            view_blocks,
            token_window: plan.token_window,
            tokens_per_frame: plan.parts_per_frame,
            token_age_ms_max: bounded(plan.token_age_ms_max),
            tokens_per_block_max: bounded(plan.tokens_per_block_max),
            asked_ms: sight.asked_ms,
            answered_ms: sight.answered_ms,
            zone: plan.zone.clone(),
            altered_ms: sight.altered.0.saturating_mul(1_000),
            declaration: sight.altered.1,
            engine: sight.altered.2,
            names_rows: plan.provenance || !plan.unique_key.is_empty(),
            narrowed_ms: self.remembered.narrowed_ms(),
            routes: sight.routes,
            has_unnamed: sight.unnamed == Some(1),
        };
        Ok(facts.seen(table_uuid))
    }
}

#[async_trait]
impl Table for ClickHouseTable {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &Schema {
        &self.plan.schema
    }

    fn version_column(&self) -> Option<&Column> {
        let is_made = self.plan.sent.columns().len() > self.plan.schema.columns().len();
        self.plan.sent.columns().last().filter(|_| is_made)
    }

    fn replaced(&self, rows: &[Selected]) -> Result<Vec<u32>, TableError> {
        let Some(places) = &self.plan.upsert else { return Ok(Vec::new()) };
        upsert::replaced(places, rows).map_err(|reason| self.encode_error(reason))
    }

    fn encode(
        &self,
        rows: &[Selected],
        ids: &mut dyn FnMut() -> FrameId,
    ) -> Result<Vec<Encoded>, TableError> {
        let given = Given::new(rows);
        if given.len() == 0 {
            return Ok(Vec::new());
        }
        let (batches, all) = (given.batches(), given.rows());
        let (frame_rows, making) = (self.frame_rows(batches), self.making());
        let mut frames = Vec::new();
        for group in self.plan.partition.cut(batches, all).map_err(|e| self.encode_error(e))? {
            let picked = match group.rows {
                None if given.len() <= frame_rows => {
                    let frame = self.encode_frame(&making, &given, all, &group.partition, ids());
                    frames.push(frame.map_err(|e| self.encode_error(e))?);
                    continue;
                }
                None => all.to_picked(batches),
                Some(picked) => picked,
            };
            for chunk in picked.chunks(frame_rows) {
                let frame = self.encode_frame(&making, &given, Rows::Picked(chunk), &group.partition, ids());
                frames.push(frame.map_err(|e| self.encode_error(e))?);
            }
        }
        Ok(frames)
    }

    fn layout(&self) -> Layout {
        self.layout.clone()
    }

    fn changed(&self) -> Option<Layout> {
        let now = self.now();
        (now.layout != self.layout).then(|| now.layout.clone())
    }

    fn must_reopen(&self) -> bool {
        let now = self.now();
        now.plan.has_more_views_than(&self.plan) || now.plan.partition != self.plan.partition
    }

    fn fit(&self, layout: &Layout) -> Fit {
        self.fit_of(layout, &self.now())
    }

    fn layout_of(&self, body: &[u8]) -> Result<Layout, TableError> {
        let shape = shape::of_frame(body).map_err(|reason| self.decode_error(reason))?;
        let column = |(name, type_name)| dataflow::LayoutColumn { name, type_name, ..Default::default() };
        Ok(Layout { columns: shape.columns.into_iter().map(column).collect() })
    }

    fn encode_again(
        &self,
        rows: &RecordBatch,
        made_for: Option<&Layout>,
        id: FrameId,
    ) -> Result<(Encoded, Layout), TableError> {
        self.make_again(rows, made_for, id)
    }

    fn as_schema(&self, rows: &RecordBatch) -> Option<RecordBatch> {
        self.in_schema(rows)
    }

    fn refused_row(&self, error: &InsertError) -> Option<u64> {
        refused::row(error.code, &error.message)
    }

    fn may_object_to_first_start(&self) -> bool {
        self.config.asks_if_filled || self.version_column().is_some()
    }

    async fn objects_to_first_start(&self) -> Result<Option<String>, TableError> {
        if self.version_column().is_some() {
            return self.versions_are_ahead().await;
        }
        // Rows that come once more replace themselves.
        if !self.config.asks_if_filled || self.plan.upsert.is_some() {
            return Ok(None);
        }
        let question = format!("SELECT count() FROM (SELECT 1 FROM {} LIMIT 1)", self.config.quoted());
        let (.., rows) = self.counted(&question, None).await.map_err(|error| TableError {
            message: format!("whether table `{}` has rows is not known: {}", self.name, error.message),
            ..error
        })?;
        Ok((rows > 0).then(|| {
            format!(
                "table `{}` has rows, and the store has no journal of this pipeline, so it would read its source from the start: rows \
                 that came from there before, with another store or another pipeline name, would be in the table twice. No row \
                 was written. If they are such rows, bring that store back, or empty the table first: `TRUNCATE TABLE {}`. If \
                 they are others, start once with `forebay run FILE --into-filled-table`, or write `existing_rows: keep` under \
                 `sink.clickhouse`",
                self.name,
                self.config.quoted()
            )
        }))
    }

    fn decode(&self, body: &[u8]) -> Result<RecordBatch, TableError> {
        let fail = |reason| self.decode_error(reason);
        let block = compress::decompress(body).map_err(|e| fail(e.to_string()))?;
        read_rows(&block, PROVENANCE).map_err(fail)
    }

    fn to_json(&self, schema: Option<&Schema>, rows: &RecordBatch, row: usize) -> String {
        json::own_row(schema, rows, row)
    }

    async fn insert(&self, attempt: Attempt<'_>) -> Result<(), InsertError> {
        let insert = self.insert.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match attempt.layout.filter(|layout| **layout != self.layout) {
            None => self.client.insert(&insert, attempt).await,
            // A frame that was made for other columns names those, and no other.
            Some(layout) => {
                let names = layout.columns.iter().map(|column| column.name.as_str());
                let statement = statement(&self.config, names);
                self.client.insert(&Insert { statement, ..Insert::clone(&insert) }, attempt).await
            }
        }
    }

    fn tokens(&self) -> &dyn Tokens {
        &ClickHouseTokens
    }

    async fn see(&self) -> Result<Sighting, TableError> {
        let (plan, sight) = self.sight(None, None).await?;
        self.seen(&plan, &sight)
    }

    async fn probe(&self, frame: FrameId, rows: u64, probe: &[u8]) -> Result<Presence, TableError> {
        self.look_for(frame, rows, probe).await.map(|(presence, _)| presence)
    }

    async fn look_for(
        &self,
        frame: FrameId,
        rows: u64,
        probe: &[u8],
    ) -> Result<(Presence, Sighting), TableError> {
        let question = Question::read(&self.config.quoted(), frame, rows, probe)?
            .filter(|question| question.is_admissible(self.now().plan.provenance, self.plan.merges));
        let Some(question) = question else { return Ok((Presence::Inadmissible, self.see().await?)) };
        let unnamed = question.unnamed(&self.config.quoted());
        let (plan, sight, found) = self.counted(&question.sql, unnamed.as_deref()).await?;
        let presence = question.judge(found, plan.merges || plan.expires);
        Ok((presence, self.seen(&plan, &sight)?))
    }

    async fn end_attempts(&self, prefix: &str) -> Result<u64, TableError> {
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        {
            let message = format!("`{prefix}` is no beginning of a query id of ours");
            return Err(TableError { remedy: Remedy::Stop, kind: TableFault::Request, message });
        }
        let kill = format!("KILL QUERY WHERE startsWith(query_id, '{prefix}') ASYNC");
        let settings = read::borrowed(&self.plan.look_settings);
        self.client.query(&kill, &settings, &[]).await.map_err(query_error)?;
        let count = "SELECT count(), toString(serverUUID()) FROM system.processes WHERE startsWith(query_id, {prefix:String})";
        let (running, server): (u64, String) =
            self.client.one(count, &settings, &[("prefix", prefix)]).await.map_err(query_error)?;
        self.is_at_home(&self.plan, sight::identity(&server))?;
        Ok(running)
    }
}

impl ClickHouseTable {
    /// Rows of another journal have greater versions than those that this machine's clock gives: new rows would never be seen.
    async fn versions_are_ahead(&self) -> Result<Option<String>, TableError> {
        let column = identifier(upsert::VERSION);
        let question = format!("SELECT max({column}) FROM {}", self.config.quoted());
        let (.., greatest) = self.counted(&question, None).await?;
        let now_ms = self.client.wall_ms();
        let ahead_ms = upsert::ms_of(greatest).saturating_sub(now_ms);
        Ok((ahead_ms >= 0 && greatest > 0).then(|| {
            format!(
                "table `{}` has rows with versions up to {greatest}, and the journal of this pipeline knows of none of them: its versions would begin at \
                 this machine's clock, which is {ahead_ms} ms behind them, so that its rows would never replace those. No row was written. Bring \
                 the store of the pipeline back that wrote them, set the clock right, or wait until it has passed them",
                self.name
            )
        }))
    }

    /// An error if inserts cannot be made as they were any more. A new identity is not: that is the caller's to compare; nor are other
    /// columns ([`columns`]), nor more views ([`Table::must_reopen`]).
    fn unchanged(&self, now: &Plan) -> Result<(), TableError> {
        if now.zone == self.plan.zone {
            return Ok(());
        }
        // A resend would put its rows into another partition, where their token is not known.
        let message = format!(
            "sessions of this user have the time zone `{}` now, and had `{}` at the start, by which the rows of table `{}` were put into \
             partitions; set `session_timezone` of the user back, or restart the pipeline once nothing waits",
            now.zone, self.plan.zone, self.name
        );
        Err(TableError { remedy: Remedy::Stop, kind: TableFault::Differs, message })
    }

    fn all_faults(&self, faults: &[Fault]) -> TableError {
        let remedy =
            if faults.iter().any(|f| f.remedy == Remedy::Stop) { Remedy::Stop } else { Remedy::Resend };
        let texts: Vec<String> = faults.iter().map(Fault::to_string).collect();
        let kind = faults.first().map_or(TableFault::Differs, |fault| fault.kind);
        TableError { remedy, kind, message: texts.join("; ") }
    }
}

/// The statement of an insert into these columns.
fn statement<'a>(config: &TableConfig, columns: impl Iterator<Item = &'a str>) -> String {
    let columns: Vec<String> = columns.map(identifier).collect();
    format!("INSERT INTO {} ({}) FORMAT Native", config.quoted(), columns.join(", "))
}

/// What the server calls itself that answered last, if it alone has what is written.
fn home(client: &Client, plan: &Plan) -> Option<String> {
    client.answered_by().filter(|_| plan.places.iter().any(|place| !place.replicated))
}

/// The settings of a request did not reach the server, or its answer is that of an earlier one.
fn echo_error(echo: &str) -> TableError {
    let (remedy, message) = match echo.starts_with("look-") {
        true => (
            Remedy::Resend,
            "a poll was answered with the answer to an earlier one: something between Forebay and the server keeps answers; switch that off for this user",
        ),
        false => (
            Remedy::Stop,
            "settings in the address of a request do not reach the server, so inserts would have no token: a proxy drops parameters that it does not know, \
             as chproxy does. Nothing is sent. Connect to the server itself, or let the proxy pass all parameters",
        ),
    };
    TableError { remedy, kind: TableFault::Uncertain, message: message.into() }
}

fn fault_error(fault: Fault) -> TableError {
    TableError { remedy: fault.remedy, kind: fault.kind, message: fault.to_string() }
}

fn query_error(error: QueryError) -> TableError {
    TableError { remedy: error.remedy, kind: error.kind, message: error.message }
}

/// Bytes of the values in a batch, without what a slice leaves out.
fn slice_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests;
