use super::*;

/// A process id that no Linux system gives: the largest is 2^22.
const NOBODY: &str = "99999999";

#[test]
fn a_directory_goes_when_its_test_passes() {
    let dir = TestDir::new("passes").unwrap();
    let path = dir.path().to_path_buf();
    fs::write(path.join("data"), "x").unwrap();
    drop(dir);
    assert!(!path.exists());
}

#[test]
fn a_directory_stays_when_its_test_panics() {
    let (send, receive) = std::sync::mpsc::channel();
    let test = std::thread::spawn(move || {
        let dir = TestDir::new("panics").unwrap();
        send.send(dir.path().to_path_buf()).unwrap();
        panic!("on purpose");
    });
    assert!(test.join().is_err());
    let path = receive.recv().unwrap();
    assert!(path.join(KEPT).exists());
    fs::remove_dir_all(path).unwrap();
}

/// In a container the next process may have the id of the one before.
#[test]
fn a_directory_that_an_earlier_process_of_this_id_has_left_is_in_nobodys_way() {
    let first = TestDir::new("again").unwrap();
    let base = first.path().parent().unwrap().to_path_buf();
    // More than this process has made so far.
    let left: Vec<PathBuf> =
        (0..200).map(|n| base.join(format!("again-{}-{n}", std::process::id()))).collect();
    let made: Vec<&PathBuf> = left.iter().filter(|path| fs::create_dir(path).is_ok()).collect();
    let second = TestDir::new("again").unwrap();
    assert!(made.iter().all(|path| *path != second.path()), "{}", second.path().display());
    made.into_iter().for_each(|path| fs::remove_dir(path).unwrap());
}

#[test]
fn names_become_one_path_segment() {
    assert_eq!(plain("a/../b c"), "a----b-c");
}

#[test]
fn the_sweep_spares_the_living_and_the_newest_kept() {
    let base = TestDir::new("sweep").unwrap();
    let living = base.path().join(format!("living-{}-0", std::process::id()));
    let dead = base.path().join(format!("dead-{NOBODY}-0"));
    let stranger = base.path().join("notes");
    for dir in [&living, &dead, &stranger] {
        fs::create_dir(dir).unwrap();
    }
    for n in 0..KEPT_MAX + 2 {
        let dir = base.path().join(format!("kept-{NOBODY}-{n}"));
        fs::create_dir(&dir).unwrap();
        let marker = fs::File::create(dir.join(KEPT)).unwrap();
        marker.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(n as u64)).unwrap();
    }
    sweep(base.path());
    assert!(living.exists() && stranger.exists());
    assert!(!dead.exists());
    let kept = |n: usize| base.path().join(format!("kept-{NOBODY}-{n}")).exists();
    assert!(!kept(0) && !kept(1), "the oldest go");
    assert!((2..KEPT_MAX + 2).all(kept), "the newest stay");
}
