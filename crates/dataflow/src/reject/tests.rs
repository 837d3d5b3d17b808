use super::*;
use crate::BlockBuilder;

#[test]
fn a_reject_keeps_all_that_is_known_of_its_record() {
    let mut b = BlockBuilder::new(Partition::new("events", 1), 7);
    b.push(7, 1_000, Some(b"\xff not text"));
    b.key(b"k");
    b.header("h", Some(b"v"));
    let block = b.take();
    let reject = Reject::of(&block, 0, Reason::Malformed, "", "bad UTF-8".into());
    let rows = to_rows("p", 2_000, std::slice::from_ref(&reject));
    assert_eq!(rows.num_rows(), 1);
    assert_eq!(rows.num_columns(), schema().columns().len());
    assert_eq!(reject.raw, b"\xff not text");
    assert_eq!(reject.key.as_deref(), Some(&b"k"[..]));
}

#[test]
fn the_rows_have_the_columns_of_the_schema_in_order() {
    let rows = to_rows("p", 0, &[]);
    let schema = schema();
    let names: Vec<_> = schema.columns().iter().map(|c| c.name.as_str()).collect();
    let found = rows.schema();
    let found: Vec<_> = found.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(found, names);
}

#[test]
fn a_record_that_is_longer_than_a_reject_keeps_is_kept_in_part_and_says_how_long_it_is() {
    let mut b = BlockBuilder::new(Partition::new("events", 1), 7);
    b.push(7, 1_000, Some(b"the beginning"));
    b.cut(5_000_000_000);
    b.push(8, 1_000, Some(&vec![b'x'; RAW_BYTES_MAX + 3]));
    b.push(9, 1_000, Some(&vec![b'x'; RAW_BYTES_MAX]));
    let block = b.take();
    let of = |row| Reject::of(&block, row, Reason::TooLarge, "", "too long".into());
    assert_eq!(of(0).message, "too long; `raw` holds the first `13` of its `5000000000` bytes");
    assert_eq!(of(0).raw, b"the beginning");
    assert_eq!(of(1).message, "too long; `raw` holds the first `67108864` of its `67108867` bytes");
    assert_eq!(
        (of(1).raw.len(), of(2).raw.len(), of(2).message.as_str()),
        (RAW_BYTES_MAX, RAW_BYTES_MAX, "too long")
    );
}

#[test]
fn a_record_without_a_body_is_known_by_its_reason_or_by_a_header() {
    let mut b = BlockBuilder::new(Partition::new("events", 1), 7);
    b.push(7, 1_000, None);
    b.header(TOMBSTONE_HEADER, Some(b"of an earlier letter"));
    b.push(8, 1_000, Some(b""));
    let block = b.take();
    let headers_of = |row, reason| {
        let reject = Reject::of(&block, row, reason, "", "no".into());
        headers(&reject.headers).map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(headers_of(0, Reason::NoBody), Vec::<String>::new());
    assert_eq!(headers_of(0, Reason::Expression), [TOMBSTONE_HEADER]);
    assert_eq!(headers_of(1, Reason::Malformed), Vec::<String>::new());
    let keys = block.of_keys(&[0]);
    assert_eq!(
        (keys.len(), keys.payloads.get(0), keys.is_absent(0), block.is_absent(0)),
        (1, &b""[..], false, true)
    );
}
