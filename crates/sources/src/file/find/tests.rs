use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::*;
use crate::file::tests::Dir;

/// A name that is no text, behind the path of the folder.
fn unreadable(dir: &Dir, folder: &str, end: &[u8]) -> PathBuf {
    Path::new(&dir.path(folder)).join(OsStr::from_bytes(&[b"a'\xff", end].concat()))
}

#[test]
fn a_name_that_is_not_utf8_is_refused_wherever_a_pattern_means_it() {
    let dir = Dir::new("no-utf8");
    dir.write("b.jsonl", b"{}\n");
    std::fs::create_dir_all(dir.path("in/er")).unwrap();
    dir.write("in/er/c.jsonl", b"{}\n");
    let meant = |pattern: &str| files(&[dir.path(pattern)]);
    assert_eq!(meant("*.jsonl").unwrap(), [dir.path("b.jsonl")]);
    let cases: [(&str, bool, &[&str], &[&str]); 4] = [
        ("", false, &["*.jsonl", "a*", "**/*.jsonl"], &["*.log", "b.jsonl", "in/*/*.jsonl", "*/*.jsonl"]),
        ("in/er", false, &["in/*/*.jsonl", "in/er/a*", "**/*.jsonl"], &["*.jsonl", "in/*/c*", "in/*.jsonl"]),
        ("", true, &["*/*.jsonl", "a*/b", "**/*.jsonl"], &["*.jsonl", "in/*/*.jsonl"]),
        ("in", true, &["in/*/*.jsonl", "*/*/*.jsonl", "**/c.jsonl"], &["*.jsonl", "in/er/*.jsonl"]),
    ];
    for (folder, is_folder, refused, taken) in cases {
        let path = unreadable(&dir, folder, b".jsonl");
        match is_folder {
            true => std::fs::create_dir(&path).unwrap(),
            false => std::fs::write(&path, b"{}\n").unwrap(),
        }
        for pattern in refused {
            let error = meant(pattern).expect_err(pattern);
            assert_eq!(error.fault, SourceFault::Config);
            assert!(error.message.contains(r"a\'\xff.jsonl` is not UTF-8"), "{pattern}: {error}");
        }
        for pattern in taken {
            assert!(meant(pattern).is_ok(), "{pattern}: {:?}", meant(pattern));
        }
        match is_folder {
            true => std::fs::remove_dir(&path).unwrap(),
            false => std::fs::remove_file(&path).unwrap(),
        }
    }
}

/// The command of the message, as a shell takes it.
#[test]
fn a_name_that_is_not_utf8_is_renamed_by_the_command_that_the_message_names() {
    let dir = Dir::new("no-utf8-mv");
    std::fs::write(unreadable(&dir, "", b".jsonl"), b"{}\n").unwrap();
    let message = files(&[dir.path("*.jsonl")]).expect_err("refused").message;
    let command = message.split('`').nth(3).expect("a command").replace("NEW", &dir.path("a.jsonl"));
    assert!(
        std::process::Command::new("bash").args(["-c", &command]).status().unwrap().success(),
        "{command}"
    );
    assert_eq!(files(&[dir.path("*.jsonl")]).unwrap(), [dir.path("a.jsonl")]);
}

/// A folder that may not be searched gives another error than "not found" too, but not to who runs as root.
#[test]
fn a_file_that_cannot_be_looked_at_does_not_count_as_one_that_is_not_there() {
    let dir = Dir::new("hidden");
    let file = dir.write("b.jsonl", b"{}\n");
    std::os::unix::fs::symlink(dir.path("loop"), dir.path("loop")).unwrap();
    let meant = |path: String| files(&[path]);
    for hidden in ["loop", "loop/a.jsonl"] {
        let error = meant(dir.path(hidden)).expect_err(hidden);
        assert!(error.message.contains("cannot be inspected"), "{error}");
        let error = check(&[dir.path(hidden)], &[]).expect_err(hidden);
        assert!(error.message.contains("cannot be inspected"), "{error}");
    }
    // Neither can be there: below a file, or with a longer name than there are.
    for missing in [format!("{file}/a.jsonl"), dir.path(&"a".repeat(300)), dir.path("a.jsonl")] {
        assert_eq!(meant(missing.clone()).unwrap(), [""; 0], "{missing}");
        let error = check(&[missing], &[]).expect_err("a mistake");
        assert!(error.message.contains("does not exist"), "{error}");
    }
    // A pattern is no name.
    assert_eq!(meant(dir.path("*.jsonl")).unwrap(), [file]);
    assert_eq!(meant(dir.path(&"[ab]".repeat(80))).unwrap(), [""; 0]);
}
