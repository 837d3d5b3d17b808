use proptest::prelude::*;

use super::*;

fn pack(method: Method, raw: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(method);
    compressor.push(raw);
    compressor.finish()
}

/// A chunk written by ClickHouse 26.7 (the file of a `UInt8` column with 0 to 29), so that the checksum's version and the
/// order of its halves do not rest on our own reading.
#[test]
fn a_chunk_of_the_server_is_read() {
    let chunk = b"\xc4\x48\xef\x16\xfa\xed\xb5\x2c\x69\xbc\xc4\xdf\x80\xa3\x73\x36\x82\x29\0\0\0\x1e\0\0\0\xf0\x0f\
        \x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d";
    assert_eq!(decompress(chunk).unwrap(), (0..30).collect::<Vec<u8>>());
}

#[test]
fn full_chunks_are_taken_and_the_rest_stays() {
    let mut raw = vec![7u8; CHUNK_BYTES_MAX * 2 + 5];
    let mut compressor = Compressor::new(Method::Lz4);
    compressor.take_full(&mut raw);
    assert_eq!(raw.len(), 5);
    assert_eq!(compressor.bytes_in(), CHUNK_BYTES_MAX * 2);
    compressor.push(&raw);
    assert_eq!(decompress(&compressor.finish()).unwrap(), vec![7u8; CHUNK_BYTES_MAX * 2 + 5]);
}

#[test]
fn without_compression_chunks_are_made_in_place_and_none_is_long() {
    let pieces = [5, CHUNK_BYTES_MAX, 0, 3, 20 * CHUNK_BYTES_MAX, 7, CHUNK_BYTES_MAX - 7];
    let whole: Vec<u8> = (0..pieces.iter().sum::<usize>()).map(|n| (n % 251) as u8).collect();
    let mut compressor = Compressor::into_memory(Method::None, b"in front".to_vec());
    let (mut raw, mut at) = (Vec::new(), 0);
    for piece in pieces {
        raw.extend_from_slice(&whole[at..at + piece]);
        at += piece;
        compressor.take_full(&mut raw);
    }
    assert!(compressor.bytes_in() > 20 * CHUNK_BYTES_MAX);
    let memory = compressor.finish_with(raw);
    let (front, packed) = memory.split_at(8);
    assert_eq!(front, b"in front");
    assert!(decompress(packed).unwrap() == whole);
    let mut rest = packed;
    while !rest.is_empty() {
        let bytes = u32::from_le_bytes(rest[21..25].try_into().unwrap()) as usize;
        assert!((1..=IN_PLACE_BYTES_MAX).contains(&bytes), "{bytes}");
        rest = &rest[HEADER_BYTES + bytes..];
    }
}

#[test]
fn chunks_stand_behind_what_the_memory_held() {
    for method in [Method::Lz4, Method::None] {
        for bytes in [0, 5, CHUNK_BYTES_MAX, 3 * CHUNK_BYTES_MAX + 5] {
            let whole = vec![9; bytes];
            let mut compressor = Compressor::into_memory(method, b"front".to_vec());
            let mut raw = whole.clone();
            compressor.take_full(&mut raw);
            let memory = compressor.finish_with(raw);
            assert_eq!(&memory[..5], b"front");
            assert!(decompress(&memory[5..]).unwrap() == whole, "{method:?}, {bytes}");
        }
    }
}

#[test]
fn what_was_never_full_is_one_chunk_by_either_method() {
    for method in [Method::Lz4, Method::None] {
        for bytes in [0, 1, 100] {
            let mut compressor = Compressor::new(method);
            let mut raw = vec![9; bytes];
            compressor.take_full(&mut raw);
            assert_eq!(decompress(&compressor.finish_with(raw)).unwrap(), vec![9; bytes]);
            assert_eq!(
                decompress(&Compressor::new(method).finish_with(vec![9; bytes])).unwrap(),
                vec![9; bytes]
            );
        }
    }
}

#[test]
fn damage_is_found_and_never_allocates_blindly() {
    let packed = pack(Method::Lz4, b"some bytes that repeat repeat repeat repeat");
    for at in 0..packed.len() {
        let mut bad = packed.clone();
        bad[at] ^= 0x40;
        assert!(decompress(&bad).is_err(), "byte {at}");
        assert!(at == 0 || decompress(&packed[..at]).is_err(), "cut at {at}");
    }
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(raw in proptest::collection::vec(any::<u8>(), 0..5000), copies in 1usize..600) {
        let raw: Vec<u8> = raw.repeat(copies);
        for method in [Method::Lz4, Method::None] {
            prop_assert_eq!(&decompress(&pack(method, &raw)).unwrap(), &raw);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decompress(&bytes);
    }
}

/// Puts the right checksums under changed chunks.
fn summed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(size) = bytes.get(at + 17..at + 21) {
        let size = u32::from_le_bytes(size.try_into().unwrap()) as usize;
        let Some(body) = bytes.get(at + CHECKSUM_BYTES..at + CHECKSUM_BYTES + size) else { break };
        let sum = checksum_of(body);
        bytes[at..at + CHECKSUM_BYTES].copy_from_slice(&sum);
        at += CHECKSUM_BYTES + size;
    }
    bytes
}

#[test]
fn fuzz_chunks() {
    let examples = [
        pack(Method::Lz4, b"some bytes that repeat repeat repeat repeat"),
        pack(Method::Lz4, &[0; 4_000]),
        pack(Method::None, b"as they are"),
        [pack(Method::Lz4, b"one"), pack(Method::None, b"two")].concat(),
    ];
    testkit::Fuzz::new("chunks").examples(examples).memory_max(16 << 10, 3 * LZ4_RATIO_MAX).run(
        20_000,
        |bytes| {
            let _ = decompress(bytes);
            let _ = decompress(&summed(bytes));
        },
    );
}

#[test]
fn a_chunk_that_claims_more_than_its_bytes_can_hold_takes_no_memory() {
    let mut packed = pack(Method::Lz4, &[7; 1_000]);
    packed[21..25].copy_from_slice(&(DECOMPRESS_BYTES_MAX as u32).to_le_bytes());
    let (error, took) = testkit::peak_bytes(|| decompress(&summed(&packed)).expect_err("it lies"));
    assert!(error.reason.contains("cannot unpack to"), "{error}");
    assert!(took < 4 << 10, "{took} bytes");
}
