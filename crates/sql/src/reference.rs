//! The page that lists every function.
//!
//! Owns its layout. Does not own the words, which are DataFusion's for its functions and ours for ours (`sql::functions`). A test holds the
//! committed page to this one.

use std::collections::BTreeMap;
use std::fmt::Write;

use datafusion_expr::Documentation;

use crate::functions;
use crate::names::NAMES;

/// `docs/reference/sql-functions.md`: every function by what it is about, with how it is called.
pub fn reference() -> String {
    let mut sections: BTreeMap<String, BTreeMap<String, (String, String)>> = BTreeMap::new();
    let ours = functions::definitions().map(|definition| {
        (
            definition.name.to_owned(),
            section_of(definition.name).to_owned(),
            definition.call.to_owned(),
            definition.about.to_owned(),
        )
    });
    let is_ours = |name: &str| functions::definitions().any(|definition| definition.name == name);
    let theirs =
        NAMES.documented().filter(|(name, _)| !is_ours(name)).map(
            |(name, documentation)| match documentation {
                Some(page) => (
                    name.to_owned(),
                    page.doc_section.label.to_owned(),
                    call(page),
                    first_sentence(&page.description),
                ),
                None => (name.to_owned(), "Other Functions".to_owned(), format!("{name}(…)"), String::new()),
            },
        );
    for (name, section, call, about) in theirs.chain(ours) {
        sections.entry(section).or_default().insert(name, (call, about));
    }
    let mut page = String::from(HEAD);
    for (section, functions) in sections {
        write!(page, "\n## {section}\n\n| function | what it gives |\n|---|---|\n")
            .expect("a String takes every text");
        for (call, about) in functions.values() {
            writeln!(page, "| `{}` | {} |", call.replace('|', "\\|"), about.replace('|', "\\|"))
                .expect("a String takes every text");
        }
    }
    page.push_str("\n## Refused\n\n| function | why |\n|---|---|\n");
    for (name, reason) in NAMES.refused() {
        writeln!(page, "| `{name}` | {reason} |").expect("a String takes every text");
    }
    page
}

const HEAD: &str = "# SQL functions\n\nGenerated from the program; [SQL steps](../sql.md) says how expressions are written. Every argument may be NULL, \
    and most functions are NULL then.\n";

fn section_of(name: &str) -> &'static str {
    match name.split_once('_') {
        Some(("json", _)) => "JSON Functions",
        Some(("url", _)) => "URL Functions",
        Some(("ua", _)) => "User Agent Functions",
        _ => "IP Address Functions",
    }
}

fn call(page: &Documentation) -> String {
    page.syntax_example.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// Up to the first point that ends a sentence, on one line.
fn first_sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.find(". ") {
        Some(end) => line[..=end].to_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests;
