use super::super::place::{Place, Places};
use super::*;

fn entry(hash: u64, order: i64) -> Entry {
    Entry { hash, order, place: Place::default(), value: 0, missing: 0, is_deleted: false }
}

fn none() -> Places {
    Places::new()
}

fn bounds(rule: Rule, times: &[i64]) -> (u64, u64) {
    let copies: Vec<Entry> = times.iter().map(|t| entry(1, *t)).collect();
    let expected = Expected::of(rule, &copies);
    (expected.least, expected.most)
}

#[test]
fn copies_become_rows_by_the_rule_and_the_edge_of_the_window_has_bounds() {
    assert_eq!(bounds(Rule::EveryCopy, &[1, 1, 2]), (3, 3));
    assert_eq!(bounds(Rule::OneEver, &[1, 1_000_000]), (1, 1));
    let hour = Rule::OnePerWindow(3_600_000);
    assert_eq!(bounds(hour, &[0, 1, 3_600_000]), (1, 1));
    assert_eq!(bounds(hour, &[0, 10 * 3_600_000]), (2, 2));
    // Just beyond the window: it depends on where the buckets begin.
    assert_eq!(bounds(hour, &[0, 3_600_001]), (1, 2));
    // A chain: which stay depends on the order in which they were read.
    assert_eq!(bounds(hour, &[0, 3_000_000, 6_000_000]), (1, 2));
    assert_eq!(bounds(hour, &[TIME_UNKNOWN_MS, 0, 10 * 3_600_000]), (1, 3));
}

#[test]
fn what_is_missing_twice_or_foreign_is_told_by_its_hash() {
    let keys: Vec<Expected> =
        [2, 4, 6, 8].iter().map(|hash| Expected::of(Rule::OneEver, &[entry(*hash, 0)])).collect();
    let mut differences = Differences::default();
    differences.compare(&keys, &[(1, 1), (2, 1), (4, 3), (7, 2), (8, 1), (9, 1)]);
    assert_eq!(differences.missing.keys().copied().collect::<Vec<_>>(), [6]);
    assert_eq!(differences.duplicate.iter().map(|(h, (_, rows))| (*h, *rows)).collect::<Vec<_>>(), [(4, 3)]);
    assert_eq!(differences.foreign, BTreeMap::from([(1, 1), (7, 2), (9, 1)]));

    let mut none = Differences::default();
    none.compare(&keys, &[(2, 1), (4, 1), (6, 1), (8, 1)]);
    assert!(none.is_empty());
    none.compare(&keys, &[]);
    assert_eq!(none.missing.len(), 4);
}

#[test]
fn a_digest_is_the_same_for_the_same_rows_only_and_not_told_for_bounds() {
    let of = |rule, copies: &[Entry]| digest(&keys(rule, copies, &none()));
    let rows = [entry(3, 0), entry(3, 9), entry(u64::MAX, 0)];
    let mut wanted = Digest::default();
    wanted.add(3, 1);
    wanted.add(u64::MAX, 1);
    assert_eq!(of(Rule::OneEver, &rows), Some(wanted));
    assert_ne!(of(Rule::EveryCopy, &rows), Some(wanted));
    assert_eq!(of(Rule::OnePerWindow(8), &[entry(3, 0), entry(3, 9)]), None);
    assert_eq!(of(Rule::OneEver, &[]), Some(Digest::default()));
}

fn with_value(hash: u64, value: u64) -> Entry {
    Entry { value, ..entry(hash, 0) }
}

#[test]
fn the_sum_of_values_is_known_only_while_it_is_known_which_copy_became_the_row() {
    let sum = |rule, entries: &[Entry]| value_sum(rule, entries, &none());
    assert_eq!(sum(Rule::OneEver, &[with_value(1, 7), with_value(1, 7), with_value(2, 5)]), Some(12));
    assert_eq!(sum(Rule::OneEver, &[with_value(1, 7), with_value(1, 8)]), None);
    assert_eq!(sum(Rule::EveryCopy, &[with_value(1, 7), with_value(1, 8)]), Some(15));
    assert_eq!(sum(Rule::EveryCopy, &[with_value(1, u64::MAX), with_value(2, 2)]), Some(1));
    assert_eq!(sum(Rule::OneEver, &[]), Some(0));
}

