//! What stands around the aggregates of a query over windows: conditions on records and on results, and expressions over results.
//!
//! Owns the queries that such a query stands for, and the text of each. Does not own what they mean, nor which functions are aggregates, which the caller knows.
//!
//! | in the query                | stands for                                                                                       |
//! |-----------------------------|--------------------------------------------------------------------------------------------------|
//! | `WHERE amount > 3`          | `SELECT * FROM input WHERE amount > 3` before it                                                 |
//! | `HAVING count(*) > 3`       | `SELECT * FROM input WHERE n > 3` behind it, if `count(*) AS n` is selected                      |
//! | `HAVING mean > 3`           | the same behind the query that makes `mean`; else it stands before that one, so that nothing is computed of what it drops |
//! | an aggregate that is not selected | one under a name of its own, which the last query leaves out: `SELECT * EXCEPT (aggregate_1) …` |
//! | `sum(a) / count(*) AS mean` | `SELECT *, aggregate_1 / aggregate_2 AS mean FROM input` behind it                                |
//! | `device AS d`               | `SELECT * EXCEPT (device), device AS d FROM input` behind it                                     |
//! | `w.device`, with `FROM TUMBLE(…) AS w` | `device`                                                                              |

use std::ops::{ControlFlow, Range};

use datafusion_sql::sqlparser::ast::{
    Expr, Function, Ident, Select, SelectItem, Spanned, TableFactor, Visit, Visitor, visit_expressions,
};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::Token;

use super::TIME;
use crate::Fault;
use crate::layers::{Layer, Role, layers};
use crate::query::only_select;
use crate::text::Text;

/// The queries of a text, the innermost first, and of each what stands around its windows. `is_aggregate` says of the name of a function whether it is one.
///
/// # Errors
/// As [`layers`], and when a condition on records has an aggregate, or an expression no name.
pub(crate) fn queries(text: &Text, is_aggregate: &dyn Fn(&str) -> bool) -> Result<Vec<Layer>, Fault> {
    let mut all = Vec::new();
    for layer in layers(text)? {
        all.extend(around(layer, is_aggregate)?);
    }
    Ok(all)
}

/// The queries that a query stands for: itself, if there is nothing around its aggregates or it is not over windows.
fn around(layer: Layer, is_aggregate: &dyn Fn(&str) -> bool) -> Result<Vec<Layer>, Fault> {
    let layer = without_alias(layer);
    let text = Text::new(&layer.text);
    // What cannot be read is reported where it is planned.
    let Some((select, clauses)) = read(&text) else { return Ok(vec![layer]) };
    let parts = Query { text: &text, clauses, select: &select, is_aggregate }.parts();
    let made = parts.map_err(|fault| fault.moved(|at| layer.place(at)))?;
    let Some(made) = made else { return Ok(vec![layer]) };
    let of_whole = |mut one: Layer| {
        one.pieces.iter_mut().for_each(|(_, at)| *at = layer.place(*at));
        one
    };
    Ok(made.into_iter().map(of_whole).collect())
}

/// A query over windows, and where its clauses are.
fn read(text: &Text) -> Option<(Select, Clauses)> {
    let select = only_select(text, *text.query().ok()?).ok()?;
    super::function(&select)?;
    let clauses = Clauses::of(text)?;
    (clauses.items.len() == select.projection.len()).then_some((select, clauses))
}

