//! Records that nobody would write: whatever comes, it is a row or a reject, and its neighbours are untouched.

use dataflow::Decoder;
use testkit::Fuzz;

use super::{CsvOptions, decode, decoder, options};
use crate::csv::CsvDecoder;
use crate::testing::{block, row, schema};

const FIELDS: [&str; 9] = ["id", "text", "skipped", "price", "at", "flag", "uuid", "kind", "ip"];

const COLUMNS: [&str; 10] = [
    "id Int16",
    "text LowCardinality(Nullable(String))",
    "price Nullable(Decimal(20, 4))",
    "at DateTime64(3)",
    "flag Nullable(Bool)",
    "uuid UUID",
    "kind Enum8('a' = 1, 'b' = 2)",
    "ip IPv6",
    "pad FixedString(4) <- text",
    "ticks Nullable(UInt64) <- at",
];

const GOOD: &str =
    r#"-300,"a""é",x,12.3456,2026-11-20T12:00:00.123Z,true,123e4567-e89b-12d3-a456-426614174000,b,::1"#;

#[test]
fn fuzz_csv_record() {
    let good = GOOD.replace("2026-11-20T12:00:00.123Z", "1795176000");
    let tabbed = good.replace(',', "\t");
    let tab = CsvOptions { delimiter: b'\t', quote: Some(b'\''), null: "x".into(), ..options(&FIELDS) };
    let decoders = [
        (decoder(&FIELDS, &COLUMNS).unwrap(), good.clone()),
        (CsvDecoder::new(schema(&COLUMNS[..8]), tab).unwrap(), tabbed.replace("\"a\"\"é\"", "'a''é'")),
    ];
    let words =
        ["\"", "\"\"", "'", ",", "\t", "\n", "\r\n", "\\N", "", "1e400", "-", "\u{feff}", "\u{0}", "é"];
    Fuzz::new("csv record").examples([&good, &tabbed]).words(words).run(6_000, |record| {
        for (decoder, good) in &decoders {
            let alone = decode(decoder, &[good]);
            assert_eq!(alone.rejects, []);
            let alone = row(&alone, 0);
            let decoded = decode(decoder, &[good.as_bytes(), record, good.as_bytes()]);
            assert_eq!(decoded.batch.rows.num_rows() + decoded.rejects.len(), 3);
            let last = decoded.batch.rows.num_rows() - 1;
            assert_eq!((decoded.batch.positions[0], decoded.batch.positions[last]), (100, 102));
            assert!(row(&decoded, 0) == alone && row(&decoded, last) == alone, "a neighbour changed");
            // What became of it does not hang on its neighbours either.
            let single = decode(decoder, &[record]);
            assert_eq!(single.rejects.len(), decoded.rejects.len());
            match single.rejects.first() {
                Some(reject) => {
                    assert_eq!(reject.message, decoded.rejects[0].message);
                    let length = reject.message.len();
                    assert!(length > 0 && length < 2_000, "{length}");
                }
                None => assert_eq!(row(&single, 0), row(&decoded, 1)),
            }
        }
    });
}

#[test]
fn fuzz_csv_header() {
    let decoder = CsvDecoder::new(schema(&["a Int8", "b Nullable(String)"]), CsvOptions::default()).unwrap();
    let words = ["a", "b", ",", "\"", "\"\"", "\n", "\u{feff}"];
    Fuzz::new("csv header").example("a,\"b\",c").words(words).run(3_000, |head| {
        let mut block = block(&["1,x,y", "2,x", "3"]);
        block.head = Some(head.into());
        let decoded = decoder.decode(&block);
        assert_eq!(decoded.batch.rows.num_rows() + decoded.rejects.len(), 3);
    });
}
