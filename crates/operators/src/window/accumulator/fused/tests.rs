use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float32Array, Float64Array};
use dataflow::{Column as SchemaColumn, Schema};
use proptest::prelude::*;

use super::*;
use crate::window::accumulator::{Accumulator, counting, new};
use crate::window::aggregate::Aggregate;

const FUNCTIONS: [Function; 4] = [Function::Avg, Function::Max, Function::Sum, Function::Min];

fn schema() -> Schema {
    Schema::new(vec![
        SchemaColumn::new("a", ColumnType::Float64),
        SchemaColumn::new("b", ColumnType::Float32),
        SchemaColumn::new("n", ColumnType::Nullable(Box::new(ColumnType::Float64))),
        SchemaColumn::new("i", ColumnType::Int64),
    ])
}

fn bound(function: Function, column: &str) -> Bound {
    Bound::new(&schema(), &Aggregate::new("x", function, Some(column))).expect("it takes the column")
}

fn batch(values: &[(u32, f64)]) -> RecordBatch {
    let a: ArrayRef = Arc::new(Float64Array::from_iter_values(values.iter().map(|(_, value)| *value)));
    let b: ArrayRef = Arc::new(Float32Array::from_iter_values(values.iter().map(|(_, value)| *value as f32)));
    RecordBatch::try_from_iter([("a", a), ("b", b)]).expect("columns of one length")
}

/// What both ways keep of the same aggregates.
struct Both {
    fused: Fused,
    others: Vec<Box<dyn Accumulator>>,
}

impl Both {
    fn new(aggregates: &[Bound], groups: usize) -> Self {
        let mut fused = Fused::new(aggregates.iter()).expect("some");
        let mut others: Vec<_> = aggregates.iter().filter_map(new).collect();
        fused.grow(groups);
        others.iter_mut().for_each(|other| other.grow(groups));
        Self { fused, others }
    }

    fn update(&mut self, aggregates: &[Bound], values: &[(u32, f64)]) {
        let batch = batch(values);
        let rows: Vec<u32> = (0..values.len() as u32).collect();
        let groups: Vec<u32> = values.iter().map(|(group, _)| *group).collect();
        let of = Rows { rows: &rows, groups: &groups, times_ms: &vec![0; values.len()] };
        self.fused.update(&batch, of).expect("columns without nulls");
        for (other, bound) in self.others.iter_mut().zip(aggregates) {
            counting::update(other.as_mut(), &batch, bound, of).expect("a batch of the schema");
        }
    }

    fn merge(&mut self, later: &Self, moves: &[(u32, u32)]) {
        self.fused.merge(&later.fused, moves);
        for (own, later) in self.others.iter_mut().zip(&later.others) {
            own.merge(later.as_ref(), moves);
        }
    }

    /// The bits of all results of both, for the groups that have values.
    fn results(&self, aggregates: &[Bound], groups: &[usize]) -> [Vec<Vec<u64>>; 2] {
        let bits = |column: ArrayRef| {
            let column = arrow_cast::cast(&column, &arrow_schema::DataType::Float64).expect("a float");
            let column = column.as_primitive::<Float64Type>();
            // Which NaN a sum of two is depends on how the processor is told to add them.
            let bits = |value: f64| if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
            groups.iter().map(|group| bits(column.value(*group))).collect()
        };
        let fused = aggregates.iter().map(|bound| bits(self.fused.column(bound))).collect();
        let others = self.others.iter().zip(aggregates).map(|(other, bound)| bits(other.column(bound).0));
        [fused, others.collect()]
    }
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => -100.0..100.0_f64,
        1 => prop_oneof![Just(0.0), Just(-0.0), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
        1 => prop_oneof![Just(f64::NAN), Just(-f64::NAN)],
    ]
}

proptest! {
    /// The others keep each aggregate by itself, and are what windows had before.
    #[test]
    fn results_are_those_of_each_aggregate_by_itself(
        parts in prop::collection::vec(prop::collection::vec((0..5_u32, value()), 0..20), 1..6),
        chosen in prop::collection::vec((0..4_usize, any::<bool>()), 1..8),
    ) {
        let name = |is_a: bool| if is_a { "a" } else { "b" };
        let aggregates: Vec<Bound> =
            chosen.iter().map(|(function, is_a)| bound(FUNCTIONS[*function], name(*is_a))).collect();
        let mut all = Both::new(&aggregates, 5);
        // Groups have other numbers in each part.
        for (shift, part) in (0..).zip(&parts) {
            let moved: Vec<(u32, f64)> =
                part.iter().map(|(group, value)| ((group + shift) % 5, *value)).collect();
            let mut later = Both::new(&aggregates, 5);
            later.update(&aggregates, &moved);
            let moves: Vec<(u32, u32)> = (0..5).map(|group| ((group + shift) % 5, group)).collect();
            all.merge(&later, &moves);
        }
        let has_value = |group: &usize| parts.iter().flatten().any(|(of, _)| *of as usize == *group);
        let groups: Vec<usize> = (0..5).filter(has_value).collect();
        let [fused, others] = all.results(&aggregates, &groups);
        prop_assert_eq!(fused, others);
    }
}

#[test]
fn only_floats_that_always_have_a_value_are_kept_here() {
    assert!(FUNCTIONS.into_iter().all(|function| is_fused(&bound(function, "a"))));
    assert!(is_fused(&bound(Function::Min, "b")));
    for (function, column) in
        [(Function::Sum, "i"), (Function::Sum, "n"), (Function::Any, "a"), (Function::Count, "a")]
    {
        assert!(!is_fused(&bound(function, column)), "{function:?} of {column}");
    }
    let mut conditional = bound(Function::Sum, "a");
    conditional.aggregate.condition = Some("c".to_owned());
    let mut distinct = bound(Function::Sum, "a");
    distinct.aggregate.distinct = true;
    assert!(!is_fused(&conditional) && !is_fused(&distinct));
}

#[test]
fn a_column_is_kept_once_however_much_is_asked_of_it() {
    let of = |functions: &[Function]| {
        let aggregates: Vec<Bound> = functions.iter().map(|function| bound(*function, "a")).collect();
        Fused::new(aggregates.iter()).expect("some").lanes
    };
    assert_eq!(of(&FUNCTIONS), [Lane::Count, Lane::Sum, Lane::Min, Lane::Max]);
    assert_eq!(of(&[Function::Max, Function::Sum, Function::Sum]), [Lane::Sum, Lane::Max]);
    assert!(Fused::new([].into_iter()).is_none());
}

#[test]
fn a_null_where_none_may_be_is_said() {
    let mut fused = Fused::new([bound(Function::Sum, "a")].iter()).expect("some");
    fused.grow(1);
    let column: ArrayRef = Arc::new(Float64Array::from(vec![None, Some(1.0)]));
    let batch = RecordBatch::try_from_iter([("a", column)]).expect("a column");
    let of = Rows { rows: &[0, 1], groups: &[0, 0], times_ms: &[0, 0] };
    assert!(fused.update(&batch, of).expect_err("a null").contains("without nulls"));
}
