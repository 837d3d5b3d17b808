use std::collections::HashSet;

use super::*;
use crate::content::Content;

fn workload(minutes: u32) -> Workload {
    Workload::new(Spec { minutes, ..Spec::default() }).expect("valid")
}

fn line(workload: &Workload, file: u32, row: u64) -> String {
    let mut out = Vec::new();
    assert!(workload.write(file, row, &mut out), "row {row} of file {file}");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn the_published_run_has_the_published_numbers() {
    let workload = workload(MINUTES_PUBLISHED);
    assert_eq!((workload.files(), workload.rows_total()), (15, 189_216_000));
}

#[test]
fn a_line_is_the_documented_object() {
    let line = line(&workload(10), 0, 0);
    let (head, tail) = line.split_once("\"visits\": ").expect("visits");
    assert_eq!(head, r#"{"ts": "2020-01-01 00:01:00", "country": "UK", "category": "WOMEN", "#);
    let (visits, tail) = tail.split_once(", \"unique_visitors\": ").expect("unique_visitors");
    // Minute 1 with the wave at its top: 1.2 times 500 to 520.
    assert!((600..=624).contains(&visits.parse::<u64>().expect("a number")), "{visits}");
    let (visitors, sales) = tail.split_once(", \"sales\": ").expect("sales");
    let visitors: u64 = visitors.parse().expect("a number");
    assert!((150..=450).contains(&visitors), "{visitors}");
    let sales = sales.strip_suffix('}').expect("the end").replace('.', "").parse::<u64>().expect("a number");
    assert_eq!(sales % (visitors * 5_745), 0, "the price divides it");
}

#[test]
fn no_two_rows_have_the_same_name_and_a_country_goes_on_from_file_to_file() {
    let workload = workload(7);
    let mut names = HashSet::new();
    for file in 0..workload.files() {
        for row in 0..workload.rows_per_file() {
            let line = line(&workload, file, row);
            let name = line.split_once(", \"visits\"").expect("visits").0.to_owned();
            assert!(names.insert(name), "{line}");
        }
    }
    assert_eq!(names.len() as u64, workload.rows_total());
    assert_eq!(workload.expected().rows, workload.rows_total());
    assert!(line(&workload, 0, 41).contains("00:07:00"));
    assert!(line(&workload, 5, 0).contains("00:08:00"), "the second file of the first country");
}

#[test]
fn the_longest_row_fits_its_bound() {
    let workload = workload(MINUTES_PUBLISHED);
    let last = workload.rows_per_file() - 6;
    let longest = (0..workload.files()).map(|file| line(&workload, file, last + 1).len()).max();
    assert!(longest.is_some_and(|bytes| bytes + 20 < ROW_BYTES_MAX), "{longest:?}");
}

#[test]
fn behind_the_end_there_is_nothing() {
    let workload = workload(1);
    let mut out = Vec::new();
    assert!(!workload.write(0, 6, &mut out) && !workload.write(15, 0, &mut out) && out.is_empty());
    assert_eq!(Workload::new(Spec { minutes: 0, ..Spec::default() }), Err(SpecError::Nothing));
    let spec = Spec { minutes: u32::MAX, ..Spec::default() };
    assert!(matches!(Workload::new(spec), Err(SpecError::TooLong(_))));
}

#[test]
fn the_seed_decides_the_bytes() {
    let other = Workload::new(Spec { minutes: 10, seed: 2, ..Spec::default() }).expect("valid");
    assert_eq!(line(&workload(10), 3, 30), line(&workload(10), 3, 30));
    assert_ne!(workload(10).expected().checksum, other.expected().checksum);
}

#[test]
fn a_row_is_the_same_as_line_protocol_and_as_csv_of_another_system() {
    let workload = workload(1);
    let mut out = Vec::new();
    let mut content = Content::default();
    for file in 0..workload.files() {
        for row in 0..workload.rows_per_file() {
            out.clear();
            assert!(workload.write_line_protocol("sales", file, row, &mut out));
            let line = String::from_utf8(out.clone()).expect("text");
            let parts: Vec<&str> = line.split([' ', ',']).collect();
            let [table, country, category, visits, visitors, sales, time] = parts[..] else {
                panic!("{line}")
            };
            let of = |part: &str| part.split_once('=').expect("a name").1.trim_end_matches('i').to_owned();
            let csv = format!(
                "{},\"{}\",\"{}\",{},{},{}",
                time.strip_suffix("000000000").expect("whole seconds"),
                of(country),
                of(category),
                of(visits),
                of(visitors),
                of(sales).replace('.', "").parse::<u64>().expect("a number"),
            );
            assert_eq!(table, "sales");
            let checksum = oracle::of_csv(&csv).expect("six values");
            content = content.plus(Content { rows: 1, ids: 1, checksum });
        }
    }
    assert_eq!(content, workload.expected());
    assert_eq!(oracle::of_csv("1,2"), None);
    assert!(!workload.write_line_protocol("sales", 0, 6, &mut out));
}
