use super::*;

fn all(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Refusal> {
    let mut fields = Fields::of("Test", bytes);
    let mut found = Vec::new();
    while let Some(field) = fields.next()? {
        found.push(field);
    }
    Ok(found)
}

#[test]
fn fields_are_read_in_their_order() {
    let bytes = [8, 0x96, 1, 0x12, 2, b'h', b'i', 0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x25, 7, 0, 0, 0];
    let expected =
        [(1, Value::Varint(150)), (2, Value::Bytes(b"hi")), (3, Value::Fixed64(1)), (4, Value::Fixed32(7))];
    assert_eq!(all(&bytes).unwrap(), expected);
    assert_eq!(all(&[]).unwrap(), []);
    assert_eq!([0, 1, 2, 3, u64::MAX].map(zigzag), [0, -1, 1, -2, i64::MIN]);
}

#[test]
fn what_is_no_field_is_refused() {
    let cases: [&[u8]; 8] = [
        &[8],                                                             // no value
        &[0, 1],                                                          // field 0
        &[0x12, 3, b'h'],                                                 // shorter than it says
        &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], // longer than memory
        &[0x19, 0],                                                       // eight bytes
        &[0x0b, 0x0c],                                                    // a group
        &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],    // more than 64 bits
        &[0x80, 0x80, 0x80, 0x80, 0x80, 1, 0],                            // a number beyond all fields
    ];
    for bytes in cases {
        let refused = all(bytes).unwrap_err();
        assert!(refused.kind == Kind::Malformed && refused.message.contains("`Test`"), "{refused:?}");
    }
}
