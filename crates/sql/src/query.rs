//! `SELECT … FROM input WHERE …` to the parts of a step.
//!
//! Owns which clauses exist. What needs more than one row (GROUP BY, ORDER BY, joins, …) is refused with the reason and a way out.
//! Does not own expressions (`compile`).

use std::collections::BTreeSet;
use std::ops::Range;

use dataflow::Schema;
use datafusion_sql::sqlparser::ast::{
    ExceptSelectItem, ExcludeSelectItem, Expr as Written, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind as Qualifier, SetExpr, SetOperator, TableFactor,
    WildcardAdditionalOptions,
};

use crate::compile::{Scope, Typed, compile, unread};
use crate::fault::nearest;
use crate::text::Text;
use crate::{Fault, Misnamed};

/// The input's name in texts.
pub(crate) const INPUT: &str = "input";

/// One column of the result, by its expression.
pub(crate) struct Chosen {
    pub(crate) name: String,
    pub(crate) expr: Typed,
    /// The expression in the text.
    pub(crate) at: Option<Range<usize>>,
    /// The expression gives an Array, and each of its items makes a row.
    pub(crate) unnested: bool,
}

const AGGREGATION: &str =
    "a step without state sees one row; use the step `window`, or a materialized view of the table";

/// A query, taken apart.
pub(crate) struct Parts {
    pub(crate) scope: Scope,
    pub(crate) condition: Option<Written>,
    pub(crate) chosen: SelectList,
}

/// The columns of a result.
#[derive(Default)]
pub(crate) struct SelectList {
    pub(crate) chosen: Vec<Chosen>,
    /// The columns that `* EXCEPT (…)` leaves out: the text is wrong without them.
    pub(crate) left_out: BTreeSet<String>,
}

/// Reads `text` and compiles its items; the condition is left as it is.
pub(crate) fn parts(input: &Schema, text: &Text) -> Result<Parts, Fault> {
    let query = text.query()?;
    let select = only_select(text, *query)?;
    let tables = tables(text, &select)?;
    only_known_clauses(text, &select)?;
    let scope = Scope::new(input, tables)?;
    let chosen = chosen(input, text, &scope, select.projection)?;
    Ok(Parts { scope, condition: select.selection, chosen })
}

/// The columns of a select list; `*` stands for those of `input`.
pub(crate) fn chosen(
    input: &Schema,
    text: &Text,
    scope: &Scope,
    projection: Vec<SelectItem>,
) -> Result<SelectList, Fault> {
    let mut list = SelectList::default();
    for item in projection {
        for one in items(input, text, scope, item, &mut list.left_out)? {
            if list.chosen.iter().any(|other| other.name == one.name) {
                let message = format!("`{}` is made twice; give one another name with `AS`", one.name);
                return Err(Fault::new(message, one.at).misnamed(Misnamed::Twice(one.name)));
            }
            list.chosen.push(one);
        }
    }
    Ok(list)
}

pub(crate) fn only_select(text: &Text, query: Query) -> Result<Select, Fault> {
    let refuse = |message: &str| Err(Fault::new(message, text.whole()));
    if let Some(with) = &query.with {
        return Err(Fault::new("WITH is refused; make a step of each query", text.range(with)));
    }
    if let Some(order) = &query.order_by {
        let message = "ORDER BY needs all rows; rows keep the order of their partition, and the table sorts them by its key";
        return Err(Fault::new(message, text.range(order)));
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return refuse(
            "LIMIT needs to count rows over time, which a step without state cannot; filter by a column instead",
        );
    }
    if !query.locks.is_empty() || query.for_clause.is_some() || query.settings.is_some() {
        return refuse("a step is `SELECT … FROM input WHERE …`; leave out what follows");
    }
    if query.format_clause.is_some() || !query.pipe_operators.is_empty() {
        return refuse("a step is `SELECT … FROM input WHERE …`; leave out what follows");
    }
    match *query.body {
        SetExpr::Select(select) => Ok(*select),
        SetExpr::SetOperation { op: SetOperator::Union, .. } => {
            refuse("UNION is refused; give the table several inputs, or make a step of each query")
        }
        SetExpr::SetOperation { op, .. } => {
            refuse(&format!("{op} compares rows with other rows, and a step without state sees one"))
        }
        _ => refuse("a step is `SELECT … FROM input WHERE …`"),
    }
}

