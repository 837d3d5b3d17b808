use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::*;
use dataflow::Column;

use super::*;

fn encode_rows(schema: &Schema, batches: &[RecordBatch], rows: Rows<'_>) -> Result<Vec<u8>, EncodeError> {
    BlockPlan::new(schema, None).encode(batches, rows, FrameId(1), &mut |_| {})
}

fn decode(block: &[u8]) -> Result<RecordBatch, String> {
    read_rows(block, "_forebay")
}

fn one(name: &str, type_name: &str, default: Option<&str>) -> Schema {
    let mut column = Column::new(name, crate::types::parse(name, type_name).unwrap());
    column.default = default.map(str::to_owned);
    Schema::new(vec![column])
}

fn batch(schema: &Schema, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_new(
        Arc::new(arrow_schema::Schema::new(vec![arrow_schema::Field::new(
            &schema.columns()[0].name,
            array.data_type().clone(),
            true,
        )])),
        vec![array],
    )
    .unwrap()
}

fn encode_one(name: &str, type_name: &str, array: ArrayRef) -> Result<Vec<u8>, EncodeError> {
    let schema = one(name, type_name, None);
    encode_rows(&schema, &[batch(&schema, array)], Rows::All)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn fixed(width: i32, value: &[u8]) -> ArrayRef {
    let values = std::iter::once(Some(value));
    Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, width).unwrap())
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[test]
fn under_a_null_of_json_stands_an_object() {
    let nulls: ArrayRef = Arc::new(StringArray::from(vec![None, Some("{\"a\":[1]}")]));
    // The server parses what stands there, too.
    let form = "0100000000000000";
    let block = encode_one("j", "Nullable(JSON)", nulls.clone()).unwrap();
    assert!(hex(&block).ends_with(&format!("{form}0100027b7d097b2261223a5b315d7d")), "{}", hex(&block));
    let schema = one("j", "JSON", Some("'{}'"));
    let block = encode_rows(&schema, &[batch(&schema, nulls.clone())], Rows::All).unwrap();
    assert!(hex(&block).contains(&hex(b"Nullable(JSON)")), "{}", hex(&block));
    let back = decode(&block).unwrap();
    assert_eq!((back.column(0).is_null(0), back.column(0).len()), (true, 2));
    assert!(encode_one("j", "JSON", nulls).unwrap_err().reason.contains("neither NULL nor a DEFAULT"));
}

#[test]
fn json_in_another_form_is_not_read() {
    let block = encode_one("j", "JSON", texts(&["{}"])).unwrap();
    let at = block.len() - 3 - 8;
    let mut other = block.clone();
    other[at] = 2;
    assert_eq!(decode(&other).unwrap_err(), "column `j`: `JSON` in form 2, and only texts are read");
    let mut no_text = block;
    *no_text.last_mut().unwrap() = 0xff;
    assert_eq!(decode(&no_text).unwrap_err(), "column `j`: a JSON text is not UTF-8");
}

fn numbers(items: &[Option<i32>]) -> ArrayRef {
    let mut b = ListBuilder::new(Int32Builder::new());
    items.iter().for_each(|i| b.values().append_option(*i));
    b.append(true);
    Arc::new(b.finish())
}

