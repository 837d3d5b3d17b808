use std::fs::File;
use std::io::{BufReader, Cursor, Write};

use proptest::prelude::*;

use super::super::inflate::{self, Bytes, Stands};
use super::super::tests::Dir;
use super::*;

/// Reads what is returned, and why it ends.
fn all(mut bytes: Bytes) -> (Vec<u8>, Option<String>) {
    let mut out = Vec::new();
    loop {
        match bytes.fill_buf() {
            Ok([]) => return (out, None),
            Ok(chunk) => {
                out.extend_from_slice(chunk);
                let length = chunk.len();
                bytes.consume(length);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let again = bytes.fill_buf().expect_err("an error stays one");
                assert_eq!(again.to_string(), error.to_string());
                return (out, Some(error.to_string()));
            }
        }
    }
}

fn open(path: &str, position: u64, hold: usize) -> io::Result<(Bytes, Stands)> {
    inflate::open(File::open(path).unwrap(), path, position, hold, &|| true).map(|at| (at.bytes, at.stands))
}

fn read(path: &str, hold: usize) -> (Vec<u8>, Option<String>) {
    match open(path, 0, hold) {
        Ok((bytes, _)) => all(bytes),
        Err(error) => (Vec::new(), Some(error.to_string())),
    }
}

fn member(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A member with a name, a comment and extra bytes.
fn member_with_name(bytes: &[u8]) -> Vec<u8> {
    let builder = flate2::GzBuilder::new().filename("a.log").comment("b").extra(vec![1, 2, 3]).mtime(7);
    let mut encoder = builder.write(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn frame(bytes: &[u8], has_checksum: bool) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(has_checksum).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lines(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).flat_map(|n| format!("{{\"n\":{n},\"x\":\"{}\"}}\n", n * n).into_bytes()).collect()
}

/// Bytes that no packing makes smaller.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn a_flipped_bit_anywhere_is_refused_or_changes_nothing() {
    let dir = Dir::new("flips");
    let parts = [lines(0, 7), lines(7, 2), lines(9, 3)];
    let whole = parts.concat();
    let gzip = [member_with_name(&parts[0]), member(&parts[1]), member(&parts[2])];
    let zstd = [frame(&parts[0], true), frame(&parts[1], true), frame(&parts[2], true)];
    for (name, packed) in [("gzip", gzip), ("zstd", zstd)] {
        let good = packed.concat();
        let (mut refused, mut harmless) = (0, 0);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let path = dir.write(name, &bad);
            let hold = [0, 1 << 20][bit % 2];
            let (out, error) = read(&path, hold);
            if error.is_none() {
                assert_eq!(out, whole, "{name}: bit {bit}: no error and other bytes");
                harmless += 1;
                continue;
            }
            refused += 1;
            // All of what stands before the damage, and nothing of it.
            let hit = bit / 8;
            let ends = [packed[0].len(), packed[0].len() + packed[1].len()];
            let before = ends.iter().filter(|end| **end <= hit).count();
            // A flipped flag may say that a frame has no checksum: then its bytes, which are right, come before the error.
            let is_flag = name == "zstd" && out == parts[..=before].concat();
            assert!(
                is_flag || out == parts[..before].concat(),
                "{name}: bit {bit} of {}: {error:?}",
                good.len()
            );
        }
        assert!(refused > 5 * harmless, "{name}: {refused} refused, {harmless} harmless");
    }
}

#[test]
fn a_file_that_was_truncated_is_refused_with_its_whole_members_kept() {
    let dir = Dir::new("truncated");
    let parts = [lines(0, 20), lines(20, 5)];
    for (name, packed) in [
        ("gzip", [member(&parts[0]), member(&parts[1])]),
        ("zstd", [frame(&parts[0], true), frame(&parts[1], false)]),
    ] {
        let good = packed.concat();
        for length in 1..good.len() {
            let path = dir.write(name, &good[..length]);
            let (out, error) = read(&path, 0);
            let boundary = packed[0].len();
            // A lone `(` is text.
            if length == boundary || (name == "zstd" && length == 1) {
                assert_eq!(error, None, "{name}: {length}");
                continue;
            }
            let error = error.unwrap_or_else(|| panic!("{name}: {length} of {} bytes passed", good.len()));
            let expected: &[u8] = if length > boundary { &parts[0] } else { &[] };
            assert_eq!(out, expected, "{name}: {length}: {error}");
            if length > boundary + 4 {
                let says =
                    format!("`2`, which begins at byte `{boundary}` of the packed file, is not all there");
                assert!(error.contains(&says), "{name}: {length}: {error}");
            }
        }
    }
}

