//! The least and the greatest of values of one sign: one of the values, and never what an accumulator began with.
//!
//! The published pipeline began its greatest value with the least *positive* number, so that groups of negative values had a result that no record had.
//! What is compared with keeps all rows, and takes the least and the greatest of those of each window by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use arrow_array::{Float32Array, Int8Array};
use proptest::prelude::*;

use super::model::{cumulative, hopping, ms, told};
use super::*;
use crate::window::{Clock, Emit};

/// A value of each column; its sign is that of the device.
#[derive(Clone, Copy, Debug)]
struct Reading {
    device: usize,
    time: i64,
    small: i8,
    whole: Option<i64>,
    warm: f32,
    heat: Option<f64>,
    price: Option<i128>,
}

/// One has negative values alone, one positive, and one both.
const DEVICES: [&str; 3] = ["negative", "positive", "both"];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Hopping(i64, i64),
    Cumulative(i64, i64),
    Sessions(i64, i64),
}

/// A reading some time after the one before.
fn reading() -> impl Strategy<Value = (Reading, i64)> {
    let smalls = prop::sample::select(vec![1, 3, i8::MAX]);
    let wholes = prop::option::of(prop::sample::select(vec![1, 7, i64::MAX]));
    let warms = prop::sample::select(vec![0.0, 0.25, 17.5, f32::MAX, f32::INFINITY, f32::NAN]);
    let heats = prop::option::of(prop::sample::select(vec![
        0.0,
        0.25,
        17.5,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ]));
    let prices = prop::option::of(prop::sample::select(vec![1, 250, 10_i128.pow(37)]));
    (0..3_usize, any::<bool>(), (smalls, wholes, warms, heats, prices), 0..150_i64).prop_map(
        |(device, coin, (small, whole, warm, heat, price), later)| {
            let is_negative = if device == 2 { coin } else { device == 0 };
            // Of integers the last below zero, too.
            let negative = |whole: i64| if whole == i64::MAX { i64::MIN } else { -whole };
            let reading = match is_negative {
                false => Reading { device, time: 0, small, whole, warm, heat, price },
                true => Reading {
                    device,
                    time: 0,
                    small: if small == i8::MAX { i8::MIN } else { -small },
                    whole: whole.map(negative),
                    warm: -warm,
                    heat: heat.map(|heat| -heat),
                    price: price.map(|price| -price),
                },
            };
            (reading, later)
        },
    )
}

fn columns() -> Schema {
    Schema::new(vec![
        Column::new("device", ColumnType::String),
        Column::new("small", ColumnType::Int8),
        Column::new("whole", nullable(ColumnType::Int64)),
        Column::new("warm", ColumnType::Float32),
        Column::new("heat", nullable(ColumnType::Float64)),
        Column::new("price", nullable(ColumnType::Decimal { precision: 38, scale: 0 })),
    ])
}

fn batch_of(readings: &[Reading]) -> Batch {
    let prices = readings.iter().map(|one| one.price).collect::<Decimal128Array>();
    let columns_of: Vec<ArrayRef> = vec![
        Arc::new(readings.iter().map(|one| Some(DEVICES[one.device])).collect::<StringArray>()),
        Arc::new(Int8Array::from_iter_values(readings.iter().map(|one| one.small))),
        Arc::new(readings.iter().map(|one| one.whole).collect::<Int64Array>()),
        Arc::new(Float32Array::from_iter_values(readings.iter().map(|one| one.warm))),
        Arc::new(readings.iter().map(|one| one.heat).collect::<Float64Array>()),
        Arc::new(prices.with_precision_and_scale(38, 0).unwrap()),
    ];
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(columns().arrow().clone(), columns_of).unwrap(),
        positions: (0..readings.len() as u64).collect(),
        times_ms: readings.iter().map(|one| one.time).collect(),
    }
}

fn settings(kind: Kind, early: Option<u64>) -> WindowConfig {
    let windows = match kind {
        Kind::Hopping(size, slide) if size == slide => Windows::Tumbling { size: ms(size as u64) },
        Kind::Hopping(size, slide) => Windows::Hopping { size: ms(size as u64), slide: ms(slide as u64) },
        Kind::Cumulative(size, step) => Windows::Cumulative { size: ms(size as u64), step: ms(step as u64) },
        Kind::Sessions(gap, max) => Windows::Session { gap: ms(gap as u64), max: ms(max as u64) },
    };
    let both = |column: &str| {
        [Function::Min, Function::Max]
            .map(|function| aggregate(&format!("{column}_{}", function.word()), function, column))
    };
    let emit = early.map(|early| Emit {
        early: Some(Duration::from_millis(early)),
        clock: Clock::EventTime,
        updates: true,
        version: Some("version".to_owned()),
        sign: None,
    });
    let aggregates = ["small", "whole", "warm", "heat", "price"].into_iter().flat_map(both).collect();
    WindowConfig { windows, emit, aggregates, ..config(0) }
}

/// The least and the greatest of what is not NULL, by an order.
fn ends<T: Copy>(
    values: impl Iterator<Item = T>,
    is_less: fn(T, T) -> bool,
    told: fn(T) -> String,
) -> [String; 2] {
    let values: Vec<T> = values.collect();
    let (mut least, mut greatest) = (values.first().copied(), values.first().copied());
    for value in values {
        least = least.filter(|least| !is_less(value, *least)).or(Some(value));
        greatest = greatest.filter(|greatest| !is_less(*greatest, value)).or(Some(value));
    }
    [least, greatest].map(|end| end.map_or_else(|| "-".to_owned(), told))
}

