//! Columns by which rows are found again, and that expire.
//!
//! Owns the reading of a column's TTL from a table's declaration, for no system table shows it. Does not own the TTL of rows ([`super::engine`]).

use super::Fault;
use super::read::TableRow;
use crate::config::TableConfig;
use crate::types::identifier;

/// A fault for each of these columns that has a TTL: it takes their values and leaves the rows, which would count as absent then and be written again.
pub(super) fn check(table: &TableRow, names: &[&str], config: &TableConfig, faults: &mut Vec<Fault>) {
    for name in names.iter().filter(|name| has_ttl(&table.create_query, name)) {
        faults.push(Fault::fixed_by(
            format!(
                "column `{name}`, by which the rows of an insert in doubt are found, has a TTL: rows whose value has expired would be called absent, \
                 and be written twice"
            ),
            format!("ALTER TABLE {} MODIFY COLUMN {} REMOVE TTL", config.quoted(), identifier(name)),
        ));
    }
}

/// Whether a column has a TTL in a declaration as the server writes it: each column begins with its name in backticks, and ends with the TTL.
fn has_ttl(create_query: &str, name: &str) -> bool {
    let begin = format!("{} ", identifier(name));
    columns(&without_texts(create_query))
        .any(|column| column.trim_start().starts_with(&begin) && column.contains(" TTL "))
}

/// What stands between the commas of the first parentheses.
fn columns(create_query: &str) -> impl Iterator<Item = &str> {
    let (_, rest) = create_query.split_once('(').unwrap_or_default();
    let depth_behind = |depth: &mut i32, c: char| {
        *depth += i32::from(c == '(') - i32::from(c == ')');
        Some(*depth)
    };
    let end = rest.chars().scan(0, depth_behind).position(|depth| depth < 0);
    let end = end.and_then(|nth| rest.char_indices().nth(nth)).map_or(rest.len(), |(at, _)| at);
    let mut depth = 0;
    rest[..end].split(move |c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0 && c == ','
    })
}

/// A declaration without what stands in single quotes, where commas, parentheses and words mean nothing.
fn without_texts(text: &str) -> String {
    let (mut is_inside, mut is_escaped) = (false, false);
    let is_shown = |c: &char| {
        let ends = *c == '\'' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_inside ^= ends;
        !is_inside && !ends
    };
    text.chars().filter(is_shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_that_of_the_column_that_it_follows() {
        let declared = "CREATE TABLE a.t (`n` Int32, `at` DateTime, `x` Array(Tuple(a Int32, b String)) TTL at + toIntervalDay(1), `s` String DEFAULT '`d` \\' TTL (', \
                        `d` Decimal(9, 2), `_forebay` UUID TTL at + toIntervalDay(1, 2)) ENGINE = MergeTree ORDER BY n TTL at + toIntervalDay(7)";
        let found: Vec<&str> = ["n", "at", "x", "s", "d", "_forebay", "a", "ENGINE"]
            .into_iter()
            .filter(|name| has_ttl(declared, name))
            .collect();
        assert_eq!(found, ["x", "_forebay"]);
        assert!(!has_ttl("CREATE TABLE t ENGINE = MergeTree", "n") && !has_ttl("", "n"));
        assert!(!has_ttl(
            "CREATE TABLE t (`n` Int32) ENGINE = MergeTree ORDER BY f(`n` TTL 1, `n` TTL 2)",
            "n"
        ));
    }
}
