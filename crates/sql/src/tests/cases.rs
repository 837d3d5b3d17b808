//! Runs `cases/*.txt`.
//!
//! ```text
//! # What the cases below show.
//! columns n UInt64, s Nullable(String)
//! {"n": 1, "s": "a"}
//!
//! filter n > 1
//! ----
//! 0: 1 | a
//! ```
//!
//! The rows are JSON, read by the decoder that pipelines read with. A result line has the record's position and its values; `select` writes
//! the schema first. `UPDATE_CASES=1` writes the results into the files, to be read before they are kept.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use dataflow::{Batch, BlockBuilder, Decoder, Partition, Schema, Transform};
use formats::json::{JsonDecoder, JsonOptions};

use super::types;
use crate::{Fault, Step, operand};

#[test]
fn every_case_has_its_result() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cases");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no cases in {}", folder.display());
    let update = std::env::var_os("UPDATE_CASES").is_some();
    let mut wrong = String::new();
    let mut count = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a text");
        let (got, cases) = run(&text);
        count += cases;
        if got != text && update {
            std::fs::write(&file, got).expect("written");
        } else if got != text {
            let differs = text.lines().zip(got.lines()).enumerate().find(|(_, (a, b))| a != b);
            writeln!(wrong, "{}: {differs:#?}", file.display()).expect("a String takes every text");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 0, "no case was run");
}

/// The file with the results of this program, and the number of its cases.
fn run(text: &str) -> (String, usize) {
    let mut out = String::new();
    let mut cases = 0;
    let mut input = Schema::new(Vec::new());
    let mut rows = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        if let Some(columns) = line.strip_prefix("columns ") {
            input = types::schema(columns);
            rows.clear();
        } else if line.starts_with('{') {
            rows.push(line.to_owned());
        } else if line == "----" {
            panic!("results without a case");
        } else if !line.is_empty() && !line.starts_with('#') {
            let mut case = line.to_owned();
            while let Some(more) = lines.next_if(|next| next.starts_with(' ')) {
                writeln!(out, "{more}").expect("a String takes every text");
                case = case + "\n" + more;
            }
            // Old results go, the new ones take their place.
            while lines.next_if(|next| !next.is_empty() && !next.starts_with('#')).is_some() {}
            out.push_str("----\n");
            out.push_str(&result(&case, &input, &rows));
            cases += 1;
        }
    }
    (out, cases)
}

fn result(case: &str, input: &Schema, rows: &[String]) -> String {
    let (word, text) = case.split_once([' ', '\n']).unwrap_or((case, ""));
    let (step, shows_schema) = match word {
        "filter" => (crate::filter(input, text, word), false),
        "select" => (crate::select(input, &items(text), false, word), true),
        "with" => (crate::select(input, &items(text), true, word), true),
        "SELECT" => (crate::query(input, case, "sql"), true),
        other => panic!("no case `{other}`"),
    };
    match step {
        Ok(step) => applied(&step, decoded(input, rows), shows_schema),
        Err(fault) => shown_fault(&fault, if word == "SELECT" { case } else { text }),
    }
}

/// `a = x + 1; b = y`.
fn items(text: &str) -> Vec<(String, String)> {
    let item = |item: &str| {
        let (name, expression) = item.split_once(" = ").expect("a name and an expression");
        (name.trim().to_owned(), expression.trim().to_owned())
    };
    text.split(';').map(item).collect()
}

pub(crate) fn shown_fault(fault: &Fault, text: &str) -> String {
    let text =
        match items_if(text).into_iter().find(|(name, _)| !fault.item.is_empty() && *name == fault.item) {
            Some((_, expression)) => expression,
            None => text.to_owned(),
        };
    let place = fault
        .at
        .clone()
        .map_or(String::new(), |at| format!(" at {}..{} `{}`", at.start, at.end, &text[at.clone()]));
    format!("fault{place}: {}\n", fault.message)
}

fn items_if(text: &str) -> Vec<(String, String)> {
    if text.contains(" = ") { items(text) } else { Vec::new() }
}

pub(crate) fn decoded(input: &Schema, rows: &[String]) -> Batch {
    let decoder = JsonDecoder::new(input.clone(), JsonOptions::default()).expect("a schema");
    let mut block = BlockBuilder::new(Partition::new("topic", 0), 0);
    for (row, json) in rows.iter().enumerate() {
        block.push(row as u64, 1_000 + row as i64, Some(json.as_bytes()));
    }
    let decoded = decoder.decode(&block.take());
    assert!(decoded.rejects.is_empty(), "{:?}", decoded.rejects);
    decoded.batch
}

pub(crate) fn applied(step: &Step, batch: Batch, shows_schema: bool) -> String {
    let mut out = String::new();
    if shows_schema {
        let columns = step.schema().columns().iter();
        let columns = columns.map(|c| format!("{} {}", c.name, crate::types::written(&c.column_type)));
        writeln!(out, "{}", columns.collect::<Vec<_>>().join(", ")).expect("a String takes every text");
    }
    let records = batch.len() as u64;
    let done = match step.apply(batch) {
        Ok(done) => done,
        Err(error) => return out + &format!("error: {error}\n"),
    };
    for line in lines(step.schema(), &done.batch) {
        writeln!(out, "{line}").expect("a String takes every text");
    }
    for reject in &done.rejects {
        writeln!(out, "reject {}: {}: {}", reject.position, reject.column, reject.message)
            .expect("a String takes every text");
    }
    if !step.multiplies() {
        let accounted = done.batch.len() as u64 + done.filtered + done.rejects.len() as u64;
        assert_eq!(accounted, records, "the counts do not add up");
    }
    out
}

/// One line a row: position and values.
pub(crate) fn lines(schema: &Schema, batch: &Batch) -> Vec<String> {
    let columns = schema.columns().iter().zip(batch.rows.columns());
    let columns: Vec<ArrayRef> =
        columns.map(|(column, array)| operand::operand(array, &column.column_type).expect("text")).collect();
    let options = FormatOptions::default().with_null("NULL");
    (0..batch.len())
        .map(|row| {
            let values = columns.iter().map(|column| {
                if column.is_null(row) {
                    return "NULL".to_owned();
                }
                ArrayFormatter::try_new(column, &options).expect("a formatter").value(row).to_string()
            });
            format!("{}: {}", batch.positions[row], values.collect::<Vec<_>>().join(" | "))
        })
        .collect()
}

#[test]
fn the_examples_of_the_documentation_give_what_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md");
    let page = std::fs::read_to_string(&path).expect("a page");
    let mut got = String::new();
    let mut rest = page.as_str();
    while let Some((before, after)) = rest.split_once("```text\n") {
        let (example, after) = after.split_once("```").expect("the end of an example");
        let (shown, cases) = run(example);
        assert!(cases > 0, "an example without a case: {example}");
        got.push_str(before);
        got.push_str("```text\n");
        got.push_str(&shown);
        got.push_str("```");
        rest = after;
    }
    got.push_str(rest);
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(&path, &got).expect("written");
    } else {
        assert!(
            got == page,
            "an example of docs/sql.md gives something else: run with UPDATE_CASES=1 and read it"
        );
    }
}
