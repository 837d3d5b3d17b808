use std::sync::Barrier;

use super::*;
use crate::file::temp;
use crate::file::tests::Folder;

fn disk(folder: &Folder) -> Disk {
    let disk = Disk::open(&folder.path().join("root")).expect("opens");
    disk.faults.take();
    disk
}

fn key() -> Key {
    Key::new("orders/root").expect("a key")
}

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn swap(disk: &Disk, expected: Option<&Tag>, text: &str) -> Result<Swap, StoreError> {
    disk.compare_and_set(&key(), expected, &body(text))
}

fn done(disk: &Disk, expected: Option<&Tag>, text: &str) -> Tag {
    match swap(disk, expected, text).expect("swaps") {
        Swap::Done(tag) => tag,
        Swap::Refused => panic!("nobody else writes it"),
    }
}

fn read(disk: &Disk) -> Option<(Bytes, Tag)> {
    disk.read_register(&key(), 1 << 20).expect("reads")
}

fn names(disk: &Disk) -> usize {
    fs::read_dir(disk.root().join("orders/.root")).expect("reads").count()
}

#[test]
fn writers_in_processes_of_their_own_lose_no_increment() {
    const WRITERS: u64 = 4;
    const EACH: u64 = 40;
    let folder = Folder::new();
    done(&disk(&folder), None, "0 begin");
    let begin = Barrier::new(WRITERS as usize);
    std::thread::scope(|threads| {
        for writer in 0..WRITERS {
            let (folder, begin) = (&folder, &begin);
            threads.spawn(move || {
                // A disk of its own has no memory in common with the others.
                let disk = disk(folder);
                begin.wait();
                let mut counted = 0;
                while counted < EACH {
                    let (bytes, tag) = read(&disk).expect("is there");
                    let text = std::str::from_utf8(&bytes).expect("text");
                    let count: u64 = text.split(' ').next().expect("a count").parse().expect("a number");
                    let next = format!("{} {writer} {counted}", count + 1);
                    counted += u64::from(swap(&disk, Some(&tag), &next).expect("answers") != Swap::Refused);
                }
            });
        }
    });
    let disk = disk(&folder);
    let (bytes, _) = read(&disk).expect("is there");
    assert!(bytes.starts_with(format!("{} ", WRITERS * EACH).as_bytes()), "{bytes:?}");
    assert_eq!(names(&disk), 2, "the pointer and its value; losers leave nothing");
    assert_eq!(fs::read_dir(disk.root().join(temp::FOLDER)).expect("reads").count(), 0);
}

#[test]
fn racing_creators_have_one_winner_and_leave_no_folder() {
    for _ in 0..20 {
        let folder = Folder::new();
        let begin = Barrier::new(4);
        let created: usize = std::thread::scope(|threads| {
            let create = |writer: usize| {
                let (folder, begin) = (&folder, &begin);
                move || {
                    let disk = disk(folder);
                    begin.wait();
                    usize::from(
                        swap(&disk, None, &format!("writer {writer}")).expect("answers") != Swap::Refused,
                    )
                }
            };
            let writers: Vec<_> = (0..4).map(|writer| threads.spawn(create(writer))).collect();
            writers.into_iter().map(|writer| writer.join().expect("no panic")).sum()
        });
        assert_eq!(created, 1);
        let disk = disk(&folder);
        assert_eq!((read(&disk).is_some(), names(&disk)), (true, 2));
        assert_eq!(fs::read_dir(disk.root().join(temp::FOLDER)).expect("reads").count(), 0);
    }
}

#[test]
fn the_value_is_durable_before_the_pointer_and_the_pointer_before_the_answer() {
    use Step::*;
    let folder = Folder::new();
    let disk = disk(&folder);
    let first = done(&disk, None, "0");
    disk.faults.take();
    done(&disk, Some(&first), "1");
    assert_eq!(disk.faults.take(), [CreateTemp, WriteTemp, Sync, Link, Sync]);
}

#[test]
fn another_process_makes_what_it_reads_durable_and_does_so_once() {
    let folder = Folder::new();
    let writer = disk(&folder);
    let first = done(&writer, None, "0");
    let reader = disk(&folder);
    read(&reader);
    assert!(reader.faults.take().contains(&Step::Sync));
    read(&reader);
    assert_eq!(reader.faults.take(), [], "the same value costs nothing");
    done(&writer, Some(&first), "1");
    read(&reader);
    assert_eq!(reader.faults.take(), [Step::Sync], "only the register's own folder");
}

