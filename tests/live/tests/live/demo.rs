//! What a newcomer runs first. It brings its own server and needs no broker.

use std::time::Duration;

use live::case::binary;
use testkit::{HttpClient, HttpError, Service, Spawn, TestDir, available, workspace_dir};

/// It takes 3 s; a busy machine gets more.
const END_MAX: Duration = live::PATIENCE;

#[test]
fn the_demo_says_that_its_table_is_right_and_leaves_no_server_behind() {
    if !available(&[Service::ClickHouse]) {
        return;
    }
    let dir = TestDir::new("demo").expect("the test needs a directory");
    let output = Spawn::new("demo", binary().expect("the program"))
        .args(["demo", "--uniques", "20000", "--dir"])
        .arg(dir.path().join("demo"))
        .env("FOREBAY_LIBCHDB", workspace_dir().join(".cache/libchdb/libchdb.so"))
        .run(dir.path(), END_MAX)
        .and_then(testkit::Output::success);
    let said = output.expect("it ends with code 0").stdout;

    // 20,000 events, a tenth of them twice near by, a twentieth far away, a hundredth from another publisher.
    assert!(said.contains("23 200 records read"), "{said}");
    assert!(said.contains(": 20 000 written, 3 200 duplicates dropped, 0 dead letters\n"), "{said}");
    for what in ["rows in the table", "unique event ids", "content checksum"] {
        let line =
            said.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}: {said}"));
        assert!(line.ends_with("   right"), "{line}");
    }
    assert!(said.contains("\nEvery event is in the table exactly once.\n"), "{said}");

    let curl = said.lines().find_map(|line| line.trim().strip_prefix("curl ")).expect("how to ask the table");
    let url = curl.split(' ').next().expect("an address");
    let (login, address) = url.split_once('@').expect("the token is in it");
    let asked = HttpClient::new(&format!("http://{address}")).get("/");
    assert!(matches!(asked, Err(HttpError::Connect(_))), "nobody listens at {address} any more: {asked:?}");
    let token = login.strip_prefix("http://default:").expect("a user and a token");
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{url}");
    assert!(said.contains(&format!("--token {token} &")), "the server can be started with it again: {said}");
}
