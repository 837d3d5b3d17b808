//! `SELECT … FROM orders AS o JOIN payments AS p ON … JOIN refunds AS r ON … WHERE …`: joins of inputs as SQL says them.
//!
//! Owns which of the conditions are the key of which join, which bound the time, and which are a filter behind the last join. Does not own the joins themselves, nor whether
//! the inputs and their columns exist: its caller knows them. [`behind`] is what stands behind the last join: the select list and the filter, over the joined
//! rows, in which a column `o.id` of the text has that name.
//!
//! | in the text                                                     | is                                                    |
//! |-----------------------------------------------------------------|-------------------------------------------------------|
//! | `o.id = p.order_id`, `USING (id)`                               | a part of the key                                     |
//! | `p.time BETWEEN o.time - INTERVAL '1 hour' AND o.time`, `<`, `<=`, `>`, `>=`, `=` of the two times | a bound of the time        |
//! | `JOIN rates FOR SYSTEM_TIME AS OF o.time AS r`                  | the version of the right side at the left row's time  |
//! | any other condition of an INNER join, and the WHERE             | a filter behind the last join                         |
//! | any other condition in the ON of an outer join                  | refused: it would decide which rows match             |
//!
//! Several joins stand in a row: the left side of each but the first are the rows of the one before, whose time is the later of their two rows' (`times`).
//! If all of them are INNER, a condition belongs to the first join that has its columns, wherever it stands.

mod bounds;
mod conditions;
mod tables;
mod times;

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
use times::Lead;

/// A query that joins inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The inputs, in the order of FROM; at least two.
    pub tables: Vec<Table>,
    /// The joins: each of all inputs before with the next one.
    pub joins: Vec<Join>,
    /// The columns that the select list and the filter read under the name of their table, each once.
    pub columns: Vec<Qualified>,
    /// The columns that they read without it, each once, and where they stand.
    pub names: Vec<(String, Option<Range<usize>>)>,
    /// Whether the select list is `*` and nothing else.
    pub is_all: bool,
    /// The columns behind the query that are the time of its rows.
    pub row_times: Vec<String>,
}

/// One join of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Which rows without a match go on.
    pub kind: JoinKind,
    /// The key; at least one pair.
    pub on: Vec<Pair>,
    /// Which of the rows with equal keys belong together.
    pub matching: Matching,
    /// The columns of `USING`, which both sides have and which are one behind the join.
    pub merged: Vec<String>,
}

/// An input that is joined.
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

    /// Whether rows of the right side without a match go on.
    fn keeps_right(self) -> bool {
        matches!(self, Self::Right | Self::Full)
    }
}

/// Two columns that must be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The place of the table of the left column; `None` for a column of `USING`, which has none in front.
    pub table: Option<usize>,
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
        /// The column of each side that holds its time; `None` for rows of a join.
        times: [Option<String>; 2],
        /// Where each of them stands in the text.
        at: [Option<Range<usize>>; 2],
    },
    /// Each left row and the version of the right side at its time.
    AsOf {
        /// The column of the left side that holds its time; `None` for rows of a join.
        time: Option<String>,
        /// Where it stands in the text.
        at: Option<Range<usize>>,
    },
}

/// A column under the name of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qualified {
    /// The place of the table.
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
    let (tables, shapes) = tables::read(text, &select)?;
    let time = |table: &Table| {
        let of = times.iter().find(|(name, _)| *name == table.name);
        of.map_or_else(|| Metadata::Timestamp.name().to_owned(), |(_, time)| time.clone())
    };
    let times: Vec<String> = tables.iter().map(time).collect();
    let (sorted, filter) = conditions::sorted(text, &tables, shapes, select.selection)?;
    let (mut lead, mut joins, mut rest) = (Lead::of_first(), Vec::<Join>::new(), Vec::new());
    for (nth, one) in sorted.into_iter().enumerate() {
        let side = conditions::Side { tables: &tables, times: &times, right: nth + 1, kind: one.kind };
        let (join, filter) = conditions::read(text, side, one, &mut lead)?;
        if let (true, Some(first)) = (join.kind.keeps_right(), rest.first()) {
            return Err(conditions::before_outer(text, &tables[nth + 1], join.kind, first));
        }
        rest.extend(filter);
        joins.push(join);
    }
    let mut behind = Behind { select: select.projection, conditions: rest };
    behind.conditions.extend(filter);
    let is_all =
        matches!(&behind.select[..], [SelectItem::Wildcard(options)] if *options == Default::default());
    let (columns, names) = named(text, &tables, &mut behind)?;
    let row_times = row_times(&behind, &columns, &lead);
    Ok((Joined { tables, joins, columns, names, is_all, row_times }, behind))
}

/// The columns of the select list that are the time of the joined rows: those times of tables than which no row of a pair is later.
fn row_times(behind: &Behind, columns: &[Qualified], lead: &Lead) -> Vec<String> {
    let is_time = |name: &str| {
        let mut known = columns.iter().filter(|column| column.name == name);
        known.any(|column| lead.is_time(column.table, &column.column))
    };
    let selected = behind.select.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr: Expr::Identifier(ident), alias } if is_time(&ident.value) => {
            Some(alias.value.clone())
        }
        _ => None,
    });
    selected.collect()
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
fn named(text: &Text, tables: &[Table], behind: &mut Behind) -> Result<(Vec<Qualified>, Vec<Bare>), Fault> {
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
    tables: &'a [Table],
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

/// The two parts of `o.id`, if it is a column of one of the tables: the table's place, and the column.
fn qualified<'e>(tables: &[Table], expr: &'e Expr) -> Option<(usize, &'e Ident)> {
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