/// The names that columns may be qualified with.
fn tables(text: &Text, select: &Select) -> Result<Vec<String>, Fault> {
    let [from] = select.from.as_slice() else {
        return Err(match select.from.get(1) {
            None => Fault::new("the query has no FROM; write `FROM input`", text.whole()),
            Some(second) => Fault::new(
                "a query reads `input` alone; to match the rows of two inputs use the step `join`",
                text.range(second),
            ),
        });
    };
    if let Some(join) = from.joins.first() {
        let message = match join.relation {
            TableFactor::UNNEST { .. } => {
                "write UNNEST among the items: `SELECT *, UNNEST(tags) AS tag FROM input`"
            }
            _ => {
                "a join needs the rows of both sides, and a step without state sees one; use the step `join` for the rows of two inputs, or `lookup` for those of a table"
            }
        };
        return Err(Fault::new(message, text.range(join)));
    }
    let TableFactor::Table { name, alias, args: None, version, .. } = &from.relation else {
        let message = match &from.relation {
            TableFactor::Table { name, .. } => format!(
                "there is no table function `{name}`; write `FROM input`, or `FROM TUMBLE(…)`, `HOP`, `CUMULATE` or `SESSION` for windows"
            ),
            _ => "a query within FROM is refused; write `FROM input` and make a step of the inner query"
                .to_owned(),
        };
        return Err(Fault::new(message, text.range(&from.relation).or_else(|| text.whole())));
    };
    if version.is_some() || !is_bare(&from.relation) {
        let message = "a step without state sees each row as it is; write `FROM input`, and leave out what follows up to WHERE";
        return Err(Fault::new(message, text.range(&from.relation).or_else(|| text.whole())));
    }
    if let Some(column) = alias.as_ref().and_then(|alias| alias.columns.first()) {
        let message = "columns are not renamed here; write `AS name`, and rename them in the select list";
        return Err(Fault::new(message, text.range_of(column.name.span)));
    }
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)] if ident.value.eq_ignore_ascii_case(INPUT) => {}
        _ => {
            let message = format!("there is no table `{name}`; the rows of the step before are `FROM input`");
            return Err(Fault::new(message, text.range(name)));
        }
    }
    Ok(std::iter::once(name.to_string()).chain(alias.iter().map(|alias| alias.name.value.clone())).collect())
}

/// Whether nothing stands behind a table but its version and its name: nothing that would take some of its rows, or add to them.
pub(crate) fn is_bare(table: &TableFactor) -> bool {
    match table {
        TableFactor::Table { sample, partitions, with_ordinality, with_hints, .. } => {
            sample.is_none() && partitions.is_empty() && !with_ordinality && with_hints.is_empty()
        }
        _ => true,
    }
}

pub(crate) fn only_known_clauses(text: &Text, select: &Select) -> Result<(), Fault> {
    let group = match &select.group_by {
        GroupByExpr::All(_) => Some(text.whole()),
        GroupByExpr::Expressions(by, modifiers) => {
            (!by.is_empty() || !modifiers.is_empty()).then(|| by.first().and_then(|by| text.range(by)))
        }
    };
    if let Some(at) = group {
        return Err(Fault::new(
            format!("GROUP BY needs many rows, and {AGGREGATION}"),
            at.or_else(|| text.whole()),
        ));
    }
    if let Some(having) = &select.having {
        return Err(Fault::new(format!("HAVING needs many rows, and {AGGREGATION}"), text.range(having)));
    }
    let refused = [
        (select.distinct.is_some(), "DISTINCT needs the rows before; use the step `dedup`, which keeps them"),
        (select.top.is_some(), "TOP needs to count rows over time; filter by a column instead"),
        (select.into.is_some(), "INTO is refused; the sink says where rows go"),
        (select.prewhere.is_some(), "PREWHERE is refused; write WHERE"),
        (
            select.qualify.is_some(),
            "QUALIFY needs the rows around this one, and a step without state sees one",
        ),
        (
            !select.named_window.is_empty(),
            "WINDOW needs the rows around this one, and a step without state sees one",
        ),
        (!select.sort_by.is_empty(), "SORT BY needs all rows; the table sorts them by its key"),
        (
            !select.lateral_views.is_empty(),
            "LATERAL VIEW is refused; write `SELECT *, UNNEST(tags) AS tag FROM input`",
        ),
        (
            select.exclude.is_some()
                || !select.connect_by.is_empty()
                || !select.cluster_by.is_empty()
                || !select.distribute_by.is_empty()
                || select.value_table_mode.is_some()
                || select.select_modifiers.is_some(),
            "a step is `SELECT … FROM input WHERE …`; leave out what else is there",
        ),
    ];
    match refused.into_iter().find(|(there, _)| *there) {
        Some((_, message)) => Err(Fault::new(message, text.whole())),
        None => Ok(()),
    }
}

