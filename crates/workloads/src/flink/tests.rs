use std::collections::BTreeMap;

use proptest::prelude::*;
use xxhash_rust::xxh64::xxh64;

use super::*;
use crate::content::Content;

fn small(seed: u64) -> Spec {
    Spec { seed, sensors: 50, window_ms: 1_000, windows: 4, readings: 30, disorder_ms: 40, ..Spec::default() }
}

fn workload(spec: Spec) -> Workload {
    Workload::new(spec).expect("valid")
}

/// A record as somebody reads it who knows Avro and not this module.
#[derive(Debug, PartialEq)]
struct Read {
    whole: [i64; 4],
    metrics: [f64; 4],
}

fn read(mut bytes: &[u8]) -> Read {
    let long = |bytes: &mut &[u8]| {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let (byte, rest) = bytes.split_first().expect("a byte more");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                let half = i64::try_from(value / 2).expect("63 bits");
                return if value % 2 == 0 { half } else { -half - 1 };
            }
        }
    };
    let (sensor, kind) = (long(&mut bytes), long(&mut bytes));
    let metrics = [0; 4].map(|_| {
        let (number, rest) = bytes.split_first_chunk::<8>().expect("eight bytes more");
        bytes = rest;
        f64::from_le_bytes(*number)
    });
    let (status, time) = (long(&mut bytes), long(&mut bytes));
    assert!(bytes.is_empty(), "nothing is left");
    Read { whole: [sensor, kind, status, time], metrics }
}

fn records(workload: &Workload) -> Vec<Read> {
    let mut bytes = Vec::new();
    (0..workload.records_total())
        .map(|position| {
            bytes.clear();
            let sensor = workload.write(position, &mut bytes).expect("within the stream");
            assert!(bytes.len() <= RECORD_BYTES_MAX);
            let read = read(&bytes);
            assert_eq!(read.whole[0], i64::from(sensor));
            read
        })
        .collect()
}

/// The results as a reader finds them who keeps every value: sums are added from the least value to the greatest.
fn content(workload: &Workload) -> Content {
    let spec = workload.spec();
    let mut values: BTreeMap<(i64, i64), Vec<[f64; 4]>> = BTreeMap::new();
    for record in records(workload) {
        let [sensor, _, _, time_ms] = record.whole;
        let start_ms = time_ms - time_ms.rem_euclid(i64::from(spec.window_ms));
        values.entry((sensor, start_ms)).or_default().push(record.metrics);
    }
    let end_ms = spec.start_time_ms + i64::from(spec.windows) * i64::from(spec.window_ms);
    let mut content = Content::default();
    for ((sensor, start_ms), values) in values {
        if start_ms >= end_ms {
            continue;
        }
        let mut text = format!("{sensor}|{start_ms}|{}", values.len());
        for n in 0..4 {
            let mut of_metric: Vec<f64> = values.iter().map(|metrics| metrics[n]).collect();
            of_metric.sort_by(f64::total_cmp);
            let sum: f64 = of_metric.iter().sum();
            let (min, max) = (of_metric[0], of_metric[of_metric.len() - 1]);
            for number in [sum, min, max, sum / values.len() as f64] {
                text += &format!("|{}", number.to_bits());
            }
        }
        content = content.plus(Content { rows: 1, ids: 1, checksum: xxh64(text.as_bytes(), 0) });
    }
    content
}

#[test]
fn the_first_records_never_change() {
    let workload = workload(Spec::default());
    let mut bytes = Vec::new();
    (0..3).for_each(|position| assert!(workload.write(position, &mut bytes).is_some()));
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = [
        "9e1c0600000020d6743140000000c07b754a400000c0e3b8129040000000c405fc57400280f0cbf28365",
        "c61710000000d894a8434000000088b6044e400000007be81e8f4000000048265149400280f0cbf28365",
        "840c0200000030fd703340000000703caf3440000080f27c7a8f40000000208dae35400280f0cbf28365",
    ];
    assert_eq!(hex, expected.concat());
}

