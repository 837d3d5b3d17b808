//! The tables of values.

use super::support::run_table;

macro_rules! table {
    ($test:ident, $file:literal) => {
        #[test]
        fn $test() {
            run_table($file, include_str!(concat!("cases/", $file)));
        }
    };
}

table!(integers_are_exact_to_64_bit, "integers.txt");
table!(floats_are_the_nearest_and_never_infinite_by_overflow, "floats.txt");
table!(decimals_are_exact_to_128_bit, "decimals.txt");
table!(bools_are_true_false_1_and_0, "bools.txt");
table!(strings_are_copied_and_unescaped, "strings.txt");
table!(times_are_read_in_their_zone, "times.txt");
table!(unix_numbers_are_read_in_their_unit, "unix.txt");
table!(days_are_of_the_calendar, "dates.txt");
table!(uuids_addresses_fixed_strings_and_enums_come_from_text, "text_types.txt");
table!(arrays_and_maps_hold_items_of_their_type, "containers.txt");
table!(null_is_taken_where_the_type_has_it, "nulls.txt");

#[test]
fn times_do_not_follow_the_zone_of_the_process() {
    let tests = std::env::current_exe().expect("the tests run from a file");
    for zone in ["America/New_York", "Asia/Kolkata", ":/nowhere"] {
        let output = std::process::Command::new(&tests)
            .args(["--exact", "json::tests::values::times_are_read_in_their_zone"])
            .env("TZ", zone)
            .output()
            .expect("the tests can be run again");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "TZ={zone}: {said}");
    }
}
