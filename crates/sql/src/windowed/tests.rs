use super::{WindowKind, Windowed, windowed};
use crate::text::Text;

const MINUTE: u64 = 60_000;

fn read(text: &str) -> Result<Option<Windowed>, String> {
    windowed(&Text::new(text)).map_err(|fault| fault.message)
}

#[test]
fn the_table_functions_say_the_windows() {
    for (from, kind) in [
        ("TUMBLE(input, at, INTERVAL '1 minute')", WindowKind::Tumble { size: MINUTE }),
        ("tumble(input, at, INTERVAL '1' MINUTE)", WindowKind::Tumble { size: MINUTE }),
        ("TUMBLE(input, at, INTERVAL '1 hour 30 minutes')", WindowKind::Tumble { size: 90 * MINUTE }),
        (
            "HOP(input, at, INTERVAL '5' MINUTES, INTERVAL '1' HOUR)",
            WindowKind::Hop { slide: 5 * MINUTE, size: 60 * MINUTE },
        ),
        (
            "CUMULATE(input, at, INTERVAL '1 hour', INTERVAL '1 day')",
            WindowKind::Cumulate { step: 60 * MINUTE, size: 1440 * MINUTE },
        ),
        ("SESSION(input, at, INTERVAL '30 minutes')", WindowKind::Session { gap: 30 * MINUTE }),
    ] {
        let text = format!(
            "SELECT window_start, device, count(*) AS n, sum(amount * 2) FILTER (WHERE amount > 3) AS total FROM {from} \
             GROUP BY window_start, window_end, device"
        );
        let expected = Windowed {
            kind,
            time: "at".into(),
            lateness: None,
            max: None,
            closes_at_end: false,
            selects_time: None,
            key: vec!["device".into()],
            aggregates: vec![
                ("n".into(), "count(*)".into()),
                ("total".into(), "sum(amount * 2) FILTER (WHERE amount > 3)".into()),
            ],
        };
        assert_eq!(read(&text), Ok(Some(expected)), "{from}");
    }
}

#[test]
fn lateness_and_the_end_of_sessions_are_named_arguments() {
    let query = |from: &str| format!("SELECT count(*) AS n FROM {from} GROUP BY window_start, window_end");
    let session = "SESSION(input, at, INTERVAL '1 minute', lateness => INTERVAL '10 seconds', max => INTERVAL '1 hour')";
    let found = read(&query(session)).unwrap().unwrap();
    assert_eq!((found.lateness, found.max), (Some(10_000), Some(60 * MINUTE)));
    let tumble = "TUMBLE(input, at, INTERVAL '1 minute', lateness => INTERVAL '10 seconds')";
    assert_eq!(read(&query(tumble)).unwrap().unwrap().lateness, Some(10_000));
    let closing = "TUMBLE(input, at, INTERVAL '1 minute', at_end => 'close')";
    assert!(read(&query(closing)).unwrap().unwrap().closes_at_end);
}

#[test]
fn an_argument_that_is_not_taken_is_named_with_the_reason_and_its_place() {
    let tumble = |wrong: &str| format!("TUMBLE(input, at, INTERVAL '1 minute', {wrong})");
    for (from, at, expected) in [
        (tumble("at_end => 'never'"), "'never'", "`at_end` is `'never'`; write `at_end => 'close'` or"),
        (tumble("at_end => close"), "close", "`at_end` is `close`; write `at_end => 'close'` or"),
        (
            tumble("memory => '64MiB'"),
            "memory",
            "TUMBLE has no setting `memory`; it has `lateness` and `at_end`, and a step `window:`",
        ),
        (tumble("max => INTERVAL '1 hour'"), "max", "TUMBLE has no setting `max`"),
        (
            tumble("lateness => 10"),
            "10",
            "`lateness` of TUMBLE is `10`, which is no interval; write one as in",
        ),
        (
            tumble("lateness => INTERVAL '-1 second'"),
            "INTERVAL '-1 second'",
            "`lateness` of TUMBLE is `INTERVAL '-1 second'`, which is negative",
        ),
        (
            tumble("lateness => INTERVAL '1 second', lateness => INTERVAL '2 seconds'"),
            "INTERVAL '2 seconds'",
            "TUMBLE: `lateness` is given twice; write `FROM TUMBLE(input,",
        ),
        (
            tumble("INTERVAL '1 hour'"),
            "INTERVAL '1 hour'",
            "TUMBLE: behind the time stand `2` lengths, and it takes `size`",
        ),
        (
            "TUMBLE(input, at, INTERVAL '1 month')".into(),
            "INTERVAL '1 month'",
            "and not every month has the same length",
        ),
        (
            "TUMBLE(input, at, INTERVAL '1 fortnight')".into(),
            "INTERVAL '1 fortnight'",
            "which is not understood",
        ),
        (
            "TUMBLE(input, at, '1 minute')".into(),
            "'1 minute'",
            "`size` of TUMBLE is `'1 minute'`, which is no interval",
        ),
        ("TUMBLE(input, at)".into(), "at", "TUMBLE: `size` is missing"),
        ("TUMBLE(input)".into(), "", "the column that holds the time is missing"),
        (
            "TUMBLE(input, INTERVAL '1 minute', at)".into(),
            "INTERVAL '1 minute'",
            "in the place of the column that holds the time",
        ),
        (
            "SESSION(orders, at, INTERVAL '1 hour')".into(),
            "orders",
            "SESSION: `orders` stands in the place of `input`",
        ),
        (
            "HOP(input, at, INTERVAL '1 hour')".into(),
            "INTERVAL '1 hour'",
            "it takes `slide` and `size`; write `FROM HOP(input, time,",
        ),
        ("CUMULATE(input, at)".into(), "at", "CUMULATE: `step` and `size` are missing"),
    ] {
        let text = format!("SELECT count(*) AS n FROM {from} GROUP BY window_start, window_end");
        let fault = windowed(&Text::new(&text)).unwrap_err();
        assert!(fault.message.contains(expected), "{from}: {}", fault.message);
        let place = fault.at.map(|at| text[at].to_owned()).unwrap_or_default();
        assert!(at.is_empty() || !place.is_empty() && at.ends_with(&place), "{from}: {place}");
    }
}