#[test]
fn a_row_is_different_if_no_record_of_its_key_has_its_values() {
    let entries = [with_value(1, 7), with_value(1, 8), with_value(3, 5)];
    let same = |(key, always, rows)| SameRows { key, always, given: Vec::new(), rows };
    assert_eq!(different(Rule::OneEver, &entries, &[(1, 8, 1), (3, 5, 2)].map(same), &none()), []);
    let found = [(1, 7, 1), (1, 9, 2), (1, 10, 1), (2, 5, 1), (3, 6, 1)].map(same);
    let expected = [(with_value(1, 7), 3), (with_value(3, 5), 1)];
    assert_eq!(
        different(Rule::OneEver, &entries, &found, &none()),
        expected,
        "the key of no record is another matter"
    );
}

#[test]
fn a_column_with_a_default_is_compared_where_the_record_gives_it() {
    use clickhouse::reconcile::sum;
    let row = |always, given: [u64; 2]| SameRows { key: 1, always, given: given.to_vec(), rows: 1 };
    let whole = with_value(1, sum(7, &[5, 6], 0));
    assert_eq!(different(Rule::OneEver, &[whole], &[row(7, [5, 6])], &none()), []);
    for other in [row(7, [5, 9]), row(7, [9, 6]), row(8, [5, 6]), row(7, [6, 5])] {
        assert_eq!(
            different(Rule::OneEver, &[whole], std::slice::from_ref(&other), &none()).len(),
            1,
            "{other:?}"
        );
    }
    // The record has left out the second: whatever stands there is the server's.
    let part = Entry { missing: 0b10, ..with_value(1, sum(7, &[5, 0], 0b10)) };
    assert_eq!(different(Rule::OneEver, &[part], &[row(7, [5, 6]), row(7, [5, 9])], &none()), []);
    assert_eq!(different(Rule::OneEver, &[part], &[row(7, [9, 6])], &none()).len(), 1);
    assert_eq!(value_sum(Rule::OneEver, &[part], &none()), None, "the server's part is not known");
    assert_eq!(value_sum(Rule::OneEver, &[whole], &none()), Some(whole.value));
}

#[test]
fn rows_under_keys_that_the_server_made_are_told_by_their_number() {
    let with = |foreign: u64| {
        let keys = [Expected::of(Rule::EveryCopy, &[entry(2, 0)])];
        let mut differences = Differences::default();
        let found: Vec<(u64, u64)> =
            std::iter::once((2, 1)).chain((0..foreign).map(|n| (10 + n, 1))).collect();
        differences.compare(&keys, &found);
        differences
    };
    let expected = |least, most| Expected { least, most, first: entry(1, 0) };
    let mut right = with(3);
    assert_eq!(right.explain_nameless(expected(3, 3)), Some(3));
    assert!(right.is_empty());
    let mut more = with(4);
    assert_eq!(more.explain_nameless(expected(3, 3)), None);
    assert_eq!(more.foreign.len(), 4, "one of them is foreign, and which is not known");
    let mut fewer = with(1);
    assert_eq!(fewer.explain_nameless(expected(3, 3)), Some(1));
    assert_eq!((fewer.missing[&1].1, fewer.foreign.len()), (1, 0), "the one that is there is a record's");
    assert_eq!(with(2).explain_nameless(expected(1, 3)), Some(2), "copies may have been dropped");
    // A made key that is also a record's shows as one row too many of it.
    let mut same = Differences::default();
    same.compare(&[Expected::of(Rule::EveryCopy, &[entry(2, 0)])], &[(2, 2)]);
    assert_eq!(same.explain_nameless(expected(1, 1)), Some(1));
    assert!(same.is_empty());
}

