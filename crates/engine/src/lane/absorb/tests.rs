use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use dataflow::{BlockBuilder, Partition};

use super::*;

/// Records at every tenth position from 100 on, at times of their own.
fn block(records: u64) -> RecordBlock {
    let mut block = BlockBuilder::new(Partition::new("t", 0), 100);
    (0..records).for_each(|n| block.push(100 + 10 * n, 5_000 + n as i64, Some(b"{}")));
    block.take()
}

/// Rows of these records, without those in `dropped`.
fn selected(records: &[u64], dropped: &[usize]) -> (Vec<u64>, Selected) {
    let column: ArrayRef = Arc::new(UInt64Array::from(records.to_vec()));
    let rows = RecordBatch::try_from_iter([("n", column)]).unwrap();
    (records.iter().map(|n| 100 + 10 * n).collect(), Selected::without(rows, dropped))
}

#[test]
fn origins_are_those_of_the_rows_that_go_on() {
    let block = block(6);
    // Rows of every record, and of those that a decoder or a step before has left.
    let cases: [(&[u64], &[usize], &[u64]); 5] = [
        (&[0, 1, 2, 3, 4, 5], &[], &[0, 1, 2, 3, 4, 5]),
        (&[0, 1, 2, 3, 4, 5], &[2], &[0, 1, 3, 4, 5]),
        (&[0, 1, 2, 3, 4, 5], &[0, 5], &[1, 2, 3, 4]),
        (&[0, 2, 3, 5], &[], &[0, 2, 3, 5]),
        (&[0, 2, 3, 5], &[1], &[0, 3, 5]),
    ];
    for (records, dropped, left) in cases {
        let (positions, rows) = selected(records, dropped);
        let part = part(7, (positions, &[]), &rows, &block, false);
        let expected = Part {
            era: 0,
            partition: 7,
            positions: left.iter().map(|n| 100 + 10 * n).collect(),
            items: Vec::new(),
            times_ms: left.iter().map(|n| 5_000 + *n as i64).collect(),
        };
        assert_eq!(part, expected, "of {records:?} without rows {dropped:?}");
    }
}
