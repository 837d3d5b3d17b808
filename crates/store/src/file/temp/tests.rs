use super::*;
use crate::file::tests::Folder;

#[test]
fn a_sweep_spares_the_living_and_takes_the_dead() {
    let folder = Folder::new();
    let living = TempFile::create(folder.path()).expect("makes");
    let dead = folder.path().join(FOLDER).join("1-1");
    fs::write(&dead, b"left").expect("writes");
    assert_eq!(sweep(folder.path()).expect("sweeps"), 1);
    assert!(living.path().exists());
    assert!(!dead.exists());
    let path = living.path().to_owned();
    drop(living);
    assert!(!path.exists());
    assert_eq!(sweep(folder.path()).expect("sweeps"), 0);
}

#[test]
fn a_name_that_is_taken_is_passed_over() {
    let folder = Folder::new();
    let first = TempFile::create(folder.path()).expect("makes");
    let next = COUNTER.load(Ordering::Relaxed);
    for number in next..next + 50 {
        fs::write(folder.path().join(FOLDER).join(format!("{}-{number}", std::process::id())), b"x")
            .expect("writes");
    }
    let second = TempFile::create(folder.path()).expect("makes");
    assert_ne!(first.path(), second.path());
}

#[test]
fn pieces_are_written_in_order_across_system_calls() {
    let folder = Folder::new();
    let pieces: Vec<Bytes> = (0..2_500_usize).map(|n| Bytes::from(vec![n as u8; n % 3])).collect();
    let whole: Vec<u8> = pieces.iter().flatten().copied().collect();
    let mut temp = TempFile::create(folder.path()).expect("makes");
    temp.write(&pieces).expect("writes");
    temp.write(&[Bytes::new(), Bytes::new()]).expect("writes nothing");
    temp.write(&[]).expect("writes nothing");
    assert_eq!(fs::read(temp.path()).expect("reads"), whole);
}
