//! What the tests of this format share: decoders, and tables of cases.
//!
//! Owns what is JSON's alone. Does not own types, blocks and rows as text, which the tests of all formats share (`formats::testing`).

use dataflow::{Decoded, Decoder};

use crate::json::{JsonDecoder, JsonOptions};
pub use crate::testing::{block, column_type, row, schema};

/// A decoder for [`schema`].
pub fn decoder(columns: &[&str], options: JsonOptions) -> JsonDecoder {
    JsonDecoder::new(schema(columns), options).expect("the test's schema is good")
}

/// Decodes these records.
pub fn decode<R: AsRef<[u8]>>(decoder: &JsonDecoder, records: &[R]) -> Decoded {
    decoder.decode(&block(records))
}

/// What one record becomes: its values, or its reject as `reason: message`.
pub fn one(decoder: &JsonDecoder, record: impl AsRef<[u8]>) -> Result<Vec<String>, String> {
    let decoded = decode(decoder, &[record]);
    match &decoded.rejects[..] {
        [] => Ok(row(&decoded, 0)),
        [reject] => Err(format!("{}: {}", reject.reason.as_str(), reject.message)),
        more => panic!("one record gave {} rejects", more.len()),
    }
}

/// Runs a table of cases. A line is `Type | value in JSON | what becomes of it`; the last part is the value as
/// [`show`] writes it, or the reject as [`one`] does. A line `option …` before the cases sets an option.
pub fn run_table(name: &str, table: &str) {
    let mut options = JsonOptions::default();
    let mut cases = 0;
    let mut wrong = Vec::new();
    for (number, line) in table.lines().enumerate().map(|(n, line)| (n + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(option) = line.strip_prefix("option ") {
            set(&mut options, option);
            continue;
        }
        let parts: Vec<_> = line.split(" | ").map(str::trim).collect();
        let [type_name, value, expected] = parts[..] else {
            panic!("{name} line {number}: a case has three parts");
        };
        let decoder = decoder(&[&format!("v {type_name}")], options.clone());
        let record = format!("{{\"v\": {value}}}");
        let found = one(&decoder, &record).map_or_else(|reject| reject, |row| row.join(", "));
        if found != expected {
            wrong.push(format!("{name}:{number}: {line}\n    found: {found}"));
        }
        cases += 1;
    }
    assert!(cases > 0, "{name} has no cases");
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
}

fn set(options: &mut JsonOptions, option: &str) {
    use crate::json::EpochUnit::*;
    *options = match option {
        "defaults" => JsonOptions::default(),
        "coerce_to_string" => JsonOptions { coerce_to_string: true, ..options.clone() },
        "epoch s" => JsonOptions { epoch_unit: Seconds, ..options.clone() },
        "epoch ms" => JsonOptions { epoch_unit: Milliseconds, ..options.clone() },
        "epoch us" => JsonOptions { epoch_unit: Microseconds, ..options.clone() },
        "epoch ns" => JsonOptions { epoch_unit: Nanoseconds, ..options.clone() },
        _ => match option.strip_prefix("zone ") {
            Some(zone) => JsonOptions { assume_timezone: zone.into(), ..options.clone() },
            None => panic!("no option `{option}`"),
        },
    };
}
