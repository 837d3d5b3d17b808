use std::time::Duration;

use super::*;

const DELAY: Delay = Delay { put: Duration::from_millis(60), get: Duration::from_millis(30) };

#[test]
fn what_a_start_has_asked_is_taken_off() {
    let before = Counted { puts: 1, gets: 2, put_bytes: 5, ..Counted::default() };
    let now = Counted { puts: 2, ..before };
    let since = Traffic(Some(now)).since(Traffic(Some(before))).counted();
    assert_eq!(since, Some(Counted { puts: 1, gets: 0, put_bytes: 0, ..Counted::default() }));
}

#[tokio::test]
async fn keys_are_written_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let dir = std::env::temp_dir().join(format!("forebay-bench-keys-{}", std::process::id()));
    // An earlier process of this id may have left one.
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir(&dir).expect("a folder of its own");
    let bucket = Bucket {
        endpoint: "http://127.0.0.1:9".to_owned(),
        name: "bucket".to_owned(),
        region: "here".to_owned(),
        access_key: "id".to_owned(),
        secret_key: "secret".to_owned(),
    };
    let store = Store::start(Some(&bucket), DELAY, "bench", "run-1", &dir, 0).await.expect("it starts");
    let lines = store.lines("log");
    let modes = ["access-key", "secret-key"].map(|name| {
        let found = std::fs::metadata(dir.join(name)).expect("it is written");
        found.permissions().mode() & 0o777
    });
    std::fs::remove_dir_all(&dir).expect("it goes");
    assert_eq!(modes, [0o600, 0o600]);
    assert!(lines.contains("secret_key: file:") && !lines.contains("secret\n"), "{lines}");
}
