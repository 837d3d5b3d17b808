//! The list of faults in `docs/design/faults.md` speaks of tests that exist.

use std::collections::BTreeSet;
use std::path::Path;

const PAGE: &str = include_str!("../../../docs/design/faults.md");
const FAULTS: usize = 25;
/// Findings of the audit: rows `A1` to `A48`, grouped by subject, so in any order.
const FINDINGS: usize = 48;

/// Names of all functions in Rust files below `dir` that are tests: by their attribute, or as a function in a file of tests, where a
/// macro may make several tests of it, or by `table!`, which makes a test of a file of cases.
fn tests(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).expect("a folder of the repository can be read") {
        let path = entry.expect("as above").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                tests(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file is text");
            let in_tests = path.iter().any(|part| part == "tests" || part == "tests.rs");
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                let function = line.strip_prefix("async fn ").or(line.strip_prefix("fn "));
                // A test of the cases of a file: `table!(its_name, "cases.txt");`.
                let table = line.strip_prefix("table!(").filter(|_| in_tests);
                if let Some(rest) = function.or(table) {
                    let name = rest.split(['(', '<', ',']).next().unwrap_or_default();
                    if is_test || in_tests {
                        found.insert(name.to_owned());
                    }
                    is_test = false;
                }
            }
        }
    }
}

/// Whether a row's first cell is the number of a fault or of a finding.
fn is_number(cell: &str) -> bool {
    cell.strip_prefix('A').unwrap_or(cell).parse::<usize>().is_ok()
}

#[test]
fn every_fault_is_listed_once_and_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut known = BTreeSet::new();
    for folder in ["crates", "tests", "xtask"] {
        tests(&root.join(folder), &mut known);
    }
    let rows = PAGE.lines().filter(|line| line.starts_with('|')).filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let is_head = cells.last().is_some_and(|last| last.starts_with("---") || !last.contains('`'));
        let (first, last) = (*cells.first()?, *cells.last()?);
        (!is_head || is_number(first)).then_some((first, last))
    });
    let (mut numbers, mut findings, mut others) = (Vec::new(), Vec::new(), 0);
    let mut wrong = Vec::new();
    for (number, shown_by) in rows {
        match number.strip_prefix('A').filter(|_| is_number(number)) {
            Some(finding) => findings.push(finding.parse::<usize>().expect("checked above")),
            None if is_number(number) => numbers.push(number.parse::<usize>().expect("checked above")),
            None => others += 1,
        }
        let named: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        if named.is_empty() && !shown_by.contains("not yet") {
            wrong.push(format!("fault {number} names no test"));
        }
        wrong.extend(
            named
                .iter()
                .filter(|name| {
                    name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) && !known.contains(**name)
                })
                .map(|name| format!("fault {number}: there is no test `{name}`")),
        );
    }
    assert_eq!(numbers, (1..=FAULTS).collect::<Vec<_>>());
    findings.sort_unstable();
    assert_eq!(findings, (1..=FINDINGS).collect::<Vec<_>>());
    assert!(others >= 8, "the table of later faults has {others} rows");
    assert!(wrong.is_empty(), "docs/design/faults.md:\n{}", wrong.join("\n"));
}
