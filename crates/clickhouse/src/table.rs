//! A ClickHouse table that takes frames: the crate's implementation of [`dataflow::Table`].
//!
//! Owns the plan made at the start, the first start's questions, and the order in which rows are cut into frames. Does not own the decision when a
//! frame may be sent (`protocol`), nor retries (`engine::deliver`).
//!
//! | module       | what it owns                                                          |
//! |--------------|-----------------------------------------------------------------------|
//! | `given`      | the rows to encode, by their two numberings                           |
//! | `frames`     | the way from rows to the bytes of a frame                             |
//! | `columns`    | frames that were made for other columns than those of now             |
//! | `probe`      | how a frame is found again                                            |
//! | `looks`      | what a poll asks, and what it means for the inserts to come           |
//! | `remembered` | what the polls so far found of the table's memory                     |

mod columns;
mod frames;
mod given;
mod looks;
mod probe;
mod remembered;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use dataflow::{
    Attempt, Column, Encoded, Fit, FrameId, InsertError, Layout, Presence, Remedy, Runtime, Schema, Selected,
    Sighting, Spares, Table, TableError, TableFault, Tokens,
};
use tokens::ClickHouseTokens;

use crate::checks::{self, ColumnFault, Fault, Memory, PROVENANCE, Plan, read, sight};
use crate::client::{Client, Insert};
use crate::compress;
use crate::config::{CreateTable, ServerConfig, TableConfig};
use crate::json;
use crate::native::{BlockPlan, Rows, read_rows, shape};
use crate::refused;
use crate::types::{identifier, shorten};
use crate::upsert;
use columns::Now;
use given::Given;
use looks::{home, query_error};
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
    server: &read::Server,
) -> Result<(), Vec<Fault>> {
    let unwritten = |faults: Vec<ColumnFault>| {
        let message = |fault: ColumnFault| match fault.column {
            Some(column) => format!("column `{column}`: {}", fault.message),
            None => fault.message,
        };
        faults.into_iter().map(|fault| Fault::stop(message(fault))).collect::<Vec<_>>()
    };
    checks::declared(config, create).map_err(unwritten)?;
    let statement = checks::create_statement_on(server, config, create);
    client.make(&statement, &read::borrowed(&server.known.make())).await.map_err(|error| {
        let what = if error.remedy == Remedy::Stop { "is not created" } else { "cannot be created now" };
        let statement = shorten(&statement, STATEMENT_CHARS_MAX);
        let message =
            format!("table `{}` {what}: {}; the statement is: {statement}", config.name(), error.message);
        vec![Fault { message, ..Fault::from(error) }]
    })
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
    /// The node that new connections reached at the newest look, where it matters; of replicas the identity that the table has on all of them.
    node: Mutex<Option<String>>,
    /// Looks so far, so that no two of them are alike.
    looks: AtomicU64,
    /// Whether an insert into the table that is there was answered: one with replicas has an entry in its log then.
    has_written: AtomicBool,
    /// Whether a look has shown the numbers of all replicas that inserts write to.
    has_numbers: AtomicBool,
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
            make(&client, &config, create, &facts.server).await?;
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
            has_written: AtomicBool::new(false),
            has_numbers: AtomicBool::new(false),
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

    fn now(&self) -> Arc<Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        self.now().plan.has_more_views_than(&self.plan) || self.must_reopen_at_once()
    }

    fn must_reopen_at_once(&self) -> bool {
        let now = self.now();
        now.plan.partition != self.plan.partition || now.plan.order_dependent && !self.plan.order_dependent
    }

    fn has_no_zero(&self, column: &str) -> bool {
        let mut compared =
            self.config.upsert.iter().flat_map(|upsert| upsert.key.iter().chain(&upsert.version));
        compared.any(|name| name == column) || self.version_column().is_some_and(|made| made.name == column)
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
        let answer = match attempt.layout.filter(|layout| **layout != self.layout) {
            None => self.client.insert(&insert, attempt).await,
            // A frame that was made for other columns names those, and no other.
            Some(layout) => {
                let names = layout.columns.iter().map(|column| column.name.as_str());
                let statement = statement(&self.config, names);
                self.client.insert(&Insert { statement, ..Insert::clone(&insert) }, attempt).await
            }
        };
        if answer.is_ok() {
            self.has_written.store(true, Ordering::Relaxed);
        }
        answer
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
        let now = self.now().plan.clone();
        let question = Question::read(&self.config.quoted(), frame, rows, probe)?.filter(|question| {
            question.is_admissible(now.provenance, self.plan.merges) && !question.is_retyped(&now)
        });
        let Some(question) = question else { return Ok((Presence::Inadmissible, self.see().await?)) };
        let unnamed = question.unnamed(&self.config.quoted());
        let (plan, mut sight, found) = self.counted(&question.sql, Some(&unnamed)).await?;
        if let Some(why) = sight.unverified(&plan.places).filter(|_| found > 0) {
            let message = format!("{why}; the rows of the insert are looked for again then");
            return Err(TableError { remedy: Remedy::Resend, kind: TableFault::ReplicaLags, message });
        }
        if question.is_filled(&plan) {
            sight.unnamed = Some(1);
        }
        // A table of this name that has come since may join rows by key.
        let is_admissible =
            question.is_admissible(plan.provenance, plan.merges) && !question.is_retyped(&plan);
        let presence = match is_admissible {
            true => question.judge(found, plan.merges || plan.expires),
            false => Presence::Inadmissible,
        };
        Ok((presence, self.seen(&plan, &sight)?))
    }

    async fn end_attempts(&self, prefix: &str) -> Result<u64, TableError> {
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        {
            let message = format!("`{prefix}` is no beginning of a query id of ours");
            return Err(TableError { remedy: Remedy::Stop, kind: TableFault::Request, message });
        }
        let kill = format!("KILL QUERY WHERE startsWith(query_id, '{prefix}') ASYNC");
        // As the newest poll found them: a server that was replaced, or a constraint that came, may not take those of the start.
        let plan = self.now().plan.clone();
        let settings = read::borrowed(&plan.look_settings);
        self.client.query(&kill, &settings, &[]).await.map_err(query_error)?;
        let count = "SELECT count(), toString(serverUUID()) FROM system.processes WHERE startsWith(query_id, {prefix:String})";
        let (running, server): (u64, String) =
            self.client.one(count, &settings, &[("prefix", prefix)]).await.map_err(query_error)?;
        self.is_at_home(&plan, sight::identity(&server))?;
        Ok(running)
    }
}

/// The statement of an insert into these columns.
fn statement<'a>(config: &TableConfig, columns: impl Iterator<Item = &'a str>) -> String {
    let columns: Vec<String> = columns.map(identifier).collect();
    format!("INSERT INTO {} ({}) FORMAT Native", config.quoted(), columns.join(", "))
}

#[cfg(test)]
mod tests;
