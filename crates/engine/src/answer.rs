//! An operator's answer to a question that stopped a lane.
//!
//! Owns the conditions under which an answer is taken, and its record. Does not own what is asked (`protocol::doubt`) nor
//! what follows from an answer: the next run reads it from the journal and decides with it.
//!
//! | what is there                                   | what happens                                       |
//! |-------------------------------------------------|----------------------------------------------------|
//! | no open question for the frame                  | refused, with the list of those that are open      |
//! | a newer owner than all that asked               | refused: it may be running; `take_over` overrides  |
//! | a newer owner that only answered                | nothing runs: as if it had not been there          |
//! | "absent", and an insert may still be on its way | refused, with the time to wait                     |
//! | otherwise                                       | claim, then one record for each answer             |
//!
//! An answer is written by an owner like every record, so that a lane that runs all the same is fenced and nothing is
//! answered behind its back. A process that has asked about one table and goes on with the others is fenced by it too; it waits until the
//! answers are written ([`is_answered`]), and opens the lane again.

use std::sync::Arc;
use std::time::Duration;

use dataflow::{FrameId, Runtime};
use protocol::Lane;
use protocol::doubt::Verdict;
use protocol::lane::{Piece, TableState};
use protocol::record::{Answer, Body, Question};
use store::Store;

use crate::journal::{self, Journal};
use crate::{EngineError, Settings};

/// What is answered, and by whom.
#[derive(Clone, Debug)]
pub struct Request {
    /// Frames by name, as messages and `status` show them; empty for every open question.
    pub frames: Vec<String>,
    /// The answer.
    pub verdict: Verdict,
    /// Who answers, for operators who read the journal.
    pub by: String,
    /// Answer although a process has claimed the lane since the question was asked.
    pub take_over: bool,
    /// The longest that an insert can be on its way: "absent" is not taken before the question is this old.
    pub insert_time_max: Duration,
}

/// Why an answer is not taken.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// No question is open for the frame.
    #[error("no question is open for frame `{frame}`; {}", listed(open))]
    NotOpen {
        /// The frame that was named; `any` if none was.
        frame: String,
        /// Frames whose questions are open.
        open: Vec<String>,
    },
    /// A process claimed the lane after the question was asked.
    #[error(
        "a process has taken the pipeline since this was asked, and may be running: see what it asks, or answer with \
         `--take-over`"
    )]
    Claimed,
    /// An insert of the frame may still arrive.
    #[error(
        "an insert may still be on its way for {wait_s} s (`sink.clickhouse.timeout` after the question was asked); look again \
         then, and answer"
    )]
    TooEarly {
        /// Seconds to wait.
        wait_s: u64,
    },
    /// The journal cannot be read or written.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

fn listed(open: &[String]) -> String {
    if open.is_empty() {
        return "no question is open at all".into();
    }
    format!("open are: `{}`", open.join("`, `"))
}

/// Writes the answer, and gives the names of the frames that were answered.
///
/// # Errors
/// When a condition does not hold (nothing was written then), or the journal cannot be read or written.
pub async fn answer(
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    folder: &str,
    request: &Request,
) -> Result<Vec<String>, AnswerError> {
    let lane = journal::load(&*store, folder).await?;
    // Looked at before the claim, so that a mistaken answer ends nobody.
    chosen(&lane, &*runtime, request)?;
    let pause = Settings::default().retry_pause_max;
    let owner = format!("answer by {}", request.by);
    let mut journal =
        Journal::claim_to_answer(store, runtime.clone(), folder.to_owned(), owner, pause).await?;
    let mut names = Vec::new();
    // Nobody else writes from here on; what was chosen above may have been settled by then.
    for question in chosen(journal.lane(), &*runtime, &Request { take_over: true, ..request.clone() })? {
        let Question { table, ordinal, piece, .. } = question.0;
        let verdict = request.verdict.number();
        let body = Body::Answer(Answer { table, ordinal, piece, verdict, by: request.by.clone() });
        journal.append(body).await?;
        names.push(question.1);
    }
    Ok(names)
}

/// How often a process that was fenced looks whether the answers are written.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The journal does not grow for so many looks once all answers of one command are in it. A command that takes longer for the next one is fenced
/// by the process and says so; what it has written counts.
const LOOKS_UNCHANGED: u32 = 6;

/// Whether the owner `epoch` was fenced by nothing but answers, so that the process may claim the lane again; returns once no more answers
/// come.
///
/// # Errors
/// When the journal cannot be read.
pub async fn is_answered(
    store: &dyn Store,
    runtime: &dyn Runtime,
    folder: &str,
    epoch: u64,
) -> Result<bool, EngineError> {
    let (mut next_seq, mut unchanged) = (0, 0);
    loop {
        let lane = journal::load(store, folder).await?;
        if lane.run_epoch != epoch || lane.epoch == epoch {
            return Ok(false);
        }
        unchanged = if lane.next_seq == next_seq { unchanged + 1 } else { 0 };
        if unchanged >= LOOKS_UNCHANGED {
            return Ok(true);
        }
        next_seq = lane.next_seq;
        runtime.sleep(LOOK_EVERY).await;
    }
}

/// The name of a piece's frame, as messages show it.
pub fn frame_name(piece: &Piece) -> String {
    FrameId(piece.id()).to_string()
}

/// The open questions that the request answers, with their frames' names.
fn chosen(
    lane: &Lane,
    runtime: &dyn Runtime,
    request: &Request,
) -> Result<Vec<(Question, String)>, AnswerError> {
    let question =
        |(_, piece): (&TableState, &Piece)| Some((piece.open_question()?.clone(), frame_name(piece)));
    let open: Vec<(Question, String)> = lane.open_questions().filter_map(question).collect();
    let names = || open.iter().map(|(_, name)| name.clone()).collect();
    // An owner that has asked stops; questions of earlier owners that are still open wait for the same person.
    let newest_has_asked = open.iter().any(|(question, _)| question.epoch == lane.epoch);
    for frame in &request.frames {
        if !open.iter().any(|(_, name)| name == frame) {
            return Err(AnswerError::NotOpen { frame: frame.clone(), open: names() });
        }
    }
    if open.is_empty() {
        return Err(AnswerError::NotOpen { frame: "any".into(), open: Vec::new() });
    }
    let chosen: Vec<(Question, String)> = open
        .into_iter()
        .filter(|(_, name)| request.frames.is_empty() || request.frames.contains(name))
        .collect();
    if !request.take_over && !newest_has_asked {
        return Err(AnswerError::Claimed);
    }
    if request.verdict == Verdict::Absent {
        let asked_at_ms = chosen.iter().map(|(question, _)| question.asked_at_ms).max().unwrap_or(0);
        let insert_ms = i64::try_from(request.insert_time_max.as_millis()).unwrap_or(i64::MAX);
        // All of it, also if the clock that asked was ahead of this one: nobody knows how long ago that was.
        let left_ms = asked_at_ms.saturating_add(insert_ms).saturating_sub(runtime.wall_ms());
        if left_ms > 0 {
            let wait_s = left_ms.unsigned_abs() / 1_000 + 1;
            return Err(AnswerError::TooEarly { wait_s });
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests;
