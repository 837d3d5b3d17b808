use std::path::Path;

use super::*;

/// A folder of its own for a test, gone with it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-claims-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn write(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, format!("{{\"of\": \"{name}\"}}\n")).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_file_that_two_patterns_match_is_named_whatever_its_names_are() {
    let folder = Folder::new("patterns");
    let (one, two) = (write(folder.path(), "a-1.log"), write(folder.path(), "b-1.log"));
    let pattern = |text: &str| vec![folder.path().join(text).to_str().expect("UTF-8").to_owned()];
    let (all, a, b) = (pattern("*.log"), pattern("a-*.log"), pattern("b-*.log"));
    assert_eq!(shared(&[("x", &a), ("y", &b)]), []);
    let found = shared(&[("x", &a), ("y", &all)]);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].0 == 1 && found[0].1.starts_with(&format!("`{one}` is read by input `x` already, and")),
        "{found:?}"
    );
    // By another name.
    let link = folder.path().join("c-1.log");
    std::fs::hard_link(&two, &link).expect("a link");
    let found = shared(&[("x", &b), ("y", &pattern("c-*"))]);
    let words = format!("`{}` is read by input `x` already, as `{two}`", link.display());
    assert!(found[0].1.starts_with(&words), "{found:?}");
    assert_eq!(shared(&[("x", &all)]), [], "one input may read a file under each of its names");
    // A link to one of two hard links, whichever of the names comes last.
    for (of, name) in [(&two, "0-1.log"), (&two, "d-1.log"), (&link.display().to_string(), "d-1.log")] {
        let symbolic = folder.path().join(name);
        std::os::unix::fs::symlink(of, &symbolic).expect("a link");
        let found = shared(&[("x", &all)]);
        assert!(found.len() == 1 && found[0].1.contains("are the same file"), "{name}: {found:?}");
        std::fs::remove_file(&symbolic).expect("removed");
    }
    std::fs::remove_file(&link).expect("removed");
    std::os::unix::fs::symlink(&one, &link).expect("a link");
    let found = shared(&[("x", &all)]);
    assert!(found[0].1.contains("are the same file"), "{found:?}");
    let written_twice = vec![one.clone(), format!("{}/./a-1.log", folder.path().display())];
    assert_eq!(shared(&[("x", &written_twice)]).len(), 1);
    // What cannot be read is for others to tell.
    assert_eq!(shared(&[("x", &["/nowhere/*".to_owned()]), ("y", &["[".to_owned()])]), []);
}

#[test]
fn an_input_that_takes_its_files_again_gives_the_others_up() {
    let folder = Folder::new("again");
    let (one, two) = (write(folder.path(), "1"), write(folder.path(), "2"));
    let claims = Claims::default();
    assert_eq!(claims.take("x", [&*one, &*two].into_iter()), Ok(()));
    assert!(claims.take("y", [&*two].into_iter()).is_err());
    assert_eq!(claims.take("x", [&*one].into_iter()), Ok(()));
    assert_eq!(claims.take("y", [&*two].into_iter()), Ok(()));
    assert!(claims.take("x", [&*one, &*two].into_iter()).is_err());
    assert_eq!(claims.take("y", [&*one].into_iter()), Ok(()), "an input that is refused has none");
}

/// A file of `x` was deleted, and its inode is that of a new file of `y` before `x` has found another new one.
#[test]
fn the_inode_of_a_deleted_file_of_another_input_is_nobodys() {
    let folder = Folder::new("inode");
    let path = write(folder.path(), "1");
    let file = Node::of(&std::fs::metadata(&path).expect("it is there"));
    if file.birth_ns == 0 {
        // Nobody can tell the two.
        return;
    }
    let claims = Claims::default();
    assert_eq!(claims.take("x", [&*path].into_iter()), Ok(()));
    for claim in claims.0.lock().expect("no panic").values_mut() {
        (claim.path, claim.file.birth_ns) = ("gone".to_owned(), file.birth_ns - 1);
    }
    assert_eq!(claims.take("y", [&*path].into_iter()), Ok(()));
    assert!(claims.take("x", [&*path].into_iter()).is_err(), "it is that of `y` now");
}
