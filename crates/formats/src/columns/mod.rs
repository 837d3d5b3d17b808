//! The columns of a batch, and what they take: shared by all formats.
//!
//! Owns the memory of a batch while it grows and its change into Arrow arrays, the rules by which values become entries of a
//! column, and the one `match` over column types. Does not own the bytes of a format, nor which field fills which column.
//!
//! | module       | what it owns                                                     |
//! |--------------|------------------------------------------------------------------|
//! | `storage`    | growing vectors that can be cut back to the start of a record    |
//! | `rules`      | the kinds of values, and the table of kinds and column types     |
//! | `numbers`    | integers, floats, decimals, booleans                             |
//! | `times`      | dates, times, zones, unix numbers                                |
//! | `text_types` | UUID, addresses, FixedString, enums                              |
//! | `compile`    | from a column's type to storage and rule, for any kind of builder |
//! | `typed`      | columns that are filled by typed values                          |
//! | `absence`    | NULL, the DEFAULT or a refusal, where a record has nothing for a column |
//! | `targets`    | a target's columns, checked, made empty, and turned into arrays  |
//!
//! **How a further format uses it.** A format whose values have types of their own (Avro, Protobuf) asks [`takes`] whether a column takes what
//! its schema declares, makes [`typed`] columns, and calls the method of the value's kind. A format that is all text can do the same with
//! [`TypedColumn::text`], or, like JSON, implement [`compile::Maker`] with builders that read its bytes in one step.

mod absence;
mod compile;
mod numbers;
mod rules;
mod storage;
mod targets;
mod text_types;
mod times;
mod typed;

pub(crate) use absence::Absence;
pub(crate) use compile::{Maker, Settings, compile};
#[cfg(test)]
pub(crate) use numbers::Whole;
pub(crate) use numbers::{Decimal, Exact, Float, Integer, Width, bool_text};
pub(crate) use rules::{Fit, Kind, Misfit, Native, Rule, takes, type_word};
pub(crate) use storage::{Bools, FixedBytes, Growing, Lists, Maps, Primitives, Texts};
pub use targets::ColumnsError;
pub(crate) use targets::{check, finished, fresh, patterns};
pub(crate) use text_types::{Enum, FixedText, Ipv4, dashed_uuid};
pub use times::EpochUnit;
pub(crate) use times::{Date, Time};
pub(crate) use typed::{TypedColumn, typed};
