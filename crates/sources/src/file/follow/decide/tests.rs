//! What a look decides over files that change behind its listing.

use std::fs;

use dataflow::ReadFrom;

use super::*;
use crate::file::tests::Dir;

/// Lines of 1,024 bytes and more.
fn text(name: &str) -> Vec<u8> {
    (0..100).flat_map(|n| format!("{{\"row\":\"{name} {n}\"}}\n").into_bytes()).collect()
}

fn survey(dir: &Dir) -> Survey {
    Survey::of(&[dir.path("web.log*")]).expect("lists")
}

fn look(survey: &Survey, known: &[Known], memory: &mut Memory) -> Decision {
    decide(survey, known, memory, true).expect("decides")
}

/// As the journal has a file of which nothing was read, at a start.
fn named(start: &PartitionStart) -> Known {
    Known::new(ReadFrom {
        partition: start.partition.clone(),
        identity: start.identity.clone(),
        next: 0,
        leader_epoch: NO_LEADER_EPOCH,
    })
    .expect("it was made of a file")
}

fn paths(decision: &Decision) -> Vec<(String, String)> {
    let name = |path: &str| path.rsplit('/').next().expect("a name").to_owned();
    let placed = decision.placed.iter();
    placed.map(|(of, spot)| (format!("{}/{}", name(&of.stream), of.index), name(&spot.path))).collect()
}

#[test]
fn a_file_that_was_emptied_behind_the_listing_is_not_named_by_what_is_there_of_the_next() {
    let dir = Dir::new("decide-emptied");
    for left in [0, 1, 12, 40] {
        let path = dir.write("web.log", &text("a"));
        let listed = survey(&dir);
        fs::write(&path, &text("b")[..left]).unwrap();
        let decision = look(&listed, &[], &mut Memory::default());
        assert!(decision.new.is_empty(), "{left}: {:?}", decision.new);
    }
    dir.write("web.log", &text("b"));
    assert_eq!(look(&survey(&dir), &[], &mut Memory::default()).new.len(), 1, "at the next look");
}

/// The original is named by what it had; so its copy, which has that now, is no other new file.
#[test]
fn a_copy_whose_original_is_emptied_while_both_are_looked_at_is_no_file_of_its_own() {
    for left in [0, 1, 40, text("b").len()] {
        let dir = Dir::new("decide-copied");
        let path = dir.write("web.log", &text("a"));
        fs::copy(&path, dir.path("web.log.1")).unwrap();
        let (listed, mut memory) = (survey(&dir), Memory::default());
        let mut look = Look::new(&listed, &[], &mut memory);
        let unknown = look.unknown().expect("reads");
        assert_eq!(unknown.len(), 2);
        fs::write(&path, &text("b")[..left]).unwrap();
        let new = look.new_files(&unknown).expect("reads");
        let names: Vec<&str> = new.iter().map(|start| &*start.partition.stream).collect();
        assert_eq!(names, [&*path], "{left}: one of the two");
        // It was, and is found where its content is.
        let known: Vec<Known> = new.iter().map(named).collect();
        let decision = self::look(&survey(&dir), &known, &mut Memory::default());
        assert_eq!(paths(&decision), [("web.log/0".to_owned(), "web.log.1".to_owned())], "{left}");
    }
}

/// As a pipeline stopped that was killed before anything of three files was sealed, which all were `web.log` one after the other.
#[test]
fn a_file_that_few_bytes_are_known_of_is_found_in_its_copy_if_nothing_of_it_was_read() {
    let dir = Dir::new("decide-few");
    let path = dir.write("web.log", b"{\"row\":\"");
    crate::thread::pause(SETTLED + Duration::from_millis(50));
    let first = look(&survey(&dir), &[], &mut Memory::default()).new;
    assert_eq!(first.len(), 1, "nothing more comes, so it is read");
    let mut known = vec![named(&first[0])];
    fs::write(&path, text("a")).unwrap();
    fs::copy(&path, dir.path("web.log.1")).unwrap();
    fs::write(&path, text("b")).unwrap();
    // What it is now was named beside it, and is in the same file.
    let second = PartitionStart {
        partition: Partition::new(path.clone(), 1),
        identity: Identity::of(&File::open(&path).unwrap()).unwrap().to_string(),
        ..first[0].clone()
    };
    known.push(named(&second));
    let mut memory = Memory::default();
    for _ in 0..=LOOKS_OF_LOST {
        let decision = look(&survey(&dir), &known, &mut memory);
        assert!(decision.refused.is_empty(), "{:?}", decision.refused);
        let wanted = [("web.log/0", "web.log.1"), ("web.log/1", "web.log")];
        assert_eq!(paths(&decision), wanted.map(|(of, at)| (of.to_owned(), at.to_owned())));
        assert!(decision.new.is_empty());
    }
    // The copy of the one that more is known of is its own.
    fs::write(dir.path("web.log.2"), text("c")).unwrap();
    let other = PartitionStart {
        partition: Partition::new(path.clone(), 2),
        identity: Identity::of(&File::open(dir.path("web.log.2")).unwrap()).unwrap().to_string(),
        ..first[0].clone()
    };
    known.push(named(&other));
    fs::copy(dir.path("web.log.2"), dir.path("web.log.3")).unwrap();
    fs::remove_file(dir.path("web.log.2")).unwrap();
    let placed = paths(&look(&survey(&dir), &known, &mut Memory::default()));
    assert!(placed.contains(&("web.log/2".into(), "web.log.3".into())), "{placed:?}");
    assert!(placed.contains(&("web.log/0".into(), "web.log.1".into())), "{placed:?}");
}

#[test]
fn a_copy_that_is_renamed_behind_each_listing_is_not_gone() {
    let dir = Dir::new("decide-renamed");
    let path = dir.write("web.log", &text("a"));
    let known = [named(&look(&survey(&dir), &[], &mut Memory::default()).new[0])];
    fs::copy(&path, dir.path("web.log.1")).unwrap();
    fs::write(&path, text("b")).unwrap();
    let mut memory = Memory::default();
    for number in 1..10 {
        let listed = survey(&dir);
        fs::rename(dir.path(&format!("web.log.{number}")), dir.path(&format!("web.log.{}", number + 1)))
            .unwrap();
        let decision = look(&listed, &known, &mut memory);
        assert!(decision.refused.is_empty(), "{number}: {:?}", decision.refused);
    }
    assert_eq!(paths(&look(&survey(&dir), &known, &mut memory)), [("web.log/0".into(), "web.log.10".into())]);
    // Deleted, it is.
    fs::remove_file(dir.path("web.log.10")).unwrap();
    let refused = (0..LOOKS_OF_LOST).flat_map(|_| look(&survey(&dir), &known, &mut memory).refused).count();
    assert_eq!(refused, 1);
}

#[test]
fn names_that_never_stand_still_are_told_once() {
    let dir = Dir::new("unsteady");
    let mut memory = Memory::default();
    for _ in 0..2 {
        let told = (0..100).filter(|_| memory.should_log_unsteady()).count();
        assert_eq!(told, 1);
        // They stand still for once, and no more.
        look(&survey(&dir), &[], &mut memory);
    }
}
