use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::*;

fn mixed() -> Workload {
    let spec = Spec {
        seed: 7,
        publishers: 3,
        uniques: 5_003,
        far_duplicates: 400,
        cross_duplicates: 300,
        uniques_per_second: 100,
        ..Spec::default()
    };
    Workload::new(spec).expect("valid")
}

fn record(workload: &Workload, publisher: u32, position: u64) -> String {
    let mut out = Vec::new();
    workload.write(publisher, position, &mut out).expect("within the stream");
    String::from_utf8(out).expect("UTF-8")
}

/// The values in order, after a check of everything around them.
fn fields(record: &str) -> [&str; 5] {
    let mut rest = record.strip_prefix("{\"").expect("an object");
    ["event_id", "user_id", "name", "email", "created_at"].map(|name| {
        rest =
            rest.strip_prefix(name).and_then(|rest| rest.strip_prefix("\": \"")).expect("the field's name");
        let (value, behind) = rest.split_once('"').expect("a string");
        rest = behind.strip_prefix(", \"").unwrap_or(behind);
        if name == "created_at" {
            assert_eq!(rest, "}");
        }
        value
    })
}

#[test]
fn the_first_three_records_never_change() {
    let workload = Workload::new(Spec::default()).expect("valid");
    let found: Vec<String> = (0..3).map(|position| record(&workload, 0, position)).collect();
    assert_eq!(
        found,
        [
            r#"{"event_id": "e28195dd-d9ee-4956-a735-fa339a2f4459", "user_id": "d69887a7-933b-4aad-93a7-28c7519ce556", "name": "Theo Blackwell", "email": "theoblackwell@example.org", "created_at": "2025-01-01 00:00:00"}"#,
            r#"{"event_id": "e28195dd-d9ee-4956-a735-fa339a2f4459", "user_id": "d69887a7-933b-4aad-93a7-28c7519ce556", "name": "Theo Blackwell", "email": "theoblackwell@example.org", "created_at": "2025-01-01 00:00:00"}"#,
            r#"{"event_id": "4515b4ab-a12e-4182-8ee5-a628d2bcda15", "user_id": "d5946353-7780-49a9-b64f-a1a67920fce6", "name": "Adriana Sanchez", "email": "asanchez55@example.net", "created_at": "2025-01-01 00:00:00"}"#,
        ]
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let all = |workload: &Workload| -> Vec<String> { (0..500).map(|p| record(workload, 1, p)).collect() };
    assert_eq!(all(&mixed()), all(&mixed()));
    let other = Workload::new(Spec { seed: 8, ..mixed().spec().clone() }).expect("valid");
    let known: BTreeSet<String> = all(&mixed()).into_iter().collect();
    assert!(all(&other).iter().all(|record| !known.contains(record)));
}

#[test]
fn a_stream_goes_on_from_any_position_as_if_never_left() {
    let workload = mixed();
    let mut whole = Vec::new();
    let mut ends = Vec::new();
    for position in 0..workload.records(2) {
        workload.write(2, position, &mut whole).expect("within the stream");
        ends.push(whole.len());
    }
    for position in (0..workload.records(2)).rev().step_by(97) {
        let at = position as usize;
        let start = if at == 0 { 0 } else { ends[at - 1] };
        assert_eq!(record(&mixed(), 2, position).as_bytes(), &whole[start..ends[at]]);
    }
}

#[test]
fn behind_the_end_and_beside_the_publishers_is_nothing() {
    let workload = mixed();
    let mut out = Vec::new();
    assert_eq!(workload.write(0, workload.records(0), &mut out), None);
    assert_eq!(workload.write(0, u64::MAX, &mut out), None);
    assert_eq!(workload.write(3, 0, &mut out), None);
    assert!(out.is_empty());
    assert_eq!(workload.records(3), 0);
}

#[test]
fn the_stream_holds_every_unique_once_and_the_counted_copies() {
    let workload = mixed();
    let mut sent: BTreeMap<String, u64> = BTreeMap::new();
    let mut kinds: BTreeMap<Kind, u64> = BTreeMap::new();
    for publisher in 0..3 {
        for position in 0..workload.records(publisher) {
            *sent.entry(record(&workload, publisher, position)).or_default() += 1;
            let origin = workload.origin(publisher, position).expect("within the stream");
            *kinds.entry(origin.kind).or_default() += 1;
        }
    }
    let near = 3 * 5_003_u64.div_ceil(10);
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        [(Kind::Unique, 3 * 5_003), (Kind::Near, near), (Kind::Far, 1_200), (Kind::Cross, 900)]
    );
    assert_eq!(sent.len() as u64, workload.uniques_total());
    assert_eq!(sent.values().sum::<u64>(), workload.records_total());
    assert_eq!(workload.duplicates_total(), near + 1_200 + 900);
    let ids: BTreeSet<&str> = sent.keys().map(|record| fields(record)[0]).collect();
    assert_eq!(ids.len(), sent.len(), "one id, one record");
}

