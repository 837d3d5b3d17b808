//! Whether rows of a table replace each other as the pipeline means it.
//!
//! Owns the judgement of the engine, the keys and the columns that `upsert` names. Does not own the choice of rows within a batch
//! ([`crate::upsert`]).
//!
//! | what is asked                                             | why                                                             |
//! |-----------------------------------------------------------|-----------------------------------------------------------------|
//! | the engine is a Replacing one with this version           | without a version the last insert would win, and inserts overtake each other |
//! | with a sign: it is a CollapsingMergeTree with this sign   | it takes a row away by the same row with the opposite sign       |
//! | it takes the column that says what is deleted, or neither does | the server refuses to merge rows with other values there than 0 and 1 |
//! | the sorting key is the key                                | that is by which the server replaces                            |
//! | the partition key is computed from the key alone          | rows in different partitions never replace each other           |
//! | key and version have no DEFAULT, the version is not NULL  | only the server would know them, and rows of a batch are compared here |

use dataflow::{Schema, TYPE_DEFAULT};

use super::read::TableRow;
use super::{Engine, Fault, WINDOW, columns, literal};
use crate::config::{TableConfig, Upsert};
use crate::partition;
use crate::types::{self, identifier};
use crate::upsert::{self, Places, VERSION};

/// Where the columns stand by which rows replace each other; `None` if they do not, or cannot.
pub(super) fn check(
    table: &TableRow,
    engine: &Engine,
    schema: &Schema,
    config: &TableConfig,
    faults: &mut Vec<Fault>,
) -> Option<Places> {
    let upsert = config.upsert.as_ref()?;
    let before = faults.len();
    check_columns(table, upsert, config, faults);
    check_engine(table, engine, upsert, config, faults);
    check_keys(table, schema, upsert, config, faults);
    let places = roles(schema, upsert, config, faults);
    // With a sign the rows of a batch have been reduced before.
    (faults.len() == before && upsert.sign.is_none()).then_some(places)
}

/// Says which columns of a row that is taken back may have another value than they had: what the server computes anew.
pub(super) fn note_computed(schema: &Schema, config: &TableConfig, notes: &mut Vec<String>) {
    if config.upsert.as_ref().is_none_or(|upsert| upsert.sign.is_none()) {
        return;
    }
    for column in schema.columns() {
        let Some(default) = column.default.as_ref().filter(|default| *default != TYPE_DEFAULT) else {
            continue;
        };
        if literal::json(default, &column.column_type).is_none() {
            notes.push(format!(
                "column `{}` has the DEFAULT `{default}`: a row without a value for it gets that of the moment when it is taken back, so it should be in no sum by the sign and in no \
                 `GROUP BY` of one",
                column.name
            ));
        }
    }
}

/// As [`check`], of the columns alone: of a table that is to be made.
pub(super) fn check_declared(
    table: &TableRow,
    schema: &Schema,
    config: &TableConfig,
    faults: &mut Vec<Fault>,
) {
    if let Some(upsert) = &config.upsert {
        check_deleted(table, upsert, config, faults);
        roles(schema, upsert, config, faults);
    }
}

/// Where the columns of key and version stand.
fn roles(schema: &Schema, upsert: &Upsert, config: &TableConfig, faults: &mut Vec<Fault>) -> Places {
    let key: Vec<usize> =
        upsert.key.iter().filter_map(|name| place(schema, name, "key", config, faults)).collect();
    if upsert.sign.is_some() {
        let columns = key.iter().map(|at| &schema.columns()[*at]);
        for column in columns.filter(|column| column.column_type.is_nullable()) {
            faults.push(Fault::stop(format!(
                "column `{}` of `upsert.key` is `Nullable`: no row with NULL there would be taken back; make a table in which it is not",
                column.name
            )));
        }
    }
    let version = upsert.version.as_ref().and_then(|name| {
        let place = place(schema, name, "version", config, faults)?;
        if schema.columns()[place].column_type.is_nullable() {
            faults
                .push(Fault::stop(format!("column `{name}` is `Nullable`, and a version must have a value")));
        }
        Some(place)
    });
    Places { key, version }
}

