use http_body_util::BodyExt;

use super::*;
use crate::budget::Budget;

/// A client that asks for many answers and takes them slowly, or not at all, must not fill the memory with them.
#[tokio::test]
async fn an_answer_counts_until_its_client_has_taken_it() {
    let [all, own] = ["all", "own"].map(|of| Budget::new(of, 1 << 20));
    let mut held = Held::none(&all, &own);
    held.take(500 << 10).unwrap();
    let bytes = 200 << 10;
    let mut body = Unsent::new("x".repeat(bytes), held);
    assert_eq!(body.size_hint().exact(), Some(bytes as u64));
    let mut taken = 0;
    while let Some(frame) = body.frame().await {
        assert_eq!((all.held_bytes(), own.held_bytes()), (bytes, bytes));
        taken += frame.unwrap().into_data().unwrap().len();
        assert_eq!(body.is_end_stream(), taken == bytes);
    }
    assert_eq!(taken, bytes);
    drop(body);
    assert_eq!((all.held_bytes(), own.held_bytes()), (0, 0));
}
