use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn shares_add_up_to_the_memory() {
    for memory in [128 * MIB, 256 * MIB, 512 * MIB, 1024 * MIB, 1000 * MIB + 7, 64 << 30, 1 << 40] {
        for asked in [&[][..], &[MIB], &[128 * MIB], &[128 * MIB; 3], &[1 << 40], &[1 << 40, MIB]] {
            let shares = Shares::of(memory, asked);
            assert_eq!(shares.sum(), memory, "{shares:?}");
            let keys: u64 = shares.open_keys.iter().sum();
            assert!(keys <= memory / 4, "{memory}: {shares:?}");
            assert!(shares.open_keys.iter().zip(asked).all(|(got, asked)| got <= asked), "{shares:?}");
            // Half of the memory is never the steps', and in it every part has its place.
            assert!(shares.ahead >= memory / 133 && shares.batch >= memory / 34, "{memory}: {shares:?}");
            assert!(shares.rest >= (memory / 9).max(PROGRAM), "{memory}: {shares:?}");
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
fn keys_that_ask_for_more_than_a_quarter_of_what_the_program_leaves_get_that() {
    let shares = Shares::of(512 * MIB, &[1024 * MIB, 32 * MIB]);
    assert_eq!(shares.open_keys, [56 * MIB, 32 * MIB]);
}

#[test]
fn a_small_memory_keeps_what_the_program_takes_and_shares_out_the_rest() {
    let shares = Shares::of(256 * MIB, &[128 * MIB]);
    assert_eq!(shares.open_keys, [48 * MIB]);
    assert_eq!((shares.batch / MIB, shares.frames / MIB, shares.ahead / MIB), (11, 23, 2));
    assert!((PROGRAM..PROGRAM + MIB).contains(&shares.rest), "{shares:?}");
    let least = Shares::of(128 * MIB, &[128 * MIB]);
    assert_eq!((least.open_keys[0] / MIB, least.batch / MIB, least.frames / MIB), (16, 3, 7));
    assert!((PROGRAM..PROGRAM + MIB).contains(&least.rest), "{least:?}");
}

#[test]
fn a_long_record_is_handed_out_as_far_as_a_dead_letter_holds_it() {
    let mib = MIB as usize;
    for (memory, record, expected) in
        [(128, 16, 16), (512, 16, 32), (1024, 16, 64), (64 << 10, 16, 64), (1024, 512, 512)]
    {
        assert_eq!(handed_out(memory * MIB, record * mib), expected * mib + 1, "{memory} {record}");
    }
}
