use super::*;

#[test]
fn shards_grow_with_the_threads_and_have_memory() {
    let found = [1, 2, 3, 4, 8, 12, 32, 64, 256].map(|threads| shards(threads, 128 << 20));
    assert_eq!(found, [1, 1, 1, 2, 2, 3, 8, 16, 16]);
    assert_eq!([0, 4 << 20, 9 << 20, u64::MAX].map(|bytes| shards(64, bytes)), [1, 1, 2, 16]);
}