/// Every expected text is what ClickHouse 26.7 itself wrote for `SELECT value AS name FORMAT Native`.
#[test]
fn bytes_are_those_of_the_server() {
    let mut uuid = [0; 16];
    (0..16).for_each(|i| uuid[i] = i as u8 * 0x11);
    let mut ip6 = [0; 16];
    (ip6[0], ip6[1], ip6[2], ip6[3], ip6[15]) = (0x20, 0x01, 0x0d, 0xb8, 1);
    let decimal = |v: i128, p, s| -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![v]).with_precision_and_scale(p, s).unwrap())
    };
    let micros = TimestampMicrosecondArray::from(vec![1_709_210_096_123_450]).with_timezone("UTC");
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map.keys().append_value("k");
    map.values().append_value("v");
    map.append(true).unwrap();
    let mut nested = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    nested.values().values().append_value("a");
    nested.values().append(true);
    nested.values().append(true);
    nested.append(true);
    let mut objects = ListBuilder::new(StringBuilder::new());
    objects.values().append_value("{\"a\":1}");
    objects.values().append_value("{}");
    objects.append(true);
    let mut map_of_objects = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map_of_objects.keys().append_value("k");
    map_of_objects.values().append_value("{\"a\":1}");
    map_of_objects.append(true).unwrap();
    let cases: Vec<(&str, &str, ArrayRef, &str)> = vec![
        ("u", "UUID", fixed(16, &uuid), "0101017504555549447766554433221100ffeeddccbbaa9988"),
        ("d", "Date", Arc::new(Date32Array::from(vec![19782])), "010101640444617465464d"),
        ("d32", "Date32", Arc::new(Date32Array::from(vec![-1])), "01010364333206446174653332ffffffff"),
        (
            "dt",
            "DateTime",
            Arc::new(TimestampSecondArray::from(vec![1_709_210_096])),
            "0101026474084461746554696d65f079e065",
        ),
        (
            "dt64",
            "DateTime64(5, 'UTC')",
            Arc::new(micros),
            "01010464743634144461746554696d65363428352c20275554432729390610a6739b0000",
        ),
        ("a", "Decimal(9, 2)", decimal(-125, 9, 2), "010101610d446563696d616c28392c20322983ffffff"),
        (
            "b",
            "Decimal(18, 4)",
            decimal(123_456_789_015_000, 18, 4),
            "010101620e446563696d616c2831382c203429d8e90d8648700000",
        ),
        (
            "cc",
            "Decimal(38, 10)",
            decimal(-999_999_999_999_999_999_991_000_000_000, 38, 10),
            "01010263630f446563696d616c2833382c20313029001a71d817128bb92f63d360f3ffffff",
        ),
        ("bo", "Bool", Arc::new(BooleanArray::from(vec![true])), "010102626f04426f6f6c01"),
        (
            "e8",
            "Enum8('b' = -2, 'a' = 1)",
            Arc::new(Int8Array::from(vec![-2])),
            "010102653818456e756d3828276227203d202d322c20276127203d203129fe",
        ),
        (
            "e16",
            "Enum16('x' = -300)",
            Arc::new(Int16Array::from(vec![-300])),
            "01010365313612456e756d313628277827203d202d33303029d4fe",
        ),
        ("i4", "IPv4", Arc::new(UInt32Array::from(vec![0x0102_0304])), "0101026934044950763404030201"),
        ("i6", "IPv6", fixed(16, &ip6), "0101026936044950763620010db8000000000000000000000001"),
        ("fs", "FixedString(5)", fixed(5, b"abc\0\0"), "01010266730e4669786564537472696e672835296162630000"),
        ("s", "String", Arc::new(StringArray::from(vec!["héé"])), "0101017306537472696e670568c3a9c3a9"),
        (
            "s",
            "String",
            Arc::new(BinaryArray::from(vec!["héé".as_bytes()])),
            "0101017306537472696e670568c3a9c3a9",
        ),
        ("i16", "Int16", Arc::new(Int16Array::from(vec![-2])), "01010369313605496e743136feff"),
        // With `output_format_native_write_json_as_string = 1`.
        ("j", "JSON", texts(&["{\"a\":1}"]), "0101016a044a534f4e0100000000000000077b2261223a317d"),
        (
            "j",
            "JSON(max_dynamic_paths=8, SKIP x)",
            texts(&["{\"b\":1}"]),
            "0101016a214a534f4e286d61785f64796e616d69635f70617468733d382c20534b49502078290100000000000000077b2262223a317d",
        ),
        (
            "j",
            "Nullable(JSON)",
            texts(&["{\"a\":1}"]),
            "0101016a0e4e756c6c61626c65284a534f4e29010000000000000000077b2261223a317d",
        ),
        (
            "j",
            "Array(JSON)",
            Arc::new(objects.finish()),
            "0101016a0b4172726179284a534f4e2901000000000000000200000000000000077b2261223a317d027b7d",
        ),
        (
            "j",
            "Map(String, JSON)",
            Arc::new(map_of_objects.finish()),
            "0101016a114d617028537472696e672c204a534f4e2901000000000000000100000000000000016b077b2261223a317d",
        ),
        (
            "f",
            "Float64",
            Arc::new(Float64Array::from(vec![-1.5])),
            "0101016607466c6f61743634000000000000f8bf",
        ),
        (
            "n",
            "Nullable(Int32)",
            Arc::new(Int32Array::from(vec![None])),
            "0101016e0f4e756c6c61626c6528496e743332290100000000",
        ),
        (
            "ar",
            "Array(Nullable(Int32))",
            numbers(&[Some(1), None, Some(3)]),
            "0101026172164172726179284e756c6c61626c6528496e743332292903000000000000000001000100000000000000\
             03000000",
        ),
        (
            "aa",
            "Array(Array(String))",
            Arc::new(nested.finish()),
            "010102616114417272617928417272617928537472696e6729290200000000000000010000000000000001000000\
             000000000161",
        ),
        // The server keeps the dictionary of the keys, we send them plain: the name, the end, the key, the value.
        (
            "m",
            "Map(LowCardinality(String), String)",
            Arc::new(map.finish()),
            "0101016d134d617028537472696e672c20537472696e67290100000000000000016b0176",
        ),
    ];
    for (name, type_name, array, expected) in cases {
        let block = encode_one(name, type_name, array.clone()).unwrap();
        assert_eq!(hex(&block), expected, "{type_name}");
        let back = decode(&block).unwrap();
        let again = encode_one(name, type_name, back.column(0).clone()).unwrap();
        assert_eq!(hex(&again), expected, "{type_name} read back");
        for cut in 0..block.len() {
            assert!(decode(&block[..cut]).is_err());
        }
    }
}

