use std::sync::Arc;

use arrow_array::{BooleanArray, StringArray};
use dataflow::{Column, ColumnType, Partition};

use super::*;

fn passed(flags: Vec<Option<bool>>) -> Output {
    let keys =
        StringArray::from_iter(flags.iter().map(|flag| flag.map(|flag| if flag { "in" } else { "out" })));
    let rows = RecordBatch::try_from_iter_with_nullable([
        ("flag", Arc::new(BooleanArray::from(flags)) as Arc<dyn Array>, true),
        ("`key`", Arc::new(keys) as _, true),
    ]);
    let rows = rows.expect("two columns");
    let len = rows.num_rows();
    let batch = Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows,
        positions: (0..len as u64).collect(),
        times_ms: (0..len as i64).collect(),
    };
    let schema = Schema::new(vec![Column::new("key", ColumnType::String)]);
    let mut gate = Gate::new(0, vec![1], schema);
    let probed = gate.probe(batch).expect("it reads nothing");
    gate.finish(probed, &[]).expect("the columns are there")
}

#[test]
fn rows_that_were_dropped_ahead_end_here_and_the_others_have_the_columns_of_the_next_step() {
    let output = passed(vec![Some(true), Some(false), None, Some(true)]);
    assert_eq!((output.batch.positions.clone(), output.filtered), (vec![0, 3], 2));
    assert_eq!((output.dropped.len(), output.batch.times_ms.clone()), (0, vec![0, 3]));
    let field = output.batch.rows.schema().field(0).clone();
    assert_eq!(
        (field.name().as_str(), field.is_nullable()),
        ("key", false),
        "no row without a value is left"
    );
}

#[test]
fn a_batch_of_which_every_row_passes_or_none_is_whole() {
    let output = passed(vec![Some(true); 3]);
    assert_eq!((output.batch.len(), output.filtered), (3, 0));
    let output = passed(vec![Some(false); 3]);
    assert_eq!((output.batch.len(), output.filtered), (0, 3));
}
