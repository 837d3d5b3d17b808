//! The columns of a table that is to be made, before it is: what the server would show of them, and whether a pipeline can write them and cut its rows by the
//! partition key.
//!
//! Owns the reading of [`CreateTable`] and its faults, by column. Does not own the rules themselves, which are those of a table that is there ([`super::columns`]),
//! nor what only the server knows: whether its expressions and codecs exist.

use dataflow::Schema;

use super::chosen::Chosen;
use super::read::{ColumnRow, TableRow};
use super::{Fault, PROVENANCE, columns, upsert};
use crate::config::{CreateTable, TableConfig, Upsert};
use crate::partition;
use crate::types::{self, TypeError};
use crate::upsert::VERSION;

/// What is wrong with a column that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnFault {
    /// The column; `None` if it is about several.
    pub column: Option<String>,
    /// Why it cannot be made or written.
    pub message: String,
}

/// The columns that rows must have for a table that is made by `create`.
///
/// # Errors
/// What no table could be written with: once it is made, `create` changes nothing any more.
pub fn declared(config: &TableConfig, create: &CreateTable) -> Result<Schema, Vec<ColumnFault>> {
    let (mut table, mut unwritten, mut faults) = (TableRow::default(), Vec::new(), Vec::new());
    for (name, text) in &create.columns {
        let column = Some(name.clone());
        match types::declaration(name, text) {
            Err(error) => faults.push(ColumnFault { column, message: format!("`{text}`: {}", error.reason) }),
            Ok(read) => {
                table.columns.push(ColumnRow {
                    name: name.clone(),
                    type_name: read.shown(),
                    default_kind: read.default_kind.to_owned(),
                    default_expression: read.default_expression.clone(),
                });
                unwritten.extend(read.column_type.err().map(|error| (name, error)));
            }
        }
    }
    add_made(&mut table, config);
    let names = Chosen::of(&table, config, &mut Vec::new()).names;
    let is_sent = |name: &String| names.contains(&name.as_str()) && name != PROVENANCE;
    let unwritten = unwritten.into_iter().filter(|(name, _)| is_sent(name));
    faults.extend(unwritten.map(|(name, error)| of_type(name, &error)));
    if !faults.is_empty() {
        return Err(faults);
    }
    let schema = judged(&table, config)?;
    let computed = columns::computed(&table, &schema);
    match partition::fault_in_words(&create.partition_by, &schema, &computed) {
        None => Ok(schema),
        Some(error) => Err(vec![ColumnFault { column: None, message: error.to_string() }]),
    }
}

/// Adds what a start adds to the columns of the file.
fn add_made(table: &mut TableRow, config: &TableConfig) {
    let makes_versions = config.upsert.as_ref().is_some_and(Upsert::makes_versions);
    let sign = config.upsert.as_ref().and_then(|upsert| upsert.sign.as_deref());
    for (name, type_name, is_made) in [
        (PROVENANCE, "UUID", config.provenance),
        (VERSION, "UInt64", makes_versions),
        (sign.unwrap_or_default(), "Int8", sign.is_some()),
    ] {
        if is_made && !table.columns.iter().any(|column| column.name == name) {
            table.columns.push(ColumnRow {
                name: name.into(),
                type_name: type_name.into(),
                ..ColumnRow::default()
            });
        }
    }
}

fn of_type(name: &str, error: &TypeError) -> ColumnFault {
    let message = format!(
        "no pipeline writes a column of the type `{}`: {}; or let the server fill the column, by `MATERIALIZED` and an expression behind the type",
        error.type_name, error.reason
    );
    ColumnFault { column: Some(name.to_owned()), message }
}

/// The rules of a table that is there, as far as they are about columns.
fn judged(table: &TableRow, config: &TableConfig) -> Result<Schema, Vec<ColumnFault>> {
    let mut faults = Vec::new();
    let schema = columns::written(table, config, &mut faults, &mut Vec::new());
    // That a name is no column at all is a fault of whoever names it.
    let is_there = |name: &String| table.columns.iter().any(|column| column.name == *name);
    let mut known = config.clone();
    known.unique_key.retain(is_there);
    columns::check_unique_key(table, &schema, &known, &mut faults);
    let are_there = known.upsert.as_ref().is_some_and(|upsert| {
        let deleted = upsert.deleted.iter().filter(|_| upsert.sign.is_none());
        upsert.key.iter().chain(&upsert.version).chain(deleted).all(is_there)
    });
    if are_there && faults.is_empty() {
        upsert::check_declared(table, &schema, &known, &mut faults);
    }
    // The statements that fix them are for a table that is there.
    let of_several = |fault: Fault| ColumnFault { column: None, message: fault.message };
    if faults.is_empty() { Ok(schema) } else { Err(faults.into_iter().map(of_several).collect()) }
}

#[cfg(test)]
mod tests;
