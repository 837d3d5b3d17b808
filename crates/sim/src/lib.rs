//! The real engine, protocol, store seam and steps in one seeded world with faults, and an oracle that checks C1 to C10.
//!
//! Owns the world: clock, scheduler, broker, ClickHouse table, object store, and what goes wrong with them. Does not own any behaviour of
//! the engine: what is simulated stands behind the seams of `dataflow` and `store`. One seed gives one run, bit for bit.
//!
//! | module       | what it holds                                                       |
//! |--------------|---------------------------------------------------------------------|
//! | [`plan`]     | from a seed to a pipeline, records and faults                       |
//! | [`drive`]    | one run: supervisor, faults, the end                                |
//! | [`executor`] | one thread, one clock, an order by the seed                         |
//! | [`world`]    | the state of everything that is not the engine                      |
//! | [`broker`]   | the source                                                          |
//! | [`objects`]  | the store                                                           |
//! | [`server`]   | what ClickHouse does with an insert                                 |
//! | [`table`]    | the way there and back                                              |
//! | [`records`]  | the forms of a record                                               |
//! | `person`     | who answers what a stopped lane asks                                |
//! | [`oracle`]   | what must hold                                                      |
//! | [`variant`]  | engines that are broken on purpose                                  |
//! | `lies`       | the seams that break them                                           |
//! | [`mod@shrink`] | a failing seed with as few faults as can be found                   |
//! | [`route`]    | several tables, and the step that makes several rows of one record  |
//! | [`items`]    | records with several items, and the steps that make rows of them    |
//! | [`results`]  | a window in place of dedup                                          |
//! | [`pairs`]    | a join in place of dedup                                            |
//! | [`changes`]  | an upsert in place of dedup                                         |
//! | `step`       | a step without state around those                                   |
//! | [`replayer`] | who replays dead letters                                            |
//! | [`random`]   | numbers from a seed                                                 |

pub mod broker;
pub mod changes;
pub mod drive;
pub mod executor;
pub mod items;
mod lies;
pub mod objects;
pub mod oracle;
pub mod pairs;
mod person;
pub mod plan;
pub mod random;
pub mod records;
pub mod replayer;
pub mod results;
pub mod route;
pub mod server;
pub mod shrink;
mod step;
pub mod table;
pub mod variant;
pub mod world;

pub use drive::{Report, run};
pub use plan::Plan;
pub use shrink::shrink;
pub use variant::Variant;
