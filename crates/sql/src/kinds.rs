//! Columns that expressions read as text, and what their values are.
//!
//! Owns which expressions give values of a UUID, an IP address or an Enum, and the one text that each such value has. Does not own where constants
//! stand (`canonical`), nor the text of a column's values (`operand`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use dataflow::{ColumnType, Schema};
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Case, Cast, Expr};

use crate::fault::{nearest, reworded, shown};
use crate::types::{name, written};

/// Functions whose value is one of their arguments: from which argument on.
const ONE_OF: [(&str, usize); 6] =
    [("coalesce", 0), ("nvl", 0), ("ifnull", 0), ("nvl2", 1), ("greatest", 0), ("least", 0)];
/// Functions whose value is an item of their first argument.
const ITEM: [&str; 5] = ["array_element", "array_any_value", "array_first", "array_max", "array_min"];
/// Functions whose value is an array of items of their first argument.
const SAME: [&str; 17] = [
    "array_append",
    "array_compact",
    "array_concat",
    "array_distinct",
    "array_except",
    "array_filter",
    "array_intersect",
    "array_pop_back",
    "array_pop_front",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_resize",
    "array_reverse",
    "array_slice",
    "array_sort",
    "array_union",
];
/// Names of an Enum that a message shows.
const NAMES_SHOWN: usize = 12;

/// The columns of an input that hold such values, also in arrays and maps, and the parameters of functions without a name around an expression.
pub(crate) struct Kinds {
    columns: HashMap<String, ColumnType>,
    parameters: Vec<(String, Option<ColumnType>)>,
}

impl Kinds {
    pub(crate) fn new(input: &Schema) -> Self {
        let columns = input.columns().iter().filter(|column| holds(&column.column_type));
        let columns = columns.map(|column| (column.name.clone(), column.column_type.clone()));
        Self { columns: columns.collect(), parameters: Vec::new() }
    }

    /// The same columns, without parameters.
    pub(crate) fn outside(&self) -> Self {
        Self { columns: self.columns.clone(), parameters: Vec::new() }
    }

    /// What is read in a function without a name, whose parameters are items of `items`; `leave` takes them away again.
    pub(crate) fn enter(&mut self, parameters: &[String], items: Option<&ColumnType>) {
        self.parameters.extend(parameters.iter().map(|name| (name.clone(), items.and_then(item).cloned())));
    }

    pub(crate) fn leave(&mut self, parameters: &[String]) {
        self.parameters.truncate(self.parameters.len().saturating_sub(parameters.len()));
    }

    /// The type of such a value, or of an array or map of them; `None` for any other expression.
    pub(crate) fn of(&self, expr: &Expr) -> Option<ColumnType> {
        match expr {
            Expr::Column(column) => self.columns.get(&column.name).map(|kind| kind.bare().clone()),
            Expr::LambdaVariable(variable) => {
                let found = self.parameters.iter().rev().find(|(name, _)| *name == variable.name);
                found.and_then(|(_, kind)| kind.as_ref().map(|kind| kind.bare().clone()))
            }
            Expr::Alias(alias) => self.of(&alias.expr),
            Expr::Case(Case { when_then_expr, else_expr, .. }) => {
                self.common(when_then_expr.iter().map(|(_, then)| &**then).chain(else_expr.as_deref()))
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) => self.of_call(func.name(), args),
            Expr::HigherOrderFunction(call) => self.of_call(call.func.name(), &call.args),
            _ => None,
        }
    }

    fn of_call(&self, name: &str, args: &[Expr]) -> Option<ColumnType> {
        let first = || self.of(args.first()?);
        if let Some((_, from)) = ONE_OF.iter().find(|(function, _)| *function == name) {
            return self.common(args.get(*from..)?.iter());
        }
        match name {
            "nullif" => first(),
            "make_array" => self.common(args.iter()).map(|kind| ColumnType::Array(Box::new(kind))),
            "array_prepend" => self.of(args.get(1)?),
            "get_field" | "map_extract" => match first()? {
                ColumnType::Map(_, value) if name == "get_field" => Some(value.bare().clone()),
                ColumnType::Map(_, value) => Some(ColumnType::Array(value)),
                _ => None,
            },
            "map_keys" | "map_values" => match first()? {
                ColumnType::Map(key, _) if name == "map_keys" => Some(ColumnType::Array(key)),
                ColumnType::Map(_, value) => Some(ColumnType::Array(value)),
                _ => None,
            },
            name if ITEM.contains(&name) => item(&first()?).map(|kind| kind.bare().clone()),
            name if SAME.contains(&name) => first(),
            _ => None,
        }
        .filter(holds)
    }

    /// What all of them are, if they are the same; constants are of it if they have its text.
    fn common<'a>(&self, exprs: impl Iterator<Item = &'a Expr>) -> Option<ColumnType> {
        let (mut found, mut constants): (Option<ColumnType>, Vec<&str>) = (None, Vec::new());
        for expr in exprs {
            match (expr, self.of(expr)) {
                (_, Some(kind)) if found.as_ref().is_none_or(|found| *found == kind) => found = Some(kind),
                (Expr::Literal(value, _), None) if value.is_null() => {}
                (Expr::Literal(value, _), None) => constants.push(value.try_as_str()??),
                (..) => return None,
            }
        }
        found.filter(|kind| constants.iter().all(|text| text_of(text, kind).is_ok_and(|own| own == *text)))
    }
}

