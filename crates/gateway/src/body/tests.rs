use std::io::Write;

use axum::http::HeaderValue;
use bytes::Bytes;
use futures::stream;

use super::*;
use crate::budget::Budget;
use crate::support::{NEVER, roomy};

fn bounds(bytes_max: usize) -> BodyBounds {
    BodyBounds { bytes_max, wait_max: NEVER, time_max: NEVER }
}

fn encoded(encoding: &str) -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_ENCODING, HeaderValue::from_str(encoding).unwrap())])
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

async fn inflated(encoding: &str, body: Vec<u8>, bytes_max: usize, held: Held) -> Result<Vec<u8>, Refusal> {
    let raw = read(&encoded(encoding), Body::from(body), bounds(bytes_max), held).await?;
    raw.inflate().map(|(bytes, _)| bytes)
}

#[tokio::test]
async fn bodies_are_inflated_and_what_is_damaged_is_refused() {
    let text = b"{\"a\":1}\n".repeat(50_000);
    let zlib = {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&text).unwrap();
        encoder.finish().unwrap()
    };
    let behind = [&zlib[..], &zlib].concat();
    let refused = inflated("deflate", behind, 1 << 20, roomy()).await.unwrap_err();
    assert!(
        refused.kind == Kind::Malformed && refused.message.contains("behind the end"),
        "{}",
        refused.message
    );
    let mut twice = gzip(&text[..400]);
    twice.extend(gzip(&text[400..]));
    for (encoding, body) in [
        ("identity", text.clone()),
        ("gzip", gzip(&text)),
        ("X-Gzip", twice),
        ("zstd", zstd::bulk::compress(&text, 3).unwrap()),
        ("zlib", zlib.clone()),
        ("deflate", zlib),
        ("snappy", snap::raw::Encoder::new().compress_vec(&text).unwrap()),
    ] {
        assert!(inflated(encoding, body, 1 << 20, roomy()).await.unwrap() == text, "{encoding}");
    }
    for encoding in ["gzip", "zstd", "deflate", "snappy"] {
        let refused = inflated(encoding, text.clone(), 1 << 20, roomy()).await.unwrap_err();
        assert_eq!(refused.kind, Kind::Malformed, "{encoding}");
    }
    let mut cut = gzip(&text);
    cut.truncate(cut.len() / 2);
    assert_eq!(inflated("gzip", cut, 1 << 20, roomy()).await.unwrap_err().kind, Kind::Malformed);
    for encoding in ["br", "gzip, gzip", "x-snappy-framed"] {
        assert_eq!(inflated(encoding, gzip(&text), 1 << 20, roomy()).await.unwrap_err().kind, Kind::Media);
    }
}

#[tokio::test]
async fn a_bomb_meets_its_bound_after_a_piece_too_many() {
    let zeros = vec![0; 200 << 20];
    for (encoding, bomb) in [("gzip", gzip(&zeros)), ("zstd", zstd::bulk::compress(&zeros, 19).unwrap())] {
        assert!(bomb.len() < 1 << 20);
        let raw = read(&encoded(encoding), Body::from(bomb), bounds(1 << 20), roomy()).await.unwrap();
        let (refused, peak) = testkit::peak_bytes(|| raw.inflate().unwrap_err());
        assert_eq!(refused.kind, Kind::TooLarge, "{encoding}");
        // A window of zstd at its largest, and the body.
        assert!(peak < 12 << 20, "{encoding}: {peak}");
    }
}

#[tokio::test]
async fn nothing_is_allocated_for_a_length_that_a_block_of_snappy_only_claims() {
    let claims = |length: &[u8]| [length, b"\x00x"].concat();
    for (body, kind) in [
        (claims(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Kind::TooLarge),
        (claims(&[0xff, 0xff, 0x3f]), Kind::Malformed),
        (claims(&[2]), Kind::Malformed),
        (vec![0xff; 20], Kind::Malformed),
        (Vec::new(), Kind::Malformed),
    ] {
        let raw = read(&encoded("snappy"), Body::from(body), bounds(2 << 20), roomy()).await.unwrap();
        let (refused, peak) = testkit::peak_bytes(|| raw.inflate().unwrap_err());
        assert_eq!(refused.kind, kind);
        assert!(peak < 64 << 10, "{peak}");
    }
}

#[test]
fn fuzz_snappy() {
    let text = b"{\"a\":1}\n".repeat(40);
    testkit::Fuzz::new("gateway snappy")
        .examples([snap::raw::Encoder::new().compress_vec(&text).unwrap()])
        .words([[0xff, 0xff, 0xff, 0x7f], [0xfe, 0x01, 0x00, 0xfe]])
        .memory_max(64 << 10, 2 * SNAPPY_RATIO_MAX)
        .run(3_000, |bytes| {
            let mut held = roomy();
            if let Ok(out) = block(bytes, 1 << 20, &mut held) {
                assert!(out.len() <= held.bytes());
            }
        });
}

#[tokio::test]
async fn inflated_bytes_are_held_and_a_body_without_room_is_told_to_come_again() {
    let budget = Budget::new("a test", 300 << 10);
    let text = vec![b'x'; 1 << 20];
    let refused = inflated("gzip", gzip(&text), 2 << 20, Held::none(&budget, &budget)).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Busy);
    assert_eq!(budget.held_bytes(), 0, "and what it held is back");
}

