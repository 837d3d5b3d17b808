use testkit::Fuzz;

use super::*;

fn all(bytes: &[u8]) -> Result<Vec<(u32, String)>, Malformed> {
    let (mut fields, mut found) = (Fields(bytes), Vec::new());
    while let Some((field, value)) = fields.next()? {
        found.push((field, format!("{value:?}")));
    }
    Ok(found)
}

#[test]
fn numbers_bytes_and_what_is_skipped_are_read_in_their_order() {
    let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
    let found = all(&bytes).expect("is well formed");
    let shown: Vec<(u32, &str)> = found.iter().map(|(field, value)| (*field, value.as_str())).collect();
    assert_eq!(shown, [(1, "Number(150)"), (2, "Bytes([104, 105])"), (3, "Fixed"), (4, "Fixed")]);
    let largest = [&[0x08][..], &[0xff; 9], &[0x01]].concat();
    assert_eq!(all(&largest).expect("ten groups")[0].1, format!("Number({})", u64::MAX));
    for wrong in [&[0x08][..], &[0x12, 5, 1], &[0x0b], &[0x08, 0x80], &[0x0d, 1], &[0xff; 11]] {
        assert_eq!(all(wrong), Err(Malformed), "{wrong:?}");
    }
}

#[test]
fn fuzz_pulsar_fields() {
    let example = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 2, 3, 4, 0x80, 0x01, 7];
    Fuzz::new("pulsar fields").example(example).run(2_000, |bytes| {
        let _ = all(bytes);
    });
}