/// The query with `device` in place of `w.device`, if it reads `FROM TUMBLE(…) AS w`: its results and their key have no other names. WHERE stays, for the query
/// that it becomes has the alias too.
fn without_alias(layer: Layer) -> Layer {
    let text = Text::new(&layer.text);
    let Some((select, clauses)) = read(&text) else { return layer };
    let alias = match select.from.first().map(|from| &from.relation) {
        Some(TableFactor::Table { alias: Some(alias), .. }) if alias.columns.is_empty() => &alias.name.value,
        _ => return layer,
    };
    let tokens: Vec<_> = clauses.tokens.iter().filter(|(token, _)| !is_blank(token)).collect();
    let (mut pieces, mut from, mut is_within) = (Pieces::new(), 0, false);
    for pair in tokens.windows(2) {
        let ((token, at), (next, dot)) = (pair[0], pair[1]);
        let is_alias = matches!(token, Token::Word(word) if word.value == *alias) && *next == Token::Period;
        let is_in_where = clauses.filter.as_ref().is_some_and(|filter| filter.contains(&at.start));
        if is_alias && !is_within && !is_in_where {
            pieces.push((layer.text[from..at.start].to_owned(), from..at.start));
            from = dot.end;
        }
        // `x.w.device` is no column of it.
        is_within = *token == Token::Period;
    }
    if pieces.is_empty() {
        return layer;
    }
    pieces.push((layer.text[from..].to_owned(), from..layer.text.len()));
    let mut made = Layer::made(&pieces, layer.role);
    made.pieces.iter_mut().for_each(|(_, at)| *at = layer.place(*at));
    made
}

/// Where the clauses of a query are.
struct Clauses {
    tokens: Vec<(Token, Range<usize>)>,
    items: Vec<Range<usize>>,
    /// From FROM up to WHERE, or what follows.
    from: Range<usize>,
    filter: Option<Range<usize>>,
    /// From GROUP up to HAVING, if there is one.
    group: Range<usize>,
    having: Option<Range<usize>>,
}

impl Clauses {
    fn of(text: &Text) -> Option<Self> {
        let tokens = text.places()?;
        let (mut depth, mut commas, mut words) = (0_usize, Vec::new(), Vec::new());
        let mut before = None;
        for (token, at) in &tokens {
            match token {
                Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
                Token::RParen | Token::RBracket | Token::RBrace => depth = depth.checked_sub(1)?,
                Token::Comma if depth == 0 => commas.push(at.clone()),
                // The FROM of `a IS DISTINCT FROM b` begins no clause.
                Token::Word(word) if word.keyword == Keyword::FROM && before == Some(Keyword::DISTINCT) => {}
                Token::Word(word) if depth == 0 && word.quote_style.is_none() => {
                    words.push((word.keyword, at.clone()));
                }
                _ => {}
            }
            if !is_blank(token) {
                before = match token {
                    Token::Word(word) => Some(word.keyword),
                    _ => None,
                };
            }
        }
        let place = |keyword| words.iter().find(|(word, _)| *word == keyword).map(|(_, at)| at.clone());
        let (start, from) = (place(Keyword::SELECT)?.end, place(Keyword::FROM)?.start);
        let (filter, group) = (place(Keyword::WHERE), place(Keyword::GROUP)?.start);
        let (having, end) = (place(Keyword::HAVING), text.text.len());
        let order = [
            Some(start),
            Some(from),
            filter.as_ref().map(|filter| filter.start),
            Some(group),
            having.as_ref().map(|having| having.start),
        ];
        if !order.iter().flatten().is_sorted() {
            return None;
        }
        let mut items = Vec::new();
        let mut at = start;
        for comma in commas.iter().filter(|comma| comma.start < from) {
            items.push(at..comma.start);
            at = comma.end;
        }
        items.push(at..from);
        let behind = having.as_ref().map_or(end, |having| having.start);
        Some(Self {
            items,
            from: from..filter.as_ref().map_or(group, |filter| filter.start),
            filter: filter.map(|filter| filter.start..group),
            group: group..behind,
            having: having.map(|having| having.end..end),
            tokens,
        })
    }

    /// All of a call whose name begins at `start`: with what is in its parentheses, and FILTER.
    fn call(&self, start: usize) -> Option<Range<usize>> {
        let tokens: Vec<&(Token, Range<usize>)> =
            self.tokens.iter().filter(|(token, at)| at.start >= start && !is_blank(token)).collect();
        let closing = |open: usize| {
            let mut depth = 0_usize;
            tokens.iter().enumerate().skip(open).find_map(|(nth, (token, _))| {
                match token {
                    Token::LParen => depth += 1,
                    Token::RParen => depth -= 1,
                    _ => {}
                }
                (depth == 0).then_some(nth)
            })
        };
        let is_open = |nth: usize| tokens.get(nth).is_some_and(|(token, _)| *token == Token::LParen);
        let is_filter = |nth: usize| {
            let word = tokens.get(nth).map(|(token, _)| token);
            matches!(word, Some(Token::Word(word)) if word.keyword == Keyword::FILTER) && is_open(nth + 1)
        };
        let mut last = is_open(1).then(|| closing(1)).flatten()?;
        if is_filter(last + 1) {
            last = closing(last + 2)?;
        }
        Some(start..tokens[last].1.end)
    }
}

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

