//! A lane with a window whose key is an Array: seals, snapshots and files hold its bytes, and its results are in the table once.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, ListArray, RecordBatch};
use dataflow::{Batch, Column, ColumnType, Intake, Operator, OperatorError, Schema, Transform, Transformed};
use engine::Pipeline;
use operators::window::{Aggregate, Function, Windows};
use operators::{Window, WindowConfig};
use protocol::record::Absorbed;

use crate::run;
use crate::support::{Bench, Fault, Numbers, Process};
use crate::window::{KEYS, LAST, Pack, SIZE_MS, TINY, columns, results};

/// A second column: the key, an Array with as many items as the number of the key, every second one NULL.
struct Listed(Schema);

impl Transform for Listed {
    fn name(&self) -> &str {
        "listed"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let ids = batch.rows.column(0).clone();
        let items = |id: &u64| Some((0..id % KEYS).map(|n| (n % 2 == 0).then_some(n)).collect::<Vec<_>>());
        let keys = ids.as_primitive::<UInt64Type>().values().iter().map(items);
        let keys: ArrayRef = Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>(keys));
        let rows = RecordBatch::try_new(self.0.arrow().clone(), vec![ids, keys]).expect("two columns");
        Ok(Transformed::all(Batch { rows, ..batch }))
    }
}

/// Every seal writes all open windows to files.
fn keyed_by_arrays(bench: &Bench, drain: bool) -> Pipeline {
    let key = ColumnType::Array(Box::new(ColumnType::Nullable(Box::new(ColumnType::UInt64))));
    let listed = Schema::new(vec![Column::new("id", ColumnType::UInt64), Column::new("key", key)]);
    let config = WindowConfig {
        key: vec!["key".to_owned()],
        windows: Windows::Tumbling { size: Duration::from_millis(SIZE_MS) },
        lateness: Duration::ZERO,
        emit: None,
        aggregates: vec![
            Aggregate::new("n", Function::Count, None),
            Aggregate::new("total", Function::Sum, Some("id")),
        ],
    };
    let window = Window::new(&listed, &config).expect("a valid step").with_sizes(TINY);
    let (decoded, _) = columns();
    let intake = Intake::new(Arc::new(Numbers(decoded))).with_steps(vec![Arc::new(Listed(listed))]);
    let steps: Vec<Box<dyn Operator>> = vec![Box::new(window), Box::new(Pack)];
    let mut pipeline = Pipeline { steps, ..bench.pipeline(drain) };
    pipeline.inputs[0].intake = intake;
    pipeline
}

#[test]
fn results_of_windows_keyed_by_arrays_are_in_the_table_once_whatever_happens() {
    run(async {
        for seed in 0..6u64 {
            let mut bench = Bench::new();
            if seed % 2 == 0 {
                bench.settings.checkpoint_bytes_min = 1;
            }
            let faults = [Fault::LostAfter, Fault::LostBefore, Fault::TokenWithoutRows, Fault::Refused];
            for round in 0..6u64 {
                bench.push(round * 200..(round + 1) * 200);
                let fault = faults[((seed + round) % 4) as usize];
                bench.table.world.lock().expect("no panic").faults.push_back(fault);
                let life = Duration::from_millis((seed * 7 + round * 5) % 31);
                let _ = Process::start(keyed_by_arrays(&bench, false)).kill_after(life).await;
            }
            bench.push(LAST);
            Process::start(keyed_by_arrays(&bench, true)).ends().await.expect("drains");
            bench.assert_holds(results(0..1_200));
            let lane = bench.lane().await;
            assert_eq!(lane.absorbed, Absorbed { released: 1_200, held: 2, discarded: 0 }, "seed {seed}");
            assert_eq!((lane.counts.read, lane.counts.late), (1_202, 0), "seed {seed}");
        }
    });
}
