//! What messages about values and forms say.
//!
//! Owns how a value is shown: as it stands in the file, shortened, and without what may be a password. Does not own what is wrong with it.

use std::borrow::Cow;

use dataflow::printing;

use super::{is_text, takes_types};
use crate::config::schema::View;
use crate::config::spans::{Scalar, Value};

/// Characters of a value that a message repeats at the most.
const SHOWN_MAX: usize = 60;

/// How a form is called in messages and in the reference.
pub fn form(schema: View) -> String {
    let words = schema.words();
    if !words.is_empty() {
        return listed(&words.iter().map(|(word, _)| *word).collect::<Vec<_>>());
    }
    let branches = schema.branches();
    if !branches.is_empty() {
        return forms(&branches);
    }
    match schema.text("type") {
        Some("object") => "a mapping".into(),
        Some("array") => match schema.items() {
            Some(item) if is_text(item) => "a list of texts".into(),
            _ => "a list".into(),
        },
        Some("integer") => "a whole number".into(),
        Some("boolean") => "`true` or `false`".into(),
        _ => "a text".into(),
    }
}

pub(super) fn forms(branches: &[View]) -> String {
    branches.iter().map(|branch| form(*branch)).collect::<Vec<_>>().join(", or ")
}

pub(super) fn looks_secret(path: &str) -> bool {
    ["password", "secret", "token", "pem", "jaas"].iter().any(|word| path.contains(word))
}

pub(super) fn why(schema: View) -> String {
    schema.text("x-why").map_or(String::new(), |why| format!(" ({why})"))
}

/// The reason of the greater bound, if the lesser one has another.
pub(super) fn why_not_more(schema: View) -> String {
    schema.text("x-why-most").map_or_else(|| why(schema), |why| format!(" ({why})"))
}

pub(super) fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [one, two] => format!("{one} or {two}"),
        many => many.join(", "),
    }
}

pub(super) fn quoted(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Broken => "something unreadable".into(),
        Value::Scalar(scalar) => quoted_scalar(scalar),
        Value::List(_) => "a list".into(),
        Value::Map(_) => "a mapping".into(),
    }
}

/// A value as it stands in the file, never what a reference stands for.
pub(super) fn quoted_scalar(scalar: &Scalar) -> String {
    let text = format!("`{}`", shown(&without_credentials(&scalar.written)));
    let looks_typed = matches!(scalar.text.as_str(), "true" | "false") || scalar.text.parse::<i128>().is_ok();
    if looks_typed && !takes_types(scalar) { format!("{text} in quotes") } else { text }
}

/// An address without what may be a user, a password or a query with one in it: which of its characters belong to a password
/// cannot be told where somebody forgot to encode them, so from a URL only the scheme is left.
fn without_credentials(text: &str) -> Cow<'_, str> {
    if !text.contains(['@', '?', '#']) {
        return Cow::Borrowed(text);
    }
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), _) => format!("{scheme}://***").into(),
        (None, Some((_, after))) if !after.contains(['?', '#', '=']) => format!("***@{after}").into(),
        (None, Some(_)) => "***".into(),
        (None, None) => match text.split_once('?') {
            Some((before, query)) if query.contains('=') => format!("{before}?***").into(),
            _ => Cow::Borrowed(text),
        },
    }
}

pub(super) fn shown(text: &str) -> String {
    let escape = |c: char| -> Box<dyn Iterator<Item = char>> {
        if printing::is_printable(c) { Box::new(c.escape_debug()) } else { Box::new(c.escape_default()) }
    };
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(escape).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}
