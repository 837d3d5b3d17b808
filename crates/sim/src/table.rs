//! The table as a client sees it: requests that travel, answers that get lost.
//!
//! Owns the [`Table`] that the engine inserts into: the way there and back, and the faults on it. Does not own what the server
//! does with a request (`server`).

mod travel;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use dataflow::{
    Attempt, Effect, Encoded, Fit, FrameId, InsertError, Layout, LayoutColumn, Presence, Remedy, RowsFrom,
    Schema, Selected, Sighting, Table, TableError, TableFault, Tokens,
};
use futures::future::{Either, select};
use tokens::{ClickHouseTokens, Facts};

use crate::executor::{Pid, WALL_BEGIN_MS, WORLD};
use crate::oracle::Sent;
use crate::plan::InsertFault;
use crate::records::{Row, from_body, from_columns, from_dead_letters, to_body, to_columns};
use crate::server::{DEAD, Insert, PLACES, VIEW};
use crate::world::{State, World};
pub use travel::crash;
use travel::{arrive_late, serve};

/// How long a table that inserts asynchronously keeps rows in memory, microseconds.
const FLUSH_US: u64 = 3_000_000;

/// The names of the tables, by place.
pub const NAMES: [&str; PLACES] =
    ["d.events", "d.dead", "d.of_view", "d.more", "d.most", "d.left", "d.right"];

/// One of the tables as one process sees it.
pub struct SimTable {
    world: Arc<World>,
    pid: Pid,
    place: usize,
    schema: Schema,
    /// Whether the table had the column `time` when this process opened it.
    has_time: bool,
    /// Whether it has not, as it was seen last.
    lacks_time: AtomicBool,
}

type Answer = Result<(), InsertError>;

/// How long a question is on its way to the server, and its answer back, at the most.
const ASKED_US_MAX: u64 = 4_000;
const ANSWERED_US_MAX: u64 = 2_000;

fn failed(effect: Effect, remedy: Remedy, kind: TableFault) -> Answer {
    Err(InsertError { effect, remedy, code: 0, kind, message: format!("made to fail: {kind}") })
}

fn table_error() -> TableError {
    TableError {
        remedy: Remedy::Resend,
        kind: TableFault::Connection,
        message: "the server does not answer".into(),
    }
}

/// The column that a person may drop.
pub const TIME: &str = "time";

/// The columns of a table for rows.
fn columns(has_time: bool) -> Layout {
    let column = |(name, type_name, default): &(&str, &str, &str)| LayoutColumn {
        name: (*name).into(),
        type_name: (*type_name).into(),
        default: (*default).into(),
        is_required: default.is_empty(),
    };
    let all = [("id", "UInt64", ""), ("key", "UInt64", ""), (TIME, "Int64", "0")];
    let kept = if has_time { 3 } else { 2 };
    Layout { columns: all[..kept].iter().map(column).collect() }
}

/// Rows of an insert that does not name the column: the table holds its DEFAULT.
fn without_time(rows: &[Row]) -> Vec<Row> {
    rows.iter().map(|[id, key, _]| [*id, *key, 0]).collect()
}

impl SimTable {
    /// The table of a place.
    pub fn new(world: Arc<World>, pid: Pid, place: usize) -> Self {
        let schema = if place == DEAD { dataflow::reject::schema() } else { crate::records::schema() };
        let has_time = !world.state().server.tables[place].lacks_time;
        Self { world, pid, place, schema, has_time, lacks_time: AtomicBool::new(!has_time) }
    }

    /// Whether the table's columns change in this world.
    fn is_altered(&self) -> bool {
        self.place == 0 && !self.world.plan.alters.is_empty()
    }

    /// One question, which the server answers or not.
    async fn ask<T>(&self, answer: impl FnOnce(&mut State, u64) -> T) -> Result<T, TableError> {
        let fails = self.world.state().operations.ask();
        self.world.pause(300, ASKED_US_MAX).await;
        let answer = {
            let mut state = self.world.state();
            let now_us = state.now_us();
            if fails || !state.server.is_there_at(self.place, now_us) {
                return Err(table_error());
            }
            let State { server, random, .. } = &mut *state;
            let node = server.choose_node(random);
            answer(&mut state, node)
        };
        self.world.pause(100, ANSWERED_US_MAX).await;
        Ok(answer)
    }
}

