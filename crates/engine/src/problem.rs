//! What a running lane waits for, as a state of its own: what, since when, with which effect, and the way out.
//!
//! Owns the states, their words and the rule when one begins and ends. Held in [`crate::status`], one for each table, one for each
//! input and one for the store, so that they take bounded room whatever goes wrong. Does not own retries, nor the states that
//! a lane *stops* in ([`crate::EngineError::STATES`]). Pure but for the metric.
//!
//! | begins with                                     | ends with                                   |
//! |-------------------------------------------------|---------------------------------------------|
//! | an insert without a positive answer             | the next frame that is settled in that table |
//! | a look at the table that fails                  | the next look that does not                 |
//! | a source that does not answer                   | the next record or position from it         |
//! | the same, for a limit of this process           | as for what it could not ask                |
//! | a lookup's other side that cannot be read       | the next record or position from the input  |
//! | a store that does not answer a read             | the next good answer                        |
//! | a store that does not take an object            | the next object of that size that it takes  |
//!
//! | metric            | labels           | meaning                                                        |
//! |-------------------|------------------|----------------------------------------------------------------|
//! | `forebay_problem` | `place`, `state` | 1 while it stands, 0 once it has ended                         |

use dataflow::{Effect, SourceFault, TableFault};
use metrics::gauge;
use store::ErrorKind;

/// The name of the input that a pipeline file with `source:` has, and so its place among the problems; other inputs and tables are named by
/// themselves.
pub const SOURCE: &str = "source";
/// The place of the store.
pub const STORE: &str = "store";

/// Characters kept of anybody's words: a sentence or two.
const WORDS_CHARS_MAX: usize = 600;

