use std::io::Write;
use std::path::{Path, PathBuf};

use super::*;

/// A folder that goes with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-files-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &str) -> File {
    File::open(path).unwrap()
}

fn of(path: &str) -> Identity {
    Identity::of(&open(path)).unwrap()
}

fn append(path: &str, bytes: &[u8]) {
    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_file_of_any_length_stays_itself_while_it_grows() {
    let dir = Dir::new("identity");
    for length in [0, 1, 15, 16, 17, 63, 64, 100, 255, 256, 1023, 1024, 1025, 5000] {
        let path = dir.write("a", &vec![b'x'; length]);
        let first = of(&path);
        assert_eq!(Identity::parse(&first.to_string()), Some(first.clone()), "its text says all of it");
        for more in [1, 14, 50, 2000] {
            append(&path, &vec![b'y'; more]);
            assert_eq!(first.compare(&open(&path)).unwrap(), Likeness::Same, "{length} and {more}");
        }
    }
}

#[test]
fn what_became_of_a_file_is_told_by_its_node_and_its_bytes() {
    let dir = Dir::new("likeness");
    let text: Vec<u8> = (0..200).flat_map(|n: u32| format!("line {n}\n").into_bytes()).collect();
    for length in [20, 64, 300, 1024, text.len()] {
        let path = dir.write("a", &text[..length]);
        let first = of(&path);
        let became = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            first.compare(&open(&path)).unwrap()
        };
        assert_eq!(became(&text[..length - 1]), if length > 1024 { Likeness::Same } else { Likeness::Cut });
        assert_eq!(became(&text[..5]), Likeness::Cut, "{length}: nothing says that it is another");
        assert_eq!(became(b""), Likeness::Emptied);
        assert_eq!(became(&text[5..]), Likeness::Overwritten);
        assert_eq!(became(b"another line 17\n"), Likeness::Overwritten, "{length}: by its first 16 bytes");
        assert_eq!(became(&text[..length]), Likeness::Same);
        let copy = dir.write("b", &text);
        let expected = if length >= 64 { Likeness::Copy } else { Likeness::Other };
        assert_eq!(first.compare(&open(&copy)).unwrap(), expected, "{length}");
        let other = dir.write("c", &text[5..]);
        assert_eq!(first.compare(&open(&other)).unwrap(), Likeness::Other);
        let renamed = dir.path("d");
        std::fs::rename(&path, &renamed).unwrap();
        assert_eq!(first.compare(&open(&renamed)).unwrap(), Likeness::Same, "a name is no part of it");
        assert!(!Path::new(&path).exists());
    }
}

#[test]
fn identities_of_earlier_programs_are_understood() {
    let dir = Dir::new("earlier");
    let path = dir.write("a", b"one\ntwo\n");
    let metadata = std::fs::metadata(&path).unwrap();
    let hash = xxhash_rust::xxh3::xxh3_64(b"one\ntwo\n");
    let text = format!("{}:{}:8:{hash:016x}", metadata.ino(), birth_ns(&metadata));
    let identity = Identity::parse(&text).expect("it was written by version 0.1");
    append(&path, b"three\n");
    assert_eq!(identity.compare(&open(&path)).unwrap(), Likeness::Same);
    for text in ["", "of-another-stream", "1:2:3", "2:1:2:3:x", "a:b:c:d", "2:1:2:3:16=zz"] {
        assert_eq!(Identity::parse(text), None, "{text}");
    }
}

#[test]
fn a_file_that_begins_alike_has_an_identity_of_all_that_it_has_now() {
    let dir = Dir::new("begins");
    let path = dir.write("a", b"one\n");
    let first = of(&path);
    append(&path, b"two\n");
    let grown = first.begins_like(&open(&path)).unwrap().expect("it has grown");
    assert_eq!(grown, of(&path));
    let copy = dir.write("b", b"one\ntwo\nthree\n");
    let copied = grown.begins_like(&open(&copy)).unwrap().expect("it begins alike");
    assert!(copied.node().is(&of(&copy).node()) && !copied.node().is(&first.node()));
    for other in [&b"one\n"[..], b"", b"one\ntWo\nthree\n"] {
        std::fs::write(&path, other).unwrap();
        assert_eq!(grown.begins_like(&open(&path)).unwrap(), None, "{other:?}");
    }
}

#[test]
fn a_beginning_is_of_one_content_though_the_file_is_written_over_meanwhile() {
    let (old, new) = (b"an old beginning".to_vec(), b"a new beginning, and more of it".to_vec());
    for (calls_of_old, wanted) in [(0, &new), (1, &new), (2, &new), (9, &old)] {
        let mut calls = 0;
        let mut read_at = |out: &mut [u8], offset: u64| {
            calls += 1;
            let content = if calls <= calls_of_old { &old } else { &new };
            let rest = content.get(offset as usize..).unwrap_or_default();
            let read = rest.len().min(out.len());
            out[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        };
        assert_eq!(first_of(1024, &mut read_at).unwrap(), *wanted, "{calls_of_old} calls of the old one");
    }
    // One that never stands still has none.
    let mut calls = 0;
    let mut read_at = |out: &mut [u8], offset: u64| {
        calls += 1;
        out[0] = calls;
        Ok(usize::from(offset == 0))
    };
    assert_eq!(first_of(1024, &mut read_at).unwrap(), b"");
}

#[test]
fn the_path_behind_a_link_is_kept_in_the_text_and_compares_with_nothing() {
    let folder = std::env::temp_dir().join(format!("forebay-identity-{}-%:link\n", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (file, link) = (folder.join("a:1%.log"), folder.join("b.log"));
    std::fs::write(&file, b"{\"some\":\"line\"}\n").expect("written");
    drop(std::fs::remove_file(&link));
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let path = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    let plain = of(&path(&file));
    assert_eq!(plain.clone().reached_by(&path(&file)), plain, "no link leads there");
    let linked = plain.clone().reached_by(&path(&link));
    let text = linked.to_string();
    assert!(text.contains("a%3a1%25.log") && !text.contains('\n'), "{text}");
    assert_eq!(Identity::parse(&text), Some(linked.clone()));
    let real = std::fs::canonicalize(&file).expect("it is there");
    assert_eq!(linked.real(), real.to_str());
    assert_eq!(linked.compare(&File::open(&file).expect("it opens")).expect("it is read"), Likeness::Same);
    for wrong in ["%", "%4", "%zz", "%ff"] {
        assert_eq!(Identity::parse(&format!("{plain}:{wrong}")), None, "{wrong}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}
