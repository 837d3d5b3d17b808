//! What ON and WHERE say: the key, the bounds of the time, and the rest.
//!
//! Owns which is which, and the arithmetic of the bounds. Does not own the sides (`tables`).

use std::ops::{ControlFlow, Range};

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, ObjectNamePart, Visit, Visitor, visit_expressions,
};

use super::{JoinKind, Matching, Pair, Table, place, qualified};
use crate::Fault;
use crate::text::Text;
use crate::windowed::milliseconds;

/// The longest bound: ten years, as of the step.
const BOUND_MS_MAX: i64 = 3650 * 24 * 3600 * 1000;

/// What ON and WHERE say.
pub(super) struct Conditions {
    pub(super) on: Vec<Pair>,
    pub(super) merged: Vec<String>,
    pub(super) bounds: Bounds,
    /// The conditions of the filter behind the join.
    pub(super) rest: Vec<Expr>,
}

/// How the right row's time minus that of the left one is bounded, in milliseconds; both ends belong to it.
#[derive(Default)]
pub(super) struct Bounds {
    least: Option<i64>,
    most: Option<i64>,
    /// The column of each side that holds its time, and where it stands.
    times: Option<[(String, Option<Range<usize>>); 2]>,
    /// Where the bounds stand.
    at: Option<Range<usize>>,
}

/// One side of a comparison: a column of a table, and what is added to it.
struct Shifted {
    table: usize,
    column: String,
    at: Option<Range<usize>>,
    shift_ms: i64,
    /// Whether an INTERVAL is written.
    is_shifted: bool,
}

/// A comparison of the two sides: `left + a OP right + b`.
struct Comparison {
    left: Shifted,
    right: Shifted,
    operator: BinaryOperator,
}

/// Sorts the conditions.
///
/// # Errors
/// When one can be none of them, or there is no key.
pub(super) fn read(
    text: &Text,
    (tables, times, kind): (&[Table; 2], &[String; 2], JoinKind),
    (constraint, filter): (JoinConstraint, Option<Expr>),
    is_temporal: bool,
) -> Result<Conditions, Fault> {
    let (mut on, mut merged, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
    match constraint {
        JoinConstraint::On(expr) => conjuncts(expr, &mut conditions),
        JoinConstraint::Using(names) => {
            for name in names {
                let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
                    return Err(Fault::new("USING takes names of columns", place(text, &name)));
                };
                let both = || ident.value.clone();
                on.push(Pair { left: both(), right: both(), at: text.range_of(ident.span) });
                merged.push(both());
            }
        }
        JoinConstraint::Natural => {
            let message = "NATURAL is refused, for a new column would change the key; write ON or USING with the columns";
            return Err(Fault::new(message, tables[1].at.clone()));
        }
        JoinConstraint::None => {}
    }
    let (mut of_filter, mut bounds) = (Vec::new(), Bounds::default());
    filter.into_iter().for_each(|filter| conjuncts(filter, &mut of_filter));
    let mut rest = Vec::new();
    // In an INNER join it makes no difference where a condition stands.
    match kind {
        JoinKind::Inner => conditions.append(&mut of_filter),
        JoinKind::Left | JoinKind::Right | JoinKind::Full => rest = of_filter,
    }
    let of_time = comparisons(text, (tables, times), &conditions);
    for (condition, comparisons) in conditions.into_iter().zip(of_time) {
        if !comparisons.is_empty() && !is_temporal {
            let may_filter = kind == JoinKind::Inner;
            if bounds.take(text, (tables, kind), &condition, comparisons)? && may_filter {
                rest.push(condition);
            }
            continue;
        }
        match equal(text, tables, &condition) {
            Some(pair) => on.push(pair),
            None if kind == JoinKind::Inner => rest.push(condition),
            None => return Err(undecidable(text, (tables, kind), &condition)),
        }
    }
    if !is_temporal && (bounds.least.is_none() || bounds.most.is_none()) {
        rest.iter().try_for_each(|condition| understood(text, condition))?;
    }
    if on.is_empty() {
        return Err(no_key(text, tables, &rest));
    }
    Ok(Conditions { on, merged, bounds, rest })
}

/// The fault of a join without a key.
fn no_key(text: &Text, tables: &[Table; 2], rest: &[Expr]) -> Fault {
    let [left, right] = tables.each_ref().map(|table| &table.qualifier);
    let message = format!(
        "nothing says which rows belong together; write `ON {left}.COLUMN = {right}.COLUMN`, each with its side in front, and compute a column that neither has in a \
         `select` step before this one"
    );
    let is_equality = |one: &&Expr| matches!(bare(one), Expr::BinaryOp { op: BinaryOperator::Eq, .. });
    let meant = rest.iter().find(is_equality).and_then(|one| text.range(one));
    Fault::new(message, meant.or_else(|| tables[1].at.clone()))
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
fn equal(text: &Text, tables: &[Table; 2], condition: &Expr) -> Option<Pair> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = bare(condition) else { return None };
    let at = text.range(condition);
    match (qualified(tables, left)?, qualified(tables, right)?) {
        ((0, left), (1, right)) | ((1, right), (0, left)) => {
            Some(Pair { left: left.value.clone(), right: right.value.clone(), at })
        }
        _ => None,
    }
}

