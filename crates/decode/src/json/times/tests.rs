use jiff::civil;
use proptest::prelude::*;

use super::*;

#[test]
fn every_day_of_four_digit_years_has_the_number_that_jiff_gives_it() {
    let mut day = civil::date(0, 1, 1);
    let mut expected = Day { year: 0, month: 1, day: 1 }.unix_days();
    let epoch = civil::date(1970, 1, 1);
    assert_eq!(day.since((jiff::Unit::Day, epoch)).expect("both are days").get_days(), expected);
    while day < civil::date(9999, 12, 31) {
        let ours = read_day(day.to_string().as_bytes().try_into().expect("ten bytes"));
        assert_eq!(ours.map(|d| d.unix_days()), Ok(expected), "{day}");
        day = day.tomorrow().expect("the last day is not reached");
        expected += 1;
    }
}

#[test]
fn names_of_utc_take_the_short_way_and_others_the_database() {
    assert!(matches!(Zone::named("UTC"), Some(Zone::Utc)));
    assert!(matches!(Zone::named("etc/utc"), Some(Zone::Utc)));
    assert!(matches!(Zone::named("Europe/Berlin"), Some(Zone::Named(_))));
    assert!(Zone::named("Europe/Atlantis").is_none());
    assert!(Zone::named("../../etc/passwd").is_none());
    assert!(Zone::named("").is_none());
}

#[test]
fn a_unit_by_magnitude_changes_at_the_documented_numbers() {
    for (value, digits) in [
        (0i128, 0),
        (99_999_999_999, 0),
        (-99_999_999_999, 0),
        (100_000_000_000, 3),
        (-100_000_000_000, 3),
        (99_999_999_999_999, 3),
        (100_000_000_000_000, 6),
        (99_999_999_999_999_999, 6),
        (100_000_000_000_000_000, 9),
        (i128::MIN, 9),
    ] {
        assert_eq!(EpochUnit::ByMagnitude.digits(value), digits, "{value}");
    }
}

fn spec(zone: &str, precision: u8) -> TimeSpec {
    TimeSpec {
        name: "DateTime64".into(),
        precision,
        tick_digits: 9,
        zone: Zone::named(zone).expect("a zone of the database"),
        epoch: EpochUnit::ByMagnitude,
        range: DATETIME64_NANO_RANGE,
    }
}

proptest! {
    #[test]
    fn local_times_agree_with_jiff(
        seconds in DATETIME64_RANGE.0 + 86_400..DATETIME64_NANO_RANGE.1 - 86_400,
        nano in 0u32..1_000_000_000,
        zone in prop::sample::select(&["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia"][..]),
    ) {
        let zone_of = TimeZoneDatabase::bundled().get(zone).expect("in the database");
        let stamp = jiff::Timestamp::new(seconds, nano as i32).expect("in range").to_zoned(zone_of.clone());
        let text = stamp.strftime("%Y-%m-%d %H:%M:%S.%9f").to_string();
        let again = zone_of.to_ambiguous_timestamp(stamp.datetime()).earlier().expect("in range");
        let ours = Time::<arrow_array::types::TimestampNanosecondType>::new(spec(zone, 9)).text(text.as_bytes(), 0);
        prop_assert_eq!(ours.ok().map(i128::from), Some(again.as_nanosecond()), "{}", text);
        // With the offset written the zone has no say.
        let written = stamp.strftime("%Y-%m-%dT%H:%M:%S.%9f").to_string();
        let offset = stamp.offset().seconds();
        if offset % 60 == 0 {
            let sign = if offset < 0 { '-' } else { '+' };
            let text = format!("{written}{sign}{:02}:{:02}", offset.abs() / 3600, offset.abs() / 60 % 60);
            let ours = Time::<arrow_array::types::TimestampNanosecondType>::new(spec("Asia/Tokyo", 9)).text(text.as_bytes(), 0);
            prop_assert_eq!(ours.ok().map(i128::from), Some(stamp.timestamp().as_nanosecond()), "{}", text);
        }
    }
}
