//! `SELECT … FROM orders AS o JOIN payments AS p ON … WHERE …`: joins of two inputs as SQL says them.
//!
//! Owns which of the conditions are the key, which bound the time, and which are a filter behind the join. Does not own the join itself, nor whether
//! the inputs and their columns exist: its caller knows them. [`behind`] is what stands behind the join: the select list and the filter, over the joined
//! rows, in which a column `o.id` of the text has that name.
//!
//! | in the text                                                     | is                                                    |
//! |-----------------------------------------------------------------|-------------------------------------------------------|
//! | `o.id = p.order_id`, `USING (id)`                               | a part of the key                                     |
//! | `p.time BETWEEN o.time - INTERVAL '1 hour' AND o.time`, `<`, `<=`, `>`, `>=`, `=` of the two times | a bound of the time        |
//! | `JOIN rates FOR SYSTEM_TIME AS OF o.time AS r`                  | the version of the right side at the left row's time  |
//! | any other condition of an INNER join, and the WHERE of each     | a filter behind the join                              |
//! | any other condition in the ON of an outer join                  | refused: it would decide which rows match             |

mod conditions;
mod tables;

use std::ops::{ControlFlow, Range};

use dataflow::{Column, Metadata, Schema};
use datafusion_sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Spanned,
    TableFactor, VisitMut, VisitorMut,
};

use crate::compile::Scope;
use crate::query::{chosen, only_known_clauses, only_select};
use crate::text::{Text, together};
use crate::{Fault, Step};
use conditions::Conditions;

/// A query that joins two inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The left side and the right one.
    pub tables: [Table; 2],
    /// Which rows without a match go on.
    pub kind: JoinKind,
    /// The key; at least one pair.
    pub on: Vec<Pair>,
    /// Which of the rows with equal keys belong together.
    pub matching: Matching,
    /// The columns that the select list and the filter read under the name of their table, each once.
    pub columns: Vec<Qualified>,
    /// The columns that they read without it, each once, and where they stand.
    pub names: Vec<(String, Option<Range<usize>>)>,
    /// The columns of `USING`, which both sides have and which are one behind the join.
    pub merged: Vec<String>,
    /// Whether the select list is `*` and nothing else.
    pub is_all: bool,
}

/// A side of the join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The input.
    pub name: String,
    /// What its columns are qualified with: the alias, or else the name.
    pub qualifier: String,
    /// Where it stands in the text.
    pub at: Option<Range<usize>>,
}

/// Which rows without a match go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are SQL's words")]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
}

impl JoinKind {
    fn word(self) -> &'static str {
        match self {
            Self::Inner => "INNER",
            Self::Left => "LEFT",
            Self::Right => "RIGHT",
            Self::Full => "FULL",
        }
    }
}

/// Two columns that must be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The column of the left side.
    pub left: String,
    /// The column of the right side.
    pub right: String,
    /// Where they stand in the text.
    pub at: Option<Range<usize>>,
}

/// Which rows with equal keys belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matching {
    /// Those whose times are near each other.
    Near {
        /// How much earlier than the left row the right row may be, in milliseconds.
        before: u64,
        /// How much later, in milliseconds.
        after: u64,
        /// The column of each side that holds its time.
        times: [String; 2],
        /// Where each of them stands in the text.
        at: [Option<Range<usize>>; 2],
    },
    /// Each left row and the version of the right side at its time.
    AsOf {
        /// The column of the left side that holds its time.
        time: String,
        /// Where it stands in the text.
        at: Option<Range<usize>>,
    },
}

/// A column under the name of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qualified {
    /// The table: 0 or 1.
    pub table: usize,
    /// The column.
    pub column: String,
    /// Its name in the joined rows, as in `o.id`.
    pub name: String,
    /// Where it stands in the text.
    pub at: Option<Range<usize>>,
}

/// The column of an input that holds the time of its rows, by the input's name.
pub type Times<'a> = &'a [(String, String)];

/// What stands behind the join.
struct Behind {
    select: Vec<SelectItem>,
    conditions: Vec<Expr>,
}

