use super::{range_of, value_of};

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
