use proptest::prelude::*;

use super::*;

fn head(raw_bytes: u64) -> Head {
    Head {
        letter: Letter::default(),
        time_ms: 0,
        reason: String::new(),
        column: String::new(),
        raw_bytes,
        origin: String::new(),
    }
}

#[test]
fn a_large_body_is_asked_for_alone_and_small_ones_together() {
    let heads: Vec<Head> = [1, 2, PAGE_BYTES + 1, 3, PAGE_BYTES, 4].map(head).to_vec();
    let sizes: Vec<Vec<u64>> =
        batches(&heads).iter().map(|batch| batch.iter().map(|head| head.raw_bytes).collect()).collect();
    assert_eq!(sizes, [vec![1, 2], vec![PAGE_BYTES + 1], vec![3], vec![PAGE_BYTES], vec![4]]);
    let many = vec![head(1); BODIES_MAX + 1];
    assert_eq!(batches(&many).iter().map(|batch| batch.len()).collect::<Vec<_>>(), [BODIES_MAX, 1]);
    assert!(batches(&[]).is_empty());
}

#[test]
fn what_is_no_hexadecimal_is_refused() {
    assert!(unhex("0g").is_err() && unhex("abc").is_err());
}

proptest! {
    #[test]
    fn bytes_travel_in_hexadecimal_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
        prop_assert_eq!(unhex(&hex(&bytes)).expect("our own digits"), bytes.clone());
        prop_assert_eq!(unhex(&hex(&bytes).to_uppercase()).expect("the server's digits"), bytes);
    }
}
