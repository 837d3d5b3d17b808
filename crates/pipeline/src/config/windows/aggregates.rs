//! The texts of `aggregates:`, as in `sum(distinct amount) where status = 'paid'`.
//!
//! Owns their grammar and which function a name means. Does not own what functions take ([`operators::window::aggregate`]), nor the meaning of
//! expressions: what is no column becomes a column of its own, which a step before the window computes.
//!
//! ```text
//! aggregate = name "(" [ "distinct" ] [ argument { "," argument } ] ")" [ "where" condition | "filter" "(" "where" condition ")" ]
//! ```

use operators::window::aggregate::QUANTILE_ONE;
use operators::window::{Aggregate, Function};

use crate::config::nearest::nearest;
use crate::config::values::column_of;

/// An aggregate, and the columns that must be computed for it: their texts, which are their names.
#[derive(Debug)]
pub(super) struct Read {
    pub aggregate: Aggregate,
    pub computed: Vec<String>,
}

/// Reads the text of the aggregate `name`.
///
/// # Errors
/// What is wrong with it, with a way out.
pub(super) fn read(name: &str, text: &str) -> Result<Read, String> {
    let text = text.trim();
    let no_aggregate = || {
        format!("`{text}` is no aggregate; write `count()`, `sum(column)` or `sum(column) where condition`")
    };
    let (word, rest) = text.split_once('(').ok_or_else(no_aggregate)?;
    let close = end(rest).ok_or_else(|| format!("`{text}` has a `(` that nothing closes"))?;
    let (inner, behind) = (rest[..close].trim(), rest[close + 1..].trim());
    if behind.starts_with('(') {
        return Err(format!(
            "`{text}` has its numbers in front; write the column first, as in `quantile(x, 0.99)` or `group_array(x, 10)`"
        ));
    }
    let mut condition = condition(behind).ok_or_else(no_aggregate)?;
    let (distinct, inner) = match after_word(inner, "distinct") {
        Some(rest) => (true, rest),
        None => (false, inner),
    };
    let mut arguments = if inner.is_empty() { Vec::new() } else { split(inner) };
    let (word_of, is_state) = of_state(word.trim());
    let (function, is_conditional) = function(word_of)?;
    if is_state {
        own_state(function, word_of)?;
    }
    if is_conditional {
        if condition.is_some() {
            return Err(format!("`{text}` has two conditions; write them as one with `AND`"));
        }
        let last = arguments.pop().ok_or_else(|| format!("`{}` needs a condition", word.trim()))?;
        condition = Some(last.to_owned());
    }
    of(name, (function, is_state), distinct, &arguments, condition.as_deref())
}

/// Whether a function of this name is one, as `sum`, `sumIf` and `sumState` are.
#[cfg(feature = "sql")]
pub(super) fn is_name(word: &str) -> bool {
    function(of_state(word).0).is_ok()
}

/// The word without `State`, and whether it had that: `sumState(x)` is the state of `sum(x)`.
fn of_state(word: &str) -> (&str, bool) {
    let at = word.len().saturating_sub("state".len());
    match word.split_at_checked(at) {
        Some((function, suffix)) if suffix.eq_ignore_ascii_case("state") && !function.is_empty() => {
            (function.strip_suffix('_').unwrap_or(function), true)
        }
        _ => (word, false),
    }
}

/// Refuses the state of a function under another name than the server's: there it is another state, or none. What has no state under any name is refused with
/// the whole aggregate.
fn own_state(function: Function, word: &str) -> Result<(), String> {
    let Some(state) = function.state() else { return Ok(()) };
    let plain = match word.to_lowercase().strip_suffix("if") {
        Some(plain) if Function::named(word).is_none() => plain.to_owned(),
        _ => word.to_lowercase(),
    };
    if function.names_state(&plain) {
        return Ok(());
    }
    let own = state.name();
    Err(format!(
        "the state of `{word}` is not made; write `{own}State(…)` for a column of type `AggregateFunction({own}, …)`, or write the records to a table, and let a \
         materialized view aggregate them"
    ))
}

