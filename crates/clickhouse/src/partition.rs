//! Cuts rows by the partition of the table that they fall into.
//!
//! Owns the reading of a partition key and its evaluation over Arrow rows. Does not own the server's partition ids: rows are only
//! told apart. The rule is: **rows that the server would put into two partitions never share a group**. The other
//! way round is allowed (a finer cut costs a part, not correctness), and a mistake is refused by the server, since frames
//! are sent with `max_partitions_per_insert_block=1`.
//!
//! | partition key                                   | evaluated as                                   |
//! |-------------------------------------------------|------------------------------------------------|
//! | none, `tuple()`                                 | one group                                      |
//! | a sent column                                   | its value                                      |
//! | `toYYYYMM`, `toDate`, `toStartOf…`, `toMonday`, `toYear`, … of a date or time | in the column's zone, or the one given, or the server's |
//! | `col % n`, `modulo`, `moduloLegacy`, `intDiv`   | of integers                                    |
//! | a MATERIALIZED or ALIAS column                  | its expression                                 |
//! | tuples of these                                 | each                                           |
//! | everything else                                 | refused at start                               |
//!
//! A null that stands for a constant DEFAULT is a group of its own: all of them get the same value. A DEFAULT that is not
//! constant would be evaluated by the server at each attempt again, so that a repeated frame could land in another
//! partition, where its token is not known: refused at start.

mod calendar;
mod eval;
mod parse;

use arrow_array::RecordBatch;
use dataflow::{Column, Schema};
use jiff::tz::TimeZone;

use crate::native::{RowRef, Rows};
use eval::{Compiler, Part};

/// Expressions that a partition key is looked through for columns.
const EXPRESSIONS_MAX: usize = 10_000;

/// A column of the table that is not sent, and the expression that gives its value.
#[derive(Clone, Debug)]
pub struct Computed {
    /// The column's name.
    pub name: String,
    /// Its MATERIALIZED or ALIAS expression.
    pub expression: String,
}

/// Why the partition key cannot be evaluated here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the partition key `{key}` cannot be cut by: {reason}")]
pub struct PartitionError {
    /// The whole key.
    pub key: String,
    /// What of it, and the way out.
    pub reason: String,
}

/// A partition key, ready to be evaluated.
#[derive(Debug, PartialEq)]
pub struct PartitionKey {
    parts: Vec<Part>,
}

/// Rows of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The partition in readable form: the values of the key's parts, joined by `-`. Empty if the table has no key.
    pub partition: String,
    /// Its rows in their order; `None` means every row that was given.
    pub rows: Option<Vec<RowRef>>,
}

impl PartitionKey {
    /// Reads `key` as `system.tables.partition_key` writes it.
    pub fn new(
        key: &str,
        schema: &Schema,
        computed: &[Computed],
        server_zone: &TimeZone,
    ) -> Result<Self, PartitionError> {
        let fail = |reason: String| PartitionError { key: key.to_owned(), reason };
        if key.trim().is_empty() {
            return Ok(Self { parts: Vec::new() });
        }
        let unread = |reason: String| {
            format!("{reason}, as far as keys are read here; partition by a column that holds the value")
        };
        let expressions = parse::key(key).map_err(|reason| fail(unread(reason)))?;
        let compiler = Compiler { schema, computed, server_zone };
        let parts = expressions.iter().map(|e| compiler.part(e)).collect::<Result<_, _>>().map_err(fail)?;
        Ok(Self { parts })
    }

    /// Those of the rows that fall into each partition, in the order of the first row of each. There are as many groups as the rows have
    /// partitions, at the most one a row: the caller's bound on rows is the bound on groups.
    pub fn cut(&self, batches: &[RecordBatch], rows: Rows<'_>) -> Result<Vec<Group>, String> {
        if self.parts.is_empty() {
            return Ok(vec![Group { partition: String::new(), rows: None }]);
        }
        let values = self.parts.iter().map(|p| p.evaluate(batches)).collect::<Result<Vec<_>, String>>()?;
        Ok(eval::group(&values, batches, rows))
    }
}

/// Whether a DEFAULT expression is the same for every row and every attempt: literals and functions of them that depend on
/// nothing else.
pub fn is_constant(expression: &str) -> bool {
    parse::expression(expression).is_ok_and(|e| e.is_constant())
}

/// The columns of a key that is made of nothing but columns; `None` otherwise.
pub(crate) fn plain_columns(key: &str) -> Option<Vec<String>> {
    let parts = if key.trim().is_empty() { Vec::new() } else { parse::key(key).ok()? };
    parts.into_iter().map(|e| if let parse::Expr::Name(name) = e { Some(name) } else { None }).collect()
}

/// The columns that a key is computed from, MATERIALIZED and ALIAS ones by what they are computed from; `None` if it cannot be read.
pub(crate) fn columns_of(key: &str, computed: &[Computed]) -> Option<Vec<String>> {
    if key.trim().is_empty() {
        return Some(Vec::new());
    }
    let (mut left, mut found) = (parse::key(key).ok()?, Vec::new());
    // Each column is computed from ones before it; a circle ends by the bound.
    let mut steps = 0;
    while let Some(expression) = left.pop() {
        steps += 1;
        match expression {
            _ if steps > EXPRESSIONS_MAX => return None,
            parse::Expr::Call(_, arguments) => left.extend(arguments),
            parse::Expr::Name(name) => match computed.iter().find(|computed| computed.name == name) {
                Some(computed) => left.extend(parse::key(&computed.expression).ok()?),
                None => found.push(name),
            },
            parse::Expr::Int(_) | parse::Expr::Number | parse::Expr::Text(_) => {}
        }
    }
    Some(found)
}

/// Why rows cannot be cut by a key as a person writes it, before a server has read it; `None` if they can be, or if only a server can read it (`n DIV 8`
/// is `intDiv(n, 8)` to everybody once it has). Whether a DEFAULT is constant shows in the server's words, and is left to them too.
pub(crate) fn fault_in_words(key: &str, schema: &Schema, computed: &[Computed]) -> Option<PartitionError> {
    columns_of(key, computed)?;
    let without_default = |column: &Column| Column::new(column.name.clone(), column.column_type.clone());
    let schema = Schema::new(schema.columns().iter().map(without_default).collect());
    // The zone says which rows share a partition, and not whether they can be cut.
    PartitionKey::new(key, &schema, computed, &TimeZone::UTC).err()
}

#[cfg(test)]
mod tests;
