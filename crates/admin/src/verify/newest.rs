//! Tables whose rows replace each other by key: which records may be the newest of their key.
//!
//! Owns what orders the records of a key, what marks a key as deleted, and the pipelines for which neither can be known afterwards. Does not own the
//! comparison ([`super::expect`]); the table is asked with `FINAL`.
//!
//! | the versions come from | the newest record of a key                                                                  |
//! |------------------------|---------------------------------------------------------------------------------------------|
//! | Forebay (`_version`)   | the last of its partition; of several partitions any of their last ones, as nobody knows the order between them |
//! | a column               | the one with the greatest value; of equal ones as above                                     |

use std::collections::BTreeSet;

use anyhow::{bail, ensure};
use clickhouse::reconcile::KeyPlan;
use dataflow::{Batch, ColumnType, Schema};
use pipeline::config::model::Pipeline;
use pipeline::config::model::sink::{Target, Upsert};

use super::Bound;
use super::spill::Entry;

/// What is read of a record beside its key.
#[derive(Clone, Debug)]
pub struct Newest {
    /// The column of the version, and whether its numbers need all 64 bits.
    version: Option<(KeyPlan, bool)>,
    /// The column that is true for a deleted key.
    deleted: Option<KeyPlan>,
}

impl Newest {
    /// What `upsert` says of rows with these columns.
    ///
    /// # Errors
    /// When a column is not there, or is of a type without an order.
    pub fn new(upsert: &Upsert, schema: &Schema) -> Result<Self, String> {
        let plan = |name: &str| KeyPlan::new(schema, &[name.to_owned()]);
        let version = upsert.version.as_ref().map(|name| {
            let column = schema.index_of(name.as_str()).map(|at| &schema.columns()[at].column_type);
            let is_wide = column.is_some_and(|column| *column.bare() == ColumnType::UInt64);
            plan(name.as_str()).map(|plan| (plan, is_wide))
        });
        let deleted = upsert.deleted.as_ref().map(|name| plan(name.as_str()));
        Ok(Self { version: version.transpose()?, deleted: deleted.transpose()? })
    }

    /// For each row its place among the versions of its key, and whether it deletes the key.
    ///
    /// # Errors
    /// When a column is not what the schema says: a fault of the program.
    pub fn of(&self, batch: &Batch) -> Result<Vec<(i64, bool)>, String> {
        let mut all = vec![(0, false); batch.len()];
        if let Some((plan, is_wide)) = &self.version {
            let mut wrong = None;
            plan.texts(&batch.rows, |row, text| match number(text, *is_wide) {
                Some(version) => all[row].0 = version,
                None => wrong = Some(format!("`{}` is no version", String::from_utf8_lossy(text))),
            })?;
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
        if let Some(plan) = &self.deleted {
            // With a sign the column need not be one of the table, and a record may leave it out.
            plan.texts(&batch.rows, |row, text| all[row].1 = matches!(text, b"1" | b"=1"))?;
        }
        Ok(all)
    }
}

/// The version as a number with the same order.
fn number(text: &[u8], is_wide: bool) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    match is_wide {
        true => Some((text.parse::<u64>().ok()? ^ (1 << 63)).cast_signed()),
        false => text.parse().ok(),
    }
}

/// Which of the records of a key may be the newest: at least one. `copies` are sorted by version, then place; at least one.
pub fn candidates(copies: &[Entry]) -> Vec<&Entry> {
    let greatest = copies[copies.len() - 1].order;
    let first = copies.partition_point(|copy| copy.order < greatest);
    let by_partition = copies[first..].chunk_by(|a, b| a.place.partition == b.place.partition);
    by_partition.filter_map(<[Entry]>::last).collect()
}

/// The key of a table whose rows replace each other, if the newest record of a key can be known.
///
/// # Errors
/// When it cannot: a step drops records by what it has seen, or not all records are read.
pub fn key(
    (pipeline, target, upsert): (&Pipeline, &Target, &Upsert),
    (asked, values): (&[String], bool),
    (from, to): (&[Bound], &[Bound]),
) -> anyhow::Result<Vec<String>> {
    let key: Vec<String> = upsert.key.iter().map(ToString::to_string).collect();
    let table = target.clickhouse.table_name();
    let same = |names: &[String]| names.iter().collect::<BTreeSet<_>>() == key.iter().collect();
    ensure!(
        asked.is_empty() || same(asked),
        "rows replace each other by {key:?}, so they can only be compared by that"
    );
    ensure!(
        to.is_empty(),
        "the newest row of a key in table `{table}` may be of a record behind a range; leave `--to` out"
    );
    let is_exact = from.iter().all(|bound| matches!(bound, Bound::Position { .. }));
    ensure!(
        from.is_empty() || is_exact && upsert.version.is_none(),
        "the newest row of a key in table `{table}` may be of a record before a range; leave `--from` out"
    );
    for dedup in pipeline.steps.iter().filter_map(|step| step.dedup.as_ref()) {
        // With the key among its columns the first record of each is a row, whatever is dropped behind it.
        let has_key = upsert.key.iter().all(|name| dedup.key.contains(name));
        if !has_key || values || upsert.deleted.is_some() {
            bail!(
                "which records of a key a `dedup` has dropped is not known afterwards, so nobody can say which is its newest in table `{table}`{}",
                match has_key && upsert.deleted.is_none() {
                    true => "; leave `--values` out, and the keys alone are compared",
                    false => "; other tables can be compared with `--table`",
                }
            );
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests;
