use std::collections::BTreeMap;

use pipeline::replays::object::Letter;
use protocol::Lane;
use protocol::lane::{PartitionState, Pass};

use super::*;

#[test]
fn columns_are_as_wide_as_what_stands_in_them() {
    let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
    let shown = columns(&["A", "WHY"], &[row(["long cell", "x"]), row(["é", ""])]);
    assert_eq!(shown, "A          WHY\nlong cell  x\né\n");
}

#[test]
fn a_record_cannot_write_to_the_terminal_but_its_text() {
    assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
    let shown = columns(&["A", "B"], &[vec!["\u{7}".repeat(99), "x\ry".into()]]);
    assert!(!shown.contains('\u{7}') && !shown.contains('\r') && shown.lines().count() == 2, "{shown}");
}

#[test]
fn bytes_that_are_no_text_are_shown_in_hexadecimal() {
    assert_eq!(text_or_hex(b"a\xff"), ("61ff".to_owned(), false));
    assert_eq!(text_or_hex("é".as_bytes()), ("é".to_owned(), true));
}

#[test]
fn names_are_shown_whole_however_long() {
    let name = format!("/data/{}/events.jsonl.gz/0/123456789", "a long folder/".repeat(20));
    let shown = columns(&["LETTER", "COLUMN", "WHY"], &[vec![name.clone(), "c".repeat(200), "x".into()]]);
    assert!(shown.contains(&format!("{name}  {}  x", "c".repeat(200))), "{shown}");
}

#[test]
fn a_letter_of_a_new_reading_is_not_replayed_because_that_of_the_one_before_was() {
    let partition = PartitionState {
        input: 0,
        stream: "t".into(),
        index: 0,
        identity: "id".into(),
        next: 50,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    };
    // Moved back to its start at the time 70.
    let pass = Pass { from: 0, end: 50, since_ms: 70, earlier_ms: 0 };
    let lane = Lane { partitions: vec![partition], passes: BTreeMap::from([(0, vec![pass])]), ..Lane::new() };
    let anew = Anew::of(&lane);
    let mut taken = Taken::default();
    let standing = |time_ms, taken: &Taken| {
        let mut head = Head {
            letter: Letter::at("t", 0, 7),
            time_ms,
            reason: String::new(),
            column: String::new(),
            raw_bytes: 0,
            origin: String::new(),
        };
        Standing::of(&mut head, &anew, taken).word()
    };
    assert_eq!((standing(3, &taken), standing(71, &taken)), ("read again", "no"));
    taken.add(&Letter::at("t", 0, 7));
    assert_eq!(standing(71, &taken), "no", "the letter that was replayed is of the reading before");
    taken.add(&Letter { since_ms: 70, ..Letter::at("t", 0, 7) });
    assert_eq!(standing(71, &taken), "yes");
}
