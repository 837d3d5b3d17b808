use std::collections::HashSet;

use datafusion_expr::Volatility;

use super::*;

/// A replay after a crash must give the same rows.
#[test]
fn every_function_gives_the_same_value_for_the_same_arguments() {
    let others: Vec<_> =
        NAMES.volatilities().filter(|(_, volatility)| *volatility != Volatility::Immutable).collect();
    assert_eq!(others, [], "refuse them in `REFUSED`, with what to write instead");
    assert!(NAMES.volatilities().count() > 200, "the functions were looked at");
}

/// What DataFusion has and is not immutable is refused by name, with a way out.
#[test]
fn functions_of_the_clock_and_of_chance_are_refused_by_name() {
    let all = datafusion_functions::all_default_functions();
    let volatile = all.iter().filter(|function| function.signature().volatility != Volatility::Immutable);
    let names: Vec<&str> = volatile.map(|function| function.name()).collect();
    assert!(names.contains(&"now") && names.contains(&"random"), "{names:?}");
    for name in names {
        assert!(matches!(NAMES.function(name), Function::Refused(_)), "`{name}` is not refused");
    }
    let clickhouse =
        ["now64", "yesterday", "rand64", "generateUUIDv7", "UTCTimestamp", "randCanonical", "fuzzBits"];
    for name in clickhouse {
        let Function::Refused(reason) = NAMES.function(name) else { panic!("`{name}` is not refused") };
        assert!(reason.contains("; "), "`{name}` has a way out: {reason}");
    }
}

#[test]
fn every_refused_function_is_named_once_in_lower_case() {
    let mut names = HashSet::new();
    for (name, reason) in REFUSED {
        assert!(names.insert(*name), "`{name}` is named twice");
        assert_eq!(*name, name.to_lowercase());
        assert!(!reason.is_empty());
    }
}