/// The aggregate of a function that was found.
fn of(
    name: &str,
    (function, is_state): (Function, bool),
    distinct: bool,
    arguments: &[&str],
    condition: Option<&str>,
) -> Result<Read, String> {
    let word = function.word();
    let mut computed = Vec::new();
    let mut column = |text: &str| {
        column_of(text).unwrap_or_else(|| {
            let text = spaced(text);
            computed.push(text.clone());
            text
        })
    };
    let (first, more) = match arguments.split_first() {
        None | Some((&"*", [])) if function == Function::Count && !distinct => (None, &[][..]),
        None | Some((&"*", _)) => {
            return Err(format!("`{word}` needs a column, as in `{word}(amount)`"));
        }
        Some((first, more)) => (Some(column(first)), more),
    };
    let (by, more) = match more.split_first() {
        Some((by, more)) if function.has_by() => (Some(column(by)), more),
        _ if function.has_by() => {
            return Err(format!("`{word}` needs two columns, as in `{word}(price, sold_at)`"));
        }
        _ => (None, more),
    };
    let condition = condition.map(&mut column);
    let numbers = match function {
        Function::Quantile if arguments.len() == 1 => vec![QUANTILE_ONE / 2],
        Function::Quantile | Function::Quantiles => {
            more.iter().map(|text| level(text)).collect::<Result<_, _>>()?
        }
        Function::GroupArray => more
            .iter()
            .map(|text| {
                text.parse().map_err(|_| format!("`{text}` is no number of values; write `{word}(x, 10)`"))
            })
            .collect::<Result<_, _>>()?,
        _ if more.is_empty() => Vec::new(),
        _ => {
            return Err(format!("`{word}` takes one column; compute others in a `select` before the window"));
        }
    };
    let aggregate = Aggregate {
        name: name.to_owned(),
        function,
        column: first,
        by,
        numbers,
        distinct,
        condition,
        is_state,
    };
    aggregate.check()?;
    Ok(Read { aggregate, computed })
}

/// An expression with single spaces, so that one that was written twice is computed once; as it stands if spaces may mean something.
fn spaced(text: &str) -> String {
    let means_something = text.contains(['\'', '"', '`']) || text.contains("--");
    if means_something {
        return text.trim().to_owned();
    }
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// The function of a name, and whether its last argument is a condition, as in `countIf(paid)`.
fn function(word: &str) -> Result<(Function, bool), String> {
    let lower = word.to_lowercase();
    if let Some(function) = Function::named(word) {
        return Ok((function, false));
    }
    if let Some(function) = lower.strip_suffix("if").and_then(Function::named) {
        return Ok((function, true));
    }
    if lower == "median" {
        return Ok((Function::Quantile, false));
    }
    let words: Vec<&str> = Function::ALL.iter().map(|function| function.word()).collect();
    let near = nearest(&lower, &words);
    let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`"));
    Err(format!("there is no aggregate `{word}`{near}; there are {}", words.join(", ")))
}

/// A level from 0 to 1 in millionths.
fn level(text: &str) -> Result<u64, String> {
    let level: f64 = text
        .parse()
        .ok()
        .filter(|level| (0.0..=1.0).contains(level))
        .ok_or_else(|| format!("`{text}` is no level from 0 to 1, as in `quantile(x, 0.99)`"))?;
    Ok((level * QUANTILE_ONE as f64).round() as u64)
}

/// The condition behind an aggregate; `None` for something else.
fn condition(behind: &str) -> Option<Option<String>> {
    if behind.is_empty() {
        return Some(None);
    }
    let condition = match after_word(behind, "filter") {
        Some(rest) => {
            let inner = rest.strip_prefix('(')?;
            let close = end(inner)?;
            inner[close + 1..].trim().is_empty().then_some(())?;
            after_word(inner[..close].trim(), "where")?
        }
        None => after_word(behind, "where")?,
    };
    (!condition.is_empty()).then(|| Some(condition.to_owned()))
}

/// What follows a word, in any case; `None` if the text begins otherwise.
fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(word.len())?;
    let ends = rest.chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '_');
    (first.eq_ignore_ascii_case(word) && ends).then(|| rest.trim_start())
}

/// Each byte that stands outside of quotes, with how many brackets are open before it.
fn outside(text: &str) -> impl Iterator<Item = (usize, u8, i32)> {
    let (mut quote, mut depth) = (None, 0);
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        match (quote, byte) {
            (Some(open), _) => {
                if byte == open {
                    quote = None;
                }
                return None;
            }
            (None, b'\'' | b'"' | b'`') => {
                quote = Some(byte);
                return None;
            }
            _ => {}
        }
        let before = depth;
        depth += i32::from(matches!(byte, b'(' | b'[')) - i32::from(matches!(byte, b')' | b']'));
        Some((at, byte, before))
    })
}

/// Where the bracket is closed that the text stands behind.
fn end(text: &str) -> Option<usize> {
    outside(text).find(|(_, byte, depth)| *byte == b')' && *depth == 0).map(|(at, ..)| at)
}

/// The arguments between commas.
fn split(text: &str) -> Vec<&str> {
    let mut begin = 0;
    let mut arguments = Vec::new();
    for (at, _, _) in outside(text).filter(|(_, byte, depth)| *byte == b',' && *depth == 0) {
        arguments.push(text[begin..at].trim());
        begin = at + 1;
    }
    arguments.push(text[begin..].trim());
    arguments
}

#[cfg(test)]
mod tests;
