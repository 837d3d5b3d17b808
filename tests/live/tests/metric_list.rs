//! The page `docs/reference/metrics.md` lists the metrics that the program has, each with its kind, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PAGE: &str = include_str!("../../../docs/reference/metrics.md");

/// The macros of the crate `metrics`, each with the word of the page.
const KINDS: [(&str, &str); 3] =
    [("counter!(", "counter"), ("gauge!(", "gauge"), ("histogram!(", "histogram")];

/// Every metric's name starts so.
const PREFIX: &str = "forebay_";

type Metrics = BTreeMap<String, BTreeSet<&'static str>>;

/// The metrics that Rust files below `dir` record, tests left out; `unnamed` gets the places whose name is not written there.
fn recorded(dir: &Path, found: &mut Metrics, unnamed: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).expect("a folder of the repository can be read") {
        let path = entry.expect("as above").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "tests") {
                recorded(&path, found, unnamed);
            }
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.ends_with(".rs") || name.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file is text");
        for (call, kind) in KINDS {
            for (_, rest) in text.match_indices(call).map(|(at, _)| text.split_at(at + call.len())) {
                match rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"')) {
                    Some((name, _)) => drop(found.entry(name.to_owned()).or_default().insert(kind)),
                    None => unnamed.push(path.display().to_string()),
                }
            }
        }
    }
}

/// The metrics of the page, each with its kind.
fn listed() -> Metrics {
    let mut found = Metrics::new();
    for line in PAGE.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let kind = KINDS.iter().find(|(_, word)| cells.get(1) == Some(word));
        let (_, kind) = kind.unwrap_or_else(|| panic!("no kind of metric: {line}"));
        for name in cells[0].split('`').skip(1).step_by(2) {
            let is_first = found.insert(name.to_owned(), BTreeSet::from([*kind])).is_none();
            assert!(is_first, "`{name}` is listed twice");
        }
    }
    found
}

#[test]
fn the_page_of_metrics_lists_every_metric_with_its_kind_and_no_other() {
    let (mut found, mut unnamed) = (Metrics::new(), Vec::new());
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    for entry in std::fs::read_dir(&crates).expect("the crates can be listed") {
        let folder = entry.expect("as above").path().join("src");
        if folder.is_dir() {
            recorded(&folder, &mut found, &mut unnamed);
        }
    }
    assert!(
        unnamed.is_empty(),
        "write the metric's name into its macro, so that it can be looked up: {unnamed:?}"
    );
    let others: Vec<&String> = found.keys().filter(|name| !name.starts_with(PREFIX)).collect();
    assert!(others.is_empty(), "these metrics do not start with `{PREFIX}`: {others:?}");
    assert_eq!(listed(), found, "left: docs/reference/metrics.md; right: the code");
}