/// For each condition its comparisons of the times of the two sides; none if it is something else.
///
/// Columns are times if an INTERVAL is added to one of them, or if they are the times of the inputs. A comparison without an INTERVAL of two columns
/// that another one compares with an INTERVAL is of times too.
fn comparisons(
    text: &Text,
    (tables, times): (&[Table; 2], &[String; 2]),
    conditions: &[Expr],
) -> Vec<Vec<Comparison>> {
    let all: Vec<Vec<Comparison>> = conditions.iter().map(|one| compared(text, tables, one)).collect();
    let columns = |one: &Comparison| {
        let (a, b) = (&one.left, &one.right);
        let (left, right) = if a.table == 0 { (a, b) } else { (b, a) };
        [left.column.clone(), right.column.clone()]
    };
    let is_shifted = |of: &&Vec<Comparison>| of.iter().any(|one| one.left.is_shifted || one.right.is_shifted);
    let mut of_time: Vec<[String; 2]> = all.iter().filter(is_shifted).flatten().map(columns).collect();
    of_time.push(times.clone());
    let is_of_time = |of: &Vec<Comparison>| of.iter().all(|one| of_time.contains(&columns(one)));
    all.into_iter().map(|of| if is_of_time(&of) { of } else { Vec::new() }).collect()
}

