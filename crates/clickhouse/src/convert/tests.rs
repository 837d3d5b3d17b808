use arrow_array::{
    Array, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int32Array,
    Int64Array, TimestampMillisecondArray, TimestampSecondArray, UInt8Array, UInt32Array, UInt64Array,
};

use super::*;

fn of(type_name: &str) -> ColumnType {
    crate::types::parse("c", type_name).unwrap()
}

fn way_of(from: &str, to: &str) -> Way {
    way(&of(from), &of(to))
}

#[test]
fn a_wider_type_always_holds_the_values_of_a_narrower_one() {
    for (from, to) in [
        ("UInt32", "UInt64"),
        ("UInt32", "Int64"),
        ("UInt8", "Nullable(UInt16)"),
        ("Nullable(Int8)", "Nullable(Int64)"),
        ("Int64", "String"),
        ("UUID", "String"),
        ("Float32", "Float64"),
        ("Date", "Date32"),
        ("DateTime", "DateTime('UTC')"),
        ("Decimal(9, 2)", "Decimal(20, 4)"),
        ("Enum8('a' = 1)", "Enum16('a' = 1, 'b' = 2)"),
        ("Enum8('a' = 1)", "String"),
        ("Array(UInt8)", "Array(Nullable(UInt32))"),
        ("Map(String, Int8)", "Map(String, Int16)"),
        ("Bool", "UInt8"),
    ] {
        assert_eq!(way_of(from, to), Way::Always, "{from} to {to}");
    }
}

#[test]
fn a_narrower_type_is_checked_value_by_value_and_a_foreign_one_holds_none() {
    for (from, to) in [
        ("UInt64", "UInt32"),
        ("Int8", "UInt8"),
        ("Nullable(UInt8)", "UInt8"),
        ("Float64", "Float32"),
        ("Int64", "Float64"),
        ("DateTime64(3)", "DateTime"),
        ("Decimal(9, 2)", "Decimal(9, 4)"),
    ] {
        assert_eq!(way_of(from, to), Way::Checked, "{from} to {to}");
    }
    for (from, to) in [
        ("String", "UInt8"),
        ("String", "FixedString(3)"),
        ("Enum8('a' = 1)", "Enum8('b' = 1)"),
        ("Date", "DateTime"),
        ("Map(UInt8, Int8)", "Map(UInt16, Int8)"),
        ("UInt64", "UUID"),
    ] {
        assert_eq!(way_of(from, to), Way::Never, "{from} to {to}");
    }
    for (from, to) in
        [("String", "LowCardinality(String)"), ("LowCardinality(Nullable(String))", "Nullable(String)")]
    {
        assert!(matches!(way_of(from, to), Way::Same | Way::Always), "{from} to {to}");
    }
}

fn check(from: &str, array: impl Array + 'static, to: &str, expected: Option<ArrayRef>) {
    let array: ArrayRef = Arc::new(array);
    let made = convert(&array, &of(from), &of(to));
    match expected {
        Some(expected) => assert_eq!(&made.unwrap(), &expected, "{from} to {to}"),
        None => assert!(made.unwrap_err().contains("cannot hold"), "{from} to {to}"),
    }
}

