use super::*;

#[test]
fn the_current_folder_wins_over_the_parents_of_the_executable() {
    let base = std::env::temp_dir().join(format!("locate-{}", std::process::id()));
    let (here, there) = (base.join("here"), base.join("there"));
    for folder in [&here, &there] {
        std::fs::create_dir_all(folder.join(".cache/libchdb")).unwrap();
    }
    let executable = there.join("target/debug/forebay");
    assert_eq!(cached(Some(&here), Some(&executable)), None);
    std::fs::write(there.join(CACHED), b"x").unwrap();
    assert_eq!(cached(Some(&here), Some(&executable)), Some(there.join(CACHED)));
    std::fs::write(here.join(CACHED), b"x").unwrap();
    assert_eq!(cached(Some(&here), Some(&executable)), Some(here.join(CACHED)));
    std::fs::remove_dir_all(base).unwrap();
}
