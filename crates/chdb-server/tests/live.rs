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
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends one request and returns the status and the body.
    fn send(&self, target: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
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
        eprintln!("SKIPPED {test}: libchdb is not there; scripts/setup fetches it");
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
        let slow = scope.spawn(move || shared.sql("INSERT INTO t (a) SELECT sleep(1.5) FROM numbers(1)"));
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
            let sql = "SELECT sleepEachRow(1) FROM numbers(100) SETTINGS max_block_size = 1 FORMAT Null";
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
    // The query itself would take 100 s.
    assert!(begun.elapsed() < Duration::from_secs(60));
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
        eprintln!(
            "SKIPPED real_clients: `{python}` with clickhouse-connect is not there; set FOREBAY_PYTHON"
        );
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
fn a_web_page_gets_nothing() {
    if skipped("a_web_page_gets_nothing") {
        return;
    }
    let folder = Folder::new("page");
    let server = start(&folder, &[]);
    let target = "/?query=SELECT+1";
    assert!(get(&server, target, "Host: localhost:8123\r\n").starts_with("HTTP/1.1 200 "));
    for headers in [
        "Host: evil.example\r\n",
        "Host: localhost:8123\r\nOrigin: https://evil.example\r\n",
        "Host: localhost:8123\r\nOrigin: null\r\n",
        "Host: localhost:8123\r\nSec-Fetch-Site: cross-site\r\n",
    ] {
        let answer = get(&server, target, headers);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{headers}: {answer}");
    }
}

#[test]
fn each_start_has_a_token_that_clients_give_as_their_password() {
    if skipped("each_start_has_a_token_that_clients_give_as_their_password") {
        return;
    }
    let folder = Folder::new("token");
    let server = Server::start(&folder.0, &[]);
    let token = server.token.clone().expect("a token is printed before the address");
    let host = "Host: localhost\r\n";
    assert!(get(&server, "/ping", host).ends_with("Ok.\n"));
    let refused = get(&server, "/?query=SELECT+1", host);
    assert!(refused.starts_with("HTTP/1.1 403 ") && refused.contains("Code: 516."), "{refused}");
    assert!(get(&server, &format!("/?password={token}&query=SELECT+1"), host).ends_with("\r\n\r\n1\n"));
    let key = format!("{host}X-ClickHouse-User: anyone\r\nX-ClickHouse-Key: {token}\r\n");
    assert!(get(&server, "/?query=SELECT+1", &key).ends_with("\r\n\r\n1\n"));
    assert_eq!(server.send("/?password=wrong", b"SELECT 1").0, 403);
    assert_eq!(server.send(&format!("/?password={token}"), b"SELECT 1").0, 200);
}

#[test]
fn a_get_reads_only_whatever_it_says() {
    if skipped("a_get_reads_only_whatever_it_says") {
        return;
    }
    let folder = Folder::new("get");
    let server = start(&folder, &[]);
    server.sql(TABLE);
    let host = "Host: localhost\r\n";
    for target in [
        "/?readonly=0&query=DROP+TABLE+t",
        "/?query=DROP+TABLE+t&readonly=0",
        "/?query=DROP+TABLE+t+SETTINGS+readonly=0",
        "/?query=SET+readonly=0",
        "/?session_id=s&readonly=0&query=DROP+TABLE+t",
        "/?query=INSERT+INTO+t+(a)+SELECT+1&%72eadonly=0",
    ] {
        let answer = get(&server, target, host);
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{target}: {answer}");
    }
    assert_eq!(server.sql("SELECT count() FROM t"), "0");
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
fn files_and_the_network_are_out_of_reach_unless_allowed() {
    if skipped("files_and_the_network_are_out_of_reach_unless_allowed") {
        return;
    }
    let folder = Folder::new("gate");
    let secret = std::env::temp_dir().join(format!("chdb-server-secret-{}", std::process::id()));
    std::fs::write(&secret, "secret\n").unwrap();
    let path = secret.display();
    let server = start(&folder, &[]);
    server.sql("CREATE TABLE t (a String) ENGINE = MergeTree ORDER BY a");
    for sql in [
        format!("SELECT * FROM file('{path}', LineAsString)"),
        format!("SELECT * FROM '{path}'"),
        format!("SELECT * FROM `{path}`"),
        format!("SELECT file('{path}')"),
        format!("SELECT `fi\\x6ce`('{path}')"),
        format!("SELECT arrayMap(file, ['{path}'])"),
        format!("SELECT * APPLY file FROM (SELECT '{path}')"),
        format!("SELECT * FROM url('file://{path}', LineAsString)"),
        format!("INSERT INTO t VALUES (file('{path}'))"),
        format!("INSERT INTO t FORMAT Values (file('{path}'))"),
        format!("INSERT INTO FUNCTION file('{path}', TSV, 'a String') SELECT 'x'"),
        format!("CREATE TABLE f (a String) ENGINE = File(TSV, '{path}')"),
        format!("CREATE TABLE r (a String) ENGINE = EmbeddedRocksDB(0, '{path}.rocks') PRIMARY KEY a"),
        format!("CREATE DATABASE d ENGINE = Filesystem('{}')", secret.parent().unwrap().display()),
        format!("SELECT 1 FORMAT Template SETTINGS format_template_row = '{path}'"),
        format!("ATTACH TABLE x FROM '{path}' (a String) ENGINE = MergeTree ORDER BY a"),
        "SELECT * FROM url('http://127.0.0.1:1/', LineAsString)".to_owned(),
        "SELECT * FROM remote('127.0.0.1', 'system.one')".to_owned(),
        "SELECT * FROM s3('http://127.0.0.1:1/bucket/x.tsv')".to_owned(),
        "CREATE TABLE u (a String) ENGINE = URL('http://127.0.0.1:1/', TSV)".to_owned(),
        "CREATE DICTIONARY h (a UInt64) PRIMARY KEY a SOURCE(HTTP(url 'http://127.0.0.1:1/' format TSV)) LAYOUT(FLAT()) LIFETIME(0)"
            .to_owned(),
        "BACKUP TABLE t TO File('/tmp/x')".to_owned(),
        format!("SELECT 1 AS x FORMAT Protobuf SETTINGS output_format_schema = '{path}', format_protobuf_use_autogenerated_schema = 1"),
        format!("SELECT 1 AS x FORMAT Protobuf SETTINGS `output\\x5fformat_schema` = '{path}', format_protobuf_use_autogenerated_schema = 1"),
        format!("DROP TABLE IF EXISTS z PARALLEL WITH CREATE TABLE r (a String) ENGINE = EmbeddedRocksDB(0, '{path}.rocks') PRIMARY KEY a"),
        "DROP TABLE IF EXISTS z PARALLEL WITH CREATE DICTIONARY h (a UInt64) PRIMARY KEY a SOURCE(HTTP(url 'http://127.0.0.1:1/' \
         format TSV)) LAYOUT(FLAT()) LIFETIME(0)"
            .to_owned(),
    ] {
        let (status, body) = server.send("/", sql.as_bytes());
        assert!(status != 200 && !body.contains("secret\n"), "{sql}: {status} {body}");
        assert!(body.contains("--allow-files-and-network"), "{sql}: {body}");
    }
    deceiving_statements_are_refused(&server, &secret);
    for beside in ["output_format_schema", "format_schema"] {
        let target = format!("/?{beside}={path}&format_protobuf_use_autogenerated_schema=1");
        let (status, body) = server.send(&target, b"SELECT 1 AS x FORMAT Protobuf");
        assert!(status != 200 && body.contains("--allow-files-and-network"), "{beside}: {body}");
    }
    assert_eq!(server.sql("SELECT count() FROM t"), "0");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret\n");
    // Ordinary work goes on as before.
    server.sql("INSERT INTO t VALUES (upper('file(1)'))");
    let input = "/?query=INSERT+INTO+t+SELECT+b+FROM+input('b+String')+FORMAT+TSV";
    assert_eq!(server.send(input, b"one\n\ntwo\n").0, 200);
    assert_eq!(server.sql("SELECT arraySort(groupArray(a)) FROM t"), "['','FILE(1)','one','two']");
    server.sql("CREATE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY a AS SELECT a FROM t");
    drop(server);

    let server = start(&folder, &["--allow-files-and-network"]);
    assert_eq!(server.sql(&format!("SELECT * FROM file('{path}', LineAsString)")), "secret");
    assert_eq!(server.send(input, b"three\n").0, 200);
    std::fs::remove_file(&secret).unwrap();
}

/// Statements that this server's reader and the engine's could understand differently, and SQL where only strings are expected.
fn deceiving_statements_are_refused(server: &Server, secret: &Path) {
    let path = secret.display();
    let refused = |sql: &str, target: &str| {
        let encoded: String = sql.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let got = get(server, &format!("/?{target}&query={encoded}"), "Host: localhost\r\n");
        let (status, posted) = server.send(&format!("/?{target}"), sql.as_bytes());
        assert!(!got.starts_with("HTTP/1.1 200") && status != 200, "{sql:?} {target}: {got} {posted}");
        assert!(
            !got.contains("secret\n") && !posted.contains("secret\n"),
            "{sql:?} {target}: {got} {posted}"
        );
        assert!(
            posted.contains("--allow-files-and-network") || posted.contains("OUTFILE"),
            "{sql:?}: {posted}"
        );
    };
    for sql in [
        format!("SELECT file\u{b}('{path}')"),
        format!("SELECT file\u{a0}('{path}')"),
        format!("SELECT 1 // '\n, file('{path}'), ''"),
        format!("SELECT 1 SETTINGS additional_result_filter = 'toUInt8(file(''{path}''))'"),
        format!("SELECT * FROM t SETTINGS additional_table_filters = {{'t': 'toUInt8(file(''{path}''))'}}"),
        format!(
            "SELECT * FROM format(JSONEachRow,'a UInt8, b String DEFAULT file(''{path}'')','{{\"a\":1}}')"
        ),
        format!(
            "SELECT * FROM format(JSONEachRow,concat('a UInt8, b String DEFAULT fi','le(''{path}'')'),'{{\"a\":1}}')"
        ),
        format!("SELECT * FROM format(Values, 'a String', $$(file('{path}'))$$)"),
        format!(
            "CREATE DICTIONARY q (k UInt64, v String) PRIMARY KEY k SOURCE(CLICKHOUSE(QUERY 'SELECT 1 AS k, file(''{path}'') AS v')) LAYOUT(FLAT()) LIFETIME(0)"
        ),
        format!("CREATE TABLE r (a String) ENGINE\u{b}=\u{b}EmbeddedRocksDB(0,'{path}.rocks') PRIMARY KEY a"),
        format!("SELECT 'x' INTO\u{b}OUTFILE '{path}.out'"),
        format!("SELECT 'x' INTO\u{a0}OUTFILE '{path}.out'"),
        format!("SELECT 1 FORMAT Template SETTINGS format_template_row\u{a0}= '{path}'"),
    ] {
        refused(&sql, "");
    }
    refused(&format!("SELECT arrayMap({{f:Identifier}}, ['{path}'])"), "param_f=file");
    refused("SELECT 1", &format!("additional_result_filter=toUInt8(file('{path}'))"));
    // Forebay itself says of each statement that these are not used.
    assert_eq!(
        server.send("/?additional_table_filters=%7B%7D&additional_result_filter=", b"SELECT 1").0,
        200
    );
    refused(
        "SELECT * FROM format(JSONEachRow, {s:String}, '{\"a\":1}')",
        &format!("param_s=a+UInt8,b+String+DEFAULT+file('{path}')"),
    );
    for suffix in ["rocks", "out"] {
        assert!(
            !secret.with_file_name(format!("{}.{suffix}", secret.file_name().unwrap().display())).exists()
        );
    }
}

#[test]
fn every_setting_that_holds_text_is_known_to_be_harmless_or_refused() {
    if skipped("every_setting_that_holds_text_is_known_to_be_harmless_or_refused") {
        return;
    }
    let folder = Folder::new("texts");
    let server = start(&folder, &[]);
    let names = server.sql("SELECT name FROM system.settings WHERE type IN ('String', 'Map') ORDER BY name");
    let unknown: Vec<&str> = names
        .lines()
        .filter(|name| !HARMLESS_TEXTS.contains(name))
        .filter(|name| {
            let (_, body) = server.send(&format!("/?{name}=x"), b"SELECT 1");
            !body.contains("--allow-files-and-network")
        })
        .collect();
    assert!(unknown.is_empty(), "refuse these in the gate, or add them here: {unknown:?}");
}

/// Settings of the engine that hold text which is neither SQL nor the place of anything outside of the data folder.
const HARMLESS_TEXTS: [&str; 59] = [
    "bool_false_representation",
    "bool_true_representation",
    "chdb_client_name",
    "cluster_for_parallel_replicas",
    "column_names_for_schema_inference",
    "compatibility",
    "count_distinct_implementation",
    "default_view_definer",
    "distributed_cache_file_cache_name",
    "distributed_plan_force_exchange_kind",
    "errors_output_format",
    "exclude_materialize_skip_indexes_on_insert",
    "filesystem_cache_name",
    "force_data_skipping_indices",
    "force_optimize_projection_name",
    "format_csv_null_representation",
    "format_custom_field_delimiter",
    "format_custom_result_after_delimiter",
    "format_custom_result_before_delimiter",
    "format_custom_row_after_delimiter",
    "format_custom_row_before_delimiter",
    "format_custom_row_between_delimiter",
    "format_json_object_each_row_column_for_object_name",
    "format_regexp",
    "format_schema_message_name",
    "format_template_resultset_format",
    "format_template_row_format",
    "format_template_rows_between_delimiter",
    "format_tsv_null_representation",
    "function_implementation",
    "http_response_headers",
    "iceberg_metadata_compression_method",
    "ignore_data_skipping_indices",
    "implicit_table_at_top_level",
    "input_format_mysql_dump_table_name",
    "input_format_orc_reader_time_zone_name",
    "insert_deduplication_token",
    "local_filesystem_read_method",
    "log_comment",
    "metrics_perf_events_list",
    "network_compression_method",
    "output_format_avro_codec",
    "output_format_avro_confluent_subject",
    "output_format_avro_string_column_pattern",
    "output_format_image_terminal_mode",
    "output_format_orc_writer_time_zone_name",
    "output_format_pretty_grid_charset",
    "output_format_sql_insert_table_name",
    "preferred_optimize_projection_name",
    "promql_database",
    "promql_table",
    "query_cache_tag",
    "remote_filesystem_read_method",
    "s3queue_default_zookeeper_path",
    "send_logs_source_regexp",
    "stream_like_engine_insert_queue",
    "temporary_files_codec",
    "trace_profile_events_list",
    "workload",
];

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

#[test]
fn connections_beyond_the_bound_and_silent_ones_end() {
    if skipped("connections_beyond_the_bound_and_silent_ones_end") {
        return;
    }
    let folder = Folder::new("bounds");
    let server = start(&folder, &["--connections", "2", "--head-wait", "3"]);
    let hold = || {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut bytes = [0; 1024];
        let read = stream.read(&mut bytes).unwrap();
        assert!(bytes[..read].starts_with(b"HTTP/1.1 200 "));
        stream
    };
    let mut held = [hold(), hold()];
    // While both rest. On a slow machine they may have ended meanwhile, and then there is a place.
    let third = server.raw(b"");
    assert!(third.is_empty() || third.starts_with("HTTP/1.1 503 "), "{third}");
    for stream in &mut held {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "a kept connection that rests is closed");
    }
    let trickled = server.raw(b"GET /ping HTTP/1.1\r\nHost: loc");
    assert!(!trickled.starts_with("HTTP/1.1 200 "), "{trickled}");
}
