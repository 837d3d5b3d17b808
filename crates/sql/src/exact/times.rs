//! Times of two units where they are compared.
//!
//! Owns that all digits of times that are compared count, and that every time has a place in the order. Does not own which casts the text has (`written`), nor how digits are cut off
//! (`crate::coarser`).
//!
//! DataFusion makes the coarser of two times a finer one. Beside a constant it then leaves that cast out and cuts off the constant's digits instead: `t < '10:00:00.5'` would be false of
//! 10:00:00. And a time that the finer unit cannot have would have no value, though it is before or after all of those that it can.

use arrow_schema::DataType;
use datafusion_common::DFSchema;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::expr::InList;
use datafusion_expr::{Between, BinaryExpr, Expr, ExprSchemable};

use super::casts::is_written;
use super::is_comparison;
use super::written::saturating;
use crate::coarser::is_finer;
use crate::fault::reworded;

/// Puts casts of ours in the place of those that were inserted where times are compared.
pub(crate) fn compare_times(expr: Expr, schema: &DFSchema) -> Result<Expr, String> {
    let side = |side: Box<Expr>| Box::new(of_every_time(*side, schema));
    let compared = expr.transform_up(|node| {
        Ok(match node {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(side(left), op, side(right))))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                Transformed::yes(Expr::Between(Between::new(side(expr), negated, side(low), side(high))))
            }
            Expr::InList(InList { expr, list, negated }) => {
                Transformed::yes(Expr::InList(InList::new(side(expr), list, negated)))
            }
            other => Transformed::no(other),
        })
    });
    compared.map(|compared| compared.data).map_err(|error| reworded(&error))
}

fn of_every_time(expr: Expr, schema: &DFSchema) -> Expr {
    let to = match &expr {
        Expr::Cast(cast) if !is_written(&cast.field) => cast.field.data_type().clone(),
        _ => return expr,
    };
    match expr {
        Expr::Cast(cast) if is_coarser(&cast.expr, &to, schema) => saturating(*cast.expr, to),
        other => other,
    }
}

fn is_coarser(expr: &Expr, to: &DataType, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|from| is_finer(&from, to))
}