#[test]
fn a_copy_comes_after_its_original_and_from_as_far_as_its_kind_says() {
    let workload = mixed();
    let mut distances: BTreeMap<Kind, Vec<u64>> = BTreeMap::new();
    for publisher in 0..3 {
        let mut uniques = 0;
        for position in 0..workload.records(publisher) {
            let origin = workload.origin(publisher, position).expect("within the stream");
            if origin.kind == Kind::Unique {
                assert_eq!((origin.publisher, origin.ordinal), (publisher, uniques));
                uniques += 1;
                continue;
            }
            assert_eq!(origin.publisher != publisher, origin.kind == Kind::Cross);
            assert!(origin.publisher < 3);
            assert!(origin.ordinal < uniques, "the original was sent before, or at the same pace elsewhere");
            distances.entry(origin.kind).or_default().push(uniques - 1 - origin.ordinal);
        }
    }
    let near = &distances[&Kind::Near];
    assert!(near.iter().all(|&distance| distance < 1_000));
    assert!(near.iter().any(|&distance| distance > 950) && near.contains(&0));
    for kind in [Kind::Far, Kind::Cross] {
        let far = distances[&kind].iter().filter(|&&distance| distance >= 1_000).count();
        assert!(far * 3 > distances[&kind].len(), "{far} of {kind:?} lie beyond the last 1,000");
        assert!(distances[&kind].iter().any(|&distance| distance > 4_000));
    }
}

#[test]
fn a_cross_duplicate_is_the_other_publishers_record_byte_for_byte() {
    let workload = mixed();
    let others: HashSet<String> = (1..3)
        .flat_map(|p| (0..workload.records(p)).map(move |n| (p, n)))
        .filter(|&(p, n)| workload.origin(p, n).is_some_and(|origin| origin.kind == Kind::Unique))
        .map(|(p, n)| record(&workload, p, n))
        .collect();
    let mut crossed = 0;
    for position in 0..workload.records(0) {
        if workload.origin(0, position).is_some_and(|origin| origin.kind == Kind::Cross) {
            assert!(others.contains(&record(&workload, 0, position)));
            crossed += 1;
        }
    }
    assert_eq!(crossed, 300);
}

