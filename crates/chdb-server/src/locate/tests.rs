use std::os::unix::fs::PermissionsExt;

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("locate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_working_directory_and_the_loaders_search_are_no_places() {
    let here = std::env::current_dir().unwrap();
    for place in places(Some(Path::new("/opt/forebay/bin/forebay"))) {
        assert!(place.is_absolute() && !place.starts_with(&here), "{}", place.display());
    }
    let expected = ["/opt/forebay/bin/libchdb.so", "/usr/local/lib/libchdb.so", "/usr/lib/libchdb.so"];
    assert_eq!(places(Some(Path::new("/opt/forebay/bin/forebay"))), expected.map(PathBuf::from));
}

#[test]
fn a_cache_counts_beside_a_projects_lock_file_only() {
    let folder = Folder::new("project");
    let cached = folder.file("project/.cache/libchdb/libchdb.so");
    folder.file(".cache/libchdb/libchdb.so");
    let executable = folder.0.join("project/target/debug/forebay");
    assert!(
        !places(Some(&executable)).contains(&cached),
        "no lock file: any folder above could be anybody's"
    );
    folder.file("project/Cargo.lock");
    let found: Vec<PathBuf> = places(Some(&executable)).into_iter().filter(|file| file.is_file()).collect();
    assert_eq!(found.first(), Some(&cached));
    assert!(!found.contains(&folder.0.join(".cache/libchdb/libchdb.so")));
}

#[test]
fn a_file_of_another_user_or_open_to_all_is_not_loaded() {
    let folder = Folder::new("trust");
    let file = folder.file("lib/libchdb.so");
    let own = fs::metadata(&file).unwrap().uid();
    assert!(trusted(&file, own).is_ok());
    if own != 0 {
        assert!(trusted(&file, own + 1).unwrap_err().to_string().contains("another user"));
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(trusted(&file, own).unwrap_err().to_string().contains("everybody"));
    assert!(named_file(&file).unwrap_err().to_string().contains("everybody"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(named_file(&file).unwrap(), file.canonicalize().unwrap());
    fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(trusted(&file, own).unwrap_err().to_string().contains("everybody"));
    fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(trusted(&file, own).is_ok(), "a sticky folder");
}

#[test]
fn of_a_link_the_folder_that_it_leads_to_counts_too() {
    let folder = Folder::new("link");
    let (file, link) = (folder.file("far/libchdb.so"), folder.file("near/libchdb.so"));
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let own = fs::metadata(&file).unwrap().uid();
    assert!(trusted(&link, own).is_ok());
    fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = trusted(&link, own).unwrap_err().to_string();
    assert!(error.contains("far") && error.contains("everybody"), "{error}");
    fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(link.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(trusted(&link, own).is_err(), "whoever may replace the link decides what is loaded");
}

#[test]
fn a_named_file_that_is_not_there_is_an_error() {
    let error = named_file(Path::new("/nowhere/libchdb.so")).unwrap_err().to_string();
    assert!(error.contains("FOREBAY_LIBCHDB") && error.contains("/nowhere/libchdb.so"), "{error}");
}