#[test]
fn low_cardinality_is_sent_as_its_inner_type() {
    let array = || -> ArrayRef { Arc::new(StringArray::from(vec![Some("x"), None])) };
    assert_eq!(
        encode_one("c", "LowCardinality(Nullable(String))", array()),
        encode_one("c", "Nullable(String)", array())
    );
}

#[test]
fn a_null_without_null_or_default_is_an_error() {
    let error = encode_one("c", "Int32", Arc::new(Int32Array::from(vec![Some(1), None]))).unwrap_err();
    assert_eq!(error.to_string(), "column `c`: 1 null(s) in a column that has neither NULL nor a DEFAULT");
    let error = encode_one("c", "Array(Int32)", numbers(&[Some(1), None])).unwrap_err();
    assert!(error.reason.contains("has no NULL"), "{error}");
}

#[test]
fn a_column_with_a_default_is_nullable_only_where_nulls_are() {
    let schema = one("c", "UInt8", Some("7"));
    let of = |v: Vec<Option<u8>>| {
        let array: ArrayRef = Arc::new(UInt8Array::from(v));
        encode_rows(&schema, &[batch(&schema, array)], Rows::All).unwrap()
    };
    assert_eq!(of(vec![Some(1), Some(2)]), b"\x01\x02\x01c\x05UInt8\x01\x02");
    assert_eq!(of(vec![Some(1), None]), b"\x01\x02\x01c\x0fNullable(UInt8)\x00\x01\x01\x00");
}

#[test]
fn a_null_map_with_a_default_is_empty() {
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map.append(false).unwrap();
    let schema = one("m", "Map(String, String)", Some("map()"));
    let bytes = encode_rows(&schema, &[batch(&schema, Arc::new(map.finish()))], Rows::All).unwrap();
    assert_eq!(bytes, b"\x01\x01\x01m\x13Map(String, String)\0\0\0\0\0\0\0\0");
}

#[test]
fn what_lies_under_a_null_never_shows() {
    let dirty = Int32Array::new(vec![5, 99].into(), Some(vec![true, false].into()));
    let clean = Int32Array::from(vec![Some(5), None]);
    assert_eq!(
        encode_one("c", "Nullable(Int32)", Arc::new(dirty)).unwrap(),
        encode_one("c", "Nullable(Int32)", Arc::new(clean)).unwrap()
    );
    let far = Date32Array::new(vec![-5].into(), Some(vec![false].into()));
    assert!(encode_one("c", "Nullable(Date)", Arc::new(far)).is_ok(), "a range is not checked under a null");
}

