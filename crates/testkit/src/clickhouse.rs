//! A real ClickHouse for tests: the engine (libchdb) served over HTTP by the project's own binary.
//!
//! Owns the server's process, port and data, and sends it queries. Does not own the server: `chdb-server` does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::dir::{TestDir, cached, workspace_dir};
use crate::http::{HttpClient, HttpResponse, encode};
use crate::process::{Exit, Process, Spawn, Usage};
use crate::wait::free_port;

/// The engine starts within a second; loading half a gigabyte from a cold disk takes longer, and tests run side by side.
const START_MAX: Duration = Duration::from_secs(300);
/// A clean stop waits for running queries.
const STOP_MAX: Duration = Duration::from_secs(60);
/// What the server says when it serves: its address. The words before it differ between the program and the server of its own.
const READY: &str = "127.0.0.1:";
/// Names the engine's library, wherever the binary is.
const LIBRARY_VARIABLE: &str = "FOREBAY_LIBCHDB";
/// Names the binary that serves ClickHouse; the one beside the test's own otherwise.
const BINARY_VARIABLE: &str = "FOREBAY_BIN";

/// How to start a server.
#[derive(Debug, Clone, Default)]
pub struct ClickHouseOptions {
    binary: Option<PathBuf>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    users: Option<Users>,
}

/// What stands in the engine's `users.xml` about its one user.
#[derive(Debug, Clone, Default)]
struct Users {
    profile: String,
    /// Elements of the user itself; all rights without one.
    user: String,
    quota: String,
}

impl ClickHouseOptions {
    /// The binary to run; `FOREBAY_BIN` or the one beside the test's own otherwise.
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> ClickHouseOptions {
        self.binary = Some(binary.into());
        self
    }

    /// The server's one user has this profile: settings and `<constraints>` as they stand below `<default>` in a `users.xml`. Needs
    /// the binary of the server alone, in which statements then may reach files and the network.
    pub fn profile(mut self, settings: &str) -> ClickHouseOptions {
        self.users.get_or_insert_default().profile = settings.to_owned();
        self
    }

    /// The server's one user has these elements of a `users.xml` (`<grants>`, `<databases>` with row policies) in place of all rights. As for
    /// [`ClickHouseOptions::profile`].
    pub fn user(mut self, elements: &str) -> ClickHouseOptions {
        self.users.get_or_insert_default().user = elements.to_owned();
        self
    }

    /// One more argument for the binary.
    pub fn arg(mut self, arg: &str) -> ClickHouseOptions {
        self.args.push(arg.to_owned());
        self
    }

    /// An environment variable for the binary.
    pub fn env(mut self, key: &str, value: &str) -> ClickHouseOptions {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }
}

/// A server. Dropped, it is killed and its data removed (kept when the test panics).
#[derive(Debug)]
pub struct ClickHouse {
    // The order matters: the process goes before its directory.
    process: Process,
    options: ClickHouseOptions,
    port: u16,
    dir: TestDir,
}

impl ClickHouse {
    /// Starts a server on a free port with no data, and waits until it serves.
    pub fn start(options: ClickHouseOptions) -> Result<ClickHouse> {
        let dir = TestDir::new("clickhouse")?;
        let port = free_port();
        let process = launch(&options, port, &dir)?;
        Ok(ClickHouse { process, options, port, dir })
    }

    /// `http://127.0.0.1:PORT`, the same after every restart.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Runs a query; gives the body of its answer. The error holds the server's words.
    pub fn query(&self, sql: &str) -> Result<String> {
        self.query_with(sql, &[])
    }

    /// As [`ClickHouse::query`], with settings or other parameters of the request.
    pub fn query_with(&self, sql: &str, parameters: &[(&str, &str)]) -> Result<String> {
        let target = target(&[("wait_end_of_query", "1")], parameters);
        Ok(self.send(sql, &target, sql.as_bytes())?.text())
    }

    /// Runs an `INSERT ... FORMAT ...` with `body` as its data.
    pub fn insert(&self, sql: &str, body: &[u8]) -> Result<()> {
        self.insert_with(sql, &[], body)
    }

    /// As [`ClickHouse::insert`], with settings or other parameters of the request.
    pub fn insert_with(&self, sql: &str, parameters: &[(&str, &str)], body: &[u8]) -> Result<()> {
        let target = target(&[("query", sql), ("async_insert", "0"), ("wait_end_of_query", "1")], parameters);
        self.send(sql, &target, body)?;
        Ok(())
    }

    /// A client for requests that the methods here do not cover.
    pub fn client(&self) -> HttpClient {
        HttpClient::new(&self.url())
    }

    fn send(&self, sql: &str, target: &str, body: &[u8]) -> Result<HttpResponse> {
        let answer =
            self.client().post(target, body).with_context(|| format!("clickhouse did not answer `{sql}`"))?;
        // With `wait_end_of_query` a failure has a status of its own; a code beside 200 is one nevertheless.
        if answer.status != 200 || answer.header("X-ClickHouse-Exception-Code").is_some() {
            let code = answer.header("X-ClickHouse-Exception-Code").unwrap_or("none");
            bail!(
                "clickhouse refused `{sql}`: status {}, code {code}: {}",
                answer.status,
                answer.text().trim()
            );
        }
        Ok(answer)
    }

