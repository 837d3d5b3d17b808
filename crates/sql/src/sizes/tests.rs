use super::*;
use crate::tests::cases::decoded;
use crate::tests::types;

#[test]
fn bytes_are_counted_in_columns_of_every_kind() {
    let input = types::schema(
        "s String, m Map(String, Array(Int64)), u UUID, b Bool, d Decimal(38, 2), n Nullable(Int32)",
    );
    let record = r#"{"s": "abcd", "m": {"k": [1, 2]}, "u": "6f9619ff-8b86-d011-b42d-00c04fc964ff", "b": true, "d": 1, "n": null}"#;
    let batch = decoded(&input, &[record.to_owned(), record.to_owned()]);
    for (column, expected) in batch.rows.columns().iter().zip([8, 4 + 5 + 4 + 16, 16, 32, 16, 4]) {
        assert_eq!(bytes(column, 1..2), expected, "{}", column.data_type());
        assert_eq!(bytes(column, 0..2), 2 * expected, "{}", column.data_type());
    }
}

#[test]
fn items_of_arrays_within_arrays_are_counted_with_those_that_are_null() {
    let input = types::schema("a Array(Array(Nullable(Int64)))");
    let records = [r#"{"a": [[1, null], [], [null]]}"#, r#"{"a": [[7]]}"#].map(str::to_owned);
    let batch = decoded(&input, &records);
    let column = batch.rows.column(0);
    assert_eq!(leaves(column, 0..1), (3, 2));
    assert_eq!(leaves(column, 1..2), (1, 0));
    assert_eq!(leaves(column, 0..2), (4, 2));
}

#[test]
fn a_small_record_may_be_repeated_more_often_than_a_large_one() {
    assert_eq!(growth_max(0), 16 << 10);
    assert_eq!(growth_max(1_000), 128_000 + (16 << 10));
    assert_eq!(growth_max(usize::MAX), 256 << 20);
}
