//! Columns for terminals, and the forms of times and bytes.
//!
//! Owns the alignment, and the JSON of a letter. Does not own what is shown (`dead_letters::list`, `dead_letters::show`). Text from records
//! is never let loose on a terminal: what is no printable character is escaped.

use dataflow::printing;
use serde_json::{Value, json};

use admin::dead_letters::Table;
use admin::dead_letters::anew::Anew;
use admin::dead_letters::letters::{Head, Whole, hex};
use pipeline::replays::taken::Taken;

/// Lines with a head, in columns as wide as what stands in them.
pub fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let last = head.len().saturating_sub(1);
    // Whole, however long: a name that is cut cannot be given to another command.
    let shown = |row: &[String]| -> Vec<String> { row.iter().map(|text| printable(text)).collect() };
    let head: Vec<String> = head.iter().map(|text| (*text).to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows.iter().map(|row| shown(row))).collect();
    let widths: Vec<usize> = (0..=last)
        .map(|n| {
            lines.iter().filter_map(|line| line.get(n)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for line in &lines {
        for (n, cell) in line.iter().enumerate() {
            out.push_str(cell);
            if n < last {
                out.extend(std::iter::repeat_n(' ', widths[n] - cell.chars().count() + 2));
            }
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
    out
}

/// The text with control characters escaped, so that it stays on its line and moves no cursor.
pub fn printable(text: &str) -> String {
    printing::escaped(text, usize::MAX).into_owned()
}

/// A moment for users and programs.
pub fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| format!("{ms}ms"), |time| format!("{time:.3}"))
}

/// Bytes as text if they are text, or else as hexadecimal digits with the word that says so.
pub fn text_or_hex(bytes: &[u8]) -> (String, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), true),
        Err(_) => (hex(bytes), false),
    }
}

/// What has become of a letter since it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// A replay has taken it.
    pub is_replayed: bool,
    /// Its record is read anew since.
    pub is_anew: bool,
}

impl Standing {
    /// That of a letter. Which reading it is of must be known first: a replay may have taken another letter of its place.
    pub fn of(head: &mut Head, anew: &Anew, taken: &Taken) -> Self {
        let is_anew = anew.judge(head);
        Self { is_replayed: taken.holds(&head.letter), is_anew }
    }

    /// The word under `REPLAYED`.
    pub fn word(self) -> &'static str {
        match (self.is_replayed, self.is_anew) {
            (true, _) => "yes",
            (false, true) => "read again",
            (false, false) => "no",
        }
    }
}

/// A letter of this table as JSON: `raw` where it is text, `raw_hex` where it is not, and the same for key and headers; its input where there are
/// several.
pub fn json(letter: &Whole, table: &Table, standing: Standing) -> Value {
    let mut value = of_letter(letter, &table.pipeline, standing.is_replayed);
    value["read_again"] = standing.is_anew.into();
    if let Some(input) = table.input_of(letter) {
        value["input"] = input.into();
    }
    value
}

fn of_letter(letter: &Whole, pipeline: &str, is_replayed: bool) -> Value {
    let head = &letter.head;
    let mut value = json!({
        "id": head.letter.to_string(),
        "time": time(head.time_ms),
        "pipeline": pipeline,
        "source": head.letter.source,
        "partition": head.letter.partition,
        "position": head.letter.position,
        "record_time": letter.record_time_ms.map(time),
        "reason": head.reason,
        "column": head.column,
        "message": letter.message,
        "replayed": is_replayed,
    });
    let mut put = |name: &str, bytes: &[u8]| match text_or_hex(bytes) {
        (text, true) => value[name] = text.into(),
        (hex, false) => value[format!("{name}_hex")] = hex.into(),
    };
    put("raw", &letter.raw);
    if let Some(key) = &letter.key {
        put("key", key);
    }
    let headers: Vec<Value> = letter
        .headers
        .iter()
        .map(|(name, bytes)| {
            let name = String::from_utf8_lossy(name);
            match text_or_hex(bytes) {
                (text, true) => json!({ "name": name, "value": text }),
                (hex, false) => json!({ "name": name, "value_hex": hex }),
            }
        })
        .collect();
    value["headers"] = headers.into();
    value
}

#[cfg(test)]
mod tests;
