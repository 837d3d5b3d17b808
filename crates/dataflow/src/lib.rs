//! The words and the seams of the data's path.
//!
//! Owns the shapes that travel (block, batch, reject, column types), the traits that the crates along the path
//! implement (source, decoder, operator, table) and the one seam to the outside world of time, randomness and
//! threads ([`Runtime`]). Does not own any implementation: nothing here opens a socket, a file or a thread.
//!
//! | module       | what it defines                                    | implemented by            |
//! |--------------|----------------------------------------------------|---------------------------|
//! | [`block`]    | [`RecordBlock`]: raw records of one partition      | filled by `sources`       |
//! | [`position`] | [`Position`]: a place in a partition                | -                         |
//! | [`source`]   | [`Source`], [`Reader`]: partitions with positions  | `sources`                 |
//! | [`decoder`]  | [`Decoder`]: block to batch and rejects            | `formats`                 |
//! | [`batch`]    | [`Batch`]: Arrow rows with their origin; [`Selected`]: some of them | passed along |
//! | [`metadata`] | [`Metadata`]: what the source says of a record, as columns | -                  |
//! | [`operator`] | [`Operator`], [`State`]: batch to batch       | `operators`               |
//! | [`transform`]| [`Transform`]: batch to batch without state        | `sql`, `operators`        |
//! | [`intake`]   | [`Intake`]: block to rows for the lane             | -                         |
//! | [`router`]   | [`Router`]: which tables the rows go to            | `operators`               |
//! | [`table`]    | [`Table`]: rows to frames, frames to a server      | `clickhouse`              |
//! | [`sighting`] | [`Sighting`], [`Tokens`]: what was seen of a table, and how it remembers inserts | `tokens` |
//! | [`json_object`] | which texts a column of type `JSON` takes       | -                         |
//! | [`layout`]   | [`Layout`], [`Fit`]: the columns that frames were made for | -                  |
//! | [`reject`]   | [`Reject`]: a record that was rejected, and why    | made by decoders and operators |
//! | [`types`]    | [`ColumnType`], [`Column`], [`Schema`]             | -                         |
//! | [`effect`]   | [`Effect`], [`Remedy`]: what a failure did, what now | -                       |
//! | [`spare`]    | [`Spares`]: memory of large bodies, used again     | -                         |
//! | [`printing`] | text from outside, fit for logs and terminals      | -                         |
//! | [`runtime`]  | [`Runtime`]: clock, sleep, spawn, compute, random  | `engine`                  |
//! | `conformance` | the rules of [`Source`], [`Decoder`], [`Operator`] and [`State`] as tests | run by every source, format and step |

pub mod batch;
pub mod block;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod decoder;
pub mod effect;
pub mod intake;
pub mod json_object;
pub mod layout;
pub mod metadata;
pub mod operator;
pub mod position;
pub mod printing;
pub mod reject;
pub mod router;
pub mod runtime;
pub mod sighting;
pub mod source;
pub mod spare;
pub mod table;
pub mod transform;
pub mod types;

pub use batch::Batch;
pub use batch::selected::Selected;
pub use block::{BlockBuilder, Partition, RecordBlock, Spans};
pub use decoder::{Decoded, Decoder, Several};
pub use effect::{Effect, Remedy};
pub use intake::{Elsewhere, Intake, Prepared};
pub use layout::{Fit, Layout, LayoutColumn, TYPE_DEFAULT};
pub use metadata::Metadata;
pub use operator::{
    Ahead, Divided, Duplicates, Job, JobDone, KeptEnum, Operator, OperatorError, Output, Probed, SeenKeys,
    State, StateError, StateFile, StateRead, StateWork,
};
pub use position::Position;
pub use reject::{Reason, Reject};
pub use router::Router;
pub use runtime::{Runtime, Task};
pub use sighting::{Basis, Budget, Meter, Sighting, Tokens};
pub use source::{Event, PartitionStart, ReadFrom, Reader, Source, SourceError, SourceFault, Streams};
pub use spare::{PAGE_BYTES, Spares};
pub use table::{
    Attempt, Encoded, FrameId, Gate, InsertError, Presence, RowsFrom, Table, TableError, TableFault,
};
pub use transform::{Transform, Transformed};
pub use types::{Column, ColumnType, Schema};