#[async_trait]
impl Table for SimTable {
    fn name(&self) -> &str {
        NAMES[self.place]
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn refused_row(&self, error: &InsertError) -> Option<u64> {
        u64::try_from(error.code).ok()?.checked_sub(1)
    }

    fn layout(&self) -> Layout {
        if self.is_altered() { columns(self.has_time) } else { Layout::default() }
    }

    fn changed(&self) -> Option<Layout> {
        let has_time = !self.lacks_time.load(Ordering::Relaxed);
        (self.is_altered() && has_time != self.has_time).then(|| columns(has_time))
    }

    fn fit(&self, layout: &Layout) -> Fit {
        match self.lacks_time.load(Ordering::Relaxed) && layout.column(TIME).is_some() {
            true => Fit::No { words: format!("column `{TIME}` is gone; ADD COLUMN it") },
            false => Fit::AsIs,
        }
    }

    fn encode(
        &self,
        rows: &[Selected],
        ids: &mut dyn FnMut() -> FrameId,
    ) -> Result<Vec<Encoded>, TableError> {
        let mut parts: BTreeMap<u64, (Vec<Row>, Vec<u32>)> = BTreeMap::new();
        let mut place = 0;
        for batch in rows {
            let columns = batch.batch();
            let rows = if self.place == DEAD { from_dead_letters(columns) } else { from_columns(columns) };
            for row in batch.gather(&rows) {
                let part = if self.place == DEAD { 0 } else { row[1] % self.world.plan.table_partitions };
                let (rows, places) = parts.entry(part).or_default();
                rows.push(row);
                places.push(place);
                place += 1;
            }
        }
        let frame = |(part, (rows, places)): (u64, (Vec<Row>, Vec<u32>))| {
            let id = ids();
            let rows = if self.has_time { rows } else { without_time(&rows) };
            let body = Bytes::from(to_body(id.0, &rows));
            Encoded {
                id,
                table_partition: part.to_string(),
                rows: rows.len() as u64,
                body,
                probe: Bytes::new(),
                rows_from: RowsFrom::Picked(places),
            }
        };
        Ok(parts.into_iter().map(frame).collect())
    }

    fn decode(&self, body: &[u8]) -> Result<RecordBatch, TableError> {
        let (_, rows) = from_body(body).filter(|_| self.place != DEAD).ok_or_else(table_error)?;
        Ok(to_columns(&rows))
    }

    fn to_json(&self, _schema: Option<&Schema>, rows: &RecordBatch, row: usize) -> String {
        let [id, key, time] = from_columns(rows)[row];
        format!("{{\"id\":{id},\"key\":{key},\"time\":{time}}}")
    }

    async fn insert(&self, attempt: Attempt<'_>) -> Answer {
        let world = &self.world;
        let fault = world.state().operations.insert();
        world.pause(200, 3_000).await;
        let mut insert = {
            let mut state = world.state();
            if !state.server.is_there_at(self.place, state.now_us()) {
                return failed(Effect::None, Remedy::Resend, TableFault::Connection);
            }
            let State { server, random, .. } = &mut *state;
            let node = server.choose_node(random);
            Insert {
                place: self.place,
                pid: self.pid,
                token: attempt.token.to_owned(),
                query_id: attempt.query_id.to_owned(),
                body: attempt.body.clone(),
                since_us: state.now_us(),
                run: state.server.run,
                carried: state.server.carried(self.place),
                node,
                has_time: attempt.layout.is_some_and(|layout| layout.column(TIME).is_some()),
                is_late: false,
                ends_us: u64::MAX,
            }
        };
        let late = match fault {
            Some(InsertFault::LateCopy(ms)) => Some(ms),
            _ => None,
        };
        if late.is_none() {
            let since_us = insert.since_us;
            if !world.state().server.begin(&insert, since_us, false, since_us) {
                return failed(Effect::Unknown, Remedy::Resend, TableFault::AlreadyRunning);
            }
        }
        if let Some(InsertFault::OnTheWay { ms, others, at_once }) = fault {
            world.executor.sleep_us(ms * 1_000).await;
            let mut state = world.state();
            let now_us = state.now_us();
            let found_room = state.server.others_insert(self.place, others, at_once, now_us);
            state.note("others", found_room, || {
                format!("{found_room} inserts while `{}` travels", attempt.query_id)
            });
        }
        // The head is there; the tail is held back until this process has looked whether it is still the owner.
        let asked_us = world.executor.now_us();
        world.state().server.at_gate(attempt.query_id);
        if !attempt.gate.may_complete().await {
            world.state().server.end(attempt.query_id);
            return failed(Effect::None, Remedy::Stop, TableFault::Fenced);
        }
        world.state().gate_opened(self.pid, asked_us);
        world.pause(5, 200).await;
        world.state().was_sent(&Sent::of(&insert), &insert.body);
        if let Some(ms) = late {
            let copy = world.clone();
            world.spawn(async move { arrive_late(&copy, insert, ms).await });
            return failed(Effect::Unknown, Remedy::Resend, TableFault::Broken);
        }
        insert.since_us = asked_us;
        if self.world.plan.token_age_ms.is_some() || self.world.plan.replicas > 1 {
            insert.ends_us = asked_us + world.plan.insert_time_us();
        }
        if world.state().server.is_asynchronous {
            let later = world.clone();
            world.spawn(async move {
                later.executor.sleep_us(FLUSH_US).await;
                // Nobody listens: the answer was given.
                let _ = serve(later.clone(), insert, fault).await;
            });
            return Ok(());
        }
        if fault == Some(InsertFault::Twice) {
            // The proxy's second copy is turned down while the first one is worked on, and its answer comes first.
            let first = world.clone();
            world.spawn(async move {
                let _ = serve(first.clone(), insert, None).await;
            });
            world.pause(50, 500).await;
            return failed(Effect::Unknown, Remedy::Resend, TableFault::AlreadyRunning);
        }
        let serve = world.run_as(WORLD, serve(world.clone(), insert, fault));
        let patience = world.executor.sleep_us(world.plan.insert_time_us());
        match select(std::pin::pin!(serve), std::pin::pin!(patience)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), _)) => failed(Effect::Unknown, Remedy::Resend, TableFault::Timeout),
        }
    }

    fn tokens(&self) -> &dyn Tokens {
        &ClickHouseTokens
    }

    async fn see(&self) -> Result<Sighting, TableError> {
        self.ask(|state, node| self.seen(state, node)).await
    }

    /// Asked only where nothing else tells that a journal is lost.
    async fn objects_to_first_start(&self) -> Result<Option<String>, TableError> {
        if self.world.plan.keeps_positions {
            return Ok(None);
        }
        let has_rows = self.ask(|state, _| !state.server.tables[self.place].parts.is_empty()).await?;
        Ok(has_rows.then(|| "the table has rows: the store was lost".to_owned()))
    }

    async fn probe(&self, frame: FrameId, rows: u64, _probe: &[u8]) -> Result<Presence, TableError> {
        self.ask(|state, node| self.presence(state, node, frame, rows)).await?
    }

    /// One statement: rows and facts are those of one replica at one moment.
    async fn look_for(
        &self,
        frame: FrameId,
        rows: u64,
        _probe: &[u8],
    ) -> Result<(Presence, Sighting), TableError> {
        self.ask(|state, node| Ok((self.presence(state, node, frame, rows)?, self.seen(state, node)))).await?
    }

    async fn end_attempts(&self, prefix: &str) -> Result<u64, TableError> {
        let pid = self.pid;
        self.ask(|state, node| {
            let now_us = state.now_us();
            let alive = state.server.kill(node, prefix, now_us);
            state.note("kill", alive, || format!("`{prefix}` by process {pid}: {alive} still run"));
            state.attempts_ended(pid, prefix);
            alive
        })
        .await
    }
}

