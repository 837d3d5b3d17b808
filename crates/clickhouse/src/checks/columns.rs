//! What rows must have: the columns that are sent, what stands for a null, what names a row, and how rows are cut.
//!
//! Owns the judgement of a table's columns and of its partition key. Does not own what the table remembers ([`super`]).

use dataflow::{Column, ColumnType, Schema, TYPE_DEFAULT};
use jiff::tz::TimeZone;

use super::chosen::Chosen;
use super::read::{ColumnRow, Server, TableRow};
use super::{Engine, Fault, PROVENANCE, literal};
use crate::config::TableConfig;
use crate::partition::{Computed, PartitionKey};
use crate::types::{self, identifier};

/// The columns that rows must have: those that are named, or all that are stored as they are sent.
pub(super) fn written(
    table: &TableRow,
    config: &TableConfig,
    faults: &mut Vec<Fault>,
    notes: &mut Vec<String>,
) -> Schema {
    refuse_computed(table, config, faults);
    let chosen = Chosen::of(table, config, notes);
    let mut columns = Vec::new();
    for name in chosen.names.iter().copied().filter(|n| *n != PROVENANCE) {
        let Some(found) = table.columns.iter().find(|c| c.name == name) else {
            let known: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).take(20).collect();
            let message =
                format!("table `{}` has no column `{name}`; it has `{}`", config.name(), known.join("`, `"));
            let declared = config.create.iter().flat_map(|create| &create.columns).find(|(of, _)| of == name);
            faults.push(match declared {
                // As that of the dead letters, whose columns are known wherever it is.
                Some((_, declared)) => Fault::fixed_by(
                    message,
                    format!("ALTER TABLE {} ADD COLUMN {} {declared}", config.quoted(), identifier(name)),
                ),
                None => Fault::stop(message),
            });
            continue;
        };
        if found.is_computed() {
            faults.push(is_computed(found));
            continue;
        }
        match types::parse(name, &found.type_name) {
            Ok(column_type) => {
                let of_rows = config.upsert.as_ref().map(|upsert| upsert.of_rows(name, column_type.clone()));
                let Some(column_type) = of_rows.unwrap_or(Some(column_type)) else { continue };
                let is_added = config.added.iter().any(|added| added == name);
                let mut default = match chosen.have_no_default.contains(&name) {
                    true => None,
                    false => default_of(found, &column_type, is_added.then_some(config), notes),
                };
                if is_added && default.is_none() && !column_type.is_nullable() {
                    default = Some(TYPE_DEFAULT.to_owned());
                }
                let is_nested = matches!(column_type, ColumnType::Array(_) | ColumnType::Map(..));
                let default_json = default.as_deref().filter(|_| is_nested);
                let default_json = default_json.and_then(|text| literal::json(text, &column_type));
                columns.push(Column { default, default_json, ..Column::new(name, column_type) });
            }
            Err(error) if config.leaves_out => notes.push(format!("{error}; the column is left out")),
            // A column that the server computes is not sent.
            Err(error) => faults.push(Fault::fixed_by(
                format!("{error}; or let the server fill the column, and the pipeline leaves it out"),
                format!(
                    "ALTER TABLE {} MODIFY COLUMN {} MATERIALIZED defaultValueOfTypeName({})",
                    config.quoted(),
                    identifier(name),
                    types::quote(&found.type_name)
                ),
            )),
        }
    }
    if columns.is_empty() && faults.is_empty() {
        faults.push(Fault::stop(format!("table `{}` has no column to write", config.name())));
    }
    Schema::new(columns)
}

/// The pipeline may not fill a column that the server computes.
fn refuse_computed(table: &TableRow, config: &TableConfig, faults: &mut Vec<Fault>) {
    let is_named = |column: &&ColumnRow| column.is_computed() && config.is_named(&column.name);
    faults.extend(table.columns.iter().filter(is_named).map(is_computed));
}

fn is_computed(column: &ColumnRow) -> Fault {
    let (name, kind) = (&column.name, &column.default_kind);
    Fault::stop(format!("column `{name}` is {kind}: the server computes it; take it out of `columns`"))
}

/// The DEFAULT that a null may stand for. Arrays and maps cannot be sent as NULL: their DEFAULT must be empty, or a literal that is sent. Of a column that was
/// `added` to the table later a record without it gets an empty one instead.
fn default_of(
    column: &ColumnRow,
    column_type: &ColumnType,
    added: Option<&TableConfig>,
    notes: &mut Vec<String>,
) -> Option<String> {
    let (name, expression) = (&column.name, column.default_expression.as_str());
    let nested = matches!(column_type, ColumnType::Array(_) | ColumnType::Map(..));
    let bare: String = expression.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_lowercase();
    let empty = matches!(bare.as_str(), "[]" | "array()" | "map()" | "{}")
        || (bare.starts_with("emptyarray") && bare.ends_with("()"))
        || bare.starts_with("cast([],");
    let is_known = empty || literal::json(expression, column_type).is_some();
    match (expression.is_empty(), nested && !is_known) {
        (true, _) => None,
        (false, true) => {
            let what = format!(
                "column `{name}` has the DEFAULT `{expression}`, which is no literal of its type, and an array or a map cannot be sent as NULL"
            );
            notes.push(match added {
                None => format!("{what}: records must have the field"),
                Some(table) => format!(
                    "{what}: records without the field get an empty one, and not what the DEFAULT computes. If no record is to have it, let the server \
                     compute the column: `ALTER TABLE {} MODIFY COLUMN {} MATERIALIZED {expression}`",
                    table.quoted(),
                    identifier(name)
                ),
            });
            None
        }
        (false, false) => Some(expression.to_owned()),
    }
}

