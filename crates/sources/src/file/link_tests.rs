//! Files that symbolic and hard links lead to, and names that are given to what is no file, between runs.

use std::os::unix::fs::symlink;

use super::rotation_tests::{Run, ids, rows};
use super::tests::{Dir, append};
use super::*;

/// `containers/x.log`, a link to `pods/0.log`, as container runtimes make them.
fn linked(name: &str) -> (Dir, String) {
    let dir = Dir::new(name);
    for folder in ["containers", "pods", "others"] {
        std::fs::create_dir(dir.path(folder)).unwrap();
    }
    let real = dir.write("pods/0.log", &rows(0..100));
    symlink("../pods/0.log", dir.path("containers/x.log")).unwrap();
    (dir, real)
}

fn retarget(dir: &Dir, target: &str) {
    let link = dir.path("containers/x.log");
    std::fs::remove_file(&link).unwrap();
    symlink(target, link).unwrap();
}

#[tokio::test]
async fn a_file_behind_a_link_that_was_renamed_is_read_to_its_end_and_so_is_the_new_one() {
    let (dir, real) = linked("link-rename");
    let mut run = Run::new(&[dir.path("containers/*.log")]);
    assert_eq!(run.run().await.unwrap(), ids(0..100));
    append(&real, &rows(100..200));
    std::fs::rename(&real, dir.path("pods/0.log.2026")).unwrap();
    dir.write("pods/0.log", &rows(200..300));
    assert_eq!(run.run().await.unwrap(), ids(100..300));
    assert_eq!(run.run().await.unwrap(), ids(0..0), "and nothing twice");
    // The link leads to nothing for a moment.
    append(&real, &rows(300..310));
    std::fs::rename(&real, dir.path("pods/0.log.2027")).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(300..310));
}

#[tokio::test]
async fn a_file_behind_a_link_that_was_copied_and_truncated_is_read_to_its_end() {
    let (dir, real) = linked("link-copy");
    let mut run = Run::new(&[dir.path("containers/*.log")]);
    assert_eq!(run.run().await.unwrap(), ids(0..100));
    append(&real, &rows(100..200));
    std::fs::copy(&real, dir.path("pods/0.log.2026")).unwrap();
    std::fs::write(&real, rows(200..300)).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(100..300));
    assert_eq!(run.run().await.unwrap(), ids(0..0), "and nothing twice");
}

#[tokio::test]
async fn a_file_that_a_link_leads_to_no_more_is_read_to_its_end() {
    for target in ["../pods/1.log", "../others/1.log"] {
        let (dir, real) = linked(&format!("link-target-{}", target.len()));
        let mut run = Run::new(&[dir.path("containers/*.log")]);
        assert_eq!(run.run().await.unwrap(), ids(0..100));
        append(&real, &rows(100..200));
        dir.write(&target[3..], &rows(200..300));
        retarget(&dir, target);
        assert_eq!(run.run().await.unwrap(), ids(100..300), "{target}");
        // Where the link was first seen to lead to, also if it leads nowhere now, and the file was renamed.
        append(&real, &rows(300..310));
        std::fs::rename(&real, dir.path("pods/old")).unwrap();
        std::fs::remove_file(dir.path("containers/x.log")).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(300..310), "{target}");
    }
}

#[tokio::test]
async fn a_file_behind_a_link_that_is_gone_is_refused_unless_it_was_read_to_its_end() {
    let (dir, real) = linked("link-gone");
    append(&real, b"{\"half");
    let mut run = Run::new(&[dir.path("containers/*.log")]);
    assert_eq!(run.run().await.unwrap(), ids(0..100));
    std::fs::rename(&real, dir.path("others/away")).unwrap();
    dir.write("pods/0.log", &rows(200..300));
    let message = run.refusal().await;
    assert!(message.contains("another one than was read") && message.contains("--partition"), "{message}");
    std::fs::rename(dir.path("others/away"), dir.path("pods/back")).unwrap();
    append(&dir.path("pods/back"), b"\":1}\n");
    assert_eq!(run.run().await.unwrap(), [vec!["{\"half\":1}".to_owned()], ids(200..300)].concat());
}

