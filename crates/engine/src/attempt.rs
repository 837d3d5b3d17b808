//! One piece of a frame, until its rows are in the table, or it is replaced.
//!
//! Owns the loop around an insert: send, wait and send again while nothing happened. A doubt, once something may have happened, is
//! [`doubt`]'s, which rows of a refused piece the server has named is [`blame`]'s, and a table with other columns is [`columns`]'s. Does not own the
//! frame ([`crate::settle`]), nor the meaning of an answer (the table classifies it).
//!
//! A piece that an earlier owner may have sent begins in doubt.

mod blame;
mod columns;
mod doubt;
mod gate;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use bytes::Bytes;
use dataflow::{Attempt, Effect, Fit, Gate, InsertError, Layout, Remedy, Sighting, TableFault};
use metrics::{counter, histogram};
use protocol::doubt::StopReason;
use protocol::lane::Piece;
use protocol::names;

use crate::context::Context;
use crate::problem::{Noticed, State};
use crate::refuse::Blamed;
use crate::retry::Backoff;
use crate::target::{Target, seen};
use crate::{EngineError, layouts, refuse};
use blame::Blame;
use columns::Fitted;
use gate::{Decided, ResendGate};

/// Pause while an operator has to change something on the server: often enough to go on within a minute.
const PERSON_PAUSE: Duration = Duration::from_secs(15);

/// A decision to send again is not acted on after this long: reading the frame's bytes may take longer, for the store may be away, and
/// then it is decided anew with the bytes at hand, so that no insert is begun only to be held back. What counts is the
/// [judgement](gate) before the last bytes leave.
const DECIDED_MAX: Duration = Duration::from_secs(1);

/// The frame that a piece is of.
#[derive(Clone, Copy, Debug)]
pub struct OfFrame<'a> {
    /// The table's place among the targets.
    pub place: usize,
    /// The frame's ordinal.
    pub ordinal: u64,
    /// The identity of a later table of this name that the operator has accepted; empty if there is none.
    pub accepted_uuid: &'a str,
}

/// How a piece ended.
pub enum Sent {
    /// Its rows are in the table.
    Settled,
    /// Smaller pieces take its place.
    Split,
    /// Its only row goes to the dead letters.
    Refused(Box<Blamed>),
}

/// Why an attempt has no positive answer.
enum Unsent {
    /// It was held back: the decision to send again does not hold any more. Nothing happened.
    Lapsed,
    /// It failed.
    Failed(InsertError),
}

/// A piece on its way.
pub struct Sending<'a> {
    context: &'a Arc<Context>,
    place: usize,
    target: &'a Target,
    ordinal: u64,
    piece: &'a Piece,
    generation: u32,
    accepted_uuid: &'a str,
    /// The server as seen before the first attempt that may have happened.
    before: Option<Sighting>,
    /// True if an attempt under the present token may have happened.
    in_doubt: bool,
    /// True if the server turned the piece down for its content while it was in doubt.
    refused: bool,
    /// True if it did so because of the table's columns.
    misfit: bool,
    /// What the decision to send the piece again rests on; `None` for a first attempt under a token.
    decided: Option<Decided>,
    /// The piece's bytes, once they were read from the store again.
    read: Option<Bytes>,
    /// The columns that the piece was made for; `None` until they are known, if no record says them.
    layout: Option<Layout>,
    /// The rows at fault that the server has named.
    blame: Blame,
    /// The piece's rows, once they were decoded to be sent in another order.
    rows: Option<RecordBatch>,
    /// Set once the operator was waited for because too many rows are refused.
    waited: &'a AtomicBool,
    backoff: Backoff,
}

impl<'a> Sending<'a> {
    /// A piece that is to be sent. `waited` is set once the operator was waited for because too many rows are refused.
    pub fn new(
        context: &'a Arc<Context>,
        of: OfFrame<'a>,
        piece: &'a Piece,
        doubtful: bool,
        waited: &'a AtomicBool,
    ) -> Self {
        Self {
            context,
            place: of.place,
            target: &context.targets[of.place],
            ordinal: of.ordinal,
            piece,
            generation: piece.generation,
            accepted_uuid: of.accepted_uuid,
            before: piece.server.as_ref().filter(|_| doubtful).map(seen),
            in_doubt: doubtful,
            refused: false,
            misfit: false,
            decided: None,
            read: None,
            layout: piece.layout.as_deref().map(layouts::from_record),
            blame: Blame::default(),
            rows: None,
            waited,
            backoff: Backoff::new(context.settings.retry_pause_max),
        }
    }