#[test]
fn what_follows_the_last_member_is_read_padding_or_named() {
    let dir = Dir::new("behind");
    let text = lines(0, 10);
    for hold in [0, 1 << 20] {
        let padded = dir.write("padded", &[member(&text), vec![0; 300_000]].concat());
        assert_eq!(read(&padded, hold), (text.clone(), None));
        for (name, file, unit) in [
            ("garbage", [member(&text), b"garbage".to_vec()].concat(), "gzip member"),
            ("half zeros", [member(&text), vec![0; 300_000], vec![1]].concat(), "gzip member"),
            ("other", [member(&text), frame(&text, true)].concat(), "gzip member"),
            ("garbage", [frame(&text, true), b"garbage".to_vec()].concat(), "zstd frame"),
            ("zeros", [frame(&text, true), vec![0; 9]].concat(), "zstd frame"),
        ] {
            let path = dir.write("behind", &file);
            let (out, error) = read(&path, hold);
            assert_eq!(out, text, "{name}");
            let error = error.expect(name);
            assert!(error.contains(&format!("behind {unit} `1`, is no {unit}")), "{name}: {error}");
        }
    }
}

#[test]
fn zstd_frames_of_every_kind_are_read() {
    let dir = Dir::new("frames");
    let skippable = |bytes: &[u8]| [&[0x5e, 0x2a, 0x4d, 0x18, bytes.len() as u8, 0, 0, 0], bytes].concat();
    let file = [
        skippable(b"head"),
        frame(&lines(0, 10), true),
        skippable(b""),
        frame(b"", true),
        frame(&lines(10, 10), false),
        skippable(b"tail"),
    ];
    let path = dir.write("all", &file.concat());
    for hold in [0, 1 << 20] {
        assert_eq!(read(&path, hold), (lines(0, 20), None));
    }
}

#[test]
fn a_frame_with_too_large_a_window_says_how_to_compress_it() {
    let dir = Dir::new("window");
    // A window of 256 MiB, and one block with nothing in it.
    let wide = [0x28, 0xb5, 0x2f, 0xfd, 0, 18 << 3, 1, 0, 0];
    let (out, error) = read(&dir.write("wide", &wide), 1 << 20);
    let error = error.expect("it is refused");
    assert!(out.is_empty() && error.contains("128 MiB") && error.contains("`zstd --long=27`"), "{error}");
}

