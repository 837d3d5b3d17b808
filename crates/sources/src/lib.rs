//! Where records come from: implementations of [`dataflow::Source`].
//!
//! Owns the connection to each kind of source, the meaning of a position there, and the refusal of a position that no
//! longer stands for the same records. Does not own what has been read (the journal does), how it is decoded (`formats`) or the
//! choice of a source by name (`pipeline::wiring`).
//!
//! | module        | partition        | position                                | ends |
//! |---------------|------------------|-----------------------------------------|------|
//! | [`memory`]    | as pushed        | number of the record                    | if told to |
//! | [`generator`] | a publisher      | number of the record                    | after its last record |
//! | [`file`]      | a file           | byte offset of the line, inflated       | at the file's end |
//! | [`mod@log`]   | a log's partition | number of the record                   | never |
//! | `kafka`       | a topic's partition | offset                               | never |
//! | `pulsar`      | a topic's partition | ledger; entry and index in the batch | when the topic is terminated |
//!
//! They share the way from threads to an async reader (`queue`, `thread`), and those with brokers also encryption (`tls`) and tokens
//! (`token`).

pub mod file;
pub mod generator;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod log;
pub mod memory;
#[cfg(feature = "pulsar")]
pub mod pulsar;
mod queue;
mod thread;
#[cfg(any(feature = "kafka", feature = "pulsar"))]
pub mod tls;
#[cfg(any(feature = "kafka", feature = "pulsar"))]
mod token;

#[cfg(test)]
#[path = "../tests/support/runtime.rs"]
mod test_runtime;

#[cfg(test)]
#[global_allocator]
static MEMORY: testkit::CountingAllocator = testkit::CountingAllocator;
