//! Queries within queries, one behind the other: `SELECT … FROM TUMBLE((SELECT …), …)`, `FROM (SELECT …)`, `WITH x AS (SELECT …) SELECT … FROM x`.
//!
//! Owns which query stands within which, and where each piece of its text is in the whole. Does not own what a query says: each of them is a text of its own, which
//! reads `input`, the rows of the one before.
//!
//! | in the text                                | the query reads                      |
//! |--------------------------------------------|--------------------------------------|
//! | `FROM (SELECT …)`, `FROM TUMBLE((SELECT …), time, …)` | the rows of the query in it |
//! | `WITH x AS (SELECT …) SELECT … FROM x`, `FROM TUMBLE(x, time, …)` | the rows of that query, which are still called `x` in the first |
//! | anything else                              | what it says: `input`, or inputs that it joins |
//!
//! A query over windows may be up to four, one behind the other: `windowed::around` parts it.

use std::ops::Range;

use datafusion_sql::sqlparser::ast::{
    Cte, Expr, FunctionArg, FunctionArgExpr, ObjectNamePart, Query, SetExpr, Spanned, TableFactor,
};
use datafusion_sql::sqlparser::tokenizer::Token;

use crate::Fault;
use crate::query::{INPUT, is_bare};
use crate::text::Text;

/// What a query is to the one that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The query.
    Query,
    /// A condition on the rows before they are aggregated: they are the same rows.
    Before,
    /// What is made of the results.
    Behind,
}

/// A query as a text of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The text.
    pub text: String,
    /// Where its pieces are in the whole: the first byte of each here and there, in order, and the end.
    pub pieces: Vec<(usize, usize)>,
    /// Which part of a query it is.
    pub role: Role,
}

impl Layer {
    /// A text that is written nowhere, of pieces that stand for bytes of another.
    pub(crate) fn made(pieces: &[(String, Range<usize>)], role: Role) -> Self {
        let parts: Vec<(&str, Range<usize>)> =
            pieces.iter().map(|(part, at)| (part.as_str(), at.clone())).collect();
        Self { role, ..Self::of(&parts) }
    }

    /// The byte of the whole text that a byte of this one is.
    pub fn place(&self, at: usize) -> usize {
        place(&self.pieces, at)
    }

    /// The parts of the whole text, one behind the other, without blanks before them. Of each its text, and which bytes it stands for.
    fn of(parts: &[(&str, Range<usize>)]) -> Self {
        let (mut text, mut pieces, mut end) = (String::new(), Vec::new(), 0);
        for (part, whole) in parts {
            let blanks = if text.is_empty() { part.len() - part.trim_start().len() } else { 0 };
            if blanks < part.len() {
                pieces.push((text.len(), whole.start + blanks));
                text.push_str(&part[blanks..]);
            }
            end = whole.end;
        }
        text.truncate(text.trim_end().len());
        pieces.push((text.len(), end));
        Self { text, pieces, role: Role::Query }
    }
}

/// The byte of the whole text that a byte of a text of these pieces is.
pub fn place(pieces: &[(usize, usize)], at: usize) -> usize {
    let behind = pieces.partition_point(|(own, _)| *own <= at);
    let Some((own, whole)) = behind.checked_sub(1).and_then(|last| pieces.get(last)) else { return at };
    let place = whole + (at - own);
    // A name may stand for more bytes here than it has there.
    let next = pieces.get(behind).map(|(_, next)| *next).filter(|next| next >= whole);
    next.map_or(place, |next| place.min(next))
}

/// A query of WITH.
struct Named<'q> {
    name: String,
    within: Range<usize>,
    query: &'q Query,
    is_read: bool,
}

/// The queries of a text, the innermost first; the text itself if there is none within it.
///
/// # Errors
/// When a query of WITH reads itself, or none reads it.
pub(crate) fn layers(text: &Text) -> Result<Vec<Layer>, Fault> {
    let whole = || vec![Layer::of(&[(text.text, 0..text.text.len())])];
    // What cannot be parsed is reported where it is planned.
    let Ok(query) = text.query() else { return Ok(whole()) };
    let Some(reader) = Reader::new(text) else { return Ok(whole()) };
    let Some((mut named, own)) = reader.named(&query)? else { return Ok(whole()) };
    let mut all = Vec::new();
    reader.take(&query, own, &mut named, &mut all)?;
    if let Some(unread) = named.iter().find(|one| !one.is_read) {
        let message = format!(
            "nothing reads `{}`, or not as its one input; a query reads the rows of one other: `FROM {0}`, or `FROM TUMBLE({0}, …)`",
            unread.name
        );
        return Err(Fault::new(message, Some(unread.within.clone())));
    }
    Ok(all)
}

/// Finds the text of each query.
struct Reader<'a> {
    text: &'a Text<'a>,
    /// The parentheses, by their places.
    parentheses: Vec<Range<usize>>,
}

/// The queries of WITH, and what of the text is behind them.
type WithNames<'q> = (Vec<Named<'q>>, Range<usize>);

