//! A real S3 for tests: versitygw, which keeps each object as a file and honours conditional writes.
//!
//! Owns the gateway's process, port and files. Does not own clients: tests speak to it through the crate under test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::dir::{TestDir, cached};
use crate::http::HttpClient;
use crate::process::{Exit, Process, Spawn, Usage};
use crate::wait::{free_port, wait_until};

/// The gateway listens within a tenth of a second; a busy machine gets this much.
const START_MAX: Duration = Duration::from_secs(300);

/// A gateway with one bucket. Dropped, it is killed and its objects removed (kept when the test panics).
#[derive(Debug)]
pub struct S3 {
    // The order matters: the process goes before its directory.
    process: Process,
    port: u16,
    dir: TestDir,
}

impl S3 {
    /// The access key that the gateway knows.
    pub const ACCESS_KEY: &'static str = "forebay-test-key";
    /// Its secret.
    pub const SECRET_KEY: &'static str = "forebay-test-secret";
    /// The bucket that is there from the beginning.
    pub const BUCKET: &'static str = "forebay-test";
    /// The region that the gateway says it is in.
    pub const REGION: &'static str = "us-east-1";

    /// Starts a gateway on a free port with an empty bucket, and waits until it answers.
    pub fn start() -> Result<S3> {
        let dir = TestDir::new("s3")?;
        // A folder below the root is a bucket.
        let bucket = dir.path().join("buckets").join(S3::BUCKET);
        std::fs::create_dir_all(bucket).context("cannot create the bucket")?;
        let port = free_port();
        let process = launch(port, &dir)?;
        Ok(S3 { process, port, dir })
    }

    /// `http://127.0.0.1:PORT`, the same after every restart.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// SIGKILL. [`S3::restart`] brings the gateway back.
    pub fn kill9(&mut self) -> Result<Exit> {
        self.process.kill9()
    }

    /// Starts it again on the same port and objects; one that still runs is killed before.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill9()?;
        self.process = launch(self.port, &self.dir)?;
        Ok(())
    }

    /// The folder whose files are the bucket's objects.
    pub fn bucket_dir(&self) -> PathBuf {
        self.dir.path().join("buckets").join(S3::BUCKET)
    }

    /// What the gateway's process has used so far.
    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    /// The directory of its objects and logs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// What a gateway needs and this machine lacks.
pub(crate) fn missing() -> Option<String> {
    let binary = binary();
    (!binary.is_file()).then(|| format!("`{}` is missing; run `scripts/setup test`", binary.display()))
}

fn binary() -> PathBuf {
    cached("versitygw/versitygw")
}

/// ETags are extended attributes of the objects' files, which change in one step with the bytes. In a folder beside the objects (`--sidecar`) they change
/// a moment earlier: a reader may then see an old object with the ETag of the one that is replacing it, which S3 never shows.
fn launch(port: u16, dir: &TestDir) -> Result<Process> {
    let mut process = Spawn::new("versitygw", binary())
        .args(["--port", &format!("127.0.0.1:{port}"), "--region", S3::REGION])
        .args(["--access", S3::ACCESS_KEY, "--secret", S3::SECRET_KEY, "--quiet"])
        .arg("posix")
        .arg(dir.path().join("buckets"))
        .start(dir.path())?;
    // Without a signature it refuses, which is an answer.
    let client = HttpClient::new(&format!("http://127.0.0.1:{port}"));
    wait_until(START_MAX, "versitygw to answer", || {
        let ended = !process.is_running().unwrap_or(true);
        ended || client.get("/").is_ok()
    });
    anyhow::ensure!(
        process.is_running()?,
        "versitygw ended at its start; it needs a file system with extended attributes for `{}`{}",
        dir.path().display(),
        process.tails()
    );
    Ok(process)
}
