//! An insert has no positive answer, or its owner died: is the frame in the table, and what now?
//!
//! Owns the decision from facts already read. Does not own the reading (`dataflow::Table::{see, probe, end_attempts}`), nor
//! what makes a token stand (`dataflow::Tokens`).
//!
//! A token proves presence only while it certainly stands *with its rows*. A server that crashed may keep a token whose
//! rows are lost, and other writers may have evicted the token; then only a probe for the rows themselves helps.
//!
//! | operator said | table is another  | token certainly stands | earlier attempts | rows found  | views | confirmed | decision       |
//! |---------------|-------------------|------------------------|------------------|-------------|-------|-----------|----------------|
//! | present       | no                |                        |                  |             |       |           | settle         |
//! | absent        | no                |                        | may be alive     |             |       |           | end attempts   |
//! | absent        | no                |                        | dead             |             |       |           | new generation |
//! |               | yes               |                        |                  |             |       |           | stop           |
//! |               | yes, accepted     | taken as: no           |                  |             |       |           | as below       |
//! |               | no                | yes                    | may be alive     |             |       |           | end attempts   |
//! |               | no                | yes                    | dead             |             |       |           | resend (*)     |
//! |               | no                | no                     | may be alive     |             |       |           | end attempts   |
//! |               | no                | no                     | dead             | not looked  |       |           | probe          |
//! |               | no                | no                     | dead             | cannot tell |       |           | stop           |
//! |               | no                | no                     | dead             | some        |       |           | stop           |
//! |               | no                | no                     | dead             | all         | no    |           | settle         |
//! |               | no                | no                     | dead             | all         | yes   | no        | stop           |
//! |               | no                | no                     | dead             | all         | yes   | yes       | settle         |
//! |               | no                | no                     | dead             | none        |       | no        | confirm        |
//! |               | no                | no                     | dead             | none        | no    | yes       | new generation |
//! |               | no                | no                     | dead             | none        | yes   | yes       | stop (**)      |
//! | was asked(**) |                   | no                     | dead             | none        | yes   |           | stop           |
//! |               | yes, accepted     | taken as: no           | dead             | none        | yes   |           | stop (***)     |
//! | was asked (4) | no                | taken as: no           |                  |             |       |           | as above       |
//! | crashed (5)   | no                | no                     | dead             | none        | yes   |           | stop           |
//!
//! Attempts are ended before a resend too: one that the server still works on when the token is evicted, long after the resend,
//! would write the rows again.
//!
//! A decision to send again rests on facts that age while the bytes travel. Before the last of them leave, the table is polled again,
//! and the sink's rules say whether the decision still holds; if not, the request is never completed, and the frame is decided again. A first
//! attempt under a token needs no such check: no earlier copy of it exists that could have been forgotten.
//!
//! Whether a token *certainly stands* is decided by the sink's rules, from what it saw before the first attempt and what it sees now
//! (`dataflow::Tokens`; those of ClickHouse are in `tokens`). Here it is one of the facts.
//!
//! To *confirm* is to send the same bytes under the same token until the server answers positively, and to probe again. No list
//! of running inserts shows one that is still in a proxy or a socket; once the token stands, such a late copy is a no-op.
//!
//! (*) Unless the server refuses the frame's content: then resending never ends the doubt, and the rows are probed as if
//! the token did not stand. If they cannot be identified, it is resent all the same: the operator may fix the table. Where the content is refused
//! because columns have changed since, and the new ones hold every value, it is resent as the same rows in those columns: the token alone says
//! whether the table has them.
//!
//! (**) The table knows the token and lost the rows in a crash, but its views do not know it: the answer that confirms it brought them
//! to the views' targets, also of rows that the table dropped as known. A new token would bring them there twice; so would the old one once
//! it is forgotten, so that the question stays until it is answered, whoever owns the lane.
//!
//! (***) The rows may have been dropped with the earlier table while the views' targets have them, or a crash left the token in a target without
//! its rows: in both the same token says nothing of the target.
//!
//! (4) Who is asked for missing rows may bring them, or delete those that are there, before the answer is recorded. The token then says nothing of
//! the rows any more, however certainly it stands, so the frame is never resent: its rows are probed, and the question stays until it is
//! answered or the rows are where they belong.
//!
//! (5) The server of a plain table has restarted since the first attempt, so that the table may know the token of rows that it lost. A later attempt, whose answer was lost
//! as well, may have fed the targets of the views alone, and these may have forgotten the token since: sent once more, the rows would be there twice.
//!
//! The operator's word is about the table that was there when it was asked for; with another table in its place it is asked again.

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No row of the frame.
    None,
    /// Every row.
    All,
    /// Some rows.
    Part,
    /// The table does not show it.
    CannotTell,
}

