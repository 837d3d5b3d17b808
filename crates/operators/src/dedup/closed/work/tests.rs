use super::*;

#[test]
fn pairs_are_sorted_whether_they_nearly_were_or_not() {
    let pair = |n: u64| Pair::new(u128::from(n), 0);
    let sorted: Vec<Pair> = (0..5000).map(pair).collect();
    let nearly: Vec<Pair> = (0..5000).map(|n| pair(n ^ 7)).collect();
    let reversed: Vec<Pair> = (0..5000).rev().map(pair).collect();
    let interleaved: Vec<Pair> = (0..5000).map(|n| pair(n % 2 * 2500 + n / 2)).collect();
    for mut pairs in [sorted.clone(), nearly, reversed, interleaved, Vec::new()] {
        sort_nearly_sorted(&mut pairs);
        assert_eq!(pairs, sorted[..pairs.len()]);
    }
}
