//! Regular expressions that are the same for every record.
//!
//! Owns which argument of which function is one, the fault of one that does not compile, or is no text (with it every record would be rejected), and that a backslash
//! in one stays what it is. Does not own patterns that a record brings (DataFusion compiles those, and the record fails).

use dataflow::printing::escaped;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Like, Operator};
use regex::{Error, Regex};

use super::constant;
use crate::fault::{reworded, shown};
use crate::types::name;

/// Functions of a text and a pattern, and which argument are the flags.
const FUNCTIONS: [(&str, usize); 5] = [
    ("regexp_like", 2),
    ("regexp_match", 2),
    ("regexp_replace", 3),
    ("regexp_count", 3),
    ("regexp_instr", 4),
];
/// Characters of a pattern in a message.
const PATTERN_CHARS_MAX: usize = 80;

/// Refuses constant patterns that do not compile, within the size that the evaluation has.
pub(crate) fn refuse_bad_patterns(expr: &Expr, schema: &DFSchema) -> Result<(), String> {
    let mut fault = None;
    let walked = expr.apply(|node| {
        fault = match node {
            Expr::Like(Like { expr, pattern, .. }) | Expr::SimilarTo(Like { expr, pattern, .. }) => {
                [expr, pattern].into_iter().find_map(|side| of_no_text(side, schema))
            }
            Expr::ScalarFunction(call) => of_call(call),
            Expr::BinaryExpr(BinaryExpr { op, right, .. }) => match op {
                Operator::RegexMatch | Operator::RegexNotMatch => text(right).and_then(|one| wrong(one, "")),
                Operator::RegexIMatch | Operator::RegexNotIMatch => {
                    text(right).and_then(|one| wrong(one, "i"))
                }
                _ => None,
            },
            _ => None,
        };
        Ok(if fault.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.map_err(|error| reworded(&error))?;
    fault.map_or(Ok(()), Err)
}

/// Puts patterns that may have a backslash as a character into a group. Of others DataFusion may make a LIKE, in which a backslash is none: of `C:\\Users` one that finds `C:Users`.
/// So does it with `.*`, of which DataFusion would make `IS NOT NULL`, which is false where the text is NULL.
pub(crate) fn keep_backslashes(expr: Expr) -> Result<Expr, String> {
    let kept = expr.transform_up(|node| {
        Ok(match node {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_match(op) => {
                let right = in_group(&right).map_or(right, Box::new);
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, op, right)))
            }
            Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.name() == "regexp_like" => {
                // With other flags it stays what it is.
                let is_operator = matches!(args.get(2).map_or(Some(""), text), Some("" | "i"));
                if let Some(grouped) = args.get(1).filter(|_| is_operator).and_then(in_group) {
                    args[1] = grouped;
                }
                Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(func, args)))
            }
            other => Transformed::no(other),
        })
    });
    kept.map(|kept| kept.data).map_err(|error| reworded(&error))
}

fn is_match(op: Operator) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    matches!(op, RegexMatch | RegexNotMatch | RegexIMatch | RegexNotIMatch)
}

/// The pattern as a group; `None` if it need not be one.
fn in_group(pattern: &Expr) -> Option<Expr> {
    let (text, value) = (text(pattern)?, constant(pattern)?);
    let needs_one = text == ".*" || [r"\\", r"\x", r"\u", r"\U"].iter().any(|one| text.contains(one));
    let grouped = format!("({text})");
    // A comment at the end would take the parenthesis.
    if !needs_one || Regex::new(&grouped).is_err() {
        return None;
    }
    let grouped = match value {
        ScalarValue::Utf8View(_) => ScalarValue::Utf8View(Some(grouped)),
        _ => ScalarValue::Utf8(Some(grouped)),
    };
    Some(Expr::Literal(grouped, None))
}

/// What is compared with a pattern, and the pattern, are texts. Beside NULL DataFusion leaves everything as it is.
fn of_no_text(side: &Expr, schema: &DFSchema) -> Option<String> {
    let of_type = side.get_type(schema).ok().filter(|of_type| !of_type.is_string() && !of_type.is_null())?;
    Some(format!("LIKE compares texts, and `{}` is `{}`", shown(side), name(&of_type)))
}

fn of_call(call: &ScalarFunction) -> Option<String> {
    let (name, flags) = FUNCTIONS.iter().find(|(name, _)| *name == call.name())?;
    let pattern = text(call.args.get(1)?)?;
    let flags = call.args.get(*flags).map_or(Some(""), text)?;
    if *name == "regexp_replace" {
        return wrong(pattern, &flags.replace('g', ""));
    }
    match flags.contains('g') {
        true => Some(format!("`{name}` has no flag `g`; `regexp_replace` has it, to replace every match")),
        false => wrong(pattern, flags),
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match constant(expr)? {
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => Some(text),
        _ => None,
    }
}

/// Why a pattern does not compile, if it does not.
fn wrong(pattern: &str, flags: &str) -> Option<String> {
    let before = if flags.is_empty() { String::new() } else { format!("(?{flags})") };
    let error = Regex::new(&format!("{before}{pattern}")).err()?;
    let shown = escaped(pattern, PATTERN_CHARS_MAX);
    Some(match &error {
        Error::CompiledTooBig(limit) => format!(
            "the regular expression `{shown}` takes more than {} MiB compiled; its repetitions are too large",
            limit >> 20
        ),
        // A picture of several lines: the pattern, a `^` below the place, and the sentence.
        Error::Syntax(picture) => {
            let sentence = picture.lines().rev().find_map(|line| line.strip_prefix("error: "));
            let sentence = sentence.unwrap_or("it does not compile");
            match place(picture, before.chars().count()) {
                Some(Place::Flags) => {
                    format!(
                        "`{flags}` are no flags of a regular expression: {sentence}; they are of `imsUux`"
                    )
                }
                Some(Place::Pattern(nth)) => {
                    format!("the regular expression `{shown}` is wrong at its character {nth}: {sentence}")
                }
                None => format!("the regular expression `{shown}` is wrong: {sentence}"),
            }
        }
        other => format!("the regular expression `{shown}` does not compile: {other}"),
    })
}

enum Place {
    Flags,
    /// From 1.
    Pattern(usize),
}

/// Where the `^` stands; `None` for a pattern of several lines, each of which has a number.
fn place(picture: &str, before: usize) -> Option<Place> {
    const INDENT: usize = 4;
    let marks = picture
        .lines()
        .find(|line| line.contains('^') && line.chars().all(|one| one == ' ' || one == '^'))?;
    let is_one_line = picture.lines().count() == 4;
    let at = marks.find('^').filter(|_| is_one_line)?.checked_sub(INDENT)?;
    Some(if at < before { Place::Flags } else { Place::Pattern(at - before + 1) })
}
