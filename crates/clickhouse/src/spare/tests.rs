use super::*;

const BODY: usize = 2 * PIECE_BYTES_MIN;

fn body(spares: &Spares, bytes: usize) -> (Bytes, *const u8) {
    let mut memory = spares.take(bytes);
    memory.resize(bytes, 7);
    let body = spares.body(memory);
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
    assert_eq!(spares.take(BODY).len(), 0, "nothing of the body before is seen");
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
