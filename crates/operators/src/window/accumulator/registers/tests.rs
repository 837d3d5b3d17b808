use xxhash_rust::xxh3::xxh3_64;

use super::Group;

fn of(values: std::ops::Range<u64>) -> Group {
    let mut group = Group::Pairs(Vec::new());
    values.for_each(|value| group.add_hash(xxh3_64(&value.to_le_bytes())));
    group
}

#[test]
fn the_estimate_is_near_from_none_to_a_million() {
    for count in [0_u64, 1, 2, 10, 100, 1_000, 5_000, 20_000, 1_000_000] {
        let found = of(0..count).estimate();
        let error = found.abs_diff(count) as f64 / count.max(1) as f64;
        assert!(error < 0.05, "{count}: {found}");
    }
}

#[test]
fn merged_registers_are_those_of_all_values() {
    for (first, second) in [(10, 20), (500, 900), (900, 3_000), (5_000, 10_000)] {
        let mut merged = of(0..first);
        merged.merge(&of(first / 2..second));
        let all = of(0..second);
        assert_eq!(merged.estimate(), all.estimate());
        assert_eq!(merged, all, "in one form");
    }
}
