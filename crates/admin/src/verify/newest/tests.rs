use super::super::place::Place;
use super::*;

fn copy(order: i64, partition: u32, position: u64) -> Entry {
    Entry {
        hash: 1,
        order,
        place: Place::new(partition, position, None),
        value: 0,
        missing: 0,
        is_deleted: false,
    }
}

fn newest(mut copies: Vec<Entry>) -> Vec<(u32, u64)> {
    copies.sort_unstable();
    candidates(&copies).into_iter().map(|copy| (copy.place.partition, copy.place.position)).collect()
}

#[test]
fn the_newest_of_a_partition_is_its_last_record_and_between_partitions_there_is_no_order() {
    assert_eq!(newest(vec![copy(0, 0, 7), copy(0, 0, 9), copy(0, 0, 8)]), [(0, 9)]);
    assert_eq!(newest(vec![copy(0, 1, 2), copy(0, 0, 9), copy(0, 1, 1)]), [(0, 9), (1, 2)]);
}

#[test]
fn a_greater_version_is_newer_wherever_it_stands() {
    assert_eq!(newest(vec![copy(5, 0, 1), copy(4, 0, 9), copy(3, 1, 9)]), [(0, 1)]);
    assert_eq!(newest(vec![copy(5, 0, 1), copy(5, 0, 2), copy(5, 1, 0)]), [(0, 2), (1, 0)]);
}

#[test]
fn versions_of_64_bits_keep_their_order() {
    let of = |number_: u64| number(number_.to_string().as_bytes(), true).expect("a number");
    assert!(of(0) < of(1) && of(1) < of(1 << 63) && of(1 << 63) < of(u64::MAX));
    assert_eq!(number(b"-5", false), Some(-5));
    assert_eq!(number(b"=5", false), None);
}