/// Facts about one frame in doubt.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The table as seen before the first attempt under the present token, by identity; `None` if it never was.
    pub table_before: Option<String>,
    /// The table now.
    pub table: String,
    /// True if the token certainly stands, by what was seen before the first attempt and what is seen now.
    pub token_stands: bool,
    /// True if the table feeds materialized views.
    pub feeds_views: bool,
    /// True if an earlier attempt may have fed the targets of the views and not the table, and these may have forgotten the token.
    pub in_views_alone: bool,
    /// What was found, if it was looked for.
    pub found: Option<Found>,
    /// Attempts that still run, if it was asked *before* the probe.
    pub alive: Option<u64>,
    /// True if the server has answered a resend under the present token positively since the doubt began, and `found` is newer.
    pub confirmed: bool,
    /// True if the server refused the frame for its content while an earlier attempt was in doubt.
    pub refused: bool,
    /// What the operator was asked last of it under the present token; an answer for the present table comes before it.
    pub asked: Option<StopReason>,
    /// What the operator said of it, and of which table (by identity).
    pub answer: Option<(Verdict, String)>,
    /// True if the operator has accepted the table that is there now in place of the one the frame was sealed for.
    pub accepted: bool,
}

impl Facts {
    /// The open question whose answer the operator may have prepared by bringing rows or deleting them.
    fn mending(&self) -> Option<StopReason> {
        self.asked.filter(|asked| match asked {
            StopReason::ViewsUnknown | StopReason::PartPresent => true,
            StopReason::CannotTell => self.feeds_views,
            StopReason::TableChanged => false,
        })
    }
}

/// What the operator says of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its rows are in the table, and in the targets of its views.
    Present,
    /// None of its rows is there, and none is on its way.
    Absent,
}

impl Verdict {
    /// The number in a journal record.
    pub fn number(self) -> u32 {
        match self {
            Self::Present => 1,
            Self::Absent => 2,
        }
    }

    /// The verdict of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::Present, Self::Absent].into_iter().find(|v| v.number() == number)
    }
}

/// What to do with the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The same rows under the same token.
    Resend,
    /// End running attempts and count them, then ask again.
    EndAttempts,
    /// Look for the rows, then ask again.
    Probe,
    /// The same bytes under the same token once more, and then look again. Nothing of the frame was found, but an attempt may
    /// still be on its way in a proxy or a socket, where no list shows it. After a positive answer the token stands for certain, so
    /// that a late copy is a no-op, whether the rows came with this answer or are proven absent.
    Confirm,
    /// It is there.
    Settle,
    /// Seal a new generation, then send under its token.
    NewGeneration,
    /// The operator must decide.
    Stop(StopReason),
}

/// Why only the operator can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The table was dropped and made again.
    TableChanged,
    /// There is neither a provenance column nor a unique key.
    CannotTell,
    /// Some rows of the frame are there and some are not.
    PartPresent,
    /// The rows are in the table, but it cannot be known whether its views have them; or its views have them and the table lost them.
    ViewsUnknown,
}

