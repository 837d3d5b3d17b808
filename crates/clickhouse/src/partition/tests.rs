use std::sync::Arc;

use arrow_array::*;
use proptest::prelude::*;

use super::*;

fn schema(columns: &[(&str, &str)]) -> Schema {
    Schema::new(columns.iter().map(|(n, t)| Column::new(*n, crate::types::parse(n, t).unwrap())).collect())
}

fn key_in(zone: &str, key: &str, schema: &Schema) -> Result<PartitionKey, PartitionError> {
    PartitionKey::new(key, schema, &[], &TimeZone::get(zone).unwrap())
}

fn names(key: &PartitionKey, arrays: Vec<(&str, ArrayRef)>) -> Vec<String> {
    let rows =
        RecordBatch::try_from_iter_with_nullable(arrays.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    key.cut(&[rows], Rows::All).unwrap().into_iter().map(|g| g.partition).collect()
}

fn times(seconds: &[i64]) -> ArrayRef {
    Arc::new(TimestampSecondArray::from(seconds.to_vec()).with_timezone("UTC"))
}

fn at(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_second()
}

#[test]
fn no_key_is_one_group_of_all_rows() {
    let schema = schema(&[("a", "UInt8")]);
    for text in ["", "tuple()"] {
        let key = key_in("UTC", text, &schema).unwrap();
        let rows =
            RecordBatch::try_from_iter([("a", Arc::new(UInt8Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
        assert_eq!(key.cut(&[rows], Rows::All).unwrap(), [Group { partition: String::new(), rows: None }]);
    }
}

#[test]
fn months_follow_the_zone_of_the_column_then_the_servers() {
    let moment = [at("2024-01-31T23:30:00Z"), at("2024-02-01T00:30:00Z")];
    let plain = schema(&[("t", "DateTime")]);
    let cut = |zone: &str, key: &str, schema: &Schema| {
        names(&key_in(zone, key, schema).unwrap(), vec![("t", times(&moment))])
    };
    assert_eq!(cut("UTC", "toYYYYMM(t)", &plain), ["202401", "202402"]);
    assert_eq!(cut("Europe/Berlin", "toYYYYMM(t)", &plain), ["202402"]);
    assert_eq!(cut("Europe/Berlin", "toYYYYMM(t, 'UTC')", &plain), ["202401", "202402"]);
    let berlin = schema(&[("t", "DateTime('Europe/Berlin')")]);
    assert_eq!(cut("UTC", "toYYYYMM(t)", &berlin), ["202402"]);
    let new_york = schema(&[("t", "DateTime64(3, 'America/New_York')")]);
    let millis = TimestampMillisecondArray::from(moment.iter().map(|s| s * 1000 + 999).collect::<Vec<_>>());
    assert_eq!(
        names(&key_in("UTC", "toYYYYMM(t)", &new_york).unwrap(), vec![("t", Arc::new(millis))]),
        ["202401"]
    );
}

#[test]
fn every_function_tells_its_periods_apart() {
    let schema = schema(&[
        ("t", "DateTime"),
        ("d", "Date"),
        ("n", "Int32"),
        ("u", "UInt64"),
        ("s", "LowCardinality(String)"),
    ]);
    let t = times(&[
        at("2023-12-31T23:59:59Z"),
        at("2024-01-01T00:00:00Z"),
        at("2024-01-07T12:20:00Z"),
        at("2024-01-08T12:40:00Z"),
    ]);
    let d: ArrayRef = Arc::new(Date32Array::from(vec![19722, 19723, 19729, 19730]));
    let n: ArrayRef = Arc::new(Int32Array::from(vec![-3, 3, 11, 8]));
    let u: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, 7, 0, 7]));
    let s: ArrayRef = Arc::new(StringArray::from(vec!["DE", "FR", "DE", "UK"]));
    let arrays =
        || vec![("t", t.clone()), ("d", d.clone()), ("n", n.clone()), ("u", u.clone()), ("s", s.clone())];
    for (key, wanted) in [
        ("toYYYYMMDD(t)", vec!["20231231", "20240101", "20240107", "20240108"]),
        ("toDate(t)", vec!["20231231", "20240101", "20240107", "20240108"]),
        ("toMonday(t)", vec!["20231225", "20240101", "20240108"]),
        ("toMonday(d)", vec!["20231225", "20240101", "20240108"]),
        ("toStartOfWeek(d)", vec!["20231231", "20240107"]),
        ("toStartOfWeek(t, 1)", vec!["20231225", "20240101", "20240108"]),
        ("toYear(t)", vec!["2023", "2024"]),
        ("toStartOfYear(d)", vec!["2023", "2024"]),
        ("toStartOfQuarter(t)", vec!["202310", "202401"]),
        ("toMonth(d)", vec!["12", "1"]),
        ("toDayOfWeek(t)", vec!["7", "1"]),
        ("toHour(t)", vec!["23", "0", "12"]),
        ("toStartOfMonth(toDate(t))", vec!["202312", "202401"]),
        ("d", vec!["20231231", "20240101", "20240107", "20240108"]),
        ("s", vec!["DE", "FR", "UK"]),
        ("n % 8", vec!["-3", "3", "0"]),
        ("moduloLegacy(n, 8)", vec!["-3", "3", "0"]),
        ("intDiv(n, 4)", vec!["0", "2"]),
        ("u % 10", vec!["5", "7", "0"]),
        ("u", vec!["18446744073709551615", "7", "0"]),
        ("(toYYYYMM(t), s)", vec!["202312-DE", "202401-FR", "202401-DE", "202401-UK"]),
        ("toYYYYMM(t), s", vec!["202312-DE", "202401-FR", "202401-DE", "202401-UK"]),
        ("(`s`)", vec!["DE", "FR", "UK"]),
        ("YEAR(t)", vec!["2023", "2024"]),
        ("toStartOfMonth(DATE(t))", vec!["202312", "202401"]),
        ("mod(u, 10)", vec!["5", "7", "0"]),
    ] {
        let cut = key_in("UTC", key, &schema).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(names(&cut, arrays()), wanted, "{key}");
    }
    let hours = key_in("UTC", "toStartOfHour(t)", &schema).unwrap();
    assert_eq!(names(&hours, arrays()).len(), 4);
}

#[test]
fn what_cannot_be_evaluated_here_is_refused_with_the_way_out() {
    let mut columns =
        schema(&[("t", "DateTime"), ("n", "Int32"), ("f", "Float64"), ("d", "Date")]).columns().to_vec();
    columns[0].default = Some("now()".into());
    columns[3].default = Some("'2024-01-01'".into());
    let schema = Schema::new(columns);
    for (key, words) in [
        ("toYYYYMM(t)", "not constant"),
        ("cityHash64(n) % 8", "cityHash64"),
        ("toYYYYMM(gone)", "not written"),
        ("f", "Float64"),
        ("n % 0", "not supported"),
        ("n + 1", "plus"),
        ("toYYYYMM(n)", "toYYYYMM"),
        ("toStartOfHour(d)", "toStartOfHour"),
        ("rand()", "no arguments"),
        ("7", "constant"),
        ("toYYYYMM(t", "missing"),
        ("((((((((((((((((((((n))))))))))))))))))))", "deep"),
    ] {
        let error = key_in("UTC", key, &schema).unwrap_err().to_string();
        assert!(error.contains(words), "{key}: {error}");
    }
    assert!(key_in("UTC", "toYYYYMM(d)", &schema).is_ok(), "a constant default is fine");
}

#[test]
fn a_null_is_a_group_of_its_own() {
    let schema = schema(&[("n", "Nullable(Int32)")]);
    let key = key_in("UTC", "n % 2", &schema).unwrap();
    let n: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), None]));
    assert_eq!(names(&key, vec![("n", n)]), ["1", "null"]);
}

