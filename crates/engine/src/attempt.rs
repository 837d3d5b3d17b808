//! One frame, until it is settled.
//!
//! Owns the loop around an insert: send, wait and send again while nothing happened; a doubt, once something may have happened, is
//! [`doubt`]'s, and which rows of a refused piece the server has named is [`blame`]'s. Does not own how many frames are under way, nor the
//! meaning of an answer (the table classifies it).
//!
//! A frame that an earlier owner may have sent begins in doubt.

mod blame;
mod doubt;
mod gate;

use std::collections::VecDeque;
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
use crate::{EngineError, accounts, layouts, refuse};
use blame::Blame;
use gate::{Decided, ResendGate};

/// Pause while an operator has to change something on the server: often enough to go on within a minute.
const PERSON_PAUSE: Duration = Duration::from_secs(15);

/// Pause between two checks whether a refused row was sealed as a dead letter.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// A decision to send again is not acted on after this long: reading the frame's bytes may take longer, for the store may be away, and
/// then it is decided anew with the bytes at hand, so that no insert is begun only to be held back. What counts is the
/// [judgement](gate) before the last bytes leave.
const DECIDED_MAX: Duration = Duration::from_secs(1);

/// A frame to settle.
pub struct Task {
    /// The table's place among the targets.
    pub place: usize,
    /// The frame's ordinal.
    pub ordinal: u64,
    /// Its pieces; one unless it was split.
    pub pieces: Vec<Piece>,
    /// True if an earlier owner may have sent it.
    pub doubtful: bool,
    /// The identity of a later table of this name that the operator has accepted; empty if there is none.
    pub accepted_uuid: String,
}

/// What became of the rows of a settled frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// In the table.
    pub settled: u64,
    /// Dead letters.
    pub refused: u64,
}

/// Sends a frame until all its pieces are in the table, or in the dead letters; tells how many rows are where.
/// Tables in which the order of inserts shows have one insert in flight: their pieces go in the order of their rows.
///
/// # Errors
/// When an operator must decide, another owner took over, the store refuses, or rows do not add up (C9).
pub async fn settle(context: &Arc<Context>, task: Task) -> Result<Rows, EngineError> {
    // The operator's answer is read where doubts are decided.
    let live = task.pieces.iter().filter(|p| p.is_live());
    let mut waiting: VecDeque<(Piece, bool)> =
        live.map(|p| (p.clone(), task.doubtful || p.verdict.is_some())).collect();
    waiting.make_contiguous().sort_by_key(|(piece, _)| piece.first_row);
    let sealed: u64 = waiting.iter().map(|(piece, _)| piece.frame.rows).sum();
    let (mut rows, mut refused) = (Rows { settled: 0, refused: 0 }, Vec::new());
    // Whether the operator was waited for: what was refused before may be mended.
    let waited = AtomicBool::new(false);
    let (mut blamed, mut backoff) = (Vec::new(), Backoff::new(context.settings.retry_pause_max));
    // Every split adds pieces, and a frame has a bounded number of them.
    loop {
        let Some((piece, doubtful)) = waiting.pop_front() else {
            if blamed.is_empty() {
                break;
            }
            // Rows are blamed only while the table is the one that they were made for: after a look that found another they must be refused once more
            // than one that finds it again, for what is mended may be mended between a refusal and the look. All of the frame's together, so that
            // they share a seal.
            let has_waited = waited.swap(false, Ordering::AcqRel);
            let is_as_it_was = is_as_it_was(context, task.place, &blamed).await;
            waited.store(!is_as_it_was, Ordering::Release);
            if is_as_it_was && !has_waited {
                tell_blame(context, task.place, &blamed);
                rows.refused += blamed.len() as u64;
                refused.extend(blamed.iter().map(|row: &Blamed| row.piece.piece));
                refuse::hand_over(context, task.place, task.ordinal, std::mem::take(&mut blamed)).await?;
                break;
            }
            backoff.pause(&*context.runtime).await;
            // Some may have another token by now.
            let pieces = pieces_now(context, &task).await;
            let again = blamed.drain(..).filter_map(|row| pieces.get(row.piece.piece as usize).cloned());
            waiting.extend(again.map(|piece| (piece, false)));
            continue;
        };
        let sending = Sending {
            context,
            place: task.place,
            target: &context.targets[task.place],
            ordinal: task.ordinal,
            generation: piece.generation,
            accepted_uuid: &task.accepted_uuid,
            before: piece.server.as_ref().filter(|_| doubtful).map(seen),
            in_doubt: doubtful,
            refused: false,
            misfit: false,
            decided: None,
            read: None,
            layout: piece.layout.as_deref().map(layouts::from_record),
            blame: Blame::default(),
            rows: None,
            waited: &waited,
            backoff: Backoff::new(context.settings.retry_pause_max),
            piece: &piece,
        };
        match sending.run().await? {
            Sent::Settled => rows.settled += piece.frame.rows,
            Sent::Split => {
                let parts = pieces_after(context, &task, &piece).await;
                let parts = parts.into_iter().map(|p| (p, false));
                if context.settings.in_flight_max == 1 {
                    parts.rev().for_each(|part| waiting.push_front(part));
                } else {
                    // Breadth first: a fault of all rows is seen as such before any of them is a dead letter.
                    waiting.extend(parts);
                }
            }
            Sent::Refused(row) => blamed.push(*row),
        }
    }
    for piece in refused {
        wait_until_dead(context, &task, piece).await;
    }
    let (seq, table) = (context.ownership.next_seq(), context.targets[task.place].table.name());
    accounts::frame(seq, table, task.ordinal, sealed, rows.settled, rows.refused)?;
    Ok(rows)
}