impl SimTable {
    /// What a replica says of itself and the table.
    fn seen(&self, state: &State, node: u64) -> Sighting {
        let (place, plan) = (self.place, &self.world.plan);
        let ours_ms = WALL_BEGIN_MS + (state.now_us() / 1_000) as i64;
        self.lacks_time.store(state.server.tables[place].lacks_time, Ordering::Relaxed);
        let (start_ms, seen_ms) = state.server.times_ms(state.now_us());
        let has_view = state.server.feeds_view(place);
        let facts = Facts {
            start_ms,
            seen_ms,
            server_uuid: state.server.server_uuid(node),
            block_number: state.server.block(place),
            view_blocks: has_view.then(|| state.server.block(VIEW)).into_iter().collect(),
            token_window: plan.token_window,
            tokens_per_frame: plan.tokens_per_frame(),
            token_age_ms_max: plan.token_age_ms,
            tokens_per_block_max: (!plan.others_at_once).then_some(plan.tokens_per_block),
            // An answer may take as long as the pauses of a question.
            asked_ms: ours_ms - (ASKED_US_MAX / 1_000) as i64,
            answered_ms: ours_ms + (ANSWERED_US_MAX / 1_000) as i64,
            zone: String::new(),
            altered_ms: state.server.altered_ms,
            routes: 0,
            has_unnamed: false,
            declaration: 1,
            engine: 1,
            names_rows: true,
            narrowed_ms: 0,
        };
        facts.seen(state.server.uuid(place))
    }

    /// Which rows of a frame a replica shows; an error if it lags, and says so.
    fn presence(
        &self,
        state: &mut State,
        node: u64,
        frame: FrameId,
        rows: u64,
    ) -> Result<Presence, TableError> {
        let now_us = state.now_us();
        let shown = state.server.shown(node, self.place, now_us);
        if shown.is_some() && !state.server.is_lag_anothers {
            let message = "the replica is behind".into();
            return Err(TableError { remedy: Remedy::Resend, kind: TableFault::ReplicaLags, message });
        }
        let parts = state.server.tables[self.place].parts.iter().take(shown.unwrap_or(usize::MAX));
        let parts = parts.filter(|(id, _)| *id == frame.0);
        let found: u64 = parts.map(|(_, rows)| rows.len() as u64).sum();
        state.note("probe", found, || format!("frame {frame}: {found} of {rows} rows"));
        Ok(match found {
            _ if !self.world.plan.has_provenance => Presence::Inadmissible,
            0 => Presence::None,
            n if n == rows => Presence::All,
            found => Presence::Part { found, expected: rows },
        })
    }
}
