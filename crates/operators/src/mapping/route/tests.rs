use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use dataflow::{Partition, Reason, Schema, Transform};

use super::super::{Fill, Mapping};
use super::*;

fn nullable(inner: ColumnType) -> ColumnType {
    ColumnType::Nullable(Box::new(inner))
}

/// Rows of a number, a text and one condition.
fn batch(rows: &[(i64, Option<&str>, Option<bool>)]) -> (Schema, Batch) {
    let input = Schema::new(vec![
        Column::new("n", ColumnType::Int64),
        Column::new("s", nullable(ColumnType::String)),
        Column::new("where 0", nullable(ColumnType::Bool)),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(StringArray::from_iter(rows.iter().map(|row| row.1))),
        Arc::new(BooleanArray::from_iter(rows.iter().map(|row| row.2))),
    ];
    let batch = Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        positions: (10..10 + rows.len() as u64).collect(),
        times_ms: vec![0; rows.len()],
        rows: RecordBatch::try_new(input.arrow().clone(), columns).unwrap(),
    };
    (input, batch)
}

/// `small` takes rows by condition and has a narrow number; `texts` takes what `takes` says and needs a text.
fn mapping(input: &Schema, takes: Vec<Takes>) -> Mapping {
    let small = Column::new("small", ColumnType::UInt8);
    let text = Column::new("text", ColumnType::String);
    let fills = vec![
        Fill { table: "small".into(), tables: only(0), ..Fill::of(Some(0), &small) },
        Fill { table: "texts".into(), tables: only(1), ..Fill::of(Some(1), &text) },
    ];
    let lane = Schema::new(vec![
        Column::new("n", nullable(ColumnType::UInt8)),
        Column::new("s", nullable(ColumnType::String)),
        Routes::column("tables"),
    ]);
    Mapping::new(input, lane, fills, Some(Routes { takes, passes: None })).expect("a mapping")
}

#[test]
fn a_row_goes_to_every_table_that_takes_it() {
    let rows = [(1, Some("a"), Some(true)), (2, Some("b"), Some(false)), (3, Some("c"), None)];
    let sets = |takes: Vec<Takes>| {
        let (_, batch) = batch(&rows);
        let (batch, sets) = Routes { takes, passes: None }.sets(batch).unwrap();
        (batch.positions, sets)
    };
    assert_eq!(sets(vec![Takes::If(2), Takes::Every]), (vec![10, 11, 12], vec![3, 2, 2]));
    assert_eq!(sets(vec![Takes::If(2), Takes::Otherwise]), (vec![10, 11, 12], vec![1, 2, 2]));
    assert_eq!(sets(vec![Takes::If(2), Takes::If(2)]), (vec![10], vec![3]), "NULL is not true");
    let (_, batch) = batch(&rows);
    assert!(
        Routes { takes: vec![Takes::If(0)], passes: None }.sets(batch).is_err(),
        "a number is no condition"
    );
}

#[test]
fn a_value_that_does_not_fit_rejects_its_row_only_where_a_table_of_the_column_takes_it() {
    let rows = [
        (300, None, Some(true)),
        (300, Some("a"), Some(false)),
        (7, None, Some(true)),
        (7, None, Some(false)),
    ];
    let (input, batch) = batch(&rows);
    let made = mapping(&input, vec![Takes::If(2), Takes::Otherwise]).apply(batch).unwrap();
    let rejects: Vec<_> = made.rejects.iter().map(|r| (r.position, r.reason, r.message.as_str())).collect();
    assert_eq!(
        rejects,
        [
            (10, Reason::OutOfRange, "the value `300` does not fit column `small` of table `small` of type "),
            (
                13,
                Reason::Missing,
                "NULL does not fit column `text` of table `texts`, which has neither NULL nor a DEFAULT"
            ),
        ]
    );
    assert_eq!((made.batch.positions, made.filtered), (vec![11, 12], 0));
    assert_eq!(made.batch.rows.column(2), &(Arc::new(UInt32Array::from(vec![2, 1])) as ArrayRef));
}

#[test]
fn what_no_table_takes_is_filtered_whatever_its_values() {
    let (input, batch) = batch(&[(300, None, Some(false)), (7, Some("a"), Some(true)), (300, None, None)]);
    let made = mapping(&input, vec![Takes::If(2), Takes::If(2)]).apply(batch).unwrap();
    assert_eq!((made.batch.positions, made.filtered, made.rejects.len()), (vec![11], 2, 0));
}

#[test]
fn each_table_gets_its_own_columns_of_its_own_rows() {
    let rows = [(1, Some("a"), Some(true)), (2, Some("b"), Some(false)), (3, Some("c"), Some(true))];
    let (input, batch) = batch(&rows);
    let made = mapping(&input, vec![Takes::If(2), Takes::Every]).apply(batch).unwrap();
    // A step with state has dropped the last row.
    let left = Selected::without(made.batch.rows, &[2]);
    let router = ByTable { columns: vec![vec![0], vec![1, 0]], set: Some(2) };
    let parts = router.route(&left);
    let rows = |part: &Selected| part.stretches().iter().cloned().flatten().collect::<Vec<u32>>();
    let told: Vec<_> = parts.iter().map(|(at, p)| (*at, rows(p), p.batch().num_columns())).collect();
    assert_eq!(told, [(0, vec![0], 1), (1, vec![0, 1], 2)]);
    assert_eq!(parts[1].1.batch().column(0).as_string::<i32>().value(1), "b");
    let all = ByTable { columns: vec![vec![0], vec![1]], set: None }.route(&left);
    assert!(all.iter().all(|(_, part)| part.len() == 2), "without conditions every table takes every row");
}

#[test]
fn a_row_that_a_step_behind_drops_stays_for_its_key_and_goes_to_no_table() {
    // It has no value for a column that needs one.
    let (input, batch) = batch(&[(1, None, Some(false)), (2, Some("b"), Some(true))]);
    let text = Column::new("text", ColumnType::String);
    let lane = Schema::new(vec![Column::new("s", nullable(ColumnType::String)), Routes::column("tables")]);
    let routes = Routes { takes: vec![Takes::Every], passes: Some(2) };
    let fills = vec![Fill { tables: only(0), ..Fill::of(Some(1), &text) }];
    let mapping = Mapping::new(&input, lane, fills, Some(routes)).expect("a mapping");
    let made = mapping.apply(batch).unwrap();
    assert_eq!((made.batch.len(), made.filtered, made.rejects.len()), (2, 0, 0));
    let router = ByTable { columns: vec![vec![0]], set: Some(1) };
    let parts = router.route(&Selected::all(made.batch.rows));
    assert_eq!((parts[0].1.len(), parts[0].1.stretches()[0].start), (1, 1));
}