/// The comparisons that a condition makes of a column of one side with one of the other; none if it is something else.
fn compared(text: &Text, tables: &[Table; 2], condition: &Expr) -> Vec<Comparison> {
    let comparison = |left: &Expr, operator: BinaryOperator, right: &Expr| {
        let (left, right) = (shifted(text, tables, left)?, shifted(text, tables, right)?);
        (left.table != right.table).then_some(Comparison { left, right, operator })
    };
    let found = match bare(condition) {
        Expr::Between { expr, negated: false, low, high } => {
            let least = comparison(expr, BinaryOperator::GtEq, low);
            least.zip(comparison(expr, BinaryOperator::LtEq, high)).map(|(least, most)| vec![least, most])
        }
        Expr::BinaryOp {
            left,
            op:
                op @ (BinaryOperator::Eq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq),
            right,
        } => comparison(left, op.clone(), right).map(|one| vec![one]),
        _ => None,
    };
    found.unwrap_or_default()
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// `o.time`, `o.time + INTERVAL '1 hour'`, `INTERVAL '1 hour' + o.time`, `o.time - INTERVAL '1 hour'`.
fn shifted(text: &Text, tables: &[Table; 2], expr: &Expr) -> Option<Shifted> {
    if let Some((table, column)) = qualified(tables, expr) {
        let at = text.range(expr);
        return Some(Shifted { table, column: column.value.clone(), at, shift_ms: 0, is_shifted: false });
    }
    let Expr::BinaryOp { left, op, right } = bare(expr) else { return None };
    let ms = |expr: &Expr| milliseconds(bare(expr)).and_then(|ms| i64::try_from(ms).ok());
    let (of, by) = match (op, ms(left), ms(right)) {
        (BinaryOperator::Plus, None, Some(ms)) => (left, ms),
        (BinaryOperator::Plus, Some(ms), None) => (right, ms),
        (BinaryOperator::Minus, None, Some(ms)) => (left, -ms),
        _ => return None,
    };
    let of = shifted(text, tables, of)?;
    Some(Shifted { shift_ms: of.shift_ms.checked_add(by)?, is_shifted: true, ..of })
}

impl Bounds {
    /// Takes up what a condition says of the times; `true` if it says more than an interval around the left row's time can.
    fn take(
        &mut self,
        text: &Text,
        (tables, kind): (&[Table; 2], JoinKind),
        condition: &Expr,
        comparisons: Vec<Comparison>,
    ) -> Result<bool, Fault> {
        let at = place(text, condition);
        let mut is_beyond = false;
        for Comparison { left, right, operator } in comparisons {
            let (left, right, operator) = match left.table {
                0 => (left, right, operator),
                _ => (right, left, turned(operator)),
            };
            let times = [(left.column, left.at), (right.column, right.at)];
            match &self.times {
                Some(known) => {
                    let mut pairs = known.iter().zip(&times);
                    if let Some((known, other)) = pairs.find(|(known, other)| known.0 != other.0) {
                        let message = format!(
                            "the time of a row is in one column, and here it is `{}` and there `{}`; compare the same two columns, and put other conditions into a `filter` step behind this one",
                            other.0, known.0
                        );
                        return Err(Fault::new(message, other.1.clone()));
                    }
                }
                None => self.times = Some(times),
            }
            // `left + a OP right + b` bounds `right - left` by `a - b`.
            let by = left.shift_ms.saturating_sub(right.shift_ms);
            let (least, most) = match operator {
                BinaryOperator::LtEq => (Some(by), None),
                BinaryOperator::Lt => (Some(by.saturating_add(1)), None),
                BinaryOperator::GtEq => (None, Some(by)),
                BinaryOperator::Gt => (None, Some(by.saturating_sub(1))),
                _ => (Some(by), Some(by)),
            };
            is_beyond |= least.is_some_and(|least| least > 0) || most.is_some_and(|most| most < 0);
            self.least = self.least.max(least);
            self.most = [self.most, most].into_iter().flatten().min();
        }
        let time = |place: usize, of: &Self| {
            let name = of.times.as_ref().map_or("TIME", |times| times[place].0.as_str());
            format!("{}.{name}", tables[place].qualifier)
        };
        if is_beyond && kind != JoinKind::Inner {
            let message = format!(
                "the interval of a {} JOIN has to contain the time of the left row itself; begin it at `{1}` or before and end it there or later, or write an INNER JOIN",
                kind.word(),
                time(0, self)
            );
            return Err(Fault::new(message, at));
        }
        if let (Some(least), Some(most)) = (self.least, self.most)
            && least > most
        {
            let message = format!(
                "no time is in this interval; write the earlier bound first, as in `{1} BETWEEN {0} - INTERVAL '5 minutes' AND {0} + INTERVAL '1 hour'`",
                time(0, self),
                time(1, self)
            );
            return Err(Fault::new(message, at));
        }
        self.at = self.at.take().or(at);
        Ok(is_beyond)
    }

    /// The interval.
    ///
    /// # Errors
    /// When it is open.
    pub(super) fn matching(
        self,
        text: &Text,
        (tables, times): (&[Table; 2], &[String; 2]),
        on: &[Pair],
    ) -> Result<Matching, Fault> {
        let [left, right] = tables.each_ref().map(|table| &table.qualifier);
        let names = match &self.times {
            Some([left, right]) => [left.0.clone(), right.0.clone()],
            None => times.clone(),
        };
        let [of_left, of_right] = [format!("{left}.{}", names[0]), format!("{right}.{}", names[1])];
        let open = |bound: &str| {
            Err(Fault::new(
                format!(
                    "rows would be held for ever: nothing says how far apart in time they may be; write `AND {bound}`"
                ),
                self.at
                    .clone()
                    .or_else(|| on.last().and_then(|pair| pair.at.clone()))
                    .or_else(|| text.whole()),
            ))
        };
        let (least, most) = match (self.least, self.most) {
            (Some(least), Some(most)) => (least, most),
            (None, Some(_)) => return open(&format!("{of_right} >= {of_left} - INTERVAL '1 hour'")),
            (Some(_), None) => return open(&format!("{of_right} <= {of_left} + INTERVAL '1 hour'")),
            (None, None) => {
                return open(&format!(
                    "{of_right} BETWEEN {of_left} - INTERVAL '1 hour' AND {of_left} + INTERVAL '1 hour'"
                ));
            }
        };
        let [before, after] = [(-least).max(0), most.max(0)];
        if before.max(after) > BOUND_MS_MAX {
            let message =
                "rows are held as long as the interval, which has at most 3650 days; write a shorter one";
            return Err(Fault::new(message, self.at));
        }
        let at = self.times.map(|times| times.map(|(_, at)| at)).unwrap_or_default();
        Ok(Matching::Near { before: before as u64, after: after as u64, times: names, at })
    }
}

/// The operator for the two sides exchanged.
fn turned(operator: BinaryOperator) -> BinaryOperator {
    match operator {
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        other => other,
    }
}

/// The fault of a condition in the ON of an outer join that would decide which rows match.
fn undecidable(text: &Text, (tables, kind): (&[Table; 2], JoinKind), condition: &Expr) -> Fault {
    let mut sides = Sides { tables, seen: [false; 2], is_unclear: false };
    let _ = condition.visit(&mut sides);
    let word = kind.word();
    let of_one = match (kind, sides.seen, sides.is_unclear) {
        (JoinKind::Left, [false, true], false) => Some(&tables[1]),
        (JoinKind::Right, [true, false], false) => Some(&tables[0]),
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
    tables: &'a [Table; 2],
    seen: [bool; 2],
    /// Whether it has columns without a side.
    is_unclear: bool,
}

impl Visitor for Sides<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match (qualified(self.tables, expr), expr) {
            (Some((table, _)), _) => self.seen[table] = true,
            (None, Expr::Identifier(_)) => self.is_unclear = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
