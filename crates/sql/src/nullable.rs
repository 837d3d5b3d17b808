//! Which results can be NULL.
//!
//! Owns the functions of which it is known that they have a value for all arguments that are not NULL; DataFusion says of most only that
//! they may be NULL, and then a column without NULL could not be filled with `lower(host)`. Were one here by mistake, a record that it
//! gives NULL for would be rejected, so nothing wrong would be written. Does not own whether a column of the input may be NULL (its
//! schema), nor which functions there are (`sql::names`).

use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::expr::InList;
use datafusion_expr::{Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Like};

use crate::{exact, functions};

/// DataFusion's functions that are NULL only for a NULL argument.
const TOTAL: &[&str] = &[
    "abs",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_length",
    "array_to_string",
    "ascii",
    "bit_length",
    "btrim",
    "cardinality",
    "ceil",
    "character_length",
    "chr",
    "contains",
    "date_bin",
    "date_part",
    "date_trunc",
    "decode",
    "digest",
    "encode",
    "ends_with",
    "exp",
    "floor",
    "from_unixtime",
    "gcd",
    "initcap",
    "lcm",
    "left",
    "levenshtein",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "lpad",
    "ltrim",
    "make_date",
    "md5",
    "octet_length",
    "power",
    "regexp_count",
    "regexp_like",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "rpad",
    "rtrim",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "signum",
    "split_part",
    "sqrt",
    "starts_with",
    "strpos",
    "substr",
    "to_date",
    "to_hex",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
    "translate",
    "trunc",
    "upper",
];

/// Functions that leave NULL arguments out.
const NEVER: &[&str] = &["concat", "named_struct", "struct", "make_array"];

/// Whether a record can make the expression NULL.
pub(crate) fn may_be_null(expr: &Expr, schema: &DFSchema) -> Result<bool, DataFusionError> {
    let any = |exprs: &[&Expr]| {
        for expr in exprs {
            if may_be_null(expr, schema)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    match expr {
        Expr::Alias(alias) => may_be_null(&alias.expr, schema),
        Expr::Cast(Cast { expr, .. }) | Expr::Not(expr) | Expr::Negative(expr) => may_be_null(expr, schema),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            use datafusion_expr::Operator::{IsDistinctFrom, IsNotDistinctFrom};
            Ok(!matches!(op, IsDistinctFrom | IsNotDistinctFrom) && any(&[left, right])?)
        }
        Expr::Like(Like { expr, pattern, .. }) | Expr::SimilarTo(Like { expr, pattern, .. }) => {
            any(&[expr, pattern])
        }
        Expr::Between(Between { expr, low, high, .. }) => any(&[expr, low, high]),
        Expr::InList(InList { expr, list, .. }) => {
            Ok(may_be_null(expr, schema)? || any(&list.iter().collect::<Vec<_>>())?)
        }
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let Some(otherwise) = else_expr else { return Ok(true) };
            let mut results: Vec<&Expr> = when_then_expr.iter().map(|(_, then)| &**then).collect();
            results.push(otherwise);
            // A branch is only NULL for records that reach it: what DataFusion knows of that counts too.
            Ok(any(&results)? && expr.nullable(schema)?)
        }
        Expr::ScalarFunction(call) => {
            let args: Vec<&Expr> = call.args.iter().collect();
            match call.name() {
                exact::CAST => any(&args),
                name if NEVER.contains(&name) => Ok(false),
                name if TOTAL.contains(&name) || is_ours_and_total(name) => any(&args),
                "coalesce" => {
                    for arg in args {
                        if !may_be_null(arg, schema)? {
                            return Ok(false);
                        }
                    }
                    Ok(true)
                }
                _ => expr.nullable(schema),
            }
        }
        other => other.nullable(schema),
    }
}

fn is_ours_and_total(name: &str) -> bool {
    functions::definitions().any(|definition| definition.name == name && definition.total)
}
