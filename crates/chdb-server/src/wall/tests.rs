use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

use super::*;
use crate::engine::Engine;
use crate::locate;
use crate::request::Asked;

/// A folder of this test, removed again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("chdb-server-wall-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether the kernel has what the wall is made of; a test without it says that it did nothing.
fn skipped(test: &str) -> bool {
    let missing = landlock_version().is_err();
    if missing {
        eprintln!("SKIPPED {test}: this kernel has no Landlock");
    }
    missing
}

#[test]
fn a_thread_behind_the_wall_and_those_it_starts_reach_the_folder_and_nothing_else() {
    if skipped("a_thread_behind_the_wall_and_those_it_starts_reach_the_folder_and_nothing_else") {
        return;
    }
    let (inside, outside) = (Folder::new("inside"), Folder::new("outside"));
    let secret = outside.0.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let wall = Wall::around(&inside.0, &[]).unwrap();
    let look = || {
        let denied = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        };
        denied(std::fs::read(&secret).map(drop));
        denied(std::fs::write(&secret, "other"));
        denied(std::fs::write(outside.0.join("new"), "other"));
        denied(std::fs::create_dir(outside.0.join("folder")));
        denied(std::fs::read_dir("/").map(drop));
        denied(std::fs::read("/proc/self/environ").map(drop));
        denied(TcpStream::connect(address).map(drop));
        denied(std::net::UdpSocket::bind("127.0.0.1:0").map(drop));
        denied(std::os::unix::net::UnixStream::connect(outside.0.join("socket")).map(drop));
        denied(std::process::Command::new("/bin/true").status().map(drop));
        std::fs::create_dir_all(inside.0.join("a/b")).unwrap();
        std::fs::write(inside.0.join("a/b/file"), "mine").unwrap();
        std::fs::rename(inside.0.join("a/b"), inside.0.join("c")).unwrap();
        assert_eq!(std::fs::read(inside.0.join("c/file")).unwrap(), b"mine");
        std::fs::remove_dir_all(inside.0.join("c")).unwrap();
    };
    std::thread::scope(|scope| {
        let behind = scope.spawn(|| {
            wall.enter().unwrap();
            wall.enter().unwrap();
            look();
            std::thread::scope(|scope| scope.spawn(look).join().unwrap());
        });
        behind.join().unwrap();
    });
    // A thread outside has lost nothing.
    assert_eq!(std::fs::read(&secret).unwrap(), b"secret");
    TcpStream::connect(address).unwrap();
}

/// The engine itself, without the gate: this is what stops a statement that deceives the gate.
#[test]
fn the_engine_behind_the_wall_reads_and_writes_no_file_outside_of_its_folder() {
    let name = "the_engine_behind_the_wall_reads_and_writes_no_file_outside_of_its_folder";
    if skipped(name) {
        return;
    }
    if locate::library().is_err() {
        testkit::skip(&format!("{name}: libchdb is not there; `scripts/setup demo` fetches it"));
        return;
    }
    let (inside, outside) = (Folder::new("data"), Folder::new("secrets"));
    let secret = outside.0.join("secret");
    std::fs::write(&secret, "hidden words").unwrap();
    let (data, other) = (inside.0.clone(), outside.0.clone());
    // A thread of its own: this one is to look at what came of it.
    std::thread::spawn(move || {
        let engine = Engine::start(&data, false, None).unwrap();
        let run = |sql: &str| engine.run(&Asked::default(), sql.as_bytes(), "TabSeparated");
        let (secret, other) = (secret.display(), other.display());
        for sql in [
            format!("SELECT file('{secret}')"),
            format!("SELECT 1 SETTINGS additional_result_filter = 'file(''{secret}'') != '''''"),
            format!("SELECT * FROM format(JSONEachRow, concat('a UInt8, b String DEFAULT fi', 'le(''{secret}'')'), '{{\"a\":1}}')"),
            format!("SELECT 1 AS x FORMAT Template SETTINGS format_template_row = '{secret}'"),
            format!("SELECT 'x' INTO OUTFILE '{other}/out'"),
            format!("CREATE TABLE r (a String) ENGINE = EmbeddedRocksDB(0, '{other}/rocks') PRIMARY KEY a"),
        ] {
            // Some fail, and a filter that fails may count as none.
            let answer = match run(&sql) {
                Ok(answer) => String::from_utf8_lossy(&answer.body).into_owned(),
                Err(failure) => failure.text,
            };
            assert!(!answer.contains("hidden words"), "{sql}: {answer}");
        }
        run("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a").unwrap();
        run("INSERT INTO t SELECT number FROM numbers(1000)").unwrap();
        run("OPTIMIZE TABLE t FINAL").unwrap();
        assert_eq!(run("SELECT count() FROM t").unwrap().body, b"1000\n");
        // A dictionary looks up the address of this machine.
        run("CREATE DICTIONARY d (a UInt64, b Int32) PRIMARY KEY a SOURCE(CLICKHOUSE(QUERY 'SELECT a, a + 1 FROM t')) LAYOUT(FLAT()) LIFETIME(0)")
            .unwrap();
        assert_eq!(run("SELECT dictGet('d', 'b', 7)").unwrap().body, b"8\n");
        engine.close();
    })
    .join()
    .unwrap();
    let left: Vec<_> =
        std::fs::read_dir(&outside.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["secret"]);
}
