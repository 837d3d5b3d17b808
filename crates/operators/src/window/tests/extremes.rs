//! Values at the ends of their types: a result that does not fit is rejected, and never another number.

use super::*;

fn decimals(values: &[i128], heats: &[f64]) -> Batch {
    let wide = Decimal128Array::from_iter_values(values.iter().copied()).with_precision_and_scale(38, 0);
    let heats: ArrayRef = Arc::new(Float64Array::from_iter_values(heats.iter().copied()));
    let columns = vec![Arc::new(wide.unwrap()) as ArrayRef, heats];
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(decimal_schema().arrow().clone(), columns).unwrap(),
        positions: (0..values.len() as u64).collect(),
        times_ms: vec![10; values.len()],
    }
}

fn decimal_schema() -> Schema {
    Schema::new(vec![
        Column::new("amount", ColumnType::Decimal { precision: 38, scale: 0 }),
        Column::new("heat", ColumnType::Float64),
    ])
}

fn of(function: Function, column: &str) -> Window {
    let aggregates = vec![aggregate("x", function, column)];
    let config = WindowConfig { key: Vec::new(), aggregates, ..config(0) };
    Window::new(&decimal_schema(), &config).unwrap()
}

/// What the only window gives for these batches, each sealed by itself.
fn result(mut step: Window, batches: &[Batch]) -> Output {
    for batch in batches {
        put(&mut step, batch.clone());
        step.seal(0);
    }
    let (mut outputs, _) = cut(&mut step, SIZE);
    assert_eq!(outputs.len(), 1);
    outputs.remove(0)
}

const NINES: i128 = 9 * 10_i128.pow(37);

#[test]
fn an_average_whose_sum_does_not_fit_is_rejected() {
    for sign in [1, -1] {
        let out = result(of(Function::Avg, "amount"), &[decimals(&[sign * NINES, sign * NINES], &[0.0; 2])]);
        assert_eq!((out.rejects.len(), out.batch.len()), (1, 0), "{sign}");
    }
    let out = result(of(Function::Avg, "amount"), &[decimals(&[NINES], &[0.0])]);
    assert_eq!(out.rejects.len(), 0);
}

#[test]
fn a_sum_that_is_lost_stays_lost_whatever_is_added() {
    let batches = [decimals(&[-NINES], &[0.0]), decimals(&[NINES, NINES], &[0.0; 2])];
    let out = result(of(Function::Sum, "amount"), &batches);
    assert_eq!((out.rejects.len(), out.batch.len()), (1, 0));
}

#[test]
fn nan_is_above_all_numbers_whatever_its_sign() {
    for nan in [f64::NAN, -f64::NAN] {
        for heats in [[nan, 1.0], [1.0, nan]] {
            let split: Vec<Batch> = heats.iter().map(|heat| decimals(&[1], &[*heat])).collect();
            for batches in [vec![decimals(&[1, 1], &heats)], split] {
                let x = |function| {
                    let out = result(of(function, "heat"), &batches);
                    out.batch.rows.column_by_name("x").unwrap().as_primitive::<Float64Type>().value(0)
                };
                assert_eq!(x(Function::Min), 1.0, "{heats:?}");
                assert!(x(Function::Max).is_nan(), "{heats:?}");
            }
        }
    }
}

#[test]
fn the_body_of_a_rejected_result_is_json_whatever_its_key_is() {
    let rows = [(Some("a\n\"b\\\u{1}"), Some(i64::MAX), 0.0, 10), (Some("a\n\"b\\\u{1}"), Some(1), 0.0, 11)];
    let mut step = window(0);
    put(&mut step, batch(&rows));
    let (outputs, _) = cut(&mut step, SIZE);
    let raw = String::from_utf8(outputs[0].rejects[0].raw.clone()).unwrap();
    assert!(raw.starts_with(r#"{"device":"a\u000a\"b\\\u0001","window_start":"#), "{raw}");
}

#[test]
fn no_time_is_so_late_that_the_end_of_its_window_or_session_has_no_number() {
    use super::emits::emit;
    use super::model::ms;
    let session = Windows::Session { gap: ms(1_000), max: ms(1_000) };
    let growing = Windows::Cumulative { size: ms(1_000), step: ms(500) };
    let sliding = Windows::Hopping { size: ms(1_000), slide: ms(500) };
    let all = [(session, None), (growing, emit(Some(100), true)), (sliding, emit(Some(100), true))];
    for (windows, emit) in all {
        let mut step = Window::new(&schema(), &WindowConfig { windows, emit, ..config(0) }).unwrap();
        // The last windows that there can be, and seals of times before, within and behind them.
        for before in (0..4_000_i64).step_by(100) {
            let last = i64::MAX - before;
            put(&mut step, batch(&[(Some("a"), Some(1), 0.0, last), (Some("a"), Some(2), 0.0, last - 50)]));
            assert!(!step.is_due(0), "{windows:?}, {before}");
            cut(&mut step, 0);
        }
        for after in [5_000_i64, 1_000, 500, 1, 0] {
            cut(&mut step, i64::MAX - after);
        }
        assert_eq!(step.held(), 0, "{windows:?}");
    }
}

#[test]
fn results_of_more_text_than_a_column_holds_come_in_several_batches() {
    let device =
        |n: i64| -> &'static str { Box::leak(format!("{n:02}{}", "x".repeat(1 << 20)).into_boxed_str()) };
    let rows: Vec<Row> = (0..40).map(|n| (Some(device(n)), Some(n), 0.5, 10)).collect();
    let mut step = window(0);
    put(&mut step, batch(&rows));
    let (outputs, _) = cut(&mut step, SIZE);
    // In tests a batch is made of 16 MiB at the most.
    assert!(outputs.iter().all(|output| output.batch.len() < 16), "{} batches", outputs.len());
    let totals = outputs.iter().flat_map(|output| {
        let totals = output.batch.rows.column_by_name("total").unwrap();
        totals.as_primitive::<Int64Type>().values().to_vec()
    });
    assert_eq!(totals.collect::<Vec<_>>(), (0..40_i64).collect::<Vec<_>>());
    assert_eq!(outputs.iter().map(|output| output.released).sum::<u64>(), 40);
    assert_eq!(step.held(), 0);
}
