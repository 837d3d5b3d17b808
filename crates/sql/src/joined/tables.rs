//! The two sides of a join and its kind.
//!
//! Owns what may stand in FROM and behind JOIN, up to the constraint. Does not own the conditions.

use std::ops::Range;

use datafusion_sql::sqlparser::ast::{
    JoinConstraint, JoinOperator, ObjectNamePart, Select, TableFactor, TableVersion, TableWithJoins,
};

use super::{JoinKind, Table, place, qualified};
use crate::Fault;
use crate::query::is_bare;
use crate::text::Text;

/// How FROM joins an input with those before it.
pub(super) struct Shape {
    pub(super) kind: JoinKind,
    pub(super) constraint: JoinConstraint,
    /// The column at whose time the right side is seen: its table and name, and where it stands.
    pub(super) as_of: Option<(usize, String, Option<Range<usize>>)>,
}

/// Reads FROM, which names several tables: all of them, and how each but the first is joined.
///
/// # Errors
/// When it names others than inputs, or joins them in another way.
pub(super) fn read(text: &Text, select: &Select) -> Result<(Vec<Table>, Vec<Shape>), Fault> {
    let comma = || JoinOperator::Inner(JoinConstraint::None);
    let (first, others): (_, Vec<(&TableFactor, JoinOperator)>) = match select.from.as_slice() {
        [TableWithJoins { relation, joins }] => {
            (relation, joins.iter().map(|join| (&join.relation, join.join_operator.clone())).collect())
        }
        [first, others @ ..] if select.from.iter().all(|one| one.joins.is_empty()) => {
            (&first.relation, others.iter().map(|one| (&one.relation, comma())).collect())
        }
        _ => {
            let message = "the inputs stand with commas between them or with JOIN, not both; write JOIN";
            let at = select.from.get(1).and_then(|second| text.range(&second.relation));
            return Err(Fault::new(message, at.or_else(|| text.whole())));
        }
    };
    let (first, no_version) = table(text, first)?;
    if no_version.is_some() {
        let message = "the right side has the versions: put the input with FOR SYSTEM_TIME AS OF behind JOIN";
        return Err(Fault::new(message, first.at));
    }
    let (mut tables, mut shapes) = (vec![first], Vec::new());
    for (right, operator) in others {
        let (right, version) = table(text, right)?;
        if tables.iter().any(|left| left.qualifier == right.qualifier) {
            let message =
                format!("two sides are called `{}`; give one another name with AS", right.qualifier);
            return Err(Fault::new(message, right.at));
        }
        let as_of = version.map(|version| as_of(text, (&tables, &right), version)).transpose()?;
        let (kind, constraint) = kind(operator, &right)?;
        if as_of.is_some() && kind.keeps_right() {
            let message = format!(
                "versions without a left row cannot be output; write JOIN or LEFT JOIN, not {} JOIN",
                kind.word()
            );
            return Err(Fault::new(message, right.at));
        }
        tables.push(right);
        shapes.push(Shape { kind, constraint, as_of });
    }
    Ok((tables, shapes))
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
    let TableFactor::Table { name, alias, args, version, .. } = factor else {
        return refuse(
            "a side of a join is an input; make steps of a query within FROM, before this one and with `from:` that input",
        );
    };
    if args.is_some() {
        return refuse(
            "a side of a join is an input, not a table function; put a `window` step behind the last join",
        );
    }
    if !is_bare(factor) {
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
    (tables, right): (&[Table], &Table),
    version: &TableVersion,
) -> Result<(usize, String, Option<Range<usize>>), Fault> {
    let found = match version {
        TableVersion::ForSystemTimeAsOf(expr) => {
            qualified(tables, expr).map(|found| (found, text.range(expr)))
        }
        _ => None,
    };
    match found {
        Some(((table, column), at)) => Ok((table, column.value.clone(), at)),
        _ => {
            let at = match version {
                TableVersion::ForSystemTimeAsOf(expr) => text.range(expr),
                _ => None,
            };
            let message = format!(
                "a left row gets the version at its own time; write `FOR SYSTEM_TIME AS OF {}.TIME` with the column of its time, or use the step `lookup` for the rows of a table as they are now",
                tables[0].qualifier
            );
            Err(Fault::new(message, at.or_else(|| right.at.clone())))
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
pub(super) fn unknown(tables: &[Table], name: &str, at: Option<Range<usize>>) -> Fault {
    let renamed = tables.iter().find(|table| table.name == name);
    let all = |suffix: &str, word: &str| {
        let names: Vec<String> = tables.iter().map(|one| format!("`{}{suffix}`", one.qualifier)).collect();
        let (last, others) = names.split_last().expect("a join has tables");
        format!("{} {word} {last}", others.join(", "))
    };
    let message = match renamed {
        Some(table) => format!("`{name}` is called `{0}` here; write `{0}.COLUMN`", table.qualifier),
        None => format!(
            "the sides are {}, and there is no `{name}`; write {}",
            all("", "and"),
            all(".COLUMN", "or")
        ),
    };
    Fault::new(message, at)
}
