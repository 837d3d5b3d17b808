use super::*;

#[test]
fn rates_are_read_as_people_write_them() {
    assert_eq!(["1M/s", "250k/s", "1000", "1.5G"].map(rate), [Ok(1e6), Ok(250e3), Ok(1e3), Ok(1.5e9)]);
    for wrong in ["", "0", "-1", "fast", "1X/s", "1e300", "NaN", "k"] {
        assert!(rate(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn numbers_are_shown_with_three_digits() {
    assert_eq!([0.123, 2.0, 1.5, 12.34, 1234.5].map(shown), ["0.12", "2", "1.50", "12.3", "1234"]);
}