impl StopReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::TableChanged, Self::CannotTell, Self::PartPresent, Self::ViewsUnknown];

    /// The number in a journal record; never used anew.
    pub fn number(self) -> u32 {
        match self {
            Self::TableChanged => 1,
            Self::CannotTell => 2,
            Self::PartPresent => 3,
            Self::ViewsUnknown => 4,
        }
    }

    /// The reason of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.number() == number)
    }

    /// The word in status and documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::TableChanged => "table_changed",
            Self::CannotTell => "cannot_tell",
            Self::PartPresent => "part_present",
            Self::ViewsUnknown => "views_unknown",
        }
    }

    /// What happened, for the operator.
    pub fn explain(self) -> &'static str {
        match self {
            Self::TableChanged => {
                "the table is not the one that the rows were sealed for: it was dropped and created again, or exchanged, or another replica answers, which was \
                 created by a statement of its own"
            }
            Self::CannotTell => {
                "the answer to an insert was lost, and it is no longer known whether its rows arrived: its token proves nothing any more \
                 (it is too old, the server restarted, or the table or one of its views was altered, created or dropped since), and the rows cannot be looked for (no `_forebay` column or `unique_key` when they \
                 were sealed, one that was dropped and added again, a merging engine, a TTL, or a replica that lags)"
            }
            Self::PartPresent => {
                "some rows of one insert are in the table and some are not: the table was changed by others (a DELETE, or \
                 an insert with the same keys)"
            }
            Self::ViewsUnknown => {
                "the rows of an insert are in the table, but it had no answer and its token no longer proves anything, so the \
                 targets of its materialized views may lack them; or a crash took them from the table alone, and the targets \
                 have them, or may have them"
            }
        }
    }

    /// What the operator is asked, in words that `present` and `absent` answer.
    pub fn question(self) -> &'static str {
        match self {
            Self::TableChanged => {
                "are these rows in the present table? `present`: they were copied to it, do not send them; `absent`: send \
                 them to it. Either answer accepts this table for all waiting rows. If it is the wrong table, restore \
                 the right one instead and start again"
            }
            Self::CannotTell => {
                "are these rows in the table? `present`: they are, do not send them again; `absent`: they are not, send them. If the \
                 table feeds materialized views, their targets must agree with the answer: insert what they lack before `present`, \
                 delete what they have before `absent`"
            }
            Self::PartPresent => {
                "should the missing rows come back? `present`: no, leave the table as it is; `absent`: delete the rows of \
                 this insert that are there first, then all of them are sent"
            }
            Self::ViewsUnknown => {
                "do the table and the targets of the views have these rows? `present`: all do, or you have inserted them there; `absent`: \
                 delete the insert's rows from the table and from the targets first, then all of them are sent"
            }
        }
    }
}

/// Decides what is done with a frame in doubt, by the module's table.
pub fn decide(facts: &Facts) -> Decision {
    if let Some((verdict, of_table)) = &facts.answer
        && *of_table == facts.table
    {
        return match verdict {
            Verdict::Present => Decision::Settle,
            Verdict::Absent if facts.alive != Some(0) => Decision::EndAttempts,
            Verdict::Absent => Decision::NewGeneration,
        };
    }
    let is_other = facts.table_before.as_ref().is_some_and(|before| *before != facts.table);
    if is_other && !facts.accepted {
        return Decision::Stop(StopReason::TableChanged);
    }
    // Attempts are ended before the rows are looked for: one that lived through the probe could land behind it. A restart
    // ends attempts too, but only those made before it, and an attempt's time by the server's clock is not known. They are
    // ended before a resend as well: one that outlived the memory of its token would write the rows again.
    if facts.alive != Some(0) {
        return Decision::EndAttempts;
    }
    // The operator who was asked may have brought rows to a view, or deleted some: no token shows that.
    if facts.token_stands && facts.table_before.is_some() && !is_other && facts.mending().is_none() {
        let is_told = !matches!(
            (facts.found, facts.feeds_views),
            (Some(Found::CannotTell), _) | (Some(Found::All), true)
        );
        if !(facts.refused && is_told) {
            return Decision::Resend;
        }
    }
    let views_asked = facts.asked == Some(StopReason::ViewsUnknown);
    match facts.found {
        None => Decision::Probe,
        // A narrower question must not take the place of one that is open.
        Some(Found::CannotTell) => Decision::Stop(facts.mending().unwrap_or(StopReason::CannotTell)),
        Some(Found::Part) => Decision::Stop(facts.mending().unwrap_or(StopReason::PartPresent)),
        Some(Found::All) if facts.feeds_views && !facts.confirmed => Decision::Stop(StopReason::ViewsUnknown),
        Some(Found::All) => Decision::Settle,
        Some(Found::None)
            if facts.feeds_views && (facts.confirmed || views_asked || is_other || facts.in_views_alone) =>
        {
            Decision::Stop(StopReason::ViewsUnknown)
        }
        Some(Found::None) if facts.confirmed || facts.refused => Decision::NewGeneration,
        Some(Found::None) => Decision::Confirm,
    }
}

#[cfg(test)]
mod tests;
