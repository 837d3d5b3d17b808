//! The server as a process of its own, with real clients against it.
//!
//! Skips, and says so, where libchdb is not there; `clients.py` also where Python or clickhouse-connect is not.
// A test of a process lives in wall time, and clippy does not see helpers of an integration test as tests.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[path = "live/hostile.rs"]
mod hostile;

/// A server on a port of its own, killed when the test ends.
struct Server {
    child: Child,
    address: String,
    token: Option<String>,
}

impl Server {
    fn start(path: &Path, extra: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chdb-server"));
        if let Some(library) = library() {
            command.env("FOREBAY_LIBCHDB", library);
        }
        let mut child = command
            .args(["--http", "127.0.0.1:0", "--path"])
            .arg(path)
            .args(extra)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut token = None;
        let address = loop {
            let line = lines.next().expect("the server says where it listens");
            match (line.strip_prefix("token "), line.strip_prefix("listening on ")) {
                (Some(text), _) => token = Some(text.to_owned()),
                (None, Some(address)) => break address.to_owned(),
                (None, None) => panic!("{line}"),
            }
        };
        Server { child, address, token }
    }

    /// Sends raw bytes and returns everything until the server closes.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends one request and returns the status and the body.
    fn send(&self, target: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A refusal may come before the body is taken, and then the rest of it cannot be sent.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    fn sql(&self, sql: &str) -> String {
        let (status, body) = self.send("/", sql.as_bytes());
        assert_eq!(status, 200, "{sql}: {body}");
        body.trim_end().to_owned()
    }

    fn signal(&self, name: &str) {
        let done =
            Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which is what some tests are about.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that is removed again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("chdb-server-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether libchdb can be found, by the same rule as the server's; a test without it says that it did nothing.
fn skipped(test: &str) -> bool {
    let cached = |base: &Path| base.join(".cache/libchdb/libchdb.so").is_file();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = std::env::var_os("FOREBAY_LIBCHDB").is_some() || here.ancestors().any(cached);
    if !found {
        testkit::skip(&format!("{test}: libchdb is not there; `scripts/setup demo` fetches it"));
    }
    !found
}

/// Points the servers at the library of this checkout, wherever the build folder is.
fn library() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().map(|base| base.join(".cache/libchdb/libchdb.so")).find(|file| file.is_file())
}

fn start(folder: &Folder, extra: &[&str]) -> Server {
    Server::start(&folder.0, &[&["--no-token"], extra].concat())
}

const TABLE: &str = "CREATE TABLE t (a Int32, b String DEFAULT 'none') ENGINE = MergeTree ORDER BY a \
    SETTINGS non_replicated_deduplication_window = 100";

#[test]
fn answered_rows_survive_a_kill() {
    if skipped("answered_rows_survive_a_kill") {
        return;
    }
    let folder = Folder::new("kill");
    let server = start(&folder, &[]);
    server.sql(TABLE);
    server.sql("INSERT INTO t (a) SELECT number FROM numbers(1000)");
    let target = "/?insert_deduplication_token=x&query=INSERT+INTO+t+FORMAT+TSV";
    assert_eq!(server.send(target, b"5000\tx\n").0, 200);
    let begun =
        |server: &Server| server.sql("SELECT toUnixTimestamp(now() - uptime())").parse::<i64>().unwrap();
    let first = begun(&server);
    std::thread::sleep(Duration::from_millis(2500));
    assert!((begun(&server) - first).abs() <= 1, "the start time stands still, to the second");
    drop(server);

    let server = start(&folder, &[]);
    assert!(begun(&server) >= first + 2, "a restart shows in the start time");
    assert_eq!(server.sql("SELECT count(), max(a) FROM t"), "1001\t5000");
    assert_eq!(server.send(target, b"5000\tx\n").0, 200);
    assert_eq!(server.sql("SELECT count() FROM t"), "1001", "the token is remembered");
}

#[test]
fn a_termination_lets_running_requests_finish_and_exits_with_zero() {
    if skipped("a_termination_lets_running_requests_finish_and_exits_with_zero") {
        return;
    }
    let folder = Folder::new("term");
    let mut server = start(&folder, &[]);
    server.sql(TABLE);
    std::thread::scope(|scope| {
        let shared = &server;
        let slow = scope.spawn(move || shared.sql("INSERT INTO t (a) SELECT sleep(3) FROM numbers(1)"));
        while shared.sql("SELECT count() FROM system.processes WHERE query LIKE 'INSERT%'") != "1" {
            assert!(!slow.is_finished());
        }
        shared.signal("TERM");
        assert_eq!(slow.join().unwrap(), "");
    });
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(start(&folder, &[]).sql("SELECT count() FROM t"), "1");
}

#[test]
fn a_termination_ends_a_request_that_takes_too_long() {
    if skipped("a_termination_ends_a_request_that_takes_too_long") {
        return;
    }
    let folder = Folder::new("late");
    let mut server = start(&folder, &["--stop-wait", "1"]);
    std::thread::scope(|scope| {
        let shared = &server;
        scope.spawn(move || {
            let mut stream = TcpStream::connect(&shared.address).unwrap();
            let sql = "SELECT sleepEachRow(1) FROM numbers(3600) SETTINGS max_block_size = 1 FORMAT Null";
            let head =
                format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{sql}", sql.len());
            stream.write_all(head.as_bytes()).unwrap();
            // Whether it is answered with an error or cut off is the server's choice.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        while shared.sql("SELECT count() FROM system.processes WHERE query LIKE '%sleepEachRow(1)%'") != "2" {
        }
        shared.signal("TERM");
    });
    let begun = std::time::Instant::now();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    // The query itself would take an hour.
    assert!(begun.elapsed() < Duration::from_secs(600));
}

#[test]
fn a_second_process_on_one_folder_is_told_so() {
    if skipped("a_second_process_on_one_folder_is_told_so") {
        return;
    }
    let folder = Folder::new("second");
    let _server = start(&folder, &[]);
    let second = Command::new(env!("CARGO_BIN_EXE_chdb-server"))
        .args(["--http", "127.0.0.1:0", "--path"])
        .arg(&folder.0)
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("is in use by another process"));
}

#[test]
fn an_address_that_others_reach_needs_a_flag() {
    let folder = Folder::new("anywhere");
    let refused = Command::new(env!("CARGO_BIN_EXE_chdb-server"))
        .args(["--http", "0.0.0.0:0", "--path"])
        .arg(&folder.0)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--listen-anywhere"));
}

#[test]
fn a_body_above_the_bound_is_refused() {
    if skipped("a_body_above_the_bound_is_refused") {
        return;
    }
    let folder = Folder::new("body");
    let server = start(&folder, &["--max-body", "1000"]);
    let (status, body) = server.send("/?query=INSERT+INTO+t+FORMAT+TSV", &vec![b'1'; 1001]);
    assert_eq!(status, 413, "{body}");
    assert!(body.contains("--max-body"), "{body}");
}

#[test]
fn a_full_queue_refuses_with_503() {
    if skipped("a_full_queue_refuses_with_503") {
        return;
    }
    let folder = Folder::new("queue");
    let server = start(&folder, &["--statements", "1", "--queue", "1"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Two clients keep both places taken, and a third asks until it finds them so.
        let (shared, is_over) = (&server, &is_over);
        let slow = || {
            while !is_over.load(Ordering::Acquire) {
                let (status, body) = shared.send("/", b"SELECT sleep(1) FORMAT Null");
                assert!(status == 200 || body.contains("queue"), "{status}: {body}");
            }
        };
        let slow = [scope.spawn(slow), scope.spawn(slow)];
        let refused = (0..1_000).find_map(|_| Some(shared.send("/", b"SELECT 1")).filter(|(s, _)| *s != 200));
        is_over.store(true, Ordering::Release);
        slow.into_iter().for_each(|client| client.join().unwrap());
        let (status, body) = refused.expect("a request that finds both places taken");
        assert_eq!(status, 503, "{body}");
        assert!(body.contains("queue"), "{body}");
    });
}

#[test]
fn real_clients() {
    if skipped("real_clients") {
        return;
    }
    let python = std::env::var("FOREBAY_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import clickhouse_connect"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        testkit::skip(&format!(
            "real_clients: `{python}` with clickhouse-connect is not there; set `FOREBAY_PYTHON`"
        ));
        return;
    }
    let folder = Folder::new("clients");
    let server = start(&folder, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients.py");
    let (host, port) = server.address.split_once(':').unwrap();
    let done = Command::new(&python).arg(script).args([host, port]).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
    assert!(told.contains("Ran ") && told.trim_end().ends_with("OK"), "{told}");
}

/// A GET with headers of its own.
fn get(server: &Server, target: &str, headers: &str) -> String {
    server.raw(format!("GET {target} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").as_bytes())
}

#[test]
fn a_request_leaves_its_session_as_it_found_it() {
    if skipped("a_request_leaves_its_session_as_it_found_it") {
        return;
    }
    let folder = Folder::new("session");
    let server = start(&folder, &[]);
    // With this setting no statement is short enough, so the session's connection cannot be told anything more.
    assert_eq!(server.send("/?session_id=a&max_ast_elements=1", b"SELECT 1 + 1").0, 400);
    assert_eq!(server.send("/?session_id=a", b"SELECT 1 + 1"), (200, "2\n".to_owned()));
    // A failed statement does not take the session's tables with it.
    assert_eq!(server.send("/?session_id=b", b"CREATE TEMPORARY TABLE t (a UInt8)").0, 200);
    assert_eq!(server.send("/?session_id=b&max_threads=3", b"SELECT nothing FROM t").0, 404);
    assert_eq!(server.send("/?session_id=b", b"SELECT count() FROM t"), (200, "0\n".to_owned()));
    let changed = b"SELECT count() FROM system.settings WHERE name = 'max_threads' AND changed";
    assert_eq!(server.send("/?session_id=b", changed), (200, "0\n".to_owned()));
    let database = b"SELECT currentDatabase()";
    assert_eq!(server.send("/?session_id=c&database=system", database), (200, "system\n".to_owned()));
    assert_eq!(server.send("/?session_id=c", database), (200, "default\n".to_owned()));
    assert_eq!(server.send("/?session_id=c", b"USE system").0, 200);
    assert_eq!(server.send("/?session_id=c", database), (200, "system\n".to_owned()));
}

#[test]
fn a_configuration_in_the_working_directory_is_not_read() {
    if skipped("a_configuration_in_the_working_directory_is_not_read") {
        return;
    }
    let folder = Folder::new("config");
    std::fs::create_dir_all(&folder.0).unwrap();
    // An engine that read it would know no user.
    std::fs::write(
        folder.0.join("config.xml"),
        "<clickhouse><users_config>/nowhere.xml</users_config></clickhouse>",
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_chdb-server"));
    command.current_dir(&folder.0).env("FOREBAY_LIBCHDB", library().unwrap_or_default());
    let mut child = command
        .args(["--no-token", "--http", "127.0.0.1:0", "--path", "data"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _ = child.kill();
    let _ = child.wait();
    assert!(line.starts_with("listening on "), "{line}");
}
