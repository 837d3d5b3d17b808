//! The invariants C1, C2, … stand in ARCHITECTURE.md, docs/design/protocol.md, the module docs, the code and the simulation's oracle:
//! these lists agree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// `crates/protocol` lies two folders below the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("`{path}`: {error}"))
}

/// The number of `C7`, if `word` is such a name.
fn number(word: &str) -> Option<u32> {
    let digits = word.strip_prefix('C')?;
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits && number > 0).then_some(number)
}

/// All names in a text, in any punctuation.
fn named(text: &str) -> BTreeSet<u32> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter_map(number).collect()
}

/// The names in string literals of every Rust file below `folder`, tests left out: those that a violation is reported with.
fn reported(folder: &str) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    let mut folders = vec![workspace().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the workspace") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).expect("a source file");
                all.extend(text.split('"').filter_map(number));
            }
        }
    }
    all
}

/// `(name, rule)` of each row of the table of invariants on a page.
fn table(page: &str) -> Vec<(u32, String)> {
    let text = read(page);
    let section =
        text.split("Invariants\n").nth(1).unwrap_or_else(|| panic!("`{page}` has no section Invariants"));
    let section = section.split("\n#").next().expect("a split has a first part");
    let cells = section.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        Some((number(cells.next()?)?, cells.next()?.to_owned()))
    });
    cells.collect()
}

#[test]
fn the_pages_name_the_same_invariants_in_the_same_words() {
    let architecture = table("ARCHITECTURE.md");
    let numbers: Vec<u32> = architecture.iter().map(|(number, _)| *number).collect();
    assert_eq!(
        numbers,
        (1..=architecture.len() as u32).collect::<Vec<_>>(),
        "ARCHITECTURE.md counts from C1"
    );
    assert!(architecture.len() >= 10, "ARCHITECTURE.md has {} invariants", architecture.len());
    assert_eq!(architecture, table("docs/design/protocol.md"), "ARCHITECTURE.md and docs/design/protocol.md");
}

#[test]
fn the_invariants_that_the_fold_checks_are_those_that_the_pages_name() {
    let page = read("ARCHITECTURE.md");
    let sentence = page
        .split("refuses a record that breaks")
        .nth(1)
        .expect("ARCHITECTURE.md says what the fold refuses");
    let sentence = sentence.split(", both").next().expect("a split has a first part");
    let mut checked = reported("crates/protocol/src/lane");
    checked.extend(read("crates/protocol/src/lane.rs").split('"').filter_map(number));
    assert_eq!(checked, named(sentence), "`protocol::lane` and the sentence in ARCHITECTURE.md");

    let modules = read("crates/protocol/src/lib.rs");
    let row = modules.lines().find(|line| line.contains("| [`lane`]")).expect("a row for `lane`");
    assert_eq!(
        checked,
        named(row),
        "`protocol::lane` and its row in the head of `crates/protocol/src/lib.rs`"
    );

    let lane = read("crates/protocol/src/lane.rs");
    let field = lane
        .split("pub rule:")
        .next()
        .and_then(|before| before.lines().rev().find(|line| line.contains("///")));
    assert_eq!(
        checked,
        named(field.expect("a doc comment")),
        "`protocol::lane` and the doc of `Violation::rule`"
    );
}

#[test]
fn every_module_and_every_check_names_an_invariant_that_exists() {
    let all: BTreeSet<u32> = table("ARCHITECTURE.md").into_iter().map(|(number, _)| number).collect();
    for folder in ["crates/protocol/src", "crates/engine/src", "crates/operators/src", "crates/sim/src"] {
        let unknown: Vec<_> = reported(folder).difference(&all).copied().collect();
        assert!(unknown.is_empty(), "`{folder}` reports invariants that no page names: {unknown:?}");
    }
    let modules = named(&read("crates/protocol/src/lib.rs"));
    assert!(modules.is_subset(&all), "the head of `crates/protocol/src/lib.rs` names {modules:?}");
}

#[test]
fn the_simulation_checks_every_invariant() {
    let all: BTreeSet<u32> = table("ARCHITECTURE.md").into_iter().map(|(number, _)| number).collect();
    assert_eq!(reported("crates/sim/src"), all, "what `crates/sim` reports");

    let oracle = read("crates/sim/src/oracle.rs");
    let head: String =
        oracle.lines().take_while(|line| line.starts_with("//!")).filter(|l| l.contains('|')).collect();
    assert_eq!(named(&head), all, "the table at the head of `sim::oracle`");
}
