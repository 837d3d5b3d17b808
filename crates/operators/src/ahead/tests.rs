use arrow_array::Int64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use dataflow::{Partition, Reason, Reject};

use super::*;

/// Keeps rows above 1, fails on 5, and makes ten times the number.
struct Tenfold(Schema);

impl Transform for Tenfold {
    fn name(&self) -> &str {
        "tenfold"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let numbers = batch.rows.column(0).as_primitive::<Int64Type>().clone();
        let reject = |row: usize| Reject {
            item: None,
            partition: batch.partition.clone(),
            position: batch.position(row),
            time_ms: 0,
            reason: Reason::Expression,
            column: "n".into(),
            message: "five".into(),
            key: None,
            headers: Vec::new(),
            raw: Vec::new(),
        };
        let rejects = (0..batch.len()).filter(|row| numbers.value(*row) == 5).map(reject).collect();
        let keep: BooleanArray = numbers.values().iter().map(|n| Some(*n > 1 && *n != 5)).collect();
        let filtered = numbers.values().iter().filter(|n| **n <= 1).count() as u64;
        let kept = batch.filter(&keep).unwrap();
        let tens = Int64Array::from_iter_values(
            kept.rows.column(0).as_primitive::<Int64Type>().values().iter().map(|n| n * 10),
        );
        let rows = RecordBatch::try_new(self.0.arrow().clone(), vec![Arc::new(tens)]).unwrap();
        Ok(Transformed { batch: Batch { rows, ..kept }, filtered, rejects })
    }
}

fn run(numbers: &[i64]) -> Transformed {
    let input = Schema::new(vec![Column::new("n", ColumnType::Int64)]);
    let tenfold = Tenfold(Schema::new(vec![Column::new("n", ColumnType::Int64)]));
    let nullable = |column: &Column| Column {
        column_type: ColumnType::Nullable(Box::new(column.column_type.clone())),
        ..column.clone()
    };
    let segment =
        Segment { kept: vec![(0, "key".into())], steps: vec![Arc::new(tenfold)], flag: "passes".into() };
    apply(&Ahead::new(&input, vec![segment], nullable), numbers)
}

fn apply(ahead: &Ahead, numbers: &[i64]) -> Transformed {
    let input = Schema::new(vec![Column::new("n", ColumnType::Int64)]);
    let rows = RecordBatch::try_new(
        input.arrow().clone(),
        vec![Arc::new(Int64Array::from(numbers.to_vec())) as ArrayRef],
    );
    let positions = (100..100 + numbers.len() as u64).collect();
    let batch = Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: rows.unwrap(),
        positions,
        times_ms: vec![0; numbers.len()],
    };
    ahead.apply(batch).unwrap()
}

fn numbers(made: &Transformed, column: usize) -> Vec<Option<i64>> {
    made.batch.rows.column(column).as_primitive::<Int64Type>().iter().collect()
}

fn passes(made: &Transformed) -> Vec<Option<bool>> {
    made.batch.rows.column(2).as_boolean().iter().collect()
}

#[test]
fn rows_of_one_record_are_not_taken_for_each_other() {
    let input = Schema::new(vec![Column::new("n", ColumnType::Int64)]);
    let tenfold = Tenfold(Schema::new(vec![Column::new("n", ColumnType::Int64)]));
    let nullable = |column: &Column| Column {
        column_type: ColumnType::Nullable(Box::new(column.column_type.clone())),
        ..column.clone()
    };
    let kept = vec![(0, "key".into())];
    let segment = Segment { kept, steps: vec![Arc::new(tenfold)], flag: "passes".into() };
    let ahead = Ahead::new(&input, vec![segment], nullable);
    // One record with four rows, of which the step drops the first and fails on the third; and one with two.
    let numbers_in = Int64Array::from(vec![0, 3, 5, 7, 1, 4]);
    let batch = Batch {
        era: 9,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(input.arrow().clone(), vec![Arc::new(numbers_in) as ArrayRef]).unwrap(),
        positions: vec![100, 100, 100, 100, 101, 101],
        times_ms: vec![0; 6],
        items: vec![0, 1, 2, 5, 0, 1],
    };
    let made = ahead.apply(batch).unwrap();
    assert_eq!(made.batch.positions, [100, 100, 100, 101, 101]);
    assert_eq!(made.batch.items, [0, 1, 5, 0, 1]);
    assert_eq!(numbers(&made, 0), [None, Some(30), Some(70), None, Some(40)]);
    assert_eq!(numbers(&made, 1), [Some(0), Some(3), Some(7), Some(1), Some(4)]);
    assert_eq!(passes(&made), [false, true, true, false, true].map(Some));
    let rejects: Vec<_> = made.rejects.iter().map(|reject| (reject.position, reject.item)).collect();
    assert_eq!(rejects, [(position::position(9, 100), Some(2))]);
}

