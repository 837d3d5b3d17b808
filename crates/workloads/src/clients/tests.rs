use super::*;

const VARIED: Workload = Workload { seed: 1, rows: Rows::Varied };
const IDENTICAL: Workload = Workload { seed: 1, rows: Rows::Identical };

fn text(workload: Workload, column: usize, row: u64) -> String {
    let mut out = String::new();
    workload.text(column, row, &mut out);
    out
}

#[test]
fn every_value_has_its_columns_length_or_range() {
    for row in (0..2_000).chain([u64::from(u32::MAX)]) {
        for (index, column) in COLUMNS.iter().enumerate() {
            let (text, number) = (text(VARIED, index, row), VARIED.number(index, row));
            match column.kind {
                Kind::Text(bytes) => assert_eq!((text.len(), number), (bytes, 0), "{}: {text}", column.name),
                Kind::Int32 => assert!(text.is_empty() && i32::try_from(number).is_ok(), "{}", column.name),
                Kind::Int64 => assert!(text.is_empty() && number >= 0, "{}", column.name),
            }
        }
    }
}

#[test]
fn a_row_is_as_long_as_published() {
    let bytes: usize = COLUMNS
        .iter()
        .map(|column| match column.kind {
            Kind::Text(bytes) => bytes + if bytes < 128 { 1 } else { 2 },
            Kind::Int32 => 4,
            Kind::Int64 => 8,
        })
        .sum();
    assert_eq!((bytes as u64, ROW_BYTES), (917, 917));
}

#[test]
fn a_message_is_ascii_with_its_braces_closed() {
    let message = text(VARIED, 4, 77);
    assert!(
        message.is_ascii() && message.starts_with("{\"flow_id\":") && message.ends_with("\"}"),
        "{message}"
    );
    let count = |c| message.chars().filter(|x| *x == c).count();
    assert_eq!((count('{'), count('"') % 2), (count('}'), 0), "{message}");
}

#[test]
fn rows_differ_where_they_are_to_differ() {
    let differ = |workload: Workload| {
        (0..COLUMNS.len())
            .filter(|column| {
                text(workload, *column, 1) != text(workload, *column, 2)
                    || workload.number(*column, 1) != workload.number(*column, 9_999)
            })
            .count()
    };
    assert_eq!(differ(IDENTICAL), 0);
    assert!(differ(VARIED) >= 15, "{}", differ(VARIED));
}

#[test]
fn what_is_sent_twice_is_expected_twice() {
    let (once, twice) = (VARIED.expected(50, 1), VARIED.expected(50, 2));
    assert_eq!((once.rows, once.ids, twice.rows, twice.ids), (50, 50, 100, 50));
    assert_eq!(once.checksum.wrapping_mul(2), twice.checksum);
    let same = IDENTICAL.expected(50, 2);
    assert_eq!((same.rows, same.ids), (100, 1));
    assert_eq!(same.checksum, IDENTICAL.expected(1, 1).checksum.wrapping_mul(100));
    assert_eq!(VARIED.expected(0, 5), crate::content::Content::default());
}
