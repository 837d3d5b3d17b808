use super::*;

#[test]
fn a_temporary_file_that_a_killed_process_has_left_is_in_nobodys_way() {
    let next = NUMBER.load(Ordering::Relaxed);
    let left: Vec<PathBuf> = (next..next + 20).map(temporary).collect();
    // Some may be taken by other tests just now.
    let made: Vec<&PathBuf> = left.iter().filter(|path| File::create_new(path).is_ok()).collect();
    let file = unnamed();
    made.iter().for_each(|path| drop(std::fs::remove_file(path)));
    let mut file = file.expect("another name is free");
    file.write_all(b"kept").expect("it can be written");
}
