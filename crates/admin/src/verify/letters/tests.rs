use pipeline::replays::object;
use protocol::lane::{PartitionState, Pass};
use protocol::record::Before;

use super::*;

fn purged_at(position: u64, since_ms: i64) -> object::Letter {
    object::Letter { since_ms, ..object::Letter::at("events.jsonl", 0, position) }
}

/// A file that was read to its end, some of it anew.
fn lane(pass: Pass) -> Lane {
    let partition = PartitionState {
        input: 0,
        stream: "events.jsonl".into(),
        index: 0,
        identity: "id".into(),
        next: 100,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    };
    Lane { partitions: vec![partition], passes: BTreeMap::from([(0, vec![pass])]), ..Lane::new() }
}

fn nothing() -> Letters {
    Letters {
        report: report::Letters::default(),
        places: Places::new(),
        not_rows: Places::new(),
        hashes: Vec::new(),
        lag: None,
    }
}

fn place(position: u64) -> Place {
    Place::new(0, position, None)
}

#[test]
fn a_letter_that_was_purged_says_nothing_of_a_record_that_is_read_anew() {
    // Read to its end, and moved back to 40 at the time 70.
    let pass = Pass { from: 40, end: 100, since_ms: 70, earlier_ms: 0 };
    let lane = lane(pass);
    let ranges = Ranges::from([(0, (0, 100))]);
    let mut kept = Kept::default();
    for letter in [purged_at(30, 0), purged_at(50, 0), purged_at(60, 70)] {
        kept.purged.add(&letter, "malformed");
    }
    for letter in [purged_at(31, 0), purged_at(51, 0), purged_at(61, 70)] {
        kept.purged.add(&letter, "refused");
    }
    let mut letters = nothing();
    let mut expected = Places::from([30, 50, 60].map(place));
    letters.purged(&mut expected, &Compared::new(&lane, &ranges), (&Anew::of(&lane), &kept));
    assert_eq!(expected, Places::from([place(50)]), "its new letter must be there");
    assert_eq!(letters.not_rows, Places::from([30, 60].map(place)));
    assert_eq!(letters.places, Places::from([31, 61].map(place)));
}

#[test]
fn a_letter_that_an_earlier_program_purged_behind_a_reset_still_counts() {
    let lane = Lane {
        before: Before { until_ms: 70, ..Before::default() },
        ..lane(Pass { from: 0, end: u128::MAX, since_ms: 70, earlier_ms: 0 })
    };
    let ranges = Ranges::from([(0, (0, 100))]);
    let mut kept = Kept::default();
    kept.purged.add(&purged_at(30, 0), "malformed");
    let (mut letters, mut expected) = (nothing(), Places::from([place(30)]));
    letters.purged(&mut expected, &Compared::new(&lane, &ranges), (&Anew::of(&lane), &kept));
    assert_eq!((expected, letters.not_rows), (Places::new(), Places::from([place(30)])));
}

#[test]
fn only_a_letter_that_does_not_know_its_place_explains_a_row_by_its_content() {
    assert_eq!(
        without_place("(pipeline = 'a' OR pipeline = 'b')"),
        "(pipeline = 'a' OR pipeline = 'b') AND source = ''"
    );
}
