//! `sink:`, `sinks:`, `spool:` and `dead_letters:`: the tables that rows end in, and what waits for them.

use std::collections::BTreeMap;

use operators::JoinSide;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Pipeline;
use crate::config::values::{
    Field, HttpUrl, Identifier, OneOrMany, Pairs, Period, Secret, Share, Size, TableName,
};

/// The table that rows go to, and how they are cut into inserts. With `sinks` it is what they share: the server and the bounds of a batch.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// A table in ClickHouse.
    pub clickhouse: ClickHouse,

    /// When a batch is sealed: at whichever of the bounds comes first.
    #[serde(default)]
    pub batch: Batching,

    /// How many inserts may be in flight at the same time. With two, the server is busy while an answer is on its way. Tables whose engine depends on the order of inserts get one.
    #[serde(default = "default_in_flight")]
    #[schemars(
        range(min = 1, max = 64),
        extend("x-why" = "each holds its frame in memory, and may be in doubt after a crash")
    )]
    pub in_flight: u32,

    /// Rows replace each other by key: the table is a ReplacingMergeTree, and keeps the newest row of each key. With `sinks`, each entry has
    /// its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upsert: Option<Upsert>,
}

/// Rows with the same key replace each other. The table's engine is a ReplacingMergeTree whose sorting key is the key, which
/// `create` makes, and `check --connect` checks. Of the rows of one batch only the newest of each key is sent.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upsert {
    /// The columns of the table that make the key: those of its sorting key.
    #[schemars(
        length(min = 1, max = 16),
        extend("uniqueItems" = true, "x-why" = "a key of more columns is the whole row")
    )]
    pub key: Vec<Identifier>,

    /// The table's column that holds a row's version, filled by the records: of a key's rows that with the greatest version is the newest,
    /// and of equal versions the one that was read last. If it is left out, Forebay makes the versions, into a column `_version UInt64`: the row
    /// that was read last is the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Identifier>,

    /// The table's column that says that a key is deleted, of type UInt8, filled by the records with true or false, or 1 or 0. `SELECT … FINAL` does not
    /// show the keys whose newest row has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Identifier>,
}

/// A table in ClickHouse, over its HTTP interface.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClickHouse {
    /// The server's HTTP interface.
    pub url: HttpUrl,

    /// The database.
    #[serde(default = "default_name")]
    pub database: Identifier,

    /// The table. With `sinks`, each entry names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Identifier>,

    /// The user.
    #[serde(default = "default_name")]
    pub user: Identifier,

    /// The user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,

    /// Allows the password to be sent unencrypted (`http://`) to another machine; anyone on the network can read it.
    #[serde(default)]
    pub allow_plaintext_password: bool,

    /// PEM file of the certificate authorities to trust. Default: the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,

    /// How long a request may take. An insert that takes longer is in doubt, and sent again with the same token.
    #[serde(default = "default_timeout")]
    #[schemars(extend(
        "x-least" = "1s", "x-most" = "30m",
        "x-why" = "shorter gives up on healthy servers, longer hides dead ones"
    ))]
    pub timeout: Period,

    /// How the bodies of inserts are compressed.
    #[serde(default)]
    pub compression: Compression,

    /// Sorts each batch by the table's sorting key before it is sent: less work for the server, more for Forebay.
    #[serde(default)]
    pub sort: bool,

    /// Whether the table must have a column `_forebay UUID`, which holds the id of the insert that a row came with; a table that Forebay creates
    /// then gets it. With it, the rows of an insert whose answer was lost can always be found. Without it, and without
    /// `unique_key`, Forebay stops in rare cases (the server dies in the middle of an insert) and asks. If the table has the
    /// column, it is filled in any case.
    #[serde(default)]
    pub provenance: bool,

    /// Columns whose values together never repeat in the table. By them the rows of an insert in doubt can be found even in a table
    /// without the column `_forebay`, except in tables whose merges combine or drop rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("uniqueItems" = true, "x-why" = "a key of more columns is the whole row")
    )]
    pub unique_key: Vec<Identifier>,

    /// What a first start does if the table already has rows. A pipeline without a journal reads its source from the start, so rows that were
    /// delivered from it before, with a store that is lost or under another name, would be in the table twice.
    #[serde(default)]
    pub existing_rows: ExistingRows,

    /// Creates the table if it does not exist: `true` for the table that the generator's workload comes with, or the
    /// table's description. Without it a missing table is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<Create>,
}