#[test]
fn values_that_do_not_fit_are_errors_and_never_wrap() {
    let time = |v: i64| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(vec![v])) };
    let decimal = |v: i128| -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![v]).with_precision_and_scale(38, 2).unwrap())
    };
    let cases: Vec<(&str, ArrayRef)> = vec![
        ("Date", Arc::new(Date32Array::from(vec![-1]))),
        ("Date", Arc::new(Date32Array::from(vec![65_536]))),
        ("Date32", Arc::new(Date32Array::from(vec![-25_568]))),
        ("Date32", Arc::new(Date32Array::from(vec![120_530]))),
        ("DateTime", Arc::new(TimestampSecondArray::from(vec![-1]))),
        ("DateTime", Arc::new(TimestampSecondArray::from(vec![1 << 32]))),
        ("DateTime64(5)", time(123_456)),
        ("DateTime64(9)", time(i64::MAX)),
        ("Decimal(4, 2)", decimal(10_000)),
        ("Decimal(4, 2)", decimal(-10_000)),
        ("Decimal(4, 3)", decimal(1)),
        ("Enum8('a' = 1)", Arc::new(Int8Array::from(vec![2]))),
        ("Enum16('a' = 1)", Arc::new(Int16Array::from(vec![-1]))),
        ("Int64", Arc::new(Int32Array::from(vec![1]))),
        ("UUID", fixed(5, b"12345")),
        ("String", Arc::new(Int32Array::from(vec![1]))),
    ];
    for (type_name, array) in cases {
        let shown = format!("{type_name} {array:?}");
        assert!(encode_one("c", type_name, array).is_err(), "{shown}");
    }
    assert!(encode_one("c", "DateTime64(5)", time(-123_450)).is_ok());
    assert!(encode_one("c", "Decimal(4, 2)", decimal(-9_999)).is_ok());
}

#[test]
fn picked_rows_come_from_several_batches_in_the_order_given() {
    let schema = one("s", "String", None);
    let texts = |v: &[&str]| batch(&schema, Arc::new(StringArray::from(v.to_vec())));
    let batches = [texts(&["a", "b"]), texts(&["c"]), texts(&["d", "e"])];
    let pick = [(2, 1), (0, 0), (1, 0), (2, 1)].map(|(batch, row)| RowRef { batch, row });
    assert_eq!(
        encode_rows(&schema, &batches, Rows::Picked(&pick)).unwrap(),
        b"\x01\x04\x01s\x06String\x01e\x01a\x01c\x01e"
    );
    assert_eq!(
        encode_rows(&schema, &batches, Rows::All).unwrap(),
        b"\x01\x05\x01s\x06String\x01a\x01b\x01c\x01d\x01e"
    );
}

#[test]
fn sliced_batches_are_read_from_where_they_start() {
    for (type_name, array) in [
        ("String", Arc::new(StringArray::from(vec!["a", "bb", "ccc"])) as ArrayRef),
        ("Int32", Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ("Nullable(Int32)", Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]))),
        (
            "FixedString(2)",
            Arc::new(FixedSizeBinaryArray::try_from_iter([b"aa", b"bb", b"cc"].iter()).unwrap()),
        ),
        ("Bool", Arc::new(BooleanArray::from(vec![true, false, true]))),
    ] {
        let schema = one("c", type_name, None);
        let whole = batch(&schema, array);
        let picks = [1, 2].map(|row| RowRef { batch: 0, row });
        assert_eq!(
            encode_rows(&schema, &[whole.slice(1, 2)], Rows::All),
            encode_rows(&schema, &[whole], Rows::Picked(&picks)),
            "{type_name}"
        );
    }
}

#[test]
fn the_provenance_column_holds_the_frame_in_every_row() {
    let schema = one("n", "UInt8", None);
    let rows = batch(&schema, Arc::new(UInt8Array::from(vec![1, 2])));
    let plan = BlockPlan::new(&schema, Some("_forebay"));
    let frame = FrameId(0x00112233445566778899aabbccddeeff);
    let bytes = plan.encode(std::slice::from_ref(&rows), Rows::All, frame, &mut |_| {}).unwrap();
    let mut flushed = Vec::new();
    let rest = plan.encode(&[rows], Rows::All, frame, &mut |out| flushed.append(out)).unwrap();
    assert!(rest.is_empty() && flushed == bytes, "what was flushed is not written twice");
    let id = "7766554433221100ffeeddccbbaa9988";
    assert_eq!(
        hex(&bytes),
        format!("{}{id}{id}", hex(b"\x02\x02\x01n\x05UInt8\x01\x02\x08_forebay\x04UUID"))
    );
    assert_eq!(plan.column_names().collect::<Vec<_>>(), ["n", "_forebay"]);
}

#[test]
fn long_texts_have_a_length_of_several_bytes() {
    let long = "x".repeat(300);
    let bytes = encode_one("s", "String", Arc::new(StringArray::from(vec![long.as_str()]))).unwrap();
    assert_eq!(&bytes[..15], b"\x01\x01\x01s\x06String\xac\x02xx");
    assert_eq!(bytes.len(), 13 + 300);
}

