//! The value of a DEFAULT that is a literal, as JSON.
//!
//! Owns arrays and maps of literals, as the server writes them. Does not own expressions that have to be computed: of these there is no
//! value here, and records must have the field.
//!
//! Arrays and maps cannot be sent as NULL, so where a record has none, the decoder puts this value in the place that the server would
//! fill with the DEFAULT.

use dataflow::ColumnType;
use serde_json::{Map, Number, Value};

/// Arrays and maps inside each other; more than a type may have.
const DEPTH_MAX: usize = 32;

/// Digits of a number with a point that every reader takes for the same value.
const DIGITS_MAX: usize = 15;

/// The value of `expression` as JSON, for a column of an array or a map; `None` if it is not a literal, or one that the server reads in its own way: a number
/// of days, a text of an array, a number that the type cannot hold.
pub(super) fn json(expression: &str, column_type: &ColumnType) -> Option<String> {
    let value = whole(expression)?;
    // The server keeps `[1]::Array(UInt8)` as a cast of a text.
    let value = match &value {
        Value::String(text) => whole(text)?,
        _ => value,
    };
    fits(&value, column_type).then(|| value.to_string())
}

fn whole(expression: &str) -> Option<Value> {
    let mut parser = Parser { rest: expression, depth: 0 };
    let value = parser.value()?;
    parser.rest.trim_start().is_empty().then_some(value)
}

/// Whether a decoder makes of the value what the server makes of the literal.
fn fits(value: &Value, column_type: &ColumnType) -> bool {
    match (column_type, value) {
        (ColumnType::Nullable(_), Value::Null) => true,
        (ColumnType::Nullable(inner) | ColumnType::LowCardinality(inner), value) => fits(value, inner),
        (ColumnType::Array(item), Value::Array(values)) => values.iter().all(|value| fits(value, item)),
        (ColumnType::Map(_, inner), Value::Object(values)) => values.values().all(|value| fits(value, inner)),
        (ColumnType::Bool, value) => value.is_boolean(),
        (ColumnType::Float32 | ColumnType::Float64 | ColumnType::Decimal { .. }, value) => value.is_number(),
        (other, Value::Number(number)) => {
            let number = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
            let range = other.integer_range();
            range.zip(number).is_some_and(|((least, most), number)| (least..=most).contains(&number))
        }
        (other, value) => value.is_string() && other.integer_range().is_none(),
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.get(..token.len()).is_some_and(|start| start.eq_ignore_ascii_case(token));
        if found {
            self.rest = &rest[token.len()..];
        }
        found
    }

    fn value(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let value = if self.take("[") {
            self.list("]").map(Value::Array)
        } else if self.take("array(") {
            self.list(")").map(Value::Array)
        } else if self.take("map(") {
            pairs(self.list(")")?).map(Value::Object)
        } else if self.take("cast(") {
            // The type is that of the column.
            let value = self.value()?;
            (self.take(",") && matches!(self.value()?, Value::String(_)) && self.take(")")).then_some(value)
        } else if self.take("'") {
            self.text().map(Value::String)
        } else if self.take("null") {
            Some(Value::Null)
        } else if self.take("true") {
            Some(Value::Bool(true))
        } else if self.take("false") {
            Some(Value::Bool(false))
        } else {
            self.number().map(Value::Number)
        };
        self.depth -= 1;
        value
    }

    fn list(&mut self, end: &str) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        while !self.take(end) {
            if !values.is_empty() && !self.take(",") {
                return None;
            }
            values.push(self.value()?);
        }
        Some(values)
    }

    /// What stands behind the opening quote, up to the closing one.
    fn text(&mut self) -> Option<String> {
        let (mut text, mut chars) = (String::new(), self.rest.char_indices());
        while let Some((at, c)) = chars.next() {
            match c {
                '\'' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                '\\' => text.push(match chars.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    '0' => '\0',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    c @ ('\\' | '\'' | '"' | '`' | '/') => c,
                    // Bytes by number, and whatever later versions write: nothing is guessed.
                    _ => return None,
                }),
                c => text.push(c),
            }
        }
        None
    }

    /// A number that JSON can hold as it is written here: a whole one, or one of few digits.
    fn number(&mut self) -> Option<Number> {
        let rest = self.rest.trim_start();
        let end =
            rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        self.rest = after;
        let whole =
            text.parse::<i64>().ok().map(Number::from).or_else(|| text.parse::<u64>().ok().map(Number::from));
        let digits = text.bytes().take_while(|byte| !b"eE".contains(byte)).filter(u8::is_ascii_digit).count();
        whole.or_else(|| Number::from_f64(text.parse().ok()?).filter(|_| digits <= DIGITS_MAX))
    }
}

/// The keys and values of `map(k, v, …)`.
fn pairs(values: Vec<Value>) -> Option<Map<String, Value>> {
    let mut map = Map::new();
    for pair in values.chunks(2) {
        let [key, value] = pair else { return None };
        let key = match key {
            Value::String(key) => key.clone(),
            Value::Number(key) => key.to_string(),
            _ => return None,
        };
        // A key that stands twice is another map than JSON has.
        if map.insert(key, value.clone()).is_some() {
            return None;
        }
    }
    Some(map)
}

#[cfg(test)]
mod tests;
