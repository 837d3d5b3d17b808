//! Values within JSON text.
//!
//! Owns the walk along a path, without building what lies beside it. Does not own records in JSON (`formats::json`), nor what a column of
//! type JSON may hold (`dataflow::json_object`). Numbers and keys are those of the text: nothing is rounded.
//!
//! A path that leads nowhere, `null`, and a value of another kind give NULL. A text that is not JSON, and a number that the type does not hold, fail
//! their record: `CASE WHEN json_valid(body) THEN …` keeps it.

use std::borrow::Cow;

use dataflow::printing::escaped;
use serde::de::IgnoredAny;

use super::{Answer, Arguments, Body, Definition};

/// Steps of a path: deeper ones are written as two calls.
const PATH_MAX: usize = 16;

/// Reads JSON.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "json_get_string",
        call: "json_get_string(text, key_or_index, …)",
        about: "The text at the path.",
        arguments: (1, PATH_MAX + 1),
        total: false,
        body: Body::Text(string),
    },
    Definition {
        name: "json_get_int",
        call: "json_get_int(text, key_or_index, …)",
        about: "The whole number at the path, as Int64; a record whose number does not fit is rejected.",
        arguments: (1, PATH_MAX + 1),
        total: false,
        body: Body::Int(int),
    },
    Definition {
        name: "json_get_float",
        call: "json_get_float(text, key_or_index, …)",
        about: "The number at the path, as the nearest Float64; a record whose number is beyond its range is rejected.",
        arguments: (1, PATH_MAX + 1),
        total: false,
        body: Body::Float(float),
    },
    Definition {
        name: "json_get_bool",
        call: "json_get_bool(text, key_or_index, …)",
        about: "The true or false at the path.",
        arguments: (1, PATH_MAX + 1),
        total: false,
        body: Body::Bool(boolean),
    },
    Definition {
        name: "json_get_json",
        call: "json_get_json(text, key_or_index, …)",
        about: "What is at the path as JSON text, as it was written.",
        arguments: (1, PATH_MAX + 1),
        total: false,
        body: Body::Text(json),
    },
    Definition {
        name: "json_length",
        call: "json_length(text, key_or_index, …)",
        about: "How many items the array, or keys the object, at the path has.",
        arguments: (1, PATH_MAX + 1),
        total: false,
        body: Body::Int(length),
    },
    Definition {
        name: "json_contains",
        call: "json_contains(text, key_or_index, …)",
        about: "Whether the path leads to a value, be it `null`.",
        arguments: (1, PATH_MAX + 1),
        total: true,
        body: Body::Bool(contains),
    },
    Definition {
        name: "json_valid",
        call: "json_valid(text)",
        about: "Whether the text is JSON.",
        arguments: (1, 1),
        total: true,
        body: Body::Bool(valid),
    },
];

/// The text of the value at the path.
fn find<'a>(arguments: Arguments<'a, '_>) -> Answer<&'a str> {
    let Some((text, path)) = arguments.split_first() else { return Ok(None) };
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| format!("the text is not valid JSON: {error}"))?;
    let mut value = text.trim_matches(BLANKS);
    for step in path {
        match Members::of(value).and_then(|members| members.find(step)) {
            Some(found) => value = found,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn string<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    let Some(raw) = find(arguments)?.filter(|raw| raw.starts_with('"')) else { return Ok(None) };
    // Without an escape the text stands in the record.
    let inner =
        raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).filter(|inner| !inner.contains('\\'));
    match inner {
        Some(inner) => Ok(Some(Cow::Borrowed(inner))),
        None => {
            serde_json::from_str(raw).map(|text| Some(Cow::Owned(text))).map_err(|error| error.to_string())
        }
    }
}

fn int(arguments: Arguments) -> Answer<i64> {
    let Some(raw) = find(arguments)? else { return Ok(None) };
    let whole = !raw.is_empty() && raw.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if !whole {
        return Ok(None);
    }
    raw.parse().map(Some).map_err(|_| {
        let raw = escaped(raw, 64);
        format!("`{raw}` does not fit Int64; use `json_get_json` for its text, or `json_get_float`")
    })
}

