//! What ON and WHERE say: the key, the bounds of the time, and the rest.
//!
//! Owns which is which and belongs to which join. Does not own the sides (`tables`), nor the interval that bounds of the time make (`bounds`).

use std::ops::{ControlFlow, Range};

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, ObjectNamePart, Visit, Visitor, visit_expressions,
};

use super::bounds::{Bounds, comparisons};
use super::tables::Shape;
use super::times::{Lead, Other};
use super::{Join, JoinKind, Matching, Pair, Table, place, qualified};
use crate::Fault;
use crate::text::Text;
use crate::windowed::milliseconds;

/// A join of the query, with the conditions that belong to it.
pub(super) struct Sorted {
    pub(super) kind: JoinKind,
    conditions: Vec<Expr>,
    /// The columns of USING, and where each stands.
    using: Vec<(String, Option<Range<usize>>)>,
    as_of: Option<(usize, String, Option<Range<usize>>)>,
}

/// One join while it is read: the tables of FROM, the place of its right side among them, and its kind.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) tables: &'a [Table],
    /// The column of each table's time.
    pub(super) times: &'a [String],
    pub(super) right: usize,
    pub(super) kind: JoinKind,
}

impl Side<'_> {
    pub(super) fn right(&self) -> &Table {
        &self.tables[self.right]
    }

    /// A column of this join.
    pub(super) fn qualified<'e>(&self, expr: &'e Expr) -> Option<(usize, &'e Ident)> {
        qualified(self.tables, expr).filter(|(table, _)| *table <= self.right)
    }
}

/// Gives each join its conditions; what is left is a filter behind the last.
///
/// # Errors
/// When a condition reads what is joined later, or a constraint is none.
pub(super) fn sorted(
    text: &Text,
    tables: &[Table],
    shapes: Vec<Shape>,
    filter: Option<Expr>,
) -> Result<(Vec<Sorted>, Vec<Expr>), Fault> {
    let mut of_filter = Vec::new();
    filter.into_iter().for_each(|filter| conjuncts(filter, &mut of_filter));
    let is_inner = shapes.iter().all(|shape| shape.kind == JoinKind::Inner);
    let (mut all, mut written) = (Vec::new(), Vec::new());
    for (nth, Shape { kind, constraint, as_of }) in shapes.into_iter().enumerate() {
        let (mut using, mut conditions) = (Vec::new(), Vec::new());
        match constraint {
            JoinConstraint::On(expr) => conjuncts(expr, &mut conditions),
            JoinConstraint::Using(names) => {
                for name in names {
                    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
                        return Err(Fault::new("USING takes names of columns", place(text, &name)));
                    };
                    using.push((ident.value.clone(), text.range_of(ident.span)));
                }
            }
            JoinConstraint::Natural => {
                let message = "NATURAL is refused, for a new column would change the key; write ON or USING with the columns";
                return Err(Fault::new(message, tables[nth + 1].at.clone()));
            }
            JoinConstraint::None => {}
        }
        for condition in conditions {
            if let Some(later) = last_table(tables, &condition).filter(|last| *last > nth + 1) {
                let message = format!(
                    "`{}` is joined behind this; write the condition into its ON, or into WHERE",
                    tables[later].qualifier
                );
                return Err(Fault::new(message, place(text, &condition)));
            }
            written.push((nth, condition));
        }
        all.push(Sorted { kind, conditions: Vec::new(), using, as_of });
    }
    // In INNER joins it makes no difference where a condition stands.
    let first_with = |condition: &Expr| last_table(tables, condition).map(|last| last.saturating_sub(1));
    for (nth, condition) in written {
        let nth = if is_inner { first_with(&condition).unwrap_or(nth) } else { nth };
        all[nth].conditions.push(condition);
    }
    if !is_inner {
        return Ok((all, of_filter));
    }
    for condition in of_filter {
        all[first_with(&condition).unwrap_or(0)].conditions.push(condition);
    }
    Ok((all, Vec::new()))
}

