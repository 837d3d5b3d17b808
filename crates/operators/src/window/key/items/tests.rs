use arrow_array::{
    FixedSizeBinaryArray, Float64Array, Int8Array, Int64Array, RecordBatch, StringArray, UInt8Array,
};
use dataflow::Column;
use proptest::prelude::*;

use super::*;
use crate::dedup::key::key_kind;
use crate::window::key::Keys;

fn array(of: ColumnType) -> ColumnType {
    ColumnType::Array(Box::new(of))
}

fn map(key: ColumnType, value: ColumnType) -> ColumnType {
    ColumnType::Map(Box::new(key), Box::new(value))
}

fn nullable(of: ColumnType) -> ColumnType {
    ColumnType::Nullable(Box::new(of))
}

fn offsets(lengths: &[usize]) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths(lengths.iter().copied())
}

/// Arrays of these lengths.
fn arrays(of: &ColumnType, lengths: &[usize], items: ArrayRef) -> ArrayRef {
    let DataType::List(field) = of.arrow() else { panic!("`{of:?}` is no Array") };
    Arc::new(ListArray::new(field, offsets(lengths), items, None))
}

/// Maps of these lengths.
fn maps(of: &ColumnType, lengths: &[usize], keys: ArrayRef, values: ArrayRef) -> ArrayRef {
    let DataType::Map(entry, _) = of.arrow() else { panic!("`{of:?}` is no Map") };
    let DataType::Struct(fields) = entry.data_type().clone() else { panic!("entries have two columns") };
    let entries = StructArray::new(fields, vec![keys, values], None);
    Arc::new(MapArray::new(entry, offsets(lengths), entries, None, false))
}

fn keys(of: &ColumnType) -> Keys {
    Keys::new(&[Column::new("k", of.clone())]).expect("a type of keys")
}

fn encoded(of: &ColumnType, column: &ArrayRef) -> Vec<Vec<u8>> {
    let rows = RecordBatch::try_from_iter([("k", column.clone())]).expect("one column");
    let encoded = keys(of).encode(&rows).expect("a column of that type");
    (0..column.len()).map(|row| encoded.get(row).to_vec()).collect()
}

fn decoded(of: &ColumnType, found: &[Vec<u8>]) -> ArrayRef {
    let keys = keys(of);
    assert!(found.iter().all(|key| keys.is_key(key)), "{found:?}");
    let mut columns = keys.decode(found.iter().map(Vec::as_slice)).expect("within the type");
    columns.remove(0)
}

/// Seals hold them: these bytes must never be changed.
#[test]
fn golden_bytes() {
    let of = array(nullable(ColumnType::String));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ab"), None]));
    let found = encoded(&of, &arrays(&of, &[2, 0], texts));
    assert_eq!(found[0], b"\x0c\0\0\0\0\x02\0\0\0ab\x01\0\0\0\0");
    assert_eq!(found[1], b"\0\0\0\0");
    let inner = array(ColumnType::UInt8);
    let of = array(inner.clone());
    let numbers = arrays(&inner, &[1, 0], Arc::new(UInt8Array::from(vec![1])));
    let found = encoded(&of, &arrays(&of, &[2], numbers));
    assert_eq!(found[0], b"\x10\0\0\0\x08\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0");
    let of = map(ColumnType::String, ColumnType::Int64);
    let texts = Arc::new(StringArray::from(vec!["b", "a"]));
    let found = encoded(&of, &maps(&of, &[2], texts, Arc::new(Int64Array::from(vec![2, 1]))));
    assert_eq!(
        found[0], b"\x1a\0\0\0\x01\0\0\0a\x01\0\0\0\0\0\0\0\x01\0\0\0b\x02\0\0\0\0\0\0\0",
        "entries stand by key"
    );
}

#[test]
fn items_of_every_form_become_themselves_again() {
    let columns: Vec<(ColumnType, ArrayRef)> = vec![
        (nullable(ColumnType::Int8), Arc::new(Int8Array::from(vec![Some(-1), None, Some(i8::MIN)]))),
        (ColumnType::UInt8, Arc::new(UInt8Array::from(vec![0, 7, u8::MAX]))),
        (ColumnType::Float64, Arc::new(Float64Array::from(vec![1.5, f64::INFINITY, -0.25]))),
        (
            ColumnType::Uuid,
            Arc::new(FixedSizeBinaryArray::try_from_iter([[1_u8; 16], [2; 16], [3; 16]].iter()).unwrap()),
        ),
        (
            ColumnType::LowCardinality(Box::new(nullable(ColumnType::String))),
            Arc::new(StringArray::from(vec![Some(""), None, Some("ä")])),
        ),
    ];
    for (item, values) in columns {
        let of = array(item.clone());
        let column = arrays(&of, &[2, 0, 1], values.clone());
        assert_eq!(decoded(&of, &encoded(&of, &column)).to_data(), column.to_data(), "{of:?}");
        let of = map(ColumnType::String, item);
        let texts = Arc::new(StringArray::from(vec!["a", "b", "a"]));
        let column = maps(&of, &[2, 0, 1], texts, values);
        assert_eq!(decoded(&of, &encoded(&of, &column)).to_data(), column.to_data(), "{of:?}");
    }
}

