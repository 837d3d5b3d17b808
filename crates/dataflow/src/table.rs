//! Where rows end: a table that takes frames.
//!
//! Owns the contract between the engine and a server. Does not own when a frame may be sent, or what a lost answer means
//! (`protocol`), nor retries and back-off (`engine::deliver`).

mod fault;

use std::ops::Range;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;

pub use fault::TableFault;

use crate::{Column, Effect, Fit, Layout, Remedy, Schema, Selected, Sighting, Tokens};

/// Names a frame for ever: random by its claim's nonce, so that no two lanes, incarnations or restored stores share one.
/// Also the value of the provenance column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u128);

impl std::fmt::Display for FrameId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The body of one insert: one Native block, compressed, of one table partition.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The frame's name.
    pub id: FrameId,
    /// The table partition that all its rows fall into, as a readable key (empty if the table has none).
    pub table_partition: String,
    /// Rows in `body`; at least 1.
    pub rows: u64,
    /// The bytes to send, as they are.
    pub body: Bytes,
    /// What [`Table::probe`] needs to find the frame again, as the table was when it was encoded; empty if it cannot be found.
    pub probe: Bytes,
    /// Which rows these are: what ties a row that the server refuses to its record.
    pub rows_from: RowsFrom,
}

/// Which of the rows given to [`Table::encode`] a frame holds, in the frame's order. Kept rows are numbered from 0 over all
/// batches; dropped rows have no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowsFrom {
    /// These, one after the other.
    Run(Range<u32>),
    /// These, in this order: they were sorted, or cut by the table's partition.
    Picked(Vec<u32>),
}

impl RowsFrom {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Run(range) => range.len(),
            Self::Picked(rows) => rows.len(),
        }
    }

    /// True if there are none; a frame has some.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the frame's row `at` among the rows given; panics when `at >= len()`.
    pub fn get(&self, at: usize) -> u32 {
        match self {
            Self::Run(range) => {
                assert!(at < range.len(), "row `{at}` of a frame of `{}`", range.len());
                range.start + at as u32
            }
            Self::Picked(rows) => rows[at],
        }
    }
}

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// No row of the frame is there.
    None,
    /// All rows are there.
    All,
    /// Some are: others have changed the table.
    Part {
        /// Rows (or sampled keys) found.
        found: u64,
        /// Rows (or sampled keys) looked for.
        expected: u64,
    },
    /// The table does not show it: no provenance column and no unique key.
    Inadmissible,
}

/// Asked once more before the last bytes of an insert leave, so that a process that slept cannot complete one.
#[async_trait]
pub trait Gate: Send + Sync {
    /// True while this process still owns the lane.
    async fn may_complete(&self) -> bool;
}

/// One attempt at one insert.
pub struct Attempt<'a> {
    /// The deduplication token.
    pub token: &'a str,
    /// Unique to this attempt; begins with `forebay-` and the frame's id.
    pub query_id: &'a str,
    /// The frame's bytes.
    pub body: Bytes,
    /// The columns that the bytes hold, if they are known; otherwise those that [`Table::encode`] makes frames for.
    pub layout: Option<&'a Layout>,
    /// The ownership check.
    pub gate: &'a dyn Gate,
}

/// Why an insert has no positive answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct InsertError {
    /// Whether rows may have been written.
    pub effect: Effect,
    /// What to do.
    pub remedy: Remedy,
    /// The server's error code; 0 if it gave none.
    pub code: i32,
    /// What went wrong.
    pub kind: TableFault,
    /// The whole sentence, with the way out; no secrets.
    pub message: String,
}

impl InsertError {
    /// The words for logs and status: without values of rows, which the server may quote where it turned rows down. The dead
    /// letter has the whole message.
    pub fn redacted(&self) -> String {
        let quotes_rows = self.remedy == Remedy::Divert || self.kind.may_quote_rows();
        if quotes_rows { crate::printing::without_values(&self.message) } else { self.message.clone() }
    }
}

/// Why a table cannot be used or queried.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct TableError {
    /// `Resend` if the query is worth repeating, `Stop` if an operator must act.
    pub remedy: Remedy,
    /// What went wrong.
    pub kind: TableFault,
    /// The whole sentence, with the statement that fixes it.
    pub message: String,
}

/// A table that deduplicates inserts by token.
///
/// 1. [`Table::encode`] is pure: the same rows and ids give the same frames. It holds no lock and does no I/O.
/// 2. A frame touches one table partition, and is one block on the wire.
/// 3. [`Table::insert`] is one attempt. `Ok` means positively answered. It never retries on its own.
/// 4. Nothing is sent twice under two tokens by this trait; tokens are the caller's.
#[async_trait]
pub trait Table: Send + Sync {
    /// `database.table`.
    fn name(&self) -> &str;

    /// The columns that rows must have, in order.
    fn schema(&self) -> &Schema;

    /// The column of each row's version, if the table takes one: rows have it behind those of [`Table::schema`], of type UInt64. The engine makes
    /// versions, which rise with every row in the sealed order, whoever owns the lane.
    fn version_column(&self) -> Option<&Column> {
        None
    }

    /// Rows of a batch that a later one of the same key replaces, so that they need not be sent: by their numbers among all kept rows,
    /// ascending. The rows are those for [`Table::encode`], which then gets the others. Pure, as that is. Of each key one row stays.
    fn replaced(&self, rows: &[Selected]) -> Result<Vec<u32>, TableError> {
        let _ = rows;
        Ok(Vec::new())
    }

    /// The columns that [`Table::encode`] makes frames for; they never change. Empty if the table does not say: then frames are
    /// assumed to be for the columns that it has.
    fn layout(&self) -> Layout {
        Layout::default()
    }