/// The last of the tables whose columns a condition reads with their table in front.
fn last_table(tables: &[Table], condition: &Expr) -> Option<usize> {
    let mut last = None;
    let _ = visit_expressions(condition, |expr: &Expr| {
        last = last.max(qualified(tables, expr).map(|(table, _)| table));
        ControlFlow::<()>::Continue(())
    });
    last
}

/// Reads a join; what of its conditions is a filter behind it comes with it.
///
/// # Errors
/// When a condition can be none of them, or there is no key.
pub(super) fn read(
    text: &Text,
    side: Side<'_>,
    sorted: Sorted,
    lead: &mut Lead,
) -> Result<(Join, Vec<Expr>), Fault> {
    let Sorted { kind, conditions, using, as_of } = sorted;
    let using = using.into_iter();
    let mut on: Vec<Pair> =
        using.map(|(name, at)| Pair { table: None, left: name.clone(), right: name, at }).collect();
    let merged = on.iter().map(|pair| pair.right.clone()).collect();
    let is_temporal = as_of.is_some();
    let (mut of_time, mut rest) = (Vec::new(), Vec::new());
    let comparisons = comparisons(text, side, &conditions);
    for (condition, comparisons) in conditions.into_iter().zip(comparisons) {
        if !comparisons.is_empty() && !is_temporal {
            of_time.push((condition, comparisons));
            continue;
        }
        match equal(text, side, &condition) {
            Some(pair) => on.push(pair),
            None if kind == JoinKind::Inner => rest.push(condition),
            None => return Err(undecidable(text, side, &condition)),
        }
    }
    let mut bounds = Bounds::default();
    for (condition, comparisons) in of_time {
        if bounds.take(text, (side, lead, &on), &condition, comparisons)? {
            rest.push(condition);
        }
    }
    if !is_temporal && (bounds.least.is_none() || bounds.most.is_none()) {
        rest.iter().try_for_each(|condition| understood(text, condition))?;
    }
    if on.is_empty() {
        return Err(no_key(text, side, &rest));
    }
    let matching = match as_of {
        Some(as_of) => version(side, as_of, (lead, &on))?,
        None => bounds.matching(text, side, (lead, &on))?,
    };
    Ok((Join { kind, on, matching, merged }, rest))
}

/// Whether a pair of the key has a column of this table, so that rows without its row have no match.
pub(super) fn is_in_key(on: &[Pair], table: usize) -> bool {
    on.iter().any(|pair| pair.table == Some(table))
}

/// Each left row and the version at its time.
fn version(
    side: Side<'_>,
    (table, time, at): (usize, String, Option<Range<usize>>),
    (lead, on): (&mut Lead, &[Pair]),
) -> Result<Matching, Fault> {
    lead.set_time(table, &time);
    let is_own = match lead.other(table) {
        None => true,
        Some(Other::Missing) => {
            is_in_key(on, table) && lead.of(table).is_some_and(|(most_ms, _)| most_ms == 0)
        }
        Some(Other::Later | Other::Version) => false,
    };
    let known = lead.of(table).and_then(|(_, time)| time);
    if !is_own || known != Some(&*time) {
        let message = format!(
            "a joined row gets the version at its own time, the later of its inputs' times, and `{}.{time}` need not be that; write this join before the others",
            side.tables[table].qualifier
        );
        return Err(Fault::new(message, at));
    }
    lead.join_versions();
    let time = (side.right == 1).then_some(time);
    Ok(Matching::AsOf { time, at })
}

/// The fault of a filter before a join whose rows without a match it would drop.
pub(super) fn before_outer(text: &Text, right: &Table, kind: JoinKind, condition: &Expr) -> Fault {
    let message = format!(
        "rows of `{}` without a match go on with the {} JOIN behind this condition, which would drop them; put it into a `filter` step before this one, or write the inputs in another order",
        right.qualifier,
        kind.word()
    );
    Fault::new(message, place(text, condition))
}