#[test]
fn the_oracle_agrees_with_a_reader_of_the_bytes() {
    let spec = small(7);
    let expected = workload(spec.clone()).expected();
    assert_eq!(expected, content(&workload(spec)));
    assert_eq!((expected.rows, expected.ids), (200, 200));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_oracle_agrees_whatever_the_shape(
        seed: u64,
        sensors in 1..80_u32,
        window_ms in 2..5_000_u32,
        windows in 1..5_u32,
        readings in 1..20_u32,
        disorder in 0..=100_u32,
    ) {
        let disorder_ms = window_ms / 10 * disorder / 100;
        let start_time_ms = 1_735_689_600_000 / i64::from(window_ms) * i64::from(window_ms);
        let spec = Spec { seed, sensors, window_ms, windows, readings, disorder_ms, start_time_ms };
        let workload = workload(spec);
        let expected = workload.expected();
        prop_assert_eq!(expected, content(&workload));
        prop_assert_eq!(expected.rows, workload.results().iter().sum::<u64>());
    }
}

#[test]
fn a_result_as_csv_has_the_hash_of_the_row() {
    let line = "7,6000,2,2.5,1.0,1.5,1.25,0.0,0.0,0.0,0.0,3.0E0,1,2,1.5,4,2,2,2";
    let numbers = [2.5, 1.0, 1.5, 1.25, 0.0, 0.0, 0.0, 0.0, 3.0, 1.0, 2.0, 1.5, 4.0, 2.0, 2.0, 2.0_f64];
    let text = numbers.iter().fold("7|6000|2".to_owned(), |text, n| format!("{text}|{}", n.to_bits()));
    assert_eq!(oracle::of_csv(line), Some(((7, 6_000), xxh64(text.as_bytes(), 0))));
    for wrong in ["", "7,6000", &format!("{line},1"), "x,6000,2,2.5,1,1,1,0,0,0,0,3,1,2,1,4,2,2,2"] {
        assert_eq!(oracle::of_csv(wrong), None, "{wrong}");
    }
}

#[test]
fn values_are_as_published() {
    let workload = workload(Spec { sensors: 100, windows: 3, ..Spec::default() });
    let records = records(&workload);
    let share = |is: &dyn Fn(&Read) -> bool| {
        records.iter().filter(|record| is(record)).count() as f64 / records.len() as f64
    };
    for (n, (low, high)) in
        [(10.0, 40.0), (20.0, 80.0), (980.0, 1030.0), (20.0, 100.0)].into_iter().enumerate()
    {
        assert!(records.iter().all(|record| record.metrics[n] >= low && record.metrics[n] < high));
        let mean = records.iter().map(|record| record.metrics[n]).sum::<f64>() / records.len() as f64;
        assert!((mean - (low + high) / 2.0).abs() < (high - low) / 200.0, "{n}: {mean}");
    }
    assert!((share(&|record| record.whole[2] == 1) - 0.85).abs() < 0.01);
    assert!((2..=4).all(|status| (share(&|record| record.whole[2] == status) - 0.05).abs() < 0.01));
    assert!((1..=8).all(|kind| (share(&|record| record.whole[1] == kind) - 0.125).abs() < 0.01));
    assert!((0..100).all(|sensor| (share(&|record| record.whole[0] == sensor) - 0.01).abs() < 0.002));
}

#[test]
fn a_full_record_has_the_published_length() {
    let workload = workload(Spec { sensors: 100_000, window_ms: 60_000, windows: 1, ..Spec::default() });
    let mut bytes = Vec::new();
    let lengths: Vec<usize> = (0..10_000)
        .map(|position| {
            bytes.clear();
            workload.write(position, &mut bytes).expect("within the stream");
            bytes.len()
        })
        .collect();
    assert!(lengths.iter().all(|length| (41..=43).contains(length)));
    assert!(lengths.iter().sum::<usize>() > 42 * lengths.len());
    assert_eq!(workload.per_window(), 60_000_000);
}