#[test]
fn values_are_exact_in_the_new_type_or_refused() {
    let some = |array: ArrayRef| Some(array);
    check(
        "UInt32",
        UInt32Array::from(vec![1, u32::MAX]),
        "UInt64",
        some(Arc::new(UInt64Array::from(vec![1, u64::from(u32::MAX)]))),
    );
    check(
        "Int64",
        Int64Array::from(vec![Some(5), None]),
        "Nullable(Int32)",
        some(Arc::new(Int32Array::from(vec![Some(5), None]))),
    );
    check("Int64", Int64Array::from(vec![1 << 40]), "Int32", None);
    check("Int32", Int32Array::from(vec![-1]), "UInt32", None);
    check("Nullable(UInt8)", UInt8Array::from(vec![Some(1), None]), "UInt8", None);
    check(
        "Nullable(UInt8)",
        UInt8Array::from(vec![Some(1), Some(2)]),
        "UInt8",
        some(Arc::new(UInt8Array::from(vec![1, 2]))),
    );
    check(
        "Int64",
        Int64Array::from(vec![1 << 53]),
        "Float64",
        some(Arc::new(Float64Array::from(vec![(1_i64 << 53) as f64]))),
    );
    check("Int64", Int64Array::from(vec![(1 << 53) + 1]), "Float64", None);
    check(
        "Float32",
        Float32Array::from(vec![0.1]),
        "Float64",
        some(Arc::new(Float64Array::from(vec![f64::from(0.1_f32)]))),
    );
    check("Float64", Float64Array::from(vec![0.1]), "Float32", None);
    check(
        "Int64",
        Int64Array::from(vec![Some(-7), None]),
        "Nullable(String)",
        some(Arc::new(StringArray::from(vec![Some("-7"), None]))),
    );
    check(
        "Enum8('a' = 1, 'b' = 2)",
        Int8Array::from(vec![2, 1]),
        "String",
        some(Arc::new(StringArray::from(vec!["b", "a"]))),
    );
    let uuid = FixedSizeBinaryArray::try_from_iter([[0x11u8; 16]].iter()).unwrap();
    check(
        "UUID",
        uuid,
        "String",
        some(Arc::new(StringArray::from(vec!["11111111-1111-1111-1111-111111111111"]))),
    );
    let cents = |v: Vec<i128>, p, s| Decimal128Array::from(v).with_precision_and_scale(p, s).unwrap();
    check(
        "Decimal(9, 2)",
        cents(vec![150], 9, 2),
        "Decimal(20, 4)",
        some(Arc::new(cents(vec![15_000], 20, 4))),
    );
    check("Decimal(9, 2)", cents(vec![155], 9, 2), "Decimal(9, 1)", None);
    check("UInt8", UInt8Array::from(vec![3]), "Decimal(4, 2)", some(Arc::new(cents(vec![300], 4, 2))));
    let seconds = |v| TimestampSecondArray::from(v).with_timezone("UTC");
    let millis = |v| TimestampMillisecondArray::from(v).with_timezone("UTC");
    check("DateTime", seconds(vec![7]), "DateTime64(3)", some(Arc::new(millis(vec![7_000]))));
    check("DateTime64(3)", millis(vec![7_000]), "DateTime", some(Arc::new(seconds(vec![7]))));
    check("DateTime64(3)", millis(vec![7_001]), "DateTime", None);
    check("DateTime64(3)", millis(vec![7_010]), "DateTime64(2)", some(Arc::new(millis(vec![7_010]))));
    check("DateTime64(3)", millis(vec![7_011]), "DateTime64(2)", None);
}

#[test]
fn converted_values_have_the_form_that_their_column_has_in_a_batch() {
    let pairs = [
        ("Array(UInt8)", "Array(UInt8)"),
        ("Array(UInt8)", "Array(UInt32)"),
        ("Array(UInt8)", "Array(Nullable(UInt32))"),
        ("Array(Nullable(UInt8))", "Array(Nullable(UInt16))"),
        ("Array(Nullable(UInt8))", "Array(UInt16)"),
        ("Array(Array(String))", "Array(Array(String))"),
        ("Array(Array(UInt8))", "Array(Array(UInt16))"),
        ("Array(LowCardinality(String))", "Array(String)"),
        ("Array(String)", "Array(LowCardinality(Nullable(String)))"),
        ("Map(String, UInt8)", "Map(String, UInt8)"),
        ("Map(String, UInt8)", "Map(String, UInt16)"),
        ("Map(String, UInt8)", "Map(String, Nullable(UInt16))"),
        ("Map(LowCardinality(String), Array(UInt8))", "Map(LowCardinality(String), Array(Int16))"),
        ("LowCardinality(String)", "Nullable(String)"),
        ("UInt8", "String"),
    ];
    for (from, to) in pairs {
        let (from, to) = (of(from), of(to));
        let converted = convert(&arrow_array::new_empty_array(&from.arrow()), &from, &to);
        assert_eq!(*converted.unwrap().data_type(), to.arrow(), "{from:?} to {to:?}");
    }
    let items = ListArray::from_iter_primitive::<arrow_array::types::UInt8Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        Some(vec![]),
        Some(vec![Some(3)]),
    ]);
    let (offsets, values) = (items.offsets().clone(), items.values().clone());
    let field = Arc::new(Field::new("item", values.data_type().clone(), false));
    let items: ArrayRef = Arc::new(ListArray::new(field, offsets, values, None));
    let wide = convert(&items, &of("Array(UInt8)"), &of("Array(UInt64)")).unwrap();
    let wide = wide.as_list::<i32>();
    assert_eq!(**wide.values().as_primitive::<arrow_array::types::UInt64Type>().values(), [1, 2, 3]);
    assert_eq!(wide.value_length(0), 2);
}