/// The fault of a join without a key.
fn no_key(text: &Text, side: Side<'_>, rest: &[Expr]) -> Fault {
    let (left, right) = (&side.tables[0].qualifier, &side.right().qualifier);
    let message = format!(
        "nothing says which rows belong together; write `ON {left}.COLUMN = {right}.COLUMN`, each with its side in front, and compute a column that neither has in a \
         `select` step before this one"
    );
    let is_equality = |one: &&Expr| matches!(bare(one), Expr::BinaryOp { op: BinaryOperator::Eq, .. });
    let meant = rest.iter().find(is_equality).and_then(|one| text.range(one));
    Fault::new(message, meant.or_else(|| side.right().at.clone()))
}

/// Refuses an INTERVAL that is not understood.
fn understood(text: &Text, condition: &Expr) -> Result<(), Fault> {
    let interval = |expr: &Expr| match (expr, milliseconds(expr)) {
        (Expr::Interval(_), None) => ControlFlow::Break(place(text, expr)),
        _ => ControlFlow::Continue(()),
    };
    match visit_expressions(condition, interval) {
        ControlFlow::Break(at) => {
            let message = "this interval is not understood; write milliseconds, seconds, minutes, hours, days or weeks, and none below zero, as in `INTERVAL '5 minutes'`";
            Err(Fault::new(message, at))
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The parts of `a AND b AND c`.
fn conjuncts(expr: Expr, to: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, to);
            conjuncts(*right, to);
        }
        Expr::Nested(inner)
            if matches!(*inner, Expr::BinaryOp { op: BinaryOperator::And, .. } | Expr::Nested(_)) =>
        {
            conjuncts(*inner, to);
        }
        other => to.push(other),
    }
}

/// Two columns, of one side each.
fn equal(text: &Text, side: Side<'_>, condition: &Expr) -> Option<Pair> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = bare(condition) else { return None };
    let at = text.range(condition);
    let (one, other) = (side.qualified(left)?, side.qualified(right)?);
    let ((table, left), (right_table, right)) = if one.0 < other.0 { (one, other) } else { (other, one) };
    let is_pair = table < side.right && right_table == side.right;
    is_pair.then(|| Pair { table: Some(table), left: left.value.clone(), right: right.value.clone(), at })
}

pub(super) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// The fault of a condition in the ON of an outer join that would decide which rows match.
fn undecidable(text: &Text, side: Side<'_>, condition: &Expr) -> Fault {
    let mut sides = Sides { side, seen: [false; 2], is_unclear: false };
    let _ = condition.visit(&mut sides);
    let word = side.kind.word();
    let of_one = match (side.kind, sides.seen, sides.is_unclear) {
        (JoinKind::Left, [false, true], false) => Some(side.right()),
        (JoinKind::Right, [true, false], false) if side.right == 1 => Some(&side.tables[0]),
        _ => None,
    };
    let message = match of_one {
        Some(table) => format!(
            "the ON of a {word} JOIN has equal columns and the bounds of the time; put this condition into a `filter` step before this one, with `from: {}`",
            table.name
        ),
        None => format!(
            "the ON of a {word} JOIN has equal columns and the bounds of the time, each column with its side in front; write this condition into WHERE, which drops joined \
             rows, or write an INNER JOIN"
        ),
    };
    Fault::new(message, place(text, condition))
}

/// Which sides an expression reads.
struct Sides<'a> {
    side: Side<'a>,
    seen: [bool; 2],
    /// Whether it has columns without a side.
    is_unclear: bool,
}

impl Visitor for Sides<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match (self.side.qualified(expr), expr) {
            (Some((table, _)), _) => self.seen[usize::from(table == self.side.right)] = true,
            (None, Expr::Identifier(_)) => self.is_unclear = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