    /// Sends it until its rows are in the table, it was replaced, or its only row is refused.
    ///
    /// # Errors
    /// When an operator must decide, another owner took over, or the store refuses.
    pub async fn run(mut self) -> Result<Sent, EngineError> {
        loop {
            if self.target.is_suspect() {
                // It was seen to have changed: nothing goes to it until it is as it was.
                self.look().await;
            }
            if self.in_doubt && self.resolve().await? {
                return Ok(Sent::Settled);
            }
            if !self.in_doubt {
                self.check_table().await?;
                self.before = Some(self.target.seen());
                self.decided = None;
            }
            let (body, has_taken_long) = self.body().await?;
            if self.in_doubt && has_taken_long {
                continue;
            }
            self.know_layout(&body).await?;
            // A piece in doubt goes under its own token until it is known what became of it.
            if !self.in_doubt && self.fit() != Fit::AsIs {
                if self.make_fit(&body).await? {
                    return Ok(Sent::Split);
                }
                continue;
            }
            let fitted = match self.fitted(&body).await? {
                Fitted::AsItIs => self.reordered(&body).await?,
                Fitted::Encoded(fitted) => Some(fitted),
                Fitted::Waited => continue,
            };
            let error = match self.send(body.clone(), fitted).await {
                Ok(()) => return Ok(Sent::Settled),
                Err(Unsent::Lapsed) => {
                    self.lapsed().await?;
                    continue;
                }
                Err(Unsent::Failed(error)) => error,
            };
            self.tell_error(&error);
            // A dead letter that is turned down has nowhere else to go: it waits until the operator has fixed its table.
            let is_refused = error.remedy == Remedy::Divert
                && error.effect == Effect::None
                && !self.target.takes_dead_letters;
            if is_refused && !self.in_doubt {
                if self.piece.frame.rows == 1 {
                    let (piece, layout) = (self.piece.clone(), self.layout);
                    return Ok(Sent::Refused(Box::new(Blamed { piece, body, layout, error })));
                }
                if self.names_another(&error, &body) {
                    self.tell_state(&error);
                    continue;
                }
            }
            let is_misfit = error.kind == TableFault::Differs && error.effect == Effect::None;
            // Nothing is to be done about rows that were made for columns of before: they are made again for those of now.
            let is_of_before = (is_refused || is_misfit) && !self.in_doubt && !self.is_unchanged().await;
            if is_of_before {
                continue;
            }
            self.tell_state(&error);
            // An earlier attempt's rows may be in the table, so nothing is split or encoded again before that is known.
            if is_refused && self.in_doubt && !self.refused {
                self.refused = true;
                self.look().await;
                continue;
            }
            if is_misfit && self.in_doubt && self.misfits().await? {
                continue;
            }
            // Rows are blamed only while the table is the one that they were made for.
            if is_refused && !self.in_doubt {
                let (context, layout, named) = (self.context, self.layout.as_ref(), self.blame.rows());
                let split =
                    refuse::split(context, self.place, self.ordinal, self.piece, &body, layout, &named);
                match split.await? {
                    refuse::Outcome::Split => return Ok(Sent::Split),
                    refuse::Outcome::TooMany => {
                        self.waited.store(true, Ordering::Release);
                        let words = refuse::too_many(&error.redacted());
                        self.tell_problem(State::RowsRefused, &words, Effect::None);
                    }
                    refuse::Outcome::Differs(words) => {
                        self.wait_for_columns(&words).await?;
                        continue;
                    }
                }
            }
            self.after(error).await?;
        }
    }

    /// A frame is for the table that it was sealed for, and for no other of that name that nobody has accepted.
    async fn check_table(&self) -> Result<(), EngineError> {
        let sealed_for = self.piece.server.as_ref().map_or("", |s| s.table_uuid.as_str());
        let now = self.target.seen().table_uuid;
        if !sealed_for.is_empty() && sealed_for != now && !self.is_accepted(&now) {
            return Err(self.stop(StopReason::TableChanged, &now).await);
        }
        Ok(())
    }

    /// One attempt, with the piece's bytes or with its rows encoded for other columns. One that rests on a decision is completed only if that still
    /// holds when the last bytes are due.
    async fn send(&self, body: Bytes, fitted: Option<(Bytes, Layout)>) -> Result<(), Unsent> {
        let id = self.piece.id();
        let token = names::token(id, self.generation);
        // Attempts are numbered by time, so that two owners' attempts differ.
        let number = self.context.runtime.wall_ms() as u64;
        let query_id = names::query_id(id, self.generation, number);
        let begun = self.context.runtime.elapsed();
        let gate = ResendGate::new(self.context, self.place, self.decided.as_ref());
        let (body, layout) = match &fitted {
            Some((body, layout)) => (body.clone(), Some(layout)),
            None => (body, self.layout.as_ref()),
        };
        let attempt = Attempt { token: &token, query_id: &query_id, body, layout, gate: &gate };
        let result = self.target.table.insert(attempt).await;
        let seconds = (self.context.runtime.elapsed() - begun).as_secs_f64();
        histogram!("forebay_insert_seconds", "table" => self.target.table.name().to_owned()).record(seconds);
        match result {
            Err(error) if gate.has_lapsed() && error.effect == Effect::None => Err(Unsent::Lapsed),
            result => result.map_err(Unsent::Failed),
        }
    }