#[test]
fn a_member_too_large_to_hold_is_read_in_bounded_memory_and_its_damage_gives_nothing_of_it() {
    let dir = Dir::new("large");
    let small = lines(0, 3);
    let large = lines(3, 60_000);
    let good = [member(&small), member(&large), member(&small)].concat();
    let path = dir.write("good", &good);
    let raw = Box::new(super::super::raw::RawFile::new(File::open(&path).unwrap()).unwrap());
    let mut bytes = Verified::new(raw, Packing::Gzip, 64 << 10);
    let mut out = Vec::new();
    loop {
        assert!(bytes.out.capacity() <= (64 << 10) + 3 * CHUNK_BYTES, "held {}", bytes.out.capacity());
        match bytes.fill_buf() {
            Ok([]) => break,
            Ok(chunk) => {
                out.extend_from_slice(chunk);
                let length = chunk.len();
                bytes.consume(length);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
        }
    }
    assert!(out == [&small[..], &large, &small].concat(), "all of it, in order");
    // The last byte of the checksum that stands before the last member.
    let mut bad = good.clone();
    let at = good.len() - member(&small).len() - 5;
    bad[at] ^= 1;
    let (out, error) = read(&dir.write("bad", &bad), 64 << 10);
    assert_eq!(out, small, "{error:?}");
    assert!(error.expect("refused").contains("gzip member `2`"));
}

#[test]
fn any_position_is_found_across_members() {
    let dir = Dir::new("places");
    let parts = [lines(0, 9), lines(9, 300), Vec::new(), lines(309, 2), lines(311, 50)];
    let whole = parts.concat();
    for (name, packed) in [
        ("gzip", parts.iter().map(|part| member(part)).collect::<Vec<_>>().concat()),
        ("zstd", parts.iter().map(|part| frame(part, true)).collect::<Vec<_>>().concat()),
    ] {
        let path = dir.write(name, &packed);
        let starts = (0..whole.len()).filter(|at| *at == 0 || whole[at - 1] == b'\n').chain([whole.len()]);
        for hold in [0, 300, 1 << 20] {
            for start in starts.clone().step_by(11) {
                let (bytes, place) = open(&path, start as u64, hold).unwrap();
                assert_eq!(place, Stands::Line, "{name}: {start}");
                assert_eq!(all(bytes), (whole[start..].to_vec(), None), "{name}: {start} holding {hold}");
            }
            let end = whole.len() as u64;
            assert_eq!(open(&path, end + 5, hold).unwrap().1, Stands::Beyond(end));
            assert_eq!(open(&path, 4, hold).unwrap().1, Stands::Middle);
        }
    }
}

#[test]
fn a_stream_is_checked_before_it_is_handed_out_too() {
    // More than is kept in memory, so that it passes the temporary file.
    let large = noise(6 << 20);
    let good = [member(b"{}\n"), member(&large), member(&large), member(b"{}\n")].concat();
    let stream = |packed: Vec<u8>| {
        let raw = BufReader::with_capacity(10_000, Cursor::new(packed));
        all(inflate::stream(raw, 1 << 20).unwrap())
    };
    let (out, error) = stream(good.clone());
    assert_eq!(error, None);
    assert!(out == [b"{}\n", &large[..], &large, b"{}\n"].concat(), "all of it, in order");
    let mut bad = good;
    let middle = bad.len() * 3 / 4;
    bad[middle] ^= 4;
    let (out, error) = stream(bad);
    assert!(out == [b"{}\n", &large[..]].concat(), "what stands before the damage: {} bytes", out.len());
    assert!(error.expect("refused").contains("gzip member `3`"));
}

#[test]
fn files_of_other_packings_and_no_text_are_named() {
    let dir = Dir::new("foreign");
    for (name, bytes, says) in [
        ("a.xz", &b"\xfd7zXZ\0abc"[..], "compressed with xz"),
        ("a.bz2", b"BZh91AY&SYabc", "compressed with bzip2"),
        ("a.lz4", b"\x04\x22\x4d\x18abc", "compressed with lz4"),
        ("a.zip", b"PK\x03\x04abc", "compressed with zip"),
        ("a.json", b"\xff\xfe{\0}\0", "UTF-16"),
        ("a.gz", b"\0\0\0\0", "its name says that it is compressed"),
    ] {
        let error = open(&dir.write(name, bytes), 0, 0).map(drop).expect_err(name);
        assert!(error.to_string().contains(says), "{name}: {error}");
    }
    for text in [&b"BZh is text"[..], b"{\"a\":1}\n", b"", b"PK", "\u{fc}".as_bytes()] {
        assert!(open(&dir.write("a.gz", text), 0, 0).is_ok(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn flips_in_larger_files_never_alter_what_is_handed_out(
        flips in proptest::collection::vec(0.0_f64..1.0, 1..4),
        bits in proptest::collection::vec(0_u8..8, 4),
        sizes in proptest::collection::vec(0_usize..400, 1..6),
        hold in prop_oneof![Just(0_usize), Just(2_000), Just(1 << 20)],
        is_gzip: bool,
    ) {
        let dir = Dir::new(&format!("random-{is_gzip}-{hold}"));
        let mut from = 0;
        let parts: Vec<Vec<u8>> = sizes
            .iter()
            .map(|size| {
                from += size;
                lines(from - size, *size)
            })
            .collect();
        let pack = |part: &Vec<u8>| if is_gzip { member(part) } else { frame(part, true) };
        let mut packed: Vec<u8> = parts.iter().map(pack).collect::<Vec<_>>().concat();
        for (at, bit) in flips.iter().zip(&bits) {
            let at = (at * packed.len() as f64) as usize;
            packed[at] ^= 1 << bit;
        }
        let whole = parts.concat();
        let (out, error) = read(&dir.write("file", &packed), hold);
        match error {
            None => prop_assert!(out == whole, "other bytes without an error"),
            Some(_) => {
                let mut prefixes = (0..=parts.len()).map(|count| parts[..count].concat());
                prop_assert!(prefixes.any(|prefix| prefix == out), "not a number of whole members");
            }
        }
    }
}
