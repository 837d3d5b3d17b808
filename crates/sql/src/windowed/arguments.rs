//! The arguments of `TUMBLE`, `HOP`, `CUMULATE` and `SESSION`.
//!
//! Owns what each function takes, and what is said of an argument that it does not take. Does not own the clauses around them ([`super`]).

use datafusion_sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Ident, Interval, Value};

use super::WindowKind;
use crate::Fault;
use crate::query::INPUT;
use crate::text::Text;

/// A table function over windows.
pub(super) struct Function {
    /// Its name, in lower case.
    name: &'static str,
    /// What its lengths are, in their order.
    lengths: &'static [&'static str],
    /// How it is written.
    how: &'static str,
}

const FUNCTIONS: [Function; 4] = [
    Function { name: "tumble", lengths: &["size"], how: "TUMBLE(input, time, INTERVAL '1 minute')" },
    Function {
        name: "hop",
        lengths: &["slide", "size"],
        how: "HOP(input, time, INTERVAL '1 minute', INTERVAL '1 hour')",
    },
    Function {
        name: "cumulate",
        lengths: &["step", "size"],
        how: "CUMULATE(input, time, INTERVAL '1 hour', INTERVAL '1 day')",
    },
    Function { name: "session", lengths: &["gap"], how: "SESSION(input, time, INTERVAL '30 minutes')" },
];

/// What the arguments say.
pub(super) struct Arguments {
    pub time: String,
    pub kind: WindowKind,
    pub lateness: Option<u64>,
    pub max: Option<u64>,
    pub closes_at_end: bool,
}

/// Settings that are given by name.
#[derive(Default)]
struct Named {
    lateness: Option<u64>,
    max: Option<u64>,
    closes_at_end: Option<bool>,
}

impl Function {
    /// The function of a name, in any case.
    pub fn named(name: &str) -> Option<&'static Self> {
        FUNCTIONS.iter().find(|function| function.name.eq_ignore_ascii_case(name))
    }

    /// The names of all, in lower case.
    pub fn words() -> impl Iterator<Item = &'static str> {
        FUNCTIONS.iter().map(|function| function.name)
    }

    fn word(&self) -> String {
        self.name.to_uppercase()
    }

    /// What the arguments say.
    ///
    /// # Errors
    /// At the argument that it does not take, with the reason.
    pub fn arguments(&self, text: &Text, args: &[FunctionArg]) -> Result<Arguments, Fault> {
        let (mut exprs, mut named) = (Vec::new(), Named::default());
        for arg in args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => exprs.push(expr),
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                    self.set(text, &mut named, (name, expr))?;
                }
                other => return Err(self.fault(text, None, format!("`{other}` is no argument"))),
            }
        }
        let time = self.columns(text, &exprs)?;
        let lengths = exprs.get(2..).unwrap_or_default();
        if lengths.len() != self.lengths.len() {
            let wanted: Vec<String> = self.lengths.iter().map(|length| format!("`{length}`")).collect();
            let are = if wanted.len() == 1 { "is" } else { "are" };
            let message = match lengths.len() {
                0 => format!("{} {are} missing", wanted.join(" and ")),
                found => {
                    format!("behind the time stand `{found}` lengths, and it takes {}", wanted.join(" and "))
                }
            };
            return Err(self.fault(text, exprs.last().copied(), message));
        }
        let lengths = self.lengths.iter().zip(lengths).map(|(what, expr)| self.length(text, what, expr));
        let lengths: Vec<u64> = lengths.collect::<Result<_, _>>()?;
        let kind = match (self.name, lengths.as_slice()) {
            ("tumble", [size]) => WindowKind::Tumble { size: *size },
            ("hop", [slide, size]) => WindowKind::Hop { slide: *slide, size: *size },
            ("cumulate", [step, size]) => WindowKind::Cumulate { step: *step, size: *size },
            (_, [gap, ..]) => WindowKind::Session { gap: *gap },
            (_, []) => unreachable!("each function has a length"),
        };
        let Named { lateness, max, closes_at_end } = named;
        Ok(Arguments { time, kind, lateness, max, closes_at_end: closes_at_end.unwrap_or_default() })
    }

    /// The column of the time, behind `input`.
    fn columns(&self, text: &Text, exprs: &[&Expr]) -> Result<String, Fault> {
        match exprs.first() {
            Some(Expr::Identifier(input)) if input.value.eq_ignore_ascii_case(INPUT) => {}
            Some(other) => {
                let message =
                    format!("`{other}` stands in the place of `input`, the rows of the step before");
                return Err(self.fault(text, Some(other), message));
            }
            None => {
                return Err(self.fault(
                    text,
                    None,
                    "`input` is missing, the rows of the step before".to_owned(),
                ));
            }
        }
        match exprs.get(1) {
            Some(Expr::Identifier(time)) => Ok(time.value.clone()),
            Some(other) => {
                let message = format!("`{other}` stands in the place of the column that holds the time");
                Err(self.fault(text, Some(other), message))
            }
            None => Err(self.fault(text, None, "the column that holds the time is missing".to_owned())),
        }
    }

    /// One setting by its name.
    fn set(&self, text: &Text, named: &mut Named, (name, expr): (&Ident, &Expr)) -> Result<(), Fault> {
        let word = name.value.to_lowercase();
        let is_twice = match word.as_str() {
            "at_end" => named.closes_at_end.replace(self.at_end(text, expr)?).is_some(),
            "lateness" => named.lateness.replace(self.length(text, "lateness", expr)?).is_some(),
            "max" if self.name == "session" => named.max.replace(self.length(text, "max", expr)?).is_some(),
            _ => {
                let known = if self.name == "session" {
                    "`lateness`, `max` and `at_end`"
                } else {
                    "`lateness` and `at_end`"
                };
                let message = format!(
                    "{} has no setting `{}`; it has {known}, and a step `window:` has all settings of windows",
                    self.word(),
                    name.value
                );
                return Err(Fault::new(message, text.range_of(name.span).or_else(|| text.whole())));
            }
        };
        match is_twice {
            false => Ok(()),
            true => Err(self.fault(text, Some(expr), format!("`{word}` is given twice"))),
        }
    }

    fn at_end(&self, text: &Text, expr: &Expr) -> Result<bool, Fault> {
        let word = match expr {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(word) => Some(word.as_str()),
                _ => None,
            },
            _ => None,
        };
        match word {
            Some("close") => Ok(true),
            Some("wait") => Ok(false),
            _ => {
                let message = format!(
                    "`at_end` is `{expr}`; write `at_end => 'close'` or `at_end => 'wait'`, in quotes"
                );
                Err(Fault::new(message, text.range(expr).or_else(|| text.whole())))
            }
        }
    }

    fn length(&self, text: &Text, what: &str, expr: &Expr) -> Result<u64, Fault> {
        milliseconds(expr).ok_or_else(|| {
            let message = format!("`{what}` of {} {}", self.word(), no_length(expr));
            Fault::new(message, text.range(expr).or_else(|| text.whole()))
        })
    }

    /// A fault at an argument, with how the function is written.
    fn fault(&self, text: &Text, at: Option<&Expr>, message: String) -> Fault {
        let message = format!("{}: {message}; write `FROM {}`", self.word(), self.how);
        Fault::new(message, at.and_then(|at| text.range(at)).or_else(|| text.whole()))
    }
}

