//! What hardware costs.
//!
//! Owns the list that stands where no other is given: list prices of a large provider, rounded. Does not own discounts.

use serde::Deserialize;

/// Prices in USD of cores, storage and requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Where they are from, for messages.
    #[serde(default = "of_a_file")]
    pub from: String,
    /// A core for an hour, its memory with it.
    pub core_hour: f64,
    /// A gigabyte of object storage for a month.
    pub gigabyte_month: f64,
    /// A thousand puts, lists or copies.
    pub thousand_puts: f64,
    /// A thousand gets.
    pub thousand_gets: f64,
}

fn of_a_file() -> String {
    "prices of your file".to_owned()
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            from: "list prices".to_owned(),
            core_hour: 0.05,
            gigabyte_month: 0.023,
            thousand_puts: 0.005,
            thousand_gets: 0.0004,
        }
    }
}
