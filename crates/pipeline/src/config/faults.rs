//! What is wrong with a pipeline file, and where.
//!
//! Owns the form in which faults are shown. Does not own what a fault is (`schema_walk`, `rules`). A message never holds
//! a value that came from a reference or that is a secret.

use std::fmt::Write as _;

use dataflow::printing;
use serde::Serialize;

/// Faults that are shown of one file at the most: a file with more is not a pipeline file.
pub const FAULTS_MAX: usize = 100;

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

impl Position {
    /// The beginning of a file.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The pipeline cannot run.
    Fault,
    /// The pipeline can run; an operator may want to know.
    Hint,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Where.
    #[serde(flatten)]
    pub at: Position,
    /// The key that is concerned, dotted, as in `sink.batch.rows`; empty for the file as a whole.
    pub path: String,
    /// How bad it is.
    pub severity: Severity,
    /// The sentence, with the way out.
    pub message: String,
}

/// All that is wrong with one file.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    found: Vec<Fault>,
    more: usize,
}

impl Faults {
    /// Adds a fault.
    pub fn fault(&mut self, at: Position, path: impl Into<String>, message: impl Into<String>) {
        self.push(Fault { at, path: path.into(), severity: Severity::Fault, message: message.into() });
    }

    /// Whether a fault of the key at `path` was found.
    pub fn concern(&self, path: &str) -> bool {
        self.found.iter().any(|fault| fault.path == path && fault.severity == Severity::Fault)
    }

    /// Adds a hint.
    pub fn hint(&mut self, at: Position, path: impl Into<String>, message: impl Into<String>) {
        self.push(Fault { at, path: path.into(), severity: Severity::Hint, message: message.into() });
    }

    fn push(&mut self, fault: Fault) {
        // A hint must never crowd out a fault, so hints stop early.
        let bound = match fault.severity {
            Severity::Fault => FAULTS_MAX,
            Severity::Hint => FAULTS_MAX / 2,
        };
        if self.found.len() < bound {
            self.found.push(fault);
        } else if fault.severity == Severity::Fault {
            self.more += 1;
        }
    }

    /// True if the pipeline cannot run.
    pub fn is_fatal(&self) -> bool {
        self.more > 0 || self.found.iter().any(|fault| fault.severity == Severity::Fault)
    }

    /// Faults, without hints, shown and not shown.
    pub fn count(&self) -> usize {
        self.more + self.found.iter().filter(|fault| fault.severity == Severity::Fault).count()
    }

    /// All that is shown, in the order of the file.
    pub fn sorted(&self) -> Vec<&Fault> {
        let mut all: Vec<&Fault> = self.found.iter().collect();
        all.sort_by_key(|fault| fault.at);
        all
    }

    /// One line a fault, as compilers write them: `file:line:column: message`. A file may be called anything, and a message may quote what a
    /// server or a broker has said.
    pub fn render(&self, file: &str) -> String {
        let mut out = String::new();
        let file = printing::escaped(file, usize::MAX);
        for Fault { at, severity, message, .. } in self.sorted() {
            let mark = match severity {
                Severity::Fault => "",
                Severity::Hint => "hint: ",
            };
            let message = printing::escaped_lines(message);
            writeln!(out, "{file}:{}:{}: {mark}{message}", at.line, at.column)
                .expect("a String takes all that is written");
        }
        if self.more > 0 {
            writeln!(out, "{file}: and {} more", self.more).expect("a String takes all that is written");
        }
        out
    }
}
