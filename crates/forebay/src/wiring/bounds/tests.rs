use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn shares_add_up_to_the_memory() {
    for memory in [64 * MIB, 512 * MIB, 1024 * MIB, 1000 * MIB + 7, 64 << 30, 1 << 40] {
        for asked in [&[][..], &[MIB], &[128 * MIB], &[128 * MIB; 3], &[1 << 40], &[1 << 40, MIB]] {
            let shares = Shares::of(memory, asked);
            assert_eq!(shares.sum(), memory, "{shares:?}");
            let keys: u64 = shares.open_keys.iter().sum();
            assert!(keys <= memory / 4, "{memory}: {shares:?}");
            assert!(shares.open_keys.iter().zip(asked).all(|(got, asked)| got <= asked), "{shares:?}");
            // Half of the memory is never the steps', and in it every part has its place.
            assert!(shares.ahead >= memory / 100 && shares.batch >= memory / 25, "{memory}: {shares:?}");
            assert!(shares.rest >= memory / 9, "{memory}: {shares:?}");
        }
    }
}

#[test]
fn the_defaults_are_round() {
    let shares = Shares::of(1024 * MIB, &[128 * MIB]);
    let expected = Shares {
        open_keys: vec![128 * MIB],
        ahead: 16 * MIB,
        batch: 64 * MIB,
        frames: 128 * MIB,
        rest: 240 * MIB,
    };
    assert_eq!(shares, expected);
    let without_state = Shares::of(1024 * MIB, &[]);
    assert_eq!(Shares { open_keys: vec![128 * MIB], rest: 240 * MIB, ..without_state }, expected);
}

#[test]
fn keys_that_ask_for_more_than_a_quarter_get_a_quarter() {
    let shares = Shares::of(512 * MIB, &[1024 * MIB, 32 * MIB]);
    assert_eq!(shares.open_keys, [64 * MIB, 32 * MIB]);
}