/// A query that another one reads.
struct Within<'q> {
    /// Where the other says so.
    read: Range<usize>,
    /// What the other reads then, in place of that.
    input: String,
    query: &'q Query,
    /// The parentheses around it.
    parentheses: Range<usize>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a Text<'a>) -> Option<Self> {
        let (mut open, mut parentheses) = (Vec::new(), Vec::new());
        for (token, at) in text.places()? {
            match token {
                Token::LParen => open.push(at.start),
                Token::RParen => parentheses.push(open.pop()?..at.end),
                _ => {}
            }
        }
        Some(Self { text, parentheses })
    }

    /// The parentheses around a query.
    fn around(&self, query: &Query) -> Option<Range<usize>> {
        let start = self.text.range_of(query.span())?.start;
        let around = self.parentheses.iter().filter(|one| one.start < start && start < one.end);
        around.max_by_key(|one| one.start).cloned()
    }

    /// The queries of WITH, and what of the text is behind them; `None` if their places are not known.
    fn named<'q>(&self, query: &'q Query) -> Result<Option<WithNames<'q>>, Fault> {
        let whole = 0..self.text.text.len();
        let Some(with) = &query.with else { return Ok(Some((Vec::new(), whole))) };
        let mut named = Vec::<Named<'q>>::new();
        for Cte { alias, query, .. } in &with.cte_tables {
            let at = self.text.range_of(alias.name.span);
            let name = alias.name.value.clone();
            if with.recursive || !alias.columns.is_empty() {
                let message =
                    "write `WITH name AS (SELECT …)`, without RECURSIVE and without names of columns";
                return Err(Fault::new(message, at));
            }
            if name.eq_ignore_ascii_case(INPUT) || named.iter().any(|other| other.name == name) {
                let message = format!("`{name}` is the name of other rows; take another one");
                return Err(Fault::new(message, at));
            }
            let Some(around) = self.around(query) else { return Ok(None) };
            named.push(Named { name, within: around, query, is_read: false });
        }
        let behind = named.last().map_or(0, |last| last.within.end);
        Ok(Some((named, behind..whole.end)))
    }

    /// Takes the queries within one, and then itself, whose text is `own`.
    fn take<'q>(
        &self,
        query: &'q Query,
        own: Range<usize>,
        named: &mut [Named<'q>],
        to: &mut Vec<Layer>,
    ) -> Result<(), Fault> {
        let text = self.text.text;
        let is_own = |read: &Range<usize>| own.start <= read.start && read.end <= own.end;
        let found = self.read_of(query, named)?.filter(|found| is_own(&found.read));
        let Some(Within { read, input, query: inner, parentheses }) = found else {
            to.push(Layer::of(&[(&text[own.clone()], own)]));
            return Ok(());
        };
        self.take(inner, parentheses.start + 1..parentheses.end - 1, named, to)?;
        let (before, behind) = (own.start..read.start, read.end..own.end);
        to.push(Layer::of(&[
            (&text[before.clone()], before),
            (input.as_str(), read),
            (&text[behind.clone()], behind),
        ]));
        Ok(())
    }

    /// What a query reads if that is another query: where it says so, that query, and the parentheses around it.
    fn read_of<'q>(&self, query: &'q Query, named: &mut [Named<'q>]) -> Result<Option<Within<'q>>, Fault> {
        let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
        let [from] = select.from.as_slice() else { return Ok(None) };
        if !from.joins.is_empty() {
            return Ok(None);
        }
        let in_place = |query: &'q Query| {
            let around = self.around(query)?;
            Some(Within { read: around.clone(), input: INPUT.to_owned(), query, parentheses: around })
        };
        let (name, is_called_so) = match &from.relation {
            TableFactor::Derived { lateral: false, subquery, .. } => return Ok(in_place(subquery)),
            TableFactor::Table { args: Some(args), .. } => match args.args.first() {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(query)))) => {
                    return Ok(in_place(query));
                }
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(ident)))) => (ident, false),
                _ => return Ok(None),
            },
            TableFactor::Table { name, alias, version, .. } => match name.0.as_slice() {
                [ObjectNamePart::Identifier(ident)] => {
                    // What else stands behind a table stands before its name, and is refused where the query is read.
                    let is_alone = version.is_none() && is_bare(&from.relation);
                    (ident, alias.is_none() && is_alone)
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Some(found) = named.iter_mut().find(|one| one.name == name.value) else { return Ok(None) };
        let at = self.text.range_of(name.span);
        if std::mem::replace(&mut found.is_read, true) {
            let message = format!(
                "`{}` reads itself; a query reads `input`, an input, or a query that stands before it",
                name.value
            );
            return Err(Fault::new(message, at));
        }
        Ok(at.map(|read| Within {
            // Columns may be written as `x.a`.
            input: match is_called_so {
                true => format!("{INPUT} AS {}", &self.text.text[read.clone()]),
                false => INPUT.to_owned(),
            },
            read,
            query: found.query,
            parentheses: found.within.clone(),
        }))
    }
}

#[cfg(test)]
mod tests;
