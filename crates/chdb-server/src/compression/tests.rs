use proptest::prelude::*;

use super::*;

/// Room for a fixed number of bytes.
struct Left(usize);

impl Room for Left {
    fn take(&mut self, bytes: usize) -> Result<(), Failure> {
        self.0 = self.0.checked_sub(bytes).ok_or_else(|| too_large(0))?;
        Ok(())
    }
}

/// A block whose hash ClickHouse computed: column files have the same framing as bodies, and this is the
/// data file of a UInt8 column with the values 1, 2, 3 and CODEC(NONE).
const GOLDEN: &str = include_str!("golden.txt");

fn golden() -> Vec<u8> {
    let digits: Vec<u8> = GOLDEN.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn a_block_that_clickhouse_wrote_is_read_and_written_alike() {
    let block = golden();
    let plain = decode_blocks(&block, &mut Left(100)).unwrap();
    assert_eq!(plain, [1, 2, 3]);
    assert_eq!(encode_blocks(&plain, Method::None).unwrap(), block);
}

#[test]
fn a_changed_byte_is_a_checksum_error_with_clickhouses_code() {
    let mut block = golden();
    *block.last_mut().unwrap() ^= 1;
    let failure = decode_blocks(&block, &mut Left(100)).unwrap_err();
    assert_eq!((failure.code, failure.status.as_u16()), (40, 400));
    assert!(failure.text.starts_with("Code: 40."), "{}", failure.text);
}

#[test]
fn a_size_is_checked_before_it_is_allocated() {
    let mut block = encode_blocks(b"abc", Method::Lz4).unwrap();
    block[HASH_BYTES + 5..HASH_BYTES + 9].copy_from_slice(&u32::MAX.to_le_bytes());
    let hash = checksum(&block[HASH_BYTES..]);
    block[..HASH_BYTES].copy_from_slice(&hash);
    let failure = decode_blocks(&block, &mut Left(usize::MAX)).unwrap_err();
    assert!(failure.text.contains("above 1 GiB"), "{}", failure.text);
    block[HASH_BYTES + 5..HASH_BYTES + 9].copy_from_slice(&(1u32 << 29).to_le_bytes());
    let hash = checksum(&block[HASH_BYTES..]);
    block[..HASH_BYTES].copy_from_slice(&hash);
    assert_eq!(decode_blocks(&block, &mut Left(1 << 20)).unwrap_err().status.as_u16(), 413);
}

#[test]
fn a_bomb_stops_at_the_bound() {
    let bomb = Encoding::Zstd.encode(&vec![0; 8 << 20]).unwrap();
    assert!(bomb.len() < 10_000);
    assert_eq!(Encoding::Zstd.decode(&bomb, &mut Left(1 << 20)).unwrap_err().status.as_u16(), 413);
}

#[test]
fn a_body_of_several_streams_is_read_to_its_end() {
    for encoding in [Encoding::Gzip, Encoding::Deflate, Encoding::Lz4, Encoding::Zstd] {
        let packed = [encoding.encode(b"one\n").unwrap(), encoding.encode(b"two\n").unwrap()].concat();
        assert_eq!(encoding.decode(&packed, &mut Left(100)).unwrap(), b"one\ntwo\n", "{encoding:?}");
        let damaged = [&packed[..], b"three"].concat();
        assert!(encoding.decode(&damaged, &mut Left(100)).is_err(), "{encoding:?}");
    }
}

#[test]
fn a_refused_coding_is_not_offered() {
    assert_eq!(Encoding::for_answer(Some("gzip;q=1.0, zstd;q=0")), Some(Encoding::Gzip));
    assert_eq!(Encoding::for_answer(Some("br")), None);
    assert!(Encoding::of_body(Some("br")).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_come_back(body in proptest::collection::vec(0u8..4, 0..5000), method in prop_oneof![
        Just(Method::None), Just(Method::Lz4), Just(Method::Zstd)
    ]) {
        let packed = encode_blocks(&body, method).unwrap();
        prop_assert_eq!(decode_blocks(&packed, &mut Left(body.len())).unwrap(), body);
    }

    #[test]
    fn a_cut_body_is_an_error_and_not_a_shorter_one(body in proptest::collection::vec(any::<u8>(), 1..300), cut in 0.0..1.0f64) {
        let packed = encode_blocks(&body, Method::Lz4).unwrap();
        let kept = 1 + ((packed.len() - 2) as f64 * cut) as usize;
        prop_assert!(decode_blocks(&packed[..kept], &mut Left(1 << 20)).is_err());
        for encoding in [Encoding::Gzip, Encoding::Deflate, Encoding::Lz4, Encoding::Zstd] {
            let packed = encoding.encode(&body).unwrap();
            prop_assert_eq!(encoding.decode(&packed, &mut Left(1 << 20)).unwrap(), body.clone());
            let kept = 1 + ((packed.len() - 2) as f64 * cut) as usize;
            prop_assert!(encoding.decode(&packed[..kept], &mut Left(1 << 20)).is_err(), "{:?} cut at {}", encoding, kept);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode_blocks(&body, &mut Left(1 << 20));
    }
}

#[test]
fn fuzz_bodies() {
    let plain = b"1\tone\n2\ttwo\n".repeat(20);
    let blocks =
        [Method::None, Method::Lz4, Method::Zstd].map(|method| encode_blocks(&plain, method).unwrap());
    let encodings = [Encoding::Gzip, Encoding::Deflate, Encoding::Zstd, Encoding::Lz4];
    let encoded = encodings.map(|encoding| encoding.encode(&plain).unwrap());
    testkit::Fuzz::new("bodies").examples(&blocks).examples(&encoded).run(4_000, |body| {
        const ROOM: usize = 1 << 16;
        for encoding in encodings {
            if let Ok(plain) = encoding.decode(body, &mut Left(ROOM)) {
                assert!(plain.len() <= ROOM, "{encoding:?} gave {}", plain.len());
            }
        }
        let _ = decode_blocks(body, &mut Left(ROOM));
        // With the checksum of the first block put right, its lengths are believed.
        if body.len() > HASH_BYTES {
            let mut body = body.to_vec();
            let size = body
                .get(HASH_BYTES + 1..HASH_BYTES + 5)
                .map_or(0, |n| u32::from_le_bytes(n.try_into().unwrap()));
            let end = (HASH_BYTES + size as usize).min(body.len());
            let hash = checksum(&body[HASH_BYTES..end]);
            body[..HASH_BYTES].copy_from_slice(&hash);
            if let Ok(plain) = decode_blocks(&body, &mut Left(ROOM)) {
                assert!(plain.len() <= ROOM, "{}", plain.len());
            }
        }
    });
}
