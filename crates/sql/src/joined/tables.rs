//! The two sides of a join and its kind.
//!
//! Owns what may stand in FROM and behind JOIN, up to the constraint. Does not own the conditions.

use std::ops::Range;

use datafusion_sql::sqlparser::ast::{
    JoinConstraint, JoinOperator, ObjectNamePart, Select, TableFactor, TableVersion, TableWithJoins,
};

use super::{JoinKind, Table, place, qualified};
use crate::Fault;
use crate::text::Text;

/// What FROM says.
pub(super) struct Tables {
    pub(super) tables: [Table; 2],
    pub(super) kind: JoinKind,
    pub(super) constraint: JoinConstraint,
    /// The column of the left side at whose time the right side is seen, and where it stands.
    pub(super) as_of: Option<(String, Option<Range<usize>>)>,
}

/// Reads FROM, which names several tables.
///
/// # Errors
/// When it names others than two inputs, or joins them in another way.
pub(super) fn read(text: &Text, select: &Select) -> Result<Tables, Fault> {
    let (left, right, operator) = match select.from.as_slice() {
        [TableWithJoins { relation, joins }] if joins.len() == 1 => {
            (relation, &joins[0].relation, joins[0].join_operator.clone())
        }
        [left, right] if left.joins.is_empty() && right.joins.is_empty() => {
            (&left.relation, &right.relation, JoinOperator::Inner(JoinConstraint::None))
        }
        _ => {
            let at = relations(select).nth(2).and_then(|third| text.range(third));
            let message = "a query joins two inputs; write several joins as `join` steps, which take each other's rows by `as`";
            return Err(Fault::new(message, at.or_else(|| text.whole())));
        }
    };
    let (left, no_version) = table(text, left)?;
    if no_version.is_some() {
        let message = "the right side has the versions: put the input with FOR SYSTEM_TIME AS OF behind JOIN";
        return Err(Fault::new(message, left.at));
    }
    let (right, version) = table(text, right)?;
    if left.qualifier == right.qualifier {
        let message = format!("both sides are called `{}`; give one another name with AS", left.qualifier);
        return Err(Fault::new(message, right.at));
    }
    let tables = [left, right];
    let as_of = version.map(|version| as_of(text, &tables, version)).transpose()?;
    let (kind, constraint) = kind(operator, &tables[1])?;
    if as_of.is_some() && matches!(kind, JoinKind::Right | JoinKind::Full) {
        let message = format!(
            "versions without a left row cannot be output; write JOIN or LEFT JOIN, not {} JOIN",
            kind.word()
        );
        return Err(Fault::new(message, tables[1].at.clone()));
    }
    Ok(Tables { tables, kind, constraint, as_of })
}

/// All that is joined, in order.
pub(super) fn relations(select: &Select) -> impl Iterator<Item = &TableFactor> {
    fn of(from: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    }
    select.from.iter().flat_map(of)
}

/// An input of the pipeline, with the version that is asked of it.
fn table<'t>(text: &Text, factor: &'t TableFactor) -> Result<(Table, Option<&'t TableVersion>), Fault> {
    let refuse = |message: &str| Err(Fault::new(message, place(text, factor)));
    let TableFactor::Table { name, alias, args, version, with_hints, sample, .. } = factor else {
        return refuse(
            "a side of a join is an input; make steps of a query within FROM, before this one and with `from:` that input",
        );
    };
    if args.is_some() {
        return refuse(
            "a side of a join is an input, not a table function; put a `window` step behind the last join",
        );
    }
    if sample.is_some() || !with_hints.is_empty() {
        return refuse("a side of a join is `input AS name`; leave out what follows");
    }
    if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
        return refuse("columns are not renamed here; write `AS name`, and rename them in the select list");
    }
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
        return refuse(
            "a side of a join is an input, whose name has no point; for the rows of a table use the step `lookup`",
        );
    };
    let qualifier = alias.as_ref().map_or(&ident.value, |alias| &alias.name.value).clone();
    Ok((Table { name: ident.value.clone(), qualifier, at: text.range_of(ident.span) }, version.as_ref()))
}

/// The column of the left side at whose time the right side is seen.
fn as_of(
    text: &Text,
    tables: &[Table; 2],
    version: &TableVersion,
) -> Result<(String, Option<Range<usize>>), Fault> {
    let found = match version {
        TableVersion::ForSystemTimeAsOf(expr) => {
            qualified(tables, expr).map(|found| (found, text.range(expr)))
        }
        _ => None,
    };
    match found {
        Some(((0, column), at)) => Ok((column.value.clone(), at)),
        _ => {
            let at = match version {
                TableVersion::ForSystemTimeAsOf(expr) => text.range(expr),
                _ => None,
            };
            let message = format!(
                "a left row gets the version at its own time; write `FOR SYSTEM_TIME AS OF {}.TIME` with the column of its time, or use the step `lookup` for the rows of a table as they are now",
                tables[0].qualifier
            );
            Err(Fault::new(message, at.or_else(|| tables[1].at.clone())))
        }
    }
}

fn kind(operator: JoinOperator, right: &Table) -> Result<(JoinKind, JoinConstraint), Fault> {
    Ok(match operator {
        JoinOperator::Join(on) | JoinOperator::Inner(on) | JoinOperator::CrossJoin(on) => {
            (JoinKind::Inner, on)
        }
        JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (JoinKind::Left, on),
        JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (JoinKind::Right, on),
        JoinOperator::FullOuter(on) => (JoinKind::Full, on),
        JoinOperator::Semi(_)
        | JoinOperator::LeftSemi(_)
        | JoinOperator::RightSemi(_)
        | JoinOperator::Anti(_)
        | JoinOperator::LeftAnti(_)
        | JoinOperator::RightAnti(_) => {
            let message = "SEMI and ANTI joins are refused; for rows without a match write LEFT JOIN, and WHERE with IS NULL";
            return Err(Fault::new(message, right.at.clone()));
        }
        JoinOperator::CrossApply
        | JoinOperator::OuterApply
        | JoinOperator::AsOf { .. }
        | JoinOperator::StraightJoin(_)
        | JoinOperator::ArrayJoin
        | JoinOperator::LeftArrayJoin
        | JoinOperator::InnerArrayJoin => {
            let message = "this join is refused; write JOIN, LEFT JOIN, RIGHT JOIN or FULL JOIN, with FOR SYSTEM_TIME AS OF for the version at a time";
            return Err(Fault::new(message, right.at.clone()));
        }
    })
}

/// The fault of a name in front of a column that is none of the tables'.
pub(super) fn unknown(tables: &[Table; 2], name: &str, at: Option<Range<usize>>) -> Fault {
    let [left, right] = tables.each_ref().map(|table| &table.qualifier);
    let renamed = tables.iter().find(|table| table.name == name);
    let message = match renamed {
        Some(table) => format!("`{name}` is called `{0}` here; write `{0}.COLUMN`", table.qualifier),
        None => format!(
            "the sides are `{left}` and `{right}`, and there is no `{name}`; write `{left}.COLUMN` or `{right}.COLUMN`"
        ),
    };
    Fault::new(message, at)
}
