//! `SELECT … FROM TUMBLE(input, time, INTERVAL '1 minute') GROUP BY …`: windows as SQL says them.
//!
//! Owns the four table functions, which Flink and RisingWave have too, and the clauses around them. Does not own their arguments (`windowed::arguments`), conditions and
//! expressions over results (`windowed::around`), what an aggregate means, whose text is handed on, nor the windows themselves.
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

mod arguments;
mod around;

use std::ops::Range;

use datafusion_sql::sqlparser::ast::{
    Expr, FunctionArg, GroupByExpr, ObjectNamePart, Select, SelectItem, TableFactor, TableFunctionArgs,
};

use crate::Fault;
use crate::fault::nearest;
use crate::query::{is_bare, only_known_clauses, only_select};
use crate::text::Text;
pub(crate) use arguments::milliseconds;
use arguments::{Arguments, Function};
pub(crate) use around::queries;

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

/// Reads a text; `None` if it is no query over windows.
///
/// # Errors
/// When it is one, and says what windows cannot do.
pub(crate) fn windowed(text: &Text) -> Result<Option<Windowed>, Fault> {
    // What cannot be parsed is reported where it is planned.
    let Ok(query) = text.query() else { return Ok(None) };
    let Ok(mut select) = only_select(text, *query.clone()) else { return Ok(None) };
    let Some((function, args)) = function(&select) else {
        return misspelt(text, &select).map_or(Ok(None), Err);
    };
    let Arguments { time, kind, lateness, max, closes_at_end } = function.arguments(text, args)?;
    only_named(text, &select)?;
    let by = grouped(text, &mut select)?;
    // `around` has taken them out of every text that it understands.
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
fn function(select: &Select) -> Option<(&'static Function, &[FunctionArg])> {
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { name, args: Some(TableFunctionArgs { args, .. }), .. } = &from.relation else {
        return None;
    };
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return None };
    let function = Function::named(&ident.value).filter(|_| from.joins.is_empty())?;
    Some((function, args))
}

/// Refuses what stands behind the table function and is not its name: it would have no effect.
fn only_named(text: &Text, select: &Select) -> Result<(), Fault> {
    let Some(TableFactor::Table { alias, .. }) = select.from.first().map(|from| &from.relation) else {
        return Ok(());
    };
    if let Some(column) = alias.as_ref().and_then(|alias| alias.columns.first()) {
        let message = "columns are not renamed here; write `AS name`, and rename them in the select list";
        return Err(Fault::new(message, text.range_of(column.name.span).or_else(|| text.whole())));
    }
    match select.from.iter().all(|from| is_bare(&from.relation)) {
        true => Ok(()),
        false => {
            let message = "windows are of all rows; leave out what stands behind their arguments and their name, and put a `filter` step before this one";
            Err(Fault::new(message, text.whole()))
        }
    }
}

/// What is said of a table function whose name is nearly one of ours.
fn misspelt(text: &Text, select: &Select) -> Option<Fault> {
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { name, args: Some(_), .. } = &from.relation else { return None };
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return None };
    let meant = nearest(&ident.value, Function::words())?.to_uppercase();
    let is_it = meant.eq_ignore_ascii_case(&ident.value);
    let message = format!("there is no table function `{}`; did you mean `{meant}`?", ident.value);
    (!is_it).then(|| Fault::new(message, text.range_of(ident.span).or_else(|| text.whole())))
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