struct Query<'q> {
    text: &'q Text<'q>,
    clauses: Clauses,
    select: &'q Select,
    is_aggregate: &'q dyn Fn(&str) -> bool,
}

/// Pieces of text, each with the bytes that it stands for.
type Pieces = Vec<(String, Range<usize>)>;

/// What the query behind the windows makes.
#[derive(Default)]
struct Behind {
    /// Aggregates that the windows make: what they are, and what they are called.
    known: Vec<(String, String)>,
    /// Of them those that only this query needs, as items.
    hidden: Pieces,
    left_out: Vec<String>,
    items: Vec<Pieces>,
    /// What these items are called.
    made: Vec<String>,
}

impl Query<'_> {
    /// `None` if nothing stands around the aggregates.
    fn parts(&self) -> Result<Option<Vec<Layer>>, Fault> {
        let mut behind = Behind::default();
        let mut kept = Vec::new();
        for (item, at) in self.select.projection.iter().zip(&self.clauses.items) {
            if let SelectItem::ExprWithAlias { expr: expr @ Expr::Function(function), alias } = item
                && self.is_aggregate(function)
            {
                behind.known.push((expr.to_string(), alias.to_string()));
            }
            if !self.is_behind(item)? {
                kept.push(at.clone());
            }
        }
        for (item, at) in self.select.projection.iter().zip(&self.clauses.items) {
            if self.is_behind(item)? {
                self.take(item, at.clone(), &mut behind)?;
            }
        }
        let having = match (&self.select.having, &self.clauses.having) {
            (Some(condition), Some(at)) => Some(self.over_results(condition, at.clone(), &mut behind)?),
            _ => None,
        };
        let before = self.before()?;
        if before.is_none() && having.is_none() && behind.items.is_empty() {
            return Ok(None);
        }
        let windows = self.windows(kept, &behind);
        // Of what it drops nothing is computed, as in SQL: `HAVING sum(n) > 0` keeps `sum(a) / sum(n)` from failing.
        let is_first =
            self.select.having.as_ref().is_some_and(|condition| !names_one(condition, &behind.made));
        let behind = behind.queries(having, is_first);
        Ok(Some(before.into_iter().chain([windows]).chain(behind).collect()))
    }

    fn is_aggregate(&self, function: &Function) -> bool {
        (self.is_aggregate)(&function.name.to_string())
    }

    /// Whether an item is over results: all but columns and aggregates under names of their own.
    fn is_behind(&self, item: &SelectItem) -> Result<bool, Fault> {
        Ok(match item {
            SelectItem::UnnamedExpr(Expr::Identifier(_)) => false,
            SelectItem::UnnamedExpr(Expr::Function(function)) if self.is_aggregate(function) => false,
            SelectItem::UnnamedExpr(expr) => {
                let at = self.text.place(expr).or_else(|| self.text.whole());
                let column = match expr {
                    Expr::CompoundIdentifier(parts) => parts.last(),
                    _ => None,
                };
                let message = match column {
                    Some(column) => format!(
                        "`{expr}` has a prefix that is not the alias of the windows; write `{column}`"
                    ),
                    None => "the column has no name; write `… AS name`".to_owned(),
                };
                return Err(Fault::new(message, at));
            }
            SelectItem::ExprWithAlias { expr: Expr::Identifier(ident), alias } => {
                ident.value != alias.value && ident.value != TIME
            }
            SelectItem::ExprWithAlias { expr: Expr::Function(function), .. } => !self.is_aggregate(function),
            SelectItem::ExprWithAlias { .. } => true,
            _ => false,
        })
    }

    /// An item of the query behind.
    fn take(&self, item: &SelectItem, at: Range<usize>, behind: &mut Behind) -> Result<(), Fault> {
        let SelectItem::ExprWithAlias { expr, alias } = item else { return Ok(()) };
        behind.made.push(alias.value.clone());
        if let Expr::Identifier(ident) = expr {
            let is_same = |other: &SelectItem| matches!(other, SelectItem::UnnamedExpr(Expr::Identifier(other)) if other.value == ident.value);
            let name = ident.to_string();
            if !self.select.projection.iter().any(is_same) && !behind.left_out.contains(&name) {
                behind.left_out.push(name);
            }
        }
        let pieces = self.over_results(expr, at, behind)?;
        behind.items.push(pieces);
        Ok(())
    }

    /// The bytes `at` of the text, which hold an expression, with the names of its aggregates in their places.
    fn over_results(&self, expr: &Expr, at: Range<usize>, behind: &mut Behind) -> Result<Pieces, Fault> {
        let (mut pieces, mut from) = (Pieces::new(), at.start);
        for (call, start) in self.calls(expr) {
            let place = start.and_then(|start| self.clauses.call(start)).filter(|place| place.start >= from);
            let Some(place) = place else {
                let message = format!("select `{call}` with a name, and write that name here");
                return Err(Fault::new(message, self.text.place(expr).or_else(|| self.text.whole())));
            };
            let name = self.name_of(call, &place, behind);
            pieces.push((self.text.text[from..place.start].to_owned(), from..place.start));
            from = place.end;
            pieces.push((name, place));
        }
        pieces.push((self.text.text[from..at.end].to_owned(), from..at.end));
        Ok(pieces)
    }

    /// What an aggregate is called among the results.
    fn name_of(&self, call: String, place: &Range<usize>, behind: &mut Behind) -> String {
        if let Some((_, name)) = behind.known.iter().find(|(known, _)| *known == call) {
            return name.clone();
        }
        let is_free = |name: &String| {
            let is_it = |(token, _): &(Token, Range<usize>)| matches!(token, Token::Word(word) if word.value == *name);
            !self.clauses.tokens.iter().any(is_it) && !behind.left_out.contains(name)
        };
        let names = (1..).map(|number| format!("aggregate_{number}"));
        let name = names.into_iter().find(is_free).unwrap_or_default();
        let item = format!("{} AS {name}", &self.text.text[place.clone()]);
        behind.hidden.push((item, place.clone()));
        behind.left_out.push(name.clone());
        behind.known.push((call, name.clone()));
        name
    }

    /// The aggregates of an expression, and where their names begin, from the first to the last.
    fn calls(&self, expr: &Expr) -> Vec<(String, Option<usize>)> {
        let mut calls = Calls { is_aggregate: self.is_aggregate, within: 0, found: Vec::new() };
        let _ = expr.visit(&mut calls);
        let place = |(call, name): (String, datafusion_sql::sqlparser::tokenizer::Span)| {
            (call, self.text.range_of(name).map(|at| at.start))
        };
        let mut found: Vec<(String, Option<usize>)> = calls.found.into_iter().map(place).collect();
        found.sort_by_key(|(_, start)| *start);
        found
    }

    /// The condition on records.
    fn before(&self) -> Result<Option<Layer>, Fault> {
        let (Some(condition), Some(at)) = (&self.select.selection, &self.clauses.filter) else {
            return Ok(None);
        };
        if let Some((call, start)) = self.calls(condition).into_iter().next() {
            let place = start.and_then(|start| self.clauses.call(start));
            let message = format!(
                "`{call}` is a result, and WHERE sees the records; write the condition behind HAVING"
            );
            return Err(Fault::new(message, place.or_else(|| self.text.place(condition))));
        }
        let alias = match self.select.from.first().map(|from| &from.relation) {
            Some(TableFactor::Table { alias: Some(alias), .. }) => format!(" AS {}", alias.name),
            _ => String::new(),
        };
        let pieces = vec![
            (format!("SELECT * FROM input{alias} "), at.start..at.start),
            (self.text.text[at.clone()].to_owned(), at.clone()),
        ];
        Ok(Some(Layer::made(&pieces, Role::Before)))
    }

    /// The query with its aggregates alone.
    fn windows(&self, kept: Vec<Range<usize>>, behind: &Behind) -> Layer {
        let start = self.clauses.items.first().map_or(0, |item| item.start);
        let mut pieces = vec![("SELECT ".to_owned(), 0..start)];
        let kept = kept.into_iter().map(|at| (self.text.text[at.clone()].to_owned(), at));
        for (nth, item) in kept.chain(behind.hidden.iter().cloned()).enumerate() {
            if nth > 0 {
                pieces.push((", ".to_owned(), item.1.start..item.1.start));
            }
            pieces.push(item);
        }
        for at in [&self.clauses.from, &self.clauses.group] {
            pieces.push((" ".to_owned(), at.start..at.start));
            pieces.push((self.text.text[at.clone()].to_owned(), at.clone()));
        }
        Layer::made(&pieces, Role::Query)
    }
}

