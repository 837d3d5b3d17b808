use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::OffsetBuffer;
use proptest::prelude::*;

use super::*;
use dataflow::Column;

/// The hashes of rows whose columns are `a`, `b`, and so on.
fn hashes(columns: Vec<(ColumnType, ArrayRef)>) -> Vec<u128> {
    let names: Vec<String> = ('a'..).take(columns.len()).map(String::from).collect();
    let (types, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let types = names.iter().zip(types);
    let schema = Schema::new(types.map(|(n, t)| Column::new(n, ColumnType::Nullable(Box::new(t)))).collect());
    let rows = RecordBatch::try_new(schema.arrow().clone(), arrays).unwrap();
    let mut hashes = vec![7];
    Keyer::new(&schema, &names).unwrap().hash(&rows, &mut hashes).unwrap();
    assert_eq!(hashes.len(), rows.num_rows());
    hashes
}

fn sixteens(values: Vec<Option<[u8; 16]>>) -> FixedSizeBinaryArray {
    FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 16).unwrap()
}

fn texts(values: &[&str]) -> (ColumnType, ArrayRef) {
    (ColumnType::String, Arc::new(StringArray::from_iter_values(values)))
}

fn error(column_type: ColumnType, key: &[&str]) -> String {
    let schema = Schema::new(vec![Column::new("id", column_type)]);
    let key: Vec<String> = key.iter().map(|k| (*k).to_owned()).collect();
    Keyer::new(&schema, &key).unwrap_err().to_string()
}

/// The function is for ever: these values must never be changed, or histories written before stop to be known.
#[test]
fn golden_hashes() {
    let uuid = Arc::new(sixteens(vec![Some([0x11; 16]), None]));
    let golden: Vec<(ColumnType, ArrayRef)> = vec![
        (ColumnType::Uuid, uuid.clone()),
        (ColumnType::Ipv6, uuid.clone()),
        (ColumnType::FixedString(16), uuid),
        texts(&["a", ""]),
        (ColumnType::Int64, Arc::new(Int64Array::from(vec![-1, 1]))),
        (ColumnType::UInt64, Arc::new(UInt64Array::from(vec![u64::MAX, 1]))),
        (ColumnType::Float32, Arc::new(Float32Array::from(vec![1.5, f32::NAN]))),
        (ColumnType::Float64, Arc::new(Float64Array::from(vec![1.5, f64::NAN]))),
        (ColumnType::Bool, Arc::new(BooleanArray::from(vec![true, false]))),
        (ColumnType::Ipv4, Arc::new(UInt32Array::from(vec![0x7f00_0001, 0]))),
        (ColumnType::Date, Arc::new(Date32Array::from(vec![1, -1]))),
        (
            ColumnType::DateTime { timezone: None },
            Arc::new(TimestampSecondArray::from(vec![1, 2]).with_timezone("UTC")),
        ),
        (
            ColumnType::Decimal { precision: 9, scale: 2 },
            Arc::new(Decimal128Array::from(vec![1, -1]).with_precision_and_scale(9, 2).unwrap()),
        ),
    ];
    let mut text = String::new();
    for (column_type, array) in &golden {
        let found = hashes(vec![(column_type.clone(), array.clone())]);
        text += &format!("{:<16} {:032x} {:032x}\n", kind(column_type).unwrap(), found[0], found[1]);
    }
    let found = hashes(golden);
    text += &format!("{:<16} {:032x} {:032x}\n", "all", found[0], found[1]);
    assert_eq!(text, include_str!("golden.txt"), "found:\n{text}");
}

/// The hashes of Arrays of texts, as keys of a join.
fn hashes_of_arrays(item: ColumnType, rows: &[&[Option<&str>]]) -> Vec<u128> {
    let of = ColumnType::Array(Box::new(item));
    let DataType::List(field) = of.arrow() else { panic!("it is an Array") };
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.len()));
    let texts: ArrayRef = Arc::new(rows.iter().copied().flatten().copied().collect::<StringArray>());
    let lists: ArrayRef = Arc::new(ListArray::new(field, offsets, texts, None));
    let schema = Schema::new(vec![Column::new("a", of)]);
    let rows = RecordBatch::try_new(schema.arrow().clone(), vec![lists]).unwrap();
    let mut hashes = Vec::new();
    Keyer::with_items(&schema, &["a".to_owned()]).unwrap().hash(&rows, &mut hashes).unwrap();
    hashes
}