impl ClickHouse {
    /// The table's name; empty in what several tables share.
    pub fn table_name(&self) -> &str {
        self.table.as_ref().map_or("", Identifier::as_str)
    }

    /// `database.table`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.database, self.table_name())
    }
}

/// One of several tables. A row goes to each table that takes it: by `where`, by `otherwise`, or because it has neither. A row that none
/// takes is filtered, and does not count as seen by `dedup`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSink {
    /// The table.
    pub clickhouse: OneTable,

    /// Columns that are filled by a field or column of another name, like the top-level `columns`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<Identifier, Field>,

    /// Takes the rows of a side output in place of rows behind the last step, for the window or join with `as: NAME`: `NAME.late` are the late records of a
    /// window, `NAME.left_unmatched` and `NAME.right_unmatched` the rows of one side of a join that no row of the other matched. They have the columns that
    /// came to the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,

    /// A SQL expression over the columns of the last step: the table takes the rows for which it is true. NULL counts as false. A record for
    /// which it cannot be computed becomes a dead letter.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,

    /// One table for each value of a column: `{column}` in `table` is replaced by the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ByValue>,

    /// Takes the rows for which the `where` of no other table is true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub otherwise: bool,

    /// As `sink.upsert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upsert: Option<Upsert>,
}

/// One table for each value of a column. A row with another value, or with NULL, goes to none of them; with `where` it goes to the table of
/// its value if that is true as well.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByValue {
    /// The column, of type String, as the last step gives it.
    pub column: Identifier,

    /// The values; each becomes part of a table's name.
    #[schemars(
        length(min = 1, max = 32),
        extend("uniqueItems" = true, "x-why" = "there is a table for each, and a pipeline has at most 32")
    )]
    pub values: Vec<Identifier>,
}

impl ByValue {
    /// What stands for the value in a table's name.
    pub fn placeholder(&self) -> String {
        format!("{{{}}}", self.column)
    }

    /// The SQL condition of one value.
    fn condition(&self, value: &Identifier) -> String {
        let column = self.column.as_str().replace('"', "\"\"");
        format!("\"{column}\" = '{}'", value.as_str().replace('\'', "''"))
    }
}

/// What is a table's own. Everything else is set under `sink.clickhouse`, for all tables.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneTable {
    /// The database; that of `sink.clickhouse` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Identifier>,

    /// The table.
    pub table: Identifier,

    /// As `sink.clickhouse.unique_key`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("uniqueItems" = true, "x-why" = "a key of more columns is the whole row")
    )]
    pub unique_key: Vec<Identifier>,

    /// Creates the table if it does not exist. Without it a missing table is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<CreateTable>,
}

/// A table of a pipeline, with all of its settings.
#[derive(Clone, Debug)]
pub struct Target {
    /// The key in the pipeline file that names it, as in `sinks[1]`; `sink` for the only one.
    pub path: String,
    /// The table and how to reach it.
    pub clickhouse: ClickHouse,
    /// Where the columns that are filled by another name stand in the file.
    pub columns_path: String,
    /// Column to the name that fills it.
    pub columns: BTreeMap<Identifier, Field>,
    /// Which rows it takes.
    pub takes: Takes,
    /// Where its condition stands in the file, if it has one; no other table has the same.
    pub condition_path: String,
    /// Whether its rows replace each other.
    pub upsert: Option<Upsert>,
}

/// Which rows a table takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Every row.
    Every,
    /// Those for which this SQL expression is true.
    Where(String),
    /// Those for which none of the others' is.
    Otherwise,
    /// Those of a side output, and no row behind the last step.
    Side(SideOutput),
}

/// A side output of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideOutput {
    /// The records that the window of this step finds late.
    Late(usize),
    /// The rows of one side that the join of this step finds no match for.
    Unmatched(usize, JoinSide),
}

impl SideOutput {
    /// Its step.
    pub fn step(self) -> usize {
        match self {
            Self::Late(step) | Self::Unmatched(step, _) => step,
        }
    }
}

impl Target {
    /// Whether it takes the rows of a side output.
    pub fn is_of_side(&self) -> bool {
        matches!(self.takes, Takes::Side(_))
    }
}

