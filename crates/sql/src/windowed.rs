//! `SELECT … FROM TUMBLE(input, time, INTERVAL '1 minute') GROUP BY …`: windows as SQL says them.
//!
//! Owns the four table functions, which Flink and RisingWave have too, and the clauses around them. Does not own what an aggregate means, whose text
//! is handed on, nor the windows themselves.
//!
//! | function                             | windows                                                        |
//! |--------------------------------------|----------------------------------------------------------------|
//! | `TUMBLE(input, time, size)`          | one after the other                                            |
//! | `HOP(input, time, slide, size)`      | one each `slide`                                               |
//! | `CUMULATE(input, time, step, size)`  | growing by `step` up to `size`                                 |
//! | `SESSION(input, time, gap)`          | of records of a key that are less than `gap` apart             |
//!
//! Each takes `lateness => INTERVAL '10 seconds'` and `at_end => 'close'` behind its arguments, and `SESSION` takes `max => INTERVAL '1 day'`: settings that elsewhere are
//! those of the table.

use std::ops::Range;

use datafusion_sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, GroupByExpr, Interval, ObjectNamePart, Select, SelectItem,
    TableFactor, TableFunctionArgs, Value,
};

use crate::Fault;
use crate::query::{INPUT, only_known_clauses, only_select};
use crate::text::Text;

/// The first instant of a window.
const START: &str = "window_start";
/// The instant after its last.
const END: &str = "window_end";
/// The time of a result: its window's last millisecond. It is no column.
pub const TIME: &str = "window_time";

/// A query over windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windowed {
    /// Which windows.
    pub kind: WindowKind,
    /// The column that holds the time.
    pub time: String,
    /// How far the watermark must be behind a window's end to close it, in milliseconds, if that is said.
    pub lateness: Option<u64>,
    /// At which multiples all sessions end, in milliseconds, if that is said.
    pub max: Option<u64>,
    /// Whether the last windows close when every input has ended.
    pub closes_at_end: bool,
    /// Where the time of the results is selected, [`TIME`], which a window behind this one may name and which is no column.
    pub selects_time: Option<Range<usize>>,
    /// The columns of the key.
    pub key: Vec<String>,
    /// The columns of the results: the name and the text of each aggregate.
    pub aggregates: Vec<(String, String)>,
}

/// Windows, with their lengths in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above says what they are")]
pub enum WindowKind {
    Tumble { size: u64 },
    Hop { slide: u64, size: u64 },
    Cumulate { step: u64, size: u64 },
    Session { gap: u64 },
}

/// The functions, each with its arguments.
const FUNCTIONS: [(&str, &str); 4] = [
    ("tumble", "TUMBLE(input, time, INTERVAL '1 minute')"),
    ("hop", "HOP(input, time, INTERVAL '1 minute', INTERVAL '1 hour')"),
    ("cumulate", "CUMULATE(input, time, INTERVAL '1 hour', INTERVAL '1 day')"),
    ("session", "SESSION(input, time, INTERVAL '30 minutes')"),
];

/// Reads a text; `None` if it is no query over windows.
///
/// # Errors
/// When it is one, and says what windows cannot do.
pub(crate) fn windowed(text: &Text) -> Result<Option<Windowed>, Fault> {
    // What cannot be parsed is reported where it is planned.
    let Ok(query) = text.query() else { return Ok(None) };
    let Ok(mut select) = only_select(text, *query.clone()) else { return Ok(None) };
    let Some((function, args)) = function(&select) else { return Ok(None) };
    let how = FUNCTIONS.iter().find(|(name, _)| *name == function).map_or("", |(_, how)| how);
    let Arguments { time, kind, lateness, max, closes_at_end } =
        arguments(&function, args).ok_or_else(|| {
            let message = format!("the windows are not understood; write `FROM {how}`");
            Fault::new(message, text.whole())
        })?;
    let by = grouped(text, &mut select)?;
    if let Some(condition) = &select.selection {
        let message = "WHERE is refused beside windows; put a `filter` step before this one";
        return Err(Fault::new(message, text.range(condition)));
    }
    if let Some(having) = &select.having {
        let message = "HAVING is refused beside windows; put a `filter` step behind this one";
        return Err(Fault::new(message, text.range(having)));
    }
    only_known_clauses(text, &select)?;
    for bound in [START, END] {
        if !by.iter().any(|name| name == bound) {
            let message =
                format!("a result is one of a window; write `GROUP BY {START}, {END}`, and the key");
            return Err(Fault::new(message, text.whole()));
        }
    }
    let key: Vec<String> =
        by.into_iter().filter(|name| ![START, END, TIME].contains(&name.as_str())).collect();
    let (mut aggregates, mut selects_time) = (Vec::new(), None);
    for item in select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(ident)) = &item
            && ident.value == TIME
        {
            selects_time = text.range_of(ident.span).or_else(|| text.whole());
            continue;
        }
        if let Some(aggregate) = selected(text, item, &key)? {
            aggregates.push(aggregate);
        }
    }
    if aggregates.is_empty() {
        let message = "no aggregate is selected; write one with a name, as in `count(*) AS n`";
        return Err(Fault::new(message, text.whole()));
    }
    Ok(Some(Windowed { kind, time, lateness, max, closes_at_end, selects_time, key, aggregates }))
}

