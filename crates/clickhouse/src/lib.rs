//! The ClickHouse table.

pub mod compress;
pub mod native;
pub mod types;
