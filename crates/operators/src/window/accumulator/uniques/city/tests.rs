use super::*;

/// `arrayStringConcat(arrayMap(i -> char(33 + (i * 7 + n) % 90), range(n)))`.
fn text(n: u64) -> Vec<u8> {
    (0..n).map(|i| (33 + (i * 7 + n) % 90) as u8).collect()
}

#[test]
fn texts_of_every_length_have_the_server_s_hash() {
    for (n, expected) in include_str!("lengths.txt").lines().enumerate() {
        assert_eq!(hash(&text(n as u64)).to_string(), expected, "{n} bytes");
    }
}
