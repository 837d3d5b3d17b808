//! Google Cloud Storage for tests: fake-gcs-server, behind a front that speaks Google's XML API (`crates/testkit/gcs`).
//!
//! Owns the server's process, port and the file that stands for a service account. Does not own clients: tests speak to it through the
//! crate under test. Objects are in the server's memory, so it has no restart.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::dir::{TestDir, cached};
use crate::http::HttpClient;
use crate::process::{Exit, Process, Spawn};
use crate::wait::{free_port, wait_until};

/// The server listens within a tenth of a second; a busy machine gets this much.
const START_MAX: Duration = Duration::from_secs(300);

/// A server with one bucket. Dropped, it is killed and its objects are gone.
#[derive(Debug)]
pub struct Gcs {
    // The order matters: the process goes before its directory.
    process: Process,
    port: u16,
    dir: TestDir,
}

impl Gcs {
    /// The bucket that is there from the beginning.
    pub const BUCKET: &'static str = "forebay-test";

    /// Starts a server on a free port with an empty bucket, and waits until it answers.
    ///
    /// # Errors
    /// When it ends at its start.
    pub fn start() -> Result<Gcs> {
        let dir = TestDir::new("gcs")?;
        // A service account that asks nobody for a token.
        let account =
            "{\"client_email\":\"test\",\"private_key\":\"\",\"private_key_id\":\"\",\"disable_oauth\":true}";
        std::fs::write(dir.path().join("account.json"), account).context("cannot write the account")?;
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let mut process = Spawn::new("gcs", binary())
            .args(["--listen", &listen, "--bucket", Gcs::BUCKET])
            .start(dir.path())?;
        let client = HttpClient::new(&format!("http://{listen}"));
        wait_until(START_MAX, "fake-gcs-server to answer", || {
            let ended = !process.is_running().unwrap_or(true);
            ended || client.get("/").is_ok()
        });
        anyhow::ensure!(process.is_running()?, "fake-gcs-server ended at its start{}", process.tails());
        Ok(Gcs { process, port, dir })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The file of a service account that needs no token.
    pub fn service_account(&self) -> String {
        self.dir.path().join("account.json").display().to_string()
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When the process cannot be waited for.
    pub fn kill9(&mut self) -> Result<Exit> {
        self.process.kill9()
    }
}

/// What a server needs and this machine lacks.
pub(crate) fn missing() -> Option<String> {
    let binary = binary();
    (!binary.is_file()).then(|| format!("`{}` is missing; run `scripts/setup clouds`", binary.display()))
}

fn binary() -> PathBuf {
    cached("gcs/gcs")
}