#[test]
fn a_materialized_column_is_its_expression() {
    let schema = schema(&[("t", "DateTime")]);
    let computed = [Computed { name: "day".into(), expression: "toDate(t)".into() }];
    let key = PartitionKey::new("toYYYYMM(day)", &schema, &computed, &TimeZone::UTC).unwrap();
    let t = times(&[at("2024-01-31T23:30:00Z"), at("2024-02-01T00:30:00Z")]);
    assert_eq!(names(&key, vec![("t", t)]), ["202401", "202402"]);
    let circle = [Computed { name: "day".into(), expression: "toDate(day)".into() }];
    assert!(PartitionKey::new("day", &schema, &circle, &TimeZone::UTC).is_err());
}

#[test]
fn groups_keep_the_order_of_rows_over_batches() {
    let schema = schema(&[("n", "Int32")]);
    let key = key_in("UTC", "n", &schema).unwrap();
    let rows =
        |v: Vec<i32>| RecordBatch::try_from_iter([("n", Arc::new(Int32Array::from(v)) as ArrayRef)]).unwrap();
    let groups = key.cut(&[rows(vec![2, 1]), rows(vec![1, 2, 2])], Rows::All).unwrap();
    let shown: Vec<(String, Vec<(u32, u32)>)> = groups
        .into_iter()
        .map(|g| (g.partition, g.rows.unwrap().iter().map(|r| (r.batch, r.row)).collect()))
        .collect();
    assert_eq!(shown, [("2".into(), vec![(0, 0), (1, 1), (1, 2)]), ("1".into(), vec![(0, 1), (1, 0)])]);
}