#[tokio::test]
async fn a_hard_link_that_is_deleted_leaves_the_other_names_as_they_are() {
    let dir = Dir::new("hard-link");
    let first = dir.write("a.jsonl", &rows(0..3));
    std::fs::hard_link(&first, dir.path("b.jsonl")).unwrap();
    let mut run = Run::new(&[dir.path("*.jsonl")]);
    assert_eq!(run.run().await.unwrap(), [ids(0..3), ids(0..3)].concat(), "whoever made it means it");
    append(&first, &rows(3..5));
    std::fs::remove_file(&first).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(3..5), "under the name that is left");
    append(&dir.path("b.jsonl"), &rows(5..7));
    assert_eq!(run.run().await.unwrap(), ids(5..7));
    std::fs::write(&first, rows(10..12)).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(10..12), "and the name may be that of another file");
}

/// The names are relative in this one, so it has a process of its own where the folder is changed.
#[test]
fn a_file_found_in_the_present_folder_has_the_name_that_the_paths_give_it() {
    const INNER: &str = "FOREBAY_TEST_PRESENT_FOLDER";
    if std::env::var_os(INNER).is_none() {
        let dir = Dir::new("present");
        let name = "file::link_tests::a_file_found_in_the_present_folder_has_the_name_that_the_paths_give_it";
        let mut inner = std::process::Command::new(std::env::current_exe().unwrap());
        let inner = inner.args([name, "--exact"]).env(INNER, "1").current_dir(dir.path(""));
        assert!(inner.output().unwrap().status.success());
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        std::fs::write("a.jsonl", rows(0..3)).unwrap();
        let mut run = Run::new(&["*.jsonl".to_owned()]);
        assert_eq!(run.run().await.unwrap(), ids(0..3));
        append("a.jsonl", &rows(3..4));
        std::fs::rename("a.jsonl", "b.jsonl").unwrap();
        assert_eq!(run.run().await.unwrap(), ids(3..4));
        // Both names have been read, and one goes.
        std::fs::hard_link("b.jsonl", "c.jsonl").unwrap();
        assert_eq!(run.run().await.unwrap(), ids(0..4));
        std::fs::remove_file("b.jsonl").unwrap();
        append("c.jsonl", &rows(4..5));
        assert_eq!(run.run().await.unwrap(), ids(4..5));
    });
}

#[allow(clippy::disallowed_methods, reason = "whoever waits for a FIFO must not hold the test up")]
#[tokio::test]
async fn a_name_that_is_given_to_a_fifo_has_no_file() {
    let dir = Dir::new("fifo");
    let fifo = |path: &str| {
        std::fs::remove_file(path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    // Whoever opens a FIFO to read it waits for somebody who writes.
    let soon = async |run: &mut Run| {
        tokio::time::timeout(std::time::Duration::from_secs(60), run.run()).await.expect("nothing waits")
    };
    let (whole, half) = (dir.write("a.jsonl", &rows(0..3)), dir.write("b.jsonl", &rows(10..13)));
    append(&half, b"{\"half");
    let mut run = Run::new(&[dir.path("*.jsonl")]);
    assert_eq!(run.run().await.unwrap(), [ids(0..3), ids(10..13)].concat());
    fifo(&whole);
    append(&half, b"\":1}\n{\"half");
    assert_eq!(soon(&mut run).await.unwrap(), ["{\"half\":1}"], "the others are read on");
    fifo(&half);
    let error = soon(&mut run).await.expect_err("it was not read to its end");
    assert!(error.fault == SourceFault::Refused && error.message.contains("is gone"), "{error}");
    let mut named = Run::new(std::slice::from_ref(&whole));
    let error = soon(&mut named).await.expect_err("a FIFO is no file");
    assert!(error.message.contains("no regular file"), "{error}");
}

/// What `forget` advises instead, if it is asked to forget the old name.
#[tokio::test]
async fn a_file_that_was_renamed_is_read_on_if_both_of_its_names_are_meant() {
    let dir = Dir::new("both-names");
    let (old, new) = (dir.write("a.jsonl", &rows(0..3)), dir.path("b.jsonl"));
    let mut before = Run::new(std::slice::from_ref(&old));
    assert_eq!(before.run().await.unwrap(), ids(0..3));
    std::fs::rename(&old, &new).unwrap();
    append(&new, &rows(3..5));
    let mut run = Run::new(&[new.clone(), old]);
    run.known = before.known;
    assert_eq!(run.run().await.unwrap(), ids(3..5));
    append(&new, &rows(5..6));
    assert_eq!(run.run().await.unwrap(), ids(5..6));
}
