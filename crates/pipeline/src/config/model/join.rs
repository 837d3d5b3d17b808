//! `join:` of `steps:`: the rows of two inputs, matched by key and time.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::values::{Identifier, Pairs, Period, Size};

/// Joins the rows of two inputs whose keys are equal and whose times are near each other: an interval join. Each pair of rows that match is one row, made
/// when the later of the two is read. Every step before the last join says with `from` whose rows it works on; the steps behind it see the joined rows.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinStep {
    /// The left side: the name of an input, or of a join before this one.
    pub left: Identifier,

    /// The right side: the name of another input or join.
    pub right: Identifier,

    /// The columns whose values must be equal: a name that both sides have, or `left_name = right_name`. A row with a NULL in one of them has no match.
    #[schemars(length(min = 1, max = 16), extend("x-why" = "a key of more columns is the whole row"))]
    pub on: Vec<String>,

    /// How far apart in time the two rows may be, in either direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-least" = "1s", "x-most" = "3650d", "x-why" = "rows are held as long"))]
    pub within: Option<Period>,

    /// In place of `within`: how much earlier than the left row the right row may be; `0s` if only `after` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-most" = "3650d", "x-why" = "rows are held as long"))]
    pub before: Option<Period>,

    /// In place of `within`: how much later than the left row the right row may be; `0s` if only `before` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-most" = "3650d", "x-why" = "rows are held as long"))]
    pub after: Option<Period>,

    /// What becomes of rows without a match.
    #[serde(default)]
    pub kind: JoinKind,

    /// How far behind the watermark a row may be and still be joined. A row that is further behind is late: it is dropped and counted.
    #[serde(default = "no_time")]
    #[schemars(extend("x-most" = "3650d", "x-why" = "rows are held as much longer"))]
    pub lateness: Period,

    /// Columns of the joined rows that have another name than on their side, or a name that both sides have: name to `SIDE.column`. All other columns
    /// keep their names.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    #[schemars(extend("maxProperties" = 1000, "x-why" = "as many as a table has columns"))]
    pub columns: Pairs,

    /// A name for the joined rows, by which later steps say `from: NAME` and later joins take them as a side.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub name: Option<Identifier>,

    /// Memory for the rows that wait for a match. A pipeline that needs more stops, and says so. Taken from the pipeline's `memory`, at most a quarter
    /// of it.
    #[serde(default = "default_memory")]
    #[schemars(extend(
        "x-least" = "1MiB", "x-most" = "24GiB",
        "x-why" = "with less there is hardly a row; rows that wait are in memory only"
    ))]
    pub memory: Size,
}

/// What becomes of rows without a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JoinKind {
    /// They are dropped and counted.
    #[default]
    Inner,
    /// Those of the left side go on, with NULL for the columns of the right side.
    Left,
    /// Those of the right side go on, with NULL for the columns of the left side.
    Right,
    /// Those of both sides go on.
    Full,
}

impl JoinStep {
    /// How much earlier than the left row the right row may be, and how much later.
    pub fn interval(&self) -> (Duration, Duration) {
        let of = |one: Option<Period>| one.or(self.within).map_or(Duration::ZERO, |period| period.duration());
        (of(self.before), of(self.after))
    }

    /// The columns of the key, on the left side and on the right.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let pair = |text: &String| match text.split_once('=') {
            Some((left, right)) => (left.trim().to_owned(), right.trim().to_owned()),
            None => (text.trim().to_owned(), text.trim().to_owned()),
        };
        self.on.iter().map(pair).collect()
    }
}

fn no_time() -> Period {
    Period { ms: 0 }
}

fn default_memory() -> Size {
    Size { bytes: operators::join::MEMORY_DEFAULT }
}
