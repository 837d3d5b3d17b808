//! What a function that panics costs.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array, RecordBatch};
use arrow_schema::DataType;
use datafusion_expr::{ColumnarValue, Expr, Volatility, create_udf};

use super::{Compiled, Evaluated, Program};
use crate::compile::Scope;
use crate::tests::types;

/// `seven(n)`: as `n`, but of 7 it panics.
fn seven(args: &[ColumnarValue]) -> Result<ColumnarValue, datafusion_common::DataFusionError> {
    let [ColumnarValue::Array(column)] = args else { return datafusion_common::exec_err!("no column") };
    assert!(!column.as_primitive::<Int64Type>().values().contains(&7), "no 7 please");
    Ok(args[0].clone())
}

fn evaluated(numbers: Vec<i64>) -> Evaluated {
    let input = types::schema("n Int64");
    let scope = Scope::new(&input, Vec::new()).expect("a scope");
    let function =
        create_udf("seven", vec![DataType::Int64], DataType::Int64, Volatility::Immutable, Arc::new(seven));
    let expr: Expr = function.call(vec![datafusion_expr::col("n")]);
    let compiled = Compiled { label: "x".to_owned(), expr, unnested: false };
    let program = Program::new(&input, &scope, vec![compiled]).expect("a program");
    let rows = RecordBatch::try_new(input.arrow().clone(), vec![Arc::new(Int64Array::from(numbers))]);
    program.evaluate(&rows.expect("a batch")).expect("columns")
}

#[test]
fn a_function_that_panics_fails_its_record_alone() {
    let done = evaluated((0..100).collect());
    assert_eq!(done.columns[0].len(), 99);
    let [failed] = done.failed.as_slice() else { panic!("{} failed", done.failed.len()) };
    assert_eq!((failed.row, failed.column.as_str()), (7, "x"));
    assert_eq!(
        failed.message,
        "`x` has no value: a function failed inside (no 7 please), please report this with the expression `seven(n)`, where `n` is `7`"
    );
}

#[test]
fn a_batch_of_records_that_all_panic_has_no_rows() {
    let done = evaluated(vec![7; 16]);
    assert_eq!((done.columns[0].len(), done.failed.len()), (0, 16));
}
