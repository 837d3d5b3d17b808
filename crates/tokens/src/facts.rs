//! What was seen of a server and a table at one moment.
//!
//! Owns the bytes that the engine and the journal carry. Does not own how they are asked for (`clickhouse::checks::sight`).

use dataflow::Sighting;
use prost::Message;

/// The server, and how its tables remember inserts.
#[derive(Clone, PartialEq, Message)]
pub struct Facts {
    /// When the server started, Unix milliseconds by its own clock (precise to a second or two).
    #[prost(sint64, tag = "1")]
    pub start_ms: i64,
    /// The server's clock when it answered, Unix milliseconds.
    #[prost(sint64, tag = "2")]
    pub seen_ms: i64,
    /// The server's identity; empty if it has none.
    #[prost(string, tag = "3")]
    pub server_uuid: String,
    /// The newest block number of the table: moves with every insert by anyone.
    #[prost(uint64, tag = "4")]
    pub block_number: u64,
    /// The newest block number of each materialized view's target, by the targets' names, each target once; empty without views. A
    /// target has tokens and writers of its own.
    #[prost(uint64, repeated, tag = "5")]
    pub view_blocks: Vec<u64>,
    /// How many tokens the table remembers (the smallest over the table and its views' targets).
    #[prost(uint64, tag = "6")]
    pub token_window: u64,
    /// How many tokens one frame costs at most: its parts, twice where the server writes two hashes for each.
    #[prost(uint64, tag = "7")]
    pub tokens_per_frame: u64,
    /// How long a token is remembered at least, in milliseconds; `None` if only the number counts.
    #[prost(uint64, optional, tag = "8")]
    pub token_age_ms_max: Option<u64>,
    /// How many tokens one step of [`block_number`](Self::block_number), or of a number in [`view_blocks`](Self::view_blocks), may stand
    /// for at most: an upper bound for inserts by anyone. A server may write two hashes for one insert, and one part may hold the
    /// asynchronous inserts of many clients, with a token each. `None` where nothing bounds it.
    #[prost(uint64, optional, tag = "9")]
    pub tokens_per_block_max: Option<u64>,
    /// When the server was asked, by our own clock, milliseconds: one that begins at the process's wall clock and then runs without
    /// steps. The server's clock may be set back, and then hide a restart.
    #[prost(sint64, tag = "10")]
    pub asked_ms: i64,
    /// When its answer was there, by the same clock.
    #[prost(sint64, tag = "11")]
    pub answered_ms: i64,
    /// The time zone of the inserts, by which their rows fall into partitions; each partition remembers its own tokens.
    #[prost(string, tag = "12")]
    pub zone: String,
    /// When the metadata of the table, of a view or of its target was written last, by the server's clock, Unix milliseconds of a whole second: each
    /// ALTER writes them. 0 where the database does not say.
    #[prost(sint64, tag = "13")]
    pub altered_ms: i64,
    /// A hash of the declarations of the table and its views' targets; 0 in a sighting that an earlier version made.
    #[prost(fixed64, tag = "14")]
    pub declaration: u64,
    /// A hash of what those say of their engines, with keys and settings.
    #[prost(fixed64, tag = "15")]
    pub engine: u64,
    /// True if rows can be looked for, because a column names their insert or their key never repeats.
    #[prost(bool, tag = "16")]
    pub names_rows: bool,
    /// When a poll last found that fewer tokens are remembered than the poll before, or for a shorter time, by our own clock, milliseconds; 0 if none
    /// did.
    #[prost(sint64, tag = "17")]
    pub narrowed_ms: i64,
    /// A hash of what decides which rows an insert writes where, and under which token: the declarations of the views, the identities of their targets,
    /// and the expressions behind keys of partitions; 0 in a sighting that an earlier version made.
    #[prost(fixed64, tag = "18")]
    pub routes: u64,
    /// True if rows were looked for by the column that names their insert, and some rows of the table name none; or by their key, and in some rows a column
    /// of it holds what a column that is added begins with.
    #[prost(bool, tag = "19")]
    pub has_unnamed: bool,
}

impl Facts {
    /// How long the server had run when it answered, milliseconds: it counts them itself, whatever its clock is set to.
    pub fn uptime_ms(&self) -> i64 {
        self.seen_ms.saturating_sub(self.start_ms)
    }

    /// How long it took to answer, milliseconds.
    pub fn answer_ms(&self) -> i64 {
        self.answered_ms.saturating_sub(self.asked_ms).max(0)
    }

    /// The same as the engine carries them, with what it reads itself: the identity of the table, and whether inserts feed views.
    pub fn seen(&self, table_uuid: impl Into<String>) -> Sighting {
        Sighting {
            table_uuid: table_uuid.into(),
            feeds_views: !self.view_blocks.is_empty(),
            facts: self.encode_to_vec().into(),
        }
    }

    /// What a sighting carries; `None` if that are no facts of a ClickHouse server. Then nothing is trusted.
    pub fn of(sighting: &Sighting) -> Option<Self> {
        if sighting.facts.is_empty() {
            return None;
        }
        Self::decode(&*sighting.facts).ok()
    }
}
