//! What went wrong at a table, as a closed set: so whoever decides by it has to decide about each of them.
//!
//! Owns the set, its words and which of them may come with values of rows. Does not own what an answer of a server means (`clickhouse::response`), nor
//! the problem that is shown for it (`engine::problem`).

/// What went wrong with an insert into a table, or with a question about it. Tables differ in what they can tell: each gives those that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableFault {
    /// The connection could not be opened.
    Connection,
    /// There was no answer in time.
    Timeout,
    /// The connection broke.
    Broken,
    /// The insert was given up before its last bytes: the lane has another owner.
    Fenced,
    /// The answer begins as a success and ends in a failure.
    ExceptionInBody,
    /// Something else than the server has answered.
    NotTheServer,
    /// The answer has neither a code of the server nor a status that is known.
    BadStatus,
    /// A materialized view failed on the rows.
    View,
    /// The frame touches several partitions of the table.
    TooManyPartitions,
    /// The table has too many parts: merges are behind.
    TooManyParts,
    /// The server takes no more work at the moment.
    Overloaded,
    /// The server's disk is full.
    NoSpace,
    /// The table takes no inserts.
    ReadOnly,
    /// Too few replicas are there for the quorum.
    NoQuorum,
    /// The request was damaged on its way.
    Damaged,
    /// An earlier copy of the request, or another one of its session, is still running.
    AlreadyRunning,
    /// The server refused the rows.
    BadContent,
    /// There is no such table.
    TableMissing,
    /// The table is not as it has to be: its columns, settings or views.
    Differs,
    /// The user may not do this.
    Access,
    /// The request is not understood.
    Request,
    /// The request is larger than a proxy lets through.
    TooLarge,
    /// The answer to a question is longer than the asker takes.
    TooLong,
    /// The replica that answers is behind, or has lost its keeper.
    ReplicaLags,
    /// The answer does not say what became of the request.
    Uncertain,
}

impl TableFault {
    /// Each of them.
    pub const ALL: [Self; 25] = [
        Self::Connection,
        Self::Timeout,
        Self::Broken,
        Self::Fenced,
        Self::ExceptionInBody,
        Self::NotTheServer,
        Self::BadStatus,
        Self::View,
        Self::TooManyPartitions,
        Self::TooManyParts,
        Self::Overloaded,
        Self::NoSpace,
        Self::ReadOnly,
        Self::NoQuorum,
        Self::Damaged,
        Self::AlreadyRunning,
        Self::BadContent,
        Self::TableMissing,
        Self::Differs,
        Self::Access,
        Self::Request,
        Self::TooLarge,
        Self::TooLong,
        Self::ReplicaLags,
        Self::Uncertain,
    ];

    /// The word in metrics, logs and documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
            Self::Fenced => "fenced",
            Self::ExceptionInBody => "exception_in_body",
            Self::NotTheServer => "not_clickhouse",
            Self::BadStatus => "bad_status",
            Self::View => "view",
            Self::TooManyPartitions => "too_many_partitions",
            Self::TooManyParts => "too_many_parts",
            Self::Overloaded => "overloaded",
            Self::NoSpace => "no_space",
            Self::ReadOnly => "read_only",
            Self::NoQuorum => "no_quorum",
            Self::Damaged => "damaged",
            Self::AlreadyRunning => "already_running",
            Self::BadContent => "bad_content",
            Self::TableMissing => "table_missing",
            Self::Differs => "table",
            Self::Access => "access",
            Self::Request => "request",
            Self::TooLarge => "too_large",
            Self::TooLong => "too_long",
            Self::ReplicaLags => "replica_lags",
            Self::Uncertain => "uncertain",
        }
    }

    /// Whether the server's words may quote values of rows, although the rows themselves were not refused.
    pub(super) fn may_quote_rows(self) -> bool {
        match self {
            Self::View | Self::Uncertain | Self::ExceptionInBody | Self::NotTheServer => true,
            // Of refused rows the remedy says so.
            Self::BadContent
            | Self::Connection
            | Self::Timeout
            | Self::Broken
            | Self::Fenced
            | Self::BadStatus
            | Self::TooManyPartitions
            | Self::TooManyParts
            | Self::Overloaded
            | Self::NoSpace
            | Self::ReadOnly
            | Self::NoQuorum
            | Self::Damaged
            | Self::AlreadyRunning
            | Self::TableMissing
            | Self::Differs
            | Self::Access
            | Self::Request
            | Self::TooLarge
            | Self::TooLong
            | Self::ReplicaLags => false,
        }
    }
}

impl std::fmt::Display for TableFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}