/// The pieces that the split of `piece` has added last: together they have its rows.
async fn pieces_after(context: &Context, task: &Task, piece: &Piece) -> Vec<Piece> {
    let journal = context.journal.lock().await;
    let table = &journal.lane().tables[context.targets[task.place].index as usize];
    let pieces = table.pieces(task.ordinal).unwrap_or_default();
    debug_assert!(pieces.get(piece.piece as usize).is_none_or(|p| p.dead), "a split piece is dead");
    let mut rows = 0;
    let parts = pieces.iter().rev().take_while(|part| {
        let is_open = rows < piece.frame.rows;
        rows += part.frame.rows;
        is_open
    });
    let mut parts: Vec<Piece> = parts.cloned().collect();
    parts.reverse();
    parts
}

/// The pieces of a frame as the journal has them.
async fn pieces_now(context: &Context, task: &Task) -> Vec<Piece> {
    let journal = context.journal.lock().await;
    let table = &journal.lane().tables[context.targets[task.place].index as usize];
    table.pieces(task.ordinal).unwrap_or_default().to_vec()
}

/// Rows are refused one by one: the problem of their table, for `status` and `/readyz`, in the words about the last of them.
fn tell_blame(context: &Context, place: usize, rows: &[Blamed]) {
    let Some((state, error)) =
        rows.last().and_then(|row| Some((State::of_table(row.error.kind)?, &row.error)))
    else {
        return;
    };
    let (name, now_ms) = (context.targets[place].table.name(), context.runtime.wall_ms());
    context.status.met(name, state, &error.redacted(), Effect::None, Noticed::Inserting, now_ms);
}

/// True if the table answers at once and takes the columns of these rows as they are.
async fn is_as_it_was(context: &Context, place: usize, rows: &[Blamed]) -> bool {
    let target = &context.targets[place];
    match target.table.see().await {
        Ok(seen) => {
            context.see(place, seen);
            let fits =
                |row: &Blamed| row.layout.as_ref().is_none_or(|layout| target.table.fit(layout) == Fit::AsIs);
            rows.iter().all(fits)
        }
        Err(error) => {
            context.not_seen(place, &error, Effect::None);
            false
        }
    }
}

/// Waits until the lane has sealed a refused row as a dead letter.
async fn wait_until_dead(context: &Context, task: &Task, piece: u32) {
    let target = &context.targets[task.place];
    loop {
        {
            let journal = context.journal.lock().await;
            let pieces = journal.lane().tables[target.index as usize].pieces(task.ordinal);
            if pieces.and_then(|p| p.get(piece as usize)).is_none_or(|p| p.dead) {
                return;
            }
        }
        // Seals are at most a batch's age apart while a row waits.
        context.runtime.sleep(REFUSED_PAUSE).await;
    }
}

/// How a piece ended.
enum Sent {
    /// Its rows are in the table.
    Settled,
    /// Smaller pieces take its place.
    Split,
    /// Its only row goes to the dead letters.
    Refused(Box<Blamed>),
}

/// The bytes of an attempt.
enum Fitted {
    /// Those that were sealed.
    AsItIs,
    /// The same rows, encoded for these columns.
    Encoded((Bytes, Layout)),
    /// There are none for the columns of now: it was waited for others, and the doubt is judged anew.
    Waited,
}

/// Why an attempt has no positive answer.
enum Unsent {
    /// It was held back: the decision to send again does not hold any more. Nothing happened.
    Lapsed,
    /// It failed.
    Failed(InsertError),
}

struct Sending<'a> {
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