fn expected(readings: &[Reading]) -> Vec<String> {
    // NaN is above all numbers, whatever its sign.
    fn below(a: f64, b: f64) -> bool {
        !a.is_nan() && (b.is_nan() || a < b)
    }
    let float = |value: f64| format!("{value:?}");
    [
        ends(readings.iter().map(|one| one.small), |a, b| a < b, |value| value.to_string()),
        ends(readings.iter().filter_map(|one| one.whole), |a, b| a < b, |value| value.to_string()),
        ends(readings.iter().map(|one| f64::from(one.warm)), below, |value| format!("{:?}", value as f32)),
        ends(readings.iter().filter_map(|one| one.heat), below, float),
        ends(readings.iter().filter_map(|one| one.price), |a, b| a < b, |value| value.to_string()),
    ]
    .concat()
}

/// Both are the same number: as text, or as a float where it is one, since 0 and -0 are equal.
fn same(found: &str, wanted: &str) -> bool {
    let float = |text: &str| text.parse::<f64>().ok();
    let is_float = wanted.contains(['.', 'e', 'N', 'i']);
    found == wanted
        || (is_float
            && float(found).zip(float(wanted)).is_some_and(|(a, b)| a == b || (a.is_nan() && b.is_nan())))
}

type At = (i64, i64, Option<String>);

/// The readings of each window.
fn by_window(kind: Kind, readings: &[Reading]) -> BTreeMap<At, Vec<Reading>> {
    let mut windows = BTreeMap::<At, Vec<Reading>>::new();
    let mut put = |start, end, one: &Reading| {
        windows.entry((start, end, Some(DEVICES[one.device].to_owned()))).or_default().push(*one);
    };
    match kind {
        Kind::Hopping(size, slide) => readings.iter().for_each(|one| {
            hopping(one.time, size, slide).into_iter().for_each(|(start, end)| put(start, end, one));
        }),
        Kind::Cumulative(size, step) => readings.iter().for_each(|one| {
            cumulative(one.time, size, step).into_iter().for_each(|(start, end)| put(start, end, one));
        }),
        Kind::Sessions(gap, max) => {
            for device in 0..DEVICES.len() {
                let own: Vec<Reading> = readings.iter().filter(|one| one.device == device).copied().collect();
                let joins = |a: &Reading, b: &Reading| b.time - a.time < gap && a.time / max == b.time / max;
                for session in own.chunk_by(joins) {
                    let (first, last) = (session[0].time, session[session.len() - 1].time);
                    let end = (last + gap).min(last / max * max + max);
                    session.iter().for_each(|one| put(first, end, one));
                }
            }
        }
    }
    windows
}

fn kinds() -> impl Strategy<Value = (Kind, Option<u64>)> {
    let early = prop_oneof![Just(None), Just(Some(100)), Just(Some(400))];
    prop_oneof![
        Just(Kind::Hopping(1_000, 1_000)),
        Just(Kind::Hopping(1_000, 250)),
        Just(Kind::Hopping(900, 600)),
        Just(Kind::Cumulative(1_000, 250)),
        Just(Kind::Sessions(200, 2_000)),
    ]
    .prop_flat_map(move |kind| {
        // Sessions have no early results.
        let early = match kind {
            Kind::Sessions(..) => Just(None).boxed(),
            _ => early.clone().boxed(),
        };
        (Just(kind), early)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_least_and_the_greatest_are_values_of_the_group_whatever_their_sign(
        (kind, early) in kinds(),
        batches in prop::collection::vec((prop::collection::vec(reading(), 1..12), any::<bool>(), any::<bool>()), 1..20),
    ) {
        let config = settings(kind, early);
        let new = || Window::new(&columns(), &config).unwrap();
        let (mut step, mut readings, mut time) = (new(), Vec::<Reading>::new(), 0);
        let (mut seen, mut watermark) = (BTreeSet::<At>::new(), 0);
        // The last one closes all.
        for (readings_of, is_sealed, is_started_anew) in batches.into_iter().chain([(Vec::new(), true, false)]) {
            let is_last = readings_of.is_empty();
            let mut batch = Vec::new();
            for (mut reading, later) in readings_of {
                time += later;
                reading.time = time;
                batch.push(reading);
            }
            if !is_last {
                prop_assert_eq!(put(&mut step, batch_of(&batch)).late, 0);
            }
            readings.extend(batch);
            if !is_sealed {
                continue;
            }
            watermark = if is_last { time + 100_000 } else { time };
            let (outputs, _) = cut(&mut step, watermark);
            let windows = by_window(kind, &readings);
            for (at, mut found) in told(&outputs) {
                if early.is_some() {
                    found.pop();
                }
                let wanted = windows.get(&at).map(|of| expected(of));
                prop_assert!(wanted.is_some(), "{:?} is no window of the readings", at);
                let wanted = wanted.unwrap();
                let is_right = found.len() == wanted.len() && found.iter().zip(&wanted).all(|(a, b)| same(a, b));
                prop_assert!(is_right, "{:?}: {:?}, wanted {:?}", at, found, wanted);
                seen.insert(at);
            }
            if is_started_anew {
                let snapshot = step.snapshot();
                step = new();
                step.restore(&snapshot).unwrap();
            }
        }
        prop_assert!(watermark > 0);
        prop_assert_eq!(seen, by_window(kind, &readings).into_keys().collect::<BTreeSet<_>>());
    }
}