#[test]
fn lengths_have_the_published_means_and_ranges() {
    let workload =
        Workload::new(Spec { uniques: 50_000, near_duplicates: false, ..Spec::default() }).expect("valid");
    let mut lengths: [Vec<usize>; 3] = Default::default();
    for publisher in 0..2 {
        for position in 0..50_000 {
            let record = record(&workload, publisher, position);
            let [event_id, user_id, name, email, created_at] = fields(&record);
            assert_eq!((event_id.len(), user_id.len(), created_at.len()), (36, 36, 19));
            assert_ne!(event_id, user_id);
            for (lengths, length) in lengths.iter_mut().zip([record.len(), name.len(), email.len()]) {
                lengths.push(length);
            }
        }
    }
    let mean = |lengths: &[usize]| lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
    let range =
        |lengths: &[usize]| (*lengths.iter().min().expect("some"), *lengths.iter().max().expect("some"));
    let [records, names, emails] = &lengths;
    println!("means {:.2}, {:.2}, {:.2}", mean(records), mean(names), mean(emails));
    println!("ranges {:?}, {:?}, {:?}", range(records), range(names), range(emails));
    assert!((mean(records) - 200.0).abs() < 1.0, "{}", mean(records));
    assert!((mean(names) - 13.3).abs() < 0.1, "{}", mean(names));
    assert!((mean(emails) - 21.9).abs() < 0.1, "{}", mean(emails));
    let within = |found: (usize, usize), min: usize, max: usize, slack: usize| {
        found.0 >= min && found.1 <= max && found.0 <= min + slack && found.1 + slack >= max
    };
    assert!(within(range(records), RECORD_BYTES_MIN, RECORD_BYTES_MAX, 2), "{:?}", range(records));
    assert!(within(range(names), 7, 29, 2), "{:?}", range(names));
    assert!(within(range(emails), 15, 33, 1), "{:?}", range(emails));
}

#[test]
fn created_at_moves_at_the_asked_pace_for_all_publishers_alike() {
    let workload = mixed();
    let last = workload.created_at_s(2, 5_002);
    assert_eq!(last, 1_735_689_600 + (5_002 * 3 + 2) / 100);
    let origin = workload.origin(0, workload.records(0) - 1).expect("the last");
    let time = |publisher| fields(&record(&workload, publisher, 0))[4].to_owned();
    assert_eq!([time(0), time(1), time(2)], ["2025-01-01 00:00:00"; 3]);
    let last_record = record(&workload, 0, workload.records(0) - 1);
    assert!(fields(&last_record)[4] <= "2025-01-01 00:02:30", "{origin:?}");
}

#[test]
fn a_spec_that_makes_no_sense_is_refused_with_the_way_out() {
    let error = |change: fn(&mut Spec)| {
        let mut spec = Spec::default();
        change(&mut spec);
        Workload::new(spec).expect_err("refused")
    };
    assert_eq!(error(|spec| spec.publishers = 0), SpecError::Publishers(0));
    assert_eq!(error(|spec| spec.publishers = PUBLISHERS_MAX + 1), SpecError::Publishers(PUBLISHERS_MAX + 1));
    assert_eq!(error(|spec| spec.uniques = 0), SpecError::NoUniques);
    assert_eq!(error(|spec| spec.uniques = u64::MAX), SpecError::TooMany);
    assert_eq!(error(|spec| spec.far_duplicates = u64::MAX), SpecError::TooMany);
    assert_eq!(error(|spec| spec.uniques_per_second = 0), SpecError::NoPace);
    assert_eq!(error(|spec| (spec.uniques, spec.uniques_per_second) = (1 << 39, 1)), SpecError::TooLate);
    assert_eq!(error(|spec| (spec.publishers, spec.cross_duplicates) = (1, 5)), SpecError::NobodyToCopy(5));
    assert!(SpecError::NobodyToCopy(5).to_string().contains("two publishers"));
}

/// Prints how fast one core makes records; run it with `--ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_methods)] // It measures real time.
fn measure_records() {
    let spec = Spec { far_duplicates: 100_000, cross_duplicates: 100_000, ..Spec::default() };
    let workload = Workload::new(spec).expect("valid");
    let mut out = Vec::with_capacity(1_000 * RECORD_BYTES_MAX);
    for _ in 0..3 {
        let (mut bytes, started) = (0, std::time::Instant::now());
        for position in 0..2_000_000 {
            if position % 1_000 == 0 {
                bytes += out.len();
                out.clear();
            }
            workload.write(0, position, &mut out).expect("within the stream");
        }
        let taken = started.elapsed().as_secs_f64();
        println!("{:.2} M records/s, {:.0} MB/s", 2.0 / taken, bytes as f64 / taken / 1e6);
    }
    let started = std::time::Instant::now();
    workload.expected_of(0, 0..2_000_000);
    println!("oracle: {:.2} M uniques/s", 2.0 / started.elapsed().as_secs_f64());
}
