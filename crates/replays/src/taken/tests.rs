use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn letter(source: &str, position: u64) -> Letter {
    Letter::at(source, 1, position)
}

fn sample() -> Snapshot {
    let mut taken = Taken::default();
    for position in [5, 6, 7, 100, 9] {
        taken.add(&letter("events", position));
    }
    taken.add(&Letter { print: u64::MAX, ..Letter::at("", 0, 0) });
    let marks = vec![Mark { table: "d.t".into(), next_ordinal: 77 }];
    Snapshot { taken, end: 42, marks }
}

/// The bytes that a released program has written are read for ever: a change here is a new format version.
#[test]
fn snapshots_keep_their_golden_bytes() {
    let hex: String = sample().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("golden.txt").trim_end());
}

#[test]
fn snapshots_read_back_as_written_and_every_damaged_byte_is_noticed() {
    let bytes = sample().to_bytes();
    assert_eq!(Snapshot::from_bytes(42, &bytes), Ok(sample()));
    assert!(Snapshot::from_bytes(43, &bytes).is_err(), "under another name");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(Snapshot::from_bytes(42, &damaged).is_err(), "byte {at}");
    }
}

#[test]
fn letters_of_other_places_are_others() {
    let taken = sample().taken;
    assert!(taken.holds(&letter("events", 6)) && !taken.holds(&letter("events", 8)));
    assert!(!taken.holds(&letter("other", 6)));
    assert!(!taken.holds(&Letter { partition: 2, ..letter("events", 6) }));
    assert!(!taken.holds(&Letter { print: 1, ..Letter::at("", 0, 0) }));
    assert_eq!(taken.count(), 6);
}

#[test]
fn letters_at_one_position_of_two_streams_of_a_name_or_of_two_eras_are_two() {
    let mut taken = Taken::default();
    let (first, again) = (letter("events", 1), Letter { nth: 2, ..letter("events", 1) });
    assert!(taken.add(&first) && !taken.holds(&again) && taken.add(&again));
    let of_era = |era| Letter { era, ..letter("pulsar", 1) };
    assert!(taken.add(&of_era(3)) && !taken.holds(&of_era(4)) && taken.add(&of_era(4)));
    assert!(!taken.holds(&of_era(5)) && !taken.holds(&letter("pulsar", 1)));
    let snapshot = Snapshot { taken, ..Snapshot::default() };
    assert_eq!(Snapshot::from_bytes(0, &snapshot.to_bytes()), Ok(snapshot));
    // A letter that an earlier program took, without its era, is not taken once more.
    let mut earlier = Taken::default();
    earlier.add(&letter("pulsar", 1));
    assert!(earlier.holds(&of_era(3)) && !earlier.holds(&Letter { position: 2, ..of_era(3) }));
}

#[test]
fn a_stretch_of_letters_costs_a_few_bytes() {
    let mut taken = Taken::default();
    (0..1_000_000).for_each(|position| assert!(taken.add(&letter("events", position))));
    let bytes = Snapshot { taken, ..Snapshot::default() }.to_bytes();
    assert!(bytes.len() < 64, "{} bytes", bytes.len());
}

proptest! {
    #[test]
    fn it_holds_what_was_added_and_nothing_else(positions in prop::collection::vec(0u64..60, 0..80)) {
        let mut taken = Taken::default();
        let mut model = BTreeSet::new();
        for position in positions {
            prop_assert_eq!(taken.add(&letter("events", position)), model.insert(position));
        }
        for position in 0..62 {
            prop_assert_eq!(taken.holds(&letter("events", position)), model.contains(&position));
        }
        prop_assert_eq!(taken.count(), model.len() as u64);
        let snapshot = Snapshot { taken, end: 1, marks: vec![] };
        prop_assert_eq!(Snapshot::from_bytes(1, &snapshot.to_bytes()), Ok(snapshot));
    }
}

#[test]
fn fuzz_taken_letters() {
    // Puts the right checksum under changed bytes.
    let summed = |bytes: &[u8]| seal(bytes[..bytes.len().saturating_sub(4)].to_vec());
    let mut ends = sample();
    ends.taken.add(&letter("events", u64::MAX - 1));
    testkit::Fuzz::new("taken letters").examples([sample().to_bytes(), ends.to_bytes()]).run(
        10_000,
        |bytes| {
            let _ = Snapshot::from_bytes(42, bytes);
            let bytes = summed(bytes);
            let Ok(snapshot) = Snapshot::from_bytes(42, &bytes) else { return };
            let again = Snapshot::from_bytes(42, &snapshot.to_bytes());
            assert_eq!(again.as_ref(), Ok(&snapshot), "what was read can be written and read");
            // A run of all positions there are must take no longer than one of a single position.
            let mut both = sample().taken;
            both.extend(&snapshot.taken);
            assert!(both.count() >= snapshot.taken.count());
            for position in [0, 5, u64::MAX - 1, u64::MAX] {
                let added = letter("events", position);
                both.add(&added);
                assert!(position == u64::MAX || both.holds(&added), "{position}");
            }
        },
    );
}

proptest! {
    #[test]
    fn sets_join_as_their_letters_would(
        some in prop::collection::vec((0..60u64, 1..9u64), 0..8),
        others in prop::collection::vec((0..60u64, 1..9u64), 0..8),
    ) {
        let set = |runs: &[(u64, u64)]| {
            let mut taken = Taken::default();
            for position in runs.iter().flat_map(|(from, count)| *from..from + count) {
                taken.add(&letter("e", position));
            }
            taken
        };
        let mut joined = set(&some);
        joined.extend(&set(&others));
        let all: BTreeSet<u64> = some.iter().chain(&others).flat_map(|(from, count)| *from..from + count).collect();
        prop_assert_eq!(joined.count(), all.len() as u64);
        prop_assert!((0..80).all(|position| joined.holds(&letter("e", position)) == all.contains(&position)));
        // However they came together, the runs are the same.
        prop_assert_eq!(&joined, &set(&all.iter().map(|position| (*position, 1)).collect::<Vec<_>>()));
    }
}
