//! A table that lies, and a router that does.
//!
//! Owns the lies about frames, inserts and what a server shows of a table. Does not own the tables that a server holds ([`crate::table`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use dataflow::{
    Attempt, Effect, Encoded, Fit, FrameId, Gate, InsertError, Layout, Presence, Remedy, Router, RowsFrom,
    Schema, Selected, Sighting, Table, TableError, TableFault, Tokens,
};
use tokens::Facts;

use super::items;
use crate::executor::lock;
use crate::records::{from_body, to_body};
use crate::variant::Variant;

/// A table that lies.
pub struct LyingTable {
    inner: Arc<dyn Table>,
    variant: Variant,
    first: Mutex<Option<Sighting>>,
    /// What was seen last, and how many gates are being asked.
    last: Mutex<Option<Sighting>>,
    gates: AtomicU64,
    /// Inserts find nobody until this is set.
    pub waits_for: Option<Arc<AtomicBool>>,
}

impl LyingTable {
    /// Around an honest one.
    pub fn new(inner: Arc<dyn Table>, variant: Variant) -> Self {
        Self {
            inner,
            variant,
            first: Mutex::new(None),
            last: Mutex::new(None),
            gates: AtomicU64::new(0),
            waits_for: None,
        }
    }
}

/// A gate whose questions about the table are answered with what was known before.
struct StaleGate<'a> {
    gate: &'a dyn Gate,
    gates: &'a AtomicU64,
}

#[async_trait]
impl Gate for StaleGate<'_> {
    async fn may_complete(&self) -> bool {
        self.gates.fetch_add(1, Ordering::Relaxed);
        let is_open = self.gate.may_complete().await;
        self.gates.fetch_sub(1, Ordering::Relaxed);
        is_open
    }
}

struct OpenGate;

#[async_trait]
impl Gate for OpenGate {
    async fn may_complete(&self) -> bool {
        true
    }
}

#[async_trait]
impl Table for LyingTable {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema(&self) -> &Schema {
        self.inner.schema()
    }

    fn layout(&self) -> Layout {
        self.inner.layout()
    }

    fn changed(&self) -> Option<Layout> {
        self.inner.changed()
    }

    fn fit(&self, layout: &Layout) -> Fit {
        if self.variant == Variant::FitsWhatIsGone { Fit::AsIs } else { self.inner.fit(layout) }
    }

    fn encode(
        &self,
        rows: &[Selected],
        ids: &mut dyn FnMut() -> FrameId,
    ) -> Result<Vec<Encoded>, TableError> {
        let mut frames = self.inner.encode(rows, ids)?;
        if self.variant == Variant::FrameOfManyPartitions && frames.len() > 1 {
            let rows: Vec<_> =
                frames.iter().filter_map(|f| from_body(&f.body)).flat_map(|(_, rows)| rows).collect();
            frames.truncate(1);
            frames[0].rows = rows.len() as u64;
            frames[0].body = to_body(frames[0].id.0, &rows).into();
        }
        if self.variant == Variant::ItemsChangePlaces {
            frames.iter_mut().for_each(items::swap_items);
        }
        if self.variant == Variant::AnothersOrigin {
            for frame in &mut frames {
                let rows = frame.rows_from.len();
                let places = (1..=rows).map(|at| frame.rows_from.get(at % rows)).collect();
                frame.rows_from = RowsFrom::Picked(places);
            }
        }
        if self.variant == Variant::ColumnsChangePlaces {
            for frame in &mut frames {
                let Some((id, rows)) = from_body(&frame.body) else { continue };
                let rows: Vec<_> = rows.into_iter().map(|[id, key, time]| [id, time, key]).collect();
                frame.body = to_body(id, &rows).into();
            }
        }
        if self.variant == Variant::FrameLacksARow
            && let Some(frame) = frames.iter_mut().find(|frame| frame.rows > 1)
            && let Some((id, rows)) = from_body(&frame.body)
        {
            frame.rows -= 1;
            frame.body = to_body(id, &rows[..rows.len() - 1]).into();
            let picked = (0..rows.len() - 1).map(|at| frame.rows_from.get(at)).collect();
            frame.rows_from = RowsFrom::Picked(picked);
        }
        Ok(frames)
    }

    fn decode(&self, body: &[u8]) -> Result<RecordBatch, TableError> {
        self.inner.decode(body)
    }

    fn to_json(&self, schema: Option<&Schema>, rows: &RecordBatch, row: usize) -> String {
        self.inner.to_json(schema, rows, row)
    }