#[test]
fn floats_are_the_same_as_numbers_also_within() {
    let of = array(ColumnType::Float64);
    let other_nan = f64::from_bits(0xfff8_0000_0000_0001);
    let floats = Float64Array::from(vec![0.0, -0.0, f64::NAN, other_nan]);
    let found = encoded(&of, &arrays(&of, &[1, 1, 1, 1], Arc::new(floats)));
    assert_eq!((&found[0], &found[2]), (&found[1], &found[3]));
    assert_ne!(found[0], found[2]);
}

#[test]
fn keys_of_a_map_stand_by_their_size() {
    let of = map(ColumnType::Int64, ColumnType::Int8);
    let numbers = Arc::new(Int64Array::from(vec![300, -1, 2]));
    let column = maps(&of, &[3], numbers, Arc::new(Int8Array::from(vec![3, 1, 2])));
    let sorted = Arc::new(Int64Array::from(vec![-1, 2, 300]));
    let sorted = maps(&of, &[3], sorted, Arc::new(Int8Array::from(vec![1, 2, 3])));
    assert_eq!(decoded(&of, &encoded(&of, &column)).to_data(), sorted.to_data());
}

#[test]
fn an_array_stands_among_other_columns_of_a_key() {
    let tags = array(ColumnType::String);
    let keys = Keys::new(&[
        Column::new("a", ColumnType::Int8),
        Column::new("tags", tags.clone()),
        Column::new("b", nullable(ColumnType::String)),
    ])
    .expect("types of keys");
    let texts = Arc::new(StringArray::from(vec!["x", "y", "x"]));
    let columns: [(&str, ArrayRef); 3] = [
        ("a", Arc::new(Int8Array::from(vec![1, 1, -1]))),
        ("tags", arrays(&tags, &[1, 2, 0], texts)),
        ("b", Arc::new(StringArray::from(vec![Some("y"), None, Some("")]))),
    ];
    let rows = RecordBatch::try_from_iter(columns.clone()).expect("three columns");
    let found = keys.encode(&rows).expect("columns of these types");
    let decoded = keys.decode((0..3).map(|row| found.get(row))).expect("within the types");
    for ((name, column), decoded) in columns.iter().zip(&decoded) {
        assert_eq!(decoded.to_data(), column.to_data(), "{name}");
    }
    assert_eq!((keys.stride(), found.eights()), (None, None));
}

#[test]
fn an_item_beyond_a_narrower_type_is_named_and_becomes_no_other_number() {
    let wide = array(array(ColumnType::Int64));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 5_000_000_000]));
    let inner = arrays(&array(ColumnType::Int64), &[1, 1], numbers);
    let found = encoded(&wide, &arrays(&wide, &[1, 1], inner));
    let narrow = keys(&array(array(ColumnType::Int32)));
    assert!(narrow.decode(found[..1].iter().map(Vec::as_slice)).is_ok());
    assert_eq!(narrow.decode(found.iter().map(Vec::as_slice)).err(), Some("k"));
}

#[test]
fn bytes_that_are_no_items_are_no_key() {
    let keys = keys(&array(nullable(ColumnType::FixedString(2))));
    let is_key = |items: &[u8]| {
        let mut key = (items.len() as u32).to_le_bytes().to_vec();
        key.extend_from_slice(items);
        keys.is_key(&key)
    };
    assert!(is_key(b"") && is_key(b"\0\x02\0\0\0ab") && is_key(b"\x01\0\0\0\0"));
    assert!(!is_key(b"\x02\x02\0\0\0ab"), "a null is 0 or 1");
    assert!(!is_key(b"\0\x03\0\0\0abc"), "a text of two bytes has no third");
    assert!(!is_key(b"\0\x02\0\0\0a") && !is_key(b"\0"), "the item ends too early");
    assert!(!keys.is_key(b"\x01\0\0\0") && !keys.is_key(b"\0\0\0\0\0"), "the length is another");
}