/// What the operating system says when this process has no descriptor left, when the machine has none, and when a disk or the table of watched
/// sockets is full; and what a Kafka source makes of the first.
const OWN_LIMITS: [&str; 4] =
    ["(os error 24)", "(os error 23)", "(os error 28)", "this process has no file descriptor left"];

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The server refuses the user.
    Access,
    /// There is no such table or database.
    TableMissing,
    /// The table has other columns, settings or views than at the start.
    TableDiffers,
    /// The server's disk is full.
    NoSpace,
    /// The table takes no inserts: its keeper is away, or somebody made it read-only.
    ReadOnly,
    /// Merges are behind.
    TooManyParts,
    /// Too few replicas for the quorum.
    NoQuorum,
    /// The server takes no more work at the moment.
    Overloaded,
    /// The server does not answer, or not in time.
    ServerAway,
    /// This process or its machine has reached a limit of its own, so that it cannot ask the other side.
    OwnLimit,
    /// The replica that answers is behind, and rows must be looked for.
    ReplicaLags,
    /// An earlier insert of a frame in doubt still runs on the server, and must end before its rows are looked for.
    AttemptRuns,
    /// A materialized view turns the rows down.
    View,
    /// The server, or what stands before it, does not take the request.
    Request,
    /// Rows are turned down that cannot go to the dead letters.
    RowsRefused,
    /// An answer that says nothing of the rows.
    Unclear,
    /// A frame waits for the operator's answer, and other tables go on meanwhile.
    Asks,
    /// The source does not answer.
    SourceAway,
    /// The rows that a lookup reads cannot be read or used.
    LookupAway,
    /// The source refuses, and the process ends once all that is sealed is in the table.
    SourceRefuses,
    /// The source of one input refuses, and the others are read on.
    InputRefuses,
    /// The state of a step is damaged, and the process ends once all that is sealed is in the table.
    StateDamaged,
    /// The store does not answer.
    StoreAway,
    /// The store has no room.
    StoreFull,
    /// The store does not let this user write or read.
    StoreAccess,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 25] = [
        Self::Access,
        Self::TableMissing,
        Self::TableDiffers,
        Self::NoSpace,
        Self::ReadOnly,
        Self::TooManyParts,
        Self::NoQuorum,
        Self::Overloaded,
        Self::ServerAway,
        Self::OwnLimit,
        Self::ReplicaLags,
        Self::AttemptRuns,
        Self::View,
        Self::Request,
        Self::RowsRefused,
        Self::Unclear,
        Self::Asks,
        Self::SourceAway,
        Self::LookupAway,
        Self::SourceRefuses,
        Self::InputRefuses,
        Self::StateDamaged,
        Self::StoreAway,
        Self::StoreFull,
        Self::StoreAccess,
    ];

    /// The state behind what went wrong at a table, which is finer. An insert that was [fenced](TableFault::Fenced) ran
    /// into nothing at the table, and has none.
    pub fn of_table(fault: TableFault) -> Option<Self> {
        Some(match fault {
            TableFault::Fenced => return None,
            TableFault::Access => Self::Access,
            TableFault::TableMissing => Self::TableMissing,
            TableFault::Differs => Self::TableDiffers,
            TableFault::NoSpace => Self::NoSpace,
            TableFault::ReadOnly => Self::ReadOnly,
            TableFault::TooManyParts => Self::TooManyParts,
            TableFault::NoQuorum => Self::NoQuorum,
            TableFault::Overloaded | TableFault::AlreadyRunning => Self::Overloaded,
            TableFault::Connection | TableFault::Timeout | TableFault::Broken | TableFault::BadStatus => {
                Self::ServerAway
            }
            TableFault::ReplicaLags => Self::ReplicaLags,
            TableFault::View => Self::View,
            TableFault::Request | TableFault::TooLarge | TableFault::TooManyPartitions => Self::Request,
            TableFault::BadContent => Self::RowsRefused,
            TableFault::Uncertain
            | TableFault::ExceptionInBody
            | TableFault::NotTheServer
            | TableFault::Damaged
            | TableFault::TooLong => Self::Unclear,
        })
    }

    /// The state behind the words of whoever was asked: another one if the other side could not be asked at all, for want of something on this
    /// machine. The operating system's number is the same in every language.
    pub fn behind(self, words: &str) -> Self {
        match self {
            Self::ServerAway | Self::SourceAway | Self::StoreAway
                if OWN_LIMITS.iter().any(|limit| words.contains(limit)) =>
            {
                Self::OwnLimit
            }
            _ => self,
        }
    }

    /// The state behind the kind of a store's error.
    pub fn of_store(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Full => Self::StoreFull,
            ErrorKind::Permission => Self::StoreAccess,
            ErrorKind::TooLarge
            | ErrorKind::OutOfRange
            | ErrorKind::Corrupt
            | ErrorKind::Conflict
            | ErrorKind::NotSupported
            | ErrorKind::Missing
            | ErrorKind::Url
            | ErrorKind::SyncFailed
            | ErrorKind::Stopped
            | ErrorKind::Io => Self::StoreAway,
        }
    }

    /// The state behind the fault of a source that may pass.
    pub fn of_source(fault: SourceFault) -> Self {
        match fault {
            SourceFault::Lookup => Self::LookupAway,
            SourceFault::Away => Self::SourceAway,
            SourceFault::Refused | SourceFault::Config | SourceFault::Store => Self::SourceRefuses,
        }
    }

    /// The word in status, metrics and documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::TableMissing => "table_missing",
            Self::TableDiffers => "table_differs",
            Self::NoSpace => "no_space",
            Self::ReadOnly => "read_only",
            Self::TooManyParts => "too_many_parts",
            Self::NoQuorum => "no_quorum",
            Self::Overloaded => "overloaded",
            Self::ServerAway => "server_away",
            Self::OwnLimit => "own_limit",
            Self::ReplicaLags => "replica_lags",
            Self::AttemptRuns => "attempt_runs",
            Self::View => "view",
            Self::Request => "request",
            Self::RowsRefused => "rows_refused",
            Self::Unclear => "unclear",
            Self::Asks => "asks",
            Self::SourceAway => "source_away",
            Self::LookupAway => "lookup_away",
            Self::SourceRefuses => "source_refuses",
            Self::InputRefuses => "input_refuses",
            Self::StateDamaged => "state_damaged",
            Self::StoreAway => "store_away",
            Self::StoreFull => "store_full",
            Self::StoreAccess => "store_access",
        }
    }

    /// The way out, for the operator.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Access => {
                "give the user its password or grant back on the server, or put the new password where the pipeline file takes it \
                 from and restart"
            }
            Self::TableMissing => {
                "restore the table; if it was created again, the pipeline stops and asks about inserts in doubt"
            }
            Self::TableDiffers => {
                "follow the message; where it names a statement that restores the columns of the waiting rows, run it"
            }
            Self::NoSpace => "free space on the server's disk",
            Self::ReadOnly => "start the table's keeper, or make the table writable",
            Self::TooManyParts => "let merges catch up; larger batches make fewer parts",
            Self::NoQuorum => "start the missing replicas, or require a smaller quorum",
            Self::Overloaded => {
                "wait; if it does not pass, give the server more resources or the user a larger quota"
            }
            Self::ServerAway => "start the server, or check the network",
            Self::OwnLimit => {
                "the other side is not at fault: raise the limit of this process or machine that the message names (descriptors: \
                 `prlimit --nofile`, or `LimitNOFILE=` of its unit; space on a disk), or end what uses it up"
            }
            Self::ReplicaLags => {
                "wait until the replica catches up; if it does not, check its queue and its keeper"
            }
            Self::AttemptRuns => {
                "wait: it was killed and should end; if it does not, check `system.processes` and any proxy in front of the server"
            }
            Self::View => {
                "fix the materialized view; if it is dropped, the rows that wait are missing from its target"
            }
            Self::Request => {
                "fix what the message names: the address, a setting of the user, or a limit of a proxy"
            }
            Self::RowsRefused => "fix the table so that it accepts the rows; nothing is dropped until then",
            Self::Unclear => "wait; if it does not pass, search the server's log for the message",
            Self::Asks => {
                "answer the question with `forebay answer`; until then the other tables are written, and this process continues with the answer"
            }
            Self::SourceAway => "start the source, or check the network",
            Self::LookupAway => {
                "make the other side of the step that the message names readable (start its server, restore its table or file), or correct its rows as the \
                 message says; records wait until then, and the source needs nothing"
            }
            Self::SourceRefuses => {
                "nothing more is read: the process ends once what is sealed is in the table; follow the message, then start it again"
            }
            Self::InputRefuses => {
                "nothing more is read of this input, and the others go on: follow the message, then restart the process"
            }
            Self::StateDamaged => {
                "nothing more is read: the process ends once what is sealed is in the table; then follow the message"
            }
            Self::StoreAway => "restore access to the store: nothing is sealed or sent without it",
            Self::StoreFull => {
                "free some space in the store or raise its quota: nothing is sealed without it"
            }
            Self::StoreAccess => {
                "give the process read, write, list and delete access to the store: nothing is sealed or sent without it"
            }
        }
    }
}

