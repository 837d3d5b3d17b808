use super::*;

fn entry(hash: u64, time_ms: i64) -> Entry {
    Entry { hash, time_ms, partition: 0, position: 0, value: 0 }
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
    let of = |rule, copies: &[Entry]| digest(&keys(rule, copies));
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
    let sum = |rule, entries: &[Entry]| value_sum(rule, entries);
    assert_eq!(sum(Rule::OneEver, &[with_value(1, 7), with_value(1, 7), with_value(2, 5)]), Some(12));
    assert_eq!(sum(Rule::OneEver, &[with_value(1, 7), with_value(1, 8)]), None);
    assert_eq!(sum(Rule::EveryCopy, &[with_value(1, 7), with_value(1, 8)]), Some(15));
    assert_eq!(sum(Rule::EveryCopy, &[with_value(1, u64::MAX), with_value(2, 2)]), Some(1));
    assert_eq!(sum(Rule::OneEver, &[]), Some(0));
}

#[test]
fn a_row_is_different_if_no_record_of_its_key_has_its_values() {
    let entries = [with_value(1, 7), with_value(1, 8), with_value(3, 5)];
    assert_eq!(different(&entries, &[(1, 8, 1), (3, 5, 2)]), []);
    let found = [(1, 7, 1), (1, 9, 2), (1, 10, 1), (2, 5, 1), (3, 6, 1)];
    let expected = [(with_value(1, 7), 3), (with_value(3, 5), 1)];
    assert_eq!(different(&entries, &found), expected, "the key of no record is another matter");
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