/// The table function, if the query reads from one of ours.
fn function(select: &Select) -> Option<(String, &[FunctionArg])> {
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { name, args: Some(TableFunctionArgs { args, .. }), .. } = &from.relation else {
        return None;
    };
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return None };
    let word = ident.value.to_lowercase();
    (from.joins.is_empty() && FUNCTIONS.iter().any(|(name, _)| *name == word)).then_some((word, args))
}

/// What the arguments say.
struct Arguments {
    time: String,
    kind: WindowKind,
    lateness: Option<u64>,
    max: Option<u64>,
    closes_at_end: bool,
}

fn arguments(function: &str, args: &[FunctionArg]) -> Option<Arguments> {
    let (mut exprs, mut lateness, mut max, mut closes_at_end) = (Vec::new(), None, None, false);
    for arg in args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => exprs.push(expr),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(Expr::Value(value)), .. }
                if name.value.eq_ignore_ascii_case("at_end") =>
            {
                let Value::SingleQuotedString(word) = &value.value else { return None };
                closes_at_end = match word.as_str() {
                    "close" => true,
                    "wait" => false,
                    _ => return None,
                };
            }
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                let setting = match name.value.to_lowercase().as_str() {
                    "lateness" => &mut lateness,
                    "max" if function == "session" => &mut max,
                    _ => return None,
                };
                if setting.replace(milliseconds(expr)?).is_some() {
                    return None;
                }
            }
            _ => return None,
        }
    }
    let [Expr::Identifier(input), Expr::Identifier(time), lengths @ ..] = exprs.as_slice() else {
        return None;
    };
    let lengths: Vec<u64> = lengths.iter().map(|length| milliseconds(length)).collect::<Option<_>>()?;
    let kind = match (function, lengths.as_slice()) {
        ("tumble", [size]) => WindowKind::Tumble { size: *size },
        ("hop", [slide, size]) => WindowKind::Hop { slide: *slide, size: *size },
        ("cumulate", [step, size]) => WindowKind::Cumulate { step: *step, size: *size },
        ("session", [gap]) => WindowKind::Session { gap: *gap },
        _ => return None,
    };
    let is_input = input.value.eq_ignore_ascii_case(INPUT);
    is_input.then(|| Arguments { time: time.value.clone(), kind, lateness, max, closes_at_end })
}

/// `INTERVAL '1 minute'`, `INTERVAL '1' MINUTE`, `INTERVAL '1 hour 30 minutes'`.
pub(crate) fn milliseconds(expr: &Expr) -> Option<u64> {
    let Expr::Interval(Interval { value, leading_field, last_field: None, .. }) = expr else { return None };
    let mut text = value.to_string().replace('\'', " ");
    if let Some(field) = leading_field {
        text += &format!(" {field}");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
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

/// The columns of GROUP BY, which is taken out.
fn grouped(text: &Text, select: &mut Select) -> Result<Vec<String>, Fault> {
    let none = GroupByExpr::Expressions(Vec::new(), Vec::new());
    let by = match std::mem::replace(&mut select.group_by, none) {
        GroupByExpr::Expressions(by, modifiers) if modifiers.is_empty() => by,
        GroupByExpr::Expressions(..) | GroupByExpr::All(_) => {
            return Err(Fault::new("GROUP BY takes columns only; name them", text.whole()));
        }
    };
    by.into_iter()
        .map(|expr| match expr {
            Expr::Identifier(ident) => Ok(ident.value),
            other => {
                let message =
                    "GROUP BY takes columns only; compute others in a `select` step before this one";
                Err(Fault::new(message, text.range(&other)))
            }
        })
        .collect()
}

/// The aggregate of an item; `None` for a column of the key and the bounds, which results have in any case.
fn selected(text: &Text, item: SelectItem, key: &[String]) -> Result<Option<(String, String)>, Fault> {
    let (expr, alias) = match item {
        SelectItem::UnnamedExpr(expr) => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value)),
        _ => {
            let message = "`*` is refused beside windows; name the key, the bounds and the aggregates";
            return Err(Fault::new(message, text.whole()));
        }
    };
    let at = text.range(&expr);
    match (expr, alias) {
        (Expr::Identifier(ident), alias) => {
            let name = ident.value;
            if name != START && name != END && !key.contains(&name) {
                let message = format!("`{name}` is not in GROUP BY; add it there, or aggregate it");
                return Err(Fault::new(message, at));
            }
            if alias.is_some_and(|alias| alias != name) {
                let message = format!("`{name}` keeps its name; rename it under `columns:` of the sink");
                return Err(Fault::new(message, at));
            }
            Ok(None)
        }
        (function @ Expr::Function(_), Some(name)) => Ok(Some((name, function.to_string()))),
        (Expr::Function(_), None) => {
            Err(Fault::new("the column has no name; write `… AS name`", at.or_else(|| text.whole())))
        }
        _ => {
            let message = "an expression over aggregates is refused beside windows; compute it in a `select` step behind this one";
            Err(Fault::new(message, at.or_else(|| text.whole())))
        }
    }
}

#[cfg(test)]
mod tests;
