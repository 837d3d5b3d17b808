//! Operators whose right side DataFusion would move in front of the left one, or whose NULL it would lose.
//!
//! Owns that AND and OR evaluate the right side only where the left one leaves the answer open, and a CASE its ELSE only where no branch is taken. Does not own the order of the
//! branches (`branches`).
//!
//! | written                             | DataFusion        | wrong                                          |
//! |-------------------------------------|-------------------|------------------------------------------------|
//! | `(a AND c) OR (b AND c)`, and what a NOT makes it of | `c AND (a OR b)` | `c` is evaluated where `a` and `b` are false |
//! | `a AND (b AND a)`, and the same of OR | `b AND a`       | `b` is evaluated where `a` is false            |
//! | `CASE WHEN x THEN a AND c ELSE b AND c END` | the same of `(x AND a AND c) OR (NOT x AND b AND c)` | the same |
//! | `n NOT IN (1) OR n NOT IN (2)`      | `true`            | it is NULL where `n` is NULL                   |
//! | `n ^ n`                             | `0`               | the same                                       |
//! | `CAST(s AS Int64) IS NOT NULL`      | `true`            | a text that is no number has no value          |
//!
//! The right side of such an operator, such an ELSE, and what is asked so, becomes the argument of a function, which DataFusion leaves where it is.

use std::borrow::Cow;

use arrow_schema::DataType;
use datafusion_common::DFSchema;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::expr::InList;
use datafusion_expr::{Between, BinaryExpr, Case, Expr, ExprSchemable, Operator};

use super::written::{apart, evaluated};
use crate::fault::reworded;

/// Sets the right sides apart that DataFusion would move.
pub(crate) fn keep_guards(expr: Expr, schema: &DFSchema) -> Result<Expr, String> {
    let kept = expr.transform_up(|node| {
        Ok(match node {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let right =
                    if would_move(&left, op, &right) { right_apart(op, right, schema) } else { right };
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, op, right)))
            }
            Expr::Case(case) => Transformed::yes(Expr::Case(else_apart(case, schema))),
            Expr::IsNull(inner) => Transformed::yes(Expr::IsNull(asked(inner, schema))),
            Expr::IsNotNull(inner) => Transformed::yes(Expr::IsNotNull(asked(inner, schema))),
            other => Transformed::no(other),
        })
    });
    kept.map(|kept| kept.data).map_err(|error| reworded(&error))
}

/// What is asked whether it is NULL. If it never is, it may still fail: the record has no value for it then, and no answer.
fn asked(inner: Box<Expr>, schema: &DFSchema) -> Box<Expr> {
    let is_column = matches!(*inner, Expr::Column(_));
    let varies = inner.exists(|node| Ok(matches!(node, Expr::Column(_))));
    if is_column || !matches!(varies, Ok(true)) || !matches!(inner.nullable(schema), Ok(false)) {
        return inner;
    }
    match inner.get_type(schema) {
        Ok(own) => Box::new(evaluated(*inner, own)),
        Err(_) => inner,
    }
}

/// The right side apart; as it is where its type is not known.
fn right_apart(op: Operator, right: Box<Expr>, schema: &DFSchema) -> Box<Expr> {
    let own = match op {
        Operator::And | Operator::Or => Ok(DataType::Boolean),
        // Within a function without a name the schema lacks the parameters.
        _ => right.get_type(schema),
    };
    match own {
        Ok(own) => Box::new(apart(*right, own)),
        Err(_) => right,
    }
}

/// The CASE with its ELSE apart, if that shares a condition with a branch.
fn else_apart(case: Case, schema: &DFSchema) -> Case {
    let is_shared = match &case.else_expr {
        Some(otherwise) if case.expr.is_none() => {
            let behind = within(otherwise);
            let branches = case.when_then_expr.iter().flat_map(|(when, then)| [when, then]);
            let mut conditions = branches.flat_map(|branch| within(branch));
            conditions.any(|one| !matches!(*one, Expr::Literal(..)) && behind.contains(&one))
        }
        _ => false,
    };
    let else_expr = case.else_expr.map(|otherwise| match otherwise.get_type(schema) {
        Ok(DataType::Boolean) if is_shared => Box::new(apart(*otherwise, DataType::Boolean)),
        _ => otherwise,
    });
    Case { else_expr, ..case }
}

