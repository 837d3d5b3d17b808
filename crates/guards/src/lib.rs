//! The steps of the hot path, each over fixed input.
//!
//! Owns what is measured and the input of it: the same bytes on every machine, from `workloads`. Does not own how it is
//! measured: `cargo xtask guards` counts instructions (`examples/one-step.rs` under valgrind) and compares them with
//! `baseline.*.txt`; `cargo bench -p guards` takes the time (`benches/hot_path.rs`).
//!
//! | step          | what is measured                                                            |
//! |---------------|-----------------------------------------------------------------------------|
//! | `decode`      | records of JSON to columns                                                  |
//! | `csv`         | the same records as lines of CSV to columns                                 |
//! | `avro`        | records of Avro to columns                                                  |
//! | `protobuf`    | the same records as messages of Protobuf to columns                         |
//! | `otlp`        | log records in requests of OTLP to columns                                  |
//! | `dedup_new`   | keys that were never seen, and their state delta                            |
//! | `dedup_known` | keys that were all seen                                                     |
//! | `copies`      | records with a tenth of copies through dedup and into a Native block        |
//! | `window`      | records to the aggregates of their keys in one window, and their state delta |
//! | `encode`      | columns to one Native block, in LZ4 chunks                                  |
//! | `seal`        | a seal is checked, made to bytes and folded                                 |
//! | `recover`     | a journal's bytes are read and folded                                       |

mod journal;
mod logs;
mod readings;
mod rows;
mod windows;

/// Columns of `glassflow`, and their schema: `count` records from number `first` on.
pub fn columns(first: u64, count: u64) -> (dataflow::Schema, Vec<dataflow::Batch>) {
    (rows::schema(), rows::batches(first, count, 0))
}

/// The work of a step, to be done once. Answers with the number of units done, which must be the step's.
pub type Work = Box<dyn FnOnce() -> u64>;

/// A step of the hot path.
pub struct Step {
    /// Its name, in the baseline too.
    pub name: &'static str,
    /// What is counted: `records` or `seals`.
    pub unit: &'static str,
    /// How many of them the work handles.
    pub units: u64,
    prepare: fn() -> Work,
}

/// Every step, in the order of the data's path.
pub static STEPS: &[Step] = &[
    Step { name: "decode", unit: "records", units: rows::RECORDS, prepare: rows::decode },
    Step { name: "csv", unit: "records", units: rows::RECORDS, prepare: rows::decode_csv },
    Step { name: "avro", unit: "records", units: rows::RECORDS, prepare: readings::decode },
    Step { name: "protobuf", unit: "records", units: rows::RECORDS, prepare: readings::decode_protobuf },
    Step { name: "otlp", unit: "records", units: rows::RECORDS, prepare: logs::decode },
    Step { name: "dedup_new", unit: "records", units: rows::RECORDS, prepare: rows::dedup_new },
    Step { name: "dedup_known", unit: "records", units: rows::RECORDS, prepare: rows::dedup_known },
    Step { name: "copies", unit: "records", units: rows::RECORDS, prepare: rows::copies },
    Step { name: "window", unit: "records", units: rows::RECORDS, prepare: windows::window },
    Step { name: "encode", unit: "records", units: rows::RECORDS, prepare: rows::encode },
    Step { name: "seal", unit: "seals", units: journal::SEALS, prepare: journal::seal },
    Step { name: "recover", unit: "seals", units: journal::SEALS, prepare: journal::recover },
];

impl Step {
    /// The step of this name.
    pub fn named(name: &str) -> Option<&'static Step> {
        STEPS.iter().find(|step| step.name == name)
    }

    /// Makes the input. Not measured.
    pub fn prepare(&self) -> Work {
        (self.prepare)()
    }
}

/// Does the work. A function of its own, by whose name valgrind knows when to count.
#[inline(never)]
pub fn measured(work: Work) -> u64 {
    work()
}

#[cfg(test)]
mod tests;
