//! Values of every type, as the server has them afterwards.

use super::*;

#[tokio::test]
async fn every_type_arrives_as_it_was() {
    let server = server_or_skip!();
    // Type, rows, and what the server shows for them, written by hand.
    let mut list = ListBuilder::new(Int32Builder::new());
    list.values().append_option(Some(-1));
    list.values().append_null();
    list.append(true);
    list.append(true);
    let mut words = ListBuilder::new(StringBuilder::new());
    words.values().append_value("x");
    words.values().append_value("y");
    words.append(true);
    words.append(true);
    let mut map = MapBuilder::new(None, StringBuilder::new(), BinaryBuilder::new());
    map.keys().append_value("b");
    map.values().append_value(b"1");
    map.keys().append_value("a");
    map.values().append_value(b"2");
    map.append(true).unwrap();
    map.append(true).unwrap();
    let mut objects = ListBuilder::new(StringBuilder::new());
    objects.values().append_value(r#"{"x":"it's"}"#);
    objects.values().append_value("{}");
    objects.append(true);
    objects.append(true);
    let decimal = |p, s, v: [i128; 2]| -> ArrayRef {
        Arc::new(Decimal128Array::from(v.to_vec()).with_precision_and_scale(p, s).unwrap())
    };
    let mut ip6 = [[0u8; 16]; 2];
    (ip6[0][0], ip6[0][1], ip6[0][15], ip6[1][15]) = (0x20, 0x01, 0x0f, 1);
    let uuid: [u8; 16] = std::array::from_fn(|i| i as u8 * 0x11);
    let cases: Vec<(&str, ArrayRef, [&str; 2])> = vec![
        ("Int8", Arc::new(Int8Array::from(vec![i8::MIN, 1])), ["-128", "1"]),
        ("Int16", Arc::new(Int16Array::from(vec![i16::MIN, 1])), ["-32768", "1"]),
        ("Int32", Arc::new(Int32Array::from(vec![i32::MIN, 1])), ["-2147483648", "1"]),
        ("Int64", Arc::new(Int64Array::from(vec![i64::MIN, 1])), ["-9223372036854775808", "1"]),
        ("UInt8", Arc::new(UInt8Array::from(vec![u8::MAX, 1])), ["255", "1"]),
        ("UInt16", Arc::new(UInt16Array::from(vec![u16::MAX, 1])), ["65535", "1"]),
        ("UInt32", Arc::new(UInt32Array::from(vec![u32::MAX, 1])), ["4294967295", "1"]),
        (
            "UInt64",
            Arc::new(UInt64Array::from(vec![u64::MAX, 9_007_199_254_740_993])),
            ["18446744073709551615", "9007199254740993"],
        ),
        ("Float32", Arc::new(Float32Array::from(vec![1.5, -0.25])), ["1.5", "-0.25"]),
        ("Float64", Arc::new(Float64Array::from(vec![1e100, -0.5])), ["1e100", "-0.5"]),
        ("Bool", Arc::new(BooleanArray::from(vec![true, false])), ["true", "false"]),
        ("String", Arc::new(StringArray::from(vec!["héé", ""])), ["héé", ""]),
        ("String", Arc::new(BinaryArray::from(vec![b"bytes".as_slice(), b"z"])), ["bytes", "z"]),
        ("FixedString(3)", fixed([*b"abc", *b"xyz"]), ["abc", "xyz"]),
        (
            "UUID",
            fixed([uuid, [0xff; 16]]),
            ["00112233-4455-6677-8899-aabbccddeeff", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
        ),
        ("Date", Arc::new(Date32Array::from(vec![19_782, 65_535])), ["2024-02-29", "2149-06-06"]),
        ("Date32", Arc::new(Date32Array::from(vec![-1, 120_529])), ["1969-12-31", "2299-12-31"]),
        (
            "DateTime('UTC')",
            Arc::new(TimestampSecondArray::from(vec![0, 4_294_967_295])),
            ["1970-01-01 00:00:00", "2106-02-07 06:28:15"],
        ),
        (
            "DateTime('Europe/Berlin')",
            Arc::new(TimestampSecondArray::from(vec![0, 1_719_835_200])),
            ["1970-01-01 01:00:00", "2024-07-01 14:00:00"],
        ),
        (
            "DateTime64(0, 'UTC')",
            Arc::new(TimestampSecondArray::from(vec![-1, 1])),
            ["1969-12-31 23:59:59", "1970-01-01 00:00:01"],
        ),
        (
            "DateTime64(3, 'UTC')",
            Arc::new(TimestampMillisecondArray::from(vec![-1, 1_001])),
            ["1969-12-31 23:59:59.999", "1970-01-01 00:00:01.001"],
        ),
        (
            "DateTime64(5, 'UTC')",
            Arc::new(TimestampMicrosecondArray::from(vec![10, 1_000_010])),
            ["1970-01-01 00:00:00.00001", "1970-01-01 00:00:01.00001"],
        ),
        (
            "DateTime64(9, 'UTC')",
            Arc::new(TimestampNanosecondArray::from(vec![1, 1_000_000_001])),
            ["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:01.000000001"],
        ),
        ("Decimal(9, 2)", decimal(9, 2, [-125, 999_999_999]), ["-1.25", "9999999.99"]),
        ("Decimal(18, 4)", decimal(18, 4, [-1, 999_999_999_999_999_999]), ["-0.0001", "99999999999999.9999"]),
        (
            "Decimal(38, 10)",
            decimal(38, 10, [-1, 99_999_999_999_999_999_999_999_999_999_999_999_999]),
            ["-0.0000000001", "9999999999999999999999999999.9999999999"],
        ),
        ("Enum8('a' = 1, 'it\\'s' = -2)", Arc::new(Int8Array::from(vec![-2, 1])), ["it\\'s", "a"]),
        ("Enum16('x' = -300, 'y' = 300)", Arc::new(Int16Array::from(vec![-300, 300])), ["x", "y"]),
        ("IPv4", Arc::new(UInt32Array::from(vec![0x0102_0304, u32::MAX])), ["1.2.3.4", "255.255.255.255"]),
        ("IPv6", fixed(ip6), ["2001::f", "::1"]),
        ("LowCardinality(String)", Arc::new(StringArray::from(vec!["l", "l"])), ["l", "l"]),
        (
            "LowCardinality(Nullable(String))",
            Arc::new(StringArray::from(vec![None, Some("l")])),
            ["\\N", "l"],
        ),
        ("LowCardinality(FixedString(2))", fixed([*b"ab", *b"cd"]), ["ab", "cd"]),
        ("Nullable(Int32)", Arc::new(Int32Array::from(vec![None, Some(5)])), ["\\N", "5"]),
        (
            "Nullable(UUID)",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size([None, Some([0u8; 16])].into_iter(), 16)
                    .unwrap(),
            ),
            ["\\N", "00000000-0000-0000-0000-000000000000"],
        ),
        (
            "Nullable(DateTime64(3, 'UTC'))",
            Arc::new(TimestampMillisecondArray::from(vec![None, Some(7)])),
            ["\\N", "1970-01-01 00:00:00.007"],
        ),
        ("Array(Nullable(Int32))", Arc::new(list.finish()), ["[-1,NULL]", "[]"]),
        ("Array(LowCardinality(String))", Arc::new(words.finish()), ["['x','y']", "[]"]),
        ("Map(LowCardinality(String), String)", Arc::new(map.finish()), ["{'b':'1','a':'2'}", "{}"]),
        (
            "JSON",
            Arc::new(StringArray::from(vec![r#"{"b.c":[true,1],"a":"2024-02-30"}"#, "{}"])),
            [r#"{"a":"2024-02-30","b":{"c":[true,1]}}"#, "{}"],
        ),
        (
            "JSON(max_dynamic_paths=0, a.b UInt8, SKIP x, SKIP REGEXP '^y')",
            Arc::new(StringArray::from(vec![r#"{"x":1,"yy":2,"z":3}"#, r#"{"a":{"b":255}}"#])),
            [r#"{"a":{"b":0},"z":3}"#, r#"{"a":{"b":255}}"#],
        ),
        (
            "Nullable(JSON)",
            Arc::new(StringArray::from(vec![None, Some(r#"{"n":18446744073709551615}"#)])),
            ["\\N", r#"{"n":18446744073709551615}"#],
        ),
        ("Array(JSON)", Arc::new(objects.finish()), [r#"['{"x":"it\'s"}','{}']"#, "[]"]),
    ];
    let columns: Vec<String> = cases.iter().enumerate().map(|(i, (t, _, _))| format!("c{i} {t}")).collect();
    server
        .query(&format!(
            "CREATE TABLE types (n Int32, {}, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}",
            columns.join(", ")
        ))
        .unwrap();
    let table = open(&server, "types").await;
    let names: Vec<String> = (0..cases.len()).map(|i| format!("c{i}")).collect();
    let mut arrays: Vec<(&str, ArrayRef)> = vec![("n", ints([0, 1]))];
    arrays.extend(names.iter().zip(&cases).map(|(n, (_, a, _))| (n.as_str(), a.clone())));
    let rows = batch(arrays);
    let frame = &frames(&table, std::slice::from_ref(&rows))[0];
    send(&table, "t", &frame.body).await.unwrap();
    for (name, (type_name, _, wanted)) in names.iter().zip(&cases) {
        let shown = server.query(&format!("SELECT {name} FROM types ORDER BY n FORMAT TSV")).unwrap();
        assert_eq!(shown, format!("{}\n{}\n", wanted[0], wanted[1]), "{type_name}");
    }
    assert_eq!(
        server.query("SELECT DISTINCT _forebay FROM types").unwrap(),
        "00000000-0000-0000-0000-000000000001\n"
    );
    let back = table.decode(&frame.body).unwrap();
    let again = table.encode(&[Selected::all(back)], &mut || FrameId(1)).unwrap();
    assert_eq!(again[0].body, frame.body, "a frame read back and encoded again is the same bytes");
}

#[tokio::test]
async fn nulls_become_the_default() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (n Int32, a UInt8 DEFAULT 7, s String DEFAULT concat('n=', toString(n)), \
             l LowCardinality(String) DEFAULT 'low', d Decimal(10, 2) DEFAULT 1.5, e Enum8('x' = 1, 'y' = 2) DEFAULT 'y', \
             m Map(String, String) DEFAULT map(), j JSON(SKIP s) DEFAULT '{{\"d\":1}}', _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"
        ))
        .unwrap();
    let table = open(&server, "t").await;
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map.append(false).unwrap();
    map.keys().append_value("k");
    map.values().append_value("v");
    map.append(true).unwrap();
    let decimal = Decimal128Array::from(vec![None, Some(250)]).with_precision_and_scale(10, 2).unwrap();
    let rows = batch(vec![
        ("n", ints([1, 2])),
        ("a", Arc::new(UInt8Array::from(vec![None, Some(0)]))),
        ("s", Arc::new(StringArray::from(vec![None, Some("")]))),
        ("l", Arc::new(StringArray::from(vec![None, Some("")]))),
        ("d", Arc::new(decimal)),
        ("e", Arc::new(Int8Array::from(vec![None, Some(1)]))),
        ("m", Arc::new(map.finish())),
        ("j", Arc::new(StringArray::from(vec![None, Some("{\"s\":1,\"t\":2}")]))),
    ]);
    send(&table, "t", &frames(&table, &[rows])[0].body).await.unwrap();
    let shown = server.query("SELECT * EXCEPT _forebay FROM t ORDER BY n FORMAT CSV").unwrap();
    assert_eq!(
        shown,
        "1,7,\"n=1\",\"low\",1.5,\"y\",\"{}\",\"{\"\"d\"\":1}\"\n2,0,\"\",\"\",2.5,\"x\",\"{'k':'v'}\",\"{\"\"t\"\":2}\"\n"
    );
}

#[tokio::test]
async fn rows_that_are_sorted_here_are_in_the_servers_order() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (id UUID, n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY id {WINDOW}"
        ))
        .unwrap();
    server
        .query(
            "CREATE TABLE k (s LowCardinality(String), i Nullable(Int32), d Decimal(20, 2), id UUID, e Enum8('z' = -1, 'a' = 1), n Int32, _forebay UUID) \
             ENGINE = MergeTree ORDER BY (s, i, d, e, id) SETTINGS non_replicated_deduplication_window = 100, allow_nullable_key = 1"
        )
        .unwrap();
    let count = 2000i32;
    let mut state = 12345u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    let ids: Vec<[u8; 16]> = (0..count)
        .map(|_| (u128::from(random() % 5) << 64 | u128::from(random() << 40)).to_be_bytes())
        .collect();
    let decimals = Decimal128Array::from_iter_values((0..count).map(|_| i128::from(random() as i64 % 7) - 3));
    let arrays: Vec<(&str, ArrayRef)> = vec![
        (
            "s",
            Arc::new(StringArray::from_iter_values(
                (0..count).map(|_| ["é", "z", "", "Z"][random() as usize % 4]),
            )),
        ),
        (
            "i",
            Arc::new(
                (0..count)
                    .map(|_| (random() % 3 > 0).then(|| random() as i32 % 3 - 1))
                    .collect::<Int32Array>(),
            ),
        ),
        ("d", Arc::new(decimals.with_precision_and_scale(20, 2).unwrap())),
        ("id", Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).unwrap())),
        (
            "e",
            Arc::new(Int8Array::from_iter_values((0..count).map(|_| if random() % 2 == 0 { 1 } else { -1 }))),
        ),
        ("n", ints(0..count)),
    ];
    let rows = batch(arrays);
    for (name, key, columns) in [("t", "id", vec![3, 5]), ("k", "s, i, d, e, id", vec![0, 1, 2, 3, 4, 5])] {
        let config = TableConfig { sort: true, ..TableConfig::new("default", name) };
        let table = open_with(&server, config).await.unwrap_or_else(|f| panic!("{f:?}"));
        assert_eq!(table.notes(), [] as [String; 0]);
        let frame = frames(&table, &[rows.project(&columns).unwrap()]).remove(0);
        send(&table, "a", &frame.body).await.unwrap();
        let ours = table.decode(&frame.body).unwrap();
        let ours = ours
            .column(ours.num_columns() - 1)
            .as_any()
            .downcast_ref::<Int32Array>()
            .unwrap()
            .values()
            .to_vec();
        let theirs = server.query(&format!("SELECT n FROM {name} ORDER BY {key}, n")).unwrap();
        let theirs: Vec<i32> = theirs.lines().map(|l| l.parse().unwrap()).collect();
        assert_eq!(
            ours, theirs,
            "{name}: the key is unique but for its ties, which stand in their own order"
        );
    }
}

/// Run with `--ignored --nocapture`: what a sorted frame saves the server.
#[tokio::test]
#[ignore = "a measurement, not a rule"]
async fn cost_of_unsorted_frames_to_the_server() {
    let server = server_or_skip!();
    let mut state = 1u128;
    let mut random = || {
        state = state
            .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
            .wrapping_add(0x5851_f42d_4c95_7f2d_1405_7b7e_f767_814f);
        (state ^ (state >> 67)).to_be_bytes()
    };
    let ids: Vec<[u8; 16]> = (0..500_000).map(|_| random()).collect();
    let users: Vec<[u8; 16]> = (0..500_000).map(|_| random()).collect();
    let rows = batch(vec![
        ("event_id", Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).unwrap()) as ArrayRef),
        ("user_id", Arc::new(FixedSizeBinaryArray::try_from_iter(users.iter()).unwrap())),
        (
            "created_at",
            Arc::new(TimestampSecondArray::from_iter_values((0..500_000).map(|i| 1_700_000_000 + i))),
        ),
        (
            "user_name",
            Arc::new(StringArray::from_iter_values(
                ids.iter().map(|i| format!("user {:08}", u32::from(i[0]) * 77_777)),
            )),
        ),
        (
            "user_email",
            Arc::new(StringArray::from_iter_values(
                ids.iter().map(|i| format!("mail{:06}@example.com", u32::from(i[1]) * 3_901)),
            )),
        ),
    ]);
    server.query(&format!("CREATE TABLE t (event_id UUID, user_id UUID, created_at DateTime, user_name String, user_email String, _forebay UUID) ENGINE = MergeTree ORDER BY event_id {WINDOW}")).unwrap();
    server.query("SYSTEM STOP MERGES").unwrap();
    for round in 0..3 {
        for sort in [false, true] {
            let table = open_with(&server, TableConfig { sort, ..TableConfig::new("default", "t") })
                .await
                .unwrap_or_else(|f| panic!("{f:?}"));
            let frame = frames(&table, std::slice::from_ref(&rows)).remove(0);
            let before = server.usage().unwrap();
            for n in 0..4 {
                send(&table, &format!("{round} {sort} {n}"), &frame.body).await.unwrap();
            }
            let after = server.usage().unwrap();
            println!("sort={sort}: before {before:?} after {after:?}, 2 million rows");
        }
    }
}