#[test]
fn a_range_names_keys_with_more_rows_than_all_records_can_have_become() {
    let in_range = |rule| {
        let keys = [2, 4, 6].map(|hash| Expected::of(rule, &[entry(hash, 0)]));
        let mut differences = Differences::default();
        differences.compare_range(&keys, &[(1, 9), (2, 2), (4, 3), (5, 1)]);
        assert!(differences.foreign.is_empty(), "what is of no range is not told by one");
        assert_eq!(differences.missing.keys().copied().collect::<Vec<_>>(), [6]);
        // Key 2 has another record elsewhere, and so has key 4.
        differences.retain_beyond(rule, &BTreeMap::from([(2, 2), (4, 2), (6, 1)]));
        let twice = differences.duplicate.iter().map(|(hash, (key, rows))| (*hash, *rows, key.most));
        twice.collect::<Vec<_>>()
    };
    assert_eq!(in_range(Rule::EveryCopy), [(4, 3, 2)]);
    assert_eq!(in_range(Rule::OnePerWindow(10)), [(4, 3, 2)]);
    assert_eq!(in_range(Rule::OneEver), [(2, 2, 1), (4, 3, 1)], "one row whatever else there is");
}

/// A record of a partition, which may delete its key.
fn at(partition: u32, position: u64, value: u64, is_deleted: bool) -> Entry {
    Entry { place: Place::new(partition, position, None), value, is_deleted, ..entry(1, 0) }
}

fn newest(copies: &[Entry], refused: &Places) -> (u64, u64) {
    let keys = keys(Rule::Newest, copies, refused);
    (keys[0].least, keys[0].most)
}

#[test]
fn of_rows_that_replace_each_other_there_is_the_newest_unless_it_deletes_the_key() {
    assert_eq!(newest(&[at(0, 1, 5, true), at(0, 2, 6, false)], &none()), (1, 1));
    assert_eq!(newest(&[at(0, 1, 5, false), at(0, 2, 6, true)], &none()), (0, 0));
    // Nobody knows which of two partitions was read last.
    assert_eq!(newest(&[at(0, 1, 5, false), at(1, 0, 6, true)], &none()), (0, 1));
    assert_eq!(without_order(Rule::Newest, &[at(0, 1, 5, false), at(1, 0, 6, true)]), 1);
    assert_eq!(without_order(Rule::OneEver, &[at(0, 1, 5, false), at(1, 0, 6, true)]), 0);
    // The server has refused a record: the one that it replaced in its batch was not sent.
    assert_eq!(
        newest(&[at(0, 1, 5, false), at(0, 2, 6, false)], &Places::from([Place::new(0, 2, None)])),
        (0, 1)
    );
}

#[test]
fn the_row_of_a_key_has_the_values_of_its_newest_record() {
    let (older, newer) = (at(0, 1, 5, false), at(0, 2, 6, false));
    assert_eq!(value_sum(Rule::Newest, &[older, newer], &none()), Some(6));
    assert_eq!(value_sum(Rule::Newest, &[older, at(0, 3, 9, true)], &none()), Some(0));
    assert_eq!(value_sum(Rule::Newest, &[older, at(1, 3, 9, false)], &none()), None, "either of them");
    let row = |value: u64| SameRows { key: 1, always: value, given: Vec::new(), rows: 1 };
    let of = |value: u64| different(Rule::Newest, &[older, newer], &[row(value)], &none());
    assert_eq!(of(6), []);
    assert_eq!(
        different(Rule::Newest, &[older, at(0, 3, 9, true)], &[row(5)], &none()),
        [],
        "a row too many"
    );
    assert_eq!(of(5), [(newer, 1)], "an older record of the key is another row");
    assert_eq!(
        different(Rule::Newest, &[older, newer], &[row(5)], &Places::from([Place::new(0, 2, None)])),
        []
    );
}
