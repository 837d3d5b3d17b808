use jiff::civil;
use proptest::prelude::*;

use super::text::read_day;
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
    fn a_whole_unix_time_is_the_same_as_its_digits(value: i64, shift in 0u32..64, precision in 0u8..10) {
        let value = value >> shift;
        for (tick_digits, range) in [(0, DATETIME64_RANGE), (3, DATETIME64_RANGE), (6, DATETIME64_RANGE), (9, DATETIME64_NANO_RANGE)] {
            for epoch in [EpochUnit::ByMagnitude, EpochUnit::Seconds, EpochUnit::Milliseconds, EpochUnit::Nanoseconds] {
                let spec = TimeSpec { tick_digits, range, epoch, precision: precision.min(tick_digits), ..spec("UTC", 9) };
                let by_digits = spec.unix(Exact::read(value.to_string().as_bytes()));
                prop_assert_eq!(spec.unix_integer(value), by_digits, "{} {:?}", value, spec);
            }
        }
    }

    #[test]
    fn a_local_timestamp_is_its_text(seconds in DATETIME64_RANGE.0..DATETIME64_RANGE.1, zone in prop::sample::select(&["UTC", "Europe/Berlin"][..])) {
        let time = Time::<arrow_array::types::TimestampMillisecondType>::new(TimeSpec {
            tick_digits: 3, precision: 3, range: DATETIME64_RANGE, ..spec(zone, 3)
        });
        let text = jiff::Timestamp::from_second(seconds).expect("in range").strftime("%Y-%m-%d %H:%M:%S").to_string();
        prop_assert_eq!(time.local_timestamp(seconds, 0), time.text(text.as_bytes()), "{}", text);
    }

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
        let ours = Time::<arrow_array::types::TimestampNanosecondType>::new(spec(zone, 9)).text(text.as_bytes());
        prop_assert_eq!(ours.ok().map(i128::from), Some(again.as_nanosecond()), "{}", text);
        // With the offset written the zone has no say.
        let written = stamp.strftime("%Y-%m-%dT%H:%M:%S.%9f").to_string();
        let offset = stamp.offset().seconds();
        if offset % 60 == 0 {
            let sign = if offset < 0 { '-' } else { '+' };
            let text = format!("{written}{sign}{:02}:{:02}", offset.abs() / 3600, offset.abs() / 60 % 60);
            let ours = Time::<arrow_array::types::TimestampNanosecondType>::new(spec("Asia/Tokyo", 9)).text(text.as_bytes());
            prop_assert_eq!(ours.ok().map(i128::from), Some(stamp.timestamp().as_nanosecond()), "{}", text);
        }
    }
}