    async fn insert(&self, attempt: Attempt<'_>) -> Result<(), InsertError> {
        if self.waits_for.as_ref().is_some_and(|is_read| !is_read.load(Ordering::Relaxed)) {
            let message = "nobody is there".into();
            return Err(InsertError {
                effect: Effect::None,
                remedy: dataflow::Remedy::Resend,
                code: 0,
                kind: TableFault::Connection,
                message,
            });
        }
        let stale;
        let attempt = match self.variant {
            Variant::TokenFromTheAttempt => Attempt { token: attempt.query_id, ..attempt },
            Variant::NoGate => Attempt { gate: &OpenGate, ..attempt },
            Variant::NoJudgementAtTheGate => {
                stale = StaleGate { gate: attempt.gate, gates: &self.gates };
                Attempt { gate: &stale, ..attempt }
            }
            _ => attempt,
        };
        match self.inner.insert(attempt).await {
            Err(error)
                if self.variant == Variant::AlreadyRunningIsNone
                    && error.kind == TableFault::AlreadyRunning =>
            {
                Err(InsertError { effect: Effect::None, ..error })
            }
            Err(error) if self.variant == Variant::ViewRefusalIsNone && error.kind == TableFault::View => {
                let (effect, remedy) = (Effect::None, Remedy::Divert);
                Err(InsertError { effect, remedy, kind: TableFault::BadContent, ..error })
            }
            Err(error) if self.variant == Variant::AwayIsAnswered && error.kind == TableFault::Connection => {
                Ok(())
            }
            Err(error) if self.variant == Variant::SettleOverAHole && error.effect == Effect::Unknown => {
                Ok(())
            }
            answer => answer,
        }
    }

    fn tokens(&self) -> &dyn Tokens {
        self.inner.tokens()
    }

    async fn see(&self) -> Result<Sighting, TableError> {
        if self.gates.load(Ordering::Relaxed) > 0
            && let Some(last) = lock(&self.last).clone()
        {
            return Ok(last);
        }
        let seen = self.inner.see().await?;
        *lock(&self.last) = Some(seen.clone());
        Ok(self.lie_of(seen))
    }

    async fn objects_to_first_start(&self) -> Result<Option<String>, TableError> {
        if self.variant == Variant::RowsThereIgnored {
            return Ok(None);
        }
        self.inner.objects_to_first_start().await
    }

    async fn probe(&self, frame: FrameId, rows: u64, probe: &[u8]) -> Result<Presence, TableError> {
        Ok(self.lie_about(self.inner.probe(frame, rows, probe).await?))
    }

    async fn look_for(
        &self,
        frame: FrameId,
        rows: u64,
        probe: &[u8],
    ) -> Result<(Presence, Sighting), TableError> {
        let (presence, seen) = self.inner.look_for(frame, rows, probe).await?;
        Ok((self.lie_about(presence), self.lie_of(seen)))
    }

    async fn end_attempts(&self, prefix: &str) -> Result<u64, TableError> {
        if self.variant == Variant::NewGenerationWithoutEnding {
            return Ok(0);
        }
        self.inner.end_attempts(prefix).await
    }
}

impl LyingTable {
    fn lie_of(&self, seen: Sighting) -> Sighting {
        let first = lock(&self.first).get_or_insert_with(|| seen.clone()).clone();
        let facts = Facts::of(&seen).expect("the table was seen");
        match self.variant {
            Variant::ResendBeyondMemory => first,
            Variant::TokenAgeIgnored => Facts { token_age_ms_max: None, ..facts }.seen(seen.table_uuid),
            Variant::TokensCountedAsBlocks => {
                Facts { tokens_per_block_max: Some(1), ..facts }.seen(seen.table_uuid)
            }
            Variant::AlterIgnored => Facts { altered_ms: 0, ..facts }.seen(seen.table_uuid),
            Variant::ViewsIgnored => Facts { view_blocks: Vec::new(), ..facts }.seen(seen.table_uuid),
            Variant::AnotherTableIgnored => Sighting { table_uuid: "the only one".into(), ..seen },
            _ => seen,
        }
    }

    fn lie_about(&self, presence: Presence) -> Presence {
        match self.variant {
            Variant::ProbeSaysNone => Presence::None,
            Variant::ProbeSaysAll => Presence::All,
            _ => presence,
        }
    }
}

/// A router that lies.
pub struct LyingRouter {
    /// The honest one; none where each table gets all rows.
    pub inner: Option<Arc<dyn Router>>,
    /// How many tables there are.
    pub tables: usize,
    /// The lie.
    pub variant: Variant,
}

impl Router for LyingRouter {
    fn route(&self, rows: &Selected) -> Vec<(usize, Selected)> {
        let mut parts = match &self.inner {
            Some(inner) => inner.route(rows),
            None => (0..self.tables).map(|place| (place, rows.clone())).collect(),
        };
        if self.variant == Variant::RoutedToTheWrongTable {
            let last = self.tables - 1;
            parts.iter_mut().for_each(|(place, _)| match *place {
                0 => *place = last,
                of if of == last => *place = 0,
                _ => {}
            });
        } else {
            let mut taken = vec![false; rows.batch().num_rows()];
            for (_, part) in &mut parts {
                *part = part.only(|row| !std::mem::replace(&mut taken[row], true));
            }
        }
        parts
    }
}