    /// A resend was held back because the facts that it was decided by have changed: a pause, and it is decided anew.
    async fn lapsed(&mut self) -> Result<(), EngineError> {
        self.check_owner().await?;
        self.backoff.pause(&*self.context.runtime).await;
        Ok(())
    }

    /// The bytes to send, and whether a decision made before has grown old while they were read.
    async fn body(&mut self) -> Result<(Bytes, bool), EngineError> {
        let kept = || self.target.kept(self.ordinal).filter(|_| self.piece.piece == 0);
        if let Some(body) = self.read.clone().or_else(kept) {
            return Ok((body, false));
        }
        let begun = self.context.runtime.elapsed();
        let frame = &self.piece.frame;
        let body = self.read_sealed(frame.offset, frame.len, Some(frame.crc32c)).await?;
        self.read = Some(body.clone());
        Ok((body, self.context.runtime.elapsed().saturating_sub(begun) > DECIDED_MAX))
    }

    /// A part of the piece's segment; waits while the store is away.
    async fn read_sealed(&self, offset: u64, len: u64, crc: Option<u32>) -> Result<Bytes, EngineError> {
        let mut backoff = Backoff::new(self.context.settings.retry_pause_max);
        loop {
            match self.context.part(self.place, self.piece, (offset, len), crc).await {
                Err(EngineError::Store(error)) if error.kind.is_transient() => {
                    tracing::warn!(%error, "a sealed frame cannot be read; trying again");
                    backoff.pause(&*self.context.runtime).await;
                }
                // What a newer owner has settled and retired is missing to one that slept, and no damage.
                Err(error @ EngineError::Damaged { .. }) => {
                    if self.context.ownership.may_complete().await {
                        return Err(error);
                    }
                    self.check_owner().await?;
                    backoff.pause(&*self.context.runtime).await;
                }
                result => return result,
            }
        }
    }

    fn tell_problem(&self, state: State, words: &str, effect: Effect) {
        let (name, now_ms) = (self.target.table.name(), self.context.runtime.wall_ms());
        self.context.status.met(name, state, words, self.effect(effect), Noticed::Inserting, now_ms);
    }

    /// Of this frame: what is in doubt stays so until it is resolved.
    fn effect(&self, of_attempt: Effect) -> Effect {
        if self.in_doubt { Effect::Unknown } else { of_attempt }
    }

    fn tell_error(&self, error: &InsertError) {
        let table = self.target.table.name();
        counter!("forebay_insert_retries_total", "table" => table.to_owned(), "kind" => error.kind.word())
            .increment(1);
        let message = error.redacted();
        // Of refused rows each piece of their frame has an error of its own: the problem below is logged once for all of them.
        if error.remedy != Remedy::Divert && self.backoff.should_log() {
            tracing::warn!(table, frame = self.ordinal, kind = error.kind.word(), effect = ?error.effect, error = %message,
                "an insert has no positive answer");
        }
    }

    /// The problem of the table that an attempt ran into, for `status` and `/readyz`.
    fn tell_state(&self, error: &InsertError) {
        // An insert that was held back ran into nothing at the table: the next append tells whether there is another owner.
        if let Some(state) = State::of_table(error.kind) {
            self.tell_problem(state, &error.redacted(), error.effect);
        }
    }

    /// After an insert without a positive answer: remembers the doubt, waits, polls the server again.
    async fn after(&mut self, error: InsertError) -> Result<(), EngineError> {
        if error.effect == Effect::Unknown {
            self.in_doubt = true;
        }
        match error.remedy {
            Remedy::Resend => self.backoff.pause(&*self.context.runtime).await,
            Remedy::Divert | Remedy::Stop => self.context.runtime.sleep(PERSON_PAUSE).await,
        }
        self.check_owner().await?;
        self.look().await;
        Ok(())
    }

    async fn check_owner(&self) -> Result<(), EngineError> {
        // The gate also says no when the store cannot be read; then the next append finds out.
        if self.context.ownership.is_fenced() {
            let seq = self.context.journal.lock().await.lane().next_seq;
            return Err(EngineError::Fenced { seq });
        }
        Ok(())
    }

    /// Sees the server again, until it answers: settings, views and identity are read anew before any resend.
    async fn look(&mut self) -> Sighting {
        loop {
            match self.target.table.see().await {
                Ok(seen) => {
                    self.context.see(self.place, seen.clone());
                    return seen;
                }
                Err(error) => {
                    if self.backoff.should_log() {
                        tracing::warn!(table = self.target.table.name(), %error, "the table does not answer");
                    }
                    self.context.not_seen(self.place, &error, self.effect(Effect::None));
                    self.backoff.pause(&*self.context.runtime).await;
                }
            }
        }
    }
}
