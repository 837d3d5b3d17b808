use super::*;

#[test]
fn dates_are_those_of_the_calendar() {
    let text = |seconds| String::from_utf8(date_time(seconds).to_vec()).expect("ASCII");
    for (seconds, expected) in [
        (0, "1970-01-01 00:00:00"),
        (951_782_399, "2000-02-28 23:59:59"),
        (951_782_400, "2000-02-29 00:00:00"),
        (951_868_800, "2000-03-01 00:00:00"),
        (1_735_689_600, "2025-01-01 00:00:00"),
        (1_709_210_096, "2024-02-29 12:34:56"),
        (4_107_542_399, "2100-02-28 23:59:59"),
        (4_107_542_400, "2100-03-01 00:00:00"),
        (4_294_967_295, "2106-02-07 06:28:15"),
    ] {
        assert_eq!(text(seconds), expected);
    }
}

#[test]
fn days_follow_one_another_for_four_hundred_years() {
    let is_leap = |year: u64| year.is_multiple_of(if year.is_multiple_of(100) { 400 } else { 4 });
    let (mut year, mut month, mut day) = (1970, 1, 1);
    for days in 0..150_000 {
        assert_eq!(date(days), (year, month, day));
        let month_days = match month {
            2 if is_leap(year) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        day += 1;
        if day > month_days {
            (month, day) = (month + 1, 1);
        }
        if month > 12 {
            (year, month) = (year + 1, 1);
        }
    }
}