#[test]
fn time_goes_on_and_no_record_is_further_behind_than_the_disorder() {
    let workload = workload(small(3));
    let spec = workload.spec().clone();
    let mut out_of_order = 0;
    for (position, pair) in (1..).zip(records(&workload).windows(2)) {
        let [before, time_ms] = [&pair[0], &pair[1]].map(|record| record.whole[3]);
        let of_position = workload.time_ms(position);
        assert!(of_position >= workload.time_ms(position - 1));
        assert!(time_ms <= of_position && of_position - time_ms <= i64::from(spec.disorder_ms));
        out_of_order += usize::from(time_ms < before);
    }
    assert!(out_of_order > 1_000, "{out_of_order}");
    // The stream goes on until every window is past, by more than the disorder.
    let last_ms = workload.time_ms(workload.records_total() - 1);
    assert!(last_ms >= spec.start_time_ms + 4_000 + 240);
}

#[test]
fn a_sensor_keeps_its_partition_and_partitions_have_as_many() {
    let workload = workload(Spec { sensors: 6_400, ..Spec::default() });
    let mut sensors = [0_u32; 64];
    (0..6_400).for_each(|sensor| sensors[workload.partition(sensor, 64) as usize] += 1);
    assert!(sensors.iter().all(|sensors| (60..=140).contains(sensors)), "{sensors:?}");
    assert_eq!(workload.partition(17, 64), workload.partition(17, 64));
    assert_eq!(workload.partition(17, 1), 0);
}

#[test]
fn behind_the_end_there_is_nothing() {
    let workload = workload(small(1));
    let mut out = Vec::new();
    assert_eq!(workload.records_total(), 4 * 1_500 + 375);
    assert_eq!(workload.write(workload.records_total(), &mut out), None);
    assert_eq!(workload.write(u64::MAX, &mut out), None);
    assert!(out.is_empty());
}

#[test]
fn a_key_is_the_number_in_decimal_digits() {
    for sensor in [0, 7, 10, 99_999, SENSORS_MAX - 1] {
        assert_eq!(key(sensor, &mut [0; KEY_BYTES_MAX]), sensor.to_string().as_bytes());
    }
}

#[test]
fn a_spec_that_makes_no_sense_is_refused_with_the_way_out() {
    let error = |change: fn(&mut Spec)| {
        let mut spec = Spec::default();
        change(&mut spec);
        Workload::new(spec).expect_err("refused")
    };
    assert_eq!(error(|spec| spec.sensors = 0), SpecError::Sensors(0));
    assert_eq!(error(|spec| spec.sensors = SENSORS_MAX + 1), SpecError::Sensors(SENSORS_MAX + 1));
    assert_eq!(error(|spec| spec.window_ms = 0), SpecError::Window(0));
    assert_eq!(error(|spec| spec.windows = 0), SpecError::NoWindows);
    assert_eq!(error(|spec| spec.readings = 0), SpecError::Readings(0));
    assert_eq!(error(|spec| spec.disorder_ms = 601), SpecError::Disorder(601, 600));
    assert_eq!(error(|spec| spec.start_time_ms += 1), SpecError::Start(1_735_689_600_001, 6_000));
    assert_eq!(error(|spec| spec.windows = u32::MAX), SpecError::TooLong);
    assert_eq!(error(|spec| spec.start_time_ms = -6_000), SpecError::Start(-6_000, 6_000));
}

/// Prints how fast one core makes records; run it with `--ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_methods)] // It measures real time.
fn measure_records() {
    let workload = workload(Spec { sensors: 100_000, readings: 60, window_ms: 60_000, ..Spec::default() });
    let mut out = Vec::with_capacity(1_000 * RECORD_BYTES_MAX);
    let started = std::time::Instant::now();
    for position in 0..10_000_000 {
        if position % 1_000 == 0 {
            out.clear();
        }
        workload.write(position, &mut out).expect("within the stream");
    }
    println!("{:.1} M records/s", 10.0 / started.elapsed().as_secs_f64());
    let started = std::time::Instant::now();
    workload.expected();
    let records = workload.records_total() as f64 / 1e6;
    println!("oracle: {:.1} M records/s", records / started.elapsed().as_secs_f64());
}
