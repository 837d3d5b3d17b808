//! CASE of conditions.
//!
//! Owns that a later branch is evaluated only where no earlier one is taken. Does not own what the branches are.
//!
//! DataFusion makes AND and OR of a CASE whose results are true and false, and asks the condition of a later branch before it asks whether an earlier one is taken. With one
//! branch there is no later one, so each further branch becomes the ELSE of the one before.

use arrow_schema::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::{BinaryExpr, Case, Expr, ExprSchemable, Operator};

use crate::fault::reworded;

/// Branches that are put into each other at the most: each makes the expression deeper.
const NESTED_MAX: usize = 8;

/// Puts the branches of a CASE of conditions into each other, and the later ones of a CASE that is compared into the first.
pub(crate) fn nest_branches(expr: Expr, schema: &DFSchema) -> Result<Expr, String> {
    let nested = expr.transform_up(|node| {
        Ok(match node {
            Expr::Case(case) if would_be_reordered(&case, schema) => Transformed::yes(nested(case)),
            // DataFusion compares each constant result by itself, and then it is a CASE of conditions.
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::NotEq), right }) => {
                let left = Box::new(first_apart(*left));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, op, right)))
            }
            Expr::InList(InList { expr, list, negated }) => {
                Transformed::yes(Expr::InList(InList::new(Box::new(first_apart(*expr)), list, negated)))
            }
            other => Transformed::no(other),
        })
    });
    nested.map(|nested| nested.data).map_err(|error| reworded(&error))
}

/// Each branch but the first as the ELSE of the one before.
fn nested(case: Case) -> Expr {
    let within = |otherwise, branch| Some(Box::new(Expr::Case(Case::new(None, vec![branch], otherwise))));
    let nested = case.when_then_expr.into_iter().rev().fold(case.else_expr, within);
    nested.map_or(Expr::Literal(ScalarValue::Boolean(None), None), |nested| *nested)
}

/// The other branches as the ELSE of the first: then not all results are constants.
fn first_apart(expr: Expr) -> Expr {
    match expr {
        Expr::Case(Case { expr: None, mut when_then_expr, else_expr }) if when_then_expr.len() > 1 => {
            let rest = Expr::Case(Case::new(None, when_then_expr.split_off(1), else_expr));
            Expr::Case(Case::new(None, when_then_expr, Some(Box::new(rest))))
        }
        other => other,
    }
}

fn would_be_reordered(case: &Case, schema: &DFSchema) -> bool {
    let Case { expr: None, when_then_expr: branches, .. } = case else { return false };
    let Some((_, first)) = branches.first() else { return false };
    let are_constants =
        || branches.iter().all(|(_, then)| matches!(**then, Expr::Literal(ScalarValue::Boolean(_), _)));
    let has_few = branches.len() == 2 || (3..=NESTED_MAX).contains(&branches.len()) && are_constants();
    has_few && first.get_type(schema).is_ok_and(|of_type| of_type == DataType::Boolean)
}
