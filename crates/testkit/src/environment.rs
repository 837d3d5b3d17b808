//! What a program asks through the proxy of its environment.
//!
//! Owns the child that a test becomes, because the environment of a test's own process is shared, and the two listeners: a proxy that notes what it
//! is asked for, and a server on this machine. Does not own the client under test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where a child finds the server on this machine.
const SERVER: &str = "TESTKIT_PROXIED_SERVER";
/// A name that leads nowhere: only a proxy can be asked for it.
const ELSEWHERE: &str = "http://elsewhere.test:8123";
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Runs `ask` with the address of a server on this machine, and with one elsewhere, in a process whose environment names a proxy; the first must be
/// asked directly, the second through the proxy. `module` is the test's `module_path!()` and `test` its name, for the child runs this test alone.
///
/// # Panics
/// When the server on this machine is not asked, or anything of it reaches the proxy, or the proxy is not used at all.
pub fn assert_this_machine_is_asked_directly(module: &str, test: &str, ask: impl Fn(&str)) {
    if let Ok(server) = std::env::var(SERVER) {
        ask(&server);
        ask(ELSEWHERE);
        return;
    }
    let (server, direct) = listen();
    let (proxy, proxied) = listen();
    let module = module.split_once("::").map_or("", |(_, module)| module);
    let name = if module.is_empty() { test.to_owned() } else { format!("{module}::{test}") };
    let mut child = Command::new(std::env::current_exe().expect("a test is a program"));
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"] {
        child.env(variable, &proxy);
    }
    for variable in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        child.env_remove(variable);
    }
    let output = child.args([&name, "--exact"]).env(SERVER, &server).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    let lines = |of: &Lines| of.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (direct, proxied) = (lines(&direct), lines(&proxied));
    assert!(!direct.is_empty(), "the server on this machine was not asked; the proxy was for {proxied:?}");
    assert!(!proxied.is_empty(), "the proxy of the environment was not used: the test shows nothing");
    assert!(proxied.iter().all(|line| line.contains("elsewhere.test")), "a proxy has seen {proxied:?}");
}

/// The first lines of all requests.
type Lines = Arc<Mutex<Vec<String>>>;

/// A listener that has nothing: its address, and what it was asked for. Its thread ends with the process.
fn listen() -> (String, Lines) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let lines = Lines::default();
    let seen = lines.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever asked may be gone.
            let _ = answer(stream, &seen);
        }
    });
    (url, lines)
}

fn answer(mut stream: TcpStream, seen: &Lines) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let (mut head, mut piece) = (Vec::new(), [0; 4_096]);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        match stream.read(&mut piece)? {
            0 => break,
            count => head.extend_from_slice(&piece[..count]),
        }
    }
    let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}
