use proptest::prelude::*;

use super::*;

fn numbers(n: u64) -> impl Iterator<Item = u64> + Clone {
    (0..n).map(|i| i.wrapping_mul(0xd1b5_4a32_d192_ed03))
}

#[test]
fn every_number_is_found_and_few_others_are() {
    for n in [0, 1, 2, 3, 10, 100, 1_000, 50_000, 300_000] {
        let filter = Fuse::build(numbers(n)).unwrap();
        assert!(numbers(n).all(|number| filter.may_hold(number)), "{n}");
        let tries = 400_000;
        let wrong = (0..tries).filter(|i| filter.may_hold(i * 2 + (1 << 60))).count();
        // 98 are expected; 200 would be ten standard deviations away.
        assert!(wrong < 200, "{wrong} of {tries} at {n}");
    }
}

#[test]
fn a_large_filter_takes_less_than_fourteen_bits_a_number() {
    let n = 1 << 20;
    let filter = Fuse::build(numbers(n)).unwrap();
    let bits = filter.memory_bytes() as f64 * 8.0 / n as f64;
    assert!(bits < 14.0, "{bits}");
}

#[test]
fn repeated_numbers_are_taken_once() {
    let filter = Fuse::build(std::iter::repeat_n(7, 1000)).unwrap();
    assert!(filter.may_hold(7));
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let filter = Fuse::build(numbers(100)).unwrap();
    let (seed, bits, segments, slots) = filter.parts();
    assert_eq!(Fuse::from_parts(seed, bits, segments, slots), Some(filter.clone()));
    assert_eq!(Fuse::from_parts(seed, bits, segments + 1, slots), None);
    assert_eq!(Fuse::from_parts(seed, bits, segments, &slots[1..]), None);
    assert_eq!(Fuse::from_parts(seed, 60, segments, slots), None);
    assert_eq!(Fuse::from_parts(seed, bits, 0, &[]), None);
}

proptest! {
    #[test]
    fn no_number_is_ever_missed(set in prop::collection::vec(any::<u64>(), 0..600)) {
        let filter = Fuse::build(set.iter().copied()).unwrap();
        prop_assert!(set.iter().all(|n| filter.may_hold(*n)));
    }
}
