//! What is wrong with a text, and where.
//!
//! Owns the error type of this crate, the wording of DataFusion's messages for our users, and the search for the name that was probably
//! meant. Does not own how the place is shown in the pipeline file.

use std::ops::Range;

use datafusion_common::DataFusionError;
use datafusion_expr::Expr;

/// Why a text cannot become a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The sentence: what is wrong and the way out.
    pub message: String,
    /// The bytes of the text that it is about; `None` if it is about the whole step.
    pub at: Option<Range<usize>>,
    /// The name of the computed column whose text it is; empty for a filter and a query.
    pub item: String,
    /// The column whose name is the fault, if it is one.
    pub column: Option<Misnamed>,
}

/// A name of a column that makes a text wrong: data for callers that can add the way out, as the sentence is for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misnamed {
    /// The text reads it, and the input does not have it.
    Unknown(String),
    /// A query makes it twice.
    Twice(String),
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>, at: Option<Range<usize>>) -> Self {
        Self { message: message.into(), at, item: String::new(), column: None }
    }

    /// The fault of a text that is part of another, at its place there.
    pub(crate) fn moved(self, place: impl Fn(usize) -> usize) -> Self {
        Self { at: self.at.map(|at| place(at.start)..place(at.end)), ..self }
    }

    pub(crate) fn misnamed(self, column: Misnamed) -> Self {
        Self { column: Some(column), ..self }
    }

    /// A fault of DataFusion's, in our words.
    pub(crate) fn planning(error: &DataFusionError) -> Self {
        Self::new(reworded(error), None)
    }
}

/// Prefixes that name a layer of DataFusion rather than the problem.
const LAYERS: [&str; 12] = [
    "Error during planning: ",
    "This feature is not implemented: ",
    "Execution error: ",
    "Arrow error: ",
    "Optimizer rule 'simplify_expressions' failed",
    "Schema error: ",
    "SQL error: ",
    "ParserError(\"",
    "Invalid argument error: ",
    "Compute error: ",
    "Cast error: ",
    "External error: ",
];

/// Arrow's names of types, and ours.
const TYPES: [(&str, &str); 8] = [
    ("LargeUtf8", "String"),
    ("Utf8View", "String"),
    ("Utf8", "String"),
    ("Boolean", "Bool"),
    ("Decimal128", "Decimal"),
    ("Timestamp(s, \"UTC\")", "DateTime"),
    ("Timestamp(ms, \"UTC\")", "DateTime64(3)"),
    ("Timestamp(µs, \"UTC\")", "DateTime64(6)"),
];

/// DataFusion's sentences that lack the way out, and ours.
const SENTENCES: [(&str, &str); 5] = [
    (
        "non-nullable field of ListArray",
        "an item is NULL, and the items of this array are not `Nullable`; write `Array(Nullable(…))`, or leave NULL out with `array_compact(…)`",
    ),
    (
        "found unmasked nulls for non-nullable StructArray field",
        "a value of the map is NULL, and its values are not `Nullable`; write `Map(…, Nullable(…))`",
    ),
    (
        "unary operator '-' only supports",
        "`-` cannot be applied to an unsigned integer; write `-CAST(… AS Int64)`",
    ),
    (
        "cannot cast timezone to different timezone",
        "the time is beyond those that a time of this unit can have",
    ),
    ("substring without for/from", "`substr` needs a start position; write `substr(text, start, length)`"),
];

/// One line, in lower case, without the names of layers, with our names of types.
pub(crate) fn reworded(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let mut line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line = line.split("user-defined coercion failed with: ").last().unwrap_or(line);
    while let Some(rest) = LAYERS.iter().find_map(|layer| line.strip_prefix(layer)) {
        line = rest.trim_start();
    }
    if let Some(sentence) = of_arguments(line) {
        return sentence;
    }
    let line = line.split(" No function matches the given name").next().unwrap_or(line);
    let mut words = line.trim_end_matches(['.', ' ']).to_owned();
    // The type of a type.
    if let Some((before, _)) = words.split_once(" (DataType: ") {
        words = before.to_owned();
    }
    let words = lower_first(&our_types(words));
    match SENTENCES.iter().find(|(theirs, _)| words.starts_with(theirs)) {
        Some((_, ours)) => (*ours).to_owned(),
        None => words,
    }
}

/// The expression as the user wrote it, as far as that is known.
pub(crate) fn shown(expr: &Expr) -> String {
    // What our own pass leaves on a type that the user wrote.
    our_types(expr.human_display().to_string().replace(r#"<{"forebay.written": ""}>"#, ""))
}

fn our_types(mut words: String) -> String {
    for (theirs, ours) in TYPES {
        words = words.replace(theirs, ours);
    }
    words
}

/// DataFusion lists every signature of a function that does not take the arguments; ours are on a page.
fn of_arguments(line: &str) -> Option<String> {
    let page = "docs/reference/sql-functions.md shows how it is called";
    if let Some((before, rest)) = line.split_once(" failed to match any signature") {
        let name = before.rsplit('\'').nth(1)?;
        // Each signature has its reason; one that has the right number of arguments tells more.
        let mut reasons = rest.split("Error during planning: ").skip(1);
        let reason = reasons.clone().find(|reason| reason.contains("requires")).or_else(|| reasons.next());
        let reason = reason
            .and_then(|reason| reason.split(" (DataType").next())
            .map(|reason| our_types(reason.trim_end_matches([' ', ',', '.']).to_owned()));
        let reason = reason.map_or(String::new(), |reason| format!(" ({})", lower_first(&reason)));
        return Some(format!("`{name}` does not take these arguments{reason}; {page}"));
    }
    let (_, rest) = line.split_once("Failed to coerce arguments to satisfy a call to '")?;
    let (name, rest) = rest.split_once('\'')?;
    let (_, given) = rest.split_once("coercion from ")?;
    let (given, _) = given.split_once(" to the signature")?;
    let given = our_types(given.to_owned());
    Some(format!("`{name}` does not take arguments of the types `{given}`; {page}"))
}

/// With a small letter at the beginning, unless the first word is all capitals (`CAST`, `NULL`).
pub(crate) fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

/// The name nearest to `written`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = written.to_lowercase();
    let allowed = (written.chars().count() / 3).max(1);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&folded, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}
