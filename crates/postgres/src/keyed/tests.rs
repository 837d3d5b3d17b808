use super::*;

#[test]
fn a_connection_that_has_rested_is_not_used_again_and_neither_is_an_old_one() {
    let at = Duration::from_secs;
    assert!(is_of_use(at(100), at(100), at(100)));
    assert!(is_of_use(at(100), at(600), at(659)), "it was used within the minute");
    assert!(!is_of_use(at(100), at(600), at(660)), "a firewall may have forgotten it");
    assert!(is_of_use(at(100), at(698), at(699)));
    assert!(!is_of_use(at(100), at(699), at(700)), "a renewed certificate is to count");
}

#[test]
fn a_day_that_the_server_cannot_read_is_not_asked_for() {
    let asked_as = |is_date: bool| match is_date {
        true => types::AskedAs { cast: "date[]".to_owned(), values: types::Values::Days },
        false => types::AskedAs { cast: "text[]".to_owned(), values: types::Values::Texts },
    };
    for text in ["0001-01-01", "2026-11-29", "9999-12-31"] {
        assert_eq!(value(text.as_bytes(), &asked_as(true)), Some(text));
    }
    // The last is what stands for a day that no calendar has.
    for text in ["0000-12-31", "-0001-01-01", "+10000-01-01", "ERROR: Cast error: Failed to convert"] {
        assert_eq!(value(text.as_bytes(), &asked_as(true)), None, "{text}");
        assert_eq!(value(text.as_bytes(), &asked_as(false)), Some(text), "a text may be any");
    }
}