impl Pipeline {
    /// The tables that rows go to, in the order of the file, and behind them those of side outputs; at least one.
    pub fn targets(&self) -> Vec<Target> {
        if self.sinks.is_empty() {
            return vec![Target {
                path: "sink".to_owned(),
                clickhouse: self.sink.clickhouse.clone(),
                columns_path: "columns".to_owned(),
                columns: self.columns.clone(),
                takes: Takes::Every,
                condition_path: String::new(),
                upsert: self.sink.upsert.clone(),
            }];
        }
        let targets = self.sinks.iter().enumerate().flat_map(|(index, sink)| self.targets_of(index, sink));
        let (of_sides, mut targets): (Vec<_>, Vec<_>) = targets.partition(Target::is_of_side);
        targets.extend(of_sides);
        targets
    }

    /// The tables of one entry of `sinks`.
    fn targets_of(&self, index: usize, sink: &TableSink) -> Vec<Target> {
        let path = format!("sinks[{index}]");
        let shared = &self.sink.clickhouse;
        let own = &sink.clickhouse;
        let target = |table: Identifier, takes: Takes, condition_path: String| Target {
            path: path.clone(),
            clickhouse: ClickHouse {
                database: own.database.clone().unwrap_or_else(|| shared.database.clone()),
                table: Some(table),
                unique_key: own.unique_key.clone(),
                create: own.create.clone().map(Create::Table),
                ..shared.clone()
            },
            columns_path: format!("{path}.columns"),
            columns: sink.columns.clone(),
            takes,
            condition_path,
            upsert: sink.upsert.clone(),
        };
        let Some(by) = &sink.by else {
            let takes = match &sink.condition {
                // A name that no step has is a fault of the rules.
                _ if sink.from.is_some() => Takes::Side(self.side_of(sink).unwrap_or(SideOutput::Late(0))),
                Some(text) => Takes::Where(text.clone()),
                None if sink.otherwise => Takes::Otherwise,
                None => Takes::Every,
            };
            return vec![target(own.table.clone(), takes, format!("{path}.where"))];
        };
        let values = by.values.iter().enumerate().map(|(nth, value)| {
            let name = own.table.as_str().replace(&by.placeholder(), value.as_str());
            let mut condition = by.condition(value);
            if let Some(text) = &sink.condition {
                condition = format!("{condition} AND ({text})");
            }
            // A name that is too long is a fault of the rules.
            let table = name.parse().unwrap_or_else(|_| own.table.clone());
            target(table, Takes::Where(condition), format!("{path}.by.values[{nth}]"))
        });
        values.collect()
    }

    /// The side output whose rows an entry takes, if it names one.
    pub fn side_of(&self, sink: &TableSink) -> Option<SideOutput> {
        let from = sink.from.as_ref()?;
        self.side_outputs().into_iter().find(|(name, _)| name == from).map(|(_, output)| output)
    }

    /// The side outputs of all steps that have a name, each with what `from` calls it.
    pub fn side_outputs(&self) -> Vec<(String, SideOutput)> {
        let mut all = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            if let Some(name) = step.window.as_ref().and_then(|window| window.name.as_ref()) {
                all.push((format!("{name}.late"), SideOutput::Late(at)));
            }
            if let Some(name) = step.join.as_ref().and_then(|join| join.name.as_ref()) {
                for side in [JoinSide::Left, JoinSide::Right] {
                    let output = SideOutput::Unmatched(at, side);
                    all.push((format!("{name}.{}_unmatched", side.word()), output));
                }
            }
        }
        all
    }

    /// What `from` calls the side output whose rows a table takes, if it takes those of one.
    pub fn from_of(&self, target: &Target) -> Option<String> {
        let Takes::Side(output) = target.takes else { return None };
        self.side_outputs().into_iter().find(|(_, known)| *known == output).map(|(name, _)| name)
    }

    /// Database and table of the dead letters.
    pub fn letters_place(&self) -> (String, String) {
        let sink = &self.sink.clickhouse;
        let database = sink.database.as_str();
        match &self.dead_letters.table {
            Some(name) => {
                let (database, table) = name.split(database);
                (database.to_owned(), table.to_owned())
            }
            None if self.sinks.is_empty() => (database.to_owned(), format!("{}_rejected", sink.table_name())),
            None => (database.to_owned(), format!("{}_rejected", self.pipeline.as_str().replace('-', "_"))),
        }
    }
}

