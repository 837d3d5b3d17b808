use protocol::lane::PartitionState;

use super::*;

fn entry(stream: &str, identity: &str, next: u64) -> Entry {
    Entry { stream: stream.into(), index: 0, identity: identity.into(), next: next.into() }
}

fn lane(read: &[(&str, &str, u64)]) -> Lane {
    let partition = |(stream, identity, next): &(&str, &str, u64)| PartitionState {
        input: 0,
        stream: (*stream).into(),
        index: 0,
        identity: (*identity).into(),
        next: (*next).into(),
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    };
    Lane { pipeline: "p".into(), partitions: read.iter().map(partition).collect(), ..Lane::new() }
}

#[test]
fn a_journal_that_has_read_less_than_the_note_is_an_older_copy() {
    let shown = |noted: &[Entry], lane: &Lane| {
        ahead(noted, lane).into_iter().map(|(p, next)| (p.stream.to_string(), next)).collect::<Vec<_>>()
    };
    let noted = [entry("a", "one", 100), entry("b", "two", 50)];
    assert_eq!(
        shown(&noted, &lane(&[("a", "one", 100), ("b", "two", 70)])),
        [],
        "it may have gone on elsewhere"
    );
    assert_eq!(shown(&noted, &lane(&[("a", "one", 99), ("b", "two", 50)])), [("a".to_owned(), 100)]);
    // A copy from before the second file was there.
    assert_eq!(shown(&noted, &lane(&[("a", "one", 100)])), [("b".to_owned(), 50)]);
    // Another file of the name: it was rotated, and the note is of the one before.
    assert_eq!(shown(&noted, &lane(&[("a", "three", 0), ("b", "two", 50)])), []);
    assert_eq!(shown(&noted, &lane(&[("a", "one", 100), ("a", "three", 0), ("b", "two", 50)])), []);
    // Without a journal the table is asked.
    assert_eq!(shown(&noted, &Lane::new()), []);
}

#[test]
fn machines_that_share_a_folder_have_notes_of_their_own() {
    let dir = testkit::TestDir::new("noted-machines").expect("a folder");
    let id = dir.path().join("machine-id");
    let note = || Note::below(dir.path(), &on_machine("file:///data".to_owned(), &id), "p/lane-0", "source");
    let unknown = note();
    assert_eq!(unknown.store, "file:///data", "in a container, say");
    std::fs::write(&id, "one\n").expect("writes");
    note().write(vec![entry("/a", "one", 7)]).expect("writes");
    assert_eq!(note().read(), [entry("/a", "one", 7)]);
    std::fs::write(&id, "two\n").expect("writes");
    assert_eq!(note().read(), [], "its `/a` is another file");
    assert_eq!(unknown.read(), []);
}

#[test]
fn a_note_is_read_back_and_counts_for_its_own_lane_only() {
    let dir = testkit::TestDir::new("noted").expect("a folder");
    let note = Note::below(dir.path(), "file:///data", "p/lane-0", "source");
    assert_eq!(note.read(), []);
    let read = vec![entry("/a", "one", 7)];
    note.write(read.clone()).expect("writes");
    assert_eq!(note.read(), read);
    let other =
        Note { path: note.path.clone(), ..Note::below(dir.path(), "file:///other", "p/lane-0", "source") };
    assert_eq!(other.read(), [], "two lanes whose names have one checksum");
    std::fs::write(&note.path, b"{\"store\":").expect("writes");
    assert_eq!(note.read(), [], "a damaged note says nothing");
    note.remove();
    note.remove();
}