/// Reads a text; `None` if it joins no inputs.
///
/// # Errors
/// When it does, and says what joins cannot do.
pub(crate) fn joined(text: &Text, times: Times<'_>) -> Result<Option<Joined>, Fault> {
    // What cannot be parsed is reported where it is planned.
    let Ok(query) = text.query() else { return Ok(None) };
    if !is_join(&query) {
        return Ok(None);
    }
    taken_apart(text, *query, times).map(|(joined, _)| Some(joined))
}

/// The step behind the join: `input` are the joined rows.
///
/// # Errors
/// When an expression does not fit the columns.
pub(crate) fn behind(input: &Schema, text: &str, times: Times<'_>, name: &str) -> Result<Step, Fault> {
    let text = Text::new(text);
    let (joined, Behind { select, conditions }) = taken_apart(&text, *text.query()?, times)?;
    let scope = Scope::new(input, Vec::new())?;
    let condition = together(conditions, &BinaryOperator::And);
    if joined.is_all {
        return Step::kept_of(input, &text, (&scope, condition), name);
    }
    // `*` stands for columns under their own names.
    let is_bare = |column: &&Column| joined.columns.iter().all(|qualified| qualified.name != column.name);
    let bare = Schema::new(input.columns().iter().filter(is_bare).cloned().collect());
    let chosen = chosen(&bare, &text, &scope, select)?;
    Step::chosen_of(input, &text, (&scope, condition, chosen), name)
}

fn is_join(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let relations: Vec<&TableFactor> = tables::relations(select).collect();
    // An UNNEST is no rows of another input.
    relations.len() > 1 && !relations.iter().any(|one| matches!(one, TableFactor::UNNEST { .. }))
}

fn taken_apart(text: &Text, query: Query, times: Times<'_>) -> Result<(Joined, Behind), Fault> {
    let mut select = only_select(text, query)?;
    refused_clauses(text, &mut select)?;
    let tables::Tables { tables, kind, constraint, as_of } = tables::read(text, &select)?;
    let time = |table: usize| {
        let of = times.iter().find(|(name, _)| *name == tables[table].name);
        of.map_or_else(|| Metadata::Timestamp.name().to_owned(), |(_, time)| time.clone())
    };
    let times = [time(0), time(1)];
    let found =
        conditions::read(text, (&tables, &times, kind), (constraint, select.selection), as_of.is_some())?;
    let Conditions { on, merged, bounds, rest } = found;
    let matching = match as_of {
        Some((time, at)) => Matching::AsOf { time, at },
        None => bounds.matching(text, (&tables, &times), &on)?,
    };
    let mut behind = Behind { select: select.projection, conditions: rest };
    let is_all =
        matches!(&behind.select[..], [SelectItem::Wildcard(options)] if *options == Default::default());
    let (columns, names) = named(text, &tables, &mut behind)?;
    Ok((Joined { tables, kind, on, matching, columns, names, merged, is_all }, behind))
}

fn refused_clauses(text: &Text, select: &mut Select) -> Result<(), Fault> {
    if let Some(having) = &select.having {
        let message =
            "HAVING is refused beside a join; put a `filter` step behind the `window` behind this one";
        return Err(Fault::new(message, text.range(having)));
    }
    let by = match &select.group_by {
        GroupByExpr::All(_) => Some(text.whole()),
        GroupByExpr::Expressions(by, _) => by.first().map(|by| text.range(by)),
    };
    if let Some(at) = by {
        let message = "GROUP BY is refused beside a join; put a `window` step behind this one";
        return Err(Fault::new(message, at.or_else(|| text.whole())));
    }
    only_known_clauses(text, select)
}