/// The columns that the engine is to take.
fn check_columns(table: &TableRow, upsert: &Upsert, config: &TableConfig, faults: &mut Vec<Fault>) {
    let find = |name: &str| table.columns.iter().find(|column| column.name == name);
    if let Some(name) = &upsert.sign {
        match find(name) {
            Some(column) if column.type_name == "Int8" && column.is_stored_as_sent() => {}
            Some(column) => faults.push(Fault::stop(format!(
                "column `{name}` of `upsert.sign` must be a plain `Int8` and is `{}`",
                column.declared()
            ))),
            None => faults.push(Fault::fixed_by(
                format!("table `{}` has no column `{name}` for the sign of its rows", config.name()),
                format!("ALTER TABLE {} ADD COLUMN {} Int8", config.quoted(), identifier(name)),
            )),
        }
    }
    if upsert.makes_versions() {
        match find(VERSION) {
            Some(column) if column.type_name == "UInt64" && column.is_stored_as_sent() => {}
            Some(column) => faults.push(Fault::stop(format!(
                "column `{VERSION}` of table `{}` must be a plain `UInt64` and is `{}`; or name a column of the records: \
                 `upsert: {{ version: … }}`",
                config.name(),
                column.declared()
            ))),
            None => faults.push(Fault::fixed_by(
                format!(
                    "table `{}` has no column `{VERSION}` for the versions that Forebay makes; or name a column of the records: \
                     `upsert: {{ version: … }}`",
                    config.name()
                ),
                format!("ALTER TABLE {} ADD COLUMN {} UInt64", config.quoted(), identifier(VERSION)),
            )),
        }
    }
    check_deleted(table, upsert, config, faults);
}

fn check_deleted(table: &TableRow, upsert: &Upsert, config: &TableConfig, faults: &mut Vec<Fault>) {
    if let Some(name) = &upsert.deleted {
        match table.columns.iter().find(|column| column.name == *name) {
            Some(column) if matches!(column.type_name.as_str(), "UInt8" | "Bool") => {}
            Some(column) => faults.push(Fault::stop(format!(
                "column `{name}`, which says what is deleted, must be of type `UInt8` and is `{}`",
                column.type_name
            ))),
            // The step that makes the rows needs it, and no row of the table.
            None if upsert.sign.is_some() => {}
            None => faults.push(Fault::fixed_by(
                format!("table `{}` has no column `{name}`, which is to say what is deleted", config.name()),
                format!("ALTER TABLE {} ADD COLUMN {} UInt8", config.quoted(), identifier(name)),
            )),
        }
    }
}

fn check_engine(
    table: &TableRow,
    engine: &Engine,
    upsert: &Upsert,
    config: &TableConfig,
    faults: &mut Vec<Fault>,
) {
    let (version, name) = (upsert.version.as_deref().unwrap_or(VERSION), config.name());
    let another = || {
        let (table, key) = (identifier(&format!("{}_by_key", config.table)), &upsert.key);
        let key: Vec<String> = key.iter().map(|column| identifier(column)).collect();
        format!(
            "CREATE TABLE {}.{table} AS {} ENGINE = {} ORDER BY ({}) SETTINGS non_replicated_deduplication_window = {WINDOW}, then copy the \
             rows and EXCHANGE TABLES",
            identifier(&config.database),
            config.quoted(),
            upsert.engine(),
            key.join(", ")
        )
    };
    if let Some(sign) = &upsert.sign {
        check_collapsing(table, engine, sign, config, another(), faults);
        return;
    }
    if engine.is_collapsing {
        let sign = engine.arguments.first().map_or("sign", String::as_str);
        faults.push(Fault::stop(format!(
            "table `{name}` has the engine `{}`, which takes a row away by the same row with the opposite sign; write `sign: {sign}` under `upsert`, so that Forebay \
             keeps the last row of each key and takes it back (with a `CollapsingMergeTree`); or use ReplacingMergeTree, for which it keeps nothing; or remove `upsert` if the records \
             come in such pairs, with their sign",
            table.engine
        )));
        return;
    }
    if !engine.is_replacing {
        faults.push(Fault::fixed_by(
            format!(
                "table `{name}` has the engine `{}`: only a ReplacingMergeTree keeps the newest row of each key, and the engine of a table \
                 cannot be changed",
                table.engine
            ),
            another(),
        ));
        return;
    }
    match engine.arguments.first() {
        Some(found) if found == version => {}
        Some(found) if upsert.version.is_none() => faults.push(Fault::fixed_by(
            format!(
                "table `{name}` takes the versions of its rows from `{found}`, and Forebay writes those that it makes into `{VERSION}`; \
                 write `version: {found}` under `upsert` if the records have it"
            ),
            another(),
        )),
        Some(found) => faults.push(Fault::fixed_by(
            format!("table `{name}` takes the versions of its rows from `{found}`, and `upsert.version` names `{version}`"),
            another(),
        )),
        None => faults.push(Fault::fixed_by(
            format!(
                "table `{name}` has a `{}` without a version: the row that is inserted last would win, and inserts may overtake each other",
                table.engine
            ),
            another(),
        )),
    }
    match (engine.arguments.get(1), &upsert.deleted) {
        (Some(found), Some(deleted)) if found == deleted => {}
        (None, None) => {}
        (Some(found), None) => faults.push(Fault::stop(format!(
            "table `{name}` takes from `{found}` which keys are deleted; write `deleted: {found}` under `upsert`, so that other values than 0 \
             and 1, with which the server merges no part, become dead letters"
        ))),
        (Some(found), Some(deleted)) => faults.push(Fault::fixed_by(
            format!("table `{name}` takes from `{found}` which keys are deleted, and `upsert.deleted` names `{deleted}`"),
            another(),
        )),
        (None, Some(deleted)) => faults.push(Fault::fixed_by(
            format!("the engine of table `{name}` takes no column that says what is deleted, and `upsert.deleted` names `{deleted}`"),
            another(),
        )),
    }
}