fn items(
    input: &Schema,
    text: &Text,
    scope: &Scope,
    item: SelectItem,
    left_out: &mut BTreeSet<String>,
) -> Result<Vec<Chosen>, Fault> {
    match item {
        SelectItem::Wildcard(options) => all(input, text, &options, left_out),
        SelectItem::QualifiedWildcard(qualifier, options) => match &qualifier {
            Qualifier::ObjectName(ObjectName(parts)) if is_table(scope, parts) => {
                all(input, text, &options, left_out)
            }
            Qualifier::ObjectName(name) => {
                let message = format!("there is no table `{name}`; write `*` for all columns");
                Err(Fault::new(message, text.range(name).or_else(|| text.whole())))
            }
            Qualifier::Expr(expr) => {
                let message = "`*` stands for the columns of the rows, and not for parts of a value";
                Err(Fault::new(message, text.place(expr).or_else(|| text.whole())))
            }
        },
        SelectItem::UnnamedExpr(Written::Identifier(ident)) => {
            let name = ident.value.clone();
            Ok(vec![one(text, scope, Written::Identifier(ident), name)?])
        }
        SelectItem::UnnamedExpr(Written::CompoundIdentifier(parts)) => {
            let name = parts.last().map(|part| part.value.clone()).unwrap_or_default();
            Ok(vec![one(text, scope, Written::CompoundIdentifier(parts), name)?])
        }
        SelectItem::UnnamedExpr(expr) => {
            // What is wrong with the expression comes first.
            let at = text.place(&expr).or_else(|| text.whole());
            one(text, scope, expr, String::new())?;
            Err(Fault::new("the column has no name; write `… AS name`", at))
        }
        SelectItem::ExprWithAlias { expr, alias } => Ok(vec![one(text, scope, expr, alias.value)?]),
        SelectItem::ExprWithAliases { expr, .. } => {
            Err(Fault::new("an expression has one name; write `… AS name`", text.place(&expr)))
        }
    }
}

fn is_table(scope: &Scope, name: &[ObjectNamePart]) -> bool {
    matches!(name, [ObjectNamePart::Identifier(ident)] if scope.is_table(&ident.value))
}

fn one(text: &Text, scope: &Scope, written: Written, name: String) -> Result<Chosen, Fault> {
    let at = text.place(&written).or_else(|| text.whole());
    if let Written::Function(function) = &written
        && is_unnest(function)
    {
        if let Some(what) = unread(function) {
            return Err(Fault::new(format!("UNNEST takes no {what}; leave it out"), at));
        }
        let Some(array) = only_argument(function) else {
            return Err(Fault::new("UNNEST takes one array, as in `UNNEST(tags) AS tag`", at));
        };
        let expr = compile(text, array.clone(), scope)?;
        return Ok(Chosen { name, expr, at, unnested: true });
    }
    let expr = compile(text, written, scope)?;
    Ok(Chosen { name, expr, at, unnested: false })
}

fn is_unnest(function: &Function) -> bool {
    matches!(function.name.0.as_slice(), [ObjectNamePart::Identifier(name)] if name.value.eq_ignore_ascii_case("unnest"))
}

fn only_argument(function: &Function) -> Option<&Written> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] => Some(array),
        _ => None,
    }
}

/// `*`, `* EXCEPT (a, b)`, `* EXCLUDE (a, b)`.
fn all(
    input: &Schema,
    text: &Text,
    options: &WildcardAdditionalOptions,
    left_out: &mut BTreeSet<String>,
) -> Result<Vec<Chosen>, Fault> {
    if options.opt_ilike.is_some() || options.opt_replace.is_some() || options.opt_rename.is_some() {
        return Err(Fault::new(
            "`*` takes `EXCEPT (column, …)` only; name the other columns",
            text.range(options),
        ));
    }
    let mut without: Vec<Ident> = Vec::new();
    if let Some(ExceptSelectItem { first_element, additional_elements }) = &options.opt_except {
        without.push(first_element.clone());
        without.extend(additional_elements.iter().cloned());
    }
    let excluded = |name: &ObjectName| name.0.first().and_then(|part| part.as_ident()).cloned();
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => without.extend(excluded(name)),
        Some(ExcludeSelectItem::Multiple(names)) => without.extend(names.iter().filter_map(excluded)),
        None => {}
    }
    let names = || input.columns().iter().map(|column| column.name.as_str());
    if let Some(unknown) = without.iter().find(|ident| input.index_of(&ident.value).is_none()) {
        let message = match nearest(&unknown.value, names()) {
            Some(near) => format!("there is no column `{}`; did you mean `{near}`", unknown.value),
            None => format!("there is no column `{}`", unknown.value),
        };
        let fault = Fault::new(message, text.range_of(unknown.span));
        return Err(fault.misnamed(Misnamed::Unknown(unknown.value.clone())));
    }
    let stays = names().filter(|name| without.iter().all(|ident| ident.value != *name));
    let passed = stays.map(|name| Chosen {
        name: name.to_owned(),
        expr: Typed {
            expr: datafusion_expr::Expr::Column(datafusion_common::Column::new_unqualified(name)),
            reads: BTreeSet::from([name.to_owned()]),
            is_column: true,
        },
        at: None,
        unnested: false,
    });
    let passed = passed.collect();
    left_out.extend(without.into_iter().map(|ident| ident.value));
    Ok(passed)
}