#[test]
fn a_row_that_is_dropped_goes_on_with_its_key_and_one_that_fails_does_not() {
    let made = run(&[3, 0, 5, 7]);
    assert_eq!(made.batch.positions, [100, 101, 103]);
    assert_eq!(numbers(&made, 0), [Some(30), None, Some(70)]);
    assert_eq!(numbers(&made, 1), [Some(3), Some(0), Some(7)], "the key is as it was before the steps");
    assert_eq!(passes(&made), [Some(true), Some(false), Some(true)]);
    assert_eq!((made.filtered, made.rejects.len(), made.rejects[0].position), (0, 1, 102));
}

#[test]
fn a_batch_of_which_every_row_passes_or_none_is_whole() {
    let made = run(&[3, 4]);
    assert_eq!((numbers(&made, 0), passes(&made)), (vec![Some(30), Some(40)], vec![Some(true); 2]));
    let made = run(&[0, 1]);
    assert_eq!((numbers(&made, 0), passes(&made)), (vec![None; 2], vec![Some(false); 2]));
    assert_eq!(run(&[5]).batch.len(), 0);
}

/// Keeps even numbers, fails on 40, and takes 1 away.
struct Even(Schema);

impl Transform for Even {
    fn name(&self) -> &str {
        "even"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let numbers = batch.rows.column(0).as_primitive::<Int64Type>().clone();
        let failed = |n: i64| n == 40;
        let reject = |row: usize| Reject {
            item: None,
            partition: batch.partition.clone(),
            position: batch.position(row),
            time_ms: 0,
            reason: Reason::Expression,
            column: "n".into(),
            message: "forty".into(),
            key: None,
            headers: Vec::new(),
            raw: Vec::new(),
        };
        let rejects = (0..batch.len()).filter(|row| failed(numbers.value(*row))).map(reject).collect();
        let keep: BooleanArray = numbers.values().iter().map(|n| Some(*n % 20 == 0 && !failed(*n))).collect();
        let filtered = numbers.values().iter().filter(|n| **n % 20 != 0).count() as u64;
        let kept = batch.filter(&keep).unwrap();
        let less = Int64Array::from_iter_values(
            kept.rows.column(0).as_primitive::<Int64Type>().values().iter().map(|n| n - 1),
        );
        let rows = RecordBatch::try_new(self.0.arrow().clone(), vec![Arc::new(less)]).unwrap();
        Ok(Transformed { batch: Batch { rows, ..kept }, filtered, rejects })
    }
}

#[test]
fn each_segment_keeps_the_keys_that_stand_before_it_and_says_whether_the_row_is_there_behind_it() {
    let of_n = || Schema::new(vec![Column::new("n", ColumnType::Int64)]);
    let nullable = |column: &Column| Column {
        column_type: ColumnType::Nullable(Box::new(column.column_type.clone())),
        ..column.clone()
    };
    let segment = |key: &str, step: Arc<dyn Transform>, flag: &str| Segment {
        kept: vec![(0, key.into())],
        steps: vec![step],
        flag: flag.into(),
    };
    let segments = vec![
        segment("first", Arc::new(Tenfold(of_n())), "tenfold"),
        segment("second", Arc::new(Even(of_n())), "even"),
    ];
    let ahead = Ahead::new(&of_n(), segments, nullable);
    let names: Vec<&str> = ahead.schema().columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["n", "first", "second", "tenfold", "even"]);
    // 5 fails in the first step and 4 in the second; the first drops 0, the second 3 and 7.
    let made = apply(&ahead, &[2, 0, 5, 3, 4, 7, 6]);
    assert_eq!(made.batch.positions, [100, 101, 103, 105, 106]);
    assert_eq!(numbers(&made, 0), [Some(19), None, None, None, Some(59)]);
    assert_eq!(numbers(&made, 1), [Some(2), Some(0), Some(3), Some(7), Some(6)]);
    assert_eq!(numbers(&made, 2), [Some(20), None, Some(30), Some(70), Some(60)]);
    let flags =
        |column: usize| made.batch.rows.column(column).as_boolean().iter().flatten().collect::<Vec<_>>();
    assert_eq!(flags(3), [true, false, true, true, true]);
    assert_eq!(flags(4), [true, false, false, false, true]);
    let failed: Vec<u128> = made.rejects.iter().map(|reject| reject.position).collect();
    assert_eq!((failed, made.filtered), (vec![102, 104], 0));
}
