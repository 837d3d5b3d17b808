//! Runs a lane: reads blocks, decodes them, steps them through the operators, seals batches, delivers frames, settles.
//!
//! Owns threads, queues, bounds, back-pressure, retries, checkpoints and shutdown. Does not own any decision of the protocol
//! (`protocol` does, as pure functions) and names no connector: source, decoder, steps, tables and store come as traits.
//!
//! ```text
//! source ─▶ decode (compute threads) ─▶ steps ─▶ cut ─▶ encode (compute) ─▶ seal ─▶ deliver ─▶ settle
//!            `lane` reads in order, one task                 `seal`, one task     `deliver`, a task a table
//! ```
//!
//! | module         | what it holds                                                                |
//! |----------------|------------------------------------------------------------------------------|
//! | [`pipeline`]   | the parts of a pipeline, [`run`], how it ends                                |
//! | [`settings`]   | every bound, with its reason                                                 |
//! | [`start`]      | claim, fold, genesis, restore: from a store to a lane that can read           |
//! | [`lane`]       | the reading side: back-pressure, order, watermark, when to cut                |
//! | [`flow`]       | which step the rows of each input, and of each step, go to next: pure         |
//! | [`stage`]      | what each stage costs in CPU                                                 |
//! | [`jobs`]       | a step's work on one batch, by several threads                               |
//! | [`context`]    | what the tasks share: the parts below, side by side                          |
//! | [`target`]     | one table: what was let out and settled, bodies kept, the table as last seen |
//! | [`spool`]      | what is sealed and not settled: flags and wake-ups between the tasks         |
//! | [`objects`]    | this owner's objects: names, numbers, the writing                            |
//! | [`waiting`]    | blocks and events in the order in which they were read                       |
//! | [`inputs`]     | the pipeline's inputs, their numbers, and whether each is read               |
//! | [`cut`]        | a batch under construction, and what is cut from it                          |
//! | [`gathered`]   | rows of a block in the form in which a cut gathers them                      |
//! | [`tables`]     | the pipeline's tables, and which rows go to which                            |
//! | [`layouts`]    | the columns of the frames that wait, against those of the tables now         |
//! | [`turns`]      | a lane that is opened again and again, because servers differ                |
//! | [`reopened`]   | that it is told, and the pause of a start                                    |
//! | [`versions`]   | versions of rows, and rows that later ones replace (`upsert`)                |
//! | [`watermark`]  | low watermark, idleness, skew: pure                                          |
//! | [`seal`]       | encode, write the segment, append the record                                 |
//! | [`segment`]    | the layout of a segment                                                      |
//! | [`unwritten`]  | segments that are sealed, and written later or never                         |
//! | [`remake`]     | a segment that was never written, made again from the source                 |
//! | [`origins`]    | which record each row of a frame was: a few bytes a row                       |
//! | [`deliver`]    | the send window, attempts in flight, settling                                |
//! | [`settle`]     | one frame until all its rows are settled or dead letters                     |
//! | [`attempt`]    | one piece of a frame: retries, doubt, other columns                          |
//! | [`answer`]     | a person's answer to a question that stopped a lane                          |
//! | [`change`]     | what may change under a pipeline's name: pure                                |
//! | [`forget`]     | a stream that a person takes out of the pipeline                             |
//! | [`rename`]     | a lane goes on under another name                                            |
//! | [`renamed`]    | whether a lane is under the name by which it is asked for                    |
//! | [`remove`]     | a lane that is taken out of its store: reset or deleted                      |
//! | [`rewind`]     | partitions of a stopped pipeline that a person moves                         |
//! | [`refuse`]     | a frame refused for its content: bisected down to the rows                   |
//! | [`refused`]    | a row that the server does not take, on its way to the lane                  |
//! | [`reread`]     | the record of a refused row, read again from the source                      |
//! | [`state_files`] | state in files: reads that steps ask for, files written and merged           |
//! | [`checkpoint`] | snapshots and the checkpoint record                                         |
//! | [`retire`]     | the floor, and what is deleted                                               |
//! | [`inspect`]    | all of it read and verified                                                  |
//! | [`survey`]     | what lies in the store: needed, garbage                                      |
//! | [`journal`]    | reading, claiming and appending records                                      |
//! | [`ownership`]  | is this process still the owner? asked before the last bytes of every insert |
//! | [`measured`]   | counts the requests to the store                                             |
//! | [`patient`]    | reads of the store that wait until it answers                                |
//! | [`status`]     | what people and machines are told                                            |
//! | [`error`]      | why a lane stops: a closed list                                              |
//! | [`problem`]    | what a running lane waits for: states, words, ways out                       |
//! | [`budget`]     | how long the tables' memories of tokens last                                 |
//! | [`accounts`]   | both ledgers against rows: of every seal, of every settled frame, and at the end |
//! | [`totals`]     | what became of records and rows, in numbers that people read                 |
//! | [`retry`]      | pauses between tries                                                         |
//! | [`tasks`]      | futures on tasks of their own                                                |
//! | [`runtime`]    | the real clock, threads and randomness                                       |

pub mod accounts;
pub mod answer;
pub mod attempt;
pub mod budget;
pub mod change;
pub mod checkpoint;
pub mod context;
pub mod cut;
pub mod deliver;
pub mod error;
pub mod flow;
pub mod forget;
pub mod gathered;
pub mod inputs;
pub mod inspect;
pub mod jobs;
pub mod journal;
pub mod lane;
pub mod layouts;
pub mod measured;
pub mod objects;
pub mod origins;
pub mod ownership;
pub mod patient;
pub mod pipeline;
pub mod problem;
pub mod refuse;
pub mod refused;
pub mod remake;
pub mod remove;
pub mod rename;
pub mod renamed;
pub mod reopened;
pub mod reread;
pub mod retire;
pub mod retry;
pub mod rewind;
pub mod runtime;
pub mod seal;
pub mod segment;
pub mod settings;
pub mod settle;
pub mod spool;
pub mod stage;
pub mod start;
pub mod state_files;
pub mod status;
pub mod survey;
pub mod tables;
pub mod target;
pub mod tasks;
pub mod totals;
pub mod turns;
pub mod unwritten;
pub mod versions;
pub mod waiting;
pub mod watermark;

pub use error::EngineError;
pub use flow::{Flow, Port};
pub use inputs::Input;
pub use pipeline::{Outcome, Pipeline, run};
pub use runtime::TokioRuntime;
pub use settings::Settings;
pub use status::{Phase, Snapshot, Status, TableStatus};

#[cfg(test)]
#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../tests/support/puts.rs"]
mod puts;

#[cfg(test)]
#[global_allocator]
static MEMORY: testkit::CountingAllocator = testkit::CountingAllocator;
