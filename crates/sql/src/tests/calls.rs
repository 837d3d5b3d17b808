//! No function panics, whatever it is called with, and each gives a batch what it gives its records one by one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use dataflow::{Batch, Transform};

use super::cases::{decoded, lines};
use super::types;
use crate::names::NAMES;

const COLUMNS: &str = "i Nullable(Int64), f Float64, s Nullable(String), t DateTime64(3), d Date32, b Bool, \
    m Decimal(18, 2), a Array(Nullable(Int64)), w Array(String), k Map(String, Int64)";

const ROWS: [&str; 5] = [
    r#"{"i": 0, "f": 0, "s": "", "t": 0, "d": "1970-01-01", "b": false, "m": 0, "a": [], "w": [], "k": {}}"#,
    r#"{"i": 3, "f": 1.5, "s": "ä{\"x\": [1]}", "t": "2026-11-23 10:00:00.5", "d": "2026-11-23", "b": true, "m": "1.25", "a": [1, null, 3], "w": ["x", "%"], "k": {"x": 1}}"#,
    r#"{"i": 9223372036854775807, "f": 1e308, "s": "\u0000\uffff(", "t": "2299-12-31 00:00:00", "d": "2299-12-31", "b": true, "m": "9999999999999999.99", "a": [9223372036854775807], "w": [""], "k": {"": -1}}"#,
    r#"{"i": -9223372036854775808, "f": -1e308, "s": "https://ä/?x=%", "t": "1900-01-01 00:00:00", "d": "1900-01-01", "b": false, "m": "-9999999999999999.99", "a": [-9223372036854775808, 1], "w": ["ü", "x"], "k": {"a": 9223372036854775807}}"#,
    r#"{"i": null, "f": -1, "s": null, "t": 1, "d": "2000-02-29", "b": false, "m": "-0.01", "a": [null], "w": ["x"], "k": {"x": 0}}"#,
];

/// What functions are called with: columns, and constants that they like or do not.
const ARGUMENTS: [&str; 16] = [
    "i",
    "f",
    "s",
    "t",
    "d",
    "m",
    "a",
    "w",
    "k",
    "0",
    "-1",
    "9223372036854775807",
    "'day'",
    "''",
    "'%Y ('",
    "NULL",
];

#[test]
fn no_function_panics_or_depends_on_the_records_beside() {
    let input = types::schema(COLUMNS);
    let rows: Vec<String> = ROWS.iter().map(|row| (*row).to_owned()).collect();
    let batch = decoded(&input, &rows);
    let mut wrong = Vec::new();
    let mut ran = 0;
    for (n, name) in NAMES.functions().enumerate() {
        for arguments in calls(n) {
            let call = format!("{name}({arguments})");
            let outcome = catch_unwind(AssertUnwindSafe(|| compared(&input, &call, &batch)));
            match outcome {
                Ok(Ok(evaluated)) => ran += usize::from(evaluated),
                Ok(Err(difference)) => wrong.push(format!("{call}: {difference}")),
                Err(_) => wrong.push(format!("{call} panics")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran > 1_000, "only {ran} calls were evaluated");
}

/// All single arguments, and some of two and three; others for each function.
fn calls(n: usize) -> Vec<String> {
    let mut calls = vec![String::new()];
    calls.extend(ARGUMENTS.iter().map(|one| (*one).to_owned()));
    for (at, one) in ARGUMENTS.iter().enumerate() {
        for (other, two) in ARGUMENTS.iter().enumerate() {
            // Half of the pairs, the other half for the next function.
            if (at + other + n).is_multiple_of(2) {
                calls.push(format!("{one}, {two}"));
            }
            if (at * 7 + other * 3 + n).is_multiple_of(8) {
                let three = ARGUMENTS[(at + other * 5 + n) % ARGUMENTS.len()];
                calls.push(format!("{one}, {two}, {three}"));
            }
        }
    }
    calls
}

/// Whether the call was evaluated; an error if the batch gives something else than its records.
fn compared(input: &dataflow::Schema, call: &str, batch: &Batch) -> Result<bool, String> {
    let Ok(step) = crate::select(input, &[("x".to_owned(), call.to_owned())], false, "select") else {
        return Ok(false);
    };
    let outcome = |batch: Batch| {
        let done = step.apply(batch).map_err(|error| error.to_string())?;
        let rejects = done.rejects.iter().map(|reject| format!("{}: rejected", reject.position));
        Ok::<_, String>(lines(step.schema(), &done.batch).into_iter().chain(rejects).collect::<Vec<_>>())
    };
    let mut together = outcome(batch.clone())?;
    let mut alone = Vec::new();
    for row in 0..batch.len() {
        alone.extend(outcome(Batch {
            items: Vec::new(),
            era: 0,
            partition: batch.partition.clone(),
            rows: batch.rows.slice(row, 1),
            positions: vec![batch.positions[row]],
            times_ms: vec![batch.times_ms[row]],
        })?);
    }
    together.sort();
    alone.sort();
    if together == alone { Ok(true) } else { Err(format!("{together:?} together, {alone:?} alone")) }
}
