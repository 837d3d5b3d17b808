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