#[test]
fn only_expressions_of_nothing_but_literals_are_constant() {
    for constant in [
        "0",
        "-1.5",
        "''",
        "'x'",
        "NULL",
        "true",
        "[]",
        "map()",
        "CAST('a', 'Enum8(\\'a\\' = 1)')",
        "toDate('2020-01-01')",
        "1 + 2",
    ] {
        assert!(is_constant(constant), "{constant}");
    }
    for other in
        ["now()", "rand() % 3", "generateUUIDv4()", "toDate(ts)", "ts", "today()", "hostName()", "now64(3)"]
    {
        assert!(!is_constant(other), "{other}");
    }
}

/// What a file says, before a server has read it.
#[test]
fn a_key_is_refused_as_it_is_written_only_if_no_server_makes_another_of_it() {
    let mut columns = schema(&[("t", "DateTime"), ("n", "Int32"), ("f", "Float64")]).columns().to_vec();
    columns[0].default = Some("parseDateTimeBestEffort('2024')".into());
    let schema = Schema::new(columns);
    let computed = |expression: &str| [Computed { name: "part".into(), expression: expression.into() }];
    let refused = |key: &str, part: &str| {
        fault_in_words(key, &schema, &computed(part)).map_or(String::new(), |error| error.reason)
    };
    for key in [
        "",
        "tuple()",
        "n",
        "toYYYYMM(t)",
        "YEAR(t)",
        "(DATE(t), n % 8)",
        "part",
        "n DIV 8",
        "toStartOfInterval(t, INTERVAL 1 DAY)",
    ] {
        assert_eq!(refused(key, "mod(n, 4)"), "", "{key}");
    }
    assert_eq!(refused("part", "n MOD 4"), "", "a server writes it in another way");
    for (key, words) in [
        ("cityHash64(n) % 8", "`cityHash64` is not one of the functions"),
        ("f", "Float64"),
        ("gone", "not written"),
        ("part", "`cityHash64` is not one of the functions"),
    ] {
        assert!(refused(key, "cityHash64(n)").contains(words), "{key}: {}", refused(key, "cityHash64(n)"));
    }
}

