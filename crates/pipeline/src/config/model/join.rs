//! `join:` of `steps:`: the rows of two inputs, matched by key and time: an interval join, or a temporal one.
//!
//! Owns the settings with their defaults and bounds, and what a query says of a join beside them ([`JoinQuery`]). Does not own the rules
//! that span several settings (`config::rules`), the reading of a query (`config::queries`) or the join (`operators::join`).

use std::ops::Range;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Pipeline;
use super::step::AtEnd;
use crate::config::values::{Identifier, Pairs, Period, Size};

/// Joins the rows of two inputs whose keys are equal. With `within`, or `before` and `after`, those whose times are near each other: an interval join, in which each pair
/// of rows that match is one row, made when the later of the two is read. With `as_of`, each left row with the version of the right side that held at its time:
/// a temporal join. Every step before the last join says with `from` whose rows it works on; the steps behind it see the joined rows.
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

    /// In place of an interval: the left side, at the time of whose rows the right side is seen. Each row of the right side is a version of its key, which holds from its time to
    /// that of the next; a left row gets the one that held at its time, as with `FOR SYSTEM_TIME AS OF` in SQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Identifier>,

    /// With `as_of`: an SQL expression over the columns of the right side that is true for a version that deletes its key, as in `op = 'd'`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<String>,

    /// What becomes of rows without a match. With `as_of` either `inner` or `left`.
    #[serde(default)]
    pub kind: JoinKind,

    /// How far behind the watermark a row may be and still be joined. A row that is further behind is late: it is dropped and counted. With `as_of` left rows wait as much
    /// longer for versions, and a version that is further behind is late only if a later one of its key holds already.
    #[serde(default = "no_time")]
    #[schemars(extend("x-most" = "3650d", "x-why" = "rows are held as much longer"))]
    pub lateness: Period,

    /// Columns of the joined rows that have another name than on their side, or a name that both sides have: name to `SIDE.column`. All other columns
    /// keep their names.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    #[schemars(extend("maxProperties" = 1000, "x-why" = "as many as a table has columns"))]
    pub columns: Pairs,

    /// A name for the joined rows, by which later steps say `from: NAME` and later joins take them as a side. `sinks` takes the rows of a side without a match
    /// by it, as `from: NAME.left_unmatched` and `from: NAME.right_unmatched`.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub name: Option<Identifier>,

    /// What becomes of rows that wait when every input has ended (files without `follow`): `wait` keeps them for records of a later run, `close` lets them go as if
    /// their time were over, and records of that time that a later run reads are late.
    #[serde(default, skip_serializing_if = "AtEnd::is_wait")]
    pub at_end: AtEnd,

    /// Memory for the rows that wait for a match. When it is full, those that arrived first are spilled to files in the store, at about 6 bytes of memory a row. With `as_of` it holds
    /// the newest version of every key of the right side too: versions that the watermark has passed are spilled, at a few bytes of memory each, and rows that wait are not. Taken from the
    /// pipeline's `memory`, at most a quarter of it.
    #[serde(default = "default_memory")]
    #[schemars(extend(
        "x-least" = "1MiB", "x-most" = "24GiB",
        "x-why" = "with less there is hardly a row, and the index of rows in files takes of it"
    ))]
    pub memory: Size,

    /// The query that the step was written as, if it was.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub query: Option<JoinQuery>,
}

