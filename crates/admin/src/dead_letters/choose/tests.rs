use dataflow::block::headers;
use pipeline::replays::object::Letter;

use super::*;

fn whole(source: &str, reason: &str, raw: &[u8], headers: &[(&[u8], &[u8])]) -> Whole {
    let letter = Letter::at(source, 1, 5);
    let head = Head {
        letter,
        time_ms: 9,
        reason: reason.into(),
        column: String::new(),
        raw_bytes: raw.len() as u64,
        origin: String::new(),
    };
    Whole {
        head,
        record_time_ms: Some(77),
        key: Some(b"k".to_vec()),
        headers: headers.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
        message: String::new(),
        raw: raw.to_vec(),
    }
}

/// A pipeline with one input.
fn none(_: &str) -> String {
    String::new()
}

#[test]
fn a_record_names_its_input_through_all_replays() {
    let by_topic = |topic: &str| format!("input of {topic}");
    let first = record(&whole("events", "malformed", b"x", &[(b"a", b"1")]), &by_topic);
    assert_eq!(first.input, "input of events");
    let again: [(&[u8], &[u8]); 3] =
        [(b"a", b"1"), (b"forebay_input", b"input of events"), (b"forebay_origin", b"events/1/5")];
    let again = record(&whole(STREAM, "malformed", b"x", &again), &by_topic);
    assert_eq!((again.input.as_str(), again.origin.as_str()), ("input of events", "events/1/5"));
    assert_eq!(headers(&again.headers).count(), 1, "the replay adds its own");
}

#[test]
fn a_record_is_what_it_was() {
    let record = record(&whole("events", "malformed", b"\xff", &[(b"a", b"1"), (b"a", b"2")]), &none);
    assert_eq!((record.origin.as_str(), record.time_ms), ("events/1/5", 77));
    assert_eq!((record.key.as_deref(), record.body.as_deref()), (Some(&b"k"[..]), Some(&b"\xff"[..])));
    let kept: Vec<_> = headers(&record.headers).collect();
    assert_eq!(kept, [("a", Some(&b"1"[..])), ("a", Some(&b"2"[..]))]);
}

#[test]
fn a_record_that_failed_again_keeps_its_first_place() {
    let record =
        record(&whole(STREAM, "malformed", b"x", &[(b"forebay_origin", b"events/1/5"), (b"b", b"")]), &none);
    assert_eq!(record.origin, "events/1/5");
    assert_eq!(headers(&record.headers).count(), 1, "the replay adds its own");
    // A header of that name from the sender is the sender's.
    let first = self::record(&whole("events", "malformed", b"x", &[(b"forebay_origin", b"mine")]), &none);
    assert_eq!((first.origin.as_str(), headers(&first.headers).count()), ("events/1/5", 1));
}

#[test]
fn an_empty_body_is_one_and_none_is_none() {
    assert_eq!(record(&whole("e", "malformed", b"", &[]), &none).body.as_deref(), Some(&b""[..]));
    assert_eq!(record(&whole("e", "no_body", b"", &[]), &none).body, None);
    // The row of a record without a body that failed further on, in a step or in the table.
    let tombstone = record(&whole("e", "refused", b"", &[(b"forebay.tombstone", b"1")]), &none);
    assert_eq!((tombstone.body, tombstone.headers.len()), (None, 0));
}

#[test]
fn objects_of_the_log_are_cut_by_bytes_and_records() {
    let head = |raw_bytes| Head { raw_bytes, ..whole("e", "late", b"", &[]).head };
    let large = vec![head(1), head(BYTES_MAX as u64 + 1), head(2), head(3)];
    assert_eq!(pieces(&large).iter().map(|piece| piece.len()).collect::<Vec<_>>(), [1, 1, 2]);
    let many = vec![head(0); 2 * RECORDS_MAX + 1];
    assert_eq!(
        pieces(&many).iter().map(|piece| piece.len()).collect::<Vec<_>>(),
        [RECORDS_MAX, RECORDS_MAX, 1]
    );
    assert!(pieces(&[]).is_empty());
}
