//! Columns that a table has now, and those that a piece was made for.
//!
//! Owns whether a piece is sent as it is, encoded again, replaced, or kept until its table has other columns. Does not own the encoding
//! ([`crate::refuse`]), nor which columns fit (the table says it).

use bytes::Bytes;
use dataflow::{Effect, Fit, Layout};

use super::Sending;
use crate::problem::State;
use crate::{EngineError, refuse};

/// The bytes of an attempt.
pub(super) enum Fitted {
    /// Those that were sealed.
    AsItIs,
    /// The same rows, encoded for these columns.
    Encoded((Bytes, Layout)),
    /// There are none for the columns of now: it was waited for others, and the doubt is judged anew.
    Waited,
}

impl Sending<'_> {
    /// Reads off the bytes which columns they hold, if no record says so.
    pub(super) async fn know_layout(&mut self, body: &Bytes) -> Result<(), EngineError> {
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
    pub(super) fn fit(&self) -> Fit {
        self.layout.as_ref().map_or(Fit::AsIs, |layout| self.target.table.fit(layout))
    }

    /// Replaces the piece by one for the columns of now, or waits for other ones. True if it was replaced.
    pub(super) async fn make_fit(&mut self, body: &Bytes) -> Result<bool, EngineError> {
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
    pub(super) async fn misfits(&mut self) -> Result<bool, EngineError> {
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
    pub(super) fn is_refused(&self) -> bool {
        self.refused || self.misfit && matches!(self.fit(), Fit::Again { .. })
    }

    /// What a piece in doubt is sent as, once the server has refused its bytes for their columns: its rows, encoded for the columns that the table has
    /// now. The token stays. A table that has taken the one takes no other insert with it, whatever its bytes are, so the rows still arrive once.
    pub(super) async fn fitted(&mut self, body: &Bytes) -> Result<Fitted, EngineError> {
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
    pub(super) async fn wait_for_columns(&mut self, words: &str) -> Result<(), EngineError> {
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

    /// True if the table answers at once and takes the piece's columns as they are. Otherwise waits until it answers: the rows
    /// are then sent again, or made to fit.
    pub(super) async fn is_unchanged(&mut self) -> bool {
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
}