/// What a query says of a join beside its settings. It is serialized as its text.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(into = "String")]
pub struct JoinQuery {
    /// The text.
    pub text: String,
    /// The column that holds the time of an input's rows, by the input's name.
    pub times: Vec<(String, String)>,
    /// What columns are called by, as in `o.id`: of the left input and the right one, or of all inputs of a query with several joins.
    pub sides: Vec<String>,
    /// Whether the left side are the rows of the join before it in the query.
    pub is_behind: bool,
    /// Columns of those rows that only the key of this join reads.
    pub hidden: Vec<String>,
    /// The column of each side that is the time of its rows, as far as the text says one.
    pub time_of: [Option<String>; 2],
    /// The columns that are read with their side in front.
    pub columns: Vec<QueryColumn>,
    /// The columns that are read without it, and where each stands.
    pub names: Vec<(String, Option<Range<usize>>)>,
    /// The columns of the key that both sides have and that are one behind the join.
    pub merged: Vec<String>,
    /// Whether all columns go on.
    pub is_all: bool,
    /// The columns behind the query that are the time of its rows.
    pub row_times: Vec<String>,
    /// Where the settings that it stands for are in the text, by their keys: `left`, `on[0]`.
    pub places: Vec<(String, Option<Range<usize>>)>,
}

/// A column of one side.
#[derive(Clone, Debug)]
pub struct QueryColumn {
    /// 0 for the left side, 1 for the right.
    pub side: usize,
    /// Its name there.
    pub column: String,
    /// Its name behind the join, as in `o.id`.
    pub name: String,
    /// Where it stands in the text.
    pub at: Option<Range<usize>>,
}

impl From<JoinQuery> for String {
    fn from(query: JoinQuery) -> Self {
        query.text
    }
}

impl JoinQuery {
    /// Where a setting stands in the text; `None` if that is not one place.
    pub fn place(&self, setting: &str) -> Option<Range<usize>> {
        if let Some(name) = setting.strip_prefix("columns.") {
            return self.columns.iter().find(|column| column.name == name)?.at.clone();
        }
        if let Some(name) = setting.strip_prefix("names.") {
            return self.names.iter().find(|(known, _)| known == name)?.1.clone();
        }
        self.places.iter().find(|(known, _)| known == setting)?.1.clone()
    }
}

impl Pipeline {
    /// The text that the settings of a join at `path` are those of, as in `steps[1].join.on[0]`, and where they stand in it; `None` if no query says
    /// them.
    pub fn in_query(&self, path: &str) -> Option<(String, Option<Range<usize>>)> {
        let (number, setting) = path.strip_prefix("steps[")?.split_once("].join")?;
        let query = self.steps.get(number.parse::<usize>().ok()?)?.join.as_ref()?.query.as_ref()?;
        Some((format!("steps[{number}].sql"), query.place(setting.trim_start_matches('.'))))
    }
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
    /// A join of two inputs by these columns, whose other settings are as if they were left out.
    pub fn of(left: Identifier, right: Identifier, on: Vec<String>) -> Self {
        Self {
            left,
            right,
            on,
            within: None,
            before: None,
            after: None,
            as_of: None,
            deleted: None,
            kind: JoinKind::Inner,
            lateness: no_time(),
            columns: Pairs::default(),
            name: None,
            at_end: AtEnd::Wait,
            memory: default_memory(),
            query: None,
        }
    }

    /// How much earlier than the left row the right row may be, and how much later.
    pub fn interval(&self) -> (Duration, Duration) {
        let of = |one: Option<Period>| one.or(self.within).map_or(Duration::ZERO, |period| period.duration());
        (of(self.before), of(self.after))
    }

    /// Whether it is a temporal join.
    pub fn is_temporal(&self) -> bool {
        self.as_of.is_some()
    }

    /// The columns of the key, on the left side and on the right.
    pub fn pairs(&self) -> Vec<(String, String)> {
        pairs(&self.on)
    }
}

/// The two columns of each part of a key.
pub(super) fn pairs(on: &[String]) -> Vec<(String, String)> {
    let pair = |text: &String| match text.split_once('=') {
        Some((left, right)) => (left.trim().to_owned(), right.trim().to_owned()),
        None => (text.trim().to_owned(), text.trim().to_owned()),
    };
    on.iter().map(pair).collect()
}

fn no_time() -> Period {
    Period { ms: 0 }
}

fn default_memory() -> Size {
    Size { bytes: operators::join::MEMORY_DEFAULT }
}