fn float(arguments: Arguments) -> Answer<f64> {
    let Some(raw) = find(arguments)?.filter(|raw| raw.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
    else {
        return Ok(None);
    };
    // What is nearer to 0 than to the smallest value is no silent 0, as in a field of a record.
    let has_digits =
        || raw.split(['e', 'E']).next().unwrap_or(raw).contains(|c: char| matches!(c, '1'..='9'));
    match raw.parse::<f64>() {
        Ok(number) if number.is_finite() && (number != 0.0 || !has_digits()) => Ok(Some(number)),
        _ => Err(format!("`{}` does not fit Float64; use `json_get_json` for its text", escaped(raw, 64))),
    }
}

fn boolean(arguments: Arguments) -> Answer<bool> {
    Ok(match find(arguments)? {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    })
}

fn json<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    Ok(find(arguments)?.map(Cow::Borrowed))
}

fn contains(arguments: Arguments) -> Answer<bool> {
    Ok(Some(find(arguments)?.is_some()))
}

fn valid(arguments: Arguments) -> Answer<bool> {
    let is_json = |text: &&str| serde_json::from_str::<IgnoredAny>(text).is_ok() && has_characters(text);
    Ok(arguments.first().map(is_json))
}

/// Whether every `\uXXXX` of a JSON text is a character, or half of one beside its other half: what skips a text does not look.
fn has_characters(text: &str) -> bool {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => return false,
            (Some(_), _) => 6,
            (None, _) => 2,
        };
    }
    true
}

fn length(arguments: Arguments) -> Answer<i64> {
    Ok(find(arguments)?.and_then(Members::of).map(|members| members.count() as i64))
}

/// What JSON allows between its parts.
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// The members of an array or an object whose text is known to be JSON.
struct Members<'a> {
    rest: &'a str,
    is_object: bool,
}

impl<'a> Members<'a> {
    fn of(value: &'a str) -> Option<Self> {
        let (is_object, inner) = match value.as_bytes().first()? {
            b'{' => (true, value.strip_prefix('{')?.strip_suffix('}')?),
            b'[' => (false, value.strip_prefix('[')?.strip_suffix(']')?),
            _ => return None,
        };
        Some(Self { rest: inner.trim_matches(BLANKS), is_object })
    }

    /// The member of that key, the last of equal ones as in most readers; or the item of that number.
    fn find(self, step: &str) -> Option<&'a str> {
        if self.is_object {
            return self.filter(|(key, _)| is_key(key, step)).last().map(|(_, value)| value);
        }
        let at: usize = step.parse().ok()?;
        self.enumerate().find(|(n, _)| *n == at).map(|(_, (_, value))| value)
    }
}

impl<'a> Iterator for Members<'a> {
    /// The key with its quotes, empty in an array, and the value.
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let mut key = "";
        if self.is_object {
            let (text, rest) = self.rest.split_at(end_of_value(self.rest));
            key = text;
            self.rest = rest.trim_start_matches(BLANKS).strip_prefix(':')?.trim_start_matches(BLANKS);
        }
        let (value, rest) = self.rest.split_at(end_of_value(self.rest));
        let rest = rest.trim_start_matches(BLANKS);
        self.rest = rest.strip_prefix(',').unwrap_or(rest).trim_start_matches(BLANKS);
        Some((key, value))
    }
}

/// Where the value that the text begins with ends.
fn end_of_value(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut in_text, mut at) = (0_usize, false, 0);
    while at < bytes.len() {
        match (in_text, bytes[at]) {
            (true, b'\\') => at += 1,
            (true, b'"') => in_text = false,
            (true, _) => {}
            (false, b'"') => in_text = true,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            (false, b',' | b':' | b' ' | b'\t' | b'\n' | b'\r') if depth == 0 => return at,
            (false, _) => {}
        }
        at += 1;
        // A text, an object and an array end with their last character.
        if depth == 0 && !in_text && matches!(bytes.get(at - 1), Some(b'"' | b'}' | b']')) {
            return at;
        }
    }
    bytes.len()
}

fn is_key(quoted: &str, wanted: &str) -> bool {
    match quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => plain == wanted,
        _ => serde_json::from_str::<String>(quoted).is_ok_and(|key| key == wanted),
    }
}
