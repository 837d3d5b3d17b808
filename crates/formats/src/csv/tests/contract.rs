//! What holds for whole records and blocks, and what is refused when a decoder is made.
//!
//! Owns the cases. Does not own changed bytes (`fuzz`), nor records of another writer (`random`).

use arrow_array::Array;
use dataflow::{BlockBuilder, Decoder, Partition, Reason, Schema};

use super::{ConfigError, CsvDecoder, CsvOptions, decode, decoder, one, options};
use crate::columns::ColumnsError;
use crate::testing::{block, row, schema};

#[test]
fn fields_fill_columns_by_name_and_others_are_stepped_over() {
    let columns = ["a String", "c Nullable(Int8) <- none", "b Int32", "again Int64 <- b"];
    let decoder = decoder(&["skipped", "b", "also", "a", "last"], &columns).unwrap();
    assert_eq!(one(&decoder, b"\"x,y\"\"\",7,,text,\"z\"").unwrap(), [r#""text""#, "NULL", "7", "7"]);
    // What is stepped over need not even be text.
    assert_eq!(one(&decoder, b"\xff,7,\xfe,\"te\"\"xt\",").unwrap(), [r#""te\"xt""#, "NULL", "7", "7"]);
}

#[test]
fn every_type_takes_its_text_form() {
    for (column, field, expected) in [
        ("Int8", "-128", "-128"),
        ("UInt64", "18446744073709551615", "18446744073709551615"),
        ("Float64", "1.5e-3", "0.0015"),
        ("Decimal(12, 2)", "12.3", "1230"),
        ("Bool", "true", "true"),
        ("Bool", "0", "false"),
        ("LowCardinality(String)", " a ", r#"" a ""#),
        ("FixedString(3)", "ab", "616200"),
        ("UUID", "123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"),
        ("IPv4", "10.0.0.1", "167772161"),
        ("IPv6", "::1", "00000000000000000000000000000001"),
        ("Date", "2026-11-23", "20780"),
        ("DateTime", "2026-11-23 12:00:00", "1795435200"),
        ("DateTime64(3)", "2026-11-23T12:00:00.5+01:00", "1795431600500"),
        ("DateTime64(3)", "1714558830.25", "1714558830250"),
        ("Enum8('a' = 1, 'b' = 2)", "b", "2"),
    ] {
        let decoder = decoder(&["v"], &[&format!("v {column}")]).unwrap();
        assert_eq!(one(&decoder, field.as_bytes()).as_deref(), Ok(&[expected.to_owned()][..]), "{column}");
        let quoted = format!("\"{field}\"\r\n");
        assert_eq!(one(&decoder, quoted.as_bytes()).as_deref(), Ok(&[expected.to_owned()][..]), "{column}");
    }
}

#[test]
fn an_unquoted_field_that_is_empty_or_the_word_for_null_has_no_value() {
    let columns = ["n Nullable(Int32) <- f", "t Nullable(String) <- f", "d String DEFAULT <- f"];
    let optional = decoder(&["f", "g"], &columns).unwrap();
    assert_eq!(one(&optional, b",x").unwrap(), ["NULL", "NULL", "NULL"]);
    assert_eq!(one(&optional, b"\\N,x").unwrap(), ["NULL", "NULL", "NULL"]);
    let text = decoder(&["f", "g"], &["t Nullable(String) <- f", "d String DEFAULT <- f"]).unwrap();
    assert_eq!(one(&text, b"\"\",x").unwrap(), [r#""""#, r#""""#]);
    assert_eq!(one(&text, b"\"\\N\",x").unwrap(), [r#""\\N""#, r#""\\N""#]);
    // A String takes the empty text, and other types refuse to guess.
    let required = decoder(&["f", "g"], &["t LowCardinality(String) <- f"]).unwrap();
    assert_eq!(one(&required, b",x").unwrap(), [r#""""#]);
    let expected =
        "missing: field `f`: value `\\N` is refused, because its column has neither NULL nor a DEFAULT";
    assert_eq!(one(&required, b"\\N,x").unwrap_err(), expected);
    let number = decoder(&["f", "g"], &["v Int32 <- f"]).unwrap();
    let expected =
        "missing: field `f`: value `` is refused, because its column has neither NULL nor a DEFAULT";
    assert_eq!(one(&number, b",x").unwrap_err(), expected);
    // A DEFAULT that is no null.
    let mut columns = schema(&["v String DEFAULT"]).columns().to_vec();
    columns[0].default_json = Some("\"none\"".into());
    let with_default = CsvDecoder::new(Schema::new(columns), options(&["v"])).unwrap();
    assert_eq!(one(&with_default, b"").unwrap(), [r#""none""#]);
    // Another word.
    let options = CsvOptions { null: "NULL".into(), ..options(&["f"]) };
    let word = CsvDecoder::new(schema(&["f Nullable(String)"]), options).unwrap();
    assert_eq!(one(&word, b"NULL").unwrap(), ["NULL"]);
    assert_eq!(one(&word, b"\\N").unwrap(), [r#""\\N""#]);
}

#[test]
fn tabs_and_other_quotes() {
    let columns = ["a String", "b Int8"];
    let of = |delimiter, quote| {
        CsvDecoder::new(schema(&columns), CsvOptions { delimiter, quote, ..options(&["a", "b"]) })
    };
    assert_eq!(one(&of(b'\t', None).unwrap(), b"\"a, b\"\t1").unwrap(), [r#""\"a, b\"""#, "1"]);
    assert_eq!(one(&of(b';', Some(b'\'')).unwrap(), b"'it''s;';1").unwrap(), [r#""it's;""#, "1"]);
    for (delimiter, quote) in [(b'"', Some(b'"')), (b'\n', None), (b',', Some(b'\r')), (0xe9, None)] {
        assert_eq!(of(delimiter, quote).unwrap_err(), ConfigError::Dialect);
    }
}

#[test]
fn a_record_that_is_no_record_is_a_reject_that_names_byte_and_field() {
    let decoder = decoder(&["a", "skip", "b"], &["a String", "b UInt16"]).unwrap();
    for (record, expected) in [
        ("", "malformed: byte `0`: the record ends after field `1` of `3`"),
        ("x,y", "malformed: byte `3`: the record ends after field `2` of `3`"),
        ("x,y,1,", "malformed: byte `6`: the record has more than `3` fields, and there are no more names"),
        ("x,y,70000", "out_of_range: field `b`: value `70000` does not fit UInt16 (0 to 65535)"),
        ("x,\"y,1", "malformed: byte `2`: the quote that opens here is not closed within the record"),
        (
            "x,y,\"1",
            "malformed: byte `4`, field `b`: the quote that opens here is not closed within the record",
        ),
        (
            "\"x\"z,y,1",
            "malformed: byte `3`, field `a`: the field continues behind its closing quote; a quote within quotes is doubled",
        ),
        ("x\n,y,1", "malformed: byte `1`, field `a`: a line ends here, and a record is one line"),
    ] {
        let decoded = decode(&decoder, &["a,b,1", record, "a,b,1"]);
        let [reject] = &decoded.rejects[..] else { panic!("{record}: {:?}", decoded.rejects) };
        assert_eq!(format!("{}: {}", reject.reason.as_str(), reject.message), expected);
        assert_eq!(decoded.batch.positions, [100, 102]);
        assert_eq!(row(&decoded, 0), row(&decoded, 1));
    }
    let expected = "malformed: byte `2`, field `a`: byte `0xff` is not UTF-8";
    assert_eq!(one(&decoder, b"\"a\xff\"\"\",y,1").unwrap_err(), expected);
    // Within quotes lines may end.
    assert_eq!(one(&decoder, b"\"a\nb\",\"\r\n\",1\n").unwrap(), [r#""a\nb""#, "1"]);
}

#[test]
fn records_without_a_body_and_too_long_ones_are_rejects() {
    let options = CsvOptions { record_bytes_max: 8, ..options(&["v"]) };
    let decoder = CsvDecoder::new(schema(&["v String"]), options).unwrap();
    let mut block = BlockBuilder::new(Partition::new("events", 0), 0);
    block.push(0, 0, None);
    block.push(1, 0, Some(b"123456789"));
    block.push(2, 0, Some(b"12345678"));
    let decoded = decoder.decode(&block.take());
    let reasons: Vec<_> = decoded.rejects.iter().map(|reject| reject.reason).collect();
    assert_eq!(reasons, [Reason::NoBody, Reason::TooLarge]);
    assert_eq!(decoded.batch.positions, [2]);
}

#[test]
fn columns_that_can_never_be_filled_are_refused() {
    let refusal = |fields: &[&str], column: &str| decoder(fields, &[column]).unwrap_err().to_string();
    assert_eq!(
        refusal(&["v"], "v Array(String)"),
        "column `v`: every field of CSV is text, and Array(String) does not take text"
    );
    assert_eq!(
        refusal(&["v"], "w Int8"),
        "`columns` does not name `w`, and column `w`, which takes it, has neither NULL nor a DEFAULT"
    );
    assert_eq!(refusal(&["v", "v"], "v Int8"), "`columns` names `v` twice, and column `v` takes it");
    assert!(decoder(&["v", "v", "w"], &["w Int8"]).is_ok(), "nobody asks for it");
    let none = CsvDecoder::new(Schema::new(Vec::new()), options(&["v"])).unwrap_err();
    assert_eq!(none, ConfigError::from(ColumnsError::NoColumns));
    let zone = CsvOptions { assume_timezone: "Mars/Phobos".into(), ..options(&["v"]) };
    let found = CsvDecoder::new(schema(&["v Int8"]), zone).unwrap_err();
    assert_eq!(found, ConfigError::from(ColumnsError::Zone { zone: "Mars/Phobos".into() }));
}

#[test]
fn the_head_of_a_block_names_its_fields() {
    let decoder = CsvDecoder::new(schema(&["id Int8", "name String"]), CsvOptions::default()).unwrap();
    let decode = |head: Option<&str>| {
        let mut block = block(&["1,a", "2,b"]);
        block.head = head.map(|head| head.as_bytes().into());
        decoder.decode(&block)
    };
    assert_eq!(row(&decode(Some("id,name")), 1), ["2", r#""b""#]);
    // Each file has an order of its own.
    let swapped = decode(Some("name,\"id\""));
    assert_eq!(swapped.rejects.len(), 2);
    assert_eq!(swapped.rejects[0].message, "field `id`: value `a` cannot be read as Int8");
    for (head, column, expected) in [
        (None, "", "the record comes without the header that names its fields"),
        (
            Some("id,nam"),
            "name",
            "field `name` is not in the header, and its column has neither NULL nor a DEFAULT",
        ),
        (Some("id,name,id"), "id", "field `id` is twice in the header"),
        (
            Some("id,\"name"),
            "",
            "the header: byte `3`: the quote that opens here is not closed within the record",
        ),
    ] {
        let decoded = decode(head);
        assert_eq!((decoded.rejects.len(), decoded.batch.rows.num_rows()), (2, 0));
        let reject = &decoded.rejects[1];
        assert_eq!((reject.reason, &*reject.column, &*reject.message), (Reason::Schema, column, expected));
    }
    // A dead letter keeps the head, without which it could not be replayed.
    let reject = &decode(Some("id,nam")).rejects[0];
    let headers: Vec<_> = dataflow::block::headers(&reject.headers).collect();
    assert_eq!(headers, [(dataflow::block::HEAD_HEADER, Some(&b"id,nam"[..]))]);
}

#[test]
fn a_long_block_keeps_its_rows_apart() {
    let decoder = decoder(&["n", "t"], &["n UInt32", "t String"]).unwrap();
    let records: Vec<_> = (0..5_000).map(|n| format!("{n},\"t{n}\"")).collect();
    let decoded = decode(&decoder, &records);
    assert_eq!((decoded.rejects.len(), decoded.batch.rows.num_rows()), (0, 5_000));
    assert_eq!(decoded.batch.rows.column(0).null_count(), 0);
    assert_eq!(row(&decoded, 4_321), ["4321", r#""t4321""#]);
}