/// Why an expression is no length, in words behind its name.
fn no_length(expr: &Expr) -> String {
    const HOW: &str =
        "write one as in `INTERVAL '90 seconds'`, in milliseconds, seconds, minutes, hours, days or weeks";
    let Expr::Interval(_) = expr else { return format!("is `{expr}`, which is no interval; {HOW}") };
    let words = words(expr).unwrap_or_default();
    let is_unit =
        |word: &String| ["month", "quarter", "year"].contains(&word.to_lowercase().trim_end_matches('s'));
    if words.iter().any(|word| word.starts_with('-')) {
        return format!("is `{expr}`, which is negative; {HOW}");
    }
    match words.iter().find(|word| is_unit(word)) {
        Some(unit) => format!(
            "is `{expr}`, and not every {} has the same length; {HOW}",
            unit.to_lowercase().trim_end_matches('s')
        ),
        None => format!("is `{expr}`, which is not understood; {HOW}"),
    }
}

/// `INTERVAL '1 minute'`, `INTERVAL '1' MINUTE`, `INTERVAL '1 hour 30 minutes'`.
pub(crate) fn milliseconds(expr: &Expr) -> Option<u64> {
    let words = words(expr)?;
    if words.is_empty() {
        return None;
    }
    let mut sum = 0_u64;
    for pair in words.chunks(2) {
        let [number, unit] = pair else { return None };
        let unit = match unit.to_lowercase().trim_end_matches('s') {
            "millisecond" => 1,
            "second" => 1_000,
            "minute" => 60_000,
            "hour" => 3_600_000,
            "day" => 86_400_000,
            "week" => 604_800_000,
            _ => return None,
        };
        sum = number.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(sum)?;
    }
    Some(sum)
}

/// The numbers and units of an interval, one after the other.
fn words(expr: &Expr) -> Option<Vec<String>> {
    let Expr::Interval(Interval { value, leading_field, last_field: None, .. }) = expr else { return None };
    let mut text = value.to_string().replace('\'', " ");
    if let Some(field) = leading_field {
        text += &format!(" {field}");
    }
    Some(text.split_whitespace().map(str::to_owned).collect())
}
