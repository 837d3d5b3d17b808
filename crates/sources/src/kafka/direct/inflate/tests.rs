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
    let mut at = pieces(2, &packed, BYTES_MAX).expect("known").expect("has blocks");
    let mut out = Vec::new();
    assert_eq!(at.signed().expect("a number"), 2);
    at.keep(7, 5, &mut out).expect("across blocks");
    at.skip(1).expect("a byte");
    at.keep(8, 8, &mut out).expect("the rest");
    assert_eq!((out.as_slice(), at.read), (&b"one tand more"[..], 17));
    assert!(matches!(at.skip(1), Err(InflateError::Damaged { .. })), "the end is no place to read on");
    assert!(pieces(2, &snappy_block(b"bare"), BYTES_MAX).expect("known").is_none());
}

/// A batch of `bytes` bytes, packed with a window of `1 << log`.
fn zstd_with_window(bytes: usize, log: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder");
    encoder.window_log(log).expect("a window");
    std::io::Write::write_all(&mut encoder, &vec![7; bytes]).expect("packs");
    encoder.finish().expect("packs")
}

#[test]
fn the_window_of_a_batch_that_is_unpacked_piece_by_piece_is_bounded_by_the_memory() {
    for (bytes_max, log_max) in [(4 << 20, 25), (16 << 20, 27), (1 << 16, 23), (512 << 20, 27), (0, 23)] {
        assert_eq!(window_log_max(bytes_max), log_max);
        let fits = zstd_with_window(100, log_max);
        let mut at = pieces(4, &fits, bytes_max).expect("it fits").expect("it has pieces");
        at.skip(100).expect("its bytes");
    }
    let packed = zstd_with_window(100, 26);
    assert_eq!(window(&packed), Some(64 << 20));
    let error = pieces(4, &packed, 4 << 20).map(drop).expect_err("a window of 64 MiB");
    assert!(
        matches!(error, InflateError::Window { window, window_max } if (window, window_max) == (64 << 20, 32 << 20))
    );
    assert!(error.to_string().contains("set `memory` to `512` MiB"), "{error}");
    // As a whole it takes what it unpacks to, whatever it says.
    assert_eq!(unpacked(4, &packed).expect("unpacks"), vec![7; 100]);
    // A window behind the first frame is held to the same bound, in the decoder's words.
    let second = [zstd_with_window(100, 20), packed].concat();
    let mut at = pieces(4, &second, 4 << 20).expect("the first one fits").expect("it has pieces");
    at.skip(200).expect_err("the second one does not");
}
