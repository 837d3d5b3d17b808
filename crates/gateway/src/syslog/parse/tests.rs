use serde_json::{Value, json};

use super::*;

/// 2023-11-14T22:13:20Z.
const RECEIVED_MS: i64 = 1_700_000_000_123;

fn record(bytes: &[u8]) -> Value {
    let mut out = Vec::new();
    write_record(&mut out, &parse(bytes), RECEIVED_MS, "192.0.2.7:514", false);
    serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out)))
}

/// Time, facility and severity, host, program, process, kind, text, and format.
fn fields(bytes: &[u8]) -> (Value, [u64; 2], [String; 5], String) {
    let record = record(bytes);
    let text = |name: &str| record[name].as_str().expect("a text").to_owned();
    let number = |name: &str| record[name].as_u64().expect("a number");
    let texts = ["hostname", "app_name", "procid", "msgid", "message"].map(text);
    (record["timestamp"].clone(), [number("facility"), number("severity")], texts, text("format"))
}

#[track_caller]
fn check(bytes: &[u8], time: Value, priority: [u64; 2], texts: [&str; 5], format: &str) {
    assert_eq!(
        fields(bytes),
        (time, priority, texts.map(str::to_owned), format.to_owned()),
        "{}",
        bytes.escape_ascii()
    );
}

#[test]
fn messages_of_rfc_5424_are_read_whole() {
    let at = |text: &str| Value::from(text);
    check(
        b"<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \xef\xbb\xbf'su root' failed for lonvick on /dev/pts/8",
        at("2003-10-11T22:14:15.003Z"),
        [4, 2],
        ["mymachine.example.com", "su", "", "ID47", "'su root' failed for lonvick on /dev/pts/8"],
        "rfc5424",
    );
    check(
        b"<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.\n",
        at("2003-08-24T05:14:15.000003-07:00"),
        [20, 5],
        ["192.0.2.1", "myproc", "8710", "", "%% It's time to make the do-nuts."],
        "rfc5424",
    );
    check(b"<0>1 - - - - - -", json!(RECEIVED_MS), [0, 0], [""; 5], "rfc5424");
    check(b"<191>1 - h a p m", json!(RECEIVED_MS), [23, 7], ["h", "a", "p", "m", ""], "rfc5424");
    check(
        b"<13>1 - h a p m -  two\nlines",
        json!(RECEIVED_MS),
        [1, 5],
        ["h", "a", "p", "m", " two\nlines"],
        "rfc5424",
    );
}

#[test]
fn a_time_that_no_calendar_has_gives_way_to_that_of_the_receipt() {
    let of = |message: &str| {
        let (time, _, texts, _) = fields(message.as_bytes());
        (time, texts[0].clone(), texts[4].clone())
    };
    let expected = |time: Value| (time, "host".to_owned(), "text".to_owned());
    for time in [
        "2024-02-31T10:00:00Z",
        "2023-02-29T10:00:00Z",
        "2100-02-29T10:00:00Z",
        "2023-04-31T10:00:00.5Z",
        "2023-04-30T10:00:00+99:99",
        "2023-04-30T10:00:00+24:00",
        "2023-04-30T10:00:00-00:60",
    ] {
        assert_eq!(of(&format!("<13>1 {time} host a p m - text")), expected(json!(RECEIVED_MS)), "{time}");
        assert_eq!(of(&format!("<13>{time} host a: text")), expected(json!(RECEIVED_MS)), "{time}");
    }
    // The nearest February was that of 2024, which has 29 days.
    for time in ["Feb 30 10:00:00", "Apr 31 10:00:00"] {
        assert_eq!(of(&format!("<13>{time} host a: text")), expected(json!(RECEIVED_MS)), "{time}");
    }
    for time in ["2024-02-29T10:00:00Z", "2000-02-29T23:59:59-23:59"] {
        assert_eq!(of(&format!("<13>1 {time} host a p m - text")), expected(json!(time)), "{time}");
    }
    assert_eq!(of("<13>Feb 29 10:00:00 host a: text"), expected(json!("2024-02-29T10:00:00")));
}

