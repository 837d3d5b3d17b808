use super::*;

#[test]
fn a_seed_repeats_its_numbers() {
    let numbers = |seed| {
        let mut lcg = Lcg::new(seed);
        [lcg.next_u64(), lcg.next_u64(), lcg.next_u64()]
    };
    assert_eq!(numbers(7), numbers(7));
    assert_ne!(numbers(7), numbers(8));
}

#[test]
fn numbers_stay_below_their_bound_and_reach_all_of_it() {
    let mut lcg = Lcg::new(1);
    let mut seen = [0u32; 7];
    for _ in 0..7_000 {
        seen[lcg.below(7) as usize] += 1;
    }
    assert!(seen.iter().all(|&count| (800..1_200).contains(&count)), "{seen:?}");
}