#[tokio::test]
async fn what_an_inflating_body_grows_by_is_held_too() {
    let text = vec![b'x'; (1 << 20) + 100];
    let budget = Budget::new("a test", 8 << 20);
    let held = Held::none(&budget, &budget);
    let raw = read(&encoded("gzip"), Body::from(gzip(&text)), bounds(4 << 20), held).await.unwrap();
    let (bytes, held) = raw.inflate().unwrap();
    assert!(bytes == text && bytes.capacity() <= held.bytes(), "{} for {}", held.bytes(), bytes.capacity());
    assert!(held.bytes() < text.len() + (128 << 10), "and no more: {}", held.bytes());
    // The list has 1 MiB before it grows, and one that grows by itself takes 2 then.
    let small = Budget::new("a test", (1 << 20) + (512 << 10));
    let refused = inflated("gzip", gzip(&text), 4 << 20, Held::none(&small, &budget)).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Busy);
}

#[tokio::test]
async fn lengths_are_bounded_as_they_are_announced_and_as_they_come() {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("99999999999"));
    let never = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    let refused = read(&headers, never, bounds(100), roomy()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::TooLarge, "before it is read");
    let pieces = stream::iter((0..20).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 10]))));
    let body = Body::from_stream(pieces.clone());
    assert_eq!(read(&HeaderMap::new(), body, bounds(199), roomy()).await.unwrap_err().kind, Kind::TooLarge);
    let raw = read(&HeaderMap::new(), Body::from_stream(pieces), bounds(200), roomy()).await.unwrap();
    assert_eq!(raw.bytes.len(), 200);
}

#[tokio::test]
async fn a_body_that_stops_or_trickles_ends_in_time() {
    let short = Duration::from_millis(50);
    let stops = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    let bounds_of = |wait_max, time_max| BodyBounds { bytes_max: 1 << 20, wait_max, time_max };
    let refused = read(&HeaderMap::new(), stops, bounds_of(short, NEVER), roomy()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::TooSlow);
    let trickles = Body::from_stream(stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
    }));
    let refused = read(&HeaderMap::new(), trickles, bounds_of(NEVER, short), roomy()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::TooSlow);
}

/// A length that is only announced gives a body memory for four times what has come, and never for more than it announces or may have.
#[tokio::test]
async fn a_body_that_says_how_long_it_is_grows_in_few_steps() {
    let budget = Budget::apart("this", 64 << 20);
    let length = 1 << 20;
    for (said, piece, bytes_max, held_max) in [
        (32 << 20, 16 << 10, 64 << 20, 4 * length),
        (length, 16 << 10, 64 << 20, length),
        // More than it may have.
        (usize::MAX, 16 << 10, length, length),
        // Less than comes: as if it said nothing.
        (1 << 10, 16 << 10, 64 << 20, 2 * length),
        (0, 100, 64 << 20, 2 * length),
    ] {
        let pieces = vec![b'x'; length].chunks(piece).map(Bytes::copy_from_slice).collect::<Vec<_>>();
        let body = Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>)));
        let held = Held::none(&budget, &budget);
        let raw = read_announced(body, Encoding::Identity, bounds(bytes_max), held, |begin| {
            assert!(begin.starts_with(b"x"), "it stands in the first bytes");
            Some(said)
        });
        let raw = raw.await.unwrap();
        assert_eq!(raw.bytes.len(), length);
        assert!(
            raw.bytes.capacity() <= raw.held.bytes(),
            "{} for {}",
            raw.held.bytes(),
            raw.bytes.capacity()
        );
        assert!(raw.held.bytes() <= held_max, "{} where {said} are announced", raw.held.bytes());
    }
}

#[tokio::test]
async fn a_long_announcement_holds_no_room() {
    let budget = Budget::new("a test", 1 << 20);
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("1000000"));
    let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    let reading = read(&headers, body, bounds(1 << 20), Held::none(&budget, &budget));
    assert!(tokio::time::timeout(Duration::from_millis(50), reading).await.is_err());
    assert_eq!(budget.held_bytes(), 0);
}

#[tokio::test]
async fn a_body_of_zstd_is_kept_as_it_came_where_the_log_takes_it_so() {
    let kept = async |encoding: &str, body: Vec<u8>| {
        let budget = Budget::new("all", 8 << 20);
        let held = Held::none(&budget, &budget);
        let raw = read(&encoded(encoding), Body::from(body), bounds(4 << 20), held).await.unwrap();
        let inflated = raw.inflate_and_keep().unwrap();
        let taken = inflated.bytes.len() + inflated.packed.as_ref().map_or(0, Bytes::len);
        assert!(inflated.held.bytes() >= taken, "{} for {taken}", inflated.held.bytes());
        inflated
    };
    let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    let one = zstd::bulk::compress(text.as_bytes(), 3).unwrap();
    // Frames of a stream do not say how long they are.
    let streamed = zstd::stream::encode_all(text.as_bytes(), 3).unwrap();
    let two = [&one[..], &streamed[..]].concat();
    for (body, content) in [(one.clone(), text.clone()), (streamed, text.clone()), (two, text.repeat(2))] {
        let inflated = kept("zstd", body.clone()).await;
        assert!(inflated.bytes == content.as_bytes());
        assert_eq!(inflated.packed.as_deref(), Some(&body[..]));
    }
    let small = zstd::bulk::compress(&text.as_bytes()[..2_000], 3).unwrap();
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    let noise: Vec<u8> = (0..40_000).map(|_| noise()).collect();
    let dense = zstd::bulk::compress(&noise, 3).unwrap();
    for (encoding, body) in [("zstd", small), ("zstd", dense), ("gzip", gzip(text.as_bytes()))] {
        assert!(kept(encoding, body).await.packed.is_none(), "{encoding}");
    }
}
