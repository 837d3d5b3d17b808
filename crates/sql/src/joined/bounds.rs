//! The bounds of the time of a join.
//!
//! Owns how a comparison of two times is written, and the interval that comparisons make. Does not own which conditions are comparisons of times and which are something else
//! (`conditions`), nor how the time of joined rows stands to those of their inputs (`times`).

use std::ops::Range;

use datafusion_sql::sqlparser::ast::{BinaryOperator, Expr};

use super::conditions::{Side, bare, is_in_key};
use super::times::{Lead, Other};
use super::{JoinKind, Matching, Pair, place};
use crate::Fault;
use crate::text::Text;
use crate::windowed::milliseconds;

/// The longest bound: ten years, as of the step.
const BOUND_MS_MAX: i64 = 3650 * 24 * 3600 * 1000;

/// A table, a column of it, and where it is written.
type Place = (usize, String, Option<Range<usize>>);

/// How the right row's time minus that of the left one is bounded, in milliseconds; both ends belong to it.
#[derive(Default)]
pub(super) struct Bounds {
    pub(super) least: Option<i64>,
    pub(super) most: Option<i64>,
    /// The table and column on the left whose time is compared, then those on the right, and where each stands.
    times: Option<[Place; 2]>,
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
pub(super) struct Comparison {
    left: Shifted,
    right: Shifted,
    operator: BinaryOperator,
}

/// For each condition its comparisons of the times of the two sides; none if it is something else.
///
/// Columns are times if an INTERVAL is added to one of them, or if they are the times of the inputs. A comparison without an INTERVAL of two columns
/// that another one compares with an INTERVAL is of times too.
pub(super) fn comparisons(text: &Text, side: Side<'_>, conditions: &[Expr]) -> Vec<Vec<Comparison>> {
    let all: Vec<Vec<Comparison>> = conditions.iter().map(|one| compared(text, side, one)).collect();
    let columns = |one: &Comparison| {
        let (a, b) = (&one.left, &one.right);
        let (left, right) = if a.table == side.right { (b, a) } else { (a, b) };
        (left.table, left.column.clone(), right.column.clone())
    };
    let is_shifted = |of: &&Vec<Comparison>| of.iter().any(|one| one.left.is_shifted || one.right.is_shifted);
    let shifted: Vec<_> = all.iter().filter(is_shifted).flatten().map(columns).collect();
    let is_time = |(table, left, right): &(usize, String, String)| {
        side.times[*table] == *left && side.times[side.right] == *right
    };
    let is_of_time = |of: &Vec<Comparison>| {
        of.iter().map(columns).all(|columns| shifted.contains(&columns) || is_time(&columns))
    };
    all.into_iter().map(|of| if is_of_time(&of) { of } else { Vec::new() }).collect()
}

/// The comparisons that a condition makes of a column of one side with one of the other; none if it is something else.
fn compared(text: &Text, side: Side<'_>, condition: &Expr) -> Vec<Comparison> {
    let comparison = |left: &Expr, operator: BinaryOperator, right: &Expr| {
        let (left, right) = (shifted(text, side, left)?, shifted(text, side, right)?);
        let is_of_both = (left.table == side.right) != (right.table == side.right);
        is_of_both.then_some(Comparison { left, right, operator })
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

/// `o.time`, `o.time + INTERVAL '1 hour'`, `INTERVAL '1 hour' + o.time`, `o.time - INTERVAL '1 hour'`.
fn shifted(text: &Text, side: Side<'_>, expr: &Expr) -> Option<Shifted> {
    if let Some((table, column)) = side.qualified(expr) {
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
    let of = shifted(text, side, of)?;
    Some(Shifted { shift_ms: of.shift_ms.checked_add(by)?, is_shifted: true, ..of })
}

impl Bounds {
    /// Takes up what a condition says of the times; `true` if it says more than an interval around the time of the left rows can.
    pub(super) fn take(
        &mut self,
        text: &Text,
        (side, lead, on): (Side<'_>, &mut Lead, &[Pair]),
        condition: &Expr,
        comparisons: Vec<Comparison>,
    ) -> Result<bool, Fault> {
        let at = place(text, condition);
        let (mut is_beyond, mut other) = (false, None);
        for Comparison { left, right, operator } in comparisons {
            let (left, right, operator) = match right.table == side.right {
                true => (left, right, operator),
                false => (right, left, turned(operator)),
            };
            let table = left.table;
            // `left + a OP right + b` bounds `right - left` by `a - b`.
            let by = left.shift_ms.saturating_sub(right.shift_ms);
            let later_ms = self.same_times(side, lead, (left, right))?;
            let (least, most) = match operator {
                BinaryOperator::LtEq => (Some(by), None),
                BinaryOperator::Lt => (Some(by.saturating_add(1)), None),
                BinaryOperator::GtEq => (None, Some(by)),
                BinaryOperator::Gt => (None, Some(by.saturating_sub(1))),
                _ => (Some(by), Some(by)),
            };
            // The rows of joins before may be later than the one whose time is compared.
            let least = least.map(|least| least.saturating_sub(later_ms));
            is_beyond |= least.is_some_and(|least| least > 0) || most.is_some_and(|most| most < 0);
            let why = lead.other(table);
            other = other
                .or(why
                    .filter(|why| !(matches!(why, Other::Missing) && later_ms == 0 && is_in_key(on, table))));
            self.least = self.least.max(least);
            self.most = [self.most, most].into_iter().flatten().min();
        }
        if (is_beyond || other.is_some()) && side.kind != JoinKind::Inner {
            return Err(Fault::new(self.beyond(side, other.as_ref()), at));
        }
        if let (Some(least), Some(most)) = (self.least, self.most)
            && least > most
        {
            let message = format!(
                "no time is in this interval; write the earlier bound first, as in `{1} BETWEEN {0} - INTERVAL '5 minutes' AND {0} + INTERVAL '1 hour'`",
                self.time(side, 0),
                self.time(side, 1)
            );
            return Err(Fault::new(message, at));
        }
        self.at = self.at.take().or(at);
        Ok(is_beyond || other.is_some())
    }

    /// Notes the columns that are compared as the times of their tables; by how much joined rows may be later than the left one.
    fn same_times(
        &mut self,
        side: Side<'_>,
        lead: &mut Lead,
        (left, right): (Shifted, Shifted),
    ) -> Result<i64, Fault> {
        let right_time = self.times.as_ref().map(|[_, right]| right.1.clone());
        lead.set_time(left.table, &left.column);
        let Some((later_ms, left_time)) = lead.of(left.table) else {
            let message = format!(
                "`{}` has versions, and joined rows do not have their time; compare the time of another input",
                side.tables[left.table].qualifier
            );
            return Err(Fault::new(message, left.at));
        };
        let known = [left_time.map(str::to_owned), right_time];
        for (known, other) in known.into_iter().zip([&left, &right]) {
            if let Some(known) = known.filter(|known| *known != other.column) {
                let message = format!(
                    "the time of a row is in one column, and here it is `{}` and there `{known}`; compare the same two columns, and put other conditions into a `filter` step behind this one",
                    other.column
                );
                return Err(Fault::new(message, other.at.clone()));
            }
        }
        let of = |one: Shifted| (one.table, one.column, one.at);
        self.times.get_or_insert_with(|| [of(left), of(right)]);
        Ok(later_ms)
    }

    /// The column of a side's time, as it is written.
    fn time(&self, side: Side<'_>, place: usize) -> String {
        let table = [0, side.right][place];
        match &self.times {
            Some(times) => format!("{}.{}", side.tables[times[place].0].qualifier, times[place].1),
            None => format!("{}.TIME", side.tables[table].qualifier),
        }
    }

    /// Why an outer join cannot have such a bound.
    fn beyond(&self, side: Side<'_>, other: Option<&Other>) -> String {
        let (word, left) = (side.kind.word(), self.time(side, 0));
        match other {
            None => format!(
                "the interval of a {word} JOIN has to contain the time of the left row itself; begin it at `{left}` or before and end it there or later, or write an INNER JOIN"
            ),
            Some(Other::Missing) => format!(
                "rows of the joins before may be without `{left}`, so it cannot bound the time of a {word} JOIN; compare the time of another input, or write an INNER JOIN"
            ),
            Some(Other::Later | Other::Version) => format!(
                "rows of the joins before have the later of their inputs' times, which may be later than `{left}`; compare a time that is never before the others, or write an INNER JOIN in place of the {word} JOIN"
            ),
        }
    }

    /// The interval.
    ///
    /// # Errors
    /// When it is open.
    pub(super) fn matching(
        self,
        text: &Text,
        side: Side<'_>,
        (lead, on): (&mut Lead, &[Pair]),
    ) -> Result<Matching, Fault> {
        let written = |table: usize, time: &str| format!("{}.{time}", side.tables[table].qualifier);
        let [of_left, of_right] = match &self.times {
            Some([left, right]) => [written(left.0, &left.1), written(right.0, &right.1)],
            None => {
                let table = on.iter().find_map(|pair| pair.table).unwrap_or(0);
                let time = lead.of(table).and_then(|(_, time)| time).unwrap_or(&side.times[table]);
                [written(table, time), written(side.right, &side.times[side.right])]
            }
        };
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
        let [left, right] = self.times.expect("both bounds compare times");
        lead.join(side.kind, (before, after), Some(&right.1));
        let is_of_input = side.right == 1;
        Ok(Matching::Near {
            before: before as u64,
            after: after as u64,
            times: [is_of_input.then_some(left.1), Some(right.1)],
            at: [left.2, right.2],
        })
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
