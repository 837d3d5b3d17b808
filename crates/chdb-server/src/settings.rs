//! The engine's settings by name: which exist, and how they reach a connection.
//!
//! Owns the refusal of an unknown name, and how names and values are quoted. Does not own which settings reach files or the network
//! (`gate`).
//!
//! The engine ignores a setting that it does not know; ClickHouse's HTTP interface refuses it with code 115, and a
//! misspelt `insert_deduplication_token` that is silently dropped doubles rows. So names are checked here.

use std::collections::BTreeSet;

use crate::response::{Failure, UNKNOWN_SETTING};

/// The names that the engine knows, aliases included.
#[derive(Debug, Default)]
pub struct Known {
    names: BTreeSet<String>,
}

impl Known {
    /// From the lines of `SELECT name FROM system.settings FORMAT TabSeparated`; setting names need no escapes.
    pub fn from_lines(lines: &str) -> Known {
        Known { names: lines.lines().map(str::to_owned).collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Refuses the first setting that does not exist, and names the nearest that does.
    pub fn check(&self, settings: &[(String, String)]) -> Result<(), Failure> {
        let Some((name, _)) = settings.iter().find(|(name, _)| !self.names.contains(name)) else {
            return Ok(());
        };
        let near = self.nearest(name).map(|near| format!(", maybe you meant `{near}`")).unwrap_or_default();
        Err(Failure::new(
            UNKNOWN_SETTING,
            &format!(
                "Setting {name} is neither a builtin setting nor a parameter of the HTTP interface{near}. (UNKNOWN_SETTING)"
            ),
        ))
    }

    fn nearest(&self, name: &str) -> Option<&str> {
        let (distance, near) =
            self.names.iter().map(|known| (strsim::levenshtein(name, known), known.as_str())).min()?;
        (distance <= 1 + name.len() / 5).then_some(near)
    }
}

/// Settings as the arguments of a new connection, which is where a request's own settings go: the connection lives
/// as long as the request, so nobody else sees them.
pub fn arguments(settings: &[(String, String)]) -> Vec<String> {
    settings.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// `SET a = 'x', b = 'y'`
pub fn set_statement(settings: &[(String, String)]) -> String {
    let each: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name} = {}", literal(value))).collect();
    format!("SET {}", each.join(", "))
}

/// A string literal of ClickHouse.
pub fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for character in text.chars() {
        match character {
            '\\' | '\'' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            _ => out.push(character),
        }
    }
    out.push('\'');
    out
}

/// A quoted identifier of ClickHouse.
pub fn identifier(text: &str) -> String {
    format!("`{}`", text.replace('\\', "\\\\").replace('`', "\\`"))
}

#[cfg(test)]
mod tests;