/// Gives columns of the select list and of the filter the names that they have in the joined rows: the column `o.id` is called so.
///
/// Returns the columns with a side in front, and the names of the others.
fn named(
    text: &Text,
    tables: &[Table; 2],
    behind: &mut Behind,
) -> Result<(Vec<Qualified>, Vec<Bare>), Fault> {
    for item in &mut behind.select {
        if let SelectItem::QualifiedWildcard(_, options) = item {
            let message =
                "all columns of one side cannot be selected; name them, or write `*` for those of both";
            return Err(Fault::new(message, text.range(options).or_else(|| text.whole())));
        }
        if let SelectItem::UnnamedExpr(expr) = &*item
            && let Expr::CompoundIdentifier(parts) = expr
            && let [_, column] = parts.as_slice()
        {
            *item = SelectItem::ExprWithAlias { alias: column.clone(), expr: expr.clone() };
        }
    }
    let mut naming = Naming { text, tables, found: Vec::new(), bare: Vec::new() };
    let mut faults = behind.select.iter_mut().map(|item| item.visit(&mut naming)).collect::<Vec<_>>();
    faults.extend(behind.conditions.iter_mut().map(|condition| condition.visit(&mut naming)));
    match faults.into_iter().find_map(ControlFlow::break_value) {
        Some(fault) => Err(*fault),
        None => Ok((naming.found, naming.bare)),
    }
}

/// A name without a side, and where it stands.
type Bare = (String, Option<Range<usize>>);

struct Naming<'a> {
    text: &'a Text<'a>,
    tables: &'a [Table; 2],
    found: Vec<Qualified>,
    bare: Vec<Bare>,
}

impl Naming<'_> {
    /// The column of a table, as the joined rows have it.
    fn column(&mut self, table: &Ident, column: &Ident) -> Result<Expr, Box<Fault>> {
        let span = table.span.union(&column.span);
        let at = self.text.range_of(span);
        let Some(place) = self.tables.iter().position(|known| known.qualifier == table.value) else {
            return Err(Box::new(tables::unknown(self.tables, &table.value, at)));
        };
        let name = format!("{}.{}", table.value, column.value);
        if !self.found.iter().any(|known| known.name == name) {
            let column = column.value.clone();
            self.found.push(Qualified { table: place, column, name: name.clone(), at });
        }
        Ok(Expr::Identifier(Ident { value: name, quote_style: Some('"'), span }))
    }
}

impl VisitorMut for Naming<'_> {
    type Break = Box<Fault>;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Fault>> {
        let found = match expr {
            Expr::Identifier(ident) => {
                // One that was given its name here is none.
                let is_known = self.bare.iter().any(|(known, _)| *known == ident.value);
                if !is_known && !self.found.iter().any(|known| known.name == ident.value) {
                    self.bare.push((ident.value.clone(), self.text.range_of(ident.span)));
                }
                None
            }
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => Some(self.column(table, column)),
                _ => None,
            },
            // `o.attributes['colour']`
            Expr::CompoundFieldAccess { root, access_chain } => match (root.as_ref(), access_chain.first()) {
                (Expr::Identifier(table), Some(AccessExpr::Dot(Expr::Identifier(column)))) => {
                    let column = self.column(table, column);
                    access_chain.remove(0);
                    match column {
                        Ok(column) => {
                            **root = column;
                            None
                        }
                        Err(fault) => Some(Err(fault)),
                    }
                }
                _ => None,
            },
            _ => None,
        };
        match found {
            Some(Ok(column)) => *expr = column,
            Some(Err(fault)) => return ControlFlow::Break(fault),
            None => {}
        }
        ControlFlow::Continue(())
    }
}

/// The two parts of `o.id`, if it is a column of one of the two tables: the table's place, and the column.
fn qualified<'e>(tables: &[Table; 2], expr: &'e Expr) -> Option<(usize, &'e Ident)> {
    match expr {
        Expr::Nested(inner) => qualified(tables, inner),
        Expr::CompoundIdentifier(parts) => {
            let [table, column] = parts.as_slice() else { return None };
            Some((tables.iter().position(|known| known.qualifier == table.value)?, column))
        }
        _ => None,
    }
}

/// The place of a node; that of the whole text where the parser does not know it.
fn place(text: &Text, node: &impl Spanned) -> Option<Range<usize>> {
    text.range(node).or_else(|| text.whole())
}

#[cfg(test)]
mod tests;