#[test]
fn a_block_reads_back_as_the_rows_that_were_given() {
    let mut column = Column::new("n", ColumnType::UInt8);
    column.default = Some("7".into());
    let schema = Schema::new(vec![column, Column::new("s", ColumnType::String)]);
    let n: ArrayRef = Arc::new(UInt8Array::from(vec![Some(1), None]));
    let s: ArrayRef = Arc::new(StringArray::from(vec!["a", "é"]));
    let rows = RecordBatch::try_from_iter_with_nullable([("n", n, true), ("s", s, true)]).unwrap();
    let plan = BlockPlan::new(&schema, Some("_forebay"));
    let mut block = plan.encode(std::slice::from_ref(&rows), Rows::All, FrameId(9), &mut |_| {}).unwrap();
    let back = decode(&block).unwrap();
    assert_eq!(back.columns(), rows.columns());
    assert_eq!(type_of(back.schema().field(0)), Some(ColumnType::Nullable(Box::new(ColumnType::UInt8))));
    block.push(0);
    assert!(decode(&block).unwrap_err().contains("follow"));
}

proptest::proptest! {
    #[test]
    fn no_block_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..100)) {
        let mut block = b"\x01\x02\x01m".to_vec();
        write_text("Map(String, Array(Nullable(Int32)))", &mut block);
        block.extend(bytes);
        let _ = decode(&block);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]

    #[test]
    fn texts_in_runs_are_those_one_by_one(texts in proptest::collection::vec("[a-zé]{0,40}|[xyz]{120,140}|[q]{16380,16390}", 0..20)) {
        let schema = one("s", "String", None);
        let rows = batch(&schema, Arc::new(StringArray::from(texts.clone())));
        let picks: Vec<RowRef> = (0..texts.len() as u32).map(|row| RowRef { batch: 0, row }).collect();
        proptest::prop_assert_eq!(
            encode_rows(&schema, std::slice::from_ref(&rows), Rows::All),
            encode_rows(&schema, &[rows], Rows::Picked(&picks))
        );
    }
}

#[test]
fn fuzz_native_block() {
    let types = [
        "Map(String, Array(Nullable(Int32)))",
        "LowCardinality(Nullable(String))",
        "Nullable(Decimal(20, 4))",
        "DateTime64(3)",
    ];
    let columns = types
        .iter()
        .zip(["m", "l", "d", "t"])
        .map(|(type_name, name)| Column::new(name, crate::types::parse(name, type_name).unwrap()));
    let schema = Schema::new(columns.collect());
    let mut map = MapBuilder::new(None, StringBuilder::new(), ListBuilder::new(Int32Builder::new()));
    for row in 0..3 {
        for key in 0..row {
            map.keys().append_value(format!("k{key}"));
            map.values().values().append_option((key != 1).then_some(key));
            map.values().append(true);
        }
        map.append(true).unwrap();
    }
    let arrays: [(&str, ArrayRef); 4] = [
        ("m", Arc::new(map.finish())),
        ("l", Arc::new(StringArray::from(vec![Some("a"), None, Some("a")]))),
        (
            "d",
            Arc::new(
                Decimal128Array::from(vec![Some(1), None, Some(-5)]).with_precision_and_scale(20, 4).unwrap(),
            ),
        ),
        ("t", Arc::new(TimestampMillisecondArray::from(vec![0, -1, 1_700_000_000_000]).with_timezone("UTC"))),
    ];
    let rows =
        RecordBatch::try_from_iter_with_nullable(arrays.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    let block = encode_rows(&schema, &[rows], Rows::All).unwrap();
    assert_eq!(decode(&block).unwrap().num_rows(), 3);
    let types_of = |rows: &RecordBatch| rows.schema().fields().iter().map(|f| type_of(f)).collect::<Vec<_>>();
    let own = types_of(&decode(&block).unwrap());
    testkit::Fuzz::new("native block").example(&block).words(types).memory_max(256 << 10, 1 << 10).run(
        10_000,
        |bytes| {
            if let Ok(rows) = decode(bytes)
                && types_of(&rows) == own
            {
                // What can be read is what could have been written, so it is written again.
                let _ = encode_rows(&schema, &[rows], Rows::All);
            }
        },
    );
}