/// They are for ever, too: XXH3-128 of the items' bytes, with the seed of `array(string)`.
#[test]
fn golden_hashes_of_arrays() {
    let of = ColumnType::Nullable(Box::new(ColumnType::String));
    let found = hashes_of_arrays(of, &[&[Some("a"), Some("b")], &[], &[None]]);
    let expected: [u128; 3] = [
        0x56b4_f47c_d986_6e04_e7e7_b6ca_61b8_5774,
        0x6d78_0031_6cb9_47f8_657e_7303_503e_03a7,
        0xfafb_1192_4704_6296_5712_b11e_6f98_63a8,
    ];
    assert_eq!(found, expected, "found: {found:x?}");
}

#[test]
fn arrays_are_keys_of_joins_by_their_items_whether_these_may_be_null_or_not() {
    let rows: [&[Option<&str>]; 5] =
        [&[Some("a")], &[Some("a"), Some("b")], &[], &[Some("ab")], &[Some("b"), Some("a")]];
    let nullable = ColumnType::Nullable(Box::new(ColumnType::String));
    let found = hashes_of_arrays(ColumnType::String, &rows);
    assert_eq!(found, hashes_of_arrays(nullable, &rows));
    let mut distinct = found.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 5);
}

#[test]
fn the_split_between_columns_matters() {
    let found = hashes(vec![texts(&["ab", "a", ""]), texts(&["c", "bc", "abc"])]);
    assert!(found[0] != found[1] && found[1] != found[2] && found[0] != found[2]);
    let swapped = hashes(vec![texts(&["c"]), texts(&["ab"])]);
    assert_ne!(found[0], swapped[0]);
}

#[test]
fn a_null_is_no_empty_text_and_no_zero() {
    let text = hashes(vec![(ColumnType::String, Arc::new(StringArray::from(vec![Some(""), None, None])))]);
    assert_ne!(text[0], text[1]);
    assert_eq!(text[1], text[2]);
    let number = hashes(vec![(ColumnType::Int64, Arc::new(Int64Array::from(vec![Some(0), None])))]);
    assert_ne!(number[0], number[1]);
    let pair = |a, b| {
        hashes(vec![
            (ColumnType::Int64, Arc::new(Int64Array::from(vec![a]))),
            (ColumnType::Int64, Arc::new(Int64Array::from(vec![b]))),
        ])
    };
    assert_ne!(pair(None, Some(1)), pair(Some(1), None));
}

#[test]
fn an_integer_column_may_grow() {
    let narrow = hashes(vec![(ColumnType::Int8, Arc::new(Int8Array::from(vec![-5, 5])))]);
    assert_eq!(narrow, hashes(vec![(ColumnType::Int64, Arc::new(Int64Array::from(vec![-5, 5])))]));
    let narrow = hashes(vec![(ColumnType::UInt16, Arc::new(UInt16Array::from(vec![5])))]);
    assert_eq!(narrow, hashes(vec![(ColumnType::UInt64, Arc::new(UInt64Array::from(vec![5])))]));
}

#[test]
fn one_value_of_two_kinds_is_two_keys() {
    let same: [(ColumnType, ArrayRef); 4] = [
        (ColumnType::Int64, Arc::new(Int64Array::from(vec![1]))),
        (ColumnType::UInt64, Arc::new(UInt64Array::from(vec![1]))),
        (ColumnType::Date32, Arc::new(Date32Array::from(vec![1]))),
        texts(&["\u{1}\0\0\0\0\0\0\0"]),
    ];
    let mut found: Vec<u128> = same.into_iter().map(|column| hashes(vec![column])[0]).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 4);
}

