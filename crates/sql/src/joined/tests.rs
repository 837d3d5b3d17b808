//! Runs `joined/cases.txt`.
//!
//! ```text
//! # What the cases below show.
//! times orders created_at, payments paid_at
//! columns o.id String, p.amount Nullable(Int64)
//! {"o.id": "a", "p.amount": 1}
//!
//! SELECT o.id FROM orders AS o JOIN payments AS p ON …
//! ----
//! inner join of orders o and payments p
//! ```
//!
//! The columns are those of the joined rows, and the rows beneath go through what stands behind the join. Without columns only the join is shown.
//! `UPDATE_CASES=1` writes the results into the file, to be read before they are kept.

use std::fmt::Write;
use std::path::Path;

use dataflow::Schema;

use super::{Join, Joined, Matching, Pair, Table, behind, joined};
use crate::tests::cases::{applied, decoded, shown_fault};
use crate::tests::types;
use crate::text::Text;

#[derive(Default)]
struct Around {
    times: Vec<(String, String)>,
    columns: Option<Schema>,
    rows: Vec<String>,
}

#[test]
fn every_case_has_its_result() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/joined/cases.txt");
    let text = std::fs::read_to_string(&file).expect("the cases");
    let got = run(&text);
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(&file, got).expect("written");
        return;
    }
    let differs = text.lines().zip(got.lines()).enumerate().find(|(_, (a, b))| a != b);
    assert!(got == text, "{differs:#?}");
}

/// The file with the results of this program.
fn run(text: &str) -> String {
    let (mut out, mut around, mut cases) = (String::new(), Around::default(), 0);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        out += &format!("{line}\n");
        if let Some(times) = line.strip_prefix("times ") {
            let time = |one: &str| one.trim().split_once(' ').map(|(name, time)| (name.into(), time.into()));
            around = Around { times: times.split(',').filter_map(time).collect(), ..Around::default() };
        } else if let Some(columns) = line.strip_prefix("columns ") {
            (around.columns, around.rows) = (Some(types::schema(columns)), Vec::new());
        } else if line.starts_with('{') {
            around.rows.push(line.to_owned());
        } else if !line.is_empty() && !line.starts_with('#') {
            let mut case = line.to_owned();
            while let Some(more) = lines.next_if(|next| next.starts_with(' ')) {
                out += &format!("{more}\n");
                case += &format!("\n{more}");
            }
            // Old results go, the new ones take their place.
            while lines.next_if(|next| !next.is_empty() && !next.starts_with('#')).is_some() {}
            out += &format!("----\n{}", result(&case, &around));
            cases += 1;
        }
    }
    assert!(cases > 0, "no case was run");
    out
}

fn result(case: &str, Around { times, columns, rows }: &Around) -> String {
    let found = match joined(&Text::new(case), times) {
        Ok(Some(found)) => found,
        Ok(None) => return "no join\n".to_owned(),
        Err(fault) => return shown_fault(&fault, case),
    };
    let mut told = words(&found);
    if let Some(columns) = columns {
        told += &match behind(columns, case, times, "sql") {
            Ok(step) => applied(&step, decoded(columns, rows), true),
            Err(fault) => shown_fault(&fault, case),
        };
    }
    told
}

fn words(found: &Joined) -> String {
    let Joined { tables, joins, columns, names, is_all, row_times } = found;
    let mut told = String::new();
    for (nth, Join { kind, on, matching, merged }) in joins.iter().enumerate() {
        let left = |pair: &Pair| match pair.table.filter(|_| nth > 0) {
            Some(table) => format!("{}.{}", tables[table].qualifier, pair.left),
            None => pair.left.clone(),
        };
        let on: Vec<String> = on.iter().map(|pair| format!("{} = {}", left(pair), pair.right)).collect();
        let time = |one: &Option<String>| one.clone().unwrap_or_else(|| "the rows".to_owned());
        let how = match matching {
            Matching::Near { before, after, times: [left, right], .. } => {
                format!("{} from {before} ms before {} to {after} ms after", time(right), time(left))
            }
            Matching::AsOf { time: at, .. } => format!("the version at {}", time(at)),
        };
        let kind = format!("{kind:?}").to_lowercase();
        let named = |table: &Table| format!("{} {}", table.name, table.qualifier);
        let right = named(&tables[nth + 1]);
        let left = if nth == 0 { named(&tables[0]) } else { "these".to_owned() };
        writeln!(told, "{kind} join of {left} and {right} on {}: {how}", on.join(", "))
            .expect("a String takes every text");
        if !merged.is_empty() {
            told += &format!("merges {}\n", merged.join(", "));
        }
    }
    let reads = columns.iter().map(|column| &column.name).chain(names.iter().map(|(name, _)| name));
    let reads: Vec<&str> = reads.map(String::as_str).collect();
    if !reads.is_empty() {
        told += &format!("reads {}\n", reads.join(", "));
    }
    if !row_times.is_empty() {
        told += &format!("the time of the rows is {}\n", row_times.join(", "));
    }
    if *is_all {
        told += "selects all columns\n";
    }
    told
}