/// Whether and how to create the table.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Create {
    /// `true`: the table of the generator's workload. `false`: as if left out.
    Workload(bool),
    /// The table's description.
    Table(CreateTable),
}

/// The description of a table to create: a MergeTree that remembers inserts.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTable {
    /// Column to type, in the order of the table; types as ClickHouse writes them.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1000, "x-why" = "as many as ClickHouse handles well"))]
    pub columns: Pairs,

    /// The sorting key: columns or expressions.
    pub order_by: OneOrMany<String>,

    /// The partition key, an expression of columns. An insert touches one partition, so few partitions are best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_by: Option<String>,
}

/// What a first start makes of rows that are in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExistingRows {
    /// It ends with code 4 and asks, unless the source is read from its end.
    #[default]
    Ask,
    /// They are kept, and the source's rows are added.
    Keep,
}

/// How the bodies of inserts are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// LZ4: little work for either side.
    #[default]
    Lz4,
    /// No compression: for a server on the same machine.
    None,
}

/// When a batch is sealed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Batching {
    /// Rows.
    #[serde(default = "default_rows")]
    #[schemars(
        range(min = 1, max = 10_000_000),
        extend("x-why" = "a batch is one block in the server's memory")
    )]
    pub rows: u64,

    /// Bytes of decoded columns.
    #[serde(default = "default_bytes")]
    #[schemars(extend(
        "x-least" = "4KiB", "x-most" = "1GiB",
        "x-why" = "a batch and its frame are held in memory whole"
    ))]
    pub bytes: Size,

    /// Time since the batch's first row. It limits how late a row becomes visible when few records arrive.
    #[serde(default = "default_age")]
    #[schemars(extend(
        "x-least" = "10ms", "x-most" = "10m",
        "x-why" = "ClickHouse refuses too many small inserts, and what is not sealed is read again after a crash"
    ))]
    pub age: Period,
}

impl Default for Batching {
    fn default() -> Self {
        Self { rows: default_rows(), bytes: default_bytes(), age: default_age() }
    }
}

/// How much may wait in the store.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spool {
    /// Bytes of sealed frames that are not in the table yet.
    #[serde(default = "default_spool_bytes")]
    #[schemars(extend(
        "x-least" = "16MiB", "x-most" = "64TiB",
        "x-why" = "less than a few batches would stop the source at every slow insert"
    ))]
    pub bytes: Size,

    /// Age of the oldest sealed frame that is not in the table yet.
    #[serde(default = "default_spool_age")]
    #[schemars(extend(
        "x-least" = "10s", "x-most" = "30d",
        "x-why" = "a shorter time than a server's restart would pause reading for nothing"
    ))]
    pub age: Period,
}

impl Default for Spool {
    fn default() -> Self {
        Self { bytes: default_spool_bytes(), age: default_spool_age() }
    }
}

/// The table for records that could not go on.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLetters {
    /// The table, on the sink's server. Default: the name of the sink's table with `_rejected` appended; with `sinks`, the pipeline's name,
    /// with `_` for `-`, and `_rejected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableName>,

    /// Creates the table if it does not exist.
    #[serde(default = "default_true")]
    pub create: bool,

    /// The largest share of dead letters among the records read in one run that still counts as a success: a percentage or a
    /// fraction of 1. A run that ends with more ends with exit code 5; nothing is lost or undone by that, and it is not stopped
    /// earlier. If it is left out, only a run in which every record became a dead letter ends so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_above: Option<Share>,
}

impl Default for DeadLetters {
    fn default() -> Self {
        Self { table: None, create: true, fail_above: None }
    }
}

fn default_name() -> Identifier {
    "default".parse().expect("the default is a name")
}

fn default_timeout() -> Period {
    Period::seconds(180)
}

fn is_false(value: &bool) -> bool {
    !value
}

fn default_true() -> bool {
    true
}

fn default_in_flight() -> u32 {
    2
}

fn default_rows() -> u64 {
    500_000
}

fn default_bytes() -> Size {
    Size::mib(64)
}

fn default_age() -> Period {
    Period::seconds(1)
}

fn default_spool_bytes() -> Size {
    Size::mib(4 << 10)
}

fn default_spool_age() -> Period {
    Period::seconds(24 * 3600)
}