/// The statement that gives a table the provenance column.
fn add_provenance(config: &TableConfig) -> String {
    format!("ALTER TABLE {} ADD COLUMN {} UUID", config.quoted(), identifier(PROVENANCE))
}

/// The statement that makes the provenance column of one that is not as it must be. What stands in it is kept.
fn free_provenance(config: &TableConfig, type_name: &str, default_kind: &str) -> String {
    let (table, column) = (config.quoted(), identifier(PROVENANCE));
    match type_name {
        "UUID" => format!("ALTER TABLE {table} MODIFY COLUMN {column} REMOVE {default_kind}"),
        "Nullable(UUID)" if default_kind.is_empty() => format!(
            "ALTER TABLE {table} MODIFY COLUMN {column} UUID DEFAULT toUUID('00000000-0000-0000-0000-000000000000')"
        ),
        _ => format!(
            "ALTER TABLE {table} RENAME COLUMN {column} TO {}, ADD COLUMN {column} UUID",
            identifier(&format!("{PROVENANCE}_before"))
        ),
    }
}

/// True if the table has the provenance column. It must have it only if the pipeline asks for it.
pub(super) fn check_provenance(table: &TableRow, config: &TableConfig, faults: &mut Vec<Fault>) -> bool {
    match table.columns.iter().find(|c| c.name == PROVENANCE) {
        Some(column) if column.type_name == "UUID" && column.is_stored_as_sent() => true,
        Some(column) => {
            faults.push(Fault::fixed_by(
                format!("column `{PROVENANCE}` must be a plain `UUID` and is `{}`", column.declared()),
                free_provenance(config, &column.type_name, &column.default_kind),
            ));
            false
        }
        None if config.provenance => {
            faults.push(Fault::fixed_by(
                format!(
                    "table `{}` has no column `{PROVENANCE}`, which `provenance: true` asks for",
                    config.name()
                ),
                add_provenance(config),
            ));
            false
        }
        None => false,
    }
}

/// What it means that no column names a row's insert.
pub(super) fn note_what_cannot_be_found(
    engine: &Engine,
    unique_key: &[usize],
    config: &TableConfig,
    notes: &mut Vec<String>,
) {
    let why = if unique_key.is_empty() {
        "and `unique_key` is not set".to_owned()
    } else if engine.merges {
        format!("and `unique_key` does not help, because `{}` may keep earlier rows of a key", engine.name)
    } else {
        return;
    };
    notes.push(format!(
        "table `{}` has no column `{PROVENANCE}` {why}: if the answer to an insert is lost while the server restarts, the \
         pipeline stops and asks you. To avoid this: `{}`",
        config.name(),
        add_provenance(config)
    ));
}

pub(super) fn check_unique_key(
    table: &TableRow,
    schema: &Schema,
    config: &TableConfig,
    faults: &mut Vec<Fault>,
) -> Vec<usize> {
    let mut key = Vec::new();
    for name in &config.unique_key {
        match schema.index_of(name) {
            Some(_) if table.columns.iter().any(|c| c.name == *name && c.is_ephemeral()) => faults.push(Fault::stop(
                format!("column `{name}` of the unique key is EPHEMERAL: the table does not keep it, so rows cannot be found by it"),
            )),
            Some(index) if crate::table::can_probe(&schema.columns()[index].column_type) => key.push(index),
            Some(index) => faults.push(Fault::stop(format!(
                "column `{name}` of the unique key has the type `{}`; integers, text, UUID, dates and times can be probed for",
                types::name(&schema.columns()[index].column_type)
            ))),
            None => faults.push(Fault::stop(format!("column `{name}` of the unique key is not written"))),
        }
    }
    key
}

/// The columns that the server computes: also those whose DEFAULT is left to it.
pub(super) fn computed(table: &TableRow, schema: &Schema) -> Vec<Computed> {
    let is_left = |c: &ColumnRow| c.default_kind == "DEFAULT" && schema.index_of(&c.name).is_none();
    let computed = table.columns.iter().filter(|c| c.is_computed() || is_left(c));
    computed.map(|c| Computed { name: c.name.clone(), expression: c.default_expression.clone() }).collect()
}

pub(super) fn check_partition(
    table: &TableRow,
    schema: &Schema,
    (config, server): (&TableConfig, &Server),
    faults: &mut Vec<Fault>,
) -> Option<PartitionKey> {
    let zone = match TimeZone::get(&server.zone) {
        Ok(zone) => zone,
        Err(_) => {
            faults.push(Fault::stop(format!("the server's time zone `{}` is not known here", server.zone)));
            return None;
        }
    };
    match PartitionKey::new(&table.partition_key, schema, &computed(table, schema), &zone) {
        Ok(key) => Some(key),
        Err(error) => {
            let of_made = config.create.as_ref().map_or(String::new(), |_| {
                format!(
                    "; `create` changes no table that is there: correct its `partition_by`, and if the table holds no rows that you need, make room for another: \
                     `DROP TABLE {}`",
                    config.quoted()
                )
            });
            faults.push(Fault::stop(format!("{error}{of_made}")));
            None
        }
    }
}
