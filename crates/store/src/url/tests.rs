use super::*;
use crate::Inline;

fn error(url: &str) -> StoreError {
    open_with(url, Arc::new(Inline), &Remote::default()).expect_err("refused")
}

#[test]
fn an_unknown_scheme_says_what_there_is() {
    for url in ["ftp://host", "http://host"] {
        let message = error(url).to_string();
        assert!(message.contains("`s3`") && message.contains("file:///absolute/path"), "{message}");
    }
    assert_eq!(error("file://").kind, ErrorKind::Url);
    assert_eq!(error("").kind, ErrorKind::Url);
    assert_eq!(error("memory://x").kind, ErrorKind::Url);
}

#[test]
fn a_message_never_shows_what_follows_the_scheme() {
    let message = error("s3://user:hunter2@bucket/?secret=hunter2").to_string();
    // With or without object storage in the build.
    assert!(!message.contains("hunter2"), "{message}");
}

#[test]
fn paths_with_and_without_a_scheme_lead_to_the_same_folder() {
    let folder = crate::file::tests::Folder::new();
    let path = folder.path().join("deep/store");
    let remote = Remote::default();
    let plain =
        open_with(path.to_str().expect("utf-8"), Arc::new(Inline), &Remote::default()).expect("opens");
    let url = open_with(&format!("file://{}", path.display()), Arc::new(Inline), &remote).expect("opens");
    assert_eq!(plain.describe(), url.describe());
    assert!(plain.describe().starts_with("file:///"));
    assert!(path.is_dir());
}

#[test]
fn a_file_in_the_place_of_the_root_is_refused() {
    let folder = crate::file::tests::Folder::new();
    let path = folder.path().join("file");
    std::fs::write(&path, "x").expect("writes");
    assert!(error(path.to_str().expect("utf-8")).to_string().contains("make its folder"));
    assert!(error(path.join("below").to_str().expect("utf-8")).to_string().contains("make its folder"));
}

#[test]
fn memory_is_new_each_time() {
    assert_eq!(open("memory://", &Remote::default()).expect("opens").describe(), "memory://");
}

#[tokio::test]
async fn a_store_opened_to_read_leaves_no_trace_and_takes_nothing() {
    let folder = std::env::temp_dir().join(format!("forebay-store-read-{}", std::process::id()));
    let url = format!("file://{}", folder.display());
    assert!(crate::url::open_to_read(&url, &Remote::default()).expect("absent is no error").is_none());
    assert!(!folder.exists());
    std::fs::create_dir_all(&folder).expect("a folder");
    let store = crate::url::open_to_read(&url, &Remote::default()).expect("opens").expect("it is there");
    let key = crate::Key::new("a/b").expect("a key");
    let error = store.put_if_absent(&key, vec![]).await.expect_err("only to read");
    assert_eq!(error.kind, ErrorKind::NotSupported);
    store.delete(&key).await.expect_err("only to read");
    assert_eq!(std::fs::read_dir(&folder).expect("lists").count(), 0, "no trace");
    std::fs::remove_dir(&folder).expect("removed");
}

#[test]
fn a_folder_that_cannot_be_written_or_has_no_room_is_seen_without_a_trace() {
    let folder = crate::file::tests::Folder::new();
    let path = folder.path().join("not/yet/there");
    could_write(&format!("file://{}", path.display())).expect("there is room above it");
    assert!(!folder.path().join("not").exists(), "nothing was made");
    could_write("memory://").expect("not looked at");
    could_write("s3://bucket/prefix").expect("not looked at");
    // What a start would refuse.
    let open = folder.path().join("open");
    std::fs::create_dir(&open).expect("a folder");
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("ours");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&open, &link).expect("links");
    for (refused, why) in [(open, "everybody may write"), (link, "it is a symbolic link")] {
        let url = format!("file://{}", refused.display());
        let error = could_write(&url).expect_err(why);
        let at_start = crate::url::open(&url, &Remote::default()).expect_err(why);
        assert_eq!((error.kind, error.kind), (at_start.kind, ErrorKind::NotSupported));
        assert!(error.to_string().contains(why) && at_start.to_string().contains(why), "{error}");
    }
    // The kernel's own file system has no byte free; who is not root may not write there either.
    let error = could_write("/proc/forebay").expect_err("nothing can be stored there");
    assert!(matches!(error.kind, ErrorKind::Full | ErrorKind::Permission), "{error}");
    let said = error.to_string();
    assert!(
        said.starts_with("cannot put `/proc/forebay`: ") && said.contains("Forebay continues")
            || said.contains("give the process"),
        "{said}"
    );
}
