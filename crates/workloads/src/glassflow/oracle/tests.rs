use super::*;
use crate::glassflow::Spec;

fn workload() -> Workload {
    Workload::new(Spec { publishers: 3, uniques: 1_000, cross_duplicates: 50, ..Spec::default() })
        .expect("valid")
}

#[test]
fn the_hash_is_the_one_that_clickhouse_documents() {
    assert_eq!(xxh64(b"Hello, world!", 0), 17_691_043_854_468_224_118);
}

#[test]
fn a_row_is_hashed_as_the_query_writes_it() {
    let workload = workload();
    let mut json = Vec::new();
    workload.write_unique(1, 7, &mut json);
    let json = String::from_utf8(json).expect("UTF-8");
    let fields: Vec<&str> = json.split('"').skip(3).step_by(4).collect();
    let [event_id, user_id, name, email, _] = fields[..] else { panic!("five fields: {fields:?}") };
    let text = format!("{event_id}|{user_id}|{}|{name}|{email}", workload.created_at_s(1, 7));
    assert_eq!(workload.expected_of(1, 7..8).checksum, xxh64(text.as_bytes(), 0));
}

#[test]
fn parts_add_up_in_any_order() {
    let workload = workload();
    let whole = workload.expected();
    assert_eq!((whole.rows, whole.ids), (3_000, 3_000));
    let mut sum = Content::default();
    for (publisher, ordinals) in [
        (2, 400..1_000),
        (0, 0..1_000),
        (1, 999..5_000),
        (1, 0..999),
        (2, 0..400),
        (3, 0..10),
        (0, 1_000..2_000),
    ] {
        sum = sum.plus(workload.expected_of(publisher, ordinals));
    }
    assert_eq!(sum, whole);
}

#[test]
fn a_lost_a_repeated_and_a_changed_row_are_each_noticed() {
    let workload = workload();
    let whole = workload.expected();
    let one = workload.expected_of(0, 3..4);
    let other = workload.expected_of(0, 4..5);
    let lost = whole.checksum.wrapping_sub(one.checksum);
    assert_ne!(lost, whole.checksum);
    assert_ne!(lost.wrapping_add(other.checksum), whole.checksum);
}

#[test]
fn the_expected_content_is_pinned() {
    // ClickHouse 26.7's own engine gave the same three numbers for `sql` over these records, read as JSONEachRow.
    assert_eq!(
        workload().expected(),
        Content { rows: 3_000, ids: 3_000, checksum: 14_960_112_535_328_764_519 }
    );
    assert!(sql("`a`.`b`").ends_with("AS checksum FROM `a`.`b`"));
}

#[test]
fn half_of_the_names_come_before_the_one_in_the_middle() {
    let workload = Workload::new(Spec { uniques: 5_000, ..Spec::default() }).expect("valid");
    let share = workload.expected_before(NAME_IN_THE_MIDDLE).rows as f64 / workload.expected().rows as f64;
    assert!((0.47..0.53).contains(&share), "{share}");
    assert_eq!(workload.expected_before("~"), workload.expected());
}