proptest! {
    /// The same by another road: jiff's civil dates, second by second, without any range kept.
    #[test]
    fn days_and_months_are_those_of_the_calendar(
        seconds in proptest::collection::vec(0i64..=u32::MAX.into(), 1..50),
        zone in prop_oneof![Just("UTC"), Just("Europe/Berlin"), Just("America/New_York"), Just("Asia/Kathmandu"), Just("Australia/Lord_Howe")],
    ) {
        let schema = schema(&[("t", "DateTime")]);
        let tz = TimeZone::get(zone).unwrap();
        for (key, format) in [("toYYYYMM(t)", "%Y%m"), ("toDate(t)", "%Y%m%d"), ("toYear(t)", "%Y")] {
            let cut = key_in(zone, key, &schema).unwrap();
            for second in &seconds {
                let civil = jiff::Timestamp::from_second(*second).unwrap().to_zoned(tz.clone());
                let single = names(&cut, vec![("t", times(&[*second]))]);
                prop_assert_eq!(&single[0], &civil.strftime(format).to_string());
            }
            let mut wanted: Vec<String> = Vec::new();
            for second in &seconds {
                let name = jiff::Timestamp::from_second(*second).unwrap().to_zoned(tz.clone()).strftime(format).to_string();
                if !wanted.contains(&name) { wanted.push(name); }
            }
            prop_assert_eq!(names(&cut, vec![("t", times(&seconds))]), wanted);
        }
    }

    #[test]
    fn no_text_panics(text in "[a-zA-Z0-9(),'`%\\-\\[\\] ]{0,40}") {
        let schema = schema(&[("t", "DateTime"), ("n", "Int32")]);
        let _ = key_in("UTC", &text, &schema);
        let _ = is_constant(&text);
    }
}

#[test]
fn fuzz_partition_key() {
    let schema = schema(&[
        ("n", "Int64"),
        ("s", "LowCardinality(String)"),
        ("t", "DateTime64(3, 'Europe/Berlin')"),
        ("d", "Date"),
    ]);
    let rows = RecordBatch::try_from_iter_with_nullable([
        ("n", Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, i64::MAX])) as ArrayRef, true),
        ("s", Arc::new(StringArray::from(vec!["", "a-b", "\u{e9}", "x"])) as ArrayRef, true),
        (
            "t",
            Arc::new(
                TimestampMillisecondArray::from(vec![i64::MIN / 1000, -1, 0, 9_000_000_000_000])
                    .with_timezone("Europe/Berlin"),
            ) as ArrayRef,
            true,
        ),
        ("d", Arc::new(Date32Array::from(vec![0, 1, 65_535, 20_000])) as ArrayRef, true),
    ])
    .unwrap();
    let examples = [
        "toYYYYMM(t)",
        "(toMonday(d), s)",
        "intDiv(n, 1000) % 16",
        "tuple(s, toStartOfInterval(t, toIntervalHour(6)))",
        "cityHash64(s) % 8",
        "toYYYYMMDD(toDateTime(n))",
        "toDate(t, 'UTC')",
        "`n` + -1 * (2 - 3)",
        "modulo(n, 7)",
    ];
    let words = [
        "toYYYYMM(",
        "toStartOfWeek(",
        "intDiv(",
        "%",
        "modulo(",
        "0",
        "-1",
        "9223372036854775807",
        "'UTC'",
        "INTERVAL 1 DAY",
        "(",
        ")",
        ",",
        "n",
        "s",
        "t",
        "d",
        "`",
        "'",
        "\\",
        "\u{e9}",
        "toIntervalSecond(",
    ];
    testkit::Fuzz::new("partition key").examples(examples).words(words).run(10_000, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = is_constant(&text);
        let _ = plain_columns(&text);
        let Ok(key) = key_in("UTC", &text, &schema) else { return };
        if let Ok(groups) = key.cut(std::slice::from_ref(&rows), Rows::All) {
            let cut: usize = groups.iter().map(|group| group.rows.as_ref().map_or(4, Vec::len)).sum();
            assert_eq!(cut, 4, "every row is in one group: {text}");
        }
    });
}
