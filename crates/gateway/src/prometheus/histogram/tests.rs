use serde_json::{Value as Json, json};

use super::*;
use crate::wire::testing::{double, number, packed, signed, sized};

fn span(gap: i64, length: u64) -> Vec<u8> {
    [number(1, signed(gap)), number(2, length)].concat()
}

fn json_of(message: &[u8]) -> Result<Json, String> {
    let mut histogram = Histogram::default();
    // What was read before leaves nothing.
    histogram
        .read(&[packed(12, &[1, 2]), sized(11, span(3, 2)), double(16, 1.0), number(14, 9)].concat())
        .unwrap();
    histogram.read(message).map_err(|refusal| refusal.message)?;
    let mut out = Vec::new();
    histogram.write(&mut out).map_err(str::to_owned)?;
    Ok(serde_json::from_str(&format!("{{{}}}", String::from_utf8(out).unwrap().trim_start_matches(',')))
        .expect("JSON"))
}

#[test]
fn buckets_of_integers_get_their_indexes_and_their_counts() {
    let message = [
        number(1, 14),
        double(3, 1.5),
        number(4, signed(-1)),
        double(5, 0.001),
        number(6, 2),
        sized(11, span(-2, 2)),
        sized(11, span(3, 1)),
        packed(12, &[signed(4), signed(-1), signed(2)]),
        sized(8, span(0, 1)),
        number(9, signed(1)),
        number(14, 2),
        number(15, 1_700_000_000_123),
    ];
    let expected = json!({
        "timestamp": 1_700_000_000_123_u64, "schema": -1, "is_float": false, "reset_hint": "no", "count": 14, "zero_count": 2, "sum": 1.5,
        "zero_threshold": 0.001, "negative_indexes": [0], "negative_counts": [1], "positive_indexes": [-2, -1, 3], "positive_counts": [4, 3, 5],
        "custom_bounds": [],
    });
    assert_eq!(json_of(&message.concat()).unwrap(), expected);
}

#[test]
fn buckets_of_floats_and_of_own_bounds_are_taken_as_they_are() {
    let floats: Vec<u8> = [0.5_f64, 2.0].iter().flat_map(|float| float.to_bits().to_le_bytes()).collect();
    let message = [
        double(2, 2.5),
        double(3, f64::from_bits(STALE)),
        number(4, signed(-53)),
        double(7, 0.0),
        sized(11, span(0, 2)),
        sized(13, floats),
        double(16, 0.25),
        double(16, f64::INFINITY),
        number(14, 3),
        number(15, 5),
        number(17, 3),
    ];
    let expected = json!({
        "timestamp": 5, "start_timestamp": 3, "schema": -53, "is_float": true, "reset_hint": "gauge", "count": 2.5, "zero_count": 0.0, "sum": "nan",
        "stale": true, "zero_threshold": 0.0, "negative_indexes": [], "negative_counts": [], "positive_indexes": [0, 1],
        "positive_counts": [0.5, 2.0], "custom_bounds": [0.25, "inf"],
    });
    assert_eq!(json_of(&message.concat()).unwrap(), expected);
}

#[test]
fn what_is_no_histogram_is_told_apart() {
    for (message, why) in [
        ([sized(11, span(0, 2)), packed(12, &[2])].concat(), "spans"),
        ([sized(11, span(0, u64::MAX)), sized(11, span(0, 3)), packed(12, &[2, 2])].concat(), "spans"),
        (packed(12, &[2]), "spans"),
        ([double(2, 1.0), sized(11, span(0, 1)), packed(12, &[2])].concat(), "spans"),
        ([sized(11, span(0, 2)), packed(12, &[signed(1), signed(-2)])].concat(), "less than nothing"),
        ([sized(11, span(0, 2)), packed(12, &[signed(i64::MAX), signed(1)])].concat(), "less than nothing"),
        ([double(2, 1.0), number(6, 1)].concat(), "in floats"),
        (number(14, 4), "reset_hint"),
        (packed(12, &vec![0; BUCKETS_MAX + 1]), "10000"),
        (span(0, 1).repeat(BUCKETS_MAX + 1).chunks(4).flat_map(|span| sized(8, span)).collect(), "10000"),
        (double(1, 1.0), "field `1`"),
        (sized(10, [0; 7]), "field `10`"),
        (sized(12, [0x80]), "field `12`"),
        (sized(11, double(1, 1.0)), "field `1`"),
    ] {
        let told = json_of(&message).unwrap_err();
        assert!(told.contains(why), "{told}");
    }
    let far = [sized(11, span(i64::MAX, 1)), sized(11, span(i64::MAX, 1)), packed(12, &[2, 2])].concat();
    // Nobody has such buckets; they are only not to be a panic.
    assert!(json_of(&far).is_ok_and(|json| json["positive_counts"].is_array()));
}