fn would_move(left: &Expr, op: Operator, right: &Expr) -> bool {
    match op {
        // Under a NOT it becomes an OR, and each OR in it an AND.
        Operator::And | Operator::Or => {
            let within = if op == Operator::And { Operator::Or } else { Operator::And };
            has_later(left, op, right)
                || shares_later(left, within, right)
                || are_intersected(left, op, right)
        }
        Operator::BitwiseXor => parts(left, op).contains(&right) || parts(right, op).contains(&left),
        _ => false,
    }
}

/// Whether the right side repeats the left one behind something else.
fn has_later(left: &Expr, op: Operator, right: &Expr) -> bool {
    parts(right, op).iter().position(|part| *part == left).is_some_and(|at| at > 0)
}

/// Whether the right side, a chain of `op`, has a condition of the left one behind one of its own.
fn shares_later(left: &Expr, op: Operator, right: &Expr) -> bool {
    let (left, right) = (conditions(left, op), conditions(right, op));
    let own = right.iter().position(|condition| !left.contains(condition));
    own.is_some_and(|own| right[own..].iter().any(|condition| left.contains(condition)))
}

/// Whether both ask for lists of one value, and DataFusion would keep of one list only some values: if none is left, nothing is NULL any more.
fn are_intersected(left: &Expr, op: Operator, right: &Expr) -> bool {
    let (Some((left, no_left)), Some((right, no_right))) = (list(left), list(right)) else { return false };
    let are_added = match op {
        Operator::And => no_left && no_right,
        _ => !no_left && !no_right,
    };
    left == right && !are_added
}

/// What is looked for in a list, and whether it must not be there.
fn list(expr: &Expr) -> Option<(&Expr, bool)> {
    match expr {
        Expr::InList(InList { expr, negated, .. }) => Some((expr.as_ref(), *negated)),
        Expr::Not(inner) => list(inner).map(|(expr, negated)| (expr, !negated)),
        _ => None,
    }
}

/// The conditions of a chain of AND, and those of the branches of each CASE in it.
fn within(expr: &Expr) -> Vec<Cow<'_, Expr>> {
    let mut found = Vec::new();
    for part in parts(expr, Operator::And) {
        match part {
            Expr::Case(Case { expr: None, when_then_expr, else_expr }) => {
                let branches = when_then_expr.iter().flat_map(|(when, then)| [when, then]);
                found.extend(branches.chain(else_expr).flat_map(|branch| within(branch)));
            }
            part => found.extend(conditions(part, Operator::And)),
        }
    }
    found
}

/// The conditions of a chain of AND or of OR, in order.
fn conditions(expr: &Expr, op: Operator) -> Vec<Cow<'_, Expr>> {
    let mut conditions = Vec::new();
    for part in parts(expr, op) {
        match part {
            // DataFusion makes two conditions of it.
            Expr::Between(Between { expr, negated: false, low, high }) if op == Operator::And => {
                conditions.push(Cow::Owned(compared(expr, Operator::GtEq, low)));
                conditions.push(Cow::Owned(compared(expr, Operator::LtEq, high)));
            }
            part => conditions.push(Cow::Borrowed(part)),
        }
    }
    conditions
}

fn compared(expr: &Expr, op: Operator, bound: &Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(expr.clone()), op, Box::new(bound.clone())))
}

/// What a chain of one operator combines, in order.
fn parts(expr: &Expr, op: Operator) -> Vec<&Expr> {
    let (mut parts, mut open) = (Vec::new(), vec![expr]);
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: own, right }) if *own == op => {
                open.push(right.as_ref());
                open.push(left.as_ref());
            }
            part => parts.push(part),
        }
    }
    parts
}
