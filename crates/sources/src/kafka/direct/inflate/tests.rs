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

#[test]
fn blocks_of_snappy_are_unpacked_one_after_the_other() {
    let mut packed = [XERIAL, &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
    for part in [&b"\x04one"[..], b"", b" two and more"] {
        let block = snappy_block(part);
        packed.extend_from_slice(&(block.len() as u32).to_be_bytes());
        packed.extend(block);
    }
    let mut at = pieces(2, &packed).expect("known").expect("has blocks");
    let mut out = Vec::new();
    assert_eq!(at.signed().expect("a number"), 2);
    at.keep(7, 5, &mut out).expect("across blocks");
    at.skip(1).expect("a byte");
    at.keep(8, 8, &mut out).expect("the rest");
    assert_eq!((out.as_slice(), at.read), (&b"one tand more"[..], 17));
    assert!(matches!(at.skip(1), Err(InflateError::Damaged { .. })), "the end is no place to read on");
    assert!(pieces(2, &snappy_block(b"bare")).expect("known").is_none());
}