/// Refuses a `CAST` to a number that no value has: of a UUID, an address, or an Enum without a name that is a number.
pub(crate) fn refuse_casts_of_names(expr: &Expr, kinds: &Kinds) -> Result<(), String> {
    let mut fault = None;
    let walked = expr.apply(|node| {
        if let Expr::Cast(Cast { expr, field }) = node
            && field.data_type().is_numeric()
            && let Some(kind) = kinds.of(expr)
            && let Some(way_out) = without_number(&kind)
        {
            let (shown, to, of) = (shown(expr), name(field.data_type()), written(&kind));
            fault = Some(format!(
                "`{shown}` is its text in an expression, and no text of {of} is a number, as `{to}` is; {way_out}"
            ));
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(|error| reworded(&error))?;
    fault.map_or(Ok(()), Err)
}

/// What to do instead, if no text of such values is a number.
fn without_number(kind: &ColumnType) -> Option<&'static str> {
    const ITSELF: &str = "without the `CAST` an integer column of the table takes its number";
    let is_number = |name: &str| name.trim().parse::<f64>().is_ok();
    match kind {
        ColumnType::Enum8(names) if !names.iter().any(|(name, _)| is_number(name)) => Some(ITSELF),
        ColumnType::Enum16(names) if !names.iter().any(|(name, _)| is_number(name)) => Some(ITSELF),
        ColumnType::Ipv4 => Some(ITSELF),
        ColumnType::Ipv6 | ColumnType::Uuid => Some("for its text `CAST` it to String"),
        _ => None,
    }
}

/// The type is one that expressions read as text though it is not, or holds such items.
fn holds(kind: &ColumnType) -> bool {
    match kind.bare() {
        ColumnType::Array(item) => holds(item),
        ColumnType::Map(key, value) => holds(key) || holds(value),
        bare => is_scalar(bare),
    }
}

/// A UUID, an address or an Enum.
pub(crate) fn is_scalar(kind: &ColumnType) -> bool {
    matches!(
        kind.bare(),
        ColumnType::Uuid | ColumnType::Ipv4 | ColumnType::Ipv6 | ColumnType::Enum8(_) | ColumnType::Enum16(_)
    )
}

/// The type of an array's items.
pub(crate) fn item(kind: &ColumnType) -> Option<&ColumnType> {
    match kind.bare() {
        ColumnType::Array(item) => Some(&**item),
        _ => None,
    }
}

/// The type, with the few words that a message has for it.
pub(crate) fn called(kind: &ColumnType) -> &'static str {
    match kind.bare() {
        ColumnType::Uuid => "UUID",
        ColumnType::Ipv4 => "IPv4 address",
        ColumnType::Ipv6 => "IPv6 address",
        ColumnType::Enum8(_) | ColumnType::Enum16(_) => "Enum",
        _ => "value of that type",
    }
}

/// The text that the value of a column has which `text` spells.
///
/// # Errors
/// When no value of the type is spelled so; says how one is.
pub(crate) fn text_of<'a>(text: &'a str, kind: &ColumnType) -> Result<Cow<'a, str>, String> {
    let refused = |example: &str| format!("`'{text}'` is not a valid {}; write `'{example}'`", called(kind));
    match kind.bare() {
        ColumnType::Uuid => {
            let found = uuid(text).ok_or_else(|| refused("6f9619ff-8b86-d011-b42d-00c04fc964ff"))?;
            Ok(Cow::Owned(found))
        }
        ColumnType::Ipv4 => {
            let found = text.parse::<Ipv4Addr>().map_err(|_| refused("10.1.2.3"))?;
            Ok(Cow::Owned(found.to_string()))
        }
        ColumnType::Ipv6 => {
            let mapped = || text.parse::<Ipv4Addr>().map(|v4| v4.to_ipv6_mapped());
            let found = text.parse::<Ipv6Addr>().or_else(|_| mapped()).map_err(|_| refused("2001:db8::1"))?;
            Ok(Cow::Owned(found.to_string()))
        }
        ColumnType::Enum8(names) => named(text, kind, names.iter().map(|(name, _)| &**name)),
        ColumnType::Enum16(names) => named(text, kind, names.iter().map(|(name, _)| &**name)),
        _ => Ok(Cow::Borrowed(text)),
    }
}

/// With or without its four dashes, in either case.
fn uuid(text: &str) -> Option<String> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let dashed = text.len() == 36 && DASHES.iter().all(|at| text.as_bytes()[*at] == b'-');
    let mut digits = text.to_ascii_lowercase();
    if dashed {
        digits = digits.replace('-', "");
    }
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    DASHES.iter().for_each(|at| digits.insert(*at, '-'));
    Some(digits)
}

fn named<'a, 'n>(
    text: &'a str,
    kind: &ColumnType,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Result<Cow<'a, str>, String> {
    if names.clone().any(|name| name == text) {
        return Ok(Cow::Borrowed(text));
    }
    let way_out = match nearest(text, names.clone()) {
        Some(near) => format!("did you mean `'{near}'`"),
        None if names.clone().count() > NAMES_SHOWN => {
            format!("its names are in the type `{}…`", written(kind).chars().take(200).collect::<String>())
        }
        None => {
            let names: Vec<String> = names.map(|name| format!("`'{name}'`")).collect();
            format!("its names are {}", names.join(", "))
        }
    };
    Err(format!("the Enum has no name `'{text}'`; {way_out}"))
}

#[cfg(test)]
mod tests;