#[test]
fn a_leap_second_is_the_second_before_it() {
    for (message, expected) in [
        ("<13>1 2016-12-31T23:59:60Z host a p m - text", "2016-12-31T23:59:59Z"),
        ("<13>1 2016-12-31T18:59:60.25-05:00 host a p m - text", "2016-12-31T18:59:59.25-05:00"),
        ("<13>2016-12-31T23:59:60Z host a: text", "2016-12-31T23:59:59Z"),
        ("<13>Oct 31 23:59:60 host a: text", "2023-10-31T23:59:59"),
    ] {
        let (time, _, texts, _) = fields(message.as_bytes());
        assert_eq!(
            (&time, texts[0].as_str(), texts[4].as_str()),
            (&json!(expected), "host", "text"),
            "{message}"
        );
    }
    // A second later there is none.
    let (time, _, texts, _) = fields(b"<13>1 2016-12-31T23:59:61Z host a p m - text");
    assert_eq!((time, texts[0].as_str()), (json!(RECEIVED_MS), ""));
}

#[test]
fn structured_data_become_maps_of_texts() {
    let of = |data: &str| {
        let record = record(format!("<13>1 - h a p m {data}").as_bytes());
        (record["structured_data"].clone(), record["message"].as_str().unwrap().to_owned())
    };
    for (data, expected, text) in [
        (
            r#"[exampleSDID@32473 iut="3" eventSource="Application"][examplePriority@32473 class="high"] An event"#,
            json!({ "exampleSDID@32473": { "iut": "3", "eventSource": "Application" }, "examplePriority@32473": { "class": "high" } }),
            "An event",
        ),
        (r#"[a b="\"\\\]\x" c=""]"#, json!({ "a": { "b": r#""\]\x"#, "c": "" } }), ""),
        ("[a]", json!({ "a": {} }), ""),
        ("- [a b=\"c\"]", json!({}), "[a b=\"c\"]"),
        // What is not well formed stays in the text.
        ("[a b=\"c] x", json!({}), "[a b=\"c] x"),
        ("[a b=\"c\"]x", json!({}), "[a b=\"c\"]x"),
        ("[a b=c] x", json!({}), "[a b=c] x"),
        ("[] x", json!({}), "[] x"),
        ("plain text", json!({}), "plain text"),
    ] {
        assert_eq!(of(data), (expected, text.to_owned()), "{data}");
    }
}

#[test]
fn messages_of_rfc_3164_are_read_as_far_as_they_go() {
    let at = |text: &str| Value::from(text);
    let oct = "2023-10-11T22:14:15";
    check(
        b"<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
        at(oct),
        [4, 2],
        ["mymachine", "su", "", "", "'su root' failed"],
        "rfc3164",
    );
    check(
        b"<13>Feb  5 17:32:18 10.0.0.99 sshd[77]: x: y",
        at("2024-02-05T17:32:18"),
        [1, 5],
        ["10.0.0.99", "sshd", "77", "", "x: y"],
        "rfc3164",
    );
    check(b"<13>Oct 11 22:14:15 su[7]: no host", at(oct), [1, 5], ["", "su", "7", "", "no host"], "rfc3164");
    check(
        b"<13>Oct 11 22:14:15 host just text",
        at(oct),
        [1, 5],
        ["host", "", "", "", "just text"],
        "rfc3164",
    );
    check(b"<13>Oct 11 22:14:15", at(oct), [1, 5], [""; 5], "rfc3164");
    check(
        b"<13>2003-10-11T22:14:15Z host app: x",
        at("2003-10-11T22:14:15Z"),
        [1, 5],
        ["host", "app", "", "", "x"],
        "rfc3164",
    );
    check(b"<13>hello: world", json!(RECEIVED_MS), [1, 5], ["", "", "", "", "hello: world"], "rfc3164");
    check(b"<13>1 no time", json!(RECEIVED_MS), [1, 5], ["", "", "", "", "1 no time"], "rfc3164");
    check(
        b"<13>Oct 32 22:14:15 x",
        json!(RECEIVED_MS),
        [1, 5],
        ["", "", "", "", "Oct 32 22:14:15 x"],
        "rfc3164",
    );
    check(b"<13>Oct 11 22:14:15 fe80::1 up", at(oct), [1, 5], ["fe80::1", "", "", "", "up"], "rfc3164");
    // Python's handler ends a message by a zero byte.
    check(
        b"<14>gr\xc3\xbcn \xff\x00",
        json!(RECEIVED_MS),
        [1, 6],
        ["", "", "", "", "gr\u{fc}n \u{fffd}"],
        "rfc3164",
    );
}

#[test]
fn what_has_no_priority_is_text() {
    for text in ["hello", "", "<", "<>x", "<192>x", "<999>x", "<1234>x", "<13 x", "<+3>x", "13>x"] {
        check(text.as_bytes(), json!(RECEIVED_MS), [1, 5], ["", "", "", "", text], "raw");
    }
}

#[test]
fn a_time_without_a_year_is_the_nearest_one() {
    for (month, day, at_ms, year) in [
        (11, 14, RECEIVED_MS, 2023),
        (12, 31, RECEIVED_MS, 2023),
        (1, 1, RECEIVED_MS, 2024),
        (12, 31, 1_704_067_200_000, 2023),
        (1, 1, 1_704_067_200_000, 2024),
        (2, 29, 1_709_164_800_000, 2024),
        (1, 1, 0, 1970),
        (6, 1, 4_102_444_800_000, 2100),
    ] {
        assert_eq!(year_of(month, day, at_ms), year, "{month}-{day} at {at_ms}");
    }
}

/// Every message that a writer of RFC 5424 can make is read as it was meant.
#[test]
fn messages_of_rfc_5424_come_back_from_random_ones() {
    const PRINTED: &[u8] = b"abcXYZ019.-_@/:%";
    const TEXTS: [&str; 8] = ["a", "\"", "\\", "]", "\u{fc}", " ", "=", "["];
    let mut random = testkit::Lcg::new(testkit::seed());
    for _ in 0..2_000 {
        let mut word = |max: u64| -> String {
            let length = 1 + random.below(max);
            (0..length).map(|_| char::from(*random.pick(PRINTED))).collect()
        };
        // A lone `-` would be nothing.
        let words = [word(20), word(20), word(10), word(10)].map(|word| format!("w{word}"));
        let elements: Vec<(String, String, String)> = (0..random.below(3))
            .map(|number| {
                let text = |random: &mut testkit::Lcg| {
                    (0..random.below(6)).map(|_| *random.pick(&TEXTS)).collect::<String>()
                };
                (format!("id{number}"), format!("p{number}"), text(&mut random))
            })
            .collect();
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace(']', "\\]");
        let data: String = elements
            .iter()
            .map(|(id, name, value)| format!("[{id} {name}=\"{}\"]", escaped(value)))
            .collect();
        let data = if data.is_empty() { "-".to_owned() } else { data };
        let text: String = (0..random.below(8)).map(|_| *random.pick(&TEXTS)).collect();
        let priority = random.below(192);
        let [host, app, procid, msgid] = &words;
        let message =
            format!("<{priority}>1 2024-02-29T23:59:59.5+01:30 {host} {app} {procid} {msgid} {data} {text}");
        let record = record(message.as_bytes());
        let data: serde_json::Map<String, Value> =
            elements.into_iter().map(|(id, name, value)| (id, json!({ name: value }))).collect();
        let expected = json!({
            "timestamp": "2024-02-29T23:59:59.5+01:30", "received": RECEIVED_MS, "facility": priority / 8, "severity": priority % 8,
            "hostname": host, "app_name": app, "procid": procid, "msgid": msgid, "structured_data": data, "message": text,
            "peer": "192.0.2.7:514", "format": "rfc5424", "truncated": false,
        });
        assert_eq!(record, expected, "{message}");
    }
}

#[test]
fn fuzz_syslog() {
    testkit::Fuzz::new("gateway syslog")
        .examples([
            &b"<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 ID1 [a@1 b=\"c\\]\" d=\"e\"][f] \xef\xbb\xbftext"[..],
            b"<34>Oct 11 22:14:15 mymachine su[77]: 'su root' failed",
        ])
        .words([&b"[a "[..], b"=\"", b"\\", b"] ", b"<13>1 ", b"\xff", b" - "])
        .memory_max(16 << 10, 100)
        .run(5_000, |bytes| {
            let record = record(bytes);
            let fields = record.as_object().expect("an object");
            assert_eq!(fields.len(), 13);
            // A priority that is there is read; nothing else is lost of what is no header.
            if record["format"] == "raw" {
                assert_eq!(record["message"], String::from_utf8_lossy(trim_end(bytes)).into_owned());
            }
        });
}