#[test]
fn a_failed_fsync_behind_the_rename_is_unknown_and_before_it_nothing_happened() {
    for (after, effect, text) in [(0, Effect::None, "0"), (1, Effect::Unknown, "1")] {
        let folder = Folder::new();
        let broken = disk(&folder);
        let first = done(&broken, None, "0");
        broken.faults.fail(Step::Sync, after, io::ErrorKind::Other);
        let error = swap(&broken, Some(&first), "1").expect_err("made to fail");
        assert_eq!((error.kind, error.effect), (ErrorKind::SyncFailed, effect), "{error}");
        let (found, _) = read(&disk(&folder)).expect("is there");
        assert_eq!(found, body(text));
    }
}

/// A network file system may give up on a rename, and make it a moment later.
#[test]
fn a_pointer_that_is_renamed_behind_its_failed_call_has_its_value() {
    let folder = Folder::new();
    let disk = disk(&folder);
    let first = done(&disk, None, "0");
    disk.faults.fail(Step::Link, 0, io::ErrorKind::TimedOut);
    let error = swap(&disk, Some(&first), "1").expect_err("no answer in time");
    assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::Unknown), "{error}");
    assert_eq!(read(&disk).expect("is there").0, body("0"));

    let register = disk.root().join("orders/.root");
    let names = fs::read_dir(&register).expect("reads").map(|entry| entry.expect("an entry").file_name());
    let mut values = names.filter_map(|name| Some(name.to_str()?.strip_prefix(VALUE)?.to_owned()));
    let late = values.find(|tag| tag != first.as_str()).expect("the value that the rename was for");
    let pointer = |tag: &str| register.join(format!("{POINTER}{tag}"));
    fs::rename(pointer(first.as_str()), pointer(&late)).expect("renames");
    let (found, tag) = read(&disk).expect("is there");
    assert_eq!((found, tag.as_str()), (body("1"), late.as_str()));
    assert_eq!(swap(&disk, Some(&first), "1").expect("answers"), Swap::Refused);

    // What is known to have failed leaves nothing.
    disk.faults.fail(Step::Link, 0, io::ErrorKind::StorageFull);
    let before = self::names(&disk);
    let error = swap(&disk, Some(&tag), "2").expect_err("the disk is full");
    assert_eq!((error.kind, error.effect), (ErrorKind::Full, Effect::None), "{error}");
    assert_eq!(self::names(&disk), before);
}

#[test]
fn what_dead_writers_left_is_removed_and_what_living_ones_hold_is_not() {
    let folder = Folder::new();
    let disk = disk(&folder);
    let mut tag = done(&disk, None, "0");
    let register = disk.root().join("orders/.root");
    fs::write(register.join("v.1-1-dead"), "of a writer that died before its rename").expect("writes");
    let held = File::create(register.join("v.1-2-held")).expect("makes");
    held.try_lock().expect("nobody else");
    for number in 1..=SWEEP_EVERY {
        tag = done(&disk, Some(&tag), &number.to_string());
    }
    assert!(!register.join("v.1-1-dead").exists());
    assert!(register.join("v.1-2-held").exists(), "its writer may still rename the pointer");

    let left = disk.root().join(temp::FOLDER).join("4711-0.d");
    fs::create_dir(&left).expect("makes");
    fs::write(left.join("p.0-1-x"), "").expect("writes");
    Disk::open(disk.root()).expect("opens");
    assert!(!left.exists(), "the folder of a creator that died");
}

#[test]
fn a_register_that_says_nothing_is_damaged_and_not_absent() {
    let folder = Folder::new();
    let disk = disk(&folder);
    done(&disk, None, "0");
    let register = disk.root().join("orders/.root");
    for entry in fs::read_dir(&register).expect("reads") {
        let entry = entry.expect("an entry");
        if entry.file_name().to_string_lossy().starts_with(POINTER) {
            fs::remove_file(entry.path()).expect("removes");
        }
    }
    let error = disk.read_register(&key(), 100).expect_err("damaged");
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    assert_eq!(swap(&disk, None, "1").expect("answers"), Swap::Refused, "no creation may hide it");
}

#[test]
fn a_pointer_whose_value_is_gone_is_damage_and_no_store_that_is_away() {
    let folder = Folder::new();
    let disk = disk(&folder);
    let first = done(&disk, None, "0");
    let register = disk.root().join("orders/.root");
    fs::remove_file(register.join(format!("{VALUE}{}", first.as_str()))).expect("removes");
    let error = disk.read_register(&key(), 100).expect_err("damaged");
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    let pointer = format!("`p.{}` names a value that is not there", first.as_str());
    assert!(error.to_string().contains(&pointer), "{error}");
    assert_eq!(swap(&disk, None, "1").expect("answers"), Swap::Refused, "no creation may hide it");
}

#[test]
fn a_register_whose_folder_was_removed_is_made_again() {
    let folder = Folder::new();
    let disk = disk(&folder);
    done(&disk, None, "0");
    fs::remove_dir_all(disk.root().join("orders")).expect("removes");
    assert_eq!(read(&disk), None);
    done(&disk, None, "1");
    assert_eq!(read(&disk).expect("is there").0, body("1"));
}
