use proptest::prelude::*;

use super::*;

#[test]
fn a_number_is_read_as_digits_and_a_power_of_ten() {
    for (text, negative, magnitude, exponent) in [
        ("0", false, 0, 0),
        ("-0.000e5", true, 0, 0),
        ("100", false, 1, 2),
        ("1.50", false, 15, -1),
        ("0.001", false, 1, -3),
        ("-1200e-2", true, 12, 0),
        ("+007", false, 7, 0),
        ("1e999999999999999999999", false, 1, 1_000_000_000),
        ("340282366920938463463374607431768211455", false, u128::MAX, 0),
    ] {
        assert_eq!(Exact::read(text.as_bytes()), Some(Exact { negative, magnitude, exponent }), "{text}");
    }
    assert_eq!(Exact::read(b"340282366920938463463374607431768211456"), None);
    assert_eq!(Exact::read(format!("1{}1", "0".repeat(1_000_000)).as_bytes()), None);
    assert_eq!(
        Exact::read(format!("1{}", "0".repeat(1_000_000)).as_bytes()).map(|e| e.exponent),
        Some(1_000_000)
    );
}

#[test]
fn floor_goes_towards_minus_infinity() {
    for (text, shift, expected) in [
        ("1.5", 0, 1),
        ("-1.5", 0, -2),
        ("-0.0001", 3, -1),
        ("0.0001", 3, 0),
        ("-2", 3, -2000),
        ("1e-999", 9, 0),
    ] {
        let exact = Exact::read(text.as_bytes()).expect("few digits");
        assert_eq!(exact.floor(shift), Some(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn every_integer_comes_back_in_every_spelling(value in any::<i64>(), zeros in 0usize..5) {
        let spellings = [
            value.to_string(),
            format!("{value}.{}", "0".repeat(zeros + 1)),
            format!("{value}{}e-{zeros}", "0".repeat(zeros)),
        ];
        for text in spellings {
            let whole = Exact::read(text.as_bytes()).map(|exact| exact.whole(0));
            prop_assert_eq!(whole, Some(Whole::Value(value.into())), "{}", text);
        }
    }

    #[test]
    fn the_form_of_numbers_in_text_is_what_the_float_parser_takes_too(text in "[-+]?[0-9.eE+-]{0,8}") {
        // Rust's parser also takes a point without digits on one side; ours does not.
        let bare = text.trim_start_matches(['+', '-']);
        let mantissa = bare.split(['e', 'E']).next().unwrap_or_default();
        let loose = mantissa.starts_with('.') || mantissa.ends_with('.');
        prop_assert_eq!(is_number_text(text.as_bytes()), text.parse::<f64>().is_ok() && !loose, "{}", text);
    }
}