impl Behind {
    /// The queries behind the windows. A condition that names what the items make comes after them, any other one before (`is_first`).
    fn queries(self, having: Option<Pieces>, is_first: bool) -> Vec<Layer> {
        let all = match self.left_out.is_empty() {
            true => "SELECT *".to_owned(),
            false => format!("SELECT * EXCEPT ({})", self.left_out.join(", ")),
        };
        let select = |all: String, items: Vec<Pieces>, condition: Option<Pieces>| {
            let first = items.first().or(condition.as_ref()).and_then(|pieces| pieces.first());
            let at = first.map_or(0, |(_, at)| at.start);
            let mut pieces = vec![(all, at..at)];
            for item in items {
                let at = item.first().map_or(at, |(_, at)| at.start);
                pieces.push((", ".to_owned(), at..at));
                pieces.extend(item);
            }
            let end = pieces.last().map_or(at, |(_, at)| at.end);
            pieces.push((" FROM input".to_owned(), end..end));
            if let Some(condition) = condition {
                let at = condition.first().map_or(end, |(_, at)| at.start);
                pieces.push((" WHERE ".to_owned(), at..at));
                pieces.extend(condition);
            }
            Layer::made(&pieces, Role::Behind)
        };
        match having {
            Some(having) if self.items.is_empty() => vec![select(all, Vec::new(), Some(having))],
            Some(having) if is_first => {
                vec![select("SELECT *".to_owned(), Vec::new(), Some(having)), select(all, self.items, None)]
            }
            Some(having) => {
                vec![select("SELECT *".to_owned(), self.items, None), select(all, Vec::new(), Some(having))]
            }
            None if self.items.is_empty() => Vec::new(),
            None => vec![select(all, self.items, None)],
        }
    }
}

/// Whether an expression names one of these columns.
fn names_one(expr: &Expr, columns: &[String]) -> bool {
    let is_one = |name: &Ident| columns.contains(&name.value);
    let named = visit_expressions(expr, |expr: &Expr| match expr {
        Expr::Identifier(name) if is_one(name) => ControlFlow::Break(()),
        Expr::CompoundIdentifier(parts) if parts.last().is_some_and(is_one) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    named.is_break()
}

/// Finds aggregates that stand in no other one.
struct Calls<'q> {
    is_aggregate: &'q dyn Fn(&str) -> bool,
    within: usize,
    found: Vec<(String, datafusion_sql::sqlparser::tokenizer::Span)>,
}

impl Calls<'_> {
    fn aggregate<'e>(&self, expr: &'e Expr) -> Option<&'e Function> {
        match expr {
            Expr::Function(function) if (self.is_aggregate)(&function.name.to_string()) => Some(function),
            _ => None,
        }
    }
}

impl Visitor for Calls<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Some(function) = self.aggregate(expr) {
            if self.within == 0 {
                self.found.push((expr.to_string(), function.name.span()));
            }
            self.within += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.within -= usize::from(self.aggregate(expr).is_some());
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests;
