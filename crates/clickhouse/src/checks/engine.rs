//! A table's engine, read from its name and its full declaration.
//!
//! Owns what an engine means for repeated inserts. Does not own where the text comes from.

use super::read::ColumnRow;

/// An engine of the MergeTree family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// Tokens live in a keeper and are shared by all replicas.
    pub replicated: bool,
    /// The last row inserted wins, so that the order of inserts shows.
    pub order_dependent: bool,
    /// Merges drop or join rows.
    pub merges: bool,
    /// Rows expire: a TTL deletes or joins them.
    pub expires: bool,
    /// Of the rows with the same sorting key it keeps one.
    pub is_replacing: bool,
    /// A row with the opposite sign takes another one away.
    pub is_collapsing: bool,
    /// The columns that it takes as arguments: of a Replacing engine the version, and the one that says what is deleted.
    pub arguments: Vec<String>,
    settings: Vec<(String, String)>,
}

impl Engine {
    /// Reads `engine` and `engine_full` of `system.tables`; an error says why such a table cannot be written.
    pub fn read(engine: &str, engine_full: &str) -> Result<Self, String> {
        let replicated = engine.starts_with("Replicated") || engine.starts_with("Shared");
        let family =
            engine.strip_prefix("Replicated").or_else(|| engine.strip_prefix("Shared")).unwrap_or(engine);
        let Some(kind) = family.strip_suffix("MergeTree") else { return Err(refusal(engine).to_owned()) };
        let arguments = arguments(engine, engine_full);
        let order_dependent = match kind {
            // Coalescing keeps the last value that is not null.
            "Collapsing" | "Coalescing" => true,
            "Replacing" => arguments.is_empty(),
            _ => false,
        };
        Ok(Self {
            name: engine.to_owned(),
            replicated,
            order_dependent,
            merges: !kind.is_empty(),
            expires: takes_rows(clauses(engine_full)),
            is_replacing: kind == "Replacing",
            is_collapsing: kind.ends_with("Collapsing"),
            arguments,
            settings: settings(engine_full),
        })
    }

    /// True for engines whose parts lie in a store that all nodes share, so that no replica can lag.
    pub fn is_shared(&self) -> bool {
        self.name.starts_with("Shared")
    }

    /// True if merges keep of these columns the value that was inserted last, so that the order of inserts shows in it.
    pub fn keeps_last(&self, columns: &[ColumnRow]) -> bool {
        self.merges && columns.iter().any(|column| column.type_name.contains("(anyLast"))
    }

    /// A setting of the table itself, as a number.
    pub fn setting(&self, name: &str) -> Option<u64> {
        number(&self.settings.iter().find(|(n, _)| n == name)?.1)
    }
}

/// A setting's value as a number; a switch may be written as a word.
pub(super) fn number(value: &str) -> Option<u64> {
    match value.trim_matches('\'') {
        "true" => Some(1),
        "false" => Some(0),
        digits => digits.parse().ok(),
    }
}

fn refusal(engine: &str) -> &'static str {
    match engine {
        "Distributed" => {
            "it spreads an insert over shards, each with tokens of its own; write to the local tables"
        }
        "Buffer" => "it keeps rows in memory and loses them in a crash; write to the table behind it",
        "View" | "LiveView" => "a view holds no rows; write to the table below it",
        "MaterializedView" => "write to the table that the view reads, or to its target",
        "Null" => "it throws rows away",
        _ => "only engines of the MergeTree family remember insert tokens",
    }
}

/// The columns that an engine takes as arguments: those that are no quoted text (path and replica are).
fn arguments(engine: &str, engine_full: &str) -> Vec<String> {
    let Some(text) = engine_full.strip_prefix(engine).and_then(|rest| rest.strip_prefix('(')) else {
        return Vec::new();
    };
    let (mut found, mut argument, mut quote, mut is_escaped) = (Vec::new(), String::new(), None, false);
    let mut is_text = false;
    for c in text.chars() {
        match (quote, c) {
            (Some(_), _) if is_escaped => {
                is_escaped = false;
                argument.push(c);
            }
            (Some(_), '\\') => is_escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => argument.push(c),
            (None, '\'' | '`') => {
                quote = Some(c);
                is_text |= c == '\'';
            }
            (None, ',' | ')') => {
                let whole = std::mem::take(&mut argument);
                if !std::mem::take(&mut is_text) && !whole.is_empty() {
                    found.push(whole);
                }
                if c == ')' {
                    return found;
                }
            }
            (None, c) if c.is_whitespace() => {}
            (None, c) => argument.push(c),
        }
    }
    Vec::new()
}

/// The declaration before its settings.
fn clauses(engine_full: &str) -> &str {
    engine_full.rsplit_once(" SETTINGS ").map_or(engine_full, |(clauses, _)| clauses)
}

/// Whether a TTL of rows takes some away. One that moves parts to another disk, or compresses them anew, does not, and says so behind its expression.
fn takes_rows(clauses: &str) -> bool {
    const KEEPS: [&str; 3] = [" TO DISK ", " TO VOLUME ", " RECOMPRESS "];
    let Some((_, ttl)) = clauses.split_once(" TTL ") else { return false };
    // Each without what stands in its quotes and brackets.
    let mut each = vec![String::new()];
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for c in ttl.chars() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '`') => quote = Some(c),
            None if c == '(' => depth += 1,
            None if c == ')' => depth = depth.saturating_sub(1),
            None if depth > 0 => {}
            None if c == ',' => each.push(String::new()),
            None => {
                if let Some(element) = each.last_mut() {
                    element.push(c);
                }
            }
        }
    }
    each.iter().any(|element| !KEEPS.iter().any(|words| element.contains(words)))
}

fn settings(engine_full: &str) -> Vec<(String, String)> {
    let Some((_, settings)) = engine_full.rsplit_once(" SETTINGS ") else { return Vec::new() };
    settings
        .split(", ")
        .filter_map(|pair| pair.split_once(" = ").map(|(n, v)| (n.trim().to_owned(), v.trim().to_owned())))
        .collect()
}
