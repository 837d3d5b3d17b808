use super::*;

const BODY: usize = 4 * PIECE_BYTES_MIN;

fn body(spares: &Spares, bytes: usize) -> (Bytes, *const u8) {
    let mut memory = spares.take(bytes);
    let front = memory.len();
    memory.resize(front + bytes, 7);
    let body = spares.body(memory, front);
    assert_eq!(body.len(), bytes);
    let at = body.as_ptr();
    (body, at)
}

#[test]
fn a_body_leaves_its_memory_to_the_next_once_its_last_part_is_dropped() {
    let spares = Spares::default();
    let (first, at) = body(&spares, BODY);
    let part = first.slice(5..9);
    drop(first);
    assert_ne!(body(&spares, BODY).1, at, "a part of it is still read");
    assert_eq!(&part[..], [7; 4]);
    let kept = spares.0.lock().unwrap().len();
    drop(part);
    assert_eq!(spares.0.lock().unwrap().len(), kept + 1);
    assert!(spares.take(BODY).iter().all(|byte| *byte == 0), "nothing of the body before is seen");
}

#[test]
fn a_large_body_begins_at_a_page_in_new_memory_and_in_memory_used_again() {
    let spares = Spares::default();
    for round in 0..5 {
        // Of changing size, so that memory is also given back and taken again.
        let (body, at) = body(&spares, BODY << (round / 2));
        assert!(at.addr().is_multiple_of(PAGE_BYTES), "round {round}");
        assert!(body.iter().all(|byte| *byte == 7));
    }
    assert_eq!(spares.take(PIECE_BYTES_MIN - 1).len(), 0, "a small one begins where it may");
}

#[test]
fn a_body_that_outgrows_its_memory_is_whole() {
    let spares = Spares::default();
    let mut memory = spares.take(BODY);
    let front = memory.len();
    memory.extend((0..3 * BODY).map(|n| n as u8));
    let body = spares.body(memory, front);
    assert!(body.iter().enumerate().all(|(n, byte)| *byte == n as u8));
    assert_eq!(body.len(), 3 * BODY);
}

#[test]
fn no_more_is_kept_than_is_used_again() {
    let spares = Spares::default();
    drop((0..10).map(|_| body(&spares, BODY)).collect::<Vec<_>>());
    assert_eq!(spares.0.lock().unwrap().len(), PIECES_MAX);
    for _ in 0..PIECES_MAX {
        assert!(
            spares.take(BODY / 16).capacity() < BODY,
            "a small body does not hold the memory of a large one"
        );
    }
    assert!(spares.0.lock().unwrap().is_empty());
    drop(body(&spares, 100));
    assert!(spares.0.lock().unwrap().is_empty(), "small ones are the allocator's");
}
