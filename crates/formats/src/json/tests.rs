//! The rules of values as tables in `cases/`, one test a table, and the contract of the decoder.

pub(super) mod support;

mod contract;
mod fuzz;
mod oracle;
mod values;
