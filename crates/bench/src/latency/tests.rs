use super::*;

const PAGE: &str = "\
# TYPE forebay_seal_seconds histogram
forebay_seal_seconds_bucket{le=\"1\"} 99
# TYPE forebay_end_to_end_seconds histogram
forebay_end_to_end_seconds_bucket{le=\"0.5\"} 0
forebay_end_to_end_seconds_bucket{le=\"1\"} 50
forebay_end_to_end_seconds_bucket{le=\"2.5\"} 90
forebay_end_to_end_seconds_bucket{le=\"5\"} 100
forebay_end_to_end_seconds_bucket{le=\"+Inf\"} 100
forebay_end_to_end_seconds_sum 120.5
forebay_end_to_end_seconds_count 100
";

#[test]
fn quantiles_are_interpolated_inside_their_bucket() {
    let latency = latency(PAGE, END_TO_END).unwrap();
    assert_eq!(latency.samples, 100);
    assert_eq!(latency.p50_s, 1.0);
    assert_eq!(latency.p90_s, 2.5);
    assert_eq!(latency.p99_s, 4.75);
    assert!((latency.p999_s - 4.975).abs() < 1e-9, "{latency:?}");
}

#[test]
fn a_quantile_above_the_last_bound_is_that_bound() {
    let page = "forebay_end_to_end_seconds_bucket{le=\"600\"} 1\nforebay_end_to_end_seconds_bucket{le=\"+Inf\"} 10\n";
    assert_eq!(latency(page, END_TO_END).unwrap().p99_s, 600.0);
}

#[test]
fn a_page_without_samples_has_no_latency() {
    assert_eq!(latency("", END_TO_END), None);
    assert_eq!(latency("forebay_end_to_end_seconds_bucket{le=\"+Inf\"} 0\n", END_TO_END), None);
}

#[test]
fn each_histogram_and_number_is_found_by_its_whole_name() {
    assert_eq!(latency(PAGE, SEAL).map(|seals| seals.samples), Some(99));
    let page = "# TYPE a_b gauge\na_b_c 1\na_b 2.5\n";
    assert_eq!((number(page, "a_b"), number(page, "a")), (Some(2.5), None));
}