    /// From its next restart on the server's user has this profile ([`ClickHouseOptions::profile`]).
    pub fn set_profile(&mut self, settings: &str) {
        self.options.users.get_or_insert_default().profile = settings.to_owned();
    }

    /// From its next restart on the server's user has these rights ([`ClickHouseOptions::user`]).
    pub fn set_user(&mut self, elements: &str) {
        self.options.users.get_or_insert_default().user = elements.to_owned();
    }

    /// From its next restart on the server's user has this quota: the `<interval>` elements of a `users.xml`.
    pub fn set_quota(&mut self, intervals: &str) {
        self.options.users.get_or_insert_default().quota = intervals.to_owned();
    }

    /// SIGKILL. [`ClickHouse::restart`] brings the server back.
    pub fn kill9(&mut self) -> Result<Exit> {
        self.process.kill9()
    }

    /// Stops it cleanly. [`ClickHouse::restart`] brings the server back.
    pub fn stop(&mut self) -> Result<Exit> {
        self.process.continue_signal()?; // A paused server would not hear the request.
        self.process.term_and_wait(STOP_MAX)
    }

    /// Starts it again on the same port and data, and waits until it serves. One that still runs is stopped cleanly before.
    pub fn restart(&mut self) -> Result<()> {
        if self.process.is_running()? {
            self.stop()?;
        }
        self.process = launch(&self.options, self.port, &self.dir)?;
        Ok(())
    }

    /// SIGSTOP: connections stay open and nothing answers.
    pub fn pause(&mut self) -> Result<()> {
        self.process.stop_signal()
    }

    /// SIGCONT, after [`ClickHouse::pause`].
    pub fn resume(&mut self) -> Result<()> {
        self.process.continue_signal()
    }

    /// What the server's process has used so far.
    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    /// The server's process id.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// The directory of its data and logs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

fn target(ours: &[(&str, &str)], theirs: &[(&str, &str)]) -> String {
    let kept = ours.iter().filter(|(name, _)| theirs.iter().all(|(other, _)| other != name));
    let pairs: Vec<String> =
        kept.chain(theirs).map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    format!("/?{}", pairs.join("&"))
}

fn users_config(users: &Users) -> String {
    let Users { profile, user, quota } = users;
    let user = if user.is_empty() { "<access_management>1</access_management>" } else { user };
    format!(
        "<clickhouse><profiles><default>{profile}</default></profiles><quotas><default>{quota}</default></quotas><users><default>\
         <password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>{user}</default></users>\
         </clickhouse>\n"
    )
}

/// What a server needs and this machine lacks.
pub(crate) fn missing() -> Option<String> {
    let library = cached("libchdb/libchdb.so");
    if !library.exists() {
        return Some(format!("`{}` is missing; run `scripts/setup demo`", library.display()));
    }
    default_binary().err()
}

fn launch(options: &ClickHouseOptions, port: u16, dir: &TestDir) -> Result<Process> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => default_binary().map_err(anyhow::Error::msg)?,
    };
    let mut server = Spawn::new("clickhouse", &binary);
    // The development server of its own takes the same arguments without the subcommand.
    if binary.file_name().is_some_and(|name| name != "chdb-server") {
        server = server.arg("clickhouse");
    }
    server = server
        .arg("--http")
        .arg(format!("127.0.0.1:{port}"))
        .arg("--path")
        .arg(dir.path().join("data"))
        .args(&options.args);
    if let Some(config) = &options.users {
        let users = dir.path().join("users.xml");
        std::fs::write(&users, users_config(config))?;
        server =
            server.arg("--allow-files-and-network").arg("--users-config").arg(users.display().to_string());
    }
    // Tests and the clients that they drive ask without a password, unless a test is about the token.
    if !options.args.iter().any(|arg| arg == "--token") {
        server = server.arg("--no-token");
    }
    if std::env::var_os(LIBRARY_VARIABLE).is_none() {
        server = server.env(LIBRARY_VARIABLE, cached("libchdb/libchdb.so"));
    }
    for (key, value) in &options.env {
        server = server.env(key, value);
    }
    let mut process = server.cwd(workspace_dir()).start(dir.path())?;
    process.wait_for_stdout(READY, START_MAX)?;
    Ok(process)
}

/// `FOREBAY_BIN`, or `forebay` or `chdb-server` in the directory that cargo builds binaries into.
fn default_binary() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(BINARY_VARIABLE) {
        let named = PathBuf::from(named);
        if named.is_file() {
            return Ok(named);
        }
        return Err(format!("{BINARY_VARIABLE} names `{}`, which is no file", named.display()));
    }
    let test =
        std::env::current_exe().map_err(|error| format!("cannot find this test's own binary: {error}"))?;
    // A test runs from `target/debug/deps`, a binary from `target/debug`.
    let folders = test.ancestors().skip(1).take(2);
    let found = folders
        .flat_map(|folder| ["forebay", "chdb-server"].map(|name| folder.join(name)))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        format!("no binary serves ClickHouse; run `cargo build -p forebay --features development`, or name one in {BINARY_VARIABLE}")
    })
}

#[cfg(test)]
mod tests;