    /// The columns of the table as [`Table::see`] saw it last, if a table opened now would make frames for other ones.
    fn changed(&self) -> Option<Layout> {
        None
    }

    /// Whether the table, as [`Table::see`] saw it last, also needs inserts of a kind that a table opened earlier cannot make: a materialized view
    /// was added, rows fall into other partitions, or the order of inserts shows now. Inserts continue; the lane is to be reopened soon.
    fn must_reopen(&self) -> bool {
        false
    }

    /// Whether that concerns the inserts themselves, and not only what the table feeds: then it does not wait, however often the lane was reopened lately.
    fn must_reopen_at_once(&self) -> bool {
        false
    }

    /// Whether no zero may stand for a value of this column in rows whose record has none, however late the column was added to the table: rows replace each
    /// other by it, or the engine fills it.
    fn has_no_zero(&self, column: &str) -> bool {
        let _ = column;
        false
    }

    /// The place, from 0, of the row in an attempt's body that the server named when it refused the body for its content; `None` if it named none. It is a
    /// hint: it says nothing of the other rows, and nobody may rely on it.
    fn refused_row(&self, error: &InsertError) -> Option<u64> {
        let _ = error;
        None
    }

    /// Whether a frame made for `layout` can be inserted into the table as [`Table::see`] saw it last.
    fn fit(&self, layout: &Layout) -> Fit {
        let _ = layout;
        Fit::AsIs
    }

    /// The columns that a frame's body holds: for frames of programs that did not record them.
    fn layout_of(&self, body: &[u8]) -> Result<Layout, TableError> {
        let _ = body;
        Ok(Layout::default())
    }

    /// Cuts the kept rows into frames (by table partition), sorts them if asked to, encodes and compresses.
    /// `ids` is called once for each frame, in the order of the result. Each row is in one frame, as
    /// [`Encoded::rows_from`] says. No value of a dropped row is in a frame or causes an error.
    fn encode(&self, rows: &[Selected], ids: &mut dyn FnMut() -> FrameId)
    -> Result<Vec<Encoded>, TableError>;

    /// Encodes rows that [`Table::decode`] gave, or a part of them, as one frame, however many they are: they were one frame of one
    /// table partition before. It is made for the columns that these rows have, with the types that the table has now (as
    /// [`Table::see`] saw it last). `made_for` are the columns that the frame was made for, if they are known. Fails with
    /// [`TableFault::Differs`] if a value would be lost, or if the table has other partitions now and the rows are in several.
    fn encode_again(
        &self,
        rows: &RecordBatch,
        made_for: Option<&Layout>,
        id: FrameId,
    ) -> Result<(Encoded, Layout), TableError> {
        let _ = made_for;
        let frames = self.encode(&[Selected::all(rows.clone())], &mut || id)?;
        <[Encoded; 1]>::try_from(frames).map(|[frame]| (frame, self.layout())).map_err(|frames| TableError {
            remedy: Remedy::Stop,
            kind: TableFault::Request,
            message: format!("rows of one frame of table `{}` became {} frames", self.name(), frames.len()),
        })
    }

    /// The rows of a frame's body, in its order and without the provenance column: what [`Table::encode`] was given, whatever columns
    /// the table has now. For frames that are [encoded again](Table::encode_again).
    fn decode(&self, body: &[u8]) -> Result<RecordBatch, TableError>;

    /// Rows that [`Table::decode`] gave, with the columns of [`Table::schema`]: the steps know no others. A column that the rows
    /// do not have is null. `None` if values of a column have no form there.
    fn as_schema(&self, rows: &RecordBatch) -> Option<RecordBatch> {
        Some(rows.clone())
    }

    /// One row as a JSON object, with 64-bit integers and decimals exact: the raw text of a dead letter. The columns are those of `rows`, with the
    /// types that [`Table::decode`] gave them, or else `schema` by their names.
    fn to_json(&self, schema: Option<&Schema>, rows: &RecordBatch, row: usize) -> String;

    /// Sends a frame once.
    async fn insert(&self, attempt: Attempt<'_>) -> Result<(), InsertError>;

    /// How the table remembers inserts.
    fn tokens(&self) -> &dyn Tokens;

    /// Polls the server and the table, and checks again that the table can be written exactly once.
    async fn see(&self) -> Result<Sighting, TableError>;

    /// Why the operator must decide before a pipeline without a journal reads its source into this table from the start: the table has rows
    /// already, which may be of the same source. The whole sentence with the way out; `None` if there is no objection. A table with a
    /// [`Table::version_column`] is asked as well when it is new to a journal: its rows may have greater versions.
    async fn objects_to_first_start(&self) -> Result<Option<String>, TableError> {
        Ok(None)
    }

    /// Whether [`Table::objects_to_first_start`] may object. It is then asked once more right before the first frame is sent.
    fn may_object_to_first_start(&self) -> bool {
        false
    }

    /// Looks for the rows of a frame.
    async fn probe(&self, frame: FrameId, rows: u64, probe: &[u8]) -> Result<Presence, TableError>;

    /// Looks for the rows of a frame, and gives the sighting of that moment. A table that may be reached by way of several
    /// servers overrides this, so that both come from one of them at one moment: rows that are missing on one server prove nothing
    /// together with facts about another.
    async fn look_for(
        &self,
        frame: FrameId,
        rows: u64,
        probe: &[u8],
    ) -> Result<(Presence, Sighting), TableError> {
        let presence = self.probe(frame, rows, probe).await?;
        Ok((presence, self.see().await?))
    }

    /// Ends inserts whose `query_id` begins with `prefix`, and says how many are still running.
    async fn end_attempts(&self, prefix: &str) -> Result<u64, TableError>;
}
