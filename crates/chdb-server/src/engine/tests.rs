use super::*;

#[test]
fn a_file_of_ours_is_never_written_through_a_link() {
    let folder = std::env::temp_dir().join(format!("engine-put-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (target, link) = (folder.join("target"), folder.join("users.xml"));
    fs::write(&target, "before").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    put(&link, "ours").unwrap();
    put(&link, "ours again").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "before");
    assert!(link.symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(&link).unwrap(), "ours again");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_data_folder_that_everybody_may_write_to_is_refused_and_says_what_to_do() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("engine-open-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let error = Engine::start(&folder, false, None).err().unwrap().to_string();
    assert!(error.contains("everybody may write to it; name a folder with --path"), "{error}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing was written");
    fs::remove_dir_all(&folder).unwrap();
}
