//! A frame in doubt, until it is sent again, settled, or the operator is asked.
//!
//! Owns the questions that [`protocol::doubt`] asks and the carrying out of what it decides. Does not own the decision, nor the sending
//! ([`super`]).

use bytes::Bytes;
use dataflow::{Basis, Effect, FrameId, Gate, Presence, Remedy, Sighting, TableFault};
use metrics::counter;
use protocol::doubt::{self, Decision, Facts, Found, StopReason, Verdict};
use protocol::names;
use protocol::record::{Body, Generation, Question};

use super::gate::Decided;
use super::{Sending, Unsent};
use crate::EngineError;
use crate::problem::State;
use crate::target::recorded;

impl Sending<'_> {
    /// Follows `protocol::doubt` to its end. True if the frame turned out to be settled.
    pub(super) async fn resolve(&mut self) -> Result<bool, EngineError> {
        let (mut found, mut alive, mut confirmed) = (None, None, false);
        // What was found is judged by what the same server said at the same moment.
        let mut seen_with_rows = None;
        loop {
            let seen = match seen_with_rows.take() {
                Some(seen) => seen,
                None => self.look().await,
            };
            let tokens = self.target.table.tokens();
            let stands = |before| tokens.lapse(Basis::Token, before, &seen).is_none();
            let facts = Facts {
                table_before: self.before.as_ref().map(|before| before.table_uuid.clone()),
                table: seen.table_uuid.clone(),
                token_stands: self.before.as_ref().is_some_and(stands),
                feeds_views: seen.feeds_views,
                in_views_alone: self
                    .before
                    .as_ref()
                    .is_none_or(|before| tokens.may_be_in_views_alone(before, &seen)),
                found,
                alive,
                refused: self.is_refused(),
                confirmed,
                asked: self.asked(),
                answer: self.answer(),
                accepted: self.is_accepted(&seen.table_uuid),
            };
            let decision = doubt::decide(&facts);
            self.tell(decision);
            match decision {
                Decision::Resend => {
                    let since =
                        self.before.clone().expect("a resend rests on a sighting before the first attempt");
                    self.decided = Some(Decided { basis: Basis::Token, since, first: None });
                    return Ok(false);
                }
                Decision::Settle => return Ok(true),
                Decision::Stop(reason) => return Err(self.stop(reason, &seen.table_uuid).await),
                Decision::EndAttempts => alive = self.end_attempts(alive).await?,
                Decision::Probe => (found, seen_with_rows) = self.probe().await?.unzip(),
                Decision::Confirm => {
                    let first = self.before.clone();
                    self.decided = Some(Decided { basis: Basis::Absence, since: seen, first });
                    confirmed = self.confirm().await?;
                    // What was found before says nothing any more, whatever the answer; nor does it of running attempts.
                    (found, alive) = (None, None);
                }
                Decision::NewGeneration => {
                    self.renew(seen).await?;
                    return Ok(false);
                }
            }
        }
    }

    fn tell(&self, decision: Decision) {
        let word = match decision {
            Decision::Resend => "resend",
            Decision::EndAttempts => "end_attempts",
            Decision::Probe => "probe",
            Decision::Confirm => "confirm",
            Decision::Settle => "settle",
            Decision::NewGeneration => "new_generation",
            Decision::Stop(_) => "stop",
        };
        let table = self.target.table.name();
        counter!("forebay_doubts_total", "table" => table.to_owned(), "decision" => word).increment(1);
        tracing::info!(
            table,
            frame = self.ordinal,
            generation = self.generation,
            decision = word,
            "frame in doubt"
        );
    }

    async fn end_attempts(&mut self, before: Option<u64>) -> Result<Option<u64>, EngineError> {
        if before.is_some() {
            // Some were still running: give them time to end.
            self.backoff.pause(&*self.context.runtime).await;
        }
        // A process that was replaced must not end the attempts of its successor.
        if !self.context.ownership.may_complete().await {
            self.check_owner().await?;
            self.backoff.pause(&*self.context.runtime).await;
            return Ok(None);
        }
        match self.target.table.end_attempts(&names::query_prefix(self.piece.id())).await {
            Ok(alive) => {
                if alive > 0 {
                    let words = format!(
                        "{alive} inserts of a frame in doubt still run on the server; they were killed and should end"
                    );
                    self.tell_problem(State::AttemptRuns, &words, Effect::Unknown);
                }
                Ok(Some(alive))
            }
            Err(error) => {
                tracing::warn!(%error, "running inserts cannot be ended");
                self.context.not_seen(self.place, &error, Effect::Unknown);
                self.backoff.pause(&*self.context.runtime).await;
                Ok(None)
            }
        }
    }

    /// What was found, and the server and the table at that moment; `None` if they did not answer.
    async fn probe(&mut self) -> Result<Option<(Found, Sighting)>, EngineError> {
        let frame = &self.piece.frame;
        let keys = match frame.probe_len {
            0 => Bytes::new(),
            // The keys have no checksum of their own. Those of another frame would be found, and this one taken for present: so the
            // body, which stands before them, has to be this frame's.
            len => {
                self.read_sealed(frame.offset, frame.len, Some(frame.crc32c)).await?;
                self.read_sealed(frame.offset + frame.len, len, None).await?
            }
        };
        let (presence, seen) =
            match self.target.table.look_for(FrameId(self.piece.id()), frame.rows, &keys).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "the rows of a frame cannot be looked for");
                    self.context.not_seen(self.place, &error, Effect::Unknown);
                    self.backoff.pause(&*self.context.runtime).await;
                    return Ok(None);
                }
            };
        self.context.see(self.place, seen.clone());
        let tokens = self.target.table.tokens();
        let has_lost_names =
            self.before.as_ref().is_some_and(|before| tokens.may_have_lost_names(before, &seen));
        let found = match presence {
            Presence::None if has_lost_names => Found::CannotTell,
            Presence::None => Found::None,
            Presence::All => Found::All,
            Presence::Part { found, expected } => {
                tracing::error!(frame = self.ordinal, found, expected, "a frame is in the table in part");
                Found::Part
            }
            Presence::Inadmissible => Found::CannotTell,
        };
        Ok(Some((found, seen)))
    }

    /// Sends the same bytes under the same token; true if the server has answered positively.
    async fn confirm(&mut self) -> Result<bool, EngineError> {
        let (body, has_taken_long) = self.body().await?;
        if has_taken_long {
            return Ok(false);
        }
        self.know_layout(&body).await?;
        let error = match self.send(body, None).await {
            Ok(()) => return Ok(true),
            Err(Unsent::Lapsed) => {
                self.lapsed().await?;
                return Ok(false);
            }
            Err(Unsent::Failed(error)) => error,
        };
        self.tell_error(&error);
        self.tell_state(&error);
        let wrote_nothing = error.effect == Effect::None;
        if wrote_nothing && error.remedy == Remedy::Divert && !self.target.takes_dead_letters {
            self.refused = true;
        }
        if wrote_nothing && error.kind == TableFault::Differs && self.misfits().await? {
            return Ok(false);
        }
        self.after(error).await?;
        Ok(false)
    }

    async fn renew(&mut self, now: Sighting) -> Result<(), EngineError> {
        let generation = self.generation + 1;
        let body = Body::Generation(Generation {
            table: self.target.index,
            ordinal: self.ordinal,
            piece: self.piece.piece,
            generation,
            server: Some(recorded(self.target.index, now)),
        });
        self.context.journal.lock().await.append(body).await?;
        self.generation = generation;
        (self.in_doubt, self.refused, self.misfit) = (false, false, false);
        Ok(())
    }

    /// Seals the question that only the operator can answer, and gives the error to stop with.
    pub(super) async fn stop(&self, reason: StopReason, table_uuid: &str) -> EngineError {
        let mut journal = self.context.journal.lock().await;
        let question = Question {
            table: self.target.index,
            ordinal: self.ordinal,
            piece: self.piece.piece,
            reason: reason.number(),
            table_uuid: table_uuid.to_owned(),
            epoch: journal.lane().epoch,
            asked_at_ms: self.context.runtime.wall_ms(),
        };
        // A store that refuses the question, or another owner, is the nearer reason to stop.
        if let Err(error) = journal.append(Body::Question(question)).await {
            return error;
        }
        EngineError::Doubt {
            table: self.target.table.name().to_owned(),
            ordinal: self.ordinal,
            frame: FrameId(self.piece.id()).to_string(),
            reason,
            more: 0,
        }
    }

    /// What the operator has said of the piece under its present token, and of which table.
    fn answer(&self) -> Option<(Verdict, String)> {
        let question = self.piece.question.as_ref().filter(|_| self.generation == self.piece.generation)?;
        Some((self.piece.verdict?, question.table_uuid.clone()))
    }

    /// What the operator was asked last of the piece under its present token, whatever was answered of another table.
    fn asked(&self) -> Option<StopReason> {
        let question = self.piece.question.as_ref().filter(|_| self.generation == self.piece.generation)?;
        StopReason::from_number(question.reason)
    }

    /// True if the operator has accepted this table in place of the one that the piece was sealed for.
    pub(super) fn is_accepted(&self, table_uuid: &str) -> bool {
        !self.accepted_uuid.is_empty() && self.accepted_uuid == table_uuid
    }
}
