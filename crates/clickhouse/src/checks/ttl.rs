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
    let is_it = |column: &&str| column.trim_start().starts_with(&begin);
    columns(create_query).into_iter().filter(is_it).any(|column| without_quoted(column).contains(" TTL "))
}

/// What stands between the commas of the first parentheses. In texts and names, which stand in quotes, neither means anything.
fn columns(create_query: &str) -> Vec<&str> {
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0);
    let (mut quote, mut is_escaped) = (None, false);
    for (at, c) in create_query.char_indices() {
        match (quote, c) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '`') => quote = Some(c),
            (None, '(') => {
                depth += 1;
                begin = if depth == 1 { at + 1 } else { begin };
            }
            (None, ')') if depth == 1 => {
                found.push(&create_query[begin..at]);
                break;
            }
            (None, ')') => depth -= 1,
            (None, ',') if depth == 1 => {
                found.push(&create_query[begin..at]);
                begin = at + 1;
            }
            (None, _) => {}
        }
    }
    found
}

/// A column's declaration without what stands in quotes, where words mean nothing.
fn without_quoted(text: &str) -> String {
    let (mut quote, mut is_escaped) = (None, false);
    let mut shown = String::new();
    for c in text.chars() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '`') => quote = Some(c),
            None => shown.push(c),
        }
    }
    shown
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

    /// In a name the server escapes backticks and backslashes, and no other quote.
    #[test]
    fn odd_names_hide_no_ttl() {
        for name in ["it's", "a)", "a(", "a,b", "a\\`b", " TTL "] {
            let column = identifier(name);
            let declared = |rest: &str| {
                format!(
                    "CREATE TABLE `d(`.t ({column} Int32, `_forebay` UUID{rest}) ENGINE = MergeTree ORDER BY {column}"
                )
            };
            assert!(has_ttl(&declared(" TTL at + toIntervalDay(1)"), "_forebay"), "{name}");
            assert!(!has_ttl(&declared(""), "_forebay") && !has_ttl(&declared(""), name), "{name}");
        }
        let declared = "CREATE TABLE a.t (`n` Int32, `it's` UUID TTL at + toIntervalDay(1)) ENGINE = MergeTree ORDER BY n";
        assert!(has_ttl(declared, "it's") && !has_ttl(declared, "n"));
    }
}
