use dataflow::{FrameId, RowsFrom};
use store::MemoryStore;

use super::*;

fn encoded(body: Bytes) -> Encoded {
    Encoded {
        id: FrameId(7),
        table_partition: String::new(),
        rows: 1,
        body,
        probe: Bytes::from_static(b"probe"),
        rows_from: RowsFrom::Run(0..1),
    }
}

fn made(bytes: usize, seed: u8) -> Bytes {
    (0..bytes).map(|n| (n / 11) as u8 ^ seed).collect::<Vec<_>>().into()
}

#[tokio::test]
async fn what_is_large_begins_at_a_page_and_every_part_is_read_where_the_seal_says() {
    let sizes = [1, PAST_CACHE_BYTES_MIN, 100, PAST_CACHE_BYTES_MIN + 1, PAST_CACHE_BYTES_MIN - 1];
    let mut segment = Segment::default();
    let origins = Bytes::from_static(b"origins");
    let mut parts = Vec::new();
    for (ordinal, bytes) in sizes.into_iter().enumerate() {
        let body = made(bytes, ordinal as u8);
        let frame = segment.frame(0, ordinal as u64, &encoded(body.clone()), origins.clone());
        let beside = frame.offset + frame.len;
        parts.push((frame.offset, body, Some(frame.crc32c)));
        parts.push((beside, Bytes::from_static(b"probe"), None));
        parts.push((beside + frame.probe_len, origins.clone(), None));
    }
    for bytes in [10, 2 * PAST_CACHE_BYTES_MIN] {
        let delta = made(bytes, 99);
        let state = segment.state(0, delta.clone());
        parts.push((state.offset, delta, Some(state.crc32c)));
    }
    let len = segment.len();
    let store = MemoryStore::default();
    store.put_if_absent(&Key::new("p/1").unwrap(), segment.into_pieces()).await.unwrap();
    for (offset, bytes, sum) in &parts {
        let found = read(&store, "p/1", *offset, bytes.len() as u64, *sum).await.unwrap();
        assert!(found == *bytes, "{offset}");
        let is_large = bytes.len() >= PAST_CACHE_BYTES_MIN;
        assert!(!is_large || offset.is_multiple_of(PAGE_BYTES as u64), "{offset}");
    }
    let sealed: u64 = parts.iter().map(|(_, bytes, _)| bytes.len() as u64).sum();
    assert!(len - sealed < 3 * PAGE_BYTES as u64, "nothing but the fill in front of three parts");
}

#[test]
fn small_parts_touch() {
    let mut segment = Segment::default();
    let frame = segment.frame(0, 0, &encoded(made(1_000, 1)), Bytes::new());
    assert_eq!((frame.offset, segment.state(0, made(500, 2)).offset), (0, 1_005));
    assert_eq!(segment.len(), 1_505);
}