#[test]
fn floats_are_compared_as_numbers() {
    let other_nan = f64::from_bits(0xfff8_0000_0000_0001);
    let found = hashes(vec![(
        ColumnType::Float64,
        Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, other_nan])),
    )]);
    assert_eq!((found[0], found[2]), (found[1], found[3]));
    assert_ne!(found[0], found[2]);
    let found = hashes(vec![(
        ColumnType::Float32,
        Arc::new(Float32Array::from(vec![0.0, -0.0, f32::NAN, -f32::NAN])),
    )]);
    assert_eq!((found[0], found[2]), (found[1], found[3]));
}

#[test]
fn text_may_come_as_bytes() {
    let bytes = (ColumnType::String, Arc::new(StringArray::from(vec![Some("x"), None])) as ArrayRef);
    let schema = Schema::new(vec![Column::new("a", ColumnType::String)]);
    let binary: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"x"[..]), None]));
    let rows = RecordBatch::try_from_iter([("a", binary)]).unwrap();
    let mut found = vec![];
    Keyer::new(&schema, &["a".to_owned()]).unwrap().hash(&rows, &mut found).unwrap();
    assert_eq!(found, hashes(vec![bytes]));
}

#[test]
fn a_slice_has_the_hashes_of_its_rows() {
    let ids: Vec<[u8; 16]> = (0..9_u8).map(|n| [n; 16]).collect();
    let array = sixteens(ids.iter().map(|id| Some(*id)).collect());
    let all = hashes(vec![(ColumnType::Uuid, Arc::new(array.clone()))]);
    assert_eq!(hashes(vec![(ColumnType::Uuid, Arc::new(array.slice(3, 4)))]), all[3..7]);
    let bools = BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]);
    let all = hashes(vec![(ColumnType::Bool, Arc::new(bools.clone()))]);
    assert_eq!(hashes(vec![(ColumnType::Bool, Arc::new(bools.slice(1, 3)))]), all[1..]);
}

#[test]
fn keys_that_cannot_be_are_refused() {
    assert_eq!(error(ColumnType::Uuid, &[]), "dedup.key: `0` columns; name 1 to 64");
    assert_eq!(error(ColumnType::Uuid, &["idd"]), "dedup.key: there is no column `idd`; did you mean `id`?");
    assert_eq!(
        error(ColumnType::Uuid, &["id", "id"]),
        "dedup.key: the column `id` is named twice; name it once"
    );
    assert_eq!(
        error(ColumnType::Array(Box::new(ColumnType::Int8)), &["id"]),
        "dedup.key: the column `id` is of type Array; use a column with one value a row"
    );
}

#[test]
fn a_batch_of_another_form_is_an_error() {
    let schema = Schema::new(vec![Column::new("a", ColumnType::Int64)]);
    let keyer = Keyer::new(&schema, &["a".to_owned()]).unwrap();
    let hash = |name, array: ArrayRef| {
        let rows = RecordBatch::try_from_iter([(name, array)]).unwrap();
        keyer.hash(&rows, &mut vec![]).unwrap_err().to_string()
    };
    assert_eq!(hash("b", Arc::new(Int64Array::from(vec![1]))), "the batch has no key column `a`");
    assert_eq!(
        hash("a", Arc::new(Int32Array::from(vec![1]))),
        "the key column `a` came as `Int32`, expected `Int64`"
    );
}

proptest! {
    #[test]
    fn equal_keys_and_only_they_have_equal_hashes(
        rows in prop::collection::vec((prop::option::of("[ab]{0,3}"), prop::option::of(0..3_i64)), 1..30),
    ) {
        let a = rows.iter().map(|r| r.0.as_deref()).collect::<StringArray>();
        let b = rows.iter().map(|r| r.1).collect::<Int64Array>();
        let found = hashes(vec![(ColumnType::String, Arc::new(a)), (ColumnType::Int64, Arc::new(b))]);
        for (i, x) in rows.iter().enumerate() {
            for (j, y) in rows.iter().enumerate() {
                prop_assert_eq!(x == y, found[i] == found[j], "{:?} {:?}", x, y);
            }
        }
    }
}
