use arrow_array::builder::{MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::{
    Date32Array, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int8Array, Int64Array, ListArray,
    StringArray, TimestampMillisecondArray, TimestampSecondArray, UInt8Array, UInt32Array,
};
use arrow_schema::DataType;
use dataflow::{Column, ColumnType as T, Partition};

use super::*;

fn decimal(precision: u8, scale: u8) -> T {
    T::Decimal { precision, scale }
}

fn time64(precision: u8) -> T {
    T::DateTime64 { precision, timezone: None }
}

fn enum8() -> T {
    T::Enum8(Arc::from([("on".into(), 1), ("off".into(), 2)]))
}

fn json(parameters: Option<&str>) -> T {
    T::Json { parameters: parameters.map(Into::into) }
}

fn map_of(value: T) -> T {
    T::Map(Box::new(T::LowCardinality(Box::new(T::String))), Box::new(value))
}

#[test]
fn a_text_or_a_map_becomes_an_object_or_says_why_not() {
    let texts: ArrayRef =
        Arc::new(StringArray::from(vec![Some(r#"{"a":1}"#), Some("[1]"), None, Some(r#"{"a":1,"a":2}"#)]));
    let made = map(T::String, texts, column(nullable(json(None))));
    let messages: Vec<&str> = made.rejects.iter().map(|reject| reject.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "the value `[1]` does not fit column `c` of type THE TYPE: it is no JSON object, and a JSON column takes nothing else",
            r#"the value `{"a":1,"a":2}` does not fit column `c` of type THE TYPE: it has the key `a` twice in one object"#,
        ]
    );
    assert_eq!(made.batch.rows.column(0).as_ref(), &StringArray::from(vec![Some(r#"{"a":1}"#), None]));
    let names = MapFieldNames { entry: "entries".into(), key: "keys".into(), value: "values".into() };
    let mut maps = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for (key, value) in [("k\"", Some("v\n")), ("n", None)] {
        maps.keys().append_value(key);
        maps.values().append_option(value);
    }
    maps.append(true).unwrap();
    maps.append(true).unwrap();
    for value in ["1", "2"] {
        maps.keys().append_value("k");
        maps.values().append_value(value);
    }
    maps.append(true).unwrap();
    let from = map_of(nullable(T::String));
    let maps = arrow_cast::cast(&maps.finish(), &from.arrow()).unwrap();
    let input = Schema::new(vec![Column::new("x", from.clone())]);
    let to = column(json(None));
    let fill = Fill { type_name: "JSON".into(), ..Fill::of(Some(0), &to) };
    let mapping = Mapping::new(&input, Schema::new(vec![to]), vec![fill], None).expect("a mapping");
    let rows = RecordBatch::try_new(input.arrow().clone(), vec![maps]).unwrap();
    let (items, partition) = (Vec::new(), Partition::new("t", 0));
    let made = mapping
        .apply(Batch { items, era: 0, partition, positions: vec![1, 2, 3], times_ms: vec![0; 3], rows })
        .unwrap();
    assert_eq!(
        made.batch.rows.column(0).as_ref(),
        &StringArray::from(vec![r#"{"k\"":"v\n","n":null}"#, "{}"])
    );
    assert!(
        made.rejects[0].message.ends_with("of type JSON: it has a key twice"),
        "{}",
        made.rejects[0].message
    );
}

fn nullable(inner: T) -> T {
    T::Nullable(Box::new(inner))
}

fn keyed(key: T) -> T {
    T::Map(Box::new(key), Box::new(T::String))
}

fn array(item: T) -> T {
    T::Array(Box::new(item))
}

/// A table of one column, filled by values of `from`.
fn map(from: T, values: ArrayRef, to: Column) -> Transformed {
    let input = Schema::new(vec![Column::new("x", nullable(from))]);
    let fill = Fill { type_name: "THE TYPE".into(), ..Fill::of(Some(0), &to) };
    let mapping = Mapping::new(&input, Schema::new(vec![to]), vec![fill], None).expect("a mapping");
    let batch = Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        positions: (10..10 + values.len() as u64).collect(),
        times_ms: vec![7; values.len()],
        rows: RecordBatch::try_new(input.arrow().clone(), vec![values]).unwrap(),
    };
    mapping.apply(batch).unwrap()
}

fn column(to: T) -> Column {
    Column::new("c", to)
}

#[test]
fn types_are_the_same_wider_narrower_or_strangers() {
    use Conversion::{Absent, Checked, Lossless, Same};
    let low = T::LowCardinality(Box::new(T::String));
    let cases = [
        (T::Int64, T::Int64, Same),
        (T::String, low, Same),
        (T::DateTime { timezone: Some("UTC".into()) }, T::DateTime { timezone: None }, Same),
        (T::UInt8, T::Int16, Lossless),
        (T::UInt8, T::Int8, Checked),
        (T::Int64, T::UInt64, Checked),
        (T::Bool, T::UInt8, Lossless),
        (T::UInt8, T::Bool, Checked),
        (T::Float64, T::Bool, Absent),
        (T::Int32, T::Float64, Lossless),
        (T::Int64, T::Float64, Absent),
        (T::Float64, T::Float32, Absent),
        (T::Float64, T::Int64, Absent),
        (T::UInt8, decimal(3, 0), Lossless),
        (T::UInt8, decimal(3, 1), Checked),
        (decimal(10, 2), decimal(12, 4), Lossless),
        (decimal(10, 2), decimal(10, 4), Checked),
        (decimal(10, 2), decimal(38, 1), Absent),
        (T::String, T::Uuid, Checked),
        (T::String, T::Int64, Absent),
        (T::Uuid, T::String, Lossless),
        (T::Int64, T::String, Lossless),
        (T::Float64, T::String, Absent),
        (T::FixedString(4), T::String, Checked),
        (T::Ipv4, T::Ipv6, Lossless),
        (T::Ipv6, T::Ipv4, Checked),
        (T::Ipv4, T::UInt32, Lossless),
        (T::Ipv4, T::Int32, Checked),
        (T::Ipv6, T::UInt64, Absent),
        (T::Uuid, T::Int64, Absent),
        (enum8(), T::String, Lossless),
        (enum8(), T::Int8, Lossless),
        (T::Enum16(Arc::from([("far".into(), 300)])), T::UInt8, Checked),
        (enum8(), T::Float64, Absent),
        (T::String, json(None), Checked),
        (json(None), T::String, Lossless),
        (json(None), json(Some("SKIP a")), Lossless),
        (json(None), T::Uuid, Absent),
        (map_of(T::String), json(None), Checked),
        (map_of(nullable(T::String)), json(None), Checked),
        (map_of(T::Int8), json(None), Absent),
        (T::Date, T::Date32, Lossless),
        (T::Date32, T::Date, Checked),
        (T::DateTime { timezone: None }, time64(3), Lossless),
        (time64(3), time64(9), Checked),
        (time64(6), time64(3), Absent),
        (T::Array(Box::new(T::Int8)), T::Array(Box::new(T::Int8)), Same),
        (array(T::Int8), array(T::Int16), Lossless),
        (array(T::Int16), array(T::Int8), Checked),
        (array(T::Float64), array(T::Int8), Absent),
        (array(T::Int8), array(nullable(T::Int8)), Lossless),
        (array(nullable(T::Int8)), array(T::Int8), Checked),
        (array(nullable(T::Int8)), array(nullable(T::Int16)), Lossless),
        (array(nullable(T::Float64)), array(T::Int8), Absent),
        (array(array(nullable(T::String))), array(array(T::String)), Checked),
        (array(T::Int8), T::Int8, Absent),
        (map_of(nullable(T::String)), map_of(T::String), Checked),
        (map_of(T::String), map_of(nullable(T::String)), Lossless),
        (keyed(T::Int16), keyed(T::Int32), Lossless),
        (keyed(T::Int16), keyed(T::Int8), Absent),
    ];
    for (from, to, expected) in cases {
        assert_eq!(conversion(&from, &to), expected, "{from:?} to {to:?}");
    }
}

#[test]
fn a_value_that_does_not_fit_rejects_its_row_and_no_other() {
    let made = map(T::Int64, Arc::new(Int64Array::from(vec![1, 300, -1, 255])), column(T::UInt8));
    assert_eq!(made.batch.rows.column(0), &(Arc::new(UInt8Array::from(vec![1, 255])) as ArrayRef));
    assert_eq!((made.batch.positions, made.filtered), (vec![10, 13], 0));
    let rejected: Vec<(u64, Reason, &str)> = made
        .rejects
        .iter()
        .map(|reject| (dataflow::position::low(reject.position), reject.reason, reject.column.as_str()))
        .collect();
    assert_eq!(rejected, [(11, Reason::OutOfRange, "c"), (12, Reason::OutOfRange, "c")]);
    assert_eq!(made.rejects[0].message, "the value `300` does not fit column `c` of type THE TYPE");
}

#[test]
fn the_message_of_a_row_names_the_beginning_of_a_long_type() {
    let to = column(T::UInt8);
    let input = Schema::new(vec![Column::new("x", T::Int64)]);
    let fill = Fill { type_name: "T".repeat(100_000), ..Fill::of(Some(0), &to) };
    let mapping = Mapping::new(&input, Schema::new(vec![to]), vec![fill], None).expect("a mapping");
    let values: ArrayRef = Arc::new(Int64Array::from(vec![300]));
    let rows = RecordBatch::try_new(input.arrow().clone(), vec![values]).unwrap();
    let (items, partition) = (Vec::new(), Partition::new("t", 0));
    let batch = Batch { items, era: 0, partition, positions: vec![1], times_ms: vec![0], rows };
    let made = mapping.apply(batch).unwrap();
    let expected = format!("the value `300` does not fit column `c` of type {}…", "T".repeat(200));
    assert_eq!(made.rejects[0].message, expected);
}

#[test]
fn null_is_null_or_the_default_and_otherwise_rejects_its_row() {
    let values = || Arc::new(Int64Array::from(vec![Some(1), None]));
    assert_eq!(map(T::Int64, values(), column(nullable(T::Int64))).batch.len(), 2);
    let with_default = Column { default: Some("7".into()), ..column(T::Int64) };
    let made = map(T::Int64, values(), with_default);
    assert!(made.batch.rows.column(0).is_null(1), "it stands for the DEFAULT");
    let made = map(T::Int64, values(), column(T::Int64));
    assert_eq!((made.batch.len(), made.rejects[0].reason), (1, Reason::Missing));
    assert_eq!(made.rejects[0].message, "NULL does not fit column `c`, which has neither NULL nor a DEFAULT");
}

#[test]
fn every_conversion_keeps_the_value() {
    let addresses = |octets: Vec<[u8; 16]>| {
        Arc::new(FixedSizeBinaryArray::try_from_iter(octets.into_iter()).unwrap()) as ArrayRef
    };
    let (v4, v6) = (0x0102_0304_u32, "::ffff:1.2.3.4".parse::<std::net::Ipv6Addr>().unwrap().octets());
    let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let number = |number: u32| Arc::new(UInt32Array::from(vec![number])) as ArrayRef;
    let cases: [(T, ArrayRef, T, ArrayRef); 22] = [
        (T::String, text("1.2.3.4"), T::Ipv6, addresses(vec![v6])),
        (T::String, text("::ffff:1.2.3.4"), T::Ipv6, addresses(vec![v6])),
        (T::Ipv4, number(v4), T::Ipv6, addresses(vec![v6])),
        (T::Ipv6, addresses(vec![v6]), T::Ipv4, number(v4)),
        (T::Ipv4, number(v4), T::UInt32, number(v4)),
        (T::Ipv4, number(v4), T::String, text("1.2.3.4")),
        (T::Ipv6, addresses(vec![v6]), T::String, text("::ffff:1.2.3.4")),
        (
            T::Uuid,
            addresses(vec![255_u128.to_be_bytes()]),
            T::String,
            text("00000000-0000-0000-0000-0000000000ff"),
        ),
        (
            T::FixedString(3),
            Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab\0"].into_iter()).unwrap()),
            T::String,
            text("ab"),
        ),
        (T::Int64, Arc::new(Int64Array::from(vec![-12])), T::String, text("-12")),
        (enum8(), Arc::new(Int8Array::from(vec![2])), T::Int64, Arc::new(Int64Array::from(vec![2]))),
        (
            T::Int64,
            Arc::new(Int64Array::from(vec![12])),
            decimal(5, 2),
            Arc::new(Decimal128Array::from(vec![1_200]).with_precision_and_scale(5, 2).unwrap()),
        ),
        (
            T::Int32,
            Arc::new(arrow_array::Int32Array::from(vec![-3])),
            T::Float64,
            Arc::new(Float64Array::from(vec![-3.0])),
        ),
        (
            T::String,
            Arc::new(StringArray::from(vec!["ab"])),
            T::FixedString(3),
            Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab\0"].into_iter()).unwrap()),
        ),
        (
            T::String,
            Arc::new(StringArray::from(vec!["00000000-0000-0000-0000-0000000000fF"])),
            T::Uuid,
            Arc::new(FixedSizeBinaryArray::try_from_iter([255_u128.to_be_bytes()].into_iter()).unwrap()),
        ),
        // As `md5` gives it.
        (
            T::String,
            text("000000000000000000000000000000fF"),
            T::Uuid,
            Arc::new(FixedSizeBinaryArray::try_from_iter([255_u128.to_be_bytes()].into_iter()).unwrap()),
        ),
        (
            T::UInt8,
            Arc::new(UInt8Array::from(vec![0, 1])),
            T::Bool,
            Arc::new(arrow_array::BooleanArray::from(vec![false, true])),
        ),
        (
            T::String,
            Arc::new(StringArray::from(vec!["1.2.3.4"])),
            T::Ipv4,
            Arc::new(UInt32Array::from(vec![0x0102_0304])),
        ),
        (T::String, Arc::new(StringArray::from(vec!["off"])), enum8(), Arc::new(Int8Array::from(vec![2]))),
        (enum8(), Arc::new(Int8Array::from(vec![1])), T::String, Arc::new(StringArray::from(vec!["on"]))),
        (T::Date, Arc::new(Date32Array::from(vec![5])), T::Date32, Arc::new(Date32Array::from(vec![5]))),
        (
            T::DateTime { timezone: None },
            Arc::new(TimestampSecondArray::from(vec![5]).with_timezone("UTC")),
            time64(3),
            Arc::new(TimestampMillisecondArray::from(vec![5_000]).with_timezone("UTC")),
        ),
    ];
    for (from, values, to, expected) in cases {
        let made = map(from.clone(), values, column(to.clone()));
        assert_eq!(made.batch.rows.column(0), &expected, "{from:?} to {to:?}");
        assert!(made.rejects.is_empty());
    }
}

#[test]
fn texts_that_are_none_of_their_type_and_times_out_of_range_are_rejected() {
    let texts = |texts: Vec<&str>| Arc::new(StringArray::from(texts)) as ArrayRef;
    let long = "0123456789abcdefg";
    let cases: [(T, ArrayRef, T); 10] = [
        (T::String, texts(vec!["blue"]), enum8()),
        (T::String, texts(vec!["00000000-0000-0000-0000-0000000000f", "0-0"]), T::Uuid),
        (
            T::String,
            texts(vec!["0000000000000000000000000000000g", "0000000-0000000000000000000000ff"]),
            T::Uuid,
        ),
        (T::Int64, Arc::new(Int64Array::from(vec![2, -1])), T::Bool),
        (T::String, texts(vec!["1.2.3", "::1"]), T::Ipv4),
        (T::String, texts(vec![long]), T::FixedString(16)),
        (T::Date32, Arc::new(Date32Array::from(vec![-1, 65_536])), T::Date),
        // As an expression may have made them: of the type, and beyond what ClickHouse holds.
        (T::Date, Arc::new(Date32Array::from(vec![-1])), T::Date),
        (
            T::DateTime { timezone: None },
            Arc::new(TimestampSecondArray::from(vec![-1, i64::MAX]).with_timezone("UTC")),
            T::DateTime { timezone: None },
        ),
        (
            time64(3),
            Arc::new(TimestampMillisecondArray::from(vec![i64::MAX]).with_timezone("UTC")),
            time64(9),
        ),
    ];
    for (from, values, to) in cases {
        let rows = values.len();
        let made = map(from, values, column(to.clone()));
        assert_eq!((made.batch.len(), made.rejects.len()), (0, rows), "{to:?}");
    }
}

#[test]
fn a_time_that_no_calendar_has_is_shown_as_its_number() {
    let last = || Arc::new(TimestampSecondArray::from(vec![i64::MAX]).with_timezone("UTC"));
    let made = map(T::DateTime { timezone: None }, last(), column(T::DateTime { timezone: None }));
    assert!(
        made.rejects[0].message.starts_with("the value `9223372036854775807` "),
        "{}",
        made.rejects[0].message
    );
    let day = Arc::new(Date32Array::from(vec![1_700_000_000]));
    let made = map(T::Date32, day, column(T::Date));
    assert!(made.rejects[0].message.starts_with("the value `1700000000` "), "{}", made.rejects[0].message);
}

#[test]
fn a_column_that_nothing_fills_needs_null_or_a_default() {
    let mapping = |to: Column| {
        let input = Schema::new(vec![Column::new("x", T::Int8)]);
        let fill = Fill::of(None, &to);
        Mapping::new(&input, Schema::new(vec![to]), vec![fill], None)
    };
    let input = Schema::new(vec![Column::new("x", T::Int8)]);
    assert_eq!(mapping(column(T::Int8)).err(), Some((0, Unfit::Missing)));
    let mapping = mapping(column(nullable(T::Int8))).unwrap();
    let rows =
        RecordBatch::try_new(input.arrow().clone(), vec![Arc::new(Int8Array::from(vec![1, 2]))]).unwrap();
    let partition = Partition::new("t", 0);
    let made = mapping
        .apply(Batch {
            items: Vec::new(),
            era: 0,
            partition,
            rows,
            positions: vec![0, 1],
            times_ms: vec![0, 0],
        })
        .unwrap();
    assert_eq!(made.batch.rows.column(0).null_count(), 2);
}

/// A table of one column with this DEFAULT, filled by nothing.
fn map_nothing(to: Column, rows: usize) -> Transformed {
    let input = Schema::new(vec![Column::new("x", T::Int8)]);
    let fill = Fill::of(None, &to);
    let mapping = Mapping::new(&input, Schema::new(vec![to]), vec![fill], None).expect("a mapping");
    let values: ArrayRef = Arc::new(Int8Array::from(vec![0; rows]));
    let rows = RecordBatch::try_new(input.arrow().clone(), vec![values]).unwrap();
    let (positions, times_ms) = ((0..rows.num_rows() as u64).collect(), vec![0; rows.num_rows()]);
    let (items, partition) = (Vec::new(), Partition::new("t", 0));
    mapping.apply(Batch { items, era: 0, partition, positions, times_ms, rows }).unwrap()
}

fn with_default(to: T, json: &str) -> Column {
    Column { default: Some("a literal".into()), default_json: Some(json.into()), ..column(to) }
}

#[test]
fn an_array_or_a_map_without_a_value_gets_the_default_itself() {
    let values = || -> ArrayRef {
        let rows = [Some(vec![Some(1)]), None, Some(vec![])];
        Arc::new(ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(rows))
    };
    let from = || array(nullable(T::Int64));
    // As it is, converted, and from the middle of an array.
    for (to, expected) in [
        (array(nullable(T::Int64)), ["[1]", "[7, NULL]", "[]"]),
        (array(nullable(decimal(21, 1))), ["[1.0]", "[7.0, NULL]", "[]"]),
    ] {
        let made = map(from(), values(), with_default(to.clone(), "[7,null]"));
        assert_eq!((items_of(&made), made.rejects.len()), (expected.map(str::to_owned).to_vec(), 0));
        assert_eq!(made.batch.rows.column(0).null_count(), 0);
        let made = map(from(), values().slice(1, 2), with_default(to, "[7,null]"));
        assert_eq!(items_of(&made), expected[1..]);
    }
    // A null stands for no items.
    let made = map(from(), values(), with_default(from(), "[]"));
    assert_eq!((made.batch.rows.column(0).null_count(), made.rejects.len()), (1, 0));
    // Items without NULL.
    let made = map(from(), values(), with_default(array(T::UInt8), "[7]"));
    assert_eq!(items_of(&made), ["[1]", "[7]", "[]"]);
}

#[test]
fn an_array_or_a_map_that_nothing_fills_gets_the_default_itself() {
    for (to, json, expected) in [
        (array(T::String), r#"["a\"\\\n\u0001ü",""]"#, "[a\"\\\n\u{1}ü, ]"),
        (array(array(T::UInt8)), "[[1,2],[]]", "[[1, 2], []]"),
        (array(T::Bool), "[true, false]", "[true, false]"),
        (array(T::Float64), "[1.5,1000.0]", "[1.5, 1000.0]"),
        (array(decimal(9, 2)), "[1.25,-3,1.5]", "[1.25, -3.00, 1.50]"),
        (array(T::Date), r#"["2024-01-15"]"#, "[2024-01-15]"),
        (array(enum8()), r#"["off"]"#, "[2]"),
        (array(T::UInt64), "[18446744073709551615]", "[18446744073709551615]"),
        (map_of(T::UInt8), r#"{"a":1,"b":2}"#, "{a: 1, b: 2}"),
        (map_of(array(T::String)), r#"{"a":["x"],"b":[]}"#, "{a: [x], b: []}"),
        (keyed(T::UInt16), r#"{"7":"x"}"#, "{7: x}"),
    ] {
        let made = map_nothing(with_default(to.clone(), json), 2);
        assert_eq!((items_of(&made), made.rejects.len()), (vec![expected.to_owned(); 2], 0), "{to:?}");
        assert_eq!(made.batch.rows.column(0).data_type(), &to.arrow());
        let none = map_nothing(with_default(to.clone(), json), 0);
        assert_eq!((none.batch.len(), none.rejects.len()), (0, 0), "{to:?}");
    }
}

#[test]
fn an_array_whose_default_has_no_value_here_rejects_its_row() {
    for (to, json) in [
        // Their zone is a format's.
        (array(T::DateTime { timezone: None }), r#"["2024-01-15 00:00:00"]"#),
        // Digits would be lost.
        (array(decimal(9, 2)), "[1.256]"),
        (array(T::UInt8), "[300]"),
        (array(T::Date), r#"["1969-12-31"]"#),
        (array(T::UInt8), "[null]"),
        (array(enum8()), r#"["blue"]"#),
        (array(T::UInt8), r#"{"a":1}"#),
        (map_of(T::UInt8), "[1]"),
        (array(T::UInt8), "[1"),
        (array(T::UInt8), "[1] 2"),
        (array(T::UInt8), "[1 2]"),
        (array(T::String), r#"["\ud800"]"#),
    ] {
        let made = map_nothing(with_default(to.clone(), json), 1);
        assert_eq!((made.batch.len(), made.rejects.len()), (0, 1), "{to:?} {json}");
        assert_eq!(made.rejects[0].reason, Reason::Missing);
        assert_eq!(
            made.rejects[0].message,
            "NULL does not fit column `c`: an array or a map cannot be sent as NULL, and its DEFAULT has to be written in the step that fills it"
        );
    }
    let deep = "[".repeat(100_000);
    assert_eq!(map_nothing(with_default(array(T::UInt8), &deep), 1).rejects.len(), 1);
}

/// Arrays of numbers, and NULL among them.
fn numbers(rows: &[&[Option<i64>]]) -> ArrayRef {
    let rows = rows.iter().map(|row| Some(row.to_vec()));
    Arc::new(ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(rows))
}

fn items_of(made: &Transformed) -> Vec<String> {
    (0..made.batch.len()).map(|row| convert::shown(made.batch.rows.column(0), row)).collect()
}

fn rules(made: &Transformed) -> Vec<(u64, Reason, &str)> {
    let rule = |reject: &'_ Reject| reject.message.find("THE TYPE: ").map(|at| at + "THE TYPE: ".len());
    let rejects = made.rejects.iter();
    let low = |reject: &Reject| dataflow::position::low(reject.position);
    rejects.map(|reject| (low(reject), reject.reason, &reject.message[rule(reject).unwrap_or(0)..])).collect()
}

#[test]
fn a_null_item_rejects_its_row_where_the_items_take_none() {
    let values = numbers(&[&[Some(1)], &[Some(2), None], &[], &[Some(3), Some(4)]]);
    let from = || array(nullable(T::Int64));
    let made = map(from(), values.clone(), column(array(T::Int64)));
    assert_eq!(items_of(&made), ["[1]", "[]", "[3, 4]"]);
    assert_eq!(made.batch.positions, vec![10, 12, 13]);
    assert_eq!(rules(&made), [(11, Reason::Missing, "item 2 is NULL")]);
    assert_eq!(
        made.rejects[0].message,
        "the value `[2, NULL]` does not fit column `c` of type THE TYPE: item 2 is NULL"
    );
    // What a slice leaves out is in its memory, and no reason to reject anything.
    let made = map(from(), values.slice(2, 2), column(array(T::Int64)));
    assert_eq!((items_of(&made), made.rejects.len()), (vec!["[]".to_owned(), "[3, 4]".to_owned()], 0));
    let made = map(from(), values.slice(1, 2), column(array(T::Int64)));
    assert_eq!((items_of(&made), made.rejects.len()), (vec!["[]".to_owned()], 1));
    // Where they take it, it is one of them.
    let made = map(from(), values, column(array(nullable(T::Int64))));
    assert_eq!(items_of(&made), ["[1]", "[2, NULL]", "[]", "[3, 4]"]);
}

#[test]
fn items_are_widened_and_those_that_do_not_fit_reject_their_row() {
    let values = numbers(&[&[Some(1)], &[Some(300), Some(2)], &[Some(7), Some(-1)]]);
    let made = map(array(nullable(T::Int64)), values.clone(), column(array(T::UInt8)));
    assert_eq!(items_of(&made), ["[1]"]);
    assert_eq!(
        rules(&made),
        [(11, Reason::OutOfRange, "item 1 is `300`"), (12, Reason::OutOfRange, "item 2 is `-1`")]
    );
    let made = map(array(nullable(T::Int64)), values, column(array(nullable(decimal(21, 2)))));
    assert_eq!(items_of(&made), ["[1.00]", "[300.00, 2.00]", "[7.00, -1.00]"]);
}

#[test]
fn arrays_within_arrays_and_maps_are_checked_to_their_last_item() {
    let inner = numbers(&[&[Some(1)], &[None], &[Some(2)]]);
    let field = arrow_schema::Field::new("item", inner.data_type().clone(), false);
    let offsets = arrow_buffer::OffsetBuffer::from_lengths([2, 1]);
    let outer: ArrayRef = Arc::new(ListArray::new(Arc::new(field), offsets, inner, None));
    let made = map(array(array(nullable(T::Int64))), outer, column(array(array(T::Int64))));
    assert_eq!(items_of(&made), ["[[2]]"]);
    assert_eq!(rules(&made), [(10, Reason::OutOfRange, "item 2 is `[NULL]`")]);

    let names = MapFieldNames { entry: "entries".into(), key: "keys".into(), value: "values".into() };
    let mut maps = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for rows in [vec![("a", Some("x"))], vec![("a", Some("y")), ("b", None)], vec![]] {
        for (key, value) in rows {
            maps.keys().append_value(key);
            maps.values().append_option(value);
        }
        maps.append(true).unwrap();
    }
    let from = map_of(nullable(T::String));
    let maps = arrow_cast::cast(&maps.finish(), &from.arrow()).unwrap();
    let made = map(from, maps, column(map_of(T::String)));
    assert_eq!(items_of(&made), ["{a: x}", "{}"]);
    assert_eq!(rules(&made), [(11, Reason::Missing, "the value of key `b` is NULL")]);
}

#[test]
fn a_day_that_the_type_does_not_have_is_found_within_arrays_too() {
    let days = Date32Array::from(vec![5, -1, 7]);
    let field = arrow_schema::Field::new("item", DataType::Date32, false);
    let offsets = arrow_buffer::OffsetBuffer::from_lengths([1, 2]);
    let values: ArrayRef = Arc::new(ListArray::new(Arc::new(field), offsets, Arc::new(days), None));
    for from in [T::Date, T::Date32] {
        let made = map(array(from), values.clone(), column(array(T::Date)));
        assert_eq!(items_of(&made), ["[1970-01-06]"]);
        assert_eq!(rules(&made), [(11, Reason::OutOfRange, "item 1 is `1969-12-31`")]);
    }
    // A time that is computed may lie outside of every type of its kind.
    let late = Arc::new(TimestampMillisecondArray::from(vec![13_569_465_600_000]).with_timezone("UTC"));
    let made = map(time64(3), late, column(time64(6)));
    assert_eq!((made.batch.len(), made.rejects.len()), (0, 1));
}

#[test]
fn a_value_that_does_not_fit_one_of_several_tables_names_it() {
    let to = column(T::UInt8);
    let input = Schema::new(vec![Column::new("x", T::Int64)]);
    let header = |table: &str| {
        let fill = Fill { table: table.into(), ..Fill::of(Some(0), &to) };
        let mapping =
            Mapping::new(&input, Schema::new(vec![to.clone()]), vec![fill], None).expect("a mapping");
        let values: ArrayRef = Arc::new(Int64Array::from(vec![300]));
        let rows = RecordBatch::try_new(input.arrow().clone(), vec![values]).unwrap();
        let (items, partition) = (Vec::new(), Partition::new("t", 0));
        let batch = Batch { items, era: 0, partition, positions: vec![1], times_ms: vec![0], rows };
        let made = mapping.apply(batch).unwrap();
        let headers = dataflow::block::headers(&made.rejects[0].headers);
        headers.map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).collect::<Vec<_>>()
    };
    assert_eq!(header("odd"), [("forebay.table".to_owned(), Some(b"odd".to_vec()))]);
    assert_eq!(header(""), [], "where there is only one, the pipeline names it");
}
