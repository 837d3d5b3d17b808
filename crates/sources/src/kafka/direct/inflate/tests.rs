use super::*;

const BYTES_MAX: usize = 1 << 16;

fn unpacked(codec: i16, body: &[u8]) -> Result<Vec<u8>, InflateError> {
    let mut out = vec![1, 2, 3];
    inflate(codec, body, &mut out, BYTES_MAX).map(<[u8]>::to_vec)
}

fn snappy_block(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).expect("packs")
}

#[test]
fn snappy_comes_bare_or_in_blocks() {
    assert_eq!(unpacked(2, &snappy_block(b"bare")).expect("unpacks"), b"bare");
    let mut blocks = [XERIAL, &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
    for part in [&b"one "[..], b"two"] {
        let packed = snappy_block(part);
        blocks.extend_from_slice(&(packed.len() as u32).to_be_bytes());
        blocks.extend(packed);
    }
    assert_eq!(unpacked(2, &blocks).expect("unpacks"), b"one two");
    assert!(unpacked(2, &blocks[..blocks.len() - 1]).is_err(), "the last block is cut off");
}

#[test]
fn a_claimed_length_is_not_allocated() {
    // The length of a block of Snappy stands in front: this one claims 60,000 bytes and has one.
    assert!(matches!(unpacked(2, &[0xe0, 0xd4, 0x03, 0]), Err(InflateError::Damaged { .. })));
    assert!(matches!(unpacked(2, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0]), Err(InflateError::TooLarge { .. })));
}

#[test]
fn noise_is_named_by_its_codec() {
    for (codec, name) in [(1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")] {
        let error = unpacked(codec, &[0x42; 40]).expect_err("noise").to_string();
        assert!(error.contains(name), "{error}");
    }
    assert!(matches!(unpacked(5, b"x"), Err(InflateError::Unknown(5))));
}