#[test]
fn other_queries_are_none_of_windows() {
    for text in [
        "SELECT * FROM input",
        "SELECT FROM",
        "SELECT * FROM a JOIN b ON a.x = b.x",
        "SELECT 1 FROM unnest(x)",
    ] {
        assert_eq!(read(text), Ok(None), "{text}");
    }
}

#[test]
fn functions_that_are_nearly_ours_name_the_one_that_was_meant() {
    let by = "GROUP BY window_start, window_end";
    for (text, expected) in [
        (
            "TUMBEL(input, at, INTERVAL '1 minute')",
            "there is no table function `TUMBEL`; did you mean `TUMBLE`?",
        ),
        ("sesion(input, at, INTERVAL '1 minute')", "did you mean `SESSION`?"),
    ] {
        let told = read(&format!("SELECT count(*) AS n FROM {text} {by}")).unwrap_err();
        assert!(told.contains(expected), "{told}");
    }
    let flink = format!(
        "SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE input, DESCRIPTOR(at), INTERVAL '1' MINUTE)) {by}"
    );
    let told = Text::new(&flink).query().unwrap_err().to_string();
    assert!(
        told.contains("write `FROM TUMBLE(input, time, INTERVAL '1 minute')`, without `TABLE`"),
        "{told}"
    );
    // A column may be called so.
    assert!(Text::new("SELECT \"table\" FROM input").query().is_ok());
}

#[test]
fn what_windows_cannot_do_is_refused_with_the_step_that_can() {
    let tumble = "FROM TUMBLE(input, at, INTERVAL '1 minute')";
    let by = "GROUP BY window_start, window_end, device";
    for (text, expected) in [
        (format!("SELECT count(*) AS n {tumble} WHERE x > 1 {by}"), "`filter` step before"),
        (format!("SELECT count(*) AS n {tumble} {by} HAVING count(*) > 1"), "`filter` step behind"),
        (format!("SELECT sum(a) / count(*) AS mean {tumble} {by}"), "`select` step behind"),
        (format!("SELECT count(*) {tumble} {by}"), "AS name"),
        (format!("SELECT amount, count(*) AS n {tumble} {by}"), "not in GROUP BY"),
        (format!("SELECT device AS d, count(*) AS n {tumble} {by}"), "columns:"),
        (format!("SELECT * {tumble} {by}"), "`*` is refused"),
        (format!("SELECT device {tumble} {by}"), "no aggregate"),
        (format!("SELECT count(*) AS n {tumble} GROUP BY device"), "GROUP BY window_start, window_end"),
        (format!("SELECT count(*) AS n {tumble} GROUP BY upper(device)"), "`select` step before"),
        (format!("SELECT DISTINCT count(*) AS n {tumble} {by}"), "DISTINCT"),
        (format!("SELECT count(*) AS n {tumble} TABLESAMPLE BERNOULLI (10) {by}"), "`filter` step before"),
        (format!("SELECT count(*) AS n {tumble} AS w SAMPLE 0.1 {by}"), "windows are of all rows"),
        (format!("SELECT count(*) AS n {tumble} WITH ORDINALITY {by}"), "windows are of all rows"),
        (format!("SELECT count(*) AS n {tumble} AS w (a, b) {by}"), "columns are not renamed here"),
        (
            format!("SELECT count(*) AS n FROM TUMBLE(input, at, '1 minute') {by}"),
            "write one as in `INTERVAL '90 seconds'`",
        ),
        (
            format!("SELECT count(*) AS n FROM HOP(orders, at, INTERVAL '1 minute', INTERVAL '1 hour') {by}"),
            "write `FROM HOP(input",
        ),
    ] {
        let told = read(&text).unwrap_err();
        assert!(told.contains(expected), "{text}: {told}");
    }
}
