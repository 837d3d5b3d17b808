use dataflow::{BlockBuilder, Reason};

use super::*;

/// What one dead letter counts whose record is as `fill` makes it.
fn bytes_of(fill: fn(&mut BlockBuilder), message: &str) -> u64 {
    let mut block = BlockBuilder::new(Partition::new("t", 0), 0);
    block.push(0, 1, Some(b"body"));
    fill(&mut block);
    let reject = Reject::of(&block.take(), 0, Reason::Malformed, "", message.to_owned());
    let mut builder = Builder::default();
    builder.read(0, 1, Duration::ZERO);
    builder.rejects(vec![reject], false);
    builder.bytes()
}

#[test]
fn keys_headers_and_messages_of_dead_letters_fill_a_batch_as_their_bodies_do() {
    let plain = bytes_of(|_| {}, "");
    assert!(plain >= 4);
    let long = "m".repeat(500_000);
    for bytes in [
        bytes_of(|block| block.key(&[7; 500_000]), ""),
        bytes_of(|block| block.header("h", Some(&[7; 500_000])), ""),
        bytes_of(|_| {}, &long),
    ] {
        assert!(bytes >= plain + 500_000, "{bytes}");
    }
}
