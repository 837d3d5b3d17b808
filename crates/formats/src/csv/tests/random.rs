//! Random records as another program writes them (`csv-core`), and read by it too.

use csv_core::{ReadRecordResult, ReaderBuilder, Terminator, WriteResult, Writer, WriterBuilder};
use proptest::prelude::*;

use super::{CsvOptions, one, options};
use crate::csv::CsvDecoder;
use crate::testing::schema;

/// A record of these fields.
fn written(mut writer: Writer, fields: &[String]) -> Vec<u8> {
    let mut out = vec![0; 16 + fields.iter().map(|field| 2 * field.len() + 3).sum::<usize>()];
    let mut at = 0;
    let put = |(result, written): (WriteResult, usize)| {
        assert_eq!(result, WriteResult::InputEmpty);
        written
    };
    for (n, field) in fields.iter().enumerate() {
        if n > 0 {
            at += put(writer.delimiter(&mut out[at..]));
        }
        let (result, _, written) = writer.field(field.as_bytes(), &mut out[at..]);
        at += put((result, written));
    }
    at += put(writer.terminator(&mut out[at..]));
    out.truncate(at);
    out
}

/// The fields of a record as the other program reads them.
fn read(record: &[u8], delimiter: u8) -> Vec<Vec<u8>> {
    let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
    let (mut out, mut ends) = (vec![0; record.len() + 1], vec![0; record.len() + 1]);
    let (mut ended, mut at, mut bytes) = (0, 0, record);
    loop {
        let (result, used, written, fields) = reader.read_record(bytes, &mut out[at..], &mut ends[ended..]);
        (bytes, at, ended) = (&bytes[used..], at + written, ended + fields);
        match result {
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::Record | ReadRecordResult::End => break,
            full => panic!("{full:?}"),
        }
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends[..ended]).map(|(from, to)| out[from..*to].to_vec()).collect()
}

fn decoder(fields: usize, delimiter: u8) -> CsvDecoder {
    let names: Vec<_> = (0..fields).map(|n| format!("f{n}")).collect();
    let columns: Vec<_> = names.iter().map(|name| format!("{name} String")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    let options = CsvOptions { delimiter, null: "none".into(), ..options(&names) };
    CsvDecoder::new(schema(&columns), options).unwrap()
}

fn field() -> impl Strategy<Value = String> {
    let tricky =
        prop::sample::select(vec!["\"", "\"\"", ",", "\t", "\n", "\r\n", "\r", "a", "é", " ", "\\N"]);
    prop_oneof![prop::collection::vec(tricky, 0..6).prop_map(|parts| parts.concat()), "\\PC{0,8}"]
}

proptest! {
    #[test]
    fn what_another_program_writes_is_read(
        fields in prop::collection::vec(field(), 1..6),
        delimiter in prop::sample::select(vec![b',', b'\t', b'|']),
        is_crlf: bool,
    ) {
        let terminator = if is_crlf { Terminator::CRLF } else { Terminator::Any(b'\n') };
        let writer = WriterBuilder::new().delimiter(delimiter).terminator(terminator).build();
        let record = written(writer, &fields);
        let expected: Vec<_> = fields.iter().map(|field| format!("{field:?}")).collect();
        prop_assert_eq!(one(&decoder(fields.len(), delimiter), &record), Ok(expected), "{:?}", record);
    }

    /// Where we read a record at all, we read what the other program does.
    #[test]
    fn what_is_taken_is_what_another_program_reads(
        parts in prop::collection::vec(prop::sample::select(vec!["\"", "\"\"", ",", ",\"", "\",", "a", "é", "\r"]), 0..12),
    ) {
        let record = format!("x{}", parts.concat());
        let fields = read(record.as_bytes(), b',');
        if let Ok(values) = one(&decoder(fields.len(), b','), record.as_bytes()) {
            let expected: Vec<_> = fields.iter().map(|field| format!("{:?}", std::str::from_utf8(field).unwrap())).collect();
            prop_assert!(values == expected || record.contains('\r'), "{:?}: {:?}, {:?}", record, values, expected);
        }
    }
}
