//! Casts that nobody wrote.
//!
//! Owns how they are told from those of the text, and which of them lose nothing. Does not own the types that constants adopt ([`super`]).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, DataFusionError, ScalarValue};
use datafusion_expr::{Cast, Expr, ExprSchemable, TryCast};

use super::{constant, texts};
use crate::coarser::fineness;
use crate::fault::{reworded, shown};
use crate::types::{name, with_null_items};

/// On the target of a cast: the user wrote it.
pub(super) const WRITTEN: &str = "forebay.written";

/// Marks the casts of the text, so that those inserted later can be told from them.
pub(crate) fn mark_written_casts(expr: Expr) -> Result<Expr, DataFusionError> {
    let mark = |field: &Field| {
        Arc::new(field.clone().with_metadata(HashMap::from([(WRITTEN.to_owned(), String::new())])))
    };
    let marked = expr.transform_up(|node| {
        Ok(match node {
            Expr::Cast(cast) => {
                let field = mark(&cast.field);
                Transformed::yes(Expr::Cast(Cast::new_from_field(cast.expr, field)))
            }
            Expr::TryCast(cast) => {
                // An item that does not fit becomes NULL, whatever is written.
                let written = cast.field.as_ref().clone();
                let data_type = with_null_items(written.data_type());
                let field = mark(&written.with_data_type(data_type));
                Transformed::yes(Expr::TryCast(TryCast::new_from_field(cast.expr, field)))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(marked.data)
}

/// Takes the marks away again.
pub(crate) fn unmark_written_casts(expr: Expr) -> Result<Expr, DataFusionError> {
    let unmarked = expr.transform_up(|node| {
        Ok(match node {
            Expr::Cast(cast) if is_written(&cast.field) => {
                Transformed::yes(Expr::Cast(Cast::new(cast.expr, cast.field.data_type().clone())))
            }
            Expr::TryCast(cast) if is_written(&cast.field) => {
                Transformed::yes(Expr::TryCast(TryCast::new(cast.expr, cast.field.data_type().clone())))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(unmarked.data)
}

pub(super) fn is_written(field: &Field) -> bool {
    field.metadata().contains_key(WRITTEN)
}

/// Refuses casts that DataFusion inserted and that can lose something.
pub(crate) fn refuse_lossy_casts(expr: &Expr, schema: &DFSchema) -> Result<(), String> {
    let mut fault = None;
    let walked = expr.apply(|node| {
        let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        if is_written(field) {
            return Ok(TreeNodeRecursion::Continue);
        }
        match inserted(expr, field.data_type(), schema) {
            Ok(()) => Ok(TreeNodeRecursion::Continue),
            Err(message) => {
                fault = Some(message);
                Ok(TreeNodeRecursion::Stop)
            }
        }
    });
    walked.map_err(|error| reworded(&error))?;
    fault.map_or(Ok(()), Err)
}

fn inserted(expr: &Expr, to: &DataType, schema: &DFSchema) -> Result<(), String> {
    if let Some(value) = constant(expr) {
        return constant_keeps(value, to);
    }
    // Within a function without a name the schema lacks the parameters.
    let Ok(from) = expr.get_type(schema) else { return Ok(()) };
    if lossless(&from, to) {
        return Ok(());
    }
    let shown = shown(expr);
    let (from, to) = (name(&from), name(to));
    Err(match (from.as_str(), to.as_str()) {
        ("bytes", "String") | ("String", "bytes") => {
            format!(
                "`{shown}` is {from}, and {to} is expected here; write `encode(…, 'hex')` to use bytes as text"
            )
        }
        _ => format!(
            "`{shown}` is `{from}` and would be converted to `{to}` here, which cannot hold every value; write `CAST({shown} AS {to})` to convert it anyway"
        ),
    })
}

fn constant_keeps(value: &ScalarValue, to: &DataType) -> Result<(), String> {
    let refused = || format!("`{value}` is not a valid `{}`; write a value of that type", name(to));
    let cast = value.cast_to(to).map_err(|_| refused())?;
    let from = value.data_type();
    if let Some(text) = value.try_as_str().flatten() {
        let exact = match to {
            DataType::Decimal128(p, s) => texts::decimal(text, *p, *s)?,
            DataType::Timestamp(unit, zone) => texts::instant(text, *unit, zone)?,
            DataType::Date32 => texts::date(text)?,
            _ => return Ok(()),
        };
        return if exact == cast { Ok(()) } else { Err(refused()) };
    }
    // The nearest Float is what a number with a point means.
    if from.is_null() || lossless(&from, to) || (from.is_numeric() && to.is_floating()) {
        return Ok(());
    }
    match cast.cast_to(&from) {
        Ok(again) if again == *value => Ok(()),
        _ => Err(refused()),
    }
}

/// Whether every value of `from` is one of `to`, or fails loudly (a time beyond a unit's range).
pub(super) fn lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    if from == to || from.is_null() {
        return true;
    }
    match (from, to) {
        (from, to) if from.is_integer() && to.is_integer() => integer_fits(from, to),
        (from, Float64) if from.is_integer() => digits_of_integer(from) <= 10,
        (from, Float32) if from.is_integer() => digits_of_integer(from) <= 5,
        (Float32 | Float16, Float64) | (Float16, Float32) => true,
        (from, Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s)) => {
            let (digits, scale) = match from {
                Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => {
                    (*p as i16 - *s as i16, *s)
                }
                integer if integer.is_integer() => (digits_of_integer(integer), 0),
                _ => return false,
            };
            scale <= *s && digits <= *p as i16 - *s as i16
        }
        (Timestamp(a, _), Timestamp(b, _)) => fineness(*a) <= fineness(*b),
        (Date32, Timestamp(..) | Date64 | Interval(_)) => true,
        (Interval(_) | Duration(_), Interval(_) | Duration(_)) => true,
        (integer, Interval(_) | Duration(_)) if integer.is_integer() => true,
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Utf8 | LargeUtf8 | Utf8View, Binary | LargeBinary | BinaryView) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (Dictionary(_, from), to) => lossless(from, to),
        // A text says the value in full.
        (from, Utf8 | LargeUtf8 | Utf8View) => {
            from.is_numeric() || from.is_temporal() || matches!(from, Boolean)
        }
        (
            List(a) | LargeList(a) | FixedSizeList(a, _) | ListView(a) | LargeListView(a),
            List(b) | LargeList(b) | FixedSizeList(b, _) | ListView(b) | LargeListView(b),
        ) => lossless(a.data_type(), b.data_type()),
        (Map(a, _), Map(b, _)) => lossless(a.data_type(), b.data_type()),
        (Struct(a), Struct(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| lossless(a.data_type(), b.data_type()))
        }
        _ => false,
    }
}

fn integer_fits(from: &DataType, to: &DataType) -> bool {
    let bits = |t: &DataType| t.primitive_width().unwrap_or(8) * 8;
    match (from.is_signed_integer(), to.is_signed_integer()) {
        (true, true) | (false, false) => bits(from) <= bits(to),
        (false, true) => bits(from) < bits(to),
        (true, false) => false,
    }
}

fn digits_of_integer(t: &DataType) -> i16 {
    match t {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        _ => 20,
    }
}