impl Sending<'_> {
    async fn run(mut self) -> Result<Sent, EngineError> {
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

    /// Whether the server has named a row that it did not name before, so that another attempt may name another. Tables in which the order of inserts shows
    /// get their rows in one order.
    fn names_another(&mut self, error: &InsertError, body: &Bytes) -> bool {
        let rows = u32::try_from(self.piece.frame.rows).unwrap_or(u32::MAX);
        let named = self.target.table.refused_row(error).filter(|_| self.context.settings.in_flight_max > 1);
        named.is_some_and(|at| self.blame.name(at, rows, body.len() as u64))
    }

    /// The piece's rows with those at the end that the server has named; `None` if it has named none.
    async fn reordered(&mut self, body: &Bytes) -> Result<Option<(Bytes, Layout)>, EngineError> {
        let rows = match &self.rows {
            Some(rows) => rows.clone(),
            None if self.blame.rows().is_empty() => return Ok(None),
            None => refuse::decode(self.context, self.place, self.piece, body).await?,
        };
        self.rows = Some(rows.clone());
        // What is in doubt is sent as it was.
        let order = if self.in_doubt { None } else { self.blame.order(rows.num_rows() as u32) };
        let Some(order) = order.map(<[u32]>::to_vec) else {
            self.blame.as_it_is();
            return Ok(None);
        };
        let again = refuse::in_order(self.context, self.place, self.piece, rows, order, self.layout.as_ref());
        let again = again.await?;
        if again.is_none() {
            self.blame.as_it_is();
        }
        Ok(again)
    }

    /// Reads off the bytes which columns they hold, if no record says so.
    async fn know_layout(&mut self, body: &Bytes) -> Result<(), EngineError> {
        if self.layout.is_some() || self.target.table.layout().columns.is_empty() {
            return Ok(());
        }
        let (table, body) = (self.target.table.clone(), body.clone());
        let read = self.context.runtime.run(move || table.layout_of(&body)).await;
        let read = read.ok_or(EngineError::Internal("columns of a frame"))?;
        self.layout = Some(read.map_err(|error| EngineError::Mismatch(error.message))?);
        Ok(())
    }

    /// Whether the piece can go to the table as that was seen last.
    fn fit(&self) -> Fit {
        self.layout.as_ref().map_or(Fit::AsIs, |layout| self.target.table.fit(layout))
    }

    /// Replaces the piece by one for the columns of now, or waits for other ones. True if it was replaced.
    async fn make_fit(&mut self, body: &Bytes) -> Result<bool, EngineError> {
        let words = match self.fit() {
            Fit::AsIs => return Ok(false),
            Fit::No { words } => words,
            Fit::Again { .. } | Fit::Without { .. } => {
                let (context, layout) = (self.context, self.layout.as_ref());
                match refuse::again(context, self.place, self.ordinal, self.piece, body, layout).await? {
                    refuse::Outcome::Split => return Ok(true),
                    refuse::Outcome::Differs(words) => words,
                    refuse::Outcome::TooMany => refuse::too_many("its columns have changed too often"),
                }
            }
        };
        self.wait_for_columns(&words).await?;
        Ok(false)
    }

    /// The server has refused a piece in doubt for its columns. False if it fits those that the table has now: it is sent again, as it is.
    ///
    /// Where it does not fit, its token stays: a copy of it that is late would be written once the columns are back.
    async fn misfits(&mut self) -> Result<bool, EngineError> {
        self.misfit = true;
        self.look().await;
        match self.fit() {
            Fit::AsIs => return Ok(false),
            Fit::Again { .. } => {}
            Fit::No { words } | Fit::Without { words } => self.wait_for_columns(&words).await?,
        }
        Ok(true)
    }

    /// Whether the server will not take the bytes as they are, under whatever token.
    fn is_refused(&self) -> bool {
        self.refused || self.misfit && matches!(self.fit(), Fit::Again { .. })
    }

    /// What a piece in doubt is sent as, once the server has refused its bytes for their columns: its rows, encoded for the columns that the table has
    /// now. The token stays. A table that has taken the one takes no other insert with it, whatever its bytes are, so the rows still arrive once.
    async fn fitted(&mut self, body: &Bytes) -> Result<Fitted, EngineError> {
        if !(self.in_doubt && self.is_refused()) {
            return Ok(Fitted::AsItIs);
        }
        let words = match self.fit() {
            Fit::AsIs => return Ok(Fitted::AsItIs),
            Fit::Again { .. } => {
                let (context, layout) = (self.context, self.layout.as_ref());
                match refuse::fitted(context, self.place, self.piece, body, layout).await? {
                    Ok(fitted) => return Ok(Fitted::Encoded(fitted)),
                    Err(words) => words,
                }
            }
            Fit::No { words } | Fit::Without { words } => words,
        };
        self.wait_for_columns(&words).await?;
        Ok(Fitted::Waited)
    }

    /// Waits for the operator to give the table columns that the piece fits.
    async fn wait_for_columns(&mut self, words: &str) -> Result<(), EngineError> {
        // Logged once for all frames that wait.
        self.tell_problem(State::TableDiffers, words, Effect::None);
        let table = self.target.table.name();
        tracing::debug!(table, frame = self.ordinal, words, "a frame waits for the table's columns");
        // Counts the tries for the log, and lets other frames go first.
        self.backoff.pause(&*self.context.runtime).await;
        self.check_owner().await?;
        self.look().await;
        Ok(())
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

    /// True if the table answers at once and takes the piece's columns as they are. Otherwise waits until it answers: the rows
    /// are then sent again, or made to fit.
    async fn is_unchanged(&mut self) -> bool {
        match self.target.table.see().await {
            Ok(seen) => {
                self.context.see(self.place, seen);
                self.fit() == Fit::AsIs
            }
            Err(_) => {
                self.look().await;
                false
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
