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
            partition: batch.partition.clone(),
            position: batch.positions[row],
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
    let ahead = Ahead::new(&input, vec![Arc::new(tenfold)], nullable, vec![(0, "key".into())], "passes");
    let rows = RecordBatch::try_new(
        input.arrow().clone(),
        vec![Arc::new(Int64Array::from(numbers.to_vec())) as ArrayRef],
    );
    let positions = (100..100 + numbers.len() as u64).collect();
    let batch = Batch {
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
