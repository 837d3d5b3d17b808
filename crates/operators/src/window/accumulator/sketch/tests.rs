use super::{Accumulator, Sketch, range_of, value_of};

#[test]
fn a_range_is_at_most_one_part_in_128_wide_and_in_the_order_of_its_values() {
    let numbers = [1e-300, 0.001, 0.1, 1.0, 3.7, 99.9, 1e6 + 0.3, 7e15, 1e300];
    for value in numbers.into_iter().flat_map(|value: f64| [value, -value]) {
        let found = value_of(range_of(value));
        assert!(
            found.abs() <= value.abs() && found.abs() > value.abs() * (1.0 - 1.0 / 129.0),
            "{value}: {found}"
        );
    }
    let mut sorted: Vec<f64> = numbers.iter().flat_map(|value| [*value, -*value]).chain([0.0]).collect();
    sorted.push(f64::INFINITY);
    sorted.push(f64::NEG_INFINITY);
    sorted.sort_by(f64::total_cmp);
    assert!(sorted.windows(2).all(|pair| range_of(pair[0]) < range_of(pair[1])));
    assert!(range_of(f64::NAN) > range_of(f64::INFINITY) && value_of(range_of(f64::NAN)).is_nan());
    assert_eq!(range_of(-f64::NAN), range_of(f64::NAN));
    assert_eq!(range_of(-0.0), range_of(0.0));
}

#[test]
fn whole_numbers_up_to_256_are_themselves() {
    for whole in -256..=256 {
        let value = f64::from(whole);
        assert_eq!(value_of(range_of(value)), value);
    }
}

/// What `quantilesExact(0, 0.5, 0.98, 0.99, 1)(number)` of ClickHouse 26.7 gives for `numbers(n)`.
#[test]
fn a_quantile_is_the_value_that_quantile_exact_of_the_server_picks() {
    for (n, expected) in [
        (1, [0.0, 0.0, 0.0, 0.0, 0.0]),
        (2, [0.0, 1.0, 1.0, 1.0, 1.0]),
        (10, [0.0, 5.0, 9.0, 9.0, 9.0]),
        (50, [0.0, 25.0, 49.0, 49.0, 49.0]),
    ] {
        let mut sketch = Sketch::new(1.0);
        sketch.grow(1);
        (0..n).for_each(|value| sketch.add(u64::from(range_of(f64::from(value))), 1));
        let found = sketch.quantiles(&[0, 500_000, 980_000, 990_000, 1_000_000]);
        assert_eq!(found, [Some(expected.to_vec())], "{n}");
    }
}
