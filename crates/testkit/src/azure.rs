//! Azure Blob Storage for tests: Azurite, Microsoft's own emulator.
//!
//! Owns the emulator's process, port, files, and the container that is there from the beginning. Does not own clients: tests speak to it
//! through the crate under test.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::dir::{TestDir, cached, workspace_dir};
use crate::http::HttpClient;
use crate::process::{Exit, Process, Spawn};
use crate::wait::{free_port, wait_until};

/// A start takes 1 s alone on two cores; a busy machine gets this much.
const START_MAX: Duration = Duration::from_secs(300);

/// An emulator with one container. Dropped, it is killed and its objects removed (kept when the test panics).
#[derive(Debug)]
pub struct Azure {
    // The order matters: the process goes before its directory.
    process: Process,
    port: u16,
    dir: TestDir,
}

impl Azure {
    /// The storage account that the emulator knows.
    pub const ACCOUNT: &'static str = "forebaytest";
    /// Its key, as Azure gives keys: in base64.
    pub const KEY: &'static str = "Zm9yZWJheS10ZXN0LXNlY3JldA==";
    /// The container that is there from the beginning.
    pub const CONTAINER: &'static str = "forebay-test";

    /// Starts an emulator on a free port with an empty container, and waits until it answers.
    ///
    /// # Errors
    /// When it ends at its start, or the container cannot be created.
    pub fn start() -> Result<Azure> {
        let dir = TestDir::new("azure")?;
        let port = free_port();
        let process = launch(port, &dir)?;
        let azure = Azure { process, port, dir };
        Spawn::new("azure-container", "node")
            .arg(workspace_dir().join("crates/testkit/azurite/create-container.js"))
            .args([&azure.url(), Azure::ACCOUNT, Azure::KEY, Azure::CONTAINER])
            .run(azure.dir.path(), START_MAX)?
            .success()?;
        Ok(azure)
    }

    /// `http://127.0.0.1:PORT/ACCOUNT`, the same after every restart.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}", self.port, Azure::ACCOUNT)
    }

    /// The address without the account, for a proxy.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// SIGKILL. [`Azure::restart`] brings the emulator back.
    ///
    /// # Errors
    /// When the process cannot be waited for.
    pub fn kill9(&mut self) -> Result<Exit> {
        self.process.kill9()
    }

    /// Starts it again on the same port and objects; one that still runs is killed before.
    ///
    /// # Errors
    /// When it ends at its start.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill9()?;
        self.process = launch(self.port, &self.dir)?;
        Ok(())
    }
}

fn launch(port: u16, dir: &TestDir) -> Result<Process> {
    let mut process = Spawn::new("azurite", "node")
        .arg(program())
        .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string(), "--silent", "--disableTelemetry"])
        .arg("--location")
        .arg(dir.path())
        .env("AZURITE_ACCOUNTS", format!("{}:{}", Azure::ACCOUNT, Azure::KEY))
        .start(dir.path())?;
    // Without a signature it refuses, which is an answer.
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}"));
    wait_until(START_MAX, "azurite to answer", || {
        let ended = !process.is_running().unwrap_or(true);
        ended || client.get("/").is_ok()
    });
    anyhow::ensure!(process.is_running()?, "azurite ended at its start{}", process.tails());
    Ok(process)
}

/// What an emulator needs and this machine lacks.
pub(crate) fn missing() -> Option<String> {
    let program = program();
    (!program.is_file())
        .then(|| format!("`{}` is missing; run `scripts/setup clouds`", program.display()))
        .or_else(|| {
            std::process::Command::new("node")
                .arg("--version")
                .output()
                .err()
                .map(|_| "`node` is missing".into())
        })
}

fn program() -> PathBuf {
    cached("azurite/node_modules/azurite/dist/src/blob/main.js")
}
