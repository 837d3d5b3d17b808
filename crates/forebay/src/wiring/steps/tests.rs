use super::*;

#[test]
fn shards_grow_with_the_threads() {
    let found = [1, 2, 3, 4, 8, 12, 32, 64, 256].map(shards);
    assert_eq!(found, [1, 1, 1, 2, 2, 3, 8, 16, 16]);
}
