use super::*;

#[test]
fn what_lies_about_its_length_is_refused_before_memory_is_taken() {
    let mut out = Vec::new();
    let body = b"a body that is packed, a body that is packed";
    let packed = lz4_flex::block::compress(body);
    assert_eq!(inflate(1, body.len(), &packed, &mut out, 1 << 10).expect("unpacks"), body);
    for bytes in [body.len() - 1, body.len() + 1] {
        assert!(inflate(1, bytes, &packed, &mut out, 1 << 10).is_err(), "{bytes}");
    }
    let why = inflate(1, 2_000, &packed, &mut out, 1 << 10).expect_err("is too large").to_string();
    assert!(why.contains("`2000`") && why.contains("record_bytes_max"), "{why}");
    assert!(matches!(inflate(4, 1 << 30, &packed, &mut out, usize::MAX), Err(InflateError::Damaged { .. })));
    assert!(matches!(inflate(9, 1, &packed, &mut out, 1 << 10), Err(InflateError::Unknown(9))));
    assert_eq!(inflate(0, 99, body, &mut out, 1).expect("is not packed"), body);
}