/// As [`check_engine`], of an engine that takes rows back.
fn check_collapsing(
    table: &TableRow,
    engine: &Engine,
    sign: &str,
    config: &TableConfig,
    another: String,
    faults: &mut Vec<Fault>,
) {
    let (name, found) = (config.name(), engine.arguments.first());
    if !engine.is_collapsing {
        faults.push(Fault::fixed_by(
            format!(
                "table `{name}` has the engine `{}`: only a CollapsingMergeTree takes rows back by their sign, and the engine of a table cannot be \
                 changed",
                table.engine
            ),
            another,
        ));
    } else if engine.arguments.len() > 1 {
        faults.push(Fault::fixed_by(
            format!(
                "table `{name}` has the engine `{}`, which pairs rows by their version: of two rows of a key with the same one it may take away the newer; inserts come in \
                 order, so a CollapsingMergeTree needs no version",
                table.engine
            ),
            another,
        ));
    } else if found.is_some_and(|found| found != sign) {
        faults.push(Fault::fixed_by(
            format!(
                "table `{name}` takes the sign of its rows from `{}`, and `upsert.sign` names `{sign}`",
                found.map_or("", String::as_str)
            ),
            another,
        ));
    }
}

/// The sorting key is the key, in any order, and the partition key is computed from it.
fn check_keys(
    table: &TableRow,
    schema: &Schema,
    upsert: &Upsert,
    config: &TableConfig,
    faults: &mut Vec<Fault>,
) {
    let (name, key) = (config.name(), upsert.key.join("`, `"));
    let sorted = partition::plain_columns(&table.sorting_key);
    let is_key = |column: &String| upsert.key.contains(column);
    let is_same = sorted.as_ref().is_some_and(|sorted| {
        sorted.iter().all(is_key) && upsert.key.iter().all(|column| sorted.contains(column))
    });
    if !is_same {
        faults.push(Fault::stop(format!(
            "table `{name}` is sorted by `{}`, and `upsert.key` is `{key}`: rows with the same sorting key replace each other, so both must be \
             the same columns",
            table.sorting_key
        )));
    }
    match partition::columns_of(&table.partition_key, &columns::computed(table, schema)) {
        // Reported as a key that rows cannot be cut by.
        None => {}
        Some(columns) => {
            for column in columns.iter().filter(|column| !is_key(column)) {
                faults.push(Fault::stop(format!(
                    "table `{name}` is partitioned by `{}`, and `{column}` is not in `upsert.key`: rows of one key could lie in several \
                     partitions, where they never replace each other; partition by columns of the key, or not at all",
                    table.partition_key
                )));
            }
        }
    }
}

/// Where a column of the rows stands.
fn place(
    schema: &Schema,
    name: &str,
    role: &str,
    config: &TableConfig,
    faults: &mut Vec<Fault>,
) -> Option<usize> {
    let Some(at) = schema.index_of(name) else {
        let message =
            format!("column `{name}` of `upsert.{role}` is not written to table `{}`", config.name());
        faults.push(Fault::stop(message));
        return None;
    };
    let column = &schema.columns()[at];
    if column.default.is_some() {
        faults.push(Fault::fixed_by(
            format!(
                "column `{name}` of `upsert.{role}` has a DEFAULT: a record without it would get a {role} that only the server knows"
            ),
            format!("ALTER TABLE {} MODIFY COLUMN {} REMOVE DEFAULT", config.quoted(), identifier(name)),
        ));
    }
    if !upsert::is_comparable(&column.column_type) {
        faults.push(Fault::stop(format!(
            "column `{name}` of `upsert.{role}` has the type `{}`, by which rows cannot be compared",
            types::name(&column.column_type)
        )));
    }
    Some(at)
}

#[cfg(test)]
mod tests;
