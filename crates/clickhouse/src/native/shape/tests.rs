use std::sync::Arc;

use arrow_array::{RecordBatch, StringArray, UInt64Array};
use dataflow::{Column, ColumnType, FrameId, Schema};

use super::*;
use crate::compress::{Compressor, Method};
use crate::native::{BlockPlan, Rows};

fn frame() -> Vec<u8> {
    let schema = Schema::new(vec![
        Column::new("id", ColumnType::UInt64),
        Column::new(
            "name",
            ColumnType::LowCardinality(Box::new(ColumnType::Nullable(Box::new(ColumnType::String)))),
        ),
    ]);
    let ids = Arc::new(UInt64Array::from(vec![1, 2, 3]));
    let names = Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]));
    let rows = RecordBatch::try_new(schema.arrow().clone(), vec![ids, names]).expect("rows of the schema");
    let plan = BlockPlan::new(&schema, Some("_forebay"));
    let block = plan.encode(&[rows], Rows::All, FrameId(7), &mut |_| {}).expect("a block");
    let mut compressor = Compressor::new(Method::Lz4);
    compressor.push(&block);
    compressor.finish()
}

#[test]
fn a_frame_tells_its_shape_without_its_table() {
    let shape = of_frame(&frame()).expect("a frame");
    assert_eq!(shape.rows, 3);
    let columns: Vec<&str> = shape.columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(columns, ["id", "name", "_forebay"]);
    assert_eq!(shape.columns[1].1, "Nullable(String)");
}

#[test]
fn no_flipped_bit_and_no_missing_byte_passes_for_a_frame_of_other_rows() {
    let whole = frame();
    for at in 0..whole.len() {
        let mut bent = whole.clone();
        bent[at] ^= 0x10;
        assert!(of_frame(&bent).is_err(), "byte {at}");
        assert!(of_frame(&whole[..at]).is_err(), "cut at {at}");
    }
}