/// Who noticed: a problem ends when the same asks again and has a better answer, or when a frame is settled. A store that can be
/// read may still take no object, as a table that answers may take no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// A question: about the table, to the source, to the store.
    Asking,
    /// An insert, or a put into the store.
    Inserting,
}

/// One thing that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What.
    pub state: State,
    /// The newest words of the server, the source or the store; no secrets, bounded.
    pub words: String,
    /// Whether rows, or the store's object, may have been written all the same. Such an attempt is in doubt, and what became
    /// of it is found out before anything of it is sent again.
    pub effect: Effect,
    /// When it began, Unix milliseconds.
    pub since_ms: i64,
    /// Times that it was met since.
    pub times: u64,
    /// Who noticed it: an insert, if one ever did.
    pub noticed: Noticed,
}

/// A problem is met: `now` at the wall clock. Gives what stands from now on, and whether it has begun just now. An effect that
/// is unknown stays so until the problem ends. What an insert has met is ended by an insert alone, whoever met it first.
pub fn met(
    before: Option<Problem>,
    state: State,
    words: &str,
    effect: Effect,
    noticed: Noticed,
    now_ms: i64,
) -> (Problem, bool) {
    let words: String = words.chars().take(WORDS_CHARS_MAX).collect();
    let by_inserting =
        |before: &Problem| before.noticed == Noticed::Inserting || noticed == Noticed::Inserting;
    match before {
        Some(before) if before.state == state => {
            let effect = if before.effect == Effect::Unknown { Effect::Unknown } else { effect };
            let noticed = if by_inserting(&before) { Noticed::Inserting } else { Noticed::Asking };
            (Problem { words, effect, noticed, times: before.times + 1, ..before }, false)
        }
        // Another problem of the same place: what was unknown is so still.
        Some(before) => {
            let effect = if before.effect == Effect::Unknown { Effect::Unknown } else { effect };
            let noticed = if by_inserting(&before) { Noticed::Inserting } else { Noticed::Asking };
            (Problem { state, words, effect, since_ms: now_ms, times: 1, noticed }, true)
        }
        None => (Problem { state, words, effect, since_ms: now_ms, times: 1, noticed }, true),
    }
}

/// The word for an effect in status.
pub fn effect_word(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "none",
        Effect::Unknown => "unknown",
    }
}

/// Sets the metric of a problem.
pub fn tell(place: &str, state: State, stands: bool) {
    let labels = [("place", place.to_owned()), ("state", state.word().to_owned())];
    gauge!("forebay_problem", &labels).set(if stands { 1.0 } else { 0.0 });
}

#[cfg(test)]
mod tests;