#[test]
fn a_column_of_another_form_is_an_error() {
    let of = array(ColumnType::String);
    let found = |column: ArrayRef| {
        let rows = RecordBatch::try_from_iter([("k", column)]).expect("one column");
        keys(&of).encode(&rows).err().unwrap_or_default()
    };
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let with_null = array(nullable(ColumnType::String));
    assert!(found(arrays(&with_null, &[2], texts.clone())).contains("the column `k` came as"));
    assert!(found(texts).contains("the column `k` came as"));
}

#[test]
fn which_types_are_keys_is_said_alike_everywhere() {
    let json = ColumnType::Json { parameters: None };
    let enums = ColumnType::Enum8([(Arc::from("x"), 1)].into());
    let cases = [
        (array(array(nullable(ColumnType::Date))), Ok("array(array(date))")),
        (array(map(ColumnType::Ipv4, ColumnType::Int8)), Ok("array(map(ipv4, int))")),
        (map(enums, array(ColumnType::Uuid)), Ok("map(enum, array(uuid))")),
        (array(json.clone()), Err("Array(JSON)")),
        (map(ColumnType::String, json), Err("Map(…, JSON)")),
        (map(array(ColumnType::Int8), ColumnType::Int8), Err("Map(Array, …)")),
    ];
    for (of, expected) in cases {
        assert_eq!(key_kind(&of), expected.map(str::to_owned).map_err(str::to_owned), "{of:?}");
        assert_eq!(Items::of(&of).is_some(), expected.is_ok(), "{of:?}");
        assert_eq!(Keys::new(&[Column::new("k", of)]).is_some(), expected.is_ok());
    }
    let words = |of: ColumnType| Items::of(&of).expect("an Array or a Map").words();
    assert_eq!(words(array(nullable(ColumnType::String))), "array(string or null)");
    assert_eq!(words(map(ColumnType::String, array(ColumnType::Int8))), "map(string, array(int))");
}

/// Arrays within Arrays, of texts that may be NULL.
type Nested = Vec<Vec<Option<String>>>;

fn nested(rows: &[Nested]) -> (ColumnType, ArrayRef) {
    let within = array(nullable(ColumnType::String));
    let of = array(within.clone());
    let texts: StringArray = rows.iter().flatten().flatten().map(|text| text.as_deref()).collect();
    let lengths: Vec<usize> = rows.iter().flatten().map(Vec::len).collect();
    let inner = arrays(&within, &lengths, Arc::new(texts));
    let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
    let column = arrays(&of, &lengths, inner);
    (of, column)
}

fn rows() -> impl Strategy<Value = Vec<Nested>> {
    let text = prop::option::of("[ab]{0,2}");
    let inner = prop::collection::vec(text, 0..3);
    prop::collection::vec(prop::collection::vec(inner, 0..3), 1..12)
}

proptest! {
    #[test]
    fn equal_arrays_and_only_they_have_equal_keys_and_become_themselves_again(
        rows in rows(),
        cut in 0..12_usize,
    ) {
        let (of, column) = nested(&rows);
        let found = encoded(&of, &column);
        for (i, x) in rows.iter().enumerate() {
            for (j, y) in rows.iter().enumerate() {
                prop_assert_eq!(x == y, found[i] == found[j], "{:?} {:?}", x, y);
            }
        }
        prop_assert_eq!(decoded(&of, &found).to_data(), column.to_data());
        let cut = cut.min(rows.len());
        let rest = encoded(&of, &column.slice(cut, rows.len() - cut));
        prop_assert!(rest == found[cut..], "a slice has the keys of its rows");
        let keys = keys(&of);
        for key in &found {
            prop_assert!((0..key.len()).all(|len| !keys.is_key(&key[..len])), "a part of a key is none");
        }
    }

    #[test]
    fn a_map_is_one_key_in_whatever_order_its_entries_came(
        entries in prop::collection::btree_map("[a-c]{1,2}", prop::option::of(0..3_i64), 0..5),
        by in 0..5_usize,
    ) {
        let of = map(ColumnType::String, nullable(ColumnType::Int64));
        let sorted: Vec<(String, Option<i64>)> = entries.into_iter().collect();
        let mut other = sorted.clone();
        other.reverse();
        other.rotate_left(by.min(sorted.len()));
        let both = || sorted.iter().chain(&other);
        let texts = StringArray::from_iter_values(both().map(|(text, _)| text));
        let numbers: Int64Array = both().map(|(_, number)| *number).collect();
        let column = maps(&of, &[sorted.len(), other.len()], Arc::new(texts), Arc::new(numbers));
        let found = encoded(&of, &column);
        prop_assert_eq!(&found[0], &found[1]);
        prop_assert_eq!(decoded(&of, &found[..1]).to_data(), column.slice(0, 1).to_data());
    }
}
