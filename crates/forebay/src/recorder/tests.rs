use super::*;

fn told(record: impl FnOnce()) -> String {
    let metrics = Metrics::default();
    metrics::with_local_recorder(&metrics, record);
    metrics.text()
}

#[test]
fn each_family_is_typed_once_and_families_come_by_name() {
    let text = told(|| {
        metrics::gauge!("b").set(1.5);
        metrics::counter!("c_total", "table" => "y").increment(2);
        metrics::counter!("c_total", "table" => "y").increment(3);
        metrics::gauge!("a").set(-2.0);
    });
    assert_eq!(
        text,
        "# TYPE a gauge\na -2\n# TYPE b gauge\nb 1.5\n# TYPE c_total counter\nc_total{table=\"y\"} 5\n"
    );
}

#[test]
fn buckets_count_all_that_is_not_above_their_bound() {
    let text = told(|| {
        let seconds = metrics::histogram!("t_seconds", "k" => "v");
        for value in [0.001, 0.0011, 0.5, 700.0] {
            seconds.record(value);
        }
    });
    for line in [
        "# TYPE t_seconds histogram",
        "t_seconds_bucket{k=\"v\",le=\"0.001\"} 1",
        "t_seconds_bucket{k=\"v\",le=\"0.0025\"} 2",
        "t_seconds_bucket{k=\"v\",le=\"0.4\"} 2",
        "t_seconds_bucket{k=\"v\",le=\"0.6\"} 3",
        "t_seconds_bucket{k=\"v\",le=\"600\"} 3",
        "t_seconds_bucket{k=\"v\",le=\"+Inf\"} 4",
        "t_seconds_count{k=\"v\"} 4",
    ] {
        assert!(text.lines().any(|told| told == line), "{line}\n{text}");
    }
    let sum = text.lines().find_map(|line| line.strip_prefix("t_seconds_sum{k=\"v\"} ")).expect("a sum");
    assert!((sum.parse::<f64>().expect("a number") - 700.5021).abs() < 1e-9, "{sum}");
}

#[test]
fn a_label_cannot_end_its_own_quotes_or_line() {
    let text = told(|| metrics::gauge!("g", "why" => "a\"b\\c\nd").set(f64::INFINITY));
    assert_eq!(text, "# TYPE g gauge\ng{why=\"a\\\"b\\\\c\\nd\"} +Inf\n");
}
